//! Eight words of 32 bits, or four of 64: AVX2.

use core::arch::x86_64::*;

use crate::x86::Avx2;

use super::vector::{Isa, LANES_MAX, Words};

/// Eight words of 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct V8x32(__m256i);

/// Four words of 64 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct V4x64(__m256i);

impl Isa for Avx2 {
    type W32 = V8x32;
    type W64 = V4x64;
}

/// The first `len` of 16 bytes as a number; no others are read.
///
/// # Safety
/// They may be read.
#[inline(always)]
pub(super) unsafe fn partial(from: *const u8, len: usize) -> u128 {
    // SAFETY: the caller's promise; both reads of a pair are within `len` bytes, the second ends where they end.
    unsafe {
        match len {
            0 => 0,
            1..4 => {
                let (first, middle, last) = (from.read(), from.add(len / 2).read(), from.add(len - 1).read());
                u128::from(first) | u128::from(middle) << (8 * (len / 2)) | u128::from(last) << (8 * (len - 1))
            }
            4..8 => {
                let (first, last) =
                    (from.cast::<u32>().read_unaligned(), from.add(len - 4).cast::<u32>().read_unaligned());
                u128::from(first) | u128::from(last) << (8 * (len - 4))
            }
            8..16 => {
                let (first, last) =
                    (from.cast::<u64>().read_unaligned(), from.add(len - 8).cast::<u64>().read_unaligned());
                u128::from(first) | u128::from(last) << (8 * (len - 8))
            }
            _ => from.cast::<u128>().read_unaligned(),
        }
    }
}

/// The same vector, for [`Words::settle`]: no instruction.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn settle(mut vector: __m256i) -> __m256i {
    if !cfg!(miri) {
        // Not `pure`: then it may not be moved across others, nor rounds across the words of later ones, for all of which
        // there are no registers.
        // SAFETY: there are no instructions.
        unsafe { core::arch::asm!("/* {0} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags)) }
    }
    vector
}

/// What both kinds of words have in common.
macro_rules! words_256 {
    ($name:ident, $word:ty, $len:literal, $bits:literal, $swap:expr,
     $splat:ident, $as:ty, $lanes:ident, $add:ident, $sub:ident, $sll:ident, $srl:ident, $four:ident, $one:ident, $transpose:ident) => {
        impl Words for $name {
            type Isa = Avx2;
            type Word = $word;
            const LEN: usize = $len;
            const BYTES: usize = 32;
            const SETTLES: bool = true;

            #[inline(always)]
            fn splat(_: Avx2, word: $word) -> Self {
                // SAFETY: `Avx2` is the proof.
                $name(unsafe { $splat(word as $as) })
            }

            #[inline(always)]
            unsafe fn load(_: Avx2, from: *const u8) -> Self {
                // SAFETY: the caller's promise; `Avx2` is the proof.
                $name(unsafe { _mm256_loadu_si256(from.cast()) })
            }

            #[inline(always)]
            unsafe fn load_partial(_: Avx2, from: *const u8, len: usize) -> Self {
                // SAFETY: the caller's promise; `Avx2` is the proof; any bits are a vector.
                unsafe {
                    let (low, high) =
                        (partial(from, len.min(16)), partial(from.wrapping_add(16), len.saturating_sub(16)));
                    $name(core::mem::transmute::<[u128; 2], __m256i>([low, high]))
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise; a vector exists only where `Avx2` was detected.
                unsafe { _mm256_storeu_si256(to.cast(), self.0) }
            }

            #[inline(always)]
            fn with_byte(self, at: usize, byte: u8) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                unsafe {
                    let places = _mm256_setr_epi64x(
                        0x0706_0504_0302_0100,
                        0x0f0e_0d0c_0b0a_0908,
                        0x1716_1514_1312_1110,
                        0x1f1e_1d1c_1b1a_1918,
                    );
                    let here = _mm256_cmpeq_epi8(places, _mm256_set1_epi8(at.min(127) as i8));
                    $name(_mm256_or_si256(self.0, _mm256_and_si256(here, _mm256_set1_epi8(byte as i8))))
                }
            }

            #[inline(always)]
            fn select(_: Avx2, lanes: u32, on: Self, off: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { _mm256_blendv_epi8(off.0, on.0, $lanes(lanes)) })
            }

            #[inline(always)]
            unsafe fn four(_: Avx2, from: &[*const u8; LANES_MAX], at: usize) -> [Self; 4] {
                // SAFETY: the caller's promise; `Avx2` is the proof.
                unsafe { $four(from, at) }
            }

            #[inline(always)]
            unsafe fn one(_: Avx2, from: &[*const u8; LANES_MAX], at: usize) -> Self {
                // SAFETY: the caller's promise; `Avx2` is the proof.
                unsafe { $one(from, at) }
            }

            #[inline(always)]
            fn transpose(rows: &mut [Self; LANES_MAX]) {
                // SAFETY: a vector exists only where `Avx2` was detected.
                unsafe { $transpose(rows) }
            }

            #[inline(always)]
            fn swap_bytes(self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                unsafe {
                    let swap: u128 = $swap;
                    let swap = _mm256_broadcastsi128_si256(_mm_set_epi64x((swap >> 64) as i64, swap as i64));
                    $name(_mm256_shuffle_epi8(self.0, swap))
                }
            }

            #[inline(always)]
            fn settle(self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { settle(self.0) })
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { $sub(self.0, other.0) })
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { _mm256_xor_si256(self.0, other.0) })
            }

            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                self.xor(b).xor(c)
            }

            #[inline(always)]
            fn choose(self, on: Self, off: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { _mm256_xor_si256(off.0, _mm256_and_si256(self.0, _mm256_xor_si256(on.0, off.0))) })
            }

            #[inline(always)]
            fn majority(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                unsafe {
                    let either = _mm256_and_si256(c.0, _mm256_or_si256(self.0, b.0));
                    $name(_mm256_or_si256(_mm256_and_si256(self.0, b.0), either))
                }
            }

            #[inline(always)]
            fn xor_and_not(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { _mm256_xor_si256(self.0, _mm256_andnot_si256(b.0, c.0)) })
            }

            #[inline(always)]
            fn xor_or_not(self, b: Self, c: Self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                unsafe {
                    let not_c = _mm256_xor_si256(c.0, _mm256_set1_epi8(-1));
                    $name(_mm256_xor_si256(self.0, _mm256_or_si256(b.0, not_c)))
                }
            }

            #[inline(always)]
            fn rotate_left<const BITS: i32>(self) -> Self {
                // The count in a register is known when this is compiled, and becomes an immediate.
                // SAFETY: a vector exists only where `Avx2` was detected.
                unsafe {
                    let left = $sll(self.0, _mm_cvtsi32_si128(BITS));
                    $name(_mm256_or_si256(left, $srl(self.0, _mm_cvtsi32_si128($bits - BITS))))
                }
            }

            #[inline(always)]
            fn shift_right<const BITS: u32>(self) -> Self {
                // SAFETY: a vector exists only where `Avx2` was detected.
                $name(unsafe { $srl(self.0, _mm_cvtsi32_si128(BITS as i32)) })
            }
        }
    };
}

