//! One version of one key as it lies in the file: metadata in clear, key bytes wrapped, both authenticated together.
//!
//! Records are sealed with AES-256-SIV (RFC 5297), the mode that was made for wrapping keys with associated data: it needs
//! no nonce that a copied or restored file could repeat, and unlike AES-KWP it authenticates the metadata along with the
//! key in one step. Name and version are associated data, so records cannot change places; and as they differ from
//! record to record, equal keys do not show.
//!
//! Layout: metadata length (4 bytes, little-endian), metadata (JSON), synthetic IV (16 bytes), then, encrypted, the check
//! value (8 bytes) and the key. The check value is encrypted because that of a DES key could be searched for.

use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::suite::{Agreement, DhGroup, Mac, Signature};
use ciphermill_contract::{KeyForm, Suite};
use ciphermill_memory::SecretBytes;
use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::error::KeystoreError;
use super::secret::secret_room;
use crate::entry::KeyCheckValue;
use crate::policy::KeyPolicy;

/// The first associated datum of every record.
const RECORD_LABEL: &[u8] = b"ciphermill keystore record v1";
/// What the record key is derived over.
const RECORD_KEY_LABEL: &[u8] = b"ciphermill keystore record key v1";
/// What the file key is derived over.
const FILE_KEY_LABEL: &[u8] = b"ciphermill keystore file key v2";

/// Bytes of the MAC over a whole file.
pub(super) const FILE_TAG_LEN: usize = 32;

const LENGTH_LEN: usize = 4;
const IV_LEN: usize = 16;
const CHECK_LEN: usize = 8;

/// Bytes of the metadata, as JSON; a policy that names every suite lies well below.
const METADATA_LEN_MAX: usize = 64 * 1024;

/// Whether a version of a key may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// In use.
    Active,
    /// Followed by a newer version: decryption and verification only.
    Retired,
    /// The bytes are gone; the record says that there was such a version.
    Destroyed,
}

/// What a generated key consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// A symmetric key of random bytes.
    Secret {
        /// Its length in bytes.
        len: usize,
    },
    /// A private key that is a random seed, scalar or exponent: X25519, Ed25519, ML-DSA (32 bytes), X448 (56 bytes),
    /// ML-KEM (64 bytes), DH (at least twice its group's strength: NIST SP 800-56A, 5.6.1.1.1 and appendix D).
    Seed {
        /// Its length in bytes.
        len: usize,
    },
}

impl KeyKind {
    /// The kind that suits a suite: its longest key, and 64 bytes at most where lengths are open. None for suites without
    /// keys, and for key pairs that are more than a seed (RSA, ECDH, ECDSA).
    pub fn for_suite(suite: Suite) -> Option<KeyKind> {
        match suite {
            Suite::Digest(_) | Suite::Random | Suite::PublicEncrypt(_) | Suite::Generate(_) => None,
            Suite::Kem(_) => Some(KeyKind::Seed { len: 64 }),
            Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored | Signature::MlDsa(_)) => {
                Some(KeyKind::Seed { len: 32 })
            }
            Suite::Agree(Agreement::X25519) => Some(KeyKind::Seed { len: 32 }),
            Suite::Agree(Agreement::X448) => Some(KeyKind::Seed { len: 56 }),
            Suite::Agree(Agreement::Dh(group)) => Some(KeyKind::Seed { len: exponent_len(group) }),
            Suite::Sign(_) | Suite::Agree(_) => None,
            Suite::Mac(Mac::Hmac(digest)) => Some(KeyKind::Secret { len: digest.len() }),
            Suite::Chain(chain) => Some(KeyKind::Secret { len: chain.cipher_key_len() + chain.digest.len() }),
            _ => Some(KeyKind::Secret { len: suite.key_len().max.min(64) }),
        }
    }

    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no kind is empty")]
    pub const fn len(self) -> usize {
        match self {
            KeyKind::Secret { len } | KeyKind::Seed { len } => len,
        }
    }

    /// What keys of this kind are imported as.
    pub const fn form(self) -> KeyForm {
        match self {
            KeyKind::Secret { .. } => KeyForm::Secret,
            KeyKind::Seed { .. } => KeyForm::Private,
        }
    }
}

/// Bytes of an exponent: twice the group's strength, which is 112 bits for 2,048, 152 for 4,096, 200 for 8,192.
fn exponent_len(group: DhGroup) -> usize {
    match group.len() {
        ..=384 => 32,
        385..=512 => 40,
        _ => 56,
    }
}

