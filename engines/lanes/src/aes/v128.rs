//! AES on 128-bit vectors, one block each: AES-NI, PCLMULQDQ and SSE4.1.

use core::arch::x86_64::*;

use super::isa::{Blocks, Isa};

/// AES-NI, PCLMULQDQ and SSE4.1, found on this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AesNi(());

/// One block.
#[derive(Clone, Copy)]
pub(crate) struct V128(__m128i);

impl AesNi {
    /// The proof, where the processor has every feature that the kernels enable.
    pub(crate) fn detect() -> Option<AesNi> {
        let found = std::is_x86_feature_detected!("aes")
            && std::is_x86_feature_detected!("pclmulqdq")
            && std::is_x86_feature_detected!("ssse3")
            && std::is_x86_feature_detected!("sse4.1");
        found.then_some(AesNi(()))
    }
}

impl Blocks for V128 {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_and_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, mask: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_andnot_si128(mask.0, self.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_or_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn aes_enc(self, round_key: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_aesenc_si128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_enc_last(self, round_key: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_aesenclast_si128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_dec(self, round_key: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_aesdec_si128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_dec_last(self, round_key: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_aesdeclast_si128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn shuffle(self, indices: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_shuffle_epi8(self.0, indices.0) })
    }

    #[inline(always)]
    fn add32(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn add64(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn shl64<const BITS: u32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_sll_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shr64<const BITS: u32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shl32<const BITS: u32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_sll_epi32(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn sar32<const BITS: u32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_sra_epi32(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shl_bytes<const BYTES: i32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_slli_si128::<BYTES>(self.0) })
    }

    #[inline(always)]
    fn shr_bytes<const BYTES: i32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_srli_si128::<BYTES>(self.0) })
    }

    #[inline(always)]
    fn shuffle32<const ORDER: i32>(self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_shuffle_epi32::<ORDER>(self.0) })
    }

    #[inline(always)]
    fn clmul<const HALVES: i32>(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_clmulepi64_si128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    fn behind(self, previous: Self) -> Self {
        previous
    }

    #[inline(always)]
    fn extract(self, index: usize) -> __m128i {
        debug_assert_eq!(index, 0);
        self.0
    }

    #[inline(always)]
    fn first(self) -> __m128i {
        self.0
    }

    #[inline(always)]
    fn fold(self) -> __m128i {
        self.0
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise, and as above.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        let mut bytes = [0u8; 16];
        // SAFETY: the buffer holds a vector; the caller's promise for the copy.
        unsafe {
            self.store(bytes.as_mut_ptr());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len.min(16));
        }
    }
}

impl Isa for AesNi {
    type V = V128;
    const LEN: usize = 1;

    #[inline(always)]
    fn zero(self) -> V128 {
        // SAFETY: `self` is the proof.
        V128(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    fn splat(self, block: __m128i) -> V128 {
        V128(block)
    }

    #[inline(always)]
    fn splat_bytes(self, block: &[u8; 16]) -> V128 {
        // SAFETY: sixteen bytes may be read.
        unsafe { self.load_splat(block.as_ptr()) }
    }

    #[inline(always)]
    fn gather(self, blocks: [__m128i; 4]) -> V128 {
        V128(blocks[0])
    }

    #[inline(always)]
    fn only_first(self, block: __m128i) -> V128 {
        V128(block)
    }

    #[inline(always)]
    fn indices(self) -> V128 {
        // SAFETY: `self` is the proof.
        V128(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V128 {
        // SAFETY: the caller's promise, and `self` is the proof.
        V128(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> V128 {
        let mut bytes = [0u8; 16];
        // SAFETY: the caller's promise for the copy; the buffer holds a vector.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len.min(16));
            self.load(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn load_splat(self, from: *const u8) -> V128 {
        // SAFETY: the caller's promise; SSE2 is part of x86-64.
        self.splat(unsafe { _mm_loadu_si128(from.cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix B, the first round; and partial accesses that stay within their bytes.
    #[test]
    fn rounds_and_partial_accesses() {
        let Some(isa) = AesNi::detect() else {
            println!("this processor cannot run aesni");
            return;
        };
        super::super::isa_tests::check(isa);
    }
}
