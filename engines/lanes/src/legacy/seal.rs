//! SEAL 3.0 (Rogaway and Coppersmith, "A Software-Optimized Encryption Algorithm", Journal of Cryptology 11, 1998): a
//! key stretches a position index, which is the IV, to 64 KB of key stream in iterations of 1 KB that do not depend on
//! each other. [`LANES`] iterations, of one message or of many, go on in turns, a step of 16 bytes each.
//!
//! # Floor
//! A step is eight lookups, each chosen by what the one before gave: with 32 additions and rotations, eight masks and
//! eight more for the saved words and the output about 60 instructions, ten cycles at six a cycle; its 20 loads would
//! take seven. Alone, a step takes eight times nine cycles of latency.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{PreparedKey, Suite};
use ciphermill_tables::seal::{Tables, set_up};
use zeroize::Zeroize;

use super::{Feed, Prepared, by_key};
use crate::work::{Scratch, Work};

/// Iterations side by side.
pub(super) const LANES: usize = 6;

/// Bytes of key stream of an iteration, of a step, and of the two steps that take turns in what they end with.
const ITERATION: usize = 1024;
const STEP: usize = 16;
const PAIR: usize = 2 * STEP;

/// The bits of a register that choose a word of the table T, as a byte offset.
const OFFSET: u32 = 0x7fc;

/// A prepared key. Its tables are made where they stay, so that no copies of them are left elsewhere.
struct Key(Box<Tables>);

/// An iteration on its way, or the part of one that a message needs.
#[derive(Clone, Copy)]
struct Lane {
    tables: *const Tables,
    input: *const u8,
    output: *mut u8,
    /// Bytes.
    left: usize,
    /// Pairs of steps that are through.
    pairs: usize,
    registers: [u32; 4],
    /// What steps end with: the first of a pair with the first two, the second with the others.
    saved: [u32; 4],
}

/// Prepares a key of 20 bytes.
pub(super) fn prepare(key: &[u8], suite: Suite) -> Prepared {
    let key = key.try_into().map_err(|_| KeyProblem::Length)?;
    Ok(PreparedKey::for_suite(suite, Key(set_up(key))))
}

/// A message whose iterations are handed out.
#[derive(Clone, Copy)]
struct Rest {
    tables: *const Tables,
    input: *const u8,
    output: *mut u8,
    left: usize,
    position: u32,
    /// The next iteration.
    iteration: usize,
}

/// Where lanes take iterations from.
struct Iterations<'w, 'a> {
    feed: Feed<'w, 'a, Key>,
    rest: Rest,
}

impl Iterations<'_, '_> {
    #[inline(always)]
    fn next(&mut self) -> Option<Lane> {
        if self.rest.left == 0 {
            let item = self.feed.next()?;
            // SAFETY: collected with this type; the batch is still borrowed.
            let tables: *const Tables = unsafe { &*item.key::<Key>().0 };
            let position =
                self.feed.work.iv_block(item.op as usize).first_chunk().map_or(0, |iv| u32::from_be_bytes(*iv));
            let (input, output, left) = (item.input, item.output, item.len as usize);
            self.rest = Rest { tables, input, output, left, position, iteration: 0 };
        }
        let Rest { tables, input, output, .. } = self.rest;
        let left = self.rest.left.min(ITERATION);
        let mut lane = Lane { tables, input, output, left, pairs: 0, registers: [0; 4], saved: [0; 4] };
        // SAFETY: a message's tables live as long as the batch's keys.
        lane.initialise(unsafe { &*tables }, self.rest.position, self.rest.iteration);
        self.rest.input = input.wrapping_add(left);
        self.rest.output = output.wrapping_add(left);
        self.rest.left -= left;
        self.rest.iteration += 1;
        Some(lane)
    }
}

/// Runs a batch.
pub(super) fn run(work: &mut Work<'_>, scratch: &mut Scratch) {
    let (input, output, tables) = (core::ptr::null(), core::ptr::null_mut(), core::ptr::null());
    let rest = Rest { tables, input, output, left: 0, position: 0, iteration: 0 };
    let mut iterations = Iterations { feed: Feed::new(work, scratch, by_key::<Key>), rest };
    let mut lanes = [Lane { tables, input, output, left: 0, pairs: 0, registers: [0; 4], saved: [0; 4] }; LANES];
    let mut dry = false;
    let (mut busy, mut idle) = (0, 0);
    loop {
        for lane in lanes.iter_mut().filter(|lane| lane.left == 0) {
            match iterations.next() {
                Some(next) => *lane = next,
                None => {
                    dry = true;
                    break;
                }
            }
        }
        let count = if dry { compact(&mut lanes) } else { LANES };
        let shortest = lanes[..count].iter().map(|lane| lane.left).min();
        let Some(pairs) = shortest.map(|left| left.div_ceil(PAIR)) else { break };
        busy += count * pairs;
        idle += (LANES - count) * pairs;
        // SAFETY: the batch's check: `left` bytes lie at both places of each lane, which are one place or apart; tables
        // live as long as the batch's keys.
        unsafe {
            match lanes.first_chunk_mut::<LANES>().filter(|_| count == LANES) {
                Some(all) => advance(all, pairs),
                None => advance(&mut lanes[..count], pairs),
            }
        }
    }
    iterations.feed.scratch.occupancy.add(busy, idle);
    for lane in &mut lanes {
        lane.registers.zeroize();
        lane.saved.zeroize();
    }
}

