//! AES-ECB (NIST SP 800-38A, 6.1). Blocks are independent.
//!
//! Floor: one AES instruction a round and vector; 10 to 14 rounds.

use core::arch::x86_64::__m128i;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};

use super::isa::{AesKernel, Isa, aes_kernels};
use super::message::{FromWork, Message};
use super::parallel::{Mode, decipher, drive, encipher};
use super::schedule::AesKey;

use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_ECB, Cost::new(60.0, 10.0, 0.06)).lanes(16)];

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, AesKey::new(kernel, key)?))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let direction = work.direction();
    let Some(mut source) = FromWork::new(work) else { return };
    batch(kernel, direction, &mut source, &mut scratch.cbc.waiting);
}

aes_kernels! {
    fn batch(direction: Direction, source: &mut FromWork<'_, '_>, waiting: &mut Vec<Message>) = batch_on
}

#[inline(always)]
fn batch_on<I: Isa>(isa: I, direction: Direction, source: &mut FromWork<'_, '_>, waiting: &mut Vec<Message>) {
    match direction {
        Direction::Encrypt => drive::<I, Encrypt>(isa, source.rounds(), source, waiting),
        Direction::Decrypt => drive::<I, Decrypt>(isa, source.rounds(), source, waiting),
    }
}

/// Nothing is chained.
struct Encrypt;

impl Mode for Encrypt {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const ROUNDS: usize>(
        isa: I,
        key: &AesKey,
        iv: __m128i,
        blocks: &mut [I::V; N],
    ) -> __m128i {
        encipher::<I, N, ROUNDS>(isa, &key.encrypt, blocks);
        iv
    }
}

/// Nothing is chained.
struct Decrypt;

impl Mode for Decrypt {
    #[inline(always)]
    fn run<I: Isa, const N: usize, const ROUNDS: usize>(
        isa: I,
        key: &AesKey,
        iv: __m128i,
        blocks: &mut [I::V; N],
    ) -> __m128i {
        decipher::<I, N, ROUNDS>(isa, &key.decrypt, blocks);
        iv
    }
}
