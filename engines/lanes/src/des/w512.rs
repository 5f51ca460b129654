//! 512 lanes in AVX-512 vectors, with gates of three inputs.

use core::arch::x86_64::*;

use crate::x86::Avx512;

use super::isa::{Isa, ROW_MAX, substitute_by};
use super::w64::clear_mask;
use super::word::{Ternary, Word};

/// 512 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct W512(__m512i);

impl Word for W512 {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a `W512` exists only where `Avx512` was detected.
        W512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a `W512` exists only where `Avx512` was detected.
        W512(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a `W512` exists only where `Avx512` was detected.
        W512(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: a `W512` exists only where `Avx512` was detected.
        W512(unsafe { _mm512_andnot_si512(other.0, self.0) })
    }

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: a `W512` exists only where `Avx512` was detected.
        W512(unsafe { _mm512_ternarylogic_epi64::<0x0f>(self.0, self.0, self.0) })
    }
}

impl Ternary for W512 {
    #[inline(always)]
    fn ternary<const TABLE: i32>(self, b: Self, c: Self) -> Self {
        // SAFETY: a `W512` exists only where `Avx512` was detected.
        W512(unsafe { _mm512_ternarylogic_epi64::<TABLE>(self.0, b.0, c.0) })
    }
}

/// Constants of exchanges.
#[derive(Clone, Copy)]
pub(crate) struct Masks {
    swap8: __m512i,
    swap16: __m512i,
    clear: [__m512i; 3],
    /// Bytes whose index has the exchange's bit set, and those that have not.
    set8: [__mmask64; 2],
    set16: [__mmask64; 2],
    /// The same of 32-bit numbers.
    set32: [__mmask16; 2],
}

impl Avx512 {
    /// The same 16 bytes four times.
    #[inline(always)]
    fn repeat(self, bytes: u128) -> __m512i {
        // SAFETY: `self` is the proof of AVX-512.
        unsafe { _mm512_broadcast_i32x4(_mm_set_epi64x((bytes >> 64) as i64, bytes as i64)) }
    }
}

/// `low` where `clear` is set, else `up`; `down` where `clear` is set, else `high`.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn select(clear: __m512i, low: __m512i, high: __m512i, up: __m512i, down: __m512i) -> (__m512i, __m512i) {
    // SAFETY: the caller's promise.
    unsafe { (_mm512_ternarylogic_epi64::<0xca>(clear, low, up), _mm512_ternarylogic_epi64::<0xca>(clear, down, high)) }
}

/// The first `blocks` of four numbers.
#[inline(always)]
fn mask(blocks: usize) -> __mmask8 {
    // At most four.
    ((1u32 << blocks) - 1) as __mmask8
}

/// Two rows, one after the other. (A function, because closures are not inlined where intrinsics need it.)
///
/// # Safety
/// The rows' blocks may be read; the processor has AVX-512.
#[inline(always)]
unsafe fn read_two(a: (*const u8, usize), b: (*const u8, usize)) -> __m512i {
    // SAFETY: the caller's promise, the masks keep to it.
    unsafe {
        let first = _mm256_maskz_loadu_epi64(mask(a.1), a.0.cast());
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), _mm256_maskz_loadu_epi64(mask(b.1), b.0.cast()))
    }
}

/// Two rows to their places.
///
/// # Safety
/// The rows' blocks may be written; the processor has AVX-512.
#[inline(always)]
unsafe fn write_two(a: (*mut u8, usize), b: (*mut u8, usize), rows: __m512i) {
    // SAFETY: the caller's promise, the masks keep to it.
    unsafe {
        _mm256_mask_storeu_epi64(a.0.cast(), mask(a.1), _mm512_castsi512_si256(rows));
        _mm256_mask_storeu_epi64(b.0.cast(), mask(b.1), _mm512_extracti64x4_epi64::<1>(rows));
    }
}

impl Isa for Avx512 {
    type W = W512;
    type Masks = Masks;
    const PARTS: usize = 8;
    const ROW: usize = 4;

    #[inline(always)]
    fn splat(self, value: u64) -> W512 {
        // SAFETY: `self` is the proof of AVX-512.
        W512(unsafe { _mm512_set1_epi64(value as i64) })
    }

