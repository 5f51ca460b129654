//! 64 lanes in plain 64-bit numbers, on any processor.

use super::isa::{Isa, ROW_MAX, substitute_by};

/// Nothing is needed for this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words64;

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
    const ROW: usize = 1;

    #[inline(always)]
    fn splat(self, value: u64) -> u64 {
        value
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> u64 {
        // SAFETY: the caller's promise.
        u64::from_le(unsafe { from.cast::<u64>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_row(self, from: *const u8, blocks: usize) -> u64 {
        // SAFETY: the caller's promise.
        if blocks == 0 { 0 } else { unsafe { self.load(from) } }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, word: u64) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<u64>().write_unaligned(word.to_le()) }
    }

    #[inline(always)]
    unsafe fn store_row(self, to: *mut u8, word: u64, blocks: usize) {
        if blocks > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.store(to, word) }
        }
    }

    #[inline(always)]
    fn masks(self) {}

    #[inline(always)]
    fn exchange<const SHIFT: u32>(self, (): &(), low: u64, high: u64) -> (u64, u64) {
        let moved = ((low >> SHIFT) ^ high) & clear_mask(SHIFT);
        (low ^ (moved << SHIFT), high ^ moved)
    }

    #[inline(always)]
    fn transpose_row(self, rows: [u64; ROW_MAX]) -> [u64; ROW_MAX] {
        rows
    }

    substitute_by!(binary);
}
