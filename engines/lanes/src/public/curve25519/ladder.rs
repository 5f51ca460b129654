//! X25519 (RFC 7748): the Montgomery ladder, a scalar and a point a lane.
//!
//! A step has the sums and differences `x + z`, `x - z` of two points: `double`, which the step before has doubled, and `sum`,
//! which it has added. It doubles one of them, whichever the scalar's bit says, and adds both. What the sum is made of, the
//! products of one point's sum and the other's difference, does not depend on which point is which but for a sign that a
//! square takes away (Montgomery 1987), so that only the point to double is selected.
//!
//! Floor: a step is five products, four squares, the curve's constant and eleven carries: `250 + 120 + 10 + 11` multiply-adds for
//! all lanes and some 500 other instructions, of 255 steps, and an eighth of an inversion for each group of lanes. Where two
//! instructions of 512 bits start a cycle, one of them a multiply-add (Zen 4), that is 118 000 cycles, 14 700 for each of eight
//! operations. The multiply-adds alone are 12 600.

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::super::isa::public_kernels;
use super::super::room::{Place, Room};
use super::field::{Columns, Element, LIMBS, invert_all, limbs_of, words_of};
use super::isa::FieldIsa;

/// Bits of a scalar; those from here on are not looked at.
const SCALAR_BITS: usize = 255;

/// `(A - 2) / 4` of the curve (RFC 7748, 4.1 and 5).
const A24: u64 = 121_665;

/// A scalar and a point of one operation, little-endian in words, and where the result goes.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
pub(super) struct Agreement {
    /// The scalar: even, below `2^255`.
    pub(super) scalar: [u64; 4],
    /// The point's `u`, any number; the highest bit is left out.
    pub(super) point: [u64; 4],
    /// The product's `u`; zero where that is zero or there is none.
    pub(super) shared: [u64; 4],
}

/// A point by `x + z` and `x - z`.
#[derive(Clone, Copy)]
struct Sums<I: FieldIsa> {
    sum: Element<I>,
    difference: Element<I>,
}

impl<I: FieldIsa> Sums<I> {
    #[inline(always)]
    fn new(isa: I, x: &Columns<I>, z: &Columns<I>) -> Sums<I> {
        Sums { sum: x.add(isa, z).carry(isa), difference: x.sub(isa, z).carry(isa) }
    }
}

/// A step: `double` and `sum` become twice the one that `doubles_double` says and the sum of both, whose difference has
/// the affine coordinate `point`.
#[inline(always)]
fn step<I: FieldIsa>(isa: I, double: &mut Sums<I>, sum: &mut Sums<I>, doubles_double: I::M, point: &Element<I>) {
    let plus = Element::select(isa, doubles_double, &double.sum, &sum.sum);
    let minus = Element::select(isa, doubles_double, &double.difference, &sum.difference);
    let (left, right) = (double.difference.mul(isa, &sum.sum), double.sum.mul(isa, &sum.difference));
    // Twice a point.
    let (plus, minus) = (plus.square(isa), minus.square(isa));
    let four_xz = plus.sub(isa, &minus).carry(isa);
    let (plus, minus) = (plus.carry(isa), minus.carry(isa));
    let x = plus.mul(isa, &minus);
    let z = four_xz.mul(isa, &plus.add_times(isa, &four_xz, A24).carry(isa));
    *double = Sums::new(isa, &x, &z);
    // The sum of both.
    let x = left.add(isa, &right).carry(isa).square(isa);
    let z = left.sub(isa, &right).carry(isa).square(isa).carry(isa).mul(isa, point);
    *sum = Sums::new(isa, &x, &z);
}

/// The product of a scalar and a point, as `x` and `z`.
#[inline(always)]
fn ladder<I: FieldIsa>(isa: I, scalar: Place<I>, point: &Element<I>) -> (Element<I>, Element<I>) {
    let one = Element::one(isa);
    // The point at infinity, 1 : 0, as if it had been doubled, and the point itself.
    let mut double = Sums { sum: one, difference: one };
    let mut sum = Sums::new(isa, &point.columns(), &one.columns());
    let mut before = isa.splat(0);
    for index in (0..4).rev() {
        let mut word = scalar.get(isa, index);
        let mut left = 64;
        if index == 3 {
            word = isa.shl::<1>(word);
            left = SCALAR_BITS % 64;
        }
        for _ in 0..left {
            let bit = isa.shr::<63>(word);
            word = isa.shl::<1>(word);
            // `double` belongs to the bit before: it is doubled again when this one is the same.
            step(isa, &mut double, &mut sum, isa.equal(bit, before), point);
            before = bit;
        }
    }
    // The last bit is zero: what was doubled is the product. Both coordinates are twice what they could be.
    (double.sum.add(isa, &double.difference).carry(isa), double.sum.sub(isa, &double.difference).carry(isa))
}

/// Limbs of the room for a group: a point's two coordinates and a product on the way to its inverse.
const GROUP_LIMBS: usize = 3 * LIMBS;

#[inline(always)]
fn agree_in<I: FieldIsa>(isa: I, room: &mut Room, all: &mut [Agreement]) {
    let groups = all.len().div_ceil(I::LANES);
    let mut open = room.open::<I>(4 + LIMBS + groups * GROUP_LIMBS);
    let (scalar, point) = (open.number(4), open.number(LIMBS));
    let [xs, zs, products] = [(); 3].map(|()| open.number(groups * LIMBS));
    let at = |place: Place<I>, group: usize| place.part(group * LIMBS, LIMBS);
    for (group, operations) in all.chunks(I::LANES).enumerate() {
        for lane in 0..I::LANES {
            let operation = operations.get(lane).unwrap_or(&operations[0]);
            scalar.set_number(lane, &operation.scalar);
            point.set_number(lane, &limbs_of(operation.point));
        }
        let (x, z) = ladder(isa, scalar, &Element::get(isa, point));
        // The point at infinity: zero, as if zero had an inverse that is zero (RFC 7748, 5).
        let is_infinity = z.reduced(isa).is_zero(isa);
        Element::select(isa, is_infinity, &Element::zero(isa), &x).put(isa, at(xs, group));
        Element::select(isa, is_infinity, &Element::one(isa), &z).put(isa, at(zs, group));
    }
    invert_all(isa, zs, products);
    for (group, operations) in all.chunks_mut(I::LANES).enumerate() {
        let (x, z) = (Element::get(isa, at(xs, group)), Element::get(isa, at(zs, group)));
        x.mul(isa, &z).carry(isa).reduced(isa).put(isa, at(xs, group));
        for (lane, operation) in operations.iter_mut().enumerate() {
            operation.shared = words_of(core::array::from_fn(|i| at(xs, group).lane(lane, i)));
        }
    }
}

public_kernels! {
    /// Multiplies each operation's point by its scalar.
    pub(super) fn agree(room: &mut Room, all: &mut [Agreement]) = agree_in
}
