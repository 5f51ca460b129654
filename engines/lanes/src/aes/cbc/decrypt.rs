//! CBC decryption: blocks of one message fill a vector.
//!
//! Every message's first four blocks are decrypted as the message comes, without a branch on its length, so that the
//! processor overlaps several messages by itself; what is longer waits in a short list.
//!
//! Floor with 512-bit vectors: 10 AES instructions of one cycle each for up to four blocks (128-bit keys).

use core::arch::x86_64::*;

use super::{CbcScratch, FromLanes};
use crate::aes::isa::{Blocks, Isa, aes_kernels};
use crate::aes::message::{FromWork, Message, Messages};
use crate::aes::schedule::Schedule;

/// Bytes of a message that are decrypted as it comes.
const HEAD: usize = 64;

/// Messages that may wait for the rest of their blocks.
const WAITING: usize = 64;

/// Vectors in flight for long messages.
const FLIGHT: usize = 8;

aes_kernels! {
    /// Decrypts a batch.
    pub(super) fn batch(rounds: usize, source: &mut FromWork<'_, '_>, scratch: &mut CbcScratch) = decrypt_on
}

aes_kernels! {
    /// Decrypts a list.
    pub(super) fn lanes(rounds: usize, source: &mut FromLanes<'_, '_>, scratch: &mut CbcScratch) = decrypt_on
}

#[inline(always)]
fn decrypt_on<I: Isa, S: Messages>(isa: I, rounds: usize, source: &mut S, scratch: &mut CbcScratch) {
    match rounds {
        10 => decrypt::<I, S, 10>(isa, source, scratch),
        12 => decrypt::<I, S, 12>(isa, source, scratch),
        _ => decrypt::<I, S, 14>(isa, source, scratch),
    }
}

#[inline(always)]
fn decrypt<I: Isa, S: Messages, const ROUNDS: usize>(isa: I, source: &mut S, scratch: &mut CbcScratch) {
    let waiting = &mut scratch.waiting;
    while let Some(message) = source.next() {
        // SAFETY: the list is borrowed until the end of this function.
        let key = unsafe { &message.key().decrypt };
        // SAFETY: within the message, as its list promises.
        let last = unsafe { head::<I, ROUNDS>(isa, key, &message, message.len.min(HEAD)) };
        waiting.push(message.behind(HEAD, last));
        // Pushed and perhaps taken back: a branch would be mispredicted.
        let keep = waiting.len() - usize::from(message.len <= HEAD);
        waiting.truncate(keep);
        if waiting.len() == WAITING {
            drain::<I, ROUNDS>(isa, waiting);
        }
    }
    drain::<I, ROUNDS>(isa, waiting);
}

/// Decrypts what waits.
#[inline(always)]
fn drain<I: Isa, const ROUNDS: usize>(isa: I, waiting: &mut Vec<Message>) {
    for message in waiting.iter() {
        // SAFETY: the messages' list is still borrowed.
        let key = unsafe { &message.key().decrypt };
        let step = FLIGHT * 16 * I::LEN;
        let mut rest = *message;
        while rest.len >= step {
            // SAFETY: within the message, as its list promises.
            let last = unsafe { vectors::<I, FLIGHT, ROUNDS>(isa, key, &rest) };
            rest = rest.behind(step, last);
        }
        while rest.len != 0 {
            let here = rest.len.min(HEAD);
            // SAFETY: within the message, as its list promises.
            let last = unsafe { head::<I, ROUNDS>(isa, key, &rest, here) };
            rest = rest.behind(here, last);
        }
    }
    waiting.clear();
}

/// Decrypts the first `len` bytes, whole blocks, at most [`HEAD`]. Returns the last ciphertext block if they were
/// [`HEAD`] bytes.
///
/// # Safety
/// They may be read and written at the message's places.
#[inline(always)]
unsafe fn head<I: Isa, const ROUNDS: usize>(isa: I, key: &Schedule, message: &Message, len: usize) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe {
        match I::LEN {
            4 => partial::<I, 1, ROUNDS>(isa, key, message, len),
            2 => partial::<I, 2, ROUNDS>(isa, key, message, len),
            _ => partial::<I, 4, ROUNDS>(isa, key, message, len),
        }
    }
}

/// As [`head`], with `N` vectors.
#[inline(always)]
unsafe fn partial<I: Isa, const N: usize, const ROUNDS: usize>(
    isa: I,
    key: &Schedule,
    message: &Message,
    len: usize,
) -> __m128i {
    let width = 16 * I::LEN;
    let here = |v: usize| len.saturating_sub(v * width).min(width);
    let place = |v: usize| (v * width).min(len);
    // SAFETY: the caller's promise; all is read before anything is written.
    unsafe {
        let cipher: [I::V; N] = core::array::from_fn(|v| isa.load_partial(message.input.add(place(v)), here(v)));
        let plain = open::<I, N, ROUNDS>(isa, key, message.iv, &cipher);
        for (v, block) in plain.iter().enumerate() {
            block.store_partial(message.output.add(place(v)), here(v));
        }
        cipher[N - 1].extract(I::LEN - 1)
    }
}

/// Decrypts `N` whole vectors and returns the last ciphertext block.
///
/// # Safety
/// They may be read and written at the message's places.
#[inline(always)]
unsafe fn vectors<I: Isa, const N: usize, const ROUNDS: usize>(isa: I, key: &Schedule, message: &Message) -> __m128i {
    let width = 16 * I::LEN;
    // SAFETY: the caller's promise; all is read before anything is written.
    unsafe {
        let cipher: [I::V; N] = core::array::from_fn(|v| isa.load(message.input.add(v * width)));
        let plain = open::<I, N, ROUNDS>(isa, key, message.iv, &cipher);
        for (v, block) in plain.iter().enumerate() {
            block.store(message.output.add(v * width));
        }
        cipher[N - 1].extract(I::LEN - 1)
    }
}

/// Plaintext of consecutive vectors. The previous ciphertext block goes into the last round key.
#[inline(always)]
fn open<I: Isa, const N: usize, const ROUNDS: usize>(
    isa: I,
    key: &Schedule,
    iv: __m128i,
    cipher: &[I::V; N],
) -> [I::V; N] {
    let first = key.splat(isa, 0);
    let mut state: [I::V; N] = core::array::from_fn(|v| cipher[v].xor(first));
    for round in 1..ROUNDS {
        let round_key = key.splat(isa, round);
        for block in &mut state {
            *block = block.aes_dec(round_key);
        }
    }
    let last = key.splat(isa, ROUNDS);
    let mut previous = isa.splat(iv);
    for (block, cipher) in state.iter_mut().zip(cipher) {
        *block = block.aes_dec_last(last.xor(cipher.behind(previous)));
        previous = *cipher;
    }
    state
}
