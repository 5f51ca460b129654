//! CBC decryption (NIST SP 800-38A, 6.2), parallel within a message.

use core::arch::x86_64::__m128i;

use crate::aes::isa::{Blocks, Isa, aes_kernels};
use crate::aes::message::{FromLanes, FromWork, Message};
use crate::aes::parallel::{Mode, drive};
use crate::aes::schedule::AesKey;

aes_kernels! {
    /// Decrypts a batch.
    pub(super) fn batch(rounds: usize, source: &mut FromWork<'_, '_>, waiting: &mut Vec<Message>) = batch_on
}

aes_kernels! {
    /// Decrypts a list.
    pub(super) fn lanes(rounds: usize, source: &mut FromLanes<'_, '_>, waiting: &mut Vec<Message>) = lanes_on
}

#[inline(always)]
fn batch_on<I: Isa>(isa: I, rounds: usize, source: &mut FromWork<'_, '_>, waiting: &mut Vec<Message>) {
    drive::<I, CbcDecrypt>(isa, rounds, source, waiting);
}

#[inline(always)]
fn lanes_on<I: Isa>(isa: I, rounds: usize, source: &mut FromLanes<'_, '_>, waiting: &mut Vec<Message>) {
    drive::<I, CbcDecrypt>(isa, rounds, source, waiting);
}

/// What is chained is the previous ciphertext block; it goes into the last round key.
struct CbcDecrypt;

impl Mode for CbcDecrypt {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const ROUNDS: usize>(
        isa: I,
        key: &AesKey,
        iv: __m128i,
        blocks: &mut [I::V; N],
    ) -> __m128i {
        let key = &key.decrypt;
        let cipher = *blocks;
        let first = key.splat(isa, 0);
        for block in blocks.iter_mut() {
            *block = block.xor(first);
        }
        for round in 1..ROUNDS {
            let round_key = key.splat(isa, round);
            for block in blocks.iter_mut() {
                *block = block.aes_dec(round_key);
            }
        }
        let last = key.splat(isa, ROUNDS);
        let mut previous = isa.splat(iv);
        for (block, cipher) in blocks.iter_mut().zip(cipher) {
            *block = block.aes_dec_last(last.xor(cipher.behind(previous)));
            previous = cipher;
        }
        previous.extract(I::LEN - 1)
    }
}
