//! ChaCha20-Poly1305 (RFC 8439, 2.8).
//!
//! Short messages give each of their blocks a lane: the first one, whose key stream is the one-time key, and those of
//! their data. What is to be authenticated (additional data, ciphertext) gathers on a tape of whole blocks, behind the
//! one-time key. Once all lanes of a message have run, its Poly1305 runs in 64-bit words beside the next pass, whose
//! vectors leave those units of the processor idle.
//!
//! Long messages give their first block and what remains behind whole passes a lane each, so that several messages
//! share those; then each goes through its whole passes by itself, with Poly1305 over several blocks side by side.
//!
//! Floor of a 64-byte message with short additional data: two lanes, an eighth of a pass of 550 cycles; its six blocks
//! of Poly1305 are some 230 instructions in the shadow of that.

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, OpStatus};
use zeroize::Zeroize;

use super::ChaChaKey;
use super::cipher::{self, LANES_MAX, Lane, Long, Side, WAITING_MAX, Waiting, mode};
use super::isa::{ChaChaKernel, Isa, chacha_kernels};
use super::poly::{Poly, word};
use super::wide::Wide;
use crate::work::{Item, Scratch, Work};

pub(super) fn capability(kernel: ChaChaKernel) -> Capability {
    Capability::new(&lists::CHACHA20_POLY1305, Cost::new(100.0, 35.0, 0.3)).lanes(kernel.lanes())
}

chacha_kernels! {
    /// Encrypts a batch.
    pub(super) fn seal(work: &mut Work<'_>, scratch: &mut Scratch) = seal_on
}

chacha_kernels! {
    /// Decrypts and verifies a batch.
    pub(super) fn open(work: &mut Work<'_>, scratch: &mut Scratch) = open_on
}

#[inline(always)]
fn seal_on<I: Isa>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    run_on::<I, { mode::SEAL }>(isa, work, scratch);
}

#[inline(always)]
fn open_on<I: Isa>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    run_on::<I, { mode::OPEN }>(isa, work, scratch);
}

/// Data bytes of a message that goes through lanes alone: with its first block it fills 16.
const SHORT_LEN_MAX: usize = 15 * 64;

/// Bytes of additional data of such a message.
const SHORT_AAD_MAX: usize = 64;

/// Bytes of a tape before additional data and ciphertext: the first block of key stream, half of it the one-time key.
const HEAD_LEN: usize = 64;

/// Messages that may be between their first lane and their tag: one a lane that waits, one a lane of the last pass.
const MACS_MAX: usize = 128;

/// Bytes for the tapes of short messages, used round and round.
const RING_LEN: usize = 12 * 1024;

/// Long messages that share passes.
const LONGS_MAX: usize = 16;

/// Bytes of a long message's tape: what remains behind whole passes.
const LONG_LEN: usize = HEAD_LEN + 64 * (LANES_MAX - 1);

/// Bytes before the ring, written by lanes whose tape nobody reads.
const NOWHERE_LEN: usize = 64;

/// All of these. Tapes begin on cache lines.
const MEMORY_LEN: usize = NOWHERE_LEN + RING_LEN + LONGS_MAX * LONG_LEN;

// A tape takes at most 128 bytes a lane. In flight are the lanes that wait, those of the pass before and the first ones
// of a message that began even earlier; the ring loses less than one tape where it wraps.
const _: () = assert!((WAITING_MAX + LANES_MAX) * 128 + SHORT_LEN_MAX + 128 <= RING_LEN);
const _: () = assert!(WAITING_MAX + LANES_MAX <= MACS_MAX);

/// What the first lane of a message encrypts.
static ZEROS: [u8; 64] = [0; 64];

/// A short message whose lanes have been pushed.
#[derive(Clone, Copy)]
struct Mac {
    /// One-time key, then whole blocks.
    tape: *const u8,
    /// Index of the operation.
    op: u32,
    /// Blocks of 16 bytes behind the head.
    blocks: u32,
    /// Lanes pushed when it was complete.
    end: u64,
}

/// A message being authenticated.
#[derive(Clone, Copy)]
struct Current {
    poly: Poly,
    at: *const u8,
    left: usize,
    op: usize,
}

/// Short messages on their way to their tags, first in, first out.
struct Macs {
    list: [Mac; MACS_MAX],
    /// The next to be authenticated.
    head: usize,
    /// One past the last whose lanes have run.
    ready: usize,
    /// One past the last.
    tail: usize,
    /// Lanes pushed and lanes run, counted over the batch.
    pushed: u64,
    ran: u64,
    current: Current,
}

