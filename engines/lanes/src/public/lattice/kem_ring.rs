//! ML-KEM's polynomials (FIPS 203, 2.4.4 to 2.4.7, 4.2, 4.3) on vectors of 16 bits.
//!
//! Products go by Montgomery's reduction with signs: of factors whose product is below `2^15 q` in absolute value it is below
//! `q`, and divided by `2^16`. Bounds of coefficients stand beside the steps as multiples of `q`; 9 `q` still fits a word.
//!
//! Floor of a transform with AVX-512, 8 vectors: 7 layers of 4 pairs by 6 instructions, 4 of them with 8 exchanges more each, and
//! 16 accesses: 216. Of a row of the matrix by a vector of `k`: 8 times `4 k` and 9.

use zeroize::DefaultIsZeroes;

use super::isa::{Isa, Words16, lattice_kernels};
use super::tables::{Factors, KEM_Q, KEM_Q_INVERSE};
use crate::hash::sponge::{SHAKE_128, SHAKE_256, SLACK, STREAMS_MAX, Seed, Sponges};

/// Coefficients.
pub(super) const N: usize = 256;

/// A polynomial. Transformed ones lie in the order of [`super::tables`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Poly(pub(super) [i16; N]);

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
        debug_assert!((index + 1) * I::BYTES <= 2 * N);
        // SAFETY: within the coefficients.
        unsafe { isa.store(value, self.0.as_mut_ptr().cast::<u8>().add(index * I::BYTES)) }
    }
}

/// Vector `index` of words.
#[inline(always)]
fn vector<I: Isa>(isa: I, words: &[i16], index: usize) -> I::V {
    debug_assert!((index + 1) * I::BYTES <= 2 * words.len());
    // SAFETY: within the words.
    unsafe { isa.load(words.as_ptr().cast::<u8>().add(index * I::BYTES)) }
}

/// Vectors of a polynomial at most.
const VECTORS_MAX: usize = 16;

const fn vectors<I: Isa>() -> usize {
    2 * N / I::BYTES
}

/// `2^32 / 128` and `2^32` modulo `q`: what makes up for a product's and the inverse transform's factors, and for two products'.
const BACK: i16 = ((1u64 << 32) / 128 % KEM_Q as u64) as i16;
const TWICE: i16 = ((1u64 << 32) % KEM_Q as u64) as i16;

/// A factor everywhere.
#[derive(Clone, Copy)]
struct Factor<V> {
    by: V,
    by_inverse: V,
}

impl<V: Copy> Factor<V> {
    #[inline(always)]
    fn new<I: Isa<V = V>>(isa: I, by: i16) -> Factor<V> {
        Factor { by: isa.splat16(by), by_inverse: isa.splat16(by.wrapping_mul(KEM_Q_INVERSE)) }
    }

    #[inline(always)]
    fn at<I: Isa<V = V>, const M: usize>(isa: I, factors: &Factors<i16, M>, index: usize) -> Factor<V> {
        Factor { by: vector(isa, &factors.by, index), by_inverse: vector(isa, &factors.by_inverse, index) }
    }
}

/// `a` times a factor, divided by `2^16`: below `q`.
#[inline(always)]
fn times<I: Isa>(isa: I, a: I::V, factor: Factor<I::V>) -> I::V {
    let multiple = isa.mul_high16(isa.mul_low16(a, factor.by_inverse), isa.splat16(KEM_Q));
    isa.sub16(isa.mul_high16(a, factor.by), multiple)
}

/// Any word to half of `q` (Barrett's reduction: the quotient is rounded from `a · 2^26/q`).
#[inline(always)]
fn reduce<I: Isa>(isa: I, a: I::V) -> I::V {
    const RECIPROCAL: i16 = (((1 << 26) + KEM_Q as u32 / 2) / KEM_Q as u32) as i16;
    let quotient = isa.mul_round16(isa.mul_high16(a, isa.splat16(RECIPROCAL)), isa.splat16(32));
    isa.sub16(a, isa.mul_low16(quotient, isa.splat16(KEM_Q)))
}

