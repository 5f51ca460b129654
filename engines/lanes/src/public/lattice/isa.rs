//! The instruction sets of lattices behind one trait, and the kernels made of them.
//!
//! Hashing has an operation, or a polynomial that is drawn, in each word of 64 bits ([`crate::hash::sponge`]). Arithmetic has a
//! polynomial's coefficients side by side: of 16 bits for ML-KEM, of 32 for ML-DSA.

#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2, Avx512Vbmi2};

pub(crate) use super::portable::Portable;
pub(crate) use super::sample::{Words16, Words32};
pub(crate) use super::vectors::Isa;

crate::instruction_set::kernels! {
    /// The kernel, with the proof that this processor can run it.
    LatticeKernel {
        /// AVX-512 with VBMI2: 8 sponges, 32 and 16 coefficients.
        #[cfg(target_arch = "x86_64")]
        Avx512(Avx512Vbmi2),
        /// AVX2: 4 sponges, 16 and 8 coefficients.
        #[cfg(target_arch = "x86_64")]
        Avx2(Avx2),
        /// Arrays: 2 sponges.
        Portable(Portable),
    }
}

impl LatticeKernel {
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: LatticeKernel = LatticeKernel::Portable(Portable);

    /// Sponges side by side.
    pub(crate) fn lanes(self) -> u16 {
        match self {
            #[cfg(target_arch = "x86_64")]
            LatticeKernel::Avx512(_) => 8,
            #[cfg(target_arch = "x86_64")]
            LatticeKernel::Avx2(_) => 4,
            LatticeKernel::Portable(_) => 2,
        }
    }
}

/// Stamps a function for each instruction set: `fn name(kernel, arguments…)` calls `generic(isa, arguments…)` within a
/// function that enables the instructions. `generic` and what it calls must be `#[inline(always)]`.
macro_rules! lattice_kernels {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $generic:path) => {
        $(#[$doc])*
        $vis fn $name(kernel: super::isa::LatticeKernel, $($arg: $type),*) $(-> $out)? {
            use super::isa::{LatticeKernel, Portable};
            #[cfg(target_arch = "x86_64")]
            use $crate::x86::{Avx2, Avx512Vbmi2};
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx512_vbmi2! {
                fn avx512(isa: Avx512Vbmi2, $($arg: $type),*) $(-> $out)? {
                    $generic(isa, $($arg),*)
                }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx2! {
                fn avx2(isa: Avx2, $($arg: $type),*) $(-> $out)? {
                    $generic(isa, $($arg),*)
                }
            }
            fn portable(isa: Portable, $($arg: $type),*) $(-> $out)? {
                $generic(isa, $($arg),*)
            }
            match kernel {
                // SAFETY: an `Avx512Vbmi2` exists only where `Avx512Vbmi2::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                LatticeKernel::Avx512(isa) => unsafe { avx512(isa, $($arg),*) },
                // SAFETY: an `Avx2` exists only where `Avx2::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                LatticeKernel::Avx2(isa) => unsafe { avx2(isa, $($arg),*) },
                LatticeKernel::Portable(isa) => portable(isa, $($arg),*),
            }
        }
    };
}
pub(crate) use lattice_kernels;
