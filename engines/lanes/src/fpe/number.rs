//! Numbers in 64-bit lanes: reduction modulo a power of the radix, addition and subtraction (SP 800-38G, algorithm 7,
//! steps 6iv to 6vi). Quotients are estimated by multiplication with a reciprocal and corrected by conditional
//! subtraction, so that time tells nothing of the numbers.

use super::shape::{Modulus, Shape};
use crate::aes::isa::Blocks;
use crate::aes::numbers::{NumberIsa, Numbers};

/// Arithmetic modulo one half's power of the radix.
pub(super) trait Arithmetic<I: NumberIsa>: Copy {
    /// For the rounds of one parity: 0 for even ones, whose modulus is radix^u, 1 for odd ones.
    fn new(isa: I, shape: &Shape, moduli: &[Modulus; 2], parity: usize) -> Self;
    /// A round's number, the first `d` bytes of the PRF's output in two vectors of blocks, congruent and below as many
    /// moduli as `add` and `subtract` take. `order` is [`order`]'s.
    fn round_number(self, isa: I, a: I::V, b: I::V, order: I::V) -> I::V;
    /// `number` plus what `round_number` gave.
    fn add(self, number: I::V, round: I::V) -> I::V;
    /// `number` minus what `round_number` gave.
    fn subtract(self, number: I::V, round: I::V) -> I::V;
    /// How bytes have to be shuffled for `round_number`.
    fn order(isa: I, shape: &Shape) -> I::V;
    /// `number · factor + digit`; the sum is below the modulus.
    fn push(number: I::V, factor: I::V, digit: I::V) -> I::V;
}

/// The same number everywhere.
#[inline(always)]
pub(super) fn splat<I: NumberIsa>(isa: I, number: u64) -> I::V {
    isa.pair(number, number)
}

/// Halves of at most 2^30 and rounds' numbers of eight bytes.
///
/// A round's number y is folded once, t = (y >> 35) · (2^35 mod M) + (y mod 2^35). As M is at least 64, t is below
/// 2^30 · M, and with k the bits of M, t >> (k - 2) is below 2^32. Multiplied by 2^(31 + k) / M and shifted by 33 it
/// gives a quotient that falls short by less than one half for the bits shifted out, less than one half for the
/// reciprocal's, and less than one for its own: t minus that many moduli is below 2 · M.
#[derive(Clone, Copy)]
pub(super) struct Small<V> {
    modulus: V,
    twice: V,
    /// 2^35 mod M.
    fold: V,
    /// 2^35 - 1.
    low: V,
    /// k - 2.
    shift: V,
    /// 2^(31 + k) / M, at most 2^32 - 1.
    reciprocal: V,
}

impl<I: NumberIsa> Arithmetic<I> for Small<I::V> {
    #[inline(always)]
    fn new(isa: I, _shape: &Shape, moduli: &[Modulus; 2], parity: usize) -> Self {
        let modulus = &moduli[parity];
        Small {
            modulus: splat(isa, modulus.value),
            twice: splat(isa, 2 * modulus.value),
            fold: splat(isa, (1 << 35) % modulus.value),
            low: splat(isa, (1 << 35) - 1),
            shift: splat(isa, u64::from(modulus.bits - 2)),
            reciprocal: splat(isa, modulus.reciprocal >> 32),
        }
    }

    #[inline(always)]
    fn round_number(self, _isa: I, a: I::V, b: I::V, order: I::V) -> I::V {
        let number = a.low_halves(b).shuffle(order);
        let folded = number.shr64::<35>().mul32(self.fold).add64(number.and(self.low));
        let quotient = folded.shr64_by(self.shift).mul32(self.reciprocal).shr64::<33>();
        folded.sub64(quotient.mul32(self.modulus))
    }

    #[inline(always)]
    fn add(self, number: I::V, round: I::V) -> I::V {
        // Below three moduli, thus below 2^32: a difference below zero is greater than what it was taken from.
        let sum = number.add64(round);
        let sum = sum.min32(sum.sub64(self.modulus));
        sum.min32(sum.sub64(self.modulus))
    }

    #[inline(always)]
    fn subtract(self, number: I::V, round: I::V) -> I::V {
        self.add_below_twice(number, self.twice.sub64(round))
    }