/// From `q` with a sign to the standard's range, zero to `q - 1`.
#[inline(always)]
fn positive<I: Isa>(isa: I, a: I::V) -> I::V {
    isa.add16(a, isa.and(isa.sar16::<15>(a), isa.splat16(KEM_Q)))
}

/// The polynomial's vectors.
#[inline(always)]
fn load<I: Isa>(isa: I, poly: &Poly) -> [I::V; VECTORS_MAX] {
    let mut v = [isa.splat16(0); VECTORS_MAX];
    for at in 0..vectors::<I>() {
        v[at] = poly.get(isa, at);
    }
    v
}

/// Exchanges blocks of every pair of vectors.
#[inline(always)]
fn exchange<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX], block: usize) {
    for pair in 0..vectors::<I>() / 2 {
        (v[2 * pair], v[2 * pair + 1]) = isa.transpose(block, v[2 * pair], v[2 * pair + 1]);
    }
}

/// From the standard's order to that of transformed polynomials.
#[inline(always)]
fn order<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX]) {
    if I::BYTES == 64 {
        exchange(isa, v, 32);
    }
    exchange(isa, v, 16);
    exchange(isa, v, 8);
    exchange(isa, v, 4);
}

/// And back.
#[inline(always)]
fn standard_order<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX]) {
    exchange(isa, v, 4);
    exchange(isa, v, 8);
    exchange(isa, v, 16);
    if I::BYTES == 64 {
        exchange(isa, v, 32);
    }
}

/// The transform (FIPS 203, algorithm 9). Coefficients below `q` become such below `8 q`: each layer adds one.
#[inline(always)]
fn forward<I: Isa>(isa: I, poly: &Poly) -> [I::V; VECTORS_MAX] {
    let mut v = load(isa, poly);
    let count = vectors::<I>();
    let (mut distance, mut node) = (count / 2, 1);
    while distance > 0 {
        let mut first = 0;
        while first < count {
            let by = I::KEM.whole.by[node];
            let factor = Factor { by: isa.splat16(by), by_inverse: isa.splat16(I::KEM.whole.by_inverse[node]) };
            for at in first..first + distance {
                let turned = times(isa, v[at + distance], factor);
                v[at + distance] = isa.sub16(v[at], turned);
                v[at] = isa.add16(v[at], turned);
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
fn forward_within<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX], block: usize) {
    let factors = &I::KEM.mixed[(I::BYTES / 2 / block).ilog2() as usize];
    for pair in 0..vectors::<I>() / 2 {
        let (a, b) = isa.transpose(block, v[2 * pair], v[2 * pair + 1]);
        let turned = times(isa, b, Factor::at(isa, factors, pair));
        v[2 * pair] = isa.add16(a, turned);
        v[2 * pair + 1] = isa.sub16(a, turned);
    }
}

/// The inverse transform (FIPS 203, algorithm 10) of a product: of any words to below `q`, in the standard's order. Sums double
/// in each layer, and differences are twice as large: four layers from half of `q`, then three.
#[inline(always)]
fn back<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX]) {
    let count = vectors::<I>();
    reduce_all(isa, v);
    back_within(isa, v, 4);
    back_within(isa, v, 8);
    back_within(isa, v, 16);
    if I::BYTES == 64 {
        back_within(isa, v, 32);
        reduce_all(isa, v);
    }
    let mut distance = 1;
    while distance < count {
        let (mut first, mut node) = (0, count / distance - 1);
        while first < count {
            let by = I::KEM.whole.by[node];
            let factor = Factor { by: isa.splat16(by), by_inverse: isa.splat16(I::KEM.whole.by_inverse[node]) };
            for at in first..first + distance {
                let difference = isa.sub16(v[at + distance], v[at]);
                v[at] = isa.add16(v[at], v[at + distance]);
                v[at + distance] = times(isa, difference, factor);
            }
            node -= 1;
            first += 2 * distance;
        }
        if I::BYTES == 32 && distance == 1 {
            reduce_all(isa, v);
        }
        distance *= 2;
    }
    let factor = Factor::new(isa, BACK);
    for at in 0..count {
        v[at] = times(isa, v[at], factor);
    }
}

