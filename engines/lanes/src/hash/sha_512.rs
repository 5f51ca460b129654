//! SHA-512's compression function (FIPS 180-4, 6.4) for one message alone: rounds in plain registers, their words two at a
//! time in vectors beside them.
//!
//! A round's next `e` waits for this one's: `rorx`, two exclusive ors and an addition, four cycles; so does `a`, if what
//! takes part in it is added in the right order. A round takes 24 instructions and its share of the words another 17, on
//! six and two to four ports. Floor: 320 cycles a block by what waits, 340 by what is executed; measured 420 on Zen 5,
//! where compilers' own order takes 460 to 540. AVX-512's rotations are no faster: vectors wait for the rounds.

use core::arch::x86_64::*;

use super::algorithms::unrolled;
use super::constants::CUBE_ROOTS;
use crate::processor::as_is;
use crate::x86::Avx2;

/// Bytes of a block.
pub(super) const BLOCK: usize = 128;

/// The constants (FIPS 180-4, 4.2.3), read by vectors.
#[repr(C, align(64))]
struct Constants([u64; 80]);

static CONSTANTS: Constants = Constants(CUBE_ROOTS);

/// Words of sixteen rounds with their constants added, on their way from vectors to plain registers.
#[repr(C, align(64))]
struct Words([u64; 16]);

/// A round on the words `a` to `h`, with its word and constant. `a` is had from `e`, which is had first: the sum without
/// `d` would have to be waited for besides. Sums are added in the order given, the one that comes last behind all others.
#[inline(always)]
fn round([a, b, c, d, e, f, g, h]: [u64; 8], word: u64) -> [u64; 8] {
    let early = as_is(h.wrapping_add(word).wrapping_add(d));
    let upper = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
    let next_e = as_is(early.wrapping_add((e & f) | (!e & g))).wrapping_add(upper);
    // The majority: what `b` and `c` share, and `a` where they differ.
    let shared = as_is((b & c).wrapping_sub(d));
    let rest = as_is(shared.wrapping_add(a & (b ^ c)));
    let lower = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
    let next_a = as_is(next_e.wrapping_add(rest)).wrapping_add(lower);
    [next_a, a, b, c, next_e, e, f, g]
}

/// Exclusive or of two words each, turned right by `A` and `B` and shifted by `C`; `X` and `Y` are the other ways round.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn mixed<const A: i32, const X: i32, const B: i32, const Y: i32, const C: i32>(words: __m128i) -> __m128i {
    const { assert!(A + X == 64 && B + Y == 64) };
    // SAFETY: the caller's promise.
    unsafe {
        let first = _mm_or_si128(_mm_srli_epi64::<A>(words), _mm_slli_epi64::<X>(words));
        let second = _mm_or_si128(_mm_srli_epi64::<B>(words), _mm_slli_epi64::<Y>(words));
        _mm_xor_si128(_mm_xor_si128(first, second), _mm_srli_epi64::<C>(words))
    }
}

crate::x86::with_avx2! {
    /// Takes in `blocks` blocks from where `from` says.
    ///
    /// # Safety
    /// The blocks may be read.
    #[inline(never)]
    pub(super) unsafe fn compress(_: Avx2, state: &mut [u64; 8], mut from: *const u8, blocks: usize) {
        // SAFETY: the caller's promise; sixteen words are eight vectors, and eighty constants are five times as many.
        unsafe {
            let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
            let constants = (&raw const CONSTANTS).cast::<__m128i>();
            // Here and not the caller's: its place then takes no register, of which there is none to spare.
            let mut words = Words([0; 16]);
            let sums = (&raw mut words).cast::<__m128i>();
            for _ in 0..blocks {
                let mut w = [_mm_setzero_si128(); 8];
                unrolled!(TWO in [0 1 2 3 4 5 6 7] {
                    w[TWO] = _mm_shuffle_epi8(_mm_loadu_si128(from.cast::<__m128i>().add(TWO)), order);
                    _mm_store_si128(sums.add(TWO), _mm_add_epi64(w[TWO], _mm_load_si128(constants.add(TWO))));
                });
                let mut s = *state;
                for sixteen in 1..5 {
                    let constants = constants.add(8 * sixteen);
                    unrolled!(TWO in [0 1 2 3 4 5 6 7] {
                        let early = _mm_alignr_epi8::<8>(w[(TWO + 1) % 8], w[TWO]);
                        let middle = _mm_alignr_epi8::<8>(w[(TWO + 5) % 8], w[(TWO + 4) % 8]);
                        let low = mixed::<1, 63, 8, 56, 7>(early);
                        let high = mixed::<19, 45, 61, 3, 6>(w[(TWO + 7) % 8]);
                        w[TWO] = _mm_add_epi64(_mm_add_epi64(_mm_add_epi64(w[TWO], middle), low), high);
                        s = round(round(s, words.0[2 * TWO]), words.0[2 * TWO + 1]);
                        _mm_store_si128(sums.add(TWO), _mm_add_epi64(w[TWO], _mm_load_si128(constants.add(TWO))));
                    });
                }
                unrolled!(ROUND in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] {
                    s = round(s, words.0[ROUND]);
                });
                for at in 0..8 {
                    state[at] = state[at].wrapping_add(s[at]);
                }
                from = from.add(BLOCK);
            }
            words.0 = [0; 16];
            core::hint::black_box(&raw mut words);
        }
    }
}
