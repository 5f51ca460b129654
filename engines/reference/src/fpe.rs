//! FF1 (NIST SP 800-38G): format-preserving encryption of strings of numerals.
//!
//! Numbers are arrays of 16-bit limbs whose count depends on radix and length alone, and divisions by the radix are
//! multiplications with its reciprocal, so that the time tells nothing of the numerals.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Ff1;
use ciphermill_contract::{Direction, OpBuffers, OpStatus, Reason};
use zeroize::Zeroizing;

use crate::block::{self, Aes, xor};
use crate::engine::state;
use crate::mac::CbcMac;

/// Rounds of the Feistel network (SP 800-38G, algorithm 7).
const ROUNDS: u8 = 10;

/// A string of numerals, the most significant first.
type Numerals = Zeroizing<Vec<u16>>;

/// The key of FF1. Radix and tweak come with each operation.
pub(crate) struct FpeKey {
    cipher: Aes,
}

/// A radix with its reciprocal.
#[derive(Clone, Copy)]
struct Radix {
    radix: u32,
    /// One more than 2^48 / radix, rounded down.
    reciprocal: u64,
}

/// What one operation's lengths, radix and tweak fix before the rounds.
struct Rounds<'a> {
    cipher: &'a Aes,
    radix: Radix,
    tweak: &'a [u8],
    /// Block P (step 5).
    first_block: [u8; 16],
    /// `b`: bytes of a half's number (step 3).
    number_len: usize,
    /// `d`: bytes of a round's number (step 4).
    round_len: usize,
}

impl FpeKey {
    /// The schedule for `bytes`.
    ///
    /// # Errors
    /// `Length` when the bytes are not an AES key of the suite's size; `Parameters` for a radix that FF1 does not take.
    pub(crate) fn new(ff1: Ff1, bytes: &[u8]) -> Result<FpeKey, KeyProblem> {
        if !ff1.radix_is_valid() {
            return Err(KeyProblem::Parameters);
        }
        Ok(FpeKey { cipher: block::aes(ff1.size, bytes)? })
    }
}

/// Encrypts or decrypts one operation's numerals in place.
pub(crate) fn process(ff1: Ff1, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let Some(key) = state::<FpeKey>(buffers) else { return OpStatus::EngineFault };
    if !ff1.radix_is_valid() {
        return OpStatus::EngineFault;
    }
    let (pairs, rest) = buffers.data.as_chunks_mut::<2>();
    if !rest.is_empty() || pairs.len() < 2 {
        return OpStatus::EngineFault;
    }
    let numerals = Zeroizing::new(pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect::<Vec<u16>>());
    if numerals.iter().any(|numeral| u32::from(*numeral) >= ff1.radix) {
        return OpStatus::BadInput(Reason::NumeralOutOfRange);
    }
    let rounds = Rounds::new(&key.cipher, ff1.radix, buffers.aad, numerals.len());
    let numerals = rounds.run(direction, &numerals);
    for (pair, numeral) in pairs.iter_mut().zip(numerals.iter()) {
        *pair = numeral.to_le_bytes();
    }
    OpStatus::Done
}

impl<'a> Rounds<'a> {
    fn new(cipher: &'a Aes, radix: u32, tweak: &'a [u8], len: usize) -> Rounds<'a> {
        let (left, right) = (len / 2, len - len / 2);
        let radix = Radix::new(radix);
        let number_len = radix.number_len(right);
        let mut first_block = [1, 2, 1, 0, 0, 0, 10, left as u8, 0, 0, 0, 0, 0, 0, 0, 0];
        first_block[3..6].copy_from_slice(&radix.radix.to_be_bytes()[1..]);
        first_block[8..12].copy_from_slice(&(len as u32).to_be_bytes());
        first_block[12..].copy_from_slice(&(tweak.len() as u32).to_be_bytes());
        Rounds { cipher, radix, tweak, first_block, number_len, round_len: 4 * number_len.div_ceil(4) + 4 }
    }

    /// The Feistel network: forwards it adds (algorithm 7), backwards it subtracts (algorithm 8).
    fn run(&self, direction: Direction, numerals: &[u16]) -> Numerals {
        let (left, right) = numerals.split_at(numerals.len() / 2);
        let (mut a, mut b) = (Zeroizing::new(left.to_vec()), Zeroizing::new(right.to_vec()));
        for step in 0..ROUNDS {
            match direction {
                Direction::Encrypt => {
                    let number = self.round(step, &b);
                    self.radix.add(&mut a, &number);
                }
                Direction::Decrypt => {
                    std::mem::swap(&mut a, &mut b);
                    let number = self.round(ROUNDS - 1 - step, &b);
                    self.radix.subtract(&mut a, &number);
                    continue;
                }
            }
            std::mem::swap(&mut a, &mut b);
        }
        let mut out = Zeroizing::new(Vec::with_capacity(numerals.len()));
        out.extend_from_slice(&a);
        out.extend_from_slice(&b);
        out
    }

    /// A round's number in limbs, the lowest first (steps 6i to 6iv).
    fn round(&self, step: u8, half: &[u16]) -> Numerals {
        let number = self.radix.limbs(half, self.number_len.div_ceil(2));
        let number = limbs_to_bytes(&number, self.number_len);
        let mut mac = CbcMac::new(self.cipher.as_ref());
        mac.update(&self.first_block);
        mac.update(self.tweak);
        let zeros = (16 - (self.tweak.len() + self.number_len + 1) % 16) % 16;
        mac.update(&[0; 16][..zeros]);
        mac.update(&[step]);
        mac.update(&number);
        let first = mac.finish();
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.round_len + 16));
        for index in 0..self.round_len.div_ceil(16) as u128 {
            let mut block = first.clone();
            // Step 6iii: the first block is the MAC itself, the others are its encipherments with a number added.
            if index > 0 {
                xor(block.as_mut_slice(), &index.to_be_bytes());
                self.cipher.encrypt(&mut block);
            }
            bytes.extend_from_slice(block.as_slice());
        }
        bytes.truncate(self.round_len);
        Zeroizing::new(bytes.rchunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
    }
}

