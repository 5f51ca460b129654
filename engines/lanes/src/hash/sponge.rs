//! Extendable output of short seeds, a seed a lane (FIPS 202, 6.2), for schemes that draw polynomials from it.

use super::algorithms::{STATE_MAX, permute};
pub(crate) use super::portable::Portable;
use super::vector::LANES_MAX;
pub(crate) use super::vector::{Isa, Words};

/// Bytes of a block of SHAKE128.
pub(crate) const SHAKE_128: usize = 168;
/// Bytes of a block of SHAKE256.
pub(crate) const SHAKE_256: usize = 136;

/// Lanes of words of 64 bits at most.
pub(crate) const STREAMS_MAX: usize = 8;

/// Bytes of a seed at most, and the first of its padding.
const SEED_WORDS: usize = 9;

/// Bytes that a block may be written over behind its end: streams have so many more.
pub(crate) const SLACK: usize = 56;

/// A seed with what follows it in its first block: the bits of SHAKE and the first of the padding (FIPS 202, B.2).
#[derive(Clone, Copy)]
pub(crate) struct Seed([u8; 8 * SEED_WORDS]);

impl Seed {
    /// A seed of at most 71 bytes, in two parts.
    pub(crate) fn new(first: &[u8], second: &[u8]) -> Seed {
        let mut bytes = [0; 8 * SEED_WORDS];
        bytes[..first.len()].copy_from_slice(first);
        bytes[first.len()..first.len() + second.len()].copy_from_slice(second);
        bytes[first.len() + second.len()] = 0x1f;
        Seed(bytes)
    }
}

impl zeroize::DefaultIsZeroes for Seed {}

impl Default for Seed {
    fn default() -> Seed {
        Seed([0; 8 * SEED_WORDS])
    }
}

/// As many sponges as the instruction set has words of 64 bits in a vector, each with a seed of its own.
pub(crate) struct Sponges<I: Isa> {
    isa: I,
    state: [I::W64; STATE_MAX],
    rate: usize,
}

impl<I: Isa> Sponges<I> {
    /// Lanes.
    pub(crate) const LANES: usize = I::W64::LEN;

    /// Absorbs a seed a lane; lanes without one repeat the first. `rate` is a block of SHAKE128 or of SHAKE256.
    #[inline(always)]
    pub(crate) fn new(isa: I, seeds: &[Seed], rate: usize) -> Sponges<I> {
        let mut from = [seeds[0].0.as_ptr(); LANES_MAX];
        for lane in 1..Self::LANES.min(seeds.len()) {
            from[lane] = seeds[lane].0.as_ptr();
        }
        let mut state = [I::W64::splat(isa, 0); STATE_MAX];
        for word in 0..SEED_WORDS {
            // SAFETY: every place is a seed's, which has so many words.
            state[word] = unsafe { I::W64::one(isa, &from, 8 * word) };
        }
        state[rate / 8 - 1] = state[rate / 8 - 1].xor(I::W64::splat(isa, 1 << 63));
        Sponges { isa, state, rate }
    }

    /// The next block of every lane goes to its stream, `at` bytes behind its start. What lies up to [`SLACK`] bytes behind
    /// the block is anything afterwards.
    #[inline(always)]
    pub(crate) fn squeeze<const N: usize>(&mut self, streams: &mut [[u8; N]; STREAMS_MAX], at: usize) {
        assert!(at + self.rate + SLACK <= N && Self::LANES <= STREAMS_MAX);
        permute(self.isa, &mut self.state);
        let mut word = 0;
        while word < self.rate / 8 {
            let mut rows = [self.state[0]; LANES_MAX];
            for row in 0..Self::LANES {
                rows[row] = self.state[(word + row).min(STATE_MAX - 1)];
            }
            I::W64::transpose(&mut rows);
            for lane in 0..Self::LANES {
                // SAFETY: a vector at a word of the block ends within the slack, as the assertion says.
                unsafe { rows[lane].store(streams[lane].as_mut_ptr().add(at + 8 * word)) };
            }
            word += Self::LANES;
        }
    }
}
