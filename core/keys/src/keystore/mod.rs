//! The keystore: named and versioned keys in a file, wrapped under a master key.
//!
//! ```text
//! passphrase ── Argon2id ─┐
//! key file ──── HMAC ─────┼── wrapping key ── AES-KWP ── master key ── HMAC ─┬─ record key ── AES-SIV ── keys
//! variable ──── HMAC ─────┘                                                  └─ file key ──── HMAC ───── the whole file
//! ```
//!
//! - A [`Keystore`] is a snapshot of the file. Opening one needs leave to read the file and nothing else, so that any
//!   number of processes may do so, also from a folder that cannot be written.
//! - Each change waits for its turn ([`WaitPolicy`]), brings the snapshot up to date, and replaces the file whole: a
//!   failure or a crash leaves the old keystore or the new one. An error says that nothing has changed, except for
//!   [`KeystoreError::NotDurable`], which says that the change is in effect.
//! - Changing the secret ([`Keystore::change_secret`]) wraps the master key anew and touches no record;
//!   [`Keystore::rotate_master`] seals every record under a new one.
//! - Each record is authenticated together with its name, version, state and policy, and the file's list of records as a
//!   whole. What a keystore cannot notice is that the whole file was put back to an older state: keep backups as
//!   carefully as the file.
//! - Names, policies, states, times and descriptions lie in clear.
//! - Operation budgets count from each [`Keystore::load_into`]; they are not written back.

mod backup;
mod derive;
mod draft;
mod error;
mod file;
mod format;
mod format1;
mod header;
mod record;
mod rules;
mod secret;
#[cfg(test)]
mod tests;

use core::fmt;
use std::path::{Path, PathBuf};

use ciphermill_contract::{Direction, Directions, KeyForm, KeyId, KeyMaterial};
use ciphermill_memory::SecretBytes;

pub use backup::Restored;
pub use draft::WaitPolicy;
pub use error::KeystoreError;
pub use file::FORMAT_VERSION;
pub use format::FILE_LEN_MAX;
pub use record::{KeyKind, KeyRecord, KeyState};
pub use rules::{ROOT_KEY_LEN, ROOT_KEY_LEN_MIN, is_encoded_key};
pub use secret::{KdfParameters, MASTER_KEY_LEN, MasterSecret, PASSPHRASE_CHARS_MIN, PASSPHRASE_LEN_MAX};

use crate::entry::KeyCheckValue;
use crate::policy::KeyPolicy;
use crate::table::{KeyTable, now_unix_s};
use draft::{Draft, Place, folder_of};
use file::Records;
use format::{StoredFile, encode};
use header::{Header, random_secret};
use record::{OpenedRecord, Sealer};

/// Bytes of a key's name.
pub const NAME_LEN_MAX: usize = 255;
/// Bytes of a description.
pub const DESCRIPTION_LEN_MAX: usize = 4096;
/// Versions of one key.
pub const VERSIONS_MAX: u32 = 1 << 20;

const _: () = assert!(NAME_LEN_MAX <= u8::MAX as usize);

/// A keystore as it was when it was opened or last changed through this value.
pub struct Keystore {
    path: PathBuf,
    wait: WaitPolicy,
    header: Header,
    wrapping: SecretBytes,
    master: SecretBytes,
    sealer: Sealer,
    records: Records,
}

