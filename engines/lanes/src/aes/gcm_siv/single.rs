//! One long message, its keys taken from a lane: POLYVAL by powers, eight vectors of key stream in flight.

use core::arch::x86_64::*;

use super::keys::Group;
use super::{Message, counter_block, ghash, lengths, tag_block};
use crate::aes::ghash::HashKey;
use crate::aes::isa::{Blocks, Isa};

/// Vectors of key stream in flight.
const FLIGHT: usize = 8;

/// A lane's round keys.
#[derive(Clone, Copy)]
struct RoundKeys {
    first: *const u8,
    distance: usize,
}

/// Seals or opens the message of a lane; returns whether its tag is right. The output has been written in any case.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
pub(super) unsafe fn message<I: Isa, const R: usize, const ENCRYPT: bool, const G: usize>(
    isa: I,
    message: &Message,
    lane: usize,
    group: &Group<I::V, G>,
) -> bool {
    let (first, distance) = group.lane(isa, lane);
    let keys = RoundKeys { first, distance };
    // SAFETY: the caller's promise; the lane's keys lie in the group.
    unsafe {
        let h = group.hash.as_ptr().cast::<u8>().add(16 * lane);
        let mut hash_key = HashKey::polyval_on(isa, isa.load_splat(h));
        let good = if ENCRYPT {
            let tag = tag::<I, R>(isa, message, message.input, keys, &hash_key);
            add_stream::<I, R>(isa, message, keys, isa.splat(tag));
            _mm_storeu_si128(message.tag.cast(), tag);
            true
        } else {
            let given = _mm_loadu_si128(message.tag.cast());
            add_stream::<I, R>(isa, message, keys, isa.splat(given));
            let tag = tag::<I, R>(isa, message, message.output, keys, &hash_key);
            // Any bits are a `u128`.
            core::mem::transmute::<__m128i, u128>(_mm_xor_si128(tag, given)) == 0
        };
        hash_key.wipe();
        good
    }
}

/// The tag of the plaintext at `from`.
///
/// # Safety
/// See [`Message`]; `len` bytes may be read at `from`.
#[inline(always)]
unsafe fn tag<I: Isa, const R: usize>(
    isa: I,
    message: &Message,
    from: *const u8,
    keys: RoundKeys,
    hash_key: &HashKey,
) -> __m128i {
    let lengths = isa.splat(lengths(message));
    // SAFETY: the caller's promise.
    unsafe {
        let hash = isa.zero();
        let hash = ghash::absorb::<I, false, false>(isa, hash_key, hash, message.aad, message.aad_len, lengths);
        let hash = ghash::absorb::<I, false, true>(isa, hash_key, hash, from, message.len, lengths);
        let mut blocks = [tag_block(isa, hash, isa.splat(message.iv))];
        encrypt::<I, R, 1>(isa, keys, &mut blocks);
        blocks[0].first()
    }
}

/// Adds the key stream to the input.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn add_stream<I: Isa, const R: usize>(isa: I, message: &Message, keys: RoundKeys, tag: I::V) {
    let mut counters = counter_block(isa, tag).add32(isa.indices());
    let mut at = 0;
    while at < message.len {
        let mut blocks = [counters; FLIGHT];
        for (v, block) in blocks.iter_mut().enumerate() {
            *block = block.add32(isa.pair((v * I::LEN) as u64, 0));
        }
        counters = counters.add32(isa.pair((FLIGHT * I::LEN) as u64, 0));
        // SAFETY: the caller's promise; `here` keeps within `len`.
        unsafe {
            encrypt::<I, R, FLIGHT>(isa, keys, &mut blocks);
            for (v, block) in blocks.iter().enumerate() {
                let from = at + 16 * v * I::LEN;
                let here = message.len.saturating_sub(from).min(16 * I::LEN);
                let input = isa.load_partial(message.input.wrapping_add(from), here);
                block.xor(input).store_partial(message.output.wrapping_add(from), here);
            }
        }
        at += 16 * FLIGHT * I::LEN;
    }
}

/// Encrypts `N` vectors of blocks under a lane's key.
///
/// # Safety
/// The keys may be read.
#[inline(always)]
unsafe fn encrypt<I: Isa, const R: usize, const N: usize>(isa: I, keys: RoundKeys, blocks: &mut [I::V; N]) {
    for round in 0..=R {
        // SAFETY: the caller's promise.
        let key = unsafe { isa.load_splat(keys.first.wrapping_add(round * keys.distance)) };
        for block in blocks.iter_mut() {
            *block = match round {
                0 => block.xor(key),
                _ if round == R => block.aes_enc_last(key),
                _ => block.aes_enc(key),
            };
        }
    }
}
