//! The instruction sets that AES kernels are built for, behind one trait: vectors of one, two or four blocks.
//!
//! A kernel is written once, generic over [`Isa`], and stamped for each instruction set by [`aes_kernels!`]. A value of
//! an `Isa` type is the proof that this processor has its instructions: only its detection makes one. Vectors
//! come from such a value only, so the methods of [`Blocks`] are safe.
//!
//! Everything here is `#[inline(always)]`: intrinsics become single instructions only within a function that enables
//! their features, and the stamped entry points are those functions.

use core::arch::x86_64::__m128i;

pub(crate) use crate::x86::{AesNi, Vaes256, Vaes512};

/// A vector of [`Isa::LEN`] blocks of 128 bits. Shifts, shuffles and products work within each block.
pub(crate) trait Blocks: Copy {
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Exclusive or of three.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// `self & !mask`.
    fn and_not(self, mask: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// One round of encryption: ShiftRows, SubBytes, MixColumns, AddRoundKey (FIPS 197, 5.1).
    fn aes_enc(self, round_key: Self) -> Self;
    /// The last round of encryption, without MixColumns.
    fn aes_enc_last(self, round_key: Self) -> Self;
    /// One round of the equivalent inverse cipher (FIPS 197, 5.3.5).
    fn aes_dec(self, round_key: Self) -> Self;
    /// The last round of the equivalent inverse cipher.
    fn aes_dec_last(self, round_key: Self) -> Self;
    /// Selects bytes within each block by `indices`, as PSHUFB: an index with its top bit set gives zero.
    fn shuffle(self, indices: Self) -> Self;
    /// Adds four 32-bit numbers in each block.
    fn add32(self, other: Self) -> Self;
    /// Adds two 64-bit numbers in each block.
    fn add64(self, other: Self) -> Self;
    /// Shifts two 64-bit numbers in each block left.
    fn shl64<const BITS: u32>(self) -> Self;
    /// Shifts two 64-bit numbers in each block right.
    fn shr64<const BITS: u32>(self) -> Self;
    /// Shifts four 32-bit numbers in each block left.
    fn shl32<const BITS: u32>(self) -> Self;
    /// Shifts four 32-bit numbers in each block right, filling with the sign.
    fn sar32<const BITS: u32>(self) -> Self;
    /// Shifts each block left (towards its last byte) by whole bytes.
    fn shl_bytes<const BYTES: i32>(self) -> Self;
    /// Selects 32-bit numbers within each block, as PSHUFD.
    fn shuffle32<const ORDER: i32>(self) -> Self;
    /// Carry-less product of one 64-bit half of each block with one of the other's, as PCLMULQDQ: bit 0 of `HALVES`
    /// chooses ours, bit 4 the other's.
    fn clmul<const HALVES: i32>(self, other: Self) -> Self;
    /// The last block of `previous`, then all but the last of this vector: what came before each block of a message.
    fn behind(self, previous: Self) -> Self;
    /// Keeps `len` bytes, at most `16 · LEN`, from the start of block `LANE` on, at most to the vector's end; all others become
    /// zero.
    fn keep_from<const LANE: usize>(self, len: usize) -> Self;
    /// One block of the vector; `index` is below [`Isa::LEN`].
    fn extract(self, index: usize) -> __m128i;
    /// The first block.
    fn first(self) -> __m128i;
    /// Exclusive or of all blocks.
    fn fold(self) -> __m128i;
    /// Writes all bytes.
    ///
    /// # Safety
    /// `16 · LEN` bytes from `to` may be written.
    unsafe fn store(self, to: *mut u8);
    /// Writes the first `len` bytes, at most `16 · LEN`, and no others.
    ///
    /// # Safety
    /// `len` bytes from `to` may be written.
    unsafe fn store_partial(self, to: *mut u8, len: usize);
    /// Writes `len` bytes, at most `16 · LEN`, from the start of block `LANE` on, at most to the vector's end, and no others.
    /// Nothing where the vector has no such block.
    ///
    /// # Safety
    /// `len` bytes from `to` may be written.
    unsafe fn store_from<const LANE: usize>(self, to: *mut u8, len: usize);
}

/// An instruction set; a value is the proof that this processor has it.
pub(crate) trait Isa: Copy {
    /// Its vector.
    type V: Blocks;
    /// Blocks in a vector.
    const LEN: usize;

