//! Sixteen words of 32 bits, or eight of 64: AVX-512.

use core::arch::x86_64::*;

use crate::x86::Avx512;

use super::vector::{Isa, LANES_MAX, Words};

/// Sixteen words of 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct V16x32(__m512i);

/// Eight words of 64 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct V8x64(__m512i);

impl Isa for Avx512 {
    type W32 = V16x32;
    type W64 = V8x64;
}

/// The first `len` of 64 bytes, at most all.
///
/// # Safety
/// The processor has BMI2, as every `Avx512` proves.
#[inline(always)]
unsafe fn mask(len: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { _bzhi_u64(u64::MAX, len as u32) }
}

/// The same 16 bytes four times.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn repeat(bytes: u128) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_broadcast_i32x4(_mm_set_epi64x((bytes >> 64) as i64, bytes as i64)) }
}

/// The same vector, for [`Words::settle`]: no instruction.
///
/// # Safety
/// The processor has AVX-512.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn settle(mut vector: __m512i) -> __m512i {
    if !cfg!(miri) {
        // Not `pure`: then it may not be moved across others, nor rounds across the words of later ones, for all of which
        // there are no registers.
        // SAFETY: there are no instructions.
        unsafe { core::arch::asm!("/* {0} */", inout(zmm_reg) vector, options(nomem, nostack, preserves_flags)) }
    }
    vector
}

/// What both kinds of words have in common.
macro_rules! words_512 {
    ($name:ident, $word:ty, $len:literal, $swap:literal,
     $splat:ident, $as:ty, $blend:ident, $lanes:ty, $add:ident, $sub:ident, $rol:ident, $srl:ident, $four:ident, $one:ident, $transpose:ident) => {
        // SAFETY of every block below: such a vector exists only where `Avx512` was detected, and `isa` is that proof.
        impl Words for $name {
            type Isa = Avx512;
            type Word = $word;
            const LEN: usize = $len;
            const BYTES: usize = 64;
            const SETTLES: bool = true;

            #[inline(always)]
            fn splat(_: Avx512, word: $word) -> Self {
                // SAFETY: `Avx512` is the proof.
                $name(unsafe { $splat(word as $as) })
            }

            #[inline(always)]
            unsafe fn load(_: Avx512, from: *const u8) -> Self {
                // SAFETY: the caller's promise; `Avx512` is the proof.
                $name(unsafe { _mm512_loadu_si512(from.cast()) })
            }

            #[inline(always)]
            unsafe fn load_partial(_: Avx512, from: *const u8, len: usize) -> Self {
                // SAFETY: the caller's promise, to which the mask keeps; `Avx512` is the proof.
                $name(unsafe { _mm512_maskz_loadu_epi8(mask(len), from.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise; a vector exists only where `Avx512` was detected.
                unsafe { _mm512_storeu_si512(to.cast(), self.0) }
            }

            #[inline(always)]
            fn with_byte(self, at: usize, byte: u8) -> Self {
                let place = 1u64.checked_shl(at as u32).unwrap_or(0);
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_mask_mov_epi8(self.0, place, _mm512_set1_epi8(byte as i8)) })
            }

            #[inline(always)]
            fn select(_: Avx512, lanes: u32, on: Self, off: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { $blend(lanes as $lanes, off.0, on.0) })
            }

            #[inline(always)]
            unsafe fn four(_: Avx512, from: &[*const u8; LANES_MAX], at: usize) -> [Self; 4] {
                // SAFETY: the caller's promise; `Avx512` is the proof.
                unsafe { $four(from, at) }
            }

            #[inline(always)]
            unsafe fn one(_: Avx512, from: &[*const u8; LANES_MAX], at: usize) -> Self {
                // SAFETY: the caller's promise; `Avx512` is the proof.
                unsafe { $one(from, at) }
            }

            #[inline(always)]
            fn transpose(rows: &mut [Self; LANES_MAX]) {
                // SAFETY: a vector exists only where `Avx512` was detected.
                unsafe { $transpose(rows) }
            }

            #[inline(always)]
            fn swap_bytes(self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_shuffle_epi8(self.0, repeat($swap)) })
            }

            #[inline(always)]
            fn settle(self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { settle(self.0) })
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { $sub(self.0, other.0) })
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_xor_si512(self.0, other.0) })
            }

            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0) })
            }

            #[inline(always)]
            fn choose(self, on: Self, off: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_ternarylogic_epi64::<0xca>(self.0, on.0, off.0) })
            }

            #[inline(always)]
            fn majority(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_ternarylogic_epi64::<0xe8>(self.0, b.0, c.0) })
            }

            #[inline(always)]
            fn xor_and_not(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_ternarylogic_epi64::<0xd2>(self.0, b.0, c.0) })
            }

            #[inline(always)]
            fn xor_or_not(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { _mm512_ternarylogic_epi64::<0x2d>(self.0, b.0, c.0) })
            }

            #[inline(always)]
            fn rotate_left<const BITS: i32>(self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { $rol::<BITS>(self.0) })
            }

            #[inline(always)]
            fn shift_right<const BITS: u32>(self) -> Self {
                // SAFETY: a vector exists only where `Avx512` was detected.
                $name(unsafe { $srl::<BITS>(self.0) })
            }
        }
    };
}

