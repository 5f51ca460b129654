//! ML-DSA's polynomials (FIPS 204, 2.4, 7.4, 7.5) on vectors of 32 bits.
//!
//! Products go by Montgomery's reduction with signs: of products below `2^31 q` in absolute value it is below `q`, and divided by
//! `2^32`. A word holds 256 `q`.
//!
//! Floor of a transform with AVX-512, 16 vectors: 8 layers of 8 pairs by 13 instructions, 4 of them with 16 exchanges more each,
//! and 32 accesses: 930. Of a row of the matrix: 16 times 6 for each polynomial and 8 to reduce the sum.

use zeroize::DefaultIsZeroes;

use super::isa::Isa;
use super::tables::{DSA_Q, DSA_Q_INVERSE, Factors};

/// Coefficients.
pub(super) const N: usize = 256;

/// A polynomial. Transformed ones lie in the order of [`super::tables`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Poly(pub(super) [i32; N]);

impl Default for Poly {
    fn default() -> Poly {
        Poly([0; N])
    }
}

impl DefaultIsZeroes for Poly {}

impl Poly {
    /// Vector `index`.
    #[inline(always)]
    pub(super) fn get<I: Isa>(&self, isa: I, index: usize) -> I::V {
        vector(isa, &self.0, index)
    }

    /// Sets vector `index`.
    #[inline(always)]
    pub(super) fn set<I: Isa>(&mut self, isa: I, index: usize, value: I::V) {
        debug_assert!((index + 1) * I::BYTES <= 4 * N);
        // SAFETY: within the coefficients.
        unsafe { isa.store(value, self.0.as_mut_ptr().cast::<u8>().add(index * I::BYTES)) }
    }

    /// Sets all vectors.
    #[inline(always)]
    pub(super) fn set_all<I: Isa>(&mut self, isa: I, v: &Vectors<I>) {
        for at in 0..vectors::<I>() {
            self.set(isa, at, v[at]);
        }
    }
}

/// Vector `index` of words.
#[inline(always)]
pub(super) fn vector<I: Isa>(isa: I, words: &[i32], index: usize) -> I::V {
    debug_assert!((index + 1) * I::BYTES <= 4 * words.len());
    // SAFETY: within the words.
    unsafe { isa.load(words.as_ptr().cast::<u8>().add(index * I::BYTES)) }
}

/// A polynomial's vectors; those that there are.
pub(super) type Vectors<I> = [<I as Isa>::V; 32];

pub(super) const fn vectors<I: Isa>() -> usize {
    4 * N / I::BYTES
}

/// Brings the coefficients of what is drawn transformed to the order of transformed polynomials.
#[inline(always)]
pub(super) fn order<I: Isa>(isa: I, v: &mut Vectors<I>) {
    if I::BYTES == 64 {
        exchange(isa, v, 32);
    }
    exchange(isa, v, 16);
    exchange(isa, v, 8);
    exchange(isa, v, 4);
}

/// Exchanges blocks of every pair of vectors.
#[inline(always)]
fn exchange<I: Isa>(isa: I, v: &mut Vectors<I>, block: usize) {
    for pair in 0..vectors::<I>() / 2 {
        (v[2 * pair], v[2 * pair + 1]) = isa.transpose(block, v[2 * pair], v[2 * pair + 1]);
    }
}

/// `2^64 / 256` modulo `q`: what makes up for a product's and the inverse transform's factors.
const BACK: i32 = (((1u128 << 64) / 256) % DSA_Q as u128) as i32;

/// A factor of all words.
#[derive(Clone, Copy)]
struct Factor<V> {
    by: V,
    /// The odd words of it in even places.
    by_odd: V,
    by_inverse: V,
}

impl<V: Copy> Factor<V> {
    #[inline(always)]
    fn new<I: Isa<V = V>>(isa: I, by: i32, by_inverse: i32) -> Factor<V> {
        let all = isa.splat32(by);
        Factor { by: all, by_odd: all, by_inverse: isa.splat32(by_inverse) }
    }

    #[inline(always)]
    fn at<I: Isa<V = V>, const M: usize>(isa: I, factors: &Factors<i32, M>, index: usize) -> Factor<V> {
        let by = vector(isa, &factors.by, index);
        Factor { by, by_odd: isa.shr64::<32>(by), by_inverse: vector(isa, &factors.by_inverse, index) }
    }
}

/// `a` times a factor, divided by `2^32`: below `q`.
#[inline(always)]
fn times<I: Isa>(isa: I, a: I::V, factor: Factor<I::V>) -> I::V {
    let (q, multiple) = (isa.splat32(DSA_Q), isa.mul_low32(a, factor.by_inverse));
    let even = isa.sub64(isa.mul_even32(a, factor.by), isa.mul_even32(multiple, q));
    let (a_odd, multiple_odd) = (isa.shr64::<32>(a), isa.shr64::<32>(multiple));
    let odd = isa.sub64(isa.mul_even32(a_odd, factor.by_odd), isa.mul_even32(multiple_odd, q));
    isa.halves32(isa.shr64::<32>(even), odd)
}

