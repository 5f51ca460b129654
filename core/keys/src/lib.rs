//! Where keys live: the key table with its usage policies, key wrapping, and the keystore file.
//!
//! - [`KeyTable`] holds keys in locked memory under names ([`ciphermill_contract::KeyId`]). The data path opens a
//!   [`KeyLease`] once a batch and finds a [`KeyEntry`] per operation without taking a lock.
//! - [`KeyPolicy`] says what a key may be used for; an entry without restrictions is checked with one compare.
//! - [`wrap`] is RFC 3394, RFC 5649 and triple-DES key wrapping: how keys come in and go out under other keys.
//! - [`keystore`] keeps named and versioned keys in a file, wrapped under a master key that a passphrase, a key file or
//!   an environment variable opens.
//!
//! Key bytes never appear in `Debug` output, errors or the keystore file.
mod entry;
pub mod keystore;
mod lease;
mod memory;
mod policy;
mod table;
pub mod wrap;

pub use entry::{KeyAsk, KeyCheckValue, KeyEntry, PREPARED_MAX, PreparedName, Terms};
pub use keystore::{Keystore, KeystoreError, MasterSecret};
pub use lease::KeyLease;
pub use policy::{KeyPolicy, KeyUsage, SuiteSet, TRANSFORM_GROUP_LEN_MAX};
pub use table::{KEYS_MAX, KeyTable, now_unix_s};
pub use wrap::WrapMethod;
