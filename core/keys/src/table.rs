//! The key table: names to keys.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::{Direction, EngineKinds, Error, KeyForm, KeyId, KeyMaterial, Reason, Refusal, Result};
use ciphermill_memory::{SLAB_MAX, SecretBytes, Slab, SlotId};

use crate::entry::{KeyCheckValue, KeyEntry};
use crate::lease::KeyLease;
use crate::memory::no_memory;
use crate::policy::KeyPolicy;
use crate::wrap::{self, WrapMethod};

/// Keys that one table may hold: 2^24.
pub const KEYS_MAX: u32 = 1 << 24;

const _: () = assert!(KEYS_MAX <= SLAB_MAX);

/// Keys by name, in locked memory, under their policies.
///
/// Any number of threads may look keys up, import and destroy at the same time; lookups take no lock. A destroyed key is
/// gone for every lookup that begins later; its bytes and prepared forms are wiped as soon as no lease is open that
/// could still see them.
pub struct KeyTable {
    slab: Slab<KeyEntry>,
    any_expiry: AtomicBool,
}

impl KeyTable {
    /// An empty table for up to [`KEYS_MAX`] keys. Memory is taken as keys come.
    pub fn new() -> KeyTable {
        KeyTable::with_limit(KEYS_MAX)
    }

    /// An empty table for up to `limit` keys; more than [`KEYS_MAX`] is taken as [`KEYS_MAX`].
    pub fn with_limit(limit: u32) -> KeyTable {
        KeyTable { slab: Slab::with_limit(limit.min(KEYS_MAX)), any_expiry: AtomicBool::new(false) }
    }

    /// Takes a copy of a key in and names it. The caller wipes the original.
    ///
    /// Whether the bytes suit a suite is found out when an engine prepares them. A [`KeyForm::Reference`] is held by engines that have
    /// keys of their own alone, whatever the policy says, and cannot be exported.
    ///
    /// # Errors
    ///
    /// [`Error::Exhausted`] for more than `KEY_LEN_MAX` bytes, a full table or a lack of memory;
    /// [`Refusal::KeyPolicy`] with [`Reason::KeyUnsuitable`] for a key of no bytes.
    pub fn import(&self, key: KeyMaterial<'_>, policy: KeyPolicy) -> Result<KeyId> {
        if key.bytes.is_empty() {
            return Err(Error::Refused(Refusal::KeyPolicy(Reason::KeyUnsuitable)));
        }
        if key.bytes.len() > KEY_LEN_MAX {
            return Err(Error::exhausted("KEY_LEN_MAX", KEY_LEN_MAX, key.bytes.len()));
        }
        let bytes = SecretBytes::from_slice(key.bytes).map_err(|_| no_memory(key.bytes.len()))?;
        // Before the key can be found, so that nobody finds an expiring key while this says that there is none.
        if policy.expires_unix_s.is_some() {
            self.any_expiry.store(true, Ordering::Release);
        }
        let entry = KeyEntry::new(key.form, bytes, of_form(key.form, policy));
        match self.slab.insert(entry) {
            Ok(SlotId { slot, generation }) => Ok(KeyId { slot, generation }),
            Err(full) => Err(Error::exhausted("KEYS_MAX", full.limit as usize, full.limit as usize + 1)),
        }
    }

    /// Takes a key in that is wrapped under another key of the table: operational keys under a master key. It is
    /// unwrapped once, here.
    ///
    /// # Errors
    ///
    /// [`Refusal::KeyUnknown`] for the wrapping key; [`Refusal::KeyPolicy`] when its policy does not say
    /// [`KeyPolicy::wraps`], lacks the direction decrypt, or has expired or is spent; otherwise those of
    /// [`wrap::unwrap`] and [`KeyTable::import`].
    pub fn import_wrapped(
        &self,
        wrapping: KeyId,
        method: WrapMethod,
        wrapped: &[u8],
        form: KeyForm,
        policy: KeyPolicy,
    ) -> Result<KeyId> {
        let lease = self.lease();
        let wrapping = wrapping_key(&lease, wrapping, Direction::Decrypt)?;
        let bytes = wrap::unwrap(wrapping.material().bytes, method, wrapped)?;
        self.import(KeyMaterial { form, bytes: &bytes }, policy)
    }

    /// A key's bytes, wrapped under another key of the table.
    ///
    /// # Errors
    ///
    /// [`Refusal::KeyUnknown`]; [`Refusal::KeyPolicy`] when the key's policy does not say [`KeyPolicy::exportable`]
    /// ([`Reason::KeyDirection`]), it has expired, or the wrapping key may not wrap (as in [`KeyTable::import_wrapped`], with the direction encrypt);
    /// otherwise those of [`wrap::wrap`].
    pub fn wrap(&self, wrapping: KeyId, method: WrapMethod, key: KeyId) -> Result<Vec<u8>> {
        let lease = self.lease();
        let key = lease.entry(key).ok_or_else(unknown)?;
        if !key.policy().exportable {
            // The direction out: the nearest rule that there is a word for.
            return Err(Error::Refused(Refusal::KeyPolicy(Reason::KeyDirection)));
        }
        if key.policy().is_expired(now_unix_s()) {
            return Err(Error::Refused(Refusal::KeyPolicy(Reason::KeyExpired)));
        }
        let wrapping = wrapping_key(&lease, wrapping, Direction::Encrypt)?;
        wrap::wrap(wrapping.material().bytes, method, key.material().bytes)
    }

