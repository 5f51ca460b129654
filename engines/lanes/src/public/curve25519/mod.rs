//! X25519 (RFC 7748) and Ed25519 (RFC 8032), an operation a lane.

mod base;
mod cofactored;
mod combine;
mod ed25519;
mod edwards;
#[cfg(test)]
mod edwards_tests;
mod field;
#[cfg(test)]
mod field_tests;
mod isa;
mod ladder;
mod product;
mod together;
mod x25519;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, KeyPair, Signature, lists};
use ciphermill_contract::{Capability, Cost, Direction, Directions, KeyMaterial, PreparedKey, Suite};

use super::isa::PublicKernel;
use super::{count_lanes, of_random_bytes};
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Groups of as many operations as lanes that share an inversion: an eighth of one is three hundredths of an agreement.
const FLIGHT_GROUPS: usize = 8;

/// What runs here. The figures are those of full lanes.
pub(crate) fn capabilities(kernel: PublicKernel) -> Vec<Capability> {
    let slower = kernel.slower();
    let of = |suites, directions, op_ns: f64, byte_ns: f64| {
        let cost = Cost::new(500.0, op_ns * slower, byte_ns);
        Capability::new(suites, cost).lanes(kernel.lanes()).in_step().directions(directions)
    };
    // A signature hashes its message twice, and is computed twice.
    let sign = |suites| of(suites, Directions::ENCRYPT, 2_800.0, 0.8).lanes(kernel.lanes() / 2).in_step();
    vec![
        of(&lists::X25519, Directions::ENCRYPT, 4_800.0, 0.0),
        sign(&lists::ED25519),
        of(&lists::ED25519, Directions::DECRYPT, 4_500.0, 0.2),
        sign(&lists::ED25519_COFACTORED),
        // A guess between signatures of one key and those of as many keys.
        of(&lists::ED25519_COFACTORED, Directions::DECRYPT, 3_500.0, 0.2),
        of(lists::generating(KeyPair::X25519, 1), Directions::ENCRYPT, 4_800.0, 0.0),
        of(lists::generating(KeyPair::Ed25519, 1), Directions::ENCRYPT, 1_500.0, 0.0),
    ]
}

/// Prepares a key.
///
/// # Errors
/// What is wrong with the key.
pub(crate) fn prepare(kernels: &Kernels, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    match suite {
        Suite::Agree(Agreement::X25519) => x25519::prepare(key, suite),
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => ed25519::prepare(kernels, key, suite),
        _ => Err(KeyProblem::Parameters),
    }
}

/// Runs a batch.
pub(crate) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Agree(Agreement::X25519) => x25519::run(kernels.public, work, scratch),
        Suite::Sign(Signature::Ed25519Cofactored) if work.direction() == Direction::Decrypt => {
            cofactored::run(kernels, work, scratch);
        }
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => ed25519::run(kernels, work, scratch),
        Suite::Generate(pair) => generate(kernels, work, scratch, pair),
        _ => {}
    }
}

/// Generates pairs: X25519's scalars, which are clamped where they are used, or Ed25519's seeds.
fn generate(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch, pair: KeyPair) {
    let most = usize::from(kernels.public.lanes()) * FLIGHT_GROUPS;
    of_random_bytes(work, most, |private| {
        count_lanes(kernels.public, &mut scratch.occupancy, private.len());
        match pair {
            KeyPair::X25519 => x25519::public_of(kernels.public, &mut scratch.room, private),
            _ => ed25519::public_of(kernels, &mut scratch.room, private),
        }
    });
}

/// A little-endian number of 32 bytes as words; `None` where there are not as many.
fn words_of(bytes: &[u8]) -> Option<[u64; 4]> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let words: &[[u8; 8]; 4] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

/// The bytes of a number.
fn bytes_of(words: &[u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}
