//! Memory that a process shares with another one that it does not trust.

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::MemoryError;
use crate::arena::{ARENA_MAX, check_len};
use crate::map::Mapping;

/// Longest name that `memfd_create(2)` takes, in bytes.
const NAME_MAX: usize = 249;

/// The seals without which a peer could cut the file short below a mapping, which kills whoever reads there.
const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// From so many bytes on they are copied in bulk, which takes some time to begin.
#[cfg(target_arch = "x86_64")]
const BULK: usize = 256;

/// Bytes that another process may write at any time: an anonymous file whose size is sealed, mapped by both.
///
/// No slice of plain bytes is given out. What is read is copied once ([`Region::read`]), so that what was checked is what is used; words
/// that both sides poll are atomics ([`Region::words`]). Neither side can make the file shorter below the other (`F_SEAL_SHRINK`), so that
/// no access ends in `SIGBUS`.
pub struct Region {
    mapping: Mapping,
    file: OwnedFd,
    len: usize,
}

impl Region {
    /// Makes a region of `len` zero bytes. `name` shows up in `/proc/<pid>/fd` and means nothing else.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`] beyond [`ARENA_MAX`]; [`MemoryError::BadName`]; [`MemoryError::OutOfMemory`]; [`MemoryError::Os`].
    pub fn create(name: &str, len: usize) -> Result<Region, MemoryError> {
        Region::map(sealed_file(name, len)?, len)
    }

    /// Maps a region that another process has made, from its descriptor.
    ///
    /// # Errors
    /// [`MemoryError::NotSealed`] for what is no memory file or could still change its size; [`MemoryError::NotJoinable`] for an empty one and
    /// beyond [`ARENA_MAX`]; [`MemoryError::Os`].
    pub fn join(file: OwnedFd) -> Result<Region, MemoryError> {
        // Seals first: once they are set the size that is read afterwards cannot change any more.
        check_sealed(&file)?;
        let len = usize::try_from(file_len(&file)?).unwrap_or(usize::MAX);
        if len == 0 || len > ARENA_MAX {
            return Err(MemoryError::NotJoinable { rule: "its length is not that of a region" });
        }
        Region::map(file, len)
    }

    fn map(file: OwnedFd, len: usize) -> Result<Region, MemoryError> {
        let mapping = Mapping::shared(file.as_fd(), len)?;
        mapping.exclude_from_dumps()?;
        Ok(Region { mapping, file, len })
    }

    /// The file, to be handed to the other process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes of the region.
    #[allow(clippy::len_without_is_empty, reason = "no region is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `count` words from the byte `at` on. `None` where they do not lie within the region, or `at` is no multiple of four.
    pub fn words(&self, at: usize, count: usize) -> Option<&[AtomicU32]> {
        let len = count.checked_mul(size_of::<AtomicU32>())?;
        if !at.is_multiple_of(align_of::<AtomicU32>()) || !self.holds(at, len) {
            return None;
        }
        // SAFETY: the words lie within the mapping, which lives as long as the borrow; pages are aligned. Plain references to these bytes
        // are never made, here or by the other process as far as this one's soundness depends on it.
        Some(unsafe { core::slice::from_raw_parts(self.mapping.start().as_ptr().add(at).cast(), count) })
    }

    /// Copies the bytes from `at` on; `false`, and nothing is copied, where they do not lie within the region. Bytes that the other process
    /// writes meanwhile may be old or new ones, each by itself.
    #[must_use]
    pub fn read(&self, at: usize, out: &mut [u8]) -> bool {
        if !self.holds(at, out.len()) {
            return false;
        }
        #[cfg(target_arch = "x86_64")]
        if out.len() >= BULK {
            // SAFETY: `holds` says that the bytes lie within the mapping; `out` is the caller's own.
            unsafe { copy_bulk(out.as_mut_ptr(), self.mapping.start().as_ptr().add(at), out.len()) };
            return true;
        }
        let (head, words, tail) = self.split(at, out.len());
        let (first, rest) = out.split_at_mut(head.len());
        let (middle, last) = rest.split_at_mut(words.len() * size_of::<u64>());
        for (out, byte) in first.iter_mut().zip(head).chain(last.iter_mut().zip(tail)) {
            *out = byte.load(Ordering::Relaxed);
        }
        for (out, word) in middle.as_chunks_mut().0.iter_mut().zip(words) {
            *out = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        true
    }

    /// Writes bytes from `at` on; `false`, and nothing is written, where they do not fit into the region.
    #[must_use]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        if !self.holds(at, bytes.len()) {
            return false;
        }
        #[cfg(target_arch = "x86_64")]
        if bytes.len() >= BULK {
            // SAFETY: as in `read`, the other way.
            unsafe { copy_bulk(self.mapping.start().as_ptr().add(at), bytes.as_ptr(), bytes.len()) };
            return true;
        }
        let (head, words, tail) = self.split(at, bytes.len());
        let (first, rest) = bytes.split_at(head.len());
        let (middle, last) = rest.split_at(words.len() * size_of::<u64>());
        for (byte, own) in first.iter().zip(head).chain(last.iter().zip(tail)) {
            own.store(*byte, Ordering::Relaxed);
        }
        for (bytes, word) in middle.as_chunks().0.iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        true
    }

    fn holds(&self, at: usize, len: usize) -> bool {
        at <= self.len && len <= self.len - at
    }

    /// Bytes that [`Region::holds`], as words where they are aligned: eight bytes a step.
    fn split(&self, at: usize, len: usize) -> (&[AtomicU8], &[AtomicU64], &[AtomicU8]) {
        let head = (at.next_multiple_of(size_of::<u64>()) - at).min(len);
        let words = (len - head) / size_of::<u64>();
        let tail = len - head - words * size_of::<u64>();
        // SAFETY: the three lie one behind the other within the mapping, by the callers' check; the words are aligned, since pages are and
        // the head ends at a multiple of eight where there are any.
        unsafe {
            let start = self.mapping.start().as_ptr().add(at);
            let middle = start.add(head);
            (
                core::slice::from_raw_parts(start.cast(), head),
                if words == 0 { &[] } else { core::slice::from_raw_parts(middle.cast(), words) },
                core::slice::from_raw_parts(middle.add(words * size_of::<u64>()).cast(), tail),
            )
        }
    }
}

