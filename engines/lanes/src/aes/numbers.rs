//! Arithmetic on the two 64-bit numbers of each block, for modes that calculate (FF1).

use core::arch::x86_64::*;

use super::isa::{Blocks, Isa};
use super::v128::V128;
use super::v256::V256;
use super::v512::V512;

/// A vector of blocks as pairs of 64-bit numbers.
pub(crate) trait Numbers: Blocks {
    /// Subtracts 64-bit numbers.
    fn sub64(self, other: Self) -> Self;
    /// The products of the low 32 bits of each 64-bit number.
    fn mul32(self, other: Self) -> Self;
    /// The low 64 bits of the products of 64-bit numbers.
    fn mul64(self, other: Self) -> Self;
    /// Shifts 64-bit numbers right by the same count everywhere; from 64 on nothing is left.
    fn shr64_by(self, count: Self) -> Self;
    /// Shifts 64-bit numbers left by the same count everywhere; from 64 on nothing is left.
    fn shl64_by(self, count: Self) -> Self;
    /// The low number of each block, with the other's behind it.
    fn low_halves(self, other: Self) -> Self;
    /// The high number of each block, with the other's behind it.
    fn high_halves(self, other: Self) -> Self;
    /// `self - modulus` in each 64-bit number that is not less; both are below 2^63.
    fn reduce64(self, modulus: Self) -> Self;
    /// The lesser of 32-bit numbers.
    fn min32(self, other: Self) -> Self;
    /// Subtracts 16-bit numbers; where the other is greater, zero.
    fn sub16_saturating(self, other: Self) -> Self;
}

/// An instruction set whose vectors calculate.
pub(crate) trait NumberIsa: Isa<V: Numbers> {}

impl<I: Isa<V: Numbers>> NumberIsa for I {}

impl Numbers for V512 {
    #[inline(always)]
    fn sub64(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn mul32(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_mul_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul64(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_mullo_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn shr64_by(self, count: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_srlv_epi64(self.0, count.0) })
    }

    #[inline(always)]
    fn shl64_by(self, count: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_sllv_epi64(self.0, count.0) })
    }

    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_unpacklo_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_unpackhi_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn reduce64(self, modulus: Self) -> Self {
        // A difference below zero is a large number without a sign.
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_min_epu64(self.0, _mm512_sub_epi64(self.0, modulus.0)) })
    }

    #[inline(always)]
    fn min32(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_min_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub16_saturating(self, other: Self) -> Self {
        // SAFETY: a `V512` exists only where `Vaes512` was detected.
        V512(unsafe { _mm512_subs_epu16(self.0, other.0) })
    }
}

impl Numbers for V256 {
    #[inline(always)]
    fn sub64(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn mul32(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_mul_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul64(self, other: Self) -> Self {
        mul64_of_halves(self, other)
    }

    #[inline(always)]
    fn shr64_by(self, count: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_srlv_epi64(self.0, count.0) })
    }

    #[inline(always)]
    fn shl64_by(self, count: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_sllv_epi64(self.0, count.0) })
    }

    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_unpacklo_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_unpackhi_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn reduce64(self, modulus: Self) -> Self {
        // The blend looks at signs: of a difference below zero the number itself is kept.
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        unsafe {
            let less = _mm256_castsi256_pd(_mm256_sub_epi64(self.0, modulus.0));
            V256(_mm256_castpd_si256(_mm256_blendv_pd(less, _mm256_castsi256_pd(self.0), less)))
        }
    }

    #[inline(always)]
    fn min32(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_min_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub16_saturating(self, other: Self) -> Self {
        // SAFETY: a `V256` exists only where `Vaes256` was detected.
        V256(unsafe { _mm256_subs_epu16(self.0, other.0) })
    }
}

impl Numbers for V128 {
    #[inline(always)]
    fn sub64(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn mul32(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_mul_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul64(self, other: Self) -> Self {
        mul64_of_halves(self, other)
    }

    #[inline(always)]
    fn shr64_by(self, count: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_srl_epi64(self.0, count.0) })
    }

