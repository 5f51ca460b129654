//! X25519's keys and operations (RFC 7748, 5 and 6.1).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::super::isa::PublicKernel;
use super::super::room::Room;
use super::super::{count_lanes, groups};
use super::ladder::{Agreement, agree};
use super::{FLIGHT_GROUPS, bytes_of, words_of};
use crate::declassify::declassify;
use crate::work::{Scratch, Work};

/// A scalar, clamped (RFC 7748, 5).
#[derive(Zeroize, ZeroizeOnDrop)]
struct Scalar([u64; 4]);

/// Prepares a scalar.
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, Scalar::clamped(key.bytes).ok_or(KeyProblem::Length)?))
}

impl Scalar {
    fn clamped(bytes: &[u8]) -> Option<Scalar> {
        let mut scalar = Scalar(words_of(bytes)?);
        scalar.0[0] &= !7;
        scalar.0[3] = scalar.0[3] & u64::MAX >> 1 | 1 << 62;
        Some(scalar)
    }
}

/// The base point's coordinate (RFC 7748, 4.1).
const BASE: [u64; 4] = [9, 0, 0, 0];

/// The public keys of scalars.
pub(super) fn public_of(kernel: PublicKernel, room: &mut Room, scalars: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let one = |bytes: &[u8; 32]| {
        let scalar = Scalar::clamped(bytes)?;
        Some(Agreement { scalar: scalar.0, point: BASE, shared: [0; 4] })
    };
    let mut all: Vec<Agreement> = scalars.iter().filter_map(one).collect();
    agree(kernel, room, &mut all);
    all.iter().map(|agreement| bytes_of(&agreement.shared)).collect()
}

/// Runs a batch of agreements.
pub(super) fn run(kernel: PublicKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernel.lanes()) * FLIGHT_GROUPS;
    let mut all: Vec<Agreement> = Vec::with_capacity(most);
    groups::<Scalar>(work, most, |work, group| {
        all.clear();
        for (index, key) in group {
            // An input of another length has no point: zero, which has no secret either.
            let point = words_of(work.input(*index)).unwrap_or_default();
            all.push(Agreement { scalar: key.0, point, shared: [0; 4] });
        }
        agree(kernel, &mut scratch.room, &mut all);
        count_lanes(kernel, &mut scratch.occupancy, all.len());
        for ((index, _), operation) in group.iter().zip(&all) {
            // Only points of small order lead to zero (RFC 7748, 6.1).
            let any = operation.shared.iter().fold(0, |any, word| any | word);
            if declassify(any == 0) {
                work.fail(*index, OpStatus::BadInput(Reason::BadPublicValue));
            } else {
                let mut shared = bytes_of(&operation.shared);
                work.finish(*index, &shared, &[]);
                shared.zeroize();
            }
        }
    });
}
