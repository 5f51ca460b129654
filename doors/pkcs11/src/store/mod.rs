//! The token: a keystore, and a file beside it with what a keystore has no place for.
//!
//! ```text
//! user's PIN ──── Argon2id ── AES-SIV ─┐
//! officer's PIN ─ Argon2id ── AES-SIV ─┼─ secret ─┬─ opens the keystore: keys
//!                                      ┘          └─ HMAC ── AES-SIV: attributes of private objects
//! ```
//!
//! A keystore that `ciphermill keys` has made is a token too: its passphrase is the user's PIN, and there is no security officer. Keys lie in
//! the keystore, where other programs find them; certificates, data, public keys and attributes lie in the token's file. What is public lies
//! there in clear and is not authenticated, as anybody who may write the file may make public objects.

mod file;
mod seal;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::{KeyForm, KeyMaterial};
use ciphermill_keys::keystore::{KdfParameters, KeyState, Keystore, KeystoreError, MasterSecret};
use cryptoki_sys::*;
use zeroize::Zeroizing;

use crate::attributes::rules::{self, Origin};
use crate::attributes::{Attributes, Template};
use crate::key::{Key, KeyValue};
use crate::material;
use crate::operations::random;
use crate::rv::{Result, Rv, fail};
use file::{Body, Content, Kept, Place, mark};
use seal::{Owner, Pin, SECRET_LEN, Sealer};

/// Bytes of a PIN.
pub(crate) const PIN_LEN_MIN: usize = 4;
/// Bytes of a PIN at most.
pub(crate) const PIN_LEN_MAX: usize = 255;

/// Tries of a PIN before it is locked.
const TRIES_MAX: u32 = 10;

/// The numbers of objects that lie in the keystore alone begin here: a hash of name and half.
const FOUND_FROM: u64 = 1 << 63;

/// What an application is told of a token.
pub(crate) struct TokenInfo {
    pub(crate) label: [u8; 32],
    pub(crate) serial: [u8; 16],
    pub(crate) flags: CK_FLAGS,
}

/// What tells one state of a token from another: its two files, and whether it is open.
pub(crate) type State = (file::Mark, file::Mark, bool);

/// An object of a token.
pub(crate) struct Stored {
    /// Its number, which stays.
    pub(crate) id: u64,
    pub(crate) attributes: Attributes,
    pub(crate) key: Option<Key>,
}

/// A token.
pub(crate) struct Token {
    path: PathBuf,
    place: Place,
    mill: Mill,
    opened: Mutex<Option<Opened>>,
}

/// What who is logged in has open.
struct Opened {
    secret: Zeroizing<Vec<u8>>,
    sealer: Sealer,
    keystore: Keystore,
    /// The passphrase of a keystore that has one.
    is_passphrase: bool,
}

impl Opened {
    fn master(&self) -> MasterSecret {
        master(&self.secret, self.is_passphrase)
    }
}

