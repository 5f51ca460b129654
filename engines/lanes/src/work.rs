//! A batch as kernels see it, in either form: pending operations with their keys as raw places, ordered by length class.
//!
//! Kernels read and write buffers through pointers, because their lanes are scattered over them. What makes that sound
//! is the batch's one check: every place lies within its buffer, an output is its input's place or apart from it, and
//! nothing that one operation writes is read or written by another.

use core::any::Any;

pub(crate) use ciphermill_contract::Occupancy;
use ciphermill_contract::limits::IV_LEN_MAX;
use ciphermill_contract::{CheckedBatch, Direction, KEY_WORDS, Known, Op, OpStatus, PreparedKey, Suite, SuiteName};

use crate::columns::Columns;
pub(crate) use crate::keys_ahead::KeysAhead;
use crate::processor::{For, prefetch};

/// How many operations ahead of the one that is taken data are fetched into the cache. The processor does not see a stream in
/// what is read and written in pieces of vectors: without this, AES-CBC of 8 to 80 bytes out of the caches took twice as long.
const SOON: usize = 16;

/// How many operations are ordered at a time: with their keys and data they should stay in the second-level cache.
pub(crate) const WINDOW_OPS: usize = 2048;

/// How many are taken at a time as long as they are alike, so that they stay in the first-level cache.
const COLUMN_OPS: usize = 256;

/// Length classes that an ordering may tell apart.
pub(crate) const CLASSES_MAX: usize = 64;

/// A batch taken apart.
pub(crate) struct Work<'a> {
    suite: Suite,
    direction: Direction,
    form: Form<'a>,
    /// Operations that have ended.
    settled: usize,
    keys: Keys<'a>,
}

/// The keys of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    /// The suite as prepared keys name it.
    name: SuiteName,
    all: &'a [Option<&'a PreparedKey>],
    /// Bits of an operation's index that name its key: none where all have the first one.
    mask: usize,
}

/// Where operations are read from. The branch between the two is the same for a whole batch, and foreseen.
#[expect(clippy::large_enum_variant, reason = "there is one for a batch, which is not moved")]
enum Form<'a> {
    /// Records, and the first byte of the arena that their offsets count from.
    Ops(&'a mut [Op], *mut u8),
    /// The caller's columns.
    Columns(Columns<'a>),
}

/// Where the data of a checked operation are read and written, and their bytes.
#[inline(always)]
fn data_of(op: &Op, arena: *mut u8) -> (*const u8, *mut u8, u32) {
    // SAFETY: the check has found both offsets within the arena.
    unsafe { (arena.add(op.input.offset as usize).cast_const(), arena.add(op.output as usize), op.input.len) }
}

/// An operation that counts as done: what it needs.
pub(crate) struct Taken<K> {
    /// Its key.
    pub(crate) key: K,
    /// The IV; what lies behind it is anything.
    pub(crate) iv: [u8; IV_LEN_MAX],
    /// Bytes of the IV.
    pub(crate) iv_len: usize,
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output.
    pub(crate) output: *mut u8,
    /// Bytes of input.
    pub(crate) len: usize,
}

/// Fetches the data of an operation that is taken soon.
#[inline(always)]
fn fetch_soon(ops: &[Op], index: usize, arena: *mut u8) {
    if let Some(later) = ops.get(index + SOON) {
        prefetch(arena.wrapping_add(later.output as usize), For::Writing);
        prefetch(arena.wrapping_add(later.input.offset as usize), For::Reading);
    }
}

/// Copies `len` bytes, at most 64, in few pieces that may overlap, so that it does not become a call.
///
/// # Safety
/// `len` bytes may be read and written; the places are apart.
#[inline(always)]
pub(crate) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    /// The first `N` bytes and the last.
    ///
    /// # Safety
    /// There are at least so many; the places are apart.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let (first, last) = (from.cast::<[u8; N]>().read(), from.add(len - N).cast::<[u8; N]>().read());
            to.cast::<[u8; N]>().write(first);
            to.add(len - N).cast::<[u8; N]>().write(last);
        }
    }
    debug_assert!(len <= 64);
    // SAFETY: the caller's promise, and that there are as many bytes as each branch says.
    unsafe {
        match len {
            0 => {}
            1..4 => {
                let (first, middle, last) = (from.read(), from.add(len / 2).read(), from.add(len - 1).read());
                to.write(first);
                to.add(len / 2).write(middle);
                to.add(len - 1).write(last);
            }
            4..8 => ends::<4>(from, to, len),
            8..16 => ends::<8>(from, to, len),
            16..32 => ends::<16>(from, to, len),
            _ => ends::<32>(from, to, len),
        }
    }
}

