//! Keystores and keys as Python sees them: names, never bytes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciphermill::Mill;
use ciphermill_contract::{KeyId, KeyMaterial, Suite};
use ciphermill_keys::KeyPolicy;
use ciphermill_keys::keystore::{KeyKind, KeyState, Keystore as Store, MasterSecret, ROOT_KEY_LEN};
use ciphermill_table::RootKey;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use zeroize::Zeroizing;

use crate::errors;
use crate::process::Here;

/// The suite that column keys are derived by.
const DERIVATION: &str = "hmac-sha256";

/// A keystore: named, versioned keys in an encrypted file.
///
/// Open one by :meth:`open`, make one by :meth:`create`, each with exactly one secret: ``key_file``, a file of 32
/// bytes that nobody else may read; ``passphrase_file``; ``passphrase``; or ``environment``, the name of a variable
/// with 32 bytes in hexadecimal or base64. Keystores are neither pickled nor used in forked processes: each
/// process opens its own.
#[pyclass(module = "ciphermill", name = "Keystore", frozen)]
pub(crate) struct Keystore {
    path: PathBuf,
    store: Here<Arc<Mutex<Store>>>,
}

/// A version of a key in a keystore: a name for it, without the key.
///
/// Made by :meth:`Keystore.key` and :meth:`Keystore.generate`. It cannot be pickled, and its ``repr`` shows name and version
/// alone.
#[pyclass(module = "ciphermill", name = "Key", frozen)]
pub(crate) struct Key {
    /// The key's name.
    #[pyo3(get)]
    name: String,
    /// The version, from 1 on.
    #[pyo3(get)]
    version: u32,
    store: Here<Arc<Mutex<Store>>>,
}

/// A key in the mill's table, until dropped.
pub(crate) struct Loaded {
    mill: Mill,
    pub(crate) id: KeyId,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Only this value knows the name, so the key cannot be gone already.
        let _ = self.mill.keys().destroy(self.id);
    }
}

impl Loaded {
    pub(crate) fn new(mill: &Mill, id: KeyId) -> Loaded {
        Loaded { mill: mill.clone(), id }
    }
}

impl Key {
    /// The root key for deriving column keys, and why it may not protect anything new, if it may not.
    pub(crate) fn root(&self, mill: &Mill) -> PyResult<(Loaded, RootKey, Option<String>)> {
        let store = hold(self.store.get()?);
        let only_restores = match store.root_for_protection(&self.name, Some(self.version)) {
            Ok(record) if record.state == KeyState::Active => None,
            Ok(_) => Some("it is retired: protect under the current version".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let id = store.load_for_derivation(mill.keys(), &self.name, self.version).map_err(errors::of_keystore)?;
        let root = RootKey { id, name: self.name.clone(), version: self.version };
        Ok((
            Loaded::new(mill, id),
            root,
            only_restores.map(|rule| format!("key `{}`, version {}: {rule}", self.name, self.version)),
        ))
    }

    /// The key itself, under the policy that it has in the keystore.
    pub(crate) fn load(&self, mill: &Mill) -> PyResult<Loaded> {
        let store = hold(self.store.get()?);
        let id = store.load_into(mill.keys(), &self.name, Some(self.version)).map_err(errors::of_keystore)?;
        Ok(Loaded::new(mill, id))
    }
}

fn hold(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one secret that was given.
fn secret(
    key_file: Option<PathBuf>,
    passphrase: Option<String>,
    passphrase_file: Option<PathBuf>,
    environment: Option<String>,
) -> PyResult<MasterSecret> {
    match (key_file, passphrase, passphrase_file, environment) {
        (Some(path), None, None, None) => Ok(MasterSecret::KeyFile(path)),
        (None, Some(passphrase), None, None) => Ok(MasterSecret::passphrase(passphrase)),
        (None, None, Some(path), None) => MasterSecret::passphrase_file(path).map_err(errors::of_keystore),
        (None, None, None, Some(variable)) => Ok(MasterSecret::Environment(variable)),
        _ => Err(errors::misuse("give one of key_file, passphrase, passphrase_file and environment")),
    }
}

fn not_pickled(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{what} is not pickled: keys do not leave their process. Send the names of keystore and key, and open them there"
    ))
}

#[pymethods]
impl Keystore {
    /// Opens a keystore. Nothing is written.
    #[staticmethod]
    #[pyo3(signature = (path, *, key_file=None, passphrase=None, passphrase_file=None, environment=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        key_file: Option<PathBuf>,
        passphrase: Option<String>,
        passphrase_file: Option<PathBuf>,
        environment: Option<String>,
    ) -> PyResult<Keystore> {
        let secret = secret(key_file, passphrase, passphrase_file, environment)?;
        let store = py.detach(|| Store::open(&path, &secret)).map_err(errors::of_keystore)?;
        Ok(Keystore::of(store))
    }

