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
use crate::work::{Item, Scratch, Work, copy_short};
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
    /// What the MACs cover before the data.
    heads: Vec<Head>,
    /// Messages that were put together, of ciphertext alone.
    together: Vec<u8>,
}

/// What a MAC covers before the data: of records a header, else additional data and IV. The IV lies in its operation, so
/// that both are copied side by side.
#[derive(Clone, Copy)]
struct Head {
    bytes: [u8; hmac::BLOCK],
    /// Bytes of it; a whole block when there are as many or more, which are not kept.
    len: usize,
}

impl Head {
    #[inline(always)]
    fn new(first: &[u8], iv: &[u8; 16], iv_len: usize) -> Head {
        let mut head = Head { bytes: [0; hmac::BLOCK], len: hmac::BLOCK };
        // The whole field at once, whatever is used of it.
        if let Some(place) = head.bytes[..hmac::BLOCK - 1].get_mut(first.len()..first.len() + iv.len()) {
            place.copy_from_slice(iv);
            // SAFETY: they lie before the IV's place, and are fewer than a block.
            unsafe { copy_short(first.as_ptr(), head.bytes.as_mut_ptr(), first.len()) };
            head.len = first.len() + iv_len;
        }
        head
    }
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
            (ChainOrder::EncryptThenMac, Direction::Decrypt) => group.open(&mut items),
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
        self.heads(items);
        self.cipher(Direction::Encrypt, items, |item| (item.input, item.len as usize));
        // SAFETY: the outputs' spans lie in the arena, and nothing else writes them.
        unsafe { self.tags(items, |item| item.output.cast_const()) };
        for (number, item) in items.iter().enumerate() {
            let index = item.op as usize;
            let tag = &self.scratch.chain.tags[number];
            let len = self.work.tag_len(index).min(tag.len());
            // SAFETY: the tag's span lies in the arena, apart from what is read here.
            unsafe { copy_short(tag.as_ptr(), self.work.tag(index), len) };
            self.work.done(index);
        }
    }

    /// Verifies before anything is decrypted.
    fn open(&mut self, items: &mut Vec<Item>) {
        self.heads(items);
        // SAFETY: the inputs' spans lie in the arena, and nothing writes them meanwhile.
        unsafe { self.tags(items, |item| item.input) };
        let mut number = 0;
        items.retain(|item| {
            let index = item.op as usize;
            let expected = &self.scratch.chain.tags[number];
            number += 1;
            // SAFETY: the tag's span lies in the arena; nothing writes it.
            let right = unsafe { hash::is_tag(expected, self.work.tag(index), self.work.tag_len(index)) };
            if !right {
                self.work.fail(index, OpStatus::AuthFailed);
            }
            right
        });
        self.cipher(Direction::Decrypt, items, |item| (item.input, item.len as usize));
        for item in items.iter() {
            self.work.done(item.op as usize);
        }
    }

    /// Additional data and IV of each operation.
    fn heads(&mut self, items: &[Item]) {
        let heads = &mut self.scratch.chain.heads;
        heads.clear();
        heads.extend(items.iter().map(|item| {
            let index = item.op as usize;
            Head::new(self.work.aad(index), &self.work.iv_block(index), self.work.iv_len(index))
        }));
    }

    /// The tag of each operation, of its head and as many bytes from `place` on as its input has.
    ///
    /// # Safety
    /// Those bytes may be read.
    unsafe fn tags(&mut self, items: &[Item], place: impl Fn(&Item) -> *const u8) {
        // What is put together is not wiped, so it may be no plaintext.
        let is_public = self.chain.order == ChainOrder::EncryptThenMac;
        let ChainScratch { messages, tags, heads, together, .. } = &mut self.scratch.chain;
        let room = |item: &Item, head: &Head| {
            let len = head.len + item.len as usize;
            if is_public && head.len < hmac::BLOCK && len <= TOGETHER_MAX { len.next_multiple_of(64) } else { 0 }
        };
        let rooms: usize = items.iter().zip(heads.iter()).map(|(item, head)| room(item, head)).sum();
        together.resize(together.len().max(rooms), 0);
        let mut free = together.as_mut_slice();
        messages.clear();
        tags.resize(tags.len().max(items.len()), [0; hash::DIGEST_MAX]);
        for (number, (item, head)) in items.iter().zip(heads.iter()).enumerate() {
            let (hmac, data, len) = (&key(item).hmac, place(item), item.len as usize);
            let (midstates, name) = (hmac.midstates(), number as u32);
            let own = free.split_off_mut(..room(item, head)).unwrap_or_default();
            if !own.is_empty() {
                // SAFETY: there is room for head and data, of which the caller promises as many bytes.
                unsafe {
                    copy_short(head.bytes.as_ptr(), own.as_mut_ptr(), head.len);
                    core::ptr::copy_nonoverlapping(data, own.as_mut_ptr().add(head.len), len);
                }
                let (data, len) = (own.as_ptr(), head.len + len);
                messages.push(Message { head: core::ptr::null(), head_len: 0, data, len, midstates, name });
            } else if head.len < hmac::BLOCK {
                let (head, head_len) = (head.bytes.as_ptr(), head.len);
                messages.push(Message { head, head_len, data, len, midstates, name });
            } else {
                // SAFETY: the caller's promise.
                let data = unsafe { core::slice::from_raw_parts(data, len) };
                let (aad, iv) = (self.work.aad(item.op as usize), self.work.iv_block(item.op as usize));
                let iv = &iv[..self.work.iv_len(item.op as usize)];
                tags[number][..hmac::TAG_LEN_MAX].copy_from_slice(&hmac.tag(&[aad, iv, data]));
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
        self.scratch.chain.heads.clear();
        items.retain(|item| {
            let index = item.op as usize;
            // The check lets no other length of additional data pass.
            let Some(header) = record::header(self.work.aad(index), u64::from(item.len)) else {
                self.work.fail(index, OpStatus::EngineFault);
                return false;
            };
            // RFC 5246, 6.2.3.1: the MAC of a record does not cover its IV.
            self.scratch.chain.heads.push(Head::new(&header, &[0; 16], 0));
            true
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
        self.cipher(Direction::Encrypt, items, |item| (item.output.cast_const(), record_len(item)));
        for item in items.iter() {
            // A record has at most 2^14 bytes and a little.
            self.work.done_with(item.op as usize, record_len(item) as u32);
        }
    }

    fn open_records(&mut self, items: &[Item]) {
        self.cipher(Direction::Decrypt, items, |item| (item.input, item.len as usize));
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

    /// The group's cipher step: from `place` of each operation to its output.
    fn cipher(&mut self, direction: Direction, items: &[Item], place: impl Fn(&Item) -> (*const u8, usize)) {
        let Scratch { cbc, des, chain, .. } = self.scratch;
        for item in items {
            let (input, len) = place(item);
            let output = item.output;
            match &key(item).cipher {
                CipherKey::Aes(key) => {
                    let iv = first_block(self.work.iv_number(item.op as usize), self.work.iv_len(item.op as usize));
                    chain.aes.push(CbcLane { key, iv, input, output, len });
                }
                CipherKey::Des(key) => {
                    let iv = self.work.iv_block(item.op as usize).first_chunk().copied().unwrap_or_default();
                    chain.des.push(DesLane { key: &key.words, iv, input, output, len });
                }
            }
        }
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
