//! Counter streams (NIST SP 800-38A, 6.5) of several messages in flight: a vector holds blocks of one message, and
//! vectors of eight pieces, of different messages and keys, go through the rounds together.
//!
//! The counter is the block's last 32 bits, big-endian; who uses this sees to it that it cannot wrap. Blocks come with
//! those four bytes reversed, so that counting is one addition.
//!
//! Floor: one AES instruction a round and vector; besides one load a round and vector for its key, two shuffles of
//! bytes, and input and output.

// As in [`super::cbc_mac`].
#![allow(clippy::needless_range_loop)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::cbc_mac::{self, Shared, middle_rounds, round_key};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;

/// Pieces in flight.
const FLIGHT: usize = 8;

/// The order of a block's bytes with the last four reversed.
const SWAP: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 14, 13, 12];

/// A message's part that fits a vector, or a whole message. Whoever makes one promises that until the streams are
/// finished `len` bytes may be read from `input` and written to `output`, which is the same place or apart, and that
/// nobody else touches them.
#[derive(Clone, Copy)]
struct Piece<'k> {
    key: &'k Schedule,
    /// The message's first counter block.
    iv: __m128i,
    input: *const u8,
    output: *mut u8,
    len: u32,
    /// What is added to that counter.
    first: u32,
}

/// Pieces that wait until enough are there. Those pushed have to be finished.
pub(super) struct Streams<'k> {
    kernel: AesKernel,
    /// Bytes of a vector.
    step: usize,
    pieces: [MaybeUninit<Piece<'k>>; FLIGHT],
    count: usize,
}

impl<'k> Streams<'k> {
    /// None yet.
    #[inline]
    pub(super) fn new(kernel: AesKernel) -> Streams<'k> {
        let step = 16 * cbc_mac::vector_blocks(kernel);
        Streams { kernel, step, pieces: [MaybeUninit::uninit(); FLIGHT], count: 0 }
    }

    /// Adds the stream under `key` to a message; `iv` is its first counter block.
    ///
    /// # Safety
    /// Until the streams are finished `len` bytes may be read from `input` and written to `output`, which is the same
    /// place or apart, and nobody else touches them.
    #[inline(always)]
    pub(super) unsafe fn push(
        &mut self,
        key: &'k Schedule,
        iv: __m128i,
        input: *const u8,
        output: *mut u8,
        len: usize,
    ) {
        if len >= FLIGHT * self.step {
            // No message has 2^32 bytes.
            return long(self.kernel, &Piece { key, iv, input, output, len: len as u32, first: 0 });
        }
        let mut at = 0;
        while at < len {
            let here = self.step.min(len - at);
            let (input, output) = (input.wrapping_add(at), output.wrapping_add(at));
            let piece = Piece { key, iv, input, output, len: here as u32, first: at as u32 / 16 };
            self.pieces[self.count % FLIGHT].write(piece);
            self.count += 1;
            if self.count == FLIGHT {
                self.finish();
            }
            at += here;
        }
    }

    /// Works on the pieces that wait.
    #[inline]
    pub(super) fn finish(&mut self) {
        let count = core::mem::take(&mut self.count).min(FLIGHT);
        if count == 0 {
            return;
        }
        let full = match count {
            1 => 1,
            2..=4 => 4,
            _ => FLIGHT,
        };
        if count < full {
            // SAFETY: at least one has been written.
            let Piece { key, iv, input, output, .. } = unsafe { self.pieces[0].assume_init() };
            // Empty pieces fill up.
            for piece in self.pieces[count..full].iter_mut() {
                piece.write(Piece { key, iv, input, output, len: 0, first: 0 });
            }
        }
        // SAFETY: as many have been written. In place: copies of what was just written in smaller parts would stall.
        run(self.kernel, unsafe { core::slice::from_raw_parts(self.pieces.as_ptr().cast(), full) });
    }
}

