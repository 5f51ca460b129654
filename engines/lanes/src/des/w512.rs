//! 512 lanes in AVX-512 vectors, with gates of three inputs.

use core::arch::x86_64::*;

use super::isa::{Isa, ROW_MAX, substitute_by};
use super::w64::clear_mask;
use super::word::{Ternary, Word};

/// AVX-512 (F, BW, VL, DQ), found on this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// 512 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct W512(__m512i);

impl Avx512 {
    /// The proof, where the processor has every feature that the kernels enable.
    pub(crate) fn detect() -> Option<Avx512> {
        let found = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("lzcnt")
            && std::is_x86_feature_detected!("popcnt");
        found.then_some(Avx512(()))
    }
}

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
    set8: __mmask64,
    set16: __mmask64,
    set32: __mmask16,
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

/// The first `blocks` of eight numbers.
#[inline(always)]
fn mask(blocks: usize) -> __mmask8 {
    // At most eight.
    ((1u32 << blocks) - 1) as __mmask8
}

impl Isa for Avx512 {
    type W = W512;
    type Masks = Masks;
    const ROW: usize = 8;

    #[inline(always)]
    fn splat(self, value: u64) -> W512 {
        // SAFETY: `self` is the proof of AVX-512.
        W512(unsafe { _mm512_set1_epi64(value as i64) })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> W512 {
        // SAFETY: the caller's promise; `self` is the proof of AVX-512.
        W512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_row(self, from: *const u8, blocks: usize) -> W512 {
        // SAFETY: the caller's promise, the mask keeps to it; `self` is the proof of AVX-512.
        W512(unsafe { _mm512_maskz_loadu_epi64(mask(blocks), from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, word: W512) {
        // SAFETY: the caller's promise; `self` is the proof of AVX-512.
        unsafe { _mm512_storeu_si512(to.cast(), word.0) }
    }

    #[inline(always)]
    unsafe fn store_row(self, to: *mut u8, word: W512, blocks: usize) {
        // SAFETY: the caller's promise, the mask keeps to it; `self` is the proof of AVX-512.
        unsafe { _mm512_mask_storeu_epi64(to.cast(), mask(blocks), word.0) }
    }

    #[inline(always)]
    fn masks(self) -> Masks {
        core::hint::black_box(Masks {
            // Each byte's partner is the one whose index differs in the bit that stands for the exchange.
            swap8: self.repeat(0x0e0f_0c0d_0a0b_0809_0607_0405_0203_0001),
            swap16: self.repeat(0x0d0c_0f0e_0908_0b0a_0504_0706_0100_0302),
            clear: [1, 2, 4].map(|shift| self.splat(clear_mask(shift)).0),
            set8: 0xaaaa_aaaa_aaaa_aaaa,
            set16: 0xcccc_cccc_cccc_cccc,
            set32: 0xaaaa,
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
                    _mm512_mask_shuffle_epi32::<0xb1>(low, masks.set32, high),
                    _mm512_mask_shuffle_epi32::<0xb1>(high, !masks.set32, low),
                ),
                16 => (
                    _mm512_mask_shuffle_epi8(low, masks.set16, high, masks.swap16),
                    _mm512_mask_shuffle_epi8(high, !masks.set16, low, masks.swap16),
                ),
                8 => (
                    _mm512_mask_shuffle_epi8(low, masks.set8, high, masks.swap8),
                    _mm512_mask_shuffle_epi8(high, !masks.set8, low, masks.swap8),
                ),
                4 => select(masks.clear[2], low, high, _mm512_slli_epi64::<4>(high), _mm512_srli_epi64::<4>(low)),
                2 => select(masks.clear[1], low, high, _mm512_slli_epi64::<2>(high), _mm512_srli_epi64::<2>(low)),
                _ => select(masks.clear[0], low, high, _mm512_slli_epi64::<1>(high), _mm512_srli_epi64::<1>(low)),
            }
        };
        (W512(low), W512(high))
    }

    #[inline(always)]
    fn transpose_row(self, rows: [W512; ROW_MAX]) -> [W512; ROW_MAX] {
        let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
        let (q0, q2, q4, q6) =
            every_other(self, [low(self, r0, r1), low(self, r2, r3), low(self, r4, r5), low(self, r6, r7)]);
        let (q1, q3, q5, q7) =
            every_other(self, [high(self, r0, r1), high(self, r2, r3), high(self, r4, r5), high(self, r6, r7)]);
        [q0, q1, q2, q3, q4, q5, q6, q7]
    }

    substitute_by!(ternary);
}

/// The lower numbers of each 128 bits of two words, in turn.
#[inline(always)]
fn low(_isa: Avx512, a: W512, b: W512) -> W512 {
    // SAFETY: the token is the proof of AVX-512.
    W512(unsafe { _mm512_unpacklo_epi64(a.0, b.0) })
}

/// The upper numbers of each 128 bits of two words, in turn.
#[inline(always)]
fn high(_isa: Avx512, a: W512, b: W512) -> W512 {
    // SAFETY: the token is the proof of AVX-512.
    W512(unsafe { _mm512_unpackhi_epi64(a.0, b.0) })
}

/// Transposes four rows of four 128-bit parts.
#[inline(always)]
fn every_other(_isa: Avx512, pairs: [W512; 4]) -> (W512, W512, W512, W512) {
    let [a, b, c, d] = pairs;
    // SAFETY: the token is the proof of AVX-512.
    unsafe {
        let even_low = _mm512_shuffle_i64x2::<0x88>(a.0, b.0);
        let odd_low = _mm512_shuffle_i64x2::<0xdd>(a.0, b.0);
        let even_high = _mm512_shuffle_i64x2::<0x88>(c.0, d.0);
        let odd_high = _mm512_shuffle_i64x2::<0xdd>(c.0, d.0);
        (
            W512(_mm512_shuffle_i64x2::<0x88>(even_low, even_high)),
            W512(_mm512_shuffle_i64x2::<0x88>(odd_low, odd_high)),
            W512(_mm512_shuffle_i64x2::<0xdd>(even_low, even_high)),
            W512(_mm512_shuffle_i64x2::<0xdd>(odd_low, odd_high)),
        )
    }
}
