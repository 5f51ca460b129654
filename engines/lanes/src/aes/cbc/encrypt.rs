//! CBC encryption: a lane a message.
//!
//! Messages are dealt into groups by their number of blocks as they come; a full group runs at once, all lanes from
//! their first block to their last. Each lane's round keys are copied into the group's transposed table while other
//! groups run. What does not fill a group, and messages longer than the groups have classes for, wait until the end:
//! they run the longest first, and a lane that ends takes the next message.
//!
//! With 512-bit vectors lanes read and write four blocks each at a time, which are transposed. Messages that lie pages
//! apart share a few lines of the first-level cache: touched once for each block, a line was fetched from the
//! second-level cache each time, and 4 KiB took nine times as long as 1 KiB.
//!
//! Floor with 512-bit vectors: a step of 16 blocks takes 4 AES instructions a round, one a cycle: 2.5 cycles a block
//! with 128-bit keys (10 rounds); and a message's 11 round keys are one load and one store each.

use core::arch::x86_64::*;

use super::CbcScratch;
use crate::aes::isa::{AesKernel, Blocks, Isa, aes_kernels};
use crate::aes::lane_keys::{LANES, LaneKeys};
use crate::aes::message::{Message, Messages, Source};
use crate::aes::schedule::Schedule;

/// Groups by number of blocks: 1 to this.
const CLASSES: usize = 16;

/// Blocks by which the first half of the lanes is ahead of the other, a line: where messages lie pages apart, all lanes are at
/// lines that share a set of the first-level cache, which has fewer places than there are lanes.
const LEAD: usize = 4;

/// Blocks of messages for which that pays.
const LEAD_FROM: usize = 128;

/// Messages that run side by side, with what each lane needs.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Group {
    keys: LaneKeys,
    /// The last ciphertext block of each lane, at first its IV.
    chain: [[u8; 16]; LANES],
    /// Each lane's next block to read.
    input: [*const u8; LANES],
    /// Where it goes.
    output: [*mut u8; LANES],
    /// The key that each lane has had in this run.
    key: [*const crate::aes::schedule::AesKey; LANES],
    /// Lanes in use.
    count: usize,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            keys: LaneKeys::default(),
            chain: [[0; 16]; LANES],
            input: [core::ptr::null(); LANES],
            output: [core::ptr::null_mut(); LANES],
            key: [core::ptr::null(); LANES],
            count: 0,
        }
    }
}

impl Group {
    /// Puts a message into a lane.
    #[inline(always)]
    fn put<const ROUNDS: usize>(&mut self, lane: usize, message: &Message) {
        // SAFETY: the list of messages is borrowed as long as any of them runs.
        let key = unsafe { message.key() };
        // Mostly all messages have one key, which has been in the lane since its first one.
        if self.key[lane % LANES] != message.key {
            self.keys.set::<ROUNDS>(lane, &key.encrypt);
        }
        self.place(lane, message);
    }

    #[inline(always)]
    fn place(&mut self, lane: usize, message: &Message) {
        let lane = lane % LANES;
        // SAFETY: a block of sixteen bytes; SSE2 is part of x86-64.
        unsafe { _mm_storeu_si128(self.chain[lane].as_mut_ptr().cast(), message.iv) };
        self.input[lane] = message.input;
        self.output[lane] = message.output;
        self.key[lane] = message.key;
    }

    /// Makes lane `to` do what lane `from` does.
    fn copy<const ROUNDS: usize>(&mut self, from: usize, to: usize) {
        self.keys.copy::<ROUNDS>(from, to);
        let message = self.message(from, 0);
        self.place(to, &message);
    }

    /// Whether all lanes have the same key: then a round key is loaded once for all vectors, which loads bound.
    #[inline(always)]
    fn has_one_key(&self) -> bool {
        self.key.iter().all(|key| *key == self.key[0])
    }

    /// Begins a run: no lane has a key. Another key may lie where one of an earlier run lay, however that ended.
    fn begin(&mut self) {
        self.key = [core::ptr::null(); LANES];
        self.count = 0;
    }

