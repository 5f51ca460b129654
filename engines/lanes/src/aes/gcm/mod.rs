//! AES-GCM and GMAC (NIST SP 800-38D) with IVs of 96 bits.
//!
//! A vector holds blocks of one message, so that its round keys and powers of `H` come as they lie in memory. Short
//! messages ([`short`]) are straight-line code without a branch on any length: the processor overlaps one message's
//! rounds with the next one's products by itself. Long ones ([`long`]) have eight vectors in flight, between whose
//! rounds the batch before is hashed.
//!
//! Floor, for messages of up to 96 bytes with up to 16 of additional data (two vectors of four blocks) under AES-128: 20
//! AES rounds, 8 carry-less products and about 30 additions, shuffles and accesses. For long messages 10 AES rounds and 9
//! other instructions every 64 bytes, which two ports of the processor share: 10 cycles.

mod long;
mod mac;
mod short;

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, AesSize, Mac, lists};
use ciphermill_contract::{Capability, Cost, Direction, OpStatus, PreparedKey, Suite};
use zeroize::Zeroizing;

use super::ghash::{self, HashKey};
use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::schedule::Schedule;

use crate::work::{Item, Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] = &[
    Capability::new(&lists::AES_GCM, Cost::new(60.0, 20.0, 0.06)).lanes(4),
    Capability::new(&lists::GMAC, Cost::new(60.0, 20.0, 0.04)).lanes(4),
];

/// Additional data that fit one block; longer ones are hashed on their own first.
const SHORT_AAD: usize = 16;

/// How many messages are loaded ahead of the one that is worked on. A masked load waits for any masked store shortly
/// before it whose vector, bytes left out included, overlaps its own, as those of neighbours do.
const AHEAD: usize = 8;

/// What a key becomes.
#[repr(C, align(64))]
struct GcmKey {
    schedule: Schedule,
    hash: HashKey,
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
    Ok(PreparedKey::for_suite(suite, GcmKey { schedule, hash }))
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

/// A message on its way through [`run_on`].
struct Ready<'k, V> {
    key: &'k GcmKey,
    message: Message,
    op: usize,
    /// Blocks with additional data and lengths.
    slots: usize,
    /// Of messages of up to eight blocks in vectors of four: what [`short::load`] gives.
    input: [V; 2],
    /// The tag that came along.
    given: V,
}

#[inline(always)]
fn run_on<I: Isa, const R: usize, const ENCRYPT: bool>(isa: I, work: &mut Work<'_>) {
    let mut ring = [const { MaybeUninit::<Ready<'_, I::V>>::uninit() }; AHEAD];
    let (mut next, mut loaded, mut worked) = (0, 0, 0);
    // Neighbours often have one key.
    let mut known = [None; 1];
    loop {
        if let Some(item) = work.take_with::<GcmKey>(&mut next, &mut known) {
            // SAFETY: taken with this type; the batch is still borrowed, and its check is what a message promises.
            ring[loaded % AHEAD].write(unsafe { ready::<I, ENCRYPT>(isa, work, &item) });
            loaded += 1;
            if loaded < worked + AHEAD {
                continue;
            }
        } else if worked == loaded {
            break;
        }
        // SAFETY: written before, as `worked` is below `loaded`; the batch's check is what a message promises.
        let (good, op) = unsafe {
            let ready = ring[worked % AHEAD].assume_init_ref();
            (one::<I, R, ENCRYPT>(isa, ready), ready.op)
        };
        worked += 1;
        if good {
            work.done(op);
        } else {
            work.fail(op, OpStatus::AuthFailed);
        }
    }
    if ENCRYPT && I::LEN == 4 {
        for ready in &mut ring[..loaded.min(AHEAD)] {
            // SAFETY: written before; volatile writes are not dropped.
            unsafe { core::ptr::write_volatile(&raw mut (*ready.as_mut_ptr()).input, [isa.zero(); 2]) };
        }
    }
}

/// Reads an operation, and its data if they are short.
///
/// # Safety
/// See [`Message`]; the item was taken with [`GcmKey`], and the batch is still borrowed.
#[inline(always)]
unsafe fn ready<'k, I: Isa, const ENCRYPT: bool>(isa: I, work: &Work<'_>, item: &Item) -> Ready<'k, I::V> {
    let message = Message::new(work, item);
    let slots = message.len.div_ceil(16) + 2;
    let early = I::LEN == 4 && slots <= 8 && message.aad_len <= SHORT_AAD;
    // SAFETY: the caller's promise.
    unsafe {
        Ready {
            key: item.key::<GcmKey>(),
            message,
            op: item.op as usize,
            slots,
            input: if early { short::load::<I, 2>(isa, &message) } else { [isa.zero(); 2] },
            given: if ENCRYPT { isa.zero() } else { isa.load_partial(message.tag, message.tag_len) },
        }
    }
}

