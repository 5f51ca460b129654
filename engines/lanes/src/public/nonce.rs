//! Nonces by RFC 6979, with additional data (3.6), for many signatures side by side: the chain of HMACs goes through the
//! lanes of hashes, where it takes a fifth of the time.

use ciphermill_contract::suite::Digest;
use zeroize::Zeroizing;

use crate::hash::{self, DIGEST_MAX, HashKernel, Tag};

/// Bytes of additional data.
pub(super) const HEDGE_LEN: usize = 32;

/// Bytes of the longest order.
pub(super) const ORDER_LEN_MAX: usize = 72;

/// What a nonce is drawn from.
#[derive(Clone, Copy)]
pub(super) struct Seed<'a> {
    /// The private key's scalar, as long as the order.
    pub(super) secret: &'a [u8],
    /// The message's digest: as many of its leftmost bits as the order has, modulo the order, as long as the order (2.3.4).
    pub(super) digest: &'a [u8],
    /// Random bytes.
    pub(super) hedge: &'a [u8; HEDGE_LEN],
}

/// The first number that each seed gives (3.2, steps b to h) for an order of so many bits, in the first bytes of each, to be thrown
/// away unless it is from one to the order less one.
pub(super) fn draw(
    hash: HashKernel,
    digest: Digest,
    order_bits: usize,
    seeds: &[Seed<'_>],
) -> Zeroizing<Vec<[u8; ORDER_LEN_MAX]>> {
    let (len, order_len) = (digest.len(), order_bits.div_ceil(8));
    let mut chains = Chains {
        hash,
        digest,
        keys: Zeroizing::new(vec![[0; DIGEST_MAX]; seeds.len()]),
        values: Zeroizing::new(vec![[1; DIGEST_MAX]; seeds.len()]),
        buffer: Zeroizing::new(Vec::with_capacity(
            seeds.len() * (BLOCK_MAX + DIGEST_MAX + 1 + 2 * ORDER_LEN_MAX + HEDGE_LEN),
        )),
    };
    for step in [0, 1] {
        chains.rekey(step, |index| [seeds[index].secret, seeds[index].digest, seeds[index].hedge]);
    }
    let mut bytes = Zeroizing::new(vec![[0; 2 * DIGEST_MAX]; seeds.len()]);
    let mut filled = 0;
    while filled < order_len {
        chains.step();
        for (bytes, value) in bytes.iter_mut().zip(chains.values.iter()) {
            bytes[filled..filled + len].copy_from_slice(&value[..len]);
        }
        filled += len;
    }
    Zeroizing::new(bytes.iter().map(|bytes| leftmost(bytes, order_bits)).collect())
}

/// The number of so many leftmost bits, or of all where there are fewer (2.3.2), in the first bytes, as many as the order has.
pub(super) fn leftmost(bytes: &[u8], order_bits: usize) -> [u8; ORDER_LEN_MAX] {
    let order_len = order_bits.div_ceil(8);
    let mut number = [0; ORDER_LEN_MAX];
    if bytes.len() < order_len {
        number[order_len - bytes.len()..order_len].copy_from_slice(bytes);
        return number;
    }
    let spare = 8 * order_len - order_bits;
    let mut above = 0u8;
    for (to, byte) in number[..order_len].iter_mut().zip(bytes) {
        *to = (u16::from_be_bytes([above, *byte]) >> spare) as u8;
        above = *byte;
    }
    number
}

/// Bytes of the longest block.
const BLOCK_MAX: usize = 128;

/// `K` and `V` of every seed.
struct Chains {
    hash: HashKernel,
    digest: Digest,
    keys: Zeroizing<Vec<Tag>>,
    values: Zeroizing<Vec<Tag>>,
    /// The messages of a round, one behind the other. It is never longer than at first.
    buffer: Zeroizing<Vec<u8>>,
}

impl Chains {
    /// `K = HMAC_K(V ‖ step ‖ data)`, `V = HMAC_K(V)` (3.2, steps d to g).
    fn rekey<'a>(&mut self, step: u8, data: impl Fn(usize) -> [&'a [u8]; 3]) {
        let len = self.digest.len();
        self.keys = self.hmac(|index, values, message| {
            message.extend_from_slice(&values[index][..len]);
            message.push(step);
            data(index).into_iter().for_each(|part| message.extend_from_slice(part));
        });
        self.step();
    }

    /// `V = HMAC_K(V)`.
    fn step(&mut self) {
        let len = self.digest.len();
        self.values = self.hmac(|index, values, message| message.extend_from_slice(&values[index][..len]));
    }

    /// HMAC (RFC 2104) with every `K`, of what `write` appends, which is as long for each.
    fn hmac(&mut self, write: impl Fn(usize, &[Tag], &mut Vec<u8>)) -> Zeroizing<Vec<Tag>> {
        let values = core::mem::take(&mut self.values);
        let inner = self.round(0x36, |index, message| write(index, &values, message));
        let len = self.digest.len();
        let outer = self.round(0x5c, |index, message| message.extend_from_slice(&inner[index][..len]));
        self.values = values;
        outer
    }

    /// Digests of `K`'s block, padded, and what `write` appends.
    fn round(&mut self, pad: u8, write: impl Fn(usize, &mut Vec<u8>)) -> Zeroizing<Vec<Tag>> {
        let (len, block) = (self.digest.len(), if self.digest == Digest::Sha256 { 64 } else { BLOCK_MAX });
        self.buffer.clear();
        for (index, key) in self.keys.iter().enumerate() {
            self.buffer.extend(key[..len].iter().map(|byte| byte ^ pad));
            self.buffer.extend(core::iter::repeat_n(pad, block - len));
            write(index, &mut self.buffer);
        }
        let messages: Vec<&[u8]> = self.buffer.chunks_exact(self.buffer.len() / self.keys.len()).collect();
        Zeroizing::new(hash::digests(self.hash, self.digest, &messages))
    }
}