impl Keystore {
    /// Makes a keystore. A passphrase costs as much as [`KdfParameters::default`] says.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Exists`] when there is a file of that name; [`KeystoreError::BadParameter`] for a passphrase that
    /// is too weak; [`KeystoreError::Clock`]; errors of the secret's source and of the file system. There is a keystore
    /// after [`KeystoreError::NotDurable`], and none after any other.
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
        let path = free_path(path.as_ref())?;
        let (header, opened) = Header::create(secret, parameters, present_second()?)?;
        let store = Keystore {
            sealer: Sealer::new(&opened.master)?,
            path,
            wait: WaitPolicy::default(),
            header,
            wrapping: opened.wrapping,
            master: opened.master,
            records: Records::new(),
        };
        store.place_new()?;
        Ok(store)
    }

    /// Opens a keystore. Nothing is written, and no lock is taken.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::UnsupportedVersion`], [`KeystoreError::Damaged`], [`KeystoreError::WrongSecret`],
    /// [`KeystoreError::WrongSecretKind`]; errors of the secret's source and of the file system.
    pub fn open(path: impl AsRef<Path>, secret: &MasterSecret) -> Result<Keystore, KeystoreError> {
        // The file itself, so that a change replaces it and not a link to it.
        let path = path.as_ref();
        let path = std::fs::canonicalize(path).map_err(|error| KeystoreError::io(path, error))?;
        let stored = StoredFile::read(&path)?;
        let opened = stored.header.open(secret)?;
        let sealer = Sealer::new(&opened.master)?;
        let header = stored.header.clone();
        let (records, _) = stored.authenticate(&path, &sealer)?;
        let (wrapping, master) = (opened.wrapping, opened.master);
        Ok(Keystore { path, wait: WaitPolicy::default(), header, wrapping, master, sealer, records })
    }

    /// Says how changes wait for other processes.
    pub fn set_wait(&mut self, wait: WaitPolicy) {
        self.wait = wait;
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When the keystore was made (Unix time).
    pub fn created_unix_s(&self) -> u64 {
        self.header.created_unix_s()
    }

    /// Makes a random key: version 1 of a new name.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Exists`]; [`KeystoreError::BadParameter`] for a name or length that is not allowed; errors of
    /// every change: [`KeystoreError::Locked`], [`KeystoreError::Changed`], [`KeystoreError::Clock`],
    /// [`KeystoreError::NotChanged`], [`KeystoreError::NotDurable`].
    pub fn generate(&mut self, name: &str, kind: KeyKind, policy: KeyPolicy) -> Result<KeyRecord, KeystoreError> {
        self.generate_described(name, kind, policy, "")
    }

    /// As [`Keystore::generate`], with a description.
    ///
    /// # Errors
    ///
    /// As [`Keystore::generate`]; [`KeystoreError::BadParameter`] for more than [`DESCRIPTION_LEN_MAX`] bytes.
    pub fn generate_described(
        &mut self,
        name: &str,
        kind: KeyKind,
        policy: KeyPolicy,
        description: &str,
    ) -> Result<KeyRecord, KeystoreError> {
        rules::check_len(kind.len())?;
        let key = random_secret(kind.len())?;
        self.add_first(name, KeyMaterial { form: kind.form(), bytes: &key }, policy, Some(kind), description)
    }

    /// Takes a key in: version 1 of a new name. The caller wipes the original.
    ///
    /// # Errors
    ///
    /// As [`Keystore::generate`]; [`KeystoreError::BadParameter`] also for a secret key that is an encoded key pair or
    /// certificate ([`is_encoded_key`]), or shorter than [`ROOT_KEY_LEN_MIN`] where HMAC-SHA-256 is allowed.
    pub fn import(&mut self, name: &str, key: KeyMaterial<'_>, policy: KeyPolicy) -> Result<KeyRecord, KeystoreError> {
        self.import_described(name, key, policy, "")
    }

    /// As [`Keystore::import`], with a description.
    ///
    /// # Errors
    ///
    /// As [`Keystore::import`]; [`KeystoreError::BadParameter`] for more than [`DESCRIPTION_LEN_MAX`] bytes.
    pub fn import_described(
        &mut self,
        name: &str,
        key: KeyMaterial<'_>,
        policy: KeyPolicy,
        description: &str,
    ) -> Result<KeyRecord, KeystoreError> {
        let kind = (key.form == KeyForm::Secret).then_some(KeyKind::Secret { len: key.bytes.len() });
        self.add_first(name, key, policy, kind, description)
    }

    /// Every version of every key, by name and version. All records are authenticated on the way.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Damaged`] for a record that is not authentic.
    pub fn list(&self) -> Result<Vec<KeyRecord>, KeystoreError> {
        self.records
            .iter()
            .map(|((name, version), sealed)| Ok(self.open_record(name, *version, sealed)?.record))
            .collect()
    }

    /// Every version of one key.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Damaged`].
    pub fn versions(&self, name: &str) -> Result<Vec<KeyRecord>, KeystoreError> {
        let records: Result<Vec<KeyRecord>, KeystoreError> = self
            .versions_of(name)
            .map(|(version, sealed)| Ok(self.open_record(name, version, sealed)?.record))
            .collect();
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
    /// policy and length, but [`ROOT_KEY_LEN`] where the old one was shorter than [`ROOT_KEY_LEN_MIN`] demands today; one
    /// that expires lives as long from now as the old one did from its making.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]; [`KeystoreError::CannotGenerate`] for keys that are not made of random bytes alone:
    /// key pairs that were imported; errors of every change, see [`Keystore::generate`].
    pub fn rotate(&mut self, name: &str) -> Result<KeyRecord, KeystoreError> {
        let draft = self.begin()?;
        let old = self.find(name, None)?;
        let kind = rules::kind_of_successor(&old.record)
            .ok_or_else(|| KeystoreError::CannotGenerate { name: name.to_owned() })?;
        let key = random_secret(kind.len())?;
        self.follow(draft, old, KeyMaterial { form: kind.form(), bytes: &key })
    }

    /// As [`Keystore::rotate`], with a key that comes from elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Keystore::import`]; [`KeystoreError::NotFound`]; [`KeystoreError::BadParameter`] for a key of another form
    /// than the old one.
    pub fn rotate_to(&mut self, name: &str, key: KeyMaterial<'_>) -> Result<KeyRecord, KeystoreError> {
        let draft = self.begin()?;
        let old = self.find(name, None)?;
        if key.form != old.record.form {
            return Err(KeystoreError::BadParameter { what: "key", rule: "a new version has the form of the old one" });
        }
        self.follow(draft, old, key)
    }

    /// Keeps an active version for decryption only.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Destroyed`]; errors of every change, see [`Keystore::generate`].
    /// Nothing happens to a version that is retired already.
    pub fn retire(&mut self, name: &str, version: u32) -> Result<(), KeystoreError> {
        self.rewrite(name, version, |record| record.state = KeyState::Retired)
    }

    /// Says what a version is for.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Destroyed`]; [`KeystoreError::BadParameter`] for more than
    /// [`DESCRIPTION_LEN_MAX`] bytes; errors of every change, see [`Keystore::generate`].
    pub fn describe(&mut self, name: &str, version: u32, description: &str) -> Result<(), KeystoreError> {
        check_description(description)?;
        self.rewrite(name, version, |record| record.description = description.to_owned())
    }

    /// Destroys a version: its wrapped bytes are gone from the file; the record stays and says so. Copies of the file,
    /// and blocks that the file system has not used again, still hold the wrapped bytes: where that matters, follow with
    /// [`Keystore::rotate_master`] and [`Keystore::change_secret`].
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]; errors of every change, see [`Keystore::generate`]. Nothing happens to a version that
    /// is destroyed already.
    pub fn destroy(&mut self, name: &str, version: u32) -> Result<(), KeystoreError> {
        let draft = self.begin()?;
        let opened = self.find(name, Some(version))?;
        if opened.record.state == KeyState::Destroyed {
            return Ok(());
        }
        let mut tombstone = opened.record;
        tombstone.state = KeyState::Destroyed;
        let mut records = self.records.clone();
        seal_into(&mut records, &self.sealer, &tombstone, &[])?;
        self.commit(draft, records)
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

    /// Lends a version, or the current one, to `work`: to make the public key of a private one. The bytes must not outlive
    /// the call.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`], [`KeystoreError::Destroyed`].
    pub fn with_key<T>(
        &self,
        name: &str,
        version: Option<u32>,
        work: impl FnOnce(&KeyRecord, KeyMaterial<'_>) -> T,
    ) -> Result<T, KeystoreError> {
        let opened = self.find(name, version)?;
        if opened.record.state == KeyState::Destroyed {
            return Err(destroyed(&opened.record));
        }
        Ok(work(&opened.record, KeyMaterial { form: opened.record.form, bytes: opened.key() }))
    }

    /// Closes the keystore under another secret; the old one opens nothing of the new file.
    ///
    /// Whoever has both an old copy of the file and the old secret still knows the master key; follow with
    /// [`Keystore::rotate_master`] when that is to be feared.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::BadParameter`] for a passphrase that is too weak; errors of the new secret's source; errors of
    /// every change, see [`Keystore::generate`]. The old secret stays valid then, except after
    /// [`KeystoreError::NotDurable`], which says that the new one is in force.
    pub fn change_secret(&mut self, secret: &MasterSecret, parameters: KdfParameters) -> Result<(), KeystoreError> {
        let (header, wrapping) = self.header.with_secret(secret, parameters, &self.master)?;
        let draft = self.begin()?;
        let published = draft.publish(&encode(&header, &self.records, &self.sealer)?, Place::Successor)?;
        (self.header, self.wrapping) = (header, wrapping);
        published.durable()
    }

    /// Seals every record under a new master key, which the present secret opens.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::Damaged`] for a record that is not authentic; errors of every change, see [`Keystore::generate`].
    pub fn rotate_master(&mut self) -> Result<(), KeystoreError> {
        let draft = self.begin()?;
        let master = random_secret(MASTER_KEY_LEN)?;
        let header = self.header.with_master(&self.wrapping, &master)?;
        let sealer = Sealer::new(&master)?;
        let records = self.resealed(&sealer)?;
        let published = draft.publish(&encode(&header, &records, &sealer)?, Place::Successor)?;
        (self.header, self.master, self.sealer, self.records) = (header, master, sealer, records);
        published.durable()
    }

    /// Takes the right to change the file, and brings this snapshot up to date with it.
    fn begin(&mut self) -> Result<Draft, KeystoreError> {
        let mut draft = Draft::begin(&self.path, self.wait)?;
        let stored = StoredFile::read(&self.path)?;
        if stored.header != self.header {
            return Err(KeystoreError::Changed { path: self.path.clone() });
        }
        (self.records, draft.locked) = stored.authenticate(&self.path, &self.sealer)?;
        Ok(draft)
    }

    /// Replaces the file by one with these records. They are this keystore's from the moment at which they are the
    /// file's.
    fn commit(&mut self, draft: Draft, records: Records) -> Result<(), KeystoreError> {
        let published = draft.publish(&encode(&self.header, &records, &self.sealer)?, Place::Successor)?;
        self.records = records;
        published.durable()
    }

    /// Writes a keystore that is not there yet.
    fn place_new(&self) -> Result<(), KeystoreError> {
        let draft = Draft::begin(&self.path, self.wait)?;
        draft.publish(&encode(&self.header, &self.records, &self.sealer)?, Place::New)?.durable()
    }

    fn add_first(
        &mut self,
        name: &str,
        key: KeyMaterial<'_>,
        policy: KeyPolicy,
        kind: Option<KeyKind>,
        description: &str,
    ) -> Result<KeyRecord, KeystoreError> {
        check_name(name)?;
        check_description(description)?;
        rules::check_key(key, &policy)?;
        let draft = self.begin()?;
        if self.versions_of(name).next().is_some() {
            return Err(KeystoreError::Exists { what: format!("key `{name}`") });
        }
        let record = KeyRecord {
            name: name.to_owned(),
            version: 1,
            form: key.form,
            key_len: key.bytes.len(),
            policy,
            created_unix_s: present_second()?,
            state: KeyState::Active,
            description: description.to_owned(),
            key_check_value: KeyCheckValue::of(key.bytes),
            kind,
        };
        let mut records = self.records.clone();
        seal_into(&mut records, &self.sealer, &record, key.bytes)?;
        self.commit(draft, records)?;
        Ok(record)
    }

    /// Puts a new version after `old`, which is retired in the same stroke.
    fn follow(
        &mut self,
        draft: Draft,
        mut old: OpenedRecord,
        key: KeyMaterial<'_>,
    ) -> Result<KeyRecord, KeystoreError> {
        let before = old.record.clone();
        rules::check_key(key, &before.policy)?;
        let newest = self.versions_of(&before.name).last().map_or(before.version, |(version, _)| version);
        if newest >= VERSIONS_MAX {
            return Err(KeystoreError::BadParameter { what: "key", rule: "at most 1048576 versions" });
        }
        let now = present_second()?;
        let mut policy = before.policy.clone();
        if let Some(end) = policy.expires_unix_s {
            policy.expires_unix_s = Some(now.saturating_add(end.saturating_sub(before.created_unix_s)));
        }
        let record = KeyRecord {
            version: newest + 1,
            key_len: key.bytes.len(),
            policy,
            created_unix_s: now,
            key_check_value: KeyCheckValue::of(key.bytes),
            kind: before.kind.map(|kind| match kind {
                KeyKind::Secret { .. } => KeyKind::Secret { len: key.bytes.len() },
                KeyKind::Seed { .. } => KeyKind::Seed { len: key.bytes.len() },
            }),
            ..before
        };
        old.record.state = KeyState::Retired;
        let mut records = self.records.clone();
        seal_into(&mut records, &self.sealer, &old.record, old.key())?;
        seal_into(&mut records, &self.sealer, &record, key.bytes)?;
        self.commit(draft, records)?;
        Ok(record)
    }

    /// Seals a record again after a change to its metadata.
    fn rewrite(&mut self, name: &str, version: u32, change: impl FnOnce(&mut KeyRecord)) -> Result<(), KeystoreError> {
        let draft = self.begin()?;
        let mut opened = self.find(name, Some(version))?;
        if opened.record.state == KeyState::Destroyed {
            return Err(destroyed(&opened.record));
        }
        change(&mut opened.record);
        let mut records = self.records.clone();
        seal_into(&mut records, &self.sealer, &opened.record, opened.key())?;
        self.commit(draft, records)
    }

    /// Every record, sealed under another master key.
    fn resealed(&self, sealer: &Sealer) -> Result<Records, KeystoreError> {
        let mut records = Records::new();
        for ((name, version), sealed) in &self.records {
            let opened = self.open_record(name, *version, sealed)?;
            seal_into(&mut records, sealer, &opened.record, opened.key())?;
        }
        Ok(records)
    }

    fn open_record(&self, name: &str, version: u32, sealed: &[u8]) -> Result<OpenedRecord, KeystoreError> {
        self.sealer.open(name, version, sealed)?.ok_or_else(|| {
            KeystoreError::damaged(&self.path, format!("version {version} of key `{name}` is not authentic"))
        })
    }

    /// The sealed versions of a key, oldest first.
    fn versions_of(&self, name: &str) -> impl DoubleEndedIterator<Item = (u32, &[u8])> {
        let range = (name.to_owned(), 0)..=(name.to_owned(), u32::MAX);
        self.records.range(range).map(|((_, version), sealed)| (*version, sealed.as_slice()))
    }

    /// A version, or the current one.
    fn find(&self, name: &str, version: Option<u32>) -> Result<OpenedRecord, KeystoreError> {
        for (found, sealed) in self.versions_of(name).rev() {
            if version.is_some_and(|version| version != found) {
                continue;
            }
            let opened = self.open_record(name, found, sealed)?;
            if version.is_some() || opened.record.state == KeyState::Active {
                return Ok(opened);
            }
        }
        Err(KeystoreError::not_found(name, version))
    }
}

impl fmt::Debug for Keystore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keystore").field("path", &self.path()).finish_non_exhaustive()
    }
}

