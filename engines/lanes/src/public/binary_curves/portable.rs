//! Two lanes as arrays of words, for processors without vectors of ours, and for tests.

use super::super::portable::Portable;
use super::isa::{Carryless, LANES_MAX};

/// Every fourth bit of a word.
const FOURTH: u64 = 0x1111_1111_1111_1111;

/// The carry-less product of half words, by products of integers: of every fourth bit of each factor eight at most are summed in
/// a place, whose lowest of four bits is their sum modulo two.
fn half_product(a: u64, b: u64) -> u64 {
    let (a, b): ([u64; 4], [u64; 4]) =
        (core::array::from_fn(|class| a & FOURTH << class), core::array::from_fn(|class| b & FOURTH << class));
    let class = |class: usize| {
        let sum = (0..4).fold(0, |sum, i| sum ^ a[i].wrapping_mul(b[(4 + class - i) % 4]));
        sum & FOURTH << class
    };
    class(0) | class(1) | class(2) | class(3)
}

/// The carry-less product of words, from three of half words (Karatsuba).
fn product(a: u64, b: u64) -> u128 {
    let [a_low, a_high, b_low, b_high] = [a & 0xffff_ffff, a >> 32, b & 0xffff_ffff, b >> 32];
    let (low, high) = (half_product(a_low, b_low), half_product(a_high, b_high));
    let middle = half_product(a_low ^ a_high, b_low ^ b_high) ^ low ^ high;
    u128::from(low) ^ u128::from(middle) << 32 ^ u128::from(high) << 64
}

impl Carryless for Portable {
    type V = [u64; 2];
    type P = [u128; 2];
    const LANES: usize = 2;

    #[inline(always)]
    fn splat(self, word: u64) -> [u64; 2] {
        [word; 2]
    }

    #[inline(always)]
    fn load(self, words: &[u64; LANES_MAX]) -> [u64; 2] {
        [words[0], words[1]]
    }

    #[inline(always)]
    fn store(self, vector: [u64; 2]) -> [u64; LANES_MAX] {
        [vector[0], vector[1], 0, 0, 0, 0, 0, 0]
    }

    #[inline(always)]
    fn xor(self, a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
        [a[0] ^ b[0], a[1] ^ b[1]]
    }

    #[inline(always)]
    fn and(self, a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
        [a[0] & b[0], a[1] & b[1]]
    }

    #[inline(always)]
    fn or(self, a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
        [a[0] | b[0], a[1] | b[1]]
    }

    #[inline(always)]
    fn shl(self, a: [u64; 2], bits: u32) -> [u64; 2] {
        a.map(|word| word << bits)
    }

    #[inline(always)]
    fn shr(self, a: [u64; 2], bits: u32) -> [u64; 2] {
        a.map(|word| word >> bits)
    }

    #[inline(always)]
    fn zero_mask(self, a: [u64; 2]) -> [u64; 2] {
        // Hidden from the compiler, which makes branches of what is selected by masks that it sees through.
        core::hint::black_box(a.map(|word| ((word | word.wrapping_neg()) >> 63).wrapping_sub(1)))
    }

    #[inline(always)]
    fn select(self, mask: [u64; 2], a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
        core::array::from_fn(|lane| a[lane] & mask[lane] | b[lane] & !mask[lane])
    }

    #[inline(always)]
    fn product(self, a: [u64; 2], b: [u64; 2]) -> [u128; 2] {
        [product(a[0], b[0]), product(a[1], b[1])]
    }

    #[inline(always)]
    fn sum(self, a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
        [a[0] ^ b[0], a[1] ^ b[1]]
    }

    #[inline(always)]
    fn halves(self, product: [u128; 2]) -> [[u64; 2]; 2] {
        [product.map(|product| product as u64), product.map(|product| (product >> 64) as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_sums_of_shifts() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200 {
            let left = word;
            word = word.wrapping_mul(0xd129_0d3b_3c1a_7f2d).rotate_left(23) ^ 0x5bd1;
            for (left, right) in [(left, word), (u64::MAX, word), (u64::MAX, u64::MAX), (1 << 63, word), (left, 0)] {
                let bits = (0..64).filter(|bit| right >> bit & 1 == 1);
                let expected = bits.fold(0, |sum, bit| sum ^ u128::from(left) << bit);
                assert_eq!(product(left, right), expected, "{left:x} {right:x}");
            }
        }
    }
}
