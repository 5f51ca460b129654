//! The instruction sets of this family behind one trait: vectors of 2, 4 or 8 words of 64 bits, a lane each, and their
//! multiplication of 52 bits.
//!
//! A kernel is written once, generic over [`Isa`], and stamped for each instruction set by [`public_kernels!`]. Numbers are
//! *transposed*: limb `i` of all lanes' numbers is one vector. A limb has [`LIMB_BITS`] bits when it is a factor; sums of
//! products are kept in words of 64 bits and carried late.

pub(crate) use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use crate::x86::{Avx512Ifma, AvxIfma};

use super::room::Place;
use crate::instruction_set::InstructionSet;

/// Bits of a limb.
pub(crate) const LIMB_BITS: u32 = 52;

/// The largest limb.
pub(crate) const LIMB_MAX: u64 = (1 << LIMB_BITS) - 1;

/// A modulus of each lane, as [`Isa::product`] and [`Isa::square`] want it.
#[derive(Clone, Copy)]
pub(crate) struct Modulus<I: Isa> {
    /// Its limbs.
    pub(crate) limbs: Place<I>,
    /// `-1 / m` modulo `2^52`.
    pub(crate) inverse: I::V,
    /// Room for as many limbs: the multiples of the modulus that a reduction adds.
    pub(crate) multiples: Place<I>,
}

/// An instruction set; a value is the proof that this processor has it.
pub(crate) trait Isa: InstructionSet + 'static {
    /// A vector of words.
    type V: Copy;
    /// A truth value of each lane.
    type M: Copy;
    /// Lanes.
    const LANES: usize;

    /// The same word everywhere.
    fn splat(self, word: u64) -> Self::V;
    /// Reads a vector.
    ///
    /// # Safety
    /// `LANES` words may be read from there, and the place is aligned to as many.
    unsafe fn load(self, from: *const u64) -> Self::V;
    /// Writes a vector.
    ///
    /// # Safety
    /// `LANES` words may be written there, and the place is aligned to as many.
    unsafe fn store(self, vector: Self::V, to: *mut u64);
    /// Adds words modulo `2^64`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// Subtracts words modulo `2^64`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise and.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shifts words left.
    fn shl<const BITS: u32>(self, a: Self::V) -> Self::V;
    /// Shifts words right, zeros first.
    fn shr<const BITS: u32>(self, a: Self::V) -> Self::V;
    /// Shifts words right, copies of the sign first.
    fn sar<const BITS: u32>(self, a: Self::V) -> Self::V;
    /// `sum` plus the low 52 bits of the products of the factors' low 52 bits.
    fn add_low(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// `sum` plus the high 52 bits of the same products.
    fn add_high(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Where words are equal.
    fn equal(self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where the truth value holds, else `b`.
    fn select(self, which: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// The truth values as bits, lane 0 lowest.
    fn bits(self, which: Self::M) -> u32;

    /// `out = a · b / 2^(52 limbs)` modulo each lane's modulus, not fully reduced: see [`super::montgomery::product`].
    fn product(self, out: Place<Self>, a: Place<Self>, b: Place<Self>, modulus: Modulus<Self>);
    /// The same of `a · a`.
    fn square(self, out: Place<Self>, a: Place<Self>, modulus: Modulus<Self>);
    /// See [`super::montgomery::choose`].
    fn choose(self, out: Place<Self>, table: Place<Self>, stride: usize, which: Self::V);
}

/// A limb with nothing above its 52 bits.
#[inline(always)]
pub(crate) fn low_limb<I: Isa>(isa: I, a: I::V) -> I::V {
    isa.and(a, isa.splat(LIMB_MAX))
}

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
