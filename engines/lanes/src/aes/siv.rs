//! AES-SIV (RFC 5297) of many messages side by side. The additional data are always one component of S2V, also when
//! they are empty; the nonce, when there is one, is another.
//!
//! S2V is CMACs: that of the zero block belongs to the key and is computed with it; those of additional data are
//! computed once for all operations of a window that share them (a column's name); those of nonces and plaintexts run
//! one message a lane ([`super::cbc_mac`]). The cipher then runs one message a vector, eight in flight
//! ([`super::streams`]).
//!
//! Floor, for 40 bytes under AES-256 and 512-bit vectors: 3 blocks of MAC at 14 rounds over 4 lanes a vector and 14
//! rounds of one vector of cipher, 24.5 AES instructions, one a cycle.

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, OpStatus, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::cbc_mac::{self, Bodies, KeyTable, LANES_MAX, Results, RoundKeys, Shared};
use super::cmac::{self, CmacKey};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;
use super::streams::{self, Streams};
use crate::engine::Prepared;
use crate::work::{Item, Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_SIV, Cost::new(200.0, 20.0, 0.3)).lanes(16)];

/// A key's two halves (RFC 5297, 2.2) and what S2V needs of the first.
#[derive(Zeroize, ZeroizeOnDrop)]
struct SivKey {
    mac: CmacKey,
    cipher: Schedule,
    /// The CMAC of the zero block, doubled: what the CMAC of the additional data is added to (RFC 5297, 2.4).
    start: [u8; 16],
    /// The same with empty additional data added.
    without_aad: [u8; 16],
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let (mac, cipher) = key.split_at(key.len() / 2);
    let mac = CmacKey::new(kernel, mac)?;
    let cipher = Schedule::new(kernel, cipher)?;
    let start = Zeroizing::new(cbc_mac::double(mac.of_block(kernel, &[0; 16])));
    let without_aad = (*start ^ mac.of_block(kernel, &[])).to_be_bytes();
    Ok(Prepared::key(suite, SivKey { mac, cipher, start: start.to_be_bytes(), without_aad }))
}

aes_kernels! {
    /// Runs a batch.
    pub(super) fn run(work: &mut Work<'_>, scratch: &mut Scratch) = run_on
}

#[inline(always)]
fn run_on<I: Isa>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut table = KeyTable::new();
    let mut streams = Streams::new();
    let mut sums = Sums { words: core::mem::take(&mut scratch.bytes), jobs_max: 0, slots_at: 0 };
    let mut next = 0;
    while work.collect::<SivKey>(&mut next, &mut scratch.items) {
        let first = blocks_of(&scratch.items[0]);
        let level = scratch.items.iter().all(|item| blocks_of(item) == first);
        if !level {
            scratch.order_by(blocks_of);
        }
        let items = if level { &scratch.items } else { &scratch.ordered };
        sums.of_window(isa, work, &mut table, items);
        // As many lanes as sixteen, where eight vectors have them.
        let lanes = LANES_MAX.min(8 * I::LEN);
        for (at, items) in items.chunks(lanes).enumerate() {
            let window = Window { sums: &sums, from: at * lanes };
            if items.len() <= I::LEN {
                window.group::<I, 1>(isa, work, &mut table, &mut streams, items);
            } else if I::LEN == 4 {
                window.group::<I, 4>(isa, work, &mut table, &mut streams, items);
            } else {
                window.group::<I, 8>(isa, work, &mut table, &mut streams, items);
            }
        }
        streams.finish(isa);
    }
    scratch.bytes = sums.wipe();
}

/// Blocks that the last CMAC of S2V goes through.
#[inline(always)]
fn blocks_of(item: &Item) -> usize {
    item.len.div_ceil(16).max(1) as usize
}

/// The key of an item.
///
/// # Safety
/// The item was collected as one of this suite, and the batch is still borrowed for `'k`.
#[inline(always)]
unsafe fn key_of<'k>(item: &Item) -> &'k SivKey {
    // SAFETY: the caller's promise.
    unsafe { item.key::<SivKey>() }
}