#[inline(always)]
fn back_within<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX], block: usize) {
    let factors = &I::KEM.mixed_back[(I::BYTES / 2 / block).ilog2() as usize];
    for pair in 0..vectors::<I>() / 2 {
        let (a, b) = (v[2 * pair], v[2 * pair + 1]);
        let turned = times(isa, isa.sub16(b, a), Factor::at(isa, factors, pair));
        (v[2 * pair], v[2 * pair + 1]) = isa.transpose(block, isa.add16(a, b), turned);
    }
}

#[inline(always)]
fn reduce_all<I: Isa>(isa: I, v: &mut [I::V; VECTORS_MAX]) {
    for at in 0..vectors::<I>() {
        v[at] = reduce(isa, v[at]);
    }
}

/// A transformed polynomial as a factor of many: itself, and with its odd coefficients times the roots that belong to them.
#[derive(Clone, Copy, Default)]
pub(super) struct Vector {
    plain: Poly,
    turned: Poly,
}

impl DefaultIsZeroes for Vector {}

impl Vector {
    /// Transforms a polynomial of coefficients below `q`.
    #[inline(always)]
    fn set<I: Isa>(&mut self, isa: I, poly: &Poly) {
        let v = forward(isa, poly);
        for at in 0..vectors::<I>() {
            let plain = reduce(isa, v[at]);
            self.plain.set(isa, at, plain);
            self.turned.set(isa, at, times(isa, plain, Factor::at(isa, &I::KEM.odd, at)));
        }
    }
}

/// The sum of products of a row's polynomials, below `q`, with a vector's (FIPS 203, algorithms 11 and 12), divided by `2^16`:
/// below `q`. Pairs of words, at most four times `q² + q² / 2`, are summed in 32 bits and reduced once.
#[inline(always)]
fn row<'p, I: Isa>(isa: I, terms: usize, of_row: impl Fn(usize) -> &'p Poly, by: &[Vector]) -> [I::V; VECTORS_MAX] {
    let mut v = [isa.splat16(0); VECTORS_MAX];
    for at in 0..vectors::<I>() {
        let (mut even, mut odd) = (isa.splat16(0), isa.splat16(0));
        for term in 0..terms {
            let a = of_row(term).get(isa, at);
            even = isa.add32(even, isa.mul_pairs16(a, by[term].turned.get(isa, at)));
            odd = isa.add32(odd, isa.mul_pairs16(a, isa.swap16(by[term].plain.get(isa, at))));
        }
        v[at] = isa.halves16(isa.shr32::<16>(clear_low(isa, even)), clear_low(isa, odd));
    }
    v
}

/// Adds the multiple of `q` below `2^16 q` that leaves nothing in the low half of each word of 32 bits.
#[inline(always)]
fn clear_low<I: Isa>(isa: I, sum: I::V) -> I::V {
    let factor = isa.mul_low16(sum, isa.splat16(KEM_Q_INVERSE));
    isa.sub32(sum, isa.mul_pairs16(factor, isa.splat32(KEM_Q.into())))
}

/// Rounds coefficients from zero to `q - 1` to `D` bits (FIPS 203, 4.7) and has two of them in each word of 32 bits.
#[inline(always)]
fn compress<I: Isa, const D: u32>(isa: I, a: I::V) -> I::V {
    // The quotients by `q` are right for every coefficient: a test tries them all.
    let (rounding, reciprocal) = if D == 11 { (1664, 1_290_168) } else { (1665, 1_290_167) };
    let low = quotients::<I, D>(isa, isa.and(a, isa.splat32(0xffff)), rounding, reciprocal);
    let high = quotients::<I, D>(isa, isa.shr32::<16>(a), rounding, reciprocal);
    isa.or(low, isa.shl32::<D>(high))
}

