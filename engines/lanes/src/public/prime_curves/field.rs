//! Numbers modulo a prime or an order, one a lane, in Montgomery's form (Montgomery 1985).
//!
//! A product of `L` limbs is `2 L²` multiply-adds of 52 bits into `2 L` columns, a square `L (L + 1)`; the reduction is a
//! limb at a time, with two multiply-adds for each limb of [`Modulus::ADDED`] that is not zero, and one for the multiple
//! where that is not the limb itself: 30 for P-256's prime, 136 and 144 for P-384's prime and order, 22 for P-521's prime.
//!
//! *Bounds.* Factors have limbs below `2^52`, as [`Field::carry`] and [`Field::settle`] leave them: multiply-adds see no
//! more of them. A column sums at most `4 L` halves of products, as many of the reduction and a carry, all below `2^52`:
//! below `2^58` for 11 limbs. With `a < α m` and `b < β m`, the result of a product is below `(1 + α β m / R) m`, where
//! `m / R` is `2^-4` for P-256, `2^-32` for P-384, `2^-51` for P-521 and `2^-47` for secp160r1; with `α β ≤ 16` it is below `2 m`.

use core::marker::PhantomData;

use super::super::isa::{LIMB_BITS, LIMB_MAX, Vectors, low_limb};
use super::super::unrolled::{filled, unrolled};
use super::isa::CurveIsa;
use super::modulus::{FieldPrime, LIMBS_MAX, Modulus, unit};
use super::numbers::{Number, Numbers};
use crate::instruction_set::Step;

/// The columns of a product; those from `2 L` on stay zero and cost nothing.
type Columns<I> = [<I as Vectors>::V; 2 * LIMBS_MAX];

/// Numbers of so few limbs are multiplied where they stand if [`Vectors::INLINES`], others by a call.
const INLINED_LIMBS: usize = 5;

/// Bits of a window of an inversion's exponent, which is public.
const EXPONENT_WINDOW: u32 = 4;

/// Numbers of working memory that an inversion wants.
pub(super) const POWERS: usize = 1 << EXPONENT_WINDOW;

/// The numbers modulo `M`.
pub(super) struct Field<I, M, const L: usize> {
    isa: I,
    modulus: PhantomData<M>,
}

impl<I: Copy, M, const L: usize> Clone for Field<I, M, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Copy, M, const L: usize> Copy for Field<I, M, L> {}

impl<I: CurveIsa, M: Modulus<L>, const L: usize> Field<I, M, L> {
    #[inline(always)]
    pub(super) fn new(isa: I) -> Field<I, M, L> {
        Field { isa, modulus: PhantomData }
    }

    /// The same number in every lane.
    #[inline(always)]
    pub(super) fn splat(self, limbs: &[u64; L]) -> Number<I, L> {
        filled!(i < L, self.isa.splat(0), self.isa.splat(limbs[i]))
    }

    /// Limb by limb, without carries: for what is carried or settled next.
    #[inline(always)]
    pub(super) fn add(self, a: &Number<I, L>, b: &Number<I, L>) -> Number<I, L> {
        filled!(i < L, self.isa.splat(0), self.isa.add(a[i], b[i]))
    }

    /// The same of a difference, whose limbs are signed.
    #[inline(always)]
    pub(super) fn subtract(self, a: &Number<I, L>, b: &Number<I, L>) -> Number<I, L> {
        filled!(i < L, self.isa.splat(0), self.isa.sub(a[i], b[i]))
    }

    /// The same of a number doubled `BITS` times.
    #[inline(always)]
    pub(super) fn shift<const BITS: u32>(self, a: &Number<I, L>) -> Number<I, L> {
        filled!(i < L, self.isa.splat(0), self.isa.shl::<BITS>(a[i]))
    }

    /// Carries signed limbs of a number that is not negative: all are below `2^52` then.
    #[inline(always)]
    pub(super) fn carry(self, mut number: Number<I, L>) -> Number<I, L> {
        unrolled!(i < (L - 1) => {
            number[i + 1] = self.isa.add(number[i + 1], self.isa.sar::<LIMB_BITS>(number[i]));
            number[i] = low_limb(self.isa, number[i]);
        });
        number
    }

    /// One number or the other, by lane.
    #[inline(always)]
    pub(super) fn select(self, which: I::M, a: &Number<I, L>, b: &Number<I, L>) -> Number<I, L> {
        filled!(i < L, self.isa.splat(0), self.isa.select(which, a[i], b[i]))
    }

    /// Where all limbs are zero.
    #[inline(always)]
    pub(super) fn is_zero(self, number: &Number<I, L>) -> I::M {
        let any = number[1..].iter().fold(number[0], |any, limb| self.isa.or(any, *limb));
        self.isa.equal(any, self.isa.splat(0))
    }