/// All that a keystore tells of a version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The key's name.
    pub name: String,
    /// The version, from 1 on.
    pub version: u32,
    /// What the bytes are.
    pub form: KeyForm,
    /// Their number.
    pub key_len: usize,
    /// What the key may be used for.
    pub policy: KeyPolicy,
    /// When the version was made (Unix time).
    pub created_unix_s: u64,
    /// Whether it may be used.
    pub state: KeyState,
    /// What it is for, in the owner's words.
    pub description: String,
    /// The check value; that of a destroyed version stays known.
    pub key_check_value: KeyCheckValue,
    /// How new versions are made; none for imported key pairs.
    pub kind: Option<KeyKind>,
}

/// The metadata as they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    #[serde(with = "form_text")]
    form: KeyForm,
    key_len: usize,
    policy: KeyPolicy,
    created_unix_s: u64,
    state: KeyState,
    description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<KeyKind>,
}

/// The keys that seal records and the file; derived from the master key.
pub(super) struct Sealer {
    record: SecretBytes,
    file: SecretBytes,
}

/// A record that was read and found authentic.
pub(super) struct OpenedRecord {
    pub(super) record: KeyRecord,
    /// Check value and key.
    payload: SecretBytes,
}

impl OpenedRecord {
    /// The key; nothing for a destroyed version.
    pub(super) fn key(&self) -> &[u8] {
        &self.payload[CHECK_LEN..]
    }
}

impl Sealer {
    /// Derives the keys: HMAC-SHA-512 under the master key.
    pub(super) fn new(master: &[u8]) -> Result<Sealer, KeystoreError> {
        Ok(Sealer { record: derive(master, RECORD_KEY_LABEL)?, file: derive(master, FILE_KEY_LABEL)? })
    }

    /// The MAC over a file's bytes.
    pub(super) fn file_tag(&self, body: &[u8]) -> [u8; FILE_TAG_LEN] {
        self.file_mac(body).finalize().into_bytes().into()
    }

    /// Whether this is the MAC over these bytes; in constant time.
    pub(super) fn is_file_tag(&self, body: &[u8], tag: &[u8; FILE_TAG_LEN]) -> bool {
        self.file_mac(body).verify(tag.into()).is_ok()
    }

    fn file_mac(&self, body: &[u8]) -> Hmac<Sha256> {
        match Hmac::<Sha256>::new_from_slice(&self.file) {
            Ok(mac) => mac.chain_update(body),
            Err(_) => unreachable!("HMAC takes keys of every length (RFC 2104, section 2)"),
        }
    }

    /// Seals a record and its key; the check value is taken from the record.
    pub(super) fn seal(&self, record: &KeyRecord, key: &[u8]) -> Result<Vec<u8>, KeystoreError> {
        let too_long = KeystoreError::BadParameter { what: "policy and description", rule: "at most 64 KiB as JSON" };
        let metadata = Metadata {
            form: record.form,
            key_len: record.key_len,
            policy: record.policy.clone(),
            created_unix_s: record.created_unix_s,
            state: record.state,
            description: record.description.clone(),
            kind: record.kind,
        };
        let metadata = match serde_json::to_vec(&metadata) {
            Ok(text) if text.len() <= METADATA_LEN_MAX => text,
            _ => return Err(too_long),
        };
        // Exactly as long as it gets, so that no plain bytes are left behind by growing.
        let mut sealed = Vec::with_capacity(LENGTH_LEN + metadata.len() + IV_LEN + CHECK_LEN + key.len());
        sealed.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
        sealed.extend_from_slice(&metadata);
        let iv_at = sealed.len();
        sealed.extend_from_slice(&[0; IV_LEN]);
        sealed.extend_from_slice(&record.key_check_value.0);
        sealed.extend_from_slice(key);
        let version = record.version.to_le_bytes();
        let headers = [RECORD_LABEL, record.name.as_bytes(), &version, &metadata];
        let body = &mut sealed[iv_at + IV_LEN..];
        match self.siv().encrypt_inout_detached(headers, body.into()) {
            Ok(iv) => {
                sealed[iv_at..iv_at + IV_LEN].copy_from_slice(&iv);
                Ok(sealed)
            }
            Err(_) => {
                sealed.zeroize();
                Err(too_long)
            }
        }
    }

