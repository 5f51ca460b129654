//! CBC-MACs of many messages side by side, one a lane: what CMAC, SIV and CCM have in common.
//!
//! A CBC-MAC is serial within a message, so a step encrypts one block of every lane. Lanes are aligned at their ends:
//! in the last steps all of them work on their last blocks, which the modes prepare beforehand ("edges", padded and
//! with subkeys added), and shorter messages enter later. Until a lane enters, its state stays what it was.
//!
//! Registers: a state vector of [`Isa::LEN`] lanes, four such vectors of 512 bits (a latency of three cycles at one
//! instruction a cycle) or eight of the shorter ones (a latency of three or four at two a cycle). When all lanes have
//! one key, a round key is broadcast for all of them; else the keys of a group are transposed once.
//!
//! Floor: a step costs one AES instruction a round and vector, so 10 to 14 rounds of 16 lanes take 40 to 56 cycles with
//! 512-bit vectors; reading blocks into lanes takes 28 loads and insertions a step besides.

// Adaptors of iterators and arrays are functions of their own, which the compiler does not put into a function that
// enables more instructions; indices are.
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;
use core::ops::Range;

use ciphermill_contract::{Direction, OpStatus};

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::{ROUND_KEYS_MAX, Schedule};
use crate::work::{Item, Scratch, Work};

/// Lanes of the widest group.
pub(super) const LANES_MAX: usize = 16;

/// Blocks of a kernel's vector.
#[inline]
pub(super) fn vector_blocks(kernel: AesKernel) -> usize {
    match kernel {
        AesKernel::Vaes512(_) => 4,
        AesKernel::Vaes256(_) => 2,
        AesKernel::AesNi(_) => 1,
    }
}

/// Lanes of a kernel's groups: four or eight vectors.
#[inline]
pub(super) fn lanes(kernel: AesKernel) -> usize {
    LANES_MAX.min(8 * vector_blocks(kernel))
}

/// Round keys of every lane of a group.
pub(super) trait RoundKeys<I: Isa>: Copy {
    /// Rounds: 10, 12 or 14.
    fn rounds(self) -> usize;
    /// The keys of a round for the lanes of one vector.
    fn key(self, isa: I, round: usize, vector: usize) -> I::V;
}

/// One key for all lanes.
#[derive(Clone, Copy)]
pub(super) struct Shared<'k>(pub(super) &'k Schedule);

impl<I: Isa> RoundKeys<I> for Shared<'_> {
    #[inline(always)]
    fn rounds(self) -> usize {
        self.0.rounds()
    }

    #[inline(always)]
    fn key(self, isa: I, round: usize, _vector: usize) -> I::V {
        round_key(isa, self.0, round)
    }
}

/// A round key in every block of a vector, without a check in the middle of the rounds.
#[inline(always)]
pub(super) fn round_key<I: Isa>(isa: I, schedule: &Schedule, round: usize) -> I::V {
    debug_assert!(round <= schedule.rounds());
    // SAFETY: callers go up to the schedule's rounds; keys lie sixteen bytes apart.
    unsafe { isa.load_splat(schedule.key_ptr(0).add(16 * round)) }
}

/// Runs `each` for the rounds between the first key and the last: nine, eleven or thirteen, without a loop.
macro_rules! middle_rounds {
    ($rounds:expr, |$round:ident| $each:block) => {
        for $round in 1..10 $each
        if $rounds > 10 {
            for $round in 10..12 $each
        }
        if $rounds > 12 {
            for $round in 12..14 $each
        }
    };
}
pub(super) use middle_rounds;

/// A key for each lane.
#[derive(Clone, Copy)]
pub(super) struct Own<'t> {
    table: &'t KeyTable,
    rounds: usize,
}

impl<I: Isa> RoundKeys<I> for Own<'_> {
    #[inline(always)]
    fn rounds(self) -> usize {
        self.rounds
    }

    #[inline(always)]
    fn key(self, isa: I, round: usize, vector: usize) -> I::V {
        debug_assert!(round < ROUND_KEYS_MAX && (vector + 1) * I::LEN <= LANES_MAX);
        // SAFETY: within the table; `Own` comes from `KeyTable::fill`, which wrote what is read here.
        unsafe { isa.load(self.table.place(round, vector * I::LEN)) }
    }
}

