//! 64 lanes in plain 64-bit numbers, on any processor.

use crate::instruction_set::InstructionSet;

use super::isa::{Isa, ROW_MAX, substitute_by};

/// Nothing is needed for this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words64;

impl InstructionSet for Words64 {
    const NAME: &'static str = "u64";

    fn detect() -> Option<Words64> {
        Some(Words64)
    }
}

/// Bits of each index whose bit `SHIFT` is clear.
pub(crate) const fn clear_mask(shift: u32) -> u64 {
    match shift {
        1 => 0x5555_5555_5555_5555,
        2 => 0x3333_3333_3333_3333,
        4 => 0x0f0f_0f0f_0f0f_0f0f,
        8 => 0x00ff_00ff_00ff_00ff,
        16 => 0x0000_ffff_0000_ffff,
        _ => 0x0000_0000_ffff_ffff,
    }
}

impl Isa for Words64 {
    type W = u64;
    type Masks = ();
    const PARTS: usize = 1;
    const ROW: usize = 1;

    #[inline(always)]
    fn splat(self, value: u64) -> u64 {
        value
    }

    #[inline(always)]
    unsafe fn read_rows(self, row: impl Fn(usize) -> (*const u8, usize)) -> [u64; ROW_MAX] {
        let (from, blocks) = row(0);
        // SAFETY: the caller's promise.
        let word = if blocks == 0 { 0 } else { u64::from_le(unsafe { from.cast::<u64>().read_unaligned() }) };
        [word, 0, 0, 0]
    }

    #[inline(always)]
    unsafe fn write_rows(self, words: [u64; ROW_MAX], row: impl Fn(usize) -> (*mut u8, usize)) {
        let (to, blocks) = row(0);
        if blocks > 0 {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<u64>().write_unaligned(words[0].to_le()) }
        }
    }

    #[inline(always)]
    fn masks(self) {}

    #[inline(always)]
    fn exchange<const SHIFT: u32>(self, (): &(), low: u64, high: u64) -> (u64, u64) {
        let moved = ((low >> SHIFT) ^ high) & clear_mask(SHIFT);
        (low ^ (moved << SHIFT), high ^ moved)
    }

    substitute_by!(binary);
}
