//! AES-OCB3 (RFC 7253) with nonces of 8 to 120 bits and tags of 64 to 128.
//!
//! Blocks are done four at a time, or eight vectors of a long message. Within four blocks that begin at a multiple of
//! four the offsets differ by `L_0` and `L_1` alone, but for the last one's; so a vector of offsets is one block repeated
//! plus a constant of the key. The table of `L` is made when the key is prepared.
//!
//! Floor with 512-bit vectors: 10 AES instructions (128-bit keys) for 64 bytes of data or of additional data, and two
//! more blocks one after the other for each message: the first offset and the tag.

use core::arch::x86_64::*;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, lists};
use ciphermill_contract::{Capability, Cost, Direction, OpStatus, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use super::parallel::{Way, cipher, schedule};
use super::schedule::AesKey;
use crate::work::{Item, Scratch, Work, copy_short};

pub(super) const CAPABILITIES: &[Capability] =
    &[Capability::new(&lists::AES_OCB, Cost::new(20.0, 45.0, 0.028)).lanes(4)];

/// Entries `L_i`: enough for 2^27 blocks, twice the longest input.
const DOUBLINGS: usize = 28;

const _: () = assert!(ciphermill_contract::limits::INPUT_LEN_MAX / 16 < 1 << (DOUBLINGS - 1));

/// Blocks that are done at a time.
const CHUNK: usize = 4;

/// A key with what OCB derives from it (RFC 7253, 4.1).
struct OcbKey {
    aes: AesKey,
    table: Table,
}

#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
struct Table {
    /// What each of four consecutive blocks adds to the offset before them, the last one's own `L` aside.
    four: [[u8; 16]; CHUNK],
    star: [u8; 16],
    dollar: [u8; 16],
    l: [[u8; 16]; DOUBLINGS],
}

struct Forward;

impl Way for Forward {
    const DECRYPTS: bool = false;
}

struct Backward;

impl Way for Backward {
    const DECRYPTS: bool = true;
}

pub(super) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let aes = AesKey::new(kernel, key)?;
    let mut star = [0; 16];
    encipher_block(kernel, &aes, &mut star);
    let mut table = Table { four: [[0; 16]; CHUNK], star, dollar: doubled(star), l: [[0; 16]; DOUBLINGS] };
    star.zeroize();
    let mut l = table.dollar;
    for entry in &mut table.l {
        l = doubled(l);
        *entry = l;
    }
    l.zeroize();
    // Blocks 1 to 4 add L_0, then L_1, then L_0 again, then the L of the fourth block's number.
    let both = core::array::from_fn(|i| table.l[0][i] ^ table.l[1][i]);
    table.four = [table.l[0], both, table.l[1], table.l[1]];
    Ok(PreparedKey::for_suite(suite, OcbKey { aes, table }))
}

aes_kernels! {
    fn encipher_block(key: &AesKey, block: &mut [u8; 16]) = encipher_block_on
}

#[inline(always)]
fn encipher_block_on<I: Isa>(isa: I, key: &AesKey, block: &mut [u8; 16]) {
    let mut blocks = [isa.splat_bytes(block)];
    key.encrypt.encrypt(isa, &mut blocks);
    // SAFETY: sixteen bytes may be written; SSE2 is part of x86-64.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), blocks[0].first()) };
}

/// A block times x, without a branch (RFC 7253, 2).
fn doubled(block: [u8; 16]) -> [u8; 16] {
    let number = u128::from_be_bytes(block);
    ((number << 1) ^ ((number >> 127) * 0x87)).to_be_bytes()
}

/// Runs a batch.
pub(super) fn run(kernel: AesKernel, work: &mut Work<'_>, _scratch: &mut Scratch) {
    let Suite::Aead(Aead::AesOcb(size)) = work.suite() else { return };
    all(kernel, size.key_len() / 4 + 6, work);
}

