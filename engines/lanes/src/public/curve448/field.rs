//! The field of `p = 2^448 - 2^224 - 1`, an element a lane: nine limbs of 50 bits, in vectors of words of 64 bits.
//!
//! The multiply-adds have factors of 52 bits, so that sums and differences of two elements are factors without a carry:
//!
//! - An [`Element`] has limbs below `2^50 + 2^37`. It is what a product leaves.
//! - A [`Sum`] has limbs below `2^52`, and may be a factor.
//!
//! A low half of `a_i b_j` has the weight `2^50(i + j)`, a high half four times the weight of the next column. What is at
//! `2^450` and above goes down by `2^450 = 4 + 2^226`: column `k + 9` counts four times in column `k`, and `2^26` times in column
//! `k + 4`, as its lowest 24 bits there and the others one column up ([`fold`]).
//!
//! *Bounds.* Halves are below `2^52`. Column `k` has `k + 1` low and `k` high halves, column `k + 9` has `8 - k` low and `9 - k` high
//! ones, high ones counting four times: `5 k + 1` and `44 - 5 k` halves. What is folded within the upper columns adds less than
//! `2^50 + 2^36` to any of them. So column `k` ends with less than `5 k + 1 + 4 (44 - 5 k) + 2` halves, 179 at `k = 0`, and column
//! 4 has up to 97 more by what goes round twice: all are below `2^60`. A carry is below `2^10`; that of the highest limb goes to
//! limb 4 as less than `2^36`.
//!
//! Floor: a product is 162 multiply-adds and some 125 other instructions, a square 90 and 150.

use super::super::prime_curves::isa::CurveIsa;
use super::super::room::Place;
use super::super::unrolled::unrolled;
use super::super::vectors::debug_bits;
use crate::instruction_set::Step;

/// Limbs of an element.
pub(super) const LIMBS: usize = 9;

/// Words of 64 bits of a number below `2^448`.
pub(super) const WORDS: usize = 7;

/// Bits of a limb, but for those that were not carried yet.
const RADIX_BITS: u32 = 50;

/// A limb without such bits.
const LIMB_MASK: u64 = (1 << RADIX_BITS) - 1;

/// Bits of the highest limb of a number below `2^448`.
const TOP_BITS: u32 = 48;

/// The limb that has bit 224, and that bit's place in it.
const MIDDLE: usize = 4;
const MIDDLE_BIT: u32 = 24;

/// `8 p`, of which each limb is above an element's, by a borrow of `2^50` from each limb's next.
const EIGHT_P: [u64; LIMBS] = {
    let mut limbs = [(1 << 51) - 2; LIMBS];
    limbs[0] = (1 << 51) - 8;
    limbs[MIDDLE] -= 8 << MIDDLE_BIT;
    limbs
};

/// A number that was carried: limbs below `2^50 + 2^37`.
pub(super) struct Element<I: CurveIsa>(pub(super) [I::V; LIMBS]);

/// A number that may be a factor: limbs below `2^52`.
pub(super) struct Sum<I: CurveIsa>([I::V; LIMBS]);

impl<I: CurveIsa> Clone for Element<I> {
    #[inline(always)]
    fn clone(&self) -> Element<I> {
        *self
    }
}

impl<I: CurveIsa> Copy for Element<I> {}

impl<I: CurveIsa> Clone for Sum<I> {
    #[inline(always)]
    fn clone(&self) -> Sum<I> {
        *self
    }
}

impl<I: CurveIsa> Copy for Sum<I> {}

/// The limbs of a number given as words.
pub(super) const fn limbs_of(words: [u64; WORDS]) -> [u64; LIMBS] {
    let mut limbs = [0; LIMBS];
    let mut i = 0;
    while i < LIMBS {
        let (word, bit) = (i * RADIX_BITS as usize / 64, i * RADIX_BITS as usize % 64);
        let above = if word + 1 < WORDS { words[word + 1] << 1 << (63 - bit) } else { 0 };
        limbs[i] = (words[word] >> bit | above) & LIMB_MASK;
        i += 1;
    }
    limbs
}

