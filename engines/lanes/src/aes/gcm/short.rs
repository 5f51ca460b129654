//! Short messages: at most sixteen blocks with additional data and lengths.
//!
//! Layout: slots of one block, the same for both halves of the work. The counter block of slot `i` has the counter
//! `i + 1`, so that slot 0 masks the tag and slot `i` encrypts block `i - 1` of the data. For the hash, slot 0 has the
//! additional data, then come the data, then the lengths.

use super::{GcmKey, Message, counters, ghash, lengths, rounds, settle};
use crate::aes::isa::{Blocks, Isa};

/// One message, as it was loaded; returns whether its tag is right. Nothing is written when it is not.
///
/// # Safety
/// See [`Message`]; its slots are at most `N` vectors and more than `N` / 2, or `N` is the least of `I`.
#[inline(always)]
pub(super) unsafe fn message<I: Isa, const R: usize, const ENCRYPT: bool, const N: usize>(
    isa: I,
    key: &GcmKey,
    message: &Message,
    input: &[I::V; N],
    given: I::V,
) -> bool {
    let blocks = message.len.div_ceil(16);
    let white = isa.splat(message.iv).xor(key.schedule.splat(isa, 0));
    let mut stream = [isa.zero(); N];
    for (v, stream) in stream.iter_mut().enumerate() {
        *stream = white.xor(counters(isa, 1 + v * I::LEN));
    }
    rounds::<I, R, N>(isa, &key.schedule, &mut stream);
    let reversal = ghash::reversal(isa);
    let lengths = lengths(isa, message.aad_len, message.len);
    let (mut output, mut hashed) = ([isa.zero(); N], [isa.zero(); N]);
    for v in 0..N {
        output[v] = stream[v].xor(input[v]);
        let mut ciphertext = input[v];
        if ENCRYPT {
            // SAFETY: the caller's promise.
            unsafe { store::<I>(message, v, output[v]) };
            let (_, len) = part::<I>(v, message.len);
            ciphertext = if v == 0 {
                output[v].keep_from::<1>(len).xor(input[v].keep_from::<0>(16))
            } else {
                output[v].keep_from::<0>(len)
            };
        }
        hashed[v] = ciphertext.shuffle(reversal).xor(lengths.and(ghash::only(isa, blocks + 1, v)));
    }
    let hash = ghash::weigh(isa, &key.hash, isa.zero(), &hashed, blocks + 2);
    let tag = isa.only_first(hash.shuffle(reversal).fold()).xor(isa.only_first(stream[0].first())).first();
    // SAFETY: the caller's promise.
    let good = unsafe { settle::<I, ENCRYPT>(isa, tag, given, message) };
    if !ENCRYPT && good {
        for (v, output) in output.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { store::<I>(message, v, *output) };
        }
    }
    good
}

/// The data of a message in the slots behind the first, which has the additional data.
///
/// # Safety
/// See [`Message`]; the additional data fit one block.
#[inline(always)]
pub(super) unsafe fn load<I: Isa, const N: usize>(isa: I, message: &Message) -> [I::V; N] {
    let mut input = [isa.zero(); N];
    for (v, input) in input.iter_mut().enumerate() {
        let (at, len) = part::<I>(v, message.len);
        // SAFETY: the caller's promise; `part` keeps within `len`.
        *input = unsafe {
            if v == 0 {
                isa.load_from::<1>(message.input, len).xor(isa.load_partial(message.aad, message.aad_len))
            } else {
                isa.load_partial(message.input.wrapping_add(at), len)
            }
        };
    }
    input
}

/// Where the data of a vector start, and how many bytes of them there are.
#[inline(always)]
fn part<I: Isa>(v: usize, len: usize) -> (usize, usize) {
    if v == 0 {
        return (0, len.min(16 * (I::LEN - 1)));
    }
    let at = 16 * (v * I::LEN - 1);
    (at, len.saturating_sub(at).min(16 * I::LEN))
}

/// Writes the data of a vector.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn store<I: Isa>(message: &Message, v: usize, output: I::V) {
    let (at, len) = part::<I>(v, message.len);
    // SAFETY: the caller's promise; `part` keeps within `len`.
    unsafe {
        if v == 0 {
            output.store_from::<1>(message.output, len);
        } else {
            output.store_partial(message.output.wrapping_add(at), len);
        }
    }
}