/// Words below 256 `q` to three quarters of `q`.
#[inline(always)]
pub(super) fn reduce<I: Isa>(isa: I, a: I::V) -> I::V {
    let quotient = isa.sar32::<23>(isa.add32(a, isa.splat32(1 << 22)));
    isa.sub32(a, isa.mul_low32(quotient, isa.splat32(DSA_Q)))
}

/// From `q` with a sign to the standard's range, zero to `q - 1`.
#[inline(always)]
pub(super) fn positive<I: Isa>(isa: I, a: I::V) -> I::V {
    isa.add32(a, isa.and(isa.sar32::<31>(a), isa.splat32(DSA_Q)))
}

/// The transform (FIPS 204, algorithm 41). Coefficients below `q` become such below `9 q`: each layer adds one.
#[inline(always)]
pub(super) fn forward<I: Isa>(isa: I, poly: &Poly) -> Vectors<I> {
    let mut v = [isa.splat32(0); 32];
    let count = vectors::<I>();
    for at in 0..count {
        v[at] = poly.get(isa, at);
    }
    let (mut distance, mut node) = (count / 2, 1);
    while distance > 0 {
        let mut first = 0;
        while first < count {
            let factor = Factor::new(isa, I::DSA.whole.by[node], I::DSA.whole.by_inverse[node]);
            for at in first..first + distance {
                let turned = times(isa, v[at + distance], factor);
                v[at + distance] = isa.sub32(v[at], turned);
                v[at] = isa.add32(v[at], turned);
            }
            node += 1;
            first += 2 * distance;
        }
        distance /= 2;
    }
    if I::BYTES == 64 {
        forward_within(isa, &mut v, 32);
    }
    forward_within(isa, &mut v, 16);
    forward_within(isa, &mut v, 8);
    forward_within(isa, &mut v, 4);
    v
}

#[inline(always)]
fn forward_within<I: Isa>(isa: I, v: &mut Vectors<I>, block: usize) {
    let factors = &I::DSA.mixed[(I::BYTES / 2 / block).ilog2() as usize];
    for pair in 0..vectors::<I>() / 2 {
        let (a, b) = isa.transpose(block, v[2 * pair], v[2 * pair + 1]);
        let turned = times(isa, b, Factor::at(isa, factors, pair));
        v[2 * pair] = isa.add32(a, turned);
        v[2 * pair + 1] = isa.sub32(a, turned);
    }
}

/// The inverse transform (FIPS 204, algorithm 42) of a product, from below `q` to below `q`, in the standard's order. Sums double
/// in each of eight layers: 256 `q`.
#[inline(always)]
pub(super) fn back<I: Isa>(isa: I, v: &mut Vectors<I>) {
    let count = vectors::<I>();
    back_within(isa, v, 4);
    back_within(isa, v, 8);
    back_within(isa, v, 16);
    if I::BYTES == 64 {
        back_within(isa, v, 32);
    }
    let mut distance = 1;
    while distance < count {
        let (mut first, mut node) = (0, count / distance - 1);
        while first < count {
            let factor = Factor::new(isa, I::DSA.whole.by[node], I::DSA.whole.by_inverse[node]);
            for at in first..first + distance {
                let difference = isa.sub32(v[at + distance], v[at]);
                v[at] = isa.add32(v[at], v[at + distance]);
                v[at + distance] = times(isa, difference, factor);
            }
            node -= 1;
            first += 2 * distance;
        }
        distance *= 2;
    }
    let factor = Factor::new(isa, BACK, BACK.wrapping_mul(DSA_Q_INVERSE));
    for at in 0..count {
        v[at] = times(isa, v[at], factor);
    }
}

#[inline(always)]
fn back_within<I: Isa>(isa: I, v: &mut Vectors<I>, block: usize) {
    let factors = &I::DSA.mixed_back[(I::BYTES / 2 / block).ilog2() as usize];
    for pair in 0..vectors::<I>() / 2 {
        let (a, b) = (v[2 * pair], v[2 * pair + 1]);
        let turned = times(isa, isa.sub32(b, a), Factor::at(isa, factors, pair));
        (v[2 * pair], v[2 * pair + 1]) = isa.transpose(block, isa.add32(a, b), turned);
    }
}

/// The sum of `terms` products of transformed polynomials, divided by `2^32`: below `q`. Eight products of at most `81 q²`, and
/// more below `9 q²`, are `2^54`, as much as one reduction takes.
#[inline(always)]
pub(super) fn row<'p, I: Isa>(
    isa: I,
    terms: usize,
    of_row: impl Fn(usize) -> &'p Poly,
    by: impl Fn(usize) -> &'p Poly,
) -> Vectors<I> {
    let mut v = [isa.splat32(0); 32];
    let (q, inverse) = (isa.splat32(DSA_Q), isa.splat32(DSA_Q_INVERSE));
    for at in 0..vectors::<I>() {
        let (mut even, mut odd) = (isa.splat32(0), isa.splat32(0));
        for term in 0..terms {
            let (a, b) = (of_row(term).get(isa, at), by(term).get(isa, at));
            even = isa.add64(even, isa.mul_even32(a, b));
            odd = isa.add64(odd, isa.mul_even32(isa.shr64::<32>(a), isa.shr64::<32>(b)));
        }
        even = isa.sub64(even, isa.mul_even32(isa.mul_low32(even, inverse), q));
        odd = isa.sub64(odd, isa.mul_even32(isa.mul_low32(odd, inverse), q));
        v[at] = isa.halves32(isa.shr64::<32>(even), odd);
    }
    v
}

