//! Chains of a cipher and an HMAC in one pass: AES-CBC and AES-CTR with HMAC-SHA-1 and HMAC-SHA-256, 3DES-CBC with
//! HMAC-SHA-1, as ESP (RFC 4303), TLS (RFC 5246, RFC 7366) and SSH (`-etm`) use them.
//!
//! A group of operations goes through the cipher's lanes and then, while it is in the cache, through the MAC's; there are
//! not two sweeps over the batch. Only the MACs of records that are opened are computed one after the other, in a time
//! that does not tell how long the plaintext is.

mod hmac;
mod record;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{AesSize, BlockCipher, Chain, ChainOrder, Digest, Mode};
use ciphermill_contract::{Capability, Cost, Direction, Directions, OpStatus, PreparedKey, Suite};

use crate::aes::cbc::{self, CbcLane};
use crate::aes::ctr;
use crate::aes::schedule::AesKey;
use crate::des::{self, DesKey, DesLane};
use crate::hash::{self, Message, Tag};

use crate::select::Kernels;
use crate::work::{Beside, Item, Scratch, Work, copy_short};
use hmac::{Hash, Hmac};

/// Bytes of input after which a group is worked on, as soon as it fills the lanes: well within the second-level cache.
const GROUP_BYTES: usize = 128 << 10;

/// Operations of a group at most: enough to fill the widest lanes several times over.
const GROUP_OPS: usize = 2048;

/// Messages of so many bytes, with what is authenticated before their data, are put together for the MAC: lanes then read
/// them from one place, which saves more than the copy costs.
const TOGETHER_MAX: usize = 1024;

/// The key of a chain: the cipher's and the MAC's.
struct ChainKey {
    cipher: CipherKey,
    hmac: Hmac,
}

enum CipherKey {
    Aes(Box<AesKey>),
    Des(DesKey),
}

/// What a queue keeps for chains: a group's messages. Emptied before a run ends.
#[derive(Default)]
pub(crate) struct ChainScratch {
    aes: Vec<CbcLane<'static>>,
    des: Vec<DesLane<'static>>,
    messages: Vec<Message>,
    tags: Vec<Tag>,
    /// What the MACs cover before the data, a block's room each, or whole messages that were put together, of ciphertext alone.
    together: Vec<u8>,
}

/// AES in two modes and three sizes with two digests.
const fn aes(order: ChainOrder) -> [Suite; 12] {
    let sizes = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];
    let (modes, digests) = ([Mode::Cbc, Mode::Ctr], [Digest::Sha1, Digest::Sha256]);
    let mut suites = [Suite::Random; 12];
    let mut i = 0;
    while i < suites.len() {
        let cipher = BlockCipher::Aes(sizes[i / 4]);
        suites[i] = Suite::Chain(Chain { cipher, mode: modes[i / 2 % 2], digest: digests[i % 2], order });
        i += 1;
    }
    suites
}

const fn triple_des(order: ChainOrder) -> [Suite; 2] {
    [
        Suite::Chain(Chain { cipher: BlockCipher::TripleDes, mode: Mode::Cbc, digest: Digest::Sha1, order }),
        Suite::Chain(Chain { cipher: BlockCipher::TripleDes, mode: Mode::Cbc, digest: Digest::Sha256, order }),
    ]
}

const AES_SEALED: [Suite; 12] = aes(ChainOrder::EncryptThenMac);
const AES_RECORDS: [Suite; 12] = aes(ChainOrder::MacThenEncrypt);
const DES_SEALED: [Suite; 2] = triple_des(ChainOrder::EncryptThenMac);
const DES_RECORDS: [Suite; 2] = triple_des(ChainOrder::MacThenEncrypt);

pub(crate) fn capabilities(kernels: &Kernels) -> Vec<Capability> {
    let mut all = vec![
        Capability::new(&DES_SEALED, Cost::new(4000.0, 200.0, 1.6)).lanes(64),
        Capability::new(&DES_RECORDS, Cost::new(4000.0, 700.0, 1.6)).lanes(64),
    ];
    if kernels.aes.is_some() {
        let sealed = |few: Cost, prior: Cost| Capability::new(&AES_SEALED, prior).lanes(16).few(few);
        let (alone, full) = (Cost::new(30.0, 120.0, 1.2), Cost::new(80.0, 52.0, 0.2));
        all.push(sealed(alone, full).directions(Directions::ENCRYPT));
        let (alone, full) = (Cost::new(30.0, 110.0, 0.53), Cost::new(80.0, 52.0, 0.16));
        all.push(sealed(alone, full).directions(Directions::DECRYPT));
        all.push(Capability::new(&AES_RECORDS, Cost::new(100.0, 500.0, 0.9)).lanes(16));
    }
    all
}

