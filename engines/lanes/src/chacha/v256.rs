//! Eight words a vector: AVX2.

use core::arch::x86_64::*;

use crate::x86::Avx2;

use super::isa::{Isa, Words};
use super::wide::{LongIsa, Longs, Wide26};
use crate::work::copy_short;

/// Eight words.
#[derive(Clone, Copy)]
pub(crate) struct V8(__m256i);

/// The first `len` bytes of 64 all ones, zero behind them, when read `64 - len` bytes from the start.
static MASK: [[u8; 64]; 2] = [[0xff; 64], [0; 64]];

impl Words for V8 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a `V8` exists only where `Avx2` was detected.
        V8(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        V8(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate_left<const BITS: i32>(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let by_bytes = |order: __m128i| V8(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order)));
            match BITS {
                16 => by_bytes(_mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)),
                8 => by_bytes(_mm_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14)),
                12 => V8(_mm256_or_si256(_mm256_slli_epi32::<12>(self.0), _mm256_srli_epi32::<20>(self.0))),
                _ => V8(_mm256_or_si256(_mm256_slli_epi32::<7>(self.0), _mm256_srli_epi32::<25>(self.0))),
            }
        }
    }

    #[inline(always)]
    fn turn<const BY: usize>(self) -> Self {
        // SAFETY: as above.
        unsafe {
            match BY {
                1 => V8(_mm256_shuffle_epi32::<0b00_11_10_01>(self.0)),
                2 => V8(_mm256_shuffle_epi32::<0b01_00_11_10>(self.0)),
                _ => V8(_mm256_shuffle_epi32::<0b10_01_00_11>(self.0)),
            }
        }
    }
}

impl Isa for Avx2 {
    type V = V8;
    type B = [__m256i; 2];
    type Wide = Wide26<L4>;
    const QUARTERS: usize = 2;

    #[inline(always)]
    fn splat(self, word: u32) -> V8 {
        // SAFETY: `self` is the proof.
        V8(unsafe { _mm256_set1_epi32(word as i32) })
    }

    #[inline(always)]
    fn splat_quarter(self, words: &[u32; 4]) -> V8 {
        // SAFETY: `self` is the proof; sixteen bytes may be read.
        V8(unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(words.as_ptr().cast())) })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V8 {
        // SAFETY: the caller's promise, and `self` is the proof.
        V8(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_quarters(self, from: *const *const u8, at: usize) -> V8 {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let low = _mm_loadu_si128((*from).add(at).cast());
            let high = _mm_loadu_si128((*from.add(1)).add(at).cast());
            V8(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high))
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [V8; 4]) -> [V8; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: `self` is the proof.
        unsafe {
            let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a.0, b.0), _mm256_unpackhi_epi32(a.0, b.0));
            let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c.0, d.0), _mm256_unpackhi_epi32(c.0, d.0));
            [
                V8(_mm256_unpacklo_epi64(ab_low, cd_low)),
                V8(_mm256_unpackhi_epi64(ab_low, cd_low)),
                V8(_mm256_unpacklo_epi64(ab_high, cd_high)),
                V8(_mm256_unpackhi_epi64(ab_high, cd_high)),
            ]
        }
    }

    #[inline(always)]
    fn blocks(self, rows: [V8; 4]) -> [[__m256i; 2]; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: `self` is the proof.
        unsafe {
            let first = [_mm256_permute2x128_si256::<0x20>(a.0, b.0), _mm256_permute2x128_si256::<0x20>(c.0, d.0)];
            let second = [_mm256_permute2x128_si256::<0x31>(a.0, b.0), _mm256_permute2x128_si256::<0x31>(c.0, d.0)];
            [first, second, first, second]
        }
    }

    #[inline(always)]
    fn xor(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` is the proof.
        unsafe { [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])] }
    }

    #[inline(always)]
    fn keep(self, block: [__m256i; 2], len: usize) -> [__m256i; 2] {
        // SAFETY: `self` is the proof; 64 bytes may be read from each of the first 65 places of `MASK`.
        unsafe {
            let mask = self.load_block(MASK.as_ptr().cast::<u8>().add(64 - len.min(64)));
            [_mm256_and_si256(block[0], mask[0]), _mm256_and_si256(block[1], mask[1])]
        }
    }

    #[inline(always)]
    unsafe fn load_block(self, from: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> [__m256i; 2] {
        let mut block = [0u8; 64];
        // SAFETY: the caller's promise.
        unsafe {
            copy_short(from, block.as_mut_ptr(), len.min(64));
            self.load_block(block.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_block(self, block: [__m256i; 2], to: *mut u8) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            _mm256_storeu_si256(to.cast(), block[0]);
            _mm256_storeu_si256(to.add(32).cast(), block[1]);
        }
    }

    #[inline(always)]
    unsafe fn store_partial(self, block: [__m256i; 2], to: *mut u8, len: usize) {
        let mut bytes = [0u8; 64];
        // SAFETY: the caller's promise.
        unsafe {
            self.store_block(block, bytes.as_mut_ptr());
            copy_short(bytes.as_ptr(), to, len.min(64));
        }
    }
}

/// Four 64-bit numbers.
#[derive(Clone, Copy)]
pub(crate) struct L4(__m256i);

impl Longs for L4 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: an `L4` exists only where `Avx2` was detected.
        L4(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as above.
        L4(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as above.
        L4(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        // SAFETY: as above.
        L4(unsafe { _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        // SAFETY: as above.
        L4(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        L4(unsafe { _mm256_mul_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn to_array(self) -> [u64; 8] {
        let mut lanes = [0; 8];
        // SAFETY: as above; four lanes are written.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), self.0) };
        lanes
    }
}

impl LongIsa for Avx2 {
    type L = L4;

    #[inline(always)]
    fn longs(self, lanes: &[u64; 8]) -> L4 {
        // SAFETY: `self` is the proof; four lanes may be read.
        L4(unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn load_longs(self, from: *const u8) -> (L4, L4) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast()));
            (L4(_mm256_unpacklo_epi64(a, b)), L4(_mm256_unpackhi_epi64(a, b)))
        }
    }

    #[inline(always)]
    unsafe fn load_longs_at(self, from: *const *const u8, at: usize) -> (L4, L4) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let (a, b) = (self.load_quarters(from, at), self.load_quarters(from.add(2), at));
            (L4(_mm256_unpacklo_epi64(a.0, b.0)), L4(_mm256_unpackhi_epi64(a.0, b.0)))
        }
    }
}
