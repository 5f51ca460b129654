//! The 32-bit word that every kernel is written over, so that one source is both timed and counted.
//!
//! Timed, it is a `u32` and each operation an instruction or less. Counted, it is [`Counted`], which computes the same
//! values and adds up what they cost; that the sums belong to a right computation is seen by its output.
//!
//! What counts as an instruction: a word operation (add, and, or, exclusive or, not, shift, rotate), a comparison, a
//! selection, and, for each iteration of a loop, its increment and its branch. What counts as a memory access: a read or
//! write of a table, of the message or of a buffer; each is also one instruction. Free are moves between registers,
//! immediate operands, address arithmetic that a load can do itself, and the order of bytes in a load. Local values count
//! as registers, as in the paper; a processor with few of them keeps some on its stack.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::AddAssign;

/// A 32-bit word with wrapping arithmetic.
pub(crate) trait Word: Copy {
    /// A constant; free.
    fn new(value: u32) -> Self;
    fn add(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn not(self) -> Self;
    fn shift_left(self, by: u32) -> Self;
    fn shift_right(self, by: u32) -> Self;
    fn rotate_left(self, by: u32) -> Self;

    /// `then` where `self` equals `other`, else `otherwise`, without a branch.
    fn where_equal(self, other: Self, then: Self, otherwise: Self) -> Self;

    /// The word at `index`; bits of `index` above the table's length, a power of two, are ignored.
    fn read<const N: usize>(table: &[u32; N], index: Self) -> Self;
    /// Sets the word at `index`, as [`Word::read`] takes it.
    fn write<const N: usize>(table: &mut [u32; N], index: Self, value: Self);
    /// A word whose place does not depend on data.
    fn fetch(place: &u32) -> Self;

    fn load_be(bytes: &[u8; 4]) -> Self;
    fn load_le(bytes: &[u8; 4]) -> Self;
    fn load_byte(byte: &u8) -> Self;
    fn store_be(self, bytes: &mut [u8; 4]);
    fn store_le(self, bytes: &mut [u8; 4]);
    fn store_byte(self, byte: &mut u8);

    /// One time around a loop.
    fn iteration();

    /// The word as a place in a table; free.
    fn index(self) -> usize;

    /// Turns left by an amount that lies in memory.
    fn rotate_left_by(self, by: &u32) -> Self;
    /// Sets a word whose place does not depend on data.
    fn put(place: &mut u32, value: Self);

    /// Byte `number` of the word, counted from the lowest.
    #[inline(always)]
    fn byte(self, number: u32) -> Self {
        match number {
            0 => self.and(Self::new(0xff)),
            3 => self.shift_right(24),
            _ => self.shift_right(8 * number).and(Self::new(0xff)),
        }
    }

    #[inline(always)]
    fn rotate_right(self, by: u32) -> Self {
        self.rotate_left(32 - by)
    }

    /// Bits of `then` where `self` has ones, of `otherwise` where it has zeros.
    #[inline(always)]
    fn select(self, then: Self, otherwise: Self) -> Self {
        otherwise.xor(self.and(then.xor(otherwise)))
    }

    /// The exclusive or of three words.
    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        self.xor(second.xor(third))
    }

    /// `self ^ (second | !third)`.
    #[inline(always)]
    fn xor_or_not(self, second: Self, third: Self) -> Self {
        self.xor(second.or(third.not()))
    }
}

impl Word for u32 {
    #[inline(always)]
    fn new(value: u32) -> u32 {
        value
    }

