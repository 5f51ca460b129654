//! Modes that are parallel within a message: ECB, CBC decryption, CTR, XTS. Blocks of one message fill a vector.
//!
//! Messages are done in groups, each under its own key: the first four blocks of each without a branch on its length;
//! what is longer comes back in another group. Long messages run alone, eight vectors in flight, but for their ends.
//!
//! Floor with 512-bit vectors: one AES instruction a round and vector, one a cycle: 10 to 14 cycles for up to four
//! blocks. Loads, stores and a mode's own work go to other ports but for a few shifts.

use core::arch::x86_64::__m128i;

use super::isa::{Blocks, Isa};
use super::message::{Message, Messages};
use super::schedule::{AesKey, Schedule};

/// Bytes of a message that are done at a time.
const HEAD: usize = 64;

/// Messages that may wait for the rest of their blocks.
const WAITING: usize = 64;

/// Vectors in flight for long messages.
const FLIGHT: usize = 8;

/// Bytes from which on a message runs alone: more than half of what is in flight then with the widest vectors.
const LONG: usize = 288;

/// Which way the cipher runs.
pub(super) trait Way {
    /// Whether it runs backwards.
    const DECRYPTS: bool;
}

/// What a mode does with consecutive blocks before and after the cipher.
pub(super) trait Mode: Way {
    /// Makes consecutive blocks of a message what the cipher takes, and gives what is added to what comes out of it.
    /// `iv` is what the mode chains: a ciphertext block, a counter, a tweak; it comes back for the block behind.
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i);
}

/// Runs a mode over all messages of a list whose keys have `rounds` rounds. `waiting` is empty before and afterwards.
#[inline(always)]
pub(super) fn drive<I: Isa, M: Mode>(isa: I, rounds: usize, source: &mut impl Messages, waiting: &mut Vec<Message>) {
    match rounds {
        10 => drive_sized::<I, M, 10>(isa, source, waiting),
        12 => drive_sized::<I, M, 12>(isa, source, waiting),
        _ => drive_sized::<I, M, 14>(isa, source, waiting),
    }
}

/// Groups as large as the registers hold: eight vectors of state.
#[inline(always)]
fn drive_sized<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, source: &mut impl Messages, waiting: &mut Vec<Message>) {
    waiting.clear();
    waiting.reserve(WAITING);
    match I::LEN {
        4 => drive_grouped::<I, M, 8, 1, ROUNDS>(isa, source, waiting),
        2 => drive_grouped::<I, M, 4, 2, ROUNDS>(isa, source, waiting),
        _ => drive_grouped::<I, M, 2, 4, ROUNDS>(isa, source, waiting),
    }
}

/// Groups of `G` messages, `N` vectors of each, which are [`HEAD`] bytes. Each kernel is called from one place, so that
/// it is built once.
#[inline(always)]
fn drive_grouped<I: Isa, M: Mode, const G: usize, const N: usize, const ROUNDS: usize>(
    isa: I,
    source: &mut impl Messages,
    waiting: &mut Vec<Message>,
) {
    let mut group = [Message::NONE; G];
    let mut more = true;
    loop {
        let mut count = 0;
        while more && count < G && waiting.len() < WAITING - G {
            let Some(mut message) = source.next() else {
                more = false;
                break;
            };
            if message.len >= LONG.min(FLIGHT * 16 * I::LEN) {
                // SAFETY: the list of messages is borrowed until the end of this function.
                message = unsafe { long::<I, M, ROUNDS>(isa, message) };
            }
            group[count] = message;
            count += 1;
        }
        while count < G
            && let Some(message) = waiting.pop()
        {
            group[count] = message;
            count += 1;
        }
        if count < G {
            // Nothing is left but these.
            for message in &group[..count] {
                // SAFETY: as above.
                unsafe { short::<I, M, N, ROUNDS>(isa, *message) };
            }
            return;
        }
        // SAFETY: as above.
        let next = unsafe { some::<I, M, G, N, ROUNDS>(isa, &group) };
        for (message, next) in group.iter().zip(next) {
            waiting.push(message.behind(HEAD, next));
            // Pushed and perhaps taken back: a branch would be mispredicted.
            let keep = waiting.len() - usize::from(message.len <= HEAD);
            waiting.truncate(keep);
        }
    }
}

/// One message from beginning to end, with few vectors in flight.
///
/// # Safety
/// The list that it came from is borrowed.
#[inline(always)]
unsafe fn short<I: Isa, M: Mode, const N: usize, const ROUNDS: usize>(isa: I, message: Message) {
    let mut rest = message;
    loop {
        // SAFETY: the caller's promise.
        let [next] = unsafe { some::<I, M, 1, N, ROUNDS>(isa, &[rest]) };
        if rest.len <= HEAD {
            return;
        }
        rest = rest.behind(HEAD, next);
    }
}

