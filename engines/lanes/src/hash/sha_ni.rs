//! SHA-1 and SHA-256 (FIPS 180-4) with the processor's SHA instructions, several messages in one stream of instructions.
//!
//! Each message has two registers of chaining value and four of its last sixteen words. Two rounds of SHA-256 wait four
//! cycles for the two before them, four rounds of SHA-1 six; another message's rounds go in between. Operands are as Intel
//! describes them: SHA-256's value as words A, B, E, F and C, D, G, H, SHA-1's as A, B, C, D and E, the first word highest.
//!
//! Floors: a SHA-256 block alone waits for 32 pairs of rounds, 128 cycles; two share the instructions' one port, 32 pairs
//! and 24 steps of words each. Measured at 3 GHz, ns a block with one, two, three and four messages: SHA-256 43, 34, 36,
//! 37; SHA-1 40, 35, 36, 38. So two it is; more than that do not fit the registers. SHA-1's words by shifts and
//! exclusive ors instead of `sha1msg1` took 40 with two.

use core::arch::x86_64::*;

use super::algorithms::unrolled;
use super::constants::CUBE_ROOTS;

/// A chaining value as the instructions want it.
pub(super) type Value = [__m128i; 2];

/// A digest's rounds.
pub(super) trait Rounds {
    /// A chaining value from its words, the first lowest; of SHA-1, the second register's first word counts.
    ///
    /// # Safety
    /// The processor has the SHA instructions.
    unsafe fn value(words: Value) -> Value;
    /// The reverse.
    ///
    /// # Safety
    /// The processor has the SHA instructions.
    unsafe fn words(value: Value) -> Value;
    /// Takes in `blocks` blocks of each message, from where `from` says.
    ///
    /// # Safety
    /// The processor has the SHA instructions; the blocks may be read.
    unsafe fn compress<const N: usize>(values: [&mut Value; N], from: [*const u8; N], blocks: usize);
}

/// SHA-1's.
pub(super) struct Sha1Rounds;

/// SHA-224's and SHA-256's.
pub(super) struct Sha256Rounds;

/// Four words in one register.
#[repr(C, align(16))]
struct Four([u32; 4]);

/// SHA-256's constants (FIPS 180-4, 4.2.2), four at a time.
static CONSTANTS: [Four; 16] = {
    let mut all = [const { Four([0; 4]) }; 16];
    let mut at = 0;
    while at < 64 {
        all[at / 4].0[at % 4] = (CUBE_ROOTS[at] >> 32) as u32;
        at += 1;
    }
    all
};

impl Rounds for Sha256Rounds {
    #[inline(always)]
    unsafe fn value([low, high]: Value) -> Value {
        // SAFETY: the caller's promise.
        unsafe {
            // From the lowest: B A D C and H G F E.
            let (low, high) = (_mm_shuffle_epi32::<0xb1>(low), _mm_shuffle_epi32::<0x1b>(high));
            [_mm_alignr_epi8::<8>(low, high), _mm_blend_epi16::<0xf0>(high, low)]
        }
    }

    #[inline(always)]
    unsafe fn words([abef, cdgh]: Value) -> Value {
        // SAFETY: the caller's promise.
        unsafe {
            // From the lowest: A B E F and G H C D.
            let (outer, inner) = (_mm_shuffle_epi32::<0x1b>(abef), _mm_shuffle_epi32::<0xb1>(cdgh));
            [_mm_blend_epi16::<0xf0>(outer, inner), _mm_alignr_epi8::<8>(inner, outer)]
        }
    }

    crate::x86::with_sha_ni! {
        #[inline]
        unsafe fn compress<const N: usize>(values: [&mut Value; N], mut from: [*const u8; N], blocks: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
                let zero = _mm_setzero_si128();
                let (mut abef, mut cdgh) = ([zero; N], [zero; N]);
                for n in 0..N {
                    [abef[n], cdgh[n]] = *values[n];
                }
                for _ in 0..blocks {
                    let (first_abef, first_cdgh) = (abef, cdgh);
                    let mut w = [[zero; 4]; N];
                    unrolled!(FOUR in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] {
                        let constants = _mm_load_si128((&raw const CONSTANTS[FOUR]).cast());
                        for n in 0..N {
                            if FOUR < 4 {
                                w[n][FOUR % 4] = _mm_shuffle_epi8(_mm_loadu_si128(from[n].add(16 * FOUR).cast()), order);
                            } else {
                                let (late, last) = (w[n][(FOUR + 2) % 4], w[n][(FOUR + 3) % 4]);
                                let sum = _mm_sha256msg1_epu32(w[n][FOUR % 4], w[n][(FOUR + 1) % 4]);
                                let sum = _mm_add_epi32(sum, _mm_alignr_epi8::<4>(last, late));
                                w[n][FOUR % 4] = _mm_sha256msg2_epu32(sum, last);
                            }
                        }
                        let mut sums = [zero; N];
                        for n in 0..N {
                            sums[n] = _mm_add_epi32(w[n][FOUR % 4], constants);
                            cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], sums[n]);
                        }
                        for n in 0..N {
                            let sums = _mm_shuffle_epi32::<0x0e>(sums[n]);
                            abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], sums);
                        }
                    });
                    for n in 0..N {
                        abef[n] = _mm_add_epi32(abef[n], first_abef[n]);
                        cdgh[n] = _mm_add_epi32(cdgh[n], first_cdgh[n]);
                        from[n] = from[n].add(64);
                    }
                }
                for (n, value) in values.into_iter().enumerate() {
                    *value = [abef[n], cdgh[n]];
                }
            }
        }
    }
}

