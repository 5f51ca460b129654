//! Long messages, and those with long additional data.
//!
//! Bulk: runs of eight vectors, whose counters are the run's base with five low bits of a table. Between the rounds of a
//! run the ciphertext of one run is hashed: the run before when encrypting, the same when decrypting. Each lane has a sum
//! of its own under `H^LEN`, so that nothing is added up over a vector before the end. What remains (at least one whole
//! vector, at which the lanes' sums join) goes in chunks of at most eight vectors. What is whole is read and written without a
//! mask.

use core::arch::x86_64::__m128i;

use super::{GcmKey, Message, counters, ghash, lengths, rounds, settle};
use crate::aes::ghash::BULK_VECTORS;
use crate::aes::isa::{Blocks, Isa};

/// A message as its chunks see it.
struct Stream<'k, I: Isa> {
    isa: I,
    key: &'k GcmKey,
    /// The IV with the first round key added, in every block.
    white: I::V,
    /// The next counter.
    counter: u32,
    input: *const u8,
    output: *mut u8,
    /// Bytes that remain.
    len: usize,
    /// What has been hashed: in the first block, or in each lane while a whole vector follows.
    hash: I::V,
    /// The block of lengths.
    lengths: I::V,
}

/// One message; returns whether its tag is right. The output has been written in any case.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
pub(super) unsafe fn message<I: Isa, const R: usize, const ENCRYPT: bool>(
    isa: I,
    key: &GcmKey,
    message: &Message,
    given: __m128i,
) -> bool {
    let white = isa.splat(message.iv).xor(key.near.schedule.splat(isa, 0));
    let mut mask = [white.xor(counters(isa, 1))];
    rounds::<I, R, 1>(isa, &key.near.schedule, &mut mask);
    let lengths = lengths(isa, message.aad_len, message.len);
    // SAFETY: the caller's promise.
    unsafe {
        let hash = ghash::absorb::<I, true, false>(isa, &key.hash, isa.zero(), message.aad, message.aad_len, lengths);
        let (input, output, len) = (message.input, message.output, message.len);
        let mut stream = Stream { isa, key, white, counter: 2, input, output, len, hash, lengths };
        if ENCRYPT {
            stream.seal_runs::<R>();
        } else {
            stream.open_runs::<R>();
        }
        while !stream.rest::<R, ENCRYPT>() {}
        let tag = stream.hash.shuffle(ghash::reversal(isa)).xor(mask[0]).first();
        settle::<I, ENCRYPT>(isa, tag, given, message.tag, message.tag_len)
    }
}

/// A message between its pieces: what of it was hashed, and the next counter.
pub(super) struct Progress {
    /// In POLYVAL's form.
    pub(super) hash: __m128i,
    pub(super) counter: u32,
}

/// Whole blocks in the middle of a message, whose IV is the first 12 bytes of `iv`.
///
/// # Safety
/// `len` bytes, whole blocks, may be read at `input` and written at `output`, which is the same place or apart.
#[inline(always)]
pub(super) unsafe fn piece<I: Isa, const R: usize, const ENCRYPT: bool>(
    isa: I,
    key: &GcmKey,
    iv: __m128i,
    progress: &mut Progress,
    (input, output, len): (*const u8, *mut u8, usize),
) {
    let white = isa.splat(iv).xor(key.near.schedule.splat(isa, 0));
    let hash = isa.only_first(progress.hash);
    let mut stream =
        Stream { isa, key, white, counter: progress.counter, input, output, len, hash, lengths: isa.zero() };
    let run_blocks = (BULK_VECTORS * I::LEN) as u32;
    // Runs begin at certain counters.
    let before = 16 * (2_u32.wrapping_sub(stream.counter) % run_blocks) as usize;
    // SAFETY: the caller's promise.
    unsafe {
        if before <= len {
            stream.len = before;
            stream.blocks::<R, ENCRYPT>();
            stream.len = len - before;
            if ENCRYPT {
                stream.seal_runs::<R>();
            } else {
                stream.open_runs::<R>();
            }
        }
        stream.blocks::<R, ENCRYPT>();
    }
    *progress = Progress { hash: stream.hash.first(), counter: stream.counter };
}

