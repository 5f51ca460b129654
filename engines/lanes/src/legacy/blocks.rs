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

/// A key of a block cipher of 64 bits, whose blocks are worked on as halves, the first byte of each the highest.
pub(super) trait Cipher: Any + Send + Sync {
    /// What a block is enciphered with.
    type Tables;
    /// The key's tables.
    fn tables(&self) -> &Self::Tables;
    /// Enciphers a block under each of `N` keys.
    fn encrypt<const N: usize>(tables: &[&Self::Tables; N], left: &mut [u32; N], right: &mut [u32; N]);
    /// Deciphers a block under each of `N` keys.
    fn decrypt<const N: usize>(tables: &[&Self::Tables; N], left: &mut [u32; N], right: &mut [u32; N]);
}

/// A message, or a part of one.
struct Part<'k, T> {
    tables: &'k T,
    input: *const u8,
    output: *mut u8,
    /// Bytes.
    len: usize,
    /// The block before, or the counter.
    chain: u64,
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

/// What each lane works on.
struct Lanes<'k, T> {
    tables: [&'k T; LANES],
    /// The block before, or the counter.
    chain: [u64; LANES],
    /// The next byte of input.
    input: [*const u8; LANES],
    /// Where the input ends; a lane that has come there is idle.
    end: [*const u8; LANES],
    /// From a byte of input to its place in the output.
    shift: [isize; LANES],
    /// The halves of the blocks in the cipher.
    left: [u32; LANES],
    right: [u32; LANES],
}

impl<'k, T> Lanes<'k, T> {
    /// Idle lanes; `tables` are any.
    fn idle(tables: &'k T) -> Lanes<'k, T> {
        let nowhere = [core::ptr::null(); LANES];
        Lanes {
            tables: [tables; LANES],
            chain: [0; LANES],
            input: nowhere,
            end: nowhere,
            shift: [0; LANES],
            left: [0; LANES],
            right: [0; LANES],
        }
    }

    #[inline(always)]
    fn start(&mut self, lane: usize, part: &Part<'k, T>) {
        self.tables[lane] = part.tables;
        self.chain[lane] = part.chain;
        self.input[lane] = part.input;
        self.end[lane] = part.input.wrapping_add(part.len);
        self.shift[lane] = (part.output as isize).wrapping_sub(part.input as isize);
    }

    #[inline(always)]
    fn is_idle(&self, lane: usize) -> bool {
        self.input[lane] == self.end[lane]
    }

    /// Moves the lanes that are busy to the front and returns how many there are.
    fn compact(&mut self, count: usize) -> usize {
        let mut kept = 0;
        for lane in 0..count {
            if !self.is_idle(lane) {
                self.tables[kept] = self.tables[lane];
                self.chain[kept] = self.chain[lane];
                self.input[kept] = self.input[lane];
                self.end[kept] = self.end[lane];
                self.shift[kept] = self.shift[lane];
                kept += 1;
            }
        }
        kept
    }
}

/// How blocks hang together.
trait Chaining {
    /// Whether a block waits for the one before.
    const SERIAL: bool;
    /// Which way the cipher runs.
    const ENCRYPTS: bool;
    /// Whether the input goes into the cipher, so that there are whole blocks of it only.
    const WHOLE: bool;

    /// What goes into the cipher: bit by bit of chain and input.
    fn before(chain: u64, input: u64) -> u64;

    /// What comes of the cipher's output, and the chain behind it.
    fn after(chain: u64, input: u64, block: u64) -> (u64, u64);

    /// The chain behind some blocks of a message, of which `last` is the last.
    fn chain_after(chain: u64, blocks: usize, last: u64) -> u64;
}

struct Ecb<const ENCRYPTS: bool>;
struct CbcEncrypt;
struct CbcDecrypt;
struct Ctr;

impl<const ENCRYPTS: bool> Chaining for Ecb<ENCRYPTS> {
    const SERIAL: bool = false;
    const ENCRYPTS: bool = ENCRYPTS;
    const WHOLE: bool = true;

    #[inline(always)]
    fn before(_: u64, input: u64) -> u64 {
        input
    }

    #[inline(always)]
    fn after(chain: u64, _: u64, block: u64) -> (u64, u64) {
        (block, chain)
    }

    #[inline(always)]
    fn chain_after(chain: u64, _: usize, _: u64) -> u64 {
        chain
    }
}

impl Chaining for CbcEncrypt {
    const SERIAL: bool = true;
    const ENCRYPTS: bool = true;
    const WHOLE: bool = true;

    #[inline(always)]
    fn before(chain: u64, input: u64) -> u64 {
        chain ^ input
    }

    #[inline(always)]
    fn after(_: u64, _: u64, block: u64) -> (u64, u64) {
        (block, block)
    }

    #[inline(always)]
    fn chain_after(chain: u64, _: usize, _: u64) -> u64 {
        chain
    }
}

impl Chaining for CbcDecrypt {
    const SERIAL: bool = false;
    const ENCRYPTS: bool = false;
    const WHOLE: bool = true;

