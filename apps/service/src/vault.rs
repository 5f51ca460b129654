//! Keys of a keystore that clients use by name, without ever having their bytes.

use std::collections::HashMap;
use std::sync::Arc;

use ciphermill::{KeyPolicy, Mill};
use ciphermill_channel::ErrorKind;
use ciphermill_keys::KeyLease;
use ciphermill_keys::keystore::{KeyRecord, KeyState, Keystore, KeystoreError};
use serde::Serialize;

use crate::client::Client;
use crate::keys::TableKey;
use crate::limits::Access;
use crate::peer::Peer;

/// A keystore, and who may use which of its keys. What a key may be used for is its own policy.
pub struct Vault {
    keystore: Keystore,
    grants: HashMap<String, Access>,
    /// Keys that some client uses, by name: each is in the mill's table once.
    loaded: HashMap<String, Arc<TableKey>>,
    /// What the keystore tells of current versions, once somebody has asked. It does not change as long as it is open.
    records: Option<Vec<KeyRecord>>,
}

/// What a client is told of a key that it may use.
#[derive(Serialize)]
pub(crate) struct KeyRow<'a> {
    name: &'a str,
    version: u32,
    /// Suites, directions, expiry and budget among it.
    #[serde(flatten)]
    policy: &'a KeyPolicy,
    /// What is left of the budget, if some client has used the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations_left: Option<u64>,
    /// Who may use it besides the service's own user and root: for these two alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<Access>,
}

impl Vault {
    /// A keystore, whose keys are for those that `grants` names, and all others for the service's own user and root.
    pub fn new(keystore: Keystore, grants: HashMap<String, Access>) -> Vault {
        Vault { keystore, grants, loaded: HashMap::new(), records: None }
    }

    /// Whether a grant lists programs.
    pub(crate) fn names_programs(&self) -> bool {
        self.grants.values().any(|access| !access.executables.is_empty())
    }

    /// The current version of a key, in the mill's table.
    ///
    /// # Errors
    /// `Refused` for keys that there are not, or that this process may not use: which of both is not told. Else what the keystore says.
    pub(crate) fn key(
        &mut self,
        mill: &Mill,
        client: &Client,
        name: &str,
    ) -> Result<Arc<TableKey>, (ErrorKind, String)> {
        let unknown = || (ErrorKind::Refused, format!("user {} has no key `{name}` here", client.peer.uid));
        if !self.allows(client, name) {
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

    fn allows(&self, client: &Client, name: &str) -> bool {
        client.peer.manages()
            || self.grants.get(name).is_some_and(|access| access.allows(&client.peer, &client.process))
    }

    /// The keys that a process may use, by name.
    ///
    /// # Errors
    /// `Fault` for a keystore that is damaged.
    pub(crate) fn rows(&mut self, mill: &Mill, client: &Client) -> Result<Vec<KeyRow<'_>>, (ErrorKind, String)> {
        if self.records.is_none() {
            let records = self.keystore.list().map_err(|error| (ErrorKind::Fault, error.to_string()))?;
            self.records = Some(current(records));
        }
        let lease = mill.keys().lease();
        let own = self.records.iter().flatten().filter(|record| self.allows(client, &record.name));
        Ok(own.map(|record| self.row(&lease, &client.peer, record)).collect())
    }

    fn row<'a>(&'a self, lease: &KeyLease<'_>, peer: &Peer, record: &'a KeyRecord) -> KeyRow<'a> {
        let KeyRecord { name, version, policy, .. } = record;
        let loaded = self.loaded.get(name).and_then(|key| lease.entry(key.id()));
        let operations_left = loaded.and_then(|entry| entry.operations_left());
        let access = peer.manages().then(|| self.grants.get(name).cloned().unwrap_or_default());
        KeyRow { name, version: *version, policy, operations_left, access }
    }
}

