//! How lanes hand the last messages over to another way.

use core::mem::MaybeUninit;

use super::super::algorithms::Algorithm;
use super::super::alone::{Begun, finish_all};
use super::super::pairs::{self, Left, Piece};
use super::super::source::Source;
use super::super::vector::{Isa, LANES_MAX, Words};
use super::{Inner, Lane, Lanes, NOTHING};
use crate::x86::{Avx2, ShaNi};

impl<I: Isa, A: Algorithm> Lanes<I, A> {
    /// Finishes all messages one after the other, those that wait for their outer block as well when they are few.
    ///
    /// # Safety
    /// As in [`digest_all`]; the digest is SHA-384 or SHA-512.
    #[inline(always)]
    pub(super) unsafe fn hand_over_alone(&mut self, isa: Avx2, source: &mut Source<'_, '_>, below: u32) {
        let mut all = [const { MaybeUninit::<Begun>::uninit() }; 2 * LANES_MAX];
        let mut count = 0;
        let waiting = if self.waiting < below as usize { core::mem::take(&mut self.waiting) } else { 0 };
        for inner in &self.inner[..waiting] {
            // SAFETY: as many as wait have been written.
            let Inner { words, midstates, name } = unsafe { inner.assume_init_ref() };
            let mut state = [0; 8];
            for (word, bytes) in state.iter_mut().zip(words.as_chunks().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
            let (midstates, name) = (*midstates, *name);
            all[count].write(Begun { state, left: Left::Outer, bits: 0, midstates, name });
            count += 1;
        }
        let mut words = [[0u64; 8]; 8];
        for word in 0..A::STATE.min(8) {
            // SAFETY: the longest vector's bytes.
            unsafe { self.state[word].store(words[word].as_mut_ptr().cast()) };
        }
        while self.active != 0 {
            let at = self.active.trailing_zeros() as usize % LANES_MAX;
            self.active &= self.active - 1;
            let Lane { left, then, then_left, bits, midstates, name } =
                core::mem::replace(&mut self.lanes[at], Lane::IDLE);
            let left = self.left(at, left, then, then_left);
            let state = words.map(|words| words[at % 8]);
            all[count].write(Begun { state, left, bits, midstates, name });
            count += 1;
            (self.from[at], self.strides[at]) = (NOTHING.as_ptr(), 0);
        }
        // SAFETY: so many have been written; the caller's promise.
        unsafe {
            let begun = core::slice::from_raw_parts(all.as_ptr().cast::<Begun>(), count);
            finish_all(isa, begun, source, self.form);
            core::ptr::write_bytes(all.as_mut_ptr(), 0, count);
        }
        core::hint::black_box(&raw mut all);
    }

    /// Finishes all messages two at a time, those that wait for their outer block as well when they are few.
    ///
    /// # Safety
    /// As in [`digest_all`]; words have 32 bits.
    #[inline(always)]
    pub(super) unsafe fn hand_over_to_pairs(&mut self, sha: ShaNi, source: &mut Source<'_, '_>, below: u32) {
        let mut all = [const { MaybeUninit::<pairs::Begun>::uninit() }; 2 * LANES_MAX];
        let mut count = 0;
        let waiting = if self.waiting < below as usize { core::mem::take(&mut self.waiting) } else { 0 };
        for inner in &self.inner[..waiting] {
            // SAFETY: as many as wait have been written.
            let Inner { words, midstates, name } = unsafe { inner.assume_init_ref() };
            let mut begun =
                pairs::Begun { words: [0; 8], left: Left::Outer, bits: 0, midstates: *midstates, name: *name };
            for (word, bytes) in begun.words.iter_mut().zip(words.as_chunks::<4>().0) {
                *word = u32::from_ne_bytes(*bytes);
            }
            all[count].write(begun);
            count += 1;
        }
        let mut words = [[0u32; LANES_MAX]; 8];
        for word in 0..A::STATE.min(8) {
            // SAFETY: the longest vector's bytes.
            unsafe { self.state[word].store(words[word].as_mut_ptr().cast()) };
        }
        while self.active != 0 {
            let at = self.active.trailing_zeros() as usize % LANES_MAX;
            self.active &= self.active - 1;
            let Lane { left, then, then_left, bits, midstates, name } =
                core::mem::replace(&mut self.lanes[at], Lane::IDLE);
            let left = self.left(at, left, then, then_left);
            all[count].write(pairs::Begun { words: words.map(|words| words[at]), left, bits, midstates, name });
            count += 1;
            (self.from[at], self.strides[at]) = (NOTHING.as_ptr(), 0);
        }
        // SAFETY: so many have been written; the caller's promise.
        unsafe {
            let begun = core::slice::from_raw_parts(all.as_ptr().cast::<pairs::Begun>(), count);
            pairs::digest::<A>(sha, begun, source, self.form);
            core::ptr::write_bytes(all.as_mut_ptr(), 0, count);
        }
        core::hint::black_box(&raw mut all);
    }

    /// What a lane's message still needs.
    #[inline(always)]
    fn left(&self, at: usize, left: isize, then: *const u8, then_left: isize) -> Left {
        match usize::try_from(left) {
            Ok(len) => {
                let then = (!then.is_null()).then_some(Piece { from: then, len: then_left as usize });
                Left::Data(Piece { from: self.from[at], len }, then)
            }
            Err(_) => Left::Length,
        }
    }
}
