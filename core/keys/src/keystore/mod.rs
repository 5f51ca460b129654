//! The keystore: named and versioned keys in a file, wrapped under a master key.
//!
//! ```text
//! passphrase ── Argon2id ─┐
//! key file ──── HMAC ─────┼── wrapping key ── AES-KWP ── master key ── HMAC ── record key ── AES-SIV ── keys
//! variable ──── HMAC ─────┘
//! ```
//!
//! - Changing the secret ([`Keystore::change_secret`]) wraps the master key anew and touches no record;
//!   [`Keystore::rotate_master`] seals every record under a new one.
//! - Each record is authenticated together with its name, version, state and policy; nothing can be changed or moved
//!   without the master key. What a keystore cannot notice is that the whole file, or single records, were taken away
//!   or put back to an older state: keep backups as carefully as the file.
//! - Names, policies, states, times and descriptions lie in clear.
//! - One process has a keystore open at a time. Files are made with mode 0600, complete or not at all.
//! - Operation budgets count from each [`Keystore::load_into`]; they are not written back.

mod derive;
mod error;
mod file;
mod header;
mod record;
mod secret;

use core::fmt;
use std::path::Path;

use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::{Direction, Directions, KeyForm, KeyId, KeyMaterial};
use ciphermill_memory::SecretBytes;

pub use error::KeystoreError;
pub use file::FORMAT_VERSION;
pub use record::{KeyKind, KeyRecord, KeyState};
pub use secret::{KdfParameters, MASTER_KEY_LEN, MasterSecret, PASSPHRASE_LEN_MAX};

use crate::entry::KeyCheckValue;
use crate::policy::KeyPolicy;
use crate::table::{KeyTable, now_unix_s};
use file::{SealedRecord, StoreFile};
use header::{Header, random_secret};
use record::{OpenedRecord, Sealer};

/// Bytes of a key's name.
pub const NAME_LEN_MAX: usize = 255;
/// Bytes of a description.
pub const DESCRIPTION_LEN_MAX: usize = 4096;
/// Versions of one key.
pub const VERSIONS_MAX: u32 = 1 << 20;

/// An open keystore. The file stays locked against other processes until it is dropped.
pub struct Keystore {
    file: StoreFile,
    header: Header,
    wrapping: SecretBytes,
    master: SecretBytes,
    sealer: Sealer,
}

impl Keystore {
    /// Makes a keystore. A passphrase costs as much as [`KdfParameters::default`] says.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Exists`] when there is a file of that name; errors of the secret and of the file system.
    pub fn create(path: impl AsRef<Path>, secret: &MasterSecret) -> Result<Keystore, KeystoreError> {
        Keystore::create_with(path, secret, KdfParameters::default())
    }

    /// Makes a keystore with other costs for its passphrase.
    ///
    /// # Errors
    ///
    /// As [`Keystore::create`].
    pub fn create_with(
        path: impl AsRef<Path>,
        secret: &MasterSecret,
        parameters: KdfParameters,
    ) -> Result<Keystore, KeystoreError> {
        let path = path.as_ref();
        if path.symlink_metadata().is_ok() {
            // Before the time that the passphrase takes; creating checks again.
            return Err(KeystoreError::Exists { what: path.display().to_string() });
        }
        let (header, opened) = Header::create(secret, parameters, now_unix_s())?;
        let sealer = Sealer::new(&opened.master)?;
        let file = StoreFile::create(path, &header.to_bytes())?;
        Ok(Keystore { file, header, wrapping: opened.wrapping, master: opened.master, sealer })
    }

