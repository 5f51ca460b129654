//! AES-XTS (IEEE 1619-2018, NIST SP 800-38E): an operation is a data unit, its IV the unit's number.
//!
//! Tweaks are computed a vector at a time: a multiplication by alpha to the number of blocks in it (5.2) is two shifts
//! and one carry-less product. Units with a rest steal ciphertext (5.3.2, 5.4.2); their end is done block by block.
//!
//! Floor with 512-bit vectors: 10 AES instructions (128-bit keys) and six for the next tweaks for 64 bytes, and one more
//! block for each unit's first tweak.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{BlockCipher, lists};
use ciphermill_contract::{Capability, Cost, Direction, PreparedKey, Suite};
use zeroize::Zeroizing;

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::message::{Message, Messages};
use super::parallel::{Mode, Way, drive};
use super::schedule::{AesKey, Schedule};
use crate::work::{Scratch, Taken, Work};

pub(super) const CAPABILITIES: &[Capability] = &[Capability::new(&lists::AES_XTS, Cost::new(40.0, 16.0, 0.053))];

/// The two keys, which wipe themselves.
struct XtsKey {
    /// Enciphers the data.
    data: AesKey,
    /// Enciphers the data unit's number.
    tweak: Schedule,
}

/// Alpha to the 128th (IEEE 1619, 5.2).
const REDUCTION: u64 = 0x87;

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let (data, tweak) = key.split_at(key.len() / 2);
    let key = XtsKey { data: AesKey::new(kernel, data)?, tweak: Schedule::new(kernel, tweak)? };
    Ok(PreparedKey::for_suite(suite, key))
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, _scratch: &mut Scratch) {
    all(kernel, work);
}

aes_kernels! {
    fn all(work: &mut Work<'_>) = all_on
}

#[inline(always)]
fn all_on<I: Isa>(isa: I, work: &mut Work<'_>) {
    let Suite::Cipher(BlockCipher::Aes(size), _) = work.suite() else { return };
    let rounds = size.key_len() / 4 + 6;
    match work.direction() {
        Direction::Encrypt => drive::<I, Encrypt>(isa, rounds, &mut Units::<I, Encrypt>::new(isa, work)),
        Direction::Decrypt => drive::<I, Decrypt>(isa, rounds, &mut Units::<I, Decrypt>::new(isa, work)),
    }
}

/// The data units of a batch; their IVs become first tweaks. The ends of units that steal are done on the way.
struct Units<'w, 'a, I, M> {
    isa: I,
    work: &'w mut Work<'a>,
    next: usize,
    mode: PhantomData<M>,
}

impl<'w, 'a, I: Isa, M: Mode> Units<'w, 'a, I, M> {
    #[inline(always)]
    fn new(isa: I, work: &'w mut Work<'a>) -> Self {
        Units { isa, work, next: 0, mode: PhantomData }
    }
}

// SAFETY: the batch's check promises just that; keys are borrowed with the batch.
unsafe impl<I: Isa, M: Mode> Messages for Units<'_, '_, I, M> {
    #[inline(always)]
    fn next(&mut self) -> Option<Message> {
        let Taken { key, iv, input, output, len, .. } =
            self.work.take_done::<_, true>(&mut self.next, |keys, index| keys.state::<XtsKey>(index))?;
        let mut tweak = [self.isa.only_first(self.isa.block(&iv))];
        key.tweak.encrypt(self.isa, &mut tweak);
        let unit = Message { key: &key.data, iv: tweak[0].first(), input, output, len };
        if len.is_multiple_of(16) {
            return Some(unit);
        }
        // SAFETY: `len` bytes at both places, as the batch's check says; no unit is shorter than a block.
        Some(unsafe { steal::<I, M>(self.isa, &key.data, unit) })
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.work.len() <= 1
    }
}

/// The end of a unit with a rest of a block: its last whole block and the rest. Returns what is before them.
///
/// # Safety
/// The message's places have as many bytes as it says, more than 16.
#[inline(always)]
unsafe fn steal<I: Isa, M: Mode>(isa: I, key: &AesKey, unit: Message) -> Message {
    let rest = unit.len % 16;
    let before = unit.len / 16 - 1;
    let mut first = number(unit.iv);
    for _ in 0..before / 64 {
        first = times_alpha(first, 64);
    }
    first = times_alpha(first, before % 64);
    let mut second = times_alpha(first, 1);
    if M::DECRYPTS {
        core::mem::swap(&mut first, &mut second);
    }
    // What the first turn leaves in the last block's place for `rest` bytes changes places with the rest.
    let mut end = Zeroizing::new([0u8; 32]);
    let place = end.as_mut_ptr();
    // SAFETY: the caller's promise; the buffer holds both blocks.
    unsafe {
        core::ptr::copy_nonoverlapping(unit.input.add(16 * before), place, 16 + rest);
        single::<I, M>(isa, key, first, place);
        core::ptr::swap_nonoverlapping(place, place.add(16), rest);
        single::<I, M>(isa, key, second, place);
        core::ptr::copy_nonoverlapping(place, unit.output.add(16 * before), 16 + rest);
    }
    Message { len: 16 * before, ..unit }
}

/// One block under one tweak, in place.
///
/// # Safety
/// Sixteen bytes may be read and written.
#[inline(always)]
unsafe fn single<I: Isa, M: Mode>(isa: I, key: &AesKey, tweak: u128, place: *mut u8) {
    let tweak = isa.only_first(block(tweak));
    // SAFETY: the caller's promise.
    unsafe {
        let mut blocks = [isa.load_partial(place, 16).xor(tweak)];
        if M::DECRYPTS {
            key.decrypt.decrypt(isa, &mut blocks);
        } else {
            key.encrypt.encrypt(isa, &mut blocks);
        }
        blocks[0].xor(tweak).store_partial(place, 16);
    }
}

/// A tweak as a little-endian number.
#[inline(always)]
fn number(block: __m128i) -> u128 {
    let mut bytes = [0; 16];
    // SAFETY: sixteen bytes; SSE2 is part of x86-64.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) };
    u128::from_le_bytes(bytes)
}

/// The block of a little-endian number.
#[inline(always)]
fn block(number: u128) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set_epi64x((number >> 64) as i64, number as i64) }
}

