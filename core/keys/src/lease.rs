//! The data path's view of a key table.

use core::fmt;
use std::sync::Arc;

use ciphermill_contract::KeyId;
use ciphermill_memory::{Lease, prefetch};

use crate::entry::KeyEntry;

/// Keeps the keys that are found under it until it ends, even when they are destroyed meanwhile. Opened once a batch.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct KeyLease<'t>(pub(crate) Lease<'t, KeyEntry>);

impl KeyLease<'_> {
    /// The key of that name, unless there is none or it has been destroyed.
    #[inline]
    pub fn entry(&self, key: KeyId) -> Option<&KeyEntry> {
        self.0.get(key.slot, key.generation)
    }

    /// The same of one that is looked at soon: it is fetched meanwhile, since of thousands each lies in a line of its own, far away.
    #[inline]
    pub fn fetch(&self, key: KeyId) -> Option<&KeyEntry> {
        let entry = self.entry(key);
        entry.inspect(|entry| prefetch(*entry))
    }

    /// The same for whoever may keep the key for longer than a batch takes, such as a device that hangs: it keeps this key
    /// alone. A key that is destroyed meanwhile is wiped when the last of its holders lets go of it; all others are wiped
    /// as if it were not held.
    pub fn pin(&self, key: KeyId) -> Option<Arc<KeyEntry>> {
        self.0.pin(key.slot, key.generation)
    }
}

impl fmt::Debug for KeyLease<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLease")
    }
}