    /// What a lane still has to do: `blocks` blocks.
    fn message(&self, lane: usize, blocks: usize) -> Message {
        Message {
            key: self.key[lane],
            // SAFETY: a block of sixteen bytes; SSE2 is part of x86-64.
            iv: unsafe { _mm_loadu_si128(self.chain[lane].as_ptr().cast()) },
            input: self.input[lane],
            output: self.output[lane],
            len: 16 * blocks,
        }
    }
}

/// Lanes that keep a kernel's AES unit busy.
fn lanes_of(kernel: AesKernel) -> usize {
    match kernel {
        AesKernel::Vaes512(_) | AesKernel::Vaes256(_) => 16,
        AesKernel::AesNi(_) => 8,
    }
}

/// Encrypts all messages of a list whose keys have `rounds` rounds.
pub(super) fn all(kernel: AesKernel, rounds: usize, source: &mut Source<'_, '_>, scratch: &mut CbcScratch) {
    match rounds {
        10 => encrypt::<10>(kernel, source, scratch),
        12 => encrypt::<12>(kernel, source, scratch),
        _ => encrypt::<14>(kernel, source, scratch),
    }
}

fn encrypt<const ROUNDS: usize>(kernel: AesKernel, source: &mut Source<'_, '_>, scratch: &mut CbcScratch) {
    scratch.waiting.clear();
    let lanes = lanes_of(kernel);
    if source.len() <= lanes {
        while let Some(message) = source.next() {
            if message.len >= 16 {
                scratch.waiting.push(message);
            }
        }
    } else {
        deal::<ROUNDS>(kernel, lanes, source, scratch);
    }
    run_waiting::<ROUNDS>(kernel, lanes, scratch);
    scratch.waiting.clear();
}

/// Deals messages into groups and runs those that become full; the others wait.
fn deal<const ROUNDS: usize>(kernel: AesKernel, lanes: usize, source: &mut Source<'_, '_>, scratch: &mut CbcScratch) {
    let CbcScratch { groups, waiting } = scratch;
    groups.resize_with(CLASSES + 1, Group::default);
    let mut used = 0u32;
    while let Some(message) = source.next() {
        let blocks = message.len / 16;
        let class = blocks.wrapping_sub(1);
        if class >= CLASSES {
            if blocks != 0 {
                waiting.push(message);
            }
            continue;
        }
        let group = &mut groups[class];
        if (used >> class) & 1 == 0 {
            group.begin();
            used |= 1 << class;
        }
        group.put::<ROUNDS>(group.count, &message);
        group.count += 1;
        if group.count == lanes {
            group.count = 0;
            steps(kernel, group, lanes, ROUNDS, blocks);
        }
    }
    for (class, group) in groups.iter_mut().enumerate().take(CLASSES).rev() {
        if (used >> class) & 1 == 1 {
            waiting.extend((0..group.count).map(|lane| group.message(lane, class + 1)));
            group.keys.wipe(ROUNDS);
        }
    }
}

/// Runs the messages that wait, the longest first; lanes that end are filled again.
fn run_waiting<const ROUNDS: usize>(kernel: AesKernel, lanes: usize, scratch: &mut CbcScratch) {
    let CbcScratch { groups, waiting } = scratch;
    if let [message] = waiting.as_slice() {
        return alone(kernel, message);
    }
    if waiting.is_empty() {
        return;
    }
    waiting.sort_unstable_by_key(|message| core::cmp::Reverse(message.len));
    groups.resize_with(CLASSES + 1, Group::default);
    let group = &mut groups[CLASSES];
    group.begin();
    let mut waiting = waiting.iter();
    let mut left = [0; LANES];
    let mut active = 0;
    loop {
        while active < lanes
            && let Some(message) = waiting.next()
        {
            group.put::<ROUNDS>(active, message);
            left[active] = message.len / 16;
            active += 1;
            if active == LANES / 2 && lanes == LANES && left[active - 1] >= LEAD_FROM {
                steps(kernel, group, active, ROUNDS, LEAD);
                left[..active].iter_mut().for_each(|left| *left -= LEAD);
            }
        }
        if active < 2 {
            break;
        }
        let count = left[..active].iter().copied().min().unwrap_or(0);
        let busy = fill_vectors::<ROUNDS>(kernel, group, active);
        steps(kernel, group, busy, ROUNDS, count);
        let mut lane = 0;
        while lane < active {
            left[lane] -= count;
            if left[lane] != 0 {
                lane += 1;
            } else if let Some(message) = waiting.next() {
                group.put::<ROUNDS>(lane, message);
                left[lane] = message.len / 16;
                lane += 1;
            } else {
                active -= 1;
                group.copy::<ROUNDS>(active, lane);
                left[lane] = left[active];
            }
        }
    }
    if active == 1 {
        alone(kernel, &group.message(0, left[0]));
    }
    group.keys.wipe(ROUNDS);
}

