//! Groups of messages, one a lane: each step takes every lane one block further.
//!
//! A lane's blocks are read and written by rows (64 bytes with 512 lanes) and dealt out to the steps, so that a lane's
//! memory is touched once for eight steps. Keys and IVs are transposed like blocks, once a group; chained blocks stay
//! slices from step to step, because the initial permutation undoes the final one.
//!
//! Floor with 512 lanes: 16 rounds of the S-boxes' gates and 80 exclusive ors, and 768 instructions to deal a step's
//! blocks out and to transpose them, as many for the way back, all on two ports.

use super::isa::{Isa, ROW_MAX};
use super::rounds::{PASSES_MAX, cipher};
use super::slices::{Take, blocks_to_slices, key_to_slices, keys_to_slices, slices_to_rows, swap_bits};
use super::tables::KEY_SLICES;
use super::{DesKey, DesLane, Job};
use crate::work::Occupancy;

/// Lanes of the widest instruction set.
const LANES_MAX: usize = 64 * ROW_MAX;

/// What a group works on. All zeros are a valid value.
#[repr(C, align(64))]
pub(super) struct Memory<W> {
    /// Slices of the keys of each pass.
    pub(super) keys: [[W; KEY_SLICES]; PASSES_MAX],
    /// The two halves.
    state: [[W; 32]; 2],
    /// When deciphering chained blocks: the slices of the last and of this step's ciphertext.
    chain: [[W; 64]; 2],
    /// Blocks of a row's steps.
    rows: [[W; 64]; ROW_MAX],
    /// Each lane's input.
    input: [*const u8; LANES_MAX],
    /// Each lane's output.
    output: [*mut u8; LANES_MAX],
    /// Each lane's blocks, longest first.
    blocks: [u32; LANES_MAX],
}

