//! What new keys have to be. Keys that a keystore already holds open whatever they are.

use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{KeyForm, KeyMaterial, Suite};

use super::KeyKind;
use super::error::KeystoreError;
use super::record::KeyRecord;
use crate::policy::KeyPolicy;

/// What keys are derived with.
pub(super) const DERIVATION: Suite = Suite::Mac(Mac::Hmac(Digest::Sha256));

/// The fewest bytes of a key that others are derived from: 128 bits, the least strength that NIST SP 800-57 part 1
/// (table 4) allows beyond 2030.
pub const ROOT_KEY_LEN_MIN: usize = 16;

/// The bytes that such a key should have: 256 bits, as many as HMAC-SHA-256 makes use of.
pub const ROOT_KEY_LEN: usize = 32;

pub(super) fn check_len(len: usize) -> Result<(), KeystoreError> {
    if len == 0 || len > KEY_LEN_MAX {
        return Err(KeystoreError::BadParameter { what: "key", rule: "1 to 16384 bytes" });
    }
    Ok(())
}

/// Whether the bytes may become a key under this policy.
///
/// # Errors
///
/// [`KeystoreError::BadParameter`] for a length that is not allowed, and for a symmetric key that is an encoded key pair
/// or certificate: its structure is known to everybody, and so is all of it when it is a public key's.
pub(super) fn check_key(key: KeyMaterial<'_>, policy: &KeyPolicy) -> Result<(), KeystoreError> {
    check_len(key.bytes.len())?;
    if key.form != KeyForm::Secret {
        return Ok(());
    }
    if is_encoded_key(key.bytes) {
        let rule = "a secret key is raw bytes; this is a key pair or certificate in PEM or DER";
        return Err(KeystoreError::BadParameter { what: "key", rule });
    }
    if is_root(policy) && key.bytes.len() < ROOT_KEY_LEN_MIN {
        let rule = "at least 16 bytes (128 bits) where HMAC-SHA-256 is allowed, since column keys are derived from such \
                    keys; 32 bytes are recommended";
        return Err(KeystoreError::BadParameter { what: "key", rule });
    }
    Ok(())
}

/// Whether keys may be derived from a key with this policy.
pub(super) fn is_root(policy: &KeyPolicy) -> bool {
    policy.suites.contains(DERIVATION)
}

/// How a new version of a key is made. None for a key pair that was imported, and for a key of a suite whose keys are
/// more than random bytes, whatever its record says.
pub(super) fn kind_of_successor(record: &KeyRecord) -> Option<KeyKind> {
    let kind = record.kind?;
    let suits = |suite: Suite| {
        KeyKind::for_suite(suite).is_some_and(|made| made.form() == kind.form()) && suite.key_len().contains(kind.len())
    };
    if !record.policy.suites.is_any() && !record.policy.suites.iter().all(suits) {
        return None;
    }
    match kind {
        KeyKind::Secret { len } if is_root(&record.policy) && len < ROOT_KEY_LEN_MIN => {
            Some(KeyKind::Secret { len: ROOT_KEY_LEN })
        }
        kind => Some(kind),
    }
}

