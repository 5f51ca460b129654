//! The keys of one connection: handles, which only mean something there, to names in the mill's table.

use ciphermill::Mill;
use ciphermill_channel::KeyHandle;
use ciphermill_contract::KeyId;

/// What no key of the table has as its name: looked up, it is unknown.
const UNKNOWN: KeyId = KeyId { slot: u32::MAX, generation: u32::MAX };

/// Keys by handle. Those that this connection has brought are destroyed with it.
pub(crate) struct Keys {
    mill: Mill,
    slots: Vec<Slot>,
    free: Vec<u32>,
    max: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    key: Option<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    id: KeyId,
    /// Whether it goes with the connection.
    own: bool,
}

impl Keys {
    pub(crate) fn new(mill: Mill, max: usize) -> Keys {
        Keys { mill, slots: Vec::new(), free: Vec::new(), max }
    }

    /// Keys that there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    /// Gives a key a handle. `own` keys are destroyed when the handle goes.
    pub(crate) fn insert(&mut self, id: KeyId, own: bool) -> KeyHandle {
        let key = Some(Held { id, own });
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
        if let Some(held) = slot.key.take() {
            self.free.push(handle.slot);
            self.destroy(held);
        }
    }

    /// The name in the mill's table of the key that an operation names: none for none, and an unknown one for a handle that is none here.
    #[inline]
    pub(crate) fn id(&self, named: KeyId) -> KeyId {
        if named.is_none() {
            return named;
        }
        let slot = self.slots.get(named.slot as usize).filter(|slot| slot.generation == named.generation);
        slot.and_then(|slot| slot.key).map_or(UNKNOWN, |held| held.id)
    }

    fn destroy(&self, held: Held) {
        if held.own {
            // It is there: nobody else knows its name.
            let _ = self.mill.keys().destroy(held.id);
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        for held in self.slots.iter().filter_map(|slot| slot.key) {
            self.destroy(held);
        }
    }
}
