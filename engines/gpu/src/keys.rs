//! The prepared keys on the device: a place for each, written when it is prepared and wiped when it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciphermill_contract::Suite;

use crate::device::{Device, KEYS_LEN_MAX, Result, Trouble};

/// Places are whole numbers of as many bytes, so that few lengths occur.
const GRAIN: usize = 64;

/// The device's memory for keys.
pub(crate) struct KeyTable {
    device: Arc<dyn Device>,
    space: Mutex<Space>,
}

/// Which places are free.
#[derive(Default)]
struct Space {
    /// Everything from here on has never been used.
    unused_from: usize,
    /// Places that were given back, by their length.
    free: HashMap<usize, Vec<usize>>,
}

/// A prepared key on the device. Dropping it wipes it there.
pub(crate) struct ResidentKey {
    table: Arc<KeyTable>,
    at: usize,
    len: usize,
}

impl KeyTable {
    pub(crate) fn new(device: Arc<dyn Device>) -> KeyTable {
        KeyTable { device, space: Mutex::default() }
    }

    /// Puts prepared keys of one length on the device, in as few copies as their places allow. Each has a place or none
    /// has.
    pub(crate) fn insert(self: &Arc<Self>, forms: &[&[u8]]) -> Result<Vec<ResidentKey>> {
        let mut keys = Vec::with_capacity(forms.len());
        for form in forms {
            let len = form.len().next_multiple_of(GRAIN);
            let at = self.lock().take(len).ok_or(Trouble::KeysFull)?;
            keys.push(ResidentKey { table: Arc::clone(self), at, len });
        }
        // Room for all of them at once: a vector that grows leaves what it held behind, unwiped.
        let room = keys.iter().map(|key| key.len).sum();
        let mut run = zeroize::Zeroizing::new(Vec::with_capacity(room));
        let mut run_at = 0;
        for (key, form) in keys.iter().zip(forms) {
            if run_at + run.len() != key.at {
                self.write(run_at, &run)?;
                run.clear();
                run_at = key.at;
            }
            run.extend_from_slice(form);
            run.resize(key.at + key.len - run_at, 0);
        }
        self.write(run_at, &run)?;
        Ok(keys)
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.device.write_keys(at, bytes) }
    }

    fn lock(&self) -> MutexGuard<'_, Space> {
        // A place is either taken or free; nothing can be half done.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Space {
    fn take(&mut self, len: usize) -> Option<usize> {
        if let Some(at) = self.free.get_mut(&len).and_then(Vec::pop) {
            return Some(at);
        }
        let at = self.unused_from;
        (at + len <= KEYS_LEN_MAX).then(|| {
            self.unused_from += len;
            at
        })
    }
}

impl ResidentKey {
    /// Where it lies among the device's keys, in words.
    #[inline]
    pub(crate) fn word(&self) -> u32 {
        const { assert!(KEYS_LEN_MAX / 4 <= u32::MAX as usize) };
        (self.at / 4) as u32
    }
}

impl Drop for ResidentKey {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        match self.table.device.wipe_keys(self.at, self.len) {
            Ok(()) => self.table.lock().free.entry(self.len).or_default().push(self.at),
            // A place that could not be wiped is not given out again. The memory itself goes with the device's context.
            Err(trouble) => tracing::error!(?trouble, "gpu: a key could not be wiped from the device"),
        }
    }
}

/// What a key became for one suite. Its own type, so that no other engine's state is taken for it.
pub(crate) struct Prepared {
    pub(crate) resident: ResidentKey,
    /// What the host needs of it, for the suites of which it does a part (`public`).
    pub(crate) host: Option<HostKey>,
}

/// The host's half of a key; wipes itself when it is dropped.
pub(crate) type HostKey = Box<dyn std::any::Any + Send + Sync>;

/// A key on its way in.
pub(crate) struct Halves {
    /// As the kernels read it: words in memory order. Empty where the device needs nothing of it.
    pub(crate) device: zeroize::Zeroizing<Vec<u8>>,
    pub(crate) host: Option<HostKey>,
}

/// Wraps a resident key and the host's half for the contract.
pub(crate) fn prepared(suite: Suite, resident: ResidentKey, host: Option<HostKey>) -> ciphermill_contract::PreparedKey {
    ciphermill_contract::PreparedKey::for_suite(suite, Prepared { resident, host })
}
