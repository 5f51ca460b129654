//! The field of 2^255 - 19, an element a lane: five limbs of 51 bits, in vectors of words of 64 bits.
//!
//! A factor of the multiply-adds has 52 bits, so that a limb may be one bit longer than its radix. That pays for late carries:
//!
//! - An [`Element`] has limbs below `2^51 + 2^17`, and may be a factor. So may the negative of one, with limbs below `2^52`.
//! - [`Columns`] are sums and differences of products, of which nothing was carried yet: words below `2^63`, where one
//!   product's are below `2^61`. Adding and subtracting them costs no carry; [`Columns::carry`] makes them an element.
//!
//! A carry is 15 instructions; [`super::product`] has the products and their bounds.

use super::super::isa::Vectors;
use super::super::room::Place;
use super::super::unrolled::unrolled;
use super::super::vectors::debug_bits;
use super::isa::FieldIsa;
pub(super) use super::product::LIMBS;
use super::product::{Product, Square, product, square};
use crate::instruction_set::Step;

/// Bits of a limb, but for those that were not carried yet.
const RADIX_BITS: u32 = 51;

/// A limb without such bits.
const LIMB_MASK: u64 = (1 << RADIX_BITS) - 1;

/// The limbs of the modulus.
const MODULUS: [u64; LIMBS] = [LIMB_MASK - 18, LIMB_MASK, LIMB_MASK, LIMB_MASK, LIMB_MASK];

/// An element that may be a factor: limbs below `2^51 + 2^17`.
pub(super) struct Element<I: Vectors>(pub(super) [I::V; LIMBS]);

/// A sum of products before its carry: words below `2^63`.
pub(super) struct Columns<I: Vectors>([I::V; LIMBS]);

impl<I: Vectors> Clone for Element<I> {
    #[inline(always)]
    fn clone(&self) -> Element<I> {
        *self
    }
}

impl<I: Vectors> Copy for Element<I> {}

impl<I: Vectors> Clone for Columns<I> {
    #[inline(always)]
    fn clone(&self) -> Columns<I> {
        *self
    }
}

impl<I: Vectors> Copy for Columns<I> {}

/// The limbs of a number below `2^255`, given as words; the highest bit is left out.
pub(super) const fn limbs_of(words: [u64; 4]) -> [u64; LIMBS] {
    [
        words[0] & LIMB_MASK,
        (words[0] >> 51 | words[1] << 13) & LIMB_MASK,
        (words[1] >> 38 | words[2] << 26) & LIMB_MASK,
        (words[2] >> 25 | words[3] << 39) & LIMB_MASK,
        words[3] >> 12 & LIMB_MASK,
    ]
}

/// The words of a number whose limbs have 51 bits.
pub(super) fn words_of(limbs: [u64; LIMBS]) -> [u64; 4] {
    [
        limbs[0] | limbs[1] << 51,
        limbs[1] >> 13 | limbs[2] << 38,
        limbs[2] >> 26 | limbs[3] << 25,
        limbs[3] >> 39 | limbs[4] << 12,
    ]
}

/// Nineteen times a word.
#[inline(always)]
fn nineteen<I: Vectors>(isa: I, a: I::V) -> I::V {
    isa.add(isa.add(isa.shl::<4>(a), isa.shl::<1>(a)), a)
}

impl<I: FieldIsa> Element<I> {
    /// The same number in all lanes, given by its limbs of 51 bits.
    #[inline(always)]
    pub(super) fn splat(isa: I, limbs: [u64; LIMBS]) -> Element<I> {
        let mut element = [isa.splat(0); LIMBS];
        unrolled!(i < LIMBS => {
            element[i] = isa.splat(limbs[i]);
        });
        Element(element)
    }

    /// One.
    #[inline(always)]
    pub(super) fn one(isa: I) -> Element<I> {
        Element::splat(isa, [1, 0, 0, 0, 0])
    }

    /// Zero.
    #[inline(always)]
    pub(super) fn zero(isa: I) -> Element<I> {
        Element([isa.splat(0); LIMBS])
    }

    /// What a place of five limbs holds.
    #[inline(always)]
    pub(super) fn get(isa: I, from: Place<I>) -> Element<I> {
        let mut limbs = [isa.splat(0); LIMBS];
        unrolled!(i < LIMBS => {
            limbs[i] = from.get(isa, i);
        });
        Element(limbs)
    }

    /// Writes it to a place of five limbs.
    #[inline(always)]
    pub(super) fn put(&self, isa: I, to: Place<I>) {
        unrolled!(i < LIMBS => {
            to.set(isa, i, self.0[i]);
        });
    }

    /// `self` where `which` holds, else `other`.
    #[inline(always)]
    pub(super) fn select(isa: I, which: I::M, yes: &Element<I>, no: &Element<I>) -> Element<I> {
        let mut out = *no;
        unrolled!(i < LIMBS => {
            out.0[i] = isa.select(which, yes.0[i], no.0[i]);
        });
        out
    }

    /// The sum, not carried: limbs below `2^53`, no factor.
    #[inline(always)]
    pub(super) fn add(&self, isa: I, other: &Element<I>) -> Columns<I> {
        self.columns().add(isa, &other.columns())
    }