/// Distinct additional data that a window finds again at once; see [`Sums::of_window`].
const MEMO_LEN: usize = 1024;

/// What S2V has summed up behind the additional data, for each item of a window.
struct Sums {
    /// Two words a sum, then half a word an item for the number of its sum (0: the key's own, without additional data)
    /// and half a word a sum for the item that it was computed for.
    words: Vec<u64>,
    /// The most sums that a window had.
    jobs_max: usize,
    /// Where the numbers begin.
    slots_at: usize,
}

impl Sums {
    /// Computes the sums of a window. Items that name the same place under the same key share one.
    #[inline(always)]
    fn of_window<I: Isa>(&mut self, isa: I, work: &Work<'_>, table: &mut KeyTable, items: &[Item]) {
        self.slots_at = 2 * items.len();
        if self.words.len() < 3 * items.len() {
            self.words.resize(3 * items.len(), 0);
        }
        let jobs = self.share(work, items);
        self.jobs_max = self.jobs_max.max(jobs);
        let lanes = LANES_MAX.min(8 * I::LEN);
        let mut at = 0;
        while at < jobs {
            let count = lanes.min(jobs - at);
            if count <= I::LEN {
                self.some::<I, 1>(isa, work, table, items, at, count);
            } else if I::LEN == 4 {
                self.some::<I, 4>(isa, work, table, items, at, count);
            } else {
                self.some::<I, 8>(isa, work, table, items, at, count);
            }
            at += count;
        }
    }

