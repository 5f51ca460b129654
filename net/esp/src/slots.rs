//! Associations by number.

use core::num::{NonZeroU32, NonZeroU64};

use ciphermill_contract::Direction;
use ciphermill_memory::{prefetch, reserve_wiped, take_wiped};

use crate::limits::ASSOCIATIONS_MAX;
use crate::table::Keyed;

/// The name of an association: a place and how often that was used, so that the name of one that was removed names no other.
///
/// The place in the high half, the generation in the low one: names are kept and compared as one word, and none of them is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaId(NonZeroU64);

/// Set in the places of associations that packets come by, so that no name means one of each direction.
const INBOUND: u32 = 1 << 31;

const _: () = assert!(ASSOCIATIONS_MAX < INBOUND as usize);

impl SaId {
    /// The name of no association: there is no such place.
    pub(crate) const NONE: SaId = SaId(NonZeroU64::MAX);

    #[inline(always)]
    fn new(slot: u32, generation: NonZeroU32) -> SaId {
        SaId(NonZeroU64::from(generation) | u64::from(slot) << 32)
    }

    #[inline(always)]
    fn slot(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    #[inline(always)]
    fn generation(self) -> u32 {
        self.0.get() as u32
    }

    /// `Encrypt` for an association that packets leave by, `Decrypt` for one that they come by.
    pub fn direction(self) -> Direction {
        if self.slot() & INBOUND == 0 { Direction::Encrypt } else { Direction::Decrypt }
    }
}

/// An association that is found by its SPI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    pub(crate) id: SaId,
}

impl Keyed for Numbered {
    type Key = u32;

    #[inline(always)]
    fn key(&self) -> u32 {
        self.number
    }
}

/// Things with places that stay while they are there, and with secrets in them: nothing is left of those where a thing was.
pub(crate) struct Slots<T> {
    /// What all places have in common.
    base: u32,
    all: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// At the beginning of a line of the cache, so that a thing takes no more of them than it has to.
#[repr(align(64))]
struct Slot<T> {
    generation: NonZeroU32,
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
        (id.slot() ^ self.base) as usize
    }

    pub(crate) fn add(&mut self, thing: T) -> SaId {
        match self.free.pop() {
            Some(slot) => {
                let place = &mut self.all[slot as usize];
                place.thing = Some(thing);
                SaId::new(slot | self.base, place.generation)
            }
            None => {
                reserve_wiped(&mut self.all, 1);
                self.all.push(Slot { generation: NonZeroU32::MIN, thing: Some(thing) });
                SaId::new((self.all.len() - 1) as u32 | self.base, NonZeroU32::MIN)
            }
        }
    }

    pub(crate) fn remove(&mut self, id: SaId) -> Option<T> {
        let index = self.index(id);
        let place = self.all.get_mut(index).filter(|place| place.generation.get() == id.generation())?;
        let thing = take_wiped(&mut place.thing)?;
        // A place whose number is used up is not used again.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(index as u32);
        }
        Some(thing)
    }

    #[inline]
    pub(crate) fn get(&self, id: SaId) -> Option<&T> {
        self.all.get(self.index(id)).filter(|place| place.generation.get() == id.generation())?.thing.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SaId) -> Option<&mut T> {
        let index = self.index(id);
        self.all.get_mut(index).filter(|place| place.generation.get() == id.generation())?.thing.as_mut()
    }

    /// Fetches a thing, so that it is in the cache when it is asked for.
    #[inline(always)]
    pub(crate) fn fetch(&self, id: SaId) {
        if let Some(place) = self.all.get(self.index(id)) {
            prefetch(place);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SaId, &T)> {
        self.all.iter().enumerate().filter_map(|(slot, place)| {
            let id = SaId::new(slot as u32 | self.base, place.generation);
            place.thing.as_ref().map(|thing| (id, thing))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SaId, &mut T)> {
        let base = self.base;
        self.all.iter_mut().enumerate().filter_map(move |(slot, place)| {
            let id = SaId::new(slot as u32 | base, place.generation);
            place.thing.as_mut().map(|thing| (id, thing))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
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
        assert_eq!((third.slot(), slots.get(first), slots.get(third)), (first.slot(), None, Some(&'c')));
        assert_eq!((slots.get(SaId::NONE), Slots::<char>::new(Direction::Encrypt).get(SaId::NONE)), (None, None));
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(third, &'c'), (second, &'b')]);
        assert_eq!(slots.len(), 2);
    }
}