aes_kernels! {
    fn all(rounds: usize, work: &mut Work<'_>) = all_on
}

#[inline(always)]
fn all_on<I: Isa>(isa: I, rounds: usize, work: &mut Work<'_>) {
    match (work.direction(), rounds) {
        (Direction::Encrypt, 10) => all_sized::<I, Forward, 10>(isa, work),
        (Direction::Encrypt, 12) => all_sized::<I, Forward, 12>(isa, work),
        (Direction::Encrypt, _) => all_sized::<I, Forward, 14>(isa, work),
        (Direction::Decrypt, 10) => all_sized::<I, Backward, 10>(isa, work),
        (Direction::Decrypt, 12) => all_sized::<I, Backward, 12>(isa, work),
        (Direction::Decrypt, _) => all_sized::<I, Backward, 14>(isa, work),
    }
}

#[inline(always)]
fn all_sized<I: Isa, W: Way, const ROUNDS: usize>(isa: I, work: &mut Work<'_>) {
    match I::LEN {
        4 => messages::<I, W, 8, 1, ROUNDS>(isa, work),
        2 => messages::<I, W, 4, 2, ROUNDS>(isa, work),
        _ => messages::<I, W, 2, 4, ROUNDS>(isa, work),
    }
}

/// Every pending operation; a chunk is `N` vectors, and `F` chunks of a long message are in flight.
#[inline(always)]
fn messages<I: Isa, W: Way, const F: usize, const N: usize, const ROUNDS: usize>(isa: I, work: &mut Work<'_>) {
    let mut next = 0;
    while let Some(item) = work.take::<OcbKey>(&mut next) {
        let op = item.op as usize;
        let tag_len = work.tag_len(op);
        // SAFETY: collected with this type.
        let key = unsafe { item.key::<OcbKey>() };
        // SAFETY: the batch's check: the item's places have its bytes.
        let (offset, checksum) = unsafe {
            let nonce = nonce_block(work.iv_block(op), work.iv_len(op), tag_len);
            data::<I, W, F, N, ROUNDS>(isa, key, nonce, &item)
        };
        let hash = hash::<I, N, ROUNDS>(isa, key, work.aad(op));
        let last = offset.xor(checksum).xor(isa.splat_bytes(&key.table.dollar));
        let tag = encipher::<I, ROUNDS>(isa, &key.aes, last).xor(hash).first();
        let place = work.tag(op);
        // SAFETY: the batch's check: OCB's tags have 8 to 16 bytes, apart from all else; SSE2 is part of x86-64.
        unsafe {
            if !W::DECRYPTS {
                let mut bytes = [0u8; 16];
                _mm_storeu_si128(bytes.as_mut_ptr().cast(), tag);
                copy_short(bytes.as_ptr(), place, tag_len);
                work.done(op);
            } else if is_tag(tag, place, tag_len) {
                work.done(op);
            } else {
                work.fail(op, OpStatus::AuthFailed);
            }
        }
    }
}

/// Whether the first `len` bytes of a tag lie there, in a time that tells nothing of either.
///
/// # Safety
/// They may be read; there are 1 to 16.
#[inline(always)]
unsafe fn is_tag(tag: __m128i, place: *const u8, len: usize) -> bool {
    let mut given = [0u8; 16];
    // SAFETY: the caller's promise; SSE2 is part of x86-64.
    let same = unsafe {
        copy_short(place, given.as_mut_ptr(), len);
        _mm_movemask_epi8(_mm_cmpeq_epi8(tag, _mm_loadu_si128(given.as_ptr().cast()))) as u32
    };
    let wanted = (1u32 << len) - 1;
    same & wanted == wanted
}

/// The block that a nonce becomes: the tag's length in bits, modulo 128, in seven bits, zeros, a one, the nonce (RFC 7253, 4.2).
#[inline(always)]
fn nonce_block(iv: [u8; 16], iv_len: usize, tag_len: usize) -> u128 {
    // The batch's check: 1 to 15 bytes. What lies behind them is shifted out.
    let bits = 8 * iv_len as u32;
    let nonce = u128::from_be_bytes(iv).unbounded_shr(128 - bits);
    let tag_bits = (8 * tag_len % 128) as u128;
    tag_bits << 121 | 1u128.unbounded_shl(bits) | nonce
}

/// One block under the key.
#[inline(always)]
fn encipher<I: Isa, const ROUNDS: usize>(isa: I, key: &AesKey, block: I::V) -> I::V {
    let mut blocks = [block];
    cipher::<I, Forward, ROUNDS>(isa, &key.encrypt, &mut blocks, &[isa.zero()]);
    blocks[0]
}

/// The first offset: a window, which the nonce's last six bits place, of a stretched block (RFC 7253, 4.2).
#[inline(always)]
fn first_offset<I: Isa, const ROUNDS: usize>(isa: I, key: &AesKey, nonce: u128) -> I::V {
    let bottom = (nonce & 0x3f) as u32;
    let mut top = [0; 16];
    let block = encipher::<I, ROUNDS>(isa, key, isa.splat_bytes(&(nonce & !0x3f).to_be_bytes())).first();
    // SAFETY: sixteen bytes may be written; SSE2 is part of x86-64.
    unsafe { _mm_storeu_si128(top.as_mut_ptr().cast(), block) };
    let top = u128::from_be_bytes(top);
    let stretch = ((top >> 64) as u64) ^ ((top >> 56) as u64);
    let offset = (top << bottom) | (u128::from(stretch) >> (64 - bottom));
    isa.splat_bytes(&offset.to_be_bytes())
}

/// The offsets of the four blocks behind block number `before`, a multiple of four; `offset`, in every block of a
/// vector, becomes the last one's.
#[inline(always)]
fn offsets<I: Isa, const N: usize>(isa: I, table: &Table, before: usize, offset: &mut I::V) -> [I::V; N] {
    let last = (before + CHUNK).trailing_zeros() as usize;
    let own = isa.splat_bytes(&table.l[last.min(DOUBLINGS - 1)]);
    let mut offsets = [isa.zero(); N];
    for (v, offsets) in offsets.iter_mut().enumerate() {
        // SAFETY: the vectors of a chunk are its four blocks.
        let four = unsafe { isa.load(table.four.as_ptr().add(v * I::LEN).cast()) };
        *offsets = offset.xor(four);
    }
    // The last block of the last vector alone.
    let end = isa.gather(core::array::from_fn(|i| if i == I::LEN - 1 { own.first() } else { isa.zero().first() }));
    offsets[N - 1] = offsets[N - 1].xor(end);
    *offset = offset.xor3(isa.splat_bytes(&table.l[1]), own);
    offsets
}

/// Encrypts or decrypts a message. Returns the last offset and the checksum of the plaintext, each in the first block.
///
/// # Safety
/// The item's places have its bytes, and are one place or apart.
#[inline(always)]
unsafe fn data<I: Isa, W: Way, const F: usize, const N: usize, const ROUNDS: usize>(
    isa: I,
    key: &OcbKey,
    nonce: u128,
    item: &Item,
) -> (I::V, I::V) {
    let len = item.len as usize;
    let whole = len & !15;
    let mut offset = first_offset::<I, ROUNDS>(isa, &key.aes, nonce);
    let mut sum = isa.zero();
    let mut at = 0;
    // SAFETY: `at` and what is read and written behind it are within `len`; all of a chunk is read before it is written.
    unsafe {
        while whole - at >= 16 * CHUNK * F {
            let (input, output) = (item.input.add(at), item.output.add(at));
            sum = sum.xor(chunks::<I, W, F, N, ROUNDS>(isa, key, at / 16, &mut offset, input, output, usize::MAX));
            at += 16 * CHUNK * F;
        }
        while at < whole {
            let (input, output, before) = (item.input.add(at), item.output.add(at), offset);
            let here = (whole - at).min(16 * CHUNK);
            sum = sum.xor(chunks::<I, W, 1, N, ROUNDS>(isa, key, at / 16, &mut offset, input, output, here));
            if here < 16 * CHUNK {
                offset = before.xor(isa.splat_bytes(&key.table.four[here / 16 - 1]));
            }
            at += here;
        }
        let mut sum = isa.only_first(sum.fold());
        if whole < len {
            offset = offset.xor(isa.splat_bytes(&key.table.star));
            let pad = encipher::<I, ROUNDS>(isa, &key.aes, offset);
            let text = isa.load_partial(item.input.add(whole), len - whole);
            let other = text.xor(pad).keep_from::<0>(len - whole);
            other.store_partial(item.output.add(whole), len - whole);
            sum = sum.xor(if W::DECRYPTS { other } else { text }).xor(end_bit(isa, len - whole));
        }
        (offset, sum)
    }
}

/// The one bit behind the last `len` bytes of a text, in the first block.
#[inline(always)]
fn end_bit<I: Isa>(isa: I, len: usize) -> I::V {
    let bit = 0x80u128 << (8 * len);
    // SAFETY: SSE2 is part of x86-64.
    isa.only_first(unsafe { _mm_set_epi64x((bit >> 64) as i64, bit as i64) })
}

/// `C` chunks of four blocks behind block number `before`, or the first `len` bytes of them. Returns the sum of their
/// plaintext.
///
/// # Safety
/// So many bytes may be read and written; the places are one or apart.
#[inline(always)]
unsafe fn chunks<I: Isa, W: Way, const C: usize, const N: usize, const ROUNDS: usize>(
    isa: I,
    key: &OcbKey,
    before: usize,
    offset: &mut I::V,
    input: *const u8,
    output: *mut u8,
    len: usize,
) -> I::V {
    let width = 16 * I::LEN;
    let (mut blocks, mut sum) = ([[isa.zero(); N]; C], isa.zero());
    let mut added = blocks;
    // SAFETY: the caller's promise.
    unsafe {
        for c in 0..C {
            added[c] = offsets::<I, N>(isa, &key.table, before + c * CHUNK, offset);
            for v in 0..N {
                let at = (c * N + v) * width;
                let text = isa.load_partial(input.add(at.min(len)), len.saturating_sub(at).min(width));
                sum = if W::DECRYPTS { sum } else { sum.xor(text) };
                blocks[c][v] = text.xor(added[c][v]);
            }
        }
        cipher::<I, W, ROUNDS>(isa, schedule::<W>(&key.aes), blocks.as_flattened_mut(), added.as_flattened());
        for c in 0..C {
            for v in 0..N {
                let at = (c * N + v) * width;
                let here = len.saturating_sub(at).min(width);
                blocks[c][v].store_partial(output.add(at.min(len)), here);
                sum = if W::DECRYPTS { sum.xor(blocks[c][v].keep_from::<0>(here)) } else { sum };
            }
        }
    }
    sum
}

/// HASH (RFC 7253, 4.1), in the first block.
#[inline(always)]
fn hash<I: Isa, const N: usize, const ROUNDS: usize>(isa: I, key: &OcbKey, aad: &[u8]) -> I::V {
    let width = 16 * I::LEN;
    let whole = aad.len() & !15;
    let (mut offset, mut sum) = (isa.zero(), isa.zero());
    let mut at = 0;
    while at < whole {
        let len = (whole - at).min(16 * CHUNK);
        let before = offset;
        let mut blocks = offsets::<I, N>(isa, &key.table, at / 16, &mut offset);
        for (v, block) in blocks.iter_mut().enumerate() {
            let here = len.saturating_sub(v * width).min(width);
            // SAFETY: within the additional data.
            *block = block.xor(unsafe { isa.load_partial(aad.as_ptr().add(at + (v * width).min(len)), here) });
        }
        cipher::<I, Forward, ROUNDS>(isa, &key.aes.encrypt, &mut blocks, &[isa.zero(); N]);
        for (v, block) in blocks.iter().enumerate() {
            sum = sum.xor(block.keep_from::<0>(len.saturating_sub(v * width).min(width)));
        }
        if len < 16 * CHUNK {
            offset = before.xor(isa.splat_bytes(&key.table.four[len / 16 - 1]));
        }
        at += len;
    }
    let mut sum = isa.only_first(sum.fold());
    if whole < aad.len() {
        // SAFETY: within the additional data.
        let text = unsafe { isa.load_partial(aad.as_ptr().add(whole), aad.len() - whole) };
        let last = text.xor3(end_bit(isa, aad.len() - whole), offset).xor(isa.splat_bytes(&key.table.star));
        sum = sum.xor(encipher::<I, ROUNDS>(isa, &key.aes, last));
    }
    sum
}
