//! Verification by the equation with the cofactor, `[8]([S]B - [k]A - R) = 0` (RFC 8032, 5.1.7): signatures of the same key together.
//!
//! Residues `[S]B - [k]A - R` that eight makes zero stay so in any sum of multiples, and of others a sum with random odd multipliers `z` of
//! 128 bits is zero with a probability of `2^-127` at most, since of all `z` of one of them no more than one will do (Bernstein, Duif,
//! Lange, Schwabe and Yang 2012). So a lane takes several signatures of one key, and if their sum is not zero each is verified by
//! itself: the verdict is that of one by one. Without the cofactor it would not be: parts of small order may cancel out.

use core::cmp::Reverse;

use ciphermill_contract::OpStatus;
use curve25519_dalek::scalar::Scalar;

use super::super::{count_lanes, groups};
use super::base::Digits;
use super::combine::PublicPoints;
use super::ed25519::{Key, signed, words};
use super::together::{self, Encoded, ROWS_MAX, Row, Sheaf};
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// A signature on its way.
#[derive(Clone, Copy)]
struct Claim<'k> {
    index: usize,
    key: &'k PublicPoints,
    s: Scalar,
    k: Scalar,
    row: Row,
}

/// Runs a batch of verifications.
pub(super) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernels.public.lanes()) * ROWS_MAX;
    groups::<Key>(work, most, |work, group| verify(kernels, work, scratch, group));
}

/// Verifies a group.
fn verify(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch, group: &[(usize, &Key)]) {
    let mut multipliers = vec![[0; 16]; group.len()];
    if getrandom::fill(multipliers.as_flattened_mut()).is_err() {
        group.iter().for_each(|(index, _)| work.fail(*index, OpStatus::EngineFault));
        return;
    }
    let mut claims = claims(kernels, work, scratch, group, &multipliers);
    let lanes = usize::from(kernels.public.lanes());
    // Those of a key side by side, and as many in each lane as all lanes have to take.
    claims.sort_by_key(|claim| core::ptr::from_ref(claim.key).addr());
    let most = claims.len().div_ceil(lanes).clamp(1, ROWS_MAX);
    let of_a_key = claims.chunk_by(|a, b| core::ptr::eq(a.key, b.key));
    let mut sheaves: Vec<&[Claim<'_>]> = of_a_key.flat_map(|claims| claims.chunks(most)).collect();
    // Neighbours take as long as the longest of them.
    sheaves.sort_by_key(|claims| Reverse(claims.len()));
    let (mut wrong, doubtful): (Vec<_>, Vec<_>) =
        check(kernels, work, scratch, &sheaves).into_iter().partition(|claims| claims.len() == 1);
    let apart: Vec<&[Claim<'_>]> = doubtful.iter().flat_map(|claims| claims.chunks(1)).collect();
    wrong.extend(check(kernels, work, scratch, &apart));
    wrong.into_iter().flatten().for_each(|claim| work.fail(claim.index, OpStatus::AuthFailed));
}

/// The signatures whose `R` is a point, each with a multiplier; the others have failed.
fn claims<'k>(
    kernels: &Kernels,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
    group: &[(usize, &'k Key)],
    multipliers: &[[u8; 16]],
) -> Vec<Claim<'k>> {
    let signed = signed(kernels, work, group);
    let mut points: Vec<Encoded> =
        signed.iter().map(|signed| Encoded { encoding: signed.r(), negative: None }).collect();
    together::decode(kernels.public, &mut scratch.room, &mut points);
    let mut claims = Vec::with_capacity(signed.len());
    for ((signed, point), z) in signed.iter().zip(&points).zip(multipliers) {
        match (point.negative, signed.key.points(kernels.public)) {
            (Some(negative), Some(key)) => claims.push(Claim {
                index: signed.index,
                key,
                s: Scalar::from_bytes_mod_order(signed.s()),
                k: signed.k,
                row: Row { negative, z: u128::from_le_bytes(*z) | 1 },
            }),
            (None, _) => work.fail(signed.index, OpStatus::AuthFailed),
            (_, None) => work.fail(signed.index, OpStatus::EngineFault),
        }
    }
    claims
}

/// Verifies signatures, those of each sheaf together. Returns the sheaves whose sum is not zero.
fn check<'c, 'k>(
    kernels: &Kernels,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
    sheaves: &[&'c [Claim<'k>]],
) -> Vec<&'c [Claim<'k>]> {
    let mut all: Vec<Sheaf<'_>> = sheaves.iter().filter_map(|claims| sheaf_of(claims)).collect();
    together::check(kernels.public, &mut scratch.room, &mut all);
    count_lanes(kernels.public, &mut scratch.occupancy, all.len());
    let (held, doubtful): (Vec<_>, Vec<_>) = sheaves.iter().zip(&all).partition(|(_, sheaf)| sheaf.holds);
    held.into_iter().flat_map(|(claims, _)| *claims).for_each(|claim| work.done_with(claim.index, 0));
    doubtful.into_iter().map(|(claims, _)| *claims).collect()
}

/// The sum of signatures of one key, one alone times one.
fn sheaf_of<'k>(claims: &[Claim<'k>]) -> Option<Sheaf<'k>> {
    let (mut s, mut k) = (Scalar::ZERO, Scalar::ZERO);
    let mut rows: Vec<Row> = claims.iter().map(|claim| claim.row).collect();
    if let [row] = &mut rows[..] {
        row.z = 1;
    }
    for (claim, row) in claims.iter().zip(&rows) {
        let z = Scalar::from(row.z);
        s += z * claim.s;
        k += z * claim.k;
    }
    Some(Sheaf { key: claims.first()?.key, s: Digits::of(words(&s)), k: words(&k), rows, holds: false })
}

#[cfg(test)]
mod tests;
