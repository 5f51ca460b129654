//! Binary fields, an element a lane, in `W` words of 64 coefficients.
//!
//! A product of `W` words is made of `W (W + 1) / 2` products of words (Karatsuba's identity for each pair of words: Weimerskirch and
//! Paar 2003), each of them two instructions of VPCLMULQDQ; a square of `W`. They are summed as they come from the instructions;
//! unpacking them is `4 W - 2` instructions more. The reduction is two or four shifts each way for each word above the degree.
//!
//! *Bounds.* Elements have no bits from the degree on: [`BinaryField::reduce`] leaves none, and nothing else makes any.

use super::super::unrolled::{filled, unrolled};
use super::isa::Carryless;
use crate::instruction_set::Step;

/// The most words of an element: 571 bits.
pub(super) const WORDS_MAX: usize = 9;

/// An element of each lane: word `i` of all is one vector.
pub(super) type Element<I, const W: usize> = [<I as Carryless>::V; W];

/// The columns of a product; those from `2 W - 1` on stay zero and cost nothing.
type Columns<I> = [<I as Carryless>::P; 2 * WORDS_MAX - 1];

/// Elements of so few words are multiplied where they stand in the ladder's step, others by a call.
const INLINED_WORDS: usize = 5;

/// A field by its polynomial `t^DEGREE + t^MIDDLE… + 1`.
pub(super) trait Polynomial<const W: usize>: Copy + 'static {
    const DEGREE: usize;
    const MIDDLE: &'static [usize];
    /// The coefficients that add up to the trace.
    const TRACE: [u64; W] = trace(Self::DEGREE, Self::MIDDLE);
}

/// The traces of `t^i`, which are the power sums of the polynomial's roots, by Newton's identities.
const fn trace<const W: usize>(degree: usize, middle: &[usize]) -> [u64; W] {
    let mut sums = [0u64; W];
    // That of one: the degree is odd.
    sums[0] = 1;
    let mut i = 1;
    while i < degree {
        let mut sum = 0;
        let mut at = 0;
        while at < middle.len() {
            // The elementary symmetric function of this number of roots is one.
            let roots = degree - middle[at];
            if roots == i {
                sum ^= i as u64 & 1;
            } else if roots < i {
                sum ^= sums[(i - roots) / 64] >> ((i - roots) % 64) & 1;
            }
            at += 1;
        }
        sums[i / 64] |= sum << (i % 64);
        i += 1;
    }
    sums
}

/// The elements of a field.
#[derive(Clone, Copy)]
pub(super) struct BinaryField<I, F, const W: usize> {
    pub(super) isa: I,
    polynomial: core::marker::PhantomData<F>,
}

impl<I: Carryless, F: Polynomial<W>, const W: usize> BinaryField<I, F, W> {
    #[inline(always)]
    pub(super) fn new(isa: I) -> Self {
        BinaryField { isa, polynomial: core::marker::PhantomData }
    }

    /// The same element in every lane.
    #[inline(always)]
    pub(super) fn splat(self, words: &[u64; W]) -> Element<I, W> {
        words.map(|word| self.isa.splat(word))
    }

    #[inline(always)]
    pub(super) fn one(self) -> Element<I, W> {
        let mut one = [self.isa.splat(0); W];
        one[0] = self.isa.splat(1);
        one
    }

    #[inline(always)]
    pub(super) fn add(self, a: &Element<I, W>, b: &Element<I, W>) -> Element<I, W> {
        filled!(i < W, self.isa.splat(0), self.isa.xor(a[i], b[i]))
    }

    /// `a` where the mask is all ones, `b` where it is zero.
    #[inline(always)]
    pub(super) fn select(self, mask: I::V, a: &Element<I, W>, b: &Element<I, W>) -> Element<I, W> {
        filled!(i < W, self.isa.splat(0), self.isa.select(mask, a[i], b[i]))
    }

    /// The element where the mask is all ones, zero where it is zero.
    #[inline(always)]
    pub(super) fn masked(self, mask: I::V, a: &Element<I, W>) -> Element<I, W> {
        filled!(i < W, self.isa.splat(0), self.isa.and(mask, a[i]))
    }

    /// All ones where the element is zero.
    #[inline(always)]
    pub(super) fn zero_mask(self, a: &Element<I, W>) -> I::V {
        let any = a[1..].iter().fold(a[0], |any, word| self.isa.or(any, *word));
        self.isa.zero_mask(any)
    }

    /// All ones where the trace is zero.
    #[inline(always)]
    pub(super) fn trace_is_zero(self, a: &Element<I, W>) -> I::V {
        let isa = self.isa;
        let mut sum = isa.splat(0);
        for (word, mask) in a.iter().zip(F::TRACE) {
            sum = isa.xor(sum, isa.and(*word, isa.splat(mask)));
        }
        for bits in [32, 16, 8, 4, 2, 1] {
            sum = isa.xor(sum, isa.shr(sum, bits));
        }
        isa.zero_mask(isa.and(sum, isa.splat(1)))
    }

