//! X448 (RFC 7748), an operation a lane: its keys and operations.

mod field;
#[cfg(test)]
mod field_tests;
mod ladder;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Directions, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use self::field::WORDS;
use self::ladder::{Agree, Agreement};
use super::isa::PublicKernel;
use super::prime_curves::isa::with_vectors;
use super::{count_lanes, groups};
use crate::declassify::declassify;
use crate::work::{Scratch, Work};

/// Groups of as many operations as lanes that share an inversion.
const FLIGHT_GROUPS: usize = 8;

/// What runs here. The figure is that of full lanes.
pub(super) fn capabilities(kernel: PublicKernel) -> Capability {
    Capability::new(&lists::X448, Cost::new(500.0, 48_000.0 * kernel.slower(), 0.0))
        .directions(Directions::ENCRYPT)
        .lanes(kernel.lanes())
        .in_step()
}

/// A scalar, clamped (RFC 7748, 5).
#[derive(Zeroize, ZeroizeOnDrop)]
struct Scalar([u64; WORDS]);

/// Prepares a scalar.
///
/// # Errors
/// `Length`.
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let mut scalar = Scalar(words(key.bytes).ok_or(KeyProblem::Length)?);
    scalar.0[0] &= !3;
    scalar.0[WORDS - 1] |= 1 << 63;
    Ok(PreparedKey::for_suite(suite, scalar))
}

/// A little-endian number of 56 bytes as words; `None` where there are not as many.
fn words(bytes: &[u8]) -> Option<[u64; WORDS]> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let words: &[[u8; 8]; WORDS] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

/// Runs a batch of agreements.
pub(super) fn run(kernel: PublicKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernel.lanes()) * FLIGHT_GROUPS;
    let mut all: Vec<Agreement> = Vec::with_capacity(most);
    groups::<Scalar>(work, most, |work, group| {
        all.clear();
        for (index, key) in group {
            // An input of another length has no point: zero, which has no secret either.
            let point = words(work.input(*index)).unwrap_or_default();
            all.push(Agreement { scalar: key.0, point, shared: [0; WORDS] });
        }
        with_vectors(kernel, Agree { room: &mut scratch.room, all: &mut all });
        count_lanes(kernel, &mut scratch.occupancy, all.len());
        for ((index, _), operation) in group.iter().zip(&all) {
            // Only points of small order lead to zero (RFC 7748, 6.2).
            let any = operation.shared.iter().fold(0, |any, word| any | word);
            if declassify(any == 0) {
                work.fail(*index, OpStatus::BadInput(Reason::BadPublicValue));
            } else {
                let mut shared = Zeroizing::new([0; 8 * WORDS]);
                for (bytes, word) in shared.as_chunks_mut::<8>().0.iter_mut().zip(&operation.shared) {
                    *bytes = word.to_le_bytes();
                }
                work.finish(*index, &*shared, &[]);
            }
        }
    });
}
