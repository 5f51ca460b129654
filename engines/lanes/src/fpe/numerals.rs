//! Numerals to numbers and back, in lanes (SP 800-38G, algorithms 1 and 3).
//!
//! Numerals are 16 bits wide and travel in rows: four of each lane in a 64-bit word, the first one lowest. A half's rows
//! end with its last numeral; where their number is no multiple of four the first row begins with zeros.

use super::keys::lane_of;
use super::number::{Arithmetic, mul_high, splat};
use super::shape::{Modulus, SMALL_MAX, Shape, power};
use crate::aes::isa::Blocks;
use crate::aes::numbers::{NumberIsa, Numbers};
use crate::work::Item;

/// Rows of both halves, each a word of every lane.
pub(super) struct Rows {
    first: *mut u64,
    /// Lanes, thus words of a row.
    lanes: usize,
    left: usize,
    right: usize,
}

/// See [`Rows::place`].
struct Place {
    numeral: usize,
    shift: u32,
    keep: u64,
}

impl Place {
    #[inline(always)]
    fn whole(numeral: usize) -> Place {
        Place { numeral, shift: 0, keep: u64::MAX }
    }
}

/// The numerals of a row's word that belong to a half whose count is `len`, when the row is the half's first.
#[inline(always)]
fn first_row(len: usize) -> usize {
    if len.is_multiple_of(4) { 4 } else { len % 4 }
}

impl Rows {
    /// Words that rows of a shape take.
    pub(super) fn words(shape: &Shape, lanes: usize) -> usize {
        (shape.left.div_ceil(4) + shape.right.div_ceil(4)) * lanes
    }

    /// Rows in `room`, [`Rows::words`] at least.
    #[inline(always)]
    pub(super) fn new(shape: &Shape, lanes: usize, room: &mut [u64]) -> Rows {
        assert!(room.len() >= Rows::words(shape, lanes));
        Rows { first: room.as_mut_ptr(), lanes, left: shape.left.div_ceil(4), right: shape.right.div_ceil(4) }
    }

    #[inline(always)]
    fn word(&self, row: usize, lane: usize) -> *mut u64 {
        debug_assert!(row < self.left + self.right && lane < self.lanes);
        // SAFETY: callers stay within both, for which `new` has found room.
        unsafe { self.first.add(row * self.lanes + lane) }
    }

    /// Where a row's word lies in a value: the numeral it starts with, the zero bits that come before the half's first
    /// numeral, and whether what is read there belongs to the numerals before it and has to be cleared.
    #[inline(always)]
    fn place(&self, shape: &Shape, row: usize) -> Place {
        let (left, right) = (first_row(shape.left), first_row(shape.right));
        // Values have eight numerals at least, halves four: the left half's first row is read with numerals behind it,
        // the right one's with numerals before it.
        match row {
            0 => Place { numeral: 0, shift: 64 - 16 * left as u32, keep: u64::MAX },
            row if row < self.left => Place::whole(left + 4 * (row - 1)),
            row if row == self.left => {
                Place { numeral: shape.left + right - 4, shift: 0, keep: u64::MAX << (64 - 16 * right) }
            }
            row => Place::whole(shape.left + right + 4 * (row - self.left - 1)),
        }
    }

