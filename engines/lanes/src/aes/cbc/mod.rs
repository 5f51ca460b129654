//! AES-CBC (NIST SP 800-38A, 6.2). Encryption is serial within a message and runs many messages side by side, a key a
//! lane; decryption is parallel within a message.

mod decrypt;
mod encrypt;

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{BlockCipher, lists};
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};

use super::isa::AesKernel;
use super::message::{FromWork, Message, Messages};
use super::schedule::AesKey;
use crate::engine::Prepared;
use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_CBC, Cost::new(60.0, 10.0, 0.06)).lanes(16)];

/// What a queue keeps for CBC: transposed keys and messages that wait. Empty until it is used; no keys stay in it.
#[derive(Default)]
pub(crate) struct CbcScratch {
    groups: Vec<encrypt::Group>,
    waiting: Vec<Message>,
}

/// One message of a list that another family has made (a chain's cipher step).
pub(crate) struct CbcLane<'k> {
    /// The key; all of one list are of one size.
    pub(crate) key: &'k AesKey,
    /// The IV.
    pub(crate) iv: [u8; 16],
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output.
    pub(crate) output: *mut u8,
    /// Bytes, whole blocks of 16; what goes beyond the last whole block is left alone.
    pub(crate) len: usize,
}

/// Runs CBC over a list of messages of any lengths, with keys of one size.
///
/// # Safety
/// `len` bytes may be read at each message's input and written at its output, which is the same place or apart; nothing
/// that one message writes is read or written by another.
pub(crate) unsafe fn messages(
    kernel: AesKernel,
    direction: Direction,
    lanes: &[CbcLane<'_>],
    scratch: &mut CbcScratch,
) {
    let Some(first) = lanes.first() else { return };
    let rounds = first.key.encrypt.rounds();
    assert!(lanes.iter().all(|lane| lane.key.encrypt.rounds() == rounds), "keys of one size");
    let mut source = FromLanes { lanes };
    match direction {
        Direction::Encrypt => encrypt::all(kernel, rounds, &mut source, scratch),
        Direction::Decrypt => decrypt::lanes(kernel, rounds, &mut source, scratch),
    }
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(Prepared::key(suite, AesKey::new(kernel, key)?))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let Suite::Cipher(BlockCipher::Aes(size), _) = work.suite() else { return };
    let rounds = size.key_len() / 4 + 6;
    let direction = work.direction();
    let mut source = FromWork::new(work);
    match direction {
        Direction::Encrypt => encrypt::all(kernel, rounds, &mut source, &mut scratch.cbc),
        Direction::Decrypt => decrypt::batch(kernel, rounds, &mut source, &mut scratch.cbc),
    }
}

/// The rest of a caller's list.
struct FromLanes<'l, 'k> {
    lanes: &'l [CbcLane<'k>],
}

// SAFETY: the promise of the caller of `messages`.
unsafe impl Messages for FromLanes<'_, '_> {
    #[inline(always)]
    fn next(&mut self) -> Option<Message> {
        let (lane, rest) = self.lanes.split_first()?;
        self.lanes = rest;
        // SAFETY: sixteen bytes may be read; SSE2 is part of x86-64.
        let iv = unsafe { _mm_loadu_si128(lane.iv.as_ptr().cast()) };
        Some(Message { key: lane.key, iv, input: lane.input, output: lane.output, len: lane.len & !15 })
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.lanes.len()
    }
}