    /// Two rows lie in a vector; two levels of shuffles deal the blocks of four such vectors out to four steps.
    #[inline(always)]
    unsafe fn read_rows(self, row: impl Fn(usize) -> (*const u8, usize)) -> [W512; ROW_MAX] {
        // SAFETY: the caller's promise; `self` is the proof of AVX-512.
        unsafe {
            let (a, b) = (read_two(row(0), row(2)), read_two(row(1), row(3)));
            let (c, d) = (read_two(row(4), row(6)), read_two(row(5), row(7)));
            let (low, high) = (_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d));
            let (odd_low, odd_high) = (_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d));
            [
                W512(_mm512_shuffle_i64x2::<0x88>(low, high)),
                W512(_mm512_shuffle_i64x2::<0x88>(odd_low, odd_high)),
                W512(_mm512_shuffle_i64x2::<0xdd>(low, high)),
                W512(_mm512_shuffle_i64x2::<0xdd>(odd_low, odd_high)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn write_rows(self, words: [W512; ROW_MAX], row: impl Fn(usize) -> (*mut u8, usize)) {
        let [a, b, c, d] = words;
        // SAFETY: the caller's promise; `self` is the proof of AVX-512.
        unsafe {
            let (even, odd) = (_mm512_unpacklo_epi64(a.0, b.0), _mm512_unpackhi_epi64(a.0, b.0));
            let (even_end, odd_end) = (_mm512_unpacklo_epi64(c.0, d.0), _mm512_unpackhi_epi64(c.0, d.0));
            let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
            let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
            write_two(row(0), row(2), _mm512_permutex2var_epi64(even, first, even_end));
            write_two(row(1), row(3), _mm512_permutex2var_epi64(odd, first, odd_end));
            write_two(row(4), row(6), _mm512_permutex2var_epi64(even, second, even_end));
            write_two(row(5), row(7), _mm512_permutex2var_epi64(odd, second, odd_end));
        }
    }

    #[inline(always)]
    fn masks(self) -> Masks {
        core::hint::black_box(Masks {
            // Each byte's partner is the one whose index differs in the bit that stands for the exchange.
            swap8: self.repeat(0x0e0f_0c0d_0a0b_0809_0607_0405_0203_0001),
            swap16: self.repeat(0x0d0c_0f0e_0908_0b0a_0504_0706_0100_0302),
            clear: [1, 2, 4].map(|shift| self.splat(clear_mask(shift)).0),
            set8: [0xaaaa_aaaa_aaaa_aaaa, 0x5555_5555_5555_5555],
            set16: [0xcccc_cccc_cccc_cccc, 0x3333_3333_3333_3333],
            set32: [0xaaaa, 0x5555],
        })
    }

    /// Bits within bytes move by shifts (port 0) and selections (ports 0 and 5), bytes by masked shuffles (port 5): both
    /// halves of a transposition together keep both ports busy.
    #[inline(always)]
    fn exchange<const SHIFT: u32>(self, masks: &Masks, low: W512, high: W512) -> (W512, W512) {
        let (low, high) = (low.0, high.0);
        // SAFETY: `self` is the proof of AVX-512.
        let (low, high) = unsafe {
            match SHIFT {
                32 => (
                    _mm512_mask_shuffle_epi32::<0xb1>(low, masks.set32[0], high),
                    _mm512_mask_shuffle_epi32::<0xb1>(high, masks.set32[1], low),
                ),
                16 => (
                    _mm512_mask_shuffle_epi8(low, masks.set16[0], high, masks.swap16),
                    _mm512_mask_shuffle_epi8(high, masks.set16[1], low, masks.swap16),
                ),
                8 => (
                    _mm512_mask_shuffle_epi8(low, masks.set8[0], high, masks.swap8),
                    _mm512_mask_shuffle_epi8(high, masks.set8[1], low, masks.swap8),
                ),
                4 => select(masks.clear[2], low, high, _mm512_slli_epi64::<4>(high), _mm512_srli_epi64::<4>(low)),
                2 => select(masks.clear[1], low, high, _mm512_slli_epi64::<2>(high), _mm512_srli_epi64::<2>(low)),
                _ => select(masks.clear[0], low, high, _mm512_slli_epi64::<1>(high), _mm512_srli_epi64::<1>(low)),
            }
        };
        (W512(low), W512(high))
    }

    substitute_by!(ternary);
}
