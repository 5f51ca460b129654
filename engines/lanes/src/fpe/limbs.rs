//! Long numbers as limbs of 64 bits, the lowest first, in time that depends on their lengths alone.

/// Ones where a condition holds, without a branch.
#[inline(always)]
fn mask(condition: bool) -> u64 {
    u64::from(core::hint::black_box(condition)).wrapping_neg()
}

/// Bytes of the largest number of `len` numerals.
pub(super) fn number_bytes(radix: u32, len: usize) -> usize {
    // A numeral has sixteen bits at most, and the power itself is one more than the largest number.
    let mut power = power(radix, len, len / 4 + 1);
    let mut borrow = 1;
    for limb in &mut power {
        (*limb, borrow) = less(*limb, borrow, 0);
    }
    bits(&power).div_ceil(8)
}

/// radix^exponent in as many limbs.
fn power(radix: u32, exponent: usize, limbs_len: usize) -> Vec<u64> {
    let mut power = vec![0; limbs_len];
    power[0] = 1;
    let mut filled = 1;
    for _ in 0..exponent {
        filled = (filled + usize::from(power[filled - 1] >> 48 != 0)).min(limbs_len);
        mul_add(&mut power[..filled], radix.into(), 0);
    }
    power
}

/// Bits of a number that is not secret.
pub(super) fn bits(number: &[u64]) -> usize {
    let top = number.iter().rposition(|limb| *limb != 0).unwrap_or(0);
    64 * top + (u64::BITS - number[top].leading_zeros()) as usize
}

/// `number · factor + digit`, as far as it fits.
pub(super) fn mul_add(number: &mut [u64], factor: u64, digit: u64) {
    let mut carry = digit;
    for limb in number {
        let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
        *limb = product as u64;
        carry = (product >> 64) as u64;
    }
}

/// Subtracts `other` from `number`, of the same length; gives ones when it was greater.
#[inline(always)]
fn subtract(number: &mut [u64], other: &[u64]) -> u64 {
    let mut borrow = 0u64;
    for (limb, other) in number.iter_mut().zip(other) {
        (*limb, borrow) = less(*limb, *other, borrow);
    }
    borrow.wrapping_neg()
}

/// `a - b - borrow` and the next borrow.
#[inline(always)]
fn less(a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let (difference, under) = a.overflowing_sub(b);
    let (difference, under_again) = difference.overflowing_sub(borrow);
    (difference, u64::from(under | under_again))
}

/// Adds `other` to `number`, of the same length, where `keep` is ones.
#[inline(always)]
fn add_where(number: &mut [u64], other: &[u64], keep: u64) {
    let mut carry = 0;
    for (limb, other) in number.iter_mut().zip(other) {
        let (sum, over) = limb.overflowing_add(*other & keep);
        let (sum, over_again) = sum.overflowing_add(carry);
        (*limb, carry) = (sum, u64::from(over | over_again));
    }
}

/// A modulus with what reductions need.
#[derive(Clone, Debug)]
pub(super) struct Modulus {
    /// M, with limbs to spare: four moduli fit.
    limbs: Vec<u64>,
    /// k: bits of M, more than 32.
    bits: usize,
    /// 2^(63 + k) / M, or one less.
    reciprocal: u64,
}

impl Modulus {
    /// radix^len in as many limbs.
    pub(super) fn new(radix: u32, len: usize, limbs_len: usize) -> Modulus {
        let limbs = power(radix, len, limbs_len);
        let bits = bits(&limbs);
        // The upper 128 bits of M, one more in the last place: no less than M, by a factor of 1 + 2^-127 at most.
        let at = |bit: usize| limbs[bit / 64] >> (bit % 64) & 1;
        let mut top = 0u128;
        for place in 1..=128 {
            top = top << 1 | if place <= bits { u128::from(at(bits - place)) } else { 0 };
        }
        // 2^191 divided by that, bit by bit.
        let divisor = top.checked_add(1);
        let (mut rest, mut reciprocal) = (1u128 << 127, 0u64);
        for _ in 0..64 {
            let carry = rest >> 127 != 0;
            rest <<= 1;
            reciprocal <<= 1;
            if let Some(divisor) = divisor
                && (carry || rest >= divisor)
            {
                rest = rest.wrapping_sub(divisor);
                reciprocal |= 1;
            } else if divisor.is_none() && carry {
                reciprocal |= 1;
            }
        }
        Modulus { limbs, bits, reciprocal }
    }

