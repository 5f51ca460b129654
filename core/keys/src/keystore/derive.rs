//! Root keys: keys of a keystore that others are derived from.

use ciphermill_contract::{Direction, KeyId, KeyMaterial};

use super::rules::{DERIVATION, ROOT_KEY_LEN_MIN};
use super::{KeyRecord, KeyState, Keystore, KeystoreError, destroyed};
use crate::policy::SuiteSet;
use crate::table::KeyTable;

impl Keystore {
    /// A version of a key, or the current one, for deriving keys that protect something new.
    ///
    /// # Errors
    ///
    /// As [`Keystore::version`]; [`KeystoreError::BadParameter`] for a key of fewer than [`ROOT_KEY_LEN_MIN`] bytes, which
    /// older keystores may have. [`Keystore::rotate`] gives it a longer successor.
    pub fn root_for_protection(&self, name: &str, version: Option<u32>) -> Result<KeyRecord, KeystoreError> {
        let record = self.find(name, version)?.record;
        if record.key_len < ROOT_KEY_LEN_MIN {
            let rule = "at least 16 bytes (128 bits) to derive column keys from; rotate it first";
            return Err(KeystoreError::BadParameter { what: "key", rule });
        }
        Ok(record)
    }

    /// Imports a version into a key table for deriving keys by HMAC-SHA-256 and for nothing else.
    ///
    /// A retired version is imported as well: to open what it protected, the same keys have to be derived again.
    /// Whoever protects anew takes [`Keystore::current`], which never is a retired version.
    ///
    /// # Errors
    ///
    /// [`KeystoreError::NotFound`]; [`KeystoreError::Destroyed`]; [`KeystoreError::BadParameter`] when the key's policy
    /// does not allow HMAC-SHA-256; [`KeystoreError::Table`].
    pub fn load_for_derivation(&self, table: &KeyTable, name: &str, version: u32) -> Result<KeyId, KeystoreError> {
        let opened = self.find(name, Some(version))?;
        if opened.record.state == KeyState::Destroyed {
            return Err(destroyed(&opened.record));
        }
        let stored = &opened.record.policy;
        if !stored.suites.contains(DERIVATION) || !stored.directions.contains(Direction::Encrypt) {
            return Err(KeystoreError::BadParameter {
                what: "key",
                rule: "column keys are derived from keys that HMAC-SHA-256 is allowed for",
            });
        }
        let policy = stored.clone().suites(SuiteSet::of([DERIVATION]));
        Ok(table.import(KeyMaterial { form: opened.record.form, bytes: opened.key() }, policy)?)
    }
}
