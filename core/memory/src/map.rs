//! One owner for a range of mapped pages: the only place here that calls `mmap`.

use core::ptr::{self, NonNull};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use crate::MemoryError;

/// Bytes in a page of this machine.
pub(crate) fn page_len() -> usize {
    static PAGE_LEN: OnceLock<usize> = OnceLock::new();
    *PAGE_LEN.get_or_init(|| {
        // SAFETY: sysconf takes no pointer and has no precondition.
        let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(answer).ok().filter(|len| len.is_power_of_two()).unwrap_or(4096)
    })
}

/// `len` rounded up to whole pages, or `None` where that overflows.
pub(crate) fn whole_pages(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(page_len())
}

/// Bytes from which on huge pages are worth asking for.
const HUGE_FROM: usize = 4 << 20;

/// Asks the kernel to back memory that is still to be written with huge pages: writing 60 MB for the first time takes
/// half the time then. Small memory is left as it is, and so is all where the kernel does not know of huge pages.
pub fn prefer_huge_pages(memory: &mut [u8]) {
    if memory.len() < HUGE_FROM {
        return;
    }
    let start = memory.as_mut_ptr();
    let head = start.align_offset(page_len());
    let len = memory.len().saturating_sub(head) / page_len() * page_len();
    // SAFETY: whole pages of memory that the caller has for itself; the advice changes no byte of them.
    let _ = unsafe { libc::madvise(start.add(head.min(memory.len())).cast(), len, libc::MADV_HUGEPAGE) };
}

/// A range of mapped pages, unmapped on drop. It hands out only a raw pointer; the owner answers for aliasing.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; `Mapping` itself never touches the bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above; the shared methods make system calls that the kernel serialises, and touch no bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private zero pages with the protection `prot`. `len` is rounded up to pages and must not be zero.
    pub(crate) fn anonymous(len: usize, prot: libc::c_int) -> Result<Self, MemoryError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::map(len, prot, flags, -1)
    }

    /// The first `len` bytes of `file`, readable, writable and shared with whoever else maps it.
    pub(crate) fn shared(file: BorrowedFd<'_>, len: usize) -> Result<Self, MemoryError> {
        Self::map(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(len: usize, prot: libc::c_int, flags: libc::c_int, fd: libc::c_int) -> Result<Self, MemoryError> {
        let out_of_memory = MemoryError::OutOfMemory { what: "mapping", asked: len as u64 };
        let len = whole_pages(len).ok_or(out_of_memory)?;
        // SAFETY: the address is null and MAP_FIXED is not set, so the kernel picks a range that nothing uses.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(MemoryError::last_os("mmap"));
        }
        let start = NonNull::new(start.cast()).ok_or(MemoryError::Os { call: "mmap", errno: libc::EFAULT })?;
        Ok(Self { start, len })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes, whole pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes the pages from `offset` on readable and writable. Both figures are whole pages within the mapping.
    pub(crate) fn open(&self, offset: usize, len: usize) -> Result<(), MemoryError> {
        assert!(offset <= self.len && len <= self.len - offset, "pages outside of the mapping");
        // SAFETY: the assertion above keeps the range within this mapping, and opening pages takes nothing from
        // anyone who may already read or write them.
        let answer =
            unsafe { libc::mprotect(self.start.as_ptr().add(offset).cast(), len, libc::PROT_READ | libc::PROT_WRITE) };
        if answer == 0 { Ok(()) } else { Err(MemoryError::last_os("mprotect")) }
    }

    /// Keeps the pages out of core dumps.
    pub(crate) fn exclude_from_dumps(&self) -> Result<(), MemoryError> {
        self.advise(libc::MADV_DONTDUMP)
    }

    /// Keeps the pages out of children: one that touches them after `fork` dies instead of reading anything.
    pub(crate) fn exclude_from_forks(&self) -> Result<(), MemoryError> {
        self.advise(libc::MADV_DONTFORK)
    }

    fn advise(&self, advice: libc::c_int) -> Result<(), MemoryError> {
        debug_assert!([libc::MADV_DONTDUMP, libc::MADV_DONTFORK].contains(&advice));
        // SAFETY: the range is this mapping, and the two pieces of advice that are given here leave its content alone.
        let answer = unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, advice) };
        if answer == 0 { Ok(()) } else { Err(MemoryError::last_os("madvise")) }
    }

    /// Locks the pages in RAM, so that they are never written to swap. Refused beyond `RLIMIT_MEMLOCK`.
    pub(crate) fn lock(&self) -> Result<(), MemoryError> {
        // SAFETY: the range is this mapping; locking changes no content.
        let answer = unsafe { libc::mlock(self.start.as_ptr().cast(), self.len) };
        if answer == 0 { Ok(()) } else { Err(MemoryError::last_os("mlock")) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value is the one owner of the range and is going away; owners give out no slice that outlives it.
        let answer = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(answer, 0, "munmap of an owned range");
    }
}
