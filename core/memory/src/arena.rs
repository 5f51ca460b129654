//! Arenas: the one buffer that a batch's inputs and outputs lie in.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::map::Mapping;
use crate::{MemoryError, wipe};

/// Largest arena, in bytes: offsets and lengths in operations are 32 bits wide.
pub const ARENA_MAX: usize = u32::MAX as usize;

/// Alignment of an arena's first byte, in bytes: a cache line, and the widest vector register.
const ARENA_ALIGN: usize = 64;

/// From this length on a heap arena is mapped on its own: pages come zeroed and only when they are touched, where the
/// allocator would have to write all of them, and they can be kept out of core dumps.
const MAP_FROM: usize = 128 << 10;

/// Whether an arena is overwritten before its memory goes back to the system.
///
/// Wiping costs one `memset` of the whole arena, and so also makes pages real that nobody ever touched: a large arena that
/// was hardly used becomes more expensive to drop than it was to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wipe {
    /// Overwrite with zeros on drop. The default.
    Yes,
    /// Leave the content: for arenas that hold nothing secret, such as benchmark data.
    No,
}

/// One buffer of up to [`ARENA_MAX`] bytes, zeroed at first, aligned to 64 bytes, of fixed size.
///
/// Operations refer to it by offset, so that it can be given to a device. On drop it is wiped, see [`Wipe`]. Large arenas
/// are mapped and stay out of core dumps; small ones share pages with the rest of the heap and do not.
pub struct Arena {
    start: NonNull<u8>,
    len: usize,
    backing: Backing,
    on_drop: Wipe,
}

enum Backing {
    /// No memory at all: the arena has length zero.
    Empty,
    Heap(Layout),
    Mapped(#[expect(dead_code, reason = "held for its drop")] Mapping),
}

// SAFETY: the arena owns its memory and reaches it through `&self` and `&mut self` alone, as a `Box<[u8]>` would.
unsafe impl Send for Arena {}
// SAFETY: as above: through `&self` the bytes can only be read.
unsafe impl Sync for Arena {}

impl Arena {
    /// A zeroed arena of this process alone.
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`] beyond [`ARENA_MAX`]; [`MemoryError::OutOfMemory`] or [`MemoryError::Os`] when the system has no
    /// more.
    pub fn heap(len: usize) -> Result<Self, MemoryError> {
        check_len("arena", len)?;
        if len >= MAP_FROM {
            let mapping = Mapping::anonymous(len, libc::PROT_READ | libc::PROT_WRITE)?;
            mapping.exclude_from_dumps()?;
            let start = mapping.start();
            return Ok(Self { start, len, backing: Backing::Mapped(mapping), on_drop: Wipe::Yes });
        }
        if len == 0 {
            return Ok(Self { start: dangling(), len, backing: Backing::Empty, on_drop: Wipe::Yes });
        }
        let out_of_memory = MemoryError::OutOfMemory { what: "arena", asked: len as u64 };
        let Ok(layout) = Layout::from_size_align(len, ARENA_ALIGN) else {
            return Err(out_of_memory);
        };
        // SAFETY: the layout's size is not zero, by the check above.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(out_of_memory)?;
        Ok(Self { start, len, backing: Backing::Heap(layout), on_drop: Wipe::Yes })
    }

    /// The same arena, wiped on drop or not.
    #[must_use]
    pub fn with_wipe(mut self, on_drop: Wipe) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the arena has length zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Deref for Arena {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that live as long as `self`: an allocation, or a mapping at least
        // as long (rounded up to pages); or `len` is zero. Nobody writes to them meanwhile: the memory is private.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Arena {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive within this process.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backing = match self.backing {
            Backing::Empty => "empty",
            Backing::Heap(_) => "heap",
            Backing::Mapped(_) => "mapped",
        };
        let mut out = f.debug_struct("Arena");
        out.field("len", &self.len).field("backing", &backing).field("on_drop", &self.on_drop);
        out.finish_non_exhaustive()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.on_drop == Wipe::Yes {
            wipe(self);
        }
        if let Backing::Heap(layout) = self.backing {
            // SAFETY: `heap` allocated `start` with this layout, and no slice of it outlives `self`.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Refuses what operations could not refer to.
pub(crate) fn check_len(what: &'static str, len: usize) -> Result<(), MemoryError> {
    if len <= ARENA_MAX {
        return Ok(());
    }
    Err(MemoryError::TooLarge { what, limit_name: "ARENA_MAX", limit: ARENA_MAX as u64, asked: len as u64 })
}

/// A pointer for arenas without bytes, aligned as all arenas are.
fn dangling() -> NonNull<u8> {
    #[repr(align(64))]
    struct Line;
    const _: () = assert!(align_of::<Line>() == ARENA_ALIGN);
    NonNull::<Line>::dangling().cast()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::Region;

    #[test]
    fn what_was_in_an_arena_is_wiped_on_drop_unless_told_otherwise() {
        let len = 5000;
        for (on_drop, left) in [(Wipe::Yes, 0), (Wipe::No, 0x42)] {
            // Memory that is gone cannot be looked at, so the arena lies in a file that stays.
            let region = Region::create("wiped", len).expect("memory");
            let mapping = Mapping::shared(region.file(), len).expect("mapped");
            let start = mapping.start();
            let mut arena = Arena { start, len, backing: Backing::Mapped(mapping), on_drop: Wipe::Yes };
            arena.fill(0x42);
            drop(arena.with_wipe(on_drop));
            let file = File::from(region.file().try_clone_to_owned().expect("a descriptor"));
            let mut residue = vec![1; len];
            file.read_exact_at(&mut residue, 0).expect("read");
            assert_eq!(residue, vec![left; len], "{on_drop:?}");
        }
    }
}
