//! What unit tests and end-to-end tests share: a mill with every engine, and keys.

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::{KeyMaterial, Suite};

use crate::RootKey;

pub(crate) fn mill() -> Mill {
    Mill::builder().engines(ciphermill_engines::all()).open().unwrap()
}

/// A root key of the mill, for HMAC-SHA-256 alone, as the command line imports it.
pub(crate) fn root_key(mill: &Mill, bytes: &[u8; 32]) -> RootKey {
    let suite: Suite = "hmac-sha256".parse().unwrap();
    let id = mill.keys().import(KeyMaterial::secret(bytes), KeyPolicy::only(suite)).unwrap();
    RootKey { id, name: "test".to_owned(), version: 1 }
}