/// Takes records of one length, as long as they are pending and have a key that is a `T`, for whoever can no longer fail.
///
/// In a kernel's loop it lies in registers, with as few instructions for an operation as can be: a third of those around
/// [`Work::take_done`]. How many operations are under way at once depends on how many instructions each takes.
pub(crate) struct Records<'w, 'a, T> {
    ops: &'w mut [Op],
    arena: *mut u8,
    keys: Keys<'a>,
    known: Known<T>,
    len: usize,
    index: usize,
    /// Where it began.
    from: usize,
    /// What is told at the end: the next index, and how many have ended.
    ended: (&'w mut usize, &'w mut usize),
}

impl<'a, T: Any> Records<'_, 'a, T> {
    /// The next one, which stays the next one.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<Taken<&'a T>> {
        let op = self.ops.get(self.index)?;
        if !op.status.is_pending() || op.input.len as usize != self.len {
            return None;
        }
        let key = self.keys.state_known(self.index, &mut self.known)?;
        let (input, output, _) = data_of(op, self.arena);
        Some(Taken { key, iv: op.iv, iv_len: op.iv_len.into(), input, output, len: self.len })
    }

    /// Counts the one that was last looked at as done.
    #[inline(always)]
    pub(crate) fn done(&mut self) {
        fetch_soon(self.ops, self.index, self.arena);
        if let Some(op) = self.ops.get_mut(self.index) {
            (op.output_len, op.status) = (op.input.len, OpStatus::Done);
            self.index += 1;
        }
    }
}

impl<T> Drop for Records<'_, '_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let (next, settled) = &mut self.ended;
        **settled += self.index - self.from;
        **next = self.index;
    }
}

/// The key of suites that have none.
pub(crate) struct NoKey;

static NO_KEY: NoKey = NoKey;

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

/// What an authenticated operation has beside its data: bytes that the batch's check has found apart from all that is written
/// but by the operation itself.
#[derive(Clone, Copy)]
pub(crate) struct Beside {
    /// The IV; what lies behind it is anything.
    pub(crate) iv: [u8; IV_LEN_MAX],
    /// Bytes of the IV.
    pub(crate) iv_len: usize,
    /// First byte of the additional data, which are only read.
    pub(crate) aad: *const u8,
    /// Bytes of additional data.
    pub(crate) aad_len: usize,
    /// First byte of the tag.
    pub(crate) tag: *mut u8,
    /// Bytes of the tag.
    pub(crate) tag_len: usize,
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
    /// A group's messages of a chain's cipher step.
    #[cfg(target_arch = "x86_64")]
    pub(crate) chain: crate::chain::ChainScratch,
    /// Messages, lanes and slices of DES.
    pub(crate) des: crate::des::DesScratch,
    /// Transposed numbers of public-key operations.
    pub(crate) room: crate::public::room::Room,
    /// Keys of lattices.
    pub(crate) lattice: crate::public::lattice::Pools,
    /// Operations and idle lanes since the queue was opened.
    pub(crate) occupancy: Occupancy,
}

// SAFETY: items hold pointers into a batch only while `run` works on it; between batches they are never followed.
unsafe impl Send for Scratch {}

