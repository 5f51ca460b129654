//! Multiples of the base point of Ed25519, for many scalars side by side: a sum of one table entry for each digit of a scalar.
//!
//! Digits are odd, so that none is zero: with `n` bits `b_i`, `Σ (2 b_i - 1) 2^i` runs through the odd numbers between `-2^n` and
//! `2^n` (Joye and Tunstall 2009), and five of its terms are a digit between -31 and 31. An even scalar has the group's order
//! added. The table has the sixteen positive multiples for each of 51 digits, all of which are read for every digit: sixteen
//! words, one of each multiple, are two vectors, of which a permutation takes each lane's word.
//!
//! Floor: 51 additions of affine points, 18 000 multiply-adds for all lanes, and an eighth of an inversion, 1 100.

use std::sync::OnceLock;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::super::fault::spoil;
use super::super::isa::{PublicKernel, Vectors, public_kernels};
use super::super::room::{Place, Room};
use super::super::unrolled::unrolled;
use super::edwards::{Affine, CACHED_LIMBS, Cached, Extended, Projective, TWICE_D};
use super::field::{Element, LIMBS, invert_all, limbs_of, words_of};
use super::isa::{FieldIsa, SHARED};

/// Bits of a digit.
const DIGIT_BITS: usize = 5;

/// Digits of a scalar: 255 bits.
pub(super) const DIGITS: usize = 51;

/// Odd multiples of a digit's place.
const MULTIPLES: usize = 1 << (DIGIT_BITS - 1);

const _: () = assert!(MULTIPLES == SHARED);

/// Limbs of a table's point: `y + x`, `y - x`, `2 d x y`.
const AFFINE_LIMBS: usize = 3 * LIMBS;

/// Where the base point is (RFC 8032, 5.1).
const BASE_X: [u64; LIMBS] =
    limbs_of([0xc956_2d60_8f25_d51a, 0x692c_c760_9525_a7b2, 0xc0a4_e231_fdd6_dc5c, 0x2169_36d3_cd6e_53fe]);
const BASE_Y: [u64; LIMBS] =
    limbs_of([0x6666_6666_6666_6658, 0x6666_6666_6666_6666, 0x6666_6666_6666_6666, 0x6666_6666_6666_6666]);

/// The order of the base point (RFC 8032, 5.1).
pub(super) const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];

/// The odd multiples 1, 3 … 31 for one digit, the same limb of all of them side by side.
#[derive(Clone)]
#[repr(C, align(64))]
struct Multiples([[u64; MULTIPLES]; AFFINE_LIMBS]);

/// The multiples of the base point for each digit.
pub(super) struct Table(Vec<Multiples>);

/// An odd scalar's digits: its words are `b` of the module's head.
#[derive(Clone, Copy, Default, Zeroize)]
pub(super) struct Digits([u64; 4]);

impl Digits {
    /// Of a scalar below the order, or that and the order together, whichever is odd.
    pub(super) fn of(scalar: [u64; 4]) -> Digits {
        // Hidden from the compiler, which made a branch on the lowest bit of this mask, half of the time a nonce's.
        let even = core::hint::black_box((scalar[0] & 1).wrapping_sub(1));
        let mut odd = scalar;
        let mut carry = false;
        for (word, order) in odd.iter_mut().zip(ORDER) {
            (*word, carry) = word.carrying_add(order & even, carry);
        }
        debug_assert!(!carry && odd[0] & 1 == 1 && odd[3] >> 62 == 0);
        // `(odd + 2^255 - 1) / 2`.
        let mut digits = [0; 4];
        for i in 0..4 {
            digits[i] = odd[i] >> 1 | odd.get(i + 1).map_or(0, |next| next << 63);
        }
        digits[3] |= 1 << 62;
        Digits(digits)
    }