    /// Brings values' numerals into lanes.
    ///
    /// # Safety
    /// The shape is that of `new`, with as many lanes as items at least; numerals of the shape may be read from each input.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, shape: &Shape, items: &[Item]) {
        debug_assert!(items.len() <= self.lanes);
        if shape.len < 8 {
            for (lane, item) in items.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { self.fill_short(shape, lane, item.input) };
            }
            return;
        }
        for row in 0..self.left + self.right {
            let place = self.place(shape, row);
            for (lane, item) in items.iter().enumerate() {
                // SAFETY: within the value, as `place` says. Volatile, so that words are moved one by one: scattered
                // and gathered they would take longer.
                unsafe {
                    let word = item.input.add(2 * place.numeral).cast::<u64>().read_unaligned();
                    self.word(row, lane).write_volatile((word << place.shift) & place.keep);
                }
            }
        }
    }

    /// The same for values of fewer than eight numerals.
    ///
    /// # Safety
    /// The value's numerals may be read from `input`.
    #[inline(never)]
    unsafe fn fill_short(&self, shape: &Shape, lane: usize, input: *const u8) {
        for (row, half, from) in [(0, shape.left, 0), (self.left, shape.right, shape.left)] {
            let mut word = 0;
            for numeral in 0..half {
                // SAFETY: within the value. Halves of three or fewer numerals, or of four, have one row.
                word |= u64::from(unsafe { input.add(2 * (from + numeral)).cast::<u16>().read_unaligned() })
                    << (16 * (4 - half + numeral));
            }
            // SAFETY: a word of this lane.
            unsafe { self.word(row, lane).write(word) };
        }
    }

    /// Writes lanes' numerals as values.
    ///
    /// # Safety
    /// The shape is that of `new`, with as many lanes as items at least; numerals of the shape may be written to each output.
    #[inline(always)]
    pub(super) unsafe fn drain(&self, shape: &Shape, items: &[Item]) {
        debug_assert!(items.len() <= self.lanes);
        if shape.len < 8 {
            for (lane, item) in items.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { self.drain_short(shape, lane, item.output) };
            }
            return;
        }
        // First rows spill into numerals that other rows write afterwards: the right one into the end of the left half,
        // the left one into what follows in its own.
        let first = [self.left, 0].into_iter();
        for row in first.chain(1..self.left).chain(self.left + 1..self.left + self.right) {
            let place = self.place(shape, row);
            for (lane, item) in items.iter().enumerate() {
                // SAFETY: within the value, as `place` says. Volatile for the same reason.
                unsafe {
                    let word = self.word(row, lane).read_volatile() >> place.shift;
                    item.output.add(2 * place.numeral).cast::<u64>().write_unaligned(word);
                }
            }
        }
    }

    /// The same for values of fewer than eight numerals.
    ///
    /// # Safety
    /// The value's numerals may be written to `output`.
    #[inline(never)]
    unsafe fn drain_short(&self, shape: &Shape, lane: usize, output: *mut u8) {
        for (row, half, to) in [(0, shape.left, 0), (self.left, shape.right, shape.left)] {
            // SAFETY: a word of this lane.
            let word = unsafe { self.word(row, lane).read() };
            for numeral in 0..half {
                let shifted = word >> (16 * (4 - half + numeral));
                // SAFETY: within the value.
                unsafe { output.add(2 * (to + numeral)).cast::<u16>().write_unaligned(shifted as u16) };
            }
        }
    }

    /// The rows of a half: its first and their number.
    #[inline(always)]
    fn half(&self, parity: usize) -> (usize, usize) {
        if parity == 0 { (0, self.left) } else { (self.left, self.right) }
    }

    /// One row of one pair of vectors of blocks.
    #[inline(always)]
    fn load<I: NumberIsa>(&self, isa: I, row: usize, pair: usize) -> I::V {
        // SAFETY: a pair's lanes lie side by side; callers stay within rows and pairs, for which `new` has found room.
        unsafe { isa.load(self.word(row, lane_of::<I>(2 * pair, 0)).cast()) }
    }

    /// Writes one row of one pair.
    #[inline(always)]
    fn store<I: NumberIsa>(&self, row: usize, pair: usize, words: I::V) {
        // SAFETY: as for `load`.
        unsafe { words.store(self.word(row, lane_of::<I>(2 * pair, 0)).cast()) };
    }
}

/// What numerals are multiplied with to become numbers, and the largest one.
#[derive(Clone, Copy)]
pub(super) struct Reader<V> {
    radix: V,
    /// radix^2 - 1, which fits 32 bits.
    square_less_one: V,
    /// radix^4, as far as it fits 64 bits. Where it does not, numbers that fit a lane have one row.
    fourth: V,
    /// The largest numeral, four times.
    largest: V,
    /// The first and third numeral of a row.
    outer: V,
    low: V,
}

