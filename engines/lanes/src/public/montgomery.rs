//! Montgomery multiplication of long numbers, a number and a modulus a lane (Montgomery 1985), by blocks of ten limbs.
//!
//! By the school's way a product of `n` limbs takes `4 n²` multiply-adds of 52 bits: two for each product of limbs, of the factors and of
//! the reduction. Accumulators of a whole product do not fit the registers, and a product by rows reads a limb for every
//! two multiply-adds. So the product is made column by column (Comba 1990), in columns of *tiles*: five limbs of one factor
//! and five of the other are fifty multiply-adds for ten reads, into ten sums, four of them in two parts, which stay in
//! registers along a column of tiles. The reduction goes through the same columns, behind the factors' products of its column. In a
//! square, the tiles off the diagonal count twice.
//!
//! *Three products of tiles instead of four* (Karatsuba and Ofman 1962). Two tiles are a *block*, `a0 + a1 B` with `B = 2^260`, and a
//! product of blocks wants `a0 b0`, `a1 b1` and `(a0 + a1) (b0 + b1)` only. What a column of blocks has of each is summed up, and the
//! three sums are put together once a column.
//!
//! *Multiples of the modulus by blocks.* Ten limbs `u` vanish when `u k m` is added, where `k m + 1 = M B²`: what remains is `u M`, ten limbs
//! further up. `M` is worked out once a modulus, so that `u` is those limbs themselves, and `u M` is made of whole blocks. The
//! last block is made zero by the modulus itself, limb by limb; by `M` too, the result would be ten limbs longer.
//!
//! *The floor.* For `n = 10 h` that is `150 h²` multiply-adds for a product, `75 h² + 15 h` for a square, and `150 h² + 50` for the reduction:
//! with twenty limbs 1,250 and 980, of 1,620 and 1,240 by the school's way. Zen 5 has four ports for vectors, of which two multiply: some 500
//! additions, shifts and masks beside them take half a multiply-add each. So 750 cycles are expected for a product and 620 for a square;
//! 770 and 630 were measured there; with eight sums in two parts, for which a product has 36 additions more and a square 72, 780 and 645.
//!
//! *Bounds*, in units of a limb, `2^52`. A column of tiles sums at most nine halves of products for each of `h` blocks of the factors and `h` of the
//! multiples: `18 h`. The sums of tiles have limbs below one too, and their carries, apart, add at most two limbs a product: `22 h`.
//! Put together, a column is between `-36 h` and `40 h`; what the column before leaves to it is not above `40 h` in size where low tiles are
//! added, and `18 h` where sums are. So no column is above `58 h`, nor, with the last block's twenty halves and carries, `58 · 16 + 22 < 2^10`:
//! below `2^62` in size, and negative at times.
//!
//! With `a, b < 2^k m` and `2^(52 n) ≥ 2^(2k) m`, `a b / 2^(52 n)` is below `m`. The last block but one adds less than `m`, with all before it, and the
//! last one less than `m` again: the result is below `3 m`.

use zeroize::Zeroizing;

use super::room::Place;
use super::unrolled::unrolled;
use super::vectors::{LIMB_BITS, LIMB_MAX, Vectors, low_limb};
use crate::instruction_set::Step;

/// Limbs of a tile.
const TILE: usize = 5;

/// Limbs of a block: of two tiles.
pub(crate) const BLOCK: usize = 2 * TILE;

/// Vectors that the sum of a block's tiles takes: its limbs and its carry, zero or one.
const SUM: usize = TILE + 1;

/// The most limbs of a number, of 8,192 bits: the bounds above hold for as many.
pub(crate) const LIMBS_MAX: usize = 160;

/// Repeats a block of code for each index of a range: of numbers of `BLOCKS` blocks without a loop, if that is not zero.
macro_rules! each_block {
    ($blocks:ident: $index:ident in $range:expr => $body:block) => {
        if $blocks == 0 {
            for $index in $range $body
        } else {
            unrolled!($index < 2 * $blocks - 1 => {
                if $range.contains(&$index) $body
            });
        }
    };
}

/// A number with the sums of its blocks' tiles.
#[derive(Clone, Copy)]
struct Blocks<I: Vectors> {
    limbs: Place<I>,
    sums: Place<I>,
}

/// One tile of each block: the low one, the high one, or their sum.
#[derive(Clone, Copy)]
struct Tiles<I: Vectors> {
    place: Place<I>,
    stride: usize,
}

