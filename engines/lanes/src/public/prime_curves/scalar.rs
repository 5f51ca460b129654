//! Multiples of points: scalars as signed odd digits, in windows of fixed length.
//!
//! An odd scalar `k` below `2^m` is a sum of all `±2^j` with `j < m`: bit `j + 1` of `k` tells the sign, and the last one is
//! positive (Joye, Tunstall 2009). A window of `w` signs is an odd digit between `-2^w` and `2^w`, never zero, so that every
//! window takes an addition of one of `2^(w-1)` odd multiples or its negative. An even scalar is taken from the order, and
//! the result turned.
//!
//! *No exceptions*, for a scalar from one to the order `n` less one, and a point of order `n`:
//! - From the last window down ([`multiply`]), the sum before an addition is `2^w a` times the point, where `a` is what the
//!   windows above say, odd and positive, and the digit `d` is odd. `2^w a + d` is positive, and below `n` since at the end it is
//!   `k` and before that a `2^w`th of it, or one more. So the sum never is the negative of what is added. `2^w a - d` is
//!   positive too; it may be `n` in the last window alone, and there the sum and what is added may be the same point.
//! - From the first window up ([`multiply_generator`]), the sum before window `i` is some odd `a` with `|a| < 2^(w i)`, and `d 2^(w i)`
//!   is added. Their sum and difference are not zero and below `2^(w (i + 1))`, which is below `n` but for the last window. There,
//!   the sum is `k`, and the difference may be `n`: again the same point.

use super::super::isa::{LIMB_BITS, Vectors};
use super::curve::Curve;
use super::field::Field;
use super::isa::CurveIsa;
use super::modulus::Modulus;
use super::numbers::{Number, Numbers};
use super::points::{Affine, Point};
use super::table::{GENERATOR_WINDOW, Table};

/// Bits of a window of a point that comes with an operation.
pub(super) const WINDOW: usize = 4;

/// Its odd multiples in a table.
pub(super) const MULTIPLES: usize = 1 << (WINDOW - 1);

/// A digit a lane.
struct Digit<I: Vectors> {
    /// Which odd multiple, from zero.
    index: I::V,
    is_positive: I::M,
}

/// The odd one of a scalar and the order less it. Zero becomes the order.
#[inline(always)]
pub(super) fn odd_form<I: CurveIsa, M: Modulus<L>, const L: usize>(isa: I, scalar: &Number<I, L>) -> Number<I, L> {
    let order = Field::<I, M, L>::new(isa);
    let turned = order.carry(order.subtract(&order.splat(&M::LIMBS), scalar));
    let is_odd = isa.equal(isa.and(scalar[0], isa.splat(1)), isa.splat(1));
    order.select(is_odd, scalar, &turned)
}

/// The digit of window `window` of `count`, of `bits` bits each, of an odd scalar.
#[inline(always)]
fn digit<I: CurveIsa, const L: usize>(
    isa: I,
    scalar: Numbers<I, L>,
    window: usize,
    count: usize,
    bits: usize,
) -> Digit<I> {
    let (limb, bit) = ((window * bits + 1) / LIMB_BITS as usize, (window * bits + 1) % LIMB_BITS as usize);
    // A product with a power of two shifts by a number that is known at run time.
    let factor = isa.splat(1 << ((LIMB_BITS as usize - bit) % LIMB_BITS as usize));
    let mut signs = match (limb < L, bit) {
        (false, _) => isa.splat(0),
        (true, 0) => scalar.limb(isa, 0, limb),
        (true, _) => isa.add_high(isa.splat(0), scalar.limb(isa, 0, limb), factor),
    };
    if bit > 0 && limb + 1 < L {
        signs = isa.add_low(signs, scalar.limb(isa, 0, limb + 1), factor);
    }
    let half = 1 << (bits - 1);
    if window + 1 == count {
        signs = isa.or(signs, isa.splat(half));
    }
    let signs = isa.and(signs, isa.splat(2 * half - 1));
    let is_positive = isa.equal(isa.and(signs, isa.splat(half)), isa.splat(half));
    let index = isa.select(is_positive, isa.sub(signs, isa.splat(half)), isa.sub(isa.splat(half - 1), signs));
    Digit { index, is_positive }
}