    /// Gives each item the number of its sum. Returns how many sums there are.
    #[inline(always)]
    fn share(&mut self, work: &Work<'_>, items: &[Item]) -> usize {
        let mut memo: Option<[u16; MEMO_LEN]> = None;
        let mut jobs = 0;
        let mut last = (core::ptr::null(), ciphermill_contract::Aad::default(), 0u32);
        for (i, item) in items.iter().enumerate() {
            let aad = work.op(item.op as usize).aad;
            // SAFETY: collected as such; the batch is still borrowed.
            let key = core::ptr::from_ref(unsafe { key_of(item) });
            if aad.len == 0 {
                self.set_slot(i, 0);
                continue;
            }
            if !(core::ptr::eq(last.0, key) && last.1 == aad) {
                let hash = (key as usize as u64 >> 4 ^ u64::from(aad.offset) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let memo = memo.get_or_insert([0; MEMO_LEN]);
                let slot = self.find(work, items, memo, hash, (key, aad));
                let slot = slot.unwrap_or_else(|place| {
                    jobs += 1;
                    self.set_first(jobs - 1, items.len(), i);
                    memo[place] = jobs as u16;
                    jobs as u32
                });
                last = (key, aad, slot);
            }
            self.set_slot(i, last.2);
        }
        jobs
    }

    /// The number of the sum of this key and these additional data, or the place of the memo that is theirs.
    #[inline(always)]
    fn find(
        &self,
        work: &Work<'_>,
        items: &[Item],
        memo: &[u16; MEMO_LEN],
        hash: u64,
        wanted: (*const SivKey, ciphermill_contract::Aad),
    ) -> Result<u32, usize> {
        let place = |probe: usize| ((hash >> 54) as usize + probe) % MEMO_LEN;
        for probe in 0..4 {
            let slot = memo[place(probe)];
            if slot == 0 {
                return Err(place(probe));
            }
            let item = &items[self.first(usize::from(slot) - 1, items.len())];
            // SAFETY: collected as such; the batch is still borrowed.
            let key = core::ptr::from_ref(unsafe { key_of(item) });
            if core::ptr::eq(key, wanted.0) && work.op(item.op as usize).aad == wanted.1 {
                return Ok(u32::from(slot));
            }
        }
        // Whoever was here is computed anew when it comes again.
        Err(place(0))
    }

    /// Computes up to [`LANES_MAX`] sums from number `at` on.
    #[inline(always)]
    fn some<I: Isa, const N: usize>(
        &mut self,
        isa: I,
        work: &Work<'_>,
        table: &mut KeyTable,
        items: &[Item],
        at: usize,
        count: usize,
    ) {
        let job = |sum: usize| {
            let item = &items[self.first(sum, items.len())];
            let aad = work.aad(item.op as usize);
            // SAFETY: collected as such; the batch is still borrowed.
            cmac::Job { key: unsafe { &key_of(item).mac }, data: aad.as_ptr(), len: aad.len() }
        };
        let mut all = [job(at); LANES_MAX];
        for (lane, to) in all.iter_mut().enumerate().take(count) {
            *to = job(at + lane);
        }
        // SAFETY: additional data lie within the arena.
        let macs = unsafe { cmac::group::<I, N>(isa, table, &all[..count]) };
        for lane in 0..count {
            // SAFETY: collected as such; the batch is still borrowed.
            let start = unsafe { key_of(&items[self.first(at + lane, items.len())]) }.start;
            let sum = u128::from_ne_bytes(start) ^ u128::from_ne_bytes(*macs.get(lane));
            self.words[2 * (at + lane)] = sum as u64;
            self.words[2 * (at + lane) + 1] = (sum >> 64) as u64;
        }
    }

    #[inline(always)]
    fn halves(&self) -> *mut u32 {
        self.words.as_ptr().wrapping_add(self.slots_at).cast::<u32>().cast_mut()
    }

    #[inline(always)]
    fn set_slot(&mut self, item: usize, slot: u32) {
        debug_assert!(item < self.slots_at / 2);
        // SAFETY: one word an item follows the sums, the first half of them for this.
        unsafe { self.halves().add(item).write(slot) };
    }

    #[inline(always)]
    fn set_first(&mut self, sum: usize, items: usize, item: usize) {
        debug_assert!(sum < items && items == self.slots_at / 2);
        // SAFETY: as above, the second half.
        unsafe { self.halves().add(items + sum).write(item as u32) };
    }

    #[inline(always)]
    fn first(&self, sum: usize, items: usize) -> usize {
        debug_assert!(sum < items && items == self.slots_at / 2);
        // SAFETY: as above.
        unsafe { self.halves().add(items + sum).read() as usize }
    }

    /// The place of an item's sum.
    #[inline(always)]
    fn get(&self, index: usize, key: &SivKey) -> *const u8 {
        debug_assert!(index < self.slots_at / 2);
        // SAFETY: as above.
        let slot = unsafe { self.halves().add(index).read() as usize };
        if slot == 0 { key.without_aad.as_ptr() } else { self.words.as_ptr().wrapping_add(2 * (slot - 1)).cast() }
    }

    /// Forgets all sums and gives the memory back.
    #[inline(always)]
    fn wipe(mut self) -> Vec<u64> {
        let used = &mut self.words[..2 * self.jobs_max];
        used.fill(0);
        zeroize::optimization_barrier(used);
        self.words
    }
}

/// A window's sums, from one of its items on.
#[derive(Clone, Copy)]
struct Window<'s> {
    sums: &'s Sums,
    from: usize,
}

