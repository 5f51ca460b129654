//! AES-SIV of columns that have one key, share their additional data and have no nonces, as the deterministic values of a
//! table do: lanes are filled straight from the caller's buffers, and short values are one vector of stream each.
//!
//! Floor, for 25 bytes under AES-256 and 512-bit vectors: 2 blocks of MAC over 4 lanes a vector and one vector of stream at 14
//! rounds, 21 AES instructions, one a cycle.

// As in [`super::cbc_mac`].
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;
use core::ops::Range;

use ciphermill_contract::columns::{PreparedColumn, TagPlace};
use ciphermill_contract::{CheckedColumns, Direction, Occupancy, OpStatus, SuiteName};
use zeroize::Zeroize;

use super::cbc_mac::{self, KeyTable, LANES_MAX, Results, middle_rounds, round_key};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;
use super::siv::{Group, SivKey, Sums, push, s2v, sum_behind};
use super::streams::{Streams, count_up, load, store};
use crate::columns::Columns;
use crate::work::Item;

/// Vectors of stream in flight.
const FLIGHT: usize = 8;

/// How many blocks the longest value of a window may have more than the shortest: beyond, ordering them by length pays.
const SPREAD_MAX: u32 = 1;

/// The way of such columns, with what all of their operations share.
pub(crate) struct SivColumns<'k> {
    kernel: AesKernel,
    direction: Direction,
    key: &'k SivKey,
    /// The sum of S2V behind the additional data.
    sum: [u64; 2],
    table: KeyTable,
    sums: Sums,
    tags: Results,
    streams: Streams<'k>,
}

impl<'k> SivColumns<'k> {
    /// For these columns, if they are such ones.
    pub(crate) fn of(kernel: AesKernel, columns: &CheckedColumns<'k>) -> Option<SivColumns<'k>> {
        let (layout, suite) = (columns.layout(), columns.suite());
        let PreparedColumn::One(key) = columns.prepared() else { return None };
        let key = key.state_for::<SivKey>(SuiteName::from(suite))?;
        let aad = layout.shared_aad()?;
        // None was left out, and none has ended already.
        let all_pending = columns.statuses().iter().fold(true, |all, status| all & status.is_pending());
        if columns.is_empty() || !all_pending || layout.iv_len() != 0 {
            return None;
        }
        let is_inline = matches!(layout.tag(0, layout.data(0)), TagPlace::Output(_) | TagPlace::Input(_));
        if !is_inline || layout.sealed_head() != layout.tag_len() {
            return None;
        }
        let mut table = KeyTable::new();
        let sum = sum_behind(kernel, key, aad, &mut table);
        let sums = Sums { places: [core::ptr::null(); LANES_MAX], own: Results::empty() };
        let (direction, streams) = (columns.direction(), Streams::new(kernel));
        Some(SivColumns { kernel, direction, key, sum, table, sums, tags: Results::empty(), streams })
    }

    /// Runs the operations of a window. `false`, and nothing has happened, where their lengths are too far apart.
    pub(crate) fn run(&mut self, columns: &mut Columns<'_>, occupancy: &mut Occupancy) -> bool {
        let (least, most) = columns.data_len_bounds();
        let blocks = |len: u32| len.div_ceil(16).max(1);
        if blocks(most) - blocks(least) > SPREAD_MAX {
            return false;
        }
        self.sums.places = [self.sum.as_ptr(); LANES_MAX];
        let lanes = cbc_mac::lanes(self.kernel);
        let is_short = most as usize <= 16 * cbc_mac::vector_blocks(self.kernel);
        for first in (0..columns.len()).step_by(lanes) {
            let here = first..columns.len().min(first + lanes);
            let items = self.items(columns, here.clone());
            let busy: usize = items[..here.len()].iter().map(cbc_mac::blocks_of).sum();
            occupancy.add(busy, (lanes * blocks(most) as usize).saturating_sub(busy));
            match self.direction {
                Direction::Encrypt => self.seal(&items, columns, here, is_short),
                Direction::Decrypt => self.open(&items, columns, here, is_short),
            }
        }
        true
    }

    /// The operations of a group; idle lanes do once more what the last one does.
    #[inline(always)]
    fn items(&self, columns: &Columns<'_>, here: Range<usize>) -> [Item; LANES_MAX] {
        let key = core::ptr::from_ref(self.key).cast();
        let mut items = [Item::new(core::ptr::null(), core::ptr::null_mut(), key, 0); LANES_MAX];
        let mut count = 0;
        columns.each_data(here, |input, output, len| {
            items[count % LANES_MAX] = Item::new(input, output, key, len);
            count += 1;
        });
        let last = items[(count - 1) % LANES_MAX];
        items[count..].fill(last);
        items
    }

    fn synthetic_ivs(&mut self, items: &[Item; LANES_MAX], count: usize) {
        let items = &items[..cbc_mac::lanes(self.kernel)];
        let encrypt = self.direction == Direction::Encrypt;
        let group = Group { items, count, one_key: true, nonces: None, encrypt };
        s2v(self.kernel, &group, &mut self.table, &mut self.sums, &mut self.tags);
    }

    /// Adds the streams that begin at `ivs` to the messages.
    #[inline(always)]
    fn add_streams(&mut self, items: &[Item], ivs: &[*const u8; LANES_MAX], is_short: bool) {
        if is_short {
            return short(self.kernel, self.key.cipher(), items, ivs);
        }
        for (item, iv) in items.iter().zip(ivs) {
            // SAFETY: the check of the message's places; sixteen bytes of IV; finished before anybody else touches them.
            unsafe { push(&mut self.streams, item, *iv) };
        }
        self.streams.finish();
    }

    fn seal(&mut self, items: &[Item; LANES_MAX], columns: &mut Columns<'_>, here: Range<usize>, is_short: bool) {
        let count = here.len();
        self.synthetic_ivs(items, count);
        let mut ivs = [core::ptr::null(); LANES_MAX];
        for lane in 0..LANES_MAX {
            ivs[lane] = self.tags.get(lane).as_ptr();
        }
        self.add_streams(&items[..count], &ivs, is_short);
        // Only now: a tag just written would stand in the way of the reads of its message.
        for lane in 0..count {
            // SAFETY: the tag's sixteen bytes lie directly before the ciphertext.
            unsafe { items[lane].output.sub(16).cast::<[u8; 16]>().write(*self.tags.get(lane)) };
        }
        columns.done(here);
    }

    fn open(&mut self, items: &[Item; LANES_MAX], columns: &mut Columns<'_>, here: Range<usize>, is_short: bool) {
        let count = here.len();
        let mut ivs = [core::ptr::null(); LANES_MAX];
        for lane in 0..LANES_MAX {
            // SAFETY: the tag's sixteen bytes lie directly before the ciphertext.
            ivs[lane] = unsafe { items[lane].input.sub(16) };
        }
        self.add_streams(&items[..count], &ivs, is_short);
        self.synthetic_ivs(items, count);
        for (lane, index) in here.enumerate() {
            // SAFETY: as above.
            let given = unsafe { ivs[lane].cast::<u128>().read_unaligned() };
            let difference = given ^ u128::from_le_bytes(*self.tags.get(lane));
            // One number, so that no comparison can end early.
            if core::hint::black_box(difference as u64 | (difference >> 64) as u64) == 0 {
                columns.end(index, OpStatus::Done);
            } else {
                columns.end(index, OpStatus::AuthFailed);
                // SAFETY: the output's own bytes.
                unsafe { core::ptr::write_bytes(items[lane].output, 0, items[lane].len as usize) };
            }
        }
    }
}

impl Drop for SivColumns<'_> {
    fn drop(&mut self) {
        self.sum.zeroize();
    }
}

