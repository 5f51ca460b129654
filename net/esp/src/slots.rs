//! Associations by number, and a hash for numbers.

use core::hash::{BuildHasherDefault, Hasher};

use ciphermill_contract::Direction;

use crate::limits::ASSOCIATIONS_MAX;

/// The name of an association: a place and how often that was used, so that the name of one that was removed names no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Set in the places of associations that packets come by, so that no name means one of each direction.
const INBOUND: u32 = 1 << 31;

const _: () = assert!(ASSOCIATIONS_MAX < INBOUND as usize);

impl SaId {
    /// `Encrypt` for an association that packets leave by, `Decrypt` for one that they come by.
    pub fn direction(self) -> Direction {
        if self.slot & INBOUND == 0 { Direction::Encrypt } else { Direction::Decrypt }
    }
}

/// Things with places that stay while they are there.
pub(crate) struct Slots<T> {
    /// What all places have in common.
    base: u32,
    all: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// At the beginning of a line of the cache, so that a thing takes no more of them than it has to.
#[repr(align(64))]
struct Slot<T> {
    generation: u32,
    thing: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new(direction: Direction) -> Slots<T> {
        let base = if direction == Direction::Encrypt { 0 } else { INBOUND };
        Slots { base, all: Vec::new(), free: Vec::new() }
    }

    /// Where a name's thing would lie.
    #[inline]
    fn index(&self, id: SaId) -> usize {
        (id.slot ^ self.base) as usize
    }

    pub(crate) fn add(&mut self, thing: T) -> SaId {
        match self.free.pop() {
            Some(slot) => {
                let place = &mut self.all[slot as usize];
                place.thing = Some(thing);
                SaId { slot: slot | self.base, generation: place.generation }
            }
            None => {
                self.all.push(Slot { generation: 1, thing: Some(thing) });
                SaId { slot: (self.all.len() - 1) as u32 | self.base, generation: 1 }
            }
        }
    }

    pub(crate) fn remove(&mut self, id: SaId) -> Option<T> {
        let index = self.index(id);
        let place = self.all.get_mut(index).filter(|place| place.generation == id.generation)?;
        let thing = place.thing.take()?;
        // A place whose number is used up is not used again.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(index as u32);
        }
        Some(thing)
    }

    #[inline]
    pub(crate) fn get(&self, id: SaId) -> Option<&T> {
        self.all.get(self.index(id)).filter(|place| place.generation == id.generation)?.thing.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SaId) -> Option<&mut T> {
        let index = self.index(id);
        self.all.get_mut(index).filter(|place| place.generation == id.generation)?.thing.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SaId, &T)> {
        self.all.iter().enumerate().filter_map(|(slot, place)| {
            let id = SaId { slot: slot as u32 | self.base, generation: place.generation };
            place.thing.as_ref().map(|thing| (id, thing))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SaId, &mut T)> {
        let base = self.base;
        self.all.iter_mut().enumerate().filter_map(move |(slot, place)| {
            let id = SaId { slot: slot as u32 | base, generation: place.generation };
            place.thing.as_mut().map(|thing| (id, thing))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

/// Hashes numbers by multiplication. What is hashed is chosen by who configures associations and policies, not by who sends packets: those
/// only look up.
pub(crate) type Spread = BuildHasherDefault<SpreadHasher>;

#[derive(Default)]
pub(crate) struct SpreadHasher(u64);

impl SpreadHasher {
    fn add(&mut self, number: u64) {
        // The golden ratio's bits are odd and without pattern.
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for SpreadHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_u128(&mut self, number: u128) {
        self.add(number as u64);
        if number >> 64 != 0 {
            self.add((number >> 64) as u64);
        }
    }

    fn finish(&self) -> u64 {
        // Tables take the low bits for the place and the high ones for the tag.
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_removed_names_nothing_when_its_place_is_used_again() {
        let mut slots = Slots::new(Direction::Decrypt);
        let (first, second) = (slots.add('a'), slots.add('b'));
        assert_eq!(slots.remove(first), Some('a'));
        assert_eq!(slots.remove(first), None);
        let third = slots.add('c');
        assert_eq!((third.slot, slots.get(first), slots.get(third)), (first.slot, None, Some(&'c')));
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(third, &'c'), (second, &'b')]);
        assert_eq!(slots.len(), 2);
    }
}