impl Window<'_> {
    /// Runs 1 to [`LANES_MAX`] operations: `N` vectors of lanes hold them.
    #[inline(always)]
    fn group<'k, I: Isa, const N: usize>(
        self,
        isa: I,
        work: &mut Work<'_>,
        table: &mut KeyTable,
        streams: &mut Streams<'k>,
        items: &[Item],
    ) {
        if work.direction() == Direction::Encrypt {
            let tags = self.synthetic_ivs::<I, N>(isa, work, table, items);
            for (lane, item) in items.iter().enumerate() {
                let tag = tags.get(lane);
                // SAFETY: the batch's check: sixteen bytes of tag; the message's places; the key's batch is borrowed.
                unsafe {
                    work.tag(item.op as usize).cast::<[u8; 16]>().write(*tag);
                    push(isa, streams, item, isa.block(tag));
                }
                work.done(item.op as usize);
            }
            return;
        }
        for item in items {
            // SAFETY: as above.
            unsafe {
                let tag = _mm_loadu_si128(work.tag(item.op as usize).cast());
                push(isa, streams, item, tag);
            }
        }
        streams.finish(isa);
        let tags = self.synthetic_ivs::<I, N>(isa, work, table, items);
        for (lane, item) in items.iter().enumerate() {
            // SAFETY: as above.
            if unsafe { cbc_mac::tag_matches(isa, tags.get(lane), work.tag(item.op as usize), 16) } {
                work.done(item.op as usize);
            } else {
                work.fail(item.op as usize, OpStatus::AuthFailed);
            }
        }
    }

    /// S2V of a group (RFC 5297, 2.4).
    #[inline(always)]
    fn synthetic_ivs<I: Isa, const N: usize>(
        self,
        isa: I,
        work: &Work<'_>,
        table: &mut KeyTable,
        items: &[Item],
    ) -> Results {
        // SAFETY: collected as such; the batch is still borrowed.
        let key = |lane: usize| unsafe { key_of(&items[lane.min(items.len() - 1)]) };
        let first = key(0);
        if items.iter().enumerate().all(|(lane, _)| core::ptr::eq(key(lane), first)) {
            self.s2v::<I, _, N>(isa, work, Shared(&first.mac.schedule), items)
        } else {
            let schedules = core::array::from_fn(|lane| &key(lane).mac.schedule);
            self.s2v::<I, _, N>(isa, work, table.fill::<I, N>(isa, &schedules), items)
        }
    }

    #[inline(always)]
    fn s2v<I: Isa, K: RoundKeys<I>, const N: usize>(self, isa: I, work: &Work<'_>, keys: K, items: &[Item]) -> Results {
        let nonces = items.iter().any(|item| work.op(item.op as usize).iv_len != 0);
        let with_nonces = if nonces { Some(self.nonces::<I, K, N>(isa, work, keys, items)) } else { None };
        let encrypt = work.direction() == Direction::Encrypt;
        let mut bodies = Bodies::new();
        let mut edges = [[isa.zero(); N]; 2];
        for vector in 0..N {
            let mut pairs = [[cbc_mac::zero(); 4]; 2];
            for i in 0..I::LEN {
                let lane = vector * I::LEN + i;
                let index = lane.min(items.len() - 1);
                let item = &items[index];
                // SAFETY: collected as such; the batch is still borrowed.
                let key = unsafe { key_of(item) };
                let sum = match &with_nonces {
                    Some(sums) => sums.get(index).as_ptr(),
                    None => self.sums.get(self.from + index, key),
                };
                let plain = if encrypt { item.input } else { item.output.cast_const() };
                bodies.set(lane, plain, blocks_of(item));
                // SAFETY: the message's own bytes, which the batch's check has found within the arena.
                let pair = unsafe { edges_of(isa, key, _mm_loadu_si128(sum.cast()), plain, item.len as usize) };
                (pairs[0][i], pairs[1][i]) = pair;
            }
            edges[0][vector] = isa.gather(pairs[0]);
            edges[1][vector] = isa.gather(pairs[1]);
        }
        bodies.align(N * I::LEN);
        let mut states = [isa.zero(); N];
        // SAFETY: aligned just now; blocks before the last two are whole and the message's own.
        unsafe { cbc_mac::chain(isa, keys, &bodies, &edges, &mut states) };
        Results::new::<I, N>(&states)
    }

    /// The sums with the nonces added, of those operations that have one.
    #[inline(always)]
    fn nonces<I: Isa, K: RoundKeys<I>, const N: usize>(
        self,
        isa: I,
        work: &Work<'_>,
        keys: K,
        items: &[Item],
    ) -> Results {
        let mut all = [[isa.zero(); N]; 3];
        for vector in 0..N {
            let mut lanes = [[cbc_mac::zero(); 4]; 3];
            for i in 0..I::LEN {
                let index = (vector * I::LEN + i).min(items.len() - 1);
                let item = &items[index];
                // SAFETY: collected as such; the batch is still borrowed.
                let key = unsafe { key_of(item) };
                let nonce = work.iv(item.op as usize);
                // SAFETY: the nonce's own bytes, at most sixteen; sixteen bytes of the sum.
                unsafe {
                    let block = cbc_mac::load_last(isa, nonce.as_ptr(), nonce.len(), nonce.len());
                    let padding = cbc_mac::padding(nonce.len());
                    lanes[0][i] = cbc_mac::xor(cbc_mac::xor(block, padding), key.mac.subkey(nonce.len()));
                    lanes[1][i] = _mm_loadu_si128(self.sums.get(self.from + index, key).cast());
                }
                lanes[2][i] = cbc_mac::mask(isa, !nonce.is_empty());
            }
            for (all, lanes) in all.iter_mut().zip(lanes) {
                all[vector] = isa.gather(lanes);
            }
        }
        let [blocks, mut sums, present] = all;
        let mut macs = [isa.zero(); N];
        cbc_mac::step(isa, keys, &mut macs, &blocks);
        for ((sum, mac), present) in sums.iter_mut().zip(macs).zip(present) {
            let added = cbc_mac::double_each(isa, *sum).xor(mac);
            *sum = added.and(present).or(sum.and_not(present));
        }
        Results::new::<I, N>(&sums)
    }
}

