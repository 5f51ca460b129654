//! What radix and length fix for a value before any key is known (SP 800-38G, algorithm 7, steps 1 to 5). Nothing here
//! is secret.

use super::limbs::{self, Chunk};

/// The largest half that fits a lane: four times it is below 2^63, which is what the reductions of [`super::number`]
/// need.
pub(super) const NARROW_MAX: u64 = 1 << 61;

/// The largest half that is calculated in 32 bits.
pub(super) const SMALL_MAX: u64 = 1 << 30;

/// The least half that is calculated in 32 bits.
const SMALL_MIN: u64 = 64;

/// A modulus for lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modulus {
    /// The modulus, at most [`NARROW_MAX`].
    pub(super) value: u64,
    /// Bits of `value`.
    pub(super) bits: u32,
    /// 2^(63 + bits) / value, rounded down, and 2^64 - 1 where that were 2^64.
    pub(super) reciprocal: u64,
}

/// Half lengths and what follows from them.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) radix: u32,
    /// Numerals of a value.
    pub(super) len: usize,
    /// `u`: numerals of the left half.
    pub(super) left: usize,
    /// `v`: numerals of the right half.
    pub(super) right: usize,
    /// `b`: bytes of a half's number.
    pub(super) number_len: usize,
    /// `d`: bytes of a round's number.
    pub(super) round_len: usize,
    /// The moduli of even and of odd rounds, radix^u and radix^v, where they fit lanes.
    pub(super) narrow: Option<[Modulus; 2]>,
    /// The same in limbs, where they do not fit lanes.
    pub(super) wide: Option<Wide>,
}

/// What halves in limbs are calculated with.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    /// Limbs of a number: four moduli fit, and numbers are read as whole blocks.
    pub(super) limbs: usize,
    /// The moduli of even and of odd rounds.
    pub(super) moduli: [limbs::Modulus; 2],
    pub(super) chunk: Chunk,
}

impl Modulus {
    /// A modulus from 1 to [`NARROW_MAX`].
    pub(super) fn new(value: u64) -> Modulus {
        debug_assert!((1..=NARROW_MAX).contains(&value));
        let bits = u64::BITS - value.leading_zeros();
        let reciprocal = (1u128 << (63 + bits)) / u128::from(value);
        Modulus { value, bits, reciprocal: u64::try_from(reciprocal).unwrap_or(u64::MAX) }
    }
}

impl Shape {
    /// The shape of values of `len` numerals, two at least, of a valid radix.
    pub(super) fn new(radix: u32, len: usize) -> Shape {
        let (left, right) = (len / 2, len - len / 2);
        let narrow = match (power(radix, left), power(radix, right)) {
            (Some(left_power), Some(power)) if power <= NARROW_MAX => {
                let right = Modulus::new(power);
                Some([if left_power == power { right } else { Modulus::new(left_power) }, right])
            }
            _ => None,
        };
        let number_len = match narrow {
            Some([_, right]) => (u64::BITS - (right.value - 1).leading_zeros()).div_ceil(8) as usize,
            None => limbs::number_bytes(radix, right),
        };
        let round_len = 4 * number_len.div_ceil(4) + 4;
        let mut shape = Shape { radix, len, left, right, number_len, round_len, narrow, wide: None };
        if narrow.is_none() {
            let limbs = (number_len.div_ceil(8) + 1).max(2 * shape.round_blocks());
            let moduli = [left, right].map(|half| limbs::Modulus::new(radix, half, limbs));
            shape.wide = Some(Wide { limbs, moduli, chunk: Chunk::new(radix) });
        }
        shape
    }

    /// Whether both halves' numbers are calculated in 32 bits.
    pub(super) fn is_small(&self) -> bool {
        self.narrow.is_some_and(|[left, right]| left.value >= SMALL_MIN && right.value <= SMALL_MAX)
    }

    /// Bytes of the first block of a round's number that precede the round's own: the last of the tweak or its padding.
    pub(super) fn lead(&self) -> usize {
        15 - self.number_len % 16
    }

    /// Blocks of tweak and padding that precede the first block with a round's own bytes, for a tweak of `tweak_len`
    /// bytes (step 6i).
    pub(super) fn prefix_blocks(&self, tweak_len: usize) -> usize {
        (tweak_len + self.number_len + 1).div_ceil(16) - self.round_blocks()
    }

    /// Blocks with a round's own bytes: its index and the half's number.
    pub(super) fn round_blocks(&self) -> usize {
        (self.number_len + 1).div_ceil(16)
    }

    /// Block P (step 5).
    pub(super) fn first_block(&self, tweak_len: usize) -> [u8; 16] {
        let mut block = [1, 2, 1, 0, 0, 0, 10, self.left as u8, 0, 0, 0, 0, 0, 0, 0, 0];
        block[3..6].copy_from_slice(&self.radix.to_be_bytes()[1..]);
        block[8..12].copy_from_slice(&(self.len as u32).to_be_bytes());
        block[12..].copy_from_slice(&(tweak_len as u32).to_be_bytes());
        block
    }
}

/// radix^exponent, where it is below 2^64.
pub(super) fn power(radix: u32, exponent: usize) -> Option<u64> {
    // Even a radix of two leaves 64 bits at an exponent of 64.
    if exponent >= 64 { None } else { u64::from(radix).checked_pow(exponent as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_lengths_are_those_of_the_standards_formula() {
        // SP 800-38G, samples 1 and 3: five numerals of radix 10 take 17 bits, ten of radix 36 take 52.
        for (radix, len, bytes) in [(10, 10, 3), (36, 19, 7), (2, 32, 2), (2, 33, 3), (65_536, 5, 6), (65_536, 4, 4)] {
            assert_eq!(Shape::new(radix, len).number_len, bytes, "radix {radix}, {len} numerals");
        }
        // Radix 2: as many bits as numerals; and 10^20 takes 67.
        for (radix, half, bits) in [(2, 62, 62), (2, 128, 128), (2, 129, 129), (256, 2048, 16_384), (10, 20, 67)] {
            assert_eq!(Shape::new(radix, 2 * half).number_len, usize::div_ceil(bits, 8));
        }
    }

    #[test]
    fn tweaks_fill_the_blocks_before_the_rounds_own() {
        let shape = Shape::new(10, 16);
        assert_eq!((shape.number_len, shape.round_len, shape.lead(), shape.round_blocks()), (4, 8, 11, 1));
        for (tweak_len, blocks) in [(0, 0), (11, 0), (12, 1), (27, 1), (28, 2)] {
            assert_eq!(shape.prefix_blocks(tweak_len), blocks, "{tweak_len}");
        }
        let long = Shape::new(2, 256);
        assert_eq!((long.number_len, long.lead(), long.round_blocks()), (16, 15, 2));
        for (tweak_len, blocks) in [(0, 0), (15, 0), (16, 1)] {
            assert_eq!(long.prefix_blocks(tweak_len), blocks, "{tweak_len}");
        }
    }
}
