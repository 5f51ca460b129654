//! CBC decryption (NIST SP 800-38A, 6.2), parallel within a message.

use core::arch::x86_64::__m128i;

use crate::aes::isa::{Blocks, Isa, aes_kernels};
use crate::aes::message::Source;
use crate::aes::parallel::{Mode, Way, drive, drive_alike};

aes_kernels! {
    /// Decrypts the first messages of a list, those of one length.
    pub(super) fn alike(rounds: usize, source: &mut Source<'_, '_>) = alike_on
}

#[inline(always)]
fn alike_on<I: Isa>(isa: I, rounds: usize, source: &mut Source<'_, '_>) {
    drive_alike::<I, CbcDecrypt>(isa, rounds, source);
}

aes_kernels! {
    /// Decrypts all messages of a list whose keys have `rounds` rounds.
    pub(super) fn all(rounds: usize, source: &mut Source<'_, '_>) = all_on
}

#[inline(always)]
fn all_on<I: Isa>(isa: I, rounds: usize, source: &mut Source<'_, '_>) {
    drive::<I, CbcDecrypt>(isa, rounds, source);
}

/// What is chained is the previous ciphertext block.
struct CbcDecrypt;

impl Way for CbcDecrypt {
    const DECRYPTS: bool = true;
}

impl Mode for CbcDecrypt {
    #[inline(always)]
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
        let mut added = *blocks;
        let mut previous = isa.splat(iv);
        for (added, cipher) in added.iter_mut().zip(blocks) {
            *added = cipher.behind(previous);
            previous = *cipher;
        }
        (added, previous.extract(I::LEN - 1))
    }
}
