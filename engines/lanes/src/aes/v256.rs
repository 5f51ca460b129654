//! AES on 256-bit vectors, two blocks each: VAES, VPCLMULQDQ and AVX2.

use core::arch::x86_64::*;

use crate::x86::{AesNi, Vaes256};

use super::isa::{Blocks, Isa};
use super::v128::{load_some, store_some};

/// Ones between zeros: a window of 32 bytes masks a vector from one byte on or up to one.
static KEEP: [u8; 96] = {
    let mut keep = [0; 96];
    let mut i = 32;
    while i < 64 {
        keep[i] = 0xff;
        i += 1;
    }
    keep
};

/// Two blocks.
#[derive(Clone, Copy)]
pub(crate) struct V256(pub(super) __m256i);

impl Blocks for V256 {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn and_not(self, mask: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_andnot_si256(mask.0, self.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn aes_enc(self, round_key: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_aesenc_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_enc_last(self, round_key: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_aesenclast_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_dec(self, round_key: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_aesdec_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn aes_dec_last(self, round_key: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_aesdeclast_epi128(self.0, round_key.0) })
    }

    #[inline(always)]
    fn shuffle(self, indices: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_shuffle_epi8(self.0, indices.0) })
    }

    #[inline(always)]
    fn add32(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn add64(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn shl64<const BITS: u32>(self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shr64<const BITS: u32>(self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shl32<const BITS: u32>(self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_sll_epi32(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn sar32<const BITS: u32>(self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_sra_epi32(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shl_bytes<const BYTES: i32>(self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_bslli_epi128::<BYTES>(self.0) })
    }

    #[inline(always)]
    fn shuffle32<const ORDER: i32>(self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_shuffle_epi32::<ORDER>(self.0) })
    }

    #[inline(always)]
    fn clmul<const HALVES: i32>(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_clmulepi64_epi128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    fn behind(self, previous: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_permute2x128_si256::<0x21>(previous.0, self.0) })
    }

    #[inline(always)]
    fn keep_from<const LANE: usize>(self, len: usize) -> Self {
        if LANE >= 2 {
            return self.xor(self);
        }
        let end = (16 * LANE + len).min(32);
        // SAFETY: both windows lie within the table; a `V256` exists only where `Vaes256` was detected.
        unsafe {
            let before = _mm256_loadu_si256(KEEP.as_ptr().add(64 - end).cast());
            let from = _mm256_loadu_si256(KEEP.as_ptr().add(32 - 16 * LANE).cast());
            V256(_mm256_and_si256(self.0, if LANE == 0 { before } else { _mm256_and_si256(before, from) }))
        }
    }

    #[inline(always)]
    fn extract(self, index: usize) -> __m128i {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        unsafe {
            match index {
                0 => _mm256_castsi256_si128(self.0),
                _ => _mm256_extracti128_si256::<1>(self.0),
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
        unsafe { _mm_xor_si128(self.extract(0), self.extract(1)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise, and as above.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; nothing is written behind `len`.
        unsafe {
            if len >= 32 {
                self.store(to);
            } else if len > 16 {
                _mm_storeu_si128(to.cast(), self.extract(0));
                store_some(self.extract(1), to.add(16), len - 16);
            } else {
                store_some(self.extract(0), to, len);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_from<const LANE: usize>(self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match LANE {
                0 => self.store_partial(to, len),
                1 => store_some(self.extract(1), to, len),
                _ => {}
            }
        }
    }
}

impl Isa for Vaes256 {
    type V = V256;
    const LEN: usize = 2;

    #[inline(always)]
    fn single(self) -> AesNi {
        self.aes_ni()
    }

    #[inline(always)]
    fn zero(self) -> V256 {
        // SAFETY: `self` is the proof.
        V256(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    fn splat(self, block: __m128i) -> V256 {
        // SAFETY: `self` is the proof.
        V256(unsafe { _mm256_broadcastsi128_si256(block) })
    }

    #[inline(always)]
    fn splat_bytes(self, block: &[u8; 16]) -> V256 {
        // SAFETY: sixteen bytes may be read.
        unsafe { self.load_splat(block.as_ptr()) }
    }

    #[inline(always)]
    fn gather(self, blocks: [__m128i; 4]) -> V256 {
        // SAFETY: `self` is the proof.
        V256(unsafe { _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(blocks[0]), blocks[1]) })
    }

    #[inline(always)]
    fn transpose(self, rows: [V256; 4]) -> [V256; 4] {
        let [a, b, ..] = rows;
        // SAFETY: `self` is the proof.
        unsafe {
            let low = _mm256_permute2x128_si256::<0x20>(a.0, b.0);
            let high = _mm256_permute2x128_si256::<0x31>(a.0, b.0);
            [V256(low), V256(high), rows[2], rows[3]]
        }
    }

    #[inline(always)]
    fn only_first(self, block: __m128i) -> V256 {
        // SAFETY: `self` is the proof.
        V256(unsafe { _mm256_zextsi128_si256(block) })
    }

    #[inline(always)]
    fn indices(self) -> V256 {
        // SAFETY: `self` is the proof.
        V256(unsafe { _mm256_setr_epi32(0, 0, 0, 0, 1, 0, 0, 0) })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V256 {
        // SAFETY: the caller's promise, and `self` is the proof.
        V256(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> V256 {
        // SAFETY: the caller's promise; nothing is read behind `len`.
        unsafe {
            if len >= 32 {
                self.load(from)
            } else if len > 16 {
                let first = _mm_loadu_si128(from.cast());
                V256(_mm256_set_m128i(load_some(from.add(16), len - 16), first))
            } else {
                V256(_mm256_zextsi128_si256(load_some(from, len)))
            }
        }
    }

    #[inline(always)]
    unsafe fn load_from<const LANE: usize>(self, from: *const u8, len: usize) -> V256 {
        // SAFETY: the caller's promise.
        unsafe {
            match LANE {
                0 => self.load_partial(from, len),
                1 => V256(_mm256_set_m128i(load_some(from, len), _mm_setzero_si128())),
                _ => self.zero(),
            }
        }
    }

    #[inline(always)]
    fn pair(self, low: u64, high: u64) -> V256 {
        // SAFETY: `self` is the proof.
        self.splat(unsafe { _mm_set_epi64x(high as i64, low as i64) })
    }

    #[inline(always)]
    unsafe fn load_splat(self, from: *const u8) -> V256 {
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
        let Some(isa) = Vaes256::detect() else {
            println!("this processor cannot run vaes256");
            return;
        };
        super::super::isa_tests::check(isa);
    }
}
