//! AES-ECB (NIST SP 800-38A, 6.1). Blocks are independent.
//!
//! Floor: one AES instruction a round and vector; 10 to 14 rounds.

use core::arch::x86_64::__m128i;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};

use super::isa::{AesKernel, Isa, aes_kernels};
use super::message::Source;
use super::parallel::{Mode, Way, drive, drive_alike};
use super::schedule::AesKey;

use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] = &[Capability::new(&lists::AES_ECB, Cost::new(18.0, 4.0, 0.024))];

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, AesKey::new(kernel, key)?))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, _scratch: &mut Scratch) {
    let direction = work.direction();
    Source::batch(work, |rounds, source| {
        source.by(|source| alike(kernel, direction, rounds, source), |source| all(kernel, direction, rounds, source));
    });
}

aes_kernels! {
    fn alike(direction: Direction, rounds: usize, source: &mut Source<'_, '_>) = alike_on
}

#[inline(always)]
fn alike_on<I: Isa>(isa: I, direction: Direction, rounds: usize, source: &mut Source<'_, '_>) {
    match direction {
        Direction::Encrypt => drive_alike::<I, Encrypt>(isa, rounds, source),
        Direction::Decrypt => drive_alike::<I, Decrypt>(isa, rounds, source),
    }
}

aes_kernels! {
    fn all(direction: Direction, rounds: usize, source: &mut Source<'_, '_>) = all_on
}

#[inline(always)]
fn all_on<I: Isa>(isa: I, direction: Direction, rounds: usize, source: &mut Source<'_, '_>) {
    match direction {
        Direction::Encrypt => drive::<I, Encrypt>(isa, rounds, source),
        Direction::Decrypt => drive::<I, Decrypt>(isa, rounds, source),
    }
}

/// Nothing is chained, nothing is added.
struct Encrypt;

impl Way for Encrypt {
    const DECRYPTS: bool = false;
}

impl Mode for Encrypt {
    #[inline(always)]
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, _blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
        ([isa.zero(); N], iv)
    }
}

/// The same backwards.
struct Decrypt;

impl Way for Decrypt {
    const DECRYPTS: bool = true;
}

impl Mode for Decrypt {
    #[inline(always)]
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, _blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
        ([isa.zero(); N], iv)
    }
}
