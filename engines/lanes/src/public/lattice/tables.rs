//! The factors of the number-theoretic transforms (FIPS 203, 4.3 and appendix A; FIPS 204, 7.5 and appendix B), computed
//! when this is compiled, and the order that transformed coefficients lie in.
//!
//! Layers that pair whole vectors have one factor for all of a vector. Before each further layer the vectors of a pair exchange
//! blocks of half the distance ([`super::isa::Isa::transpose`]), so that it pairs vectors too. Coefficients stay in the order
//! that comes of it: products of transformed polynomials are the same in any order. [`coefficient_at`] follows them.

/// ML-KEM's modulus (FIPS 203, 2.4).
pub(crate) const KEM_Q: i16 = 3329;
/// The modulus's inverse modulo `2^16`.
pub(crate) const KEM_Q_INVERSE: i16 = inverse(KEM_Q as u32) as i16;

/// ML-DSA's modulus (FIPS 204, table 1) and its inverse modulo `2^32`.
pub(crate) const DSA_Q: i32 = 8_380_417;
pub(crate) const DSA_Q_INVERSE: i32 = inverse(DSA_Q as u32).cast_signed();

/// Bits by which ML-KEM's transform ends earlier: its last polynomials have two coefficients.
const KEM_LAST: usize = 2;

/// Layers whose factors differ within a vector, at most.
const MIXED_MAX: usize = 4;

/// A factor in Montgomery's form, and its product with the modulus's inverse.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Factors<T: Copy, const N: usize> {
    pub(crate) by: [T; N],
    pub(crate) by_inverse: [T; N],
}

/// What ML-KEM's transform multiplies by.
pub(crate) struct KemTables {
    /// For each node of the tree of layers, from its root, number 1, on.
    pub(crate) whole: Factors<i16, 128>,
    /// For each layer within vectors, for each word of the second vectors of its pairs.
    pub(crate) mixed: [Factors<i16, 128>; MIXED_MAX],
    /// The same on the way back: the factor of a layer's node is that of its mirror image (FIPS 203, algorithm 10).
    pub(crate) mixed_back: [Factors<i16, 128>; MIXED_MAX],
    /// For each coefficient of a factor: one, and the root that products of odd coefficients are multiplied by (FIPS 203,
    /// algorithm 12).
    pub(crate) odd: Factors<i16, 256>,
}

/// What ML-DSA's transform multiplies by.
pub(crate) struct DsaTables {
    pub(crate) whole: Factors<i32, 256>,
    pub(crate) mixed: [Factors<i32, 128>; MIXED_MAX],
    pub(crate) mixed_back: [Factors<i32, 128>; MIXED_MAX],
}

