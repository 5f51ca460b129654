//! RSA keys as lanes want them: limbs, and what Montgomery's multiplication wants besides.

use ciphermill_contract::KeyMaterial;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::RsaSize;
use ciphermill_pairs::rsa::{PrivateNumbers, RsaNumbers};
use zeroize::Zeroizing;

use super::super::long::{Limbs, OddModulus, limbs};

/// Bits of the random number whose multiple of `p - 1` is added to an exponent modulo `p`.
pub(super) const MASK_BITS: u32 = 32;

/// A key; wiped when dropped.
pub(super) struct RsaKey {
    /// The modulus, big-endian.
    pub(super) modulus: Vec<u8>,
    /// The public exponent.
    pub(super) exponent: u64,
    /// Arithmetic modulo the modulus.
    pub(super) field: OddModulus,
    /// The private half, if the key has one.
    pub(super) private: Option<Private>,
}

/// What a private operation wants.
pub(super) struct Private {
    /// Both primes, `p` first.
    pub(super) primes: [Prime; 2],
    /// `1 / q` modulo `p`.
    pub(super) q_inverse: Limbs,
    /// `q` in Montgomery's form modulo the modulus.
    pub(super) q_entered: Limbs,
}

/// A prime and its exponent.
pub(super) struct Prime {
    /// Arithmetic modulo the prime.
    pub(super) field: OddModulus,
    /// `2^(3 · 52 limbs)` modulo the prime.
    pub(super) cube: Limbs,
    /// The exponent, in words of 64 bits.
    exponent: Zeroizing<Vec<u64>>,
    /// The prime less one.
    order: Zeroizing<Vec<u64>>,
}

/// Limbs of a modulus. Those of its primes are half as many: ten a block, and eight bits at least above the number, as factors below `2^4`
/// primes ask for.
pub(super) const fn limbs_of(size: RsaSize) -> usize {
    match size {
        RsaSize::Rsa1024 => 20,
        RsaSize::Rsa2048 => 40,
        RsaSize::Rsa3072 => 60,
        RsaSize::Rsa4096 => 80,
    }
}

impl RsaKey {
    /// Parses and checks a key with a modulus of `size`.
    ///
    /// # Errors
    /// As [`RsaNumbers::parse`].
    pub(super) fn prepare(key: &KeyMaterial<'_>, size: RsaSize) -> Result<RsaKey, KeyProblem> {
        let RsaNumbers { mut modulus, exponent, private } = RsaNumbers::parse(key, size.len())?;
        let count = limbs_of(size);
        let field = OddModulus::new(&modulus, count).ok_or(KeyProblem::Encoding)?;
        let private = private.map(|numbers| Private::new(&numbers, &field)).transpose()?;
        modulus.reverse();
        Ok(RsaKey { modulus, exponent, field, private })
    }
}

impl Private {
    fn new(numbers: &PrivateNumbers, modulus: &OddModulus) -> Result<Private, KeyProblem> {
        let count = modulus.limbs.len() / 2;
        let prime = |prime: &[u8], exponent: &[u8]| {
            let field = OddModulus::new(prime, count)?;
            let cube = field.shifted(&[1], 3)?;
            let mut order = words(prime);
            // Primes are odd.
            order[0] -= 1;
            Some(Prime { field, cube, exponent: words(exponent), order })
        };
        let primes = (prime(&numbers.p, &numbers.dp), prime(&numbers.q, &numbers.dq));
        let (Some(p), Some(q)) = primes else { return Err(KeyProblem::Encoding) };
        let q_entered = modulus.shifted(&numbers.q, 1).ok_or(KeyProblem::Encoding)?;
        Ok(Private { primes: [p, q], q_inverse: limbs(&numbers.q_inverse, count), q_entered })
    }
}

impl Prime {
    /// Words of a masked exponent.
    pub(super) fn masked_len(&self) -> usize {
        self.order.len() + 1
    }

    /// The exponent plus a multiple of `p - 1`: another number for every operation, with the same effect.
    pub(super) fn masked(&self, mask: u32) -> Zeroizing<Vec<u64>> {
        let mut masked = Zeroizing::new(Vec::with_capacity(self.masked_len()));
        let mut carry = 0u128;
        for (exponent, order) in self.exponent.iter().zip(self.order.iter()) {
            carry += u128::from(mask) * u128::from(*order) + u128::from(*exponent);
            masked.push(carry as u64);
            carry >>= 64;
        }
        masked.push(carry as u64);
        masked
    }
}

/// Little-endian bytes as words.
pub(super) fn words(bytes: &[u8]) -> Zeroizing<Vec<u64>> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Zeroizing::new(bytes.chunks(8).map(word).collect())
}