impl Macs {
    #[inline(always)]
    fn new() -> Macs {
        let none = Mac { tape: core::ptr::null(), op: 0, blocks: 0, end: 0 };
        let current = Current { poly: Poly::default(), at: core::ptr::null(), left: 0, op: usize::MAX };
        Macs { list: [none; MACS_MAX], head: 0, ready: 0, tail: 0, pushed: 0, ran: 0, current }
    }

    /// Counts lanes that ran, and with them messages.
    #[inline(always)]
    fn count_run(&mut self, lanes: usize) {
        self.ran += lanes as u64;
        while self.ready != self.tail && self.list[self.ready % MACS_MAX].end <= self.ran {
            self.ready += 1;
        }
    }
}

/// Poly1305 of the messages that are ready, as work beside a pass.
struct Shadow<'s, 'a, const MODE: u8> {
    work: &'s mut Work<'a>,
    macs: &'s mut Macs,
}

/// Blocks of Poly1305 that fit beside a double round.
const STEP_BLOCKS: usize = 8;

impl<const MODE: u8> Side for Shadow<'_, '_, MODE> {
    #[inline(always)]
    fn step(&mut self) {
        let macs = &mut *self.macs;
        if macs.current.op == usize::MAX {
            if macs.head == macs.ready {
                return;
            }
            let mac = macs.list[macs.head % MACS_MAX];
            macs.head += 1;
            macs.current = Current {
                // SAFETY: a tape begins with a one-time key.
                poly: unsafe { Poly::new(mac.tape) },
                at: mac.tape.wrapping_add(HEAD_LEN),
                left: mac.blocks as usize,
                op: mac.op as usize,
            };
        }
        let now = macs.current.left.min(STEP_BLOCKS);
        let mut poly = macs.current.poly;
        // SAFETY: `left` blocks lie at `at`.
        unsafe { poly.blocks(macs.current.at, now) };
        if now == macs.current.left {
            conclude::<MODE>(self.work, macs.current.op, &mut poly);
            macs.current.op = usize::MAX;
        } else {
            macs.current.at = macs.current.at.wrapping_add(16 * now);
            macs.current.left -= now;
            macs.current.poly = poly;
        }
    }
}

impl<const MODE: u8> Shadow<'_, '_, MODE> {
    /// Authenticates all messages that are ready.
    #[inline(always)]
    fn drain(&mut self) {
        while self.macs.current.op != usize::MAX || self.macs.head != self.macs.ready {
            self.step();
        }
    }
}