/// Which tiles of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Low,
    High,
    Sum,
}

impl Which {
    const ALL: [Which; 3] = [Which::Low, Which::High, Which::Sum];
}

impl<I: Vectors> Blocks<I> {
    /// Computes the sums of all blocks' tiles.
    #[inline(always)]
    fn sum_all<const BLOCKS: usize>(self, isa: I) {
        each_block!(BLOCKS: block in 0..self.limbs.limbs() / BLOCK => {
            self.sum(isa, block);
        });
    }

    /// Computes the sum of a block's tiles.
    #[inline(always)]
    fn sum(self, isa: I, block: usize) {
        let (limbs, sum) = (self.limbs.part(block * BLOCK, BLOCK), self.sums.part(block * SUM, SUM));
        let mut carry = isa.splat(0);
        unrolled!(i < TILE => {
            let both = isa.add(isa.add(limbs.get(isa, i), limbs.get(isa, TILE + i)), carry);
            sum.set(isa, i, low_limb(isa, both));
            carry = isa.shr::<LIMB_BITS>(both);
        });
        sum.set(isa, TILE, carry);
    }

    #[inline(always)]
    fn tiles(self, which: Which) -> Tiles<I> {
        let limbs = self.limbs.limbs();
        match which {
            Which::Low => Tiles { place: self.limbs, stride: BLOCK },
            Which::High => Tiles { place: self.limbs.part(TILE, limbs - TILE), stride: BLOCK },
            Which::Sum => Tiles { place: self.sums, stride: SUM },
        }
    }
}

impl<I: Vectors> Tiles<I> {
    /// The tile of a block.
    #[inline(always)]
    fn at(self, block: usize) -> Place<I> {
        self.place.part(block * self.stride, TILE)
    }

    /// Where a block's sum has a carry.
    #[inline(always)]
    fn carries(self, isa: I, block: usize) -> I::M {
        isa.equal(self.place.get(isa, block * SUM + TILE), isa.splat(1))
    }
}

/// A modulus of each lane, as [`product`] and [`square`] want it.
#[derive(Clone, Copy)]
pub(crate) struct Modulus<I: Vectors> {
    modulus: Blocks<I>,
    /// What [`scaled`] gives of it.
    scaled: Blocks<I>,
    /// `-1 / m` modulo `2^52`.
    inverse: I::V,
    /// Room for what makes each block zero.
    multiples: Blocks<I>,
    /// Room for the sums of both factors' tiles.
    factors: [Place<I>; 2],
}

impl<I: Vectors> Modulus<I> {
    /// How many numbers its room has: the scaled modulus, multiples, and five times the sums of tiles, of six tenths each.
    pub(crate) const NUMBERS: usize = 5;

    /// The modulus in `limbs`, with `-1 / m` modulo `2^52`. Its room begins with the scaled modulus.
    #[inline(always)]
    pub(crate) fn new(isa: I, limbs: Place<I>, inverse: I::V, room: Place<I>) -> Modulus<I> {
        let (count, sums_len) = (limbs.limbs(), limbs.limbs() / BLOCK * SUM);
        let sums = |index: usize| room.part(2 * count + index * sums_len, sums_len);
        let [modulus, scaled] =
            [(limbs, 0), (room.part(0, count), 1)].map(|(limbs, of)| Blocks { limbs, sums: sums(of) });
        modulus.sum_all::<0>(isa);
        scaled.sum_all::<0>(isa);
        Modulus {
            modulus,
            scaled,
            inverse,
            multiples: Blocks { limbs: room.part(count, count), sums: sums(2) },
            factors: [sums(3), sums(4)],
        }
    }

    /// Its limbs.
    #[inline(always)]
    pub(crate) fn limbs(&self) -> Place<I> {
        self.modulus.limbs
    }
}

/// `(k m + 1) / 2^520` of an odd modulus with `-1 / m` modulo `2^52`, where `k` is what makes that a whole number: one, with ten of its
/// limbs made zero.
pub(crate) fn scaled(modulus: &[u64], inverse: u64) -> Zeroizing<Vec<u64>> {
    let mut number = Zeroizing::new(vec![0; modulus.len()]);
    let Some(first) = number.first_mut() else { return number };
    *first = 1;
    for _ in 0..BLOCK {
        let multiple = number[0].wrapping_mul(inverse) & LIMB_MAX;
        let mut carried = 0u128;
        for index in 0..modulus.len() {
            carried += u128::from(multiple) * u128::from(modulus[index]) + u128::from(number[index]);
            if index != 0 {
                number[index - 1] = carried as u64 & LIMB_MAX;
            }
            carried >>= LIMB_BITS;
        }
        // Not above the modulus, as long as one was not.
        number[modulus.len() - 1] = carried as u64;
    }
    number
}