    /// Writes one lane's digits, the lowest first.
    pub(super) fn put<I: Vectors>(&self, to: Place<I>, lane: usize) {
        for digit in 0..DIGITS {
            let (word, bit) = (digit * DIGIT_BITS / 64, digit * DIGIT_BITS % 64);
            let above = self.0.get(word + 1).map_or(0, |next| next << 1 << (63 - bit));
            to.set_lane(lane, digit, (self.0[word] >> bit | above) & (2 * MULTIPLES as u64 - 1));
        }
    }
}

/// The base point and its product with a scalar.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
pub(super) struct BaseProduct {
    /// The scalar.
    pub(super) scalar: Digits,
    /// The product's encoding (RFC 8032, 5.1.2).
    pub(super) encoding: [u64; 4],
}

/// Adds the multiples of the base point that the digits name.
#[inline(always)]
pub(super) fn add_base<I: FieldIsa>(isa: I, table: &Table, digits: Place<I>, to: Extended<I>) -> Extended<I> {
    let mut point = to;
    for (index, multiples) in table.0.iter().enumerate() {
        let digit = digits.get(isa, index);
        // From 16 on, the digit is `2 (b - 16) + 1`, below the negative of that of `15 - b`.
        let low = isa.and(digit, isa.splat(MULTIPLES as u64 - 1));
        let is_positive = isa.equal(isa.shr::<4>(digit), isa.splat(1));
        let which = isa.select(is_positive, low, isa.sub(isa.splat(MULTIPLES as u64 - 1), low));
        let mut limbs = [isa.splat(0); AFFINE_LIMBS];
        unrolled!(long i < AFFINE_LIMBS => {
            limbs[i] = isa.pick(&multiples.0[i], which);
        });
        let element = |first: usize| {
            let mut element = Element::zero(isa);
            element.0.copy_from_slice(&limbs[first..first + LIMBS]);
            element
        };
        let multiple = Affine { sum: element(0), difference: element(LIMBS), product: element(2 * LIMBS) };
        point = point.add_affine(isa, &multiple.negate_unless(isa, is_positive));
    }
    point
}

/// Points on their way to their encoding, a group of lanes behind the other.
#[derive(Clone, Copy)]
pub(super) struct Encodings<I: FieldIsa> {
    xs: Place<I>,
    ys: Place<I>,
    zs: Place<I>,
    products: Place<I>,
}

impl<I: FieldIsa> Encodings<I> {
    /// Limbs of a room for each group.
    pub(super) const GROUP_LIMBS: usize = 4 * LIMBS;

    /// Of four places that are as long as the groups want.
    pub(super) fn new([xs, ys, zs, products]: [Place<I>; 4]) -> Encodings<I> {
        Encodings { xs, ys, zs, products }
    }

    #[inline(always)]
    fn at(place: Place<I>, group: usize) -> Place<I> {
        place.part(group * LIMBS, LIMBS)
    }

    /// Sets a group's points.
    #[inline(always)]
    pub(super) fn set(&self, isa: I, group: usize, point: &Extended<I>) {
        self.set_projective(isa, group, &point.projective(isa));
    }

    /// Sets a group's points.
    #[inline(always)]
    pub(super) fn set_projective(&self, isa: I, group: usize, point: &Projective<I>) {
        point.x.put(isa, Self::at(self.xs, group));
        point.y.put(isa, Self::at(self.ys, group));
        point.z.put(isa, Self::at(self.zs, group));
    }

    /// Divides all points by their `Z`.
    #[inline(always)]
    pub(super) fn divide(&self, isa: I) {
        invert_all(isa, self.zs, self.products);
        for group in 0..self.zs.limbs() / LIMBS {
            let z = Element::get(isa, Self::at(self.zs, group));
            for place in [self.xs, self.ys] {
                let place = Self::at(place, group);
                Element::get(isa, place).mul(isa, &z).carry(isa).reduced(isa).put(isa, place);
            }
        }
    }

    /// A divided point's coordinates.
    pub(super) fn coordinates(&self, group: usize, lane: usize) -> [[u64; LIMBS]; 2] {
        [self.xs, self.ys].map(|place| core::array::from_fn(|i| Self::at(place, group).lane(lane, i)))
    }

