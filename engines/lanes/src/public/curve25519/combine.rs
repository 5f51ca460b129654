//! Verification in lanes: `[S] B - [k] A`, a public key `A` and two scalars a lane. Nothing here is secret.
//!
//! A prepared public key is `-A` and its products with `2^64`, `2^128` and `2^192`, so that four digits of `k` share each of 60
//! doublings (Lim and Lee 1994). Digits are odd, as those of [`super::base`], and have four bits: for each of the four
//! points there is a table of eight odd multiples. The base point's product is added by its own table.
//!
//! `A` may have any order, so that `k`, which is below the order of the base point, is made odd by adding one, and a last
//! addition takes that back.
//!
//! Floor, in multiply-adds for all lanes: 28 additions and four doublings of points for the tables, 12 800; 60 doublings, 17 000;
//! 65 additions, 26 000; the base point's 51, 18 000; an eighth of an inversion, 1 100: 75 000 for eight verifications.

use super::super::isa::{PublicKernel, public_kernels};
use super::super::room::{Place, Room};
use super::base::{self, DIGITS, Digits, Encodings, Table, add_base};
use super::edwards::{CACHED_LIMBS, Cached, D, Extended, Projective, ROOT_OF_MINUS_ONE};
use super::field::{Element, LIMBS, limbs_of};
use super::isa::FieldIsa;

/// Points of a prepared key.
pub(super) const PARTS: usize = 4;

/// Bits between them.
const PART_BITS: usize = 256 / PARTS;

/// Bits of a digit of `k`.
pub(super) const DIGIT_BITS: usize = 4;

/// Odd multiples of a point: 1, 3 … 15.
pub(super) const MULTIPLES: usize = 1 << (DIGIT_BITS - 1);

/// Limbs of a point's odd multiples.
pub(super) const TABLE_LIMBS: usize = MULTIPLES * CACHED_LIMBS;

/// Limbs of a prepared key's points.
pub(super) const KEY_LIMBS: usize = 2 * PARTS * LIMBS;

/// Digits of each point.
const PART_DIGITS: usize = PART_BITS / DIGIT_BITS;

/// Vectors that say what to do with `k`: its digits, the lowest first, and whether it was even.
pub(super) const K_LIMBS: usize = 256 / DIGIT_BITS + 1;

/// A point by its affine coordinates.
pub(super) type Coordinates = [[u64; LIMBS]; 2];

/// A public key for many verifications: `-A`, `-[2^64] A` ….
#[derive(Clone, Copy)]
pub(super) struct PublicPoints([Coordinates; PARTS]);

/// An encoded point, and what comes of it.
pub(super) struct Unpacking {
    /// The encoding (RFC 8032, 5.1.2), with a reduced `y`.
    pub(super) encoding: [u64; 4],
    /// The points, unless there is none with this `y`.
    pub(super) points: Option<PublicPoints>,
}

/// What a signature says its `R` is.
pub(super) struct Verification<'k> {
    /// The public key.
    pub(super) key: &'k PublicPoints,
    /// `S`.
    pub(super) s: Digits,
    /// `k`, below the order of the base point.
    pub(super) k: [u64; 4],
    /// The encoding of `[S] B - [k] A`.
    pub(super) r: [u64; 4],
}

/// The `x` of a point with this `y`, whose lowest bit is `sign`, and where there is one (RFC 8032, 5.1.3).
#[inline(always)]
fn root<I: FieldIsa>(isa: I, y: &Element<I>, sign: I::V) -> (Element<I>, I::M) {
    let one = Element::one(isa);
    let square = y.square(isa).carry(isa);
    let u = square.sub(isa, &one).carry(isa);
    let v = square.mul(isa, &Element::splat(isa, D)).add(isa, &one.columns()).carry(isa);
    // u v^3 (u v^7)^((p - 5) / 8)
    let cube = v.square(isa).carry(isa).mul(isa, &v).carry(isa);
    let seventh = cube.square(isa).carry(isa).mul(isa, &v).carry(isa);
    let power = u.mul(isa, &seventh).carry(isa).power_of_root(isa);
    let x = u.mul(isa, &cube).carry(isa).mul(isa, &power).carry(isa);
    let check = v.mul(isa, &x.square(isa).carry(isa)).carry(isa);
    let is_root = check.equals(isa, &u);
    let is_other = check.add(isa, &u).carry(isa).reduced(isa).is_zero(isa);
    let other = x.mul(isa, &Element::splat(isa, ROOT_OF_MINUS_ONE)).carry(isa);
    let x = Element::select(isa, is_root, &x, &other).reduced(isa);
    let has_sign = isa.equal(isa.and(x.0[0], isa.splat(1)), sign);
    let x = Element::select(isa, has_sign, &x, &x.negative(isa));
    // Either, as a number that is one.
    let (one, zero) = (isa.splat(1), isa.splat(0));
    let any = isa.or(isa.select(is_root, one, zero), isa.select(is_other, one, zero));
    (x, isa.equal(any, one))
}

