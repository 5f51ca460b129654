//! AES-GCM-SIV (RFC 8452): keys of its own for every nonce, derived and expanded in lanes.
//!
//! A lane is a message: a vector holds one block of each of [`Isa::LEN`] messages, and four vectors are in flight. That
//! holds for everything: deriving keys, expanding them, POLYVAL by Horner's rule, the tag, the key stream. Messages are
//! ordered by their number of blocks, so that lanes start and end together. Only the data themselves are transposed,
//! a tile of `LEN` blocks of `LEN` messages at a time. Messages of a kilobyte and more have their keys from the lanes
//! too, then a vector each ([`single`]).
//!
//! Floor under AES-256, a message of three blocks without additional data, of four: 6 blocks of derivation, one of the
//! tag, 3 of the key stream, 14 rounds each: 35 vector instructions a message; 13 steps of expansion of 6 instructions:
//! 20; 4 products of 10: 10; transposing twice: 4. About 75 with the accesses, on two ports.

mod keys;
mod lanes;
mod single;

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, AesSize, lists};
use ciphermill_contract::{Capability, Cost, Direction, OpStatus, PreparedKey, Suite};

use super::ghash;
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;

use crate::work::{Beside, Item, Scratch, WINDOW_OPS, Work};
use keys::Group;

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_GCM_SIV, Cost::new(150.0, 25.0, 0.2)).lanes(16)];

/// Lanes of the widest group: four vectors of four.
const LANES: usize = 16;

/// Vectors in flight.
const FLIGHT: usize = 4;

/// Blocks from which on a message has vectors of its own.
const LONG_BLOCKS: usize = 63;

/// What a key becomes: the schedule of the key-generating key.
struct SivKey(Schedule);

/// One operation, read out of its cache line. What follows from the batch's check: `len` bytes may be read at `input`
/// and written at `output`, which is the same place or apart; `aad_len` bytes may be read at `aad`, and sixteen may be
/// read and written at `tag`; the key outlives the run.
#[derive(Clone, Copy)]
struct Message {
    key: *const Schedule,
    /// The nonce, then four bytes of anything.
    iv: __m128i,
    input: *const u8,
    output: *mut u8,
    len: usize,
    aad: *const u8,
    aad_len: usize,
    tag: *mut u8,
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, SivKey(Schedule::new(kernel, key)?)))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let encrypt = work.direction() == Direction::Encrypt;
    match (work.suite(), encrypt) {
        (Suite::Aead(Aead::AesGcmSiv(AesSize::Aes128)), true) => seal_128(kernel, work, scratch),
        (Suite::Aead(Aead::AesGcmSiv(AesSize::Aes128)), false) => open_128(kernel, work, scratch),
        (Suite::Aead(Aead::AesGcmSiv(AesSize::Aes256)), true) => seal_256(kernel, work, scratch),
        (Suite::Aead(Aead::AesGcmSiv(AesSize::Aes256)), false) => open_256(kernel, work, scratch),
        _ => {}
    }
}

aes_kernels! {
    fn seal_128(work: &mut Work<'_>, scratch: &mut Scratch) = run_on::<_, 10, 4, true>
}
aes_kernels! {
    fn open_128(work: &mut Work<'_>, scratch: &mut Scratch) = run_on::<_, 10, 4, false>
}
aes_kernels! {
    fn seal_256(work: &mut Work<'_>, scratch: &mut Scratch) = run_on::<_, 14, 6, true>
}
aes_kernels! {
    fn open_256(work: &mut Work<'_>, scratch: &mut Scratch) = run_on::<_, 14, 6, false>
}

/// `R` rounds, `B` blocks of derivation.
#[inline(always)]
fn run_on<I: Isa, const R: usize, const B: usize, const ENCRYPT: bool>(
    isa: I,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
) {
    if work.len() <= I::LEN {
        groups::<I, R, B, ENCRYPT, 1>(isa, work, scratch);
    } else {
        groups::<I, R, B, ENCRYPT, FLIGHT>(isa, work, scratch);
    }
}

/// All messages, in groups of `G` vectors of lanes.
#[inline(always)]
fn groups<I: Isa, const R: usize, const B: usize, const ENCRYPT: bool, const G: usize>(
    isa: I,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
) {
    let mut group = Group::<I::V, G>::new(isa);
    let mut messages = [Message::NONE; LANES];
    let mut next = 0;
    while scratch.collect_by::<SivKey>(work, &mut next, WINDOW_OPS, class) {
        for items in scratch.ordered.chunks(G * I::LEN) {
            Message::read(&mut messages, G * I::LEN, work, items);
            // SAFETY: what a message promises follows from the batch's check.
            let good = unsafe { lanes::group::<I, R, B, ENCRYPT, G>(isa, &messages, items.len(), &mut group) };
            for (lane, item) in items.iter().enumerate() {
                if good >> lane & 1 == 1 {
                    work.done(item.op as usize);
                } else {
                    work.fail(item.op as usize, OpStatus::AuthFailed);
                }
            }
        }
    }
    group.wipe(isa);
}

/// Blocks of data, as far as classes go.
#[inline(always)]
fn class(item: &Item) -> usize {
    (item.len as usize).div_ceil(16).min(LONG_BLOCKS)
}

impl Message {
    /// No message: a place for one.
    const NONE: Message = Message {
        key: core::ptr::null(),
        // SAFETY: any bits are a vector.
        iv: unsafe { core::mem::transmute::<[u8; 16], __m128i>([0; 16]) },
        input: core::ptr::null(),
        output: core::ptr::null_mut(),
        len: 0,
        aad: core::ptr::null(),
        aad_len: 0,
        tag: core::ptr::null_mut(),
    };

    /// Reads the messages of a group of `lanes`. Lanes without one have the first one's key and nonce, and no data.
    #[inline(always)]
    fn read(messages: &mut [Message; LANES], lanes: usize, work: &Work<'_>, items: &[Item]) {
        for (message, item) in messages.iter_mut().zip(items) {
            *message = Message::new(work, item);
        }
        let none = Message { len: 0, aad_len: 0, ..messages[0] };
        for lane in items.len()..lanes.min(LANES) {
            messages[lane] = none;
        }
    }

    #[inline(always)]
    fn new(work: &Work<'_>, item: &Item) -> Message {
        let Beside { iv, aad, aad_len, tag, .. } = work.beside(item.op as usize);
        Message {
            // SAFETY: collected with this type; the batch is still borrowed.
            key: unsafe { &raw const item.key::<SivKey>().0 },
            // SAFETY: sixteen bytes; SSE2 is part of x86-64.
            iv: unsafe { _mm_loadu_si128(iv.as_ptr().cast()) },
            input: item.input,
            output: item.output,
            len: item.len as usize,
            aad,
            aad_len,
            tag,
        }
    }
}

/// The block of lengths in bits (RFC 8452, 4).
#[inline(always)]
fn lengths(message: &Message) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set_epi64x(8 * message.len as i64, 8 * message.aad_len as i64) }
}

/// The block that becomes the tag: the hash with the nonce added and its top bit cleared (RFC 8452, 4).
#[inline(always)]
fn tag_block<I: Isa>(isa: I, hash: I::V, iv: I::V) -> I::V {
    let nonce = iv.and(isa.pair(u64::MAX, u64::from(u32::MAX)));
    hash.xor(nonce).and(isa.pair(u64::MAX, u64::MAX >> 1))
}

/// The first counter block: the tag with its top bit set.
#[inline(always)]
fn counter_block<I: Isa>(isa: I, tag: I::V) -> I::V {
    tag.or(isa.pair(0, 1 << 63))
}
