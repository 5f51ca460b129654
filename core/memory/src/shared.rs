//! Memory in two processes, cut into cells, of which each belongs to one side at a time.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use crate::MemoryError;
use crate::arena::{ARENA_MAX, check_sealed, file_len, sealed_file};
use crate::map::Mapping;

/// Cells that shared memory may be cut into.
pub const CELLS_MAX: usize = 1024;

/// Every word of the head has a cache line of its own: the sides poll some of them.
const LINE: usize = 64;

/// The file begins with the words below and one for each cell: whose turn it is.
const HEAD_LEN: usize = LINE * (1 + CELLS_MAX);

/// Places of the words of the first line, in words.
const MAGIC_AT: usize = 0;
const JOINED_AT: usize = 1;
const CELLS_AT: usize = 2;
const CELL_LEN_AT: usize = 3;

const MAGIC: u32 = 0x4365_6c31;

/// The sides, as the words of the cells name them. A fresh file is all zero: everything belongs to its maker.
const MAKER: u32 = 0;
const JOINER: u32 = 1;

/// A buffer that this process shares with one child of it, without copies and without locks.
///
/// It is cut into cells of equal length. A cell's bytes can be had ([`SharedCells::bytes`]) by the side whose turn it is,
/// until that side hands the cell over ([`SharedCells::hand_over`]). The maker's side cuts anew
/// ([`SharedCells::shape`]) while all cells are its own. What one side wrote before it handed over, the other sees.
///
/// That the slices are sound rests on this: the file is anonymous and its size sealed; its descriptor never leaves this
/// module, but for the child, which gets it in place of its standard output and takes it from there before anything can be
/// printed; the maker gives out slices of a cell only before it hands it over and after it got it back; and there is
/// one joiner at most. A child that is another program, or one that writes to memory which is not its turn, is not to be
/// served this way.
pub struct SharedCells {
    mapping: Mapping,
    file: OwnedFd,
    room: usize,
    side: u32,
}

