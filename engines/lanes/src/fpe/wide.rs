//! Values whose halves are longer than 61 bits. AES runs in lanes; numbers are limbs, value by value.
//!
//! A lane's memory holds the numbers of both halves and the PRF's output, each with limbs to spare: numbers are read as
//! whole blocks, and four moduli fit.

use core::arch::x86_64::__m128i;

use ciphermill_contract::{Direction, OpStatus, Reason};

use super::keys::{Own, RoundKeys, Shared, lane_of, one_key};
use super::limbs::{self, Chunk, Modulus};
use super::prefix::chaining;
use super::shape::{Shape, Wide};
use super::{Group, Memory};
use crate::aes::isa::{AesKernel, Blocks, Isa, aes_kernels};
use crate::work::Item;

/// Vectors of blocks of a group.
const VECTORS: usize = 4;

/// Rounds of the Feistel network (SP 800-38G, algorithm 7).
const ROUNDS: usize = 10;

/// Values that are worked on at a time.
pub(super) const fn lanes(kernel: AesKernel) -> usize {
    match kernel {
        AesKernel::Vaes512(_) => 4 * VECTORS,
        AesKernel::Vaes256(_) => 2 * VECTORS,
        AesKernel::AesNi(_) => VECTORS,
    }
}

/// How memory is shared out, in limbs.
#[derive(Clone, Copy)]
struct Layout {
    /// Limbs of a number.
    limbs: usize,
    /// Limbs of the PRF's output: one of zeros, then its blocks.
    output: usize,
    /// Limbs of a lane: both halves' numbers, a round's number, the PRF's output.
    lane: usize,
}

impl Layout {
    fn of(shape: &Shape, wide: &Wide) -> Layout {
        let output = 1 + 2 * shape.round_len.div_ceil(16);
        Layout { limbs: wide.limbs, output, lane: 3 * wide.limbs + output }
    }
}

/// Runs a group whose shape is not narrow.
pub(super) fn run(kernel: AesKernel, group: &mut Group<'_, '_>, memory: &mut Memory) {
    let Some(wide) = &group.shape.wide else { return };
    let layout = Layout::of(group.shape, wide);
    let keys = if one_key(group.items) { 0 } else { Own::words(VECTORS, lanes(kernel) / VECTORS) };
    let room = memory.room(keys + lanes(kernel) * layout.lane);
    let (keys, values) = room.split_at_mut(keys);
    values[..group.items.len() * layout.lane].fill(0);
    for (item, lane) in group.items.iter().zip(values.chunks_exact_mut(layout.lane)) {
        if !read(group.shape, &wide.chunk, item, layout, lane) {
            group.work.fail(item.op as usize, OpStatus::BadInput(Reason::NumeralOutOfRange));
        }
    }
    rounds(kernel, group, Room { keys, values, layout, moduli: &wide.moduli });
    for (item, lane) in group.items.iter().zip(values.chunks_exact_mut(layout.lane)) {
        if group.work.is_pending(item.op as usize) {
            write(group.shape, &wide.chunk, item, layout, lane);
            group.work.done(item.op as usize);
        }
    }
}

/// Reads a value's numerals into its lane's numbers; whether all are below the radix.
fn read(shape: &Shape, chunk: &Chunk, item: &Item, layout: Layout, lane: &mut [u64]) -> bool {
    let mut good = true;
    let (left, rest) = lane.split_at_mut(layout.limbs);
    for (number, start, len) in [(left, 0, shape.left), (&mut rest[..layout.limbs], shape.left, shape.right)] {
        // The first chunk has what is left over, so that all others have the same power.
        let (mut filled, mut end) = (0, (len - 1) % chunk.len + 1);
        let mut at = 0;
        while at < len {
            let mut digits = 0u64;
            for numeral in at..end {
                // SAFETY: the batch's check: the input holds as many numerals as the shape says.
                let numeral = unsafe { item.input.add(2 * (start + numeral)).cast::<u16>().read_unaligned() };
                good &= u32::from(numeral) < shape.radix;
                // A numeral out of range may overflow; what comes of it is not used.
                digits = digits.wrapping_mul(shape.radix.into()).wrapping_add(numeral.into());
            }
            // A chunk is less than a limb: each adds one at most.
            filled = (filled + 1).min(layout.limbs);
            limbs::mul_add(&mut number[..filled], chunk.power, digits);
            (at, end) = (end, end + chunk.len);
        }
    }
    good
}