    /// Opens a record. None for anything that this keystore did not write in this place.
    pub(super) fn open(&self, name: &str, version: u32, sealed: &[u8]) -> Result<Option<OpenedRecord>, KeystoreError> {
        let Some((metadata, iv, body)) = split(sealed) else { return Ok(None) };
        let mut payload = secret_room(body.len())?;
        payload.copy_from_slice(body);
        let version_bytes = version.to_le_bytes();
        let headers = [RECORD_LABEL, name.as_bytes(), &version_bytes, metadata];
        if self.siv().decrypt_inout_detached(headers, (&mut payload[..]).into(), &(*iv).into()).is_err() {
            return Ok(None);
        }
        // Authentic, so these parse; if not, the keystore is another program's.
        let Ok(metadata) = serde_json::from_slice::<Metadata>(metadata) else { return Ok(None) };
        let Some((check, key)) = payload.split_first_chunk::<CHECK_LEN>() else { return Ok(None) };
        let key_check_value = KeyCheckValue(*check);
        let is_sound = match metadata.state {
            KeyState::Destroyed => key.is_empty(),
            _ => key.len() == metadata.key_len && bool::from(KeyCheckValue::of(key).0.ct_eq(check)),
        };
        if !is_sound {
            return Ok(None);
        }
        let record = KeyRecord {
            name: name.to_owned(),
            version,
            form: metadata.form,
            key_len: metadata.key_len,
            policy: metadata.policy,
            created_unix_s: metadata.created_unix_s,
            state: metadata.state,
            description: metadata.description,
            key_check_value,
            kind: metadata.kind,
        };
        Ok(Some(OpenedRecord { record, payload }))
    }

    fn siv(&self) -> Aes256Siv {
        match Aes256Siv::new_from_slice(&self.record) {
            Ok(siv) => siv,
            Err(_) => unreachable!("HMAC-SHA-512 gives the 64 bytes that AES-256-SIV takes"),
        }
    }
}

/// A key of 64 bytes for one purpose.
fn derive(master: &[u8], label: &[u8]) -> Result<SecretBytes, KeystoreError> {
    let mut mac = match Hmac::<Sha512>::new_from_slice(master) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of every length (RFC 2104, section 2)"),
    };
    mac.update(label);
    let mut digest = mac.finalize().into_bytes();
    let mut key = secret_room(digest.len())?;
    key.copy_from_slice(&digest);
    digest.as_mut_slice().zeroize();
    Ok(key)
}

/// Metadata, synthetic IV and body, if the lengths are possible.
fn split(sealed: &[u8]) -> Option<(&[u8], &[u8; IV_LEN], &[u8])> {
    let (len, rest) = sealed.split_first_chunk::<LENGTH_LEN>()?;
    let metadata_len = u32::from_le_bytes(*len) as usize;
    if metadata_len > METADATA_LEN_MAX {
        return None;
    }
    let (metadata, rest) = rest.split_at_checked(metadata_len)?;
    let (iv, body) = rest.split_first_chunk::<IV_LEN>()?;
    (CHECK_LEN..=CHECK_LEN + KEY_LEN_MAX).contains(&body.len()).then_some((metadata, iv, body))
}

