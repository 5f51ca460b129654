//! The instruction sets that bit-sliced DES is built for, behind one trait: words of 64, 256 or 512 lanes.
//!
//! A kernel is written once, generic over [`Isa`], and stamped for each instruction set by [`des_kernels!`]. A value of
//! an `Isa` type is the proof that this processor has its instructions: only its detection makes one. Words come
//! from such a value only, so their methods are safe.
//!
//! Everything here is `#[inline(always)]`: intrinsics become single instructions only within a function that enables
//! their features, and the stamped entry points are those functions.

pub(crate) use super::w64::Words64;
use super::word::Word;
#[cfg(target_arch = "x86_64")]
pub(crate) use crate::x86::{Avx2, Avx512, Avx512Vbmi};

/// Blocks of the longest row.
pub(crate) const ROW_MAX: usize = 4;

/// An instruction set; a value is the proof that this processor has it.
pub(crate) trait Isa: Copy {
    /// Its word.
    type W: Word;
    /// Constants of [`Isa::exchange`]; see [`Isa::masks`].
    type Masks: Copy;
    /// Numbers of 64 bits in a word.
    const PARTS: usize;
    /// Blocks of one message that are read and written at once, at most [`ROW_MAX`].
    const ROW: usize;
    /// Bits in a word.
    const LANES: usize = 64 * Self::PARTS;

    /// The same number in each of the word's 64-bit parts.
    fn splat(self, value: u64) -> Self::W;
    /// Reads the rows of `PARTS` messages: `row` gives a message's row and how many blocks it has, `ROW` at most. Part `n`
    /// of the result's word `k` is block `k` of message `n`; what a row does not have is zero.
    ///
    /// # Safety
    /// The rows' blocks may be read.
    unsafe fn read_rows(self, row: impl Fn(usize) -> (*const u8, usize)) -> [Self::W; ROW_MAX];
    /// The way back: writes the blocks that the rows have, and no others.
    ///
    /// # Safety
    /// The rows' blocks may be written.
    unsafe fn write_rows(self, words: [Self::W; ROW_MAX], row: impl Fn(usize) -> (*mut u8, usize));
    /// The constants of exchanges, hidden from the compiler where it would take them as leave to use other, slower
    /// instructions.
    fn masks(self) -> Self::Masks;
    /// Exchanges the bits of `high` whose index has the bit `SHIFT` (a power of two below 64) clear with those of `low`
    /// that have it set, in each 64-bit part. Six such steps transpose 64 words.
    fn exchange<const SHIFT: u32>(self, masks: &Self::Masks, low: Self::W, high: Self::W) -> (Self::W, Self::W);
    /// S-box `BOX`, counted from 0; inputs and outputs begin with the most significant.
    fn substitute<const BOX: usize>(self, a: [Self::W; 6]) -> [Self::W; 4];
}

crate::instruction_set::kernels! {
    /// The kernel that runs DES, with the proof that it can.
    DesKernel {
        /// AVX-512, and VBMI and GFNI for few blocks.
        #[cfg(target_arch = "x86_64")]
        Vbmi(Avx512Vbmi),
        /// AVX-512: 512 lanes, gates of three inputs.
        #[cfg(target_arch = "x86_64")]
        Avx512(Avx512),
        /// AVX2: 256 lanes.
        #[cfg(target_arch = "x86_64")]
        Avx2(Avx2),
        /// Plain 64-bit numbers: 64 lanes.
        Words64(Words64),
    }
}

impl DesKernel {
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: DesKernel = DesKernel::Words64(Words64);

    /// Messages or blocks side by side.
    pub(crate) fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            DesKernel::Vbmi(_) | DesKernel::Avx512(_) => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            DesKernel::Avx2(_) => Avx2::LANES,
            DesKernel::Words64(_) => Words64::LANES,
        }
    }
}

/// Stamps a function for each instruction set: `unsafe fn name(kernel, arguments…)` calls `generic(isa, arguments…)`
/// within a function that enables the instructions. `generic` and what it calls must be `#[inline(always)]`.
macro_rules! des_kernels {
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $generic:path) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name(kernel: $crate::des::isa::DesKernel, $($arg: $type),*) {
            use $crate::des::isa::DesKernel;
            #[cfg(target_arch = "x86_64")]
            use $crate::des::isa::{Avx2, Avx512};
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx512! {
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx512(isa: Avx512, $($arg: $type),*) {
                    // SAFETY: the caller's promise, unchanged.
                    unsafe { $generic(isa, $($arg),*) }
                }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx2! {
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx2(isa: Avx2, $($arg: $type),*) {
                    // SAFETY: the caller's promise, unchanged.
                    unsafe { $generic(isa, $($arg),*) }
                }
            }
            match kernel {
                // SAFETY: an `Avx512` exists only where `Avx512::detect` found these features; the rest is the caller's
                // promise.
                #[cfg(target_arch = "x86_64")]
                DesKernel::Vbmi(isa) => unsafe { avx512(isa.base(), $($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                DesKernel::Avx512(isa) => unsafe { avx512(isa, $($arg),*) },
                // SAFETY: an `Avx2` exists only where `Avx2::detect` found these features; the rest is the caller's
                // promise.
                #[cfg(target_arch = "x86_64")]
                DesKernel::Avx2(isa) => unsafe { avx2(isa, $($arg),*) },
                // SAFETY: the caller's promise, unchanged.
                DesKernel::Words64(isa) => unsafe { $generic(isa, $($arg),*) },
            }
        }
    };
}
pub(crate) use des_kernels;

/// [`Isa::substitute`] by one family of networks.
macro_rules! substitute_by {
    ($family:ident) => {
        #[inline(always)]
        fn substitute<const BOX: usize>(self, a: [Self::W; 6]) -> [Self::W; 4] {
            use $crate::des::sboxes::$family as network;
            let [a1, a2, a3, a4, a5, a6] = a;
            match BOX {
                0 => network::s1(a1, a2, a3, a4, a5, a6),
                1 => network::s2(a1, a2, a3, a4, a5, a6),
                2 => network::s3(a1, a2, a3, a4, a5, a6),
                3 => network::s4(a1, a2, a3, a4, a5, a6),
                4 => network::s5(a1, a2, a3, a4, a5, a6),
                5 => network::s6(a1, a2, a3, a4, a5, a6),
                6 => network::s7(a1, a2, a3, a4, a5, a6),
                _ => network::s8(a1, a2, a3, a4, a5, a6),
            }
        }
    };
}
pub(crate) use substitute_by;