/// Lets the idle lanes of the last vector repeat the first lane, reads, writes and all. Returns the lanes that run.
fn fill_vectors<const ROUNDS: usize>(kernel: AesKernel, group: &mut Group, active: usize) -> usize {
    let busy = match kernel {
        AesKernel::Vaes512(_) => active.next_multiple_of(4),
        AesKernel::Vaes256(_) => active.next_power_of_two().max(2),
        AesKernel::AesNi(_) => active.next_power_of_two(),
    };
    for lane in active..busy {
        group.copy::<ROUNDS>(0, lane);
    }
    busy
}

aes_kernels! {
    /// Encrypts `count` blocks in each of the first `lanes` lanes, which fill vectors.
    fn steps(group: &mut Group, lanes: usize, rounds: usize, count: usize) = steps_on
}

#[inline(always)]
fn steps_on<I: Isa>(isa: I, group: &mut Group, lanes: usize, rounds: usize, count: usize) {
    match rounds {
        10 => steps_sized::<I, 10>(isa, group, lanes, count),
        12 => steps_sized::<I, 12>(isa, group, lanes, count),
        _ => steps_sized::<I, 14>(isa, group, lanes, count),
    }
}

#[inline(always)]
fn steps_sized<I: Isa, const ROUNDS: usize>(isa: I, group: &mut Group, lanes: usize, count: usize) {
    debug_assert!(lanes.is_multiple_of(I::LEN));
    // SAFETY: every lane in use has `count` blocks left, which its message's list promises may be read and written.
    unsafe {
        match lanes / I::LEN {
            1 => steps_wide::<I, 1, ROUNDS, false>(isa, group, count),
            2 => steps_wide::<I, 2, ROUNDS, false>(isa, group, count),
            3 if I::LEN == 4 => steps_wide::<I, 3, ROUNDS, false>(isa, group, count),
            4 if I::LEN == 4 && group.has_one_key() => steps_wide::<I, 4, ROUNDS, true>(isa, group, count),
            4 => steps_wide::<I, 4, ROUNDS, false>(isa, group, count),
            8 if I::LEN != 4 => steps_wide::<I, 8, ROUNDS, false>(isa, group, count),
            vectors => unreachable!("{vectors} vectors"),
        }
    }
}