mod form_text {
    use ciphermill_contract::KeyForm;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(form: &KeyForm, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match form {
            KeyForm::Secret => "secret",
            KeyForm::Private => "private",
            KeyForm::Public => "public",
            KeyForm::Reference => return Err(S::Error::custom("a keystore keeps keys, not names of keys elsewhere")),
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeyForm, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "secret" => Ok(KeyForm::Secret),
            "private" => Ok(KeyForm::Private),
            "public" => Ok(KeyForm::Public),
            _ => Err(D::Error::custom("forms are `secret`, `private` or `public`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8]) -> KeyRecord {
        KeyRecord {
            name: "cards".to_owned(),
            version: 3,
            form: KeyForm::Secret,
            key_len: key.len(),
            policy: KeyPolicy::only("aes-256-gcm".parse().unwrap()).operations_max(5),
            created_unix_s: 1_700_000_000,
            state: KeyState::Active,
            description: "column `pan`".to_owned(),
            key_check_value: KeyCheckValue::of(key),
            kind: Some(KeyKind::Secret { len: key.len() }),
        }
    }

    #[test]
    fn records_come_back_whole() {
        let sealer = Sealer::new(&[1; 32]).unwrap();
        for len in [1, 15, 16, 32, 1000, KEY_LEN_MAX] {
            let key = vec![0xAB; len];
            let sealed = sealer.seal(&record(&key), &key).unwrap();
            let opened = sealer.open("cards", 3, &sealed).unwrap().unwrap();
            assert_eq!(opened.record, record(&key));
            assert_eq!(opened.key(), key);
        }
    }

    #[test]
    fn no_bit_and_no_place_may_change() {
        let sealer = Sealer::new(&[1; 32]).unwrap();
        let key = [0xCD; 16];
        let sealed = sealer.seal(&record(&key), &key).unwrap();
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 0x10;
            assert!(sealer.open("cards", 3, &altered).unwrap().is_none(), "byte {at}");
        }
        for len in 0..sealed.len() {
            assert!(sealer.open("cards", 3, &sealed[..len]).unwrap().is_none(), "{len} bytes");
        }
        assert!(sealer.open("cards", 4, &sealed).unwrap().is_none());
        assert!(sealer.open("card", 3, &sealed).unwrap().is_none());
        assert!(Sealer::new(&[2; 32]).unwrap().open("cards", 3, &sealed).unwrap().is_none());
    }

    #[test]
    fn metadata_have_a_limit_up_to_which_they_come_back() {
        let (sealer, key) = (Sealer::new(&[1; 32]).unwrap(), [0xCD; 16]);
        let described = |len: usize| KeyRecord { description: "x".repeat(len), ..record(&key) };
        let sealed = sealer.seal(&described(0), &key).unwrap();
        let rest = 65_536 - u32::from_le_bytes(*sealed.first_chunk().unwrap()) as usize;
        let sealed = sealer.seal(&described(rest), &key).unwrap();
        assert_eq!(sealer.open("cards", 3, &sealed).unwrap().unwrap().record, described(rest));
        let longer = sealer.seal(&described(rest + 1), &key);
        assert!(matches!(longer, Err(KeystoreError::BadParameter { .. })));
    }

    /// As another program might write them that has the same keys.
    #[test]
    fn authentic_records_that_contradict_themselves_are_refused() {
        let (sealer, key) = (Sealer::new(&[1; 32]).unwrap(), [0xCD; 16]);
        let right = record(&key);
        let wrong = [
            KeyRecord { key_len: 15, ..right.clone() },
            KeyRecord { key_check_value: KeyCheckValue::of(&[0; 16]), ..right.clone() },
            KeyRecord { state: KeyState::Destroyed, ..right.clone() },
        ];
        assert!(sealer.open("cards", 3, &sealer.seal(&right, &key).unwrap()).unwrap().is_some());
        for record in wrong {
            assert!(sealer.open("cards", 3, &sealer.seal(&record, &key).unwrap()).unwrap().is_none(), "{record:?}");
        }
    }

    #[test]
    fn kinds_suit_their_suites() {
        for suite in Suite::all() {
            match KeyKind::for_suite(suite) {
                Some(kind) => assert!(suite.key_len().contains(kind.len()), "{suite}: {kind:?}"),
                None => assert!(suite.is_public_key() || !suite.needs_key(), "{suite}"),
            }
        }
        let kind = |name: &str| KeyKind::for_suite(name.parse().unwrap());
        assert_eq!(kind("aes-128-gcm"), Some(KeyKind::Secret { len: 16 }));
        assert_eq!(kind("aes-256-xts"), Some(KeyKind::Secret { len: 64 }));
        assert_eq!(kind("3des-cbc"), Some(KeyKind::Secret { len: 24 }));
        assert_eq!(kind("aes-128-cbc+hmac-sha1"), Some(KeyKind::Secret { len: 36 }));
        assert_eq!(kind("ml-kem-768"), Some(KeyKind::Seed { len: 64 }));
        for seed in ["ed25519", "ml-dsa-44", "x25519"] {
            assert_eq!(kind(seed), Some(KeyKind::Seed { len: 32 }), "{seed}");
        }
        assert_eq!(kind("dh-ffdhe4096"), Some(KeyKind::Seed { len: 40 }));
        for none in ["ecdsa-p256", "sha256", "random", "rsa-2048-encrypt-oaep-sha256"] {
            assert_eq!(kind(none), None, "{none}");
        }
    }
}
