//! Montgomery multiplication of long numbers, a number and a modulus a lane (Montgomery 1985), by tiles of five limbs.
//!
//! The floor of a product of `n` limbs is `4 n²` multiply-adds of 52 bits: two for each product of limbs, of the factors and of the
//! reduction. Accumulators of a whole product do not fit the registers, and a product by rows reads a limb for every two
//! multiply-adds. So the product is made column by column (Comba 1990), in columns of *tiles*: five limbs of one factor and
//! five of the other are fifty multiply-adds for ten reads, into nine sums of low halves and nine of high halves, which stay in
//! registers along a column of tiles. The reduction goes through the same columns, behind the factors' products of its column.
//! In a square, the tiles off the diagonal count twice, so that `n / 5 (n / 5 + 1) / 2` of `(n / 5)²` remain.
//!
//! *Bounds.* Factors' limbs are below `2^52`. A column sums at most `n` low and `n` high halves of each of the two products, all below
//! `2^52`, and a carry below `2^10`: below `4 · 160 · 2^52 + 2^10 < 2^62`. With `a, b < 2^k m` and `2^(52 n) ≥ 2^(2k) m`, the result
//! `(a b + u m) / 2^(52 n)` is below `2 m`.

use super::room::Place;
use super::vectors::{LIMB_BITS, Vectors, low_limb};

/// Limbs of a tile.
pub(crate) const TILE: usize = 5;

/// The most limbs of a number, of 8,192 bits: the bounds above hold for as many.
pub(crate) const LIMBS_MAX: usize = 160;

/// A modulus of each lane, as [`product`] and [`square`] want it.
#[derive(Clone, Copy)]
pub(crate) struct Modulus<I: Vectors> {
    /// Its limbs.
    pub(crate) limbs: Place<I>,
    /// `-1 / m` modulo `2^52`.
    pub(crate) inverse: I::V,
    /// Room for as many limbs: the multiples of the modulus that a reduction adds.
    pub(crate) multiples: Place<I>,
}

/// Columns that a tile's product adds to: low halves to the first nine, high halves to the last nine.
const SUMS: usize = 2 * TILE - 1;

/// The sums of a column of tiles.
struct Sums<I: Vectors> {
    low: [I::V; SUMS],
    high: [I::V; SUMS],
}

impl<I: Vectors> Sums<I> {
    /// Sums that begin with what the column before has left over.
    #[inline(always)]
    fn new(isa: I, left: [I::V; TILE]) -> Sums<I> {
        let mut sums = Sums::zero(isa);
        sums.low[..TILE].copy_from_slice(&left);
        sums
    }

    #[inline(always)]
    fn zero(isa: I) -> Sums<I> {
        Sums { low: [isa.splat(0); SUMS], high: [isa.splat(0); SUMS] }
    }

    /// Adds the product of five limbs and five limbs.
    #[inline(always)]
    fn add_tile(&mut self, isa: I, a: Place<I>, b: Place<I>) {
        let a = tile_of(isa, a);
        for j in 0..TILE {
            let b = b.get(isa, j);
            for i in 0..TILE {
                self.low[i + j] = isa.add_low(self.low[i + j], a[i], b);
                self.high[i + j] = isa.add_high(self.high[i + j], a[i], b);
            }
        }
    }

    /// Adds the products of different limbs of a tile, each once.
    #[inline(always)]
    fn add_pairs(&mut self, isa: I, a: Place<I>) {
        let a = tile_of(isa, a);
        for i in 0..TILE {
            for j in 0..i {
                self.low[i + j] = isa.add_low(self.low[i + j], a[i], a[j]);
                self.high[i + j] = isa.add_high(self.high[i + j], a[i], a[j]);
            }
        }
    }

    /// Adds the squares of a tile's limbs.
    #[inline(always)]
    fn add_squares(&mut self, isa: I, a: Place<I>) {
        for i in 0..TILE {
            let a = a.get(isa, i);
            self.low[2 * i] = isa.add_low(self.low[2 * i], a, a);
            self.high[2 * i] = isa.add_high(self.high[2 * i], a, a);
        }
    }

    #[inline(always)]
    fn double(&mut self, isa: I) {
        for i in 0..SUMS {
            self.low[i] = isa.add(self.low[i], self.low[i]);
            self.high[i] = isa.add(self.high[i], self.high[i]);
        }
    }

    /// The sum of each of ten columns.
    #[inline(always)]
    fn columns(&self, isa: I) -> [I::V; 2 * TILE] {
        let mut columns = [isa.splat(0); 2 * TILE];
        columns[0] = self.low[0];
        for i in 1..SUMS {
            columns[i] = isa.add(self.low[i], self.high[i - 1]);
        }
        columns[SUMS] = self.high[SUMS - 1];
        columns
    }
}

/// What a column leaves to the next one.
#[inline(always)]
fn left<I: Vectors>(columns: &[I::V; 2 * TILE]) -> [I::V; TILE] {
    let mut left = [columns[TILE]; TILE];
    left.copy_from_slice(&columns[TILE..]);
    left
}

