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

// As in [`super::cbc_mac`].
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::cbc_mac::{self, Bodies, KeyTable, LANES_MAX, Results, RoundKeys, Shared};
use super::cmac::{self, CmacKey};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;
use super::streams::Streams;

use crate::work::{Item, Scratch, WINDOW_OPS, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_SIV, Cost::new(60.0, 36.0, 0.09)).lanes(16).few(Cost::new(40.0, 100.0, 0.7))];

/// A key's two halves (RFC 5297, 2.2) and what S2V needs of the first.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct SivKey {
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
    Ok(PreparedKey::for_suite(suite, SivKey { mac, cipher, start: start.to_be_bytes(), without_aad }))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut table = KeyTable::new();
    let mut run = Run {
        kernel,
        table: &mut table,
        streams: Streams::new(kernel),
        memo: Memo::new(core::mem::take(&mut scratch.bytes), work.len()),
        last: (core::ptr::null(), 0, [0; 2]),
        sums: Sums { places: [core::ptr::null(); LANES_MAX], own: Results::empty() },
        macs: Results::empty(),
        tags: Results::empty(),
    };
    let lanes = cbc_mac::lanes(kernel);
    let mut next = 0;
    while scratch.collect_by::<SivKey>(work, &mut next, WINDOW_OPS, cbc_mac::blocks_of) {
        cbc_mac::count_lanes(kernel, scratch);
        let items = &mut scratch.ordered;
        let count = items.len();
        // Idle lanes of the last group do once more what its last operation does.
        let last = items[count - 1];
        items.resize(count.next_multiple_of(lanes), last);
        for (at, items) in items.chunks_exact(lanes).enumerate() {
            run.group(work, items, lanes.min(count - at * lanes));
        }
        run.streams.finish();
    }
    run.last.2.zeroize();
    scratch.bytes = run.memo.wipe();
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

/// Words of a memo's entry: key, place of the additional data, and two of the sum.
const ENTRY_WORDS: usize = 4;

/// Entries that a memo has at most.
const ENTRIES_MAX: usize = 2048;

/// What S2V has summed up behind the additional data, by key and place, so that operations that share both share it.
struct Memo {
    /// Entries; those without a key are free.
    words: Vec<u64>,
    /// Entries, a power of two; zero for batches of a single group, which find nothing again.
    entries: usize,
    used: bool,
}

impl Memo {
    /// A memo for a batch of `ops` operations; `words` are zero.
    #[inline(always)]
    fn new(mut words: Vec<u64>, ops: usize) -> Memo {
        let entries = if ops <= LANES_MAX { 0 } else { (2 * ops).next_power_of_two().min(ENTRIES_MAX) };
        if words.len() < ENTRY_WORDS * entries {
            words.resize(ENTRY_WORDS * entries, 0);
        }
        Memo { words, entries, used: false }
    }

    /// The place of the sum of this key and these additional data, and whether it is there already. `None` when there
    /// is neither it nor room near it.
    #[inline(always)]
    fn find(&mut self, key: *const SivKey, aad: u64) -> Option<(*mut u64, bool)> {
        let wanted = [key as usize as u64, aad];
        let hash = (wanted[0] >> 4 ^ wanted[1] << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        for probe in 0..4.min(self.entries) {
            let at = ENTRY_WORDS * ((hash as usize + probe) & (self.entries - 1));
            let entry = &mut self.words[at..at + ENTRY_WORDS];
            let known = entry[0] == wanted[0] && entry[1] == wanted[1];
            if known || entry[0] == 0 {
                entry[..2].copy_from_slice(&wanted);
                self.used = true;
                return Some((&raw mut entry[2], known));
            }
        }
        None
    }

    /// Forgets everything and gives the memory back.
    #[inline(always)]
    fn wipe(mut self) -> Vec<u64> {
        if self.used {
            let used = &mut self.words[..ENTRY_WORDS * self.entries];
            used.fill(0);
            zeroize::optimization_barrier(used);
        }
        self.words
    }
}

/// The sums of a group: where each lane's lies.
pub(super) struct Sums {
    pub(super) places: [*const u64; LANES_MAX],
    /// For those that no memo holds, and for those with a nonce.
    pub(super) own: Results,
}

/// A batch on its way.
struct Run<'k> {
    kernel: AesKernel,
    table: &'k mut KeyTable,
    streams: Streams<'k>,
    memo: Memo,
    /// The key and the additional data of the last group that shared both, and their sum.
    last: (*const SivKey, u64, [u64; 2]),
    /// A group's, one after the other, so that they are wiped once.
    sums: Sums,
    macs: Results,
    tags: Results,
}