/// `(a · 2^D + rounding) · reciprocal / 2^32` modulo `2^D` of words of 32 bits.
#[inline(always)]
fn quotients<I: Isa, const D: u32>(isa: I, a: I::V, rounding: i32, reciprocal: i32) -> I::V {
    let (raised, by) = (isa.add32(isa.shl32::<D>(a), isa.splat32(rounding)), isa.splat32(reciprocal));
    let (even, odd) = (isa.mul_even32(raised, by), isa.mul_even32(isa.shr64::<32>(raised), by));
    isa.and(isa.halves32(isa.shr64::<32>(even), odd), isa.splat32((1 << D) - 1))
}

/// Writes words of 32 bits, of which each has the `D` bits of two coefficients, as vector `index` of a polynomial (FIPS 203,
/// algorithm 5).
#[inline(always)]
fn pack<I: Isa, const D: u32>(isa: I, pairs: I::V, index: usize, bytes: &mut [u8]) {
    let len = I::BYTES / 16 * D as usize;
    isa.put_fields(2 * D as usize, pairs, &mut bytes[index * len..(index + 1) * len]);
}

/// Reads coefficients of `D` bits (FIPS 203, algorithm 6).
#[inline(always)]
fn unpack<I: Isa, const D: u32>(isa: I, bytes: &[u8], index: usize) -> I::V {
    let len = I::BYTES / 16 * D as usize;
    let pairs = isa.fields(2 * D as usize, &bytes[index * len..]);
    let high = isa.and(isa.shr32::<D>(pairs), isa.splat32((1 << D) - 1));
    isa.or(isa.and(pairs, isa.splat32((1 << D) - 1)), isa.shl32::<16>(high))
}

/// The inverse of [`compress`] as far as there is one, of coefficients one a word of 16 bits.
#[inline(always)]
fn decompress<I: Isa, const D: u32, const LIFT: i32>(isa: I, a: I::V) -> I::V {
    const { assert!(D as i32 + LIFT == 15) };
    isa.mul_round16(isa.shl16::<LIFT>(a), isa.splat16(KEM_Q))
}

/// Compresses and writes a polynomial with coefficients from zero to `q - 1`.
#[inline(always)]
fn put<I: Isa>(isa: I, bits: usize, v: &[I::V; VECTORS_MAX], bytes: &mut [u8]) {
    for at in 0..vectors::<I>() {
        match bits {
            4 => pack::<I, 4>(isa, compress::<I, 4>(isa, v[at]), at, bytes),
            5 => pack::<I, 5>(isa, compress::<I, 5>(isa, v[at]), at, bytes),
            10 => pack::<I, 10>(isa, compress::<I, 10>(isa, v[at]), at, bytes),
            _ => pack::<I, 11>(isa, compress::<I, 11>(isa, v[at]), at, bytes),
        }
    }
}

/// Reads and decompresses a polynomial.
#[inline(always)]
fn take<I: Isa>(isa: I, bits: usize, bytes: &[u8], poly: &mut Poly) {
    for at in 0..vectors::<I>() {
        let v = match bits {
            4 => decompress::<I, 4, 11>(isa, unpack::<I, 4>(isa, bytes, at)),
            5 => decompress::<I, 5, 10>(isa, unpack::<I, 5>(isa, bytes, at)),
            10 => decompress::<I, 10, 5>(isa, unpack::<I, 10>(isa, bytes, at)),
            _ => decompress::<I, 11, 4>(isa, unpack::<I, 11>(isa, bytes, at)),
        };
        poly.set(isa, at, v);
    }
}

/// Bytes of a transformed polynomial.
pub(super) const POLY_LEN: usize = 384;

/// What a parameter set says (FIPS 203, table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Rows and columns of the matrix.
    pub(super) k: usize,
    /// How wide the first noise is; the second's is 2.
    pub(super) eta: usize,
    /// Bits of a coefficient of the ciphertext's vector, and of its last polynomial.
    pub(super) u_bits: usize,
    pub(super) v_bits: usize,
}

/// Rows at most.
pub(super) const K_MAX: usize = 4;

