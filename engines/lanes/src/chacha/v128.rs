//! Four words a vector: SSE2, which every x86-64 processor has. The compiler does not find these vectors by itself in
//! [`super::portable`].

use core::arch::x86_64::*;

use crate::instruction_set::InstructionSet;

use super::isa::{Isa, Words};
use super::wide::Serial;
use crate::work::copy_short;

/// SSE2. Part of x86-64, so that nothing has to be found out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2;

impl InstructionSet for Sse2 {
    const NAME: &'static str = "sse2";

    fn detect() -> Option<Sse2> {
        Some(Sse2)
    }
}

/// Four words.
#[derive(Clone, Copy)]
pub(crate) struct W4(__m128i);

impl Words for W4 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64; so below.
        W4(unsafe { _mm_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        W4(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate_left<const BITS: i32>(self) -> Self {
        // SAFETY: as above.
        unsafe {
            match BITS {
                16 => W4(_mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(self.0))),
                12 => W4(_mm_or_si128(_mm_slli_epi32::<12>(self.0), _mm_srli_epi32::<20>(self.0))),
                8 => W4(_mm_or_si128(_mm_slli_epi32::<8>(self.0), _mm_srli_epi32::<24>(self.0))),
                _ => W4(_mm_or_si128(_mm_slli_epi32::<7>(self.0), _mm_srli_epi32::<25>(self.0))),
            }
        }
    }

    #[inline(always)]
    fn turn<const BY: usize>(self) -> Self {
        // SAFETY: as above.
        unsafe {
            match BY {
                1 => W4(_mm_shuffle_epi32::<0b00_11_10_01>(self.0)),
                2 => W4(_mm_shuffle_epi32::<0b01_00_11_10>(self.0)),
                _ => W4(_mm_shuffle_epi32::<0b10_01_00_11>(self.0)),
            }
        }
    }
}

impl Isa for Sse2 {
    type V = W4;
    type B = [W4; 4];
    type Wide = Serial;
    const QUARTERS: usize = 1;

    #[inline(always)]
    fn splat(self, word: u32) -> W4 {
        // SAFETY: as above.
        W4(unsafe { _mm_set1_epi32(word as i32) })
    }

    #[inline(always)]
    fn splat_quarter(self, words: &[u32; 4]) -> W4 {
        // SAFETY: sixteen bytes may be read.
        unsafe { self.load(words.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> W4 {
        // SAFETY: the caller's promise.
        W4(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_quarters(self, from: *const *const u8, at: usize) -> W4 {
        // SAFETY: the caller's promise.
        unsafe { self.load((*from).add(at)) }
    }

    #[inline(always)]
    fn transpose(self, rows: [W4; 4]) -> [W4; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: as above.
        unsafe {
            let (ab_low, ab_high) = (_mm_unpacklo_epi32(a.0, b.0), _mm_unpackhi_epi32(a.0, b.0));
            let (cd_low, cd_high) = (_mm_unpacklo_epi32(c.0, d.0), _mm_unpackhi_epi32(c.0, d.0));
            [
                W4(_mm_unpacklo_epi64(ab_low, cd_low)),
                W4(_mm_unpackhi_epi64(ab_low, cd_low)),
                W4(_mm_unpacklo_epi64(ab_high, cd_high)),
                W4(_mm_unpackhi_epi64(ab_high, cd_high)),
            ]
        }
    }

    #[inline(always)]
    fn blocks(self, rows: [W4; 4]) -> [[W4; 4]; 4] {
        [rows; 4]
    }

    #[inline(always)]
    fn xor(self, a: [W4; 4], b: [W4; 4]) -> [W4; 4] {
        [a[0].xor(b[0]), a[1].xor(b[1]), a[2].xor(b[2]), a[3].xor(b[3])]
    }

    #[inline(always)]
    fn keep(self, block: [W4; 4], len: usize) -> [W4; 4] {
        let mut bytes = [0u8; 64];
        // SAFETY: 64 bytes each.
        unsafe {
            self.store_partial(block, bytes.as_mut_ptr(), len);
            self.load_block(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn load_block(self, from: *const u8) -> [W4; 4] {
        // SAFETY: the caller's promise.
        unsafe { [self.load(from), self.load(from.add(16)), self.load(from.add(32)), self.load(from.add(48))] }
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> [W4; 4] {
        let mut bytes = [0u8; 64];
        // SAFETY: the caller's promise.
        unsafe {
            copy_short(from, bytes.as_mut_ptr(), len.min(64));
            self.load_block(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_block(self, block: [W4; 4], to: *mut u8) {
        for (i, row) in block.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm_storeu_si128(to.add(16 * i).cast(), row.0) };
        }
    }

    #[inline(always)]
    unsafe fn store_partial(self, block: [W4; 4], to: *mut u8, len: usize) {
        let mut bytes = [0u8; 64];
        // SAFETY: the caller's promise.
        unsafe {
            self.store_block(block, bytes.as_mut_ptr());
            copy_short(bytes.as_ptr(), to, len.min(64));
        }
    }
}