words_256! {
    V8x32, u32, 8, 32, 0x0c0d_0e0f_0809_0a0b_0405_0607_0001_0203,
    _mm256_set1_epi32, i32, lanes_32, _mm256_add_epi32, _mm256_sub_epi32, _mm256_sll_epi32, _mm256_srl_epi32, four_32, one_32, transpose_8
}
words_256! {
    V4x64, u64, 4, 64, 0x0809_0a0b_0c0d_0e0f_0001_0203_0405_0607,
    _mm256_set1_epi64x, i64, lanes_64, _mm256_add_epi64, _mm256_sub_epi64, _mm256_sll_epi64, _mm256_srl_epi64, four_64, one_64, transpose_4
}

/// All bits of the lanes whose bit is set.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn lanes_32(lanes: u32) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(lanes as i32), bits), bits)
    }
}

/// All bits of the lanes whose bit is set.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn lanes_64(lanes: u32) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = _mm256_setr_epi64x(1, 2, 4, 8);
        _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(i64::from(lanes)), bits), bits)
    }
}

/// 16 bytes of two lanes.
///
/// # Safety
/// The processor has AVX2, and the bytes may be read.
#[inline(always)]
unsafe fn halves(low: *const u8, high: *const u8, at: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low.wrapping_add(at).cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.wrapping_add(at).cast()))
    }
}