/// Memory for the round keys of a group, transposed: by round, then by lane.
#[repr(C, align(64))]
pub(super) struct KeyTable {
    keys: MaybeUninit<[[[u8; 16]; LANES_MAX]; ROUND_KEYS_MAX]>,
    used: bool,
}

impl KeyTable {
    /// A table without keys; its memory stays as it is until they come.
    #[inline(always)]
    pub(super) fn new() -> KeyTable {
        KeyTable { keys: MaybeUninit::uninit(), used: false }
    }

    #[inline(always)]
    fn place(&self, round: usize, lane: usize) -> *const u8 {
        self.keys.as_ptr().cast::<u8>().wrapping_add(16 * (round * LANES_MAX + lane))
    }

    /// Takes the keys of `N` vectors of lanes. All have the same number of rounds.
    #[inline(always)]
    pub(super) fn fill<I: Isa, const N: usize>(&mut self, isa: I, lanes: &[&Schedule; LANES_MAX]) -> Own<'_> {
        self.used = true;
        let rounds = lanes[0].rounds();
        for vector in 0..N {
            for round in 0..=rounds {
                let mut keys = [zero(); 4];
                for i in 0..I::LEN {
                    let schedule = lanes[(vector * I::LEN + i) % LANES_MAX];
                    // SAFETY: up to the schedule's rounds; keys lie sixteen bytes apart.
                    keys[i] = unsafe { _mm_loadu_si128(schedule.key_ptr(0).add(16 * round).cast()) };
                }
                let keys = isa.gather(keys);
                let place = self.place(round, vector * I::LEN).cast_mut();
                debug_assert!((vector + 1) * I::LEN <= LANES_MAX);
                // SAFETY: within the table, which is ours alone.
                unsafe { keys.store(place) };
            }
        }
        Own { table: self, rounds }
    }
}

impl Drop for KeyTable {
    #[inline(always)]
    fn drop(&mut self) {
        if self.used {
            zeroize::optimization_barrier(self.keys.write([[[0; 16]; LANES_MAX]; ROUND_KEYS_MAX]));
        }
    }
}

/// Where the lanes of a group find their blocks, and when they enter.
pub(super) struct Bodies {
    /// What would be the lane's block of step 0; only that of steps from `start` on is one.
    origin: [*const u8; LANES_MAX],
    /// The lane's first step.
    start: [u32; LANES_MAX],
    /// Steps of the longest lane.
    steps: usize,
    /// Blocks of the shortest lane.
    least: usize,
    /// The step from which on all lanes work.
    level: usize,
}

impl Bodies {
    /// No blocks in any lane.
    #[inline(always)]
    pub(super) fn new() -> Bodies {
        let (origin, start) = ([core::ptr::null(); LANES_MAX], [0; LANES_MAX]);
        Bodies { origin, start, steps: 0, least: usize::MAX, level: 0 }
    }

