//! Buffers between two inaccessible pages.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::map::{Mapping, page_len, whole_pages};
use crate::{MemoryError, wipe};

/// Longest guarded buffer, in bytes.
pub const GUARDED_MAX: usize = u32::MAX as usize;

/// What the unused bytes of the open pages hold, so that a write into them is noticed.
const SLACK: u8 = 0xdb;

/// Which of the two guard pages the data touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// The last byte lies right before the trailing guard page: reads and writes past the end die. The first byte
    /// then has whatever alignment the length leaves.
    End,
    /// The first byte lies right behind the leading guard page: reads and writes before the start die. The first byte
    /// is aligned to a page.
    Start,
}

/// A zeroed buffer with an inaccessible page on both sides, for tests of engines and for staging secrets.
///
/// An access across the guarded end is a `SIGSEGV` at the faulting instruction. On the other side up to a page of slack
/// is left; [`GuardedBuf::slack_is_intact`] says whether somebody wrote there. The pages stay out of core dumps and the
/// data is wiped on drop. Every buffer costs two system calls and three pages or more: not for use per operation.
pub struct GuardedBuf {
    mapping: Mapping,
    data: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its pages and reaches them through `&self` and `&mut self` alone, as a `Box<[u8]>` would.
unsafe impl Send for GuardedBuf {}
// SAFETY: as above: through `&self` the bytes can only be read.
unsafe impl Sync for GuardedBuf {}

impl GuardedBuf {
    /// A zeroed buffer of `len` bytes, at most [`GUARDED_MAX`], flush against the guard page that `align` names.
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`], or [`MemoryError::Os`] when the pages cannot be mapped, protected or kept out of
    /// core dumps.
    pub fn new(len: usize, align: Align) -> Result<Self, MemoryError> {
        let too_large = MemoryError::TooLarge {
            what: "guarded buffer",
            limit_name: "GUARDED_MAX",
            limit: GUARDED_MAX as u64,
            asked: len as u64,
        };
        if len > GUARDED_MAX {
            return Err(too_large);
        }
        let page = page_len();
        let open_len = whole_pages(len).ok_or(too_large)?;
        let mapping = Mapping::anonymous(open_len + 2 * page, libc::PROT_NONE)?;
        mapping.exclude_from_dumps()?;
        if open_len > 0 {
            mapping.open(page, open_len)?;
        }
        let slack_len = open_len - len;
        let (data_at, slack_at) = match align {
            Align::End => (page + slack_len, page),
            Align::Start => (page, page + len),
        };
        // SAFETY: both offsets lie in `page..=page + open_len`, so within the mapping of `open_len + 2 * page` bytes; the
        // slack ends at `slack_at + slack_len <= page + open_len`, within the pages opened above.
        let data = unsafe {
            mapping.start().add(slack_at).write_bytes(SLACK, slack_len);
            mapping.start().add(data_at)
        };
        Ok(Self { mapping, data, len })
    }

    /// A buffer that holds a copy of `bytes`.
    ///
    /// # Errors
    ///
    /// As [`GuardedBuf::new`].
    pub fn from_slice(bytes: &[u8], align: Align) -> Result<Self, MemoryError> {
        let mut buf = Self::new(bytes.len(), align)?;
        buf.copy_from_slice(bytes);
        Ok(buf)
    }

    /// Locks the pages in RAM, for staging secrets.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Os`] when the kernel refuses, mostly for `RLIMIT_MEMLOCK`; the buffer stays usable.
    pub fn lock(&mut self) -> Result<(), MemoryError> {
        // The guard pages cannot be populated, so only the open ones are locked.
        let page = page_len();
        let open_len = self.mapping.len() - 2 * page;
        // SAFETY: the open pages lie behind the first guard page and within the mapping; locking changes no content.
        let answer = unsafe { libc::mlock(self.mapping.start().as_ptr().add(page).cast(), open_len) };
        if answer == 0 { Ok(()) } else { Err(MemoryError::last_os("mlock")) }
    }

    /// Whether nobody wrote into the unused bytes of the open pages, on the side that the guard page does not protect.
    pub fn slack_is_intact(&self) -> bool {
        let page = page_len();
        let open = self.mapping.start().as_ptr().wrapping_add(page);
        let open_len = self.mapping.len() - 2 * page;
        let before_len = self.data.as_ptr() as usize - open as usize;
        let after_len = open_len - before_len - self.len;
        // SAFETY: the data lies within the open pages (see `new`); what lies before and behind it there was written in `new`,
        // is readable, and no safe reference to it exists.
        let (before, after) = unsafe {
            (
                core::slice::from_raw_parts(open, before_len),
                core::slice::from_raw_parts(self.data.as_ptr().add(self.len), after_len),
            )
        };
        before.iter().chain(after).all(|&byte| byte == SLACK)
    }
}

impl Deref for GuardedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `data` points to `len` bytes of the pages that `new` opened; they began as zeros and live as long as self.
        unsafe { core::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for GuardedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl fmt::Debug for GuardedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for GuardedBuf {
    fn drop(&mut self) {
        wipe(self);
    }
}