    /// Makes a keystore, where no file is yet.
    #[staticmethod]
    #[pyo3(signature = (path, *, key_file=None, passphrase=None, passphrase_file=None, environment=None))]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        key_file: Option<PathBuf>,
        passphrase: Option<String>,
        passphrase_file: Option<PathBuf>,
        environment: Option<String>,
    ) -> PyResult<Keystore> {
        let secret = secret(key_file, passphrase, passphrase_file, environment)?;
        secret.check_new().map_err(errors::of_keystore)?;
        let store = py.detach(|| Store::create(&path, &secret)).map_err(errors::of_keystore)?;
        Ok(Keystore::of(store))
    }

    /// Makes a random key: version 1 of a new name. Without ``suite`` one that column keys are derived from; with the
    /// name of a suite (``"aes-256-gcm"`` …) one for that suite alone, for :func:`seal_many` and its like.
    #[pyo3(signature = (name, *, suite=None, description=""))]
    fn generate(&self, py: Python<'_>, name: &str, suite: Option<&str>, description: &str) -> PyResult<Key> {
        let (kind, allowed) = match suite {
            None => (Some(KeyKind::Secret { len: ROOT_KEY_LEN }), parse_suite(DERIVATION)?),
            Some(suite) => {
                let suite = parse_suite(suite)?;
                (KeyKind::for_suite(suite), suite)
            }
        };
        let no_kind = || errors::misuse(format!("keys for {allowed} are not made of random bytes alone"));
        let (kind, policy) = (kind.ok_or_else(no_kind)?, KeyPolicy::only(allowed));
        let store = self.store.get()?;
        let record = py.detach(|| hold(store).generate_described(name, kind, policy, description));
        self.key_of(record.map_err(errors::of_keystore)?.version, name)
    }

    /// Takes a key in: version 1 of a new name. Without ``suite``, column keys are derived from it, and it has at least 16
    /// bytes; see :meth:`generate`. Python keeps the bytes that it was given as long as it likes.
    #[pyo3(signature = (name, key, *, suite=None, description=""))]
    fn import_key(
        &self,
        py: Python<'_>,
        name: &str,
        key: &[u8],
        suite: Option<&str>,
        description: &str,
    ) -> PyResult<Key> {
        let policy = KeyPolicy::only(parse_suite(suite.unwrap_or(DERIVATION))?);
        let (store, key) = (self.store.get()?, Zeroizing::new(key.to_vec()));
        let record = py.detach(|| hold(store).import_described(name, KeyMaterial::secret(&key), policy, description));
        self.key_of(record.map_err(errors::of_keystore)?.version, name)
    }

    /// Makes the next version of a key; the one before it then only opens what it protected.
    fn rotate(&self, py: Python<'_>, name: &str) -> PyResult<Key> {
        let store = self.store.get()?;
        let record = py.detach(|| hold(store).rotate(name)).map_err(errors::of_keystore)?;
        self.key_of(record.version, name)
    }

    /// A key by name; without ``version`` the current one.
    #[pyo3(signature = (name, version=None))]
    fn key(&self, name: &str, version: Option<u32>) -> PyResult<Key> {
        let record = {
            let store = hold(self.store.get()?);
            match version {
                Some(version) => store.version(name, version),
                None => store.current(name),
            }
        };
        self.key_of(record.map_err(errors::of_keystore)?.version, name)
    }

    /// The keys: name, version, state (``"active"``, ``"retired"``, ``"destroyed"``) and description of each version.
    fn keys(&self) -> PyResult<Vec<(String, u32, &'static str, String)>> {
        let records = hold(self.store.get()?).list().map_err(errors::of_keystore)?;
        let state = |state| match state {
            KeyState::Active => "active",
            KeyState::Retired => "retired",
            KeyState::Destroyed => "destroyed",
        };
        Ok(records.into_iter().map(|key| (key.name, key.version, state(key.state), key.description)).collect())
    }

    /// The file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn __repr__(&self) -> String {
        format!("<ciphermill.Keystore {}>", self.path.display())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a keystore"))
    }
}

impl Keystore {
    fn of(store: Store) -> Keystore {
        Keystore { path: store.path().to_owned(), store: Here::new(Arc::new(Mutex::new(store))) }
    }

    fn key_of(&self, version: u32, name: &str) -> PyResult<Key> {
        let store = Here::new(Arc::clone(self.store.get()?));
        Ok(Key { name: name.to_owned(), version, store })
    }
}

#[pymethods]
impl Key {
    fn __repr__(&self) -> String {
        format!("<ciphermill.Key {} version {}>", self.name, self.version)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("a key"))
    }
}

/// Names of suites that are kept.
const SUITES_KEPT: usize = 64;

/// A suite by its name.
pub(crate) fn parse_suite(name: &str) -> PyResult<Suite> {
    // Reading a name takes longer than a small batch.
    static READ: Mutex<Vec<(String, Suite)>> = Mutex::new(Vec::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, suite)) = read.iter().find(|(known, _)| known == name) {
        return Ok(*suite);
    }
    let unknown = |_| errors::misuse(format!("there is no suite `{name}`; `ciphermill engines` lists them"));
    let suite: Suite = name.parse().map_err(unknown)?;
    // Radices of FF1 are many; those in use are few.
    if read.len() == SUITES_KEPT {
        read.clear();
    }
    read.push((name.to_owned(), suite));
    Ok(suite)
}