impl<V: Numbers> Reader<V> {
    #[inline(always)]
    pub(super) fn new<I: NumberIsa<V = V>>(isa: I, shape: &Shape) -> Self {
        let radix = u64::from(shape.radix);
        Reader {
            radix: splat(isa, radix),
            square_less_one: splat(isa, radix * radix - 1),
            fourth: splat(isa, power(shape.radix, 4).unwrap_or(0)),
            largest: splat(isa, (radix - 1) * 0x0001_0001_0001_0001),
            outer: splat(isa, 0x0000_ffff_0000_ffff),
            low: splat(isa, 0xffff_ffff),
        }
    }

    /// The number of a half in one pair's lanes. Whatever exceeds the largest numeral is noted in `excess`.
    #[inline(always)]
    pub(super) fn number<I: NumberIsa<V = V>, A: Arithmetic<I>>(
        &self,
        isa: I,
        rows: &Rows,
        parity: usize,
        pair: usize,
        excess: &mut V,
    ) -> V {
        let (first, count) = rows.half(parity);
        let mut number = isa.zero();
        for row in 0..count {
            let numerals = rows.load(isa, first + row, pair);
            *excess = excess.or(numerals.sub16_saturating(self.largest));
            let (even, odd) = (numerals.and(self.outer), numerals.shr64::<16>().and(self.outer));
            let upper = even.mul32(self.radix).add64(odd.and(self.low));
            let lower = even.shr64::<32>().mul32(self.radix).add64(odd.shr64::<32>());
            // upper · radix^2 + lower, which fits: a row's number is below radix^4.
            let sum = upper.mul32(self.square_less_one).add64(upper).add64(lower);
            number = if row == 0 { sum } else { A::push(number, self.fourth, sum) };
        }
        number
    }
}

/// How a half's number becomes numerals: in chunks of as many numerals as fit [`SMALL_MAX`], the first chunk with what
/// is left over. A number becomes a fraction of its modulus, whose leading numerals are what overflows when it is
/// multiplied with the radix.
#[derive(Clone, Copy)]
pub(super) struct Writer<V> {
    radix: V,
    /// The fourth numeral of a row.
    top: V,
    low: V,
    one: V,
    /// Numerals of the first chunk and of the others, and how many chunks there are.
    first_len: usize,
    chunk_len: usize,
    chunks: usize,
    first: Chunk<V>,
    others: Chunk<V>,
    whole: Whole<V>,
}

/// A chunk's modulus C, at most [`SMALL_MAX`], of k bits.
///
/// Any f with `x · 2^32 / C <= f < (x + 1) · 2^32 / C` is a fraction that yields the numerals of x. The product of x
/// with 2^(31 + k) / C, one more and at most 2^32 - 1, shifted by k - 1, and one more, exceeds the lower bound by less
/// than three, and 2^32 / C is at least four. For a power of two, where the reciprocal is one too small, it is exact.
#[derive(Clone, Copy)]
struct Chunk<V> {
    reciprocal: V,
    /// k - 1.
    shift: V,
    /// C.
    modulus: V,
}

/// The modulus of a number of several chunks, M of k bits.
///
/// As above with 2^64 for 2^32: x · 2^(64 - k) multiplied with 2^(63 + k) / M and shifted by 64 falls short of
/// x · 2^63 / M by less than three; three more, doubled, exceed the bound by at most six, and 2^64 / M is at least eight.
#[derive(Clone, Copy)]
struct Whole<V> {
    reciprocal: V,
    reciprocal_high: V,
    /// 64 - k.
    shift: V,
    six: V,
}

impl<V: Numbers> Chunk<V> {
    #[inline(always)]
    fn new<I: NumberIsa<V = V>>(isa: I, value: u64) -> Self {
        let bits = u64::BITS - value.leading_zeros();
        let reciprocal = ((1u64 << (31 + bits)) / value + 1).min(u64::from(u32::MAX));
        Chunk { reciprocal: splat(isa, reciprocal), shift: splat(isa, u64::from(bits - 1)), modulus: splat(isa, value) }
    }