/// Columns in the middle of a product of tiles, to which seven or nine halves of products each are added: one after the other, four cycles each,
/// that would take longer than all fifty multiply-adds do.
const MIDDLE: core::ops::Range<usize> = 3..7;

/// The sums of a column of tiles.
struct Sums<I: Vectors> {
    /// Ten columns.
    columns: [I::V; BLOCK],
    /// What high halves of products add to those in the middle, apart.
    middle: [I::V; BLOCK],
    /// Products of carries, in the column above.
    above: I::V,
}

impl<I: Vectors> Sums<I> {
    #[inline(always)]
    fn zero(isa: I) -> Sums<I> {
        let zero = isa.splat(0);
        Sums { columns: [zero; BLOCK], middle: [zero; BLOCK], above: zero }
    }

    /// Adds the product of two limbs, whose low half belongs to a column.
    #[inline(always)]
    fn add_limbs(&mut self, isa: I, column: usize, a: I::V, b: I::V) {
        self.columns[column] = isa.add_low(self.columns[column], a, b);
        let above = column + 1;
        let high = if MIDDLE.contains(&above) { &mut self.middle[above] } else { &mut self.columns[above] };
        *high = isa.add_high(*high, a, b);
    }

    /// Adds the product of five limbs and five limbs.
    #[inline(always)]
    fn add_tile(&mut self, isa: I, a: Place<I>, b: Place<I>) {
        let a = tile_of(isa, a);
        unrolled!(j < TILE => {
            let b = b.get(isa, j);
            unrolled!(i < TILE => {
                self.add_limbs(isa, i + j, a[i], b);
            });
        });
    }

    /// Adds a tile `2^260` times where a carry says so.
    #[inline(always)]
    fn add_carried(&mut self, isa: I, carries: I::M, tile: Place<I>) {
        unrolled!(i < TILE => {
            let sum = &mut self.columns[i + TILE];
            *sum = isa.select(carries, isa.add(*sum, tile.get(isa, i)), *sum);
        });
    }

    /// Adds `2^520` where both carries say so.
    #[inline(always)]
    fn add_both_carried(&mut self, isa: I, a: I::M, b: I::M) {
        let one = isa.select(a, isa.splat(1), isa.splat(0));
        self.above = isa.select(b, isa.add(self.above, one), self.above);
    }

    /// Adds the product of a tile of `a` and one of `b`.
    #[inline(always)]
    fn add(&mut self, isa: I, which: Which, (a, i): (Tiles<I>, usize), (b, j): (Tiles<I>, usize)) {
        self.add_tile(isa, a.at(i), b.at(j));
        if which == Which::Sum {
            let (in_a, in_b) = (a.carries(isa, i), b.carries(isa, j));
            self.add_carried(isa, in_a, b.at(j));
            self.add_carried(isa, in_b, a.at(i));
            self.add_both_carried(isa, in_a, in_b);
        }
    }

    /// Adds the products of different limbs of a tile, each once.
    #[inline(always)]
    fn add_pairs(&mut self, isa: I, a: Place<I>) {
        let a = tile_of(isa, a);
        unrolled!(i < TILE => {
            unrolled!(j < i => {
                self.add_limbs(isa, i + j, a[i], a[j]);
            });
        });
    }

    /// Adds the squares of a tile's limbs.
    #[inline(always)]
    fn add_squares(&mut self, isa: I, a: Place<I>) {
        unrolled!(i < TILE => {
            let a = a.get(isa, i);
            self.add_limbs(isa, 2 * i, a, a);
        });
    }

    /// Puts together what is apart.
    #[inline(always)]
    fn merge(&mut self, isa: I) {
        unrolled!(i < BLOCK => {
            if MIDDLE.contains(&i) {
                self.columns[i] = isa.add(self.columns[i], self.middle[i]);
                self.middle[i] = isa.splat(0);
            }
        });
    }