impl Radix {
    fn new(radix: u32) -> Radix {
        Radix { radix, reciprocal: (1 << 48) / u64::from(radix.max(1)) + 1 }
    }

    /// Quotient and remainder of a number below 2^32.
    ///
    /// With `m` the reciprocal and `r` the radix, `m·r - 2^48` is at most `r`, thus at most 2^16, so that `value · m`
    /// exceeds `value · 2^48 / r` by less than `2^48 / r`: the quotient is exact.
    fn divide(self, value: u32) -> (u32, u32) {
        let quotient = ((u128::from(value) * u128::from(self.reciprocal)) >> 48) as u32;
        (quotient, value - quotient * self.radix)
    }

    /// `b`: the bytes that the largest number of `len` numerals takes. Counted, since logarithms would have to be
    /// rounded.
    fn number_len(self, len: usize) -> usize {
        let largest = vec![(self.radix - 1) as u16; len];
        let limbs = self.limbs(&largest, len);
        let zeros = limbs_to_bytes(&limbs, 2 * len).iter().take_while(|byte| **byte == 0).count();
        2 * len - zeros
    }

    /// NUM_radix (algorithm 1), in limbs, the lowest first.
    fn limbs(self, numerals: &[u16], limbs_len: usize) -> Numerals {
        let mut limbs = Zeroizing::new(vec![0u16; limbs_len]);
        for numeral in numerals {
            let mut carry = u64::from(*numeral);
            for limb in limbs.iter_mut() {
                let product = u64::from(*limb) * u64::from(self.radix) + carry;
                *limb = product as u16;
                carry = product >> 16;
            }
        }
        limbs
    }

    /// Divides a number in limbs by the radix and gives the remainder, its lowest numeral.
    fn pop(self, number: &mut [u16]) -> u32 {
        let mut remainder = 0;
        for limb in number.iter_mut().rev() {
            // The remainder is below the radix, so the value is below 2^32.
            let (quotient, rest) = self.divide((remainder << 16) | u32::from(*limb));
            *limb = quotient as u16;
            remainder = rest;
        }
        remainder
    }

    /// Adds a number to a string of numerals, modulo all that the string can hold (steps 6v to 6vii).
    fn add(self, numerals: &mut [u16], number: &[u16]) {
        let mut number = Zeroizing::new(number.to_vec());
        let mut carry = 0;
        for numeral in numerals.iter_mut().rev() {
            let (over, rest) = self.divide(u32::from(*numeral) + self.pop(&mut number) + carry);
            *numeral = rest as u16;
            carry = over;
        }
    }

    /// Subtracts a number from a string of numerals, modulo all that the string can hold.
    fn subtract(self, numerals: &mut [u16], number: &[u16]) {
        let mut number = Zeroizing::new(number.to_vec());
        let mut borrow = 0;
        for numeral in numerals.iter_mut().rev() {
            let lifted = u32::from(*numeral) + self.radix - self.pop(&mut number) - borrow;
            let (enough, rest) = self.divide(lifted);
            *numeral = rest as u16;
            borrow = 1 - enough;
        }
    }
}

/// The lowest `len` bytes of a number in limbs, the highest first.
fn limbs_to_bytes(limbs: &[u16], len: usize) -> Zeroizing<Vec<u8>> {
    let mut bytes: Vec<u8> = limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect();
    bytes.truncate(len);
    bytes.reverse();
    Zeroizing::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact_for_every_radix() {
        for radix in 2..=1u32 << 16 {
            let by = Radix::new(radix);
            // Values around multiples of the radix are where a rounded reciprocal would slip.
            let multiple = u32::MAX - u32::MAX % radix;
            let half = multiple / 2 / radix * radix;
            for value in [0, 1, radix - 1, radix, half, half - 1, multiple, multiple - 1, u32::MAX] {
                assert_eq!(by.divide(value), (value / radix, value % radix), "{value} / {radix}");
            }
        }
    }

    #[test]
    fn number_lengths_are_those_of_the_standards_formula() {
        // Radix 10: five numerals are below 2^17; radix 36: ten are below 2^52 (SP 800-38G, samples 1 and 3).
        assert_eq!(Radix::new(10).number_len(5), 3);
        assert_eq!(Radix::new(36).number_len(10), 7);
        assert_eq!(Radix::new(2).number_len(16), 2);
        assert_eq!(Radix::new(2).number_len(17), 3);
        assert_eq!(Radix::new(1 << 16).number_len(3), 6);
    }

    #[test]
    fn subtraction_undoes_addition() {
        for radix in [2, 10, 36, 255, 65_535, 65_536] {
            let by = Radix::new(radix);
            let before: Vec<u16> = (0..9u32).map(|i| (i * 7_919 % radix) as u16).collect();
            let number = [0xfedc, 0xba98, 0x7654, 0x3210, 0xffff];
            let mut numerals = before.clone();
            by.add(&mut numerals, &number);
            assert_ne!(numerals, before);
            by.subtract(&mut numerals, &number);
            assert_eq!(numerals, before);
        }
    }
}