/// Which half of the modulus's divisors a set rounds by (FIPS 204, table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gamma2 {
    /// `(q - 1) / 88`.
    Narrow,
    /// `(q - 1) / 32`.
    Wide,
}

impl Gamma2 {
    pub(super) const fn value(self) -> i32 {
        match self {
            Gamma2::Narrow => (DSA_Q - 1) / 88,
            Gamma2::Wide => (DSA_Q - 1) / 32,
        }
    }

    /// High parts: from zero to one less.
    const fn parts(self) -> i32 {
        (DSA_Q - 1) / (2 * self.value())
    }

    /// Bytes of a polynomial of high parts.
    pub(super) const fn high_len(self) -> usize {
        match self {
            Gamma2::Narrow => 6 * N / 8,
            Gamma2::Wide => 4 * N / 8,
        }
    }
}

/// The high part and the low part, with a sign, of numbers from zero to `q - 1` (FIPS 204, algorithm 36).
///
/// The divisors are `2^11 · 93` and `2^9 · 1023`; what remains behind the shift is small enough for products of 32 bits with the
/// rounded-up reciprocals `2^20 / 93` and `2^26 / 1023`, whose quotients are exact up to 11,397 and 69,977.
#[inline(always)]
pub(super) fn split<I: Isa>(isa: I, gamma2: Gamma2, a: I::V) -> (I::V, I::V) {
    let raised = isa.add32(a, isa.splat32(gamma2.value() - 1));
    let high = match gamma2 {
        Gamma2::Narrow => isa.shr32::<20>(isa.mul_low32(isa.shr32::<11>(raised), isa.splat32((1 << 20) / 93 + 1))),
        Gamma2::Wide => isa.shr32::<26>(isa.mul_low32(isa.shr32::<9>(raised), isa.splat32((1 << 26) / 1023 + 1))),
    };
    let low = isa.sub32(a, isa.mul_low32(high, isa.splat32(2 * gamma2.value())));
    // All ones at the top, which is zero.
    let is_top = isa.sar32::<31>(isa.sub32(isa.splat32(gamma2.parts() - 1), high));
    (isa.sub32(high, isa.and(is_top, high)), isa.add32(low, is_top))
}

/// The high part that a hint (0 or 1) makes of a number (FIPS 204, algorithm 40).
#[inline(always)]
pub(super) fn use_hint<I: Isa>(isa: I, gamma2: Gamma2, a: I::V, hint: I::V) -> I::V {
    let (high, low) = split(isa, gamma2, a);
    let zero = isa.splat32(0);
    let is_positive = isa.sar32::<31>(isa.sub32(zero, low));
    // One up or one down.
    let step = isa.sub32(isa.splat32(-1), isa.add32(is_positive, is_positive));
    let moved = isa.add32(high, isa.and(step, isa.sub32(zero, hint)));
    let parts = isa.splat32(gamma2.parts());
    let from_below = isa.add32(moved, isa.and(isa.sar32::<31>(moved), parts));
    let less = isa.sub32(from_below, parts);
    isa.add32(less, isa.and(isa.sar32::<31>(less), parts))
}

/// Writes a polynomial's words of `bits` bits (FIPS 204, algorithm 16).
#[inline(always)]
pub(super) fn pack<I: Isa>(isa: I, bits: usize, v: &Vectors<I>, bytes: &mut [u8]) {
    for (at, bytes) in bytes.chunks_exact_mut(I::BYTES / 32 * bits).enumerate() {
        isa.put_fields(bits, v[at], bytes);
    }
}

/// Reads a polynomial's words of `bits` bits (FIPS 204, algorithm 18).
#[inline(always)]
pub(super) fn unpack<I: Isa>(isa: I, bits: usize, bytes: &[u8]) -> Vectors<I> {
    let mut v = [isa.splat32(0); 32];
    for at in 0..vectors::<I>() {
        v[at] = isa.fields(bits, &bytes[at * (I::BYTES / 32 * bits)..]);
    }
    v
}

/// Gathers which words are not below a bound in absolute value: the sign of what comes out is set where one was not.
#[inline(always)]
pub(super) fn beyond<I: Isa>(isa: I, found: I::V, a: I::V, bound: i32) -> I::V {
    let last = isa.splat32(bound - 1);
    isa.or(found, isa.or(isa.sub32(last, a), isa.add32(last, a)))
}

/// Whether any word of 32 bits has its sign set.
#[inline(always)]
pub(super) fn any_sign<I: Isa>(isa: I, a: I::V) -> bool {
    isa.signs16(a) & 0xaaaa_aaaa != 0
}
