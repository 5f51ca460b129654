//! What is done with points of many operations at once: multiples, sums, roots.
//!
//! The floor of a multiple is the ladder: for each bit of the order five products, or six unless `b` is one, and four squares. With
//! `W (W + 1)` instructions of VPCLMULQDQ for the products of eight lanes, and `2 W` for their squares, K-163 takes 13,700 of them,
//! B-163 15,600, K-571 290,000, and one of 512 bits starts a cycle (Zen 4). Inversions are shared by a few groups of lanes. The ladder
//! of 163 bits takes some five times as many other instructions: sums, unpacking, reductions.

use zeroize::Zeroize;

use super::curve::Curve;
use super::field::{Element, Polynomial};
use super::isa::{Carryless, LANES_MAX, Task};
use super::points::{Points, Recovery};
use crate::declassify::declassify;

/// Groups of operations, one a lane, that share inversions.
pub(super) const GROUPS_MAX: usize = 4;

/// Affine coordinates.
pub(super) type Affine<const W: usize> = [[u64; W]; 2];

/// An operation: a scalar from one to the order less one, and a point.
#[derive(Clone, Copy)]
pub(super) struct Factor<'a, const W: usize> {
    pub(super) scalar: &'a [u64; W],
    pub(super) point: &'a Affine<W>,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Multiple<const W: usize> {
    /// The product.
    Done(Affine<W>),
    /// The point is not in the group.
    BadPoint,
    /// The product is not on the curve.
    Fault,
}

impl<const W: usize> Zeroize for Multiple<W> {
    fn zeroize(&mut self) {
        if let Multiple::Done(point) = self {
            point.zeroize();
        }
    }
}

/// Multiplies the points of a few groups of operations.
pub(super) struct Multiply<'a, F: 'static, const W: usize> {
    pub(super) curve: &'static Curve<F, W>,
    pub(super) factors: &'a [Factor<'a, W>],
    /// Whether points are looked at first; those that are known to be in the group need not be.
    pub(super) checks: bool,
}

/// A group of operations on the way to their products.
#[derive(Clone, Copy)]
struct Group<I: Carryless, const W: usize> {
    x: Element<I, W>,
    recovery: Recovery<I, W>,
    /// Where points are in the group.
    good: I::V,
}

/// Vectors that hold secrets, wiped when dropped.
struct Wiped<T: Copy> {
    all: Vec<T>,
    blank: T,
}

impl<T: Copy> Drop for Wiped<T> {
    fn drop(&mut self) {
        for item in &mut self.all {
            // SAFETY: a place of the vector, which is there to be overwritten. The write is not left out although nothing reads it.
            unsafe { core::ptr::from_mut(item).write_volatile(self.blank) };
        }
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }
}

/// Words of operations as vectors; lanes without an operation repeat the first one.
#[inline(always)]
pub(super) fn transposed<'a, I: Carryless, T, const W: usize>(
    isa: I,
    items: &'a [T],
    words: impl Fn(&'a T) -> &'a [u64; W],
) -> Element<I, W> {
    let mut all = [[0; LANES_MAX]; W];
    for lane in 0..I::LANES {
        let item = words(items.get(lane).unwrap_or(&items[0]));
        for (vector, word) in all.iter_mut().zip(item) {
            vector[lane] = *word;
        }
    }
    all.map(|words| isa.load(&words))
}

/// One lane's words of every vector.
#[inline(always)]
pub(super) fn lanes<I: Carryless, const W: usize>(isa: I, element: &Element<I, W>) -> [[u64; W]; LANES_MAX] {
    let stored = element.map(|vector| isa.store(vector));
    core::array::from_fn(|lane| core::array::from_fn(|word| stored[word][lane]))
}

impl<F: Polynomial<W>, const W: usize> Task for Multiply<'_, F, W> {
    type Out = Vec<Multiple<W>>;

    #[inline(always)]
    fn run<I: Carryless>(self, isa: I) -> Vec<Multiple<W>> {
        debug_assert!(
            self.factors.iter().flat_map(|factor| factor.point).all(|words| words[W - 1] >> (F::DEGREE % 64) == 0)
        );
        let points = Points::<I, F, W>::new(isa, self.curve);
        let field = points.field;
        let one = field.one();
        let count = self.factors.len().div_ceil(I::LANES);
        let mut denominators = Wiped { all: vec![one; count], blank: one };
        let mut products = Wiped { all: vec![one; count], blank: one };
        let mut groups: Wiped<Option<Group<I, W>>> = Wiped { all: vec![None; count], blank: None };
        for (index, factors) in self.factors.chunks(I::LANES).enumerate() {
            let scalar = transposed(isa, factors, |factor| factor.scalar);
            let mut x = transposed(isa, factors, |factor| &factor.point[0]);
            let mut y = transposed(isa, factors, |factor| &factor.point[1]);
            let mut good = isa.zero_mask(isa.splat(0));
            if self.checks {
                good = isa.and(points.is_on_curve(&x, &y), points.is_in_subgroup(&x, &y));
                // Another point instead, so that nothing is computed outside the group.
                let [instead_x, instead_y] = self.curve.generator.map(|words| field.splat(&words));
                (x, y) = (field.select(good, &x, &instead_x), field.select(good, &y, &instead_y));
            }
            let recovery = points.recover(&points.ladder(&scalar, &x), &x, &y);
            denominators.all[index] = recovery.denominator;
            groups.all[index] = Some(Group { x, recovery, good });
        }
        // A denominator of zero, which only a fault can lead to, makes all of its lane zero. No such point is on the curve.
        field.invert_all(&mut denominators.all, &mut products.all);
        let mut multiples = Vec::with_capacity(count * I::LANES);
        for (group, inverse) in groups.all.iter().flatten().zip(&denominators.all) {
            let [x, y] = points.finish(&group.recovery, inverse, &group.x);
            let (on_curve, good) = (isa.store(points.is_on_curve(&x, &y)), isa.store(group.good));
            let (x, y) = (lanes(isa, &x), lanes(isa, &y));
            let (good, on_curve) = (declassify(good), declassify(on_curve));
            multiples.extend((0..I::LANES).map(|lane| match (good[lane], on_curve[lane]) {
                (0, _) => Multiple::BadPoint,
                (_, 0) => Multiple::Fault,
                _ => Multiple::Done([x[lane], y[lane]]),
            }));
        }
        multiples.truncate(self.factors.len());
        multiples
    }
}
