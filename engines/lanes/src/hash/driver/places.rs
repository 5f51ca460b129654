//! Whole blocks of the messages in lanes, read as rounds need them.

use core::marker::PhantomData;

use super::super::algorithms::{Algorithm, Block};
use super::super::vector::{Isa, LANES_MAX, Words};
use crate::processor::{For, prefetch};

/// How far ahead messages are fetched.
pub(super) const AHEAD: usize = 256;

/// Whole blocks where they lie. A value is the promise that they may be read.
pub(super) struct Places<'a, I: Isa, A: Algorithm> {
    isa: I,
    from: &'a [*const u8; LANES_MAX],
    /// How far behind those places.
    at: usize,
    of: PhantomData<A>,
}

impl<'a, I: Isa, A: Algorithm> Places<'a, I, A> {
    /// The blocks `at` bytes behind these places.
    ///
    /// # Safety
    /// They may be read for as long as the value lives.
    #[inline(always)]
    pub(super) unsafe fn new(isa: I, from: &'a [*const u8; LANES_MAX], at: usize) -> Self {
        Places { isa, from, at, of: PhantomData }
    }
}

impl<I: Isa, A: Algorithm> Clone for Places<'_, I, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Isa, A: Algorithm> Copy for Places<'_, I, A> {}

impl<I: Isa, A: Algorithm> Block<A::W<I>> for Places<'_, I, A> {
    #[inline(always)]
    fn word(self, word: usize) -> A::W<I> {
        self.four(word / 4 * 4)[word % 4]
    }

    /// Each time, a quarter of what is read later is fetched.
    #[inline(always)]
    fn four(self, first: usize) -> [A::W<I>; 4] {
        let lines = A::BLOCK / 64;
        let quarter = A::W::<I>::LEN * lines / 4;
        for line in first / 4 * quarter..(first / 4 + 1) * quarter {
            prefetch(self.from[line / lines].wrapping_add(self.at + AHEAD + line % lines * 64), For::Later);
        }
        // SAFETY: what the value promises.
        let [a, b, c, d] = unsafe { A::W::<I>::four(self.isa, self.from, self.at + A::WORD * first) };
        if A::BIG_ENDIAN { [a.swap_bytes(), b.swap_bytes(), c.swap_bytes(), d.swap_bytes()] } else { [a, b, c, d] }
    }
}
