//! RSA keys (RFC 8017, 3) as numbers that were found to belong together.

use ::rsa::pkcs1::RsaPrivateKeyRef;
use ::rsa::pkcs8::der::Decode;
use ::rsa::pkcs8::{ObjectIdentifier, PrivateKeyInfoRef, SubjectPublicKeyInfoRef};
use ::rsa::traits::{PrivateKeyParts, PublicKeyParts};
use ::rsa::{BoxedUint, RsaPrivateKey, RsaPublicKey};
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::RsaSize;
use ciphermill_contract::{KeyForm, KeyMaterial};
use zeroize::Zeroizing;

use crate::der::{self, Pair, RsaParts};

/// A key: its public numbers, and the private ones if it has them. All are little-endian and as long as the modulus, or
/// as half of it.
pub struct RsaNumbers {
    /// The modulus, odd.
    pub modulus: Vec<u8>,
    /// The public exponent, odd and above one.
    pub exponent: u64,
    /// The private numbers.
    pub private: Option<PrivateNumbers>,
}

/// What the Chinese remainder theorem wants (RFC 8017, 3.2, second representation).
pub struct PrivateNumbers {
    /// The first prime.
    pub p: Zeroizing<Vec<u8>>,
    /// The second prime.
    pub q: Zeroizing<Vec<u8>>,
    /// `d mod (p - 1)`.
    pub dp: Zeroizing<Vec<u8>>,
    /// `d mod (q - 1)`.
    pub dq: Zeroizing<Vec<u8>>,
    /// `1 / q mod p`.
    pub q_inverse: Zeroizing<Vec<u8>>,
}

impl RsaNumbers {
    /// Parses and checks a key whose modulus has `len` bytes. The contract has looked at algorithm, shape and size.
    ///
    /// # Errors
    /// `Encoding` when the numbers do not belong together; `Parameters` for another algorithm, and for primes that are not
    /// half as long as the modulus.
    pub fn parse(key: &KeyMaterial<'_>, len: usize) -> Result<RsaNumbers, KeyProblem> {
        if key.form != KeyForm::Private {
            let info = SubjectPublicKeyInfoRef::from_der(key.bytes).map_err(damaged)?;
            check_algorithm(info.algorithm.oid)?;
            return RsaNumbers::public(&RsaPublicKey::try_from(info).map_err(damaged)?, len);
        }
        let info = PrivateKeyInfoRef::from_der(key.bytes).map_err(damaged)?;
        check_algorithm(info.algorithm.oid)?;
        let found = RsaPrivateKeyRef::try_from(info.private_key).map_err(damaged)?;
        let key = RsaPrivateKey::try_from(info).map_err(damaged)?;
        let private = PrivateNumbers::new(&found, &key, len / 2)?;
        Ok(RsaNumbers { private: Some(private), ..RsaNumbers::public(&key, len)? })
    }

    fn public(key: &impl PublicKeyParts, len: usize) -> Result<RsaNumbers, KeyProblem> {
        let exponent = fixed(key.e(), 8)?;
        let exponent = exponent.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(KeyProblem::Parameters)?;
        if exponent % 2 == 0 || exponent < 3 {
            return Err(KeyProblem::Parameters);
        }
        Ok(RsaNumbers { modulus: fixed(key.n(), len)?.to_vec(), exponent, private: None })
    }
}

impl PrivateNumbers {
    fn new(found: &RsaPrivateKeyRef<'_>, key: &RsaPrivateKey, len: usize) -> Result<PrivateNumbers, KeyProblem> {
        let [p, q] = key.primes() else { return Err(KeyProblem::Parameters) };
        let (Some(dp), Some(dq), Some(q_inverse)) = (key.dp(), key.dq(), key.crt_coefficient()) else {
            return Err(KeyProblem::Encoding);
        };
        let q_inverse = Zeroizing::new(q_inverse);
        // The crate computes these numbers itself, whatever the key says they are.
        let belong = is_number(found.exponent1.as_bytes(), dp)
            && is_number(found.exponent2.as_bytes(), dq)
            && is_number(found.coefficient.as_bytes(), &q_inverse);
        if !belong {
            return Err(KeyProblem::Encoding);
        }
        let numbers = PrivateNumbers {
            p: fixed(p, len)?,
            q: fixed(q, len)?,
            dp: fixed(dp, len)?,
            dq: fixed(dq, len)?,
            q_inverse: fixed(&q_inverse, len)?,
        };
        let is_full = |prime: &[u8]| prime.last().is_some_and(|top| top >> 7 == 1);
        if is_full(&numbers.p) && is_full(&numbers.q) { Ok(numbers) } else { Err(KeyProblem::Parameters) }
    }
}