#[inline(always)]
fn sample_matrix_with<I: Isa>(isa: I, seeds: &[Seed], polys: &mut [Poly]) {
    /// Blocks that are mostly enough: of 336 numbers 273 are below the modulus in the mean, with a deviation of 7.
    const BLOCKS: usize = 3;
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = [[0u8; BLOCKS * SHAKE_128 + SLACK]; STREAMS_MAX];
    let mut words = [[0i16; size_of::<Words16>() / 2]; STREAMS_MAX];
    for (seeds, polys) in seeds.chunks(lanes).zip(polys.chunks_mut(lanes)) {
        let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_128);
        for block in 0..BLOCKS {
            sponges.squeeze(&mut streams, block * SHAKE_128);
        }
        let mut counts = [0; STREAMS_MAX];
        for lane in 0..seeds.len() {
            counts[lane] = isa.below_kem(&streams[lane][..BLOCKS * SHAKE_128], &mut words[lane], 0);
        }
        while counts[..seeds.len()].iter().any(|count| *count < N) {
            sponges.squeeze(&mut streams, 0);
            for lane in 0..seeds.len() {
                counts[lane] = isa.below_kem(&streams[lane][..SHAKE_128], &mut words[lane], counts[lane]);
            }
        }
        for (lane, poly) in polys.iter_mut().enumerate() {
            let mut v = [isa.splat16(0); VECTORS_MAX];
            for at in 0..vectors::<I>() {
                v[at] = vector(isa, &words[lane], at);
            }
            order(isa, &mut v);
            for at in 0..vectors::<I>() {
                poly.set(isa, at, v[at]);
            }
        }
    }
}

lattice_kernels! {
    /// Draws transformed polynomials (FIPS 203, algorithm 7), as many as seeds.
    pub(super) fn sample_matrix(seeds: &[Seed], polys: &mut [Poly]) = sample_matrix_with
}

#[inline(always)]
fn sample_noise_with<I: Isa>(isa: I, eta: usize, seeds: &[Seed], polys: &mut [Poly]) {
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = zeroize::Zeroizing::new([[0u8; 2 * SHAKE_256 + SLACK]; STREAMS_MAX]);
    for (seeds, polys) in seeds.chunks(lanes).zip(polys.chunks_mut(lanes)) {
        let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_256);
        for block in 0..(64 * eta).div_ceil(SHAKE_256) {
            sponges.squeeze(&mut streams, block * SHAKE_256);
        }
        for (lane, poly) in polys.iter_mut().enumerate() {
            if eta == 2 {
                binomial_2(isa, &streams[lane], poly);
            } else {
                binomial_3(&streams[lane], poly);
            }
        }
    }
}

/// Each byte has two coefficients: the first two bits less the next two, and the same of the others (FIPS 203, algorithm 8).
#[inline(always)]
fn binomial_2<I: Isa>(isa: I, bytes: &[u8; 2 * SHAKE_256 + SLACK], poly: &mut Poly) {
    for at in 0..vectors::<I>() {
        // SAFETY: within the first 128 bytes.
        let bits = unsafe { isa.widen(bytes.as_ptr().add(at * (I::BYTES / 4))) };
        let (fives, threes) = (isa.splat32(0x55), isa.splat32(0x33));
        let counts = isa.add32(isa.and(bits, fives), isa.and(isa.shr32::<1>(bits), fives));
        let lifted = isa.add32(isa.and(counts, threes), threes);
        let differences = isa.sub32(lifted, isa.and(isa.shr32::<2>(counts), threes));
        let apart = isa.and(isa.or(differences, isa.shl32::<12>(differences)), isa.splat16(15));
        poly.set(isa, at, isa.sub16(apart, isa.splat16(3)));
    }
}

/// Three bytes have four coefficients of six bits.
#[inline(always)]
fn binomial_3(bytes: &[u8; 2 * SHAKE_256 + SLACK], poly: &mut Poly) {
    for (three, four) in bytes[..192].as_chunks::<3>().0.iter().zip(poly.0.as_chunks_mut::<4>().0) {
        let bits = u32::from(three[0]) | u32::from(three[1]) << 8 | u32::from(three[2]) << 16;
        let counts = (bits & 0x24_9249) + (bits >> 1 & 0x24_9249) + (bits >> 2 & 0x24_9249);
        for (at, coefficient) in four.iter_mut().enumerate() {
            let both = counts >> (6 * at);
            *coefficient = (both & 7) as i16 - (both >> 3 & 7) as i16;
        }
    }
}

