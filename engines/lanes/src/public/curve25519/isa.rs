//! What this family asks of an instruction set beyond [`Isa`].
//!
//! With vectors of 512 bits, products of the field are part of what uses them, so that one's carries fill the gaps of the next. With
//! fewer and narrower registers they would be much code for little, and are functions.

use super::super::isa::{Isa, Portable, Vectors};
use super::product::{LIMBS, product, square};
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx512Ifma, AvxIfma};

/// Entries of a table that all lanes share.
pub(super) const SHARED: usize = 16;

/// An instruction set with this field and its tables.
pub(super) trait FieldIsa: Isa {
    /// [`product`].
    fn field_product(self, a: &[Self::V; LIMBS], b: &[Self::V; LIMBS]) -> [Self::V; LIMBS];
    /// [`square`].
    fn field_square(self, a: &[Self::V; LIMBS]) -> [Self::V; LIMBS];

    /// The word that each lane's number, below sixteen, names. No address depends on the numbers.
    #[inline(always)]
    fn pick(self, words: &[u64; SHARED], which: Self::V) -> Self::V {
        let mut picked = self.splat(words[0]);
        for (index, word) in words.iter().enumerate().skip(1) {
            picked = self.select(self.equal(which, self.splat(index as u64)), self.splat(*word), picked);
        }
        picked
    }
}

impl FieldIsa for Portable {
    #[inline(never)]
    fn field_product(self, a: &[Self::V; LIMBS], b: &[Self::V; LIMBS]) -> [Self::V; LIMBS] {
        product(self, a, b)
    }

    #[inline(never)]
    fn field_square(self, a: &[Self::V; LIMBS]) -> [Self::V; LIMBS] {
        square(self, a)
    }
}

#[cfg(target_arch = "x86_64")]
impl FieldIsa for AvxIfma {
    #[inline(always)]
    fn field_product(self, a: &[Self::V; LIMBS], b: &[Self::V; LIMBS]) -> [Self::V; LIMBS] {
        type V = <AvxIfma as Vectors>::V;
        crate::x86::with_avx_ifma! {
            #[inline(never)]
            fn enabled(isa: AvxIfma, a: &[V; LIMBS], b: &[V; LIMBS]) -> [V; LIMBS] {
                product(isa, a, b)
            }
        }
        // SAFETY: `self` is the proof that the processor has the features that the function enables.
        unsafe { enabled(self, a, b) }
    }

    #[inline(always)]
    fn field_square(self, a: &[Self::V; LIMBS]) -> [Self::V; LIMBS] {
        type V = <AvxIfma as Vectors>::V;
        crate::x86::with_avx_ifma! {
            #[inline(never)]
            fn enabled(isa: AvxIfma, a: &[V; LIMBS]) -> [V; LIMBS] {
                square(isa, a)
            }
        }
        // SAFETY: as above.
        unsafe { enabled(self, a) }
    }
}

#[cfg(target_arch = "x86_64")]
impl FieldIsa for Avx512Ifma {
    #[inline(always)]
    fn field_product(self, a: &[Self::V; LIMBS], b: &[Self::V; LIMBS]) -> [Self::V; LIMBS] {
        product(self, a, b)
    }

    #[inline(always)]
    fn field_square(self, a: &[Self::V; LIMBS]) -> [Self::V; LIMBS] {
        square(self, a)
    }

    #[inline(always)]
    fn pick(self, words: &[u64; SHARED], which: Self::V) -> Self::V {
        use core::arch::x86_64::{_mm512_loadu_si512, _mm512_permutex2var_epi64};
        // SAFETY: two vectors are read, which are the sixteen words; `self` is the proof that the processor has the instructions.
        unsafe {
            let low = _mm512_loadu_si512(words.as_ptr().cast());
            let high = _mm512_loadu_si512(words.as_ptr().add(SHARED / 2).cast());
            _mm512_permutex2var_epi64(low, which, high)
        }
    }
}
