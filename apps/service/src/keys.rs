//! The keys of one connection: handles, which only mean something there, to names in the mill's table.

use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_channel::{ErrorKind, KeyHandle};
use ciphermill_contract::key::SuiteName;
use ciphermill_contract::{Direction, Error, KeyId, Refusal, Suite};

/// What no key of the table has as its name: looked up, it is unknown.
pub(crate) const UNKNOWN: KeyId = KeyId { slot: u32::MAX, generation: u32::MAX };

/// A key in a mill's table, destroyed there when nobody holds it any more.
pub(crate) struct TableKey {
    id: KeyId,
    mill: Mill,
}

impl TableKey {
    pub(crate) fn new(id: KeyId, mill: Mill) -> TableKey {
        TableKey { id, mill }
    }

    pub(crate) fn id(&self) -> KeyId {
        self.id
    }
}

impl Drop for TableKey {
    fn drop(&mut self) {
        // It is there: nobody else destroys it.
        let _ = self.mill.keys().destroy(self.id);
    }
}

/// Keys by handle.
pub(crate) struct Keys {
    slots: Vec<Slot>,
    free: Vec<u32>,
    max: usize,
}

struct Slot {
    generation: u32,
    key: Option<Held>,
}

/// A key, its name and the suite that it was handed over for: beside each other, so that looking it up touches no other memory.
struct Held {
    id: KeyId,
    suite: SuiteName,
    _key: Arc<TableKey>,
}

/// What a handle leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The name of a key in the mill's table; none for none, and one that no key has for a handle that is none here.
    Key(KeyId),
    /// A key for another suite.
    OtherSuite,
}

impl Keys {
    pub(crate) fn new(max: usize) -> Keys {
        Keys { slots: Vec::new(), free: Vec::new(), max }
    }

    /// Keys that there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    /// Has another number of keys be the most. Those that are there beyond it stay.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Gives a key a handle, for one suite.
    pub(crate) fn insert(&mut self, key: Arc<TableKey>, suite: Suite) -> KeyHandle {
        let key = Some(Held { id: key.id(), suite: suite.into(), _key: key });
        if let Some(slot) = self.free.pop() {
            let place = &mut self.slots[slot as usize];
            // Zero is no generation; after four billion keys in one slot an old handle would be one again.
            place.generation = place.generation.checked_add(1).unwrap_or(1);
            place.key = key;
            return KeyHandle { slot, generation: place.generation };
        }
        self.slots.push(Slot { generation: 1, key });
        KeyHandle { slot: self.slots.len() as u32 - 1, generation: 1 }
    }

    /// Takes a handle away. What is none is left alone.
    pub(crate) fn remove(&mut self, handle: KeyHandle) {
        let Some(slot) = self.slots.get_mut(handle.slot as usize).filter(|slot| slot.generation == handle.generation)
        else {
            return;
        };
        if slot.key.take().is_some() {
            self.free.push(handle.slot);
        }
    }

    /// The key that an operation of a suite names. Here, and not by a policy of the key, since this is asked for every operation.
    #[inline]
    pub(crate) fn find(&self, named: KeyId, suite: SuiteName) -> Found {
        if named.is_none() {
            return Found::Key(named);
        }
        let slot = self.slots.get(named.slot as usize).filter(|slot| slot.generation == named.generation);
        match slot.and_then(|slot| slot.key.as_ref()) {
            Some(held) if held.suite == suite => Found::Key(held.id),
            Some(_) => Found::OtherSuite,
            None => Found::Key(UNKNOWN),
        }
    }
}

/// What is said of an error of the mill.
pub(crate) fn said(error: Error) -> (ErrorKind, String) {
    let kind = match &error {
        Error::Exhausted(_) => ErrorKind::Exhausted,
        Error::EngineFault(_) => ErrorKind::Fault,
        _ => ErrorKind::Refused,
    };
    (kind, error.to_string())
}

/// Finds out whether a key suits a suite, as far as one of the directions goes: by having it prepared.
pub(crate) fn prepare(mill: &Mill, suite: Suite, key: KeyId) -> ciphermill_contract::Result<()> {
    let mut directions = [Direction::Encrypt, Direction::Decrypt].into_iter().filter(|way| suite.has_direction(*way));
    let first = directions.next().map(|direction| mill.bind(suite, direction, key).map(|_| ()));
    match (first, directions.next()) {
        // A public key signs nothing, but verifies.
        (Some(Err(Error::Refused(Refusal::KeyUnsuitable { .. }))), Some(direction)) => {
            mill.bind(suite, direction, key).map(|_| ())
        }
        (Some(first), _) => first,
        (None, _) => Ok(()),
    }
}