impl Run<'_> {
    /// Runs the first `count` operations of `items`, of which there are as many as lanes.
    #[inline]
    fn group(&mut self, work: &mut Work<'_>, items: &[Item], count: usize) {
        let items_here = &items[..count];
        if work.direction() == Direction::Encrypt {
            self.synthetic_ivs(work, items, count);
            for (lane, item) in items_here.iter().enumerate() {
                // SAFETY: sixteen bytes; the batch's check of the message's places; its keys are borrowed.
                unsafe { push(&mut self.streams, item, self.tags.get(lane).as_ptr()) };
            }
            // Only now: a tag just written would stand in the way of the reads of its message.
            for (lane, item) in items_here.iter().enumerate() {
                let index = item.op as usize;
                // SAFETY: as above, also of the tag's sixteen bytes.
                unsafe { work.tag(index).cast::<[u8; 16]>().write(*self.tags.get(lane)) };
                work.done(index);
            }
        } else {
            for item in items_here {
                // SAFETY: as above.
                unsafe { push(&mut self.streams, item, work.tag(item.op as usize)) };
            }
            self.streams.finish();
            self.synthetic_ivs(work, items, count);
            for (lane, item) in items_here.iter().enumerate() {
                // SAFETY: as above.
                unsafe { cbc_mac::settle(work, item.op as usize, self.tags.get(lane), item.len) };
            }
        }
    }

    /// S2V of a group (RFC 5297, 2.4).
    #[inline]
    fn synthetic_ivs(&mut self, work: &Work<'_>, items: &[Item], count: usize) {
        // SAFETY: collected as such; the batch is still borrowed.
        let first = unsafe { key_of(&items[0]) };
        let aad = work.aad_name(items[0].op as usize);
        let (mut one_key, mut one_aad, mut nonces) = (true, true, false);
        for item in &items[..count] {
            let index = item.op as usize;
            // SAFETY: as above.
            one_key &= core::ptr::eq(unsafe { key_of(item) }, first);
            one_aad &= work.aad_name(index) == aad;
            nonces |= work.iv_len(index) != 0;
        }
        if one_key && one_aad {
            self.sum_up_same(work, items);
        } else {
            self.sum_up(work, items, count);
        }
        let encrypt = work.direction() == Direction::Encrypt;
        let group = Group { items, count, one_key, nonces: nonces.then_some(work), encrypt };
        s2v(self.kernel, &group, self.table, &mut self.sums, &mut self.tags);
    }

    /// Finds or computes the sums of a group behind their additional data.
    #[inline(always)]
    fn sum_up(&mut self, work: &Work<'_>, items: &[Item], count: usize) {
        let own = self.sums.own.as_mut_ptr();
        let mut missing: [(usize, *mut u64); LANES_MAX] = [(0, core::ptr::null_mut()); LANES_MAX];
        let mut missed = 0;
        for (lane, item) in items[..count].iter().enumerate() {
            // SAFETY: collected as such; the batch is still borrowed.
            let key = unsafe { key_of(item) };
            let aad = work.aad_name(item.op as usize);
            self.sums.places[lane] = key.without_aad.as_ptr().cast();
            if aad as u16 != 0 {
                let own = own.wrapping_add(2 * lane);
                let (place, known) = self.memo.find(key, aad).unwrap_or((own, false));
                self.sums.places[lane] = place;
                if !known {
                    missing[missed] = (lane, place);
                    missed += 1;
                }
            }
        }
        let last = self.sums.places[count - 1];
        self.sums.places[count..].fill(last);
        if missed != 0 {
            self.authenticate(work, items, &missing[..missed]);
        }
    }

    /// [`Run::sum_up`] when one sum is enough.
    #[inline(always)]
    fn sum_up_same(&mut self, work: &Work<'_>, items: &[Item]) {
        // SAFETY: collected as such; the batch is still borrowed.
        let key = unsafe { key_of(&items[0]) };
        let aad = work.aad_name(items[0].op as usize);
        if aad as u16 == 0 {
            self.sums.places = [key.without_aad.as_ptr().cast(); LANES_MAX];
            return;
        }
        let place = self.last.2.as_mut_ptr();
        if !(core::ptr::eq(self.last.0, key) && self.last.1 == aad) {
            self.authenticate(work, items, &[(0, place)]);
            (self.last.0, self.last.1) = (key, aad);
        }
        self.sums.places = [place; LANES_MAX];
    }

    /// Computes sums behind additional data, of one lane or more.
    #[inline(always)]
    fn authenticate(&mut self, work: &Work<'_>, items: &[Item], missing: &[(usize, *mut u64)]) {
        let job = |lane: usize| {
            let aad = work.aad(items[lane].op as usize);
            // SAFETY: collected as such; the batch is still borrowed.
            cmac::Job { key: unsafe { &key_of(&items[lane]).mac }, data: aad.as_ptr(), len: aad.len() }
        };
        let mut jobs = [job(missing[0].0); LANES_MAX];
        for (to, (lane, _)) in jobs.iter_mut().zip(missing) {
            *to = job(*lane);
        }
        cmac::group(self.kernel, self.table, &jobs[..missing.len().min(LANES_MAX)], &mut self.macs);
        for (i, (lane, place)) in missing.iter().enumerate() {
            // SAFETY: collected as such; the place is an entry of the memo, which is not moved, or the group's own.
            unsafe {
                let start = _mm_loadu_si128(key_of(&items[*lane]).start.as_ptr().cast());
                let sum = cbc_mac::xor(start, _mm_loadu_si128(self.macs.get(i).as_ptr().cast()));
                _mm_storeu_si128(place.cast(), sum);
            }
        }
    }
}