/// Moves the lanes that have bytes left to the front and returns how many there are.
fn compact(lanes: &mut [Lane; LANES]) -> usize {
    let mut kept = 0;
    for n in 0..LANES {
        if lanes[n].left > 0 {
            lanes.swap(n, kept);
            kept += 1;
        }
    }
    kept
}

/// So many pairs of steps of each lane.
///
/// # Safety
/// Each lane has bytes left in every pair, its places are valid for them, and its tables are there.
#[inline(always)]
unsafe fn advance(lanes: &mut [Lane], pairs: usize) {
    let mut pads = [[0; 8]; LANES];
    for _ in 0..pairs {
        for half in 0..2 {
            for (lane, pad) in lanes.iter_mut().zip(&mut pads) {
                // SAFETY: the caller's promise.
                let tables = unsafe { &*lane.tables };
                // No iteration has more pairs.
                let step = (2 * lane.pairs + half) % (ITERATION / STEP);
                let words = lane.step(tables, step);
                pad[4 * half..4 * half + 4].copy_from_slice(&words);
                let [first, second] = [lane.saved[2 * half], lane.saved[2 * half + 1]];
                let [a, b, c, d] = lane.registers;
                lane.registers = [a.wrapping_add(first), b.wrapping_add(second), c ^ first, d ^ second];
            }
        }
        for (lane, pad) in lanes.iter_mut().zip(&pads) {
            // SAFETY: the caller's promise.
            unsafe { lane.add(pad) };
        }
    }
    pads.as_flattened_mut().zeroize();
}

/// The word that a register chooses.
#[inline(always)]
fn lookup(t: &[u32; 512], register: u32) -> u32 {
    t[(register >> 2) as usize % 512]
}

impl Lane {
    /// Sets the registers for an iteration (section 4, `Initialize`).
    #[inline(always)]
    fn initialise(&mut self, tables: &Tables, position: u32, iteration: usize) {
        // There are 64 iterations; the contract allows no longer message.
        let start: &[u32] = &tables.r[4 * (iteration % 64)..][..4];
        let mut x: [u32; 4] = core::array::from_fn(|n| position.rotate_right(8 * n as u32) ^ start[n]);
        let mix = |x: &mut [u32; 4]| {
            for n in 0..4 {
                x[(n + 1) % 4] = x[(n + 1) % 4].wrapping_add(lookup(&tables.t, x[n]));
                x[n] = x[n].rotate_right(9);
            }
        };
        mix(&mut x);
        mix(&mut x);
        let [a, b, c, d] = x;
        self.saved = [d, b, a, c];
        mix(&mut x);
        self.registers = x;
    }

    /// One step: stirs the registers and returns four words of key stream.
    #[inline(always)]
    fn step(&mut self, tables: &Tables, step: usize) -> [u32; 4] {
        let [mut a, mut b, mut c, mut d] = self.registers;
        let t = &tables.t;
        let mut p = a & OFFSET;
        b = b.wrapping_add(lookup(t, p));
        a = a.rotate_right(9);
        b ^= a;
        let mut q = b & OFFSET;
        c ^= lookup(t, q);
        b = b.rotate_right(9);
        c = c.wrapping_add(b);
        p = p.wrapping_add(c) & OFFSET;
        d = d.wrapping_add(lookup(t, p));
        c = c.rotate_right(9);
        d ^= c;
        q = q.wrapping_add(d) & OFFSET;
        a ^= lookup(t, q);
        d = d.rotate_right(9);
        a = a.wrapping_add(d);
        p = p.wrapping_add(a) & OFFSET;
        b ^= lookup(t, p);
        a = a.rotate_right(9);
        q = q.wrapping_add(b) & OFFSET;
        c = c.wrapping_add(lookup(t, q));
        b = b.rotate_right(9);
        p = p.wrapping_add(c) & OFFSET;
        d ^= lookup(t, p);
        c = c.rotate_right(9);
        q = q.wrapping_add(d) & OFFSET;
        a = a.wrapping_add(lookup(t, q));
        d = d.rotate_right(9);
        self.registers = [a, b, c, d];
        let s: &[u32] = &tables.s[4 * (step % 64)..][..4];
        [b.wrapping_add(s[0]), c ^ s[1], d.wrapping_add(s[2]), a ^ s[3]]
    }

    /// Adds a pair's key stream to the data, as far as they reach: words, the highest byte of each first.
    ///
    /// # Safety
    /// The lane's places are valid for the bytes that are left.
    #[inline(always)]
    unsafe fn add(&mut self, pad: &[u32; 8]) {
        self.pairs += 1;
        if self.left >= PAIR {
            for (n, word) in pad.iter().enumerate() {
                // SAFETY: the caller's promise; a pair is left.
                unsafe {
                    let data = self.input.add(4 * n).cast::<[u8; 4]>().read();
                    let data = u32::from_ne_bytes(data) ^ word.to_be();
                    self.output.add(4 * n).cast::<[u8; 4]>().write(data.to_ne_bytes());
                }
            }
            self.input = self.input.wrapping_add(PAIR);
            self.output = self.output.wrapping_add(PAIR);
            self.left -= PAIR;
            return;
        }
        let bytes = pad.iter().flat_map(|word| word.to_be_bytes());
        for (at, byte) in bytes.take(self.left).enumerate() {
            // SAFETY: the caller's promise; this byte is left.
            unsafe { self.output.add(at).write(self.input.add(at).read() ^ byte) };
        }
        self.left = 0;
    }
}
