//! The data path's view of a key table.

use core::fmt;

use ciphermill_contract::KeyId;
use ciphermill_memory::{Lease, OwnedLease};

use crate::entry::KeyEntry;

/// Keeps the keys that are found under it until it ends, even when they are destroyed meanwhile. Opened once a batch.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct KeyLease<'t>(pub(crate) Lease<'t, KeyEntry>);

/// A [`KeyLease`] that keeps its table's memory alive by itself, for batches that travel between threads.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct OwnedKeyLease(pub(crate) OwnedLease<KeyEntry>);

impl KeyLease<'_> {
    /// The key of that name, unless there is none or it has been destroyed.
    #[inline]
    pub fn entry(&self, key: KeyId) -> Option<&KeyEntry> {
        self.0.get(key.slot, key.generation)
    }
}

impl OwnedKeyLease {
    /// The key of that name, unless there is none or it has been destroyed.
    #[inline]
    pub fn entry(&self, key: KeyId) -> Option<&KeyEntry> {
        self.0.get(key.slot, key.generation)
    }
}

impl fmt::Debug for KeyLease<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLease")
    }
}

impl fmt::Debug for OwnedKeyLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnedKeyLease")
    }
}