impl SivKey {
    /// The half that the stream is made with.
    pub(super) fn cipher(&self) -> &Schedule {
        &self.cipher
    }
}

/// The sum of S2V behind additional data that all operations share.
pub(super) fn sum_behind(kernel: AesKernel, key: &SivKey, aad: &[u8], table: &mut KeyTable) -> [u64; 2] {
    if aad.is_empty() {
        return words(&key.without_aad);
    }
    let mut macs = Results::empty();
    cmac::group(kernel, table, &[cmac::Job { key: &key.mac, data: aad.as_ptr(), len: aad.len() }], &mut macs);
    let (start, mac) = (words(&key.start), words(macs.get(0)));
    [start[0] ^ mac[0], start[1] ^ mac[1]]
}

/// A block as words, its bytes in their order.
fn words(block: &[u8; 16]) -> [u64; 2] {
    let (words, _) = block.as_chunks::<8>();
    [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])]
}

/// A group for the end of S2V.
pub(super) struct Group<'g, 'w> {
    /// As many as lanes.
    pub(super) items: &'g [Item],
    /// Those that are not idle.
    pub(super) count: usize,
    /// Whether all have one key.
    pub(super) one_key: bool,
    /// Where the nonces are, if any has one.
    pub(super) nonces: Option<&'g Work<'w>>,
    /// Whether plaintexts are the inputs, else the outputs.
    pub(super) encrypt: bool,
}

aes_kernels! {
    /// The end of S2V: nonces and plaintexts.
    pub(super) fn s2v(group: &Group<'_, '_>, table: &mut KeyTable, sums: &mut Sums, tags: &mut Results) = s2v_on
}

#[inline(always)]
fn s2v_on<I: Isa>(isa: I, group: &Group<'_, '_>, table: &mut KeyTable, sums: &mut Sums, tags: &mut Results) {
    if group.count <= I::LEN {
        s2v_vectors::<I, 1>(isa, group, table, sums, tags);
    } else if I::LEN == 4 {
        s2v_vectors::<I, 4>(isa, group, table, sums, tags);
    } else {
        s2v_vectors::<I, 8>(isa, group, table, sums, tags);
    }
}

#[inline(always)]
fn s2v_vectors<I: Isa, const N: usize>(
    isa: I,
    group: &Group<'_, '_>,
    table: &mut KeyTable,
    sums: &mut Sums,
    tags: &mut Results,
) {
    let items = &group.items[..N * I::LEN];
    // SAFETY: collected as such; the batch is still borrowed.
    let first = unsafe { &key_of(&items[0]).mac.schedule };
    if group.one_key {
        s2v_lanes::<I, _, N>(isa, Shared(first), group, sums, tags);
    } else {
        let mut schedules = [first; LANES_MAX];
        for lane in 1..(N * I::LEN).min(LANES_MAX) {
            // SAFETY: as above.
            schedules[lane] = unsafe { &key_of(&items[lane]).mac.schedule };
        }
        s2v_lanes::<I, _, N>(isa, table.fill::<I, N>(isa, &schedules), group, sums, tags);
    }
}