    #[inline(always)]
    pub(super) fn multiply(self, a: &Element<I, W>, b: &Element<I, W>) -> Element<I, W> {
        self.isa.call(Multiply { field: self, a, b })
    }

    #[inline(always)]
    pub(super) fn square(self, a: &Element<I, W>) -> Element<I, W> {
        self.square_times(a, 1)
    }

    /// The element squared so many times.
    #[inline(always)]
    pub(super) fn square_times(self, a: &Element<I, W>, times: usize) -> Element<I, W> {
        self.isa.call(Squares { field: self, a, times })
    }

    /// The inverse, `a^(2^degree - 2)`; zero for zero. Keeps `power = a^(2^bits - 1)` for the leading bits of the degree less one (Itoh
    /// and Tsujii 1988).
    #[inline(always)]
    pub(super) fn invert(self, a: &Element<I, W>) -> Element<I, W> {
        let wanted = F::DEGREE - 1;
        let (mut power, mut bits) = (*a, 1);
        for at in (0..wanted.ilog2()).rev() {
            power = self.multiply(&self.square_times(&power, bits), &power);
            bits *= 2;
            if wanted >> at & 1 == 1 {
                power = self.multiply(&self.square(&power), a);
                bits += 1;
            }
        }
        self.square(&power)
    }

    /// Inverts many elements, none of which is zero in any lane, for the price of one inversion and three products each
    /// (Montgomery's trick). `products` are as many elements of working memory.
    #[inline(always)]
    pub(super) fn invert_all(self, all: &mut [Element<I, W>], products: &mut [Element<I, W>]) {
        let mut product = self.one();
        for (element, before) in all.iter().zip(products.iter_mut()) {
            *before = product;
            product = self.multiply(&product, element);
        }
        let mut inverse = self.invert(&product);
        for (element, before) in all.iter_mut().zip(products.iter()).rev() {
            let own = self.multiply(&inverse, before);
            inverse = self.multiply(&inverse, element);
            *element = own;
        }
    }

    /// A `z` with `z² + z = a`, where there is one: the half-trace, the sum of `a^(2^2i)` (ANSI X9.62, D.1.6).
    #[inline(always)]
    pub(super) fn half_trace(self, a: &Element<I, W>) -> Element<I, W> {
        let (mut sum, mut power) = (*a, *a);
        for _ in 0..F::DEGREE / 2 {
            power = self.square_times(&power, 2);
            sum = self.add(&sum, &power);
        }
        sum
    }

    /// [`BinaryField::multiply`] within a step: where it stands, for elements of few words.
    #[inline(always)]
    pub(super) fn multiply_here(self, a: &Element<I, W>, b: &Element<I, W>) -> Element<I, W> {
        if W > INLINED_WORDS {
            return self.multiply(a, b);
        }
        Multiply { field: self, a, b }.run(self.isa)
    }

    /// [`BinaryField::square`] within a step.
    #[inline(always)]
    pub(super) fn square_here(self, a: &Element<I, W>) -> Element<I, W> {
        if W > INLINED_WORDS {
            return self.square(a);
        }
        Squares { field: self, a, times: 1 }.run(self.isa)
    }

    /// `a b + c d`, with one reduction.
    #[inline(always)]
    pub(super) fn multiply_add_here(self, [a, b]: [&Element<I, W>; 2], [c, d]: [&Element<I, W>; 2]) -> Element<I, W> {
        let step = MultiplyAdd { field: self, a, b, c, d };
        if W > INLINED_WORDS { self.isa.call(step) } else { step.run(self.isa) }
    }

    /// `a² + b c`, with one reduction.
    #[inline(always)]
    pub(super) fn square_add_here(self, a: &Element<I, W>, b: &Element<I, W>, c: &Element<I, W>) -> Element<I, W> {
        let step = SquareAdd { field: self, a, b, c };
        if W > INLINED_WORDS { self.isa.call(step) } else { step.run(self.isa) }
    }

    #[inline(always)]
    fn no_columns(self) -> Columns<I> {
        let zero = self.isa.splat(0);
        [self.isa.product(zero, zero); 2 * WORDS_MAX - 1]
    }

    /// Adds the columns of `a b`. Column `k` sums `a_i b_j` for all `i + j = k`; for a pair of different words the two of them are
    /// `(a_i + a_j) (b_i + b_j) + a_i b_i + a_j b_j`, and the latter are summed for all words of the column at once.
    #[inline(always)]
    fn add_product(self, columns: &mut Columns<I>, a: &Element<I, W>, b: &Element<I, W>) {
        let isa = self.isa;
        let own: [I::P; W] = core::array::from_fn(|i| isa.product(a[i], b[i]));
        let mut sum = own[0];
        unrolled!(long k < (2 * W - 1) => {
            if k >= W {
                sum = isa.sum(sum, own[k - W]);
            } else if k > 0 {
                sum = isa.sum(sum, own[k]);
            }
            columns[k] = isa.sum(columns[k], sum);
            unrolled!(i < WORDS_MAX => {
                if i < W && i <= k && i < k - i && k - i < W {
                    let pair = isa.product(isa.xor(a[i], a[k - i]), isa.xor(b[i], b[k - i]));
                    columns[k] = isa.sum(columns[k], pair);
                }
            });
        });
    }