    /// Gives a lane its blocks, edges included: the first of them is at `data`. Every lane has to be set, then
    /// [`Bodies::align`] called.
    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, data: *const u8, blocks: usize) {
        self.origin[lane % LANES_MAX] = data;
        // No message has 2^32 blocks.
        self.start[lane % LANES_MAX] = blocks as u32;
        self.steps = self.steps.max(blocks);
        self.least = self.least.min(blocks);
    }

    /// Aligns the ends of the first `lanes` lanes.
    #[inline(always)]
    pub(super) fn align(&mut self, lanes: usize) {
        self.level = self.steps - self.least;
        if self.level != 0 {
            for lane in 0..lanes.min(LANES_MAX) {
                self.start[lane] = self.steps as u32 - self.start[lane];
                self.origin[lane] = self.origin[lane].wrapping_sub(16 * self.start[lane] as usize);
            }
        }
    }

    /// The blocks of one step, when all lanes work.
    ///
    /// # Safety
    /// Each lane has a body block at this step, and it may be read.
    #[inline(always)]
    unsafe fn read<I: Isa, const N: usize>(&self, isa: I, step: usize) -> [I::V; N] {
        let mut blocks = [isa.zero(); N];
        for vector in 0..N {
            let mut lanes = [zero(); 4];
            for i in 0..I::LEN {
                let origin = self.origin[(vector * I::LEN + i) % LANES_MAX];
                // SAFETY: the caller's promise.
                lanes[i] = unsafe { _mm_loadu_si128(origin.wrapping_add(16 * step).cast()) };
            }
            blocks[vector] = isa.gather(lanes);
        }
        blocks
    }

    /// The blocks of one step, zero for lanes that have not entered.
    ///
    /// # Safety
    /// As for [`Bodies::read`], for the lanes that have entered.
    #[inline(always)]
    unsafe fn read_ragged<I: Isa, const N: usize>(&self, isa: I, step: usize) -> [I::V; N] {
        let mut blocks = [isa.zero(); N];
        for vector in 0..N {
            let mut lanes = [zero(); 4];
            for i in 0..I::LEN {
                let index = (vector * I::LEN + i) % LANES_MAX;
                let own = self.origin[index].wrapping_add(16 * step);
                let place = if step >= self.start[index] as usize { own } else { ENTERED.as_ptr().cast() };
                // SAFETY: the caller's promise, or sixteen bytes of the constant.
                lanes[i] = unsafe { _mm_loadu_si128(place.cast()) };
            }
            blocks[vector] = isa.gather(lanes);
        }
        blocks
    }

    /// Ones for lanes that work at this step, zeros for the others.
    #[inline(always)]
    fn entered<I: Isa, const N: usize>(&self, isa: I, step: usize) -> [I::V; N] {
        let mut masks = [isa.zero(); N];
        for vector in 0..N {
            let mut lanes = [zero(); 4];
            for i in 0..I::LEN {
                let start = self.start[(vector * I::LEN + i) % LANES_MAX] as usize;
                lanes[i] = mask(isa, step >= start);
            }
            masks[vector] = isa.gather(lanes);
        }
        masks
    }
}

/// The mask of a lane that has not entered, which is also the block that it reads, and of one that has.
static ENTERED: [[u8; 16]; 2] = [[0; 16], [0xff; 16]];

/// Encrypts `states ⊕ blocks`, each lane under its own key.
#[inline(always)]
pub(super) fn step<I: Isa, K: RoundKeys<I>, const N: usize>(
    isa: I,
    keys: K,
    states: &mut [I::V; N],
    blocks: &[I::V; N],
) {
    let mut own = *states;
    for vector in 0..N {
        own[vector] = own[vector].xor3(blocks[vector], keys.key(isa, 0, vector));
    }
    let rounds = keys.rounds();
    middle_rounds!(rounds, |round| {
        for vector in 0..N {
            own[vector] = own[vector].aes_enc(keys.key(isa, round, vector));
        }
    });
    for vector in 0..N {
        own[vector] = own[vector].aes_enc_last(keys.key(isa, rounds, vector));
    }
    *states = own;
}