aes_kernels! {
    /// One, four or eight pieces, each a vector or less.
    fn run(pieces: &[Piece<'_>]) = run_on
}

#[inline(always)]
fn run_on<I: Isa>(isa: I, pieces: &[Piece<'_>]) {
    if let Some(pieces) = pieces.as_array::<FLIGHT>() {
        flight(isa, pieces);
    } else if let Some(pieces) = pieces.as_array::<4>() {
        flight(isa, pieces);
    } else if let Some(pieces) = pieces.as_array::<1>() {
        flight(isa, pieces);
    }
}

aes_kernels! {
    /// A message of its own.
    fn long(piece: &Piece<'_>) = long_on
}

/// A vector of counter blocks: of this message, from this number on.
#[inline(always)]
pub(super) fn count_up<I: Isa>(isa: I, iv: __m128i, first: u32) -> I::V {
    let swap = isa.splat_bytes(&SWAP);
    // SAFETY: SSE2 is part of x86-64.
    let first = unsafe { _mm_set_epi32(first as i32, 0, 0, 0) };
    let numbers = isa.indices().shl_bytes::<12>().add32(isa.splat(first));
    isa.splat(iv).shuffle(swap).add32(numbers).shuffle(swap)
}

#[inline(always)]
fn flight<I: Isa, const N: usize>(isa: I, pieces: &[Piece<'_>; N]) {
    let mut keys = [pieces[0].key; N];
    for i in 1..N {
        keys[i] = pieces[i].key;
    }
    let mut blocks = [isa.zero(); N];
    for i in 0..N {
        blocks[i] = count_up(isa, pieces[i].iv, pieces[i].first).xor(round_key(isa, keys[i], 0));
    }
    // All keys are of one suite.
    let rounds = keys[0].rounds();
    middle_rounds!(rounds, |round| {
        for i in 0..N {
            blocks[i] = blocks[i].aes_enc(round_key(isa, keys[i], round));
        }
    });
    for i in 0..N {
        blocks[i] = blocks[i].aes_enc_last(round_key(isa, keys[i], rounds));
    }
    // All reads come before the writes: a partial access counts as a whole vector when the processor looks for older
    // writes that a read depends on, and messages that lie one behind the other would wait for each other.
    for i in 0..N {
        // SAFETY: a piece's promise.
        blocks[i] = blocks[i].xor(unsafe { load(isa, pieces[i].input, pieces[i].len as usize) });
    }
    for i in 0..N {
        // SAFETY: a piece's promise.
        unsafe { store::<I>(blocks[i], pieces[i].output, pieces[i].len as usize) };
    }
}

#[inline(always)]
fn long_on<I: Isa>(isa: I, piece: &Piece<'_>) {
    let (step, len) = (16 * I::LEN, piece.len as usize);
    let mut at = 0;
    while at < len {
        let mut blocks = [isa.zero(); FLIGHT];
        for i in 0..FLIGHT {
            blocks[i] = count_up(isa, piece.iv, (at / 16 + i * I::LEN) as u32);
        }
        cbc_mac::step(isa, Shared(piece.key), &mut blocks, &[isa.zero(); FLIGHT]);
        for i in 0..FLIGHT {
            let here = step.min(len.saturating_sub(at));
            // SAFETY: a piece's promise; nothing is left of it where `here` is zero.
            unsafe {
                let input = load(isa, piece.input.wrapping_add(at), here);
                store::<I>(blocks[i].xor(input), piece.output.wrapping_add(at), here);
            }
            at += step;
        }
    }
}

/// # Safety
/// `len` bytes may be read, at most a vector.
#[inline(always)]
pub(super) unsafe fn load<I: Isa>(isa: I, from: *const u8, len: usize) -> I::V {
    // SAFETY: the caller's promise.
    unsafe { if len == 16 * I::LEN { isa.load(from) } else { isa.load_partial(from, len) } }
}

/// # Safety
/// `len` bytes may be written, at most a vector.
#[inline(always)]
pub(super) unsafe fn store<I: Isa>(vector: I::V, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { if len == 16 * I::LEN { vector.store(to) } else { vector.store_partial(to, len) } }
}

/// Adds key stream to bytes.
///
/// # Safety
/// As many bytes as `key_stream` has may be read at `input` and written at `output`, which is the same place or apart.
pub(super) unsafe fn add_to(key_stream: &[u8], input: *const u8, output: *mut u8) {
    for (i, byte) in key_stream.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { output.add(i).write(input.add(i).read() ^ byte) };
    }
}
