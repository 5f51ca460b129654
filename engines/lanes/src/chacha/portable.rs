//! Plain arrays of four words: one quarter a vector. Compilers keep them in general registers, so that this is the
//! kernel of architectures without one of their own.

use crate::instruction_set::InstructionSet;
use crate::work::copy_short;

use super::isa::{Isa, Words};
use super::wide::Serial;

/// No more than the language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl InstructionSet for Portable {
    const NAME: &'static str = "portable";

    fn detect() -> Option<Portable> {
        Some(Portable)
    }
}

/// Four words.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct V4([u32; 4]);

impl Words for V4 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        V4(core::array::from_fn(|i| self.0[i].wrapping_add(other.0[i])))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        V4(core::array::from_fn(|i| self.0[i] ^ other.0[i]))
    }

    #[inline(always)]
    fn rotate_left<const BITS: i32>(self) -> Self {
        V4(self.0.map(|word| word.rotate_left(BITS as u32)))
    }

    #[inline(always)]
    fn turn<const BY: usize>(self) -> Self {
        V4(core::array::from_fn(|i| self.0[(i + BY) % 4]))
    }
}

impl Isa for Portable {
    type V = V4;
    type B = [u8; 64];
    type Wide = Serial;
    const QUARTERS: usize = 1;

    #[inline(always)]
    fn splat(self, word: u32) -> V4 {
        V4([word; 4])
    }

    #[inline(always)]
    fn splat_quarter(self, words: &[u32; 4]) -> V4 {
        V4(*words)
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V4 {
        // SAFETY: the caller's promise.
        let words = unsafe { from.cast::<[u32; 4]>().read_unaligned() };
        V4(words.map(u32::from_le))
    }

    #[inline(always)]
    unsafe fn load_quarters(self, from: *const *const u8, at: usize) -> V4 {
        // SAFETY: the caller's promise.
        unsafe { self.load((*from).add(at)) }
    }

    #[inline(always)]
    fn transpose(self, rows: [V4; 4]) -> [V4; 4] {
        core::array::from_fn(|i| V4(core::array::from_fn(|j| rows[j].0[i])))
    }

    #[inline(always)]
    fn blocks(self, rows: [V4; 4]) -> [[u8; 64]; 4] {
        let mut block = [0; 64];
        for (bytes, row) in block.as_chunks_mut::<16>().0.iter_mut().zip(rows) {
            for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(row.0) {
                *bytes = word.to_le_bytes();
            }
        }
        [block; 4]
    }

    #[inline(always)]
    fn xor(self, a: [u8; 64], b: [u8; 64]) -> [u8; 64] {
        core::array::from_fn(|i| a[i] ^ b[i])
    }

    #[inline(always)]
    fn keep(self, mut block: [u8; 64], len: usize) -> [u8; 64] {
        block[len.min(64)..].fill(0);
        block
    }

    #[inline(always)]
    unsafe fn load_block(self, from: *const u8) -> [u8; 64] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u8; 64]>().read() }
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> [u8; 64] {
        let mut block = [0; 64];
        // SAFETY: the caller's promise.
        unsafe { copy_short(from, block.as_mut_ptr(), len.min(64)) };
        block
    }

    #[inline(always)]
    unsafe fn store_block(self, block: [u8; 64], to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u8; 64]>().write(block) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, block: [u8; 64], to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy_short(block.as_ptr(), to, len.min(64)) }
    }
}
