//! The instruction sets of this family behind one trait, and the kernels made of them.
//!
//! Polynomials are *transposed*: word `i` of all lanes' polynomials is one vector. A carry-less product of two words has two; those
//! of all lanes are kept as the instructions leave them until they have been summed.

use super::super::portable::Portable;
use crate::instruction_set::InstructionSet;
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2Clmul, Avx512Clmul};

/// Lanes at most.
pub(super) const LANES_MAX: usize = 8;

/// An instruction set with carry-less products; a value is the proof that this processor has it.
pub(super) trait Carryless: InstructionSet + 'static {
    /// A word of each lane.
    type V: Copy;
    /// A product of two words of each lane.
    type P: Copy;
    /// Lanes.
    const LANES: usize;

    /// The same word everywhere.
    fn splat(self, word: u64) -> Self::V;
    /// The first words, one a lane.
    fn load(self, words: &[u64; LANES_MAX]) -> Self::V;
    /// The lanes' words, then zeros.
    fn store(self, vector: Self::V) -> [u64; LANES_MAX];
    /// Bitwise exclusive or, the sum of polynomials.
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise and.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shifts words left by fewer than 64 bits.
    fn shl(self, a: Self::V, bits: u32) -> Self::V;
    /// Shifts words right by fewer than 64 bits, zeros first.
    fn shr(self, a: Self::V, bits: u32) -> Self::V;
    /// All ones where a word is zero, else zero.
    fn zero_mask(self, a: Self::V) -> Self::V;
    /// `a` where the mask is all ones, `b` where it is zero.
    fn select(self, mask: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// The carry-less products.
    fn product(self, a: Self::V, b: Self::V) -> Self::P;
    /// The sum of products.
    fn sum(self, a: Self::P, b: Self::P) -> Self::P;
    /// The low and the high words of products.
    fn halves(self, product: Self::P) -> [Self::V; 2];
}

crate::instruction_set::kernels! {
    /// The kernel, with the proof that this processor can run it.
    BinaryKernel {
        /// AVX-512 and VPCLMULQDQ: 8 lanes.
        #[cfg(target_arch = "x86_64")]
        Avx512Clmul(Avx512Clmul),
        /// AVX2 and VPCLMULQDQ on 256 bits: 4 lanes.
        #[cfg(target_arch = "x86_64")]
        Avx2Clmul(Avx2Clmul),
        /// Integer products of words with holes: 2 lanes.
        Portable(Portable),
    }
}

impl BinaryKernel {
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: BinaryKernel = BinaryKernel::Portable(Portable);

    /// Operations side by side.
    pub(crate) fn lanes(self) -> u16 {
        match self {
            #[cfg(target_arch = "x86_64")]
            BinaryKernel::Avx512Clmul(_) => Avx512Clmul::LANES as u16,
            #[cfg(target_arch = "x86_64")]
            BinaryKernel::Avx2Clmul(_) => Avx2Clmul::LANES as u16,
            BinaryKernel::Portable(_) => Portable::LANES as u16,
        }
    }

    /// How many times as long as with vectors of 512 bits an operation takes in full lanes: a guess, until it is measured.
    pub(super) fn slower(self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            BinaryKernel::Avx512Clmul(_) => 1.0,
            #[cfg(target_arch = "x86_64")]
            BinaryKernel::Avx2Clmul(_) => 2.0,
            BinaryKernel::Portable(_) => 80.0,
        }
    }
}

crate::instruction_set::tasks! {
    pub(super) BinaryKernel: Carryless {
        #[cfg(target_arch = "x86_64")]
        Avx512Clmul,
        #[cfg(target_arch = "x86_64")]
        Avx2Clmul,
        Portable,
    }
}
