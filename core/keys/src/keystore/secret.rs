//! What opens a keystore: passphrases, key files, environment variables.

use core::fmt;
use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use base64ct::{Base64, Base64Unpadded, Base64Url, Base64UrlUnpadded, Encoding};
use ciphermill_memory::SecretBytes;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::error::KeystoreError;
use super::file::open_regular;
use crate::memory::no_memory;

/// Bytes of a master key, a key file and a wrapping key.
pub const MASTER_KEY_LEN: usize = 32;

/// The longest passphrase in bytes.
pub const PASSPHRASE_LEN_MAX: usize = 64 * 1024;

/// The fewest characters of a new passphrase: NIST SP 800-63B-4, section 3.1.1.2, for a secret that is the only one
/// asked for. Older keystores open under shorter ones.
pub const PASSPHRASE_CHARS_MIN: usize = 15;

/// The fewest different characters of a new passphrase.
const PASSPHRASE_DIFFERENT_MIN: usize = 5;

/// Bytes of a salt.
pub(super) const SALT_LEN: usize = 16;

/// The longest key file that is looked at: the longest text form and a line end.
const KEY_FILE_LEN_MAX: usize = 2 * MASTER_KEY_LEN + 2;

/// What a raw key is stretched over, together with the salt.
const RAW_LABEL: &[u8] = b"ciphermill keystore wrapping key v1";

/// What opens a keystore.
pub enum MasterSecret {
    /// A passphrase, stretched by Argon2id.
    Passphrase(Zeroizing<String>),
    /// A file of 32 bytes, or of 64 hexadecimal digits, that nobody but its owner may read or write; a group may read it
    /// when root owns it, as with secrets that a service is given.
    KeyFile(PathBuf),
    /// A variable with 32 bytes in hexadecimal or base64.
    Environment(String),
}

impl MasterSecret {
    /// A passphrase.
    pub fn passphrase(passphrase: impl Into<String>) -> MasterSecret {
        MasterSecret::Passphrase(Zeroizing::new(passphrase.into()))
    }

    /// The passphrase in a file, which others than its owner must not be able to read, as with
    /// [`MasterSecret::KeyFile`]. A line end behind it does not belong to it.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::InsecureKeyFile`]; [`KeystoreError::BadSecret`] for what is not a regular file, or not text of at
    /// most [`PASSPHRASE_LEN_MAX`] bytes; [`KeystoreError::Io`].
    pub fn passphrase_file(path: impl AsRef<Path>) -> Result<MasterSecret, KeystoreError> {
        let path = path.as_ref();
        let bad = |rule| KeystoreError::BadSecret { source: path.display().to_string(), rule };
        let content = read_secret_file(path, PASSPHRASE_LEN_MAX + 2)?;
        let Ok(text) = core::str::from_utf8(&content) else { return Err(bad("a passphrase is text in UTF-8")) };
        let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
        match text.len() {
            0 => Err(bad("it is empty")),
            1..=PASSPHRASE_LEN_MAX => Ok(MasterSecret::passphrase(text)),
            _ => Err(bad("a passphrase has at most 65536 bytes")),
        }
    }

    /// Whether the secret may protect something new.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::BadParameter`] for a passphrase of fewer than [`PASSPHRASE_CHARS_MIN`] characters, or of fewer
    /// than five different ones.
    pub fn check_new(&self) -> Result<(), KeystoreError> {
        let MasterSecret::Passphrase(passphrase) = self else { return Ok(()) };
        let different = passphrase.chars().collect::<BTreeSet<char>>().len();
        if passphrase.chars().count() < PASSPHRASE_CHARS_MIN || different < PASSPHRASE_DIFFERENT_MIN {
            let rule =
                "a new one has at least 15 characters, five of them different; four random words make a good one";
            return Err(KeystoreError::BadParameter { what: "passphrase", rule });
        }
        Ok(())
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MasterSecret::Passphrase(_) => f.write_str("Passphrase(…)"),
            MasterSecret::KeyFile(path) => write!(f, "KeyFile({})", path.display()),
            MasterSecret::Environment(variable) => write!(f, "Environment({variable})"),
        }
    }
}