    #[inline(always)]
    fn order(isa: I, _shape: &Shape) -> I::V {
        isa.pair(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f)
    }

    #[inline(always)]
    fn push(number: I::V, factor: I::V, digit: I::V) -> I::V {
        number.mul32(factor).add64(digit)
    }
}

impl<V: Numbers> Small<V> {
    /// The same as `add`, for a difference of at most two moduli.
    #[inline(always)]
    fn add_below_twice(self, number: V, difference: V) -> V {
        let sum = number.add64(difference);
        let sum = sum.min32(sum.sub64(self.modulus));
        sum.min32(sum.sub64(self.modulus))
    }
}

/// Halves of at most 2^61 and rounds' numbers of eight or twelve bytes.
#[derive(Clone, Copy)]
pub(super) struct Large<V> {
    modulus: V,
    first: Barrett<V>,
    /// A second reduction, where the modulus is too small to take twelve bytes at once.
    second: Option<Barrett<V>>,
}

/// Reduction modulo N of k bits.
///
/// y >> (k - 1) has 64 bits at most: k is at least 33 for a y of twelve bytes. Multiplied by 2^(63 + k) / N and shifted
/// by 64 it gives a quotient that falls short by at most one for the bits shifted out, less than one for the
/// reciprocal's, less than one for the products that are left out, and less than one for its own: y minus that many
/// moduli is below 4 · N.
#[derive(Clone, Copy)]
struct Barrett<V> {
    modulus: V,
    twice: V,
    /// k - 1.
    down: V,
    /// 65 - k.
    up: V,
    reciprocal: V,
    reciprocal_high: V,
    /// 2^32 - 1.
    low: V,
}

impl<V: Numbers> Barrett<V> {
    #[inline(always)]
    fn new<I: NumberIsa<V = V>>(isa: I, modulus: &Modulus) -> Self {
        Barrett {
            modulus: splat(isa, modulus.value),
            twice: splat(isa, 2 * modulus.value),
            down: splat(isa, u64::from(modulus.bits - 1)),
            up: splat(isa, u64::from(65 - modulus.bits)),
            reciprocal: splat(isa, modulus.reciprocal),
            reciprocal_high: splat(isa, modulus.reciprocal >> 32),
            low: splat(isa, 0xffff_ffff),
        }
    }

    /// `low + 2^64 · high` modulo N; `high` is below 2^32, and zero for k below 33.
    #[inline(always)]
    fn reduce(self, low: V, high: V) -> V {
        let top = low.shr64_by(self.down).or(high.shl64_by(self.up));
        let quotient = mul_high(top, self.reciprocal, self.reciprocal_high, self.low);
        let rest = low.sub64(quotient.mul64(self.modulus));
        rest.reduce64(self.twice).reduce64(self.modulus)
    }
}

/// The high 64 bits of a product, or one less: the product of the low halves is left out. `b_high` is `b >> 32`, `low`
/// 2^32 - 1.
#[inline(always)]
pub(super) fn mul_high<V: Numbers>(a: V, b: V, b_high: V, low: V) -> V {
    let a_high = a.shr64::<32>();
    let one = a.mul32(b_high);
    // A product of two halves leaves room for one half more.
    let middle = a_high.mul32(b).add64(one.and(low));
    a_high.mul32(b_high).add64(one.shr64::<32>()).add64(middle.shr64::<32>())
}

impl<I: NumberIsa> Arithmetic<I> for Large<I::V> {
    #[inline(always)]
    fn new(isa: I, shape: &Shape, moduli: &[Modulus; 2], parity: usize) -> Self {
        let own = &moduli[parity];
        // radix^v has more bits than that wherever a round's number has twelve bytes.
        let twice = shape.round_len > 8 && own.bits < 33;
        Large {
            modulus: splat(isa, own.value),
            first: Barrett::new(isa, if twice { &moduli[1] } else { own }),
            second: if twice { Some(Barrett::new(isa, own)) } else { None },
        }
    }

    #[inline(always)]
    fn round_number(self, isa: I, a: I::V, b: I::V, order: I::V) -> I::V {
        let (a, b) = (a.shuffle(order), b.shuffle(order));
        let rest = self.first.reduce(a.low_halves(b), a.high_halves(b));
        match self.second {
            Some(second) => second.reduce(rest, isa.zero()),
            None => rest,
        }
    }