impl SharedCells {
    /// Makes shared memory with `room` bytes for cells, as one cell that belongs to this side. `name` shows up in
    /// `/proc/<pid>/fd` and means nothing else.
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`] beyond [`ARENA_MAX`]; [`MemoryError::BadName`]; [`MemoryError::Os`].
    pub fn create(name: &str, room: usize) -> Result<SharedCells, MemoryError> {
        let len = room.saturating_add(HEAD_LEN);
        let file = sealed_file(name, len)?;
        let mapping = Mapping::shared(file.as_fd(), len)?;
        mapping.exclude_from_dumps()?;
        let mut cells = SharedCells { mapping, file, room, side: MAKER };
        cells.word(MAGIC_AT).store(MAGIC, Ordering::Relaxed);
        cells.shape(1, room)?;
        Ok(cells)
    }

    /// Lets `command`'s child join: it finds the memory with [`SharedCells::inherited`]. Its standard output is taken for
    /// that.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Os`] when there is no descriptor left.
    pub fn give_to(&self, command: &mut Command) -> Result<(), MemoryError> {
        let copy = self.file.try_clone().map_err(|error| os("dup", &error))?;
        command.stdout(Stdio::from(copy));
        Ok(())
    }

    /// Joins the memory that the parent gave ([`SharedCells::give_to`]). From now on this process has `/dev/null` as its
    /// standard output. To be called before anything is printed.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NotSealed`] and [`MemoryError::NotJoinable`] when standard output is no such memory or has been joined
    /// before; [`MemoryError::Os`].
    pub fn inherited() -> Result<SharedCells, MemoryError> {
        let stdout = std::io::stdout();
        let file = stdout.as_fd().try_clone_to_owned().map_err(|error| os("dup", &error))?;
        let cells = SharedCells::join(file)?;
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(|error| os("open", &error))?;
        let (from, to) = (std::os::fd::AsRawFd::as_raw_fd(&null), libc::STDOUT_FILENO);
        // SAFETY: both descriptors are open, and dup2 touches no memory. Nothing owns descriptor 1 as an `OwnedFd`.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(MemoryError::last_os("dup2"));
        }
        Ok(cells)
    }

    fn join(file: OwnedFd) -> Result<SharedCells, MemoryError> {
        // Seals first: once they are set the size that is read afterwards cannot change any more.
        check_sealed(&file)?;
        let len = usize::try_from(file_len(&file)?).unwrap_or(usize::MAX);
        let Some(room) = len.checked_sub(HEAD_LEN).filter(|_| len <= ARENA_MAX) else {
            return Err(MemoryError::NotJoinable { rule: "its length is not that of shared cells" });
        };
        let mapping = Mapping::shared(file.as_fd(), len)?;
        mapping.exclude_from_dumps()?;
        let cells = SharedCells { mapping, file, room, side: JOINER };
        if cells.word(MAGIC_AT).load(Ordering::Relaxed) != MAGIC {
            return Err(MemoryError::NotJoinable { rule: "it does not begin as shared cells do" });
        }
        if cells.word(JOINED_AT).swap(1, Ordering::AcqRel) != 0 {
            return Err(MemoryError::NotJoinable { rule: "another process has joined" });
        }
        Ok(cells)
    }

    /// Cuts the memory into `cells` cells of `cell_len` bytes, a multiple of 64 bytes unless there is one cell only. Their
    /// content stays.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Exhausted`] when they do not fit; [`MemoryError::TooLarge`] for more than [`CELLS_MAX`];
    /// [`MemoryError::NotJoinable`] when this is not the maker's side or a cell belongs to the other.
    pub fn shape(&mut self, cells: usize, cell_len: usize) -> Result<(), MemoryError> {
        if cells > CELLS_MAX {
            let (limit, asked) = (CELLS_MAX as u64, cells as u64);
            return Err(MemoryError::TooLarge { what: "shared cells", limit_name: "CELLS_MAX", limit, asked });
        }
        let asked = cells.saturating_mul(cell_len);
        let fits = asked <= self.room && (cells <= 1 || cell_len.is_multiple_of(LINE));
        let (Ok(cell_len), true) = (u32::try_from(cell_len), fits) else {
            return Err(MemoryError::Exhausted { what: "shared cells", limit: self.room as u64, asked: asked as u64 });
        };
        if self.side != MAKER || !(0..self.count()).all(|cell| self.is_mine(cell)) {
            return Err(MemoryError::NotJoinable { rule: "only the maker cuts, while all cells are its own" });
        }
        // The other side reads these after it has been handed a cell, which releases them.
        self.word(CELLS_AT).store(cells as u32, Ordering::Relaxed);
        self.word(CELL_LEN_AT).store(cell_len, Ordering::Relaxed);
        Ok(())
    }

    /// How many cells there are. For the joiner this holds while a cell is its own.
    pub fn count(&self) -> usize {
        self.geometry().0
    }

    /// Bytes of a cell. For the joiner this holds while a cell is its own.
    pub fn cell_len(&self) -> usize {
        self.geometry().1
    }

    /// Bytes for all cells together.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Whether it is this side's turn with a cell. To be polled; the other side's writes are seen from then on.
    #[inline]
    pub fn is_mine(&self, cell: usize) -> bool {
        cell < CELLS_MAX && self.turn(cell).load(Ordering::Acquire) == self.side
    }

    /// The bytes of cells that lie side by side; `None` unless all of them are this side's.
    pub fn bytes(&mut self, cells: Range<usize>) -> Option<&mut [u8]> {
        if cells.is_empty() || !cells.clone().all(|cell| self.is_mine(cell)) {
            return None;
        }
        // Only now: a cell that is this side's holds the shape still.
        let (count, cell_len) = self.geometry();
        if cells.end > count {
            return None;
        }
        let (start, len) = (HEAD_LEN + cells.start * cell_len, cells.len() * cell_len);
        // SAFETY: `geometry` keeps `count * cell_len` within `room`, which lies behind the head within the mapping. All cells
        // of the range are this side's (above), so the other side gives out no slice of them (see the type), and
        // `&mut self` makes the access exclusive here and keeps the cells from being handed over meanwhile.
        Some(unsafe { core::slice::from_raw_parts_mut(self.mapping.start().as_ptr().add(start), len) })
    }

    /// Hands cells over to the other side; `false`, and nothing has happened, unless all of them are this side's.
    pub fn hand_over(&mut self, cells: Range<usize>) -> bool {
        if cells.end > self.count() || !cells.clone().all(|cell| self.is_mine(cell)) {
            return false;
        }
        for cell in cells {
            self.turn(cell).store(1 - self.side, Ordering::Release);
        }
        true
    }

    /// Number and length of cells that fit, whatever the words say.
    fn geometry(&self) -> (usize, usize) {
        let cells = self.word(CELLS_AT).load(Ordering::Relaxed) as usize;
        let cell_len = self.word(CELL_LEN_AT).load(Ordering::Relaxed) as usize;
        if cells <= CELLS_MAX && cells.saturating_mul(cell_len) <= self.room { (cells, cell_len) } else { (0, 0) }
    }

    fn turn(&self, cell: usize) -> &AtomicU32 {
        assert!(cell < CELLS_MAX, "a cell that there is not");
        self.word((1 + cell) * (LINE / size_of::<u32>()))
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < HEAD_LEN / size_of::<u32>(), "a word outside of the head");
        // SAFETY: the word lies within the head, by the assertion above, and the head within the mapping, which both
        // constructors make at least as long; pages are aligned. The head is reached as atomics only.
        unsafe { AtomicU32::from_ptr(self.mapping.start().as_ptr().cast::<u32>().add(index)) }
    }
}