/// Each lane's multiple by its digit of a window; the whole table is read.
#[inline(always)]
fn from_table<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    scalar: Numbers<I, L>,
    table: Numbers<I, L>,
    window: usize,
) -> Affine<I, L> {
    let digit = digit(isa, scalar, window, C::BITS.div_ceil(WINDOW), WINDOW);
    let (mut x, mut y) = (table.get(isa, 0), table.get(isa, 1));
    for index in 1..MULTIPLES {
        let is_here = isa.equal(digit.index, isa.splat(index as u64));
        for i in 0..L {
            x[i] = isa.select(is_here, table.limb(isa, 2 * index, i), x[i]);
            y[i] = isa.select(is_here, table.limb(isa, 2 * index + 1, i), y[i]);
        }
    }
    let is_negative = isa.equal(isa.select(digit.is_positive, isa.splat(1), isa.splat(0)), isa.splat(0));
    Affine { x, y, is_negative }
}

/// The multiple of the point whose odd multiples are given by an odd scalar: the number in `scalar`.
#[inline(always)]
pub(super) fn multiply<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    scalar: Numbers<I, L>,
    table: Numbers<I, L>,
) -> Point<I, L> {
    let windows = C::BITS.div_ceil(WINDOW);
    let mut sum = from_table::<I, C, L>(isa, scalar, table, windows - 1).point::<C>(isa);
    for window in (0..windows - 1).rev() {
        for _ in 0..WINDOW {
            sum.double::<C>(isa);
        }
        let multiple = from_table::<I, C, L>(isa, scalar, table, window);
        if window > 0 {
            sum.add::<C>(isa, &multiple);
        } else {
            sum.add_last::<C>(isa, &multiple);
        }
    }
    sum
}

/// What the generator's table says of a window of an odd scalar, turned where `is_turned`.
#[inline(always)]
fn from_generator<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    scalar: Numbers<I, L>,
    table: &Table,
    window: usize,
    is_turned: I::M,
) -> Affine<I, L> {
    let digit = digit(isa, scalar, window, Table::windows(C::BITS), GENERATOR_WINDOW);
    let words = table.words::<L>(window);
    let (mut x, mut y) = ([isa.splat(0); L], [isa.splat(0); L]);
    for i in 0..L {
        x[i] = isa.look_up(&words[i], digit.index);
        y[i] = isa.look_up(&words[L + i], digit.index);
    }
    let is_positive = isa.select(digit.is_positive, isa.splat(1), isa.splat(0));
    let is_turned = isa.select(is_turned, isa.splat(1), isa.splat(0));
    Affine { x, y, is_negative: isa.equal(is_positive, is_turned) }
}

/// The generator's multiple by an odd scalar.
#[inline(always)]
pub(super) fn multiply_generator<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    scalar: Numbers<I, L>,
    table: &Table,
) -> Point<I, L> {
    let windows = Table::windows(C::BITS);
    let not_turned = isa.equal(isa.splat(0), isa.splat(1));
    let mut sum = from_generator::<I, C, L>(isa, scalar, table, 0, not_turned).point::<C>(isa);
    for window in 1..windows {
        let multiple = from_generator::<I, C, L>(isa, scalar, table, window, not_turned);
        if window + 1 < windows {
            sum.add::<C>(isa, &multiple);
        } else {
            sum.add_last::<C>(isa, &multiple);
        }
    }
    sum
}

/// Adds the generator's multiple by an odd scalar, or its negative. May meet exceptions: for public numbers.
#[inline(always)]
pub(super) fn add_generator<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    sum: &mut Point<I, L>,
    scalar: Numbers<I, L>,
    is_turned: I::M,
    table: &Table,
) {
    for window in 0..Table::windows(C::BITS) {
        sum.add::<C>(isa, &from_generator::<I, C, L>(isa, scalar, table, window, is_turned));
    }
}