    #[inline(always)]
    fn double(&mut self, isa: I) {
        self.merge(isa);
        unrolled!(i < BLOCK => {
            self.columns[i] = isa.add(self.columns[i], self.columns[i]);
        });
        self.above = isa.add(self.above, self.above);
    }
}

/// The limbs of a tile.
#[inline(always)]
fn tile_of<I: Vectors>(isa: I, place: Place<I>) -> [I::V; TILE] {
    let mut limbs = [isa.splat(0); TILE];
    unrolled!(i < TILE => {
        limbs[i] = place.get(isa, i);
    });
    limbs
}

/// Two factors. A trait with methods that are always inlined, since closures were seen to stay calls: outside of the function
/// that enables the instructions, each would be a call of its own.
trait Factors<I: Vectors>: Copy {
    /// Computes the sums of tiles.
    fn prepare<const BLOCKS: usize>(self, isa: I);
    /// The sums of a column of tiles, of numbers of `BLOCKS` blocks.
    fn sums<const BLOCKS: usize>(self, isa: I, which: Which, column: usize, blocks: usize) -> Sums<I>;
}

/// Different factors.
#[derive(Clone, Copy)]
struct Product<I: Vectors>(Blocks<I>, Blocks<I>);

impl<I: Vectors> Factors<I> for Product<I> {
    #[inline(always)]
    fn prepare<const BLOCKS: usize>(self, isa: I) {
        self.0.sum_all::<BLOCKS>(isa);
        self.1.sum_all::<BLOCKS>(isa);
    }

    #[inline(always)]
    fn sums<const BLOCKS: usize>(self, isa: I, which: Which, column: usize, blocks: usize) -> Sums<I> {
        let mut sums = Sums::zero(isa);
        let (a, b) = (self.0.tiles(which), self.1.tiles(which));
        each_block!(BLOCKS: i in (column + 1).saturating_sub(blocks)..blocks.min(column + 1) => {
            sums.add(isa, which, (a, i), (b, column - i));
        });
        sums
    }
}

/// One factor twice.
#[derive(Clone, Copy)]
struct Square<I: Vectors>(Blocks<I>);

impl<I: Vectors> Factors<I> for Square<I> {
    #[inline(always)]
    fn prepare<const BLOCKS: usize>(self, isa: I) {
        self.0.sum_all::<BLOCKS>(isa);
    }

    #[inline(always)]
    fn sums<const BLOCKS: usize>(self, isa: I, which: Which, column: usize, blocks: usize) -> Sums<I> {
        let mut sums = Sums::zero(isa);
        let tiles = self.0.tiles(which);
        // Blocks `i < column - i`, and the one in the middle.
        each_block!(BLOCKS: i in (column + 1).saturating_sub(blocks)..column.div_ceil(2) => {
            sums.add(isa, which, (tiles, i), (tiles, column - i));
        });
        if !column.is_multiple_of(2) {
            sums.double(isa);
            return sums;
        }
        let middle = tiles.at(column / 2);
        sums.add_pairs(isa, middle);
        if which == Which::Sum {
            sums.add_carried(isa, tiles.carries(isa, column / 2), middle);
        }
        sums.double(isa);
        sums.add_squares(isa, middle);
        if which == Which::Sum {
            let carries = tiles.carries(isa, column / 2);
            sums.add_both_carried(isa, carries, carries);
        }
        sums
    }
}

