//! AES-CTR (NIST SP 800-38A, 6.5; with a nonce: RFC 3686). A counter block of 16 bytes counts as one big-endian number;
//! a nonce of 12 bytes stands before a 32-bit counter that begins at one.
//!
//! Counters are kept as little-endian numbers, so that one addition of 64-bit halves counts and one shuffle makes the
//! block. A message whose lower half wraps is done in two parts; the counter behind a nonce cannot wrap, since no input
//! has 2^32 blocks.
//!
//! Floor with 512-bit vectors: 10 AES instructions (128-bit keys), one addition and one shuffle for 64 bytes.

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::limits::INPUT_LEN_MAX;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, PreparedKey, Suite};

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
pub(crate) use super::message::Lane as CtrLane;
use super::message::{Alike, AlikeMessages, Message, Messages, Source};
use super::parallel::{Mode, Way, drive, drive_alike};
use super::schedule::AesKey;

use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] = &[Capability::new(&lists::AES_CTR, Cost::new(18.0, 4.5, 0.025))];

/// Bytes of a nonce (RFC 3686, section 4, with the IV of each packet).
const NONCE_LEN: usize = 12;

const _: () = assert!(INPUT_LEN_MAX as u64 / 16 < u32::MAX as u64);

/// Runs CTR over a list of messages of any lengths, with keys of one size and whole counter blocks.
///
/// # Safety
/// `len` bytes may be read at each message's input and written at its output, which is the same place or apart; nothing
/// that one message writes is read or written by another.
pub(crate) unsafe fn messages(kernel: AesKernel, lanes: &[CtrLane<'_>]) {
    // SAFETY: the caller's promise.
    let Some((rounds, mut source)) = (unsafe { Source::list(lanes) }) else { return };
    all(kernel, rounds, &mut source);
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, AesKey::new(kernel, key)?))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, _scratch: &mut Scratch) {
    Source::batch(work, |rounds, source| {
        source.by(|source| alike(kernel, rounds, source), |source| all(kernel, rounds, source));
    });
}

aes_kernels! {
    fn alike(rounds: usize, source: &mut Source<'_, '_>) = alike_on
}

#[inline(always)]
fn alike_on<I: Isa>(isa: I, rounds: usize, source: &mut Source<'_, '_>) {
    drive_alike::<I, Ctr>(isa, rounds, &mut Counted { isa, source, second: None });
}

aes_kernels! {
    fn all(rounds: usize, source: &mut Source<'_, '_>) = all_on
}

#[inline(always)]
fn all_on<I: Isa>(isa: I, rounds: usize, source: &mut Source<'_, '_>) {
    drive::<I, Ctr>(isa, rounds, &mut Counted { isa, source, second: None });
}

/// A list whose messages' IVs become counters: little-endian numbers whose lower halves do not wrap.
struct Counted<'s, 'w, 'a, I> {
    isa: I,
    source: &'s mut Source<'w, 'a>,
    /// The part of a message behind the place where the lower half wraps.
    second: Option<Message>,
}

// SAFETY: the promise of the list within; the two parts of a message lie within it and apart from each other.
unsafe impl<I: Isa> Messages for Counted<'_, '_, '_, I> {
    #[inline(always)]
    fn next(&mut self) -> Option<Message> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let (message, iv_len) = self.source.next_with_iv_len()?;
        let (counted, before) = counted(self.isa, &message, iv_len);
        Some(if before < message.len { self.split(counted, before) } else { counted })
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.source.is_alone()
    }
}

impl<I: Isa> Alike for Counted<'_, '_, '_, I> {
    #[inline(always)]
    fn next_len(&self) -> Option<usize> {
        // A second part comes before others.
        if self.second.is_none() { self.source.next_len() } else { None }
    }

    #[inline(always)]
    fn alike(&mut self, len: usize) -> impl Iterator<Item = Message> {
        CountedAlike { isa: self.isa, messages: self.source.alike_with_iv_len(len) }
    }
}

/// Messages of one length whose counters do not wrap.
struct CountedAlike<'w, 'a, I> {
    isa: I,
    messages: AlikeMessages<'w, 'a>,
}

impl<I: Isa> Iterator for CountedAlike<'_, '_, I> {
    type Item = Message;

    #[inline(always)]
    fn next(&mut self) -> Option<Message> {
        let (message, iv_len) = self.messages.peek()?;
        let (counted, before) = counted(self.isa, &message, iv_len);
        if before < message.len {
            return None;
        }
        self.messages.done();
        Some(counted)
    }
}

/// A message whose IV has become its first counter, and how many of its bytes are before the place where the lower half wraps: all
/// of them or more where it does not.
#[inline(always)]
fn counted<I: Isa>(isa: I, message: &Message, iv_len: usize) -> (Message, usize) {
    let mut counter = isa.only_first(message.iv).shuffle(isa.splat_bytes(&REVERSED));
    if iv_len == NONCE_LEN {
        counter = counter.and_not(isa.only_first(number(0xffff_ffff, 0))).or(isa.only_first(number(1, 0)));
    }
    let counted = Message { iv: counter.first(), ..*message };
    // SAFETY: SSE2 is part of x86-64.
    let low = unsafe { _mm_cvtsi128_si64(counted.iv) } as u64;
    let blocks = message.len.div_ceil(16) as u64;
    // The last block's counter is below the first one's where the lower half wraps.
    let wraps = low.checked_add(blocks.saturating_sub(1)).is_none();
    (counted, if wraps { 16 * low.wrapping_neg() as usize } else { usize::MAX })
}

impl<I: Isa> Counted<'_, '_, '_, I> {
    /// Keeps what is behind `len` bytes for later, where the upper half is one higher and the lower one zero.
    #[cold]
    fn split(&mut self, message: Message, len: usize) -> Message {
        // SAFETY: SSE2 is part of x86-64.
        let high = unsafe { _mm_cvtsi128_si64(_mm_unpackhi_epi64(message.iv, message.iv)) } as u64;
        self.second = Some(message.behind(len, number(0, high.wrapping_add(1))));
        Message { len, ..message }
    }
}

/// The bytes of a block in the reverse order.
const REVERSED: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/// A little-endian number of 128 bits.
#[inline(always)]
fn number(low: u64, high: u64) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set_epi64x(high as i64, low as i64) }
}

/// What is chained is the counter, a little-endian number. Counters are encrypted, the data added.
struct Ctr;

impl Way for Ctr {
    const DECRYPTS: bool = false;
}

impl Mode for Ctr {
    #[inline(always)]
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
        let reversed = isa.splat_bytes(&REVERSED);
        let step = isa.splat(number(I::LEN as u64, 0));
        let mut counter = isa.splat(iv).add64(isa.indices());
        let data = *blocks;
        for block in blocks {
            *block = counter.shuffle(reversed);
            counter = counter.add64(step);
        }
        (data, counter.first())
    }
}
