//! ECB, CBC and CTR (NIST SP 800-38A) of block ciphers of 64 bits: [`LANES`] messages in turns, a block of each a step.
//!
//! A lane whose message ends takes the next one. Where blocks do not wait for each other (all but enciphering in CBC),
//! a message is cut into parts, so that a long one fills all lanes. At the end of a batch, when there is nothing to
//! take, the step becomes narrower.

use core::any::Any;

use ciphermill_contract::Direction;
use ciphermill_contract::suite::Mode;
use zeroize::Zeroize;

use super::{Feed, by_key};
use crate::work::{Scratch, Work};

/// Messages side by side.
pub(super) const LANES: usize = 8;

/// Bytes of a block.
const BLOCK: usize = 8;

/// Bytes of the parts that messages are cut into, and of those of batches that would not fill the lanes otherwise.
const PART_LEN: usize = 16 * BLOCK;
const SMALL_PART_LEN: usize = BLOCK;

/// A key of a block cipher of 64 bits. Blocks are numbers, their first byte the highest.
pub(super) trait Cipher: Any + Send + Sync {
    /// What a block is enciphered with.
    type Tables;
    /// The key's tables.
    fn tables(&self) -> &Self::Tables;
    /// Enciphers a block under each of `N` keys.
    fn encrypt<const N: usize>(tables: &[&Self::Tables; N], blocks: &mut [u64; N]);
    /// Deciphers a block under each of `N` keys.
    fn decrypt<const N: usize>(tables: &[&Self::Tables; N], blocks: &mut [u64; N]);
}

/// What is left of a message, or of a part of one.
struct Stream<T> {
    tables: *const T,
    input: *const u8,
    output: *mut u8,
    /// Bytes.
    left: usize,
    /// The block before, or the counter.
    chain: u64,
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Stream<T> {
        *self
    }
}

impl<T> Copy for Stream<T> {}

impl<T> Stream<T> {
    const NONE: Stream<T> = Stream {
        tables: core::ptr::null(),
        input: core::ptr::null(),
        output: core::ptr::null_mut(),
        left: 0,
        chain: 0,
    };

    /// # Safety
    /// A block of input is left.
    #[inline(always)]
    unsafe fn load(&self) -> u64 {
        // SAFETY: the caller's promise.
        u64::from_be_bytes(unsafe { self.input.cast::<[u8; BLOCK]>().read() })
    }

    /// Writes a block and moves on.
    ///
    /// # Safety
    /// A block is left.
    #[inline(always)]
    unsafe fn store(&mut self, block: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.output.cast::<[u8; BLOCK]>().write(block.to_be_bytes()) };
        self.advance(BLOCK);
    }

    #[inline(always)]
    fn advance(&mut self, len: usize) {
        self.input = self.input.wrapping_add(len);
        self.output = self.output.wrapping_add(len);
        self.left -= len;
    }
}

/// How blocks hang together.
trait Chaining {
    /// Whether a block waits for the one before.
    const SERIAL: bool;
    /// Which way the cipher runs.
    const ENCRYPTS: bool;

    /// What goes into the cipher.
    ///
    /// # Safety
    /// The stream has bytes left, whole blocks but in CTR, and its places are valid for them.
    unsafe fn before<T>(stream: &mut Stream<T>) -> u64;

    /// Writes what becomes of the cipher's output, and moves on.
    ///
    /// # Safety
    /// As in [`Chaining::before`].
    unsafe fn after<T>(stream: &mut Stream<T>, block: u64);

    /// The chain behind the next `len` bytes, whole blocks.
    ///
    /// # Safety
    /// As in [`Chaining::before`]; they are left and nothing of them has been written.
    unsafe fn chain_after<T>(stream: &Stream<T>, len: usize) -> u64 {
        let _ = len;
        stream.chain
    }
}

struct Ecb<const ENCRYPTS: bool>;
struct CbcEncrypt;
struct CbcDecrypt;
struct Ctr;

impl<const ENCRYPTS: bool> Chaining for Ecb<ENCRYPTS> {
    const SERIAL: bool = false;
    const ENCRYPTS: bool = ENCRYPTS;

    #[inline(always)]
    unsafe fn before<T>(stream: &mut Stream<T>) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { stream.load() }
    }

    #[inline(always)]
    unsafe fn after<T>(stream: &mut Stream<T>, block: u64) {
        // SAFETY: the caller's promise.
        unsafe { stream.store(block) };
    }
}

