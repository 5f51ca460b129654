//! AES on 512-bit vectors, four blocks each: VAES, VPCLMULQDQ and AVX-512 (F, BW, VL, DQ).

use core::arch::x86_64::*;

use crate::x86::{AesNi, Vaes512};

use super::isa::{Blocks, Isa};

/// Four blocks.
#[derive(Clone, Copy)]
pub(crate) struct V512(pub(super) __m512i);

impl Blocks for V512 {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, mask: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_andnot_si512(mask.0, self.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn aes_enc(self, round_key: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_aesenc_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_enc_last(self, round_key: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_aesenclast_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_dec(self, round_key: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_aesdec_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_dec_last(self, round_key: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_aesdeclast_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn shuffle(self, indices: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_shuffle_epi8(self.0, indices.0) })
    }

    #[inline(always)]
    fn add32(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn add64(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn shl64<const BITS: u32>(self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_sll_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shr64<const BITS: u32>(self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shl32<const BITS: u32>(self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_sll_epi32(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn sar32<const BITS: u32>(self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_sra_epi32(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shl_bytes<const BYTES: i32>(self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_bslli_epi128::<BYTES>(self.0) })
    }

    #[inline(always)]
    fn shuffle32<const ORDER: i32>(self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_shuffle_epi32::<ORDER>(self.0) })
    }

    #[inline(always)]
    fn clmul<const HALVES: i32>(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_clmulepi64_epi128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    fn behind(self, previous: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_alignr_epi64::<6>(self.0, previous.0) })
    }

    #[inline(always)]
    fn keep_from<const LANE: usize>(self, len: usize) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_maskz_mov_epi8(mask(len) << (16 * LANE), self.0) })
    }

    #[inline(always)]
    fn extract(self, index: usize) -> __m128i {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        unsafe {
            match index {
                0 => _mm512_castsi512_si128(self.0),
                1 => _mm512_extracti32x4_epi32::<1>(self.0),
                2 => _mm512_extracti32x4_epi32::<2>(self.0),
                _ => _mm512_extracti32x4_epi32::<3>(self.0),
            }
        }
    }

    #[inline(always)]
    fn first(self) -> __m128i {
        self.extract(0)
    }

    #[inline(always)]
    fn fold(self) -> __m128i {
        // SAFETY: as above.
        unsafe {
            let half = _mm256_xor_si256(_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0));
            _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise, and as above.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise, and as above; the mask keeps the bytes behind untouched.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), mask(len), self.0) }
    }

    #[inline(always)]
    unsafe fn store_from<const LANE: usize>(self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise, and as above; the mask keeps the bytes before and behind untouched.
        unsafe {
            _mm512_mask_storeu_epi8(to.wrapping_sub(16 * LANE).cast(), mask(len) << (16 * LANE), self.0);
        }
    }
}

/// The first `len` of 64 bytes; `len` is at most 64.
#[inline(always)]
fn mask(len: usize) -> u64 {
    debug_assert!(len <= 64);
    // SAFETY: BMI2 comes with the instruction set of these vectors.
    unsafe { _bzhi_u64(u64::MAX, len as u32) }
}

impl Isa for Vaes512 {
    type V = V512;
    const LEN: usize = 4;

    #[inline(always)]
    fn single(self) -> AesNi {
        self.aes_ni()
    }

    #[inline(always)]
    fn zero(self) -> V512 {
        // SAFETY: `self` is the proof.
        V512(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    fn splat(self, block: __m128i) -> V512 {
        // SAFETY: `self` is the proof.
        V512(unsafe { _mm512_broadcast_i32x4(block) })
    }

    #[inline(always)]
    fn splat_bytes(self, block: &[u8; 16]) -> V512 {
        // SAFETY: sixteen bytes may be read.
        unsafe { self.load_splat(block.as_ptr()) }
    }

    #[inline(always)]
    fn gather(self, blocks: [__m128i; 4]) -> V512 {
        // SAFETY: `self` is the proof.
        unsafe {
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(blocks[0]), blocks[1]);
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(blocks[2]), blocks[3]);
            V512(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high))
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [V512; 4]) -> [V512; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: `self` is the proof.
        unsafe {
            let ab_low = _mm512_shuffle_i64x2::<0b01_00_01_00>(a.0, b.0);
            let ab_high = _mm512_shuffle_i64x2::<0b11_10_11_10>(a.0, b.0);
            let cd_low = _mm512_shuffle_i64x2::<0b01_00_01_00>(c.0, d.0);
            let cd_high = _mm512_shuffle_i64x2::<0b11_10_11_10>(c.0, d.0);
            [
                V512(_mm512_shuffle_i64x2::<0b10_00_10_00>(ab_low, cd_low)),
                V512(_mm512_shuffle_i64x2::<0b11_01_11_01>(ab_low, cd_low)),
                V512(_mm512_shuffle_i64x2::<0b10_00_10_00>(ab_high, cd_high)),
                V512(_mm512_shuffle_i64x2::<0b11_01_11_01>(ab_high, cd_high)),
            ]
        }
    }

    #[inline(always)]
    fn only_first(self, block: __m128i) -> V512 {
        // SAFETY: `self` is the proof.
        V512(unsafe { _mm512_zextsi128_si512(block) })
    }

    #[inline(always)]
    fn indices(self) -> V512 {
        // SAFETY: `self` is the proof.
        V512(unsafe { _mm512_setr_epi32(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0) })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V512 {
        // SAFETY: the caller's promise, and `self` is the proof.
        V512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> V512 {
        // SAFETY: the caller's promise, and `self` is the proof; masked bytes are not read.
        V512(unsafe { _mm512_maskz_loadu_epi8(mask(len), from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_from<const LANE: usize>(self, from: *const u8, len: usize) -> V512 {
        // SAFETY: the caller's promise, and `self` is the proof; masked bytes are not read.
        V512(unsafe { _mm512_maskz_loadu_epi8(mask(len) << (16 * LANE), from.wrapping_sub(16 * LANE).cast()) })
    }

    #[inline(always)]
    fn pair(self, low: u64, high: u64) -> V512 {
        // SAFETY: `self` is the proof.
        V512(unsafe { _mm512_mask_set1_epi64(_mm512_set1_epi64(low as i64), 0b1010_1010, high as i64) })
    }

    #[inline(always)]
    unsafe fn load_splat(self, from: *const u8) -> V512 {
        // SAFETY: the caller's promise; SSE2 is part of x86-64.
        self.splat(unsafe { _mm_loadu_si128(from.cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::InstructionSet;

    /// FIPS 197, appendix B, the first round; and partial accesses that stay within their bytes.
    #[test]
    fn rounds_and_partial_accesses() {
        let Some(isa) = Vaes512::detect() else {
            println!("this processor cannot run vaes512");
            return;
        };
        super::super::isa_tests::check(isa);
    }
}