words_512! {
    V16x32, u32, 16, 0x0c0d_0e0f_0809_0a0b_0405_0607_0001_0203,
    _mm512_set1_epi32, i32, _mm512_mask_blend_epi32, __mmask16, _mm512_add_epi32, _mm512_sub_epi32, _mm512_rol_epi32, _mm512_srli_epi32,
    four_32, one_32, transpose_16
}
words_512! {
    V8x64, u64, 8, 0x0809_0a0b_0c0d_0e0f_0001_0203_0405_0607,
    _mm512_set1_epi64, i64, _mm512_mask_blend_epi64, __mmask8, _mm512_add_epi64, _mm512_sub_epi64, _mm512_rol_epi64, _mm512_srli_epi64,
    four_64, one_64, transpose_8
}

/// 16 bytes of four lanes: one of every four from the given one on, or one of every two.
///
/// # Safety
/// The processor has AVX-512, and the bytes may be read.
#[inline(always)]
unsafe fn quarters<const EVERY: usize>(from: &[*const u8; LANES_MAX], first: usize, at: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let a = _mm_loadu_si128(from[first].wrapping_add(at).cast());
        let b = _mm_loadu_si128(from[first + EVERY].wrapping_add(at).cast());
        let c = _mm_loadu_si128(from[first + 2 * EVERY].wrapping_add(at).cast());
        let d = _mm_loadu_si128(from[first + 3 * EVERY].wrapping_add(at).cast());
        let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
        let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(c), d);
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
}

/// Lanes lie in order when each quarter of a vector has 16 bytes of a lane, of which two levels make words: no word crosses
/// quarters, which is what takes long.
///
/// # Safety
/// The processor has AVX-512, and the bytes may be read.
#[inline(always)]
unsafe fn four_32(from: &[*const u8; LANES_MAX], at: usize) -> [V16x32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b] = [quarters::<4>(from, 0, at), quarters::<4>(from, 1, at)];
        let [c, d] = [quarters::<4>(from, 2, at), quarters::<4>(from, 3, at)];
        let [ab, cd] = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
        let [ab_high, cd_high] = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
        [
            V16x32(settle(_mm512_unpacklo_epi64(ab, cd))),
            V16x32(settle(_mm512_unpackhi_epi64(ab, cd))),
            V16x32(settle(_mm512_unpacklo_epi64(ab_high, cd_high))),
            V16x32(settle(_mm512_unpackhi_epi64(ab_high, cd_high))),
        ]
    }
}

/// As [`four_32`], with one level.
///
/// # Safety
/// The processor has AVX-512, and the bytes may be read.
#[inline(always)]
unsafe fn four_64(from: &[*const u8; LANES_MAX], at: usize) -> [V8x64; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b] = [quarters::<2>(from, 0, at), quarters::<2>(from, 1, at)];
        let [c, d] = [quarters::<2>(from, 0, at + 16), quarters::<2>(from, 1, at + 16)];
        [
            V8x64(settle(_mm512_unpacklo_epi64(a, b))),
            V8x64(settle(_mm512_unpackhi_epi64(a, b))),
            V8x64(settle(_mm512_unpacklo_epi64(c, d))),
            V8x64(settle(_mm512_unpackhi_epi64(c, d))),
        ]
    }
}