/// The current versions: the newest active one of each name.
fn current(records: Vec<KeyRecord>) -> Vec<KeyRecord> {
    let mut current: Vec<KeyRecord> = Vec::new();
    for record in records.into_iter().filter(|record| record.state == KeyState::Active) {
        // By name and version, as the keystore lists them.
        match current.last_mut().filter(|last| last.name == record.name) {
            Some(last) => *last = record,
            None => current.push(record),
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::{KeyMaterial, Suite};
    use ciphermill_keys::keystore::{KdfParameters, MasterSecret};

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::keys::Keys;

    fn suite() -> Suite {
        "aes-128-gcm".parse().expect("a suite")
    }

    /// `payments` for user 4711 and in its second version, `others` for nobody, `gone` destroyed.
    fn vault(folder: &std::path::Path) -> Vault {
        let secret = MasterSecret::passphrase("a passphrase of some length");
        let parameters = KdfParameters::insecure_for_tests();
        let mut keystore = Keystore::create_with(folder.join("keystore"), &secret, parameters).expect("a keystore");
        let policy = KeyPolicy::only(suite()).operations_max(10).expires_unix_s(4_000_000_000);
        keystore.import("payments", KeyMaterial::secret(&[0xc5; 16]), policy).expect("a key");
        keystore.rotate("payments").expect("another version");
        for name in ["others", "gone"] {
            keystore.import(name, KeyMaterial::secret(&[0xc5; 16]), KeyPolicy::default()).expect("a key");
        }
        keystore.destroy("gone", 1).expect("destroyed");
        let access = Access { users: vec![4711], ..Access::default() };
        Vault::new(keystore, HashMap::from([("payments".to_owned(), access)]))
    }

    #[test]
    fn each_is_told_of_the_keys_that_it_may_use_and_managers_who_may() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut vault = vault(folder.path());
        let engine = Arc::new(ciphermill_reference::Reference::new());
        let mill = Mill::builder().engine(engine).open().expect("a mill");
        let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
        let of = |uid| Client::new(1, Peer { pid: 1, uid, gid: uid }, Keys::new(1), Arc::clone(&ended));
        let mut told = |uid| {
            let rows = vault.rows(&mill, &of(uid)).expect("a keystore that is whole");
            serde_json::to_value(rows).expect("JSON")
        };
        let names = |rows: &serde_json::Value| -> Vec<String> {
            rows.as_array()
                .expect("a list")
                .iter()
                .map(|row| row["name"].as_str().expect("a name").to_owned())
                .collect()
        };
        assert!(names(&told(4712)).is_empty());
        let own = told(4711);
        assert_eq!(names(&own), ["payments"]);
        let row = &own[0];
        assert_eq!((row["version"].as_u64(), &row["suites"]), (Some(2), &serde_json::json!(["aes-128-gcm"])));
        assert_eq!((row["operations_max"].as_u64(), row["expires_unix_s"].is_u64()), (Some(10), true));
        assert!(row.get("access").is_none(), "who else may is not a user's business: {row}");
        let all = told(0);
        assert_eq!(names(&all), ["others", "payments"]);
        assert_eq!(all[1]["access"]["users"], serde_json::json!([4711]));
        assert_eq!(all[0]["access"]["users"], serde_json::json!([]));

        assert!(row.get("operations_left").is_none(), "nobody has used it yet");
        let key = vault.key(&mill, &of(4711), "payments").expect("its own");
        assert_eq!(mill.keys().lease().entry(key.id()).map(|entry| entry.spend(3)), Some(3));
        let rows = serde_json::to_string(&vault.rows(&mill, &of(4711)).expect("whole")).expect("JSON");
        assert!(rows.contains("\"operations_left\":7"), "{rows}");
        for bytes in ["197", "c5c5", "C5C5"] {
            assert!(!rows.contains(bytes), "{rows}");
        }
        assert!(vault.key(&mill, &of(4712), "payments").is_err() && vault.key(&mill, &of(4711), "others").is_err());
    }
}