/// The secret of a keystore: a passphrase of a person's, or random bytes in hexadecimal.
fn master(secret: &[u8], is_passphrase: bool) -> MasterSecret {
    use std::fmt::Write as _;
    if is_passphrase {
        return MasterSecret::passphrase(String::from_utf8_lossy(secret));
    }
    let mut digits = String::with_capacity(2 * secret.len());
    for byte in secret {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    MasterSecret::passphrase(digits)
}

/// What goes wrong with a keystore.
fn keystore_error(error: &KeystoreError) -> Rv {
    Rv(match error {
        KeystoreError::WrongSecret | KeystoreError::WrongSecretKind { .. } => CKR_PIN_INCORRECT,
        KeystoreError::NotChanged { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => CKR_TOKEN_WRITE_PROTECTED,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => CKR_DEVICE_MEMORY,
            _ => CKR_DEVICE_ERROR,
        },
        _ => CKR_DEVICE_ERROR,
    })
}

fn check_pin_len(pin: &[u8]) -> Result<()> {
    if (PIN_LEN_MIN..=PIN_LEN_MAX).contains(&pin.len()) { Ok(()) } else { fail(CKR_PIN_LEN_RANGE) }
}

/// Flags of a PIN's tries.
fn tries(pin: Option<&Pin>, low: CK_FLAGS, last: CK_FLAGS, locked: CK_FLAGS) -> CK_FLAGS {
    match pin.map_or(0, |pin| pin.failed) {
        0 => 0,
        failed if failed >= TRIES_MAX => locked,
        failed if failed + 1 == TRIES_MAX => low | last,
        _ => low,
    }
}

/// A hash of a name, so that an object of a keystore has the same number each time (FNV-1a).
pub(crate) fn number_of(name: &str, is_public: bool) -> u64 {
    let bytes = name.bytes().chain([u8::from(is_public)]);
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash | FOUND_FROM
}

impl Token {
    /// The token of a keystore, which need not be there yet.
    pub(crate) fn open(path: &Path, mill: &Mill) -> Token {
        Token { path: path.to_owned(), place: Place::beside(path), mill: mill.clone(), opened: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a token, or a place for one. A keystore that is damaged says so when it is opened.
    pub(crate) fn is_present(&self) -> bool {
        self.place.read().is_ok()
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.path.exists()
    }

    fn opened(&self) -> MutexGuard<'_, Option<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// `CKR_DEVICE_ERROR` for a token's file that is damaged.
    pub(crate) fn info(&self) -> Result<TokenInfo> {
        let content = self.place.read()?;
        let mut info = TokenInfo { label: [b' '; 32], serial: [b'0'; 16], flags: CKF_RNG | CKF_LOGIN_REQUIRED };
        if !self.is_initialized() {
            return Ok(info);
        }
        info.flags |= CKF_TOKEN_INITIALIZED;
        match content {
            Some(content) => {
                info.label.iter_mut().zip(&content.label).for_each(|(to, from)| *to = *from);
                info.serial.iter_mut().zip(&content.serial).for_each(|(to, from)| *to = *from);
                let (user, officer) = (content.user.as_ref(), content.officer.as_ref());
                // Without a PIN of its own the keystore's passphrase is the user's.
                if user.is_some() || officer.is_none() {
                    info.flags |= CKF_USER_PIN_INITIALIZED;
                }
                info.flags |= tries(user, CKF_USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY, CKF_USER_PIN_LOCKED);
                info.flags |= tries(officer, CKF_SO_PIN_COUNT_LOW, CKF_SO_PIN_FINAL_TRY, CKF_SO_PIN_LOCKED);
            }
            None => {
                info.label = crate::memory::pad(&self.path.file_stem().unwrap_or_default().to_string_lossy());
                info.flags |= CKF_USER_PIN_INITIALIZED;
            }
        }
        Ok(info)
    }

    /// Makes the token: a keystore with a secret of its own under the officer's PIN. One that is there is replaced, with that PIN alone.
    ///
    /// # Errors
    /// `CKR_PIN_LEN_RANGE`; `CKR_PIN_INCORRECT`, `CKR_PIN_LOCKED` for a token that is there; those of the file system.
    pub(crate) fn init(&self, pin: &[u8], label: &[u8]) -> Result<()> {
        check_pin_len(pin)?;
        if self.is_initialized() {
            // A keystore of somebody's passphrase has no officer who may empty it.
            self.try_pin(Owner::SecurityOfficer, pin)?;
            let away = file::with_ending(&self.path, ".replaced");
            std::fs::rename(&self.path, away).map_err(|_| Rv(CKR_TOKEN_WRITE_PROTECTED))?;
        }
        let mut secret = Zeroizing::new(vec![0; SECRET_LEN]);
        random(&self.mill, &mut secret)?;
        let mut number = [0; 8];
        random(&self.mill, &mut number)?;
        let serial = number.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        let officer = Pin::new(&self.mill, Owner::SecurityOfficer, pin, &secret)?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|_| Rv(CKR_TOKEN_WRITE_PROTECTED))?;
        }
        // The secret has 256 bits: what makes guessing dear is for people's passphrases.
        let cheap = KdfParameters::new(KdfParameters::MEMORY_KIB_MIN, 1, 1).map_err(|error| keystore_error(&error))?;
        Keystore::create_with(&self.path, &master(&secret, false), cheap).map_err(|error| keystore_error(&error))?;
        self.logout();
        self.place.change(|_| {
            let mut content = Content::new(label.to_vec(), serial);
            content.officer = Some(officer);
            Ok((content, ()))
        })
    }

    /// Counts a try of a PIN, then makes it: killing the process does not give more of them.
    fn try_pin(&self, owner: Owner, pin: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let tried = self.place.change(|content| {
            let mut content = content.ok_or(Rv(CKR_PIN_INCORRECT))?;
            let record = match owner {
                Owner::User => content.user.as_mut().ok_or(Rv(CKR_USER_PIN_NOT_INITIALIZED))?,
                Owner::SecurityOfficer => content.officer.as_mut().ok_or(Rv(CKR_PIN_INCORRECT))?,
            };
            if record.failed >= TRIES_MAX {
                return fail(CKR_PIN_LOCKED);
            }
            record.failed += 1;
            let record = record.clone();
            Ok((content, record))
        })?;
        let secret = tried.open(owner, pin)?;
        self.place.change(|content| {
            let mut content = content.ok_or(Rv(CKR_DEVICE_ERROR))?;
            let record = match owner {
                Owner::User => content.user.as_mut(),
                Owner::SecurityOfficer => content.officer.as_mut(),
            };
            record.ok_or(Rv(CKR_DEVICE_ERROR))?.failed = 0;
            Ok((content, ()))
        })?;
        Ok(secret)
    }

    /// Opens the keystore.
    fn open_with(&self, secret: Zeroizing<Vec<u8>>, is_passphrase: bool) -> Result<()> {
        let keystore =
            Keystore::open(&self.path, &master(&secret, is_passphrase)).map_err(|error| keystore_error(&error))?;
        let sealer = Sealer::of_secret(&secret)?;
        *self.opened() = Some(Opened { secret, sealer, keystore, is_passphrase });
        Ok(())
    }

    /// # Errors
    /// `CKR_PIN_INCORRECT`, `CKR_PIN_LOCKED`, `CKR_USER_PIN_NOT_INITIALIZED`, `CKR_PIN_LEN_RANGE`; those of the file system.
    pub(crate) fn login_user(&self, pin: &[u8]) -> Result<()> {
        match self.place.read()? {
            Some(content) if content.user.is_some() || content.officer.is_some() => {
                let secret = self.try_pin(Owner::User, pin)?;
                self.open_with(secret, false)
            }
            _ => self.open_with(Zeroizing::new(pin.to_vec()), true),
        }
    }

    /// # Errors
    /// As [`Token::login_user`].
    pub(crate) fn login_so(&self, pin: &[u8]) -> Result<()> {
        let secret = self.try_pin(Owner::SecurityOfficer, pin)?;
        self.open_with(secret, false)
    }

    /// Whether a PIN is the user's, who is logged in already.
    ///
    /// # Errors
    /// As [`Token::login_user`].
    pub(crate) fn check_user_pin(&self, pin: &[u8]) -> Result<()> {
        if self.place.read()?.is_some_and(|content| content.user.is_some()) {
            return self.try_pin(Owner::User, pin).map(drop);
        }
        Keystore::open(&self.path, &master(pin, true)).map(drop).map_err(|error| keystore_error(&error))
    }

    pub(crate) fn logout(&self) {
        *self.opened() = None;
    }

    /// Sets the user's PIN, with the officer logged in.
    ///
    /// # Errors
    /// `CKR_PIN_LEN_RANGE`, `CKR_USER_NOT_LOGGED_IN`; those of the file system.
    pub(crate) fn init_user_pin(&self, pin: &[u8]) -> Result<()> {
        check_pin_len(pin)?;
        let record = match &*self.opened() {
            Some(opened) => Pin::new(&self.mill, Owner::User, pin, &opened.secret)?,
            None => return fail(CKR_USER_NOT_LOGGED_IN),
        };
        self.put_pin(Owner::User, record)
    }

    fn put_pin(&self, owner: Owner, record: Pin) -> Result<()> {
        self.place.change(|content| {
            let mut content = content.ok_or(Rv(CKR_DEVICE_ERROR))?;
            match owner {
                Owner::User => content.user = Some(record),
                Owner::SecurityOfficer => content.officer = Some(record),
            }
            Ok((content, ()))
        })
    }

    /// Changes the user's PIN: of a keystore with a passphrase that.
    ///
    /// # Errors
    /// `CKR_PIN_INCORRECT`, `CKR_PIN_LOCKED`, `CKR_PIN_LEN_RANGE`; `CKR_PIN_TOO_WEAK` for a passphrase that keystores do not take.
    pub(crate) fn set_user_pin(&self, old: &[u8], new: &[u8]) -> Result<()> {
        let content = self.place.read()?;
        if content.is_some_and(|content| content.user.is_some() || content.officer.is_some()) {
            check_pin_len(new)?;
            let secret = self.try_pin(Owner::User, old)?;
            return self.put_pin(Owner::User, Pin::new(&self.mill, Owner::User, new, &secret)?);
        }
        let secret = master(new, true);
        secret.check_new().map_err(|_| Rv(CKR_PIN_TOO_WEAK))?;
        let mut keystore = Keystore::open(&self.path, &master(old, true)).map_err(|error| keystore_error(&error))?;
        keystore.change_secret(&secret, KdfParameters::default()).map_err(|error| keystore_error(&error))?;
        let mut opened = self.opened();
        if opened.is_some() {
            // Objects that were sealed under the old passphrase are sealed anew.
            let sealer = Sealer::of_secret(new)?;
            self.seal_again(opened.as_ref(), &sealer)?;
            *opened = Some(Opened { secret: Zeroizing::new(new.to_vec()), sealer, keystore, is_passphrase: true });
        }
        Ok(())
    }

    /// Seals the private objects under another key.
    fn seal_again(&self, opened: Option<&Opened>, sealer: &Sealer) -> Result<()> {
        let Some(opened) = opened else { return Ok(()) };
        if self.place.read()?.is_none() {
            return Ok(());
        }
        self.place.change(|content| {
            let mut content = content.ok_or(Rv(CKR_DEVICE_ERROR))?;
            for kept in &mut content.objects {
                if let Body::Sealed(sealed) = &kept.body {
                    let place = kept.number.to_be_bytes();
                    let plain = opened.sealer.open(&place, sealed).ok_or(Rv(CKR_DEVICE_ERROR))?;
                    kept.body = Body::Sealed(sealer.seal(&place, &plain)?);
                }
            }
            Ok((content, ()))
        })
    }

    /// # Errors
    /// As [`Token::set_user_pin`].
    pub(crate) fn set_so_pin(&self, old: &[u8], new: &[u8]) -> Result<()> {
        check_pin_len(new)?;
        let secret = self.try_pin(Owner::SecurityOfficer, old)?;
        self.put_pin(Owner::SecurityOfficer, Pin::new(&self.mill, Owner::SecurityOfficer, new, &secret)?)
    }

    /// What tells one state of the token's objects from another.
    pub(crate) fn state(&self) -> State {
        (self.place.mark(), mark(&self.path), self.opened().is_some())
    }

    /// The objects: public ones, and all of them to who is logged in as the user.
    ///
    /// # Errors
    /// `CKR_DEVICE_ERROR` for a file that is damaged.
    pub(crate) fn objects(&self, with_private: bool) -> Result<Vec<Stored>> {
        let mut opened = self.opened();
        let content = self.place.read()?;
        let mut stored = Vec::new();
        let mut described = HashSet::new();
        if let (true, Some(opened)) = (with_private, opened.as_mut()) {
            // Another process may have added keys.
            opened.keystore = Keystore::open(&self.path, &opened.master()).map_err(|error| keystore_error(&error))?;
        }
        let opened = opened.as_ref().filter(|_| with_private);
        for kept in content.iter().flat_map(|content| &content.objects) {
            described.extend(kept.entry.clone());
            if let Some(object) = self.stored(opened, kept)? {
                stored.push(object);
            }
        }
        if let Some(opened) = opened {
            self.found_in_keystore(opened, &described, &mut stored)?;
        }
        Ok(stored)
    }

    fn stored(&self, opened: Option<&Opened>, kept: &Kept) -> Result<Option<Stored>> {
        let plain = match (&kept.body, opened) {
            (Body::Public(plain), _) => Zeroizing::new(plain.clone()),
            (Body::Sealed(sealed), Some(opened)) => {
                opened.sealer.open(&kept.number.to_be_bytes(), sealed).ok_or(Rv(CKR_DEVICE_ERROR))?
            }
            (Body::Sealed(_), None) => return Ok(None),
        };
        let mut attributes = text::decode(&plain).ok_or(Rv(CKR_DEVICE_ERROR))?;
        if attributes.get(CKA_UNIQUE_ID).is_none() {
            // Kept before objects had names of their own: its number stays as well.
            attributes.set(CKA_UNIQUE_ID, format!("{:016x}", kept.number).as_bytes());
        }
        let (attributes, key) = match (&kept.entry, opened) {
            (Some(name), Some(opened)) => {
                let Ok(record) = opened.keystore.current(name) else { return Ok(None) };
                let key = self.key_of_entry(opened, name, record.version, &attributes)?;
                (attributes, key)
            }
            (Some(_), None) => (attributes, None),
            (None, _) => material::key_of(&self.mill, attributes)?,
        };
        Ok(Some(Stored { id: kept.number, attributes, key }))
    }

    /// The key of a keystore's entry, whose attributes say what it is.
    fn key_of_entry(&self, opened: &Opened, name: &str, version: u32, attributes: &Attributes) -> Result<Option<Key>> {
        let shape = material::shape_of(attributes);
        let read =
            opened.keystore.with_key(name, Some(version), |_, key| KeyValue::new(&self.mill, key.form, key.bytes));
        let value = read.map_err(|error| keystore_error(&error))??;
        Ok(shape.map(|shape| Key { shape, value }))
    }

    /// Keys that other programs have put into the keystore: nobody has said what PKCS#11 wants to know of them.
    fn found_in_keystore(&self, opened: &Opened, described: &HashSet<String>, stored: &mut Vec<Stored>) -> Result<()> {
        let records = opened.keystore.list().map_err(|error| keystore_error(&error))?;
        let mut names: Vec<String> =
            records.into_iter().filter(|record| record.state == KeyState::Active).map(|record| record.name).collect();
        names.dedup();
        for name in names.iter().filter(|name| !described.contains(*name)) {
            let Ok(record) = opened.keystore.current(name) else { continue };
            let read = opened.keystore.with_key(name, Some(record.version), |_, key| {
                material::found_in_keystore(&self.mill, key.form, key.bytes)
            });
            let Some((attributes, key)) = read.map_err(|error| keystore_error(&error))?? else { continue };
            let attributes = completed(attributes, name, record.policy.exportable)?;
            stored.push(Stored { id: number_of(name, false), attributes, key: Some(key) });
        }
        Ok(())
    }

    /// Keeps an object. Secret and private keys lie in the keystore.
    ///
    /// # Errors
    /// `CKR_USER_NOT_LOGGED_IN` for what is private; those of the file system.
    pub(crate) fn insert(&self, attributes: &Attributes, key: Option<&Key>) -> Result<u64> {
        let mut opened = self.opened();
        let number = self.place.change(|content| {
            let mut content = content.unwrap_or_else(|| self.new_content());
            let number = content.next;
            content.next += 1;
            Ok((content, number))
        })?;
        let mut attributes = attributes.clone();
        let entry = match (key, opened.as_mut()) {
            (Some(key), Some(opened)) if key.value.form() != KeyForm::Public => {
                add_entry(opened, number, &attributes, key)?
            }
            (Some(key), None) if key.value.form() != KeyForm::Public => return fail(CKR_USER_NOT_LOGGED_IN),
            _ => None,
        };
        if let (Some(key), None) = (key, &entry) {
            material::add_values(&mut attributes, key);
        }
        let added = self.put(opened.as_ref(), number, entry.clone(), &attributes);
        if let (Err(_), Some(name), Some(opened)) = (&added, &entry, opened.as_mut()) {
            // Nobody would find it.
            let _ = opened.keystore.destroy(name, 1);
        }
        added.map(|()| number)
    }

    fn new_content(&self) -> Content {
        let label: [u8; 32] = crate::memory::pad(&self.path.file_stem().unwrap_or_default().to_string_lossy());
        Content::new(label.to_vec(), b"0000000000000000".to_vec())
    }

    /// Writes an object's attributes, sealed if it is private or has its key with it.
    fn put(&self, opened: Option<&Opened>, number: u64, entry: Option<String>, attributes: &Attributes) -> Result<()> {
        let plain = text::encode(attributes);
        let seals = attributes.is_set(CKA_PRIVATE) || text::has_secrets(attributes);
        let body = match (seals, opened) {
            (false, _) => Body::Public(plain.to_vec()),
            (true, Some(opened)) => Body::Sealed(opened.sealer.seal(&number.to_be_bytes(), &plain)?),
            (true, None) => return fail(CKR_USER_NOT_LOGGED_IN),
        };
        self.place.change(|content| {
            let mut content = content.unwrap_or_else(|| self.new_content());
            let kept = Kept { number, entry, body };
            match content.objects.iter_mut().find(|kept| kept.number == number) {
                Some(place) => *place = kept,
                None => content.objects.push(kept),
            }
            Ok((content, ()))
        })
    }

    /// Changes an object's attributes.
    ///
    /// # Errors
    /// `CKR_OBJECT_HANDLE_INVALID` for one that has gone; those of [`Token::insert`].
    pub(crate) fn update(&self, number: u64, attributes: &Attributes, key: Option<&Key>) -> Result<()> {
        let opened = self.opened();
        let content = self.place.read()?.unwrap_or_else(|| self.new_content());
        let mut attributes = attributes.clone();
        let entry = match content.objects.into_iter().find(|kept| kept.number == number) {
            Some(kept) => kept.entry,
            // Until now the keystore alone knew it.
            None => Some(self.entry_of_number(opened.as_ref(), number)?),
        };
        if let (Some(key), None) = (key, &entry) {
            material::add_values(&mut attributes, key);
        }
        self.put(opened.as_ref(), number, entry, &attributes)
    }

    fn entry_of_number(&self, opened: Option<&Opened>, number: u64) -> Result<String> {
        let records =
            opened.ok_or(Rv(CKR_USER_NOT_LOGGED_IN))?.keystore.list().map_err(|error| keystore_error(&error))?;
        let found = records.into_iter().find(|record| number_of(&record.name, false) == number);
        found.map(|record| record.name).ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))
    }

    /// Destroys an object, in the keystore too.
    ///
    /// # Errors
    /// As [`Token::update`].
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        let mut opened = self.opened();
        let content = self.place.read()?;
        let kept = content.and_then(|content| content.objects.into_iter().find(|kept| kept.number == number));
        let entry = match &kept {
            Some(kept) => kept.entry.clone(),
            None => Some(self.entry_of_number(opened.as_ref(), number)?),
        };
        if let Some(name) = entry {
            let opened = opened.as_mut().ok_or(Rv(CKR_USER_NOT_LOGGED_IN))?;
            let versions = opened.keystore.versions(&name).map_err(|error| keystore_error(&error))?;
            for record in versions.iter().filter(|record| record.state != KeyState::Destroyed) {
                opened.keystore.destroy(&name, record.version).map_err(|error| keystore_error(&error))?;
            }
        }
        if kept.is_none() {
            return Ok(());
        }
        self.place.change(|content| {
            let mut content = content.ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))?;
            content.objects.retain(|kept| kept.number != number);
            Ok((content, ()))
        })
    }
}

