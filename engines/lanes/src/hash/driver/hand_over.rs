//! How lanes hand the last messages over to another way.

use core::mem::MaybeUninit;

use super::super::algorithms::Algorithm;
use super::super::alone;
use super::super::pairs::{self, Begun, Left, Piece};
use super::super::source::Source;
use super::super::vector::{Isa, LANES_MAX, Words};
use super::{Inner, Lane, Lanes, NOTHING};
use crate::x86::{Avx2, ShaNi};

impl<I: Isa, A: Algorithm> Lanes<I, A> {
    /// Finishes all messages one after the other, those that wait for their outer block as well when they are few.
    ///
    /// # Safety
    /// As in [`digest_all`](super::digest_all); the digest is SHA-384 or SHA-512.
    #[inline(always)]
    pub(super) unsafe fn hand_over_alone(&mut self, isa: Avx2, source: &mut Source<'_, '_>, below: u32) {
        let form = self.form;
        // SAFETY: the caller's promise.
        self.hand_over_all(below, u64::from_be_bytes, |begun| unsafe { alone::finish_all(isa, begun, source, form) });
    }

    /// Finishes all messages two at a time, those that wait for their outer block as well when they are few.
    ///
    /// # Safety
    /// As in [`digest_all`](super::digest_all); the digest is SHA-1 or SHA-2 with words of 32 bits.
    #[inline(always)]
    pub(super) unsafe fn hand_over_to_pairs(&mut self, sha: ShaNi, source: &mut Source<'_, '_>, below: u32) {
        let form = self.form;
        // SAFETY: the caller's promise.
        self.hand_over_all(below, u32::from_be_bytes, |begun| unsafe { pairs::digest::<A>(sha, begun, source, form) });
    }

    /// Empties all lanes for `finish`. `from_be_bytes` makes words of the digests that wait: all that are handed over have
    /// big-endian ones.
    #[inline(always)]
    fn hand_over_all<W: Copy + Default, const N: usize>(
        &mut self,
        below: u32,
        from_be_bytes: impl Fn([u8; N]) -> W,
        finish: impl FnOnce(&[Begun<W>]),
    ) {
        debug_assert!(A::BIG_ENDIAN && A::WORD == N && size_of::<W>() == N);
        let mut all = [const { MaybeUninit::<Begun<W>>::uninit() }; 2 * LANES_MAX];
        let mut count = 0;
        let waiting = if self.waiting < below as usize { core::mem::take(&mut self.waiting) } else { 0 };
        for inner in &self.inner[..waiting] {
            // SAFETY: as many as wait have been written.
            let Inner { digest, midstates, name } = *unsafe { inner.assume_init_ref() };
            let mut words = [W::default(); 8];
            for (word, bytes) in words.iter_mut().zip(digest.as_chunks().0) {
                *word = from_be_bytes(*bytes);
            }
            all[count].write(Begun { words, left: Left::Outer, bits: 0, midstates, name });
            count += 1;
        }
        let mut words = [[W::default(); LANES_MAX]; 8];
        for word in 0..A::STATE.min(8) {
            // SAFETY: at least the longest vector's bytes.
            unsafe { self.state[word].store(words[word].as_mut_ptr().cast()) };
        }
        while self.active != 0 {
            let at = self.active.trailing_zeros() as usize % LANES_MAX;
            self.active &= self.active - 1;
            let Lane { left, then, then_left, bits, midstates, name } =
                core::mem::replace(&mut self.lanes[at], Lane::IDLE);
            let left = match usize::try_from(left) {
                Ok(len) => {
                    let then = (!then.is_null()).then_some(Piece { from: then, len: then_left as usize });
                    Left::Data(Piece { from: self.from[at], len }, then)
                }
                Err(_) => Left::Length,
            };
            all[count].write(Begun { words: words.map(|words| words[at]), left, bits, midstates, name });
            count += 1;
            (self.from[at], self.strides[at]) = (NOTHING.as_ptr(), 0);
        }
        // SAFETY: so many have been written.
        finish(unsafe { core::slice::from_raw_parts(all.as_ptr().cast(), count) });
        // SAFETY: the same.
        unsafe { core::ptr::write_bytes(all.as_mut_ptr(), 0, count) };
        core::hint::black_box(&raw mut all);
    }
}