    /// `a b / R`.
    #[inline(always)]
    pub(super) fn multiply(self, a: &Number<I, L>, b: &Number<I, L>) -> Number<I, L> {
        if I::INLINES && L <= INLINED_LIMBS {
            self.multiply_here(a, b)
        } else {
            self.isa.call(Multiply { field: self, a, b })
        }
    }

    /// `a² / R`.
    #[inline(always)]
    pub(super) fn square(self, a: &Number<I, L>) -> Number<I, L> {
        if I::INLINES && L <= INLINED_LIMBS { self.square_here(a) } else { self.isa.call(Square { field: self, a }) }
    }

    /// `(a b + c d) / R`, with one reduction; below `(1 + (α β + γ δ) m / R) m`.
    #[inline(always)]
    pub(super) fn multiply_add(self, [a, b]: [&Number<I, L>; 2], [c, d]: [&Number<I, L>; 2]) -> Number<I, L> {
        if I::INLINES && L <= INLINED_LIMBS {
            self.multiply_add_here(a, b, c, d)
        } else {
            self.isa.call(MultiplyAdd { field: self, a, b, c, d })
        }
    }

    #[inline(always)]
    fn multiply_here(self, a: &Number<I, L>, b: &Number<I, L>) -> Number<I, L> {
        let mut columns = [self.isa.splat(0); 2 * LIMBS_MAX];
        self.add_product(&mut columns, a, b);
        self.reduce(columns)
    }

    #[inline(always)]
    fn multiply_add_here(self, a: &Number<I, L>, b: &Number<I, L>, c: &Number<I, L>, d: &Number<I, L>) -> Number<I, L> {
        let mut columns = [self.isa.splat(0); 2 * LIMBS_MAX];
        self.add_product(&mut columns, a, b);
        self.add_product(&mut columns, c, d);
        self.reduce(columns)
    }

    /// Products of different limbs count twice.
    #[inline(always)]
    fn square_here(self, a: &Number<I, L>) -> Number<I, L> {
        let isa = self.isa;
        let mut columns = [isa.splat(0); 2 * LIMBS_MAX];
        unrolled!(i < L => {
            unrolled!(j < i => {
                columns[i + j] = isa.add_low(columns[i + j], a[i], a[j]);
                columns[i + j + 1] = isa.add_high(columns[i + j + 1], a[i], a[j]);
            });
        });
        unrolled!(i < L => {
            columns[2 * i] = isa.add_low(isa.add(columns[2 * i], columns[2 * i]), a[i], a[i]);
            columns[2 * i + 1] = isa.add_high(isa.add(columns[2 * i + 1], columns[2 * i + 1]), a[i], a[i]);
        });
        self.reduce(columns)
    }

    #[inline(always)]
    fn add_product(self, columns: &mut Columns<I>, a: &Number<I, L>, b: &Number<I, L>) {
        unrolled!(i < L => {
            unrolled!(j < L => {
                columns[i + j] = self.isa.add_low(columns[i + j], a[j], b[i]);
                columns[i + j + 1] = self.isa.add_high(columns[i + j + 1], a[j], b[i]);
            });
        });
    }

    /// Adds the multiple of the modulus that makes the lower half of the columns zero; the upper half is the result.
    #[inline(always)]
    fn reduce(self, mut columns: Columns<I>) -> Number<I, L> {
        let isa = self.isa;
        unrolled!(i < L => {
            let multiple = match M::INVERSE {
                1 => columns[i],
                inverse => isa.add_low(isa.splat(0), columns[i], isa.splat(inverse)),
            };
            unrolled!(j < L => {
                if M::ADDED[j] != 0 {
                    let limb = isa.splat(M::ADDED[j]);
                    columns[i + j] = isa.add_low(columns[i + j], multiple, limb);
                    columns[i + j + 1] = isa.add_high(columns[i + j + 1], multiple, limb);
                }
            });
            columns[i + 1] = isa.add(columns[i + 1], isa.shr::<LIMB_BITS>(columns[i]));
        });
        unrolled!(i < (L - 1) => {
            columns[L + i + 1] = isa.add(columns[L + i + 1], isa.shr::<LIMB_BITS>(columns[L + i]));
            columns[L + i] = low_limb(isa, columns[L + i]);
        });
        filled!(i < L, isa.splat(0), columns[L + i])
    }

    /// The Montgomery form of a number below `R`.
    #[inline(always)]
    pub(super) fn enter(self, number: &Number<I, L>) -> Number<I, L> {
        self.multiply(number, &self.splat(&M::RADIX_SQUARED))
    }

