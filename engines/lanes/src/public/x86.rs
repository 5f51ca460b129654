//! The vectors of x86-64: 8 lanes with AVX-512 IFMA, 4 with AVX-IFMA. Both have the same instructions on words of 64 bits
//! but for comparisons and shifts that copy the sign, so that one list serves both.

use core::arch::x86_64::*;

use super::vectors::Vectors;
use crate::x86::{Avx512Ifma, AvxIfma};

macro_rules! vectors {
    ($set:ident, $vector:ty, $lanes:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident, $and:ident,
     $or:ident, $shl:ident, $shr:ident, $low:ident, $high:ident; $($rest:tt)*) => {
        impl Vectors for $set {
            type V = $vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(self, word: u64) -> $vector {
                // SAFETY: `self` is the proof that the processor has the instruction, here and below.
                unsafe { $splat(word.cast_signed()) }
            }

            #[inline(always)]
            unsafe fn load(self, from: *const u64) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn store(self, vector: $vector, to: *mut u64) {
                // SAFETY: the caller's promise.
                unsafe { $store(to.cast(), vector) }
            }

            #[inline(always)]
            fn add(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $add(a, b) }
            }

            #[inline(always)]
            fn sub(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $sub(a, b) }
            }

            #[inline(always)]
            fn and(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $and(a, b) }
            }

            #[inline(always)]
            fn or(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $or(a, b) }
            }

            #[inline(always)]
            fn shl<const BITS: u32>(self, a: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $shl(a, _mm_cvtsi32_si128(BITS as i32)) }
            }

            #[inline(always)]
            fn shr<const BITS: u32>(self, a: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $shr(a, _mm_cvtsi32_si128(BITS as i32)) }
            }

            #[inline(always)]
            fn add_low(self, sum: $vector, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $low(sum, a, b) }
            }

            #[inline(always)]
            fn add_high(self, sum: $vector, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $high(sum, a, b) }
            }

            $($rest)*
        }
    };
}

vectors! {
    Avx512Ifma, __m512i, 8, _mm512_load_si512, _mm512_store_si512, _mm512_set1_epi64, _mm512_add_epi64,
    _mm512_sub_epi64, _mm512_and_si512, _mm512_or_si512, _mm512_sll_epi64, _mm512_srl_epi64, _mm512_madd52lo_epu64,
    _mm512_madd52hi_epu64;

    type M = __mmask8;
    const INLINES: bool = true;

    #[inline(always)]
    fn sar<const BITS: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: `self`.
        unsafe { _mm512_srai_epi64::<BITS>(a) }
    }

    #[inline(always)]
    fn equal(self, a: __m512i, b: __m512i) -> __mmask8 {
        // SAFETY: `self`.
        unsafe { _mm512_cmpeq_epi64_mask(a, b) }
    }

    #[inline(always)]
    fn select(self, which: __mmask8, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self`.
        unsafe { _mm512_mask_blend_epi64(which, b, a) }
    }

    #[inline(always)]
    fn bits(self, which: __mmask8) -> u32 {
        u32::from(which)
    }
}

vectors! {
    AvxIfma, __m256i, 4, _mm256_load_si256, _mm256_store_si256, _mm256_set1_epi64x, _mm256_add_epi64,
    _mm256_sub_epi64, _mm256_and_si256, _mm256_or_si256, _mm256_sll_epi64, _mm256_srl_epi64, _mm256_madd52lo_avx_epu64,
    _mm256_madd52hi_avx_epu64;

    type M = __m256i;

    #[inline(always)]
    fn sar<const BITS: u32>(self, a: __m256i) -> __m256i {
        // There is no such shift of 64 bits: moved up by half the range, and down again.
        let sign = self.splat(1 << 63);
        // SAFETY: `self`.
        let lifted = unsafe { _mm256_xor_si256(a, sign) };
        self.sub(self.shr::<BITS>(lifted), self.shr::<BITS>(sign))
    }

    #[inline(always)]
    fn equal(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_cmpeq_epi64(a, b) }
    }

    #[inline(always)]
    fn select(self, which: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_blendv_epi8(b, a, which) }
    }

    #[inline(always)]
    fn bits(self, which: __m256i) -> u32 {
        // SAFETY: `self`.
        unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(which)) }.cast_unsigned()
    }
}