    #[inline(always)]
    fn add(self, number: I::V, round: I::V) -> I::V {
        number.add64(round).reduce64(self.modulus)
    }

    #[inline(always)]
    fn subtract(self, number: I::V, round: I::V) -> I::V {
        number.add64(self.modulus.sub64(round)).reduce64(self.modulus)
    }

    #[inline(always)]
    fn order(isa: I, shape: &Shape) -> I::V {
        // The number's bytes, the last one first; there are eight or twelve.
        let mut order = [0x80; 16];
        for (i, from) in order.iter_mut().enumerate().take(shape.round_len) {
            *from = (shape.round_len - 1 - i) as u8;
        }
        isa.splat_bytes(&order)
    }

    #[inline(always)]
    fn push(number: I::V, factor: I::V, digit: I::V) -> I::V {
        number.mul64(factor).add64(digit)
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::{AesSize, Ff1};

    use super::*;
    use crate::aes::isa::{AesNi, Isa, Vaes256, Vaes512};
    use crate::instruction_set::InstructionSet;

    fn numbers<V: Numbers>(vector: V) -> [u64; 8] {
        let mut numbers = [0; 8];
        // SAFETY: no vector is longer.
        unsafe { vector.store(numbers.as_mut_ptr().cast()) };
        numbers
    }

    /// A round's number as the PRF gives it: its bytes first in the block, the highest first.
    fn block<I: Isa>(isa: I, number: u128, len: usize) -> I::V {
        isa.splat_bytes(&(number << (128 - 8 * len)).to_be_bytes())
    }

    fn check_shape<I: NumberIsa, A: Arithmetic<I>>(isa: I, shape: &Shape, moduli: &[Modulus; 2]) {
        let (len, order) = (shape.round_len, A::order(isa, shape));
        let top = u128::MAX >> (128 - 8 * len);
        for (parity, modulus) in moduli.iter().enumerate() {
            let arithmetic = A::new(isa, shape, moduli, parity);
            let modulus = u128::from(modulus.value);
            // Around multiples of the modulus is where an estimated quotient would slip.
            let last = top / modulus * modulus;
            let middle = top / 3 / modulus * modulus;
            for number in [0, 1, modulus - 1, modulus, middle - 1, middle, last - 1, last, top - 1, top] {
                let other = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & top;
                let (a, b) = (block(isa, number, len), block(isa, other, len));
                let round = arithmetic.round_number(isa, a, b, order);
                for half in [0, 1, modulus / 2, modulus - 1] {
                    let sums = numbers(arithmetic.add(splat(isa, half as u64), round));
                    let differences = numbers(arithmetic.subtract(splat(isa, half as u64), round));
                    for (i, number) in [number, other].into_iter().enumerate() {
                        let (sum, less) = ((half + number) % modulus, (half + modulus - number % modulus) % modulus);
                        assert_eq!(u128::from(sums[i]), sum, "{half} + {number} modulo {modulus}");
                        assert_eq!(u128::from(differences[i]), less, "{half} - {number} modulo {modulus}");
                    }
                }
            }
        }
    }

    fn check<I: NumberIsa>(isa: I) {
        for radix in (2..=70).chain([99, 100, 255, 256, 257, 1000, 1023, 1024, 4095, 32_768, 46_341, 65_535, 65_536]) {
            for len in 2..=122 {
                let shape = Shape::new(radix, len);
                let Some(moduli) = shape.narrow else { continue };
                if len < (Ff1 { size: AesSize::Aes128, radix }).numerals_min() {
                    continue;
                }
                check_shape::<I, Large<I::V>>(isa, &shape, &moduli);
                if shape.is_small() {
                    check_shape::<I, Small<I::V>>(isa, &shape, &moduli);
                }
            }
        }
    }

    #[test]
    fn rounds_numbers_are_reduced_exactly() {
        if let Some(isa) = Vaes512::detect() {
            check(isa);
        }
        if let Some(isa) = Vaes256::detect() {
            check(isa);
        }
        if let Some(isa) = AesNi::detect() {
            check(isa);
        }
    }
}
