//! Vectors of 2, 4 or 8 words of 64 bits, a lane each, and their multiplication of 52 bits.

use super::unrolled::unrolled;
use crate::instruction_set::InstructionSet;

/// Bits of a limb.
pub(crate) const LIMB_BITS: u32 = 52;

/// The largest limb.
pub(crate) const LIMB_MAX: u64 = (1 << LIMB_BITS) - 1;

/// An instruction set; a value is the proof that this processor has it.
pub(crate) trait Vectors: InstructionSet + 'static {
    /// A vector of words.
    type V: Copy;
    /// A truth value of each lane.
    type M: Copy;
    /// Lanes.
    const LANES: usize;
    /// Whether short products stand where they are used, so that one's carries fill the gaps of the next. With fewer and narrower
    /// registers they would be much code for little.
    const INLINES: bool = false;

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
}

/// A limb with nothing above its 52 bits.
#[inline(always)]
pub(crate) fn low_limb<I: Vectors>(isa: I, a: I::V) -> I::V {
    isa.and(a, isa.splat(LIMB_MAX))
}

/// Whether all lanes have no more than so many bits: what the bounds of a field rest on, in builds that check.
#[inline(always)]
pub(crate) fn debug_bits<I: Vectors, const BITS: u32, const N: usize>(isa: I, words: &[I::V; N]) {
    if cfg!(debug_assertions) {
        let mut any = words[0];
        unrolled!(i < N => {
            any = isa.or(any, words[i]);
        });
        let are_short = isa.bits(isa.equal(isa.shr::<BITS>(any), isa.splat(0))) == (1 << I::LANES) - 1;
        assert!(are_short, "a limb of too many bits");
    }
}