/// Goes through all steps of a group. The last blocks of every lane, up to `EDGES`, are given; those before lie at
/// `bodies`. Lanes of fewer blocks have only the last of the edges.
///
/// # Safety
/// `bodies` has been aligned for `N` vectors of lanes, and what it says of blocks before the edges may be read.
#[inline(always)]
pub(super) unsafe fn chain<I: Isa, K: RoundKeys<I>, const N: usize, const EDGES: usize>(
    isa: I,
    keys: K,
    bodies: &Bodies,
    edges: &[[I::V; N]; EDGES],
    states: &mut [I::V; N],
) {
    let body_steps = bodies.steps.saturating_sub(EDGES);
    let mut next = 0;
    while next < bodies.steps {
        let at = next;
        if N == 1 && at >= bodies.level && at < body_steps {
            // SAFETY: the caller's promise; all lanes work from here on.
            unsafe { body(isa, keys, bodies, at..body_steps, &mut states[0]) };
            next = body_steps;
            continue;
        }
        if N > 1 && I::LEN == 4 && at >= bodies.level && at + LINE <= body_steps {
            next += (body_steps - at) / LINE * LINE;
            // SAFETY: the caller's promise; all lanes work from here on.
            unsafe { lines(isa, keys, bodies, at..next, states) };
            continue;
        }
        next += 1;
        let ragged = at < bodies.level;
        let blocks = if at >= body_steps {
            edges[(at + EDGES - bodies.steps) % EDGES]
        } else if ragged {
            // SAFETY: the caller's promise.
            unsafe { bodies.read_ragged(isa, at) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { bodies.read(isa, at) }
        };
        let before = *states;
        step(isa, keys, states, &blocks);
        if ragged {
            let entered: [I::V; N] = bodies.entered(isa, at);
            for i in 0..N {
                states[i] = states[i].and(entered[i]).or(before[i].and_not(entered[i]));
            }
        }
    }
}

/// Blocks that are read of a lane at a time where a vector has as many.
const LINE: usize = 4;

/// Steps with a body block in every lane, [`LINE`] at a time: a line of each lane's message is read once and transposed. Of messages
/// that lie pages apart lines share a few places of the first-level cache; read block by block, each was fetched four times. The
/// last round key, the block and the first round key of the next step are added by the last round.
///
/// # Safety
/// The blocks of these steps, a multiple of [`LINE`] and not none, may be read.
#[inline(always)]
unsafe fn lines<I: Isa, K: RoundKeys<I>, const N: usize>(
    isa: I,
    keys: K,
    bodies: &Bodies,
    steps: Range<usize>,
    states: &mut [I::V; N],
) {
    let rounds = keys.rounds();
    let mut own = *states;
    // The last round key and the first one of the next step.
    let mut between = own;
    for vector in 0..N {
        let last = keys.key(isa, rounds, vector);
        own[vector] = own[vector].xor(last);
        between[vector] = keys.key(isa, 0, vector).xor(last);
    }
    let mut at = steps.start;
    while at < steps.end {
        let mut blocks = [[isa.zero(); LINE]; N];
        for vector in 0..N {
            let mut rows = [isa.zero(); LINE];
            for i in 0..LINE {
                let origin = bodies.origin[(vector * I::LEN + i) % LANES_MAX];
                // SAFETY: the caller's promise.
                rows[i] = unsafe { isa.load(origin.wrapping_add(16 * at)) };
            }
            blocks[vector] = isa.transpose(rows);
        }
        line_step::<I, K, N, 0>(isa, keys, &between, &blocks, &mut own);
        line_step::<I, K, N, 1>(isa, keys, &between, &blocks, &mut own);
        line_step::<I, K, N, 2>(isa, keys, &between, &blocks, &mut own);
        line_step::<I, K, N, 3>(isa, keys, &between, &blocks, &mut own);
        at += LINE;
    }
    for vector in 0..N {
        states[vector] = own[vector].xor(keys.key(isa, rounds, vector));
    }
}

/// Block `AT` of each lane's line. States have the last round key added.
#[inline(always)]
fn line_step<I: Isa, K: RoundKeys<I>, const N: usize, const AT: usize>(
    isa: I,
    keys: K,
    between: &[I::V; N],
    blocks: &[[I::V; LINE]; N],
    own: &mut [I::V; N],
) {
    let rounds = keys.rounds();
    for vector in 0..N {
        own[vector] = own[vector].xor3(blocks[vector][AT], between[vector]);
    }
    middle_rounds!(rounds, |round| {
        for vector in 0..N {
            own[vector] = own[vector].aes_enc(keys.key(isa, round, vector));
        }
    });
    for vector in 0..N {
        own[vector] = own[vector].aes_enc_last(isa.zero());
    }
}

/// Steps of one vector with a body block in every lane. The last round key, the block and the first round key of the next
/// step are added by the last round: nothing but rounds is waited for.
///
/// # Safety
/// The blocks of these steps, at least one, may be read.
#[inline(always)]
unsafe fn body<I: Isa, K: RoundKeys<I>>(isa: I, keys: K, bodies: &Bodies, steps: Range<usize>, state: &mut I::V) {
    let rounds = keys.rounds();
    let (first, last) = (keys.key(isa, 0, 0), keys.key(isa, rounds, 0));
    let between = first.xor(last);
    // SAFETY: the caller's promise.
    let [block] = unsafe { bodies.read(isa, steps.start) };
    let mut own = state.xor3(block, first);
    for at in steps.start + 1..steps.end {
        // SAFETY: the caller's promise.
        let [block] = unsafe { bodies.read(isa, at) };
        middle_rounds!(rounds, |round| { own = own.aes_enc(keys.key(isa, round, 0)) });
        own = own.aes_enc_last(block.xor(between));
    }
    middle_rounds!(rounds, |round| { own = own.aes_enc(keys.key(isa, round, 0)) });
    *state = own.aes_enc_last(last);
}

/// A block of zeros.
#[inline(always)]
pub(super) fn zero() -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_setzero_si128() }
}

