//! The objects that an application sees, by handle.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cryptoki_sys::{CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CKA_PRIVATE, CKR_OBJECT_HANDLE_INVALID};

use crate::attributes::Attributes;
use crate::key::Key;
use crate::rv::{Result, Rv};

/// Where an object lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// In memory, until the session that made it is closed.
    Session(CK_SESSION_HANDLE),
    /// In the token, under this number.
    Token(u64),
}

/// An object: its attributes, and its key if it is one that operations can take. A change makes another object of the same handle, so that
/// operations keep what they began with.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) slot: usize,
    pub(crate) home: Home,
    pub(crate) attributes: Attributes,
    pub(crate) key: Option<Key>,
}

impl Object {
    /// Whether only who is logged in may see it.
    pub(crate) fn is_private(&self) -> bool {
        self.attributes.is_set(CKA_PRIVATE)
    }
}

/// All objects. Handles are never used twice, so that a stale one names nothing.
#[derive(Default)]
pub(crate) struct Objects {
    last: AtomicU64,
    by_handle: RwLock<HashMap<CK_OBJECT_HANDLE, Arc<Object>>>,
}

impl Objects {
    pub(crate) fn add(&self, object: Object) -> CK_OBJECT_HANDLE {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.change(|objects| objects.insert(handle, Arc::new(object)));
        handle
    }

    /// # Errors
    /// `CKR_OBJECT_HANDLE_INVALID`.
    pub(crate) fn get(&self, handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>> {
        let objects = self.by_handle.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&handle).cloned().ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))
    }

    /// Puts a changed object in the place of the one that there was; nowhere if that has gone meanwhile.
    pub(crate) fn replace(&self, handle: CK_OBJECT_HANDLE, object: Object) {
        self.change(|objects| objects.get_mut(&handle).map(|place| *place = Arc::new(object)));
    }

    pub(crate) fn remove(&self, handle: CK_OBJECT_HANDLE) {
        self.change(|objects| objects.remove(&handle));
    }

    /// The handles of a slot's objects that `wanted` says yes to, in the order in which they were made.
    pub(crate) fn find(&self, slot: usize, wanted: impl Fn(&Object) -> bool) -> Vec<CK_OBJECT_HANDLE> {
        let objects = self.by_handle.read().unwrap_or_else(PoisonError::into_inner);
        let here = objects.iter().filter(|(_, object)| object.slot == slot && wanted(object));
        let mut found: Vec<_> = here.map(|(handle, _)| *handle).collect();
        found.sort_unstable();
        found
    }

    pub(crate) fn remove_of_session(&self, session: CK_SESSION_HANDLE) {
        self.retain(|object| object.home != Home::Session(session));
    }

    /// What logging out takes away.
    pub(crate) fn remove_private_of_slot(&self, slot: usize) {
        self.retain(|object| object.slot != slot || !object.is_private());
    }

    pub(crate) fn clear(&self) {
        self.retain(|_| false);
    }

    /// Makes the token's objects of a slot those of `stored`: those that have gone lose their handles, new ones get some.
    pub(crate) fn synchronise(&self, slot: usize, stored: Vec<(u64, Attributes, Option<Key>)>) {
        self.change(|objects| {
            let mut known: HashMap<u64, CK_OBJECT_HANDLE> = HashMap::new();
            for (handle, object) in objects.iter() {
                if let (true, Home::Token(number)) = (object.slot == slot, object.home) {
                    known.insert(number, *handle);
                }
            }
            for (number, attributes, key) in stored {
                let handle = known.remove(&number).unwrap_or_else(|| self.last.fetch_add(1, Ordering::Relaxed) + 1);
                let place = objects.entry(handle);
                // One that is as it was keeps what operations have prepared of its key.
                if !matches!(&place, Entry::Occupied(known) if known.get().attributes == attributes) {
                    place.insert_entry(Arc::new(Object { slot, home: Home::Token(number), attributes, key }));
                }
            }
            known.into_values().for_each(|gone| drop(objects.remove(&gone)));
        });
    }

    fn retain(&self, keep: impl Fn(&Object) -> bool) {
        self.change(|objects| objects.retain(|_, object| keep(object)));
    }

    fn change<T>(&self, work: impl FnOnce(&mut HashMap<CK_OBJECT_HANDLE, Arc<Object>>) -> T) -> T {
        work(&mut self.by_handle.write().unwrap_or_else(PoisonError::into_inner))
    }
}
