//! 256 lanes in AVX2 vectors.

use core::arch::x86_64::*;

use crate::x86::Avx2;

use super::isa::{Isa, ROW_MAX, substitute_by};
use super::w64::clear_mask;
use super::word::Word;

/// 256 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct W256(__m256i);

impl Word for W256 {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a `W256` exists only where `Avx2` was detected.
        W256(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a `W256` exists only where `Avx2` was detected.
        W256(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a `W256` exists only where `Avx2` was detected.
        W256(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: a `W256` exists only where `Avx2` was detected.
        W256(unsafe { _mm256_andnot_si256(other.0, self.0) })
    }

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: a `W256` exists only where `Avx2` was detected.
        W256(unsafe { _mm256_xor_si256(self.0, _mm256_set1_epi64x(-1)) })
    }
}

/// Masks of the first 0 to 4 numbers.
#[inline(always)]
fn mask(_isa: Avx2, blocks: usize) -> __m256i {
    // SAFETY: the token is the proof of AVX2.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(blocks as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

/// A row.
///
/// # Safety
/// Its blocks may be read.
#[inline(always)]
unsafe fn read(isa: Avx2, (from, blocks): (*const u8, usize)) -> W256 {
    // SAFETY: the caller's promise, the mask keeps to it; the token is the proof of AVX2.
    W256(unsafe {
        if blocks == Avx2::ROW {
            _mm256_loadu_si256(from.cast())
        } else {
            _mm256_maskload_epi64(from.cast(), mask(isa, blocks))
        }
    })
}

/// A row to its place.
///
/// # Safety
/// Its blocks may be written.
#[inline(always)]
unsafe fn write(isa: Avx2, (to, blocks): (*mut u8, usize), row: W256) {
    // SAFETY: the caller's promise, the mask keeps to it; the token is the proof of AVX2.
    unsafe {
        if blocks == Avx2::ROW {
            _mm256_storeu_si256(to.cast(), row.0);
        } else {
            _mm256_maskstore_epi64(to.cast(), mask(isa, blocks), row.0);
        }
    }
}

/// Transposes four rows of four numbers.
#[inline(always)]
fn transpose(_isa: Avx2, rows: [W256; 4]) -> [W256; 4] {
    // SAFETY: the token is the proof of AVX2.
    unsafe {
        let a = _mm256_unpacklo_epi64(rows[0].0, rows[1].0);
        let b = _mm256_unpackhi_epi64(rows[0].0, rows[1].0);
        let c = _mm256_unpacklo_epi64(rows[2].0, rows[3].0);
        let d = _mm256_unpackhi_epi64(rows[2].0, rows[3].0);
        [
            W256(_mm256_permute2x128_si256::<0x20>(a, c)),
            W256(_mm256_permute2x128_si256::<0x20>(b, d)),
            W256(_mm256_permute2x128_si256::<0x31>(a, c)),
            W256(_mm256_permute2x128_si256::<0x31>(b, d)),
        ]
    }
}

impl Isa for Avx2 {
    type W = W256;
    type Masks = ();
    const PARTS: usize = 4;
    const ROW: usize = 4;

    #[inline(always)]
    fn splat(self, value: u64) -> W256 {
        // SAFETY: `self` is the proof of AVX2.
        W256(unsafe { _mm256_set1_epi64x(value as i64) })
    }

    #[inline(always)]
    unsafe fn read_rows(self, row: impl Fn(usize) -> (*const u8, usize)) -> [W256; ROW_MAX] {
        // SAFETY: the caller's promise.
        let rows = unsafe { [read(self, row(0)), read(self, row(1)), read(self, row(2)), read(self, row(3))] };
        transpose(self, rows)
    }

    #[inline(always)]
    unsafe fn write_rows(self, words: [W256; ROW_MAX], row: impl Fn(usize) -> (*mut u8, usize)) {
        let [a, b, c, d] = transpose(self, words);
        // SAFETY: the caller's promise.
        unsafe {
            write(self, row(0), a);
            write(self, row(1), b);
            write(self, row(2), c);
            write(self, row(3), d);
        }
    }

    #[inline(always)]
    fn masks(self) {}

    #[inline(always)]
    fn exchange<const SHIFT: u32>(self, (): &(), low: W256, high: W256) -> (W256, W256) {
        // SAFETY: `self` is the proof of AVX2.
        unsafe {
            if SHIFT == 32 {
                let low_new = _mm256_blend_epi32::<0xaa>(low.0, _mm256_slli_epi64::<32>(high.0));
                return (W256(low_new), W256(_mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(low.0), high.0)));
            }
            if SHIFT == 16 {
                let low_new = _mm256_blend_epi16::<0xaa>(low.0, _mm256_slli_epi32::<16>(high.0));
                return (W256(low_new), W256(_mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(low.0), high.0)));
            }
            let count = _mm_cvtsi32_si128(SHIFT as i32);
            let mask = _mm256_set1_epi64x(clear_mask(SHIFT) as i64);
            let moved = _mm256_and_si256(_mm256_xor_si256(_mm256_srl_epi64(low.0, count), high.0), mask);
            let low_new = _mm256_xor_si256(low.0, _mm256_sll_epi64(moved, count));
            (W256(low_new), W256(_mm256_xor_si256(high.0, moved)))
        }
    }

    substitute_by!(binary);
}
