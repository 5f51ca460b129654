//! ChaCha20 (RFC 8439, 2.3) on lanes: one block a lane, each with a key, nonce and counter of its own.
//!
//! Three forms of the same rounds:
//!
//! - [`pass`]: a vector a word of the state, `LEN` blocks of any messages. Keys and nonces are transposed into the
//!   vectors, key streams back. Four quarter rounds run side by side, which fills two vector ports.
//! - [`few`]: a vector a row of the state, as many blocks as it has quarters, once or twice side by side. It takes more
//!   instructions a block but half the time of a pass, so it serves lone messages and a batch's remainder.
//! - [`long`]: `LEN` consecutive blocks of one message, whose key is the same in every lane.
//!
//! Floor of a pass: 80 quarter rounds of 12 instructions (with a rotation in one), 64 to transpose the result of 16
//! lanes, 40 to transpose keys and nonces: 1,100 instructions for 16 blocks, 550 cycles with two ports.

use core::mem::MaybeUninit;

use super::isa::{Isa, Words};

/// Lanes that may wait.
pub(super) const WAITING_MAX: usize = 64;

/// Lanes that one message adds at most: its first block, and what is left of it behind whole passes.
pub(super) const LANES_MAX: usize = 17;

/// "expand 32-byte k", the first row of every state.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Double rounds.
const DOUBLE_ROUNDS: usize = 10;

/// What is done with the data of a lane.
pub(super) mod mode {
    /// The key stream is added, nothing else.
    pub(in super::super) const STREAM: u8 = 0;
    /// The result is also written to where it is authenticated.
    pub(in super::super) const SEAL: u8 = 1;
    /// The input is also written to where it is authenticated.
    pub(in super::super) const OPEN: u8 = 2;
}

/// One block of one message.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// The 32 bytes of the key.
    pub(super) key: *const u8,
    /// Counter and nonce as they stand in the state, lowest byte first.
    pub(super) counter_nonce: u128,
    pub(super) input: *const u8,
    pub(super) output: *mut u8,
    /// Where 64 bytes are written to be authenticated, zero behind `len`; read in modes `SEAL` and `OPEN` only.
    pub(super) tape: *mut u8,
    /// Bytes of input, at most 64.
    pub(super) len: usize,
}

/// Lanes that wait until there are enough of them, field by field, so that vectors can be read from a field.
#[repr(C, align(64))]
pub(super) struct Waiting {
    counter_nonce: [MaybeUninit<[u8; 16]>; WAITING_MAX],
    key: [MaybeUninit<*const u8>; WAITING_MAX],
    input: [MaybeUninit<*const u8>; WAITING_MAX],
    output: [MaybeUninit<*mut u8>; WAITING_MAX],
    tape: [MaybeUninit<*mut u8>; WAITING_MAX],
    len: [MaybeUninit<u32>; WAITING_MAX],
    /// Lanes before this one have run.
    first: usize,
    /// Lanes before this one have been set.
    used: usize,
}

impl Waiting {
    /// None.
    #[inline(always)]
    pub(super) fn new() -> Waiting {
        Waiting {
            counter_nonce: [MaybeUninit::uninit(); WAITING_MAX],
            key: [MaybeUninit::uninit(); WAITING_MAX],
            input: [MaybeUninit::uninit(); WAITING_MAX],
            output: [MaybeUninit::uninit(); WAITING_MAX],
            tape: [MaybeUninit::uninit(); WAITING_MAX],
            len: [MaybeUninit::uninit(); WAITING_MAX],
            first: 0,
            used: 0,
        }
    }

