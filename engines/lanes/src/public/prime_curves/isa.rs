//! What this family, and X448 with it, ask of an instruction set beside [`Isa`]: functions of their own for what is called in many places,
//! and lookups in a table that all lanes share.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{_mm512_loadu_epi64, _mm512_permutex2var_epi64};

use super::super::isa::{Isa, Portable, PublicKernel, Vectors as _};
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx512Ifma, AvxIfma};

/// Words of a table that lanes look up in.
pub(super) const TABLE_WORDS: usize = 32;

/// What a function of its own does. `run` must be `#[inline(always)]`, and so must what it calls. Closures cannot be, and have
/// none of the instructions where they are not inlined: they may do no more than an operation or two.
pub(crate) trait Step<I> {
    /// What comes of it.
    type Out;
    /// Does it.
    fn run(self, isa: I) -> Self::Out;
}

/// An instruction set, as this family uses it.
pub(crate) trait CurveIsa: Isa {
    /// Whether short products stand where they are used, so that one's carries fill the gaps of the next. With fewer and narrower
    /// registers they would be much code for little.
    const INLINES: bool = false;

    /// Runs a step in a function of its own, which has the instructions enabled.
    fn call<S: Step<Self>>(self, step: S) -> S::Out;

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

impl CurveIsa for Portable {
    #[inline(never)]
    fn call<S: Step<Portable>>(self, step: S) -> S::Out {
        step.run(self)
    }
}

#[cfg(target_arch = "x86_64")]
impl CurveIsa for AvxIfma {
    fn call<S: Step<AvxIfma>>(self, step: S) -> S::Out {
        crate::x86::with_avx_ifma! {
            #[inline(never)]
            fn enabled<S: Step<AvxIfma>>(isa: AvxIfma, step: S) -> S::Out {
                step.run(isa)
            }
        }
        // SAFETY: `self` is the proof that the processor has the features that the function enables.
        unsafe { enabled(self, step) }
    }
}

#[cfg(target_arch = "x86_64")]
impl CurveIsa for Avx512Ifma {
    const INLINES: bool = true;

    fn call<S: Step<Avx512Ifma>>(self, step: S) -> S::Out {
        crate::x86::with_avx512_ifma! {
            #[inline(never)]
            fn enabled<S: Step<Avx512Ifma>>(isa: Avx512Ifma, step: S) -> S::Out {
                step.run(isa)
            }
        }
        // SAFETY: as above.
        unsafe { enabled(self, step) }
    }

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

/// What is done for a batch, whichever the kernel.
pub(crate) trait Task {
    /// What comes of it.
    type Out;
    /// Does it. Must be `#[inline(always)]`, and so must what it calls.
    fn run<I: CurveIsa>(self, isa: I) -> Self::Out;
}

/// A task as a step.
struct Whole<T>(T);

impl<I: CurveIsa, T: Task> Step<I> for Whole<T> {
    type Out = T::Out;

    #[inline(always)]
    fn run(self, isa: I) -> T::Out {
        self.0.run(isa)
    }
}

/// Runs a task with the kernel's instruction set.
pub(crate) fn with_vectors<T: Task>(kernel: PublicKernel, task: T) -> T::Out {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        PublicKernel::Avx512Ifma(isa) => isa.call(Whole(task)),
        #[cfg(target_arch = "x86_64")]
        PublicKernel::AvxIfma(isa) => isa.call(Whole(task)),
        PublicKernel::Portable(isa) => isa.call(Whole(task)),
    }
}
