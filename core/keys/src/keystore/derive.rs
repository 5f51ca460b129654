//! Root keys: keys of a keystore that others are derived from.

use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{Direction, KeyId, KeyMaterial, Suite};

use super::{KeyState, Keystore, KeystoreError, destroyed};
use crate::policy::SuiteSet;
use crate::table::KeyTable;

/// What keys are derived with.
pub(super) const DERIVATION: Suite = Suite::Mac(Mac::Hmac(Digest::Sha256));

impl Keystore {
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
