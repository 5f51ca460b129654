//! Groups of messages, one a lane: each step takes every lane one block further.
//!
//! A lane's blocks are read and written by rows of four and dealt out to the steps, so that a lane's memory is touched
//! once for four steps. Keys and IVs are transposed like blocks, once a group; chained blocks stay
//! slices from step to step, because the initial permutation undoes the final one.
//!
//! Floor with 512 lanes, for a step of 512 blocks: 16 rounds of the S-boxes' 189 gates and 80 exclusive ors, 4304
//! instructions, and both ways 576 to transpose, 192 and 128 to deal blocks out and to collect them: 5776 instructions on
//! two ports, 2888 cycles, 5.6 a block. A pass more is 2152 cycles more.

use super::isa::{Isa, ROW_MAX};
use super::rounds::{PASSES_MAX, cipher};
use super::slices::{Take, blocks_to_slices, key_to_slices, keys_to_slices, slices_to_rows, swap_bits};
use super::tables::KEY_SLICES;
use super::{DesLane, Job};
use crate::processor::{For, prefetch};
use crate::work::Occupancy;

/// What a group works on. All zeros are a valid value.
#[repr(C, align(64))]
pub(super) struct Memory<W> {
    /// Slices of the keys of each pass.
    pub(super) keys: [[W; KEY_SLICES]; PASSES_MAX],
    /// The two halves.
    state: [[W; 32]; 2],
    /// When deciphering chained blocks: the slices of the last and of this step's ciphertext.
    chain: [[W; 64]; 2],
    /// Blocks of a row's steps, one word further apart than they need, because the cache has few places for addresses
    /// that are 4096 bytes apart.
    rows: [[W; 65]; ROW_MAX],
}

