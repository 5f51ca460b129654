//! The round keys of a group: one key for all lanes, or one for each, transposed.

use core::arch::x86_64::_mm_loadu_si128;

use super::FpeKey;
use crate::aes::isa::{Blocks, Isa};
use crate::aes::schedule::{ROUND_KEYS_MAX, Schedule};
use crate::work::Item;

/// Where round keys come from. Round keys are for vectors of blocks; `vector` counts them within the group.
pub(super) trait RoundKeys<I: Isa>: Copy {
    /// Rounds of the cipher.
    fn rounds(self) -> usize;
    /// The round key of one vector's lanes.
    fn key(self, isa: I, round: usize, vector: usize) -> I::V;

    /// Enciphers blocks that the first round key has been added to already.
    #[inline(always)]
    fn encrypt_whitened<const N: usize>(self, isa: I, blocks: &mut [I::V; N]) {
        for round in 1..self.rounds() {
            for (vector, block) in blocks.iter_mut().enumerate() {
                *block = block.aes_enc(self.key(isa, round, vector));
            }
        }
        for (vector, block) in blocks.iter_mut().enumerate() {
            *block = block.aes_enc_last(self.key(isa, self.rounds(), vector));
        }
    }

    /// Enciphers blocks.
    #[inline(always)]
    fn encrypt<const N: usize>(self, isa: I, blocks: &mut [I::V; N]) {
        for (vector, block) in blocks.iter_mut().enumerate() {
            *block = block.xor(self.key(isa, 0, vector));
        }
        self.encrypt_whitened(isa, blocks);
    }
}

/// One key for all lanes.
#[derive(Clone, Copy)]
pub(super) struct Shared<'k>(pub(super) &'k Schedule);

impl<I: Isa> RoundKeys<I> for Shared<'_> {
    #[inline(always)]
    fn rounds(self) -> usize {
        self.0.rounds()
    }

    #[inline(always)]
    fn key(self, isa: I, round: usize, _vector: usize) -> I::V {
        self.0.splat(isa, round)
    }
}

/// A key for each lane: vectors of round keys, by round, then by vector.
#[derive(Clone, Copy)]
pub(super) struct Own<'k> {
    keys: &'k [u64],
    vectors: usize,
    rounds: usize,
}

impl<'k> Own<'k> {
    /// Words that the round keys of as many vectors of as many blocks take.
    pub(super) const fn words(vectors: usize, blocks: usize) -> usize {
        ROUND_KEYS_MAX * vectors * 2 * blocks
    }

    /// Transposes the keys of `items` into `room`, [`Own::words`] at least.
    #[inline(always)]
    pub(super) fn new<I: Isa>(isa: I, items: &[Item], vectors: usize, room: &'k mut [u64]) -> Own<'k> {
        assert!(room.len() >= Self::words(vectors, I::LEN));
        let rounds = items[0].fpe_key().schedule.rounds();
        for vector in 0..vectors {
            let mut from = [items[0].fpe_key(); 4];
            for (block, key) in from.iter_mut().enumerate().take(I::LEN) {
                *key = item_of::<I>(items, vector, block).fpe_key();
            }
            for round in 0..=rounds {
                let mut blocks = [from[0].schedule.key(round); 4];
                for (block, key) in blocks.iter_mut().zip(&from).take(I::LEN) {
                    *block = key.schedule.key(round);
                }
                let at = (round * vectors + vector) * 2 * I::LEN;
                // SAFETY: `round` is below `ROUND_KEYS_MAX` and `vector` below `vectors`, so the vector lies in `room`.
                unsafe { isa.gather(blocks).store(room.as_mut_ptr().add(at).cast()) };
            }
        }
        Own { keys: room, vectors, rounds }
    }
}

impl<I: Isa> RoundKeys<I> for Own<'_> {
    #[inline(always)]
    fn rounds(self) -> usize {
        self.rounds
    }

    #[inline(always)]
    fn key(self, isa: I, round: usize, vector: usize) -> I::V {
        debug_assert!(round <= self.rounds && vector < self.vectors);
        let at = (round * self.vectors + vector) * 2 * I::LEN;
        // SAFETY: callers stay within `rounds` and their vectors, for which `new` has found room.
        unsafe { isa.load(self.keys.as_ptr().add(at).cast()) }
    }
}

/// Which lane of the group a block of a vector is. Numbers of two vectors of blocks share one vector of 64-bit numbers,
/// taken from both in turn.
#[inline(always)]
pub(super) const fn lane_of<I: Isa>(vector: usize, block: usize) -> usize {
    (vector & !1) * I::LEN + 2 * block + (vector & 1)
}

/// The operation in a lane; lanes left over repeat the first.
#[inline(always)]
pub(super) fn item_of<I: Isa>(items: &[Item], vector: usize, block: usize) -> &Item {
    items.get(lane_of::<I>(vector, block)).unwrap_or(&items[0])
}

/// Whether all operations have the first one's key.
#[inline(always)]
pub(super) fn one_key(items: &[Item]) -> bool {
    let first: *const FpeKey = items[0].fpe_key();
    items.iter().all(|item| core::ptr::eq(item.fpe_key(), first))
}

/// A block from memory.
#[inline(always)]
pub(super) fn block(bytes: &[u8; 16]) -> core::arch::x86_64::__m128i {
    // SAFETY: sixteen bytes may be read; SSE2 is part of x86-64.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
