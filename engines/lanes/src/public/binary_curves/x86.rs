//! The vectors of x86-64: 8 lanes with AVX-512, 4 with AVX2. An instruction multiplies the words of every other lane, the even or
//! the odd ones, so that two make a product of all lanes; unpacking both puts the halves of the products back in order.

use core::arch::x86_64::*;

use super::isa::{Carryless, LANES_MAX};
use crate::x86::{Avx2Clmul, Avx512Clmul};

macro_rules! vectors {
    ($set:ident, $vector:ty, $lanes:literal, $load:ident, $store:ident, $splat:ident, $xor:ident, $and:ident,
     $or:ident, $shl:ident, $shr:ident, $clmul:ident, $low:ident, $high:ident; $($rest:tt)*) => {
        impl Carryless for $set {
            type V = $vector;
            /// The products of the even lanes, and of the odd ones.
            type P = [$vector; 2];
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(self, word: u64) -> $vector {
                // SAFETY: `self` is the proof that the processor has the instruction, here and below.
                unsafe { $splat(word.cast_signed()) }
            }

            #[inline(always)]
            fn load(self, words: &[u64; LANES_MAX]) -> $vector {
                // SAFETY: as many words as lanes at least are read from there.
                unsafe { $load(words.as_ptr().cast()) }
            }

            #[inline(always)]
            fn store(self, vector: $vector) -> [u64; LANES_MAX] {
                let mut words = [0; LANES_MAX];
                // SAFETY: as many words as lanes at least may be written there.
                unsafe { $store(words.as_mut_ptr().cast(), vector) };
                words
            }

            #[inline(always)]
            fn xor(self, a: $vector, b: $vector) -> $vector {
                // SAFETY: `self`.
                unsafe { $xor(a, b) }
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
            fn shl(self, a: $vector, bits: u32) -> $vector {
                // SAFETY: `self`.
                unsafe { $shl(a, _mm_cvtsi32_si128(bits.cast_signed())) }
            }

            #[inline(always)]
            fn shr(self, a: $vector, bits: u32) -> $vector {
                // SAFETY: `self`.
                unsafe { $shr(a, _mm_cvtsi32_si128(bits.cast_signed())) }
            }

            #[inline(always)]
            fn product(self, a: $vector, b: $vector) -> [$vector; 2] {
                // SAFETY: `self`.
                unsafe { [$clmul::<0x00>(a, b), $clmul::<0x11>(a, b)] }
            }

            #[inline(always)]
            fn sum(self, a: [$vector; 2], b: [$vector; 2]) -> [$vector; 2] {
                [self.xor(a[0], b[0]), self.xor(a[1], b[1])]
            }

            #[inline(always)]
            fn halves(self, [even, odd]: [$vector; 2]) -> [$vector; 2] {
                // SAFETY: `self`.
                unsafe { [$low(even, odd), $high(even, odd)] }
            }

            $($rest)*
        }
    };
}

vectors! {
    Avx512Clmul, __m512i, 8, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi64, _mm512_xor_si512,
    _mm512_and_si512, _mm512_or_si512, _mm512_sll_epi64, _mm512_srl_epi64, _mm512_clmulepi64_epi128, _mm512_unpacklo_epi64,
    _mm512_unpackhi_epi64;

    #[inline(always)]
    fn zero_mask(self, a: __m512i) -> __m512i {
        // SAFETY: `self`.
        unsafe { _mm512_movm_epi64(_mm512_testn_epi64_mask(a, a)) }
    }

    #[inline(always)]
    fn select(self, mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self`. The truth table of `mask ? a : b`.
        unsafe { _mm512_ternarylogic_epi64::<0xca>(mask, a, b) }
    }
}

vectors! {
    Avx2Clmul, __m256i, 4, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi64x, _mm256_xor_si256,
    _mm256_and_si256, _mm256_or_si256, _mm256_sll_epi64, _mm256_srl_epi64, _mm256_clmulepi64_epi128, _mm256_unpacklo_epi64,
    _mm256_unpackhi_epi64;

    #[inline(always)]
    fn zero_mask(self, a: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_cmpeq_epi64(a, _mm256_setzero_si256()) }
    }

    #[inline(always)]
    fn select(self, mask: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_blendv_epi8(b, a, mask) }
    }
}
