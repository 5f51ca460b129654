//! Modes that are parallel within a message: ECB, CBC decryption, CTR, XTS. Blocks of one message fill a vector.
//!
//! Every message's first four blocks are done as the message comes, without a branch on its length, so that the
//! processor overlaps the work on several messages by itself; the rest of what is longer waits in a short list. Long
//! messages run at once, eight vectors in flight.
//!
//! Floor with 512-bit vectors: one AES instruction a round and vector, one a cycle: 10 to 14 cycles for up to four
//! blocks. Loads, stores and a mode's own work go to other ports but for a few shifts.

use core::arch::x86_64::__m128i;

use super::isa::{Blocks, Isa};
use super::message::{Message, Messages};
use super::schedule::{AesKey, Schedule};

/// Bytes of a message that are done as it comes.
const HEAD: usize = 64;

/// Messages that may wait for the rest of their blocks.
const WAITING: usize = 64;

/// Vectors in flight for long messages.
const FLIGHT: usize = 8;

/// What a mode does with consecutive blocks.
pub(super) trait Mode {
    /// Transforms `N` vectors of consecutive blocks. `iv` is what the mode chains: a ciphertext block, a counter, a
    /// tweak. Returns it for the block behind them.
    fn run<I: Isa, const N: usize, const ROUNDS: usize>(
        isa: I,
        key: &AesKey,
        iv: __m128i,
        blocks: &mut [I::V; N],
    ) -> __m128i;
}

/// Runs a mode over all messages of a list whose keys have `rounds` rounds. `waiting` is empty before and afterwards.
#[inline(always)]
pub(super) fn drive<I: Isa, M: Mode>(isa: I, rounds: usize, source: &mut impl Messages, waiting: &mut Vec<Message>) {
    waiting.clear();
    waiting.reserve(WAITING);
    match rounds {
        10 => drive_sized::<I, M, 10>(isa, source, waiting),
        12 => drive_sized::<I, M, 12>(isa, source, waiting),
        _ => drive_sized::<I, M, 14>(isa, source, waiting),
    }
}

#[inline(always)]
fn drive_sized<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, source: &mut impl Messages, waiting: &mut Vec<Message>) {
    while let Some(message) = source.next() {
        if message.len >= FLIGHT * 16 * I::LEN {
            // SAFETY: the list of messages is borrowed until the end of this function.
            unsafe { whole::<I, M, ROUNDS>(isa, message) };
            continue;
        }
        // SAFETY: as above.
        let next = unsafe { head::<I, M, ROUNDS>(isa, &message, message.len.min(HEAD)) };
        waiting.push(message.behind(HEAD, next));
        // Pushed and perhaps taken back: a branch would be mispredicted.
        let keep = waiting.len() - usize::from(message.len <= HEAD);
        waiting.truncate(keep);
        if waiting.len() == WAITING {
            drain::<I, M, ROUNDS>(isa, waiting);
        }
    }
    drain::<I, M, ROUNDS>(isa, waiting);
}

/// Finishes what waits.
#[inline(always)]
fn drain<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, waiting: &mut Vec<Message>) {
    for message in waiting.iter() {
        let mut rest = *message;
        while rest.len != 0 {
            let here = rest.len.min(HEAD);
            // SAFETY: the messages' list is still borrowed.
            let next = unsafe { head::<I, M, ROUNDS>(isa, &rest, here) };
            rest = rest.behind(here, next);
        }
    }
    waiting.clear();
}

/// A long message from beginning to end.
///
/// # Safety
/// The list that it came from is borrowed.
#[inline(always)]
unsafe fn whole<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, message: Message) {
    let width = 16 * I::LEN;
    let mut rest = message;
    while rest.len >= FLIGHT * width {
        // SAFETY: within the message, as its list promises; all vectors are read before any is written.
        let next = unsafe {
            let mut blocks: [I::V; FLIGHT] = core::array::from_fn(|v| isa.load(rest.input.add(v * width)));
            let next = M::run::<I, FLIGHT, ROUNDS>(isa, message.key(), rest.iv, &mut blocks);
            for (v, block) in blocks.iter().enumerate() {
                block.store(rest.output.add(v * width));
            }
            next
        };
        rest = rest.behind(FLIGHT * width, next);
    }
    while rest.len != 0 {
        let here = rest.len.min(HEAD);
        // SAFETY: the caller's promise.
        let next = unsafe { head::<I, M, ROUNDS>(isa, &rest, here) };
        rest = rest.behind(here, next);
    }
}

/// The first `len` bytes of a message, at most [`HEAD`]. Returns the IV of what is behind [`HEAD`] bytes.
///
/// # Safety
/// The list that the message came from is borrowed; it has `len` bytes.
#[inline(always)]
unsafe fn head<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, message: &Message, len: usize) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe {
        match I::LEN {
            4 => partial::<I, M, 1, ROUNDS>(isa, message, len),
            2 => partial::<I, M, 2, ROUNDS>(isa, message, len),
            _ => partial::<I, M, 4, ROUNDS>(isa, message, len),
        }
    }
}

/// As [`head`], with `N` vectors of [`HEAD`] bytes together.
///
/// # Safety
/// As for [`head`].
#[inline(always)]
unsafe fn partial<I: Isa, M: Mode, const N: usize, const ROUNDS: usize>(
    isa: I,
    message: &Message,
    len: usize,
) -> __m128i {
    let width = 16 * I::LEN;
    let here = |v: usize| len.saturating_sub(v * width).min(width);
    let place = |v: usize| (v * width).min(len);
    // SAFETY: the caller's promise; all is read before anything is written.
    unsafe {
        let mut blocks: [I::V; N] = core::array::from_fn(|v| isa.load_partial(message.input.add(place(v)), here(v)));
        let next = M::run::<I, N, ROUNDS>(isa, message.key(), message.iv, &mut blocks);
        for (v, block) in blocks.iter().enumerate() {
            block.store_partial(message.output.add(place(v)), here(v));
        }
        next
    }
}

/// Encrypts blocks under one key whose rounds are known.
#[inline(always)]
pub(super) fn encipher<I: Isa, const N: usize, const ROUNDS: usize>(isa: I, key: &Schedule, blocks: &mut [I::V; N]) {
    let first = key.splat(isa, 0);
    for block in blocks.iter_mut() {
        *block = block.xor(first);
    }
    for round in 1..ROUNDS {
        let round_key = key.splat(isa, round);
        for block in blocks.iter_mut() {
            *block = block.aes_enc(round_key);
        }
    }
    let last = key.splat(isa, ROUNDS);
    for block in blocks.iter_mut() {
        *block = block.aes_enc_last(last);
    }
}

/// Decrypts blocks under one inverse schedule whose rounds are known.
#[inline(always)]
pub(super) fn decipher<I: Isa, const N: usize, const ROUNDS: usize>(isa: I, key: &Schedule, blocks: &mut [I::V; N]) {
    let first = key.splat(isa, 0);
    for block in blocks.iter_mut() {
        *block = block.xor(first);
    }
    for round in 1..ROUNDS {
        let round_key = key.splat(isa, round);
        for block in blocks.iter_mut() {
            *block = block.aes_dec(round_key);
        }
    }
    let last = key.splat(isa, ROUNDS);
    for block in blocks.iter_mut() {
        *block = block.aes_dec_last(last);
    }
}