/// The last block, the tag, the end of an operation.
#[inline(always)]
fn conclude<const MODE: u8>(work: &mut Work<'_>, index: usize, poly: &mut Poly) {
    let op = work.op(index);
    poly.block(u64::from(op.aad.len), u64::from(op.input.len));
    let tag = poly.tag();
    let place = work.tag(index);
    if MODE == mode::SEAL {
        // SAFETY: the batch's check: a tag of 16 bytes lies there.
        unsafe {
            place.cast::<[u8; 8]>().write(tag[0].to_le_bytes());
            place.add(8).cast::<[u8; 8]>().write(tag[1].to_le_bytes());
        }
        work.done(index);
    } else {
        // SAFETY: as above.
        let given = unsafe { [word(place), word(place.add(8))] };
        // One comparison of all bits; only its result is branched on.
        if core::hint::black_box((tag[0] ^ given[0]) | (tag[1] ^ given[1])) == 0 {
            work.done(index);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}

/// The memory of a run, in a queue's scratch.
struct Memory {
    /// `MEMORY_LEN` bytes on a cache line.
    start: *mut u8,
    /// Where the ring's next tape begins.
    at: usize,
    /// Bytes of the ring that were used.
    used: usize,
}

impl Memory {
    #[inline(always)]
    fn new(bytes: &mut Vec<u64>) -> Memory {
        const WORDS: usize = (MEMORY_LEN + 64) / 8;
        if bytes.len() < WORDS {
            bytes.resize(WORDS, 0);
        }
        let start = bytes.as_mut_ptr().cast::<u8>();
        Memory { start: start.wrapping_add(start.addr().wrapping_neg() % 64), at: 0, used: 0 }
    }

    #[inline(always)]
    fn nowhere(&self) -> *mut u8 {
        self.start
    }

    /// A tape of `len` bytes in the ring.
    #[inline(always)]
    fn tape(&mut self, len: usize) -> *mut u8 {
        if self.at + len > RING_LEN {
            self.at = 0;
        }
        let tape = self.start.wrapping_add(NOWHERE_LEN + self.at);
        self.at += len.next_multiple_of(64);
        self.used = self.used.max(self.at);
        tape
    }

    /// The tape of a long message.
    #[inline(always)]
    fn long(&self, index: usize) -> *mut u8 {
        self.start.wrapping_add(NOWHERE_LEN + RING_LEN + index * LONG_LEN)
    }
}

#[inline(always)]
fn run_on<I: Isa, const MODE: u8>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut memory = Memory::new(&mut scratch.bytes);
    let mut waiting = Waiting::new();
    let mut macs = Macs::new();
    let mut longs = 0;
    let mut next = 0;
    while work.collect::<ChaChaKey>(&mut next, &mut scratch.items) {
        let items = &scratch.items[..];
        let mut at = 0;
        while at < items.len() {
            waiting.settle();
            let mut group = [items[0]; LONGS_MAX];
            let mut in_group = 0;
            while at < items.len() && waiting.has_room() && in_group < LONGS_MAX {
                let item = &items[at];
                if is_short(work, item) {
                    enqueue_short(isa, work, &mut waiting, &mut macs, &mut memory, item);
                } else {
                    enqueue_long(isa, work, &mut waiting, &mut macs, &memory, in_group, item);
                    group[in_group] = *item;
                    in_group += 1;
                }
                at += 1;
            }
            longs = longs.max(in_group);
            let last = at == items.len() || in_group != 0;
            while waiting.count() >= I::LEN || last && waiting.count() != 0 {
                let before = waiting.count();
                let mut shadow = Shadow::<MODE> { work, macs: &mut macs };
                // SAFETY: lanes were pushed with places of operations, which the batch's check found apart, and of
                // tapes, which do not overlap.
                unsafe { cipher::next_pass::<I, _, MODE>(isa, &mut waiting, &mut shadow) };
                let ran = before - waiting.count();
                // What the pass did not hide.
                shadow.drain();
                macs.count_run(ran);
                scratch.occupancy.busy += ran as u64;
                scratch.occupancy.idle += (I::LEN - ran) as u64;
            }
            if last {
                Shadow::<MODE> { work, macs: &mut macs }.drain();
            }
            for (index, item) in group[..in_group].iter().enumerate() {
                // SAFETY: the lanes of the message's first and last blocks have run, all others have not.
                unsafe { finish_long::<I, MODE>(isa, work, memory.long(index), item) };
            }
        }
    }
    wipe(&memory, &mut macs, longs);
}

/// Wipes what one-time keys were derived or used in this run.
#[inline(always)]
fn wipe(memory: &Memory, macs: &mut Macs, longs: usize) {
    macs.current.poly.r.zeroize();
    macs.current.poly.h.zeroize();
    // SAFETY: all within the memory, which outlives the run: its stores are not dropped.
    unsafe {
        core::ptr::write_bytes(memory.start.add(NOWHERE_LEN), 0, memory.used);
        for index in 0..longs {
            core::ptr::write_bytes(memory.long(index), 0, HEAD_LEN);
        }
    }
}

#[inline(always)]
fn is_short(work: &Work<'_>, item: &Item) -> bool {
    item.len as usize <= SHORT_LEN_MAX && usize::from(work.op(item.op as usize).aad.len) <= SHORT_AAD_MAX
}

/// The last row of the state of an operation's first block.
#[inline(always)]
fn first_row(work: &Work<'_>, item: &Item) -> u128 {
    u128::from_le_bytes(work.op(item.op as usize).iv) << 32
}

/// All lanes of a message, and its place among those to be authenticated.
#[inline(always)]
fn enqueue_short<I: Isa>(
    isa: I,
    work: &Work<'_>,
    waiting: &mut Waiting,
    macs: &mut Macs,
    memory: &mut Memory,
    item: &Item,
) {
    // SAFETY: collected with this type; the batch is still borrowed.
    let key = unsafe { item.key::<ChaChaKey>() }.bytes.as_ptr();
    let row = first_row(work, item);
    let aad = work.aad(item.op as usize);
    let (len, aad_len) = (item.len as usize, aad.len().next_multiple_of(16));
    let tape = memory.tape(HEAD_LEN + SHORT_AAD_MAX + len.next_multiple_of(64));
    let data = HEAD_LEN + aad_len;
    if !aad.is_empty() {
        // SAFETY: at most 64 bytes of additional data; the tape has room for 64 behind its head.
        unsafe { isa.store_block(isa.load_partial(aad.as_ptr(), aad.len()), tape.add(HEAD_LEN)) };
    }
    let nowhere = memory.nowhere();
    waiting.push(Lane { key, counter_nonce: row, input: ZEROS.as_ptr(), output: tape, tape: nowhere, len: 64 });
    let mut at = 0;
    while at < len {
        waiting.push(Lane {
            key,
            counter_nonce: row + (at as u128 / 64 + 1),
            input: item.input.wrapping_add(at),
            output: item.output.wrapping_add(at),
            tape: tape.wrapping_add(data + at),
            len: (len - at).min(64),
        });
        at += 64;
    }
    macs.pushed += 1 + len.div_ceil(64) as u64;
    let blocks = (aad_len / 16 + len.div_ceil(16)) as u32;
    macs.list[macs.tail % MACS_MAX] = Mac { tape, op: item.op, blocks, end: macs.pushed };
    macs.tail += 1;
}

/// The lanes of a long message's first block and of those behind whole passes.
#[inline(always)]
fn enqueue_long<I: Isa>(
    _isa: I,
    work: &Work<'_>,
    waiting: &mut Waiting,
    macs: &mut Macs,
    memory: &Memory,
    index: usize,
    item: &Item,
) {
    // SAFETY: collected with this type; the batch is still borrowed.
    let key = unsafe { item.key::<ChaChaKey>() }.bytes.as_ptr();
    let row = first_row(work, item);
    let (tape, nowhere) = (memory.long(index), memory.nowhere());
    waiting.push(Lane { key, counter_nonce: row, input: ZEROS.as_ptr(), output: tape, tape: nowhere, len: 64 });
    let len = item.len as usize;
    let whole = len - len % (64 * I::LEN);
    let mut at = whole;
    while at < len {
        waiting.push(Lane {
            key,
            counter_nonce: row + (at as u128 / 64 + 1),
            input: item.input.wrapping_add(at),
            output: item.output.wrapping_add(at),
            tape: tape.wrapping_add(HEAD_LEN + at - whole),
            len: (len - at).min(64),
        });
        at += 64;
    }
    macs.pushed += 1 + (len - whole).div_ceil(64) as u64;
}

/// The whole passes of a long message, its Poly1305 and its end.
///
/// # Safety
/// `tape` is the message's; the lanes of [`enqueue_long`] have run.
#[inline(always)]
unsafe fn finish_long<I: Isa, const MODE: u8>(isa: I, work: &mut Work<'_>, tape: *const u8, item: &Item) {
    // SAFETY: collected with this type; the batch is still borrowed.
    let key = unsafe { item.key::<ChaChaKey>() }.bytes.as_ptr();
    let aad = work.aad(item.op as usize);
    let (len, chunk) = (item.len as usize, 64 * I::LEN);
    let whole = len - len % chunk;
    // SAFETY: the caller's promise; the batch's check: `len` bytes lie at both places, which are one or apart.
    unsafe {
        let mut poly = Poly::new(tape);
        poly.padded(aad.as_ptr(), aad.len());
        let mut rest = (tape.add(HEAD_LEN), (len - whole).div_ceil(16));
        if whole != 0 {
            let mut wide = I::Wide::new(isa, &poly);
            let mut long = Long::new(isa, key, first_row(work, item) + 1);
            let mut at = 0;
            while at < whole {
                let (input, output) = (item.input.add(at), item.output.add(at));
                if MODE == mode::OPEN {
                    wide.absorb(isa, input, chunk);
                }
                long.blocks(isa, input, output);
                if MODE == mode::SEAL {
                    wide.absorb(isa, output, chunk);
                }
                at += chunk;
            }
            let steps = 16 * rest.1 - 16 * rest.1 % I::Wide::STEP;
            wide.absorb(isa, rest.0, steps);
            rest = (rest.0.add(steps), rest.1 - steps / 16);
            wide.finish(isa, &mut poly);
        }
        poly.blocks(rest.0, rest.1);
        conclude::<MODE>(work, item.op as usize, &mut poly);
    }
}