/// The public exponent of keys that are generated (FIPS 186-5, A.1.1).
pub const EXPONENT: u32 = 65_537;

/// The key pair of two primes, little-endian, in the contract's form. `None` when they make none by FIPS 186-5, A.1.1: each has half
/// of the modulus's bits and both together all of them, they differ within their 100 highest bits, neither less one is a multiple of
/// [`EXPONENT`], and the private exponent has more than half of the modulus's bits. It is the inverse modulo the least common
/// multiple of both primes less one.
pub fn pair_of_primes(size: RsaSize, p: &[u8], q: &[u8]) -> Option<Pair> {
    let bits = size.bits() as u32;
    let number = |bytes: &[u8]| Some(Zeroizing::new(BoxedUint::from_le_slice(bytes, bits / 2).ok()?));
    let (p, q) = (number(p)?, number(q)?);
    if p.bits() != bits / 2 || q.bits() != bits / 2 {
        return None;
    }
    // The larger first, as everybody has them.
    let (p, q) = if *p > *q { (p, q) } else { (q, p) };
    if Zeroizing::new(p.wrapping_sub(&*q)).bits() <= bits / 2 - DISTANCE_BITS {
        return None;
    }
    let key = RsaPrivateKey::from_p_q((*p).clone(), (*q).clone(), BoxedUint::from(EXPONENT)).ok()?;
    if key.d().bits() <= bits / 2 {
        return None;
    }
    written(size, &key)
}

/// A key of two primes in the contract's form; `None` when its modulus or its primes have another length.
fn written(size: RsaSize, key: &RsaPrivateKey) -> Option<Pair> {
    let bits = size.bits() as u32;
    let [p, q] = key.primes() else { return None };
    if key.n().bits() != bits || p.bits() != bits / 2 || q.bits() != bits / 2 {
        return None;
    }
    let inverse = Zeroizing::new(key.crt_coefficient()?);
    let bytes = |number: &BoxedUint| Zeroizing::new(number.to_be_bytes().into_vec());
    let halves = [bytes(p), bytes(q), bytes(key.dp()?), bytes(key.dq()?), bytes(&inverse)];
    let (modulus, exponent, private) = (bytes(key.n()), bytes(key.e()), bytes(key.d()));
    let parts = RsaParts {
        modulus: &modulus,
        exponent: &exponent,
        private: &private,
        halves: halves.each_ref().map(|number| number.as_slice()),
    };
    Some(der::rsa(size, &parts))
}

/// What is known of a private key besides the public exponent, big-endian; zeros may stand before the numbers.
#[derive(Clone, Copy, Default)]
pub struct Known<'a> {
    /// The modulus.
    pub modulus: Option<&'a [u8]>,
    /// The private exponent.
    pub private: Option<&'a [u8]>,
    /// Both primes, in the order that they are to have.
    pub primes: Option<[&'a [u8]; 2]>,
}

/// The whole key of which either the primes or modulus and private exponent are known (NIST SP 800-56B, 6.2.1 and appendix C); what is known
/// besides has to belong to it. Nobody tests that the primes are primes.
///
/// # Errors
/// `Encoding` where less is known, also for primes to be found by a public exponent of 65,536 and less, and where numbers do not belong
/// together; `Parameters` for another size.
pub fn completed(size: RsaSize, exponent: &[u8], known: Known<'_>) -> Result<Pair, KeyProblem> {
    let number = |bytes: &[u8], len: usize| {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let used = &bytes[zeros..];
        if used.len() > len {
            return Err(KeyProblem::Parameters);
        }
        BoxedUint::from_be_slice(used, 8 * len as u32).map(Zeroizing::new).map_err(damaged)
    };
    let len = size.len();
    let exponent = number(exponent, 8)?;
    let is_odd = |number: &BoxedUint| number.to_le_bytes().first().is_some_and(|low| low % 2 == 1);
    let mut primes = Vec::new();
    for prime in known.primes.iter().flatten() {
        let prime = number(prime, len / 2)?;
        // The crate wants them odd and above one.
        if prime.bits() != len as u32 * 4 || !is_odd(&prime) {
            return Err(KeyProblem::Parameters);
        }
        primes.push((*prime).clone());
    }
    let modulus = known.modulus.map(|modulus| number(modulus, len)).transpose()?;
    let private = known.private.map(|private| number(private, len)).transpose()?;
    let of_exponents = |modulus: &BoxedUint, private: &BoxedUint, primes: Vec<BoxedUint>| {
        RsaPrivateKey::from_components(modulus.clone(), (*exponent).clone(), private.clone(), primes).map_err(damaged)
    };
    let key = match (primes.as_slice(), modulus, private) {
        ([p, q], modulus, private) => {
            let key = RsaPrivateKey::from_p_q(p.clone(), q.clone(), (*exponent).clone()).map_err(damaged)?;
            if modulus.is_some_and(|modulus| *modulus != *key.n().as_ref()) {
                return Err(KeyProblem::Encoding);
            }
            match private {
                Some(private) => of_exponents(key.n(), &private, primes)?,
                None => key,
            }
        }
        (_, Some(modulus), Some(private)) if is_odd(&modulus) && private.bits() > 1 => {
            of_exponents(&modulus, &private, Vec::new())?
        }
        _ => return Err(KeyProblem::Encoding),
    };
    written(size, &key).ok_or(KeyProblem::Parameters)
}

