//! What every engine accepts: the rules for keys, and for signatures and public values that come with an operation.
//!
//! Which engine runs a batch is the router's choice, so that a verdict must not depend on it. What can be decided from the
//! bytes alone is decided here, and engines call it first: [`Suite::check_key`] and the functions of [`ed25519`]. What
//! takes a parser or arithmetic is done by each engine, by these rules:
//!
//! | suite | a key is refused | an operation is refused |
//! |---|---|---|
//! | AES-XTS | `Weak`: equal halves (FIPS 140-3 IG C.I) | |
//! | DES, 3DES, RC4 | never for being weak or for its parity: legacy suites, for old data | |
//! | ChaCha20 | | `BadInput`: more blocks than the counter of 32 bits has left (RFC 8439, 2.4) |
//! | DH | `Weak`: zero; `Parameters`: not below the order (SP 800-56A, 5.6.1.1) | `BadPublicValue`: not from 2 to p - 2, or not in the subgroup of that order (SP 800-56A, 5.6.2.3.1) |
//! | ECDH, ECDSA, RSA | `Parameters`: another algorithm, curve or size of modulus or primes, whose bits are half of the modulus's each (FIPS 186-5, A.1.1); `Encoding`: any other shape than [`der`]'s | |
//! | ECDH, ECDSA | `Encoding`: a point off the curve, a scalar of zero or not below the order, halves that do not belong together | ECDH: `BadPublicValue` for anything but an uncompressed point on the curve; ECDSA: `AuthFailed` for `r` or `s` of zero or not below the order; a high `s` is taken (FIPS 186-5) |
//! | ECDH, ECDSA on binary curves | as above; `Encoding` too for a point outside the subgroup of the order | ECDH: `BadPublicValue` too for such a point, that of order two among them: the shared secret is `x` of the product without the cofactor (SP 800-56A, 5.6.2.3.3 and 5.7.1.2 with `h = 1`; OpenSSL's `EVP_PKEY_derive` is the same without its cofactor mode) |
//! | X25519, X448 | | `BadPublicValue`: a shared secret of zero (RFC 7748, 6.1) |
//! | Ed25519 | [`ed25519::check_public_key`] | `AuthFailed`: [`ed25519::is_strict`] or `[S]B = R + [k]A`, without the cofactor, does not hold |
//! | Ed25519 with cofactor | the same | the same, but for `[8][S]B = [8]R + [8][k]A` (RFC 8032, 5.1.7): a signature that is off by a point of order 2, 4 or 8 is taken |
//! | RSA | `Encoding`: an even modulus, an exponent that is even, below 3 or of more than 33 bits, a private exponent not below the modulus, equal primes, numbers that do not belong together, those for the Chinese remainder theorem among them | `AuthFailed`: a signature or ciphertext not below the modulus, any other padding than RFC 8017's |
//! | RSA without padding | the same | encrypt: `BadInput` for a number not below the modulus; decrypt: `AuthFailed` for one; zero, one and the modulus less one are taken, as RFC 8017, 5.1, has it |
//! | ML-KEM | `Encoding`: a coefficient of an encapsulation key that is not reduced (FIPS 203, 7.2) | none: damaged ciphertexts give another secret (FIPS 203, 6.3) |
//! | ML-DSA | | `AuthFailed`: any encoding but FIPS 204's own |

pub mod der;

use subtle::ConstantTimeEq;

use crate::error::{Error, KeyProblem, Result};
use crate::key::{KeyForm, KeyMaterial};
use crate::suite::{Agreement, Mode, Signature, Suite};

impl Suite {
    /// Whether the suite may be given this key, as far as form, length and simple comparisons of bytes tell. Every engine
    /// asks this first in [`crate::Engine::prepare`].
    ///
    /// # Errors
    /// `Refused` with `KeyUnsuitable`: `Form` for suites without keys, for a secret where a pair is wanted or the other way round, and for a public key of
    /// an agreement, whose public values come with the operation; `Length`; `Weak` for equal halves of an XTS key and a DH
    /// exponent of zero; `Encoding` and `Parameters` for DER of another shape, algorithm or size; what
    /// [`ed25519::check_public_key`] finds.
    pub fn check_key(self, key: &KeyMaterial<'_>) -> Result<()> {
        self.problem_of(key).map_err(|problem| Error::key(self, problem))
    }

