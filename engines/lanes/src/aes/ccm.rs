//! AES-CCM (NIST SP 800-38C, RFC 3610) of many messages side by side: CBC-MACs one message a lane
//! ([`super::cbc_mac`]), the cipher one message a vector ([`super::streams`]).
//!
//! Lengths, nonce and additional data are written out as the standard formats them, so that the MAC goes through two
//! parts alike: those, then the payload.
//!
//! Floor, for n blocks of payload and m of additional data: (1 + m + n + 1) × rounds / LEN AES instructions for MAC and
//! mask, and rounds for each vector of the cipher.

// As in [`super::cbc_mac`].
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, OpStatus, PreparedKey, Reason, Suite};

use super::cbc_mac::{self, Bodies, KeyTable, LANES_MAX, Results, RoundKeys, Shared};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;
use super::streams::Streams;

use crate::work::{Item, Scratch, WINDOW_OPS, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_CCM, Cost::new(60.0, 40.0, 0.08)).lanes(16).few(Cost::new(40.0, 105.0, 0.75))];

/// From this length on, additional data are announced with six bytes instead of two (SP 800-38C, A.2.2).
const LONG_AAD_LEN: usize = 0xff00;

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, Schedule::new(kernel, key)?))
}

/// Bytes that a lane's MAC goes through, zeros filling up the last block.
#[derive(Clone, Copy)]
struct Part {
    data: *const u8,
    len: usize,
}

/// Messages side by side.
struct Group<'k> {
    keys: [&'k Schedule; LANES_MAX],
    /// Lengths, nonce and additional data; then the payload.
    parts: [[Part; LANES_MAX]; 2],
    /// The counter blocks of zero, whose encryptions mask the MACs (SP 800-38C, A.3).
    counters: [[u8; 16]; LANES_MAX],
    /// Lanes that are not idle.
    count: usize,
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut table = KeyTable::new();
    let mut streams = Streams::new(kernel);
    let mut tags = Results::empty();
    let mut heads = core::mem::take(&mut scratch.bytes);
    let mut next = 0;
    while scratch.collect_by::<Schedule>(work, &mut next, WINDOW_OPS, cbc_mac::blocks_of) {
        scratch.ordered.retain(|item| fits(work, item));
        cbc_mac::count_lanes(kernel, scratch);
        for items in scratch.ordered.chunks(cbc_mac::lanes(kernel)) {
            some((kernel, &mut table, &mut streams, &mut tags), work, &mut heads, items);
        }
        streams.finish();
    }
    scratch.bytes = heads;
}

/// Whether the payload's length fits the bytes that the nonce leaves for it; else the operation fails.
#[inline(always)]
fn fits(work: &mut Work<'_>, item: &Item) -> bool {
    let nonce_len = work.iv_len(item.op as usize);
    // Lengths are below 2^32, so four bytes are always enough.
    let fits = nonce_len < 12 || item.len >> (8 * (15 - nonce_len)) == 0;
    if !fits {
        work.fail(item.op as usize, OpStatus::BadInput(Reason::InputTooLong));
    }
    fits
}

/// The key of an item.
///
/// # Safety
/// The item was collected as one of this suite, and the batch is still borrowed for `'k`.
#[inline(always)]
unsafe fn key_of<'k>(item: &Item) -> &'k Schedule {
    // SAFETY: the caller's promise.
    unsafe { item.key::<Schedule>() }
}