/// Exclusive or of two blocks.
#[inline(always)]
pub(super) fn xor(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_xor_si128(a, b) }
}

/// Ones or zeros.
#[inline(always)]
pub(super) fn mask<I: Isa>(isa: I, ones: bool) -> __m128i {
    isa.block(&ENTERED[usize::from(ones)])
}

/// Sixteen indices that give zero, sixteen that change nothing, sixteen that give zero: a window on them shifts a block
/// by bytes.
static SHIFTS: [u8; 48] = {
    let mut shifts = [0x80; 48];
    let mut i = 0;
    while i < 16 {
        shifts[16 + i] = i as u8;
        i += 1;
    }
    shifts
};

/// A window on it is the padding of a block: its first byte behind the data has its highest bit set.
static PADDING: [u8; 32] = {
    let mut padding = [0; 32];
    padding[16] = 0x80;
    padding
};

/// The block shifted towards its last byte by `bytes`, at most 16.
#[inline(always)]
pub(super) fn shift_up(block: __m128i, bytes: usize) -> __m128i {
    let from = 16 - bytes.min(16);
    // SAFETY: sixteen bytes from 16 at most lie within the table; every kernel here has SSSE3.
    unsafe { _mm_shuffle_epi8(block, _mm_loadu_si128(SHIFTS.as_ptr().add(from).cast())) }
}

/// The block shifted towards its first byte by `bytes`, at most 16.
#[inline(always)]
pub(super) fn shift_down(block: __m128i, bytes: usize) -> __m128i {
    let from = 16 + bytes.min(16);
    // SAFETY: sixteen bytes from 32 at most lie within the table; every kernel here has SSSE3.
    unsafe { _mm_shuffle_epi8(block, _mm_loadu_si128(SHIFTS.as_ptr().add(from).cast())) }
}

/// The padding 10…0 (NIST SP 800-38B, 6.2) of a block that has `len` bytes of data; none for a whole one.
#[inline(always)]
pub(super) fn padding(len: usize) -> __m128i {
    let from = 16 - len.min(16);
    // SAFETY: sixteen bytes from 16 at most lie within the table.
    unsafe { _mm_loadu_si128(PADDING.as_ptr().add(from).cast()) }
}

