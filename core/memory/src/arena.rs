//! Arenas: the one buffer that a batch's inputs and outputs lie in.

use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::map::Mapping;
use crate::{MemoryError, wipe};

/// Largest arena, in bytes: offsets and lengths in operations are 32 bits wide.
pub const ARENA_MAX: usize = u32::MAX as usize;

/// Alignment of an arena's first byte, in bytes: a cache line, and the widest vector register.
const ARENA_ALIGN: usize = 64;

/// From this length on a heap arena is mapped on its own: pages come zeroed and only when they are touched, where the
/// allocator would have to write all of them, and they can be kept out of core dumps.
const MAP_FROM: usize = 128 << 10;

/// Longest name that `memfd_create(2)` takes, in bytes.
const NAME_MAX: usize = 249;

/// The seals without which a peer could cut the file short below a mapping, which kills whoever reads there.
const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

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
/// Operations refer to it by offset, so that it can be given to another process (as a sealed memory file) or to a device.
/// On drop it is wiped, see [`Wipe`]. Mapped arenas stay out of core dumps; small heap arenas share pages with the
/// rest of the heap and do not.
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
    Private(#[expect(dead_code, reason = "held for its drop")] Mapping),
    Shared {
        #[expect(dead_code, reason = "held for its drop")]
        mapping: Option<Mapping>,
        file: OwnedFd,
    },
}

// SAFETY: the arena owns its memory and reaches it through `&self` and `&mut self` alone, as a `Box<[u8]>` would; for shared
// files see `Arena::fd` and `Arena::from_fd`.
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
        check_len(len)?;
        if len >= MAP_FROM {
            let mapping = Mapping::anonymous(len, libc::PROT_READ | libc::PROT_WRITE)?;
            mapping.exclude_from_dumps()?;
            let start = mapping.start();
            return Ok(Self { start, len, backing: Backing::Private(mapping), on_drop: Wipe::Yes });
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

    /// A zeroed arena in an anonymous memory file that can be handed to another process. `name` shows up in
    /// `/proc/<pid>/fd` and means nothing else; it must not be secret. The file's size is sealed, and so is its set of
    /// seals.
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`] beyond [`ARENA_MAX`]; [`MemoryError::BadName`]; [`MemoryError::Os`].
    pub fn memfd(name: &str, len: usize) -> Result<Self, MemoryError> {
        let file = sealed_file(name, len)?;
        Self::map_file(file, len)
    }

    /// Maps a memory file that another process made, after checking that it has exactly `len` bytes and that its size is
    /// sealed. An arena that is shared is not wiped by this side unless [`Arena::with_wipe`] says so.
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`] beyond [`ARENA_MAX`]; [`MemoryError::NotSealed`] (also for files that cannot be
    /// sealed at all); [`MemoryError::WrongSize`]; [`MemoryError::Os`].
    ///
    /// # Safety
    ///
    /// The arena gives out plain slices. As long as one of them is live, no other process, mapping or descriptor may write
    /// to the bytes it covers: the peers hand the bytes over by a protocol that both obey. A peer that is not
    /// trusted to obey must not be served from slices of its memory.
    pub unsafe fn from_fd(file: OwnedFd, len: usize) -> Result<Self, MemoryError> {
        check_len(len)?;
        // Seals first: once they are set the size that is read afterwards cannot change any more.
        check_sealed(&file)?;
        let found = file_len(&file)?;
        if found != len as u64 {
            return Err(MemoryError::WrongSize { expected: len as u64, found });
        }
        Ok(Self::map_file(file, len)?.with_wipe(Wipe::No))
    }

    /// The same arena, wiped on drop or not.
    #[must_use]
    pub fn with_wipe(mut self, on_drop: Wipe) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// The descriptor of the memory file, to be passed to another process; `None` for a heap arena.
    ///
    /// # Safety
    ///
    /// Whoever gets the descriptor, or a copy of it, can write to the bytes behind slices of this arena. The caller
    /// answers for it that they do so only while no slice of these bytes is live here, as for [`Arena::from_fd`].
    pub unsafe fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::Shared { file, .. } => Some(file.as_fd()),
            Backing::Empty | Backing::Heap(_) | Backing::Private(_) => None,
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the arena has length zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Overwrites all bytes with zeros, now.
    pub fn wipe(&mut self) {
        wipe(self);
    }

    fn map_file(file: OwnedFd, len: usize) -> Result<Self, MemoryError> {
        let mapping = if len == 0 { None } else { Some(Mapping::shared(file.as_fd(), len)?) };
        let start = match &mapping {
            Some(mapping) => {
                mapping.exclude_from_dumps()?;
                mapping.start()
            }
            None => dangling(),
        };
        Ok(Self { start, len, backing: Backing::Shared { mapping, file }, on_drop: Wipe::Yes })
    }
}

impl Deref for Arena {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that live as long as `self`: an allocation, or a mapping at least
        // as long (rounded up to pages) of private pages or of a file whose size is sealed; or `len` is zero. Nobody
        // writes to them meanwhile: the memory is private, or its sharing went through `fd` or `from_fd`, whose
        // callers answer for that.
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
            Backing::Private(_) => "mapped",
            Backing::Shared { .. } => "memfd",
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

/// Where something lies in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ArenaSpan {
    /// First byte, counted from the start of the arena.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl ArenaSpan {
    /// The span as a range to index with.
    pub fn range(self) -> Range<usize> {
        let offset = self.offset as usize;
        offset..offset + self.len as usize
    }
}

