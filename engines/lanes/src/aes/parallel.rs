//! Modes that are parallel within a message: ECB, CBC decryption, CTR, XTS. Blocks of one message fill vectors.
//!
//! A message has whole flights of eight vectors, and an end that is done in as few vectors as its class has. No message
//! waits for others: the processor sees the next one's rounds by itself, as long as nothing is mispredicted. So the class of
//! the shortest is wide enough for what short operations are, though half of its vectors may be empty.
//!
//! Where a batch begins with messages of one length, whole vectors, those are done without masks and written at once, the
//! shortest in single blocks ([`drive_alike`]).
//!
//! Others that are short are written late. A masked load waits for any masked store shortly before it whose vector, bytes left out
//! included, overlaps its own, as those of neighbours do; of CBC decryption, whose rounds begin with the load, one message
//! would then run at a time (64 bytes took 17 ns instead of 8).
//!
//! Floor with 512-bit vectors: one AES instruction a round and vector, one or two a cycle; of a message of 8 to 128 bytes
//! 20 of some 130 instructions, most of which take the operation and make masks.

use core::arch::x86_64::__m128i;
use core::mem::MaybeUninit;

use super::isa::{Blocks, Isa};
use super::message::{Alike, Message, Messages};
use super::schedule::{AesKey, Schedule};

/// Vectors in flight for long messages.
const FLIGHT: usize = 8;

/// How many short messages later one is written.
const LATE: usize = 8;

/// Which way the cipher runs.
pub(super) trait Way {
    /// Whether it runs backwards.
    const DECRYPTS: bool;
}

/// What a mode does with consecutive blocks before and after the cipher.
pub(super) trait Mode: Way {
    /// Makes consecutive blocks of a message what the cipher takes, and gives what is added to what comes out of it.
    /// `iv` is what the mode chains: a ciphertext block, a counter, a tweak; it comes back for the block behind.
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i);
}

/// Runs a mode over all messages of a list whose keys have `rounds` rounds.
#[inline(always)]
pub(super) fn drive<I: Isa, M: Mode>(isa: I, rounds: usize, source: &mut impl Messages) {
    match rounds {
        10 => drive_sized::<I, M, 10>(isa, source),
        12 => drive_sized::<I, M, 12>(isa, source),
        _ => drive_sized::<I, M, 14>(isa, source),
    }
}

#[inline(always)]
fn drive_sized<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, source: &mut impl Messages) {
    match I::LEN {
        1 => drive_classed::<I, M, 4, FLIGHT, ROUNDS>(isa, source),
        _ => drive_classed::<I, M, 2, 4, ROUNDS>(isa, source),
    }
}

/// Messages of up to `FEW` vectors and longer ones, whose ends have up to `MORE` or a flight.
#[inline(always)]
fn drive_classed<I: Isa, M: Mode, const FEW: usize, const MORE: usize, const ROUNDS: usize>(
    isa: I,
    source: &mut impl Messages,
) {
    let mut late = [const { MaybeUninit::<Computed<I::V, FEW>>::uninit() }; LATE];
    let (mut computed, mut written) = (0, 0);
    let is_alone = source.is_alone();
    while let Some(message) = source.next() {
        // SAFETY: the list of messages is borrowed until the end of this function; what is not written yet has been computed.
        unsafe {
            if is_alone || message.len > FEW * 16 * I::LEN {
                long::<I, M, MORE, ROUNDS>(isa, message);
                continue;
            }
            if computed - written == LATE {
                late[written % LATE].assume_init_ref().write::<I>();
                written += 1;
            }
            let key = schedule::<M>(message.key());
            late[computed % LATE].write(some::<I, M, FEW, ROUNDS>(isa, key, &message));
            computed += 1;
        }
    }
    for place in written..computed {
        // SAFETY: as above.
        unsafe { late[place % LATE].assume_init_ref().write::<I>() };
    }
    for late in &mut late[..computed.min(LATE)] {
        // SAFETY: written before, a place of our own; a volatile write is not dropped.
        unsafe { core::ptr::write_volatile(&raw mut late.assume_init_mut().blocks, [isa.zero(); FEW]) };
    }
}

/// What a message, or its end, becomes, and where it is to be written.
struct Computed<V, const N: usize> {
    blocks: [V; N],
    to: *mut u8,
    len: usize,
}

impl<V: Blocks, const N: usize> Computed<V, N> {
    /// Writes it.
    ///
    /// # Safety
    /// `len` bytes from `to` may be written.
    #[inline(always)]
    unsafe fn write<I: Isa<V = V>>(&self) {
        for (v, block) in self.blocks.iter().enumerate() {
            let (at, len) = part::<I>(v, self.len);
            // SAFETY: the caller's promise.
            unsafe { block.store_partial(self.to.wrapping_add(at), len) };
        }
    }
}

/// Where vector `v` of `len` bytes begins, and how many it has of them; with none it may lie behind them.
#[inline(always)]
fn part<I: Isa>(v: usize, len: usize) -> (usize, usize) {
    let width = 16 * I::LEN;
    (v * width, len.saturating_sub(v * width).min(width))
}