    fn problem_of(self, key: &KeyMaterial<'_>) -> Result<(), KeyProblem> {
        let form_suits = match key.form {
            KeyForm::Secret => self.needs_key() && !self.is_public_key(),
            KeyForm::Private => self.needs_key() && self.is_public_key(),
            KeyForm::Public => self.needs_key() && self.is_public_key() && !matches!(self, Suite::Agree(_)),
            // Whoever has the key says whether it suits.
            KeyForm::Reference => false,
        };
        if !form_suits {
            return Err(KeyProblem::Form);
        }
        let len = key.bytes.len();
        let len_suits = self.key_len().contains(len) && self.raw_key_len(key.form).is_none_or(|raw| raw == len);
        if !len_suits {
            return Err(KeyProblem::Length);
        }
        match (self, key.form) {
            (Suite::Cipher(_, Mode::Xts), _) => {
                let (data, tweak) = key.bytes.split_at(len / 2);
                if bool::from(data.ct_eq(tweak)) { Err(KeyProblem::Weak) } else { Ok(()) }
            }
            (Suite::Agree(Agreement::Dh(group)), _) if len > group.len() => Err(KeyProblem::Length),
            (Suite::Agree(Agreement::Dh(_)), _) => {
                let all = key.bytes.iter().fold(0, |all, byte| all | byte);
                if all == 0 { Err(KeyProblem::Weak) } else { Ok(()) }
            }
            (Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored), KeyForm::Public) => {
                let bytes = key.bytes.first_chunk().ok_or(KeyProblem::Length)?;
                ed25519::check_public_key(bytes)
            }
            _ => der::check(self, key),
        }
    }

    /// Bytes of a key that is not encoded in DER and has one length only.
    const fn raw_key_len(self, form: KeyForm) -> Option<usize> {
        let is_private = matches!(form, KeyForm::Private);
        match self {
            Suite::Agree(Agreement::X25519) | Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => {
                Some(32)
            }
            Suite::Agree(Agreement::X448) => Some(56),
            Suite::Sign(Signature::MlDsa(set)) => Some(if is_private { 32 } else { set.public_len() }),
            Suite::Kem(kem) => Some(if is_private { 64 } else { kem.public_len() }),
            _ => None,
        }
    }
}

/// The strict verification of Ed25519: RFC 8032 with `S` below the order and canonical encodings, and neither public key
/// nor `R` of small order ("Taming the Many EdDSAs", Chalkias, Garillot and Nikolaenko 2020). Under a public key of small
/// order one signature is valid for many messages.
pub mod ed25519 {
    use crate::error::KeyProblem;

    /// The field's prime 2^255 - 19, little-endian.
    const PRIME: [u8; 32] = {
        let mut prime = [0xff; 32];
        prime[0] = 0xed;
        prime[31] = 0x7f;
        prime
    };

    /// The order of the base point, 2^252 + 27742317777372353535851937790883648493 (RFC 8032, 5.1), little-endian.
    const ORDER: [u8; 32] = {
        let mut order = [0; 32];
        let low = 27_742_317_777_372_353_535_851_937_790_883_648_493_u128.to_le_bytes();
        let mut i = 0;
        while i < low.len() {
            order[i] = low[i];
            i += 1;
        }
        order[31] = 0x10;
        order
    };

