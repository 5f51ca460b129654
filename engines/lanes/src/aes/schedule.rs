//! AES key schedules (FIPS 197, 5.2), expanded with the processor's own S-box, so in constant time.

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};

/// Round keys of the longest schedule.
pub(crate) const ROUND_KEYS_MAX: usize = 15;

/// Round keys in the order in which rounds use them. Four cache lines.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub(crate) struct Schedule {
    keys: [[u8; 16]; ROUND_KEYS_MAX],
    rounds: u32,
}

/// A key for both directions.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub(crate) struct AesKey {
    /// For encryption.
    pub(crate) encrypt: Schedule,
    /// For the equivalent inverse cipher (FIPS 197, 5.3.5).
    pub(crate) decrypt: Schedule,
}

impl Schedule {
    /// The schedule for encryption under a key of 16, 24 or 32 bytes.
    ///
    /// # Errors
    /// `Length` for any other.
    pub(crate) fn new(kernel: AesKernel, key: &[u8]) -> Result<Schedule, KeyProblem> {
        let rounds = match key.len() {
            16 => 10,
            24 => 12,
            32 => 14,
            _ => return Err(KeyProblem::Length),
        };
        let mut schedule = Schedule { keys: [[0; 16]; ROUND_KEYS_MAX], rounds };
        expand(kernel, key, &mut schedule);
        Ok(schedule)
    }

    /// The schedule of the equivalent inverse cipher: the same keys backwards, those in between through InvMixColumns.
    pub(crate) fn inverse(&self, kernel: AesKernel) -> Schedule {
        let mut inverse = Schedule { keys: [[0; 16]; ROUND_KEYS_MAX], rounds: self.rounds };
        invert(kernel, self, &mut inverse);
        inverse
    }

    /// Rounds: 10, 12 or 14. There is one round key more.
    #[inline(always)]
    pub(crate) fn rounds(&self) -> usize {
        self.rounds as usize
    }

    /// A round key's first byte; `round` is at most [`Schedule::rounds`]. Keys lie 16 bytes apart.
    #[inline(always)]
    pub(crate) fn key_ptr(&self, round: usize) -> *const u8 {
        self.keys[round].as_ptr()
    }

    /// A round key in every block of a vector.
    #[inline(always)]
    pub(crate) fn splat<I: Isa>(&self, isa: I, round: usize) -> I::V {
        isa.splat_bytes(&self.keys[round])
    }

    /// A round key.
    #[inline(always)]
    pub(crate) fn key(&self, round: usize) -> __m128i {
        // SAFETY: a round key has 16 bytes; SSE2 is part of x86-64.
        unsafe { _mm_loadu_si128(self.keys[round].as_ptr().cast()) }
    }

    /// Encrypts `N` vectors of blocks under this one key, side by side.
    #[inline(always)]
    pub(crate) fn encrypt<I: Isa, const N: usize>(&self, isa: I, blocks: &mut [I::V; N]) {
        let first = self.splat(isa, 0);
        for block in blocks.iter_mut() {
            *block = block.xor(first);
        }
        for round in 1..self.rounds() {
            let key = self.splat(isa, round);
            for block in blocks.iter_mut() {
                *block = block.aes_enc(key);
            }
        }
        let last = self.splat(isa, self.rounds());
        for block in blocks.iter_mut() {
            *block = block.aes_enc_last(last);
        }
    }

    /// Decrypts `N` vectors of blocks; `self` is an inverse schedule.
    #[inline(always)]
    pub(crate) fn decrypt<I: Isa, const N: usize>(&self, isa: I, blocks: &mut [I::V; N]) {
        let first = self.splat(isa, 0);
        for block in blocks.iter_mut() {
            *block = block.xor(first);
        }
        for round in 1..self.rounds() {
            let key = self.splat(isa, round);
            for block in blocks.iter_mut() {
                *block = block.aes_dec(key);
            }
        }
        let last = self.splat(isa, self.rounds());
        for block in blocks.iter_mut() {
            *block = block.aes_dec_last(last);
        }
    }
}

impl AesKey {
    /// Both schedules of a key of 16, 24 or 32 bytes.
    ///
    /// # Errors
    /// `Length` for any other.
    pub(crate) fn new(kernel: AesKernel, key: &[u8]) -> Result<AesKey, KeyProblem> {
        let encrypt = Schedule::new(kernel, key)?;
        let decrypt = encrypt.inverse(kernel);
        Ok(AesKey { encrypt, decrypt })
    }
}