/// A message of any length.
///
/// # Safety
/// The list that it came from is borrowed.
#[inline(always)]
unsafe fn long<I: Isa, M: Mode, const MORE: usize, const ROUNDS: usize>(isa: I, message: Message) {
    let flight = FLIGHT * 16 * I::LEN;
    let mut rest = message;
    // SAFETY: the caller's promise.
    unsafe {
        let key = schedule::<M>(rest.key());
        while rest.len >= flight {
            let next = whole::<I, M, FLIGHT, ROUNDS>(isa, key, &rest);
            rest = rest.behind(flight, next);
        }
        if rest.len > MORE * 16 * I::LEN {
            some::<I, M, FLIGHT, ROUNDS>(isa, key, &rest).write::<I>();
        } else if rest.len != 0 {
            some::<I, M, MORE, ROUNDS>(isa, key, &rest).write::<I>();
        }
    }
}

/// Runs the first messages of a list as long as each has as many bytes as the first: one or two blocks, or one, two or four whole
/// vectors. There may be none such. It is called by functions of its own, since [`drive`] would have fewer registers beside it.
#[inline(always)]
pub(super) fn drive_alike<I: Isa, M: Mode>(isa: I, rounds: usize, source: &mut impl Alike) {
    match rounds {
        10 => drive_alike_sized::<I, M, 10>(isa, source),
        12 => drive_alike_sized::<I, M, 12>(isa, source),
        _ => drive_alike_sized::<I, M, 14>(isa, source),
    }
}

#[inline(always)]
fn drive_alike_sized<I: Isa, M: Mode, const ROUNDS: usize>(isa: I, source: &mut impl Alike) {
    let Some(len) = source.next_len().filter(|len| len.is_multiple_of(16)) else { return };
    match len / 16 {
        1 => alike::<_, M, 1, ROUNDS>(isa.single(), source),
        2 if I::LEN == 4 => alike::<_, M, 2, ROUNDS>(isa.single(), source),
        blocks if blocks == I::LEN => alike::<I, M, 1, ROUNDS>(isa, source),
        blocks if blocks == 2 * I::LEN => alike::<I, M, 2, ROUNDS>(isa, source),
        blocks if blocks == 4 * I::LEN => alike::<I, M, 4, ROUNDS>(isa, source),
        _ => {}
    }
}

/// Messages of `N` whole vectors.
#[inline(always)]
fn alike<I: Isa, M: Mode, const N: usize, const ROUNDS: usize>(isa: I, source: &mut impl Alike) {
    for message in source.alike(N * 16 * I::LEN) {
        // SAFETY: the list of messages is borrowed, and this one has so many bytes.
        unsafe { whole::<I, M, N, ROUNDS>(isa, schedule::<M>(message.key()), &message) };
    }
}

/// `N` whole vectors of a message. Returns the IV of what is behind them.
///
/// # Safety
/// The list that it came from is borrowed, and it has so many.
#[inline(always)]
unsafe fn whole<I: Isa, M: Mode, const N: usize, const ROUNDS: usize>(
    isa: I,
    key: &Schedule,
    message: &Message,
) -> __m128i {
    let width = 16 * I::LEN;
    let mut blocks = [isa.zero(); N];
    // SAFETY: within the message, as its list promises; all vectors are read before any is written.
    unsafe {
        for (v, block) in blocks.iter_mut().enumerate() {
            *block = isa.load(message.input.add(v * width));
        }
        let (added, next) = M::mix::<I, N>(isa, message.iv, &mut blocks);
        cipher::<I, M, ROUNDS>(isa, key, &mut blocks, &added);
        for (v, block) in blocks.iter().enumerate() {
            block.store(message.output.add(v * width));
        }
        next
    }
}

/// What a message of at most `N` vectors becomes.
///
/// # Safety
/// The list that it came from is borrowed.
#[inline(always)]
unsafe fn some<I: Isa, M: Mode, const N: usize, const ROUNDS: usize>(
    isa: I,
    key: &Schedule,
    message: &Message,
) -> Computed<I::V, N> {
    debug_assert!(message.len <= N * 16 * I::LEN);
    let mut blocks = [isa.zero(); N];
    for (v, block) in blocks.iter_mut().enumerate() {
        let (at, len) = part::<I>(v, message.len);
        // SAFETY: within the message, as its list promises.
        *block = unsafe { isa.load_partial(message.input.wrapping_add(at), len) };
    }
    let (added, _) = M::mix::<I, N>(isa, message.iv, &mut blocks);
    cipher::<I, M, ROUNDS>(isa, key, &mut blocks, &added);
    Computed { blocks, to: message.output, len: message.len }
}

/// The schedule that a mode's cipher runs with.
#[inline(always)]
pub(super) fn schedule<W: Way>(key: &AesKey) -> &Schedule {
    if W::DECRYPTS { &key.decrypt } else { &key.encrypt }
}

/// The cipher on vectors side by side; the caller knows their number when it is compiled. What is to be added to the output
/// goes into the last round key.
#[inline(always)]
pub(super) fn cipher<I: Isa, W: Way, const ROUNDS: usize>(isa: I, key: &Schedule, blocks: &mut [I::V], added: &[I::V]) {
    debug_assert_eq!(blocks.len(), added.len());
    let first = key.splat(isa, 0);
    for block in blocks.iter_mut() {
        *block = block.xor(first);
    }
    for round in 1..ROUNDS {
        let round_key = key.splat(isa, round);
        for block in blocks.iter_mut() {
            *block = if W::DECRYPTS { block.aes_dec(round_key) } else { block.aes_enc(round_key) };
        }
    }
    let last = key.splat(isa, ROUNDS);
    for (block, added) in blocks.iter_mut().zip(added) {
        let last = last.xor(*added);
        *block = if W::DECRYPTS { block.aes_dec_last(last) } else { block.aes_enc_last(last) };
    }
}
