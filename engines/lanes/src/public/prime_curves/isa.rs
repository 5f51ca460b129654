//! What this family, and X448 with it, ask of an instruction set beside [`Vectors`]: lookups in a table that all lanes share.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{_mm512_loadu_epi64, _mm512_permutex2var_epi64};

use super::super::isa::{Portable, PublicKernel, Vectors};
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx512Ifma, AvxIfma};

/// Words of a table that lanes look up in.
pub(super) const TABLE_WORDS: usize = 32;

/// An instruction set, as this family uses it.
pub(crate) trait CurveIsa: Vectors {
    /// Each lane's word of a table, by its index. Every word is read, whatever the indices.
    #[inline(always)]
    fn look_up(self, table: &[u64; TABLE_WORDS], index: Self::V) -> Self::V {
        let mut found = self.splat(0);
        for (at, word) in table.iter().enumerate() {
            let is_here = self.equal(index, self.splat(at as u64));
            found = self.select(is_here, self.splat(*word), found);
        }
        found
    }
}

impl CurveIsa for Portable {}

#[cfg(target_arch = "x86_64")]
impl CurveIsa for AvxIfma {}

#[cfg(target_arch = "x86_64")]
impl CurveIsa for Avx512Ifma {
    /// A permutation of two vectors looks 16 words up; registers have no addresses that could tell anything.
    #[inline(always)]
    fn look_up(self, table: &[u64; TABLE_WORDS], index: Self::V) -> Self::V {
        let is_low = self.equal(self.and(index, self.splat(16)), self.splat(0));
        // SAFETY: the table has 32 words; `self` is the proof that the processor has the instructions.
        let (low, high) = unsafe {
            let place = table.as_ptr().cast::<i64>();
            (
                _mm512_permutex2var_epi64(_mm512_loadu_epi64(place), index, _mm512_loadu_epi64(place.add(8))),
                _mm512_permutex2var_epi64(_mm512_loadu_epi64(place.add(16)), index, _mm512_loadu_epi64(place.add(24))),
            )
        };
        self.select(is_low, low, high)
    }
}

crate::instruction_set::tasks! {
    pub(crate) PublicKernel: CurveIsa {
        #[cfg(target_arch = "x86_64")]
        Avx512Ifma,
        #[cfg(target_arch = "x86_64")]
        AvxIfma,
        Portable,
    }
}