    /// A divided point's encoding.
    pub(super) fn encoding(&self, group: usize, lane: usize) -> [u64; 4] {
        let [x, y] = self.coordinates(group, lane);
        let mut encoding = words_of(y);
        encoding[3] |= (x[0] & 1) << 63;
        encoding
    }
}

#[inline(always)]
fn multiply_in<I: FieldIsa>(isa: I, room: &mut Room, table: &Table, all: &mut [BaseProduct]) {
    let groups = all.len().div_ceil(I::LANES);
    let mut open = room.open::<I>(DIGITS + groups * Encodings::<I>::GROUP_LIMBS);
    let digits = open.number(DIGITS);
    let encodings = Encodings::new([(); 4].map(|()| open.number(groups * LIMBS)));
    for (group, operations) in all.chunks(I::LANES).enumerate() {
        for lane in 0..I::LANES {
            operations.get(lane).unwrap_or(&operations[0]).scalar.put(digits, lane);
        }
        spoil(digits);
        encodings.set(isa, group, &add_base(isa, table, digits, Extended::neutral(isa)));
        spoil(Encodings::at(encodings.zs, group));
    }
    encodings.divide(isa);
    spoil(encodings.ys);
    for (group, operations) in all.chunks_mut(I::LANES).enumerate() {
        for (lane, operation) in operations.iter_mut().enumerate() {
            operation.encoding = encodings.encoding(group, lane);
        }
    }
}

public_kernels! {
    fn multiply_with(room: &mut Room, table: &Table, all: &mut [BaseProduct]) = multiply_in
}

/// Multiplies the base point by each scalar.
pub(super) fn multiply(kernel: PublicKernel, room: &mut Room, all: &mut [BaseProduct]) {
    multiply_with(kernel, room, table(kernel), all);
}

/// The table, which is made when it is first wanted.
pub(super) fn table(kernel: PublicKernel) -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table(vec![Multiples([[0; MULTIPLES]; AFFINE_LIMBS]); DIGITS]);
        make_with(kernel, &mut Room::default(), &mut table);
        table
    })
}

/// Makes the table: all lanes do the same.
#[inline(always)]
fn make_in<I: FieldIsa>(isa: I, room: &mut Room, table: &mut Table) {
    let points = DIGITS * MULTIPLES;
    let mut open = room.open::<I>(CACHED_LIMBS + points * Encodings::<I>::GROUP_LIMBS);
    let twice = open.number(CACHED_LIMBS);
    let encodings = Encodings::new([(); 4].map(|()| open.number(points * LIMBS)));
    let mut place = Projective::new(isa, &Element::splat(isa, BASE_X), &Element::splat(isa, BASE_Y));
    for digit in 0..DIGITS {
        // The odd multiples, each two more than the one before; then the next digit's place, 32 times this one.
        let mut point = place.extended(isa);
        place.double::<Extended<I>>(isa).cached(isa).put(isa, twice);
        for multiple in 0..MULTIPLES {
            encodings.set(isa, digit * MULTIPLES + multiple, &point);
            point = point.add(isa, &Cached::choose(isa, twice, isa.splat(0)));
        }
        for _ in 0..DIGIT_BITS {
            place = place.double(isa);
        }
    }
    encodings.divide(isa);
    for index in 0..points {
        let [x, y] = encodings.coordinates(index, 0).map(|limbs| Element::splat(isa, limbs));
        let product = x.mul(isa, &y).carry(isa).mul(isa, &Element::splat(isa, TWICE_D));
        let parts = [y.add(isa, &x), y.sub(isa, &x), product];
        for (part, columns) in parts.into_iter().enumerate() {
            columns.carry(isa).reduced(isa).put(isa, twice.part(0, LIMBS));
            for i in 0..LIMBS {
                table.0[index / MULTIPLES].0[part * LIMBS + i][index % MULTIPLES] = twice.lane(0, i);
            }
        }
    }
}

public_kernels! {
    fn make_with(room: &mut Room, table: &mut Table) = make_in
}
