//! Where transposed numbers lie: aligned memory of a queue, handed out in places and wiped behind each batch.

use core::marker::PhantomData;

use zeroize::{DefaultIsZeroes, Zeroize};

use super::vectors::Vectors;

/// A cache line, and a vector of 512 bits.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Line([u64; LINE_WORDS]);

impl DefaultIsZeroes for Line {}

/// Words in a line.
const LINE_WORDS: usize = 8;

/// Memory of a queue for the numbers of its lanes. It grows to what the largest operation wants, and is wiped whenever a
/// group of operations has ended.
#[derive(Default)]
pub(crate) struct Room {
    lines: Vec<Line>,
}

impl Room {
    /// Room for `limbs` limbs of all lanes together.
    pub(crate) fn open<I: Vectors>(&mut self, limbs: usize) -> Open<'_, I> {
        let lines = (limbs * I::LANES).div_ceil(LINE_WORDS);
        if self.lines.len() < lines {
            // What was there is wiped; nothing of it is copied.
            self.lines = vec![Line::default(); lines];
        }
        Open { room: self, used: 0, lines, isa: PhantomData }
    }
}

/// A room in use; wiped when dropped.
pub(crate) struct Open<'r, I: Vectors> {
    room: &'r mut Room,
    /// Words that were handed out.
    used: usize,
    lines: usize,
    isa: PhantomData<I>,
}

impl<I: Vectors> Open<'_, I> {
    /// A number of `limbs` limbs, all zero. Places of one room never overlap, and are good until it is dropped.
    ///
    /// # Panics
    /// When more is taken than the room was opened for: a mistake of the kernel's author, whatever the input.
    pub(crate) fn number(&mut self, limbs: usize) -> Place<I> {
        let words = limbs * I::LANES;
        assert!(self.used + words <= self.lines * LINE_WORDS, "a room that is too small");
        // SAFETY: within the lines, as the assertion says.
        let at = unsafe { self.room.lines.as_mut_ptr().cast::<u64>().add(self.used) };
        self.used += words;
        Place { at, limbs, isa: PhantomData }
    }
}

impl<I: Vectors> Drop for Open<'_, I> {
    fn drop(&mut self) {
        self.room.lines[..self.used.div_ceil(LINE_WORDS)].zeroize();
    }
}

/// A transposed number: `limbs` vectors, one behind the other.
pub(crate) struct Place<I: Vectors> {
    at: *mut u64,
    limbs: usize,
    isa: PhantomData<I>,
}

impl<I: Vectors> Clone for Place<I> {
    #[inline(always)]
    fn clone(&self) -> Place<I> {
        *self
    }
}

impl<I: Vectors> Copy for Place<I> {}

impl<I: Vectors> Place<I> {
    /// Its limbs.
    #[inline(always)]
    pub(crate) fn limbs(self) -> usize {
        self.limbs
    }

    /// Where a lane's limb is. Wrapping, since the checks of every step would be thousands of branches in kernels built for tests, which
    /// took compilers minutes; who uses it has checked both numbers.
    #[inline(always)]
    fn word(self, index: usize, lane: usize) -> *mut u64 {
        self.at.wrapping_add(index.wrapping_mul(I::LANES).wrapping_add(lane))
    }

    /// Limb `index` of all lanes.
    #[inline(always)]
    pub(crate) fn get(self, isa: I, index: usize) -> I::V {
        debug_assert!(index < self.limbs);
        // SAFETY: within the number's words, which the room holds and aligns; rooms hand each out once, and their kernel runs
        // on one thread.
        unsafe { isa.load(self.word(index, 0)) }
    }

    /// Sets limb `index` of all lanes.
    #[inline(always)]
    pub(crate) fn set(self, isa: I, index: usize, vector: I::V) {
        debug_assert!(index < self.limbs);
        // SAFETY: as in `get`.
        unsafe { isa.store(vector, self.word(index, 0)) }
    }

    /// The limbs from `first` on, `limbs` of them.
    #[inline(always)]
    pub(crate) fn part(self, first: usize, limbs: usize) -> Place<I> {
        debug_assert!(first.wrapping_add(limbs) <= self.limbs);
        Place { at: self.word(first, 0), limbs, isa: PhantomData }
    }

    /// One lane's limb.
    #[inline(always)]
    pub(crate) fn lane(self, lane: usize, index: usize) -> u64 {
        debug_assert!(index < self.limbs && lane < I::LANES);
        // SAFETY: as in `get`.
        unsafe { self.word(index, lane).read() }
    }

    /// Sets one lane's limb.
    #[inline(always)]
    pub(crate) fn set_lane(self, lane: usize, index: usize, limb: u64) {
        debug_assert!(index < self.limbs && lane < I::LANES);
        // SAFETY: as in `get`.
        unsafe { self.word(index, lane).write(limb) }
    }

    /// Sets one lane's number; the limbs above those given become zero.
    pub(crate) fn set_number(self, lane: usize, limbs: &[u64]) {
        debug_assert!(limbs.len() <= self.limbs);
        for index in 0..self.limbs {
            self.set_lane(lane, index, limbs.get(index).copied().unwrap_or(0));
        }
    }

    /// The same vectors elsewhere.
    #[inline(always)]
    pub(crate) fn copy_from(self, isa: I, other: Place<I>) {
        for index in 0..self.limbs.min(other.limbs) {
            self.set(isa, index, other.get(isa, index));
        }
    }
}