pub(crate) fn prepare(kernels: &Kernels, key: &[u8], chain: Chain) -> Result<PreparedKey, KeyProblem> {
    let (cipher, mac) = key.split_at_checked(chain.cipher_key_len()).ok_or(KeyProblem::Length)?;
    let hash = Hash::of(chain.digest).ok_or(KeyProblem::Parameters)?;
    let cipher = match (chain.cipher, kernels.aes) {
        (BlockCipher::TripleDes, _) => CipherKey::Des(DesKey::triple(cipher)?),
        (BlockCipher::Aes(_), Some(kernel)) => CipherKey::Aes(Box::new(AesKey::new(kernel, cipher)?)),
        _ => return Err(KeyProblem::Parameters),
    };
    Ok(PreparedKey::for_suite(Suite::Chain(chain), ChainKey { cipher, hmac: Hmac::new(hash, mac) }))
}

/// Runs a batch, group by group.
pub(crate) fn run(kernels: &Kernels, chain: Chain, work: &mut Work<'_>, scratch: &mut Scratch) {
    let mut items = core::mem::take(&mut scratch.items);
    // Triple DES is slower than any memory, and wants its lanes full.
    let lanes = if chain.cipher == BlockCipher::TripleDes { 512 } else { 16 };
    let mut next = 0;
    loop {
        items.clear();
        let mut bytes = 0;
        while items.len() < GROUP_OPS && (bytes < GROUP_BYTES || !items.len().is_multiple_of(lanes)) {
            let Some(item) = work.take::<ChainKey>(&mut next) else { break };
            bytes += item.len as usize;
            items.push(item);
        }
        if items.is_empty() {
            break;
        }
        let count = items.len();
        let mut group = Group { kernels, chain, work, scratch };
        match (chain.order, group.work.direction()) {
            (ChainOrder::EncryptThenMac, Direction::Encrypt) => group.seal(&items),
            (ChainOrder::EncryptThenMac, Direction::Decrypt) => group.open(&items),
            (ChainOrder::MacThenEncrypt, Direction::Encrypt) => group.seal_records(&mut items),
            (ChainOrder::MacThenEncrypt, Direction::Decrypt) => group.open_records(&items),
        }
        // Tags of messages that were not what they should be are nobody's business.
        if let Some(tags) = scratch.chain.tags.get_mut(..count) {
            tags.fill([0; hash::DIGEST_MAX]);
        }
    }
    scratch.items = items;
    scratch.des.wipe();
}

/// A group of operations at work.
struct Group<'g, 'w> {
    kernels: &'g Kernels,
    chain: Chain,
    work: &'g mut Work<'w>,
    scratch: &'g mut Scratch,
}

impl Group<'_, '_> {
    fn seal(&mut self, items: &[Item]) {
        for item in items {
            self.lane(item, &self.work.beside(item.op as usize), item.input, item.len as usize);
        }
        self.cipher(Direction::Encrypt);
        // SAFETY: the outputs' spans lie in the arena, and nothing else writes them.
        unsafe { self.tags(items, |item| item.output.cast_const()) };
        for (number, item) in items.iter().enumerate() {
            let index = item.op as usize;
            let Beside { tag, tag_len, .. } = self.work.beside(index);
            let full = &self.scratch.chain.tags[number];
            // SAFETY: the tag's span lies in the arena, apart from what is read here.
            unsafe { copy_short(full.as_ptr(), tag, tag_len.min(full.len())) };
            self.work.done(index);
        }
    }

    /// Verifies before anything is decrypted.
    fn open(&mut self, items: &[Item]) {
        // SAFETY: the inputs' spans lie in the arena, and nothing writes them meanwhile.
        unsafe { self.tags(items, |item| item.input) };
        for (number, item) in items.iter().enumerate() {
            let index = item.op as usize;
            let beside = self.work.beside(index);
            let expected = &self.scratch.chain.tags[number];
            // SAFETY: the tag's span lies in the arena; nothing writes it.
            if unsafe { hash::is_tag(expected, beside.tag, beside.tag_len) } {
                self.lane(item, &beside, item.input, item.len as usize);
                // Nothing can fail from here on.
                self.work.done(index);
            } else {
                self.work.fail(index, OpStatus::AuthFailed);
            }
        }
        self.cipher(Direction::Decrypt);
    }

