//! Poly1305 as a MAC of its own (RFC 8439, 2.5), each message under its one-time key.
//!
//! Short messages go four at a time, a block of each in turns, which hides the chain from block to block; they are ordered
//! by length so that they end together. A long one has several blocks in a vector.

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Direction, OpStatus};

use super::ChaChaKey;
use super::isa::{ChaChaKernel, Isa, chacha_kernels};
use super::poly::{Poly, word};
use super::wide::Wide;
use crate::work::copy_short;
use crate::work::{Item, Scratch, WINDOW_OPS, Work};

/// Short messages side by side.
const TOGETHER: usize = 4;

/// Bytes from which on a message has vectors of its own.
const LONG: usize = 512;

pub(super) fn capability(_: ChaChaKernel) -> Capability {
    Capability::new(&lists::POLY1305, Cost::new(30.0, 18.0, 0.042)).lanes(TOGETHER as u16)
}

chacha_kernels! {
    /// Runs a batch.
    pub(super) fn run(work: &mut Work<'_>, scratch: &mut Scratch) = run_on
}

#[inline(always)]
fn run_on<I: Isa>(isa: I, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut next = 0;
    while scratch.collect_by::<ChaChaKey>(work, &mut next, WINDOW_OPS, |item| item.len as usize / 16) {
        for items in scratch.ordered.chunks(TOGETHER) {
            // SAFETY: the batch's check: inputs lie in the arena, and nothing writes them.
            let tags = unsafe { tags(isa, items) };
            for (item, tag) in items.iter().zip(tags) {
                // SAFETY: the batch's check: sixteen bytes of tag lie in the arena, apart from what is read.
                unsafe { settle(work, item.op as usize, tag) };
            }
        }
    }
}

/// The tags of up to [`TOGETHER`] messages.
///
/// # Safety
/// Their inputs may be read.
#[inline(always)]
unsafe fn tags<I: Isa>(isa: I, items: &[Item]) -> [[u64; 2]; TOGETHER] {
    let mut polys = [Poly::default(); TOGETHER];
    let mut from = [core::ptr::null::<u8>(); TOGETHER];
    let mut blocks = [0; TOGETHER];
    let mut most = 0;
    for (at, item) in items.iter().enumerate() {
        // SAFETY: collected with this type; a key has 32 bytes; a long message has whole steps.
        unsafe {
            polys[at] = Poly::new(item.key::<ChaChaKey>().bytes.as_ptr());
            let len = item.len as usize;
            let mut taken = 0;
            if len >= LONG {
                taken = len - len % I::Wide::STEP;
                let mut wide = I::Wide::new(isa, &polys[at]);
                wide.absorb(isa, item.input, taken);
                wide.finish(isa, &mut polys[at]);
            }
            from[at] = item.input.add(taken);
            blocks[at] = (len - taken) / 16;
        }
        most = most.max(blocks[at]);
    }
    for block in 0..most {
        for at in 0..TOGETHER {
            if block < blocks[at] {
                // SAFETY: the message has this block.
                unsafe { polys[at].block(word(from[at].add(16 * block)), word(from[at].add(16 * block + 8))) };
            }
        }
    }
    let mut tags = [[0; 2]; TOGETHER];
    for (at, item) in items.iter().enumerate() {
        let rest = item.len as usize % 16;
        if rest != 0 {
            let mut last = [0u8; 16];
            // SAFETY: so many bytes lie behind the whole blocks.
            unsafe { copy_short(from[at].add(16 * blocks[at]), last.as_mut_ptr(), rest) };
            last[rest] = 1;
            polys[at].last(u128::from_le_bytes(last));
        }
        tags[at] = polys[at].tag();
    }
    // One-time keys are secret for as long as their messages can be forged.
    polys.fill(Poly::default());
    core::hint::black_box(&mut polys);
    tags
}

/// Writes a tag, or compares it in constant time.
///
/// # Safety
/// Sixteen bytes at the operation's tag may be read and written.
#[inline(always)]
unsafe fn settle(work: &mut Work<'_>, index: usize, tag: [u64; 2]) {
    let place = work.tag(index);
    // SAFETY: the caller's promise.
    unsafe {
        if work.direction() == Direction::Encrypt {
            place.cast::<[u8; 8]>().write(tag[0].to_le_bytes());
            place.add(8).cast::<[u8; 8]>().write(tag[1].to_le_bytes());
            return work.done_with(index, 0);
        }
        let difference = (tag[0] ^ word(place)) | (tag[1] ^ word(place.add(8)));
        if core::hint::black_box(difference) == 0 {
            work.done_with(index, 0);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}