    /// The `y` coordinates of the eight points whose order divides eight; each but 1 and -1 belongs to two points. Made by
    /// `vectors/derive/ed25519_small_order.py`.
    const SMALL_ORDER_Y: [[u8; 32]; 5] = [
        [
            0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
        [
            0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ],
        [
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
        [
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
            0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
        ],
        [
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
            0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
        ],
    ];

    /// Checks a public key's encoding and order. Whether there is a point with this `y` is the engine's to find out, which
    /// says `Encoding` if not.
    ///
    /// # Errors
    /// `Encoding` when it is not the canonical encoding (RFC 8032, 5.1.3), `Weak` for a point of small order.
    pub fn check_public_key(key: &[u8; 32]) -> Result<(), KeyProblem> {
        if !is_canonical(key) {
            return Err(KeyProblem::Encoding);
        }
        if is_of_small_order(key) { Err(KeyProblem::Weak) } else { Ok(()) }
    }

    /// Whether `R` is encoded canonically and not of small order, and `S` below the order (RFC 8032, 5.1.7).
    pub fn is_strict(signature: &[u8; 64]) -> bool {
        let (Some(r), Some(s)) = (signature.first_chunk(), signature.last_chunk()) else { return false };
        is_canonical(r) && !is_of_small_order(r) && is_below(s, &ORDER)
    }

    /// Whether `y` is reduced, and the sign that of an `x` that has one (RFC 8032, 5.1.3, 1 and 4). The points with an `x`
    /// of zero are those with a `y` of 1 and -1.
    fn is_canonical(point: &[u8; 32]) -> bool {
        let y = without_sign(point);
        let x_is_zero = y == SMALL_ORDER_Y[0] || y == SMALL_ORDER_Y[1];
        is_below(&y, &PRIME) && !(x_is_zero && y != *point)
    }

    fn is_of_small_order(point: &[u8; 32]) -> bool {
        SMALL_ORDER_Y.contains(&without_sign(point))
    }

    fn without_sign(point: &[u8; 32]) -> [u8; 32] {
        let mut y = *point;
        y[31] &= 0x7f;
        y
    }

    /// Whether a little-endian number is below another. Public values only: the time tells where they differ.
    fn is_below(number: &[u8; 32], bound: &[u8; 32]) -> bool {
        number.iter().rev().lt(bound.iter().rev())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn encoding(low: u8, high: u8) -> [u8; 32] {
            let mut bytes = [0; 32];
            (bytes[0], bytes[31]) = (low, high);
            bytes
        }

        #[test]
        fn the_first_two_are_one_and_minus_one() {
            let mut minus_one = PRIME;
            minus_one[0] -= 1;
            assert_eq!(SMALL_ORDER_Y[..2], [encoding(1, 0), minus_one]);
        }

        #[test]
        fn public_keys_are_judged_by_encoding_then_order() {
            let mut beyond = PRIME;
            for low in 0xed..=0xff {
                beyond[0] = low;
                assert_eq!(check_public_key(&beyond), Err(KeyProblem::Encoding), "{low}");
            }
            for y in SMALL_ORDER_Y {
                assert_eq!(check_public_key(&y), Err(KeyProblem::Weak));
            }
            // An x of zero has no sign.
            assert_eq!(check_public_key(&encoding(1, 0x80)), Err(KeyProblem::Encoding));
            assert_eq!(check_public_key(&encoding(0, 0x80)), Err(KeyProblem::Weak));
            assert_eq!(check_public_key(&encoding(3, 0x80)), Ok(()));
        }

        #[test]
        fn s_ends_below_the_order() {
            let signature = |s: [u8; 32]| {
                let mut signature = [0; 64];
                signature[..32].copy_from_slice(&encoding(3, 0));
                signature[32..].copy_from_slice(&s);
                signature
            };
            let mut last = ORDER;
            last[0] -= 1;
            assert!(is_strict(&signature(last)) && is_strict(&signature([0; 32])));
            assert!(!is_strict(&signature(ORDER)) && !is_strict(&signature([0xff; 32])));
            let mut small_r = signature([0; 32]);
            small_r[..32].copy_from_slice(&SMALL_ORDER_Y[3]);
            assert!(!is_strict(&small_r));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{AesSize, BlockCipher, DhGroup};

    #[test]
    fn forms_suit_their_suites_only() {
        for suite in Suite::all() {
            let bytes = vec![7; suite.default_key_len().max(32)];
            let verdict = |form| suite.check_key(&KeyMaterial { form, bytes: &bytes });
            let wrong: &[KeyForm] = match suite {
                _ if !suite.needs_key() => &[KeyForm::Secret, KeyForm::Private, KeyForm::Public],
                Suite::Agree(_) => &[KeyForm::Secret, KeyForm::Public],
                _ if suite.is_public_key() => &[KeyForm::Secret],
                _ => &[KeyForm::Private, KeyForm::Public],
            };
            for form in [KeyForm::Secret, KeyForm::Private, KeyForm::Public, KeyForm::Reference] {
                let is_wrong = verdict(form) == Err(Error::key(suite, KeyProblem::Form));
                let may = form != KeyForm::Reference && !wrong.contains(&form);
                assert_eq!(is_wrong, !may, "{suite} {form:?}");
            }
        }
    }

    #[test]
    fn equal_halves_are_weak() {
        for size in [AesSize::Aes128, AesSize::Aes256] {
            let suite = Suite::Cipher(BlockCipher::Aes(size), Mode::Xts);
            let mut bytes = vec![9; 2 * size.key_len()];
            assert_eq!(suite.check_key(&KeyMaterial::secret(&bytes)), Err(Error::key(suite, KeyProblem::Weak)));
            bytes[0] ^= 1;
            assert_eq!(suite.check_key(&KeyMaterial::secret(&bytes)), Ok(()));
        }
    }

    #[test]
    fn exponents_of_zero_are_weak_at_any_length() {
        let suite = Suite::Agree(Agreement::Dh(DhGroup::Ffdhe2048));
        for len in [1, 32, 256] {
            assert_eq!(suite.check_key(&KeyMaterial::private(&vec![0; len])), Err(Error::key(suite, KeyProblem::Weak)));
        }
        assert_eq!(suite.check_key(&KeyMaterial::private(&[0; 257])), Err(Error::key(suite, KeyProblem::Length)));
        assert_eq!(suite.check_key(&KeyMaterial::private(&[0, 1])), Ok(()));
    }
}