/// The limbs of a tile.
#[inline(always)]
fn tile_of<I: Vectors>(isa: I, place: Place<I>) -> [I::V; TILE] {
    let mut limbs = [isa.splat(0); TILE];
    for i in 0..TILE {
        limbs[i] = place.get(isa, i);
    }
    limbs
}

/// Adds the multiple of the modulus that makes five columns zero, and carries them away.
#[inline(always)]
fn reduce<I: Vectors>(isa: I, columns: &mut [I::V; 2 * TILE], modulus: Modulus<I>, multiples: Place<I>) {
    let limbs = tile_of(isa, modulus.limbs);
    for i in 0..TILE {
        let multiple = isa.add_low(isa.splat(0), columns[i], modulus.inverse);
        multiples.set(isa, i, multiple);
        for j in 0..TILE {
            columns[i + j] = isa.add_low(columns[i + j], limbs[j], multiple);
        }
        for j in 0..TILE {
            columns[i + j + 1] = isa.add_high(columns[i + j + 1], limbs[j], multiple);
        }
        columns[i + 1] = isa.add(columns[i + 1], isa.shr::<LIMB_BITS>(columns[i]));
    }
}

/// Writes five columns as limbs; the last one's carry goes to the sixth.
#[inline(always)]
fn put<I: Vectors>(isa: I, columns: &mut [I::V; 2 * TILE], out: Place<I>) {
    for i in 0..TILE {
        out.set(isa, i, low_limb(isa, columns[i]));
        columns[i + 1] = isa.add(columns[i + 1], isa.shr::<LIMB_BITS>(columns[i]));
    }
}

/// Two factors. A trait with methods that are always inlined, since closures were seen to stay calls: outside of the function
/// that enables the instructions, each would be a call of its own.
trait Factors<I: Vectors>: Copy {
    /// The sums of a column of tiles: its products, and what the column before has left over.
    fn sums(self, isa: I, left: [I::V; TILE], column: usize, tiles: usize) -> Sums<I>;
}

/// Different factors.
#[derive(Clone, Copy)]
struct Product<I: Vectors>(Place<I>, Place<I>);

impl<I: Vectors> Factors<I> for Product<I> {
    #[inline(always)]
    fn sums(self, isa: I, left: [I::V; TILE], column: usize, tiles: usize) -> Sums<I> {
        let mut sums = Sums::new(isa, left);
        for i in (column + 1).saturating_sub(tiles)..tiles.min(column + 1) {
            sums.add_tile(isa, tile(self.0, i), tile(self.1, column - i));
        }
        sums
    }
}

/// One factor twice.
#[derive(Clone, Copy)]
struct Square<I: Vectors>(Place<I>);

impl<I: Vectors> Factors<I> for Square<I> {
    #[inline(always)]
    fn sums(self, isa: I, left: [I::V; TILE], column: usize, tiles: usize) -> Sums<I> {
        let mut sums = Sums::zero(isa);
        // Tiles `i < column - i`, and the one in the middle.
        for i in (column + 1).saturating_sub(tiles)..column.div_ceil(2) {
            sums.add_tile(isa, tile(self.0, i), tile(self.0, column - i));
        }
        let middle = tile(self.0, column / 2);
        if column.is_multiple_of(2) {
            sums.add_pairs(isa, middle);
        }
        sums.double(isa);
        if column.is_multiple_of(2) {
            sums.add_squares(isa, middle);
        }
        for i in 0..TILE {
            sums.low[i] = isa.add(sums.low[i], left[i]);
        }
        sums
    }
}

#[inline(always)]
fn tile<I: Vectors>(place: Place<I>, index: usize) -> Place<I> {
    place.part(TILE * index, TILE)
}

/// The product of factors, reduced. A column is written when the tiles of its number are read no more.
#[inline(always)]
fn multiply<I: Vectors>(isa: I, out: Place<I>, factors: impl Factors<I>, modulus: Modulus<I>) {
    let tiles = out.limbs() / TILE;
    let mut before = [isa.splat(0); TILE];
    for column in 0..tiles {
        let mut sums = factors.sums(isa, before, column, tiles);
        for i in 0..column {
            sums.add_tile(isa, tile(modulus.multiples, i), tile(modulus.limbs, column - i));
        }
        let mut columns = sums.columns(isa);
        reduce(isa, &mut columns, modulus, tile(modulus.multiples, column));
        before = left::<I>(&columns);
    }
    for column in tiles..2 * tiles {
        let mut sums = factors.sums(isa, before, column, tiles);
        for i in column + 1 - tiles..tiles {
            sums.add_tile(isa, tile(modulus.multiples, i), tile(modulus.limbs, column - i));
        }
        let mut columns = sums.columns(isa);
        put(isa, &mut columns, tile(out, column - tiles));
        before = left::<I>(&columns);
    }
}

/// `out = a · b / 2^(52 n)` modulo each lane's modulus of `n` limbs, a multiple of five: below twice the modulus, within the
/// bounds above. `out` may be a factor.
#[inline(always)]
pub(crate) fn product<I: Vectors>(isa: I, out: Place<I>, a: Place<I>, b: Place<I>, modulus: Modulus<I>) {
    check(isa, &[a, b], out, modulus);
    multiply(isa, out, Product(a, b), modulus);
}

