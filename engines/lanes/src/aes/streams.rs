//! Counter streams (NIST SP 800-38A, 6.5) of several messages in flight: a vector holds blocks of one message, and
//! vectors of eight pieces, of different messages and keys, go through the rounds together.
//!
//! The counter is the block's last 32 bits, big-endian; who uses this sees to it that it cannot wrap. Blocks come with
//! those four bytes reversed, so that counting is one addition.
//!
//! Floor: one AES instruction a round and vector; besides one load a round and vector for its key, two shuffles of
//! bytes, and input and output.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::isa::{Blocks, Isa};
use super::schedule::Schedule;

/// Pieces in flight.
const FLIGHT: usize = 8;

/// The order of a block's bytes with the last four reversed.
const SWAP: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 14, 13, 12];

/// A message's part that fits a vector.
#[derive(Clone, Copy)]
struct Piece<'k> {
    key: &'k Schedule,
    /// The counter of the first block, its last four bytes reversed.
    counter: __m128i,
    input: *const u8,
    output: *mut u8,
    len: usize,
}

/// Pieces that wait until enough are there. Those pushed have to be finished.
pub(super) struct Streams<'k> {
    pieces: [MaybeUninit<Piece<'k>>; FLIGHT],
    count: usize,
}

/// Reverses the last four bytes of a block.
#[inline(always)]
pub(super) fn swap_counter(block: __m128i) -> __m128i {
    // SAFETY: sixteen bytes; every kernel here has SSSE3.
    unsafe { _mm_shuffle_epi8(block, _mm_loadu_si128(SWAP.as_ptr().cast())) }
}

#[inline(always)]
fn advance(counter: __m128i, blocks: usize) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_add_epi32(counter, _mm_set_epi32(blocks as i32, 0, 0, 0)) }
}

impl<'k> Streams<'k> {
    /// None yet.
    #[inline(always)]
    pub(super) fn new() -> Streams<'k> {
        Streams { pieces: [MaybeUninit::uninit(); FLIGHT], count: 0 }
    }

    /// Adds the stream under `key` from `counter` on (its last four bytes reversed) to a message.
    ///
    /// # Safety
    /// Until the streams are finished `len` bytes may be read from `input` and written to `output`, which is the same
    /// place or apart, and nobody else touches them.
    #[inline(always)]
    pub(super) unsafe fn push<I: Isa>(
        &mut self,
        isa: I,
        key: &'k Schedule,
        counter: __m128i,
        input: *const u8,
        output: *mut u8,
        len: usize,
    ) {
        let step = 16 * I::LEN;
        let (mut counter, mut at) = (counter, 0);
        while len - at >= FLIGHT * step {
            // SAFETY: within `len`.
            unsafe { bulk(isa, key, counter, input.add(at), output.add(at)) };
            counter = advance(counter, FLIGHT * I::LEN);
            at += FLIGHT * step;
        }
        while at < len {
            let here = step.min(len - at);
            // SAFETY: within `len`.
            let (input, output) = unsafe { (input.add(at), output.add(at)) };
            self.pieces[self.count % FLIGHT].write(Piece { key, counter, input, output, len: here });
            self.count += 1;
            if self.count == FLIGHT {
                self.count = 0;
                // SAFETY: all of them have been written since they were last taken; the promise made for each.
                unsafe { run::<I, FLIGHT>(isa, &self.pieces.map(|piece| piece.assume_init())) };
            }
            counter = advance(counter, I::LEN);
            at += here;
        }
    }

    /// Works on the pieces that still wait.
    #[inline(always)]
    pub(super) fn finish<I: Isa>(&mut self, isa: I) {
        let count = core::mem::take(&mut self.count);
        if count == 0 {
            return;
        }
        // SAFETY: as many have been written.
        let first = unsafe { self.pieces[0].assume_init() };
        // Empty pieces fill up.
        for piece in &mut self.pieces[count..] {
            piece.write(Piece { len: 0, ..first });
        }
        // SAFETY: all have been written; the promise made for each.
        unsafe {
            let pieces = self.pieces.map(|piece| piece.assume_init());
            match count {
                1 => run::<I, 1>(isa, &[first]),
                2..=4 => run::<I, 4>(isa, &[pieces[0], pieces[1], pieces[2], pieces[3]]),
                _ => run::<I, FLIGHT>(isa, &pieces),
            }
        }
    }
}

/// The blocks of a vector from a counter on, ready for the cipher.
#[inline(always)]
fn count_up<I: Isa>(isa: I, counter: __m128i) -> I::V {
    isa.splat(counter).add32(isa.indices().shl_bytes::<12>()).shuffle(isa.splat_bytes(&SWAP))
}

/// # Safety
/// What [`Streams::push`] was promised of each piece.
#[inline(always)]
unsafe fn run<I: Isa, const N: usize>(isa: I, pieces: &[Piece<'_>; N]) {
    let mut blocks: [I::V; N] = core::array::from_fn(|i| {
        let piece = &pieces[i];
        count_up(isa, piece.counter).xor(piece.key.splat(isa, 0))
    });
    // All keys are of one suite.
    let rounds = pieces[0].key.rounds();
    for round in 1..rounds {
        for (block, piece) in blocks.iter_mut().zip(pieces) {
            *block = block.aes_enc(piece.key.splat(isa, round));
        }
    }
    for (block, piece) in blocks.iter_mut().zip(pieces) {
        *block = block.aes_enc_last(piece.key.splat(isa, rounds));
    }
    for (block, piece) in blocks.iter().zip(pieces) {
        // SAFETY: the caller's promise.
        unsafe {
            if I::LEN != 4 && piece.len == 16 * I::LEN {
                block.xor(isa.load(piece.input)).store(piece.output);
            } else {
                block.xor(isa.load_partial(piece.input, piece.len)).store_partial(piece.output, piece.len);
            }
        }
    }
}

/// Eight vectors of one message.
///
/// # Safety
/// They may be read from `input` and written to `output`, which is the same place or apart.
#[inline(always)]
unsafe fn bulk<I: Isa>(isa: I, key: &Schedule, counter: __m128i, input: *const u8, output: *mut u8) {
    let step = 16 * I::LEN;
    let mut blocks: [I::V; FLIGHT] = core::array::from_fn(|i| count_up(isa, advance(counter, i * I::LEN)));
    key.encrypt(isa, &mut blocks);
    for (i, block) in blocks.iter().enumerate() {
        // SAFETY: the caller's promise; a vector is read before it is written.
        unsafe { block.xor(isa.load(input.add(i * step))).store(output.add(i * step)) };
    }
}
