//! Values whose halves fit lanes of 64-bit numbers.
//!
//! `N` vectors of blocks hold the PRF's input of as many values as they have blocks. Their numbers lie in `H` = N / 2
//! vectors of 64-bit numbers: unpacking the low halves of two vectors of blocks makes one such vector, and one byte
//! shuffle each makes two vectors of blocks of it, numbers big-endian at the end of each block. A round is: shuffle,
//! add the chaining value and the round's index, encipher, unpack, reduce, add to the other half.

use ciphermill_contract::{Direction, OpStatus, Reason};

use super::keys::{Own, RoundKeys, Shared, one_key};
use super::number::{Arithmetic, Large, Small};
use super::numerals::{Reader, Rows, Writer};
use super::prefix::chaining;
use super::shape::Shape;
use super::{Group, Memory};
use crate::aes::isa::{AesKernel, Blocks, aes_kernels};
use crate::aes::numbers::NumberIsa;

/// Rounds of the Feistel network (SP 800-38G, algorithm 7), two by two.
const DOUBLE_ROUNDS: usize = 5;

/// Vectors of blocks for large groups, and for those that fit fewer. Eight cover the latency of AES and arithmetic.
const FULL: usize = 8;
const FEW: usize = 2;

/// Blocks of a kernel's vector.
const fn blocks(kernel: AesKernel) -> usize {
    match kernel {
        AesKernel::Vaes512(_) => 4,
        AesKernel::Vaes256(_) => 2,
        AesKernel::AesNi(_) => 1,
    }
}

/// Values that are worked on at a time.
pub(super) const fn lanes(kernel: AesKernel) -> usize {
    FULL * blocks(kernel)
}

/// Runs a group whose shape is narrow.
pub(super) fn run(kernel: AesKernel, group: &mut Group<'_, '_>, memory: &mut Memory) {
    let few = group.items.len() <= FEW * blocks(kernel);
    let vectors = if few { FEW } else { FULL };
    let shared = one_key(group.items);
    let rows = Rows::words(group.shape, vectors * blocks(kernel));
    let room = memory.room(rows + if shared { 0 } else { Own::words(vectors, blocks(kernel)) });
    let (rows, keys) = room.split_at_mut(rows);
    let room = Room { rows, keys: if shared { None } else { Some(keys) } };
    match (group.shape.is_small(), few) {
        (true, false) => small_full(kernel, group, room),
        (true, true) => small_few(kernel, group, room),
        (false, false) => large_full(kernel, group, room),
        (false, true) => large_few(kernel, group, room),
    }
}

/// Working memory of a group.
struct Room<'m> {
    /// For numerals.
    rows: &'m mut [u64],
    /// For transposed round keys, unless all lanes have one key.
    keys: Option<&'m mut [u64]>,
}

