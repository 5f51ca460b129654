//! Vectors of words, a message a lane, and what digests do with them.
//!
//! A value of an [`Isa`] type is the proof that this processor has its instructions: only [`super::HashKernel::detect`]
//! makes one. Vectors come from such a value only, so that the methods of [`Words`] are safe.
//!
//! Everything here is `#[inline(always)]`: intrinsics become single instructions only within a function that enables
//! their features, and the stamped entry points are those functions.

/// Lanes of the widest vector of 32-bit words.
pub(super) const LANES_MAX: usize = 16;

/// An instruction set; a value is the proof that this processor has it.
pub(crate) trait Isa: Copy {
    /// Words of 32 bits, twice as many as of 64.
    type W32: Words<Isa = Self, Word = u32>;
    /// Words of 64 bits.
    type W64: Words<Isa = Self, Word = u64>;
}

/// A vector of words.
pub(crate) trait Words: Copy {
    /// Where it comes from.
    type Isa: Isa;
    /// Its word.
    type Word: Copy;
    /// Lanes: words in a vector.
    const LEN: usize;
    /// Bytes of a vector.
    const BYTES: usize;

    /// The same word in every lane.
    fn splat(isa: Self::Isa, word: Self::Word) -> Self;
    /// Reads a vector.
    ///
    /// # Safety
    /// `BYTES` bytes may be read.
    unsafe fn load(isa: Self::Isa, from: *const u8) -> Self;
    /// Reads `len` bytes, at most `BYTES`, and no others; the rest is zero.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn load_partial(isa: Self::Isa, from: *const u8, len: usize) -> Self;
    /// Writes a vector.
    ///
    /// # Safety
    /// `BYTES` bytes may be written.
    unsafe fn store(self, to: *mut u8);
    /// The byte `byte` at place `at`, where nothing but zero is; nothing happens when `at` is `BYTES` or more.
    fn with_byte(self, at: usize, byte: u8) -> Self;
    /// `on` in lanes whose bit is set in `lanes`, else `off`.
    fn select(isa: Self::Isa, lanes: u32, on: Self, off: Self) -> Self;
    /// Four words of each lane, which lie `at` bytes behind the places of the lanes.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn four(isa: Self::Isa, from: &[*const u8; LANES_MAX], at: usize) -> [Self; 4];
    /// A word of each lane there.
    ///
    /// # Safety
    /// It may be read.
    unsafe fn one(isa: Self::Isa, from: &[*const u8; LANES_MAX], at: usize) -> Self;
    /// Transposes the first `LEN` rows of as many words.
    fn transpose(rows: &mut [Self; LANES_MAX]);
    /// The bytes of each word in the other order.
    fn swap_bytes(self) -> Self;

    /// Whether [`Words::settle`] has an effect.
    const SETTLES: bool = false;
    /// The same vector, of which the compiler knows no longer how it was computed: it orders sums as it sees fit, and does
    /// not know which of their terms is there last.
    #[inline(always)]
    fn settle(self) -> Self {
        self
    }
    /// Adds words.
    fn add(self, other: Self) -> Self;
    /// Subtracts words.
    fn sub(self, other: Self) -> Self;
    /// Exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Exclusive or of three.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Bits of `on` where those of `self` are set, else of `off`.
    fn choose(self, on: Self, off: Self) -> Self;
    /// What at least two of three have.
    fn majority(self, b: Self, c: Self) -> Self;
    /// `self ^ (!b & c)`: chi (FIPS 202, 3.2.4).
    fn xor_and_not(self, b: Self, c: Self) -> Self;
    /// `self ^ (b | !c)`: MD5's fourth function (RFC 1321, 3.4).
    fn xor_or_not(self, b: Self, c: Self) -> Self;
    /// Rotates words left by `BITS`.
    fn rotate_left<const BITS: i32>(self) -> Self;
    /// Shifts words right.
    fn shift_right<const BITS: u32>(self) -> Self;
}
