//! AES-CMAC (NIST SP 800-38B, RFC 4493) of many messages side by side, one a lane; see [`super::cbc_mac`].
//!
//! Floor: a message of n blocks (at least one) costs n × rounds / LEN AES instructions.

// As in [`super::cbc_mac`].
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::cbc_mac::{self, Bodies, KeyTable, LANES_MAX, Results, RoundKeys, Shared};
use super::isa::{AesKernel, Isa, aes_kernels};
use super::schedule::Schedule;

use crate::work::{Item, Scratch, WINDOW_OPS, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::CMAC, Cost::new(15.0, 12.0, 0.06)).lanes(16).few(Cost::new(40.0, 40.0, 0.7))];

/// A key with its two subkeys.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub(super) struct CmacKey {
    pub(super) schedule: Schedule,
    /// K1, for messages that end in a whole block, and K2, for the others (SP 800-38B, 6.1).
    subkeys: [[u8; 16]; 2],
}

impl CmacKey {
    /// # Errors
    /// `Length` when the key is no AES key.
    pub(super) fn new(kernel: AesKernel, key: &[u8]) -> Result<CmacKey, KeyProblem> {
        let schedule = Schedule::new(kernel, key)?;
        let zero = Zeroizing::new(cbc_mac::encrypt_number(kernel, &schedule, 0));
        let whole = Zeroizing::new(cbc_mac::double(*zero));
        let partial = Zeroizing::new(cbc_mac::double(*whole));
        Ok(CmacKey { schedule, subkeys: [whole.to_be_bytes(), partial.to_be_bytes()] })
    }

    /// The subkey for a last block that has `len` bytes of data.
    #[inline(always)]
    pub(super) fn subkey(&self, len: usize) -> __m128i {
        // SAFETY: sixteen bytes; SSE2 is part of x86-64.
        unsafe { _mm_loadu_si128(self.subkeys[usize::from(len < 16)].as_ptr().cast()) }
    }

    /// The CMAC of a message that is one block at most, as a number whose first byte is the most significant.
    pub(super) fn of_block(&self, kernel: AesKernel, message: &[u8]) -> u128 {
        let mut block = [0; 16];
        let len = message.len().min(16);
        block[..len].copy_from_slice(&message[..len]);
        if len < 16 {
            block[len] = 0x80;
        }
        let subkey = u128::from_be_bytes(self.subkeys[usize::from(len < 16)]);
        cbc_mac::encrypt_number(kernel, &self.schedule, u128::from_be_bytes(block) ^ subkey)
    }
}

/// A message to be authenticated.
#[derive(Clone, Copy)]
pub(super) struct Job<'k> {
    pub(super) key: &'k CmacKey,
    pub(super) data: *const u8,
    pub(super) len: usize,
}

aes_kernels! {
    /// The CMACs of a group of messages, as many as a kernel has lanes at most. Each job's bytes may be read.
    pub(super) fn group(table: &mut KeyTable, jobs: &[Job<'_>], results: &mut Results) = group_on
}

#[inline(always)]
fn group_on<I: Isa>(isa: I, table: &mut KeyTable, jobs: &[Job<'_>], results: &mut Results) {
    if jobs.len() <= I::LEN {
        vectors::<I, 1>(isa, table, jobs, results);
    } else if I::LEN == 4 {
        vectors::<I, 4>(isa, table, jobs, results);
    } else {
        vectors::<I, 8>(isa, table, jobs, results);
    }
}

#[inline(always)]
fn vectors<I: Isa, const N: usize>(isa: I, table: &mut KeyTable, jobs: &[Job<'_>], results: &mut Results) {
    let first = jobs[0].key;
    let mut schedules = [&first.schedule; LANES_MAX];
    let mut one_key = true;
    for lane in 0..jobs.len().min(LANES_MAX) {
        schedules[lane] = &jobs[lane].key.schedule;
        one_key &= core::ptr::eq(jobs[lane].key, first);
    }
    // SAFETY: who makes a job promises that its bytes may be read.
    unsafe {
        if one_key {
            lanes::<I, _, N>(isa, Shared(&first.schedule), jobs, results);
        } else {
            lanes::<I, _, N>(isa, table.fill::<I, N>(isa, &schedules), jobs, results);
        }
    }
}

/// # Safety
/// Each job's bytes may be read.
#[inline(always)]
unsafe fn lanes<I: Isa, K: RoundKeys<I>, const N: usize>(isa: I, keys: K, jobs: &[Job<'_>], results: &mut Results) {
    let mut bodies = Bodies::new();
    let mut edges = [[isa.zero(); N]];
    for vector in 0..N {
        let mut blocks = [cbc_mac::zero(); 4];
        for i in 0..I::LEN {
            let lane = vector * I::LEN + i;
            let job = &jobs[lane.min(jobs.len() - 1)];
            let count = job.len.div_ceil(16).max(1);
            let rest = job.len - 16 * (count - 1);
            bodies.set(lane, job.data, count);
            // SAFETY: the caller's promise.
            let last = unsafe { cbc_mac::load_last(isa, job.data, job.len, rest) };
            blocks[i] = cbc_mac::xor(cbc_mac::xor(last, cbc_mac::padding(rest)), job.key.subkey(rest));
        }
        edges[0][vector] = isa.gather(blocks);
    }
    bodies.align(N * I::LEN);
    let mut states = [isa.zero(); N];
    // SAFETY: aligned just now; blocks before the last are whole and the message's own.
    unsafe { cbc_mac::chain(isa, keys, &bodies, &edges, &mut states) };
    results.set::<I, N>(&states);
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, CmacKey::new(kernel, key)?))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut table = KeyTable::new();
    let mut tags = Results::empty();
    let mut next = 0;
    while scratch.collect_by::<CmacKey>(work, &mut next, WINDOW_OPS, cbc_mac::blocks_of) {
        cbc_mac::count_lanes(kernel, scratch);
        for items in scratch.ordered.chunks(cbc_mac::lanes(kernel)) {
            some(kernel, work, &mut table, &mut tags, items);
        }
    }
}

/// A group of operations.
fn some(kernel: AesKernel, work: &mut Work<'_>, table: &mut KeyTable, tags: &mut Results, items: &[Item]) {
    let job = |item: &Item| {
        // SAFETY: collected with this type; the batch is still borrowed.
        let key = unsafe { item.key::<CmacKey>() };
        Job { key, data: item.input, len: item.len as usize }
    };
    let mut jobs = [job(&items[0]); LANES_MAX];
    for (to, item) in jobs.iter_mut().zip(items) {
        *to = job(item);
    }
    group(kernel, table, &jobs[..items.len().min(LANES_MAX)], tags);
    for (lane, item) in items.iter().enumerate() {
        // The tag is the only output.
        // SAFETY: the batch's check: the tag lies within the arena, and its length is the suite's.
        unsafe { cbc_mac::settle(work, item.op as usize, tags.get(lane), 0) };
    }
}