/// Runs messages, at most `LANES` of them, none empty, the longest first. Stops where at most `few` of them have blocks
/// left, and returns how many blocks of each were done.
///
/// # Safety
/// Inputs may be read and outputs written as far as they say; an output is its input's place or touches no input or
/// output of any lane. `memory` is initialised and not in use.
#[inline(always)]
pub(super) unsafe fn group<I: Isa>(
    isa: I,
    job: Job<'_>,
    lanes: &[DesLane<'_>],
    few: usize,
    memory: *mut Memory<I::W>,
    occupancy: &mut Occupancy,
) -> usize {
    // SAFETY: the caller's promise.
    let Memory { keys, state: [left, right], chain: [last, this], rows } = unsafe { &mut *memory };
    let masks = isa.masks();
    let words = rows[0].as_mut_ptr();
    // SAFETY: rows hold 64 words, which are as many numbers as there are lanes; `keys` hold the slices of each pass.
    unsafe { keys_of_lanes(isa, &masks, job, lanes, words, keys) };
    let keys = keys.as_ptr().cast::<I::W>();
    let (mut left, mut right) = (left.as_mut_ptr(), right.as_mut_ptr());
    let (mut last, mut this) = (last.as_mut_ptr(), this.as_mut_ptr());
    let take = if job.is_serial() { Take::Xor } else { Take::Replace };
    if job.cbc {
        // SAFETY: as above; a chain holds both halves.
        unsafe {
            fill::<I>(words.cast(), lanes, |lane| u64::from_le_bytes(lane.iv));
            let (left, right) = if job.encrypt { (left, right) } else { (last, last.add(32)) };
            blocks_to_slices(isa, &masks, words, left, right, Take::Replace);
        }
    }
    let most = lanes[0].len / 8;
    let mut active = lanes;
    let mut first = 0;
    while first < most {
        active = &active[..active.partition_point(|lane| lane.len / 8 > first)];
        if active.len() <= few {
            break;
        }
        // Short ones have been fetched.
        if most > super::CLASSES {
            prefetch_rows(active, first);
        }
        // SAFETY: the caller's promise about inputs.
        unsafe { deal(isa, rows, active, first) };
        for (step, rows) in rows.iter_mut().enumerate().take(I::ROW.min(most - first)) {
            let rows = rows.as_mut_ptr();
            // SAFETY: the state's halves, the chains, keys and rows are places apart, all of their full size.
            unsafe {
                blocks_to_slices(isa, &masks, rows, left, right, take);
                if job.cbc && !job.encrypt {
                    core::ptr::copy_nonoverlapping(left, this, 32);
                    core::ptr::copy_nonoverlapping(right, this.add(32), 32);
                }
                (left, right) = cipher(isa, job, left, right, keys);
                let mask = (job.cbc && !job.encrypt).then_some(last.cast_const());
                slices_to_rows(isa, &masks, left, right, mask, rows);
                swap_bits(isa, &masks, rows);
            }
            (last, this) = (this, last);
            let busy = active.partition_point(|lane| lane.len / 8 > first + step);
            occupancy.add(busy, I::LANES - busy);
        }
        // SAFETY: the caller's promise about outputs.
        unsafe { collect(isa, rows, active, first) };
        first += I::ROW;
    }
    first.min(most)
}

/// The slices of the lanes' keys.
///
/// # Safety
/// 64 words at `words` may be read and written.
#[inline(always)]
unsafe fn keys_of_lanes<I: Isa>(
    isa: I,
    masks: &I::Masks,
    job: Job<'_>,
    lanes: &[DesLane<'_>],
    words: *mut I::W,
    keys: &mut [[I::W; KEY_SLICES]; PASSES_MAX],
) {
    let first = lanes[0].key;
    let one_key = lanes.iter().all(|lane| core::ptr::eq(lane.key, first));
    for (pass, keys) in keys.iter_mut().enumerate().take(job.passes) {
        // SAFETY: the caller's promise; there are as many slices of a key.
        unsafe {
            if one_key {
                key_to_slices(isa, first[pass], keys.as_mut_ptr());
            } else {
                fill::<I>(words.cast(), lanes, |lane| lane.key[pass]);
                keys_to_slices(isa, masks, words, keys.as_mut_ptr());
            }
        }
    }
}

/// Writes a number for each lane; lanes without a message get zero.
///
/// # Safety
/// `LANES` numbers at `to` may be written.
#[inline(always)]
unsafe fn fill<I: Isa>(to: *mut u64, lanes: &[DesLane<'_>], value: impl Fn(&DesLane<'_>) -> u64) {
    for (at, lane) in lanes.iter().enumerate() {
        // SAFETY: there are at most `LANES` messages.
        unsafe { to.add(at).write(value(lane)) };
    }
    // SAFETY: up to `LANES`.
    unsafe { core::ptr::write_bytes(to.add(lanes.len()), 0, I::LANES - lanes.len()) };
}

/// Blocks of the row from block `first` on that a message has.
#[inline(always)]
fn row_of<I: Isa>(lane: &DesLane<'_>, first: usize) -> usize {
    (lane.len / 8).saturating_sub(first).min(I::ROW)
}

/// Whether all messages have as many blocks of the row; they are ordered by length.
#[inline(always)]
fn uniform<I: Isa>(lanes: &[DesLane<'_>], first: usize) -> Option<usize> {
    let (longest, shortest) = (lanes.first()?, lanes.last()?);
    let blocks = row_of::<I>(shortest, first);
    (row_of::<I>(longest, first) == blocks).then_some(blocks)
}

/// Reads the row from block `first` on of each message and deals its blocks out to the steps.
///
/// # Safety
/// The messages' inputs may be read; there are at most `LANES`.
#[inline(always)]
unsafe fn deal<I: Isa>(isa: I, rows: &mut [[I::W; 65]; ROW_MAX], lanes: &[DesLane<'_>], first: usize) {
    let uniform = uniform::<I>(lanes, first);
    for (unit, lanes) in lanes.chunks(I::PARTS).enumerate() {
        let full = lanes.len() == I::PARTS;
        // SAFETY: called for lanes of a full unit, or the first of any.
        let at = |lane: usize| unsafe { lanes.get_unchecked(lane).input.wrapping_add(8 * first) };
        // SAFETY: each message has these blocks.
        let words = unsafe {
            match uniform {
                Some(blocks) if full && blocks == I::ROW => isa.read_rows(|lane| (at(lane), I::ROW)),
                Some(blocks) if full => isa.read_rows(|lane| (at(lane), blocks)),
                _ => isa.read_rows(|lane| match lanes.get(lane) {
                    Some(message) => (at(lane), row_of::<I>(message, first)),
                    None => (at(0), 0),
                }),
            }
        };
        for step in 0..I::ROW {
            rows[step][unit] = words[step];
        }
    }
}

/// The way back from the steps to the messages' rows.
///
/// # Safety
/// The messages' outputs may be written; there are at most `LANES`.
#[inline(always)]
unsafe fn collect<I: Isa>(isa: I, rows: &[[I::W; 65]; ROW_MAX], lanes: &[DesLane<'_>], first: usize) {
    let uniform = uniform::<I>(lanes, first);
    for (unit, lanes) in lanes.chunks(I::PARTS).enumerate() {
        let full = lanes.len() == I::PARTS;
        // SAFETY: called for lanes of a full unit, or the first of any.
        let at = |lane: usize| unsafe { lanes.get_unchecked(lane).output.wrapping_add(8 * first) };
        let words = [rows[0][unit], rows[1][unit], rows[2][unit], rows[3][unit]];
        // SAFETY: each message has these blocks.
        unsafe {
            match uniform {
                Some(blocks) if full && blocks == I::ROW => isa.write_rows(words, |lane| (at(lane), I::ROW)),
                Some(blocks) if full => isa.write_rows(words, |lane| (at(lane), blocks)),
                _ => isa.write_rows(words, |lane| match lanes.get(lane) {
                    Some(message) => (at(lane), row_of::<I>(message, first)),
                    None => (at(0), 0),
                }),
            }
        }
    }
}

/// Fetches the lines of long messages that the row after the next will want.
#[inline(always)]
fn prefetch_rows(lanes: &[DesLane<'_>], first: usize) {
    for lane in lanes {
        prefetch(lane.input.wrapping_add(8 * first + 64), For::Reading);
        prefetch(lane.output.wrapping_add(8 * first + 64), For::Writing);
    }
}