impl Chaining for CbcEncrypt {
    const SERIAL: bool = true;
    const ENCRYPTS: bool = true;

    #[inline(always)]
    unsafe fn before<T>(stream: &mut Stream<T>) -> u64 {
        // SAFETY: the caller's promise.
        stream.chain ^ unsafe { stream.load() }
    }

    #[inline(always)]
    unsafe fn after<T>(stream: &mut Stream<T>, block: u64) {
        stream.chain = block;
        // SAFETY: the caller's promise.
        unsafe { stream.store(block) };
    }
}

impl Chaining for CbcDecrypt {
    const SERIAL: bool = false;
    const ENCRYPTS: bool = false;

    #[inline(always)]
    unsafe fn before<T>(stream: &mut Stream<T>) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { stream.load() }
    }

    #[inline(always)]
    unsafe fn after<T>(stream: &mut Stream<T>, block: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let ciphertext = stream.load();
            stream.store(block ^ stream.chain);
            stream.chain = ciphertext;
        }
    }

    #[inline(always)]
    unsafe fn chain_after<T>(stream: &Stream<T>, len: usize) -> u64 {
        // SAFETY: the caller's promise.
        u64::from_be_bytes(unsafe { stream.input.add(len - BLOCK).cast::<[u8; BLOCK]>().read() })
    }
}

impl Chaining for Ctr {
    const SERIAL: bool = false;
    const ENCRYPTS: bool = true;

    #[inline(always)]
    unsafe fn before<T>(stream: &mut Stream<T>) -> u64 {
        let counter = stream.chain;
        stream.chain = counter.wrapping_add(1);
        counter
    }

    #[inline(always)]
    unsafe fn after<T>(stream: &mut Stream<T>, block: u64) {
        if stream.left >= BLOCK {
            // SAFETY: a block is left.
            unsafe { stream.store(stream.load() ^ block) };
            return;
        }
        for byte in block.to_be_bytes().into_iter().take(stream.left) {
            // SAFETY: the stream has this byte.
            unsafe { stream.output.write(stream.input.read() ^ byte) };
            stream.advance(1);
        }
    }

    #[inline(always)]
    unsafe fn chain_after<T>(stream: &Stream<T>, len: usize) -> u64 {
        stream.chain.wrapping_add((len / BLOCK) as u64)
    }
}

/// Runs a batch.
pub(super) fn run<C: Cipher>(mode: Mode, work: &mut Work<'_>, scratch: &mut Scratch) {
    match (mode, work.direction()) {
        (Mode::Ecb, Direction::Encrypt) => run_mode::<C, Ecb<true>>(work, scratch, |_| 0),
        (Mode::Ecb, Direction::Decrypt) => run_mode::<C, Ecb<false>>(work, scratch, |_| 0),
        (Mode::Cbc, Direction::Encrypt) => run_mode::<C, CbcEncrypt>(work, scratch, whole_iv),
        (Mode::Cbc, Direction::Decrypt) => run_mode::<C, CbcDecrypt>(work, scratch, whole_iv),
        (Mode::Ctr, _) => run_mode::<C, Ctr>(work, scratch, first_counter),
        (Mode::Xts, _) => {}
    }
}

#[inline(always)]
fn whole_iv(iv: &[u8]) -> u64 {
    iv.first_chunk().map_or(0, |iv| u64::from_be_bytes(*iv))
}

/// A whole block as it is, or a nonce before a counter of one (RFC 3686, section 4). No message is so long that the 32
/// bits of such a counter would not do.
#[inline(always)]
fn first_counter(iv: &[u8]) -> u64 {
    match (iv.first_chunk(), iv.first_chunk()) {
        (Some(block), _) => u64::from_be_bytes(*block),
        (None, Some(nonce)) => u64::from(u32::from_be_bytes(*nonce)) << 32 | 1,
        _ => 0,
    }
}

/// Where lanes take messages, or parts of them, from.
struct Parts<'w, 'a, C: Cipher> {
    feed: Feed<'w, 'a, C>,
    first_chain: fn(&[u8]) -> u64,
    /// What has not been handed out of the message taken last.
    rest: Stream<C::Tables>,
    part_len: usize,
}

