//! Signatures of one key verified together, in lanes: `[8] ([s] B - [k] A - Σ [z] R) = 0`, with a key `A`, two scalars and up to
//! [`ROWS_MAX`] points `R`, each with a multiplier `z` of 128 bits, a lane. Nothing here is secret.
//!
//! The multipliers are odd and have four bits a digit, as those of [`super::combine`]; the doublings between them are shared by
//! all points of a lane.
//!
//! Floor, in multiply-adds for all lanes: 74 000 for `[s] B - [k] A` as in [`super::combine`], 36 000 for 124 doublings, and for each
//! point 7 600 for its root, 3 400 for its table and 12 800 for 32 additions: with sixteen points 31 000 for each, of 75 000 one
//! by one.

use super::super::isa::{PublicKernel, public_kernels};
use super::super::room::{Place, Room};
use super::base::{self, DIGITS, Digits, Table, add_base};
use super::combine::{
    Coordinates, DIGIT_BITS, ENCODED_LIMBS, K_LIMBS, KEY_LIMBS, MULTIPLES, PARTS, PublicPoints, TABLE_LIMBS,
    decode_lanes, load_key, multiple, multiply_key, put_multiples, shift,
};
use super::edwards::{CACHED_LIMBS, Cached, Extended};
use super::field::{Element, LIMBS};
use super::isa::FieldIsa;

/// Points of a lane at most: their tables are 160 KiB, which a second-level cache holds.
pub(super) const ROWS_MAX: usize = 16;

/// Digits of a multiplier.
const Z_DIGITS: usize = 128 / DIGIT_BITS;

/// An encoded point, and its negative if there is one.
pub(super) struct Encoded {
    /// The encoding (RFC 8032, 5.1.2), with a reduced `y`.
    pub(super) encoding: [u64; 4],
    /// The negative's coordinates.
    pub(super) negative: Option<Coordinates>,
}

/// A point and its multiplier.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// `-R`.
    pub(super) negative: Coordinates,
    /// An odd number.
    pub(super) z: u128,
}

/// Signatures of one key.
pub(super) struct Sheaf<'k> {
    /// The key.
    pub(super) key: &'k PublicPoints,
    /// The sum of all `z S`.
    pub(super) s: Digits,
    /// The sum of all `z k`, below the order of the base point.
    pub(super) k: [u64; 4],
    /// Their points: at least one, at most [`ROWS_MAX`]; a single one's multiplier is one.
    pub(super) rows: Vec<Row>,
    /// Whether the equation holds.
    pub(super) holds: bool,
}

/// The neutral point, for lanes with fewer points than others.
const NEUTRAL: Row = Row { negative: [[0; LIMBS], [1, 0, 0, 0, 0]], z: 1 };

#[inline(always)]
fn decode_in<I: FieldIsa>(isa: I, room: &mut Room, all: &mut [Encoded]) {
    let mut open = room.open::<I>(ENCODED_LIMBS + 2 * LIMBS);
    let (loaded, xs, ys) = (open.number(ENCODED_LIMBS), open.number(LIMBS), open.number(LIMBS));
    for operations in all.chunks_mut(I::LANES) {
        let encoding = |lane: usize| operations.get(lane).unwrap_or(&operations[0]).encoding;
        let (x, y, exists) = decode_lanes(isa, loaded, encoding);
        Element::zero(isa).sub(isa, &x).carry(isa).reduced(isa).put(isa, xs);
        y.put(isa, ys);
        let exists = isa.bits(exists);
        for (lane, operation) in operations.iter_mut().enumerate() {
            let coordinates = [xs, ys].map(|place| core::array::from_fn(|limb| place.lane(lane, limb)));
            operation.negative = (exists >> lane & 1 == 1).then_some(coordinates);
        }
    }
}

public_kernels! {
    /// Decodes points. What has no point gets none.
    pub(super) fn decode(room: &mut Room, all: &mut [Encoded]) = decode_in
}