    /// Reduces a number below 2^(k + 63). It has as many limbs as the modulus.
    ///
    /// The number's bits from k - 1 on, times the reciprocal, shifted by 64, are a quotient that falls short by at most
    /// one for the bits shifted out, little more than one for the reciprocal's, and less than one for its own: three
    /// conditional subtractions make it right.
    #[inline(always)]
    pub(super) fn reduce(&self, number: &mut [u64]) {
        let len = number.len();
        let (limb, shift) = ((self.bits - 1) / 64, (self.bits - 1) % 64);
        let above = number.get(limb + 1).copied().unwrap_or(0);
        let top = number[limb] >> shift | above << 1 << (63 - shift);
        let quotient = ((u128::from(top) * u128::from(self.reciprocal)) >> 64) as u64;
        let (mut carry, mut borrow) = (0u64, 0);
        for (limb, modulus) in number.iter_mut().zip(&self.limbs[..len]) {
            let product = u128::from(*modulus) * u128::from(quotient) + u128::from(carry);
            carry = (product >> 64) as u64;
            (*limb, borrow) = less(*limb, product as u64, borrow);
        }
        for _ in 0..3 {
            self.reduce_once(number);
        }
    }

    /// Subtracts the modulus from a number that is not less.
    #[inline(always)]
    fn reduce_once(&self, number: &mut [u64]) {
        let limbs = &self.limbs[..number.len()];
        let under = subtract(number, limbs);
        add_where(number, limbs, under);
    }

    /// Adds two numbers below the modulus.
    #[inline(always)]
    pub(super) fn add(&self, number: &mut [u64], other: &[u64]) {
        add_where(number, other, u64::MAX);
        self.reduce_once(number);
    }

    /// Subtracts a number below the modulus from another.
    #[inline(always)]
    pub(super) fn subtract(&self, number: &mut [u64], other: &[u64]) {
        let under = subtract(number, other);
        let limbs = &self.limbs[..number.len()];
        add_where(number, limbs, under);
    }
}

/// The largest chunk of numerals: a quotient by the radix needs no correction up to here.
const CHUNK_MAX: u64 = 1 << 48;

/// As many numerals as are taken off a number at once.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    radix: u64,
    /// 2^64 / radix, rounded up.
    radix_reciprocal: u64,
    /// Numerals of a chunk.
    pub(super) len: usize,
    /// radix^len, at most [`CHUNK_MAX`].
    pub(super) power: u64,
    /// The shift that brings the power's top bit to bit 63.
    shift: u32,
    /// (2^128 - 1) / (power << shift) - 2^64 (Möller and Granlund 2011, "Improved division by invariant integers").
    reciprocal: u64,
}

impl Chunk {
    pub(super) fn new(radix: u32) -> Chunk {
        let radix = u64::from(radix);
        let (mut power, mut len) = (radix, 1);
        while power <= CHUNK_MAX / radix {
            power *= radix;
            len += 1;
        }
        let shift = power.leading_zeros();
        let reciprocal = (u128::MAX / u128::from(power << shift)) as u64;
        Chunk { radix, radix_reciprocal: u64::MAX / radix + 1, len, power, shift, reciprocal }
    }

    /// Divides a number by the power and gives the remainder.
    pub(super) fn pop(&self, number: &mut [u64]) -> u64 {
        let divisor = self.power << self.shift;
        // The number is divided shifted; what it has above its top limb is less than the divisor. The shift is never
        // zero.
        let mut rest = number.last().map_or(0, |top| top >> (64 - self.shift));
        for index in (0..number.len()).rev() {
            let below = if index == 0 { 0 } else { number[index - 1] >> (64 - self.shift) };
            let limb = number[index] << self.shift | below;
            let estimate = (u128::from(self.reciprocal) * u128::from(rest))
                .wrapping_add(u128::from(rest) << 64 | u128::from(limb));
            let mut quotient = ((estimate >> 64) as u64).wrapping_add(1);
            rest = limb.wrapping_sub(quotient.wrapping_mul(divisor));
            let over = mask(rest > estimate as u64);
            quotient = quotient.wrapping_add(over);
            rest = rest.wrapping_add(over & divisor);
            let more = mask(rest >= divisor);
            number[index] = quotient.wrapping_sub(more);
            rest -= more & divisor;
        }
        rest >> self.shift
    }

