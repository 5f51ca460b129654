//! Points in Jacobian coordinates, `(X / Z², Y / Z³)`, a point a lane, and what is added to them in affine ones.
//!
//! A doubling is five products and three squares, with seven reductions (Cohen, Miyaji, Ono 1998, for `a = -3`); adding an
//! affine point is eight and three, with ten (Hankerson, Menezes, Vanstone 2004). For P-256, that is 550 and 790
//! multiply-adds, where complete formulas (Renes, Costello, Batina 2016) take a thousand each.
//!
//! *Exceptions.* Doubling has none: there is no point of order two, and infinity, `Z = 0`, stays what it is. Adding a point
//! to infinity, to itself or to its negative gives `Z = 0`, which then stays zero. [`super::scalar`] shows that multiples
//! of a point with secret scalars never meet the first and the last, and may meet the second at the very end alone, where
//! [`Point::add_last`] doubles instead. Sums of two points' multiples may meet each of them, but only where somebody has
//! looked for it: who verifies signatures finds `Z = 0` and verifies alone.
//!
//! *Bounds*, for P-256, in multiples of the prime; see [`super::field`]: the other primes leave more room. What is settled is
//! below 2.01. Of a point, `X` is settled, `Y` below 2 and `Z` below 1.4; coordinates that are added are below 2.01.

use super::super::isa::Vectors;
use super::super::unrolled::filled;
use super::curve::Curve;
use super::field::Field;
use super::isa::CurveIsa;
use super::modulus::Modulus;
use super::numbers::{Number, Numbers};
use crate::instruction_set::Step;

/// A field of a curve.
pub(super) type Prime<I, C, const L: usize> = Field<I, <C as Curve<L>>::Prime, L>;

/// A point a lane.
pub(super) struct Point<I: Vectors, const L: usize> {
    pub(super) x: Number<I, L>,
    pub(super) y: Number<I, L>,
    pub(super) z: Number<I, L>,
}

impl<I: Vectors, const L: usize> Clone for Point<I, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Vectors, const L: usize> Copy for Point<I, L> {}

/// An affine point a lane, and where its negative is meant.
#[derive(Clone, Copy)]
pub(super) struct Affine<I: Vectors, const L: usize> {
    pub(super) x: Number<I, L>,
    pub(super) y: Number<I, L>,
    pub(super) is_negative: I::M,
}

impl<I: CurveIsa, const L: usize> Affine<I, L> {
    /// A point that is not turned.
    #[inline(always)]
    pub(super) fn new(isa: I, x: Number<I, L>, y: Number<I, L>) -> Affine<I, L> {
        Affine { x, y, is_negative: isa.equal(isa.splat(0), isa.splat(1)) }
    }

    /// The same in Jacobian coordinates.
    #[inline(always)]
    pub(super) fn point<C: Curve<L>>(&self, isa: I) -> Point<I, L> {
        let field = Prime::<I, C, L>::new(isa);
        let negative = field.settle(field.subtract(&[isa.splat(0); L], &self.y));
        Point { x: self.x, y: field.select(self.is_negative, &negative, &self.y), z: field.splat(&C::Prime::ONE) }
    }
}

impl<I: CurveIsa, const L: usize> Point<I, L> {
    /// Twice the point.
    #[inline(always)]
    pub(super) fn double<C: Curve<L>>(&mut self, isa: I) {
        *self = isa.call(Double { point: self, curve: core::marker::PhantomData::<C> });
    }

    /// Adds an affine point.
    #[inline(always)]
    pub(super) fn add<C: Curve<L>>(&mut self, isa: I, other: &Affine<I, L>) {
        *self = isa.call(Add { point: self, other, curve: core::marker::PhantomData::<C> });
    }

    /// Adds an affine point which may be the point itself.
    #[inline(always)]
    pub(super) fn add_last<C: Curve<L>>(&mut self, isa: I, other: &Affine<I, L>) {
        let field = Prime::<I, C, L>::new(isa);
        let mut doubled = *self;
        doubled.double::<C>(isa);
        self.add::<C>(isa, other);
        // With the same x, Z is zero, and X is the square of the difference of the ys.
        let (x, z) = (field.leave(&self.x), field.leave(&self.z));
        let is_same = field.is_zero(&filled!(i < L, isa.splat(0), isa.or(x[i], z[i])));
        self.x = field.select(is_same, &doubled.x, &self.x);
        self.y = field.select(is_same, &doubled.y, &self.y);
        self.z = field.select(is_same, &doubled.z, &self.z);
    }
}

struct Double<'a, I: Vectors, C, const L: usize> {
    point: &'a Point<I, L>,
    curve: core::marker::PhantomData<C>,
}

impl<I: CurveIsa, C: Curve<L>, const L: usize> Step<I> for Double<'_, I, C, L> {
    type Out = Point<I, L>;

    #[inline(always)]
    fn run(self, isa: I) -> Point<I, L> {
        let field = Prime::<I, C, L>::new(isa);
        let Point { x, y, z } = self.point;
        // Below 1.13 and 1.25.
        let (delta, gamma) = (field.square(z), field.square(y));
        // 5, and 2 · 5 / 16 + 1: below 1.63.
        let gamma_4 = field.carry(field.shift::<2>(&gamma));
        let beta_4 = field.multiply(x, &gamma_4);
        // 3 (X - delta) (X + delta): the factors are below 2.01 and 9.5, alpha below 2.2.
        let sum = field.add(x, &delta);
        let sum_3 = field.carry(field.add(&sum, &field.shift::<1>(&sum)));
        let alpha = field.multiply(&field.settle(field.subtract(x, &delta)), &sum_3);
        let x_out = field.settle(field.subtract(&field.square(&alpha), &field.shift::<1>(&beta_4)));
        let to_x = field.settle(field.subtract(&beta_4, &x_out));
        // alpha (beta_4 - X) - 8 gamma²: (2.2 · 2.01 + 5 · 2.01) / 16 + 1 is below 2.
        let gamma_minus_2 = field.settle(field.subtract(&[isa.splat(0); L], &field.shift::<1>(&gamma)));
        let y_out = field.multiply_add([&alpha, &to_x], [&gamma_4, &gamma_minus_2]);
        // 2 · 2.8 / 16 + 1: below 1.4.
        let z_out = field.multiply(y, &field.carry(field.shift::<1>(z)));
        Point { x: x_out, y: y_out, z: z_out }
    }
}