/// What Argon2id (RFC 9106) costs whoever tries passphrases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KdfParameters {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl KdfParameters {
    /// The least memory that a new keystore may ask for: 19 MiB.
    pub const MEMORY_KIB_MIN: u32 = 19 * 1024;
    /// The most memory that a keystore may ask for, so that an altered file cannot exhaust the machine: 4 GiB.
    pub const MEMORY_KIB_MAX: u32 = 4 * 1024 * 1024;
    /// The most passes.
    pub const PASSES_MAX: u32 = 64;
    /// The most lanes.
    pub const LANES_MAX: u32 = 16;

    /// Parameters: memory in KiB, passes over it, lanes.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::BadParameter`] outside [`Self::MEMORY_KIB_MIN`] to [`Self::MEMORY_KIB_MAX`], or for passes or
    /// lanes that are zero or beyond their limit.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<KdfParameters, KeystoreError> {
        if memory_kib < Self::MEMORY_KIB_MIN {
            return Err(KeystoreError::BadParameter { what: "Argon2id memory", rule: "at least 19 MiB (19456 KiB)" });
        }
        let parameters = KdfParameters { memory_kib, passes, lanes };
        parameters.check()?;
        Ok(parameters)
    }

    /// The cheapest parameters there are. They protect nothing; for tests and examples alone.
    pub const fn insecure_for_tests() -> KdfParameters {
        KdfParameters { memory_kib: 8, passes: 1, lanes: 1 }
    }

    /// The memory in KiB.
    pub const fn memory_kib(self) -> u32 {
        self.memory_kib
    }

    /// The passes over the memory.
    pub const fn passes(self) -> u32 {
        self.passes
    }

    /// The lanes.
    pub const fn lanes(self) -> u32 {
        self.lanes
    }

    /// The bounds that a file's parameters must keep as well.
    pub(super) fn check(self) -> Result<(), KeystoreError> {
        let bad = |what, rule| Err(KeystoreError::BadParameter { what, rule });
        if self.memory_kib > Self::MEMORY_KIB_MAX {
            bad("Argon2id memory", "at most 4 GiB (4194304 KiB)")
        } else if self.passes == 0 || self.passes > Self::PASSES_MAX {
            bad("Argon2id passes", "1 to 64")
        } else if self.lanes == 0 || self.lanes > Self::LANES_MAX {
            bad("Argon2id lanes", "1 to 16")
        } else if self.memory_kib < 8 * self.lanes {
            // RFC 9106, section 3.1.
            bad("Argon2id memory", "at least 8 KiB a lane")
        } else {
            Ok(())
        }
    }
}

impl Default for KdfParameters {
    /// 64 MiB, three passes, one lane: RFC 9106, section 4, the second recommendation with one lane in place of four.
    fn default() -> KdfParameters {
        KdfParameters { memory_kib: 64 * 1024, passes: 3, lanes: 1 }
    }
}

/// How a keystore's wrapping key comes from its secret; lies in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Derivation {
    /// Argon2id of a passphrase.
    Argon2id(KdfParameters),
    /// HMAC-SHA-256 under a key of full strength.
    Raw,
}

impl Derivation {
    /// The derivation that suits a secret.
    pub(super) fn of(secret: &MasterSecret, parameters: KdfParameters) -> Derivation {
        match secret {
            MasterSecret::Passphrase(_) => Derivation::Argon2id(parameters),
            MasterSecret::KeyFile(_) | MasterSecret::Environment(_) => Derivation::Raw,
        }
    }

    /// The key that wraps the master key.
    pub(super) fn wrapping_key(self, secret: &MasterSecret, salt: &[u8]) -> Result<SecretBytes, KeystoreError> {
        match (self, secret) {
            (Derivation::Argon2id(parameters), MasterSecret::Passphrase(passphrase)) => {
                argon2id(parameters, passphrase, salt)
            }
            (Derivation::Raw, MasterSecret::KeyFile(path)) => stretch_raw(&*read_key_file(path)?, salt),
            (Derivation::Raw, MasterSecret::Environment(variable)) => stretch_raw(&*read_variable(variable)?, salt),
            (Derivation::Argon2id(_), _) => Err(KeystoreError::WrongSecretKind { needs: "a passphrase" }),
            (Derivation::Raw, _) => {
                Err(KeystoreError::WrongSecretKind { needs: "a key of 32 bytes, from a file or a variable" })
            }
        }
    }
}

