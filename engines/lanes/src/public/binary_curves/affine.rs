//! What is done with points beside their multiples, all of it public: whether one is in the group, which one has an `x`, and sums.

use super::curve::Curve;
use super::field::Polynomial;
use super::isa::{Carryless, Task};
use super::multiply::{Affine, lanes, transposed};
use super::points::Points;

/// Whether a point is in the group.
pub(super) struct IsMember<'a, F: 'static, const W: usize> {
    pub(super) curve: &'static Curve<F, W>,
    pub(super) point: &'a Affine<W>,
}

impl<F: Polynomial<W>, const W: usize> Task for IsMember<'_, F, W> {
    type Out = bool;

    #[inline(always)]
    fn run<I: Carryless>(self, isa: I) -> bool {
        let points = Points::<I, F, W>::new(isa, self.curve);
        let [x, y] = [0, 1].map(|index| points.field.splat(&self.point[index]));
        isa.store(isa.and(points.is_on_curve(&x, &y), points.is_in_subgroup(&x, &y)))[0] != 0
    }
}

/// The point with this `x`, not zero, by the bit that stands for its `y`: the last one of `y / x` (SEC 1, 2.3.4).
pub(super) struct Decompress<'a, F: 'static, const W: usize> {
    pub(super) curve: &'static Curve<F, W>,
    pub(super) x: &'a [u64; W],
    pub(super) bit: bool,
}

impl<F: Polynomial<W>, const W: usize> Task for Decompress<'_, F, W> {
    /// Not on the curve where no point has the `x`.
    type Out = Affine<W>;

    #[inline(always)]
    fn run<I: Carryless>(self, isa: I) -> Affine<W> {
        let points = Points::<I, F, W>::new(isa, self.curve);
        let field = points.field;
        let x = field.splat(self.x);
        let inverse_2 = field.square(&field.invert(&x));
        let right = field.add(&x, &field.splat(&self.curve.a));
        let right = field.add(&right, &field.multiply(&field.splat(&self.curve.b), &inverse_2));
        let mut quotient = field.half_trace(&right);
        // One of two roots, which differ by one.
        quotient[0] = isa.or(isa.and(quotient[0], isa.splat(!1)), isa.splat(self.bit.into()));
        [*self.x, lanes(isa, &field.multiply(&x, &quotient))[0]]
    }
}

/// The `x` of sums of points of the group; none of those that are infinity.
pub(super) struct Sums<'a, F: 'static, const W: usize> {
    pub(super) curve: &'static Curve<F, W>,
    pub(super) pairs: &'a [[Affine<W>; 2]],
}

impl<F: Polynomial<W>, const W: usize> Task for Sums<'_, F, W> {
    type Out = Vec<Option<[u64; W]>>;

    #[inline(always)]
    fn run<I: Carryless>(self, isa: I) -> Vec<Option<[u64; W]>> {
        let field = Points::<I, F, W>::new(isa, self.curve).field;
        let count = self.pairs.len().div_ceil(I::LANES);
        let coordinates = |pairs| {
            [[0, 0], [0, 1], [1, 0], [1, 1]]
                .map(|[point, axis]| transposed(isa, pairs, |pair: &[Affine<W>; 2]| &pair[point][axis]))
        };
        let mut denominators = vec![field.one(); count];
        for (pairs, denominator) in self.pairs.chunks(I::LANES).zip(&mut denominators) {
            let [x_1, _, x_2, _] = coordinates(pairs);
            let difference = field.add(&x_1, &x_2);
            *denominator = field.select(field.zero_mask(&difference), &x_1, &difference);
        }
        // No x of the group is zero.
        let mut products = vec![field.one(); count];
        field.invert_all(&mut denominators, &mut products);
        let mut sums = Vec::with_capacity(count * I::LANES);
        for (pairs, inverse) in self.pairs.chunks(I::LANES).zip(&denominators) {
            let [x_1, y_1, x_2, y_2] = coordinates(pairs);
            let (x, y) = (field.add(&x_1, &x_2), field.add(&y_1, &y_2));
            let is_alike = field.zero_mask(&x);
            let is_double = isa.and(is_alike, field.zero_mask(&y));
            // The slope is x + y / x of a point that is doubled.
            let slope = field.multiply(&field.select(is_alike, &y_1, &y), inverse);
            let slope = field.add(&slope, &field.masked(is_alike, &x_1));
            let sum = field.add(&field.add(&field.square(&slope), &slope), &x);
            let sum = lanes(isa, &field.add(&sum, &field.splat(&self.curve.a)));
            let (is_alike, is_double) = (isa.store(is_alike), isa.store(is_double));
            sums.extend((0..I::LANES).map(|lane| (is_alike[lane] == is_double[lane]).then_some(sum[lane])));
        }
        sums.truncate(self.pairs.len());
        sums
    }
}