aes_kernels! {
    fn small_full(group: &mut Group<'_, '_>, room: Room<'_>) = run_on::<_, Small<_>, FULL, { FULL / 2 }>
}

aes_kernels! {
    fn small_few(group: &mut Group<'_, '_>, room: Room<'_>) = run_on::<_, Small<_>, FEW, { FEW / 2 }>
}

aes_kernels! {
    fn large_full(group: &mut Group<'_, '_>, room: Room<'_>) = run_on::<_, Large<_>, FULL, { FULL / 2 }>
}

aes_kernels! {
    fn large_few(group: &mut Group<'_, '_>, room: Room<'_>) = run_on::<_, Large<_>, FEW, { FEW / 2 }>
}

#[inline(always)]
fn run_on<I: NumberIsa, A: Arithmetic<I>, const N: usize, const H: usize>(
    isa: I,
    group: &mut Group<'_, '_>,
    room: Room<'_>,
) {
    let rows = Rows::new(group.shape, N * I::LEN, room.rows);
    match room.keys {
        None => {
            let keys = Shared(&group.items[0].fpe_key().schedule);
            let chaining = chaining::<I, _, N>(isa, group, keys, true);
            values::<I, A, _, N, H>(isa, group, keys, &rows, chaining);
        }
        Some(keys) => {
            let keys = Own::new(isa, group.items, N, keys);
            let chaining = chaining::<I, _, N>(isa, group, keys, false);
            values::<I, A, _, N, H>(isa, group, keys, &rows, chaining);
        }
    }
}

/// Numerals in, ten rounds, numerals out.
#[inline(always)]
fn values<I: NumberIsa, A: Arithmetic<I>, K: RoundKeys<I>, const N: usize, const H: usize>(
    isa: I,
    group: &mut Group<'_, '_>,
    keys: K,
    rows: &Rows,
    chaining: [I::V; N],
) {
    let (shape, encrypt) = (group.shape, group.work.direction() == Direction::Encrypt);
    let Some(moduli) = &shape.narrow else { return };
    // SAFETY: the batch's check: inputs hold as many numerals as the shape says.
    unsafe { rows.fill(shape, group.items) };
    let reader = Reader::new(isa, shape);
    let mut numbers = [[isa.zero(); H]; 2];
    let mut excess = [isa.zero(); H];
    for (parity, numbers) in numbers.iter_mut().enumerate() {
        for (pair, number) in numbers.iter_mut().enumerate() {
            *number = reader.number::<I, A>(isa, rows, parity, pair, &mut excess[pair]);
        }
    }
    let mut feistel = Feistel::<I, A, K, N> {
        keys,
        chaining,
        arithmetic: [A::new(isa, shape, moduli, 0), A::new(isa, shape, moduli, 1)],
        order: A::order(isa, shape),
        spread: spread(isa, shape),
        encrypt,
    };
    for (vector, value) in feistel.chaining.iter_mut().enumerate() {
        *value = value.xor(keys.key(isa, 0, vector));
    }
    let [left, right] = &mut numbers;
    for double in 0..DOUBLE_ROUNDS {
        if encrypt {
            feistel.round::<H>(isa, shape, 2 * double, left, right);
            feistel.round::<H>(isa, shape, 2 * double + 1, right, left);
        } else {
            feistel.round::<H>(isa, shape, 9 - 2 * double, right, left);
            feistel.round::<H>(isa, shape, 8 - 2 * double, left, right);
        }
    }
    for (parity, numbers) in numbers.iter().enumerate() {
        let writer = Writer::new(isa, shape, moduli, parity);
        for (pair, number) in numbers.iter().enumerate() {
            writer.numerals(isa, *number, rows, parity, pair);
        }
    }
    finish::<I, H>(group, rows, &excess);
}

/// Writes the values out; those that had a numeral out of range are zeroed.
#[inline(always)]
fn finish<I: NumberIsa, const H: usize>(group: &mut Group<'_, '_>, rows: &Rows, excess: &[I::V; H]) {
    let mut bad = [[0u64; 8]; FULL / 2];
    for (pair, excess) in excess.iter().enumerate() {
        // SAFETY: no vector is longer than eight words.
        unsafe { excess.store(bad[pair].as_mut_ptr().cast()) };
    }
    // SAFETY: the batch's check: outputs have room for as many numerals as the inputs.
    unsafe { rows.drain(group.shape, group.items) };
    for (lane, item) in group.items.iter().enumerate() {
        let op = item.op as usize;
        if bad[lane / (2 * I::LEN)][lane % (2 * I::LEN)] != 0 {
            group.work.fail(op, OpStatus::BadInput(Reason::NumeralOutOfRange));
        } else {
            group.work.done(op);
        }
    }
}

/// What the rounds of a group need.
struct Feistel<I: NumberIsa, A, K, const N: usize> {
    keys: K,
    /// Chaining values with the first round key added.
    chaining: [I::V; N],
    /// For even and for odd rounds.
    arithmetic: [A; 2],
    order: I::V,
    spread: [I::V; 2],
    encrypt: bool,
}

impl<I: NumberIsa, A: Arithmetic<I>, K: RoundKeys<I>, const N: usize> Feistel<I, A, K, N> {
    /// One round: adds to `target`, or takes from it, the number that comes of `source` (steps 6i to 6vi).
    #[inline(always)]
    fn round<const H: usize>(
        &mut self,
        isa: I,
        shape: &Shape,
        index: usize,
        target: &mut [I::V; H],
        source: &[I::V; H],
    ) {
        let mark = mark(isa, shape, index);
        let mut blocks = [isa.zero(); N];
        for (pair, number) in source.iter().enumerate() {
            for half in 0..2 {
                let vector = 2 * pair + half;
                blocks[vector] = number.shuffle(self.spread[half]).xor3(self.chaining[vector], mark);
            }
        }
        self.keys.encrypt_whitened(isa, &mut blocks);
        let arithmetic = &self.arithmetic[index % 2];
        for (pair, number) in target.iter_mut().enumerate() {
            let round = arithmetic.round_number(isa, blocks[2 * pair], blocks[2 * pair + 1], self.order);
            *number = if self.encrypt { arithmetic.add(*number, round) } else { arithmetic.subtract(*number, round) };
        }
    }
}

/// Byte shuffles that bring the low and the high number of each block to the block's end, the last byte lowest.
#[inline(always)]
fn spread<I: NumberIsa>(isa: I, shape: &Shape) -> [I::V; 2] {
    let mut orders = [[0x80; 16]; 2];
    for byte in 0..shape.number_len.min(8) {
        orders[0][15 - byte] = byte as u8;
        orders[1][15 - byte] = 8 + byte as u8;
    }
    [isa.splat_bytes(&orders[0]), isa.splat_bytes(&orders[1])]
}

/// A round's index, in the byte before the number.
#[inline(always)]
fn mark<I: NumberIsa>(isa: I, shape: &Shape, index: usize) -> I::V {
    let at = shape.lead();
    let byte = (index as u64) << (8 * (at % 8));
    if at < 8 { isa.pair(byte, 0) } else { isa.pair(0, byte) }
}