    #[inline(always)]
    fn fraction(&self, number: V, one: V) -> V {
        number.mul32(self.reciprocal).shr64_by(self.shift).add64(one)
    }
}

impl<V: Numbers> Writer<V> {
    /// For the numbers of a half: 0 for the left one.
    #[inline(always)]
    pub(super) fn new<I: NumberIsa<V = V>>(isa: I, shape: &Shape, moduli: &[Modulus; 2], parity: usize) -> Self {
        let (len, modulus) = ([shape.left, shape.right][parity], &moduli[parity]);
        let radix = u64::from(shape.radix);
        let (mut chunk_len, mut chunk) = (1, radix);
        while chunk_len < len && chunk * radix <= SMALL_MAX {
            chunk *= radix;
            chunk_len += 1;
        }
        let chunks = len.div_ceil(chunk_len);
        let first_len = len - (chunks - 1) * chunk_len;
        let first = if first_len == chunk_len { chunk } else { radix.pow(first_len as u32) };
        Writer {
            radix: splat(isa, radix),
            top: splat(isa, 0xffff << 48),
            low: splat(isa, 0xffff_ffff),
            one: splat(isa, 1),
            first_len,
            chunk_len,
            chunks,
            first: Chunk::new(isa, first),
            others: Chunk::new(isa, chunk),
            whole: Whole {
                reciprocal: splat(isa, modulus.reciprocal),
                reciprocal_high: splat(isa, modulus.reciprocal >> 32),
                shift: splat(isa, u64::from(u64::BITS - modulus.bits)),
                six: splat(isa, 6),
            },
        }
    }

    /// Writes a half's numbers into the rows of one pair's lanes.
    #[inline(always)]
    pub(super) fn numerals<I: NumberIsa<V = V>>(&self, isa: I, number: V, rows: &Rows, parity: usize, pair: usize) {
        let (first, count) = rows.half(parity);
        let len = self.first_len + (self.chunks - 1) * self.chunk_len;
        let mut out = RowWriter { rows, row: first, missing: first_row(len), word: isa.zero() };
        debug_assert_eq!(count, len.div_ceil(4));
        if self.chunks == 1 {
            return self.chunk(isa, self.first.fraction(number, self.one), self.first_len, &mut out, pair);
        }
        let shifted = number.shl64_by(self.whole.shift);
        let high = mul_high(shifted, self.whole.reciprocal, self.whole.reciprocal_high, self.low);
        let mut fraction = high.shl64::<1>().add64(self.whole.six);
        for index in 0..self.chunks {
            let (chunk, len) = if index == 0 { (&self.first, self.first_len) } else { (&self.others, self.chunk_len) };
            let low = fraction.mul32(chunk.modulus);
            let sum = fraction.shr64::<32>().mul32(chunk.modulus).add64(low.shr64::<32>());
            fraction = sum.shl64::<32>().or(low.and(self.low));
            self.chunk(isa, chunk.fraction(sum.shr64::<32>(), self.one), len, &mut out, pair);
        }
    }

    /// Writes the numerals of a fraction of 32 bits.
    #[inline(always)]
    fn chunk<I: NumberIsa<V = V>>(&self, isa: I, fraction: V, len: usize, out: &mut RowWriter<'_, V>, pair: usize) {
        let mut fraction = fraction;
        for _ in 0..len {
            // The numeral is what lies above the fraction's 32 bits.
            fraction = fraction.mul32(self.radix);
            out.word = out.word.shr64::<16>().or(fraction.shl64::<16>().and(self.top));
            out.missing -= 1;
            if out.missing == 0 {
                out.rows.store::<I>(out.row, pair, out.word);
                *out = RowWriter { rows: out.rows, row: out.row + 1, missing: 4, word: isa.zero() };
            }
        }
    }
}

/// Where numerals go that come one by one.
struct RowWriter<'r, V> {
    rows: &'r Rows,
    row: usize,
    /// Numerals that the row still lacks.
    missing: usize,
    word: V,
}