lattice_kernels! {
    /// Draws polynomials of the centered binomial distribution (FIPS 203, algorithm 8), as many as seeds.
    pub(super) fn sample_noise(eta: usize, seeds: &[Seed], polys: &mut [Poly]) = sample_noise_with
}

#[inline(always)]
fn encrypt_with<I: Isa>(
    isa: I,
    set: Set,
    key: (&[Poly], &[Poly]),
    message: &[u8; 32],
    noise: &[Poly],
    ciphertext: &mut [u8],
) {
    let (matrix, t) = key;
    let k = set.k;
    let (secret, errors) = noise.split_at(k);
    let mut vector = zeroize::Zeroizing::new([Vector::default(); K_MAX]);
    for at in 0..k {
        vector[at].set(isa, &secret[at]);
    }
    let (u_len, v_len) = (N / 8 * set.u_bits, N / 8 * set.v_bits);
    for at in 0..=k {
        let mut v = row(isa, k, |term| if at < k { &matrix[term * k + at] } else { &t[term] }, &vector[..]);
        back(isa, &mut v);
        let start = at * u_len;
        let (bits, bytes) = if at < k {
            (set.u_bits, &mut ciphertext[start..start + u_len])
        } else {
            (set.v_bits, &mut ciphertext[start..start + v_len])
        };
        for index in 0..vectors::<I>() {
            v[index] = isa.add16(v[index], errors[at].get(isa, index));
        }
        if at == k {
            let mut poly = zeroize::Zeroizing::new(Poly::default());
            for (byte, eight) in message.iter().zip(poly.0.as_chunks_mut::<8>().0) {
                for (bit, coefficient) in eight.iter_mut().enumerate() {
                    *coefficient = -i16::from(byte >> bit & 1) & ((KEM_Q + 1) / 2);
                }
            }
            for index in 0..vectors::<I>() {
                v[index] = isa.add16(v[index], poly.get(isa, index));
            }
        }
        for index in 0..vectors::<I>() {
            v[index] = positive(isa, reduce(isa, v[index]));
        }
        put(isa, bits, &v, bytes);
    }
}

lattice_kernels! {
    /// K-PKE.Encrypt (FIPS 203, algorithm 14) under a transposed matrix and a vector, with noise that has been drawn: `k`
    /// polynomials of the vector, as many errors and one.
    pub(super) fn encrypt(
        set: Set, key: (&[Poly], &[Poly]), message: &[u8; 32], noise: &[Poly], ciphertext: &mut [u8],
    ) = encrypt_with
}

