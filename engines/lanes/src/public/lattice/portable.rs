//! Arrays of words, for processors without vectors of ours, and for tests.

use super::isa::Isa;
use super::tables::{DsaTables, KemTables, dsa_tables, kem_tables};
use crate::hash;
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

/// Words of 32 bits in a vector.
const LEN: usize = 8;

type V = [u32; LEN];

static KEM: KemTables = kem_tables(2 * LEN);
static DSA: DsaTables = dsa_tables(LEN);

/// Both halves of a word, with signs.
#[inline(always)]
fn halves(word: u32) -> (i16, i16) {
    (word as i16, (word >> 16) as i16)
}

#[inline(always)]
fn each16(a: V, b: V, of: impl Fn(i16, i16) -> i16) -> V {
    each32(a, b, |a, b| {
        let ((a_low, a_high), (b_low, b_high)) = (halves(a), halves(b));
        u32::from(of(a_low, b_low).cast_unsigned()) | u32::from(of(a_high, b_high).cast_unsigned()) << 16
    })
}

#[inline(always)]
fn each32(a: V, b: V, of: impl Fn(u32, u32) -> u32) -> V {
    let mut result = a;
    for at in 0..LEN {
        result[at] = of(a[at], b[at]);
    }
    result
}

#[inline(always)]
fn each64(a: V, b: V, of: impl Fn(u64, u64) -> u64) -> V {
    let word = |v: &V, at: usize| u64::from(v[at]) | u64::from(v[at + 1]) << 32;
    let mut result = a;
    for at in (0..LEN).step_by(2) {
        let word = of(word(&a, at), word(&b, at));
        (result[at], result[at + 1]) = (word as u32, (word >> 32) as u32);
    }
    result
}

impl Isa for Portable {
    type V = V;
    type Hash = hash::sponge::Portable;
    const BYTES: usize = 4 * LEN;
    const KEM: &'static KemTables = &KEM;
    const DSA: &'static DsaTables = &DSA;

    fn hash(self) -> hash::sponge::Portable {
        hash::sponge::Portable
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> V {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<V>().read_unaligned() }.map(u32::from_le)
    }

    #[inline(always)]
    unsafe fn store(self, vector: V, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<V>().write_unaligned(vector.map(u32::to_le)) }
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> V {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u8; LEN]>().read() }.map(u32::from)
    }

    #[inline(always)]
    fn splat16(self, word: i16) -> V {
        [u32::from(word.cast_unsigned()) * 0x1_0001; LEN]
    }

    #[inline(always)]
    fn splat32(self, word: i32) -> V {
        [word.cast_unsigned(); LEN]
    }

    #[inline(always)]
    fn and(self, a: V, b: V) -> V {
        each32(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, a: V, b: V) -> V {
        each32(a, b, |a, b| a | b)
    }

    #[inline(always)]
    fn add16(self, a: V, b: V) -> V {
        each16(a, b, i16::wrapping_add)
    }

    #[inline(always)]
    fn sub16(self, a: V, b: V) -> V {
        each16(a, b, i16::wrapping_sub)
    }

    #[inline(always)]
    fn mul_low16(self, a: V, b: V) -> V {
        each16(a, b, i16::wrapping_mul)
    }

    #[inline(always)]
    fn mul_high16(self, a: V, b: V) -> V {
        each16(a, b, |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16)
    }

    #[inline(always)]
    fn mul_round16(self, a: V, b: V) -> V {
        each16(a, b, |a, b| ((i32::from(a) * i32::from(b) + (1 << 14)) >> 15) as i16)
    }

    #[inline(always)]
    fn mul_pairs16(self, a: V, b: V) -> V {
        each32(a, b, |a, b| {
            let ((a_low, a_high), (b_low, b_high)) = (halves(a), halves(b));
            let products = (i32::from(a_low) * i32::from(b_low), i32::from(a_high) * i32::from(b_high));
            products.0.wrapping_add(products.1).cast_unsigned()
        })
    }

    #[inline(always)]
    fn shl16<const BITS: i32>(self, a: V) -> V {
        each16(a, a, |a, _| a << BITS)
    }

    #[inline(always)]
    fn sar16<const BITS: i32>(self, a: V) -> V {
        each16(a, a, |a, _| a >> BITS)
    }

    #[inline(always)]
    fn swap16(self, a: V) -> V {
        a.map(|a| a.rotate_left(16))
    }

    #[inline(always)]
    fn halves16(self, low: V, high: V) -> V {
        each32(low, high, |low, high| low & 0xffff | high & 0xffff_0000)
    }

    #[inline(always)]
    fn signs16(self, a: V) -> u32 {
        let mut signs = 0;
        for at in 0..LEN {
            signs |= ((a[at] >> 15 & 1) | (a[at] >> 31) << 1) << (2 * at);
        }
        signs
    }

    #[inline(always)]
    fn add32(self, a: V, b: V) -> V {
        each32(a, b, u32::wrapping_add)
    }

    #[inline(always)]
    fn sub32(self, a: V, b: V) -> V {
        each32(a, b, u32::wrapping_sub)
    }

    #[inline(always)]
    fn mul_low32(self, a: V, b: V) -> V {
        each32(a, b, u32::wrapping_mul)
    }

    #[inline(always)]
    fn mul_even32(self, a: V, b: V) -> V {
        each64(a, b, |a, b| (i64::from(a as i32) * i64::from(b as i32)).cast_unsigned())
    }

    #[inline(always)]
    fn shl32<const BITS: u32>(self, a: V) -> V {
        a.map(|a| a << BITS)
    }

    #[inline(always)]
    fn shr32<const BITS: u32>(self, a: V) -> V {
        a.map(|a| a >> BITS)
    }

    #[inline(always)]
    fn sar32<const BITS: u32>(self, a: V) -> V {
        a.map(|a| (a.cast_signed() >> BITS).cast_unsigned())
    }

    #[inline(always)]
    fn halves32(self, low: V, high: V) -> V {
        each64(low, high, |low, high| low & 0xffff_ffff | high & 0xffff_ffff_0000_0000)
    }

    #[inline(always)]
    fn add64(self, a: V, b: V) -> V {
        each64(a, b, u64::wrapping_add)
    }

    #[inline(always)]
    fn sub64(self, a: V, b: V) -> V {
        each64(a, b, u64::wrapping_sub)
    }

    #[inline(always)]
    fn shr64<const BITS: u32>(self, a: V) -> V {
        each64(a, a, |a, _| a >> BITS)
    }

    #[inline(always)]
    fn transpose(self, block: usize, mut a: V, mut b: V) -> (V, V) {
        // Blocks of words.
        let block = block / 4;
        for first in (0..LEN).step_by(2 * block) {
            for at in first..first + block {
                core::mem::swap(&mut a[at + block], &mut b[at]);
            }
        }
        (a, b)
    }
}