impl<'a> Keys<'a> {
    #[inline(always)]
    fn key(&self, index: usize) -> Option<&'a PreparedKey> {
        self.all.get(index & self.mask).copied().flatten()
    }

    /// The words of an operation's key, when it was prepared as such by this engine for this suite.
    #[inline(always)]
    pub(crate) fn words(&self, index: usize) -> Option<&'a [u64; KEY_WORDS]> {
        self.key(index)?.words_for(self.name)
    }

    /// The state of an operation's key, when it was prepared by this engine, for this suite, as a `T`.
    #[inline(always)]
    pub(crate) fn state<T: Any>(&self, index: usize) -> Option<&'a T> {
        if let Some(none) = (&NO_KEY as &dyn Any).downcast_ref::<T>() {
            return Some(none);
        }
        self.key(index)?.state_for(self.name)
    }

    /// As [`Keys::state`], for a type whose states were mostly seen before.
    #[inline(always)]
    fn state_known<T: Any>(&self, index: usize, known: &mut Known<T>) -> Option<&'a T> {
        self.key(index)?.state_known(self.name, known)
    }
}

impl<'a> Work<'a> {
    /// Takes a batch apart.
    pub(crate) fn new<'b: 'a>(batch: &'a mut CheckedBatch<'b>) -> Work<'a> {
        let (suite, direction) = (batch.suite(), batch.direction());
        let (ops, arena, keys) = batch.parts();
        let form = Form::Ops(ops, arena.as_mut_ptr());
        Work { suite, direction, form, settled: 0, keys: Keys { name: suite.into(), all: keys, mask: usize::MAX } }
    }

    /// Of columns; `keys` are one an operation, one for all, or none.
    pub(crate) fn of_columns(
        suite: Suite,
        direction: Direction,
        columns: Columns<'a>,
        keys: &'a [Option<&'a PreparedKey>],
    ) -> Work<'a> {
        let mask = if keys.len() == columns.len() { usize::MAX } else { 0 };
        let keys = Keys { name: suite.into(), all: keys, mask };
        Work { suite, direction, form: Form::Columns(columns), settled: 0, keys }
    }

    /// Fetches this batch's keys.
    pub(crate) fn keys_ahead(&self) -> KeysAhead<'a> {
        let keys = if self.keys.mask == 0 { &[] } else { self.keys.all };
        KeysAhead::of(keys)
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

    /// How many operations there are, pending or not.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match &self.form {
            Form::Ops(ops, _) => ops.len(),
            Form::Columns(columns) => columns.len(),
        }
    }

    /// Whether an operation has not ended yet.
    #[inline(always)]
    pub(crate) fn is_pending(&self, index: usize) -> bool {
        match &self.form {
            Form::Ops(ops, _) => ops[index].status.is_pending(),
            Form::Columns(columns) => columns.is_pending(index),
        }
    }

    /// Asks for what an operation says of itself, which is about to be read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        if let Form::Ops(ops, _) = &self.form {
            prefetch(core::ptr::from_ref(&ops[index]).cast(), For::Reading);
        }
    }

    /// Where an operation's data are read and written, and their bytes.
    #[inline(always)]
    pub(crate) fn data(&self, index: usize) -> (*const u8, *mut u8, u32) {
        match &self.form {
            Form::Ops(ops, arena) => data_of(&ops[index], *arena),
            Form::Columns(columns) => columns.data(index),
        }
    }

    /// Bytes of an operation's data.
    #[inline(always)]
    pub(crate) fn data_len(&self, index: usize) -> u32 {
        match &self.form {
            Form::Ops(ops, _) => ops[index].input.len,
            Form::Columns(columns) => columns.data_len(index),
        }
    }

    /// First byte of an operation's tag.
    #[inline(always)]
    pub(crate) fn tag(&self, index: usize) -> *mut u8 {
        match &self.form {
            // SAFETY: the check has found the offset within the arena.
            Form::Ops(ops, arena) => unsafe { arena.add(ops[index].tag as usize) },
            Form::Columns(columns) => columns.tag(index),
        }
    }

    /// Bytes of an operation's tag.
    #[inline(always)]
    pub(crate) fn tag_len(&self, index: usize) -> usize {
        match &self.form {
            Form::Ops(ops, _) => usize::from(ops[index].tag_len),
            Form::Columns(columns) => columns.tag_len(),
        }
    }

    /// An operation's additional data. They may be shared by many operations; none writes them.
    #[inline(always)]
    pub(crate) fn aad(&self, index: usize) -> &'a [u8] {
        match &self.form {
            Form::Ops(ops, arena) => {
                let aad = ops[index].aad;
                // SAFETY: the check has found the span within the arena and apart from everything that is written; the
                // arena is borrowed for 'a.
                unsafe { core::slice::from_raw_parts(arena.add(aad.offset as usize), usize::from(aad.len)) }
            }
            Form::Columns(columns) => columns.aad(index),
        }
    }

    /// Bytes of an operation's additional data.
    #[inline(always)]
    pub(crate) fn aad_len(&self, index: usize) -> usize {
        match &self.form {
            Form::Ops(ops, _) => usize::from(ops[index].aad.len),
            Form::Columns(columns) => columns.aad(index).len(),
        }
    }

    /// A number that tells one place and length of additional data from another; the low 16 bits are the length.
    #[inline(always)]
    pub(crate) fn aad_name(&self, index: usize) -> u64 {
        match &self.form {
            Form::Ops(ops, _) => u64::from(ops[index].aad.offset) << 16 | u64::from(ops[index].aad.len),
            Form::Columns(columns) => columns.aad_name(index),
        }
    }

    /// What an operation has beside its data: everything at one look.
    #[inline(always)]
    pub(crate) fn beside(&self, index: usize) -> Beside {
        match &self.form {
            Form::Ops(ops, arena) => {
                let op = &ops[index];
                let place = |offset: u32| arena.wrapping_add(offset as usize);
                let (aad, tag) = (place(op.aad.offset), place(op.tag));
                let iv_len = usize::from(op.iv_len).min(IV_LEN_MAX);
                Beside { iv: op.iv, iv_len, aad, aad_len: op.aad.len.into(), tag, tag_len: op.tag_len.into() }
            }
            Form::Columns(columns) => {
                let (iv, aad, tag) = (columns.iv_number(index).to_le_bytes(), columns.aad(index), columns.tag(index));
                let (iv_len, tag_len) = (columns.iv_len(), columns.tag_len());
                Beside { iv, iv_len, aad: aad.as_ptr(), aad_len: aad.len(), tag, tag_len }
            }
        }
    }

    /// An operation's IV; what lies behind it is anything.
    #[inline(always)]
    pub(crate) fn iv_block(&self, index: usize) -> [u8; IV_LEN_MAX] {
        match &self.form {
            // In one piece: a vector that is loaded from two would be waited for.
            Form::Ops(ops, _) => ops[index].iv,
            Form::Columns(columns) => columns.iv_number(index).to_le_bytes(),
        }
    }

    /// The same as a little-endian number. As bytes that become a number it would go through memory in two halves, where the
    /// two forms of a batch meet, and be waited for.
    #[inline(always)]
    pub(crate) fn iv_number(&self, index: usize) -> u128 {
        match &self.form {
            Form::Ops(ops, _) => u128::from_le_bytes(ops[index].iv),
            Form::Columns(columns) => columns.iv_number(index),
        }
    }

    /// Bytes of an operation's IV.
    #[inline(always)]
    pub(crate) fn iv_len(&self, index: usize) -> usize {
        match &self.form {
            Form::Ops(ops, _) => usize::from(ops[index].iv_len).min(IV_LEN_MAX),
            Form::Columns(columns) => columns.iv_len(),
        }
    }

    /// Ends an operation well; its output is as long as its input.
    #[inline(always)]
    pub(crate) fn done(&mut self, index: usize) {
        match &mut self.form {
            Form::Ops(ops, _) => {
                let op = &mut ops[index];
                op.output_len = op.input.len;
                op.status = OpStatus::Done;
            }
            Form::Columns(columns) => columns.end(index, OpStatus::Done),
        }
        self.settled += 1;
    }

    /// Ends an operation well whose output has another length than its input.
    #[inline(always)]
    pub(crate) fn done_with(&mut self, index: usize, output_len: u32) {
        match &mut self.form {
            Form::Ops(ops, _) => {
                let op = &mut ops[index];
                op.output_len = output_len;
                op.status = OpStatus::Done;
            }
            Form::Columns(columns) => columns.end(index, OpStatus::Done),
        }
        self.settled += 1;
    }

    /// An operation's input. An operation in place writes over it when it ends.
    pub(crate) fn input(&self, index: usize) -> &[u8] {
        let (input, _, len) = self.data(index);
        // SAFETY: the check has found the span within its buffer; it is written by this operation alone, which takes `self`
        // mutably.
        unsafe { core::slice::from_raw_parts(input, len as usize) }
    }

    /// The tag that an operation is to verify.
    pub(crate) fn tag_bytes(&self, index: usize) -> &[u8] {
        // SAFETY: as in `input`.
        unsafe { core::slice::from_raw_parts(self.tag(index), self.tag_len(index)) }
    }

    /// Ends an operation well with an output and a tag, either of which may be empty.
    pub(crate) fn finish(&mut self, index: usize, output: &[u8], tag: &[u8]) {
        let (_, place, input_len) = self.data(index);
        let room = self.suite.output_len(self.direction, input_len as usize, 0);
        if output.len() > room || (!tag.is_empty() && tag.len() > self.tag_len(index)) {
            return self.fail(index, OpStatus::EngineFault);
        }
        // SAFETY: the check has found both places within their buffers, as long as the lengths above say, and written by this
        // operation alone; `output` and `tag` are the engine's own memory.
        unsafe {
            core::ptr::copy_nonoverlapping(output.as_ptr(), place, output.len());
            // Room for the longest output is the operation's own: nothing of an input in place is left there.
            core::ptr::write_bytes(place.add(output.len()), 0, room - output.len());
            core::ptr::copy_nonoverlapping(tag.as_ptr(), self.tag(index), tag.len());
        }
        if let Form::Ops(ops, _) = &mut self.form
            && !tag.is_empty()
        {
            ops[index].tag_len = tag.len() as u16;
        }
        self.done_with(index, output.len() as u32);
    }

    /// Ends an operation badly: its output is zeroed.
    #[cold]
    pub(crate) fn fail(&mut self, index: usize, status: OpStatus) {
        let (_, output, input_len) = self.data(index);
        let room = match &self.form {
            Form::Ops(ops, _) => ops[index].output_len as usize,
            Form::Columns(_) => 0,
        };
        let len = self.suite.output_len(self.direction, input_len as usize, room);
        // SAFETY: the check has found the output's span within its buffer, written by this operation alone.
        unsafe { core::ptr::write_bytes(output, 0, len) };
        match &mut self.form {
            Form::Ops(ops, _) => (ops[index].output_len, ops[index].status) = (0, status),
            Form::Columns(columns) => columns.end(index, status),
        }
        self.settled += 1;
    }

    /// The next pending operation from index `*next` on, which moves behind it. Operations whose key is not a `T` of
    /// this suite fail here. `None` when there is no other.
    #[inline(always)]
    pub(crate) fn take<T: Any>(&mut self, next: &mut usize) -> Option<Item> {
        loop {
            let index = *next;
            // One look at the form and one at an operation: this is paid for every operation.
            let data = match &self.form {
                Form::Ops(ops, arena) => {
                    let op = ops.get(index)?;
                    fetch_soon(ops, index, *arena);
                    op.status.is_pending().then(|| data_of(op, *arena))
                }
                Form::Columns(columns) if index < columns.len() => {
                    columns.is_pending(index).then(|| columns.data(index))
                }
                Form::Columns(_) => return None,
            };
            *next += 1;
            let Some((input, output, len)) = data else { continue };
            let Some(key) = self.keys.state::<T>(index) else {
                self.fail(index, OpStatus::EngineFault);
                continue;
            };
            // A batch has fewer operations than 2^32.
            return Some(Item { input, output, key: core::ptr::from_ref(key).cast(), len, op: index as u32 });
        }
    }

    /// The state of the key of an operation that is taken later, for whoever fetches of it what he will need; none where all operations have
    /// one key, or there is no such operation.
    #[inline(always)]
    pub(crate) fn state_later<T: Any>(&self, index: usize) -> Option<&'a T> {
        let key = self.keys.all.get(index).filter(|_| self.keys.mask != 0);
        (*key?)?.state_for(self.keys.name)
    }

    /// As [`Work::take`], for whoever asks for an operation's places by its index: index and key.
    pub(crate) fn take_keyed<T: Any>(&mut self, next: &mut usize) -> Option<(usize, &'a T)> {
        while *next < self.len() {
            let index = *next;
            *next += 1;
            if !self.is_pending(index) {
                continue;
            }
            match self.keys.state::<T>(index) {
                Some(key) => return Some((index, key)),
                None => self.fail(index, OpStatus::EngineFault),
            }
        }
        None
    }

    /// The next pending operation from index `*next` on, which moves behind it, for whoever can no longer fail: it counts as
    /// done. Operations without a `key` fail here. `None` when there is no other. `FETCH` is for whoever does not fetch data
    /// by himself.
    #[inline(always)]
    pub(crate) fn take_done<K, const FETCH: bool>(
        &mut self,
        next: &mut usize,
        mut key: impl FnMut(&Keys<'a>, usize) -> Option<K>,
    ) -> Option<Taken<K>> {
        loop {
            let index = *next;
            let taken = match &mut self.form {
                Form::Ops(ops, arena) => {
                    if FETCH {
                        fetch_soon(ops, index, *arena);
                    }
                    let op = ops.get_mut(index)?;
                    *next = index + 1;
                    if !op.status.is_pending() {
                        continue;
                    }
                    key(&self.keys, index).map(|key| {
                        let (input, output, len) = data_of(op, *arena);
                        (op.output_len, op.status) = (len, OpStatus::Done);
                        Taken { key, iv: op.iv, iv_len: op.iv_len.into(), input, output, len: len as usize }
                    })
                }
                Form::Columns(columns) => {
                    if index >= columns.len() {
                        return None;
                    }
                    *next = index + 1;
                    if !columns.is_pending(index) {
                        continue;
                    }
                    key(&self.keys, index).map(|key| {
                        let (input, output, len) = columns.data(index);
                        columns.end(index, OpStatus::Done);
                        let (iv, iv_len) = (columns.iv_number(index).to_le_bytes(), columns.iv_len());
                        Taken { key, iv, iv_len, input, output, len: len as usize }
                    })
                }
            };
            match taken {
                Some(taken) => {
                    self.settled += 1;
                    return Some(taken);
                }
                None => self.fail(index, OpStatus::EngineFault),
            }
        }
    }

    /// Bytes of the record at `next`, where [`Work::records`] is of use.
    #[inline(always)]
    pub(crate) fn next_len(&self, next: usize) -> Option<usize> {
        match &self.form {
            // One alone is run as quickly without.
            Form::Ops(ops, _) if ops.len() > 1 => ops.get(next).map(|op| op.input.len as usize),
            _ => None,
        }
    }

    /// The records from index `*next` on, as long as they have `len` bytes; it moves behind them.
    #[inline(always)]
    pub(crate) fn records<'w, T: Any>(&'w mut self, next: &'w mut usize, len: usize) -> Records<'w, 'a, T> {
        let from = *next;
        let (ops, arena) = match &mut self.form {
            Form::Ops(ops, arena) => (&mut **ops, *arena),
            Form::Columns(_) => (Default::default(), core::ptr::null_mut()),
        };
        let ended = (next, &mut self.settled);
        Records { ops, arena, keys: self.keys, known: Known::default(), len, index: from, from, ended }
    }

    /// Collects the next pending operations, `WINDOW_OPS` at most, into `items`, from index `*next` on, which moves
    /// behind them. Operations whose key is not a `T` of this suite fail here. Returns whether there are any.
    pub(crate) fn collect<T: Any>(&mut self, next: &mut usize, items: &mut Vec<Item>) -> bool {
        items.clear();
        self.collect_up_to::<T>(WINDOW_OPS, next, items);
        !items.is_empty()
    }

    /// As [`Work::collect`], behind the items that are there, until there are `count`.
    // Within kernels it would take registers from what they do.
    #[inline(never)]
    fn collect_up_to<T: Any>(&mut self, count: usize, next: &mut usize, items: &mut Vec<Item>) {
        while items.len() < count {
            let Some(item) = self.take::<T>(next) else { return };
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
mod tests;