    /// The instructions on single blocks, which it has too.
    fn single(self) -> AesNi;
    /// All zero.
    fn zero(self) -> Self::V;
    /// The same block everywhere.
    fn splat(self, block: __m128i) -> Self::V;
    /// The same block everywhere, from its bytes.
    fn splat_bytes(self, block: &[u8; 16]) -> Self::V;
    /// Blocks given one by one; the first `LEN` of `blocks`.
    fn gather(self, blocks: [__m128i; 4]) -> Self::V;
    /// Block `i` of each of `LEN` rows becomes row `i`; rows from `LEN` on mean nothing.
    fn transpose(self, rows: [Self::V; 4]) -> [Self::V; 4];
    /// `block` first, all others zero.
    fn only_first(self, block: __m128i) -> Self::V;
    /// The numbers 0, 1, … as the first 32 bits of each block (little-endian), the rest zero.
    fn indices(self) -> Self::V;
    /// Reads `16 · LEN` bytes.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn load(self, from: *const u8) -> Self::V;
    /// Reads `len` bytes, at most `16 · LEN`, and no others; the rest is zero.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn load_partial(self, from: *const u8, len: usize) -> Self::V;
    /// Reads `len` bytes, at most `16 · LEN`, and no others, to the start of block `LANE`, at most to the vector's end; the rest
    /// is zero. Zero altogether where the vector has no such block.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn load_from<const LANE: usize>(self, from: *const u8, len: usize) -> Self::V;
    /// Two 64-bit numbers, repeated: `low` in the first half of each block.
    fn pair(self, low: u64, high: u64) -> Self::V;
    /// Reads one block and repeats it.
    ///
    /// # Safety
    /// Sixteen bytes from `from` may be read.
    unsafe fn load_splat(self, from: *const u8) -> Self::V;

    /// One block, from its bytes.
    #[inline(always)]
    fn block(self, bytes: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen bytes may be read; SSE2 is part of x86-64.
        unsafe { core::arch::x86_64::_mm_loadu_si128(bytes.as_ptr().cast()) }
    }
}

crate::instruction_set::kernels! {
    /// The kernel that runs AES, with the proof that it can.
    AesKernel {
        /// VAES and VPCLMULQDQ on 512 bits.
        Vaes512(Vaes512),
        /// VAES and VPCLMULQDQ on 256 bits.
        Vaes256(Vaes256),
        /// AES-NI and PCLMULQDQ on 128 bits.
        AesNi(AesNi),
    }
}

/// Stamps a function for each instruction set: `fn name(kernel, arguments…)` calls `generic(isa, arguments…)` within a
/// function that enables the instructions. `generic` and what it calls must be `#[inline(always)]`.
macro_rules! aes_kernels {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? = $generic:path) => {
        $(#[$doc])*
        $vis fn $name(kernel: $crate::aes::isa::AesKernel, $($arg: $type),*) $(-> $ret)? {
            use $crate::aes::isa::{AesKernel, AesNi, Vaes256, Vaes512};
            $crate::x86::with_vaes512! {
                fn vaes512(isa: Vaes512, $($arg: $type),*) $(-> $ret)? {
                    $generic(isa, $($arg),*)
                }
            }
            $crate::x86::with_vaes256! {
                fn vaes256(isa: Vaes256, $($arg: $type),*) $(-> $ret)? {
                    $generic(isa, $($arg),*)
                }
            }
            $crate::x86::with_aesni! {
                fn aesni(isa: AesNi, $($arg: $type),*) $(-> $ret)? {
                    $generic(isa, $($arg),*)
                }
            }
            match kernel {
                // SAFETY: a `Vaes512` exists only where `Vaes512::detect` found these features.
                AesKernel::Vaes512(isa) => unsafe { vaes512(isa, $($arg),*) },
                // SAFETY: a `Vaes256` exists only where `Vaes256::detect` found these features.
                AesKernel::Vaes256(isa) => unsafe { vaes256(isa, $($arg),*) },
                // SAFETY: an `AesNi` exists only where `AesNi::detect` found these features.
                AesKernel::AesNi(isa) => unsafe { aesni(isa, $($arg),*) },
            }
        }
    };
}
pub(crate) use aes_kernels;