impl<I: Isa> Stream<'_, I> {
    /// All blocks that remain, without the lengths behind them.
    ///
    /// # Safety
    /// `len` bytes, whole blocks, may be read at `input` and written at `output`.
    #[inline(always)]
    unsafe fn blocks<const R: usize, const ENCRYPT: bool>(&mut self) {
        while self.len > 0 {
            // SAFETY: the caller's promise; each form's limit has been looked at.
            unsafe {
                match (I::LEN, self.len / 16) {
                    (4, ..=4) => self.chunk::<R, ENCRYPT, false, 1>(),
                    (4, ..=8) | (2, ..=4) => self.chunk::<R, ENCRYPT, false, 2>(),
                    (4, ..=16) | (2, ..=8) | (1, ..=4) => self.chunk::<R, ENCRYPT, false, 4>(),
                    _ => self.chunk::<R, ENCRYPT, false, 8>(),
                }
            };
        }
    }

    /// Whether there is another run with a vector behind it.
    #[inline(always)]
    fn has_run(&self) -> bool {
        self.len >= ghash::run_len::<I>() + 16 * I::LEN
    }

    /// Encrypts runs, and hashes them.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`.
    #[inline(always)]
    unsafe fn seal_runs<const R: usize>(&mut self) {
        if !self.has_run() {
            return;
        }
        // SAFETY: a run remains, as `has_run` says; the last one of the output has been written.
        unsafe {
            let stream = self.stream::<R, false>(self.input);
            self.apply(&stream);
            while self.has_run() {
                let stream = self.stream::<R, true>(self.output.wrapping_sub(ghash::run_len::<I>()));
                self.apply(&stream);
            }
            self.hash = ghash::run::<I, true>(
                self.isa,
                &self.key.hash,
                self.hash,
                self.output.wrapping_sub(ghash::run_len::<I>()),
            );
        }
    }

    /// Decrypts runs, and hashes them.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`.
    #[inline(always)]
    unsafe fn open_runs<const R: usize>(&mut self) {
        while self.has_run() {
            // SAFETY: a run remains, as `has_run` says; it is hashed before it is overwritten.
            unsafe {
                let stream = self.stream::<R, true>(self.input);
                self.apply(&stream);
            }
        }
    }

    /// The key stream of the next run. Hashes the run at `hashed` on the way, if `HASH`.
    ///
    /// # Safety
    /// A run may be read at `hashed`.
    #[inline(always)]
    unsafe fn stream<const R: usize, const HASH: bool>(&mut self, hashed: *const u8) -> [I::V; BULK_VECTORS] {
        let mut blocks = self.counter_blocks();
        let mut sum = None;
        for round in 1..R {
            let key = self.key.near.schedule.splat(self.isa, round);
            for block in &mut blocks {
                *block = block.aes_enc(key);
            }
            if HASH && round <= BULK_VECTORS {
                // SAFETY: the caller's promise.
                sum = Some(unsafe {
                    ghash::run_vector::<I, true>(self.isa, &self.key.hash, self.hash, hashed, round - 1, sum)
                });
            }
        }
        let last = self.key.near.schedule.splat(self.isa, R);
        for block in &mut blocks {
            *block = block.aes_enc_last(last);
        }
        if let Some(sum) = sum {
            self.hash = sum.reduce(ghash::polynomial(self.isa));
        }
        blocks
    }

    /// The counter blocks of the next run, with the first round key added. Runs begin two counters behind a multiple of
    /// their number of blocks, so that the low bits are the same in each; the last two counters have the next base.
    #[inline(always)]
    fn counter_blocks(&mut self) -> [I::V; BULK_VECTORS] {
        let blocks = BULK_VECTORS * I::LEN;
        let base = self.white.xor(self.base(self.counter.wrapping_sub(2)));
        self.counter = self.counter.wrapping_add(blocks as u32);
        let next = self.white.xor(self.base(self.counter.wrapping_sub(2)));
        let mut vectors = [base; BULK_VECTORS];
        for (v, vector) in vectors.iter_mut().enumerate() {
            let first = 2 + v * I::LEN;
            *vector = if first + I::LEN <= blocks {
                base.xor(counters(self.isa, first))
            } else if first >= blocks {
                next.xor(counters(self.isa, first - blocks))
            } else {
                // Two of four blocks.
                let both = base.keep_from::<0>(32).or(next.keep_from::<2>(32));
                both.xor(counters(self.isa, first))
            };
        }
        vectors
    }

    /// A counter where a counter block has it, in every block.
    #[inline(always)]
    fn base(&self, counter: u32) -> I::V {
        self.isa.pair(0, u64::from(counter.swap_bytes()) << 32)
    }

    /// Adds a run's key stream and moves behind it.
    ///
    /// # Safety
    /// A run may be read at `input` and written at `output`.
    #[inline(always)]
    unsafe fn apply(&mut self, stream: &[I::V; BULK_VECTORS]) {
        for (v, stream) in stream.iter().enumerate() {
            let at = 16 * v * I::LEN;
            // SAFETY: the caller's promise.
            unsafe { stream.xor(self.isa.load(self.input.add(at))).store(self.output.add(at)) };
        }
        self.advance(ghash::run_len::<I>());
    }

    #[inline(always)]
    fn advance(&mut self, len: usize) {
        self.input = self.input.wrapping_add(len);
        self.output = self.output.wrapping_add(len);
        self.len -= len;
    }

    /// The next chunk of what runs left over; returns whether it was the last.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`.
    #[inline(always)]
    unsafe fn rest<const R: usize, const ENCRYPT: bool>(&mut self) -> bool {
        // The data and the lengths.
        let slots = self.len.div_ceil(16) + 1;
        // SAFETY: the caller's promise; each form's limit has been looked at.
        unsafe {
            match (I::LEN, slots) {
                (4, ..=4) => self.chunk::<R, ENCRYPT, true, 1>(),
                (4, ..=8) | (2, ..=4) => self.chunk::<R, ENCRYPT, true, 2>(),
                (4, ..=16) | (2, ..=8) | (1, ..=4) => self.chunk::<R, ENCRYPT, true, 4>(),
                (4, ..=32) | (2, ..=16) | (1, ..=8) => self.chunk::<R, ENCRYPT, true, 8>(),
                _ => self.chunk::<R, ENCRYPT, false, 8>(),
            }
        }
    }

    /// A chunk of at most `N` vectors: the last one with the lengths behind the data, or blocks of data alone.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`. With its lengths, if it has any, the chunk takes more than half of
    /// the vectors unless `N` is the least of `I`; one with lengths fits, and of more data than fit another takes `N` vectors.
    #[inline(always)]
    unsafe fn chunk<const R: usize, const ENCRYPT: bool, const LAST: bool, const N: usize>(&mut self) -> bool {
        let isa = self.isa;
        let len = if LAST { self.len } else { self.len.min(16 * N * I::LEN) };
        let blocks = len.div_ceil(16);
        let (mut stream, mut hashed) = ([isa.zero(); N], [isa.zero(); N]);
        for (v, stream) in stream.iter_mut().enumerate() {
            *stream = self.counter_vector(v);
        }
        rounds::<I, R, N>(isa, &self.key.near.schedule, &mut stream);
        for v in 0..N {
            let at = 16 * v * I::LEN;
            let part = len.saturating_sub(at).min(16 * I::LEN);
            // SAFETY: the caller's promise; `part` keeps within `len`.
            let (input, output) = unsafe {
                let (from, to) = (self.input.wrapping_add(at), self.output.wrapping_add(at));
                if part == 16 * I::LEN {
                    let input = isa.load(from);
                    let output = stream[v].xor(input);
                    output.store(to);
                    (input, output)
                } else {
                    let input = isa.load_partial(from, part);
                    let output = stream[v].xor(input);
                    output.store_partial(to, part);
                    (input, output)
                }
            };
            let ciphertext = if ENCRYPT { output.keep_from::<0>(part) } else { input };
            let reversed = ciphertext.shuffle(ghash::reversal(isa));
            hashed[v] = if LAST { reversed.xor(self.lengths.and(ghash::only(isa, blocks, v))) } else { reversed };
        }
        let slots = blocks + usize::from(LAST);
        self.hash = isa.only_first(ghash::weigh(isa, self.hash, &hashed, |v| self.key.hash.near(isa, slots, v)).fold());
        self.counter = self.counter.wrapping_add(blocks as u32);
        self.advance(len);
        LAST
    }

    /// Any counters, with the first round key added.
    #[inline(always)]
    fn counter_vector(&self, v: usize) -> I::V {
        const NONE: u8 = 0x80;
        let first = self.counter.wrapping_add((v * I::LEN) as u32);
        let numbers = self.isa.pair(u64::from(first), 0).add32(self.isa.indices());
        let places = [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 3, 2, 1, 0];
        self.white.xor(numbers.shuffle(self.isa.splat_bytes(&places)))
    }
}