/// The first `len` bytes at `from`, fewer than 16, zeros behind them.
///
/// # Safety
/// They may be read.
#[inline(always)]
pub(super) unsafe fn load_short<I: Isa>(isa: I, from: *const u8, len: usize) -> __m128i {
    if I::LEN == 4 {
        // SAFETY: the caller's promise.
        return unsafe { isa.load_partial(from, len) }.first();
    }
    // Two reads that overlap, the second moved down to where it belongs.
    // SAFETY: the caller's promise; each branch reads within `len`.
    let (low, high) = unsafe {
        match len {
            0 => (0, 0),
            1 => (u64::from(*from), 0),
            2..=3 => {
                let ends = [from.cast::<u16>().read_unaligned(), from.add(len - 2).cast::<u16>().read_unaligned()];
                (u64::from(ends[0]) | u64::from(ends[1]) << (8 * (len - 2)), 0)
            }
            4..=8 => {
                let ends = [from.cast::<u32>().read_unaligned(), from.add(len - 4).cast::<u32>().read_unaligned()];
                (u64::from(ends[0]) | u64::from(ends[1]) << (8 * (len - 4)), 0)
            }
            _ => {
                let ends = [from.cast::<u64>().read_unaligned(), from.add(len - 8).cast::<u64>().read_unaligned()];
                (ends[0], ends[1] >> (8 * (16 - len.min(16))))
            }
        }
    };
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set_epi64x(high as i64, low as i64) }
}

/// The last block of a message, zeros behind the data: its last `rest` bytes, at most 16.
///
/// # Safety
/// `len` bytes from `data` may be read, and `rest` is at most `len`.
#[inline(always)]
pub(super) unsafe fn load_last<I: Isa>(isa: I, data: *const u8, len: usize, rest: usize) -> __m128i {
    if len >= 16 {
        // SAFETY: the last sixteen bytes of at least as many.
        let end = unsafe { _mm_loadu_si128(data.add(len - 16).cast()) };
        shift_down(end, 16 - rest)
    } else {
        // SAFETY: the caller's promise; a message this short is its last block.
        unsafe { load_short(isa, data, rest) }
    }
}

/// Results of a group, one block a lane.
#[repr(C, align(64))]
pub(super) struct Results {
    blocks: [[u8; 16]; LANES_MAX],
}

impl Results {
    /// None yet.
    #[inline(always)]
    pub(super) fn empty() -> Results {
        Results { blocks: [[0; 16]; LANES_MAX] }
    }

    /// The results that lanes hold.
    #[inline(always)]
    pub(super) fn new<I: Isa, const N: usize>(states: &[I::V; N]) -> Results {
        let mut results = Results::empty();
        results.set::<I, N>(states);
        results
    }

    /// Takes what lanes hold.
    #[inline(always)]
    pub(super) fn set<I: Isa, const N: usize>(&mut self, states: &[I::V; N]) {
        debug_assert!(N * I::LEN <= LANES_MAX);
        let first = self.blocks.as_mut_ptr().cast::<u8>();
        for vector in 0..N {
            // SAFETY: a group has no more lanes than there are blocks.
            unsafe { states[vector].store(first.add(16 * I::LEN * vector)) };
        }
    }

    /// The first lane's, as words: two a lane.
    #[inline(always)]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.blocks.as_mut_ptr().cast()
    }

    /// A lane's.
    #[inline(always)]
    pub(super) fn get(&self, lane: usize) -> &[u8; 16] {
        &self.blocks[lane % LANES_MAX]
    }
}

/// What a group's MACs should have been is nobody's business after it.
impl Drop for Results {
    #[inline(always)]
    fn drop(&mut self) {
        self.blocks = [[0; 16]; LANES_MAX];
        zeroize::optimization_barrier(&self.blocks);
    }
}