    #[inline(always)]
    fn add(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn xor(self, other: u32) -> u32 {
        self ^ other
    }

    #[inline(always)]
    fn and(self, other: u32) -> u32 {
        self & other
    }

    #[inline(always)]
    fn or(self, other: u32) -> u32 {
        self | other
    }

    #[inline(always)]
    fn not(self) -> u32 {
        !self
    }

    #[inline(always)]
    fn shift_left(self, by: u32) -> u32 {
        self << by
    }

    #[inline(always)]
    fn shift_right(self, by: u32) -> u32 {
        self >> by
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> u32 {
        u32::rotate_left(self, by)
    }

    #[inline(always)]
    fn where_equal(self, other: u32, then: u32, otherwise: u32) -> u32 {
        if self == other { then } else { otherwise }
    }

    #[inline(always)]
    fn read<const N: usize>(table: &[u32; N], index: u32) -> u32 {
        table[index as usize & (N - 1)]
    }

    #[inline(always)]
    fn write<const N: usize>(table: &mut [u32; N], index: u32, value: u32) {
        table[index as usize & (N - 1)] = value;
    }

    #[inline(always)]
    fn fetch(place: &u32) -> u32 {
        *place
    }

    #[inline(always)]
    fn load_be(bytes: &[u8; 4]) -> u32 {
        u32::from_be_bytes(*bytes)
    }

    #[inline(always)]
    fn load_le(bytes: &[u8; 4]) -> u32 {
        u32::from_le_bytes(*bytes)
    }

    #[inline(always)]
    fn load_byte(byte: &u8) -> u32 {
        u32::from(*byte)
    }

    #[inline(always)]
    fn store_be(self, bytes: &mut [u8; 4]) {
        *bytes = self.to_be_bytes();
    }

    #[inline(always)]
    fn store_le(self, bytes: &mut [u8; 4]) {
        *bytes = self.to_le_bytes();
    }

    #[inline(always)]
    fn store_byte(self, byte: &mut u8) {
        *byte = self as u8;
    }

    #[inline(always)]
    fn iteration() {}

    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn rotate_left_by(self, by: &u32) -> u32 {
        u32::rotate_left(self, *by)
    }

    #[inline(always)]
    fn put(place: &mut u32, value: u32) {
        *place = value;
    }
}

/// What a computation took, by the rules of this module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions, those that access memory among them.
    pub instructions: f64,
    /// Reads from memory.
    pub reads: f64,
    /// Writes to memory.
    pub writes: f64,
}

impl Counts {
    /// Reads and writes.
    pub fn accesses(self) -> f64 {
        self.reads + self.writes
    }

    /// The counts of one of `parts` equal parts.
    #[must_use]
    pub fn share(self, parts: f64) -> Counts {
        Counts { instructions: self.instructions / parts, reads: self.reads / parts, writes: self.writes / parts }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.instructions += other.instructions;
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// What operations cost that not every instruction set has.
pub(crate) trait Costs: Copy {
    /// Instructions of a rotation.
    const ROTATION: f64;
    /// Whether any function of three words, bit by bit, is one instruction.
    const TERNARY: bool;
}

/// Scalar registers, which rotate.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

impl Costs for Scalar {
    const ROTATION: f64 = 1.0;
    const TERNARY: bool = false;
}

/// Vectors that do not rotate: two shifts and an or (SSE2, AVX2, NEON).
#[derive(Clone, Copy)]
pub(crate) struct PlainVector;

impl Costs for PlainVector {
    const ROTATION: f64 = 3.0;
    const TERNARY: bool = false;
}

/// AVX-512 with its rotations and its ternary logic.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Costs for Avx512 {
    const ROTATION: f64 = 1.0;
    const TERNARY: bool = true;
}

thread_local! {
    static TALLY: Cell<Counts> = const { Cell::new(Counts { instructions: 0.0, reads: 0.0, writes: 0.0 }) };
}

fn tally(instructions: f64, reads: f64, writes: f64) {
    TALLY.with(|tally| {
        let mut counts = tally.get();
        counts += Counts { instructions, reads, writes };
        tally.set(counts);
    });
}

/// What `work` takes when it computes with [`Counted`] words.
pub(crate) fn counted(work: impl FnOnce()) -> Counts {
    TALLY.with(|tally| tally.set(Counts::default()));
    work();
    TALLY.with(Cell::get)
}

/// A word that is counted, with the costs of one kind of instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Counted<C>(u32, PhantomData<C>);

impl<C: Costs> Counted<C> {
    fn operation(instructions: f64, value: u32) -> Self {
        tally(instructions, 0.0, 0.0);
        Counted(value, PhantomData)
    }

    fn reading(value: u32) -> Self {
        tally(1.0, 1.0, 0.0);
        Counted(value, PhantomData)
    }

    /// A function of three words, bit by bit, which is `plain` operations without ternary logic.
    fn ternary(plain: f64, value: u32) -> Self {
        Self::operation(if C::TERNARY { 1.0 } else { plain }, value)
    }
}

impl<C: Costs> Word for Counted<C> {
    fn new(value: u32) -> Self {
        Counted(value, PhantomData)
    }

    fn add(self, other: Self) -> Self {
        Self::operation(1.0, self.0.wrapping_add(other.0))
    }

    fn xor(self, other: Self) -> Self {
        Self::operation(1.0, self.0 ^ other.0)
    }