/// `out = a² / 2^(52 n)`, as [`product`].
#[inline(always)]
pub(crate) fn square<I: Vectors>(isa: I, out: Place<I>, a: Place<I>, modulus: Modulus<I>) {
    check(isa, &[a], out, modulus);
    multiply(isa, out, Square(a), modulus);
}

/// Limbs of the table's entry that each lane's number names: as many as `out` has, of entries that begin `stride` limbs apart. The
/// whole table is read, so that no address depends on what is chosen. A number beyond the table gives zero.
#[inline(always)]
pub(crate) fn choose<I: Vectors>(isa: I, out: Place<I>, table: Place<I>, stride: usize, which: I::V) {
    // Five limbs at a time, so that what is chosen stays in registers.
    for first in (0..out.limbs()).step_by(TILE) {
        let mut chosen = [isa.splat(0); TILE];
        for entry in 0..table.limbs().div_ceil(stride) {
            let is_it = isa.equal(which, isa.splat(entry as u64));
            let limbs = table.part(entry * stride + first, TILE);
            for i in 0..TILE {
                chosen[i] = isa.select(is_it, limbs.get(isa, i), chosen[i]);
            }
        }
        for i in 0..TILE {
            out.set(isa, first + i, chosen[i]);
        }
    }
}

/// What the bounds rest on, in builds that check.
fn check<I: Vectors>(isa: I, factors: &[Place<I>], out: Place<I>, modulus: Modulus<I>) {
    let limbs = out.limbs();
    debug_assert!(limbs.is_multiple_of(TILE) && limbs <= LIMBS_MAX && modulus.limbs.limbs() == limbs);
    debug_assert!(modulus.multiples.limbs() == limbs && factors.iter().all(|factor| factor.limbs() == limbs));
    if cfg!(debug_assertions) {
        let is_limb = |vector| isa.bits(isa.equal(isa.shr::<LIMB_BITS>(vector), isa.splat(0))) == (1 << I::LANES) - 1;
        for factor in factors.iter().chain([&modulus.limbs]) {
            assert!((0..limbs).all(|i| is_limb(factor.get(isa, i))), "a factor's limb of more than 52 bits");
        }
    }
}

#[cfg(test)]
mod tests {
    use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
    use crypto_bigint::{BoxedUint, Odd, Resize as _};

    use super::super::isa::{Isa, PublicKernel, public_kernels};
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
    fn compare<I: Isa>(isa: I, limbs: usize) {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ limbs as u64);
        let mut room = Room::default();
        for _ in 0..40 {
            let mut open = room.open::<I>(6 * limbs);
            let [m, a, b, product, square, multiples] = core::array::from_fn(|_| open.number(limbs));
            let mut inverses = open_inverse(isa);
            let mut lanes = Vec::new();
            for lane in 0..I::LANES {
                // Below `2^(52 n - 2)`, and factors below twice as much: what the bounds ask for.
                let mut modulus = random.limbs(limbs, LIMB_MAX);
                modulus[0] |= 1;
                modulus[limbs - 1] = modulus[limbs - 1] >> 2 | 1;
                let mut factor = || {
                    let mut limbs = random.limbs(limbs, LIMB_MAX);
                    let top = modulus[limbs.len() - 1];
                    let last = limbs.len() - 1;
                    limbs[last] %= top.max(1);
                    limbs
                };
                let (x, y) = (factor(), factor());
                m.set_number(lane, &modulus);
                a.set_number(lane, &x);
                b.set_number(lane, &y);
                inverses[lane] = inverse(modulus[0]);
                lanes.push((number(&modulus), number(&x), number(&y)));
            }
            let inverse = {
                let place = b;
                let kept: Vec<u64> = (0..I::LANES).map(|lane| place.lane(lane, 0)).collect();
                inverses.iter().enumerate().for_each(|(lane, inverse)| place.set_lane(lane, 0, *inverse));
                let inverse = place.get(isa, 0);
                kept.iter().enumerate().for_each(|(lane, limb)| place.set_lane(lane, 0, *limb));
                inverse
            };
            let modulus = Modulus { limbs: m, inverse, multiples };
            isa.product(product, a, b, modulus);
            isa.square(square, a, modulus);
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
                    assert!(got < m.wrapping_add(m), "lane {lane}: not below twice the modulus");
                    assert_eq!(
                        form(&got).mul(&radix).retrieve(),
                        form(a).mul(&form(factor)).retrieve(),
                        "lane {lane} of {limbs}"
                    );
                }
            }
        }
    }

    fn open_inverse<I: Isa>(_: I) -> Vec<u64> {
        vec![0; I::LANES]
    }

    public_kernels! {
        fn compare_with(limbs: usize) = compare
    }

    #[test]
    fn products_and_squares_are_those_of_big_integers() {
        for name in PublicKernel::NAMES {
            let Some(kernel) = PublicKernel::detect(name) else { continue };
            for limbs in [5, 10, 20, 30, 80, LIMBS_MAX] {
                compare_with(kernel, limbs);
            }
        }
    }
}
