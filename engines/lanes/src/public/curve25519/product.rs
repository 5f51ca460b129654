//! Products modulo 2^255 - 19, five limbs of 51 bits each, by multiply-adds of 52 bits.
//!
//! A low half of `a_i b_j` has the weight `2^51(i + j)`, a high half twice the weight of the next column; column `k + 5` counts
//! 19-fold in column `k`. The upper columns are summed first, so that the accumulators of the lower ones begin with them: of
//! `19 u = u + 2 · 9 u`, `u` goes to the low halves and `9 u` to the high halves, which count twice.
//!
//! *Bounds.* With limbs below `2^52`, every half is too. Column `k` has `k + 1` low halves, `19 (4 - k)` from column `k + 5`, `2 k` high
//! halves and `38 (5 - k)` from column `k + 5`: at most `77 + 190` at `k = 0`. So columns are below `267 · 2^52 < 2^61`.
//!
//! Floor: a product is 50 multiply-adds and 29 additions and shifts, a square 30 and 39. Where a multiply-add starts every cycle
//! and two instructions do, that is 50 cycles for all lanes, and 35.

use super::super::isa::Vectors;
use super::super::unrolled::unrolled;
use super::super::vectors::debug_bits;
use crate::instruction_set::Step;

/// Limbs of an element.
pub(super) const LIMBS: usize = 5;

/// A product as a step.
pub(super) struct Product<'a, I: Vectors>(pub(super) &'a [I::V; LIMBS], pub(super) &'a [I::V; LIMBS]);

impl<I: Vectors> Step<I> for Product<'_, I> {
    type Out = [I::V; LIMBS];

    #[inline(always)]
    fn run(self, isa: I) -> [I::V; LIMBS] {
        product(isa, self.0, self.1)
    }
}

/// A square as a step.
pub(super) struct Square<'a, I: Vectors>(pub(super) &'a [I::V; LIMBS]);

impl<I: Vectors> Step<I> for Square<'_, I> {
    type Out = [I::V; LIMBS];

    #[inline(always)]
    fn run(self, isa: I) -> [I::V; LIMBS] {
        square(isa, self.0)
    }
}

/// The columns of a product.
#[inline(always)]
pub(super) fn product<I: Vectors>(isa: I, a: &[I::V; LIMBS], b: &[I::V; LIMBS]) -> [I::V; LIMBS] {
    let mut low = [isa.splat(0); 2 * LIMBS];
    // Of the column that they are added to, not of the one that they are the high halves of.
    let mut high = [isa.splat(0); 2 * LIMBS];
    unrolled!(j < LIMBS => {
        unrolled!(i < LIMBS => {
            if i + j + 1 >= LIMBS {
                high[i + j + 1] = isa.add_high(high[i + j + 1], a[i], b[j]);
                if i + j >= LIMBS {
                    low[i + j] = isa.add_low(low[i + j], a[i], b[j]);
                }
            }
        });
    });
    unrolled!(k < LIMBS => {
        let upper = isa.add(isa.add(low[k + LIMBS], high[k + LIMBS]), high[k + LIMBS]);
        low[k] = upper;
        // In two steps: as one sum of both, compilers see a multiplication by nine, which takes longer.
        high[k] = isa.shl::<3>(upper);
        if k > 0 {
            high[k] = isa.add_high(high[k], a[k - 1], b[0]);
        }
        high[k] = isa.add(high[k], upper);
    });
    unrolled!(j < LIMBS => {
        unrolled!(i < LIMBS => {
            if i + j < LIMBS {
                low[i + j] = isa.add_low(low[i + j], a[i], b[j]);
                if j > 0 && i + j + 1 < LIMBS {
                    high[i + j + 1] = isa.add_high(high[i + j + 1], a[i], b[j]);
                }
            }
        });
    });
    let mut out = [isa.splat(0); LIMBS];
    unrolled!(k < LIMBS => {
        out[k] = isa.add(isa.add(low[k], high[k]), high[k]);
    });
    debug_bits::<I, 61, _>(isa, &out);
    out
}

/// The columns of a square.
#[inline(always)]
pub(super) fn square<I: Vectors>(isa: I, a: &[I::V; LIMBS]) -> [I::V; LIMBS] {
    let zero = [isa.splat(0); LIMBS];
    let upper = square_half::<I, LIMBS>(isa, a, zero, zero);
    let mut nine = upper;
    unrolled!(i < LIMBS => {
        nine[i] = isa.add(isa.shl::<3>(nine[i]), nine[i]);
    });
    let out = square_half::<I, 0>(isa, a, upper, nine);
    debug_bits::<I, 61, _>(isa, &out);
    out
}

/// The five columns of a square from column `HALF` on, plus `once` and twice `twice`. Products of different limbs count twice:
/// their low halves are summed with the high halves of squares, which count twice too, and their high halves (`four`) count
/// four times. The low halves of squares count once.
#[inline(always)]
fn square_half<I: Vectors, const HALF: usize>(
    isa: I,
    a: &[I::V; LIMBS],
    once: [I::V; LIMBS],
    mut twice: [I::V; LIMBS],
) -> [I::V; LIMBS] {
    let mut four = [isa.splat(0); LIMBS];
    unrolled!(i < LIMBS => {
        unrolled!(j < LIMBS => {
            if j >= i {
                let (low, high) = ((i + j).wrapping_sub(HALF), (i + j + 1).wrapping_sub(HALF));
                if i == j && high < LIMBS {
                    twice[high] = isa.add_high(twice[high], a[i], a[i]);
                }
                if i != j && low < LIMBS {
                    twice[low] = isa.add_low(twice[low], a[i], a[j]);
                }
                if i != j && high < LIMBS {
                    four[high] = isa.add_high(four[high], a[i], a[j]);
                }
            }
        });
    });
    let mut out = once;
    unrolled!(k < LIMBS => {
        let column = HALF + k;
        // No products of different limbs have high halves in columns 0, 1 and 9.
        let has_four = column > 1 && column < 9;
        let twos = if has_four { isa.add(isa.add(twice[k], four[k]), four[k]) } else { twice[k] };
        if column.is_multiple_of(2) {
            out[k] = isa.add_low(out[k], a[column / 2], a[column / 2]);
        }
        out[k] = isa.add(isa.add(out[k], twos), twos);
    });
    out
}