/// The words of a number below `2^448` whose limbs have 50 bits.
pub(super) fn words_of(limbs: [u64; LIMBS]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (i, limb) in limbs.into_iter().enumerate() {
        let (word, bit) = (i * RADIX_BITS as usize / 64, i * RADIX_BITS as usize % 64);
        words[word] |= limb << bit;
        if word + 1 < WORDS {
            words[word + 1] |= limb >> 1 >> (63 - bit);
        }
    }
    words
}

/// Where what is at `2^450` and above goes: what of a word `2^26` times in a column counts there, and what one column up.
#[inline(always)]
fn parts<I: CurveIsa>(isa: I, word: I::V) -> (I::V, I::V) {
    let low = isa.and(word, isa.splat((1 << MIDDLE_BIT) - 1));
    (isa.shl::<26>(low), isa.shr::<MIDDLE_BIT>(word))
}

/// The nine upper columns of a product as lower ones.
#[inline(always)]
fn fold<I: CurveIsa>(isa: I, mut upper: [I::V; LIMBS]) -> [I::V; LIMBS] {
    // What the highest four fold into is upper columns again.
    for k in LIMBS - MIDDLE..LIMBS {
        let (here, above) = parts(isa, upper[k]);
        upper[k + MIDDLE - LIMBS] = isa.add(upper[k + MIDDLE - LIMBS], here);
        upper[k + MIDDLE + 1 - LIMBS] = isa.add(upper[k + MIDDLE + 1 - LIMBS], above);
    }
    let mut lower = upper;
    unrolled!(k < LIMBS => {
        lower[k] = isa.shl::<2>(lower[k]);
    });
    let mut top = isa.splat(0);
    for k in 0..LIMBS - MIDDLE {
        let (here, above) = parts(isa, upper[k]);
        lower[k + MIDDLE] = isa.add(lower[k + MIDDLE], here);
        if k + MIDDLE + 1 < LIMBS {
            lower[k + MIDDLE + 1] = isa.add(lower[k + MIDDLE + 1], above);
        } else {
            top = above;
        }
    }
    add_top(isa, &mut lower, top);
    lower
}

/// Adds a word below `2^34` of weight `2^450`.
#[inline(always)]
fn add_top<I: CurveIsa>(isa: I, columns: &mut [I::V; LIMBS], top: I::V) {
    columns[0] = isa.add(columns[0], isa.shl::<2>(top));
    columns[MIDDLE] = isa.add(columns[MIDDLE], isa.shl::<26>(top));
}

/// An element of columns below `2^60`.
#[inline(always)]
fn carry<I: CurveIsa>(isa: I, columns: [I::V; LIMBS]) -> Element<I> {
    debug_bits::<I, 60, _>(isa, &columns);
    let mut out = columns;
    unrolled!(k < LIMBS => {
        out[k] = isa.and(out[k], isa.splat(LIMB_MASK));
    });
    unrolled!(k < LIMBS => {
        if k >= 1 {
            out[k] = isa.add(out[k], isa.shr::<RADIX_BITS>(columns[k - 1]));
        }
    });
    add_top(isa, &mut out, isa.shr::<RADIX_BITS>(columns[LIMBS - 1]));
    Element(out)
}

/// `low + 4 high`.
#[inline(always)]
fn join<I: CurveIsa>(isa: I, low: &[I::V; LIMBS], high: &[I::V; LIMBS]) -> [I::V; LIMBS] {
    let mut out = *low;
    unrolled!(k < LIMBS => {
        out[k] = isa.add(low[k], isa.shl::<2>(high[k]));
    });
    out
}

#[inline(always)]
fn product<I: CurveIsa>(isa: I, a: &[I::V; LIMBS], b: &[I::V; LIMBS]) -> Element<I> {
    let zero = [isa.splat(0); LIMBS];
    let (mut low, mut high) = (zero, zero);
    unrolled!(j < LIMBS => {
        unrolled!(i < LIMBS => {
            if i + j + 1 >= LIMBS {
                let column = i + j + 1 - LIMBS;
                high[column] = isa.add_high(high[column], a[i], b[j]);
            }
            if i + j >= LIMBS {
                low[i + j - LIMBS] = isa.add_low(low[i + j - LIMBS], a[i], b[j]);
            }
        });
    });
    let mut low = fold(isa, join(isa, &low, &high));
    high = zero;
    unrolled!(j < LIMBS => {
        unrolled!(i < LIMBS => {
            if i + j < LIMBS {
                low[i + j] = isa.add_low(low[i + j], a[i], b[j]);
            }
            if i + j + 1 < LIMBS {
                high[i + j + 1] = isa.add_high(high[i + j + 1], a[i], b[j]);
            }
        });
    });
    carry(isa, join(isa, &low, &high))
}

