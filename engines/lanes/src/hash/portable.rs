//! Four words of 32 bits, or two of 64, as arrays: for processors without AVX2. The compiler makes of them what vectors
//! there are. And single words, for one message alone.

use super::vector::{Isa, LANES_MAX, Words};

/// Plain Rust; every processor has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Plain Rust, one message at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

/// Four words of 32 bits.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct A4x32([u32; 4]);

/// Two words of 64 bits.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct A2x64([u64; 2]);

/// A word of 32 bits.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct A1x32([u32; 1]);

/// A word of 64 bits.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct A1x64([u64; 1]);

impl Isa for Scalar {
    type W32 = A1x32;
    type W64 = A1x64;
}

impl Isa for Portable {
    type W32 = A4x32;
    type W64 = A2x64;
}

macro_rules! words_portable {
    ($name:ident, $isa:ident, $word:ty, $len:literal) => {
        impl $name {
            #[inline(always)]
            fn each(mut self, other: Self, f: impl Fn($word, $word) -> $word) -> Self {
                for lane in 0..$len {
                    self.0[lane] = f(self.0[lane], other.0[lane]);
                }
                self
            }

            #[inline(always)]
            fn each3(mut self, b: Self, c: Self, f: impl Fn($word, $word, $word) -> $word) -> Self {
                for lane in 0..$len {
                    self.0[lane] = f(self.0[lane], b.0[lane], c.0[lane]);
                }
                self
            }
        }

        impl Words for $name {
            type Isa = $isa;
            type Word = $word;
            const LEN: usize = $len;
            const BYTES: usize = $len * size_of::<$word>();

            #[inline(always)]
            fn splat(_: $isa, word: $word) -> Self {
                $name([word; $len])
            }

            #[inline(always)]
            unsafe fn load(_: $isa, from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                $name(unsafe { from.cast::<[$word; $len]>().read_unaligned() }.map(<$word>::to_le))
            }

            #[inline(always)]
            unsafe fn load_partial(isa: $isa, from: *const u8, len: usize) -> Self {
                let mut bytes = [0u8; 16];
                // SAFETY: the caller's promise; the bytes are a vector's.
                unsafe {
                    core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len.min(16));
                    Self::load(isa, bytes.as_ptr())
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<[$word; $len]>().write_unaligned(self.0.map(<$word>::to_le)) }
            }

            #[inline(always)]
            fn with_byte(mut self, at: usize, byte: u8) -> Self {
                let bytes = size_of::<$word>();
                if let Some(word) = self.0.get_mut(at / bytes) {
                    *word |= <$word>::from(byte) << (8 * (at % bytes));
                }
                self
            }

            #[inline(always)]
            fn select(_: $isa, lanes: u32, on: Self, mut off: Self) -> Self {
                for lane in 0..$len {
                    if lanes >> lane & 1 == 1 {
                        off.0[lane] = on.0[lane];
                    }
                }
                off
            }

            #[inline(always)]
            unsafe fn four(isa: $isa, from: &[*const u8; LANES_MAX], at: usize) -> [Self; 4] {
                let of = |word: usize| at + word * size_of::<$word>();
                // SAFETY: the caller's promise.
                unsafe {
                    [
                        Self::one(isa, from, of(0)),
                        Self::one(isa, from, of(1)),
                        Self::one(isa, from, of(2)),
                        Self::one(isa, from, of(3)),
                    ]
                }
            }

            #[inline(always)]
            unsafe fn one(_: $isa, from: &[*const u8; LANES_MAX], at: usize) -> Self {
                let mut words = [0; $len];
                for lane in 0..$len {
                    // SAFETY: the caller's promise.
                    words[lane] = unsafe { from[lane].wrapping_add(at).cast::<$word>().read_unaligned().to_le() };
                }
                $name(words)
            }

            #[inline(always)]
            fn transpose(rows: &mut [Self; LANES_MAX]) {
                for row in 0..$len {
                    for column in 0..row {
                        let other = rows[column].0[row];
                        rows[column].0[row] = rows[row].0[column];
                        rows[row].0[column] = other;
                    }
                }
            }

            #[inline(always)]
            fn swap_bytes(self) -> Self {
                $name(self.0.map(<$word>::swap_bytes))
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.each(other, <$word>::wrapping_add)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.each(other, <$word>::wrapping_sub)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self.each(other, |a, b| a ^ b)
            }

            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                self.each3(b, c, |a, b, c| a ^ b ^ c)
            }

            #[inline(always)]
            fn choose(self, on: Self, off: Self) -> Self {
                self.each3(on, off, |a, on, off| off ^ (a & (on ^ off)))
            }

            #[inline(always)]
            fn majority(self, b: Self, c: Self) -> Self {
                self.each3(b, c, |a, b, c| (a & b) | (c & (a | b)))
            }

            #[inline(always)]
            fn xor_and_not(self, b: Self, c: Self) -> Self {
                self.each3(b, c, |a, b, c| a ^ (!b & c))
            }

            #[inline(always)]
            fn xor_or_not(self, b: Self, c: Self) -> Self {
                self.each3(b, c, |a, b, c| a ^ (b | !c))
            }

            #[inline(always)]
            fn rotate_left<const BITS: i32>(self) -> Self {
                $name(self.0.map(|word| word.rotate_left(BITS as u32)))
            }

            #[inline(always)]
            fn shift_right<const BITS: u32>(self) -> Self {
                $name(self.0.map(|word| word >> BITS))
            }
        }
    };
}

words_portable!(A4x32, Portable, u32, 4);
words_portable!(A2x64, Portable, u64, 2);
words_portable!(A1x32, Scalar, u32, 1);
words_portable!(A1x64, Scalar, u64, 1);