/// Zero bytes for a key.
pub(super) fn secret_room(len: usize) -> Result<SecretBytes, KeystoreError> {
    SecretBytes::zeroed(len).map_err(|_| KeystoreError::Table(no_memory(len)))
}

fn argon2id(parameters: KdfParameters, passphrase: &str, salt: &[u8]) -> Result<SecretBytes, KeystoreError> {
    if passphrase.is_empty() || passphrase.len() > PASSPHRASE_LEN_MAX {
        return Err(KeystoreError::BadParameter { what: "passphrase", rule: "1 to 65536 bytes" });
    }
    parameters.check()?;
    let refused = |_| KeystoreError::BadParameter { what: "Argon2id", rule: "the parameters do not go together" };
    let params = Params::new(parameters.memory_kib, parameters.passes, parameters.lanes, Some(MASTER_KEY_LEN));
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.map_err(refused)?);
    let mut key = secret_room(MASTER_KEY_LEN)?;
    argon2.hash_password_into(passphrase.as_bytes(), salt, &mut key).map_err(refused)?;
    Ok(key)
}

fn stretch_raw(raw: &[u8; MASTER_KEY_LEN], salt: &[u8]) -> Result<SecretBytes, KeystoreError> {
    let mut mac = match Hmac::<Sha256>::new_from_slice(raw) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of every length (RFC 2104, section 2)"),
    };
    mac.update(RAW_LABEL);
    mac.update(salt);
    let digest = Zeroizing::new(<[u8; MASTER_KEY_LEN]>::from(mac.finalize().into_bytes()));
    let mut key = secret_room(MASTER_KEY_LEN)?;
    key.copy_from_slice(digest.as_slice());
    Ok(key)
}

/// A file's content, or its first `len_max + 1` bytes, if nobody but its owner may read it, or root owns it and its group
/// may read it (the rule of PostgreSQL's key files).
fn read_secret_file(path: &Path, len_max: usize) -> Result<Zeroizing<Vec<u8>>, KeystoreError> {
    let io_error = |source| KeystoreError::io(path, source);
    let Some((file, metadata)) = open_regular(path).map_err(io_error)? else {
        return Err(KeystoreError::BadSecret { source: path.display().to_string(), rule: "it is not a regular file" });
    };
    let mode = metadata.mode() & 0o7777;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if mode & forbidden != 0 {
        return Err(KeystoreError::InsecureKeyFile { path: path.to_owned(), mode });
    }
    // Room for everything at once, so that no copy is left behind by growing.
    let mut content = Zeroizing::new(Vec::with_capacity(len_max + 1));
    file.take(len_max as u64 + 1).read_to_end(&mut content).map_err(io_error)?;
    Ok(content)
}

fn read_key_file(path: &Path) -> Result<Zeroizing<[u8; MASTER_KEY_LEN]>, KeystoreError> {
    let bad = |rule| KeystoreError::BadSecret { source: path.display().to_string(), rule };
    let content = read_secret_file(path, KEY_FILE_LEN_MAX)?;
    let mut key = Zeroizing::new([0; MASTER_KEY_LEN]);
    if content.len() == MASTER_KEY_LEN {
        key.copy_from_slice(&content);
        return Ok(key);
    }
    // Of a longer file only the beginning is here.
    let is_whole = content.len() <= KEY_FILE_LEN_MAX;
    match hex::decode_to_slice(content.trim_ascii(), key.as_mut_slice()) {
        Ok(()) if is_whole => Ok(key),
        _ => Err(bad("a key file holds 32 bytes, or 64 hexadecimal digits")),
    }
}

fn read_variable(variable: &str) -> Result<Zeroizing<[u8; MASTER_KEY_LEN]>, KeystoreError> {
    let bad = |rule| KeystoreError::BadSecret { source: format!("environment variable {variable}"), rule };
    let text = std::env::var_os(variable).ok_or_else(|| bad("it is not set"))?;
    let text = Zeroizing::new(text.into_encoded_bytes());
    decode_text(text.trim_ascii()).ok_or_else(|| bad("it holds 32 bytes as 64 hexadecimal digits or as base64"))
}