/// Lanes lie in order when each half of a vector has 16 bytes of a lane, of which two levels make words: no word crosses
/// halves, which is what takes long.
///
/// # Safety
/// The processor has AVX2, and the bytes may be read.
#[inline(always)]
unsafe fn four_32(from: &[*const u8; LANES_MAX], at: usize) -> [V8x32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b] = [halves(from[0], from[4], at), halves(from[1], from[5], at)];
        let [c, d] = [halves(from[2], from[6], at), halves(from[3], from[7], at)];
        let [ab, cd] = [_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)];
        let [ab_high, cd_high] = [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)];
        [
            V8x32(settle(_mm256_unpacklo_epi64(ab, cd))),
            V8x32(settle(_mm256_unpackhi_epi64(ab, cd))),
            V8x32(settle(_mm256_unpacklo_epi64(ab_high, cd_high))),
            V8x32(settle(_mm256_unpackhi_epi64(ab_high, cd_high))),
        ]
    }
}

/// As [`four_32`], with one level.
///
/// # Safety
/// The processor has AVX2, and the bytes may be read.
#[inline(always)]
unsafe fn four_64(from: &[*const u8; LANES_MAX], at: usize) -> [V4x64; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b] = [halves(from[0], from[2], at), halves(from[1], from[3], at)];
        let [c, d] = [halves(from[0], from[2], at + 16), halves(from[1], from[3], at + 16)];
        [
            V4x64(settle(_mm256_unpacklo_epi64(a, b))),
            V4x64(settle(_mm256_unpackhi_epi64(a, b))),
            V4x64(settle(_mm256_unpacklo_epi64(c, d))),
            V4x64(settle(_mm256_unpackhi_epi64(c, d))),
        ]
    }
}

/// A word of each lane.
///
/// # Safety
/// The processor has AVX2, and the words may be read.
#[inline(always)]
unsafe fn one_32(from: &[*const u8; LANES_MAX], at: usize) -> V8x32 {
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! word {
            ($lane:literal) => {
                from[$lane].wrapping_add(at).cast::<i32>().read_unaligned()
            };
        }
        V8x32(_mm256_setr_epi32(word!(0), word!(1), word!(2), word!(3), word!(4), word!(5), word!(6), word!(7)))
    }
}

/// A word of each lane.
///
/// # Safety
/// The processor has AVX2, and the words may be read.
#[inline(always)]
unsafe fn one_64(from: &[*const u8; LANES_MAX], at: usize) -> V4x64 {
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! word {
            ($lane:literal) => {
                from[$lane].wrapping_add(at).cast::<i64>().read_unaligned()
            };
        }
        V4x64(_mm256_setr_epi64x(word!(0), word!(1), word!(2), word!(3)))
    }
}

/// Three levels: words, pairs, and halves.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn transpose_8(rows: &mut [V8x32; LANES_MAX]) {
    let mut a = [rows[0].0; 8];
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..4 {
            a[2 * i] = _mm256_unpacklo_epi32(rows[2 * i].0, rows[2 * i + 1].0);
            a[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i].0, rows[2 * i + 1].0);
        }
        // Word `w` of four rows in each half: b[4 * g + w].
        let mut b = a;
        for g in 0..2 {
            b[4 * g] = _mm256_unpacklo_epi64(a[4 * g], a[4 * g + 2]);
            b[4 * g + 1] = _mm256_unpackhi_epi64(a[4 * g], a[4 * g + 2]);
            b[4 * g + 2] = _mm256_unpacklo_epi64(a[4 * g + 1], a[4 * g + 3]);
            b[4 * g + 3] = _mm256_unpackhi_epi64(a[4 * g + 1], a[4 * g + 3]);
        }
        for w in 0..4 {
            rows[w] = V8x32(_mm256_permute2x128_si256::<0x20>(b[w], b[4 + w]));
            rows[4 + w] = V8x32(_mm256_permute2x128_si256::<0x31>(b[w], b[4 + w]));
        }
    }
}

/// Two levels: words and halves.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn transpose_4(rows: &mut [V4x64; LANES_MAX]) {
    // SAFETY: the caller's promise.
    unsafe {
        let a = _mm256_unpacklo_epi64(rows[0].0, rows[1].0);
        let b = _mm256_unpackhi_epi64(rows[0].0, rows[1].0);
        let c = _mm256_unpacklo_epi64(rows[2].0, rows[3].0);
        let d = _mm256_unpackhi_epi64(rows[2].0, rows[3].0);
        rows[0] = V4x64(_mm256_permute2x128_si256::<0x20>(a, c));
        rows[1] = V4x64(_mm256_permute2x128_si256::<0x20>(b, d));
        rows[2] = V4x64(_mm256_permute2x128_si256::<0x31>(a, c));
        rows[3] = V4x64(_mm256_permute2x128_si256::<0x31>(b, d));
    }
}