/// A long message, [`FLIGHT`] vectors at a time. Returns what is left of it, if that is little.
///
/// # Safety
/// The list that it came from is borrowed.
#[inline(always)]
unsafe fn long<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, message: Message) -> Message {
    let flight = 16 * I::LEN * FLIGHT;
    let mut rest = message;
    // SAFETY: the caller's promise.
    unsafe {
        let key = schedule::<M>(rest.key());
        while rest.len >= flight {
            let next = in_flight::<I, M, ROUNDS, true>(isa, key, &rest);
            rest = rest.behind(flight, next);
        }
        if rest.len >= LONG {
            in_flight::<I, M, ROUNDS, false>(isa, key, &rest);
            rest.len = 0;
        }
    }
    rest
}

/// [`FLIGHT`] vectors of a message, or, unless `WHOLE`, what it has of them. Returns the IV of what is behind them.
///
/// # Safety
/// The list that it came from is borrowed.
#[inline(always)]
unsafe fn in_flight<I: Isa, M: Mode, const ROUNDS: usize, const WHOLE: bool>(
    isa: I,
    key: &Schedule,
    message: &Message,
) -> __m128i {
    let width = 16 * I::LEN;
    let place = |v: usize| if WHOLE { v * width } else { (v * width).min(message.len) };
    let here = |v: usize| if WHOLE { width } else { message.len.saturating_sub(v * width).min(width) };
    let mut blocks = [[isa.zero(); FLIGHT]];
    // SAFETY: within the message, as its list promises; all vectors are read before any is written.
    unsafe {
        for v in 0..FLIGHT {
            let from = message.input.add(place(v));
            blocks[0][v] = if WHOLE { isa.load(from) } else { isa.load_partial(from, here(v)) };
        }
        let (added, next) = M::mix::<I, FLIGHT>(isa, message.iv, &mut blocks[0]);
        cipher::<I, M, 1, FLIGHT, ROUNDS>(isa, [key], &mut blocks, &[added]);
        for v in 0..FLIGHT {
            let to = message.output.add(place(v));
            if WHOLE { blocks[0][v].store(to) } else { blocks[0][v].store_partial(to, here(v)) }
        }
        next
    }
}

/// At most [`HEAD`] bytes of each message. Returns the IVs of what is behind that many.
///
/// # Safety
/// The list that the messages came from is borrowed.
#[inline(always)]
unsafe fn some<I: Isa, M: Mode, const G: usize, const N: usize, const ROUNDS: usize>(
    isa: I,
    group: &[Message; G],
) -> [__m128i; G] {
    let width = 16 * I::LEN;
    let here = |g: usize, v: usize| group[g].len.min(HEAD).saturating_sub(v * width).min(width);
    let place = |g: usize, v: usize| (v * width).min(group[g].len);
    // SAFETY: the caller's promise.
    let keys = group.map(|message| unsafe { schedule::<M>(message.key()) });
    let mut next = group.map(|message| message.iv);
    let mut blocks = [[isa.zero(); N]; G];
    let mut added = blocks;
    for g in 0..G {
        for v in 0..N {
            // SAFETY: within the message. All of a message is read before any of it is written, and no message is
            // written where another is read.
            blocks[g][v] = unsafe { isa.load_partial(group[g].input.add(place(g, v)), here(g, v)) };
        }
        (added[g], next[g]) = M::mix::<I, N>(isa, group[g].iv, &mut blocks[g]);
    }
    cipher::<I, M, G, N, ROUNDS>(isa, keys, &mut blocks, &added);
    for g in 0..G {
        for v in 0..N {
            // SAFETY: within the message.
            unsafe { blocks[g][v].store_partial(group[g].output.add(place(g, v)), here(g, v)) };
        }
    }
    next
}

/// The schedule that a mode's cipher runs with.
#[inline(always)]
pub(super) fn schedule<W: Way>(key: &AesKey) -> &Schedule {
    if W::DECRYPTS { &key.decrypt } else { &key.encrypt }
}

/// The cipher on `G` groups of `N` vectors, each group under its own key. What is to be added to the output goes into the
/// last round key.
#[inline(always)]
pub(super) fn cipher<I: Isa, W: Way, const G: usize, const N: usize, const ROUNDS: usize>(
    isa: I,
    keys: [&Schedule; G],
    blocks: &mut [[I::V; N]; G],
    added: &[[I::V; N]; G],
) {
    for (key, blocks) in keys.iter().zip(blocks.iter_mut()) {
        let first = key.splat(isa, 0);
        for block in blocks {
            *block = block.xor(first);
        }
    }
    for round in 1..ROUNDS {
        for (key, blocks) in keys.iter().zip(blocks.iter_mut()) {
            let round_key = key.splat(isa, round);
            for block in blocks {
                *block = if W::DECRYPTS { block.aes_dec(round_key) } else { block.aes_enc(round_key) };
            }
        }
    }
    for ((key, blocks), added) in keys.iter().zip(blocks.iter_mut()).zip(added) {
        let last = key.splat(isa, ROUNDS);
        for (block, added) in blocks.iter_mut().zip(added) {
            let last = last.xor(*added);
            *block = if W::DECRYPTS { block.aes_dec_last(last) } else { block.aes_enc_last(last) };
        }
    }
}
