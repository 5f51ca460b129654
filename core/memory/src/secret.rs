//! Memory for key material: pooled, locked, out of core dumps and children, wiped.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::map::Mapping;
use crate::{MemoryError, wipe};

/// Longest single secret, in bytes.
pub const SECRET_MAX: usize = 64 << 20;

/// The smallest block; also the alignment of secrets that fit one. Two share a cache line, none straddles one.
const BLOCK_MIN: usize = 32;
/// The largest block; longer secrets get pages of their own.
const BLOCK_MAX: usize = 8 << 10;
/// One class for each power of two from [`BLOCK_MIN`] to [`BLOCK_MAX`].
const CLASSES: usize = (BLOCK_MAX.ilog2() - BLOCK_MIN.ilog2() + 1) as usize;
/// What a class takes from a chunk at a time, so that a rarely used class does not hold a chunk of its own.
const RUN_LEN: usize = 64 << 10;
/// What the pool takes from the kernel, and locks, at a time.
const CHUNK_LEN: usize = 1 << 20;

const _: () = assert!(CHUNK_LEN.is_multiple_of(RUN_LEN) && RUN_LEN.is_multiple_of(BLOCK_MAX));

/// How much of the secrets' memory is really protected. The kernel may refuse to lock pages (`RLIMIT_MEMLOCK`); the
/// memory is used all the same, and whoever opens a mill decides by this report whether that will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockReport {
    /// Bytes of mapped secret memory that are locked in RAM.
    pub locked_bytes: usize,
    /// Bytes that the kernel refused to lock: they may be written to swap.
    pub unlocked_bytes: usize,
    /// Whether every page so far was kept out of core dumps.
    pub dontdump: bool,
    /// Whether every page so far was kept out of forked children.
    pub dontfork: bool,
}

/// The pool of this process, once there is one. A forked child has none: the parent's free blocks are on pages that it was
/// not given.
static GLOBAL: AtomicPtr<SecretPool> = AtomicPtr::new(core::ptr::null_mut());

/// The allocator behind [`SecretBytes`].
///
/// Secrets of up to 8 KiB come from chunks of 1 MiB that are locked and excluded from core dumps once, when they are
/// mapped, so that a short key costs no system call. Blocks are powers of two from 32 bytes on. Every free block is
/// zero: a fresh page is, and a block is wiped before it comes back. Chunks are kept until the process ends.
///
/// The pages are *not* given to forked children: a child that touches a key of its parent, or drops it, dies by `SIGSEGV`,
/// rather than finding zeros and enciphering under them. Keys of its own it may have: it begins with a pool of its own.
pub struct SecretPool {
    classes: [Mutex<Class>; CLASSES],
    chunks: Mutex<Chunks>,
    /// Secrets beyond [`BLOCK_MAX`] by their address, and whether their pages are locked.
    large: Mutex<HashMap<usize, (Mapping, bool)>>,
    locked_bytes: AtomicUsize,
    unlocked_bytes: AtomicUsize,
    dontdump: AtomicBool,
    dontfork: AtomicBool,
}

/// A free block: zero, and referred to by nothing else.
struct Block(NonNull<u8>);

// SAFETY: a block is plain memory that belongs to whoever holds the value; nothing about it is tied to a thread.
unsafe impl Send for Block {}

/// The blocks of one size.
#[derive(Default)]
struct Class {
    free: Vec<Block>,
    /// Blocks that were ever carved; the free list has room for all of them, so that freeing never allocates.
    carved: usize,
    run: Run,
}

/// A piece of a chunk that is still to be carved.
struct Run {
    next: Block,
    left: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self { next: Block(NonNull::dangling()), left: 0 }
    }
}

#[derive(Default)]
struct Chunks {
    mappings: Vec<Mapping>,
    /// Bytes already given out of the last mapping.
    used: usize,
}

