//! Short messages: at most twenty blocks with additional data and lengths.
//!
//! Layout: slots of one block, the same for both halves of the work. The counter block of slot `i` has the counter
//! `i + 1`, so that slot 0 masks the tag and slot `i` encrypts block `i - 1` of the data. For the hash, slot 0 has the
//! additional data, then come the data, then the lengths.

use core::arch::x86_64::__m128i;

use super::{GcmKey, Message, counters, ghash, lengths, rounds, settle};
use crate::aes::isa::{Blocks, Isa};

/// A message between the cipher and the hash: what it becomes, and what is to be hashed.
pub(super) struct Begun<'k, V, const N: usize> {
    key: &'k GcmKey,
    /// Additional data, ciphertext and lengths as the hash wants them.
    hashed: [V; N],
    /// What is written.
    output: [V; N],
    /// What hides the tag.
    mask: __m128i,
    /// The tag that came along.
    given: __m128i,
    to: *mut u8,
    len: usize,
    tag: *mut u8,
    tag_len: usize,
    /// The operation's index.
    pub(super) op: usize,
}

/// Slots that a short message has at most: with 256 bytes it has eighteen.
#[inline(always)]
pub(super) const fn slots_max<I: Isa>() -> usize {
    if I::LEN == 4 { 20 } else { 8 * I::LEN }
}

impl<V: Blocks, const N: usize> Begun<'_, V, N> {
    /// Forgets what is secret: data, key stream behind them, what hides the tag. For what lies in memory between operations;
    /// what is worked on at once is on the stack no longer than any other value of a kernel.
    #[inline(always)]
    pub(super) fn wipe<I: Isa<V = V>>(&mut self, isa: I) {
        // SAFETY: places of our own; volatile writes are not dropped.
        unsafe {
            core::ptr::write_volatile(&raw mut self.output, [isa.zero(); N]);
            core::ptr::write_volatile(&raw mut self.mask, isa.zero().first());
        }
    }
}

/// One message; returns whether its tag is right. Nothing is written when it is not.
///
/// # Safety
/// See [`begin`].
#[inline(always)]
pub(super) unsafe fn message<I: Isa, const R: usize, const ENCRYPT: bool, const N: usize>(
    isa: I,
    key: &GcmKey,
    message: &Message,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { finish::<I, ENCRYPT, N>(isa, &begin::<I, R, ENCRYPT, N>(isa, key, message, 0)) }
}

/// Reads a message and encrypts or decrypts it, without writing anything.
///
/// # Safety
/// See [`Message`]; its additional data fit one block, and its slots, two at least, are at most `N` vectors. `N` vectors are at
/// most sixteen blocks more than the slots: those are zero.
#[inline(always)]
pub(super) unsafe fn begin<'k, I: Isa, const R: usize, const ENCRYPT: bool, const N: usize>(
    isa: I,
    key: &'k GcmKey,
    message: &Message,
    op: usize,
) -> Begun<'k, I::V, N> {
    let Message { len, tag, tag_len, .. } = *message;
    // SAFETY: the caller's promise.
    let input = unsafe { load::<I, N>(isa, message) };
    let white = isa.splat(message.iv).xor(key.near.schedule.splat(isa, 0));
    let mut stream = [isa.zero(); N];
    for (v, stream) in stream.iter_mut().enumerate() {
        *stream = white.xor(counters(isa, 1 + v * I::LEN));
    }
    rounds::<I, R, N>(isa, &key.near.schedule, &mut stream);
    let blocks = len.div_ceil(16);
    let (reversal, lengths) = (ghash::reversal(isa), lengths(isa, message.aad_len, len));
    let (mut output, mut hashed) = ([isa.zero(); N], [isa.zero(); N]);
    for v in 0..N {
        output[v] = stream[v].xor(input[v]);
        let (_, len) = part::<I>(v, len);
        let ciphertext = match (ENCRYPT, v) {
            (false, _) => input[v],
            (true, 0) => output[v].keep_from::<1>(len).xor(input[v].keep_from::<0>(16)),
            (true, _) => output[v].keep_from::<0>(len),
        };
        hashed[v] = ciphertext.shuffle(reversal).xor(lengths.and(ghash::only(isa, blocks + 1, v)));
    }
    // SAFETY: the caller's promise.
    let given = unsafe { if ENCRYPT { isa.zero() } else { isa.load_partial(tag, tag_len) } };
    let (mask, given, to) = (stream[0].first(), given.first(), message.output);
    Begun { key, hashed, output, mask, given, to, len, tag, tag_len, op }
}

/// Hashes a message that was begun and writes it; returns whether its tag is right. Nothing is written when it is not.
///
/// # Safety
/// As for [`begin`], of the message that it was given.
#[inline(always)]
pub(super) unsafe fn finish<I: Isa, const ENCRYPT: bool, const N: usize>(isa: I, begun: &Begun<'_, I::V, N>) -> bool {
    let slots = begun.len.div_ceil(16) + 2;
    let hash = ghash::weigh(isa, isa.zero(), &begun.hashed, |v| begun.key.factors::<I, N>(isa, slots, v));
    let tag = isa.only_first(hash.shuffle(ghash::reversal(isa)).fold()).xor(isa.only_first(begun.mask)).first();
    // SAFETY: the caller's promise.
    unsafe {
        let good = settle::<I, ENCRYPT>(isa, tag, begun.given, begun.tag, begun.tag_len);
        if good {
            for (v, output) in begun.output.iter().enumerate() {
                store::<I>(begun.to, begun.len, v, *output);
            }
        }
        good
    }
}

/// The data of a message in the slots behind the first, which has the additional data.
///
/// # Safety
/// See [`Message`]; the additional data fit one block.
#[inline(always)]
unsafe fn load<I: Isa, const N: usize>(isa: I, message: &Message) -> [I::V; N] {
    let mut input = [isa.zero(); N];
    for (v, input) in input.iter_mut().enumerate() {
        let (at, len) = part::<I>(v, message.len);
        // SAFETY: the caller's promise; `part` keeps within `len`.
        *input = unsafe {
            if v == 0 {
                isa.load_from::<1>(message.input, len).xor(isa.load_partial(message.aad, message.aad_len))
            } else {
                isa.load_partial(message.input.wrapping_add(at), len)
            }
        };
    }
    input
}

/// Where the data of a vector start, and how many bytes of them there are.
#[inline(always)]
fn part<I: Isa>(v: usize, len: usize) -> (usize, usize) {
    if v == 0 {
        return (0, len.min(16 * (I::LEN - 1)));
    }
    let at = 16 * (v * I::LEN - 1);
    (at, len.saturating_sub(at).min(16 * I::LEN))
}

/// Writes the data of a vector.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn store<I: Isa>(to: *mut u8, len: usize, v: usize, output: I::V) {
    let (at, len) = part::<I>(v, len);
    // SAFETY: the caller's promise; `part` keeps within `len`.
    unsafe {
        if v == 0 {
            output.store_from::<1>(to, len);
        } else {
            output.store_partial(to.wrapping_add(at), len);
        }
    }
}