    #[inline(always)]
    fn shl64_by(self, count: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_sll_epi64(self.0, count.0) })
    }

    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_unpacklo_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_unpackhi_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn reduce64(self, modulus: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        unsafe {
            let less = _mm_castsi128_pd(_mm_sub_epi64(self.0, modulus.0));
            V128(_mm_castpd_si128(_mm_blendv_pd(less, _mm_castsi128_pd(self.0), less)))
        }
    }

    #[inline(always)]
    fn min32(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_min_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub16_saturating(self, other: Self) -> Self {
        // SAFETY: a `V128` exists only where `AesNi` was detected.
        V128(unsafe { _mm_subs_epu16(self.0, other.0) })
    }
}

/// The low 64 bits of a product, where no instruction has them.
#[inline(always)]
fn mul64_of_halves<V: Numbers>(a: V, b: V) -> V {
    let crossed = a.mul32(b.shr64::<32>()).add64(a.shr64::<32>().mul32(b));
    a.mul32(b).add64(crossed.shl64::<32>())
}

#[cfg(test)]
mod tests {
    use super::super::isa::{AesNi, Vaes256, Vaes512};
    use super::*;
    use crate::instruction_set::InstructionSet;

    fn numbers<V: Numbers>(vector: V, len: usize) -> Vec<u64> {
        let mut numbers = vec![0; len];
        // SAFETY: a vector has `len` numbers.
        unsafe { vector.store(numbers.as_mut_ptr().cast()) };
        numbers
    }

    fn check<I: NumberIsa>(isa: I) {
        let len = 2 * I::LEN;
        let a: Vec<u64> = (1..=len as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).collect();
        let b: Vec<u64> = (1..=len as u64).map(|i| i.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 1).collect();
        // SAFETY: both hold a vector.
        let (va, vb) = unsafe { (isa.load(a.as_ptr().cast()), isa.load(b.as_ptr().cast())) };
        let each = |f: &dyn Fn(u64, u64) -> u64| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect::<Vec<u64>>();
        assert_eq!(numbers(va.sub64(vb), len), each(&|a, b| a.wrapping_sub(b)));
        assert_eq!(numbers(va.mul32(vb), len), each(&|a, b| (a & 0xffff_ffff) * (b & 0xffff_ffff)));
        assert_eq!(numbers(va.mul64(vb), len), each(&|a, b| a.wrapping_mul(b)));
        for count in [0, 1, 33, 63, 64, 65] {
            let by = isa.pair(count, count);
            assert_eq!(numbers(va.shr64_by(by), len), each(&|a, _| a.checked_shr(count as u32).unwrap_or(0)));
            assert_eq!(numbers(va.shl64_by(by), len), each(&|a, _| a.checked_shl(count as u32).unwrap_or(0)));
        }
        let pick = |odd: usize| (0..len).map(|i| [&a, &b][i % 2][(i & !1) + odd]).collect::<Vec<u64>>();
        assert_eq!(numbers(va.low_halves(vb), len), pick(0));
        assert_eq!(numbers(va.high_halves(vb), len), pick(1));
        assert_eq!(numbers(va.reduce64(vb), len), each(&|a, b| if a < b { a } else { a - b }));
        assert_eq!(numbers(va.reduce64(va), len), vec![0; len]);
        let halves = |a: u64, b: u64| (a as u32).min(b as u32) as u64 | (a >> 32).min(b >> 32) << 32;
        assert_eq!(numbers(va.min32(vb), len), each(&halves));
        let quarters = |a: u64, b: u64| {
            (0..4).map(|i| u64::from(((a >> (16 * i)) as u16).saturating_sub((b >> (16 * i)) as u16)) << (16 * i)).sum()
        };
        assert_eq!(numbers(va.sub16_saturating(vb), len), each(&quarters));
    }

    #[test]
    fn vectors_calculate_like_numbers() {
        if let Some(isa) = Vaes512::detect() {
            check(isa);
        }
        if let Some(isa) = Vaes256::detect() {
            check(isa);
        }
        if let Some(isa) = AesNi::detect() {
            check(isa);
        }
    }
}