/// All columns of a column of blocks, and what the one before has left over.
#[inline(always)]
fn columns<I: Vectors, const BLOCKS: usize>(
    isa: I,
    factors: impl Factors<I>,
    modulus: &Modulus<I>,
    column: usize,
    left: [I::V; BLOCK],
) -> [I::V; 2 * BLOCK] {
    let blocks = if BLOCKS == 0 { modulus.limbs().limbs() / BLOCK } else { BLOCKS };
    let mut three = [[isa.splat(0); BLOCK]; 3];
    let mut above = isa.splat(0);
    unrolled!(which < 3 => {
        let which = Which::ALL[which];
        let mut sums = factors.sums::<BLOCKS>(isa, which, column, blocks);
        // The last block's multiple is one of the modulus itself, the others' are of the scaled one, a block further up.
        let multiples = modulus.multiples.tiles(which);
        each_block!(BLOCKS: i in column.saturating_sub(blocks)..column.min(blocks - 1) => {
            sums.add(isa, which, (multiples, i), (modulus.scaled.tiles(which), column - i - 1));
        });
        if column >= blocks {
            let limbs = modulus.modulus.tiles(which);
            sums.add(isa, which, (multiples, blocks - 1), (limbs, column + 1 - blocks));
        }
        sums.merge(isa);
        three[which as usize] = sums.columns;
        above = sums.above;
    });
    let [low, high, sum] = three;
    let mut columns = [isa.splat(0); 2 * BLOCK];
    unrolled!(i < TILE => {
        // `a0 b0` has its high half where `a1 b1` has its low one, and the middle lacks both.
        let apart = isa.sub(low[TILE + i], high[i]);
        columns[i] = isa.add(left[i], low[i]);
        columns[TILE + i] = isa.add(isa.add(left[TILE + i], apart), isa.sub(sum[i], low[i]));
        columns[2 * TILE + i] = isa.sub(isa.sub(sum[TILE + i], high[TILE + i]), apart);
        columns[3 * TILE + i] = high[TILE + i];
    });
    columns[3 * TILE] = isa.add(columns[3 * TILE], above);
    columns
}

/// Adds the multiple of the modulus that makes the last block's columns zero, and carries them away.
///
/// A limb of the multiple waits for all before it, nine cycles each where a product takes four: as long as the twenty products that it
/// has. So columns stay in registers, a column's carry is that of the limb above its value, which needs none of its own products, and of the
/// next one's products the two are summed apart.
#[inline(always)]
fn reduce<I: Vectors>(isa: I, columns: &mut [I::V; 2 * BLOCK], modulus: &Modulus<I>) {
    let last = modulus.limbs().limbs() / BLOCK - 1;
    let (limbs, multiples) = (modulus.limbs(), modulus.multiples.limbs.part(last * BLOCK, BLOCK));
    unrolled!(i < BLOCK => {
        let multiple = isa.add_low(isa.splat(0), columns[i], modulus.inverse);
        multiples.set(isa, i, multiple);
        let carried = isa.sar::<LIMB_BITS>(isa.add(columns[i], isa.splat(LIMB_MAX)));
        let high = isa.add_high(isa.splat(0), limbs.get(isa, 0), multiple);
        let next = isa.add(columns[i + 1], carried);
        columns[i + 1] = isa.add(isa.add_low(next, limbs.get(isa, 1), multiple), high);
        unrolled!(j < BLOCK - 1 => {
            if j != 0 {
                columns[i + j + 1] = isa.add_low(columns[i + j + 1], limbs.get(isa, j + 1), multiple);
            }
            columns[i + j + 2] = isa.add_high(columns[i + j + 2], limbs.get(isa, j + 1), multiple);
        });
    });
    modulus.multiples.sum(isa, last);
}

/// Writes a block of columns as limbs, and gives what is carried on.
#[inline(always)]
fn put<I: Vectors>(isa: I, columns: &[I::V], out: Place<I>) -> I::V {
    let mut carried = isa.splat(0);
    unrolled!(i < BLOCK => {
        let sum = isa.add(columns[i], carried);
        out.set(isa, i, low_limb(isa, sum));
        carried = isa.sar::<LIMB_BITS>(sum);
    });
    carried
}

/// The product of factors, reduced.
struct Multiply<'m, I: Vectors, F, const BLOCKS: usize> {
    out: Place<I>,
    factors: F,
    modulus: &'m Modulus<I>,
}

impl<I: Vectors, F: Factors<I>, const BLOCKS: usize> Step<I> for Multiply<'_, I, F, BLOCKS> {
    type Out = ();

    #[inline(always)]
    fn run(self, isa: I) {
        self.factors.prepare::<BLOCKS>(isa);
        multiply::<I, F, BLOCKS>(isa, self.out, self.factors, self.modulus);
    }
}

/// Multiplies by the function for numbers of this length. Most of the primes that are in use have 1,024 bits: for them, and those of half as many,
/// the code is straight. With forty limbs that would be 50 KiB, which is more than the first-level cache holds: a square took 785 ns on Zen 5, and 550
/// by loops.
#[inline(always)]
fn multiply_by_length<I: Vectors>(isa: I, out: Place<I>, factors: impl Factors<I>, modulus: &Modulus<I>) {
    match out.limbs() / BLOCK {
        1 => isa.call(Multiply::<_, _, 1> { out, factors, modulus }),
        2 => isa.call(Multiply::<_, _, 2> { out, factors, modulus }),
        _ => isa.call(Multiply::<_, _, 0> { out, factors, modulus }),
    }
}

