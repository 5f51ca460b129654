//! X448 (RFC 7748): the Montgomery ladder, a scalar and a point a lane.
//!
//! A step doubles one of two points, whichever the scalar's bit says, and adds both. What the sum is made of does not depend on
//! which point is which but for a sign that a square takes away, so that only the point to double is selected (as in
//! [`curve25519`](super::super::curve25519)).
//!
//! Floor: a step is five products, four squares and a product with the curve's constant: `810 + 360 + 18` multiply-adds for all
//! lanes and some 1,450 other instructions, of 448 steps, and an eighth of an inversion for each group of lanes. Where two
//! instructions of 512 bits start a cycle, one of them a multiply-add (Zen 4), that is 600,000 cycles, 75,000 for each of eight
//! operations. The multiply-adds alone are 68,000. What is reached is less than half of that: compilers put all products into the
//! loop, whose vectors do not fit the registers then.

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::super::prime_curves::isa::{CurveIsa, Task};
use super::super::room::{Place, Room};
use super::field::{Element, LIMBS, Sum, WORDS, invert_all, limbs_of, words_of};

/// `(A - 2) / 4` of the curve (RFC 7748, 4.2 and 5).
const A24: u64 = 39_081;

/// A scalar and a point of one operation, little-endian in words, and where the result goes.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
pub(super) struct Agreement {
    /// The scalar: a multiple of four, below `2^448`.
    pub(super) scalar: [u64; WORDS],
    /// The point's `u`, any number.
    pub(super) point: [u64; WORDS],
    /// The product's `u`; zero where that is zero or there is none.
    pub(super) shared: [u64; WORDS],
}

/// A point by its projective coordinate.
#[derive(Clone, Copy)]
struct Point<I: CurveIsa> {
    x: Element<I>,
    z: Element<I>,
}

/// A step: `double` and `sum` become twice the one that `doubles_double` says and the sum of both, whose difference has
/// the affine coordinate `point`.
#[inline(always)]
fn step<I: CurveIsa>(isa: I, double: &mut Point<I>, sum: &mut Point<I>, doubles_double: I::M, point: &Sum<I>) {
    let [double_plus, sum_plus] = [&*double, &*sum].map(|point| point.x.add(isa, &point.z));
    let [double_minus, sum_minus] = [&*double, &*sum].map(|point| point.x.sub(isa, &point.z));
    let plus = Sum::select(isa, doubles_double, &double_plus, &sum_plus).square(isa);
    let minus = Sum::select(isa, doubles_double, &double_minus, &sum_minus).square(isa);
    let (left, right) = (double_minus.mul(isa, &sum_plus), double_plus.mul(isa, &sum_minus));
    // Twice a point.
    let four_xz = plus.sub(isa, &minus);
    double.x = plus.factor().mul(isa, &minus.factor());
    double.z = plus.add_times(isa, &four_xz, A24).factor().mul(isa, &four_xz);
    // The sum of both.
    sum.x = left.add(isa, &right).square(isa);
    sum.z = left.sub(isa, &right).square(isa).factor().mul(isa, point);
}

/// The product of a scalar and a point.
#[inline(always)]
fn ladder<I: CurveIsa>(isa: I, scalar: Place<I>, point: &Element<I>) -> Point<I> {
    // The point at infinity, 1 : 0, as if it had been doubled, and the point itself.
    let mut double = Point { x: Element::one(isa), z: Element::zero(isa) };
    let mut sum = Point { x: *point, z: Element::one(isa) };
    let point = point.factor();
    let mut before = isa.splat(0);
    for index in (0..WORDS).rev() {
        let mut word = scalar.get(isa, index);
        for _ in 0..64 {
            let bit = isa.shr::<63>(word);
            word = isa.shl::<1>(word);
            // `double` belongs to the bit before: it is doubled again when this one is the same.
            step(isa, &mut double, &mut sum, isa.equal(bit, before), &point);
            before = bit;
        }
    }
    // The last bit is zero: what was doubled is the product.
    double
}

/// Limbs of the room for a group: a point's two coordinates and a product on the way to its inverse.
const GROUP_LIMBS: usize = 3 * LIMBS;

/// Multiplies each operation's point by its scalar.
pub(super) struct Agree<'a> {
    pub(super) room: &'a mut Room,
    pub(super) all: &'a mut [Agreement],
}

impl Task for Agree<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) {
        let groups = self.all.len().div_ceil(I::LANES);
        let mut open = self.room.open::<I>(WORDS + LIMBS + groups * GROUP_LIMBS);
        let (scalar, point) = (open.number(WORDS), open.number(LIMBS));
        let [xs, zs, products] = [(); 3].map(|()| open.number(groups * LIMBS));
        let at = |place: Place<I>, group: usize| place.part(group * LIMBS, LIMBS);
        for (group, operations) in self.all.chunks(I::LANES).enumerate() {
            for lane in 0..I::LANES {
                let operation = operations.get(lane).unwrap_or(&operations[0]);
                scalar.set_number(lane, &operation.scalar);
                point.set_number(lane, &limbs_of(operation.point));
            }
            let Point { x, z } = ladder(isa, scalar, &Element::get(isa, point));
            // The point at infinity: zero, as if zero had an inverse that is zero (RFC 7748, 5).
            let is_infinity = z.reduced(isa).is_zero(isa);
            Element::select(isa, is_infinity, &Element::zero(isa), &x).put(isa, at(xs, group));
            Element::select(isa, is_infinity, &Element::one(isa), &z).put(isa, at(zs, group));
        }
        invert_all(isa, zs, products);
        for (group, operations) in self.all.chunks_mut(I::LANES).enumerate() {
            let (x, z) = (Element::get(isa, at(xs, group)), Element::get(isa, at(zs, group)));
            x.factor().mul(isa, &z.factor()).reduced(isa).put(isa, at(xs, group));
            for (lane, operation) in operations.iter_mut().enumerate() {
                operation.shared = words_of(core::array::from_fn(|i| at(xs, group).lane(lane, i)));
            }
        }
    }
}