/// A group of operations, as many as there are lanes at most.
fn some(
    (kernel, table, streams, tags): (AesKernel, &mut KeyTable, &mut Streams<'_>, &mut Results),
    work: &mut Work<'_>,
    heads: &mut Vec<u64>,
    items: &[Item],
) {
    // SAFETY: collected with this type; the batch is still borrowed.
    let mut group = unsafe { frame(work, heads, items) };
    if work.direction() == Direction::Encrypt {
        macs(kernel, &group, table, tags);
        add_streams(streams, &group, items);
    } else {
        add_streams(streams, &group, items);
        streams.finish();
        for (part, item) in group.parts[1].iter_mut().zip(items) {
            part.data = item.output;
        }
        macs(kernel, &group, table, tags);
    }
    // Only now: a tag just written would stand in the way of the reads of its message.
    for (lane, item) in items.iter().enumerate() {
        // SAFETY: the batch's check: the tag lies within the arena, and its length is the suite's.
        unsafe { cbc_mac::settle(work, item.op as usize, tags.get(lane), item.len) };
    }
}

/// Adds the streams from the counter of one on (SP 800-38C, 6.1).
#[inline(always)]
fn add_streams(streams: &mut Streams<'_>, group: &Group<'_>, items: &[Item]) {
    for (item, counter) in items.iter().zip(group.counters) {
        let counter = u128::from_be_bytes(counter) | 1;
        // SAFETY: the batch's check of the message's places; its keys stay borrowed until the streams are finished; SSE2
        // is part of x86-64.
        unsafe {
            let iv = _mm_loadu_si128(counter.to_be_bytes().as_ptr().cast());
            streams.push(key_of(item), iv, item.input, item.output, item.len as usize);
        }
    }
}

/// Formats a group's operations: writes lengths, nonces and additional data to `heads`, whole blocks a lane.
///
/// # Safety
/// The items were collected as of this suite, and the batch is still borrowed.
#[inline(always)]
unsafe fn frame<'k>(work: &Work<'_>, heads: &mut Vec<u64>, items: &[Item]) -> Group<'k> {
    let head_len = |item: &Item| {
        let aad_len = work.aad_len(item.op as usize);
        let announced = if aad_len >= LONG_AAD_LEN { 6 } else { 2 };
        if aad_len == 0 { 16 } else { 16 + (announced + aad_len).next_multiple_of(16) }
    };
    let words = items.iter().map(head_len).sum::<usize>() / 8;
    if heads.len() < words {
        heads.resize(words, 0);
    }
    let none = Part { data: core::ptr::null(), len: 0 };
    // SAFETY: the caller's promise.
    let first = unsafe { key_of(&items[0]) };
    let mut group = Group {
        keys: [first; LANES_MAX],
        parts: [[none; LANES_MAX]; 2],
        counters: [[0; 16]; LANES_MAX],
        count: items.len().min(LANES_MAX),
    };
    let mut free = heads.as_mut_slice();
    for (lane, item) in items.iter().enumerate().take(LANES_MAX) {
        let (head, rest) = free.split_at_mut(head_len(item) / 8);
        free = rest;
        let nonce = work.iv_block(item.op as usize);
        group.counters[lane] = counter_block(&nonce[..work.iv_len(item.op as usize)]);
        write_head(head, &group.counters[lane], work, item);
        // SAFETY: the caller's promise.
        group.keys[lane] = unsafe { key_of(item) };
        group.parts[0][lane] = Part { data: head.as_ptr().cast(), len: 8 * head.len() };
        group.parts[1][lane] = Part { data: item.input, len: item.len as usize };
    }
    group
}

/// The counter block of zero (SP 800-38C, A.3): the bytes left for lengths and counters, less one, then the nonce.
#[inline(always)]
fn counter_block(nonce: &[u8]) -> [u8; 16] {
    let len = nonce.len().clamp(7, 13);
    let mut bytes = [0; 16];
    for (byte, nonce) in bytes[1..].iter_mut().zip(nonce) {
        *byte = *nonce;
    }
    bytes[0] = (14 - len) as u8;
    bytes
}