/// Products of different limbs are summed once and doubled.
#[inline(always)]
fn square<I: CurveIsa>(isa: I, a: &[I::V; LIMBS]) -> Element<I> {
    let zero = [isa.splat(0); LIMBS];
    let (mut low, mut high) = (zero, zero);
    unrolled!(j < LIMBS => {
        unrolled!(i < j => {
            if i + j + 1 >= LIMBS {
                let column = i + j + 1 - LIMBS;
                high[column] = isa.add_high(high[column], a[i], a[j]);
            }
            if i + j >= LIMBS {
                low[i + j - LIMBS] = isa.add_low(low[i + j - LIMBS], a[i], a[j]);
            }
        });
    });
    double(isa, &mut low, &zero);
    double(isa, &mut high, &zero);
    for i in LIMBS / 2..LIMBS {
        let column = 2 * i + 1 - LIMBS;
        high[column] = isa.add_high(high[column], a[i], a[i]);
        if column > 0 {
            low[column - 1] = isa.add_low(low[column - 1], a[i], a[i]);
        }
    }
    let folded = fold(isa, join(isa, &low, &high));
    (low, high) = (zero, zero);
    unrolled!(j < LIMBS => {
        unrolled!(i < j => {
            if i + j < LIMBS {
                low[i + j] = isa.add_low(low[i + j], a[i], a[j]);
            }
            if i + j + 1 < LIMBS {
                high[i + j + 1] = isa.add_high(high[i + j + 1], a[i], a[j]);
            }
        });
    });
    double(isa, &mut low, &folded);
    double(isa, &mut high, &zero);
    for i in 0..LIMBS.div_ceil(2) {
        low[2 * i] = isa.add_low(low[2 * i], a[i], a[i]);
        if 2 * i + 1 < LIMBS {
            high[2 * i + 1] = isa.add_high(high[2 * i + 1], a[i], a[i]);
        }
    }
    carry(isa, join(isa, &low, &high))
}

/// `columns = 2 columns + to`.
#[inline(always)]
fn double<I: CurveIsa>(isa: I, columns: &mut [I::V; LIMBS], to: &[I::V; LIMBS]) {
    unrolled!(k < LIMBS => {
        columns[k] = isa.add(isa.add(columns[k], columns[k]), to[k]);
    });
}

/// [`product`] as a function of its own, where it is not inlined.
struct Product<'a, I: CurveIsa>(&'a Sum<I>, &'a Sum<I>);

impl<I: CurveIsa> Step<I> for Product<'_, I> {
    type Out = Element<I>;

    #[inline(always)]
    fn run(self, isa: I) -> Element<I> {
        product(isa, &self.0.0, &self.1.0)
    }
}

/// [`square`] as a function of its own.
struct Square<'a, I: CurveIsa>(&'a Sum<I>);

impl<I: CurveIsa> Step<I> for Square<'_, I> {
    type Out = Element<I>;

    #[inline(always)]
    fn run(self, isa: I) -> Element<I> {
        square(isa, &self.0.0)
    }
}

impl<I: CurveIsa> Sum<I> {
    /// `self` where `which` holds, else `other`.
    #[inline(always)]
    pub(super) fn select(isa: I, which: I::M, yes: &Sum<I>, no: &Sum<I>) -> Sum<I> {
        let mut out = *no;
        unrolled!(i < LIMBS => {
            out.0[i] = isa.select(which, yes.0[i], no.0[i]);
        });
        out
    }