/// Copies bytes of which the other process may write some at the same time. The compiler sees neither these loads nor these stores, so that
/// it draws no conclusion from them; each byte is an old or a new one. What is stored before or afterwards stays so for others too: of a
/// string operation only the stores within may change their order (Intel SDM, volume 3A, 10.2.4; AMD64 APM, volume 2, 7.1).
///
/// # Safety
/// `from` can be read and `to` be written for `len` bytes, and they do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_bulk(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise; the direction flag is clear, as it is whenever Rust code runs.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// An anonymous memory file of `len` zero bytes, whose size and set of seals are sealed.
fn sealed_file(name: &str, len: usize) -> Result<OwnedFd, MemoryError> {
    check_len("region", len)?;
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
fn check_sealed(file: &OwnedFd) -> Result<(), MemoryError> {
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

fn file_len(file: &OwnedFd) -> Result<u64, MemoryError> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is to room for one `stat`, which the call fills.
    if unsafe { libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(MemoryError::last_os("fstat"));
    }
    // SAFETY: fstat returned zero, so it has filled the structure.
    let stat = unsafe { stat.assume_init() };
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(len: usize) -> (Region, Region) {
        let maker = Region::create("test", len).expect("memory");
        let joiner = Region::join(maker.file().try_clone_to_owned().expect("a descriptor")).expect("joins");
        (maker, joiner)
    }

    #[test]
    fn what_one_writes_the_other_reads_at_every_place_and_length() {
        let (maker, joiner) = pair(64);
        let pattern: Vec<u8> = (1..=64).collect();
        for at in 0..=64 {
            for len in 0..=64 - at {
                assert!(maker.write(0, &[0; 64]) && maker.write(at, &pattern[..len]));
                let mut whole = [0xff; 64];
                assert!(joiner.read(0, &mut whole));
                let mut own = vec![0xff; len];
                assert!(joiner.read(at, &mut own) && own == pattern[..len], "{at}, {len}");
                let around = whole[..at].iter().chain(&whole[at + len..]).all(|byte| *byte == 0);
                assert!(around && whole[at..at + len] == pattern[..len], "{at}, {len}");
            }
        }
    }

    #[test]
    fn long_copies_are_as_exact() {
        let (maker, joiner) = pair(4096);
        let pattern: Vec<u8> = (0..1000u32).map(|index| (index * 7 % 251 + 1) as u8).collect();
        for (at, len) in [(0, 255), (1, 256), (3, 257), (64, 1000), (4096 - 999, 999), (4096 - 256, 256)] {
            assert!(maker.write(0, &[0; 4096]) && maker.write(at, &pattern[..len]));
            let (mut whole, mut own) = ([0xff; 4096], vec![0xff; len]);
            assert!(joiner.read(0, &mut whole) && joiner.read(at, &mut own));
            let around = whole[..at].iter().chain(&whole[at + len..]).all(|byte| *byte == 0);
            assert!(around && whole[at..at + len] == pattern[..len] && own == pattern[..len], "{at}, {len}");
        }
        assert!(!maker.write(4096 - 299, &pattern[..300]) && !joiner.read(4096 - 299, &mut [0; 300]));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let (region, _) = pair(100);
        for (at, len) in [(0, 101), (100, 1), (101, 0), (usize::MAX, 2), (1, usize::MAX)] {
            // A length that no buffer has is looked at as the others are.
            assert!(!region.holds(at, len), "{at}, {len}");
        }
        assert!(!region.read(99, &mut [0; 2]) && !region.write(99, &[0; 2]) && region.write(100, &[]));
        assert!(region.words(96, 1).is_some() && region.words(100, 0).is_some());
        for (at, count) in [(97, 0), (96, 2), (104, 0), (0, usize::MAX), (0, 26)] {
            assert!(region.words(at, count).is_none(), "{at}, {count}");
        }
    }

    #[test]
    fn words_are_the_same_for_both() {
        let (maker, joiner) = pair(4096);
        let (one, other) = (maker.words(64, 2).expect("within"), joiner.words(64, 2).expect("within"));
        one[1].store(7, Ordering::Release);
        assert_eq!(other[1].load(Ordering::Acquire), 7);
    }

    #[test]
    fn what_is_no_region_is_not_joined() {
        let null = std::fs::File::open("/dev/null").expect("always there");
        assert!(matches!(Region::join(null.into()), Err(MemoryError::NotSealed { .. })));
        let empty = sealed_file("empty", 0).expect("a file");
        assert!(matches!(Region::join(empty), Err(MemoryError::NotJoinable { .. })));
        assert!(matches!(Region::create("long", ARENA_MAX + 1), Err(MemoryError::TooLarge { .. })));
    }
}
