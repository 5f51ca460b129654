//! AES-GCM and GMAC (NIST SP 800-38D) with IVs of 96 bits.
//!
//! A vector holds blocks of one message, so that its round keys and powers of `H` come as they lie in memory. Short
//! messages ([`short`]) are straight-line code without a branch on any length; with vectors of four blocks one is hashed
//! while others behind it are encrypted. Long ones ([`long`]) have eight vectors in flight, between whose rounds the run
//! before is hashed.
//!
//! Floor, for messages of up to 96 bytes with up to 16 of additional data (two vectors of four blocks) under AES-128: 20
//! AES rounds, 10 carry-less products and about 32 additions, shuffles and accesses. For long messages 10 AES rounds and 9
//! other instructions every 64 bytes, which two ports of the processor share: 10 cycles.

mod long;
mod mac;
mod short;
pub(super) mod stream;

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, AesSize, Mac, lists};
use ciphermill_contract::{Capability, Cost, Direction, OpStatus, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::ghash::{self, Factors, HashKey};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::{ROUND_KEYS_MAX, Schedule};

use crate::processor::{For, prefetch};
use crate::work::{Beside, Item, Scratch, Work};
use short::Begun;

pub(super) const CAPABILITIES: &[Capability] = &[
    Capability::new(&lists::AES_GCM, Cost::new(30.0, 15.0, 0.048)).lanes(4),
    Capability::new(&lists::GMAC, Cost::new(25.0, 9.0, 0.033)).lanes(4),
];

/// Additional data that fit one block; longer ones are hashed on their own first.
const SHORT_AAD: usize = 16;

/// How many short messages are begun ahead of the one that is finished. A masked load waits for any masked store shortly
/// before it whose vector, bytes left out included, overlaps its own, as those of neighbours do.
const AHEAD: usize = 8;

/// How many operations ahead a key is fetched: the time of so many is what the third-level cache takes, and more would be no use to keys in
/// the second.
const KEY_AHEAD: usize = 6;

/// Vectors of four blocks of a message that is begun early.
const EARLY: usize = 2;

/// Slots of messages whose powers lie beside the round keys.
const NEAR: usize = 8;

/// What a key becomes.
#[repr(C, align(64))]
struct GcmKey {
    near: NearKey,
    hash: HashKey,
}

/// What messages of at most [`NEAR`] slots need of a key. Where each has another one, lines from memory are what they wait for: these are five, under
/// AES-128, and each of them is used. Factors for the first halves of blocks are made anew, which is three instructions a vector.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
struct NearKey {
    /// As [`HashKey::lowest`] has them.
    powers: [[u8; 16]; NEAR],
    /// Behind the last powers: what is read with them.
    schedule: Schedule,
}

impl NearKey {
    /// As [`HashKey::near`]; `n` is at most [`NEAR`].
    #[inline(always)]
    fn factors<I: Isa>(&self, isa: I, n: usize, vector: usize) -> Factors<I::V> {
        let first = NEAR - n + vector * I::LEN;
        assert!(n <= NEAR && first + I::LEN <= NEAR + ROUND_KEYS_MAX);
        let powers = core::ptr::from_ref(self).cast::<[u8; 16]>();
        // SAFETY: behind the powers there are round keys: as just checked, all within.
        Factors::of(unsafe { isa.load(powers.add(first).cast()) }, ghash::polynomial(isa))
    }
}

impl GcmKey {
    /// The factors of a vector of a message of `n` slots, which are at most `N` vectors.
    #[inline(always)]
    fn factors<I: Isa, const N: usize>(&self, isa: I, n: usize, vector: usize) -> Factors<I::V> {
        if N * I::LEN <= NEAR { self.near.factors(isa, n, vector) } else { self.hash.near(isa, n, vector) }
    }

    /// Fetches what a message of so many slots needs of the key.
    #[inline(always)]
    fn fetch<const R: usize>(&self, slots: usize) {
        let near = core::ptr::from_ref(&self.near).cast::<u8>();
        let schedule = core::mem::offset_of!(NearKey, schedule);
        let first = if slots <= NEAR { 0 } else { schedule };
        for at in (first..schedule + 16 * (R + 1)).step_by(64) {
            prefetch(near.wrapping_add(at), For::Reading);
        }
        if slots > NEAR {
            self.hash.fetch(slots);
        }
    }
}

/// One operation, read out of its cache line.
#[derive(Clone, Copy)]
struct Message {
    /// The IV, then four bytes of zero: the counter block of counter zero.
    iv: __m128i,
    input: *const u8,
    output: *mut u8,
    len: usize,
    aad: *const u8,
    aad_len: usize,
    tag: *mut u8,
    tag_len: usize,
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let schedule = Schedule::new(kernel, key)?;
    let mut subkey = Zeroizing::new([0; 16]);
    answer_to_zero(kernel, &schedule, &mut subkey);
    let hash = HashKey::ghash(kernel, &subkey);
    let near = NearKey { powers: hash.lowest(), schedule };
    Ok(PreparedKey::for_suite(suite, GcmKey { near, hash }))
}

aes_kernels! {
    /// The hash subkey (SP 800-38D, 7.1, step 1).
    fn answer_to_zero(schedule: &Schedule, subkey: &mut [u8; 16]) = answer_to_zero_on
}

#[inline(always)]
fn answer_to_zero_on<I: Isa>(isa: I, schedule: &Schedule, subkey: &mut [u8; 16]) {
    let mut blocks = [isa.zero()];
    schedule.encrypt(isa, &mut blocks);
    // SAFETY: sixteen bytes; SSE2 is part of x86-64.
    unsafe { _mm_storeu_si128(subkey.as_mut_ptr().cast(), blocks[0].first()) };
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, _scratch: &mut Scratch) {
    let encrypt = work.direction() == Direction::Encrypt;
    match (work.suite(), encrypt) {
        (Suite::Aead(Aead::AesGcm(AesSize::Aes128)), true) => seal_128(kernel, work),
        (Suite::Aead(Aead::AesGcm(AesSize::Aes192)), true) => seal_192(kernel, work),
        (Suite::Aead(Aead::AesGcm(AesSize::Aes256)), true) => seal_256(kernel, work),
        (Suite::Aead(Aead::AesGcm(AesSize::Aes128)), false) => open_128(kernel, work),
        (Suite::Aead(Aead::AesGcm(AesSize::Aes192)), false) => open_192(kernel, work),
        (Suite::Aead(Aead::AesGcm(AesSize::Aes256)), false) => open_256(kernel, work),
        (Suite::Mac(Mac::Gmac(AesSize::Aes128)), _) => mac::run_128(kernel, work, encrypt),
        (Suite::Mac(Mac::Gmac(AesSize::Aes192)), _) => mac::run_192(kernel, work, encrypt),
        (Suite::Mac(Mac::Gmac(AesSize::Aes256)), _) => mac::run_256(kernel, work, encrypt),
        _ => {}
    }
}

aes_kernels! {
    fn seal_128(work: &mut Work<'_>) = run_on::<_, 10, true>
}
aes_kernels! {
    fn seal_192(work: &mut Work<'_>) = run_on::<_, 12, true>
}
aes_kernels! {
    fn seal_256(work: &mut Work<'_>) = run_on::<_, 14, true>
}
aes_kernels! {
    fn open_128(work: &mut Work<'_>) = run_on::<_, 10, false>
}
aes_kernels! {
    fn open_192(work: &mut Work<'_>) = run_on::<_, 12, false>
}
aes_kernels! {
    fn open_256(work: &mut Work<'_>) = run_on::<_, 14, false>
}

/// Messages one after the other. While short ones are hashed, others behind them are encrypted: both are chains of some 45
/// cycles, and a message's instructions are too many for the processor to see the next one's chain by itself.
#[inline(always)]
fn run_on<I: Isa, const R: usize, const ENCRYPT: bool>(isa: I, work: &mut Work<'_>) {
    let mut ring = [const { MaybeUninit::<Begun<'_, I::V, EARLY>>::uninit() }; AHEAD];
    let (mut next, mut begun, mut finished) = (0, 0, 0);
    loop {
        let item = work.take::<GcmKey>(&mut next);
        if finished < begun && (item.is_none() || begun - finished == AHEAD) {
            // SAFETY: begun and not finished, so written; the batch's check is what a message promises.
            let (good, op) = unsafe {
                let begun = ring[finished % AHEAD].assume_init_ref();
                (short::finish::<I, ENCRYPT, EARLY>(isa, begun), begun.op)
            };
            finished += 1;
            settled(work, op, good);
        }
        let Some(item) = item else {
            if finished == begun {
                break;
            }
            continue;
        };
        // SAFETY: taken with this type; the batch is still borrowed.
        let (key, message, op) = (unsafe { item.key::<GcmKey>() }, Message::new(work, &item), item.op as usize);
        let slots = message.len.div_ceil(16) + 2;
        if let Some(later) = work.state_later::<GcmKey>(op + KEY_AHEAD) {
            // Neighbours mostly have about as many.
            later.fetch::<R>(slots);
        }
        // SAFETY: the batch's check is what a message promises.
        unsafe {
            if I::LEN == 4 && slots <= EARLY * I::LEN && message.aad_len <= SHORT_AAD {
                ring[begun % AHEAD].write(short::begin::<I, R, ENCRYPT, EARLY>(isa, key, &message, op));
                begun += 1;
            } else {
                let good = one::<I, R, ENCRYPT>(isa, key, &message, slots);
                settled(work, op, good);
            }
        }
    }
    for begun in &mut ring[..begun.min(AHEAD)] {
        // SAFETY: written before.
        unsafe { begun.assume_init_mut() }.wipe(isa);
    }
}

/// Ends an operation.
#[inline(always)]
fn settled(work: &mut Work<'_>, op: usize, good: bool) {
    if good {
        work.done(op);
    } else {
        work.fail(op, OpStatus::AuthFailed);
    }
}

/// One message, in the form for its length. Returns whether its tag is right; always, when encrypting.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn one<I: Isa, const R: usize, const ENCRYPT: bool>(
    isa: I,
    key: &GcmKey,
    message: &Message,
    slots: usize,
) -> bool {
    // SAFETY: the caller's promise, and each form's limit has been looked at.
    unsafe {
        if message.aad_len > SHORT_AAD || slots > short::slots_max::<I>() {
            let given = if ENCRYPT { isa.zero() } else { isa.load_partial(message.tag, message.tag_len) };
            return long::message::<I, R, ENCRYPT>(isa, key, message, given.first());
        }
        match (I::LEN, slots) {
            (2, ..=4) => short::message::<I, R, ENCRYPT, 2>(isa, key, message),
            (4, ..=16) | (2, ..=8) | (1, ..=4) => short::message::<I, R, ENCRYPT, 4>(isa, key, message),
            (4, ..=20) => short::message::<I, R, ENCRYPT, 5>(isa, key, message),
            _ => short::message::<I, R, ENCRYPT, 8>(isa, key, message),
        }
    }
}

impl Message {
    /// Reads an operation. What follows from the batch's check: `len` bytes may be read at `input` and written at
    /// `output`, which is the same place or apart; `aad_len` bytes may be read at `aad`, and `tag_len` bytes, at most
    /// sixteen, may be read and written at `tag`.
    #[inline(always)]
    fn new(work: &Work<'_>, item: &Item) -> Message {
        let Beside { iv, aad, aad_len, tag, tag_len, .. } = work.beside(item.op as usize);
        // SAFETY: sixteen bytes; SSE2 is part of x86-64.
        let iv = unsafe { _mm_and_si128(_mm_loadu_si128(iv.as_ptr().cast()), _mm_setr_epi32(-1, -1, -1, 0)) };
        Message { iv, input: item.input, output: item.output, len: item.len as usize, aad, aad_len, tag, tag_len }
    }
}

/// The rounds behind the first key: blocks come with it added.
#[inline(always)]
fn rounds<I: Isa, const R: usize, const N: usize>(isa: I, schedule: &Schedule, blocks: &mut [I::V; N]) {
    debug_assert_eq!(R, schedule.rounds());
    for round in 1..R {
        let key = schedule.splat(isa, round);
        for block in blocks.iter_mut() {
            *block = block.aes_enc(key);
        }
    }
    let last = schedule.splat(isa, R);
    for block in blocks.iter_mut() {
        *block = block.aes_enc_last(last);
    }
}

/// Writes the tag, or compares it with the one that came along, in constant time.
///
/// # Safety
/// `tag_len` bytes, at most sixteen, may be read and written at `tag`.
#[inline(always)]
unsafe fn settle<I: Isa, const ENCRYPT: bool>(
    isa: I,
    own: __m128i,
    given: __m128i,
    tag: *mut u8,
    tag_len: usize,
) -> bool {
    let own = isa.only_first(own);
    // SAFETY: the caller's promise.
    unsafe {
        if ENCRYPT {
            // A masked store would be waited for by whoever reads anything that lies as far into its page.
            if tag_len == 16 {
                _mm_storeu_si128(tag.cast(), own.first())
            } else {
                own.store_partial(tag, tag_len)
            };
            return true;
        }
        let difference = own.xor(isa.only_first(given)).keep_from::<0>(tag_len);
        // Any bits are a `u128`.
        core::mem::transmute::<__m128i, u128>(difference.first()) == 0
    }
}

/// The block of lengths in bits (SP 800-38D, 7.1, step 5), reversed, in every block.
#[inline(always)]
fn lengths<I: Isa>(isa: I, aad_len: usize, len: usize) -> I::V {
    isa.pair(8 * len as u64, 8 * aad_len as u64)
}

/// The low five bits of counters, where counter blocks have them, from `first` on; `first` is at most 32.
#[inline(always)]
fn counters<I: Isa>(isa: I, first: usize) -> I::V {
    assert!(first + I::LEN <= COUNTERS.0.len());
    // SAFETY: within the table, as just checked.
    unsafe { isa.load(COUNTERS.0.as_ptr().add(first).cast()) }
}

#[repr(align(64))]
struct Counters([[u8; 16]; 36]);

static COUNTERS: Counters = {
    let mut blocks = [[0; 16]; 36];
    let mut i = 0;
    while i < blocks.len() {
        blocks[i][15] = (i % 32) as u8;
        i += 1;
    }
    Counters(blocks)
};