struct Add<'a, I: Vectors, C, const L: usize> {
    point: &'a Point<I, L>,
    other: &'a Affine<I, L>,
    curve: core::marker::PhantomData<C>,
}

impl<I: CurveIsa, C: Curve<L>, const L: usize> Step<I> for Add<'_, I, C, L> {
    type Out = Point<I, L>;

    #[inline(always)]
    fn run(self, isa: I) -> Point<I, L> {
        let field = Prime::<I, C, L>::new(isa);
        let zero = [isa.splat(0); L];
        let Point { x, y, z } = self.point;
        // All below 1.3.
        let z_2 = field.square(z);
        let other_x = field.multiply(&self.other.x, &z_2);
        let other_y = field.multiply(&self.other.y, &field.multiply(z, &z_2));
        let other_y = field.select(self.other.is_negative, &field.subtract(&zero, &other_y), &other_y);
        let h = field.settle(field.subtract(&other_x, x));
        let r = field.settle(field.subtract(&other_y, y));
        // Below 1.26, 1.16 and 1.16.
        let h_2 = field.square(&h);
        let h_3 = field.multiply(&h, &h_2);
        let v = field.multiply(x, &h_2);
        let taken = field.add(&h_3, &field.shift::<1>(&v));
        let x_out = field.settle(field.subtract(&field.square(&r), &taken));
        // r (v - X) - Y h³: (2.01² + 2 · 2.01) / 16 + 1 is below 1.6.
        let to_x = field.settle(field.subtract(&v, &x_out));
        let y_out = field.multiply_add([&r, &to_x], [y, &field.settle(field.subtract(&zero, &h_3))]);
        // 1.4 · 2.01 / 16 + 1: below 1.2.
        let z_out = field.multiply(z, &h);
        Point { x: x_out, y: y_out, z: z_out }
    }
}

/// Where affine points are on the curve.
#[inline(always)]
pub(super) fn is_on_curve<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    x: &Number<I, L>,
    y: &Number<I, L>,
) -> I::M {
    let field = Prime::<I, C, L>::new(isa);
    // x (x² - 3) + b - y². The square's three is in Montgomery's form too.
    let three = field.splat(&C::Prime::ONE);
    let three = field.add(&three, &field.shift::<1>(&three));
    let factor = field.settle(field.subtract(&field.square(x), &three));
    let right = field.add(&field.multiply(x, &factor), &field.splat(&C::B_FORM));
    field.is_zero(&field.leave(&field.settle(field.subtract(&right, &field.square(y)))))
}

/// The odd multiples of a point, from the first to the `count`th: their affine coordinates but for the factors in `scales`,
/// which has one less, for the first multiple is the point itself.
///
/// Twice the point is affine on a curve that is isomorphic to this one. Adding affine points takes no constants of the
/// curve, so that the multiples are summed there, and come back with a `Z` that is as many times as large.
#[inline(always)]
pub(super) fn odd_multiples<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    point: &Affine<I, L>,
    table: Numbers<I, L>,
    scales: Numbers<I, L>,
    count: usize,
) {
    let field = Prime::<I, C, L>::new(isa);
    let mut twice = point.point::<C>(isa);
    twice.double::<C>(isa);
    let z_2 = field.square(&twice.z);
    let z_3 = field.multiply(&z_2, &twice.z);
    let mut multiple =
        Point { x: field.multiply(&point.x, &z_2), y: field.multiply(&point.y, &z_3), z: field.splat(&C::Prime::ONE) };
    table.set(isa, 0, &point.x);
    table.set(isa, 1, &point.y);
    let twice_there = Affine::new(isa, twice.x, twice.y);
    for index in 1..count {
        multiple.add::<C>(isa, &twice_there);
        table.set(isa, 2 * index, &multiple.x);
        table.set(isa, 2 * index + 1, &multiple.y);
        scales.set(isa, index - 1, &field.multiply(&multiple.z, &twice.z));
    }
}

/// Makes the multiples affine, with the inverses of their scales.
#[inline(always)]
pub(super) fn scale_multiples<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    table: Numbers<I, L>,
    inverses: Numbers<I, L>,
    count: usize,
) {
    for index in 1..count {
        let (x, y) = (table.get(isa, 2 * index), table.get(isa, 2 * index + 1));
        let [x, y] = scaled::<I, C, L>(isa, &x, &y, &inverses.get(isa, index - 1));
        table.set(isa, 2 * index, &x);
        table.set(isa, 2 * index + 1, &y);
    }
}

/// Affine coordinates, with the inverse of `Z`.
#[inline(always)]
pub(super) fn scaled<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    x: &Number<I, L>,
    y: &Number<I, L>,
    inverse: &Number<I, L>,
) -> [Number<I, L>; 2] {
    let field = Prime::<I, C, L>::new(isa);
    let inverse_2 = field.square(inverse);
    [field.multiply(x, &inverse_2), field.multiply(y, &field.multiply(&inverse_2, inverse))]
}