    /// Takes a key out. Lookups fail from now on; operations under leases that were opened before finish.
    ///
    /// # Errors
    ///
    /// [`Refusal::KeyUnknown`] when there is no such key (any more).
    pub fn destroy(&self, key: KeyId) -> Result<()> {
        if self.slab.remove(SlotId { slot: key.slot, generation: key.generation }) { Ok(()) } else { Err(unknown()) }
    }

    /// Destroys all keys there are. What is imported meanwhile may stay.
    pub fn clear(&self) {
        let lease = self.slab.lease();
        for (id, _) in lease.iter() {
            self.slab.remove(id);
        }
    }

    /// Opens a lease for lookups: two atomic operations, held for a batch.
    #[inline]
    pub fn lease(&self) -> KeyLease<'_> {
        KeyLease(self.slab.lease())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Whether a key that expires was ever imported; if not, nobody needs to read the clock.
    #[inline]
    pub fn any_expiry(&self) -> bool {
        self.any_expiry.load(Ordering::Acquire)
    }

    /// Tells the public half of a key by reference, as whoever looked it up knows it: an engine that has another key of that name is not
    /// used from then on. Returns whether this is the half that holds: the first that was told does.
    ///
    /// # Errors
    ///
    /// [`Refusal::KeyUnknown`].
    pub fn tell_public_half(&self, key: KeyId, half: &[u8]) -> Result<bool> {
        self.lease().entry(key).map(|entry| entry.is_same_key(half)).ok_or_else(unknown)
    }

    /// A copy of a key's policy.
    ///
    /// # Errors
    ///
    /// [`Refusal::KeyUnknown`].
    pub fn policy(&self, key: KeyId) -> Result<KeyPolicy> {
        self.lease().entry(key).map(|entry| entry.policy().clone()).ok_or_else(unknown)
    }

    /// A key's check value, see [`KeyCheckValue`].
    ///
    /// # Errors
    ///
    /// [`Refusal::KeyUnknown`].
    pub fn key_check_value(&self, key: KeyId) -> Result<KeyCheckValue> {
        self.lease().entry(key).map(KeyEntry::key_check_value).ok_or_else(unknown)
    }
}

/// A name says nothing to engines that have no keys of their own.
fn of_form(form: KeyForm, mut policy: KeyPolicy) -> KeyPolicy {
    if form == KeyForm::Reference {
        policy.engines = policy.engines.intersect(EngineKinds::KEEPERS);
        policy.exportable = false;
    }
    policy
}

impl Default for KeyTable {
    fn default() -> KeyTable {
        KeyTable::new()
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyTable").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The key of that name, if its policy lets it wrap (encrypt) or unwrap (decrypt) now; counts as one operation.
fn wrapping_key<'l>(lease: &'l KeyLease<'_>, key: KeyId, direction: Direction) -> Result<&'l KeyEntry> {
    let entry = lease.entry(key).ok_or_else(unknown)?;
    let policy = entry.policy();
    let problem = if policy.is_expired(now_unix_s()) {
        Some(Reason::KeyExpired)
    } else if !policy.wraps {
        Some(Reason::KeySuite)
    } else if entry.form() != KeyForm::Secret {
        Some(Reason::KeyUnsuitable)
    } else if !policy.directions.contains(direction) {
        Some(Reason::KeyDirection)
    } else if entry.spend(1) == 0 {
        Some(Reason::KeyBudget)
    } else {
        None
    };
    match problem {
        Some(reason) => Err(Error::Refused(Refusal::KeyPolicy(reason))),
        None => Ok(entry),
    }
}

/// The name leads to no key.
pub(crate) fn unknown() -> Error {
    Error::Refused(Refusal::KeyUnknown)
}

/// The present second (Unix time), by which keys expire. A clock that is set before 1970 gives the end of time, so that
/// keys expire rather than live on.
pub fn now_unix_s() -> u64 {
    unix_s(SystemTime::now())
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_1970_expires_every_key_that_expires() {
        let early = unix_s(UNIX_EPOCH - Duration::from_secs(1));
        for end in [0, 1, u64::MAX - 1, u64::MAX] {
            assert!(KeyPolicy::default().expires_unix_s(end).is_expired(early), "{end}");
        }
        assert!(!KeyPolicy::default().is_expired(early));
        assert_eq!(unix_s(UNIX_EPOCH + Duration::from_millis(1_500)), 1);
    }
}