/// One message, in the form for its length. Returns whether its tag is right; always, when encrypting.
///
/// # Safety
/// See [`Message`].
#[inline(always)]
unsafe fn one<I: Isa, const R: usize, const ENCRYPT: bool>(isa: I, ready: &Ready<'_, I::V>) -> bool {
    let Ready { key, message, slots, input, given, .. } = ready;
    // SAFETY: the caller's promise, and each form's limit has been looked at.
    unsafe {
        if message.aad_len > SHORT_AAD || *slots > ghash::slots_max::<I>() {
            return long::message::<I, R, ENCRYPT>(isa, key, message, *given);
        }
        match (I::LEN, slots) {
            (4, ..=4) => short::message::<I, R, ENCRYPT, 1>(isa, key, message, &[input[0]], *given),
            (4, ..=8) => short::message::<I, R, ENCRYPT, 2>(isa, key, message, input, *given),
            (2, ..=4) => {
                let input = short::load::<I, 2>(isa, message);
                short::message::<I, R, ENCRYPT, 2>(isa, key, message, &input, *given)
            }
            (4, _) | (2, ..=8) | (1, ..=4) => {
                let input = short::load::<I, 4>(isa, message);
                short::message::<I, R, ENCRYPT, 4>(isa, key, message, &input, *given)
            }
            _ => {
                let input = short::load::<I, 8>(isa, message);
                short::message::<I, R, ENCRYPT, 8>(isa, key, message, &input, *given)
            }
        }
    }
}

impl Message {
    /// Reads an operation. What follows from the batch's check: `len` bytes may be read at `input` and written at
    /// `output`, which is the same place or apart; `aad_len` bytes may be read at `aad`, and `tag_len` bytes, at most
    /// sixteen, may be read and written at `tag`.
    #[inline(always)]
    fn new(work: &Work<'_>, item: &Item) -> Message {
        let index = item.op as usize;
        let aad = work.aad(index);
        let iv = work.iv_block(index);
        // SAFETY: sixteen bytes; SSE2 is part of x86-64.
        let iv = unsafe { _mm_and_si128(_mm_loadu_si128(iv.as_ptr().cast()), _mm_setr_epi32(-1, -1, -1, 0)) };
        Message {
            iv,
            input: item.input,
            output: item.output,
            len: item.len as usize,
            aad: aad.as_ptr(),
            aad_len: aad.len(),
            tag: work.tag(index),
            tag_len: work.tag_len(index),
        }
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
/// See [`Message`].
#[inline(always)]
unsafe fn settle<I: Isa, const ENCRYPT: bool>(isa: I, tag: __m128i, given: I::V, message: &Message) -> bool {
    let own = isa.only_first(tag);
    // SAFETY: the caller's promise.
    unsafe {
        if ENCRYPT {
            own.store_partial(message.tag, message.tag_len);
            return true;
        }
        let difference = own.xor(given).keep_from::<0>(message.tag_len);
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