/// `count` blocks in each lane of `N` vectors. `ALIKE`: all lanes have the same key.
///
/// # Safety
/// Each of these lanes may read and write `16 · count` bytes more.
#[inline(always)]
unsafe fn steps_wide<I: Isa, const N: usize, const ROUNDS: usize, const ALIKE: bool>(
    isa: I,
    group: &mut Group,
    count: usize,
) {
    // SAFETY: `N` vectors are within the lanes of a group.
    let mut chain: [I::V; N] =
        core::array::from_fn(|v| unsafe { isa.load(group.chain.as_ptr().add(v * I::LEN).cast()) });
    // With smaller vectors it would be slower: a line is more vectors than one, and there are too few registers.
    let in_lines = if I::LEN == 4 { count - count % I::LEN } else { 0 };
    for step in (0..in_lines).step_by(I::LEN) {
        let at = 16 * step;
        // Block `i` of each lane of vector `v`.
        let mut texts = [[isa.zero(); 4]; N];
        for (v, text) in texts.iter_mut().enumerate() {
            let mut rows = [isa.zero(); 4];
            for (i, row) in rows.iter_mut().enumerate().take(I::LEN) {
                // SAFETY: the caller's promise.
                *row = unsafe { isa.load(group.input[v * I::LEN + i].add(at)) };
            }
            *text = isa.transpose(rows);
        }
        // Each for itself: in a loop that is left in place, its blocks would go through memory.
        step_of_line::<I, N, ROUNDS, ALIKE, 0>(isa, &group.keys, &mut chain, &mut texts);
        step_of_line::<I, N, ROUNDS, ALIKE, 1>(isa, &group.keys, &mut chain, &mut texts);
        step_of_line::<I, N, ROUNDS, ALIKE, 2>(isa, &group.keys, &mut chain, &mut texts);
        step_of_line::<I, N, ROUNDS, ALIKE, 3>(isa, &group.keys, &mut chain, &mut texts);
        for (v, text) in texts.iter().enumerate() {
            let rows = isa.transpose(*text);
            for (i, row) in rows.iter().enumerate().take(I::LEN) {
                // SAFETY: the caller's promise. All lanes have read before any writes.
                unsafe { row.store(group.output[v * I::LEN + i].add(at)) };
            }
        }
    }
    for step in in_lines..count {
        let at = 16 * step;
        for (v, block) in chain.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let plain = unsafe { read(isa, &group.input, v * I::LEN, at) };
            // Ciphertext, plaintext and first round key in one instruction.
            *block = block.xor3(plain, group.keys.load_of::<I, ALIKE>(isa, 0, v));
        }
        group.keys.encrypt_whitened::<I, N, ROUNDS, ALIKE>(isa, &mut chain);
        for (v, block) in chain.iter().enumerate() {
            for i in 0..I::LEN {
                // SAFETY: the caller's promise. All lanes have read before any writes.
                unsafe { _mm_storeu_si128(group.output[v * I::LEN + i].add(at).cast(), block.extract(i)) };
            }
        }
    }
    for (v, block) in chain.iter().enumerate() {
        // SAFETY: as above.
        unsafe { block.store(group.chain.as_mut_ptr().add(v * I::LEN).cast()) };
    }
    for lane in 0..N * I::LEN {
        group.input[lane] = group.input[lane].wrapping_add(16 * count);
        group.output[lane] = group.output[lane].wrapping_add(16 * count);
    }
}

/// Block `AT` of each lane's line.
#[inline(always)]
fn step_of_line<I: Isa, const N: usize, const ROUNDS: usize, const ALIKE: bool, const AT: usize>(
    isa: I,
    keys: &LaneKeys,
    chain: &mut [I::V; N],
    texts: &mut [[I::V; 4]; N],
) {
    // Round keys that the compiler knows from the step before are moved to the stack, at the price of a store each.
    let keys = core::hint::black_box(keys);
    for (v, block) in chain.iter_mut().enumerate() {
        *block = block.xor3(texts[v][AT], keys.load_of::<I, ALIKE>(isa, 0, v));
    }
    keys.encrypt_whitened::<I, N, ROUNDS, ALIKE>(isa, chain);
    for (block, text) in chain.iter().zip(texts) {
        text[AT] = *block;
    }
}

/// One block of each lane of a vector.
///
/// # Safety
/// Sixteen bytes may be read `at` bytes behind the places of these lanes.
#[inline(always)]
unsafe fn read<I: Isa>(isa: I, places: &[*const u8; LANES], first: usize, at: usize) -> I::V {
    isa.gather(core::array::from_fn(|i| {
        // SAFETY: the caller's promise; blocks beyond the vector's are repeats of its last.
        unsafe { _mm_loadu_si128(places[first + i.min(I::LEN - 1)].add(at).cast()) }
    }))
}

/// Encrypts one message.
fn alone(kernel: AesKernel, message: &Message) {
    // SAFETY: the list of messages is borrowed as long as any of them runs.
    let key = unsafe { message.key() };
    stream(kernel, &key.encrypt, message);
}

aes_kernels! {
    /// Encrypts one message block after block.
    fn stream(key: &Schedule, message: &Message) = stream_on
}

#[inline(always)]
fn stream_on<I: Isa>(isa: I, key: &Schedule, message: &Message) {
    match key.rounds() {
        10 => stream_sized::<I, 10>(isa, key, message),
        12 => stream_sized::<I, 12>(isa, key, message),
        _ => stream_sized::<I, 14>(isa, key, message),
    }
}