    /// The product.
    #[inline(always)]
    pub(super) fn mul(&self, isa: I, other: &Sum<I>) -> Element<I> {
        debug_bits::<I, 52, _>(isa, &self.0);
        debug_bits::<I, 52, _>(isa, &other.0);
        if I::INLINES { product(isa, &self.0, &other.0) } else { isa.call(Product(self, other)) }
    }

    /// The square.
    #[inline(always)]
    pub(super) fn square(&self, isa: I) -> Element<I> {
        debug_bits::<I, 52, _>(isa, &self.0);
        if I::INLINES { square(isa, &self.0) } else { isa.call(Square(self)) }
    }
}

impl<I: CurveIsa> Element<I> {
    /// One.
    #[inline(always)]
    pub(super) fn one(isa: I) -> Element<I> {
        let mut one = Element::zero(isa);
        one.0[0] = isa.splat(1);
        one
    }

    /// Zero.
    #[inline(always)]
    pub(super) fn zero(isa: I) -> Element<I> {
        Element([isa.splat(0); LIMBS])
    }

    /// What a place of nine limbs holds.
    #[inline(always)]
    pub(super) fn get(isa: I, from: Place<I>) -> Element<I> {
        let mut out = Element::zero(isa);
        unrolled!(i < LIMBS => {
            out.0[i] = from.get(isa, i);
        });
        out
    }

    /// Writes it to a place of nine limbs.
    #[inline(always)]
    pub(super) fn put(&self, isa: I, to: Place<I>) {
        unrolled!(i < LIMBS => {
            to.set(isa, i, self.0[i]);
        });
    }

    /// `self` where `which` holds, else `other`.
    #[inline(always)]
    pub(super) fn select(isa: I, which: I::M, yes: &Element<I>, no: &Element<I>) -> Element<I> {
        Element(Sum::select(isa, which, &yes.factor(), &no.factor()).0)
    }

    /// The element as a factor.
    #[inline(always)]
    pub(super) fn factor(&self) -> Sum<I> {
        Sum(self.0)
    }

    /// The sum.
    #[inline(always)]
    pub(super) fn add(&self, isa: I, other: &Element<I>) -> Sum<I> {
        let mut out = self.0;
        unrolled!(i < LIMBS => {
            out[i] = isa.add(self.0[i], other.0[i]);
        });
        Sum(out)
    }

    /// The difference, and eight times the prime: below `2^50 + 2^37 + 2^51`.
    #[inline(always)]
    pub(super) fn sub(&self, isa: I, other: &Element<I>) -> Sum<I> {
        let mut out = self.0;
        unrolled!(i < LIMBS => {
            out[i] = isa.add(self.0[i], isa.sub(isa.splat(EIGHT_P[i]), other.0[i]));
        });
        // A limb below zero would have many bits.
        debug_bits::<I, 52, _>(isa, &out);
        Sum(out)
    }

    /// `self` plus a number below `2^16` times `other`.
    #[inline(always)]
    pub(super) fn add_times(&self, isa: I, other: &Sum<I>, small: u64) -> Element<I> {
        let small = isa.splat(small);
        let (mut low, mut high) = (self.0, [isa.splat(0); LIMBS]);
        unrolled!(k < LIMBS => {
            low[k] = isa.add_low(low[k], other.0[k], small);
        });
        // High halves are below `2^16`.
        unrolled!(k < LIMBS => {
            if k >= 1 {
                high[k] = isa.add_high(high[k], other.0[k - 1], small);
            }
        });
        let mut columns = join(isa, &low, &high);
        let top = isa.add_high(isa.splat(0), other.0[LIMBS - 1], small);
        add_top(isa, &mut columns, isa.shl::<2>(top));
        carry(isa, columns)
    }

