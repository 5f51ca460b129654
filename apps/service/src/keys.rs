//! The keys of one connection: handles, which only mean something there, to names in the mill's table.

use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_channel::KeyHandle;
use ciphermill_contract::KeyId;

/// What no key of the table has as its name: looked up, it is unknown.
const UNKNOWN: KeyId = KeyId { slot: u32::MAX, generation: u32::MAX };

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
    /// Its name beside it, so that looking it up touches no other memory.
    key: Option<(KeyId, Arc<TableKey>)>,
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

    /// Gives a key a handle.
    pub(crate) fn insert(&mut self, key: Arc<TableKey>) -> KeyHandle {
        let key = Some((key.id(), key));
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

    /// The name in the mill's table of the key that an operation names: none for none, and an unknown one for a handle that is none here.
    #[inline]
    pub(crate) fn id(&self, named: KeyId) -> KeyId {
        if named.is_none() {
            return named;
        }
        let slot = self.slots.get(named.slot as usize).filter(|slot| slot.generation == named.generation);
        slot.and_then(|slot| slot.key.as_ref()).map_or(UNKNOWN, |(id, _)| *id)
    }
}