/// A block is written when the factors' blocks of its number are read no more.
#[inline(always)]
fn multiply<I: Vectors, F: Factors<I>, const BLOCKS: usize>(isa: I, out: Place<I>, factors: F, modulus: &Modulus<I>) {
    let blocks = if BLOCKS == 0 { out.limbs() / BLOCK } else { BLOCKS };
    let last = blocks - 1;
    let block = |number: Place<I>, index: usize| number.part(index * BLOCK, BLOCK);
    let mut left = [isa.splat(0); BLOCK];
    each_block!(BLOCKS: column in 0..2 * blocks - 1 => {
        let mut columns = columns::<I, BLOCKS>(isa, factors, modulus, column, left);
        if column == last {
            reduce(isa, &mut columns, modulus);
        } else {
            // Below the last block, the limbs are the multiple that makes them zero.
            let limbs = if column < last { block(modulus.multiples.limbs, column) } else { block(out, column - blocks) };
            let carried = put(isa, &columns[..BLOCK], limbs);
            columns[BLOCK] = isa.add(columns[BLOCK], carried);
            if column < last {
                modulus.multiples.sum(isa, column);
            }
        }
        left.copy_from_slice(&columns[BLOCK..]);
    });
    put(isa, &left, block(out, last));
}

/// `out = a · b / 2^(52 n)` modulo each lane's modulus of `n` limbs, a multiple of ten: below three times the modulus, within
/// the bounds above. `out` may be a factor.
#[inline(always)]
pub(crate) fn product<I: Vectors>(isa: I, out: Place<I>, a: Place<I>, b: Place<I>, modulus: &Modulus<I>) {
    check(isa, &[a, b], out, modulus);
    let [of_a, of_b] = modulus.factors;
    multiply_by_length(isa, out, Product(Blocks { limbs: a, sums: of_a }, Blocks { limbs: b, sums: of_b }), modulus);
}

/// `out = a² / 2^(52 n)`, as [`product`].
#[inline(always)]
pub(crate) fn square<I: Vectors>(isa: I, out: Place<I>, a: Place<I>, modulus: &Modulus<I>) {
    check(isa, &[a], out, modulus);
    multiply_by_length(isa, out, Square(Blocks { limbs: a, sums: modulus.factors[0] }), modulus);
}

/// What the bounds rest on, in builds that check.
fn check<I: Vectors>(isa: I, factors: &[Place<I>], out: Place<I>, modulus: &Modulus<I>) {
    let limbs = out.limbs();
    debug_assert!(limbs.is_multiple_of(BLOCK) && limbs <= LIMBS_MAX && modulus.limbs().limbs() == limbs);
    debug_assert!(factors.iter().all(|factor| factor.limbs() == limbs));
    if cfg!(debug_assertions) {
        let is_limb = |vector| isa.bits(isa.equal(isa.shr::<LIMB_BITS>(vector), isa.splat(0))) == (1 << I::LANES) - 1;
        for factor in factors.iter().chain([&modulus.modulus.limbs, &modulus.scaled.limbs]) {
            assert!((0..limbs).all(|i| is_limb(factor.get(isa, i))), "a factor's limb of more than 52 bits");
        }
    }
}

#[cfg(test)]
mod tests {
    use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
    use crypto_bigint::{BoxedUint, Odd, Resize as _};

    use super::super::isa::{PublicKernel, Vectors, public_kernels};
    use super::super::room::Room;
    use super::super::samples::{self, Random};
    use super::super::vectors::LIMB_MAX;
    use super::*;

    fn number(limbs: &[u64]) -> BoxedUint {
        samples::number(limbs, LIMB_BITS, (limbs.len() as u32 * LIMB_BITS).next_multiple_of(64) + 64)
    }