#[inline(always)]
fn s2v_lanes<I: Isa, K: RoundKeys<I>, const N: usize>(
    isa: I,
    keys: K,
    group: &Group<'_, '_>,
    sums: &mut Sums,
    tags: &mut Results,
) {
    let items = &group.items[..N * I::LEN];
    if let Some(work) = group.nonces {
        add_nonces::<I, K, N>(isa, keys, (work, group.items), sums);
    }
    let mut bodies = Bodies::new();
    let mut edges = [[isa.zero(); N]; 2];
    for vector in 0..N {
        let mut pairs = [[cbc_mac::zero(); 4]; 2];
        for i in 0..I::LEN {
            let lane = vector * I::LEN + i;
            let item = &items[lane];
            let plain = if group.encrypt { item.input } else { item.output.cast_const() };
            bodies.set(lane, plain, cbc_mac::blocks_of(item));
            // SAFETY: collected as such; the batch is still borrowed, and its check has found the message's own bytes
            // within the arena; each sum's place holds sixteen bytes.
            unsafe {
                let sum = _mm_loadu_si128(sums.places[lane].cast());
                (pairs[0][i], pairs[1][i]) = edges_of(isa, key_of(item), sum, plain, item.len as usize);
            }
        }
        edges[0][vector] = isa.gather(pairs[0]);
        edges[1][vector] = isa.gather(pairs[1]);
    }
    bodies.align(N * I::LEN);
    let mut states = [isa.zero(); N];
    // SAFETY: aligned just now; blocks before the last two are whole and the message's own.
    unsafe { cbc_mac::chain(isa, keys, &bodies, &edges, &mut states) };
    tags.set::<I, N>(&states);
}

/// Adds the nonces of those operations that have one.
#[inline(always)]
fn add_nonces<I: Isa, K: RoundKeys<I>, const N: usize>(
    isa: I,
    keys: K,
    (work, items): (&Work<'_>, &[Item]),
    sums: &mut Sums,
) {
    let mut all = [[isa.zero(); N]; 3];
    for vector in 0..N {
        let mut lanes = [[cbc_mac::zero(); 4]; 3];
        for i in 0..I::LEN {
            let item = &items[vector * I::LEN + i];
            // SAFETY: collected as such; the batch is still borrowed.
            let key = unsafe { key_of(item) };
            let (nonce, nonce_len) = (work.iv_block(item.op as usize), work.iv_len(item.op as usize));
            // SAFETY: the nonce's own bytes, at most sixteen; sixteen bytes of the sum.
            unsafe {
                let block = cbc_mac::load_last(isa, nonce.as_ptr(), nonce_len, nonce_len);
                let padding = cbc_mac::padding(nonce_len);
                lanes[0][i] = cbc_mac::xor(cbc_mac::xor(block, padding), key.mac.subkey(nonce_len));
                lanes[1][i] = _mm_loadu_si128(sums.places[vector * I::LEN + i].cast());
            }
            lanes[2][i] = cbc_mac::mask(isa, nonce_len != 0);
        }
        for i in 0..3 {
            all[i][vector] = isa.gather(lanes[i]);
        }
    }
    let [blocks, mut before, present] = all;
    let mut macs = [isa.zero(); N];
    cbc_mac::step(isa, keys, &mut macs, &blocks);
    for i in 0..N {
        let added = cbc_mac::double_each(isa, before[i]).xor(macs[i]);
        before[i] = added.and(present[i]).or(before[i].and_not(present[i]));
    }
    sums.own.set::<I, N>(&before);
    let own = sums.own.as_mut_ptr();
    for lane in 0..LANES_MAX {
        sums.places[lane] = own.wrapping_add(2 * lane);
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
/// The item was collected as one of this suite; its batch is borrowed until the streams are finished; sixteen bytes may
/// be read from `iv`.
#[inline(always)]
pub(super) unsafe fn push<'k>(streams: &mut Streams<'k>, item: &Item, iv: *const u8) {
    // SAFETY: the caller's promise, and the batch's check of the message's places; SSE2 is part of x86-64.
    unsafe {
        let iv = _mm_and_si128(_mm_loadu_si128(iv.cast()), _mm_set_epi32(!0x80, !0x80, !0, !0));
        let key: &'k SivKey = key_of(item);
        streams.push(&key.cipher, iv, item.input, item.output, item.len as usize);
    }
}