impl<C: Cipher> Parts<'_, '_, C> {
    #[inline(always)]
    fn next<M: Chaining>(&mut self) -> Option<Stream<C::Tables>> {
        if self.rest.left == 0 {
            let item = self.feed.next()?;
            // SAFETY: collected with this type; the batch is still borrowed.
            let tables = unsafe { item.key::<C>() }.tables();
            let chain = (self.first_chain)(self.feed.work.iv(item.op as usize));
            self.rest = Stream { tables, input: item.input, output: item.output, left: item.len as usize, chain };
        }
        let mut part = self.rest;
        if M::SERIAL || part.left <= self.part_len {
            self.rest.left = 0;
            return Some(part);
        }
        part.left = self.part_len;
        // SAFETY: the batch's check; lanes have been given what lies before only.
        self.rest.chain = unsafe { M::chain_after(&self.rest, part.left) };
        self.rest.advance(part.left);
        Some(part)
    }
}

fn run_mode<C: Cipher, M: Chaining>(work: &mut Work<'_>, scratch: &mut Scratch, first_chain: fn(&[u8]) -> u64) {
    let part_len = if work.len() > LANES * LANES { PART_LEN } else { SMALL_PART_LEN };
    let feed = Feed::<C>::new(work, scratch, by_key::<C>);
    let mut parts = Parts { feed, first_chain, rest: Stream::NONE, part_len };
    let mut streams = [Stream::<C::Tables>::NONE; LANES];
    let mut count = 0;
    while let Some(part) = parts.next::<M>() {
        streams[count] = part;
        count += 1;
        if count == LANES {
            let steps = full_steps::<C, M>(&mut parts, &mut streams);
            parts.feed.scratch.occupancy.add(LANES * steps, 0);
            count = compact(&mut streams, count);
        }
    }
    let (mut busy, mut idle) = (0, 0);
    while count > 0 {
        // SAFETY: the first `count` streams have bytes left, at places that the batch's check found valid and apart.
        let width = unsafe {
            match count {
                1 => step::<C, M, 1>(&mut streams, count),
                2 => step::<C, M, 2>(&mut streams, count),
                3..=4 => step::<C, M, 4>(&mut streams, count),
                _ => step::<C, M, LANES>(&mut streams, count),
            }
        };
        busy += count;
        idle += width - count;
        count = compact(&mut streams, count);
    }
    parts.feed.scratch.occupancy.add(busy, idle);
    for stream in &mut streams {
        // The last plaintext, or the counter behind the last key stream.
        stream.chain.zeroize();
    }
}

/// Steps with every lane busy until there is no next part. Returns how many there were.
#[inline(never)]
fn full_steps<C: Cipher, M: Chaining>(parts: &mut Parts<'_, '_, C>, streams: &mut [Stream<C::Tables>; LANES]) -> usize {
    let (mut steps, mut dry) = (0, false);
    while !dry {
        // SAFETY: every stream has bytes left, at places that the batch's check found valid and apart.
        unsafe { step::<C, M, LANES>(streams, LANES) };
        steps += 1;
        for stream in &mut *streams {
            if stream.left == 0 {
                match parts.next::<M>() {
                    Some(part) => *stream = part,
                    None => dry = true,
                }
            }
        }
    }
    steps
}

/// Moves the streams that have bytes left to the front and returns how many there are.
fn compact<T>(streams: &mut [Stream<T>; LANES], count: usize) -> usize {
    let mut kept = 0;
    for n in 0..count {
        if streams[n].left > 0 {
            streams[kept] = streams[n];
            kept += 1;
        }
    }
    kept
}

/// A block of each of the first `count` streams, `N` at most; the cipher works on `N` blocks. Returns `N`.
///
/// # Safety
/// These streams have bytes left, whole blocks but in CTR, and their places are valid for them.
#[inline(always)]
unsafe fn step<C: Cipher, M: Chaining, const N: usize>(
    streams: &mut [Stream<C::Tables>; LANES],
    count: usize,
) -> usize {
    let count = count.clamp(1, N);
    // SAFETY: streams that have bytes left have tables, which live as long as the batch's keys.
    let tables: [&C::Tables; N] = core::array::from_fn(|n| unsafe { &*streams[n.min(count - 1)].tables });
    let mut blocks = [0; N];
    for n in 0..count {
        // SAFETY: the caller's promise.
        blocks[n] = unsafe { M::before(&mut streams[n]) };
    }
    if M::ENCRYPTS {
        C::encrypt(&tables, &mut blocks);
    } else {
        C::decrypt(&tables, &mut blocks);
    }
    for n in 0..count {
        // SAFETY: the caller's promise.
        unsafe { M::after(&mut streams[n], blocks[n]) };
    }
    N
}
