//! Sixteen words a vector: AVX-512, with and without its 52-bit multiplications (IFMA).

use core::arch::x86_64::*;

use crate::x86::{Avx512, Avx512Ifma};

use super::isa::{Isa, Words};
use super::wide::{LongIsa, Longs, MulAdd, Wide26, Wide44};

/// Sixteen words.
#[derive(Clone, Copy)]
pub(crate) struct V16(__m512i);

impl Words for V16 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a `V16` exists only where `Avx512` was detected.
        V16(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        V16(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate_left<const BITS: i32>(self) -> Self {
        // SAFETY: as above.
        V16(unsafe { _mm512_rol_epi32::<BITS>(self.0) })
    }

    #[inline(always)]
    fn turn<const BY: usize>(self) -> Self {
        // SAFETY: as above.
        unsafe {
            match BY {
                1 => V16(_mm512_shuffle_epi32::<0b00_11_10_01>(self.0)),
                2 => V16(_mm512_shuffle_epi32::<0b01_00_11_10>(self.0)),
                _ => V16(_mm512_shuffle_epi32::<0b10_01_00_11>(self.0)),
            }
        }
    }
}

/// The first `len` of 64 bytes.
#[inline(always)]
fn mask(len: usize) -> u64 {
    // A shift by 64 would be undefined.
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

impl Isa for Avx512 {
    type V = V16;
    type B = __m512i;
    type Wide = Wide26<L8>;
    const QUARTERS: usize = 4;

    #[inline(always)]
    fn splat(self, word: u32) -> V16 {
        // SAFETY: `self` is the proof.
        V16(unsafe { _mm512_set1_epi32(word as i32) })
    }

    #[inline(always)]
    fn splat_quarter(self, words: &[u32; 4]) -> V16 {
        // SAFETY: `self` is the proof; sixteen bytes may be read.
        V16(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(words.as_ptr().cast())) })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V16 {
        // SAFETY: the caller's promise, and `self` is the proof.
        V16(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_quarters(self, from: *const *const u8, at: usize) -> V16 {
        // A broadcast that is blended in on its way from memory: no shuffle.
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let quarter = |k: usize| _mm_loadu_si128((*from.add(k)).add(at).cast());
            let first = _mm512_castsi128_si512(quarter(0));
            let second = _mm512_mask_broadcast_i32x4(first, 0x00f0, quarter(1));
            let third = _mm512_mask_broadcast_i32x4(second, 0x0f00, quarter(2));
            V16(_mm512_mask_broadcast_i32x4(third, 0xf000, quarter(3)))
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [V16; 4]) -> [V16; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: `self` is the proof.
        unsafe {
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a.0, b.0), _mm512_unpackhi_epi32(a.0, b.0));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c.0, d.0), _mm512_unpackhi_epi32(c.0, d.0));
            [
                V16(_mm512_unpacklo_epi64(ab_low, cd_low)),
                V16(_mm512_unpackhi_epi64(ab_low, cd_low)),
                V16(_mm512_unpacklo_epi64(ab_high, cd_high)),
                V16(_mm512_unpackhi_epi64(ab_high, cd_high)),
            ]
        }
    }

    #[inline(always)]
    fn blocks(self, rows: [V16; 4]) -> [__m512i; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: `self` is the proof.
        unsafe {
            let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a.0, b.0), _mm512_shuffle_i32x4::<0xee>(a.0, b.0));
            let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c.0, d.0), _mm512_shuffle_i32x4::<0xee>(c.0, d.0));
            [
                _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
                _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
                _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
                _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
            ]
        }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` is the proof.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn keep(self, block: __m512i, len: usize) -> __m512i {
        // SAFETY: `self` is the proof.
        unsafe { _mm512_maskz_mov_epi8(mask(len), block) }
    }

    #[inline(always)]
    unsafe fn load_block(self, from: *const u8) -> __m512i {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> __m512i {
        // SAFETY: the caller's promise, and `self` is the proof; masked bytes are not read.
        unsafe { _mm512_maskz_loadu_epi8(mask(len), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_block(self, block: __m512i, to: *mut u8) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe { _mm512_storeu_si512(to.cast(), block) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, block: __m512i, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise, and `self` is the proof; masked bytes are not written.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), mask(len), block) }
    }
}

/// Everything but Poly1305 is as without IFMA.
impl Isa for Avx512Ifma {
    type V = V16;
    type B = __m512i;
    type Wide = Wide44<L8Ifma>;
    const QUARTERS: usize = 4;

    #[inline(always)]
    fn splat(self, word: u32) -> V16 {
        self.base().splat(word)
    }

    #[inline(always)]
    fn splat_quarter(self, words: &[u32; 4]) -> V16 {
        self.base().splat_quarter(words)
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V16 {
        // SAFETY: the caller's promise.
        unsafe { self.base().load(from) }
    }

    #[inline(always)]
    unsafe fn load_quarters(self, from: *const *const u8, at: usize) -> V16 {
        // SAFETY: the caller's promise.
        unsafe { self.base().load_quarters(from, at) }
    }

    #[inline(always)]
    fn transpose(self, rows: [V16; 4]) -> [V16; 4] {
        self.base().transpose(rows)
    }

    #[inline(always)]
    fn blocks(self, rows: [V16; 4]) -> [__m512i; 4] {
        self.base().blocks(rows)
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        self.base().xor(a, b)
    }

    #[inline(always)]
    fn keep(self, block: __m512i, len: usize) -> __m512i {
        self.base().keep(block, len)
    }

    #[inline(always)]
    unsafe fn load_block(self, from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { self.base().load_block(from) }
    }

    #[inline(always)]
    unsafe fn load_partial(self, from: *const u8, len: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { self.base().load_partial(from, len) }
    }

    #[inline(always)]
    unsafe fn store_block(self, block: __m512i, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.base().store_block(block, to) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, block: __m512i, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.base().store_partial(block, to, len) }
    }
}

/// Eight 64-bit numbers.
#[derive(Clone, Copy)]
pub(crate) struct L8(__m512i);

/// Eight 64-bit numbers, where there is IFMA.
#[derive(Clone, Copy)]
pub(crate) struct L8Ifma(L8);

impl Longs for L8 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: an `L8` exists only where `Avx512` was detected.
        L8(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as above.
        L8(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as above.
        L8(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        // SAFETY: as above.
        L8(unsafe { _mm512_sll_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        // SAFETY: as above.
        L8(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        L8(unsafe { _mm512_mul_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn to_array(self) -> [u64; 8] {
        let mut lanes = [0; 8];
        // SAFETY: as above; eight lanes are written.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), self.0) };
        lanes
    }
}

/// All but the products are as without IFMA.
impl Longs for L8Ifma {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        L8Ifma(self.0.add(other.0))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        L8Ifma(self.0.and(other.0))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        L8Ifma(self.0.or(other.0))
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        L8Ifma(self.0.shl::<BITS>())
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        L8Ifma(self.0.shr::<BITS>())
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        L8Ifma(self.0.mul(other.0))
    }

    #[inline(always)]
    fn to_array(self) -> [u64; 8] {
        self.0.to_array()
    }
}

impl MulAdd for L8Ifma {
    #[inline(always)]
    fn add_product_low(self, a: Self, b: Self) -> Self {
        // SAFETY: an `L8Ifma` exists only where `Avx512Ifma` was detected.
        L8Ifma(L8(unsafe { _mm512_madd52lo_epu64(self.0.0, a.0.0, b.0.0) }))
    }

    #[inline(always)]
    fn add_product_high(self, a: Self, b: Self) -> Self {
        // SAFETY: as above.
        L8Ifma(L8(unsafe { _mm512_madd52hi_epu64(self.0.0, a.0.0, b.0.0) }))
    }
}

impl LongIsa for Avx512 {
    type L = L8;

    #[inline(always)]
    fn longs(self, lanes: &[u64; 8]) -> L8 {
        // SAFETY: `self` is the proof; eight lanes may be read.
        L8(unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn load_longs(self, from: *const u8) -> (L8, L8) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let (a, b) = (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast()));
            (L8(_mm512_unpacklo_epi64(a, b)), L8(_mm512_unpackhi_epi64(a, b)))
        }
    }

    #[inline(always)]
    unsafe fn load_longs_at(self, from: *const *const u8, at: usize) -> (L8, L8) {
        // SAFETY: the caller's promise, and `self` is the proof.
        unsafe {
            let (a, b) = (self.load_quarters(from, at), self.load_quarters(from.add(4), at));
            (L8(_mm512_unpacklo_epi64(a.0, b.0)), L8(_mm512_unpackhi_epi64(a.0, b.0)))
        }
    }
}

impl LongIsa for Avx512Ifma {
    type L = L8Ifma;

    #[inline(always)]
    fn longs(self, lanes: &[u64; 8]) -> L8Ifma {
        L8Ifma(self.base().longs(lanes))
    }

    #[inline(always)]
    unsafe fn load_longs(self, from: *const u8) -> (L8Ifma, L8Ifma) {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { self.base().load_longs(from) };
        (L8Ifma(low), L8Ifma(high))
    }

    #[inline(always)]
    unsafe fn load_longs_at(self, from: *const *const u8, at: usize) -> (L8Ifma, L8Ifma) {
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { self.base().load_longs_at(from, at) };
        (L8Ifma(low), L8Ifma(high))
    }
}