    /// The tag of each operation, of its head and as many bytes from `place` on as its input has.
    ///
    /// # Safety
    /// Those bytes may be read.
    unsafe fn tags(&mut self, items: &[Item], place: impl Fn(&Item) -> *const u8) {
        let order = self.chain.order;
        let ChainScratch { messages, tags, together, .. } = &mut self.scratch.chain;
        let rooms: usize = items.iter().map(|item| room(order, item.len as usize)).sum();
        together.resize(together.len().max(rooms), 0);
        let mut own = together.as_mut_ptr();
        messages.clear();
        tags.resize(tags.len().max(items.len()), [0; hash::DIGEST_MAX]);
        for (number, item) in items.iter().enumerate() {
            let (hmac, data, len) = (&key(item).hmac, place(item), item.len as usize);
            let (midstates, name) = (hmac.midstates(), number as u32);
            // SAFETY: there is room for a head of less than a block, and for as much data as `room` says, of which the caller
            // promises as many bytes.
            unsafe {
                let Some(head_len) = head(self.work, order, item, own) else {
                    let data = core::slice::from_raw_parts(data, len);
                    let (aad, iv) = (self.work.aad(item.op as usize), self.work.iv_block(item.op as usize));
                    let iv = &iv[..self.work.iv_len(item.op as usize)];
                    tags[number][..hmac::TAG_LEN_MAX].copy_from_slice(&hmac.tag(&[aad, iv, data]));
                    continue;
                };
                messages.push(if is_together(order, len) {
                    copy(data, own.add(head_len), len);
                    Message { head: core::ptr::null(), head_len: 0, data: own, len: head_len + len, midstates, name }
                } else {
                    Message { head: own, head_len, data, len, midstates, name }
                });
                own = own.add(room(order, len));
            }
        }
        // SAFETY: heads are shorter than a block; whatever messages point at outlives the call.
        unsafe { hash::hmacs(self.kernels.hash, self.chain.digest, messages, tags) };
        messages.clear();
    }

    /// Appends MAC and padding to each plaintext, then encrypts where they lie (RFC 5246, 6.2.3.1 and 6.2.3.2).
    fn seal_records(&mut self, items: &mut Vec<Item>) {
        let suite = self.work.suite();
        let record_len = |item: &Item| suite.output_len(Direction::Encrypt, item.len as usize, 0);
        items.retain(|item| {
            let index = item.op as usize;
            // The check lets no other length of additional data pass.
            let has_header = record::header(self.work.aad(index), u64::from(item.len)).is_some();
            if !has_header {
                self.work.fail(index, OpStatus::EngineFault);
            }
            has_header
        });
        // SAFETY: the inputs' spans lie in the arena, and nothing writes them meanwhile.
        unsafe { self.tags(items, |item| item.input) };
        for (number, item) in items.iter().enumerate() {
            let len = item.len as usize;
            if item.input != item.output.cast_const() {
                // SAFETY: places that are not the same are apart; the output has room for more than the input.
                unsafe { core::ptr::copy_nonoverlapping(item.input, item.output, len) };
            }
            // SAFETY: the output's span lies in the arena, written by this operation alone.
            let data = unsafe { core::slice::from_raw_parts_mut(item.output, record_len(item)) };
            let tag = &self.scratch.chain.tags[number][..key(item).hmac.hash.len()];
            let (place, padding) = data[len..].split_at_mut(tag.len());
            place.copy_from_slice(tag);
            // Every byte of the padding, its length byte included, is the number of those before that byte.
            padding.fill(padding.len().saturating_sub(1) as u8);
        }
        for item in items.iter() {
            let len = record_len(item);
            self.lane(item, &self.work.beside(item.op as usize), item.output, len);
            // A record has at most 2^14 bytes and a little. Nothing can fail from here on.
            self.work.done_with(item.op as usize, len as u32);
        }
        self.cipher(Direction::Encrypt);
    }

    fn open_records(&mut self, items: &[Item]) {
        for item in items {
            self.lane(item, &self.work.beside(item.op as usize), item.input, item.len as usize);
        }
        self.cipher(Direction::Decrypt);
        let padded = self.chain.mode == Mode::Cbc;
        for item in items {
            let index = item.op as usize;
            // SAFETY: the output's span lies in the arena, written by this operation alone.
            let data = unsafe { core::slice::from_raw_parts_mut(item.output, item.len as usize) };
            match record::open(&key(item).hmac, self.work.aad(index), data, padded) {
                Some(len) => {
                    data[len..].fill(0);
                    self.work.done_with(index, len as u32);
                }
                None => self.work.fail(index, OpStatus::AuthFailed),
            }
        }
    }

