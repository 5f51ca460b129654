//! The head of a keystore: how the wrapping key comes from the secret, and the master key under it.
//!
//! The master key is 32 random bytes, wrapped with AES-KWP (RFC 5649). Records are sealed under keys derived from it, so
//! changing the secret means wrapping these 32 bytes anew. A SHA-256 over the head tells damage from a wrong secret.

use ciphermill_memory::SecretBytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::error::KeystoreError;
use super::secret::{Derivation, KdfParameters, MASTER_KEY_LEN, MasterSecret, SALT_LEN, secret_room};
use crate::wrap::{self, WrapMethod};

const DIGEST_LEN: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    derivation: Derivation,
    #[serde(with = "hex::serde")]
    salt: [u8; SALT_LEN],
    #[serde(with = "hex::serde")]
    wrapped_master: Vec<u8>,
    created_unix_s: u64,
}

/// The master key and the key that wraps it.
pub(super) struct Opened {
    pub(super) wrapping: SecretBytes,
    pub(super) master: SecretBytes,
}

impl Header {
    /// The head of a keystore with a fresh master key.
    pub(super) fn create(
        secret: &MasterSecret,
        parameters: KdfParameters,
        created_unix_s: u64,
    ) -> Result<(Header, Opened), KeystoreError> {
        let master = random_secret(MASTER_KEY_LEN)?;
        let blank =
            Header { derivation: Derivation::Raw, salt: [0; SALT_LEN], wrapped_master: Vec::new(), created_unix_s };
        let (header, wrapping) = blank.with_secret(secret, parameters, &master)?;
        Ok((header, Opened { wrapping, master }))
    }

    /// The same keystore under another secret, and the new wrapping key.
    pub(super) fn with_secret(
        &self,
        secret: &MasterSecret,
        parameters: KdfParameters,
        master: &[u8],
    ) -> Result<(Header, SecretBytes), KeystoreError> {
        secret.check_new()?;
        let derivation = Derivation::of(secret, parameters);
        let mut salt = [0; SALT_LEN];
        getrandom::fill(&mut salt).map_err(|_| KeystoreError::Entropy)?;
        let wrapping = derivation.wrapping_key(secret, &salt)?;
        let wrapped_master = wrap::wrap(&wrapping, WrapMethod::AesKwp, master)?;
        Ok((Header { derivation, salt, wrapped_master, created_unix_s: self.created_unix_s }, wrapping))
    }

    /// The same keystore with another master key under the same secret.
    pub(super) fn with_master(&self, wrapping: &[u8], master: &[u8]) -> Result<Header, KeystoreError> {
        let wrapped_master = wrap::wrap(wrapping, WrapMethod::AesKwp, master)?;
        let (derivation, salt, created_unix_s) = (self.derivation, self.salt, self.created_unix_s);
        Ok(Header { derivation, salt, wrapped_master, created_unix_s })
    }

    /// Unwraps the master key.
    pub(super) fn open(&self, secret: &MasterSecret) -> Result<Opened, KeystoreError> {
        let wrapping = self.derivation.wrapping_key(secret, &self.salt)?;
        let master = wrap::unwrap(&wrapping, WrapMethod::AesKwp, &self.wrapped_master)
            .ok()
            .filter(|master| master.len() == MASTER_KEY_LEN)
            .ok_or(KeystoreError::WrongSecret)?;
        Ok(Opened { wrapping, master })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Ok(text) = serde_json::to_vec(self) else { unreachable!("numbers and text always have a JSON form") };
        let mut bytes = Sha256::digest(&text).to_vec();
        bytes.extend_from_slice(&text);
        bytes
    }

    /// None for bytes that are damaged.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Header> {
        let (digest, text) = bytes.split_first_chunk::<DIGEST_LEN>()?;
        if !bool::from(Sha256::digest(text).as_slice().ct_eq(digest)) {
            return None;
        }
        let header: Header = serde_json::from_slice(text).ok()?;
        match header.derivation {
            Derivation::Argon2id(parameters) if parameters.check().is_err() => None,
            _ => Some(header),
        }
    }

    /// When the keystore was made (Unix time).
    pub(super) fn created_unix_s(&self) -> u64 {
        self.created_unix_s
    }
}

/// Random bytes for a key.
pub(super) fn random_secret(len: usize) -> Result<SecretBytes, KeystoreError> {
    let mut secret = secret_room(len)?;
    getrandom::fill(&mut secret).map_err(|_| KeystoreError::Entropy)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create() -> (Header, Opened) {
        let secret = MasterSecret::passphrase("correct horse battery");
        Header::create(&secret, KdfParameters::insecure_for_tests(), 7).unwrap()
    }

    #[test]
    fn the_master_key_comes_back_under_the_right_passphrase_only() {
        let (header, opened) = create();
        let again = header.open(&MasterSecret::passphrase("correct horse battery")).unwrap();
        assert_eq!(again.master[..], opened.master[..]);
        let wrong = header.open(&MasterSecret::passphrase("correct horse batteries"));
        assert!(matches!(wrong.err(), Some(KeystoreError::WrongSecret)));
        let kind = header.open(&MasterSecret::Environment("ANY".to_owned()));
        assert!(matches!(kind.err(), Some(KeystoreError::WrongSecretKind { needs: "a passphrase" })));
        let other = create();
        assert_ne!(other.1.master[..], opened.master[..]);
        assert_ne!(other.0.salt, header.salt);
    }

    #[test]
    fn damage_is_told_from_a_wrong_secret() {
        let (header, _) = create();
        let bytes = header.to_bytes();
        assert_eq!(Header::from_bytes(&bytes).as_ref(), Some(&header));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Header::from_bytes(&damaged).is_none(), "byte {at}");
            assert!(Header::from_bytes(&bytes[..at]).is_none(), "{at} bytes");
        }
    }

    #[test]
    fn greedy_parameters_are_refused() {
        let (header, _) = create();
        let text = String::from_utf8(header.to_bytes()[DIGEST_LEN..].to_vec()).unwrap();
        let greedy = text.replace("\"memory_kib\":8", "\"memory_kib\":4294967295");
        assert_ne!(greedy, text);
        let mut bytes = Sha256::digest(&greedy).to_vec();
        bytes.extend_from_slice(greedy.as_bytes());
        assert!(Header::from_bytes(&bytes).is_none());
    }
}