impl SecretPool {
    /// The pool of this process.
    pub fn global() -> &'static Self {
        let pool = GLOBAL.load(Ordering::Acquire);
        // SAFETY: what is not null was leaked below, and stays.
        unsafe { pool.as_ref() }.unwrap_or_else(Self::begin)
    }

    /// Makes the pool of this process, unless another thread has just done so.
    #[cold]
    fn begin() -> &'static Self {
        extern "C" fn forget() {
            GLOBAL.store(core::ptr::null_mut(), Ordering::Release);
        }
        static AT_FORK: Once = Once::new();
        // SAFETY: the handler stores one pointer, which every state of a forked child allows.
        AT_FORK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(forget));
        });
        let new = Box::into_raw(Box::new(Self::new()));
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match GLOBAL.compare_exchange(core::ptr::null_mut(), new, order.0, order.1) {
            // SAFETY: it was leaked just now, here or by another thread.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `global`.
                unsafe { &*other }
            }
        }
    }

    /// How much memory the pool has mapped so far and how well it is protected.
    pub fn report(&self) -> LockReport {
        LockReport {
            locked_bytes: self.locked_bytes.load(Ordering::Relaxed),
            unlocked_bytes: self.unlocked_bytes.load(Ordering::Relaxed),
            dontdump: self.dontdump.load(Ordering::Relaxed),
            dontfork: self.dontfork.load(Ordering::Relaxed),
        }
    }

    fn new() -> Self {
        Self {
            classes: core::array::from_fn(|_| Mutex::default()),
            chunks: Mutex::default(),
            large: Mutex::default(),
            locked_bytes: AtomicUsize::new(0),
            unlocked_bytes: AtomicUsize::new(0),
            dontdump: AtomicBool::new(true),
            dontfork: AtomicBool::new(true),
        }
    }

    /// Zeroed memory of at least `len` bytes, which must not be zero.
    fn allocate(&self, len: usize) -> Result<Block, MemoryError> {
        if len > BLOCK_MAX {
            return self.allocate_large(len);
        }
        let (class_at, block_len) = class_of(len);
        let mut class = hold(&self.classes[class_at]);
        if let Some(block) = class.free.pop() {
            return Ok(block);
        }
        if class.run.left == 0 {
            let count = RUN_LEN / block_len;
            // `free` is empty here, so this makes room for every block that there is and will be after this run.
            let room = class.carved + count;
            class
                .free
                .try_reserve(room)
                .map_err(|_| MemoryError::OutOfMemory { what: "secret pool", asked: room as u64 })?;
            class.run = self.take_run()?;
            class.carved = room;
        }
        let block = class.run.next.0;
        // SAFETY: `left` is a multiple of the block length that is not zero, so the next block, or the end, lies within
        // the run or one past it.
        class.run.next = Block(unsafe { block.add(block_len) });
        class.run.left -= block_len;
        Ok(Block(block))
    }

    /// Wipes the memory and takes it back.
    ///
    /// # Safety
    ///
    /// `block` came from [`SecretPool::allocate`] of this very pool with the same `len`, and nothing refers to it.
    unsafe fn release(&self, block: Block, len: usize) {
        let wiped_len = if len > BLOCK_MAX { len } else { class_of(len).1 };
        // SAFETY: the caller hands over a block of this pool that nothing refers to; `allocate` made it at least this long.
        wipe(unsafe { core::slice::from_raw_parts_mut(block.0.as_ptr(), wiped_len) });
        if len > BLOCK_MAX {
            let freed = hold(&self.large).remove(&(block.0.as_ptr() as usize));
            debug_assert!(freed.is_some(), "a large secret is in the table until it is released");
            if let Some((mapping, locked)) = freed {
                self.counter(locked).fetch_sub(mapping.len(), Ordering::Relaxed);
            }
            return;
        }
        hold(&self.classes[class_of(len).0]).free.push(block);
    }

    fn allocate_large(&self, len: usize) -> Result<Block, MemoryError> {
        if len > SECRET_MAX {
            return Err(MemoryError::TooLarge {
                what: "secret",
                limit_name: "SECRET_MAX",
                limit: SECRET_MAX as u64,
                asked: len as u64,
            });
        }
        let (mapping, locked) = self.map_protected(len)?;
        let start = mapping.start();
        hold(&self.large).insert(start.as_ptr() as usize, (mapping, locked));
        Ok(Block(start))
    }

    fn take_run(&self) -> Result<Run, MemoryError> {
        let mut chunks = hold(&self.chunks);
        if chunks.mappings.is_empty() || chunks.used == CHUNK_LEN {
            let (mapping, _) = self.map_protected(CHUNK_LEN)?;
            chunks.mappings.push(mapping);
            chunks.used = 0;
        }
        let at = chunks.used;
        chunks.used += RUN_LEN;
        let start = chunks.mappings[chunks.mappings.len() - 1].start();
        // SAFETY: `at` was below CHUNK_LEN and grows by RUN_LEN, a divisor of it, so the run lies within the last chunk and
        // was never given out before.
        let next = Block(unsafe { start.add(at) });
        Ok(Run { next, left: RUN_LEN })
    }

    /// Fresh zero pages with every protection that the kernel grants, entered into the report; and whether they are
    /// locked.
    fn map_protected(&self, len: usize) -> Result<(Mapping, bool), MemoryError> {
        let mapping = Mapping::anonymous(len, libc::PROT_READ | libc::PROT_WRITE)?;
        if mapping.exclude_from_dumps().is_err() {
            self.dontdump.store(false, Ordering::Relaxed);
        }
        if mapping.exclude_from_forks().is_err() {
            self.dontfork.store(false, Ordering::Relaxed);
        }
        let locked = mapping.lock().is_ok();
        self.counter(locked).fetch_add(mapping.len(), Ordering::Relaxed);
        Ok((mapping, locked))
    }

    fn counter(&self, locked: bool) -> &AtomicUsize {
        if locked { &self.locked_bytes } else { &self.unlocked_bytes }
    }
}