    /// Whether one more message may add its lanes, and the last pass its idle ones.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.used + LANES_MAX + 16 <= WAITING_MAX
    }

    /// How many wait.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.used - self.first
    }

    /// Adds one.
    ///
    /// # Safety
    /// There is room: since [`Waiting::has_room`] said so, fewer than `LANES_MAX` were added.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, lane: Lane) {
        let at = self.used;
        debug_assert!(at < WAITING_MAX);
        // SAFETY: the caller's promise.
        unsafe {
            self.counter_nonce.get_unchecked_mut(at).write(lane.counter_nonce.to_le_bytes());
            self.key.get_unchecked_mut(at).write(lane.key);
            self.input.get_unchecked_mut(at).write(lane.input);
            self.output.get_unchecked_mut(at).write(lane.output);
            self.tape.get_unchecked_mut(at).write(lane.tape);
            self.len.get_unchecked_mut(at).write(lane.len as u32);
        }
        self.used = at + 1;
    }

    /// A lane that has been set.
    ///
    /// # Safety
    /// `at` is below `used`.
    #[inline(always)]
    unsafe fn at(&self, at: usize) -> (*const u8, *mut u8, *mut u8, usize) {
        // SAFETY: the caller's promise; all fields of a lane are set together.
        unsafe {
            (
                self.input.get_unchecked(at).assume_init(),
                self.output.get_unchecked(at).assume_init(),
                self.tape.get_unchecked(at).assume_init(),
                self.len.get_unchecked(at).assume_init() as usize,
            )
        }
    }

    /// Gives the next `len` lanes at least a key, a counter and a nonce: those of the first of them.
    #[inline(always)]
    fn fill_up(&mut self, len: usize) {
        let key = self.key[self.first];
        for at in self.used..self.first + len {
            self.key[at] = key;
            self.counter_nonce[at].write([0; 16]);
        }
    }

    /// Takes the lanes that ran, at most `len`, out.
    #[inline(always)]
    fn take(&mut self, len: usize) {
        self.first = self.used.min(self.first + len);
        if self.first == self.used {
            (self.first, self.used) = (0, 0);
        }
    }

    /// Moves what waits to the front.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        let (first, count) = (self.first, self.count());
        if first != 0 {
            for i in 0..count {
                self.counter_nonce[i] = self.counter_nonce[first + i];
                self.key[i] = self.key[first + i];
                self.input[i] = self.input[first + i];
                self.output[i] = self.output[first + i];
                self.tape[i] = self.tape[first + i];
                self.len[i] = self.len[first + i];
            }
            (self.first, self.used) = (0, count);
        }
    }
}

/// A quarter round (RFC 8439, 2.1) on four vectors.
#[inline(always)]
fn quarter_round<V: Words>(a: &mut V, b: &mut V, c: &mut V, d: &mut V) {
    *a = a.add(*b);
    *d = d.xor(*a).rotate_left::<16>();
    *c = c.add(*d);
    *b = b.xor(*c).rotate_left::<12>();
    *a = a.add(*b);
    *d = d.xor(*a).rotate_left::<8>();
    *c = c.add(*d);
    *b = b.xor(*c).rotate_left::<7>();
}

/// Four quarter rounds side by side, step by step: the order in which two ports are kept busy.
#[inline(always)]
fn quarter_rounds<V: Words>(x: &mut [V; 16], b: [usize; 4], c: [usize; 4], d: [usize; 4]) {
    macro_rules! step {
        ($sum:expr, $with:expr, $turned:expr, $bits:literal) => {
            for i in 0..4 {
                x[$sum[i]] = x[$sum[i]].add(x[$with[i]]);
            }
            for i in 0..4 {
                x[$turned[i]] = x[$turned[i]].xor(x[$sum[i]]).rotate_left::<$bits>();
            }
        };
    }
    let a = [0, 1, 2, 3];
    step!(a, b, d, 16);
    step!(c, d, b, 12);
    step!(a, b, d, 8);
    step!(c, d, b, 7);
}

/// A column round and a diagonal round (RFC 8439, 2.3) on a state with a vector a word.
#[inline(always)]
fn double_round<V: Words>(x: &mut [V; 16]) {
    quarter_rounds(x, [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]);
    quarter_rounds(x, [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]);
}

/// All rounds and the final addition.
#[inline(always)]
fn permute<V: Words>(start: [V; 16]) -> [V; 16] {
    let mut x = start;
    for _ in 0..DOUBLE_ROUNDS {
        double_round(&mut x);
    }
    for i in 0..16 {
        x[i] = x[i].add(start[i]);
    }
    x
}

/// Adds a block of key stream to a lane's data.
///
/// # Safety
/// The lane's places are valid for its length, the tape for 64 bytes when the mode writes it.
#[inline(always)]
unsafe fn put<I: Isa, const MODE: u8>(isa: I, lane: (*const u8, *mut u8, *mut u8, usize), stream: I::B) {
    let (input, output, tape, len) = lane;
    // SAFETY: the caller's promise.
    unsafe {
        if len == 64 {
            let data = isa.load_block(input);
            let result = isa.xor(data, stream);
            isa.store_block(result, output);
            match MODE {
                mode::SEAL => isa.store_block(result, tape),
                mode::OPEN => isa.store_block(data, tape),
                _ => {}
            }
        } else {
            let data = isa.load_partial(input, len);
            let result = isa.xor(data, stream);
            isa.store_partial(result, output, len);
            match MODE {
                mode::SEAL => isa.store_block(isa.keep(result, len), tape),
                mode::OPEN => isa.store_block(data, tape),
                _ => {}
            }
        }
    }
}