/// The last two blocks of the last CMAC of S2V: the plaintext with the sum added to its end, padded, with the subkey.
/// The first of them means nothing when there is only one.
///
/// # Safety
/// `len` bytes from `plain` may be read.
#[inline(always)]
unsafe fn edges_of<I: Isa>(isa: I, key: &SivKey, sum: __m128i, plain: *const u8, len: usize) -> (__m128i, __m128i) {
    if len < 16 {
        // SAFETY: the caller's promise.
        let block = unsafe { cbc_mac::load_short(isa, plain, len) };
        let doubled = cbc_mac::double_block(sum);
        let last = cbc_mac::xor(cbc_mac::xor(block, cbc_mac::padding(len)), cbc_mac::xor(doubled, key.mac.subkey(16)));
        return (cbc_mac::zero(), last);
    }
    let before = 16 * ((len - 1) / 16);
    let rest = len - before;
    // SAFETY: the last sixteen bytes of at least as many.
    let end = cbc_mac::xor(unsafe { _mm_loadu_si128(plain.add(len - 16).cast()) }, sum);
    let constant = cbc_mac::xor(cbc_mac::padding(rest), key.mac.subkey(rest));
    let last = cbc_mac::xor(cbc_mac::shift_down(end, 16 - rest), constant);
    // A whole last block takes the sum alone: shifted by 16 there is nothing left for the one before. That one is read
    // where it is, or, when there is none, where the message begins.
    // SAFETY: sixteen bytes from a multiple of sixteen that is at least as far from the end.
    let block = unsafe { _mm_loadu_si128(plain.add(before.saturating_sub(16)).cast()) };
    (cbc_mac::xor(block, cbc_mac::shift_up(sum, rest)), last)
}

/// Adds the stream that starts at `iv` to a message, with two bits of it cleared (RFC 5297, 2.5), so that counting in
/// 32 bits is enough.
///
/// # Safety
/// The item was collected as one of this suite; its batch is borrowed until the streams are finished.
#[inline(always)]
unsafe fn push<'k, I: Isa>(isa: I, streams: &mut Streams<'k>, item: &Item, iv: __m128i) {
    // SAFETY: the caller's promise, and the batch's check of the message's places; SSE2 is part of x86-64.
    unsafe {
        let counter = _mm_and_si128(iv, _mm_set_epi32(!0x80, !0x80, !0, !0));
        let key: &'k SivKey = key_of(item);
        let (counter, len) = (streams::swap_counter(counter), item.len as usize);
        streams.push(isa, &key.cipher, counter, item.input, item.output, len);
    }
}
