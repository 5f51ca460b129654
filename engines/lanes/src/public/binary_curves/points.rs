//! Points, one a lane: whether they are in the group, their sums, and the ladder that multiplies them.

use super::curve::Curve;
use super::field::{BinaryField, Element, Polynomial};
use super::isa::Carryless;
use crate::instruction_set::Step;

/// A curve with the field that its points' coordinates are in.
pub(super) struct Points<'c, I, F, const W: usize> {
    pub(super) field: BinaryField<I, F, W>,
    pub(super) curve: &'c Curve<F, W>,
}

impl<I: Copy, F: Copy, const W: usize> Clone for Points<'_, I, F, W> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Copy, F: Copy, const W: usize> Copy for Points<'_, I, F, W> {}

/// An `x` as a quotient; `z` is zero for the point at infinity.
#[derive(Clone, Copy)]
pub(super) struct Quotient<I: Carryless, const W: usize> {
    pub(super) x: Element<I, W>,
    pub(super) z: Element<I, W>,
}

/// `k P` and `(k + 1) P`.
pub(super) type Neighbours<I, const W: usize> = [Quotient<I, W>; 2];

impl<'c, I: Carryless, F: Polynomial<W>, const W: usize> Points<'c, I, F, W> {
    #[inline(always)]
    pub(super) fn new(isa: I, curve: &'c Curve<F, W>) -> Self {
        Points { field: BinaryField::new(isa), curve }
    }

    /// Where points are on the curve.
    #[inline(always)]
    pub(super) fn is_on_curve(self, x: &Element<I, W>, y: &Element<I, W>) -> I::V {
        let field = self.field;
        let left = field.multiply(y, &field.add(x, y));
        let right = field.multiply(&field.square(x), &field.add(x, &field.splat(&self.curve.a)));
        field.zero_mask(&field.add(&field.add(&left, &right), &field.splat(&self.curve.b)))
    }

    /// Where points of the curve are in the subgroup of prime order. The group is cyclic, so that these are the points that can be
    /// halved as often as the cofactor is divisible by two.
    ///
    /// A point can be halved if `x + a` has a trace of zero (Knudsen 1999, "Elliptic scalar multiplication using point halving"): then
    /// it is `λ² + λ` for the `λ = x' + y' / x'` of a half, whose `x'` is the root of `y + (λ + 1) x`. Its trace is that of its square.
    /// The other half differs by the point of order two, which is a double itself where the cofactor is four.
    #[inline(always)]
    pub(super) fn is_in_subgroup(self, x: &Element<I, W>, y: &Element<I, W>) -> I::V {
        let (field, isa) = (self.field, self.field.isa);
        let a = field.splat(&self.curve.a);
        let with_a = field.add(x, &a);
        let once = field.trace_is_zero(&with_a);
        if self.curve.cofactor == 2 {
            return once;
        }
        let slope = field.add(&field.half_trace(&with_a), &field.one());
        let half_x_2 = field.add(y, &field.multiply(&slope, x));
        isa.and(once, field.trace_is_zero(&field.add(&half_x_2, &a)))
    }

    /// The ladder for each lane's scalar below the order and a point's `x` other than zero.
    #[inline(always)]
    pub(super) fn ladder(self, scalar: &Element<I, W>, x: &Element<I, W>) -> Neighbours<I, W> {
        let (field, isa) = (self.field, self.field.isa);
        let zero = isa.splat(0);
        // The point at infinity, as if it had been doubled for a bit of zero, and the point itself.
        let mut double = Quotient { x: field.one(), z: [zero; W] };
        let mut sum = Quotient { x: *x, z: field.one() };
        let mut before = zero;
        for bit in (0..self.curve.order_bits).rev() {
            let now = isa.and(isa.shr(scalar[bit / 64], (bit % 64) as u32), isa.splat(1));
            // `double` belongs to the bit before: it is doubled again when this one is the same.
            let again = isa.zero_mask(isa.xor(now, before));
            [double, sum] = isa.call(LadderStep { points: self, double: &double, sum: &sum, again, x });
            before = now;
        }
        let is_even = isa.zero_mask(before);
        let select = |a: &Quotient<I, W>, b: &Quotient<I, W>| Quotient {
            x: field.select(is_even, &a.x, &b.x),
            z: field.select(is_even, &a.z, &b.z),
        };
        [select(&double, &sum), select(&sum, &double)]
    }