fn seal_into(records: &mut Records, sealer: &Sealer, record: &KeyRecord, key: &[u8]) -> Result<(), KeystoreError> {
    let sealed = sealer.seal(record, key)?;
    records.insert((record.name.clone(), record.version), sealed);
    Ok(())
}

/// The whole path of a file that is not there yet.
fn free_path(path: &Path) -> Result<PathBuf, KeystoreError> {
    // Before the time that a passphrase takes; placing the file checks again.
    if path.symlink_metadata().is_ok() {
        return Err(KeystoreError::Exists { what: path.display().to_string() });
    }
    let Some(name) = path.file_name() else {
        return Err(KeystoreError::BadParameter { what: "keystore path", rule: "it ends in a file name" });
    };
    let folder = std::fs::canonicalize(folder_of(path)).map_err(|error| KeystoreError::io(path, error))?;
    Ok(folder.join(name))
}

/// The present second for what is written down. A clock before 1970 has none: it would make lifetimes wrong for good.
fn present_second() -> Result<u64, KeystoreError> {
    match now_unix_s() {
        u64::MAX => Err(KeystoreError::Clock),
        second => Ok(second),
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

fn check_description(description: &str) -> Result<(), KeystoreError> {
    if description.len() > DESCRIPTION_LEN_MAX {
        return Err(KeystoreError::BadParameter { what: "description", rule: "at most 4096 bytes" });
    }
    Ok(())
}