/// The inverse of an odd number modulo `2^32` (Newton's iteration, each of which doubles the bits that are right).
const fn inverse(number: u32) -> u32 {
    let mut inverse = number;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(number.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

const fn power(base: u64, mut exponent: u32, modulus: u64) -> u64 {
    let (mut result, mut square) = (1, base % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    result
}

/// The lowest `bits` bits of a number in the other order.
const fn reversed(number: usize, bits: u32) -> u32 {
    (number as u32).reverse_bits() >> (32 - bits)
}

/// A power of ML-KEM's root of unity in Montgomery's form, from `-q/2` to `q/2`.
const fn kem_factor(exponent: u32) -> i16 {
    let factor = (power(17, exponent, 3329) * (1 << 16) % 3329) as i16;
    if factor > KEM_Q / 2 { factor - KEM_Q } else { factor }
}

/// The same of ML-DSA's.
const fn dsa_factor(exponent: u32) -> i32 {
    let factor = (power(1753, exponent, DSA_Q as u64) * (1 << 32) % DSA_Q as u64) as i32;
    if factor > DSA_Q / 2 { factor - DSA_Q } else { factor }
}

/// Which coefficient lies at a place, after so many exchanges of blocks that halve, of vectors of so many words.
pub(crate) const fn coefficient_at(place: usize, words: usize, exchanges: u32) -> usize {
    let mut coefficient = place;
    let mut exchange = exchanges;
    while exchange > 0 {
        exchange -= 1;
        let (inner, outer) = (words >> (exchange + 1), words);
        let (low, high) = (coefficient & inner != 0, coefficient & outer != 0);
        coefficient &= !(inner | outer);
        coefficient |= if low { outer } else { 0 } | if high { inner } else { 0 };
    }
    coefficient
}

/// ML-KEM's tables for vectors of so many words.
pub(crate) const fn kem_tables(words: usize) -> KemTables {
    let none = Factors { by: [0; 128], by_inverse: [0; 128] };
    let odd = Factors { by: [0; 256], by_inverse: [0; 256] };
    let mut tables = KemTables { whole: none, mixed: [none; MIXED_MAX], mixed_back: [none; MIXED_MAX], odd };
    let mut node = 0;
    while node < 128 {
        let by = kem_factor(reversed(node, 7));
        tables.whole.by[node] = by;
        tables.whole.by_inverse[node] = by.wrapping_mul(KEM_Q_INVERSE);
        node += 1;
    }
    let layers = layers_within(words, KEM_LAST);
    let mut layer = 0;
    while layer < layers {
        let distance = words >> (layer + 1);
        let mut at = 0;
        while at < 128 {
            let place = at / words * 2 * words + words + at % words;
            let coefficient = coefficient_at(place, words, layer as u32 + 1);
            let node = 128 / distance + coefficient / (2 * distance);
            tables.mixed[layer].by[at] = tables.whole.by[node];
            tables.mixed[layer].by_inverse[at] = tables.whole.by_inverse[node];
            let mirrored = 3 * (128 / distance) - 1 - node;
            tables.mixed_back[layer].by[at] = tables.whole.by[mirrored];
            tables.mixed_back[layer].by_inverse[at] = tables.whole.by_inverse[mirrored];
            at += 1;
        }
        layer += 1;
    }
    let mut place = 0;
    while place < 256 {
        let coefficient = coefficient_at(place, words, layers as u32);
        let by = if coefficient.is_multiple_of(2) {
            kem_factor(0)
        } else {
            kem_factor(2 * reversed(coefficient / 2, 7) + 1)
        };
        tables.odd.by[place] = by;
        tables.odd.by_inverse[place] = by.wrapping_mul(KEM_Q_INVERSE);
        place += 1;
    }
    tables
}

/// ML-DSA's tables for vectors of so many words.
pub(crate) const fn dsa_tables(words: usize) -> DsaTables {
    let none = Factors { by: [0; 128], by_inverse: [0; 128] };
    let whole = Factors { by: [0; 256], by_inverse: [0; 256] };
    let mut tables = DsaTables { whole, mixed: [none; MIXED_MAX], mixed_back: [none; MIXED_MAX] };
    let mut node = 0;
    while node < 256 {
        let by = dsa_factor(reversed(node, 8));
        tables.whole.by[node] = by;
        tables.whole.by_inverse[node] = by.wrapping_mul(DSA_Q_INVERSE);
        node += 1;
    }
    let layers = layers_within(words, 1);
    let mut layer = 0;
    while layer < layers {
        let distance = words >> (layer + 1);
        let mut at = 0;
        while at < 128 {
            let place = at / words * 2 * words + words + at % words;
            let coefficient = coefficient_at(place, words, layer as u32 + 1);
            let node = 128 / distance + coefficient / (2 * distance);
            tables.mixed[layer].by[at] = tables.whole.by[node];
            tables.mixed[layer].by_inverse[at] = tables.whole.by_inverse[node];
            let mirrored = 3 * (128 / distance) - 1 - node;
            tables.mixed_back[layer].by[at] = tables.whole.by[mirrored];
            tables.mixed_back[layer].by_inverse[at] = tables.whole.by_inverse[mirrored];
            at += 1;
        }
        layer += 1;
    }
    tables
}

/// Layers that pair words of one vector: from half a vector to `last` words.
pub(crate) const fn layers_within(words: usize, last: usize) -> usize {
    (words / last).ilog2() as usize
}