/// Whether these bytes are a key pair, a public key or a certificate in PEM (RFC 7468) or DER: PKCS#8, PKCS#1, SEC 1,
/// PKCS#12, SubjectPublicKeyInfo, X.509. One of 2^31 random strings is taken for one.
pub fn is_encoded_key(bytes: &[u8]) -> bool {
    const PEM: &[u8] = b"-----BEGIN ";
    bytes.windows(PEM.len()).any(|window| window == PEM) || is_der_key(bytes).unwrap_or(false)
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// `[0]`, constructed: the version of a certificate.
const CONTEXT_0: u8 = 0xA0;

fn is_der_key(bytes: &[u8]) -> Option<bool> {
    let (SEQUENCE, content, []) = element(bytes)? else { return Some(false) };
    let (tag, first, rest) = element(content)?;
    let next = *rest.first()?;
    let is_integer = |bytes| matches!(element(bytes), Some((INTEGER, _, [])));
    Some(match tag {
        // A version, of which there are 0 to 3; then what the format begins with.
        INTEGER if matches!(first, [0..=3]) => matches!(next, SEQUENCE | INTEGER | OCTET_STRING),
        // The modulus and the exponent of a public key in PKCS#1.
        INTEGER => first.len() >= 32 && is_integer(rest),
        // An algorithm, then a public key or an encrypted private one; or what a certificate says.
        SEQUENCE => match element(first)?.0 {
            OBJECT_IDENTIFIER => matches!(next, BIT_STRING | OCTET_STRING),
            CONTEXT_0 | INTEGER => next == SEQUENCE,
            _ => false,
        },
        _ => false,
    })
}

/// The first element of DER bytes: tag, content, what follows (X.690, 8.1).
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (len, rest) = match *first {
        len @ 0..=0x7F => (len as usize, rest),
        0x81 => (*rest.first()? as usize, &rest[1..]),
        0x82 => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (u16::from_be_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::super::record::KeyState;
    use super::*;
    use crate::entry::KeyCheckValue;

    #[test]
    fn encoded_keys_are_told_from_raw_ones() {
        let keys: [&[u8]; 9] = [
            // RFC 8410, section 10.3: PKCS#8 of an Ed25519 key; section 10.1: its public key.
            &hex::decode(
                "302e020100300506032b657004220420d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842",
            )
            .unwrap(),
            &hex::decode("302a300506032b657003210019bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1")
                .unwrap(),
            // RFC 5915: a P-256 key in SEC 1, without options.
            &[&[0x30, 0x25, 2, 1, 1, 4, 32][..], &[0x5A; 32]].concat(),
            // PKCS#1: an RSA key's version and the beginning of its modulus.
            &[&[0x30, 0x82, 0x01, 0x07, 2, 1, 0, 2, 0x82, 0x01, 0x00][..], &[0xC3; 256]].concat(),
            // PKCS#8 of a P-256 key, whose length takes a byte of its own (X.690, 8.1.3.5).
            &[&[0x30, 0x81, 0x87, 2, 1, 0, 0x30, 0x13, 6, 7][..], &[0x5A; 128]].concat(),
            // X.509: what a certificate says begins with its version, or in version 1 with its number (RFC 5280, 4.1).
            &[0x30, 13, 0x30, 7, 0xA0, 3, 2, 1, 2, 2, 0, 0x30, 2, 6, 0],
            &[0x30, 9, 0x30, 3, 2, 1, 9, 0x30, 2, 6, 0],
            // PKCS#1: a public key.
            &[&[0x30, 0x48, 2, 0x41, 0][..], &[0xC3; 64], &[2, 3, 1, 0, 1]].concat(),
            b"Bag Attributes\n-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTu\n-----END PRIVATE KEY-----\n",
        ];
        for key in keys {
            assert!(is_encoded_key(key), "{}", hex::encode(key));
            assert!(check_key(KeyMaterial::secret(key), &KeyPolicy::default()).is_err());
            assert!(check_key(KeyMaterial::private(key), &KeyPolicy::default()).is_ok());
        }
        let raw: [&[u8]; 10] = [
            &[0x30; 32],
            &[0; 16],
            b"----- BEGIN",
            &[0x30, 14, 2, 1, 0, 4, 1, 1],
            &[0x30, 0x80, 2, 1, 0, 4],
            &[0x30],
            // A version that there is not, a modulus that is too short, one without an exponent, and a certificate that
            // no algorithm follows.
            &[0x30, 6, 2, 1, 4, 4, 1, 1],
            &[0x30, 6, 2, 1, 9, 2, 1, 3],
            &[&[0x30, 0x25, 2, 0x20][..], &[0x5A; 32], &[4, 1, 3]].concat(),
            &[0x30, 8, 0x30, 3, 2, 1, 9, 4, 1, 1],
        ];
        for key in raw {
            assert!(!is_encoded_key(key), "{}", hex::encode(key));
        }
    }

    #[test]
    fn successors_are_as_long_unless_keys_are_derived_from_them() {
        let successor = |len: usize, policy: KeyPolicy| {
            let key = vec![7; len];
            kind_of_successor(&KeyRecord {
                name: "k".to_owned(),
                version: 1,
                form: KeyForm::Secret,
                key_len: len,
                policy,
                created_unix_s: 0,
                state: KeyState::Active,
                description: String::new(),
                key_check_value: KeyCheckValue::of(&key),
                kind: Some(KeyKind::Secret { len }),
            })
        };
        let des = KeyPolicy::only("des-cbc".parse().unwrap());
        let cases = [
            (8, des, 8),
            (15, KeyPolicy::default(), 32),
            (16, KeyPolicy::default(), 16),
            (24, KeyPolicy::only(DERIVATION), 24),
        ];
        for (len, policy, next) in cases {
            assert_eq!(successor(len, policy), Some(KeyKind::Secret { len: next }), "{len} bytes");
        }
    }

    #[test]
    fn keys_that_others_are_derived_from_have_128_bits() {
        for policy in [KeyPolicy::default(), KeyPolicy::only(DERIVATION)] {
            assert!(check_key(KeyMaterial::secret(&[7; ROOT_KEY_LEN_MIN]), &policy).is_ok());
            assert!(check_key(KeyMaterial::secret(&[7; ROOT_KEY_LEN_MIN - 1]), &policy).is_err());
        }
        let des = KeyPolicy::only("des-cbc".parse().unwrap());
        assert!(check_key(KeyMaterial::secret(&[7; 8]), &des).is_ok());
        assert!(check_key(KeyMaterial::secret(&[]), &des).is_err());
    }
}