/// Serial, so bound by the latency of the AES instructions alone: the next plaintext block and the first round key are
/// added to the last round key, which makes the last round give the next block's first state.
#[inline(always)]
fn stream_sized<I: Isa, const ROUNDS: usize>(_isa: I, key: &Schedule, message: &Message) {
    let keys: [__m128i; ROUNDS_MAX] = core::array::from_fn(|round| key.key(round.min(ROUNDS)));
    let blocks = message.len / 16;
    // SAFETY: `blocks` blocks may be read and written, as the message's list promises; each is read before it is
    // written. The instructions are those of every `Isa`.
    unsafe {
        let read = |block: usize| _mm_loadu_si128(message.input.add(16 * block).cast());
        if blocks == 0 {
            return;
        }
        let mut state = _mm_xor_si128(_mm_xor_si128(message.iv, keys[0]), read(0));
        for block in 0..blocks - 1 {
            for key in &keys[1..ROUNDS] {
                state = _mm_aesenc_si128(state, *key);
            }
            let next = _mm_xor_si128(keys[0], read(block + 1));
            state = _mm_aesenclast_si128(state, _mm_xor_si128(keys[ROUNDS], next));
            _mm_storeu_si128(message.output.add(16 * block).cast(), _mm_xor_si128(state, next));
        }
        for key in &keys[1..ROUNDS] {
            state = _mm_aesenc_si128(state, *key);
        }
        let last = _mm_aesenclast_si128(state, keys[ROUNDS]);
        _mm_storeu_si128(message.output.add(16 * (blocks - 1)).cast(), last);
    }
}

const ROUNDS_MAX: usize = crate::aes::schedule::ROUND_KEYS_MAX;

#[cfg(test)]
mod tests {
    use ciphermill_contract::Direction;

    use super::super::{CbcLane, CbcScratch, messages};
    use super::*;
    use crate::aes::schedule::AesKey;

    /// Messages of `blocks` blocks, all under one key, or each third one under another.
    fn encrypted(kernel: AesKernel, keys: [&AesKey; 2], blocks: usize, scratch: &mut CbcScratch) -> Vec<Vec<u8>> {
        let mut texts: Vec<Vec<u8>> = (0..50u8).map(|byte| vec![byte; 16 * blocks]).collect();
        let lane = |(number, text): (usize, &mut Vec<u8>)| CbcLane {
            key: keys[usize::from(number % 3 == 0)],
            iv: [number as u8; 16],
            input: text.as_ptr(),
            output: text.as_mut_ptr(),
            len: text.len(),
        };
        let lanes: Vec<CbcLane<'_>> = texts.iter_mut().enumerate().map(lane).collect();
        // SAFETY: each message is a vector of its own, which is written where it is read.
        unsafe { messages(kernel, Direction::Encrypt, &lanes, scratch) };
        texts
    }

    /// One after the other, by the serial way.
    fn expected(kernel: AesKernel, keys: [&AesKey; 2], blocks: usize) -> Vec<Vec<u8>> {
        let mut texts: Vec<Vec<u8>> = (0..50u8).map(|byte| vec![byte; 16 * blocks]).collect();
        for (number, text) in texts.iter_mut().enumerate() {
            let lane = CbcLane {
                key: keys[usize::from(number % 3 == 0)],
                iv: [number as u8; 16],
                input: text.as_ptr(),
                output: text.as_mut_ptr(),
                len: text.len(),
            };
            // SAFETY: as above.
            unsafe { messages(kernel, Direction::Encrypt, &[lane], &mut CbcScratch::default()) };
        }
        texts
    }

    #[test]
    fn a_lane_keeps_its_key_within_a_run_alone() {
        for name in AesKernel::NAMES {
            let Some(kernel) = AesKernel::detect(name) else { continue };
            let other = AesKey::new(kernel, &[0xee; 16]).expect("a key");
            let mut scratch = CbcScratch::default();
            // One place for all keys, as when one is given up and the next one comes to lie there.
            let mut place = Box::new(AesKey::new(kernel, &[0; 16]).expect("a key"));
            for byte in 0..4u8 {
                *place = AesKey::new(kernel, &[byte; 16]).expect("a key");
                for blocks in [1, 4, 5, 16, 17, 40, 200] {
                    for keys in [[&*place, &*place], [&*place, &other]] {
                        let got = encrypted(kernel, keys, blocks, &mut scratch);
                        assert_eq!(got, expected(kernel, keys, blocks), "{name}, {blocks} blocks, key {byte}");
                    }
                }
            }
        }
    }
}
