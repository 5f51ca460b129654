//! The instruction sets of this family behind one trait: vectors of 4, 8 or 16 words of 32 bits.
//!
//! A kernel is written once, generic over [`Isa`], and stamped for each instruction set by [`chacha_kernels!`]. A value
//! of an `Isa` type is the proof that this processor has its instructions: only its detection makes one.
//! Vectors come from such a value only, so the methods of [`Words`] are safe.
//!
//! A vector is a row of quarters of 128 bits. What crosses quarters is left to [`Isa::load_quarters`] and
//! [`Isa::blocks`]; everything else works within each quarter, so that kernels need not know how wide a vector is.
//!
//! Everything here is `#[inline(always)]`: intrinsics become single instructions only within a function that enables
//! their features, and the stamped entry points are those functions.

pub(crate) use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use super::v128::Sse2;
#[cfg(target_arch = "x86_64")]
pub(crate) use crate::x86::{Avx2, Avx512, Avx512Ifma};

use super::wide::Wide;

/// A vector of 32-bit words.
pub(crate) trait Words: Copy {
    /// Adds words.
    fn add(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Rotates words left by 16, 12, 8 or 7 bits.
    fn rotate_left<const BITS: i32>(self) -> Self;
    /// Moves the words of each quarter `BY` places towards its first word.
    fn turn<const BY: usize>(self) -> Self;
}

/// An instruction set; a value is the proof that this processor has it.
pub(crate) trait Isa: Copy {
    /// Its vector.
    type V: Words;
    /// 64 bytes.
    type B: Copy;
    /// Poly1305 over several blocks of one message side by side.
    type Wide: Wide<Self>;
    /// Quarters of 128 bits in a vector: 1, 2 or 4.
    const QUARTERS: usize;
    /// Words in a vector.
    const LEN: usize = 4 * Self::QUARTERS;

    /// The same word everywhere.
    fn splat(self, word: u32) -> Self::V;
    /// The same quarter everywhere.
    fn splat_quarter(self, words: &[u32; 4]) -> Self::V;
    /// Reads a vector.
    ///
    /// # Safety
    /// `16 · QUARTERS` bytes from `from` may be read.
    unsafe fn load(self, from: *const u8) -> Self::V;
    /// Reads 16 bytes into each quarter, `at` bytes behind each of the pointers that start at `from`.
    ///
    /// # Safety
    /// `QUARTERS` pointers may be read, and 16 bytes at each.
    unsafe fn load_quarters(self, from: *const *const u8, at: usize) -> Self::V;
    /// Transposes the 4 × 4 words that the four vectors hold in the same quarter, in every quarter.
    fn transpose(self, rows: [Self::V; 4]) -> [Self::V; 4];
    /// The 64 bytes that the four vectors hold in their first quarters, in their second ones, and so on; the first
    /// `QUARTERS` entries count.
    fn blocks(self, rows: [Self::V; 4]) -> [Self::B; 4];

    /// Exclusive or of 64 bytes.
    fn xor(self, a: Self::B, b: Self::B) -> Self::B;
    /// The first `len` bytes, at most 64; zero behind them.
    fn keep(self, block: Self::B, len: usize) -> Self::B;
    /// Reads 64 bytes.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn load_block(self, from: *const u8) -> Self::B;
    /// Reads `len` bytes, at most 64, and no others; the rest is zero.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn load_partial(self, from: *const u8, len: usize) -> Self::B;
    /// Writes 64 bytes.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn store_block(self, block: Self::B, to: *mut u8);
    /// Writes the first `len` bytes, at most 64, and no others.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn store_partial(self, block: Self::B, to: *mut u8, len: usize);
}

crate::instruction_set::kernels! {
    /// The kernel, with the proof that this processor can run it.
    ChaChaKernel {
        /// AVX-512 and its multiplications of 52 bits.
        #[cfg(target_arch = "x86_64")]
        Avx512Ifma(Avx512Ifma),
        /// AVX-512.
        #[cfg(target_arch = "x86_64")]
        Avx512(Avx512),
        /// AVX2.
        #[cfg(target_arch = "x86_64")]
        Avx2(Avx2),
        /// SSE2.
        #[cfg(target_arch = "x86_64")]
        Sse2(Sse2),
        /// Arrays of words.
        Portable(Portable),
    }
}

impl ChaChaKernel {
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: ChaChaKernel = ChaChaKernel::Portable(Portable);

    /// Messages or blocks side by side.
    pub(crate) fn lanes(self) -> u16 {
        match self {
            #[cfg(target_arch = "x86_64")]
            ChaChaKernel::Avx512Ifma(_) | ChaChaKernel::Avx512(_) => 16,
            #[cfg(target_arch = "x86_64")]
            ChaChaKernel::Avx2(_) => 8,
            #[cfg(target_arch = "x86_64")]
            ChaChaKernel::Sse2(_) => 4,
            ChaChaKernel::Portable(_) => 4,
        }
    }
}

/// Stamps a function for each instruction set: `fn name(kernel, arguments…)` calls `generic(isa, arguments…)` within a
/// function that enables the instructions. `generic` and what it calls must be `#[inline(always)]`.
macro_rules! chacha_kernels {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $generic:path) => {
        $(#[$doc])*
        $vis fn $name(kernel: $crate::chacha::isa::ChaChaKernel, $($arg: $type),*) {
            use $crate::chacha::isa::{ChaChaKernel, Portable};
            #[cfg(target_arch = "x86_64")]
            use $crate::chacha::isa::{Avx2, Avx512, Avx512Ifma, Sse2};
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx512_ifma! {
                fn avx512_ifma(isa: Avx512Ifma, $($arg: $type),*) {
                    $generic(isa, $($arg),*)
                }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx512! {
                fn avx512(isa: Avx512, $($arg: $type),*) {
                    $generic(isa, $($arg),*)
                }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::x86::with_avx2! {
                fn avx2(isa: Avx2, $($arg: $type),*) {
                    $generic(isa, $($arg),*)
                }
            }
            #[cfg(target_arch = "x86_64")]
            fn sse2(isa: Sse2, $($arg: $type),*) {
                $generic(isa, $($arg),*)
            }
            fn portable(isa: Portable, $($arg: $type),*) {
                $generic(isa, $($arg),*)
            }
            match kernel {
                // SAFETY: an `Avx512Ifma` exists only where `Avx512Ifma::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                ChaChaKernel::Avx512Ifma(isa) => unsafe { avx512_ifma(isa, $($arg),*) },
                // SAFETY: an `Avx512` exists only where `Avx512::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                ChaChaKernel::Avx512(isa) => unsafe { avx512(isa, $($arg),*) },
                // SAFETY: an `Avx2` exists only where `Avx2::detect` found these features.
                #[cfg(target_arch = "x86_64")]
                ChaChaKernel::Avx2(isa) => unsafe { avx2(isa, $($arg),*) },
                #[cfg(target_arch = "x86_64")]
                ChaChaKernel::Sse2(isa) => sse2(isa, $($arg),*),
                ChaChaKernel::Portable(isa) => portable(isa, $($arg),*),
            }
        }
    };
}
pub(crate) use chacha_kernels;