/// The tweak times alpha to the power of `times`, at most 64 (IEEE 1619, 5.2).
#[inline(always)]
fn times_alpha(tweak: u128, times: usize) -> u128 {
    let over = (tweak >> 64) >> (64 - times);
    // Times 0x87, carry-less.
    (tweak << times) ^ over ^ (over << 1) ^ (over << 2) ^ (over << 7)
}

/// The tweaks of the first vector: `tweak` times alpha to the 0, 1, 2, 3.
#[inline(always)]
fn first_tweaks<I: Isa>(isa: I, tweak: __m128i) -> I::V {
    let tweak = isa.splat(tweak);
    let powers = isa.gather([block(1), block(2), block(4), block(8)]);
    let (low, high) = (tweak.clmul::<0x00>(powers), tweak.clmul::<0x01>(powers));
    reduce(isa, low, high)
}

/// `low` plus `high` times two to the 64th, where `high` has little in its upper half.
#[inline(always)]
fn reduce<I: Isa>(isa: I, low: I::V, high: I::V) -> I::V {
    let over = high.clmul::<0x01>(isa.splat(block(u128::from(REDUCTION))));
    low.xor3(high.shl_bytes::<8>(), over)
}

/// The next vector's tweaks: all times alpha to the number of blocks in a vector.
#[inline(always)]
fn next_tweaks<I: Isa>(isa: I, tweaks: I::V) -> I::V {
    let (shifted, over) = match I::LEN {
        4 => (tweaks.shl64::<4>(), tweaks.shr64::<60>()),
        2 => (tweaks.shl64::<2>(), tweaks.shr64::<62>()),
        _ => (tweaks.shl64::<1>(), tweaks.shr64::<63>()),
    };
    // What leaves the lower half enters the upper one; what leaves the upper half is reduced.
    let reduced = over.clmul::<0x01>(isa.splat(block(u128::from(REDUCTION))));
    shifted.xor3(over.shl_bytes::<8>(), reduced)
}

/// What is chained is the next block's tweak. It is added on both sides of the cipher.
#[inline(always)]
fn tweak_all<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
    let mut tweaks = first_tweaks(isa, iv);
    let mut added = *blocks;
    for (block, added) in blocks.iter_mut().zip(&mut added) {
        *block = block.xor(tweaks);
        *added = tweaks;
        tweaks = next_tweaks(isa, tweaks);
    }
    (added, tweaks.first())
}

struct Encrypt;

impl Way for Encrypt {
    const DECRYPTS: bool = false;
}

impl Mode for Encrypt {
    #[inline(always)]
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
        tweak_all(isa, iv, blocks)
    }
}

struct Decrypt;

impl Way for Decrypt {
    const DECRYPTS: bool = true;
}

impl Mode for Decrypt {
    #[inline(always)]
    fn mix<I: Isa, const N: usize>(isa: I, iv: __m128i, blocks: &mut [I::V; N]) -> ([I::V; N], __m128i) {
        tweak_all(isa, iv, blocks)
    }
}