/// Runs the first `LEN` waiting lanes, or all if they are fewer.
///
/// # Safety
/// At least one lane waits; every waiting lane's places are valid for its length, and no lane writes what another reads
/// or writes.
#[inline(always)]
pub(super) unsafe fn pass<I: Isa, const MODE: u8>(isa: I, waiting: &mut Waiting) {
    let (first, count) = (waiting.first, waiting.count().min(I::LEN));
    if count < I::LEN {
        waiting.fill_up(I::LEN);
    }
    // Quarter k of vector j comes from lane `QUARTERS · j + k`; transposed back, results come out in the same order.
    // SAFETY: `LEN` lanes from `first` have keys, counters and nonces.
    let start = unsafe {
        let keys = waiting.key.as_ptr().add(first).cast::<*const u8>();
        let rows = waiting.counter_nonce.as_ptr().add(first).cast::<u8>();
        let zero = isa.splat(0);
        let (mut low, mut high, mut last) = ([zero; 4], [zero; 4], [zero; 4]);
        for j in 0..4 {
            low[j] = isa.load_quarters(keys.add(I::QUARTERS * j), 0);
            high[j] = isa.load_quarters(keys.add(I::QUARTERS * j), 16);
            last[j] = isa.load(rows.add(16 * I::QUARTERS * j));
        }
        state(isa, isa.transpose(low), isa.transpose(high), isa.transpose(last))
    };
    let streams = streams(isa, permute(start));
    for (j, vector) in streams.iter().enumerate() {
        for (k, stream) in vector.iter().enumerate().take(I::QUARTERS) {
            let lane = I::QUARTERS * j + k;
            if lane < count {
                // SAFETY: the caller's promise; `count` lanes are set.
                unsafe { put::<I, MODE>(isa, waiting.at(first + lane), *stream) };
            }
        }
    }
    waiting.take(I::LEN);
}

/// Runs waiting lanes, as many as the form takes that suits their number.
///
/// # Safety
/// As [`pass`].
#[inline(always)]
pub(super) unsafe fn next_pass<I: Isa, const MODE: u8>(isa: I, waiting: &mut Waiting) {
    // SAFETY: the caller's promise.
    unsafe {
        match waiting.count() {
            count if count > 2 * I::QUARTERS => pass::<I, MODE>(isa, waiting),
            count if count > I::QUARTERS => few::<I, MODE, 2>(isa, waiting),
            _ => few::<I, MODE, 1>(isa, waiting),
        }
    }
}

/// A state with a vector a word. No closures here and elsewhere in the kernels: a closure lacks the features that its
/// intrinsics need to be inlined.
#[inline(always)]
fn state<I: Isa>(isa: I, low: [I::V; 4], high: [I::V; 4], last: [I::V; 4]) -> [I::V; 16] {
    let mut state = [isa.splat(0); 16];
    for i in 0..4 {
        state[i] = isa.splat(CONSTANTS[i]);
        state[4 + i] = low[i];
        state[8 + i] = high[i];
        state[12 + i] = last[i];
    }
    state
}

/// The blocks of key stream in a state: entry `[j][k]` is that of lane `QUARTERS · j + k`.
#[inline(always)]
fn streams<I: Isa>(isa: I, words: [I::V; 16]) -> [[I::B; 4]; 4] {
    let rows = |g: usize| [words[4 * g], words[4 * g + 1], words[4 * g + 2], words[4 * g + 3]];
    let rows = [rows(0), rows(1), rows(2), rows(3)];
    let [a, b, c, d] = [isa.transpose(rows[0]), isa.transpose(rows[1]), isa.transpose(rows[2]), isa.transpose(rows[3])];
    [
        isa.blocks([a[0], b[0], c[0], d[0]]),
        isa.blocks([a[1], b[1], c[1], d[1]]),
        isa.blocks([a[2], b[2], c[2], d[2]]),
        isa.blocks([a[3], b[3], c[3], d[3]]),
    ]
}