    /// Opens a keystore.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Locked`], [`KeystoreError::UnsupportedVersion`], [`KeystoreError::Damaged`],
    /// [`KeystoreError::WrongSecret`], [`KeystoreError::WrongSecretKind`]; errors of the secret's source and of the file
    /// system.
    pub fn open(path: impl AsRef<Path>, secret: &MasterSecret) -> Result<Keystore, KeystoreError> {
        let file = StoreFile::open(path.as_ref())?;
        let header = Header::from_bytes(&file.header()?)
            .ok_or_else(|| KeystoreError::damaged(file.path(), "the header does not match its digest"))?;
        let opened = header.open(secret)?;
        let sealer = Sealer::new(&opened.master)?;
        Ok(Keystore { file, header, wrapping: opened.wrapping, master: opened.master, sealer })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// When the keystore was made (Unix time).
    pub fn created_unix_s(&self) -> u64 {
        self.header.created_unix_s()
    }

    /// Makes a random key: version 1 of a new name.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Exists`]; [`KeystoreError::BadParameter`] for a name or length that is not allowed.
    pub fn generate(&mut self, name: &str, kind: KeyKind, policy: KeyPolicy) -> Result<KeyRecord, KeystoreError> {
        check_len(kind.len())?;
        let key = random_secret(kind.len())?;
        self.add_first(name, KeyMaterial { form: kind.form(), bytes: &key }, policy, Some(kind))
    }

    /// Takes a key in: version 1 of a new name. The caller wipes the original.
    ///
    /// # Errors
    ///
    /// As [`Keystore::generate`].
    pub fn import(&mut self, name: &str, key: KeyMaterial<'_>, policy: KeyPolicy) -> Result<KeyRecord, KeystoreError> {
        let kind = (key.form == KeyForm::Secret).then_some(KeyKind::Secret { len: key.bytes.len() });
        self.add_first(name, key, policy, kind)
    }

    /// Every version of every key, by name and version. All records are authenticated on the way.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Damaged`] for a record that is not authentic.
    pub fn list(&self) -> Result<Vec<KeyRecord>, KeystoreError> {
        self.file.records(None)?.iter().map(|sealed| Ok(self.open_record(sealed)?.record)).collect()
    }

    /// Every version of one key.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Damaged`].
    pub fn versions(&self, name: &str) -> Result<Vec<KeyRecord>, KeystoreError> {
        let records: Result<Vec<KeyRecord>, KeystoreError> =
            self.file.records(Some(name))?.iter().map(|sealed| Ok(self.open_record(sealed)?.record)).collect();
        records.and_then(|list| if list.is_empty() { Err(KeystoreError::not_found(name, None)) } else { Ok(list) })
    }

    /// The current version of a key: the newest active one.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`] when there is no active version.
    pub fn current(&self, name: &str) -> Result<KeyRecord, KeystoreError> {
        Ok(self.find(name, None)?.record)
    }

    /// One version of a key.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`].
    pub fn version(&self, name: &str, version: u32) -> Result<KeyRecord, KeystoreError> {
        Ok(self.find(name, Some(version))?.record)
    }

    /// Makes a new random version the current one. The old one stays for decryption. The new version has the old one's
    /// policy; one that expires lives as long from now as the old one did from its making.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]; [`KeystoreError::CannotGenerate`] for imported key pairs.
    pub fn rotate(&mut self, name: &str) -> Result<KeyRecord, KeystoreError> {
        let old = self.current(name)?;
        let kind = old.kind.ok_or_else(|| KeystoreError::CannotGenerate { name: name.to_owned() })?;
        let key = random_secret(kind.len())?;
        self.follow(old, KeyMaterial { form: kind.form(), bytes: &key })
    }

    /// As [`Keystore::rotate`], with a key that comes from elsewhere.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]; [`KeystoreError::BadParameter`] for a key of another form than the old one.
    pub fn rotate_to(&mut self, name: &str, key: KeyMaterial<'_>) -> Result<KeyRecord, KeystoreError> {
        let old = self.current(name)?;
        if key.form != old.form {
            return Err(KeystoreError::BadParameter { what: "key", rule: "a new version has the form of the old one" });
        }
        self.follow(old, key)
    }

    /// Keeps an active version for decryption only.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Destroyed`]. Nothing happens to a version that is retired already.
    pub fn retire(&mut self, name: &str, version: u32) -> Result<(), KeystoreError> {
        self.rewrite(name, version, |record| record.state = KeyState::Retired)
    }

    /// Says what a version is for.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Destroyed`]; [`KeystoreError::BadParameter`] for more than
    /// [`DESCRIPTION_LEN_MAX`] bytes.
    pub fn describe(&mut self, name: &str, version: u32, description: &str) -> Result<(), KeystoreError> {
        if description.len() > DESCRIPTION_LEN_MAX {
            return Err(KeystoreError::BadParameter { what: "description", rule: "at most 4096 bytes" });
        }
        self.rewrite(name, version, |record| record.description = description.to_owned())
    }

    /// Destroys a version: its wrapped bytes are gone from the file, which is written anew for that; the record stays and
    /// says so. Copies of the file, and blocks that the file system has not used again, still hold the wrapped bytes:
    /// where that matters, follow with [`Keystore::rotate_master`] and [`Keystore::change_secret`].
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]. Nothing happens to a version that is destroyed already.
    pub fn destroy(&mut self, name: &str, version: u32) -> Result<(), KeystoreError> {
        let opened = self.find(name, Some(version))?;
        if opened.record.state == KeyState::Destroyed {
            return Ok(());
        }
        let mut tombstone = opened.record;
        tombstone.state = KeyState::Destroyed;
        let sealed = self.sealer.seal(&tombstone, &[])?;
        let mut records = self.file.records(None)?;
        for record in records.iter_mut().filter(|record| record.name == name && record.version == version) {
            record.sealed.clone_from(&sealed);
        }
        self.file.replace(&self.header.to_bytes(), &records)
    }