impl Rounds for Sha1Rounds {
    #[inline(always)]
    unsafe fn value([low, high]: Value) -> Value {
        // SAFETY: the caller's promise.
        unsafe { [_mm_shuffle_epi32::<0x1b>(low), _mm_slli_si128::<12>(high)] }
    }

    #[inline(always)]
    unsafe fn words([abcd, e]: Value) -> Value {
        // SAFETY: the caller's promise.
        unsafe { [_mm_shuffle_epi32::<0x1b>(abcd), _mm_srli_si128::<12>(e)] }
    }

    crate::x86::with_sha_ni! {
        #[inline]
        unsafe fn compress<const N: usize>(values: [&mut Value; N], mut from: [*const u8; N], blocks: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
                let zero = _mm_setzero_si128();
                let (mut abcd, mut e) = ([zero; N], [zero; N]);
                for n in 0..N {
                    [abcd[n], e[n]] = *values[n];
                }
                for _ in 0..blocks {
                    let (first_abcd, first_e) = (abcd, e);
                    let mut before = abcd;
                    let mut w = [[zero; 4]; N];
                    unrolled!(FOUR in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19] {
                        for n in 0..N {
                            w[n][FOUR % 4] = if FOUR < 4 {
                                _mm_shuffle_epi8(_mm_loadu_si128(from[n].add(16 * FOUR).cast()), order)
                            } else {
                                let mixed = _mm_sha1msg1_epu32(w[n][FOUR % 4], w[n][(FOUR + 1) % 4]);
                                _mm_sha1msg2_epu32(_mm_xor_si128(mixed, w[n][(FOUR + 2) % 4]), w[n][(FOUR + 3) % 4])
                            };
                        }
                        for n in 0..N {
                            let sums = if FOUR == 0 {
                                _mm_add_epi32(e[n], w[n][0])
                            } else {
                                _mm_sha1nexte_epu32(before[n], w[n][FOUR % 4])
                            };
                            before[n] = abcd[n];
                            abcd[n] = _mm_sha1rnds4_epu32::<{ (FOUR / 5) as i32 }>(abcd[n], sums);
                        }
                    });
                    for n in 0..N {
                        e[n] = _mm_sha1nexte_epu32(before[n], first_e[n]);
                        abcd[n] = _mm_add_epi32(abcd[n], first_abcd[n]);
                        from[n] = from[n].add(64);
                    }
                }
                for (n, value) in values.into_iter().enumerate() {
                    *value = [abcd[n], e[n]];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::InstructionSet;
    use crate::x86::ShaNi;

    /// Bytes that are the same each time.
    fn bytes<const LEN: usize>(seed: u64) -> [u8; LEN] {
        let mut state = seed;
        [(); LEN].map(|()| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        })
    }

    fn words(bytes: [u8; 32]) -> [u32; 8] {
        core::array::from_fn(|at| u32::from_le_bytes(bytes.as_chunks().0[at]))
    }

    /// So many blocks of `N` messages, from chaining values of any words, against another implementation.
    fn agrees<R: Rounds, const N: usize>(seed: u64, blocks: usize, other: impl Fn(&mut [u32; 8], &[[u8; 64]])) {
        let messages: [[u8; 64 * 5]; N] = core::array::from_fn(|n| bytes(seed + n as u64));
        let mut expected: [[u32; 8]; N] = core::array::from_fn(|n| words(bytes(seed + 100 + n as u64)));
        // SAFETY: the caller has found the instructions; messages have as many blocks; any words are vectors.
        unsafe {
            let mut values = expected.map(|words| R::value(core::mem::transmute::<[u32; 8], Value>(words)));
            R::compress(values.each_mut(), messages.each_ref().map(|message| message.as_ptr()), blocks);
            for n in 0..N {
                other(&mut expected[n], &messages[n].as_chunks().0[..blocks]);
                let got = core::mem::transmute::<Value, [u32; 8]>(R::words(values[n]));
                assert_eq!(got, expected[n], "message {n} of {N}, {blocks} blocks, seed {seed}");
            }
        }
    }

    fn sha1(words: &mut [u32; 8], blocks: &[[u8; 64]]) {
        let [a, b, c, d, e, ..] = *words;
        let mut five = [a, b, c, d, e];
        sha1::block_api::compress(&mut five, blocks);
        *words = [five[0], five[1], five[2], five[3], five[4], 0, 0, 0];
    }

    #[test]
    fn blocks_are_those_of_another_implementation() {
        if ShaNi::detect().is_none() {
            return;
        }
        for seed in 0..2000 {
            let blocks = seed as usize % 6;
            agrees::<Sha1Rounds, 1>(1000 * seed, blocks, sha1);
            agrees::<Sha1Rounds, 2>(1000 * seed, blocks, sha1);
            agrees::<Sha256Rounds, 1>(1000 * seed, blocks, sha2::block_api::compress256);
            agrees::<Sha256Rounds, 2>(1000 * seed, blocks, sha2::block_api::compress256);
        }
    }
}