    fn and(self, other: Self) -> Self {
        Self::operation(1.0, self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
        Self::operation(1.0, self.0 | other.0)
    }

    fn not(self) -> Self {
        Self::operation(1.0, !self.0)
    }

    fn shift_left(self, by: u32) -> Self {
        Self::operation(1.0, self.0 << by)
    }

    fn shift_right(self, by: u32) -> Self {
        Self::operation(1.0, self.0 >> by)
    }

    fn rotate_left(self, by: u32) -> Self {
        Self::operation(C::ROTATION, self.0.rotate_left(by))
    }

    fn where_equal(self, other: Self, then: Self, otherwise: Self) -> Self {
        Self::operation(2.0, if self.0 == other.0 { then.0 } else { otherwise.0 })
    }

    fn read<const N: usize>(table: &[u32; N], index: Self) -> Self {
        Self::reading(u32::read(table, index.0))
    }

    fn write<const N: usize>(table: &mut [u32; N], index: Self, value: Self) {
        tally(1.0, 0.0, 1.0);
        u32::write(table, index.0, value.0);
    }

    fn fetch(place: &u32) -> Self {
        Self::reading(*place)
    }

    fn load_be(bytes: &[u8; 4]) -> Self {
        Self::reading(u32::from_be_bytes(*bytes))
    }

    fn load_le(bytes: &[u8; 4]) -> Self {
        Self::reading(u32::from_le_bytes(*bytes))
    }

    fn load_byte(byte: &u8) -> Self {
        Self::reading(u32::from(*byte))
    }

    fn store_be(self, bytes: &mut [u8; 4]) {
        tally(1.0, 0.0, 1.0);
        self.0.store_be(bytes);
    }

    fn store_le(self, bytes: &mut [u8; 4]) {
        tally(1.0, 0.0, 1.0);
        self.0.store_le(bytes);
    }

    fn store_byte(self, byte: &mut u8) {
        tally(1.0, 0.0, 1.0);
        self.0.store_byte(byte);
    }

    fn iteration() {
        tally(2.0, 0.0, 0.0);
    }

    fn index(self) -> usize {
        self.0 as usize
    }

    fn rotate_left_by(self, by: &u32) -> Self {
        tally(1.0, 1.0, 0.0);
        self.rotate_left(*by)
    }

    fn put(place: &mut u32, value: Self) {
        tally(1.0, 0.0, 1.0);
        *place = value.0;
    }

    fn select(self, then: Self, otherwise: Self) -> Self {
        Self::ternary(3.0, (self.0 & then.0) | (!self.0 & otherwise.0))
    }

    fn xor3(self, second: Self, third: Self) -> Self {
        Self::ternary(2.0, self.0 ^ second.0 ^ third.0)
    }

    fn xor_or_not(self, second: Self, third: Self) -> Self {
        Self::ternary(3.0, self.0 ^ (second.0 | !third.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation once, on given inputs.
    fn everything<W: Word>() -> [u32; 9] {
        let (a, b, c) = (W::new(0x0123_4567), W::new(0x89ab_cdef), W::new(0xfedc_ba98));
        let mut out = [[0; 4]; 9];
        let words = [
            a.add(b).rotate_left(3),
            a.select(b, c),
            a.xor3(b, c),
            a.xor_or_not(b, c),
            a.where_equal(b, a, c),
            a.not().shift_left(4).or(b.shift_right(28)),
            W::read(&[1, 2, 3, 4], W::new(7)),
            W::load_be(&[1, 2, 3, 4]),
            W::load_le(&[1, 2, 3, 4]).and(W::load_byte(&5)),
        ];
        for (word, out) in words.into_iter().zip(&mut out) {
            word.store_le(out);
        }
        out.map(u32::from_le_bytes)
    }

    #[test]
    fn counted_words_compute_as_plain_ones() {
        let plain = everything::<u32>();
        assert_eq!(everything::<Counted<Scalar>>(), plain);
        assert_eq!(everything::<Counted<PlainVector>>(), plain);
        assert_eq!(everything::<Counted<Avx512>>(), plain);
    }

    #[test]
    fn each_instruction_set_has_its_price() {
        let count = |work: fn() -> [u32; 9]| {
            counted(|| {
                work();
            })
        };
        let scalar = count(everything::<Counted<Scalar>>);
        assert_eq!((scalar.reads, scalar.writes), (4.0, 9.0));
        assert_eq!(scalar.instructions, 2.0 + 3.0 + 2.0 + 3.0 + 2.0 + 4.0 + 1.0 + 1.0 + 3.0 + 9.0);
        let vector = count(everything::<Counted<PlainVector>>);
        assert_eq!(vector.instructions, scalar.instructions + 2.0);
        let wide = count(everything::<Counted<Avx512>>);
        assert_eq!(wide.instructions, scalar.instructions - 5.0);
    }
}
