//! Two lanes as an array of words, for processors without vectors of ours, and for tests.

use super::vectors::{LIMB_BITS, LIMB_MAX, Vectors};
use crate::instruction_set::InstructionSet;

/// No more than the language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl InstructionSet for Portable {
    const NAME: &'static str = "portable";

    fn detect() -> Option<Portable> {
        Some(Portable)
    }
}

/// Two words.
type V2 = [u64; 2];

#[inline(always)]
fn each(a: V2, b: V2, of: impl Fn(u64, u64) -> u64) -> V2 {
    [of(a[0], b[0]), of(a[1], b[1])]
}

fn wide(a: u64, b: u64) -> u128 {
    u128::from(a & LIMB_MAX) * u128::from(b & LIMB_MAX)
}

impl Vectors for Portable {
    type V = V2;
    /// All ones or none. Compilers that knew that would branch on it, or load from the address that it chooses: `make ctgrind`
    /// saw both where this was a `bool`.
    type M = V2;
    const LANES: usize = 2;

    #[inline(always)]
    fn splat(self, word: u64) -> V2 {
        [word; 2]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u64) -> V2 {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<V2>().read() }
    }

    #[inline(always)]
    unsafe fn store(self, vector: V2, to: *mut u64) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<V2>().write(vector) }
    }

    #[inline(always)]
    fn add(self, a: V2, b: V2) -> V2 {
        each(a, b, u64::wrapping_add)
    }

    #[inline(always)]
    fn sub(self, a: V2, b: V2) -> V2 {
        each(a, b, u64::wrapping_sub)
    }

    #[inline(always)]
    fn and(self, a: V2, b: V2) -> V2 {
        each(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, a: V2, b: V2) -> V2 {
        each(a, b, |a, b| a | b)
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self, a: V2) -> V2 {
        a.map(|word| word << BITS)
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self, a: V2) -> V2 {
        a.map(|word| word >> BITS)
    }

    #[inline(always)]
    fn sar<const BITS: u32>(self, a: V2) -> V2 {
        a.map(|word| (word.cast_signed() >> BITS).cast_unsigned())
    }

    #[inline(always)]
    fn add_low(self, sum: V2, a: V2, b: V2) -> V2 {
        self.add(sum, each(a, b, |a, b| wide(a, b) as u64 & LIMB_MAX))
    }

    #[inline(always)]
    fn add_high(self, sum: V2, a: V2, b: V2) -> V2 {
        self.add(sum, each(a, b, |a, b| (wide(a, b) >> LIMB_BITS) as u64))
    }

    #[inline(always)]
    fn equal(self, a: V2, b: V2) -> V2 {
        core::hint::black_box([u64::from(a[0] == b[0]).wrapping_neg(), u64::from(a[1] == b[1]).wrapping_neg()])
    }

    #[inline(always)]
    fn select(self, which: V2, a: V2, b: V2) -> V2 {
        [a[0] & which[0] | b[0] & !which[0], a[1] & which[1] | b[1] & !which[1]]
    }

    #[inline(always)]
    fn bits(self, which: V2) -> u32 {
        (which[0] & 1 | which[1] & 2) as u32
    }
}