    /// Divides a chunk by the radix and gives its last numeral.
    ///
    /// With m the reciprocal and r the radix, m · r exceeds 2^64 by less than r. A chunk below 2^48 times that is below
    /// 2^64, so that the product exceeds the quotient by less than one rth: rounded down it is exact.
    #[inline(always)]
    pub(super) fn pop_numeral(&self, chunk: &mut u64) -> u16 {
        let quotient = ((u128::from(*chunk) * u128::from(self.radix_reciprocal)) >> 64) as u64;
        let rest = *chunk - quotient * self.radix;
        *chunk = quotient;
        rest as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerals_come_off_a_chunk_exactly() {
        for radix in 2..=1u32 << 16 {
            let chunk = Chunk::new(radix);
            assert!(chunk.power <= CHUNK_MAX && chunk.power > CHUNK_MAX / u64::from(radix));
            for value in [0, 1, chunk.power - 1, chunk.power / 2, chunk.power - u64::from(radix), u64::from(radix) - 1]
            {
                let mut rest = value;
                let numeral = u64::from(chunk.pop_numeral(&mut rest));
                assert_eq!((rest, numeral), (value / u64::from(radix), value % u64::from(radix)), "{value} / {radix}");
            }
        }
    }

    #[test]
    fn chunks_come_off_a_number_exactly() {
        for radix in [2, 3, 10, 36, 255, 256, 257, 1000, 46_341, 65_535, 65_536] {
            let chunk = Chunk::new(radix);
            for top in [0, 1, chunk.power - 1, u64::MAX] {
                let before = [u64::MAX, 0, 0x9e37_79b9_7f4a_7c15, top];
                let mut number = before;
                let rest = chunk.pop(&mut number);
                assert!(rest < chunk.power);
                mul_add(&mut number, chunk.power, rest);
                assert_eq!(number, before, "radix {radix}");
            }
        }
    }

    /// y modulo M for y around multiples of M, against M added up again.
    #[test]
    fn reductions_are_exact_around_multiples() {
        for (radix, len) in [(2, 62), (2, 127), (2, 128), (3, 50), (10, 20), (10, 38), (36, 30), (255, 9), (65_536, 5)]
        {
            let bytes = number_bytes(radix, len);
            let limbs = bytes / 8 + 2;
            let modulus = Modulus::new(radix, len, limbs);
            for quotient in [0, 1, 2, 0xffff_ffff, 0x7fff_ffff_ffff_ffff] {
                for excess in [0u64, 1, u64::MAX] {
                    let mut number = modulus.limbs.clone();
                    mul_add(&mut number, quotient, excess);
                    modulus.reduce(&mut number);
                    let mut expected = vec![0; limbs];
                    expected[0] = excess;
                    // The excess may be more than a small modulus.
                    while subtract(&mut expected, &modulus.limbs) == 0 {}
                    add_where(&mut expected, &modulus.limbs, u64::MAX);
                    assert_eq!(number, expected, "radix {radix}^{len}, quotient {quotient}, excess {excess}");
                    // One less than a multiple.
                    let mut number = modulus.limbs.clone();
                    mul_add(&mut number, quotient, 0);
                    let mut one = vec![0; limbs];
                    one[0] = 1;
                    if quotient != 0 {
                        subtract(&mut number, &one);
                        modulus.reduce(&mut number);
                        let mut expected = modulus.limbs.clone();
                        subtract(&mut expected, &one);
                        assert_eq!(number, expected, "radix {radix}^{len}, quotient {quotient}, less one");
                    }
                }
            }
        }
    }
}
