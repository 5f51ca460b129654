//! ChaCha20-Poly1305 (RFC 8439, 2.8).
//!
//! Short messages give each of their blocks a lane: the first one, whose key stream is the one-time key, and those of
//! their data. What is to be authenticated (additional data, ciphertext, lengths) gathers on a tape of whole blocks,
//! behind the one-time key. Messages whose lanes have all run are authenticated side by side, one a lane of 64 bits.
//!
//! Long messages give their first block and what remains behind whole passes a lane each, so that several messages
//! share those; then each goes through its whole passes by itself, with Poly1305 over several blocks side by side.
//!
//! Floor of a 64-byte message with short additional data, 16 lanes and IFMA: an eighth of a pass of 550 cycles, and an
//! eighth of six steps of Poly1305 of 28 cycles each: 90 cycles.

use core::mem::MaybeUninit;

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, OpStatus};

use super::ChaChaKey;
use super::cipher::{self, LANES_MAX, Lane, Long, WAITING_MAX, Waiting, mode};
use super::isa::{ChaChaKernel, Isa, chacha_kernels};
use super::poly::{Poly, word};
use super::wide::{TOGETHER_MAX, Together, Wide};
use crate::work::{Item, Scratch, Work, copy_short};

pub(super) fn capability(kernel: ChaChaKernel) -> Capability {
    Capability::new(&lists::CHACHA20_POLY1305, Cost::new(100.0, 38.0, 0.18)).lanes(kernel.lanes())
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

/// Bytes of a whole tag.
const TAG_LEN: usize = 16;

/// Data bytes of a message that goes through lanes alone: with its first block it fills 16.
const SHORT_LEN_MAX: usize = 15 * 64;

/// Bytes of additional data of such a message.
const SHORT_AAD_MAX: usize = 48;

/// Bytes of a tape before additional data and ciphertext: the first block of key stream, half of it the one-time key.
const HEAD_LEN: usize = 64;

/// Messages that may be between their first lane and their tag: one a lane that waits, one a lane of the last pass.
const MACS_MAX: usize = 128;

/// Bytes for the tapes of short messages, used round and round.
const RING_LEN: usize = 20 * 1024;

/// Long messages that share passes.
const LONGS_MAX: usize = 16;

/// Bytes of a long message's tape: what remains behind whole passes.
const LONG_LEN: usize = HEAD_LEN + 64 * (LANES_MAX - 1);

/// Bytes before the ring, written by lanes whose tape nobody reads.
const NOWHERE_LEN: usize = 64;

/// All of these. Tapes begin on cache lines.
const MEMORY_LEN: usize = NOWHERE_LEN + RING_LEN + LONGS_MAX * LONG_LEN;

// A tape takes at most 128 bytes a lane. In flight are the lanes that wait, those of the pass before, the first ones of a
// message that began even earlier, and the messages that are left between passes; the ring loses less than one tape
// where it wraps.
const _: () = assert!((WAITING_MAX + LANES_MAX) * 128 + (TOGETHER_MAX + 1) * (SHORT_LEN_MAX + 128) <= RING_LEN);
const _: () = assert!(WAITING_MAX + LANES_MAX + TOGETHER_MAX <= MACS_MAX);
const _: () = assert!(HEAD_LEN + SHORT_AAD_MAX + 16 <= 128);
// A group reads this far before a tape whose message is shorter than another.
const _: () = assert!(SHORT_LEN_MAX + 128 <= LONGS_MAX * LONG_LEN);

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

/// Short messages on their way to their tags, first in, first out.
struct Macs {
    /// Set between `head` and `tail`.
    list: [MaybeUninit<Mac>; MACS_MAX],
    /// The next to be authenticated.
    head: usize,
    /// One past the last whose lanes have run.
    ready: usize,
    /// One past the last.
    tail: usize,
    /// Lanes pushed and lanes run, counted over the batch.
    pushed: u64,
    ran: u64,
}

impl Macs {
    #[inline(always)]
    fn new() -> Macs {
        Macs { list: [MaybeUninit::uninit(); MACS_MAX], head: 0, ready: 0, tail: 0, pushed: 0, ran: 0 }
    }

    /// The message of a number between `head` and `tail`.
    #[inline(always)]
    fn at(&self, number: usize) -> Mac {
        debug_assert!(self.head <= number && number < self.tail);
        // SAFETY: `push` has set it, and fewer than `MACS_MAX` came after it, as the assertions above count.
        unsafe { self.list[number % MACS_MAX].assume_init() }
    }

    /// Adds a message whose lanes have all been pushed.
    #[inline(always)]
    fn push(&mut self, tape: *const u8, op: u32, blocks: u32) {
        self.list[self.tail % MACS_MAX].write(Mac { tape, op, blocks, end: self.pushed });
        self.tail += 1;
    }

    /// Counts lanes that ran, and with them messages.
    #[inline(always)]
    fn count_run(&mut self, lanes: usize) {
        self.ran += lanes as u64;
        while self.ready != self.tail && self.at(self.ready).end <= self.ran {
            self.ready += 1;
        }
    }
}

/// Authenticates messages that are ready: in full groups, and if it is the `last` time all of them.
#[inline(always)]
fn authenticate<I: Isa, const MODE: u8>(isa: I, work: &mut Work<'_>, macs: &mut Macs, last: bool) {
    let together = <I::Wide as Wide<I>>::TOGETHER;
    while macs.ready - macs.head >= together || last && macs.ready != macs.head {
        let count = (macs.ready - macs.head).min(together);
        let none = core::ptr::null();
        let mut group = Together { keys: [none; TOGETHER_MAX], ends: [none; TOGETHER_MAX], blocks: [0; TOGETHER_MAX] };
        let mut ops = [0; TOGETHER_MAX];
        for (i, index) in ops[..together].iter_mut().enumerate() {
            // Places that stay empty repeat the first message.
            let mac = macs.at(macs.head + if i < count { i } else { 0 });
            // SAFETY: the tape has room for one block more, and all lanes that wrote to it have run.
            unsafe {
                let end = mac.tape.add(HEAD_LEN + 16 * mac.blocks as usize);
                let op = mac.op as usize;
                let lens = [work.aad_len(op) as u64, u64::from(work.data_len(op))];
                end.cast_mut().cast::<[[u8; 8]; 2]>().write(lens.map(u64::to_le_bytes));
                group.ends[i] = end.add(16);
            }
            group.keys[i] = mac.tape;
            group.blocks[i] = u64::from(mac.blocks) + 1;
            *index = mac.op as usize;
        }
        macs.head += count;
        if count == 1 {
            // SAFETY: a tape begins with a one-time key; the blocks lie before their end.
            unsafe {
                let mut poly = Poly::new(group.keys[0]);
                let blocks = group.blocks[0] as usize;
                poly.blocks(group.ends[0].sub(16 * blocks), blocks);
                conclude::<MODE>(work, ops[0], poly.tag());
            }
            continue;
        }
        // SAFETY: as above; blocks before a tape's start are memory of this run, since long tapes lie before the ring.
        let tags = unsafe { I::Wide::tags(isa, &group) };
        for (op, tag) in ops[..count].iter().zip(tags) {
            conclude::<MODE>(work, *op, tag);
        }
    }
}

/// The tag, the end of an operation.
#[inline(always)]
fn conclude<const MODE: u8>(work: &mut Work<'_>, index: usize, tag: [u64; 2]) {
    let (place, len) = (work.tag(index), work.tag_len(index));
    if MODE == mode::SEAL {
        // SAFETY: the batch's check: a tag of so many bytes lies there, 4 to 16.
        unsafe {
            if len == TAG_LEN {
                place.cast::<[u8; 8]>().write(tag[0].to_le_bytes());
                place.add(8).cast::<[u8; 8]>().write(tag[1].to_le_bytes());
            } else {
                copy_short(tag.map(u64::to_le_bytes).as_ptr().cast(), place, len);
            }
        }
        work.done(index);
    } else {
        let given;
        let mut wanted = tag;
        // SAFETY: as above.
        unsafe {
            if len == TAG_LEN {
                given = [word(place), word(place.add(8))];
            } else {
                let mut bytes = [0u8; TAG_LEN];
                copy_short(place, bytes.as_mut_ptr(), len);
                given = [word(bytes.as_ptr()), word(bytes.as_ptr().add(8))];
                // The bytes that count.
                let mask = u128::MAX >> (8 * (TAG_LEN - len));
                wanted = [tag[0] & mask as u64, tag[1] & (mask >> 64) as u64];
            }
        }
        // One comparison of all bits; only its result is branched on.
        if core::hint::black_box((wanted[0] ^ given[0]) | (wanted[1] ^ given[1])) == 0 {
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
        let tape = self.ring().wrapping_add(self.at);
        self.at += len.next_multiple_of(64);
        self.used = self.used.max(self.at);
        tape
    }

    /// The tape of a long message.
    #[inline(always)]
    fn long(&self, index: usize) -> *mut u8 {
        self.start.wrapping_add(NOWHERE_LEN + index * LONG_LEN)
    }

    /// The ring, behind the long tapes.
    #[inline(always)]
    fn ring(&self) -> *mut u8 {
        self.long(LONGS_MAX)
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
            let mut group = [0; LONGS_MAX];
            let mut in_group = 0;
            while at < items.len() && waiting.has_room() && in_group < LONGS_MAX {
                let item = &items[at];
                // SAFETY: there is room, and a long message has fewer than `LANES_MAX` lanes behind its whole passes.
                unsafe {
                    if is_short(work, item) {
                        enqueue_short(isa, work, &mut waiting, &mut macs, &mut memory, item);
                    } else {
                        let head = memory.long(in_group);
                        let tape = Tape { head, data: head.wrapping_add(HEAD_LEN), nowhere: memory.nowhere() };
                        let whole = item.len as usize - item.len as usize % (64 * I::LEN);
                        push_lanes(work, &mut waiting, &mut macs, item, &tape, whole);
                        group[in_group] = at;
                        in_group += 1;
                    }
                }
                at += 1;
            }
            longs = longs.max(in_group);
            let last = at == items.len() || in_group != 0;
            while waiting.count() >= I::LEN || last && waiting.count() != 0 {
                let before = waiting.count();
                // SAFETY: lanes were pushed with places of operations, which the batch's check found apart, and of
                // tapes, which do not overlap.
                unsafe { cipher::next_pass::<I, MODE>(isa, &mut waiting) };
                let ran = before - waiting.count();
                macs.count_run(ran);
                authenticate::<I, MODE>(isa, work, &mut macs, false);
                scratch.occupancy.busy += ran as u64;
                scratch.occupancy.idle += (I::LEN - ran) as u64;
            }
            if last {
                authenticate::<I, MODE>(isa, work, &mut macs, true);
            }
            for (index, at) in group[..in_group].iter().enumerate() {
                // SAFETY: the lanes of the message's first and last blocks have run, all others have not.
                unsafe { finish_long::<I, MODE>(isa, work, memory.long(index), &items[*at]) };
            }
        }
    }
    wipe(&memory, longs);
}

/// Wipes what one-time keys were derived or used in this run.
#[inline(always)]
fn wipe(memory: &Memory, longs: usize) {
    // SAFETY: all within the memory, which outlives the run: its stores are not dropped.
    unsafe {
        core::ptr::write_bytes(memory.ring(), 0, memory.used);
        for index in 0..longs {
            core::ptr::write_bytes(memory.long(index), 0, HEAD_LEN);
        }
    }
}

#[inline(always)]
fn is_short(work: &Work<'_>, item: &Item) -> bool {
    item.len as usize <= SHORT_LEN_MAX && work.aad_len(item.op as usize) <= SHORT_AAD_MAX
}

/// The last row of the state of an operation's first block.
#[inline(always)]
fn first_row(work: &Work<'_>, item: &Item) -> u128 {
    work.iv_number(item.op as usize) << 32
}

/// Places of one message's tape.
struct Tape {
    /// For the first block of key stream.
    head: *mut u8,
    /// For ciphertext.
    data: *mut u8,
    /// For what nobody reads.
    nowhere: *mut u8,
}

/// Pushes the lanes of a message's first block, and of its data from byte `from` on, a multiple of 64.
///
/// # Safety
/// There is room for them; the places of `tape` have room for 64 bytes a lane.
#[inline(always)]
unsafe fn push_lanes(work: &Work<'_>, waiting: &mut Waiting, macs: &mut Macs, item: &Item, tape: &Tape, from: usize) {
    // SAFETY: collected with this type; the batch is still borrowed.
    let key = unsafe { item.key::<ChaChaKey>() }.bytes.as_ptr();
    let row = first_row(work, item);
    let (input, output) = (item.input, item.output);
    let (head, nowhere) = (tape.head, tape.nowhere);
    // SAFETY: the caller's promise.
    unsafe {
        waiting.push(Lane { key, counter_nonce: row, input: ZEROS.as_ptr(), output: head, tape: nowhere, len: 64 });
        let mut left = item.len as usize - from;
        let mut at = from;
        let mut counter_nonce = row + from as u128 / 64;
        while left != 0 {
            counter_nonce += 1;
            waiting.push(Lane {
                key,
                counter_nonce,
                input: input.wrapping_add(at),
                output: output.wrapping_add(at),
                tape: tape.data.wrapping_add(at - from),
                len: left.min(64),
            });
            at += 64;
            left = left.saturating_sub(64);
        }
    }
    macs.pushed += 1 + (item.len as usize - from).div_ceil(64) as u64;
}

/// All lanes of a message, and its place among those to be authenticated.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn enqueue_short<I: Isa>(
    isa: I,
    work: &Work<'_>,
    waiting: &mut Waiting,
    macs: &mut Macs,
    memory: &mut Memory,
    item: &Item,
) {
    let aad = work.aad(item.op as usize);
    let (len, aad_len) = (item.len as usize, aad.len().next_multiple_of(16));
    let tape = memory.tape(HEAD_LEN + SHORT_AAD_MAX + 16 + len.next_multiple_of(64));
    // SAFETY: at most 48 bytes of additional data; the tape has room for 64 bytes behind its head.
    unsafe {
        if !aad.is_empty() {
            isa.store_block(isa.load_partial(aad.as_ptr(), aad.len()), tape.add(HEAD_LEN));
        }
        let data = tape.add(HEAD_LEN + aad_len);
        push_lanes(work, waiting, macs, item, &Tape { head: tape, data, nowhere: memory.nowhere() }, 0);
    }
    let blocks = (aad_len / 16 + len.div_ceil(16)) as u32;
    macs.push(tape, item.op, blocks);
}

/// The whole passes of a long message, its Poly1305 and its end.
///
/// # Safety
/// `tape` is the message's; the lanes of its first block and of those behind whole passes have run.
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
        poly.block(aad.len() as u64, len as u64);
        conclude::<MODE>(work, item.op as usize, poly.tag());
    }
}