/// Writes a lane's numbers as numerals.
fn write(shape: &Shape, chunk: &Chunk, item: &Item, layout: Layout, lane: &mut [u64]) {
    let (left, rest) = lane.split_at_mut(layout.limbs);
    for (number, start, len) in [(left, 0, shape.left), (&mut rest[..layout.limbs], shape.left, shape.right)] {
        let mut end = len;
        while end > 0 {
            // As many limbs as what is left may have.
            let limbs = limbs_of(shape.radix, end).min(layout.limbs);
            let mut digits = chunk.pop(&mut number[..limbs]);
            let from = end.saturating_sub(chunk.len);
            for numeral in (from..end).rev() {
                let digit = chunk.pop_numeral(&mut digits);
                // SAFETY: the batch's check: the output has room for as many numerals as the input.
                unsafe { item.output.add(2 * (start + numeral)).cast::<u16>().write_unaligned(digit) };
            }
            end = from;
        }
    }
}

/// Limbs that numbers of `len` numerals take, or a few more.
fn limbs_of(radix: u32, len: usize) -> usize {
    let bits = (u32::BITS - (radix - 1).leading_zeros()) as usize;
    (len * bits).div_ceil(64)
}

/// Working memory of a group.
struct Room<'m> {
    /// For transposed round keys; empty when all lanes have one key.
    keys: &'m mut [u64],
    /// For each lane what [`Layout`] says.
    values: &'m mut [u64],
    layout: Layout,
    /// Of even and of odd rounds.
    moduli: &'m [Modulus; 2],
}