impl fmt::Debug for SecretPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretPool").field("report", &self.report()).finish_non_exhaustive()
    }
}

/// Class and block length for a secret of `len` bytes, at most [`BLOCK_MAX`].
fn class_of(len: usize) -> (usize, usize) {
    let block_len = len.next_power_of_two().max(BLOCK_MIN);
    ((block_len.ilog2() - BLOCK_MIN.ilog2()) as usize, block_len)
}

/// Takes a lock of the pool. Nothing panics while one is held, short of the allocator giving up; the lists are then still
/// whole, so a poisoned lock is taken as it is.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of key material on the heap: locked in RAM, out of core dumps, wiped on drop.
///
/// Aligned to 64 bytes; secrets of at most 32 bytes are aligned to 32, so that two share a cache line. The length is fixed.
/// `Debug` shows the length alone; there is deliberately no `PartialEq` (compare in constant time) and no `Clone`
/// (a copy can fail, see [`SecretBytes::try_clone`]).
pub struct SecretBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes belong to this value alone and are reached through `&self` and `&mut self`, as with a `Box<[u8]>`.
unsafe impl Send for SecretBytes {}
// SAFETY: as above: through `&self` the bytes can only be read.
unsafe impl Sync for SecretBytes {}

impl SecretBytes {
    /// `len` zero bytes, at most [`SECRET_MAX`].
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`], or [`MemoryError::Os`] and [`MemoryError::OutOfMemory`] when the system has no more.
    /// A refusal to *lock* the memory is no error here; it is told by [`SecretPool::report`].
    pub fn zeroed(len: usize) -> Result<Self, MemoryError> {
        let start = if len == 0 { NonNull::dangling() } else { SecretPool::global().allocate(len)?.0 };
        Ok(Self { start, len })
    }

    /// A copy of `bytes`. The caller still has to wipe the original.
    ///
    /// # Errors
    ///
    /// As [`SecretBytes::zeroed`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, MemoryError> {
        let mut secret = Self::zeroed(bytes.len())?;
        secret.copy_from_slice(bytes);
        Ok(secret)
    }

    /// A second copy, wiped on its own.
    ///
    /// # Errors
    ///
    /// As [`SecretBytes::zeroed`].
    pub fn try_clone(&self) -> Result<Self, MemoryError> {
        Self::from_slice(self)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` points to a block of at least `len` initialised bytes that this value owns, or `len` is zero.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Deref for SecretBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for SecretBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl AsRef<[u8]> for SecretBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Zeroize for SecretBytes {
    /// Overwrites the bytes with zeros; the length stays.
    fn zeroize(&mut self) {
        wipe(self);
    }
}

impl ZeroizeOnDrop for SecretBytes {}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `zeroed` took the block from the global pool with this length, and this value, its one owner, is
            // going away.
            unsafe { SecretPool::global().release(Block(self.start), self.len) }
        }
    }
}

