//! ChaCha20 as a stream cipher (RFC 8439, 2.4). A 12-byte IV is the nonce and the counter starts at zero; a 16-byte IV
//! begins with the counter.

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, OpStatus, Reason};

use super::ChaChaKey;
use super::cipher::{self, Lane, Long, Waiting, mode};
use super::isa::{ChaChaKernel, Isa, chacha_kernels};
use crate::work::{Item, Scratch, Work};

pub(super) fn capability(kernel: ChaChaKernel) -> Capability {
    Capability::new(&lists::CHACHA20, Cost::new(140.0, 11.0, 0.135)).lanes(kernel.lanes())
}

chacha_kernels! {
    /// Runs a batch.
    pub(super) fn run(work: &mut Work<'_>, scratch: &mut Scratch) = run_on
}

#[inline(always)]
fn run_on<I: Isa>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut waiting = Waiting::new();
    let mut next = 0;
    while work.collect::<ChaChaKey>(&mut next, &mut scratch.items) {
        let mut at = 0;
        while at < scratch.items.len() {
            waiting.settle();
            while at < scratch.items.len() && waiting.has_room() {
                enqueue(isa, work, &mut waiting, &scratch.items[at]);
                at += 1;
            }
            let last = at == scratch.items.len();
            while waiting.count() >= I::LEN || last && waiting.count() != 0 {
                scratch.occupancy.busy += waiting.count().min(I::LEN) as u64;
                scratch.occupancy.idle += I::LEN.saturating_sub(waiting.count()) as u64;
                // SAFETY: lanes were pushed with places of operations, which the batch's check found apart.
                unsafe { cipher::next_pass::<I, { mode::STREAM }>(isa, &mut waiting) };
            }
        }
    }
}

/// Runs an operation's whole passes and leaves the rest of it waiting. The operation counts as done, since nothing can
/// fail any more.
#[inline(always)]
fn enqueue<I: Isa>(isa: I, work: &mut Work<'_>, waiting: &mut Waiting, item: &Item) {
    let index = item.op as usize;
    // SAFETY: collected with this type; the batch is still borrowed.
    let key = unsafe { item.key::<ChaChaKey>() }.bytes.as_ptr();
    let (len, mut row) = (item.len as usize, counter_nonce(work.iv_number(index), work.iv_len(index)));
    // RFC 8439 does not say what follows the last of 2^32 blocks.
    if (row & u128::from(u32::MAX)) + len.div_ceil(64) as u128 > 1 << 32 {
        return work.fail(index, OpStatus::BadInput(Reason::InputTooLong));
    }
    let chunk = 64 * I::LEN;
    let mut at = 0;
    // SAFETY: the batch's check: `len` bytes lie at both places, and they are one place or apart.
    unsafe {
        if len >= chunk {
            let mut long = Long::new(isa, key, row);
            while at + chunk <= len {
                long.blocks(isa, item.input.add(at), item.output.add(at));
                at += chunk;
            }
            row = row.wrapping_add(at as u128 / 64);
        }
        while at < len {
            let (input, output) = (item.input.add(at), item.output.add(at));
            let tape = core::ptr::null_mut();
            waiting.push(Lane { key, counter_nonce: row, input, output, tape, len: (len - at).min(64) });
            // A counter that wraps here belongs to no block.
            row = row.wrapping_add(1);
            at += 64;
        }
    }
    work.done(index);
}

/// The last row of the state: counter and nonce. Bytes of `iv` behind a short one fall out at the top.
#[inline(always)]
fn counter_nonce(row: u128, len: usize) -> u128 {
    if len == 16 { row } else { row << 32 }
}