aes_kernels! {
    fn rounds(group: &mut Group<'_, '_>, room: Room<'_>) = rounds_on
}

#[inline(always)]
fn rounds_on<I: Isa>(isa: I, group: &mut Group<'_, '_>, room: Room<'_>) {
    if room.keys.is_empty() {
        let keys = Shared(&group.items[0].fpe_key().schedule);
        let chaining = chaining::<I, _, VECTORS>(isa, group, keys, true);
        feistel(isa, group, keys, chaining, room.values, room.layout, room.moduli);
    } else {
        let keys = Own::new(isa, group.items, VECTORS, room.keys);
        let chaining = chaining::<I, _, VECTORS>(isa, group, keys, false);
        feistel(isa, group, keys, chaining, room.values, room.layout, room.moduli);
    }
}

#[inline(always)]
fn feistel<I: Isa, K: RoundKeys<I>>(
    isa: I,
    group: &Group<'_, '_>,
    keys: K,
    chaining: [I::V; VECTORS],
    values: &mut [u64],
    layout: Layout,
    moduli: &[Modulus; 2],
) {
    let encrypt = group.work.direction() == Direction::Encrypt;
    for step in 0..ROUNDS {
        let index = if encrypt { step } else { ROUNDS - 1 - step };
        // The left half is what even rounds change.
        let target = index % 2;
        let source = (1 - target) * layout.limbs;
        round_numbers(isa, group.shape, keys, &chaining, values, layout, (index, source));
        for lane in values.chunks_exact_mut(layout.lane).take(group.items.len()) {
            add_round(group.shape, lane, layout, target, moduli, encrypt);
        }
    }
}

/// The PRF and what follows it (steps 6ii and 6iii): leaves each lane's bytes behind a limb of zeros.
#[inline(always)]
fn round_numbers<I: Isa, K: RoundKeys<I>>(
    isa: I,
    shape: &Shape,
    keys: K,
    chaining: &[I::V; VECTORS],
    values: &mut [u64],
    layout: Layout,
    (index, source): (usize, usize),
) {
    let reversed = isa.pair(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let round_blocks = shape.round_blocks();
    let mut mark = [0; 16];
    mark[shape.lead()] = index as u8;
    let mut state = *chaining;
    for state in &mut state {
        *state = state.xor(isa.splat_bytes(&mark));
    }
    for step in 0..round_blocks {
        let limb = source + 2 * (round_blocks - 1 - step);
        for (vector, state) in state.iter_mut().enumerate() {
            let mut blocks = [isa.block(&[0; 16]); 4];
            for (block, own) in blocks.iter_mut().enumerate().take(I::LEN) {
                let at = lane_of::<I>(vector, block) * layout.lane + limb;
                *own = pair_of_limbs(isa, &values[at..at + 2]);
            }
            *state = state.xor(isa.gather(blocks).shuffle(reversed));
        }
        keys.encrypt(isa, &mut state);
    }
    for step in 0..shape.round_len.div_ceil(16) {
        let mut output = state;
        if step > 0 {
            let number = isa.splat_bytes(&(step as u128).to_be_bytes());
            for output in &mut output {
                *output = output.xor(number);
            }
            keys.encrypt(isa, &mut output);
        }
        for (vector, output) in output.iter().enumerate() {
            for block in 0..I::LEN {
                let at = lane_of::<I>(vector, block) * layout.lane + 3 * layout.limbs + 1 + 2 * step;
                let to: &mut [u64] = &mut values[at..at + 2];
                // SAFETY: two limbs have sixteen bytes.
                unsafe { isa.only_first(output.extract(block)).store_partial(to.as_mut_ptr().cast(), 16) };
            }
        }
    }
}

/// Two limbs as a block.
#[inline(always)]
fn pair_of_limbs<I: Isa>(isa: I, limbs: &[u64]) -> __m128i {
    let Some(pair) = limbs.first_chunk::<2>() else { return isa.block(&[0; 16]) };
    // SAFETY: two limbs have sixteen bytes.
    unsafe { isa.load_partial(pair.as_ptr().cast(), 16).first() }
}

/// Adds a round's number to the target half, or subtracts it (steps 6iv to 6vi).
fn add_round(shape: &Shape, lane: &mut [u64], layout: Layout, target: usize, moduli: &[Modulus; 2], encrypt: bool) {
    // Loops of a known length have no counters: three limbs hold 128 bits, five 256.
    match layout.limbs {
        3 => add_round_of(shape, lane, Layout { limbs: 3, ..layout }, target, moduli, encrypt),
        4 => add_round_of(shape, lane, Layout { limbs: 4, ..layout }, target, moduli, encrypt),
        5 => add_round_of(shape, lane, Layout { limbs: 5, ..layout }, target, moduli, encrypt),
        _ => add_round_of(shape, lane, layout, target, moduli, encrypt),
    }
}

#[inline(always)]
fn add_round_of(shape: &Shape, lane: &mut [u64], layout: Layout, target: usize, moduli: &[Modulus; 2], encrypt: bool) {
    let (halves, rest) = lane.split_at_mut(2 * layout.limbs);
    let (number, output) = rest.split_at_mut(layout.limbs);
    debug_assert_eq!(output.len(), layout.output);
    // Whole limbs from the end; a last one of four bytes is filled up with the zeros before the output.
    let bytes = |end: usize| {
        let (word, skip) = (end / 8, end % 8);
        let (high, low) = (output[word - 1], output.get(word).copied().unwrap_or(0));
        if skip == 0 {
            high.swap_bytes()
        } else {
            (u64::from(high.swap_bytes() as u32) << 32) | (low.swap_bytes() >> 32)
        }
    };
    let mut end = 8 + shape.round_len;
    for limb in number.iter_mut() {
        *limb = if end > 8 { bytes(end) } else { 0 };
        end = end.saturating_sub(8).max(8);
    }
    // A number of d bytes is less than 2^63 moduli radix^v, but may be more moduli radix^u.
    moduli[1].reduce(number);
    if shape.left != shape.right && target == 0 {
        moduli[0].reduce(number);
    }
    let half = &mut halves[target * layout.limbs..][..layout.limbs];
    if encrypt {
        moduli[target].add(half, number);
    } else {
        moduli[target].subtract(half, number);
    }
}