/// Ends an operation with its full tag: writes the bytes that it wants when encrypting, compares them in constant time
/// when decrypting.
///
/// # Safety
/// The operation's tag lies within the arena, at most sixteen bytes.
#[inline(always)]
pub(super) unsafe fn settle(work: &mut Work<'_>, index: usize, full: &[u8; 16], output_len: u32) {
    let (tag, len) = (work.tag(index), work.tag_len(index).min(16));
    let full = u128::from_le_bytes(*full);
    // SAFETY: the caller's promise.
    unsafe {
        if work.direction() == Direction::Encrypt {
            if len == 16 {
                tag.cast::<u128>().write_unaligned(full);
            } else {
                core::ptr::copy_nonoverlapping(full.to_le_bytes().as_ptr(), tag, len);
            }
            return work.done_with(index, output_len);
        }
        let mut given = 0u128;
        if len == 16 {
            given = tag.cast::<u128>().read_unaligned();
        } else {
            core::ptr::copy_nonoverlapping(tag, (&raw mut given).cast(), len);
        }
        let wanted = if len == 16 { u128::MAX } else { (1 << (8 * len)) - 1 };
        let difference = (given ^ full) & wanted;
        // One number, so that no comparison can end early.
        if core::hint::black_box(difference as u64 | (difference >> 64) as u64) == 0 {
            work.done_with(index, output_len);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}

/// Blocks of a message, at least one.
#[inline(always)]
pub(super) fn blocks_of(item: &Item) -> usize {
    item.len.div_ceil(16).max(1) as usize
}

/// Counts the busy and the idle lanes of the operations that were collected by [`blocks_of`], the longest first.
pub(super) fn count_lanes(kernel: AesKernel, scratch: &mut Scratch) {
    for group in scratch.ordered.chunks(lanes(kernel)) {
        let few = group.len() <= vector_blocks(kernel);
        let width = if few { vector_blocks(kernel) } else { lanes(kernel) };
        let (mut busy, mut longest) = (0, 0);
        for item in group {
            busy += blocks_of(item);
            longest = longest.max(blocks_of(item));
        }
        scratch.occupancy.add(busy, (width * longest).saturating_sub(busy));
    }
}

/// Multiplies by x in GF(2^128), most significant bit first (SP 800-38B, 5.3; RFC 5297, 2.3), without a branch.
#[inline(always)]
pub(super) fn double(block: u128) -> u128 {
    let carry = block >> 127;
    (block << 1) ^ (carry * 0x87)
}

/// The order of bytes of a number whose first byte is the most significant.
const REVERSED: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/// [`double`] of each block: each 32-bit word's highest bit is carried into the next one, the last one's comes back as
/// the polynomial.
#[inline(always)]
pub(super) fn double_each<I: Isa>(isa: I, blocks: I::V) -> I::V {
    let carries = [0x87, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];
    let reversed = isa.splat_bytes(&REVERSED);
    let numbers = blocks.shuffle(reversed);
    // Words 3, 0, 1, 2.
    let carried = numbers.sar32::<31>().shuffle32::<0b10_01_00_11>().and(isa.splat_bytes(&carries));
    numbers.shl32::<1>().xor(carried).shuffle(reversed)
}

/// [`double`] of a block.
#[inline(always)]
pub(super) fn double_block(block: __m128i) -> __m128i {
    // SAFETY: sixteen bytes either way; every kernel here has SSSE3.
    unsafe {
        let reversed = _mm_loadu_si128(REVERSED.as_ptr().cast());
        let number = _mm_shuffle_epi8(block, reversed);
        let carried = _mm_shuffle_epi32::<0b10_01_00_11>(_mm_srai_epi32::<31>(number));
        let carried = _mm_and_si128(carried, _mm_set_epi32(1, 1, 1, 0x87));
        _mm_shuffle_epi8(_mm_xor_si128(_mm_slli_epi32::<1>(number), carried), reversed)
    }
}

aes_kernels! {
    /// Encrypts one block.
    pub(super) fn encrypt_block(schedule: &Schedule, block: &mut [u8; 16]) = encrypt_block_on
}

#[inline(always)]
fn encrypt_block_on<I: Isa>(isa: I, schedule: &Schedule, block: &mut [u8; 16]) {
    let mut blocks = [isa.splat_bytes(block)];
    schedule.encrypt(isa, &mut blocks);
    let results = Results::new::<I, 1>(&blocks);
    *block = *results.get(0);
}

/// The block cipher on a number whose first byte is the most significant.
pub(super) fn encrypt_number(kernel: AesKernel, schedule: &Schedule, number: u128) -> u128 {
    let mut block = number.to_be_bytes();
    encrypt_block(kernel, schedule, &mut block);
    u128::from_be_bytes(core::mem::take(&mut block))
}
