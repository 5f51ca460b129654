//! The objects that an application sees, by handle.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CKA_ALLOWED_MECHANISMS, CKA_ALWAYS_AUTHENTICATE, CKA_CLASS,
    CKA_DECAPSULATE, CKA_DECRYPT, CKA_DERIVE, CKA_ENCAPSULATE, CKA_ENCRYPT, CKA_PRIVATE, CKA_SIGN, CKA_SIGN_RECOVER,
    CKA_UNWRAP, CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_WRAP, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKO_SECRET_KEY,
    CKR_OBJECT_HANDLE_INVALID,
};

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
    facts: Facts,
}

/// What every operation asks of its key's attributes, found out once.
#[derive(Clone, Copy, Debug)]
struct Facts {
    is_private: bool,
    is_key: bool,
    asks_for_pin: bool,
    is_restricted: bool,
    /// By the low bits of the attributes that permit something, which are all different.
    permissions: u64,
}

impl Facts {
    fn of(attributes: &Attributes) -> Facts {
        let class = attributes.number(CKA_CLASS);
        let is_set = |kind| attributes.is_set(kind);
        let permissions = PERMISSIONS.into_iter().filter(|kind| is_set(*kind));
        Facts {
            is_private: is_set(CKA_PRIVATE),
            is_key: matches!(class, Some(CKO_SECRET_KEY | CKO_PRIVATE_KEY | CKO_PUBLIC_KEY)),
            asks_for_pin: is_set(CKA_ALWAYS_AUTHENTICATE),
            is_restricted: attributes.get(CKA_ALLOWED_MECHANISMS).is_some(),
            permissions: permissions.fold(0, |bits, kind| bits | bit(kind)),
        }
    }
}

/// Attributes that permit something.
const PERMISSIONS: [CK_ATTRIBUTE_TYPE; 11] = [
    CKA_ENCRYPT,
    CKA_DECRYPT,
    CKA_WRAP,
    CKA_UNWRAP,
    CKA_SIGN,
    CKA_SIGN_RECOVER,
    CKA_VERIFY,
    CKA_VERIFY_RECOVER,
    CKA_DERIVE,
    CKA_ENCAPSULATE,
    CKA_DECAPSULATE,
];

const fn bit(kind: CK_ATTRIBUTE_TYPE) -> u64 {
    1 << (kind % 64)
}

const _: () = {
    let (mut all, mut at) = (0, 0);
    while at < PERMISSIONS.len() {
        assert!(all & bit(PERMISSIONS[at]) == 0, "two attributes have the same bit");
        all |= bit(PERMISSIONS[at]);
        at += 1;
    }
};

impl Object {
    pub(crate) fn new(slot: usize, home: Home, attributes: Attributes, key: Option<Key>) -> Object {
        let facts = Facts::of(&attributes);
        Object { slot, home, attributes, key, facts }
    }

    /// Whether only who is logged in may see it.
    #[inline]
    pub(crate) fn is_private(&self) -> bool {
        self.facts.is_private
    }

    /// Whether it is a key of some class.
    #[inline]
    pub(crate) fn is_key(&self) -> bool {
        self.facts.is_key
    }

    /// Whether operations with it ask for the user's PIN each time.
    #[inline]
    pub(crate) fn asks_for_pin(&self) -> bool {
        self.facts.asks_for_pin
    }

    /// Whether an attribute that permits something, which is one of [`PERMISSIONS`], is true.
    #[inline]
    pub(crate) fn permits(&self, may: CK_ATTRIBUTE_TYPE) -> bool {
        debug_assert!(PERMISSIONS.contains(&may), "{may:#x} permits nothing");
        self.facts.permissions & bit(may) != 0
    }

    /// Whether it may be used with some mechanisms only (`CKA_ALLOWED_MECHANISMS`).
    #[inline]
    pub(crate) fn is_restricted(&self) -> bool {
        self.facts.is_restricted
    }
}

/// Spreads handles, which are small numbers of ours, so that nothing is gained by choosing them.
#[derive(Default)]
struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The odd number next to 2^64 divided by the golden ratio.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type ByHandle = HashMap<CK_OBJECT_HANDLE, Arc<Object>, BuildHasherDefault<HandleHasher>>;

/// How often objects have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// All objects. Handles are never used twice, so that a stale one names nothing.
#[derive(Default)]
pub(crate) struct Objects {
    last: AtomicU64,
    /// Counts changes.
    changes: AtomicU64,
    by_handle: RwLock<ByHandle>,
}

impl Objects {
    pub(crate) fn add(&self, object: Object) -> CK_OBJECT_HANDLE {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.change(|objects| objects.insert(handle, Arc::new(object)));
        handle
    }

    /// As long as it stays the same, no object has been changed, and none has gone.
    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.changes.load(Ordering::Acquire))
    }

    /// Looks at an object, without keeping it. What `look` does must not change objects.
    ///
    /// # Errors
    /// `CKR_OBJECT_HANDLE_INVALID`; those of `look`.
    #[inline]
    pub(crate) fn with<T>(&self, handle: CK_OBJECT_HANDLE, look: impl FnOnce(&Object) -> Result<T>) -> Result<T> {
        let objects = self.by_handle.read().unwrap_or_else(PoisonError::into_inner);
        look(objects.get(&handle).ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))?)
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

    /// Tells whether there were any.
    pub(crate) fn remove_of_session(&self, session: CK_SESSION_HANDLE) -> bool {
        self.retain(|object| object.home != Home::Session(session))
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
                let is_same =
                    |known: &Object| known.attributes == attributes && same_name(known.key.as_ref(), key.as_ref());
                if !matches!(&place, Entry::Occupied(known) if is_same(known.get())) {
                    place.insert_entry(Arc::new(Object::new(slot, Home::Token(number), attributes, key)));
                }
            }
            known.into_values().for_each(|gone| drop(objects.remove(&gone)));
        });
    }

    /// Tells whether some have gone.
    fn retain(&self, keep: impl Fn(&Object) -> bool) -> bool {
        self.change(|objects| {
            let before = objects.len();
            objects.retain(|_, object| keep(object));
            objects.len() != before
        })
    }

    fn change<T>(&self, work: impl FnOnce(&mut ByHandle) -> T) -> T {
        let mut objects = self.by_handle.write().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut objects);
        self.changes.fetch_add(1, Ordering::Release);
        done
    }
}

/// Whether two keys have the same public half where they are names of ones that tokens have; a name may come to mean another key.
fn same_name(known: Option<&Key>, now: Option<&Key>) -> bool {
    let half = |key: Option<&Key>| key.and_then(|key| key.value.half().map(<[u8]>::to_vec));
    half(known) == half(now)
}