#[inline(always)]
fn decrypt_with<I: Isa>(isa: I, set: Set, secret: &[Poly], ciphertext: &[u8], message: &mut [u8; 32]) {
    let u_len = N / 8 * set.u_bits;
    let mut vector = zeroize::Zeroizing::new([Vector::default(); K_MAX]);
    let mut poly = Poly::default();
    for at in 0..set.k {
        take(isa, set.u_bits, &ciphertext[at * u_len..], &mut poly);
        vector[at].set(isa, &poly);
    }
    take(isa, set.v_bits, &ciphertext[set.k * u_len..], &mut poly);
    let mut v = row(isa, set.k, |term| &secret[term], &vector[..]);
    back(isa, &mut v);
    let bytes = I::BYTES / 16;
    for at in 0..vectors::<I>() {
        let number = positive(isa, reduce(isa, isa.sub16(poly.get(isa, at), v[at])));
        // One where 2x / q is nearer to one than to zero and two.
        let below = isa.sub16(number, isa.splat16(KEM_Q / 4 + 1));
        let above = isa.sub16(isa.splat16(3 * (KEM_Q / 4)), number);
        let bits = !isa.signs16(isa.or(below, above));
        message[at * bytes..(at + 1) * bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
    }
}

lattice_kernels! {
    /// K-PKE.Decrypt (FIPS 203, algorithm 15) under the transformed secret vector.
    pub(super) fn decrypt(set: Set, secret: &[Poly], ciphertext: &[u8], message: &mut [u8; 32]) = decrypt_with
}

#[inline(always)]
fn generate_with<I: Isa>(isa: I, set: Set, matrix: &[Poly], noise: &mut [Poly], t: &mut [Poly], encoded: &mut [u8]) {
    let k = set.k;
    let (secret, errors) = noise.split_at_mut(k);
    let mut vector = zeroize::Zeroizing::new([Vector::default(); K_MAX]);
    for at in 0..k {
        vector[at].set(isa, &secret[at]);
        secret[at] = vector[at].plain;
    }
    let twice = Factor::new(isa, TWICE);
    for at in 0..k {
        let product = row(isa, k, |term| &matrix[at * k + term], &vector[..]);
        let mut v = forward(isa, &errors[at]);
        for index in 0..vectors::<I>() {
            let sum = isa.add16(times(isa, product[index], twice), reduce(isa, v[index]));
            v[index] = positive(isa, reduce(isa, sum));
            t[at].set(isa, index, v[index]);
        }
        standard_order(isa, &mut v);
        for index in 0..vectors::<I>() {
            let pairs = isa.or(isa.and(v[index], isa.splat32(0xfff)), isa.shl32::<12>(isa.shr32::<16>(v[index])));
            pack::<I, 12>(isa, pairs, index, &mut encoded[at * POLY_LEN..]);
        }
    }
}

lattice_kernels! {
    /// The arithmetic of K-PKE.KeyGen (FIPS 203, algorithm 13), with noise that has been drawn: the secret vector, which
    /// becomes its transform, and the errors. The public vector goes to `t`, its encoding to the first bytes of `encoded`.
    pub(super) fn generate(
        set: Set, matrix: &[Poly], noise: &mut [Poly], t: &mut [Poly], encoded: &mut [u8],
    ) = generate_with
}

#[inline(always)]
fn decode_with<I: Isa>(isa: I, encoded: &[u8], t: &mut [Poly]) -> bool {
    let mut all_below = u32::MAX;
    for (bytes, poly) in encoded.as_chunks::<POLY_LEN>().0.iter().zip(t) {
        let mut v = [isa.splat16(0); VECTORS_MAX];
        for at in 0..vectors::<I>() {
            v[at] = unpack::<I, 12>(isa, bytes, at);
            all_below &= isa.signs16(isa.sub16(v[at], isa.splat16(KEM_Q)));
        }
        order(isa, &mut v);
        for at in 0..vectors::<I>() {
            poly.set(isa, at, v[at]);
        }
    }
    all_below == u32::MAX >> (32 - I::BYTES / 2)
}

lattice_kernels! {
    /// Reads the vector of a public key. Whether all of its coefficients are reduced (FIPS 203, 7.2).
    pub(super) fn decode(encoded: &[u8], t: &mut [Poly]) -> bool = decode_with
}

/// A product by transforms, for the tests of this arithmetic.
#[cfg(test)]
#[inline(always)]
pub(super) fn product_for_test<I: Isa>(isa: I, a: &Poly, b: &Poly, product: &mut Poly) {
    let (mut left, mut right) = ([Vector::default()], Vector::default());
    left[0].set(isa, a);
    right.set(isa, b);
    let mut v = row(isa, 1, |_| &right.plain, &left);
    back(isa, &mut v);
    for at in 0..vectors::<I>() {
        product.set(isa, at, positive(isa, reduce(isa, v[at])));
    }
}

/// A polynomial's compression and what is read of it.
#[cfg(test)]
#[inline(always)]
pub(super) fn rounded_for_test<I: Isa>(isa: I, bits: usize, poly: &Poly, bytes: &mut [u8], back: &mut Poly) {
    put(isa, bits, &load(isa, poly), bytes);
    take(isa, bits, bytes, back);
}

/// A polynomial in the standard's range.
#[cfg(test)]
#[inline(always)]
pub(super) fn reduced_for_test<I: Isa>(isa: I, poly: &mut Poly) {
    for at in 0..vectors::<I>() {
        poly.set(isa, at, positive(isa, reduce(isa, poly.get(isa, at))));
    }
}