    fn inverse(m: u64) -> u64 {
        let mut inverse = 1u64;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(m.wrapping_mul(inverse)));
        }
        inverse.wrapping_neg() & LIMB_MAX
    }

    /// Products and squares of random numbers, against a library of big integers.
    #[inline(always)]
    fn compare<I: Vectors>(isa: I, limbs: usize) {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ limbs as u64);
        let mut room = Room::default();
        for _ in 0..40 {
            let mut open = room.open::<I>((5 + Modulus::<I>::NUMBERS) * limbs + 1);
            let [m, a, b, product, square] = core::array::from_fn(|_| open.number(limbs));
            let (inverses, working) = (open.number(1), open.number(Modulus::<I>::NUMBERS * limbs));
            let mut lanes = Vec::new();
            for lane in 0..I::LANES {
                // Below `2^(52 n - 8)`, and factors below `2^4` times as much: what the bounds allow.
                let mut modulus = random.limbs(limbs, LIMB_MAX);
                modulus[0] |= 1;
                modulus[limbs - 1] = modulus[limbs - 1] >> 8 | 1;
                let mut factor = || {
                    let mut limbs = random.limbs(limbs, LIMB_MAX);
                    let top = modulus[limbs.len() - 1];
                    let last = limbs.len() - 1;
                    limbs[last] %= 16 * top;
                    limbs
                };
                let (x, y) = (factor(), factor());
                m.set_number(lane, &modulus);
                a.set_number(lane, &x);
                b.set_number(lane, &y);
                inverses.set_lane(lane, 0, inverse(modulus[0]));
                working.part(0, limbs).set_number(lane, &scaled(&modulus, inverse(modulus[0])));
                lanes.push((number(&modulus), number(&x), number(&y)));
            }
            let modulus = Modulus::new(isa, m, inverses.get(isa, 0), working);
            super::product(isa, product, a, b, &modulus);
            super::square(isa, square, a, &modulus);
            for (lane, (m, a, b)) in lanes.iter().enumerate() {
                let params = BoxedMontyParams::new_vartime(Odd::new(m.clone()).expect("odd"));
                let form = |number: &BoxedUint| {
                    BoxedMontyForm::new(number.rem_vartime(&m.clone().to_nz().expect("not zero")), &params)
                };
                let radix = form(&BoxedUint::from(2u64).resize(m.bits_precision()))
                    .pow(&BoxedUint::from((limbs as u64) * u64::from(LIMB_BITS)));
                for (place, factor) in [(product, b), (square, a)] {
                    let got: Vec<u64> = (0..limbs).map(|index| place.lane(lane, index)).collect();
                    assert!(got.iter().all(|limb| *limb <= LIMB_MAX));
                    let got = number(&got);
                    assert!(got < m.wrapping_add(m).wrapping_add(m), "lane {lane}: not below three times the modulus");
                    assert_eq!(
                        form(&got).mul(&radix).retrieve(),
                        form(a).mul(&form(factor)).retrieve(),
                        "lane {lane} of {limbs}"
                    );
                }
            }
        }
    }

    public_kernels! {
        fn compare_with(limbs: usize) = compare
    }

    fn compare_all(lengths: &[usize]) {
        for name in PublicKernel::NAMES {
            let Some(kernel) = PublicKernel::detect(name) else { continue };
            for limbs in lengths {
                compare_with(kernel, *limbs);
            }
        }
    }

    #[test]
    fn products_and_squares_are_those_of_big_integers() {
        compare_all(&[10, 20, 30, 40]);
    }

    #[test]
    fn long_products_and_squares_are_those_of_big_integers() {
        compare_all(&[60, LIMBS_MAX]);
    }

    #[test]
    fn scaled_moduli_are_a_multiple_and_one() {
        let mut random = Random(0x6a09_e667_f3bc_c909);
        for limbs in [10, 20, 30, 160] {
            let mut modulus = random.limbs(limbs, LIMB_MAX);
            modulus[0] |= 1;
            modulus[limbs - 1] |= 1;
            let scaled = scaled(&modulus, inverse(modulus[0]));
            assert!(scaled.iter().all(|limb| *limb <= LIMB_MAX));
            let (m, scaled) = (number(&modulus), number(&scaled));
            assert!(scaled <= m);
            let params = BoxedMontyParams::new_vartime(Odd::new(m.clone()).expect("odd"));
            let radix = BoxedMontyForm::new(BoxedUint::from(2u64).resize(m.bits_precision()), &params)
                .pow(&BoxedUint::from(u64::from(LIMB_BITS) * BLOCK as u64));
            let product = BoxedMontyForm::new(scaled, &params).mul(&radix).retrieve();
            assert_eq!(product, BoxedUint::from(1u64).resize(m.bits_precision()));
        }
    }
}
