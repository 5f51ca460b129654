//! A batch as kernels see it: pending operations with their keys as raw places, ordered by length class.
//!
//! Kernels read and write buffers through pointers, because their lanes are scattered over them. What makes that sound
//! is the batch's one check: every place lies within its buffer, an output is its input's place or apart from it, and
//! nothing that one operation writes is read or written by another.

use core::any::Any;
use core::cell::Cell;

pub(crate) use ciphermill_contract::Occupancy;
use ciphermill_contract::{CheckedBatch, Direction, KEY_WORDS, Op, OpStatus, PreparedKey, Suite, SuiteName};

use crate::processor::{For, prefetch};

/// How many operations are ordered at a time: with their keys and data they should stay in the second-level cache.
pub(crate) const WINDOW_OPS: usize = 2048;

/// How many are taken at a time as long as they are alike, so that they stay in the first-level cache.
const COLUMN_OPS: usize = 256;

/// Length classes that an ordering may tell apart.
pub(crate) const CLASSES_MAX: usize = 64;

/// A batch taken apart.
pub(crate) struct Work<'a> {
    suite: Suite,
    /// The suite as prepared keys name it.
    name: SuiteName,
    direction: Direction,
    ops: &'a mut [Op],
    /// Operations that have ended.
    settled: usize,
    /// Those of them that ended badly.
    failed: usize,
    bases: Bases,
    keys: &'a [Option<&'a PreparedKey>],
}

/// What the offsets in operations count from: all from the arena's first byte, or each from a place in a buffer of its own.
/// Every offset has been checked against the length of its buffer.
#[derive(Clone, Copy)]
pub(crate) struct Bases {
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) tag: *mut u8,
    pub(crate) aad: *const u8,
}

/// The key of suites that have none.
pub(crate) struct NoKey;

static NO_KEY: NoKey = NoKey;

/// A key that has been looked up, with its state.
pub(crate) type KnownKey<'a, T> = Option<(&'a PreparedKey, &'a T)>;

/// Places for keys that have been looked up, in batches that are worth it.
pub(crate) const KNOWN_KEYS: usize = 64;

/// One pending operation: its places, its key, its index in the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output.
    pub(crate) output: *mut u8,
    /// The family's state of the operation's key; see [`Item::key`].
    key: *const (),
    /// Bytes of input.
    pub(crate) len: u32,
    /// Index of the operation in the batch.
    pub(crate) op: u32,
}

impl Item {
    /// An operation of columns, which is known by its lane. `key` is the family's state of its key.
    #[inline(always)]
    pub(crate) fn new(input: *const u8, output: *mut u8, key: *const (), len: u32) -> Item {
        Item { input, output, key, len, op: 0 }
    }

    /// The state of the operation's key.
    ///
    /// # Safety
    /// `T` is the type that the item was collected with, and the batch's keys are still borrowed.
    #[inline(always)]
    pub(crate) unsafe fn key<'k, T>(&self) -> &'k T {
        // SAFETY: the caller's promise; the pointer came from a reference in `Work::collect`.
        unsafe { &*self.key.cast::<T>() }
    }

    /// Where that state lies.
    #[inline(always)]
    pub(crate) fn key_place(&self) -> *const u8 {
        self.key.cast()
    }
}

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

impl KeysAhead<'_> {
    /// Of nothing: where keys are at hand.
    pub(crate) const fn none() -> KeysAhead<'static> {
        KeysAhead { keys: &[], next: Cell::new(0), limit: Cell::new(0) }
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