/// Writes a lane's row: the point, and its multiplier's digits as [`super::combine`] has those of `k`.
fn put_row<I: FieldIsa>(points: Place<I>, digits: Place<I>, lane: usize, row: &Row) {
    points.set_number(lane, row.negative.as_flattened());
    debug_assert!(row.z & 1 == 1);
    // `(z + 2^128 - 1) / 2`.
    let z = row.z >> 1 | 1 << 127;
    for index in 0..Z_DIGITS {
        digits.set_lane(lane, index, (z >> (index * DIGIT_BITS)) as u64 & (2 * MULTIPLES as u64 - 1));
    }
}

/// `-Σ [z] R` of each lane, by the points' tables.
#[inline(always)]
fn multiply_rows<I: FieldIsa>(isa: I, tables: Place<I>, digits: Place<I>) -> Extended<I> {
    let rows = tables.limbs() / TABLE_LIMBS;
    let mut sum = Extended::neutral(isa);
    for digit in (0..Z_DIGITS).rev() {
        sum = shift(isa, &sum);
        for row in 0..rows {
            let digit = digits.get(isa, row * Z_DIGITS + digit);
            let multiple = multiple(isa, tables.part(row * TABLE_LIMBS, TABLE_LIMBS), digit);
            sum = sum.add(isa, &multiple);
        }
    }
    sum
}

/// Where `[8]` a point is neutral.
#[inline(always)]
fn is_of_small_order<I: FieldIsa>(isa: I, point: &Extended<I>) -> u32 {
    let mut point = point.projective(isa);
    for _ in 0..3 {
        point = point.double(isa);
    }
    isa.bits(point.x.reduced(isa).is_zero(isa)) & isa.bits(point.y.equals(isa, &point.z))
}

#[inline(always)]
fn check_in<I: FieldIsa>(isa: I, room: &mut Room, table: &Table, all: &mut [Sheaf<'_>]) {
    let most = all.iter().map(|sheaf| sheaf.rows.len()).max().unwrap_or(0);
    let row_limbs = TABLE_LIMBS + Z_DIGITS;
    let mut open = room.open::<I>(KEY_LIMBS + PARTS * TABLE_LIMBS + K_LIMBS + DIGITS + 2 * LIMBS + most * row_limbs);
    let (points, key_tables) = (open.number(KEY_LIMBS), open.number(PARTS * TABLE_LIMBS));
    let (k, s, coordinates) = (open.number(K_LIMBS), open.number(DIGITS), open.number(2 * LIMBS));
    let (tables, digits) = (open.number(most * TABLE_LIMBS), open.number(most * Z_DIGITS));
    for sheaves in all.chunks_mut(I::LANES) {
        let sheaf = |lane: usize| sheaves.get(lane).unwrap_or(&sheaves[0]);
        let rows = sheaves.iter().map(|sheaf| sheaf.rows.len()).max().unwrap_or(0);
        for lane in 0..I::LANES {
            load_key((points, k), lane, sheaf(lane).key, &sheaf(lane).k);
            sheaf(lane).s.put(s, lane);
        }
        let product = multiply_key(isa, points, key_tables, k);
        let sum = add_base(isa, table, s, product);
        for row in 0..rows {
            for lane in 0..I::LANES {
                let digits = digits.part(row * Z_DIGITS, Z_DIGITS);
                put_row(coordinates, digits, lane, sheaf(lane).rows.get(row).unwrap_or(&NEUTRAL));
            }
            put_multiples(isa, coordinates, tables.part(row * TABLE_LIMBS, TABLE_LIMBS));
        }
        let points = match rows {
            // No table has less than the point itself.
            1 => Cached::choose(isa, tables.part(0, CACHED_LIMBS), isa.splat(0)),
            _ => multiply_rows(isa, tables.part(0, rows * TABLE_LIMBS), digits).cached(isa),
        };
        let holds = is_of_small_order(isa, &sum.add(isa, &points));
        for (lane, sheaf) in sheaves.iter_mut().enumerate() {
            sheaf.holds = holds >> lane & 1 == 1;
        }
    }
}

public_kernels! {
    fn check_with(room: &mut Room, table: &Table, all: &mut [Sheaf<'_>]) = check_in
}

/// Finds out which equations hold. It takes as long as the longest of as many neighbours as there are lanes.
pub(super) fn check(kernel: PublicKernel, room: &mut Room, all: &mut [Sheaf<'_>]) {
    check_with(kernel, room, base::table(kernel), all);
}