aes_kernels! {
    fn expand(key: &[u8], schedule: &mut Schedule) = expand_on
}

aes_kernels! {
    fn invert(forward: &Schedule, inverse: &mut Schedule) = invert_on
}

/// SubWord (FIPS 197, 5.2): the last round without a key on a state of four equal columns, which ShiftRows leaves alone.
#[inline(always)]
fn sub_word<I: Isa>(isa: I, word: u32) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    let columns = unsafe { _mm_set1_epi32(word as i32) };
    let substituted = isa.splat(columns).aes_enc_last(isa.zero()).first();
    // SAFETY: as above.
    unsafe { _mm_cvtsi128_si32(substituted) as u32 }
}

#[inline(always)]
fn expand_on<I: Isa>(isa: I, key: &[u8], schedule: &mut Schedule) {
    let words_in_key = key.len() / 4;
    let mut words = [0u32; 4 * ROUND_KEYS_MAX];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1u32;
    for i in words_in_key..4 * (schedule.rounds() + 1) {
        let mut word = words[i - 1];
        if i.is_multiple_of(words_in_key) {
            // RotWord on little-endian words rotates right.
            word = sub_word(isa, word).rotate_right(8) ^ constant;
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        } else if words_in_key == 8 && i % 8 == 4 {
            word = sub_word(isa, word);
        }
        words[i] = words[i - words_in_key] ^ word;
    }
    for (key, words) in schedule.keys.iter_mut().zip(words.as_chunks::<4>().0) {
        for (bytes, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
    words.zeroize();
}

#[inline(always)]
fn invert_on<I: Isa>(isa: I, forward: &Schedule, inverse: &mut Schedule) {
    let rounds = forward.rounds();
    for round in 0..=rounds {
        let key = isa.splat(forward.key(rounds - round));
        // InvMixColumns alone: a last round undone by a whole inverse round without a key.
        let middle = key.aes_enc_last(isa.zero()).aes_dec(isa.zero());
        let own = if round == 0 || round == rounds { key } else { middle };
        // SAFETY: a round key has 16 bytes.
        unsafe { _mm_storeu_si128(inverse.keys[round].as_mut_ptr().cast(), own.first()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendices A.1 to A.3: the last word of each expansion.
    #[test]
    fn expansions_are_those_of_the_standard() {
        let keys = [
            ("2b7e151628aed2a6abf7158809cf4f3c", 10, "b6630ca6"),
            ("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", 12, "01002202"),
            ("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", 14, "706c631e"),
        ];
        for name in AesKernel::NAMES {
            let Some(kernel) = AesKernel::detect(name) else { continue };
            for (key, rounds, last) in keys {
                let schedule = Schedule::new(kernel, &hex::decode(key).expect("hex")).expect("a key length");
                assert_eq!((schedule.rounds(), hex::encode(&schedule.keys[rounds][12..])), (rounds, last.to_owned()));
            }
            assert_eq!(Schedule::new(kernel, &[0; 17]).err(), Some(KeyProblem::Length));
        }
    }

    #[test]
    fn decryption_undoes_encryption() {
        for name in AesKernel::NAMES {
            let Some(kernel) = AesKernel::detect(name) else { continue };
            for len in [16, 24, 32] {
                let key = AesKey::new(kernel, &vec![0x5a; len]).expect("a key length");
                round_trip(kernel, &key);
            }
        }
    }

    aes_kernels! {
        fn round_trip(key: &AesKey) = round_trip_on
    }

    #[inline(always)]
    fn round_trip_on<I: Isa>(isa: I, key: &AesKey) {
        let plain = isa.splat_bytes(&[0x17; 16]);
        let mut blocks = [plain, isa.zero()];
        key.encrypt.encrypt(isa, &mut blocks);
        let cipher = blocks;
        key.decrypt.decrypt(isa, &mut blocks);
        for (got, expected) in blocks.iter().zip([plain, isa.zero()]) {
            let mut difference = [1u8; 64];
            // SAFETY: no vector is longer.
            unsafe { got.xor(expected).store(difference.as_mut_ptr()) };
            assert!(difference[..16 * I::LEN].iter().all(|byte| *byte == 0));
        }
        let mut same = [0u8; 64];
        // SAFETY: no vector is longer.
        unsafe { cipher[0].xor(plain).store(same.as_mut_ptr()) };
        assert_ne!(same, [0; 64]);
    }
}
