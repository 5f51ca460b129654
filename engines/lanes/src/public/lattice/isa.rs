//! The instruction sets of lattices behind one trait, and the kernels made of them.
//!
//! Hashing has an operation, or a polynomial that is drawn, in each word of 64 bits ([`crate::hash::sponge`]). Arithmetic has a
//! polynomial's coefficients side by side: of 16 bits for ML-KEM, of 32 for ML-DSA.

use crate::hash::sponge;
use crate::instruction_set::InstructionSet;
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2, Avx512Vbmi2};

pub(crate) use super::portable::Portable;
use super::tables::{DsaTables, KemTables};
use super::{fields, sample};

/// Where sampled coefficients of 16 bits go: a polynomial, and what the last vector may write over.
pub(crate) type Words16 = [i16; 256 + 32];
/// The same of 32 bits.
pub(crate) type Words32 = [i32; 256 + 16];

/// An instruction set; a value is the proof that this processor has it. Words have signs; sums and products are modulo `2^16`
/// and `2^32`.
pub(crate) trait Isa: InstructionSet + 'static {
    /// A vector.
    type V: Copy;
    /// The vectors of sponges.
    type Hash: sponge::Isa;
    /// Bytes of a vector.
    const BYTES: usize;
    /// Factors of ML-KEM's transform in the order in which they are used.
    const KEM: &'static KemTables;
    /// The same for ML-DSA.
    const DSA: &'static DsaTables;

    /// The instruction set of sponges.
    fn hash(self) -> Self::Hash;
    /// Reads a vector.
    ///
    /// # Safety
    /// `BYTES` bytes may be read from there.
    unsafe fn load(self, from: *const u8) -> Self::V;
    /// Writes a vector.
    ///
    /// # Safety
    /// `BYTES` bytes may be written there.
    unsafe fn store(self, vector: Self::V, to: *mut u8);
    /// Reads a byte for each word of 32 bits.
    ///
    /// # Safety
    /// `BYTES / 4` bytes may be read from there.
    unsafe fn widen(self, from: *const u8) -> Self::V;
    /// The same word of 16 bits everywhere.
    fn splat16(self, word: i16) -> Self::V;
    /// The same word of 32 bits everywhere.
    fn splat32(self, word: i32) -> Self::V;
    /// Bitwise and.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(self, a: Self::V, b: Self::V) -> Self::V;

    /// Adds words of 16 bits.
    fn add16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Subtracts words of 16 bits.
    fn sub16(self, a: Self::V, b: Self::V) -> Self::V;
    /// The low halves of products of 16 bits.
    fn mul_low16(self, a: Self::V, b: Self::V) -> Self::V;
    /// The high halves of the same, with signs.
    fn mul_high16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Products of 16 bits with signs, divided by `2^15` and rounded.
    fn mul_round16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Sums of two neighbours' products of 16 bits, as words of 32 bits.
    fn mul_pairs16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shifts words of 16 bits left.
    fn shl16<const BITS: i32>(self, a: Self::V) -> Self::V;
    /// Shifts words of 16 bits right, copies of the sign first.
    fn sar16<const BITS: i32>(self, a: Self::V) -> Self::V;
    /// Exchanges the halves of words of 32 bits.
    fn swap16(self, a: Self::V) -> Self::V;
    /// The low halves of words of 32 bits from one vector, the high ones from another.
    fn halves16(self, low: Self::V, high: Self::V) -> Self::V;
    /// The signs of words of 16 bits as bits, the first lowest.
    fn signs16(self, a: Self::V) -> u32;

    /// Adds words of 32 bits.
    fn add32(self, a: Self::V, b: Self::V) -> Self::V;
    /// Subtracts words of 32 bits.
    fn sub32(self, a: Self::V, b: Self::V) -> Self::V;
    /// The low halves of products of 32 bits.
    fn mul_low32(self, a: Self::V, b: Self::V) -> Self::V;
    /// Products of the low words of 32 bits, with signs, of each word of 64 bits.
    fn mul_even32(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shifts words of 32 bits left.
    fn shl32<const BITS: u32>(self, a: Self::V) -> Self::V;
    /// Shifts words of 32 bits right, zeros first.
    fn shr32<const BITS: u32>(self, a: Self::V) -> Self::V;
    /// Shifts words of 32 bits right, copies of the sign first.
    fn sar32<const BITS: u32>(self, a: Self::V) -> Self::V;
    /// The low halves of words of 64 bits from one vector, the high ones from another.
    fn halves32(self, low: Self::V, high: Self::V) -> Self::V;

    /// Adds words of 64 bits.
    fn add64(self, a: Self::V, b: Self::V) -> Self::V;
    /// Subtracts words of 64 bits.
    fn sub64(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shifts words of 64 bits right, zeros first.
    fn shr64<const BITS: u32>(self, a: Self::V) -> Self::V;

    /// Exchanges the odd blocks of so many bytes (4, 8, 16 and, of vectors of 64, 32) of the first vector with the even ones
    /// of the second. Its own inverse.
    fn transpose(self, block: usize, a: Self::V, b: Self::V) -> (Self::V, Self::V);

    /// Reads fields of `bits` bits, an even number from 8 to 24, one behind the other: one for each word of 32 bits.
    #[inline(always)]
    fn fields(self, bits: usize, bytes: &[u8]) -> Self::V {
        let longs = fields::take(bits, bytes, Self::BYTES / 8);
        // SAFETY: a vector is no longer.
        unsafe { self.load(longs.as_ptr().cast()) }
    }

    /// Writes words of 32 bits, of which only the lowest `bits` bits are set, an even number from 4 to 24, as fields.
    #[inline(always)]
    fn put_fields(self, bits: usize, words: Self::V, bytes: &mut [u8]) {
        let mut longs = [0u64; fields::LONGS_MAX];
        // SAFETY: a vector is no longer.
        unsafe { self.store(words, longs.as_mut_ptr().cast()) };
        fields::put(bits, &longs[..Self::BYTES / 8], bytes);
    }

    /// Takes numbers of 12 bits that are below ML-KEM's modulus (FIPS 203, algorithm 7) from bytes, of which there are a
    /// multiple of three, until there are 256. `count` are there; returns how many then are. Not for secrets.
    #[inline(always)]
    fn below_kem(self, bytes: &[u8], to: &mut Words16, count: usize) -> usize {
        sample::below_kem(bytes, to, count)
    }

    /// The same with numbers of 23 bits and ML-DSA's modulus (FIPS 204, algorithms 14 and 30).
    #[inline(always)]
    fn below_dsa(self, bytes: &[u8], to: &mut Words32, count: usize) -> usize {
        sample::below_dsa(bytes, to, count)
    }

    /// The same with halves of bytes, which become coefficients from `-eta` to `eta`, 2 or 4 (FIPS 204, algorithms 15 and 31). Which
    /// are taken shows, as FIPS 204 allows; what they become does not.
    #[inline(always)]
    fn within_eta(self, bytes: &[u8], eta: i32, to: &mut Words32, count: usize) -> usize {
        sample::within_eta(bytes, eta, to, count)
    }
}

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
