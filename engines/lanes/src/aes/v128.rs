//! AES on 128-bit vectors, one block each: AES-NI, PCLMULQDQ and SSE4.1.

use core::arch::x86_64::*;

use crate::x86::AesNi;

use super::isa::{Blocks, Isa};

/// Ones, then zeros: a window of 16 bytes masks a block up to a byte.
static KEEP: [u8; 32] = {
    let mut keep = [0; 32];
    let mut i = 0;
    while i < 16 {
        keep[i] = 0xff;
        i += 1;
    }
    keep
};

/// Reads `len` bytes, at most 16, and no others, in accesses that overlap; the rest is zero.
///
/// # Safety
/// They may be read.
#[inline(always)]
pub(super) unsafe fn load_some(from: *const u8, len: usize) -> __m128i {
    // SAFETY: the caller's promise; each branch reads within `len`. SSE2 is part of x86-64.
    unsafe {
        if len >= 16 {
            return _mm_loadu_si128(from.cast());
        }
        let (low, high) = if len >= 8 {
            let last = from.add(len - 8).cast::<u64>().read_unaligned();
            // Two shifts: one by 64 would be undefined.
            (from.cast::<u64>().read_unaligned(), (last >> 8) >> (8 * (15 - len)))
        } else if len >= 4 {
            let first = from.cast::<u32>().read_unaligned();
            let last = from.add(len - 4).cast::<u32>().read_unaligned();
            (u64::from(first) | u64::from(last) << (8 * (len - 4)), 0)
        } else if len >= 1 {
            let at = |i: usize| u64::from(from.add(i).read()) << (8 * i);
            (at(0) | at(len / 2) | at(len - 1), 0)
        } else {
            (0, 0)
        };
        _mm_set_epi64x(high as i64, low as i64)
    }
}

/// Writes the first `len` bytes, at most 16, and no others, in accesses that overlap.
///
/// # Safety
/// They may be written.
#[inline(always)]
pub(super) unsafe fn store_some(block: __m128i, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; each branch writes within `len`. SSE2 is part of x86-64, and any bits are a `u128`.
    unsafe {
        if len >= 16 {
            return _mm_storeu_si128(to.cast(), block);
        }
        let value: u128 = core::mem::transmute(block);
        if len >= 8 {
            to.cast::<u64>().write_unaligned(value as u64);
            to.add(len - 8).cast::<u64>().write_unaligned((value >> (8 * (len - 8))) as u64);
        } else if len >= 4 {
            to.cast::<u32>().write_unaligned(value as u32);
            to.add(len - 4).cast::<u32>().write_unaligned((value as u64 >> (8 * (len - 4))) as u32);
        } else if len >= 1 {
            to.write(value as u8);
            to.add(len / 2).write((value as u32 >> (8 * (len / 2))) as u8);
            to.add(len - 1).write((value as u32 >> (8 * (len - 1))) as u8);
        }
    }
}

/// One block.
#[derive(Clone, Copy)]
pub(crate) struct V128(pub(super) __m128i);

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
    fn keep_from<const LANE: usize>(self, len: usize) -> Self {
        if LANE >= 1 {
            return self.xor(self);
        }
        // SAFETY: the window lies within the table; a `V128` exists only where `AesNi` was detected.
        unsafe {
            let keep = _mm_loadu_si128(KEEP.as_ptr().add(16 - len.min(16)).cast());
            V128(_mm_and_si128(self.0, keep))
        }
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
        // SAFETY: the caller's promise.
        unsafe { store_some(self.0, to, len) }
    }

    #[inline(always)]
    unsafe fn store_from<const LANE: usize>(self, to: *mut u8, len: usize) {
        if LANE == 0 {
            // SAFETY: the caller's promise.
            unsafe { store_some(self.0, to, len) }
        }
    }
}

impl Isa for AesNi {
    type V = V128;
    const LEN: usize = 1;

    #[inline(always)]
    fn single(self) -> AesNi {
        self
    }

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
    fn transpose(self, rows: [V128; 4]) -> [V128; 4] {
        rows
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
        // SAFETY: the caller's promise.
        V128(unsafe { load_some(from, len) })
    }

    #[inline(always)]
    unsafe fn load_from<const LANE: usize>(self, from: *const u8, len: usize) -> V128 {
        if LANE == 0 {
            // SAFETY: the caller's promise.
            V128(unsafe { load_some(from, len) })
        } else {
            self.zero()
        }
    }

    #[inline(always)]
    fn pair(self, low: u64, high: u64) -> V128 {
        // SAFETY: `self` is the proof.
        V128(unsafe { _mm_set_epi64x(high as i64, low as i64) })
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
    use crate::instruction_set::InstructionSet;

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
