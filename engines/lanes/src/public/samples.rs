//! What tests of this family have in common: test numbers, and lists of limbs as big integers.

use crypto_bigint::{BoxedUint, Resize as _};

/// A generator of test numbers (Marsaglia 2003).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Limbs up to the largest that there may be: random, or all zero, or all the largest, or some of them.
    pub(super) fn limbs(&mut self, count: usize, largest: u64) -> Vec<u64> {
        let kind = self.next() % 8;
        let mut limb = || match kind {
            0 => 0,
            1 => largest,
            2 if self.next().is_multiple_of(2) => largest,
            2 => 0,
            _ => self.next() % (largest + 1),
        };
        (0..count).map(|_| limb()).collect()
    }
}

/// Limbs of `radix_bits` bits each, or a little more, as a number of `bits` bits.
pub(super) fn number(limbs: &[u64], radix_bits: u32, bits: u32) -> BoxedUint {
    let zero = BoxedUint::zero_with_precision(bits);
    let add =
        |sum: BoxedUint, limb: &u64| sum.wrapping_shl(radix_bits).wrapping_add(&BoxedUint::from(*limb).resize(bits));
    limbs.iter().rev().fold(zero, add)
}