/// Runs the messages `lanes[order[..]]`, at most `LANES` of them, none empty, the longest first. Stops where at most
/// `few` of them have blocks left, and returns how many blocks of each were done.
///
/// # Safety
/// Inputs may be read and outputs written as far as they say; an output is its input's place or touches no input or
/// output of any lane. `memory` is initialised and not in use.
#[inline(always)]
pub(super) unsafe fn group<I: Isa>(
    isa: I,
    job: Job,
    lanes: &[DesLane<'_>],
    order: &[u32],
    few: usize,
    memory: *mut Memory<I::W>,
    occupancy: &mut Occupancy,
) -> usize {
    // SAFETY: the caller's promise.
    let memory = unsafe { &mut *memory };
    let masks = isa.masks();
    let most = place(memory, lanes, order);
    let first_key: *const DesKey = lanes[order[0] as usize].key;
    let one_key = order.iter().all(|index| core::ptr::eq(lanes[*index as usize].key, first_key));
    // SAFETY: rows hold 64 words, which are as many numbers as there are lanes; keys hold the slices of each pass.
    unsafe {
        for pass in 0..job.passes {
            let first = lanes[order[0] as usize].key.words[pass];
            if one_key {
                key_to_slices(isa, first, memory.keys[pass].as_mut_ptr());
                continue;
            }
            let words = memory.rows[0].as_mut_ptr();
            fill::<I>(words.cast(), order, |index| lanes[index].key.words[pass]);
            keys_to_slices(isa, &masks, words, memory.keys[pass].as_mut_ptr());
        }
    }
    let [left, right] = &mut memory.state;
    let (mut left, mut right) = (left.as_mut_ptr(), right.as_mut_ptr());
    let [last, this] = &mut memory.chain;
    let (mut last, mut this) = (last.as_mut_ptr(), this.as_mut_ptr());
    if job.cbc {
        // SAFETY: as above; a chain holds both halves.
        unsafe {
            let words = memory.rows[0].as_mut_ptr();
            fill::<I>(words.cast(), order, |index| u64::from_le_bytes(lanes[index].iv));
            let (left, right) = if job.encrypt { (left, right) } else { (last, last.add(32)) };
            blocks_to_slices(isa, &masks, words, left, right, Take::Replace);
        }
    }
    let keys = memory.keys.as_ptr().cast::<I::W>();
    let mut active = order.len();
    let mut first = 0;
    while first < most {
        while memory.blocks[active - 1] as usize <= first {
            active -= 1;
        }
        if active <= few {
            break;
        }
        // SAFETY: the caller's promise about inputs.
        unsafe { deal(isa, memory, first, active) };
        for step in 0..I::ROW.min(most - first) {
            let rows = memory.rows[step].as_mut_ptr();
            // SAFETY: the state's halves, the chains, keys and rows are places apart, all of their full size.
            unsafe {
                if job.cbc && job.encrypt {
                    blocks_to_slices(isa, &masks, rows, left, right, Take::Xor);
                } else {
                    blocks_to_slices(isa, &masks, rows, left, right, Take::Replace);
                }
                if job.cbc && !job.encrypt {
                    core::ptr::copy_nonoverlapping(left, this, 32);
                    core::ptr::copy_nonoverlapping(right, this.add(32), 32);
                }
                (left, right) = cipher(isa, left, right, keys, job.passes, job.encrypt);
                let mask = (job.cbc && !job.encrypt).then_some(last.cast_const());
                slices_to_rows(isa, &masks, left, right, mask, rows);
                swap_bits(isa, &masks, rows);
            }
            (last, this) = (this, last);
            let busy = memory.blocks[..active].partition_point(|blocks| *blocks as usize > first + step);
            occupancy.add(busy, I::LANES - busy);
        }
        // SAFETY: the caller's promise about outputs.
        unsafe { collect(isa, memory, first, active) };
        first += I::ROW;
    }
    first.min(most)
}

/// Notes the lanes' places; lanes without a message have no blocks. Returns the longest message's blocks.
#[inline(always)]
fn place<W>(memory: &mut Memory<W>, lanes: &[DesLane<'_>], order: &[u32]) -> usize {
    for (at, index) in order.iter().enumerate() {
        let lane = &lanes[*index as usize];
        memory.input[at] = lane.input;
        memory.output[at] = lane.output;
        // An operation's length has 32 bits.
        memory.blocks[at] = (lane.len / 8) as u32;
    }
    // Up to the end of the last word.
    for at in order.len()..order.len().next_multiple_of(ROW_MAX).min(LANES_MAX) {
        memory.input[at] = memory.input[0];
        memory.output[at] = memory.output[0];
        memory.blocks[at] = 0;
    }
    memory.blocks[0] as usize
}

/// Writes a number for each lane; lanes without a message get zero.
///
/// # Safety
/// `LANES` numbers at `to` may be written.
#[inline(always)]
unsafe fn fill<I: Isa>(to: *mut u64, order: &[u32], value: impl Fn(usize) -> u64) {
    for (at, index) in order.iter().enumerate() {
        // SAFETY: there are at most `LANES` messages.
        unsafe { to.add(at).write(value(*index as usize)) };
    }
    // SAFETY: up to `LANES`.
    unsafe { core::ptr::write_bytes(to.add(order.len()), 0, I::LANES - order.len()) };
}

/// Reads the row from block `first` on of each active lane and deals its blocks out to the steps.
///
/// # Safety
/// The lanes' inputs may be read.
#[inline(always)]
unsafe fn deal<I: Isa>(isa: I, memory: &mut Memory<I::W>, first: usize, active: usize) {
    for unit in 0..active.div_ceil(I::ROW) {
        let mut words = [isa.splat(0); ROW_MAX];
        for (lane, word) in words.iter_mut().enumerate().take(I::ROW) {
            let lane = unit * I::ROW + lane;
            let blocks = (memory.blocks[lane] as usize).saturating_sub(first).min(I::ROW);
            // SAFETY: the lane has these blocks; without any, nothing is read.
            *word = unsafe { isa.load_row(memory.input[lane].wrapping_add(8 * first), blocks) };
        }
        let words = isa.transpose_row(words);
        for step in 0..I::ROW {
            memory.rows[step][unit] = words[step];
        }
    }
}

/// The way back from the steps to the lanes' rows.
///
/// # Safety
/// The lanes' outputs may be written.
#[inline(always)]
unsafe fn collect<I: Isa>(isa: I, memory: &Memory<I::W>, first: usize, active: usize) {
    for unit in 0..active.div_ceil(I::ROW) {
        let mut words = [isa.splat(0); ROW_MAX];
        for step in 0..I::ROW {
            words[step] = memory.rows[step][unit];
        }
        let words = isa.transpose_row(words);
        for (lane, word) in words.iter().enumerate().take(I::ROW) {
            let lane = unit * I::ROW + lane;
            let blocks = (memory.blocks[lane] as usize).saturating_sub(first).min(I::ROW);
            // SAFETY: the lane has these blocks; without any, nothing is written.
            unsafe { isa.store_row(memory.output[lane].wrapping_add(8 * first), *word, blocks) };
        }
    }
}