    /// Imports a version, or the current one, into a key table under its policy. A retired version may decrypt only.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]; [`KeystoreError::Destroyed`]; [`KeystoreError::Retired`] when the policy allows
    /// encryption only; [`KeystoreError::Table`].
    pub fn load_into(&self, table: &KeyTable, name: &str, version: Option<u32>) -> Result<KeyId, KeystoreError> {
        let opened = self.find(name, version)?;
        let mut policy = opened.record.policy.clone();
        match opened.record.state {
            KeyState::Active => {}
            KeyState::Retired if policy.directions.contains(Direction::Decrypt) => {
                policy.directions = Directions::DECRYPT;
            }
            KeyState::Retired => {
                return Err(KeystoreError::Retired { name: name.to_owned(), version: opened.record.version });
            }
            KeyState::Destroyed => return Err(destroyed(&opened.record)),
        }
        Ok(table.import(KeyMaterial { form: opened.record.form, bytes: opened.key() }, policy)?)
    }

    /// Closes the keystore under another secret. The file is written anew, so that the old secret opens nothing of it.
    ///
    /// Whoever has both an old copy of the file and the old secret still knows the master key; follow with
    /// [`Keystore::rotate_master`] when that is to be feared.
    ///
    /// # Errors
    ///
    /// Errors of the new secret and of the file system; the old secret stays valid then.
    pub fn change_secret(&mut self, secret: &MasterSecret, parameters: KdfParameters) -> Result<(), KeystoreError> {
        let (header, wrapping) = self.header.with_secret(secret, parameters, &self.master)?;
        self.file.replace(&header.to_bytes(), &self.file.records(None)?)?;
        (self.header, self.wrapping) = (header, wrapping);
        Ok(())
    }

    /// Seals every record under a new master key, which the present secret opens. The file is written anew.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Damaged`] for a record that is not authentic; errors of the file system. The old master key stays
    /// valid then.
    pub fn rotate_master(&mut self) -> Result<(), KeystoreError> {
        let master = random_secret(MASTER_KEY_LEN)?;
        let header = self.header.with_master(&self.wrapping, &master)?;
        let sealer = Sealer::new(&master)?;
        let mut records = self.file.records(None)?;
        for sealed in &mut records {
            let opened = self.open_record(sealed)?;
            sealed.sealed = sealer.seal(&opened.record, opened.key())?;
        }
        self.file.replace(&header.to_bytes(), &records)?;
        (self.header, self.master, self.sealer) = (header, master, sealer);
        Ok(())
    }

    fn add_first(
        &mut self,
        name: &str,
        key: KeyMaterial<'_>,
        policy: KeyPolicy,
        kind: Option<KeyKind>,
    ) -> Result<KeyRecord, KeystoreError> {
        check_name(name)?;
        check_len(key.bytes.len())?;
        if !self.file.records(Some(name))?.is_empty() {
            return Err(KeystoreError::Exists { what: format!("key `{name}`") });
        }
        let record = KeyRecord {
            name: name.to_owned(),
            version: 1,
            form: key.form,
            key_len: key.bytes.len(),
            policy,
            created_unix_s: now_unix_s(),
            state: KeyState::Active,
            description: String::new(),
            key_check_value: KeyCheckValue::of(key.bytes),
            kind,
        };
        self.file.put(&[self.seal(&record, key.bytes)?])?;
        Ok(record)
    }

