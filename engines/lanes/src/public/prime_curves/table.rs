//! The odd multiples of a generator's multiples by `2^(w i)`, as [`super::generator`] computes them.

use super::vectors::TABLE_WORDS;

/// Bits of a window: a table of as many words as a lookup takes.
pub(super) const GENERATOR_WINDOW: usize = 6;

const _: () = assert!(1 << (GENERATOR_WINDOW - 1) == TABLE_WORDS);

/// The multiples of a generator: for each window and each limb of the two coordinates, in Montgomery's form, those of all
/// multiples.
pub(super) struct Table(pub(super) Vec<[u64; TABLE_WORDS]>);

impl Table {
    /// Windows of a scalar of so many bits.
    pub(super) const fn windows(bits: usize) -> usize {
        bits.div_ceil(GENERATOR_WINDOW)
    }

    /// The table of a window, by limb: those of `x`, then those of `y`.
    #[inline(always)]
    pub(super) fn words<const L: usize>(&self, window: usize) -> &[[u64; TABLE_WORDS]] {
        &self.0[2 * L * window..2 * L * (window + 1)]
    }
}
