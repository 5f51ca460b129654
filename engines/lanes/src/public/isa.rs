//! The instruction sets of this family behind one trait, and the kernels made of them.
//!
//! A kernel is written once, generic over [`Vectors`], and stamped for each instruction set by [`public_kernels!`]. Numbers are
//! *transposed*: limb `i` of all lanes' numbers is one vector. A limb has [`LIMB_BITS`] bits when it is a factor; sums of
//! products are kept in words of 64 bits and carried late.

pub(crate) use super::montgomery::Modulus;
pub(crate) use super::portable::Portable;
pub(crate) use super::vectors::{LIMB_BITS, LIMB_MAX, Vectors, low_limb};
#[cfg(target_arch = "x86_64")]
pub(crate) use crate::x86::{Avx512Ifma, AvxIfma};

crate::instruction_set::kernels! {
    /// The kernel, with the proof that this processor can run it.
    PublicKernel {
        /// AVX-512 and its multiplications of 52 bits: 8 lanes.
        #[cfg(target_arch = "x86_64")]
        Avx512Ifma(Avx512Ifma),
        /// AVX2 and the same multiplications on 256 bits: 4 lanes.
        #[cfg(target_arch = "x86_64")]
        AvxIfma(AvxIfma),
        /// Arrays of words: 2 lanes.
        Portable(Portable),
    }
}

impl PublicKernel {
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: PublicKernel = PublicKernel::Portable(Portable);

    /// Operations side by side.
    pub(crate) fn lanes(self) -> u16 {
        match self {
            #[cfg(target_arch = "x86_64")]
            PublicKernel::Avx512Ifma(_) => Avx512Ifma::LANES as u16,
            #[cfg(target_arch = "x86_64")]
            PublicKernel::AvxIfma(_) => AvxIfma::LANES as u16,
            PublicKernel::Portable(_) => Portable::LANES as u16,
        }
    }

    /// How many times as long as with vectors of 512 bits an operation takes in full lanes: a guess, until it is measured.
    pub(crate) fn slower(self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            PublicKernel::Avx512Ifma(_) => 1.0,
            #[cfg(target_arch = "x86_64")]
            PublicKernel::AvxIfma(_) => 1.5,
            PublicKernel::Portable(_) => 20.0,
        }
    }
}

/// Stamps a function for each instruction set: `fn name(kernel, arguments…)` calls `generic(isa, arguments…)` within a
/// function that enables the instructions. `generic` and what it calls must be `#[inline(always)]`.
macro_rules! public_kernels {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $generic:path) => {
        $(#[$doc])*
        $vis fn $name(kernel: $crate::public::isa::PublicKernel, $($arg: $type),*) $(-> $out)? {
            use $crate::public::isa::{PublicKernel, Portable};
            #[cfg(target_arch = "x86_64")]
            use $crate::public::isa::{Avx512Ifma, AvxIfma};
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx512_ifma! {
                fn avx512_ifma(isa: Avx512Ifma, $($arg: $type),*) $(-> $out)? {
                    $generic(isa, $($arg),*)
                }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx_ifma! {
                fn avx_ifma(isa: AvxIfma, $($arg: $type),*) $(-> $out)? {
                    $generic(isa, $($arg),*)
                }
            }
            fn portable(isa: Portable, $($arg: $type),*) $(-> $out)? {
                $generic(isa, $($arg),*)
            }
            match kernel {
                // SAFETY: an `Avx512Ifma` exists only where `Avx512Ifma::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                PublicKernel::Avx512Ifma(isa) => unsafe { avx512_ifma(isa, $($arg),*) },
                // SAFETY: an `AvxIfma` exists only where `AvxIfma::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                PublicKernel::AvxIfma(isa) => unsafe { avx_ifma(isa, $($arg),*) },
                PublicKernel::Portable(isa) => portable(isa, $($arg),*),
            }
        }
    };
}
pub(crate) use public_kernels;