    /// The number, below the modulus, of a Montgomery form: the reduction of a number below `R` is at most the modulus.
    #[inline(always)]
    pub(super) fn leave(self, number: &Number<I, L>) -> Number<I, L> {
        let reduced = self.multiply(number, &self.splat(&unit()));
        self.reduce_once(&reduced)
    }

    /// A number below twice the modulus, modulo it.
    #[inline(always)]
    pub(super) fn reduce_once(self, number: &Number<I, L>) -> Number<I, L> {
        let less = self.carry(self.subtract(number, &self.splat(&M::LIMBS)));
        let is_negative = self.isa.equal(self.isa.shr::<63>(less[L - 1]), self.isa.splat(1));
        self.select(is_negative, number, &less)
    }

    /// One over a number that is not zero, in Montgomery's form: its power to `m - 2` (Fermat). `powers` are working memory.
    #[inline(always)]
    pub(super) fn invert(self, number: &Number<I, L>, powers: Numbers<I, L>) -> Number<I, L> {
        let isa = self.isa;
        powers.set(isa, 1, number);
        for index in 2..POWERS {
            let power = self.multiply(&powers.get(isa, index - 1), number);
            powers.set(isa, index, &power);
        }
        let windows = (L as u32 * LIMB_BITS).div_ceil(EXPONENT_WINDOW);
        let digit = |window: u32| {
            let at = window * EXPONENT_WINDOW;
            // A limb is a whole number of windows.
            (M::EXPONENT[(at / LIMB_BITS) as usize] >> (at % LIMB_BITS)) as usize % POWERS
        };
        let mut result = self.splat(&M::ONE);
        let mut is_one = true;
        for window in (0..windows).rev() {
            if !is_one {
                for _ in 0..EXPONENT_WINDOW {
                    result = self.square(&result);
                }
            }
            match digit(window) {
                0 => {}
                digit => {
                    result = self.multiply(&result, &powers.get(isa, digit));
                    is_one = false;
                }
            }
        }
        result
    }

    /// Inverts `count` numbers, none of which is zero, with one inversion (Montgomery 1987): each costs three products.
    #[inline(always)]
    pub(super) fn invert_all(
        self,
        values: Numbers<I, L>,
        count: usize,
        products: Numbers<I, L>,
        powers: Numbers<I, L>,
    ) {
        let isa = self.isa;
        let mut product = values.get(isa, 0);
        for index in 1..count {
            products.set(isa, index, &product);
            product = self.multiply(&product, &values.get(isa, index));
        }
        let mut inverse = self.invert(&product, powers);
        for index in (1..count).rev() {
            let value = values.get(isa, index);
            values.set(isa, index, &self.multiply(&inverse, &products.get(isa, index)));
            inverse = self.multiply(&inverse, &value);
        }
        values.set(isa, 0, &inverse);
    }
}

impl<I: CurveIsa, M: FieldPrime<L>, const L: usize> Field<I, M, L> {
    /// Makes a number that may be negative one that is not, by [`FieldPrime::settle`], and carries it.
    #[inline(always)]
    pub(super) fn settle(self, number: Number<I, L>) -> Number<I, L> {
        self.carry(M::settle(self.isa, number))
    }
}

const _: () = assert!(LIMB_BITS.is_multiple_of(EXPONENT_WINDOW) && LIMB_MAX == (1 << LIMB_BITS) - 1);

struct Multiply<'a, I: CurveIsa, M, const L: usize> {
    field: Field<I, M, L>,
    a: &'a Number<I, L>,
    b: &'a Number<I, L>,
}

impl<I: CurveIsa, M: Modulus<L>, const L: usize> Step<I> for Multiply<'_, I, M, L> {
    type Out = Number<I, L>;

    #[inline(always)]
    fn run(self, _: I) -> Number<I, L> {
        self.field.multiply_here(self.a, self.b)
    }
}

struct MultiplyAdd<'a, I: CurveIsa, M, const L: usize> {
    field: Field<I, M, L>,
    a: &'a Number<I, L>,
    b: &'a Number<I, L>,
    c: &'a Number<I, L>,
    d: &'a Number<I, L>,
}

impl<I: CurveIsa, M: Modulus<L>, const L: usize> Step<I> for MultiplyAdd<'_, I, M, L> {
    type Out = Number<I, L>;

    #[inline(always)]
    fn run(self, _: I) -> Number<I, L> {
        self.field.multiply_add_here(self.a, self.b, self.c, self.d)
    }
}

struct Square<'a, I: CurveIsa, M, const L: usize> {
    field: Field<I, M, L>,
    a: &'a Number<I, L>,
}

impl<I: CurveIsa, M: Modulus<L>, const L: usize> Step<I> for Square<'_, I, M, L> {
    type Out = Number<I, L>;

    #[inline(always)]
    fn run(self, _: I) -> Number<I, L> {
        self.field.square_here(self.a)
    }
}