    /// Gives the cipher step an operation: `len` bytes from `input` to its output.
    #[inline(always)]
    fn lane(&mut self, item: &Item, beside: &Beside, input: *const u8, len: usize) {
        let (chain, output) = (&mut self.scratch.chain, item.output);
        match &key(item).cipher {
            CipherKey::Aes(key) => {
                let iv = first_block(u128::from_le_bytes(beside.iv), beside.iv_len);
                chain.aes.push(CbcLane { key, iv, input, output, len });
            }
            CipherKey::Des(key) => {
                let iv = beside.iv.first_chunk().copied().unwrap_or_default();
                chain.des.push(DesLane { key: &key.words, iv, input, output, len });
            }
        }
    }

    /// The cipher step of all operations that it was given.
    fn cipher(&mut self, direction: Direction) {
        let Scratch { cbc, des, chain, .. } = self.scratch;
        // SAFETY: the batch's check: every span lies in the arena; an output is its input's place or apart from all else.
        unsafe {
            match (self.chain.mode, self.kernels.aes) {
                (Mode::Ctr, Some(kernel)) => ctr::messages(kernel, &chain.aes),
                (_, Some(kernel)) if !chain.aes.is_empty() => cbc::messages(kernel, direction, &chain.aes, cbc),
                _ => des::triple_cbc_messages(self.kernels.des, direction, &chain.des, des),
            }
        }
        chain.aes.clear();
        chain.des.clear();
    }
}

/// Whether a message is put together for the MAC. What is put together is not wiped, so it may be no plaintext.
#[inline(always)]
fn is_together(order: ChainOrder, len: usize) -> bool {
    order == ChainOrder::EncryptThenMac && len <= TOGETHER_MAX
}

/// Bytes for an operation's head, and for its data where they are put together.
#[inline(always)]
fn room(order: ChainOrder, len: usize) -> usize {
    hmac::BLOCK + if is_together(order, len) { len.next_multiple_of(hmac::BLOCK) } else { 0 }
}

/// Writes what a MAC covers before the data: of records their header, which is not followed by the IV (RFC 5246, 6.2.3.1), else
/// additional data and IV. Returns how many bytes that are; `None` where a block has no room for as many.
///
/// # Safety
/// A block may be written from `to` on.
#[inline(always)]
unsafe fn head(work: &Work<'_>, order: ChainOrder, item: &Item, to: *mut u8) -> Option<usize> {
    let Beside { iv, iv_len, aad, aad_len, .. } = work.beside(item.op as usize);
    if order == ChainOrder::MacThenEncrypt {
        let header = record::header(work.aad(item.op as usize), u64::from(item.len))?;
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u8; record::HEADER]>().write(header) };
        return Some(header.len());
    }
    if aad_len + iv.len() >= hmac::BLOCK {
        return None;
    }
    // SAFETY: the caller's promise. The whole IV at once, whatever is used of it.
    unsafe {
        copy_short(aad, to, aad_len);
        to.add(aad_len).cast::<[u8; 16]>().write(iv);
    }
    Some(aad_len + iv_len)
}

/// From how many bytes on a call is faster than copying 64 at a time.
const CALL_FROM: usize = 512;

/// Copies a short message.
///
/// # Safety
/// `len` bytes may be read and written; the places are apart.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len >= CALL_FROM {
        // SAFETY: the caller's promise.
        return unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
    }
    let whole = len - len % 64;
    // SAFETY: the caller's promise.
    unsafe {
        for at in (0..whole).step_by(64) {
            to.add(at).cast::<[u8; 64]>().write(from.add(at).cast::<[u8; 64]>().read());
        }
        copy_short(from.add(whole), to.add(whole), len % 64);
    }
}

/// An IV of `len` bytes as a whole block: one of twelve is followed by a 32-bit counter that starts at one (RFC 3686). As a
/// number: a block of bytes that is put together from parts would be waited for by whoever reads it whole.
#[inline(always)]
fn first_block(iv: u128, len: usize) -> [u8; 16] {
    /// One in the last byte.
    const ONE: u128 = 1 << 120;
    let kept = u128::MAX >> (128 - 8 * len.clamp(1, 16));
    (iv & kept | if len == 12 { ONE } else { 0 }).to_le_bytes()
}

/// The operation's key, which outlives the run.
fn key(item: &Item) -> &'static ChainKey {
    // SAFETY: taken with this type; the batch's keys are borrowed for the whole run, and no reference leaves it.
    unsafe { item.key::<ChainKey>() }
}