/// Runs the first `GROUPS · QUARTERS` waiting lanes, or all if they are fewer.
///
/// # Safety
/// As [`pass`].
#[inline(always)]
pub(super) unsafe fn few<I: Isa, const MODE: u8, const GROUPS: usize>(isa: I, waiting: &mut Waiting) {
    let (first, len) = (waiting.first, GROUPS * I::QUARTERS);
    let count = waiting.count().min(len);
    if count < len {
        waiting.fill_up(len);
    }
    let mut start = [[isa.splat_quarter(&CONSTANTS); 4]; GROUPS];
    for (g, [_, low, high, last]) in start.iter_mut().enumerate() {
        // SAFETY: `len` lanes from `first` have keys, counters and nonces.
        unsafe {
            let keys = waiting.key.as_ptr().add(first + g * I::QUARTERS).cast::<*const u8>();
            let rows = waiting.counter_nonce.as_ptr().add(first + g * I::QUARTERS).cast::<u8>();
            (*low, *high, *last) = (isa.load_quarters(keys, 0), isa.load_quarters(keys, 16), isa.load(rows));
        }
    }
    let mut x = start;
    for _ in 0..DOUBLE_ROUNDS {
        for [a, b, c, d] in &mut x {
            quarter_round(a, b, c, d);
            (*b, *c, *d) = (b.turn::<1>(), c.turn::<2>(), d.turn::<3>());
        }
        for [a, b, c, d] in &mut x {
            quarter_round(a, b, c, d);
            (*b, *c, *d) = (b.turn::<3>(), c.turn::<2>(), d.turn::<1>());
        }
    }
    for g in 0..GROUPS {
        let ([a, b, c, d], [a0, b0, c0, d0]) = (x[g], start[g]);
        let streams = isa.blocks([a.add(a0), b.add(b0), c.add(c0), d.add(d0)]);
        for (k, stream) in streams.iter().enumerate().take(I::QUARTERS) {
            let lane = I::QUARTERS * g + k;
            if lane < count {
                // SAFETY: the caller's promise; `count` lanes are set.
                unsafe { put::<I, MODE>(isa, waiting.at(first + lane), *stream) };
            }
        }
    }
    waiting.take(len);
}

/// Consecutive blocks of one message.
pub(super) struct Long<V> {
    start: [V; 16],
    step: V,
}

impl<V: Words> Long<V> {
    /// A message under `key`, from the block on that `counter_nonce` names.
    ///
    /// # Safety
    /// 32 bytes may be read at `key`.
    #[inline(always)]
    pub(super) unsafe fn new<I: Isa<V = V>>(isa: I, key: *const u8, counter_nonce: u128) -> Long<V> {
        let mut rows = [[0; 16]; 16];
        for (row, number) in rows.iter_mut().zip(0..I::LEN as u128) {
            *row = counter_nonce.wrapping_add(number).to_le_bytes();
        }
        let zero = isa.splat(0);
        let (mut low, mut high, mut last) = ([zero; 4], [zero; 4], [zero; 4]);
        // SAFETY: the caller's promise; an array of at least `LEN` rows.
        unsafe {
            let words = key.cast::<[[u8; 4]; 8]>().read();
            for i in 0..4 {
                low[i] = isa.splat(u32::from_le_bytes(words[i]));
                high[i] = isa.splat(u32::from_le_bytes(words[4 + i]));
                last[i] = isa.load(rows.as_ptr().add(I::QUARTERS * i).cast());
            }
            Long { start: state(isa, low, high, isa.transpose(last)), step: isa.splat(I::LEN as u32) }
        }
    }

    /// The next `LEN` blocks.
    ///
    /// # Safety
    /// `64 · LEN` bytes may be read from `input` and written to `output`, which is the same place or apart.
    #[inline(always)]
    pub(super) unsafe fn blocks<I: Isa<V = V>>(&mut self, isa: I, input: *const u8, output: *mut u8) {
        let streams = streams(isa, permute(self.start));
        self.start[12] = self.start[12].add(self.step);
        for (j, vector) in streams.iter().enumerate() {
            for (k, stream) in vector.iter().enumerate().take(I::QUARTERS) {
                let at = 64 * (I::QUARTERS * j + k);
                // SAFETY: the caller's promise.
                unsafe { isa.store_block(isa.xor(isa.load_block(input.add(at)), *stream), output.add(at)) };
            }
        }
    }
}