fn os(call: &'static str, error: &std::io::Error) -> MemoryError {
    MemoryError::Os { call, errno: error.raw_os_error().unwrap_or(0) }
}

impl fmt::Debug for SharedCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.side == MAKER { "maker" } else { "joiner" };
        f.debug_struct("SharedCells").field("side", &side).field("room", &self.room).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(room: usize) -> (SharedCells, SharedCells) {
        let maker = SharedCells::create("test", room).expect("memory");
        let joiner = SharedCells::join(maker.file.try_clone().expect("a descriptor")).expect("joins");
        (maker, joiner)
    }

    #[test]
    fn a_cell_is_one_sides_at_a_time() {
        let (mut maker, mut joiner) = pair(4096);
        maker.shape(4, 128).expect("fits");
        assert!(maker.bytes(0..4).is_some() && joiner.bytes(0..1).is_none());
        maker.bytes(1..2).expect("own").fill(7);
        assert!(!joiner.hand_over(1..2), "not the joiner's");
        assert!(maker.hand_over(1..3));
        assert!(maker.bytes(0..2).is_none() && maker.bytes(0..1).is_some() && !maker.hand_over(2..3));
        assert_eq!((joiner.count(), joiner.cell_len()), (4, 128));
        let bytes = joiner.bytes(1..3).expect("handed over");
        assert_eq!((bytes.len(), bytes[0], bytes[127], bytes[128]), (256, 7, 7, 0));
        bytes[0] = 9;
        assert!(joiner.bytes(1..4).is_none() && joiner.hand_over(1..2));
        assert_eq!(maker.bytes(1..2).map(|bytes| bytes[0]), Some(9));
    }

    #[test]
    fn turns_order_what_is_written() {
        let (mut maker, mut joiner) = pair(1 << 12);
        const ROUNDS: u8 = 200;
        let other = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                while !joiner.is_mine(0) {
                    std::thread::yield_now();
                }
                let bytes = joiner.bytes(0..1).expect("handed over");
                assert!(bytes.iter().all(|byte| *byte == round));
                bytes.fill(!round);
                assert!(joiner.hand_over(0..1));
            }
        });
        for round in 0..ROUNDS {
            maker.bytes(0..1).expect("own").fill(round);
            assert!(maker.hand_over(0..1));
            while !maker.is_mine(0) {
                std::thread::yield_now();
            }
            assert!(maker.bytes(0..1).expect("own").iter().all(|byte| *byte == !round));
        }
        other.join().expect("no panic");
    }

    #[test]
    fn the_maker_alone_cuts_and_only_its_own() {
        let (mut maker, mut joiner) = pair(4096);
        assert!(maker.shape(4, 1025).is_err() && maker.shape(4, 1000).is_err());
        assert!(matches!(maker.shape(CELLS_MAX + 1, 0), Err(MemoryError::TooLarge { .. })));
        assert!(joiner.shape(1, 64).is_err());
        maker.shape(2, 64).expect("fits");
        assert!(maker.hand_over(1..2));
        assert!(matches!(maker.shape(1, 64), Err(MemoryError::NotJoinable { .. })));
        assert!(joiner.hand_over(1..2));
        maker.shape(1, 64).expect("all its own again");
        assert!(maker.bytes(1..2).is_none() && !maker.hand_over(1..2), "there is no such cell any more");
        let (backwards, empty) = (Range { start: 1, end: 0 }, 0..0);
        assert!(maker.bytes(backwards).is_none() && maker.bytes(empty).is_none());
    }

    #[test]
    fn what_is_no_shared_memory_is_not_joined() {
        let (maker, _joiner) = pair(64);
        let again = SharedCells::join(maker.file.try_clone().expect("a descriptor"));
        assert_eq!(again.err(), Some(MemoryError::NotJoinable { rule: "another process has joined" }));
        let short = sealed_file("short", 64).expect("a file");
        assert!(matches!(SharedCells::join(short), Err(MemoryError::NotJoinable { .. })));
        let blank = sealed_file("blank", HEAD_LEN + 64).expect("a file");
        assert!(matches!(SharedCells::join(blank), Err(MemoryError::NotJoinable { .. })));
        let null = std::fs::File::open("/dev/null").expect("always there");
        assert!(matches!(SharedCells::join(null.into()), Err(MemoryError::NotSealed { .. })));
    }
}