    /// The difference, not carried: no factor.
    #[inline(always)]
    pub(super) fn sub(&self, isa: I, other: &Element<I>) -> Columns<I> {
        self.columns().add(isa, &Columns(other.negative(isa).0))
    }

    /// The negative: `2 p` less the element. Its limbs are below `2^52`, so that it is good for a factor, not for another negative.
    #[inline(always)]
    pub(super) fn negative(&self, isa: I) -> Element<I> {
        // `2^52 - 38` and `2^52 - 2`, both above `2^51 + 2^17`.
        let mut out = *self;
        unrolled!(i < LIMBS => {
            out.0[i] = isa.sub(isa.splat(2 * MODULUS[i]), self.0[i]);
        });
        debug_bits::<I, 52, _>(isa, &out.0);
        out
    }

    /// The element as columns.
    #[inline(always)]
    pub(super) fn columns(&self) -> Columns<I> {
        Columns(self.0)
    }

    /// The product.
    #[inline(always)]
    pub(super) fn mul(&self, isa: I, other: &Element<I>) -> Columns<I> {
        debug_bits::<I, 52, _>(isa, &self.0);
        debug_bits::<I, 52, _>(isa, &other.0);
        let (a, b) = (&self.0, &other.0);
        Columns(if I::INLINES { product(isa, a, b) } else { isa.call(Product(a, b)) })
    }

    /// The square.
    #[inline(always)]
    pub(super) fn square(&self, isa: I) -> Columns<I> {
        debug_bits::<I, 52, _>(isa, &self.0);
        Columns(if I::INLINES { square(isa, &self.0) } else { isa.call(Square(&self.0)) })
    }

    /// The square of the square …, `count` times, of at least one.
    #[inline(always)]
    fn square_times(&self, isa: I, count: u32) -> Element<I> {
        let mut out = *self;
        for _ in 0..count {
            out = out.square(isa).carry(isa);
        }
        out
    }

    /// `self` plus a number below `2^17` times `other`, as columns.
    #[inline(always)]
    pub(super) fn add_times(&self, isa: I, other: &Element<I>, small: u64) -> Columns<I> {
        let small = isa.splat(small);
        let mut out = self.0;
        let mut high = [isa.splat(0); LIMBS];
        unrolled!(i < LIMBS => {
            out[i] = isa.add_low(out[i], other.0[i], small);
            high[i] = isa.add_high(high[i], other.0[i], small);
        });
        // High halves are below `2^17`.
        out[0] = isa.add(out[0], isa.shl::<1>(nineteen(isa, high[LIMBS - 1])));
        unrolled!(i < LIMBS => {
            if i >= 1 {
                out[i] = isa.add(isa.add(out[i], high[i - 1]), high[i - 1]);
            }
        });
        Columns(out)
    }

    /// The one number below `2^255 - 19`, with limbs of 51 bits.
    #[inline(always)]
    pub(super) fn reduced(&self, isa: I) -> Element<I> {
        let mask = isa.splat(LIMB_MASK);
        // The carry out of `x + 19` tells how often the modulus is in `x`, which is below twice the modulus once it was carried.
        let x = self.columns().carry(isa).0;
        let mut carry = isa.shr::<RADIX_BITS>(isa.add(x[0], isa.splat(19)));
        unrolled!(i < LIMBS => {
            if i >= 1 {
                carry = isa.shr::<RADIX_BITS>(isa.add(x[i], carry));
            }
        });
        let mut out = x;
        out[0] = isa.add(out[0], nineteen(isa, carry));
        unrolled!(i < LIMBS => {
            let sum = out[i];
            out[i] = isa.and(sum, mask);
            if i + 1 < LIMBS {
                out[i + 1] = isa.add(out[i + 1], isa.shr::<RADIX_BITS>(sum));
            }
        });
        Element(out)
    }

    /// Where a reduced element is zero.
    #[inline(always)]
    pub(super) fn is_zero(&self, isa: I) -> I::M {
        let mut any = self.0[0];
        unrolled!(i < LIMBS => {
            if i >= 1 {
                any = isa.or(any, self.0[i]);
            }
        });
        isa.equal(any, isa.splat(0))
    }

    /// Where two elements are the same number.
    #[inline(always)]
    pub(super) fn equals(&self, isa: I, other: &Element<I>) -> I::M {
        self.sub(isa, other).carry(isa).reduced(isa).is_zero(isa)
    }

    /// The inverse, zero of zero: the power by `2^255 - 21` (Fermat).
    #[inline(always)]
    pub(super) fn inverse(&self, isa: I) -> Element<I> {
        const CHAIN: Chain = chain(Link { from: 4, squares: 5, times: 2, to: 4 });
        isa.call(Power { base: self, chain: &CHAIN })
    }

    /// The power by `2^252 - 3`, of which square roots are made (RFC 8032, 5.1.3).
    #[inline(always)]
    pub(super) fn power_of_root(&self, isa: I) -> Element<I> {
        const CHAIN: Chain = chain(Link { from: 4, squares: 2, times: 0, to: 4 });
        isa.call(Power { base: self, chain: &CHAIN })
    }
}

