//! Prepared keys of operations to come, brought into the cache beside the work on those before them.

use core::cell::Cell;

use ciphermill_contract::PreparedKey;

use crate::processor::{For, prefetch};

/// Fetches prepared keys of operations to come into the cache, a few at a time wherever a kernel has time for it:
/// thousands of distinct keys are lines that no cache holds, and only so many lines can be on their way at once.
pub(crate) struct KeysAhead<'a> {
    keys: &'a [Option<&'a PreparedKey>],
    /// The first operation whose key has not been asked for.
    next: Cell<usize>,
    /// The operation behind the last whose key may be asked for already.
    limit: Cell<usize>,
}

/// How far ahead keys are fetched at most, in operations: further, and they would be gone when they are wanted.
const AHEAD_MAX: usize = 1024;

/// How far ahead at least.
const AHEAD_MIN: usize = 32;

impl<'a> KeysAhead<'a> {
    /// Of nothing: where keys are at hand.
    pub(crate) const fn none() -> KeysAhead<'static> {
        KeysAhead::of(&[])
    }

    /// Of a batch's operations.
    pub(crate) const fn of(keys: &'a [Option<&'a PreparedKey>]) -> KeysAhead<'a> {
        KeysAhead { keys, next: Cell::new(0), limit: Cell::new(0) }
    }

    /// The operation at `index` is about to be taken.
    #[inline(always)]
    pub(crate) fn reach(&self, index: usize) {
        self.limit.set((index + AHEAD_MAX).min(self.keys.len()));
        if self.next.get() < index + AHEAD_MIN {
            self.fetch(2);
        }
    }

    /// Fetches so many keys.
    #[inline(always)]
    pub(crate) fn fetch(&self, count: usize) {
        let next = self.next.get();
        let end = (next + count).min(self.limit.get());
        for key in self.keys.get(next..end).unwrap_or_default().iter().flatten() {
            let key = core::ptr::from_ref(*key).cast::<u8>();
            prefetch(key, For::Later);
            prefetch(key.wrapping_add(size_of::<PreparedKey>() - 1), For::Later);
        }
        self.next.set(end.max(next));
    }
}
