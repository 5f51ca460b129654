//! Each distinct value once: what a column's values have become, and a memory of which values have been seen.

use std::hash::{BuildHasher, RandomState};

/// Byte strings one after another, found by the order in which they were put in.
#[derive(Default)]
pub(crate) struct Outputs {
    bytes: Vec<u8>,
    /// Where each ends, behind the zero at which the first begins; empty where there is none.
    ends: Vec<i64>,
}

impl Outputs {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    /// Bytes of all together.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets them; memory is kept.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Puts one in.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    fn end(&mut self) {
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        self.ends.push(self.bytes.len() as i64);
    }

    /// Puts in zeros of these lengths. Returns all bytes, and the offsets of those that were put in: one more than lengths.
    pub(crate) fn grow(&mut self, lens: impl Iterator<Item = i64>) -> (&mut [u8], &[i64]) {
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        let first = self.len();
        let mut end = self.bytes.len() as i64;
        self.ends.extend(lens.map(|len| {
            end += len;
            end
        }));
        self.bytes.resize(usize::try_from(end).unwrap_or_default(), 0);
        (&mut self.bytes, &self.ends[first..])
    }

    /// Puts in what `write` appends.
    #[inline]
    pub(crate) fn push_with<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let result = write(&mut self.bytes);
        self.end();
        result
    }

    /// The one at `slot`, which [`Outputs::push`] has filled.
    #[inline]
    pub(crate) fn at(&self, slot: usize) -> &[u8] {
        &self.bytes[self.ends[slot] as usize..self.ends[slot + 1] as usize]
    }
}

/// Remembers byte strings and numbers them in the order in which they first came.
///
/// Open addressing over keyed hashes (SipHash under a random key), so that chosen values cannot make it slow. Nothing is
/// allocated for a single value.
pub(crate) struct Seen {
    hasher: RandomState,
    /// Number of a string plus one; zero is free. A power of two of places.
    places: Vec<u32>,
    hashes: Vec<u64>,
    strings: Outputs,
}

const PLACES_MIN: usize = 1024;

impl Seen {
    pub(crate) fn new() -> Seen {
        Seen {
            hasher: RandomState::new(),
            places: vec![0; PLACES_MIN],
            hashes: Vec::new(),
            strings: Outputs::default(),
        }
    }

    /// Bytes of all strings and of what is kept with each.
    pub(crate) fn byte_len(&self) -> usize {
        self.strings.byte_len() + self.strings.len() * (size_of::<u64>() + size_of::<usize>()) + self.places.len() * 4
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.places.resize(PLACES_MIN, 0);
        self.hashes.clear();
        self.strings.clear();
    }

    /// The number of `string`, and whether it was seen for the first time.
    pub(crate) fn number(&mut self, string: &[u8]) -> (u32, bool) {
        let hash = self.hasher.hash_one(string);
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        while self.places[place] != 0 {
            let number = self.places[place] - 1;
            if self.hashes[number as usize] == hash && self.strings.at(number as usize) == string {
                return (number, false);
            }
            place = (place + 1) & mask;
        }
        let number = self.hashes.len() as u32;
        self.places[place] = number + 1;
        self.hashes.push(hash);
        self.strings.push(string);
        if self.hashes.len() * 2 > self.places.len() {
            self.grow();
        }
        (number, true)
    }

    fn grow(&mut self) {
        let len = self.places.len() * 2;
        self.places.clear();
        self.places.resize(len, 0);
        for (number, hash) in (1u32..).zip(&self.hashes) {
            let mut place = *hash as usize & (len - 1);
            while self.places[place] != 0 {
                place = (place + 1) & (len - 1);
            }
            self.places[place] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    proptest::proptest! {
        #[test]
        fn numbers_are_those_of_a_plain_map(strings in proptest::collection::vec("[ab]{0,9}", 0..4000)) {
            let mut seen = Seen::new();
            let mut plain: HashMap<&str, u32> = HashMap::new();
            for string in &strings {
                let next = plain.len() as u32;
                let is_new = !plain.contains_key(string.as_str());
                let number = *plain.entry(string).or_insert(next);
                proptest::prop_assert_eq!(seen.number(string.as_bytes()), (number, is_new));
            }
            seen.clear();
            proptest::prop_assert_eq!(seen.number(b"again"), (0, true));
        }
    }

    #[test]
    fn outputs_come_back_in_order() {
        let mut outputs = Outputs::default();
        outputs.push(b"one");
        outputs.push(b"");
        assert!(outputs.push_with(|bytes| {
            bytes.extend_from_slice(b"three");
            true
        }));
        assert_eq!((outputs.at(0), outputs.at(1), outputs.at(2)), (&b"one"[..], &b""[..], &b"three"[..]));
        assert_eq!((outputs.len(), outputs.byte_len()), (3, 8));
    }
}