/// Puts a key into the keystore, by its label where that is a name that nobody has; `None` for what keystores do not take.
fn add_entry(opened: &mut Opened, number: u64, attributes: &Attributes, key: &Key) -> Result<Option<String>> {
    let material = KeyMaterial { form: key.value.form(), bytes: key.value.bytes() };
    let policy = || KeyPolicy::default().exportable(attributes.is_set(CKA_EXTRACTABLE));
    let label = attributes.get(CKA_LABEL).and_then(|label| std::str::from_utf8(label).ok()).unwrap_or_default();
    let numbered = format!("pkcs11/{number}");
    for name in [label, &numbered] {
        match opened.keystore.import(name, material, policy()) {
            Ok(_) => return Ok(Some(name.to_owned())),
            // A label that is no name, or one that is taken; and at last a key that keystores do not take.
            Err(KeystoreError::BadParameter { .. } | KeystoreError::Exists { .. }) => {}
            Err(error) => return Err(keystore_error(&error)),
        }
    }
    Ok(None)
}

/// The attributes of a key that the keystore alone knows: its name is label and identifier.
fn completed(known: Attributes, name: &str, is_extractable: bool) -> Result<Attributes> {
    let mut implied = known;
    implied.set_flag(CKA_TOKEN, true);
    implied.set_flag(CKA_EXTRACTABLE, is_extractable);
    implied.set(CKA_LABEL, name.as_bytes());
    implied.set(CKA_ID, name.as_bytes());
    implied.set(CKA_UNIQUE_ID, format!("{:016x}", number_of(name, false)).as_bytes());
    rules::complete(&Template::default(), Origin::Other, &implied)
}