impl<I: Vectors> Columns<I> {
    /// The sum. Whoever adds more than two products and a difference would overflow.
    #[inline(always)]
    pub(super) fn add(&self, isa: I, other: &Columns<I>) -> Columns<I> {
        let mut out = *self;
        unrolled!(i < LIMBS => {
            out.0[i] = isa.add(self.0[i], other.0[i]);
        });
        debug_bits::<I, 63, _>(isa, &out.0);
        out
    }

    /// Twice.
    #[inline(always)]
    pub(super) fn double(&self, isa: I) -> Columns<I> {
        self.add(isa, self)
    }

    /// The difference to a product, whose columns are below `2^10` times the modulus's limbs (`267 · 2^52 < 2^61 - 19 · 2^10`),
    /// so that the words grow by less than `2^61`.
    #[inline(always)]
    pub(super) fn sub(&self, isa: I, other: &Columns<I>) -> Columns<I> {
        let mut out = *self;
        unrolled!(i < LIMBS => {
            out.0[i] = isa.add(self.0[i], isa.sub(isa.splat(MODULUS[i] << 10), other.0[i]));
        });
        debug_bits::<I, 61, _>(isa, &other.0);
        debug_bits::<I, 63, _>(isa, &out.0);
        out
    }

    /// An element: each word's upper bits, below `2^12`, go to the next limb, those of the highest 19-fold to the lowest, which
    /// stays below `2^51 + 19 · 2^12`.
    #[inline(always)]
    pub(super) fn carry(&self, isa: I) -> Element<I> {
        let mask = isa.splat(LIMB_MASK);
        let mut out = self.0;
        unrolled!(i < LIMBS => {
            out[i] = isa.and(out[i], mask);
        });
        let carry = |i: usize| isa.shr::<RADIX_BITS>(self.0[i]);
        out[0] = isa.add_low(out[0], carry(LIMBS - 1), isa.splat(19));
        unrolled!(i < LIMBS => {
            if i >= 1 {
                out[i] = isa.add(out[i], carry(i - 1));
            }
        });
        debug_bits::<I, 63, _>(isa, &self.0);
        Element(out)
    }
}

/// Numbers that a chain keeps.
const KNOWN: usize = 5;

/// A link of a chain to a power: `known[to] = known[from]^(2^squares) · known[times]`. Number 0 is the base.
#[derive(Clone, Copy)]
struct Link {
    from: usize,
    squares: u32,
    times: usize,
    to: usize,
}

type Chain = [Link; 11];

/// The power that a chain leads to.
struct Power<'a, I: FieldIsa> {
    base: &'a Element<I>,
    chain: &'a Chain,
}

impl<I: FieldIsa> Step<I> for Power<'_, I> {
    type Out = Element<I>;

    #[inline(always)]
    fn run(self, isa: I) -> Element<I> {
        let mut known = [*self.base; KNOWN];
        let mut out = *self.base;
        for link in self.chain {
            out = known[link.from].square_times(isa, link.squares).mul(isa, &known[link.times]).carry(isa);
            known[link.to] = out;
        }
        out
    }
}

/// The links to the power by `2^250 - 1`, which is number 4 then, and a last one. Number 2 is the power by 11.
const fn chain(last: Link) -> Chain {
    const fn link(from: usize, squares: u32, times: usize, to: usize) -> Link {
        Link { from, squares, times, to }
    }
    [
        link(0, 3, 0, 1),   // 9
        link(0, 1, 1, 2),   // 11
        link(2, 1, 1, 1),   // 31 = 2^5 - 1
        link(1, 5, 1, 1),   // 2^10 - 1
        link(1, 10, 1, 3),  // 2^20 - 1
        link(3, 20, 3, 3),  // 2^40 - 1
        link(3, 10, 1, 1),  // 2^50 - 1
        link(1, 50, 1, 3),  // 2^100 - 1
        link(3, 100, 3, 3), // 2^200 - 1
        link(3, 50, 1, 4),  // 2^250 - 1
        last,
    ]
}

/// Inverts many elements of each lane, none of which is zero, in the place of five limbs that each has in `all`: one inversion and
/// three products for each (Montgomery 1987). `products` has as much room.
#[inline(always)]
pub(super) fn invert_all<I: FieldIsa>(isa: I, all: Place<I>, products: Place<I>) {
    let count = all.limbs() / LIMBS;
    let at = |place: Place<I>, index: usize| place.part(index * LIMBS, LIMBS);
    let mut product = Element::one(isa);
    for index in 0..count {
        product.put(isa, at(products, index));
        product = product.mul(isa, &Element::get(isa, at(all, index))).carry(isa);
    }
    let mut inverse = product.inverse(isa);
    for index in (0..count).rev() {
        let element = Element::get(isa, at(all, index));
        inverse.mul(isa, &Element::get(isa, at(products, index))).carry(isa).put(isa, at(all, index));
        inverse = inverse.mul(isa, &element).carry(isa);
    }
}