/// A word of each lane.
///
/// # Safety
/// The processor has AVX-512, and the words may be read.
#[inline(always)]
unsafe fn one_32(from: &[*const u8; LANES_MAX], at: usize) -> V16x32 {
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! word {
            ($lane:literal) => {
                from[$lane].wrapping_add(at).cast::<i32>().read_unaligned()
            };
        }
        V16x32(_mm512_setr_epi32(
            word!(0),
            word!(1),
            word!(2),
            word!(3),
            word!(4),
            word!(5),
            word!(6),
            word!(7),
            word!(8),
            word!(9),
            word!(10),
            word!(11),
            word!(12),
            word!(13),
            word!(14),
            word!(15),
        ))
    }
}

/// A word of each lane.
///
/// # Safety
/// The processor has AVX-512, and the words may be read.
#[inline(always)]
unsafe fn one_64(from: &[*const u8; LANES_MAX], at: usize) -> V8x64 {
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! word {
            ($lane:literal) => {
                from[$lane].wrapping_add(at).cast::<i64>().read_unaligned()
            };
        }
        V8x64(_mm512_setr_epi64(word!(0), word!(1), word!(2), word!(3), word!(4), word!(5), word!(6), word!(7)))
    }
}

/// Four levels: words, pairs, quarters of 128 bits, and pairs of these.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn transpose_16(rows: &mut [V16x32; LANES_MAX]) {
    let mut a = [rows[0].0; 16];
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..8 {
            a[2 * i] = _mm512_unpacklo_epi32(rows[2 * i].0, rows[2 * i + 1].0);
            a[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i].0, rows[2 * i + 1].0);
        }
        // Word `w` of four rows in each quarter: b[4 * g + w].
        let mut b = a;
        for g in 0..4 {
            b[4 * g] = _mm512_unpacklo_epi64(a[4 * g], a[4 * g + 2]);
            b[4 * g + 1] = _mm512_unpackhi_epi64(a[4 * g], a[4 * g + 2]);
            b[4 * g + 2] = _mm512_unpacklo_epi64(a[4 * g + 1], a[4 * g + 3]);
            b[4 * g + 3] = _mm512_unpackhi_epi64(a[4 * g + 1], a[4 * g + 3]);
        }
        for w in 0..4 {
            let low_even = _mm512_shuffle_i32x4::<0x88>(b[w], b[4 + w]);
            let low_odd = _mm512_shuffle_i32x4::<0xdd>(b[w], b[4 + w]);
            let high_even = _mm512_shuffle_i32x4::<0x88>(b[8 + w], b[12 + w]);
            let high_odd = _mm512_shuffle_i32x4::<0xdd>(b[8 + w], b[12 + w]);
            rows[w] = V16x32(_mm512_shuffle_i32x4::<0x88>(low_even, high_even));
            rows[4 + w] = V16x32(_mm512_shuffle_i32x4::<0x88>(low_odd, high_odd));
            rows[8 + w] = V16x32(_mm512_shuffle_i32x4::<0xdd>(low_even, high_even));
            rows[12 + w] = V16x32(_mm512_shuffle_i32x4::<0xdd>(low_odd, high_odd));
        }
    }
}

/// Three levels: words, quarters of 128 bits, and pairs of these.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn transpose_8(rows: &mut [V8x64; LANES_MAX]) {
    let mut a = [rows[0].0; 8];
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..4 {
            a[2 * i] = _mm512_unpacklo_epi64(rows[2 * i].0, rows[2 * i + 1].0);
            a[2 * i + 1] = _mm512_unpackhi_epi64(rows[2 * i].0, rows[2 * i + 1].0);
        }
        for w in 0..2 {
            let low_even = _mm512_shuffle_i64x2::<0x88>(a[w], a[2 + w]);
            let low_odd = _mm512_shuffle_i64x2::<0xdd>(a[w], a[2 + w]);
            let high_even = _mm512_shuffle_i64x2::<0x88>(a[4 + w], a[6 + w]);
            let high_odd = _mm512_shuffle_i64x2::<0xdd>(a[4 + w], a[6 + w]);
            rows[w] = V8x64(_mm512_shuffle_i64x2::<0x88>(low_even, high_even));
            rows[2 + w] = V8x64(_mm512_shuffle_i64x2::<0x88>(low_odd, high_odd));
            rows[4 + w] = V8x64(_mm512_shuffle_i64x2::<0xdd>(low_even, high_even));
            rows[6 + w] = V8x64(_mm512_shuffle_i64x2::<0xdd>(low_odd, high_odd));
        }
    }
}
