//! A hash table that packets look into. What it holds lies in its places by itself, each a line of the cache or a part of one, so that a packet
//! that looks waits for one line, which can be fetched before.

use ciphermill_memory::prefetch;

/// What things are found by.
pub(crate) trait Key: Copy + Eq {
    /// A number whose high bits differ where keys do. What is in a table is chosen by who configures associations and policies, not by who
    /// sends packets: those only look.
    fn spread(self) -> u64;
}

/// The golden ratio's bits are odd and without pattern.
const RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

impl Key for u32 {
    #[inline(always)]
    fn spread(self) -> u64 {
        u64::from(self).wrapping_mul(RATIO)
    }
}

impl Key for u64 {
    #[inline(always)]
    fn spread(self) -> u64 {
        // The high half is as good as the low one, which a product alone would not make it.
        (self ^ self.rotate_left(32).wrapping_mul(RATIO)).wrapping_mul(RATIO)
    }
}

impl Key for [u128; 2] {
    fn spread(self) -> u64 {
        let words = self.map(|number| (number as u64 ^ (number >> 64) as u64).spread());
        (words[0].rotate_left(23) ^ words[1]).spread()
    }
}

/// What has its key with it.
pub(crate) trait Keyed {
    /// What it is found by.
    type Key: Key;

    /// Its key, which does not change.
    fn key(&self) -> Self::Key;
}

/// Things by their keys.
pub(crate) struct Table<V> {
    /// A power of two, or none. A thing lies where its key says, or behind that with no empty place between.
    places: Vec<Option<V>>,
    count: usize,
    /// Bits of a spread key that say nothing of the place.
    shift: u32,
}

/// Places of the smallest table.
const PLACES_MIN: usize = 8;

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { places: Vec::new(), count: 0, shift: 63 }
    }
}

impl<V: Keyed> Table<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline(always)]
    fn place(&self, key: V::Key) -> usize {
        (key.spread() >> self.shift) as usize
    }

    #[inline(always)]
    fn behind(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Where a key's thing lies.
    #[inline(always)]
    fn find(&self, key: V::Key) -> Option<usize> {
        let mut place = self.place(key);
        // There is an empty place always, and in an empty table none at all.
        while let Some(thing) = self.places.get(place)? {
            if thing.key() == key {
                return Some(place);
            }
            place = self.behind(place);
        }
        None
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: V::Key) -> Option<&V> {
        self.find(key).and_then(|place| self.places[place].as_ref())
    }

    pub(crate) fn get_mut(&mut self, key: V::Key) -> Option<&mut V> {
        self.find(key).and_then(|place| self.places[place].as_mut())
    }

    /// Fetches a key's place, so that it is in the cache when the key is looked for.
    #[inline(always)]
    pub(crate) fn fetch(&self, key: V::Key) {
        if let Some(place) = self.places.get(self.place(key)) {
            prefetch(place);
        }
    }

    /// Puts a thing in, in place of one with its key.
    pub(crate) fn insert(&mut self, thing: V) {
        let place = self.place_for(thing.key());
        self.places[place] = Some(thing);
    }

    /// A key's thing, which is made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: V::Key, make: impl FnOnce() -> V) -> &mut V {
        let place = self.place_for(key);
        self.places[place].get_or_insert_with(make)
    }

    /// Where a key's thing lies, or is to be put.
    fn place_for(&mut self, key: V::Key) -> usize {
        self.find(key).unwrap_or_else(|| {
            // Up to five eighths of them are taken.
            if 8 * (self.count + 1) > 5 * self.places.len() {
                self.grow();
            }
            self.count += 1;
            self.empty_for(key)
        })
    }

    /// The empty place for a key that is not there.
    fn empty_for(&self, key: V::Key) -> usize {
        let mut place = self.place(key);
        while self.places[place].is_some() {
            place = self.behind(place);
        }
        place
    }

    fn grow(&mut self) {
        let len = (2 * self.places.len()).max(PLACES_MIN);
        let before = core::mem::take(&mut self.places);
        self.places.resize_with(len, || None);
        self.shift = 64 - len.trailing_zeros();
        for thing in before.into_iter().flatten() {
            let place = self.empty_for(thing.key());
            self.places[place] = Some(thing);
        }
    }

    pub(crate) fn remove(&mut self, key: V::Key) -> Option<V> {
        let mut empty = self.find(key)?;
        let removed = self.places[empty].take();
        self.count -= 1;
        // What lies behind comes nearer to where its key says, up to the next empty place: nothing is looked for beyond one.
        let mut place = self.behind(empty);
        while let Some(thing) = &self.places[place] {
            let mask = self.places.len() - 1;
            let (away, would_be) =
                (place.wrapping_sub(self.place(thing.key())) & mask, place.wrapping_sub(empty) & mask);
            if away >= would_be {
                self.places.swap(empty, place);
                empty = place;
            }
            place = self.behind(place);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Thing<K>(K, u16);

    impl<K: Key> Keyed for Thing<K> {
        type Key = K;

        fn key(&self) -> K {
            self.0
        }
    }

    fn check<K: Key + core::hash::Hash + core::fmt::Debug>(
        keys: impl Fn(u16) -> K,
        steps: &[(bool, u16)],
    ) -> Result<(), TestCaseError> {
        let (mut table, mut plain) = (Table::default(), HashMap::new());
        for (at, (is_put, number)) in steps.iter().enumerate() {
            let key = keys(*number);
            if *is_put {
                // What is there stays with the one, and is replaced by the other.
                let before = plain.get(&key).copied().unwrap_or(7);
                prop_assert_eq!(*table.get_or_insert_with(key, || Thing(key, 7)), Thing(key, before));
                table.insert(Thing(key, at as u16));
                plain.insert(key, at as u16);
            } else {
                prop_assert_eq!(table.remove(key).map(|thing| thing.1), plain.remove(&key));
            }
            prop_assert_eq!((table.count, table.is_empty()), (plain.len(), plain.is_empty()));
        }
        for number in 0..300 {
            let key = keys(number);
            prop_assert_eq!(table.get(key).map(|thing| thing.1), plain.get(&key).copied());
            prop_assert_eq!(table.get_mut(key).map(|thing| thing.1), plain.get(&key).copied());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_table_holds_what_was_put_there(steps in prop::collection::vec((prop::bool::weighted(0.6), 0u16..300), 0..900)) {
            check(u32::from, &steps)?;
            check(|number| u64::from(number) << 40, &steps)?;
            check(|number| [u128::from(number) << 64, u128::from(number % 7)], &steps)?;
        }
    }

    /// Numbers that follow each other, as addresses and SPIs do, lie in places of their own mostly.
    #[test]
    fn keys_are_spread() {
        let far = |keys: &dyn Fn(u64) -> u64| {
            let mut places: Vec<u64> = (0..1000).map(|number| keys(number) >> (64 - 11)).collect();
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        assert!(far(&|number| (number as u32).spread()) > 700);
        assert!(far(&|number| number.spread()) > 700);
        assert!(far(&|number| (number << 32).spread()) > 700);
        assert!(far(&|number| (number << 8 | 0x0a00_0000 << 32).spread()) > 700);
        assert!(far(&|number| [u128::from(number) << 32, 1].spread()) > 700);
        assert!(far(&|number| [1, u128::from(number) << 64].spread()) > 700);
    }
}