    #[inline(always)]
    fn before(_: u64, input: u64) -> u64 {
        input
    }

    #[inline(always)]
    fn after(chain: u64, input: u64, block: u64) -> (u64, u64) {
        (block ^ chain, input)
    }

    #[inline(always)]
    fn chain_after(_: u64, _: usize, last: u64) -> u64 {
        last
    }
}

impl Chaining for Ctr {
    const SERIAL: bool = false;
    const ENCRYPTS: bool = true;
    const WHOLE: bool = false;

    #[inline(always)]
    fn before(chain: u64, _: u64) -> u64 {
        chain
    }

    #[inline(always)]
    fn after(chain: u64, input: u64, block: u64) -> (u64, u64) {
        (block ^ input, chain.wrapping_add(1))
    }

    #[inline(always)]
    fn chain_after(chain: u64, blocks: usize, _: u64) -> u64 {
        chain.wrapping_add(blocks as u64)
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
        // AES has the others.
        _ => {}
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
    rest: Option<Part<'a, C::Tables>>,
    part_len: usize,
}

impl<'a, C: Cipher> Parts<'_, 'a, C> {
    #[inline(always)]
    fn next<M: Chaining>(&mut self) -> Option<Part<'a, C::Tables>> {
        let mut part = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let item = self.feed.next()?;
                // SAFETY: collected with this type; the batch's keys are borrowed for 'a.
                let tables = unsafe { item.key::<C>() }.tables();
                let (work, index) = (&*self.feed.work, item.op as usize);
                let chain = (self.first_chain)(&work.iv_block(index)[..work.iv_len(index)]);
                Part { tables, input: item.input, output: item.output, len: item.len as usize, chain }
            }
        };
        if !M::SERIAL && part.len > self.part_len {
            let (len, mut rest) = (self.part_len, part);
            rest.input = part.input.wrapping_add(len);
            rest.output = part.output.wrapping_add(len);
            rest.len -= len;
            // SAFETY: the message has more than these blocks; lanes have been given what lies before them only.
            let last = unsafe { load(rest.input.wrapping_sub(BLOCK)) };
            rest.chain = M::chain_after(part.chain, len / BLOCK, last);
            self.rest = Some(rest);
            part.len = len;
        }
        Some(part)
    }
}

fn run_mode<C: Cipher, M: Chaining>(work: &mut Work<'_>, scratch: &mut Scratch, first_chain: fn(&[u8]) -> u64) {
    let part_len = if work.len() > LANES * LANES { PART_LEN } else { SMALL_PART_LEN };
    let feed = Feed::<C>::new(work, scratch, by_key::<C>);
    let mut parts = Parts { feed, first_chain, rest: None, part_len };
    let Some(first) = parts.next::<M>() else { return };
    let mut lanes = Lanes::idle(first.tables);
    lanes.start(0, &first);
    let mut count = 1;
    while count < LANES
        && let Some(part) = parts.next::<M>()
    {
        lanes.start(count, &part);
        count += 1;
    }
    if count == LANES {
        full_steps::<C, M>(&mut parts, &mut lanes);
        count = lanes.compact(LANES);
    }
    while count > 0 {
        // SAFETY: the first `count` lanes are busy, at places that the batch's check found valid and apart.
        let width = unsafe {
            match count {
                1 => {
                    parts.feed.scratch.occupancy.add(whole_blocks::<C, M>(&mut lanes), 0);
                    if lanes.is_idle(0) {
                        break;
                    }
                    step::<C, M, 1>(&mut lanes, count, |_, _| ())
                }
                2 => step::<C, M, 2>(&mut lanes, count, |_, _| ()),
                3..=4 => step::<C, M, 4>(&mut lanes, count, |_, _| ()),
                _ => step::<C, M, LANES>(&mut lanes, count, |_, _| ()),
            }
        };
        parts.feed.scratch.occupancy.add(count, width - count);
        count = lanes.compact(count);
    }
    // The last plaintext, the counter behind the last key stream, and that.
    lanes.chain.zeroize();
    lanes.left.zeroize();
    lanes.right.zeroize();
}

/// Steps with every lane busy until there is no next part.
#[inline(never)]
fn full_steps<'a, C: Cipher, M: Chaining>(parts: &mut Parts<'_, 'a, C>, lanes: &mut Lanes<'a, C::Tables>) {
    let (mut steps, mut dry) = (0, false);
    while !dry {
        // SAFETY: every lane is busy, at places that the batch's check found valid and apart.
        unsafe {
            step::<C, M, LANES>(lanes, LANES, |lanes, lane| match parts.next::<M>() {
                Some(part) => lanes.start(lane, &part),
                None => dry = true,
            });
        }
        steps += LANES;
    }
    parts.feed.scratch.occupancy.add(steps, 0);
}