/// Primes differ by more than `2^(bits - 100)` (FIPS 186-5, A.1.1, 2d).
const DISTANCE_BITS: u32 = 100;

fn damaged<E>(_: E) -> KeyProblem {
    KeyProblem::Encoding
}

fn check_algorithm(oid: ObjectIdentifier) -> Result<(), KeyProblem> {
    if oid == ::rsa::pkcs1::ALGORITHM_OID { Ok(()) } else { Err(KeyProblem::Parameters) }
}

/// Whether big-endian bytes are this number, in a time that tells nothing of it but its width.
fn is_number(bytes: &[u8], number: &BoxedUint) -> bool {
    BoxedUint::from_be_slice(bytes, number.bits_precision()).is_ok_and(|found| *Zeroizing::new(found) == *number)
}

/// A number in exactly `len` little-endian bytes, whatever room it lies in.
fn fixed(number: &BoxedUint, len: usize) -> Result<Zeroizing<Vec<u8>>, KeyProblem> {
    let bytes = Zeroizing::new(number.to_le_bytes());
    let (used, unused) = bytes.split_at(bytes.len().min(len));
    if unused.iter().any(|byte| *byte != 0) {
        return Err(KeyProblem::Parameters);
    }
    let mut own = Zeroizing::new(vec![0; len]);
    own[..used.len()].copy_from_slice(used);
    Ok(own)
}

#[cfg(test)]
mod tests {
    use ciphermill_vectors::keys::pairs;
    use crypto_bigint::ConcatenatingMul as _;

    use super::*;

    #[test]
    fn both_halves_of_a_pair_have_the_same_modulus_and_its_primes() {
        for (name, len) in [("rsa-1024", 128), ("rsa-2048", 256), ("rsa-3072", 384), ("rsa-4096", 512)] {
            let pairs = pairs(name);
            let pair = pairs.first().expect("a pair of that size");
            let private = RsaNumbers::parse(&KeyMaterial::private(&pair.private), len).expect("a good key");
            let public = RsaNumbers::parse(&KeyMaterial::public(&pair.public), len).expect("a good key");
            assert_eq!((&private.modulus, private.exponent), (&public.modulus, public.exponent));
            assert!(public.private.is_none());
            let numbers = private.private.expect("a private key");
            let number = |bytes: &[u8]| BoxedUint::from_le_slice(bytes, 8 * bytes.len() as u32).expect("fits");
            assert_eq!(number(&numbers.p).concatenating_mul(number(&numbers.q)), number(&private.modulus));
        }
    }

    #[test]
    fn another_length_is_another_size() {
        let pairs = pairs("rsa-2048");
        let pair = pairs.first().expect("a pair of that size");
        let parsed = RsaNumbers::parse(&KeyMaterial::public(&pair.public), 128);
        assert_eq!(parsed.err(), Some(KeyProblem::Parameters));
        let parsed = RsaNumbers::parse(&KeyMaterial::private(&pair.private), 384);
        assert_eq!(parsed.err(), Some(KeyProblem::Parameters));
    }

    #[test]
    fn a_key_is_completed_from_its_primes_or_its_exponents() {
        for (size, name) in RsaSize::ALL.into_iter().zip(["rsa-1024", "rsa-2048", "rsa-3072", "rsa-4096"]) {
            for pair in pairs(name) {
                let info = PrivateKeyInfoRef::from_der(&pair.private).expect("a good key");
                let key = RsaPrivateKeyRef::try_from(info.private_key).expect("a good key");
                let (exponent, modulus) = (key.public_exponent.as_bytes(), Some(key.modulus.as_bytes()));
                let private = Some(key.private_exponent.as_bytes());
                let primes = Some([key.prime1.as_bytes(), key.prime2.as_bytes()]);
                for known in [
                    Known { modulus, private, primes: None },
                    Known { modulus: None, private, primes },
                    Known { modulus, private, primes },
                ] {
                    let made = completed(size, exponent, known).expect("a key");
                    assert_eq!((&*made.private, &made.public), (&pair.private, &pair.public), "{name}");
                }
                // There are several private exponents: the least one is made.
                for modulus in [modulus, None] {
                    let made = completed(size, exponent, Known { modulus, private: None, primes }).expect("a key");
                    assert_eq!(made.public, pair.public, "{name}");
                    let halves = 5 * (size.len() / 2);
                    assert!(made.private.ends_with(&pair.private[pair.private.len() - halves..]), "{name}");
                }
            }
        }
    }