/// Writes the first block (SP 800-38C, A.2.1) and the additional data, announced by their length (A.2.2).
#[inline(always)]
fn write_head(head: &mut [u64], counter: &[u8; 16], work: &Work<'_>, item: &Item) {
    let (aad, tag_len) = (work.aad(item.op as usize), work.tag_len(item.op as usize));
    // The nonce leaves the payload's length enough room: `fits` has looked.
    let mut first = u128::from_be_bytes(*counter) | u128::from(item.len);
    let tag_code = tag_len.saturating_sub(2) as u128 / 2;
    first |= (u128::from(!aad.is_empty()) << 6 | tag_code << 3) << 120;
    // SAFETY: `head` is as long as `frame` found necessary; bytes of words may be written as bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(head.as_mut_ptr().cast::<u8>(), 8 * head.len()) };
    let (block, rest) = bytes.split_at_mut(16);
    block.copy_from_slice(&first.to_be_bytes());
    if rest.is_empty() {
        return;
    }
    // The last block first, whose end stays zero.
    let last = rest.len() - 16;
    rest[last..].fill(0);
    let len = (aad.len() as u64).to_be_bytes();
    let announced = if aad.len() >= LONG_AAD_LEN {
        rest[..2].copy_from_slice(&[0xff, 0xfe]);
        rest[2..6].copy_from_slice(&len[4..]);
        6
    } else {
        rest[..2].copy_from_slice(&len[6..]);
        2
    };
    rest[announced..announced + aad.len()].copy_from_slice(aad);
}

aes_kernels! {
    /// The masked MACs of a group.
    fn macs(group: &Group<'_>, table: &mut KeyTable, tags: &mut Results) = macs_on
}

#[inline(always)]
fn macs_on<I: Isa>(isa: I, group: &Group<'_>, table: &mut KeyTable, tags: &mut Results) {
    if group.count <= I::LEN {
        vectors::<I, 1>(isa, group, table, tags);
    } else if I::LEN == 4 {
        vectors::<I, 4>(isa, group, table, tags);
    } else {
        vectors::<I, 8>(isa, group, table, tags);
    }
}

#[inline(always)]
fn vectors<I: Isa, const N: usize>(isa: I, group: &Group<'_>, table: &mut KeyTable, tags: &mut Results) {
    let first = group.keys[0];
    // Idle lanes have the first one's key.
    let mut one_key = true;
    for lane in 1..LANES_MAX {
        one_key &= core::ptr::eq(group.keys[lane], first);
    }
    if one_key {
        lanes::<I, _, N>(isa, Shared(first), group, tags);
    } else {
        lanes::<I, _, N>(isa, table.fill::<I, N>(isa, &group.keys), group, tags);
    }
}

#[inline(always)]
fn lanes<I: Isa, K: RoundKeys<I>, const N: usize>(isa: I, keys: K, group: &Group<'_>, tags: &mut Results) {
    let mut states = [isa.zero(); N];
    for parts in &group.parts {
        let mut bodies = Bodies::new();
        let mut edges = [[isa.zero(); N]];
        for vector in 0..N {
            let mut blocks = [cbc_mac::zero(); 4];
            for i in 0..I::LEN {
                let lane = vector * I::LEN + i;
                let part = &parts[lane.min(group.count - 1)];
                let count = part.len.div_ceil(16);
                bodies.set(lane, part.data, count);
                let rest = part.len - 16 * count.saturating_sub(1);
                // SAFETY: the bytes that `frame` wrote, or those of a message, which the batch's check found.
                blocks[i] = unsafe { cbc_mac::load_last(isa, part.data, part.len, rest) };
            }
            edges[0][vector] = isa.gather(blocks);
        }
        bodies.align(N * I::LEN);
        // SAFETY: aligned just now; blocks before the last are whole and the part's own.
        unsafe { cbc_mac::chain(isa, keys, &bodies, &edges, &mut states) };
    }
    let mut counters = [isa.zero(); N];
    for vector in 0..N {
        let mut blocks = [cbc_mac::zero(); 4];
        for i in 0..I::LEN {
            blocks[i] = isa.block(&group.counters[(vector * I::LEN + i) % LANES_MAX]);
        }
        counters[vector] = isa.gather(blocks);
    }
    cbc_mac::step(isa, keys, &mut counters, &[isa.zero(); N]);
    for vector in 0..N {
        states[vector] = states[vector].xor(counters[vector]);
    }
    tags.set::<I, N>(&states);
}