/// Forbids core dumps of this process and tracing by its user: a core size limit of zero, and not dumpable. To be called
/// by programs that hold keys, before they hold any.
///
/// # Errors
///
/// [`MemoryError::Os`] naming the call that the kernel refused; what came before it stays in force.
pub fn protect_process() -> Result<(), MemoryError> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit that the call only reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) } != 0 {
        return Err(MemoryError::last_os("setrlimit"));
    }
    let unused: libc::c_ulong = 0;
    // SAFETY: PR_SET_DUMPABLE takes one integer and no pointer.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, unused, unused, unused, unused) } != 0 {
        return Err(MemoryError::last_os("prctl"));
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Reads a block after it was given back; the pool keeps its chunks mapped, so the address stays readable.
    fn residue(start: NonNull<u8>, len: usize) -> Vec<u8> {
        // SAFETY: callers pass a block of a chunk, which stays mapped, and see to it that no one else uses its class.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }.to_vec()
    }

    #[test]
    fn classes_hold_their_lengths() {
        for len in 1..=BLOCK_MAX {
            let (class, block_len) = class_of(len);
            assert!(block_len >= len, "{len}");
            assert!(block_len == BLOCK_MIN || block_len / 2 < len, "{len}");
            assert_eq!(BLOCK_MIN << class, block_len);
            assert!(class < CLASSES);
        }
        assert_eq!(class_of(BLOCK_MAX).0, CLASSES - 1);
    }

    #[test]
    fn a_released_block_is_zero_and_is_used_again() {
        let pool = SecretPool::new();
        for len in [1, 16, 31, 32, 33, 64, 65, 1000, BLOCK_MAX] {
            let Block(start) = pool.allocate(len).unwrap();
            // SAFETY: the block is `len` bytes long and ours.
            unsafe { start.write_bytes(0x5a, len) };
            assert_eq!(residue(start, len), vec![0x5a; len]);
            // SAFETY: the block came from this pool with this length and is not used afterwards.
            unsafe { pool.release(Block(start), len) };
            assert_eq!(residue(start, len), vec![0; len], "{len} bytes");
            let Block(again) = pool.allocate(len).unwrap();
            assert_eq!(again, start, "the free list is used before fresh memory");
            // SAFETY: as above.
            unsafe { pool.release(Block(again), len) };
        }
    }

    #[test]
    fn dropping_a_secret_leaves_no_residue() {
        // No other test of this program uses the class of 2048 bytes, so the block is not taken meanwhile.
        let mut secret = SecretBytes::from_slice(&[0xc3; 1500]).unwrap();
        secret[1499] = 0x7e;
        let start = secret.start;
        assert_eq!(residue(start, 1500)[1498..], [0xc3, 0x7e]);
        drop(secret);
        assert_eq!(residue(start, 2048), vec![0; 2048]);
    }

    #[test]
    fn blocks_never_overlap_and_are_aligned() {
        let pool = SecretPool::new();
        let mut ranges = Vec::new();
        for round in 0..3000_usize {
            let len = [16, 32, 48, 64, 200, 8192][round % 6];
            let Block(start) = pool.allocate(len).unwrap();
            let start = start.as_ptr() as usize;
            assert!(start.is_multiple_of(if len <= 32 { 32 } else { 64 }));
            ranges.push((start, start + class_of(len).1));
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        let mapped = hold(&pool.chunks).mappings.len() * CHUNK_LEN;
        let report = pool.report();
        assert_eq!(report.locked_bytes + report.unlocked_bytes, mapped);
        assert!(mapped > CHUNK_LEN, "the pool grew");
    }

    #[test]
    fn large_secrets_are_counted_and_given_back() {
        let pool = SecretPool::new();
        let len = BLOCK_MAX + 1;
        let block = pool.allocate(len).unwrap();
        let report = pool.report();
        assert!(report.locked_bytes + report.unlocked_bytes >= len);
        // SAFETY: the block came from this pool with this length and is not used afterwards.
        unsafe { pool.release(block, len) };
        let report = pool.report();
        assert_eq!(report.locked_bytes + report.unlocked_bytes, 0);
        assert!(hold(&pool.large).is_empty());
    }
}