/// Limbs that [`decode_lanes`] loads encodings into.
pub(super) const ENCODED_LIMBS: usize = LIMBS + 1;

/// The coordinates of the points that each lane's encoding (RFC 8032, 5.1.2) stands for, and where there is one.
#[inline(always)]
pub(super) fn decode_lanes<I: FieldIsa>(
    isa: I,
    loaded: Place<I>,
    encoding: impl Fn(usize) -> [u64; 4],
) -> (Element<I>, Element<I>, I::M) {
    let (ys, sign) = (loaded.part(0, LIMBS), loaded.part(LIMBS, 1));
    for lane in 0..I::LANES {
        let encoding = encoding(lane);
        ys.set_number(lane, &limbs_of(encoding));
        sign.set_lane(lane, 0, encoding[3] >> 63);
    }
    let y = Element::get(isa, ys);
    let (x, exists) = root(isa, &y, sign.get(isa, 0));
    (x, y, exists)
}

#[inline(always)]
fn unpack_in<I: FieldIsa>(isa: I, room: &mut Room, all: &mut [Unpacking]) {
    let mut open = room.open::<I>(ENCODED_LIMBS + 4 * PARTS * LIMBS);
    let loaded = open.number(ENCODED_LIMBS);
    let [xs, y, zs, products] = [(); 4].map(|()| open.number(PARTS * LIMBS));
    let encodings = Encodings::new([xs, y, zs, products]);
    for operations in all.chunks_mut(I::LANES) {
        let encoding = |lane: usize| operations.get(lane).unwrap_or(&operations[0]).encoding;
        let (x, y, exists) = decode_lanes(isa, loaded, encoding);
        // The negative, `-x`, as a factor that may be negated again.
        let mut point = Projective::new(isa, &Element::zero(isa).sub(isa, &x).carry(isa), &y);
        for part in 0..PARTS {
            encodings.set_projective(isa, part, &point);
            for _ in 0..PART_BITS {
                point = point.double(isa);
            }
        }
        encodings.divide(isa);
        let exists = isa.bits(exists);
        for (lane, operation) in operations.iter_mut().enumerate() {
            let points = PublicPoints(core::array::from_fn(|part| encodings.coordinates(part, lane)));
            operation.points = (exists >> lane & 1 == 1).then_some(points);
        }
    }
}

public_kernels! {
    /// Unpacks encoded points. What has no point gets none.
    pub(super) fn unpack(room: &mut Room, all: &mut [Unpacking]) = unpack_in
}

/// Writes the odd multiples of each lane's point, given by its coordinates, to a table.
#[inline(always)]
pub(super) fn put_multiples<I: FieldIsa>(isa: I, coordinates: Place<I>, table: Place<I>) {
    let at = |index: usize| Element::get(isa, coordinates.part(index * LIMBS, LIMBS));
    let point = Projective::new(isa, &at(0), &at(1));
    let twice = point.double::<Extended<I>>(isa).cached(isa);
    let mut point = point.extended(isa);
    for multiple in 0..MULTIPLES {
        point.cached(isa).put(isa, table.part(multiple * CACHED_LIMBS, CACHED_LIMBS));
        point = point.add(isa, &twice);
    }
}

/// The multiple that each lane's digit names, `2 digit - 15`.
#[inline(always)]
pub(super) fn multiple<I: FieldIsa>(isa: I, table: Place<I>, digit: I::V) -> Cached<I> {
    let low = isa.and(digit, isa.splat(MULTIPLES as u64 - 1));
    let is_positive = isa.equal(isa.shr::<3>(digit), isa.splat(1));
    let which = isa.select(is_positive, low, isa.sub(isa.splat(MULTIPLES as u64 - 1), low));
    Cached::choose(isa, table, which).negate_unless(isa, is_positive)
}