/// 32 bytes in hexadecimal or any usual base64.
fn decode_text(text: &[u8]) -> Option<Zeroizing<[u8; MASTER_KEY_LEN]>> {
    let mut key = Zeroizing::new([0; MASTER_KEY_LEN]);
    if text.len() == 2 * MASTER_KEY_LEN {
        hex::decode_to_slice(text, key.as_mut_slice()).ok()?;
        return Some(key);
    }
    let decoders = [Base64::decode, Base64Unpadded::decode, Base64Url::decode, Base64UrlUnpadded::decode];
    decoders
        .iter()
        .any(|decode| matches!(decode(text, key.as_mut_slice()), Ok(bytes) if bytes.len() == MASTER_KEY_LEN))
        .then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_of_a_key() {
        let key: [u8; 32] = core::array::from_fn(|at| (at as u8).wrapping_mul(37) ^ 0xF0);
        let hex_text = hex::encode(key);
        let forms = [
            hex_text.clone(),
            hex_text.to_uppercase(),
            Base64::encode_string(&key),
            Base64Unpadded::encode_string(&key),
            Base64Url::encode_string(&key),
            Base64UrlUnpadded::encode_string(&key),
        ];
        for form in forms {
            assert_eq!(decode_text(form.as_bytes()).as_deref(), Some(&key), "{form}");
        }
        for bad in ["", "00", &hex_text[1..], &format!("{}g", &hex_text[1..]), &Base64::encode_string(&key[1..])] {
            assert!(decode_text(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    /// RFC 9106 has vectors only with secret and associated data, which are not used here; this value was computed with
    /// the reference implementation: `echo -n password | argon2 somesaltsomesalt -id -t 2 -k 64 -p 1 -l 32 -r`.
    #[test]
    fn argon2id_matches_the_reference_implementation() {
        let parameters = KdfParameters { memory_kib: 64, passes: 2, lanes: 1 };
        let key = argon2id(parameters, "password", b"somesaltsomesalt").unwrap();
        assert_eq!(hex::encode(&key[..]), "1a98fba8e6394425c9bdc333a9c750aaf811df070f5fb4a5788e1cf4db5793a1");
    }

    #[test]
    fn passphrases_have_bounds() {
        let stretch = |len: usize| argon2id(KdfParameters::insecure_for_tests(), &"x".repeat(len), b"somesaltsomesalt");
        assert!(stretch(1).is_ok() && stretch(65_536).is_ok());
        for len in [0, 65_537] {
            assert!(matches!(stretch(len), Err(KeystoreError::BadParameter { .. })), "{len} bytes");
        }
        assert!(MasterSecret::passphrase("abcdeabcdeabcde").check_new().is_ok(), "15 characters, five different");
        for weak in ["abcdeabcdeabcd", "abcdabcdabcdabcd"] {
            assert!(MasterSecret::passphrase(weak).check_new().is_err(), "{weak}");
        }
    }

    #[test]
    fn parameters_have_bounds() {
        assert!(KdfParameters::new(19 * 1024, 1, 1).is_ok());
        let most = KdfParameters::new(4 * 1024 * 1024, 64, 16).unwrap();
        assert_eq!((most.memory_kib(), most.passes(), most.lanes()), (4 * 1024 * 1024, 64, 16));
        for (memory_kib, passes, lanes) in
            [(19 * 1024 - 1, 3, 1), (u32::MAX, 3, 1), (65536, 0, 1), (65536, 65, 1), (65536, 3, 0), (65536, 3, 17)]
        {
            let refused = KdfParameters::new(memory_kib, passes, lanes);
            assert!(matches!(refused, Err(KeystoreError::BadParameter { .. })), "{memory_kib} {passes} {lanes}");
        }
        let default = KdfParameters::default();
        assert_eq!((default.memory_kib(), default.passes(), default.lanes()), (65536, 3, 1));
        assert!(KdfParameters { memory_kib: 15, passes: 1, lanes: 2 }.check().is_err());
    }
}
