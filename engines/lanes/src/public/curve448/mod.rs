//! X448 (RFC 7748), an operation a lane: its keys and operations.

mod field;
#[cfg(test)]
mod field_tests;
mod ladder;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{KeyPair, lists};
use ciphermill_contract::{Capability, Cost, Directions, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use self::field::WORDS;
use self::ladder::{Agree, Agreement};
use super::isa::PublicKernel;
use super::prime_curves::isa::with_vectors;
use super::{count_lanes, groups, of_random_bytes};
use crate::declassify::declassify;
use crate::work::{Scratch, Work};

/// Groups of as many operations as lanes that share an inversion.
const FLIGHT_GROUPS: usize = 8;

/// What runs here, agreements and pairs. The figure is that of full lanes.
pub(super) fn capabilities(kernel: PublicKernel) -> [Capability; 2] {
    [&lists::X448, lists::generating(KeyPair::X448, 1)].map(|suites: &[Suite]| {
        Capability::new(suites, Cost::new(500.0, 48_000.0 * kernel.slower(), 0.0))
            .directions(Directions::ENCRYPT)
            .lanes(kernel.lanes())
            .in_step()
    })
}

/// Bytes of scalars and public values.
const LEN: usize = 8 * WORDS;

/// The base point's coordinate (RFC 7748, 4.2).
const BASE: [u64; WORDS] = [5, 0, 0, 0, 0, 0, 0];

/// A scalar, clamped (RFC 7748, 5).
#[derive(Zeroize, ZeroizeOnDrop)]
struct Scalar([u64; WORDS]);

/// Prepares a scalar.
///
/// # Errors
/// `Length`.
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, Scalar::clamped(key.bytes).ok_or(KeyProblem::Length)?))
}

impl Scalar {
    fn clamped(bytes: &[u8]) -> Option<Scalar> {
        let mut scalar = Scalar(words(bytes)?);
        scalar.0[0] &= !3;
        scalar.0[WORDS - 1] |= 1 << 63;
        Some(scalar)
    }
}

/// A little-endian number of 56 bytes as words; `None` where there are not as many.
fn words(bytes: &[u8]) -> Option<[u64; WORDS]> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let words: &[[u8; 8]; WORDS] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

/// The bytes of a number.
fn bytes(words: &[u64; WORDS]) -> Zeroizing<[u8; LEN]> {
    let mut bytes = Zeroizing::new([0; LEN]);
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// Runs a batch of agreements, or generates one of pairs.
pub(super) fn run(kernel: PublicKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernel.lanes()) * FLIGHT_GROUPS;
    match work.suite() {
        Suite::Generate(_) => of_random_bytes(work, most, |scalars| public_of(kernel, scratch, scalars)),
        _ => agree(kernel, work, scratch, most),
    }
}

/// The public keys of scalars (RFC 7748, 6.2).
fn public_of(kernel: PublicKernel, scratch: &mut Scratch, scalars: &[[u8; LEN]]) -> Vec<[u8; LEN]> {
    let one =
        |bytes: &[u8; LEN]| Some(Agreement { scalar: Scalar::clamped(bytes)?.0, point: BASE, shared: [0; WORDS] });
    let mut all: Vec<Agreement> = scalars.iter().filter_map(one).collect();
    with_vectors(kernel, Agree { room: &mut scratch.room, all: &mut all });
    count_lanes(kernel, &mut scratch.occupancy, all.len());
    all.iter().map(|agreement| *bytes(&agreement.shared)).collect()
}

fn agree(kernel: PublicKernel, work: &mut Work<'_>, scratch: &mut Scratch, most: usize) {
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
                work.finish(*index, &*bytes(&operation.shared), &[]);
            }
        }
    });
}