    /// What an affine product is made of, to be multiplied by the inverse of the third: numerators of `x` and of `y` without the
    /// point's own (López and Dahab 1999, lemma 3), and the denominator `x z z'`, zero only where the product is infinity.
    #[inline(always)]
    pub(super) fn recover(
        self,
        [low, high]: &Neighbours<I, W>,
        x: &Element<I, W>,
        y: &Element<I, W>,
    ) -> Recovery<I, W> {
        let field = self.field;
        // The order less one has infinity for its neighbour, and the product is the negative point, (x, x + y).
        let is_last = field.zero_mask(&high.z);
        let high_z = field.select(is_last, &field.one(), &high.z);
        let z_z = field.multiply(&low.z, &high_z);
        let high_x_part = field.multiply(x, &high_z);
        let from_low = field.add(&low.x, &field.multiply(x, &low.z));
        let from_high = field.add(&high.x, &high_x_part);
        let curved = field.multiply(&field.add(&field.square(x), y), &z_z);
        Recovery {
            x: field.multiply(&low.x, &high_x_part),
            slope: field.add(&field.multiply(&from_low, &from_high), &curved),
            addend: field.add(y, &field.masked(is_last, x)),
            denominator: field.multiply(x, &z_z),
        }
    }

    /// The affine product, with the inverse of the denominator.
    #[inline(always)]
    pub(super) fn finish(
        self,
        recovery: &Recovery<I, W>,
        inverse: &Element<I, W>,
        x: &Element<I, W>,
    ) -> [Element<I, W>; 2] {
        let field = self.field;
        let product_x = field.multiply(&recovery.x, inverse);
        let slope = field.multiply(&recovery.slope, inverse);
        let product_y = field.multiply(&field.add(x, &product_x), &slope);
        [product_x, field.add(&product_y, &recovery.addend)]
    }
}

/// See [`Points::recover`].
#[derive(Clone, Copy)]
pub(super) struct Recovery<I: Carryless, const W: usize> {
    x: Element<I, W>,
    slope: Element<I, W>,
    addend: Element<I, W>,
    pub(super) denominator: Element<I, W>,
}

/// A step of the ladder of López and Dahab (1999, "Fast Multiplication on Elliptic Curves over GF(2^m) without Precomputation"):
/// `double` and `sum` become twice the one that `again` says and the sum of both, whose difference has the affine coordinate `x`.
///
/// Twice a point is `x⁴ + b z⁴` over `x² z²`; a sum `x (u + v)² + u v` over `(u + v)²`, where `u` and `v` are the products of one
/// point's `x` and the other's `z`.
struct LadderStep<'a, 'c, I: Carryless, F, const W: usize> {
    points: Points<'c, I, F, W>,
    double: &'a Quotient<I, W>,
    sum: &'a Quotient<I, W>,
    again: I::V,
    x: &'a Element<I, W>,
}

impl<I: Carryless, F: Polynomial<W>, const W: usize> Step<I> for LadderStep<'_, '_, I, F, W> {
    type Out = Neighbours<I, W>;

    #[inline(always)]
    fn run(self, _: I) -> Neighbours<I, W> {
        let field = self.points.field;
        let x = field.select(self.again, &self.double.x, &self.sum.x);
        let z = field.select(self.again, &self.double.z, &self.sum.z);
        let one = field.multiply_here(&self.double.x, &self.sum.z);
        let other = field.multiply_here(&self.sum.x, &self.double.z);
        let sum_z = field.square_here(&field.add(&one, &other));
        let sum_x = field.multiply_add_here([self.x, &sum_z], [&one, &other]);
        let (x_2, z_2) = (field.square_here(&x), field.square_here(&z));
        let double_z = field.multiply_here(&x_2, &z_2);
        let double_x = if self.points.curve.is_koblitz() {
            field.square_here(&field.add(&x_2, &z_2))
        } else {
            field.square_add_here(&x_2, &field.splat(&self.points.curve.b), &field.square_here(&z_2))
        };
        [Quotient { x: double_x, z: double_z }, Quotient { x: sum_x, z: sum_z }]
    }
}