aes_kernels! {
    /// Adds streams to messages of a vector or less.
    fn short(key: &Schedule, items: &[Item], ivs: &[*const u8; LANES_MAX]) = short_on
}

#[inline(always)]
fn short_on<I: Isa>(isa: I, key: &Schedule, items: &[Item], ivs: &[*const u8; LANES_MAX]) {
    let mut at = 0;
    while at < items.len() {
        let mut blocks = [isa.zero(); FLIGHT];
        for i in 0..FLIGHT {
            // SAFETY: sixteen bytes of IV. RFC 5297, 2.5: two bits are cleared, so counting in 32 bits is enough.
            let iv = unsafe {
                let iv = _mm_loadu_si128(ivs[(at + i) % LANES_MAX].cast());
                _mm_and_si128(iv, _mm_set_epi32(!0x80, !0x80, !0, !0))
            };
            blocks[i] = count_up(isa, iv, 0).xor(round_key(isa, key, 0));
        }
        let rounds = key.rounds();
        middle_rounds!(rounds, |round| {
            for i in 0..FLIGHT {
                blocks[i] = blocks[i].aes_enc(round_key(isa, key, round));
            }
        });
        let flight = &items[at..items.len().min(at + FLIGHT)];
        for i in 0..FLIGHT {
            blocks[i] = blocks[i].aes_enc_last(round_key(isa, key, rounds));
        }
        // All reads come before the writes, as in [`super::streams`].
        for i in 0..flight.len() {
            // SAFETY: the message's own bytes, a vector or less.
            blocks[i] = blocks[i].xor(unsafe { load(isa, flight[i].input, flight[i].len as usize) });
        }
        for i in 0..flight.len() {
            // SAFETY: as above.
            unsafe { store::<I>(blocks[i], flight[i].output, flight[i].len as usize) };
        }
        at += FLIGHT;
    }
}