    #[test]
    fn what_is_too_little_or_does_not_belong_together_is_refused() {
        let pairs = pairs("rsa-1024");
        let info = PrivateKeyInfoRef::from_der(&pairs[0].private).expect("a good key");
        let key = RsaPrivateKeyRef::try_from(info.private_key).expect("a good key");
        let exponent = key.public_exponent.as_bytes();
        let (modulus, private) = (key.modulus.as_bytes(), key.private_exponent.as_bytes());
        let primes = [key.prime1.as_bytes(), key.prime2.as_bytes()];
        fn refused(
            exponent: &[u8],
            modulus: Option<&[u8]>,
            private: Option<&[u8]>,
            primes: Option<[&[u8]; 2]>,
        ) -> bool {
            completed(RsaSize::Rsa1024, exponent, Known { modulus, private, primes }).is_err()
        }
        assert!(refused(exponent, Some(modulus), None, None) && refused(exponent, None, Some(private), None));
        assert!(refused(&[3], Some(modulus), Some(private), None), "an exponent of another key");
        let changed = |number: &[u8], at: usize, bits: u8| {
            let mut changed = number.to_vec();
            changed[at] ^= bits;
            changed
        };
        for at in [0, 60, 127] {
            for bits in [1, 2, 0x80, 0xff] {
                let (other, odd) = (changed(private, at.min(private.len() - 1), bits), changed(modulus, at, bits));
                assert!(refused(exponent, Some(modulus), Some(&other), None), "private exponent, byte {at}");
                assert!(refused(exponent, Some(modulus), Some(&other), Some(primes)), "the same with primes");
                assert!(refused(exponent, Some(&odd), Some(private), None), "modulus, byte {at}");
                assert!(refused(exponent, Some(&odd), None, Some(primes)), "the same with primes");
            }
        }
        for number in [&[][..], &[0], &[1], &[2], modulus, &[0xfe; 64], &[0xff; 65], &[0xff; 129]] {
            assert!(refused(exponent, None, None, Some([number, primes[1]])));
            assert!(number == modulus || refused(exponent, Some(number), Some(private), None));
            assert!(refused(number, None, None, Some(primes)));
            assert!(refused(exponent, Some(modulus), Some(number), None));
        }
        assert!(refused(exponent, None, None, Some([primes[0], primes[0]])), "equal primes");
        let other = completed(RsaSize::Rsa2048, exponent, Known { primes: Some(primes), ..Known::default() });
        assert_eq!(other.err(), Some(KeyProblem::Parameters));
    }

    #[test]
    fn primes_that_make_no_key_are_refused() {
        let size = RsaSize::Rsa1024;
        let pairs = pairs("rsa-1024");
        let numbers = |at: usize| {
            let parsed = RsaNumbers::parse(&KeyMaterial::private(&pairs[at].private), 128).expect("a good key");
            parsed.private.expect("a private key")
        };
        let (one, other) = (numbers(0), numbers(1));
        assert!(pair_of_primes(size, &one.q, &one.p).is_some());
        assert!(pair_of_primes(size, &one.p, &other.p).is_some());
        assert!(pair_of_primes(size, &one.p, &one.p).is_none(), "equal primes");
        let mut near = one.p.clone();
        near[0] ^= 2;
        assert!(pair_of_primes(size, &one.p, &near).is_none(), "primes that hardly differ");
        let mut short = one.q.clone();
        short[63] &= 0x7f;
        assert!(pair_of_primes(size, &one.p, &short).is_none(), "a bit too few");
        let mut low = (Zeroizing::new(vec![0xff; 64]), Zeroizing::new(vec![0; 64]));
        (low.0[63], low.1[0], low.1[63]) = (0x80, 1, 0x81);
        assert!(pair_of_primes(size, &low.0, &low.1).is_none(), "a modulus of 1,023 bits");
        assert!(pair_of_primes(RsaSize::Rsa2048, &one.p, &one.q).is_none(), "another size");
    }
}