/// All whole blocks of the first lane, which is busy alone. Chain and halves stay in registers: each block waits for the
/// one before where blocks are enciphered in CBC, and would for memory besides. Returns how many there were.
///
/// # Safety
/// The lane's places are valid for it.
#[inline(never)]
unsafe fn whole_blocks<C: Cipher, M: Chaining>(lanes: &mut Lanes<'_, C::Tables>) -> usize {
    let halves = |block: u64| ([(block >> 32) as u32], [block as u32]);
    let whole = |left: [u32; 1], right: [u32; 1]| u64::from(left[0]) << 32 | u64::from(right[0]);
    let tables = [lanes.tables[0]];
    let (first, shift) = (lanes.input[0], lanes.shift[0]);
    let blocks = (lanes.end[0] as usize - first as usize) / BLOCK;
    // In halves as well, which are not put together to be cut again.
    let (mut chain_left, mut chain_right) = halves(lanes.chain[0]);
    for at in 0..blocks {
        let input = first.wrapping_add(BLOCK * at);
        // SAFETY: the caller's promise; the lane has this block.
        let bytes = unsafe { load(input) };
        let chain = whole(chain_left, chain_right);
        // A half of what goes in is what goes in of halves.
        let (mut left, mut right) = ([M::before(chain >> 32, bytes >> 32) as u32], [M::before(chain, bytes) as u32]);
        if M::ENCRYPTS {
            C::encrypt(&tables, &mut left, &mut right);
        } else {
            C::decrypt(&tables, &mut left, &mut right);
        }
        let (block, chain) = M::after(chain, bytes, whole(left, right));
        (chain_left, chain_right) = halves(chain);
        // SAFETY: as above; the output's place is where the input's is, shifted.
        unsafe { input.cast_mut().wrapping_offset(shift).cast::<[u8; BLOCK]>().write(block.to_be_bytes()) };
    }
    lanes.chain[0] = whole(chain_left, chain_right);
    lanes.input[0] = first.wrapping_add(BLOCK * blocks);
    blocks
}

/// # Safety
/// A block may be read there.
#[inline(always)]
unsafe fn load(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    u64::from_be_bytes(unsafe { at.cast::<[u8; BLOCK]>().read() })
}

/// A block of each of the first `count` lanes, `N` at most; the cipher works on `N` blocks. `ended` is called for each
/// lane that is idle behind it. Returns `N`.
///
/// # Safety
/// These lanes are busy, with whole blocks but in CTR, and their places are valid for them.
#[inline(always)]
unsafe fn step<'k, C: Cipher, M: Chaining, const N: usize>(
    lanes: &mut Lanes<'k, C::Tables>,
    count: usize,
    mut ended: impl FnMut(&mut Lanes<'k, C::Tables>, usize),
) -> usize {
    let count = count.min(N);
    for n in 0..count {
        // SAFETY: the caller's promise.
        let input = if M::WHOLE { unsafe { load(lanes.input[n]) } } else { 0 };
        let block = M::before(lanes.chain[n], input);
        lanes.left[n] = (block >> 32) as u32;
        lanes.right[n] = block as u32;
    }
    let Lanes { tables, left, right, .. } = lanes;
    if let (Some(tables), Some(left), Some(right)) =
        (tables.first_chunk::<N>(), left.first_chunk_mut(), right.first_chunk_mut())
    {
        if M::ENCRYPTS {
            C::encrypt(tables, left, right);
        } else {
            C::decrypt(tables, left, right);
        }
    }
    for n in 0..count {
        let input = lanes.input[n];
        let output = input.cast_mut().wrapping_offset(lanes.shift[n]);
        let rest = lanes.end[n] as usize - input as usize;
        let block = u64::from(lanes.left[n]) << 32 | u64::from(lanes.right[n]);
        if M::WHOLE || rest >= BLOCK {
            // SAFETY: the caller's promise; a block is left.
            let (block, chain) = M::after(lanes.chain[n], unsafe { load(input) }, block);
            lanes.chain[n] = chain;
            // SAFETY: as above; the output's place is where the input's is, shifted.
            unsafe { output.cast::<[u8; BLOCK]>().write(block.to_be_bytes()) };
            lanes.input[n] = input.wrapping_add(BLOCK);
        } else {
            // SAFETY: the caller's promise; so many bytes are left.
            unsafe { add_bytes(input, output, rest, block) };
            lanes.input[n] = lanes.end[n];
        }
        if lanes.is_idle(n) {
            ended(lanes, n);
        }
    }
    N
}

/// Adds the first bytes of a block of key stream to data.
///
/// # Safety
/// `len` bytes, less than a block, may be read at `input` and written at `output`.
#[inline(always)]
unsafe fn add_bytes(input: *const u8, output: *mut u8, len: usize, block: u64) {
    for (at, pad) in block.to_be_bytes().into_iter().enumerate().take(len) {
        // SAFETY: the caller's promise.
        unsafe { output.add(at).write(input.add(at).read() ^ pad) };
    }
}