    /// Puts a new version after `old`, which is retired in the same stroke.
    fn follow(&mut self, old: KeyRecord, key: KeyMaterial<'_>) -> Result<KeyRecord, KeystoreError> {
        check_len(key.bytes.len())?;
        let newest = self.file.records(Some(&old.name))?.last().map_or(old.version, |record| record.version);
        if newest >= VERSIONS_MAX {
            return Err(KeystoreError::BadParameter { what: "key", rule: "at most 1048576 versions" });
        }
        let now = now_unix_s();
        let mut policy = old.policy.clone();
        if let Some(end) = policy.expires_unix_s {
            policy.expires_unix_s = Some(now.saturating_add(end.saturating_sub(old.created_unix_s)));
        }
        let record = KeyRecord {
            version: newest + 1,
            key_len: key.bytes.len(),
            policy,
            created_unix_s: now,
            key_check_value: KeyCheckValue::of(key.bytes),
            kind: old.kind.map(|kind| match kind {
                KeyKind::Secret { .. } => KeyKind::Secret { len: key.bytes.len() },
                KeyKind::Seed { .. } => KeyKind::Seed { len: key.bytes.len() },
            }),
            ..old.clone()
        };
        let mut retired = self.find(&old.name, Some(old.version))?;
        retired.record.state = KeyState::Retired;
        let both = [self.seal(&retired.record, retired.key())?, self.seal(&record, key.bytes)?];
        self.file.put(&both)?;
        Ok(record)
    }

    /// Seals a record again after a change to its metadata.
    fn rewrite(&mut self, name: &str, version: u32, change: impl FnOnce(&mut KeyRecord)) -> Result<(), KeystoreError> {
        let mut opened = self.find(name, Some(version))?;
        if opened.record.state == KeyState::Destroyed {
            return Err(destroyed(&opened.record));
        }
        change(&mut opened.record);
        self.file.put(&[self.seal(&opened.record, opened.key())?])
    }

    fn seal(&self, record: &KeyRecord, key: &[u8]) -> Result<SealedRecord, KeystoreError> {
        let sealed = self.sealer.seal(record, key)?;
        Ok(SealedRecord { name: record.name.clone(), version: record.version, sealed })
    }

    fn open_record(&self, sealed: &SealedRecord) -> Result<OpenedRecord, KeystoreError> {
        let SealedRecord { name, version, sealed } = sealed;
        self.sealer.open(name, *version, sealed)?.ok_or_else(|| {
            KeystoreError::damaged(self.file.path(), format!("version {version} of key `{name}` is not authentic"))
        })
    }

    /// A version, or the current one.
    fn find(&self, name: &str, version: Option<u32>) -> Result<OpenedRecord, KeystoreError> {
        let not_found = || KeystoreError::not_found(name, version);
        match version {
            Some(version) => {
                let sealed = self.file.record(name, version)?.ok_or_else(not_found)?;
                self.open_record(&SealedRecord { name: name.to_owned(), version, sealed })
            }
            None => {
                for sealed in self.file.records(Some(name))?.iter().rev() {
                    let opened = self.open_record(sealed)?;
                    if opened.record.state == KeyState::Active {
                        return Ok(opened);
                    }
                }
                Err(not_found())
            }
        }
    }
}

impl fmt::Debug for Keystore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keystore").field("path", &self.path()).finish_non_exhaustive()
    }
}

fn destroyed(record: &KeyRecord) -> KeystoreError {
    KeystoreError::Destroyed { name: record.name.clone(), version: record.version }
}

fn check_name(name: &str) -> Result<(), KeystoreError> {
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) || name.trim() != name {
        let rule = "1 to 255 bytes, no control characters, no blanks at its ends";
        return Err(KeystoreError::BadParameter { what: "key name", rule });
    }
    Ok(())
}

fn check_len(len: usize) -> Result<(), KeystoreError> {
    if len == 0 || len > KEY_LEN_MAX {
        return Err(KeystoreError::BadParameter { what: "key", rule: "1 to 16384 bytes" });
    }
    Ok(())
}
