//! What this family asks of an instruction set beyond [`Vectors`].

use super::super::isa::{Portable, Vectors};
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx512Ifma, AvxIfma};

/// Entries of a table that all lanes share.
pub(super) const SHARED: usize = 16;

/// An instruction set with lookups in the tables of this family.
pub(super) trait FieldIsa: Vectors {
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

impl FieldIsa for Portable {}

#[cfg(target_arch = "x86_64")]
impl FieldIsa for AvxIfma {}

#[cfg(target_arch = "x86_64")]
impl FieldIsa for Avx512Ifma {
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