/// Fills an arena from its start: every call takes the next free bytes and says where they lie. A call that fails
/// takes nothing.
#[derive(Debug)]
pub struct ArenaWriter<'a> {
    arena: &'a mut Arena,
    used: usize,
}

impl<'a> ArenaWriter<'a> {
    /// Begins at the start of `arena`. What the arena held before stays until it is overwritten.
    pub fn new(arena: &'a mut Arena) -> Self {
        Self { arena, used: 0 }
    }

    /// Copies `bytes` behind what is already there, without alignment.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Exhausted`] when they do not fit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<ArenaSpan, MemoryError> {
        let span = self.reserve(bytes.len(), 1)?;
        self.arena[span.range()].copy_from_slice(bytes);
        Ok(span)
    }

    /// Sets `len` bytes aside, for outputs; their content is left as it is. Their offset is a multiple of `align`, a power
    /// of two; up to 64 (a page for mapped arenas) this also aligns their address.
    ///
    /// # Errors
    ///
    /// [`MemoryError::BadAlign`]; [`MemoryError::Exhausted`] when they do not fit.
    pub fn reserve(&mut self, len: usize, align: usize) -> Result<ArenaSpan, MemoryError> {
        if !align.is_power_of_two() {
            return Err(MemoryError::BadAlign { align: align as u64 });
        }
        let offset = self.used.checked_next_multiple_of(align);
        let end = offset.and_then(|offset| offset.checked_add(len));
        let exhausted = MemoryError::Exhausted {
            what: "arena writer",
            limit: self.arena.len() as u64,
            asked: end.map_or(u64::MAX, |end| end as u64),
        };
        let (Some(offset), Some(end)) = (offset, end) else {
            return Err(exhausted);
        };
        if end > self.arena.len() {
            return Err(exhausted);
        }
        let (Ok(at), Ok(span_len)) = (u32::try_from(offset), u32::try_from(len)) else {
            return Err(exhausted);
        };
        self.used = end;
        Ok(ArenaSpan { offset: at, len: span_len })
    }

    /// The bytes of a span that this writer gave out; `None` for one that reaches beyond what is in use.
    pub fn bytes_mut(&mut self, span: ArenaSpan) -> Option<&mut [u8]> {
        self.arena[..self.used].get_mut(span.range())
    }

    /// Bytes in use, gaps for alignment included.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.arena.len() - self.used
    }
}

/// An anonymous memory file of `len` zero bytes, whose size and set of seals are sealed.
pub(crate) fn sealed_file(name: &str, len: usize) -> Result<OwnedFd, MemoryError> {
    check_len(len)?;
    let bad_name = MemoryError::BadName { limit: NAME_MAX };
    if name.len() > NAME_MAX {
        return Err(bad_name);
    }
    let name = CString::new(name).map_err(|_| bad_name)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a live C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(MemoryError::last_os("memfd_create"));
    }
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // `len` is at most 32 bits wide, so it fits a file offset.
    // SAFETY: ftruncate takes no pointer.
    if unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } != 0 {
        return Err(MemoryError::last_os("ftruncate"));
    }
    // SAFETY: F_ADD_SEALS takes an integer.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SIZE_SEALS | libc::F_SEAL_SEAL) } != 0 {
        return Err(MemoryError::last_os("fcntl(F_ADD_SEALS)"));
    }
    Ok(file)
}

/// Refuses a file whose size its owner could still change.
pub(crate) fn check_sealed(file: &OwnedFd) -> Result<(), MemoryError> {
    // SAFETY: F_GET_SEALS takes no argument.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 {
        return match MemoryError::last_os("fcntl(F_GET_SEALS)") {
            MemoryError::Os { errno: libc::EINVAL, .. } => Err(MemoryError::NotSealed { seals: 0 }),
            other => Err(other),
        };
    }
    if seals & SIZE_SEALS != SIZE_SEALS {
        return Err(MemoryError::NotSealed { seals });
    }
    Ok(())
}

fn check_len(len: usize) -> Result<(), MemoryError> {
    if len <= ARENA_MAX {
        return Ok(());
    }
    Err(MemoryError::TooLarge { what: "arena", limit_name: "ARENA_MAX", limit: ARENA_MAX as u64, asked: len as u64 })
}

pub(crate) fn file_len(file: &OwnedFd) -> Result<u64, MemoryError> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is to room for one `stat`, which the call fills.
    if unsafe { libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(MemoryError::last_os("fstat"));
    }
    // SAFETY: fstat returned zero, so it has filled the structure.
    let stat = unsafe { stat.assume_init() };
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// A pointer for arenas without bytes, aligned as all arenas are.
fn dangling() -> NonNull<u8> {
    #[repr(align(64))]
    struct Line;
    const _: () = assert!(align_of::<Line>() == ARENA_ALIGN);
    NonNull::<Line>::dangling().cast()
}
