//! Keys of a keystore that clients use by name, without ever having their bytes.

use std::collections::HashMap;
use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_channel::ErrorKind;
use ciphermill_keys::keystore::{Keystore, KeystoreError};

use crate::client::Peer;
use crate::keys::TableKey;
use crate::limits::Access;

/// A keystore, and who may use which of its keys. What a key may be used for is its own policy.
pub struct Vault {
    keystore: Keystore,
    grants: HashMap<String, Access>,
    /// Keys that some client uses, by name: each is in the mill's table once.
    loaded: HashMap<String, Arc<TableKey>>,
}

impl Vault {
    /// A keystore, whose keys are for those that `grants` names, and all others for the service's own user and root.
    pub fn new(keystore: Keystore, grants: HashMap<String, Access>) -> Vault {
        Vault { keystore, grants, loaded: HashMap::new() }
    }

    /// The current version of a key, in the mill's table.
    ///
    /// # Errors
    /// `Refused` for keys that there are not, or that this process may not use: which of both is not told. Else what the keystore says.
    pub(crate) fn key(&mut self, mill: &Mill, peer: &Peer, name: &str) -> Result<Arc<TableKey>, (ErrorKind, String)> {
        let unknown = || (ErrorKind::Refused, format!("user {} has no key `{name}` here", peer.uid));
        let allowed = match self.grants.get(name) {
            Some(access) => access.allows(peer) || Access::default().allows(peer),
            None => Access::default().allows(peer),
        };
        if !allowed {
            return Err(unknown());
        }
        if let Some(key) = self.loaded.get(name) {
            return Ok(Arc::clone(key));
        }
        let id = self.keystore.load_into(mill.keys(), name, None).map_err(|error| match error {
            KeystoreError::NotFound { .. } => unknown(),
            error => (ErrorKind::Fault, error.to_string()),
        })?;
        let key = Arc::new(TableKey::new(id, mill.clone()));
        self.loaded.insert(name.to_owned(), Arc::clone(&key));
        Ok(key)
    }
}