    /// The one number below the prime, with limbs of 50 bits.
    #[inline(always)]
    pub(super) fn reduced(&self, isa: I) -> Element<I> {
        let mask = isa.splat(LIMB_MASK);
        let top_mask = isa.splat((1 << TOP_BITS) - 1);
        let mut x = self.0;
        unrolled!(k < LIMBS => {
            if k >= 1 {
                x[k] = isa.add(x[k], isa.shr::<RADIX_BITS>(x[k - 1]));
                x[k - 1] = isa.and(x[k - 1], mask);
            }
        });
        // By `2^448 = 2^224 + 1`; the number is below `2^451`, so that what is left is below twice the prime.
        let over = isa.shr::<TOP_BITS>(x[LIMBS - 1]);
        x[LIMBS - 1] = isa.and(x[LIMBS - 1], top_mask);
        x[0] = isa.add(x[0], over);
        x[MIDDLE] = isa.add(x[MIDDLE], isa.shl::<MIDDLE_BIT>(over));
        // The carry out of `x + 2^224 + 1` tells whether the prime is in it.
        let mut carry = isa.splat(1);
        for k in 0..LIMBS - 1 {
            let plus = if k == MIDDLE { isa.add(carry, isa.splat(1 << MIDDLE_BIT)) } else { carry };
            carry = isa.shr::<RADIX_BITS>(isa.add(x[k], plus));
        }
        let over = isa.shr::<TOP_BITS>(isa.add(x[LIMBS - 1], carry));
        x[0] = isa.add(x[0], over);
        x[MIDDLE] = isa.add(x[MIDDLE], isa.shl::<MIDDLE_BIT>(over));
        unrolled!(k < LIMBS => {
            if k >= 1 {
                x[k] = isa.add(x[k], isa.shr::<RADIX_BITS>(x[k - 1]));
                x[k - 1] = isa.and(x[k - 1], mask);
            }
        });
        x[LIMBS - 1] = isa.and(x[LIMBS - 1], top_mask);
        Element(x)
    }

    /// Where a reduced element is zero.
    #[inline(always)]
    pub(super) fn is_zero(&self, isa: I) -> I::M {
        let mut any = self.0[0];
        unrolled!(k < LIMBS => {
            if k >= 1 {
                any = isa.or(any, self.0[k]);
            }
        });
        isa.equal(any, isa.splat(0))
    }

    /// `self^(2^squares) · times`.
    #[inline(always)]
    fn raise(&self, isa: I, squares: u32, times: &Element<I>) -> Element<I> {
        let mut out = *self;
        for _ in 0..squares {
            out = out.factor().square(isa);
        }
        out.factor().mul(isa, &times.factor())
    }

    /// The inverse, zero of zero: the power by `p - 2 = 2^225 (2^223 - 1) + 4 (2^222 - 1) + 1` (Fermat). Names tell of how many ones
    /// a power's exponent is.
    #[inline(always)]
    pub(super) fn inverse(&self, isa: I) -> Element<I> {
        let one = *self;
        let two = one.raise(isa, 1, &one);
        let three = two.raise(isa, 1, &one);
        let six = three.raise(isa, 3, &three);
        let nine = six.raise(isa, 3, &three);
        let eighteen = nine.raise(isa, 9, &nine);
        let nineteen = eighteen.raise(isa, 1, &one);
        let of_37 = nineteen.raise(isa, 18, &eighteen);
        let of_74 = of_37.raise(isa, 37, &of_37);
        let of_111 = of_74.raise(isa, 37, &of_37);
        let of_222 = of_111.raise(isa, 111, &of_111);
        let of_223 = of_222.raise(isa, 1, &one);
        of_223.raise(isa, 223, &of_222).raise(isa, 2, &one)
    }
}

/// Inverts many elements of each lane, none of which is zero, in the place of nine limbs that each has in `all`: one inversion and
/// three products for each (Montgomery 1987). `products` has as much room.
#[inline(always)]
pub(super) fn invert_all<I: CurveIsa>(isa: I, all: Place<I>, products: Place<I>) {
    let count = all.limbs() / LIMBS;
    let at = |place: Place<I>, index: usize| place.part(index * LIMBS, LIMBS);
    let mut product = Element::one(isa);
    for index in 0..count {
        product.put(isa, at(products, index));
        product = product.factor().mul(isa, &Element::get(isa, at(all, index)).factor());
    }
    let mut inverse = product.inverse(isa);
    for index in (0..count).rev() {
        let element = Element::get(isa, at(all, index));
        inverse.factor().mul(isa, &Element::get(isa, at(products, index)).factor()).put(isa, at(all, index));
        inverse = inverse.factor().mul(isa, &element.factor());
    }
}
