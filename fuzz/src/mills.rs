//! A mill with the reference engine, and a root key in it.

use std::sync::{Arc, LazyLock};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::{Engine, KeyMaterial};
use ciphermill_reference::Reference;
use ciphermill_table::RootKey;

/// Opened once: known-answer tests are run once a suite.
pub(crate) static MILL: LazyLock<(Mill, RootKey)> = LazyLock::new(|| {
    let mill = Mill::builder().engines([Arc::new(Reference::new()) as Arc<dyn Engine>]).open().expect("a mill");
    let suite = "hmac-sha256".parse().expect("a suite");
    let id = mill.keys().import(KeyMaterial::secret(&[7; 32]), KeyPolicy::only(suite)).expect("a key");
    (mill, RootKey { id, name: "fuzz".to_owned(), version: 1 })
});