/// The point doubled as often as a digit has bits.
#[inline(always)]
pub(super) fn shift<I: FieldIsa>(isa: I, sum: &Extended<I>) -> Extended<I> {
    let mut point = sum.projective(isa);
    for _ in 1..DIGIT_BITS {
        point = point.double(isa);
    }
    point.double(isa)
}

/// The product of each lane's key and `k`. The key's tables are made in a place of their own.
#[inline(always)]
pub(super) fn multiply_key<I: FieldIsa>(isa: I, points: Place<I>, tables: Place<I>, k: Place<I>) -> Extended<I> {
    let table = |part: usize| tables.part(part * TABLE_LIMBS, TABLE_LIMBS);
    for part in 0..PARTS {
        put_multiples(isa, points.part(2 * part * LIMBS, 2 * LIMBS), table(part));
    }
    let mut sum = Extended::neutral(isa);
    for digit in (0..PART_DIGITS).rev() {
        sum = shift(isa, &sum);
        for part in 0..PARTS {
            let multiple = multiple(isa, table(part), k.get(isa, part * PART_DIGITS + digit));
            sum = sum.add(isa, &multiple);
        }
    }
    // Once too many where `k` was even; elsewhere a number that the table has no entry for.
    let was_even = isa.equal(k.get(isa, K_LIMBS - 1), isa.splat(1));
    let which = isa.select(was_even, isa.splat(0), isa.splat(u64::MAX));
    let point = Cached::choose(isa, tables.part(0, CACHED_LIMBS), which);
    let never = isa.equal(isa.splat(0), isa.splat(1));
    sum.add(isa, &point.negate_unless(isa, never))
}

/// Writes a lane's key and `k`.
pub(super) fn load_key<I: FieldIsa>((points, to): (Place<I>, Place<I>), lane: usize, key: &PublicPoints, k: &[u64; 4]) {
    points.set_number(lane, key.0.as_flattened().as_flattened());
    // Of the odd number, as `base::Digits` has it for 255 bits: `(odd + 2^256 - 1) / 2`.
    let mut digits: [u64; 4] = core::array::from_fn(|i| k[i] >> 1 | k.get(i + 1).map_or(0, |next| next << 63));
    digits[3] |= 1 << 63;
    for index in 0..K_LIMBS - 1 {
        let digit = digits[index * DIGIT_BITS / 64] >> (index * DIGIT_BITS % 64);
        to.set_lane(lane, index, digit & (2 * MULTIPLES as u64 - 1));
    }
    to.set_lane(lane, K_LIMBS - 1, u64::from(k[0] & 1 == 0));
}

#[inline(always)]
fn combine_in<I: FieldIsa>(isa: I, room: &mut Room, table: &Table, all: &mut [Verification<'_>]) {
    let groups = all.len().div_ceil(I::LANES);
    let limbs = KEY_LIMBS + PARTS * TABLE_LIMBS + K_LIMBS + DIGITS + groups * Encodings::<I>::GROUP_LIMBS;
    let mut open = room.open::<I>(limbs);
    let (points, tables) = (open.number(KEY_LIMBS), open.number(PARTS * TABLE_LIMBS));
    let (k, s) = (open.number(K_LIMBS), open.number(DIGITS));
    let encodings = Encodings::new([(); 4].map(|()| open.number(groups * LIMBS)));
    for (group, operations) in all.chunks(I::LANES).enumerate() {
        for lane in 0..I::LANES {
            let operation = operations.get(lane).unwrap_or(&operations[0]);
            load_key((points, k), lane, operation.key, &operation.k);
            operation.s.put(s, lane);
        }
        let product = multiply_key(isa, points, tables, k);
        encodings.set(isa, group, &add_base(isa, table, s, product));
    }
    encodings.divide(isa);
    for (group, operations) in all.chunks_mut(I::LANES).enumerate() {
        for (lane, operation) in operations.iter_mut().enumerate() {
            operation.r = encodings.encoding(group, lane);
        }
    }
}

public_kernels! {
    fn combine_with(room: &mut Room, table: &Table, all: &mut [Verification<'_>]) = combine_in
}

/// Works out what each signature's `R` should be.
pub(super) fn combine(kernel: PublicKernel, room: &mut Room, all: &mut [Verification<'_>]) {
    combine_with(kernel, room, base::table(kernel), all);
}
