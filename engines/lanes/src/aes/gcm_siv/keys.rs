//! The keys of a group of messages: derived from their nonces (RFC 8452, 4), expanded (FIPS 197, 5.2) side by side.

use super::{LANES, Message};
use crate::aes::isa::{Blocks, Isa};
use crate::aes::schedule::{ROUND_KEYS_MAX, Schedule};

/// Round keys and hash keys of `G` vectors of lanes.
pub(super) struct Group<V, const G: usize> {
    rows: [[V; G]; ROUND_KEYS_MAX],
    /// The message-authentication keys.
    pub(super) hash: [V; G],
}

impl<V: Blocks, const G: usize> Group<V, G> {
    /// Room for keys.
    #[inline(always)]
    pub(super) fn new<I: Isa<V = V>>(isa: I) -> Group<V, G> {
        Group { rows: [[isa.zero(); G]; ROUND_KEYS_MAX], hash: [isa.zero(); G] }
    }

    /// Forgets all keys.
    #[inline(always)]
    pub(super) fn wipe<I: Isa<V = V>>(&mut self, isa: I) {
        for place in self.rows.as_flattened_mut().iter_mut().chain(&mut self.hash) {
            // SAFETY: a place of our own; volatile writes are not dropped.
            unsafe { core::ptr::write_volatile(place, isa.zero()) };
        }
    }

    /// First byte of a lane's first round key, and the distance from one round key to the next.
    #[inline(always)]
    pub(super) fn lane<I: Isa<V = V>>(&self, _: I, lane: usize) -> (*const u8, usize) {
        debug_assert!(lane < G * I::LEN);
        (self.rows.as_ptr().cast::<u8>().wrapping_add(16 * lane), 16 * G * I::LEN)
    }

    /// Encrypts a vector of blocks for each vector of lanes.
    #[inline(always)]
    pub(super) fn encrypt<const R: usize>(&self, blocks: &mut [V; G]) {
        for (block, key) in blocks.iter_mut().zip(&self.rows[0]) {
            *block = block.xor(*key);
        }
        for round in 1..R {
            for (block, key) in blocks.iter_mut().zip(&self.rows[round]) {
                *block = block.aes_enc(*key);
            }
        }
        for (block, key) in blocks.iter_mut().zip(&self.rows[R]) {
            *block = block.aes_enc_last(*key);
        }
    }

    /// Derives every lane's keys from its nonce and expands them. `R` rounds, `B` blocks of derivation: 10 and 4 or 14
    /// and 6.
    ///
    /// # Safety
    /// The messages' keys may be read.
    #[inline(always)]
    pub(super) unsafe fn derive<I: Isa<V = V>, const R: usize, const B: usize>(
        &mut self,
        isa: I,
        messages: &[Message; LANES],
    ) {
        for g in 0..G {
            let own = |i: usize| &messages[(g * I::LEN + i % I::LEN) % LANES];
            let lanes = [own(0), own(1), own(2), own(3)];
            let nonces = isa.gather([lanes[0].iv, lanes[1].iv, lanes[2].iv, lanes[3].iv]).shl_bytes::<4>();
            let mut blocks = [nonces; B];
            for (counter, block) in blocks.iter_mut().enumerate() {
                *block = block.add32(isa.pair(counter as u64, 0));
            }
            let same = lanes.iter().all(|message| core::ptr::eq(message.key, lanes[0].key));
            // SAFETY: the caller's promise.
            unsafe {
                if same {
                    answers::<I, R, B, true>(isa, lanes, &mut blocks);
                } else {
                    answers::<I, R, B, false>(isa, lanes, &mut blocks);
                }
            }
            self.hash[g] = first_halves(isa, blocks[0], blocks[1]);
            self.rows[0][g] = first_halves(isa, blocks[2], blocks[3]);
            if B == 6 {
                self.rows[1][g] = first_halves(isa, blocks[B - 2], blocks[B - 1]);
            }
        }
        if B == 6 {
            self.expand_256(isa);
        } else {
            self.expand_128(isa);
        }
    }

    #[inline(always)]
    fn expand_128<I: Isa<V = V>>(&mut self, isa: I) {
        let mut keys = self.rows[0];
        let mut constant = 1;
        for round in 1..=10 {
            let round_constant = round_constant(isa, constant);
            for (key, place) in keys.iter_mut().zip(&mut self.rows[round]) {
                let word = key.shuffle(rotated_last_word(isa)).aes_enc_last(round_constant);
                *key = prefixes(*key, word);
                *place = *key;
            }
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        }
    }

    #[inline(always)]
    fn expand_256<I: Isa<V = V>>(&mut self, isa: I) {
        let (mut even, mut odd) = (self.rows[0], self.rows[1]);
        for step in 1..=7 {
            let round_constant = round_constant(isa, 1 << (step - 1));
            for g in 0..G {
                let word = odd[g].shuffle(rotated_last_word(isa)).aes_enc_last(round_constant);
                even[g] = prefixes(even[g], word);
                self.rows[2 * step][g] = even[g];
            }
            if step == 7 {
                break;
            }
            for g in 0..G {
                let word = even[g].shuffle32::<0b11_11_11_11>().aes_enc_last(isa.zero());
                odd[g] = prefixes(odd[g], word);
                self.rows[2 * step + 1][g] = odd[g];
            }
        }
    }
}

/// Encrypts each lane's blocks under its key-generating key.
///
/// # Safety
/// The messages' keys may be read.
#[inline(always)]
unsafe fn answers<I: Isa, const R: usize, const B: usize, const SAME: bool>(
    isa: I,
    lanes: [&Message; 4],
    blocks: &mut [I::V; B],
) {
    // SAFETY: the caller's promise.
    let keys = unsafe { [&*lanes[0].key, &*lanes[1].key, &*lanes[2].key, &*lanes[3].key] };
    debug_assert_eq!(R, keys[0].rounds());
    let first = lane_keys::<I, SAME>(isa, keys, 0);
    for block in blocks.iter_mut() {
        *block = block.xor(first);
    }
    for round in 1..R {
        let key = lane_keys::<I, SAME>(isa, keys, round);
        for block in blocks.iter_mut() {
            *block = block.aes_enc(key);
        }
    }
    let last = lane_keys::<I, SAME>(isa, keys, R);
    for block in blocks.iter_mut() {
        *block = block.aes_enc_last(last);
    }
}

/// Each lane's round key.
#[inline(always)]
fn lane_keys<I: Isa, const SAME: bool>(isa: I, keys: [&Schedule; 4], round: usize) -> I::V {
    if SAME {
        keys[0].splat(isa, round)
    } else {
        isa.gather([keys[0].key(round), keys[1].key(round), keys[2].key(round), keys[3].key(round)])
    }
}

/// The first half of each block of `a`, then that of `b`.
#[inline(always)]
fn first_halves<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
    a.and(isa.pair(u64::MAX, 0)).or(b.shl_bytes::<8>())
}

/// The four words of the next round key: the sums of the words before up to each, and `word` in all.
#[inline(always)]
fn prefixes<V: Blocks>(key: V, word: V) -> V {
    let pairs = key.xor(key.shl_bytes::<4>());
    pairs.xor3(pairs.shl_bytes::<8>(), word)
}

/// The shuffle that puts RotWord of the last word into all four.
#[inline(always)]
fn rotated_last_word<I: Isa>(isa: I) -> I::V {
    isa.splat_bytes(&[13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12])
}

/// The round constant in all four words.
#[inline(always)]
fn round_constant<I: Isa>(isa: I, constant: u64) -> I::V {
    isa.pair(constant | constant << 32, constant | constant << 32)
}