    /// Adds the columns of `a²`: the products of different words cancel.
    #[inline(always)]
    fn add_square(self, columns: &mut Columns<I>, a: &Element<I, W>) {
        unrolled!(long k < (2 * W - 1) => {
            if usize::is_multiple_of(k, 2) {
                columns[k] = self.isa.sum(columns[k], self.isa.product(a[k / 2], a[k / 2]));
            }
        });
    }

    /// Takes multiples of the polynomial away, from the highest word down: `t^DEGREE = t^MIDDLE… + 1`.
    #[inline(always)]
    fn reduce(self, columns: &Columns<I>) -> Element<I, W> {
        let isa = self.isa;
        let mut words = [isa.splat(0); 2 * WORDS_MAX];
        unrolled!(long k < (2 * W - 1) => {
            let [low, high] = isa.halves(columns[k]);
            words[k] = isa.xor(words[k], low);
            words[k + 1] = high;
        });
        unrolled!(below_top < W => {
            let at = 2 * W - 1 - below_top;
            let word = words[at];
            self.add_at(&mut words, word, 64 * at - F::DEGREE, 64);
        });
        let top = F::DEGREE % 64;
        let above = isa.shr(words[W - 1], top as u32);
        words[W - 1] = isa.and(words[W - 1], isa.splat((1 << top) - 1));
        self.add_at(&mut words, above, 0, 64 - top);
        filled!(i < W, isa.splat(0), words[i])
    }

    /// Adds `word (t^MIDDLE… + 1) t^shift`, where the word has so many bits.
    #[inline(always)]
    fn add_at(self, words: &mut [I::V; 2 * WORDS_MAX], word: I::V, shift: usize, bits: usize) {
        self.add_once(words, word, shift, bits);
        for exponent in F::MIDDLE {
            self.add_once(words, word, shift + exponent, bits);
        }
    }

    #[inline(always)]
    fn add_once(self, words: &mut [I::V; 2 * WORDS_MAX], word: I::V, shift: usize, bits: usize) {
        let (at, by) = (shift / 64, shift % 64);
        words[at] = self.isa.xor(words[at], self.isa.shl(word, by as u32));
        if by + bits > 64 {
            words[at + 1] = self.isa.xor(words[at + 1], self.isa.shr(word, 64 - by as u32));
        }
    }
}

struct Multiply<'a, I: Carryless, F, const W: usize> {
    field: BinaryField<I, F, W>,
    a: &'a Element<I, W>,
    b: &'a Element<I, W>,
}

impl<I: Carryless, F: Polynomial<W>, const W: usize> Step<I> for Multiply<'_, I, F, W> {
    type Out = Element<I, W>;

    #[inline(always)]
    fn run(self, _: I) -> Element<I, W> {
        let mut columns = self.field.no_columns();
        self.field.add_product(&mut columns, self.a, self.b);
        self.field.reduce(&columns)
    }
}

struct Squares<'a, I: Carryless, F, const W: usize> {
    field: BinaryField<I, F, W>,
    a: &'a Element<I, W>,
    times: usize,
}

impl<I: Carryless, F: Polynomial<W>, const W: usize> Step<I> for Squares<'_, I, F, W> {
    type Out = Element<I, W>;

    #[inline(always)]
    fn run(self, _: I) -> Element<I, W> {
        let mut square = *self.a;
        for _ in 0..self.times {
            let mut columns = self.field.no_columns();
            self.field.add_square(&mut columns, &square);
            square = self.field.reduce(&columns);
        }
        square
    }
}

struct MultiplyAdd<'a, I: Carryless, F, const W: usize> {
    field: BinaryField<I, F, W>,
    a: &'a Element<I, W>,
    b: &'a Element<I, W>,
    c: &'a Element<I, W>,
    d: &'a Element<I, W>,
}

impl<I: Carryless, F: Polynomial<W>, const W: usize> Step<I> for MultiplyAdd<'_, I, F, W> {
    type Out = Element<I, W>;

    #[inline(always)]
    fn run(self, _: I) -> Element<I, W> {
        let mut columns = self.field.no_columns();
        self.field.add_product(&mut columns, self.a, self.b);
        self.field.add_product(&mut columns, self.c, self.d);
        self.field.reduce(&columns)
    }
}

struct SquareAdd<'a, I: Carryless, F, const W: usize> {
    field: BinaryField<I, F, W>,
    a: &'a Element<I, W>,
    b: &'a Element<I, W>,
    c: &'a Element<I, W>,
}

impl<I: Carryless, F: Polynomial<W>, const W: usize> Step<I> for SquareAdd<'_, I, F, W> {
    type Out = Element<I, W>;

    #[inline(always)]
    fn run(self, _: I) -> Element<I, W> {
        let mut columns = self.field.no_columns();
        self.field.add_square(&mut columns, self.a);
        self.field.add_product(&mut columns, self.b, self.c);
        self.field.reduce(&columns)
    }
}
