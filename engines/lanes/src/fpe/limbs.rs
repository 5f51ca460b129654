//! Long numbers as limbs of 64 bits, the lowest first, in time that depends on their lengths alone.

use super::Memory;

/// Ones where a condition holds, without a branch.
#[inline(always)]
fn mask(condition: bool) -> u64 {
    u64::from(core::hint::black_box(condition)).wrapping_neg()
}

/// Bytes of the largest number of `len` numerals.
pub(super) fn power_bytes(radix: u32, len: usize, memory: &mut Memory) -> usize {
    let power = memory.room(power_words(len));
    power_of(radix, len, power);
    let mut borrow = 1;
    for limb in power.iter_mut() {
        let (less, under) = limb.overflowing_sub(borrow);
        *limb = less;
        borrow = u64::from(under);
    }
    bits(power).div_ceil(8)
}

/// Limbs that the power of any radix takes.
pub(super) const fn power_words(exponent: usize) -> usize {
    // A numeral has sixteen bits, and the power itself is one more than the largest number.
    exponent / 4 + 1
}

/// radix^exponent.
pub(super) fn power_of(radix: u32, exponent: usize, power: &mut [u64]) {
    power.fill(0);
    power[0] = 1;
    for _ in 0..exponent {
        mul_add(power, radix.into(), 0);
    }
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

/// Adds `other` to `number`, of the same length.
pub(super) fn add(number: &mut [u64], other: &[u64]) {
    let mut carry = 0;
    for (limb, other) in number.iter_mut().zip(other) {
        let sum = u128::from(*limb) + u128::from(*other) + carry;
        *limb = sum as u64;
        carry = sum >> 64;
    }
}

/// Subtracts `other` from `number`, of the same length, where `keep` is ones; gives ones when it was greater.
pub(super) fn subtract(number: &mut [u64], other: &[u64], keep: u64) -> u64 {
    let mut borrow = 0u64;
    for (limb, other) in number.iter_mut().zip(other) {
        (*limb, borrow) = less(*limb, *other & keep, borrow);
    }
    borrow.wrapping_neg()
}

/// `a - b - borrow` and the next borrow.
#[inline(always)]
fn less(a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let difference = u128::from(a).wrapping_sub(u128::from(b)).wrapping_sub(u128::from(borrow));
    (difference as u64, (difference >> 127) as u64)
}

/// Adds `other` to `number` where `keep` is ones.
fn add_where(number: &mut [u64], other: &[u64], keep: u64) {
    let mut carry = 0;
    for (limb, other) in number.iter_mut().zip(other) {
        let sum = u128::from(*limb) + u128::from(*other & keep) + carry;
        *limb = sum as u64;
        carry = sum >> 64;
    }
}

/// A modulus with what reductions need.
pub(super) struct Modulus<'m> {
    /// M, with limbs to spare: four moduli fit.
    limbs: &'m [u64],
    /// k: bits of M, more than 32.
    bits: usize,
    /// 2^(63 + k) / M, or one less.
    reciprocal: u64,
}

impl<'m> Modulus<'m> {
    /// A modulus that is not secret.
    pub(super) fn new(limbs: &'m [u64]) -> Modulus<'m> {
        let bits = bits(limbs);
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
    pub(super) fn reduce(&self, number: &mut [u64]) {
        let (limb, shift) = ((self.bits - 1) / 64, (self.bits - 1) % 64);
        let above = number.get(limb + 1).copied().unwrap_or(0);
        let top = number[limb] >> shift | above << 1 << (63 - shift);
        let quotient = (u128::from(top) * u128::from(self.reciprocal) >> 64) as u64;
        let (mut carry, mut borrow) = (0u64, 0);
        for (limb, modulus) in number.iter_mut().zip(self.limbs) {
            let product = u128::from(*modulus) * u128::from(quotient) + u128::from(carry);
            carry = (product >> 64) as u64;
            (*limb, borrow) = less(*limb, product as u64, borrow);
        }
        for _ in 0..3 {
            self.reduce_once(number);
        }
    }

    /// Subtracts the modulus from a number that is not less.
    fn reduce_once(&self, number: &mut [u64]) {
        let under = subtract(number, self.limbs, u64::MAX);
        add_where(number, self.limbs, under);
    }

    /// Adds two numbers below the modulus.
    pub(super) fn add(&self, number: &mut [u64], other: &[u64]) {
        add(number, other);
        self.reduce_once(number);
    }

    /// Subtracts a number below the modulus from another.
    pub(super) fn subtract(&self, number: &mut [u64], other: &[u64]) {
        let under = subtract(number, other, u64::MAX);
        add_where(number, self.limbs, under);
    }
}

/// As many numerals as fit a limb, and how to take them off a number.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    radix: u64,
    /// 2^64 / radix.
    radix_reciprocal: u64,
    /// Numerals of a chunk.
    pub(super) len: usize,
    /// radix^len, below 2^63.
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
        while power <= i64::MAX as u64 / radix {
            power *= radix;
            len += 1;
        }
        let shift = power.leading_zeros();
        let reciprocal = (u128::MAX / u128::from(power << shift)) as u64;
        let radix_reciprocal = ((1u128 << 64) / u128::from(radix)) as u64;
        Chunk { radix, radix_reciprocal, len, power, shift, reciprocal }
    }

    /// Divides a number by the power and gives the remainder.
    pub(super) fn pop(&self, number: &mut [u64]) -> u64 {
        let divisor = self.power << self.shift;
        // The number is divided shifted; what it has above its top limb is less than the divisor. The power is below
        // 2^63, so the shift is at least one.
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
    pub(super) fn pop_numeral(&self, chunk: &mut u64) -> u16 {
        // Falls short by one at most: by less than one for the reciprocal's and less than one for its own.
        let quotient = (u128::from(*chunk) * u128::from(self.radix_reciprocal) >> 64) as u64;
        let rest = *chunk - quotient * self.radix;
        let more = mask(rest >= self.radix);
        *chunk = quotient.wrapping_sub(more);
        (rest - (more & self.radix)) as u16
    }
}