/// What a queue keeps between batches, so that no batch allocates.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The window's operations as they came.
    pub(crate) items: Vec<Item>,
    /// The same, ordered by [`Scratch::order_by`].
    pub(crate) ordered: Vec<Item>,
    /// A family's own working memory (transposed keys, counters). Whoever writes secrets here wipes them.
    pub(crate) bytes: Vec<u64>,
    /// Lanes and waiting messages of AES-CBC.
    #[cfg(target_arch = "x86_64")]
    pub(crate) cbc: crate::aes::cbc::CbcScratch,
    /// The records of a window of columns.
    pub(crate) column_ops: Vec<Op>,
    /// A group's messages of a chain's cipher step.
    #[cfg(target_arch = "x86_64")]
    pub(crate) chain: crate::chain::ChainScratch,
    /// Messages, lanes and slices of DES.
    pub(crate) des: crate::des::DesScratch,
    /// Operations and idle lanes since the queue was opened.
    pub(crate) occupancy: Occupancy,
}

// SAFETY: items hold pointers into a batch only while `run` works on it; between batches they are never followed.
unsafe impl Send for Scratch {}

impl<'a> Work<'a> {
    /// Takes a batch apart.
    pub(crate) fn new<'b: 'a>(batch: &'a mut CheckedBatch<'b>) -> Work<'a> {
        let (suite, direction) = (batch.suite(), batch.direction());
        let (ops, arena, keys) = batch.parts();
        let arena = arena.as_mut_ptr();
        let bases = Bases { input: arena, output: arena, tag: arena, aad: arena };
        Work::of_columns(suite, direction, ops, bases, keys)
    }

    /// A window of columns, as records whose offsets count from `bases`.
    pub(crate) fn of_columns(
        suite: Suite,
        direction: Direction,
        ops: &'a mut [Op],
        bases: Bases,
        keys: &'a [Option<&'a PreparedKey>],
    ) -> Work<'a> {
        Work { suite, name: suite.into(), direction, ops, settled: 0, failed: 0, bases, keys }
    }

    /// Fetches this batch's keys.
    pub(crate) fn keys_ahead(&self) -> KeysAhead<'a> {
        KeysAhead { keys: self.keys, next: Cell::new(0), limit: Cell::new(0) }
    }

    /// What is done to every operation.
    #[inline]
    pub(crate) fn suite(&self) -> Suite {
        self.suite
    }

    /// Which way.
    #[inline]
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// How many operations have ended here, well or badly.
    #[inline]
    pub(crate) fn settled(&self) -> usize {
        self.settled
    }

    /// How many of them ended badly.
    pub(crate) fn failed(&self) -> usize {
        self.failed
    }

    /// How many operations there are, pending or not.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// An operation.
    #[inline(always)]
    pub(crate) fn op(&self, index: usize) -> &Op {
        &self.ops[index]
    }

    /// The words of an operation's key, when it was prepared as such by this engine for this suite.
    #[inline(always)]
    pub(crate) fn key_words(&self, index: usize) -> Option<&'a [u64; KEY_WORDS]> {
        self.keys.get(index).copied().flatten()?.words_for(self.name)
    }

    /// The state of an operation's key, when it was prepared by this engine, for this suite, as a `T`. Looking a key up is
    /// a call through its type and two cache lines; hence the memory.
    #[inline(always)]
    fn known_key<T: Any>(&self, index: usize, known: &mut [KnownKey<'a, T>]) -> Option<&'a T> {
        if let Some(none) = (&NO_KEY as &dyn Any).downcast_ref::<T>() {
            return Some(none);
        }
        let key = self.keys.get(index).copied().flatten()?;
        // Neighbours in a table of keys have places of their own.
        let place = core::ptr::from_ref(key) as usize / size_of::<PreparedKey>();
        let place = place & known.len().wrapping_sub(1);
        if let Some(Some((known, state))) = known.get(place)
            && core::ptr::eq(*known, key)
        {
            return Some(state);
        }
        let state = key.state_for(self.name)?;
        if let Some(place) = known.get_mut(place) {
            *place = Some((key, state));
        }
        Some(state)
    }

    /// First byte of an operation's input.
    #[inline(always)]
    pub(crate) fn input(&self, index: usize) -> *const u8 {
        // SAFETY: the check has found the offset within the buffer.
        unsafe { self.bases.input.add(self.ops[index].input.offset as usize) }
    }

    /// First byte of an operation's output.
    #[inline(always)]
    pub(crate) fn output(&self, index: usize) -> *mut u8 {
        // SAFETY: the check has found the offset within the buffer.
        unsafe { self.bases.output.add(self.ops[index].output as usize) }
    }

    /// First byte of an operation's tag.
    #[inline(always)]
    pub(crate) fn tag(&self, index: usize) -> *mut u8 {
        // SAFETY: the check has found the offset within the buffer.
        unsafe { self.bases.tag.add(self.ops[index].tag as usize) }
    }

    /// An operation's additional data. They may be shared by many operations; none writes them.
    #[inline(always)]
    pub(crate) fn aad(&self, index: usize) -> &'a [u8] {
        let aad = self.ops[index].aad;
        // SAFETY: the check has found the span within the buffer and apart from everything that is written; the buffer is
        // borrowed for 'a.
        unsafe { core::slice::from_raw_parts(self.bases.aad.add(aad.offset as usize), usize::from(aad.len)) }
    }

    /// An operation's IV.
    #[inline(always)]
    pub(crate) fn iv(&self, index: usize) -> &[u8] {
        let op = &self.ops[index];
        &op.iv[..usize::from(op.iv_len).min(op.iv.len())]
    }

    /// Ends an operation well; its output is as long as its input.
    #[inline(always)]
    pub(crate) fn done(&mut self, index: usize) {
        let op = &mut self.ops[index];
        op.output_len = op.input.len;
        op.status = OpStatus::Done;
        self.settled += 1;
    }

    /// Ends an operation well whose output has another length than its input.
    #[inline(always)]
    pub(crate) fn done_with(&mut self, index: usize, output_len: u32) {
        let op = &mut self.ops[index];
        op.output_len = output_len;
        op.status = OpStatus::Done;
        self.settled += 1;
    }

    /// Ends an operation badly: its output is zeroed.
    #[cold]
    pub(crate) fn fail(&mut self, index: usize, status: OpStatus) {
        let len = {
            let op = &self.ops[index];
            self.suite.output_len(self.direction, op.input.len as usize, op.output_len as usize)
        };
        // SAFETY: the check has found the output's span within the buffer, written by this operation alone.
        unsafe { core::ptr::write_bytes(self.output(index), 0, len) };
        let op = &mut self.ops[index];
        op.output_len = 0;
        op.status = status;
        self.settled += 1;
        self.failed += 1;
    }

    /// The next pending operation from index `*next` on, which moves behind it. Operations whose key is not a `T` of
    /// this suite fail here. `None` when there is no other.
    #[inline(always)]
    pub(crate) fn take<T: Any>(&mut self, next: &mut usize) -> Option<Item> {
        self.take_with::<T>(next, &mut [])
    }

    /// The same, with a memory of keys that have been looked up: a power of two of places, or none.
    #[inline(always)]
    pub(crate) fn take_with<T: Any>(&mut self, next: &mut usize, known: &mut [KnownKey<'a, T>]) -> Option<Item> {
        while let Some(op) = self.ops.get(*next) {
            let index = *next;
            *next += 1;
            if !op.status.is_pending() {
                continue;
            }
            let Some(key) = self.known_key(index, known) else {
                self.fail(index, OpStatus::EngineFault);
                continue;
            };
            // SAFETY: the check has found both offsets within their buffers.
            let (input, output) =
                unsafe { (self.bases.input.add(op.input.offset as usize), self.bases.output.add(op.output as usize)) };
            // A batch has fewer operations than 2^32.
            return Some(Item {
                input,
                output,
                key: core::ptr::from_ref(key).cast(),
                len: op.input.len,
                op: index as u32,
            });
        }
        None
    }

    /// Collects the next pending operations, `WINDOW_OPS` at most, into `items`, from index `*next` on, which moves
    /// behind them. Operations whose key is not a `T` of this suite fail here. Returns whether there are any.
    pub(crate) fn collect<T: Any>(&mut self, next: &mut usize, items: &mut Vec<Item>) -> bool {
        items.clear();
        self.collect_up_to::<T>(WINDOW_OPS, next, items);
        !items.is_empty()
    }

    /// As [`Work::collect`], behind the items that are there, until there are `count`.
    fn collect_up_to<T: Any>(&mut self, count: usize, next: &mut usize, items: &mut Vec<Item>) {
        if self.len() - (*next).min(self.len()) < 8 * KNOWN_KEYS {
            self.collect_with::<T, 1>(count, next, items);
        } else {
            self.collect_with::<T, KNOWN_KEYS>(count, next, items);
        }
    }

    fn collect_with<T: Any, const KNOWN: usize>(&mut self, count: usize, next: &mut usize, items: &mut Vec<Item>) {
        let mut known = [None; KNOWN];
        while items.len() < count {
            let Some(item) = self.take_with::<T>(next, &mut known) else { return };
            // In another order than they come, operations' data are no stream that the processor sees.
            prefetch(item.input, For::Later);
            items.push(item);
        }
    }
}

impl Scratch {
    /// Collects `window` operations, as [`Work::collect`] does, and puts them in order, as [`Scratch::order_by`] does, into
    /// `ordered`.
    /// As long as they are of one class, as those of a column are, few are taken at a time and need no ordering.
    #[inline(always)]
    pub(crate) fn collect_by<T: Any>(
        &mut self,
        work: &mut Work<'_>,
        next: &mut usize,
        window: usize,
        class: impl Fn(&Item) -> usize + Copy,
    ) -> bool {
        self.items.clear();
        work.collect_up_to::<T>(COLUMN_OPS, next, &mut self.items);
        let Some(first) = self.items.first() else { return false };
        let (len, class_of_first) = (first.len, class(first));
        if self.items.iter().all(|item| item.len == len || class(item) == class_of_first) {
            core::mem::swap(&mut self.items, &mut self.ordered);
        } else {
            work.collect_up_to::<T>(window, next, &mut self.items);
            self.order_by(class);
        }
        true
    }

    /// Orders `items` by class, the highest class first, into `ordered`; the order within a class is kept. Classes from
    /// [`CLASSES_MAX`] - 1 on count as one.
    #[inline(always)]
    pub(crate) fn order_by(&mut self, class: impl Fn(&Item) -> usize) {
        let class = |item: &Item| CLASSES_MAX - 1 - class(item).min(CLASSES_MAX - 1);
        let mut starts = [0u32; CLASSES_MAX];
        for item in &self.items {
            starts[class(item)] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += core::mem::replace(start, sum);
        }
        let Some(first) = self.items.first() else { return self.ordered.clear() };
        self.ordered.resize(self.items.len(), *first);
        for item in &self.items {
            let place = &mut starts[class(item)];
            self.ordered[*place as usize] = *item;
            *place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(op: u32, len: u32) -> Item {
        Item { input: core::ptr::null(), output: core::ptr::null_mut(), key: core::ptr::null(), len, op }
    }

    #[test]
    fn ordering_puts_the_longest_first_and_keeps_the_order_of_equals() {
        let lens = [3, 1, 200, 0, 3, 63, 2, 1, 90];
        let items = lens.iter().enumerate().map(|(op, len)| item(op as u32, *len)).collect();
        let mut scratch = Scratch { items, ..Scratch::default() };
        scratch.order_by(|item| item.len as usize);
        let got: Vec<(u32, u32)> = scratch.ordered.iter().map(|item| (item.len, item.op)).collect();
        assert_eq!(got, [(200, 2), (63, 5), (90, 8), (3, 0), (3, 4), (2, 6), (1, 1), (1, 7), (0, 3)]);
        scratch.items.clear();
        scratch.order_by(|item| item.len as usize);
        assert!(scratch.ordered.is_empty());
    }
}
