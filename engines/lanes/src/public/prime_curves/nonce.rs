//! Nonces by RFC 6979, with additional data (3.6), for many signatures side by side: the chain of HMACs goes through the
//! lanes of hashes, where it takes a fifth of the time.

use ciphermill_contract::suite::Digest;
use zeroize::Zeroizing;

use super::curve::Curve;
use super::modulus::{LEN_MAX, Modulus, from_bytes, reduced, to_bytes};
use crate::hash::{self, DIGEST_MAX, HashKernel, Tag};

/// Bytes of additional data.
pub(super) const HEDGE_LEN: usize = 32;

/// What a nonce is drawn from.
#[derive(Clone, Copy)]
pub(super) struct Seed<'a> {
    /// The private key's scalar, as long as the order.
    pub(super) secret: &'a [u8],
    /// The message's digest.
    pub(super) digest: &'a [u8],
    /// Random bytes.
    pub(super) hedge: &'a [u8; HEDGE_LEN],
}

/// The first number that each seed gives (3.2, steps b to h), to be thrown away unless it is from one to the order less one.
pub(super) fn draw<C: Curve<L>, const L: usize>(hash: HashKernel, seeds: &[Seed<'_>]) -> Zeroizing<Vec<[u64; L]>> {
    let len = C::DIGEST.len();
    let mut chains = Chains {
        hash,
        digest: C::DIGEST,
        keys: Zeroizing::new(vec![[0; DIGEST_MAX]; seeds.len()]),
        values: Zeroizing::new(vec![[1; DIGEST_MAX]; seeds.len()]),
        buffer: Zeroizing::new(Vec::with_capacity(
            seeds.len() * (BLOCK_MAX + DIGEST_MAX + 1 + 2 * LEN_MAX + HEDGE_LEN),
        )),
    };
    let mut digests = vec![[0; LEN_MAX]; seeds.len()];
    for (seed, digest) in seeds.iter().zip(&mut digests) {
        // Of digests that have no more bits than the order (2.3.4).
        to_bytes(&reduced::<L>(&from_bytes(seed.digest), &C::Order::LIMBS), &mut digest[..C::LEN]);
    }
    for step in [0, 1] {
        chains.rekey(step, |index| [seeds[index].secret, &digests[index][..C::LEN], seeds[index].hedge]);
    }
    let mut bytes = Zeroizing::new(vec![[0; 2 * DIGEST_MAX]; seeds.len()]);
    let mut filled = 0;
    while filled < C::LEN {
        chains.step();
        for (bytes, value) in bytes.iter_mut().zip(chains.values.iter()) {
            bytes[filled..filled + len].copy_from_slice(&value[..len]);
        }
        filled += len;
    }
    // The leftmost bits (2.3.2).
    let spare = (8 * C::LEN - C::BITS) as u32;
    let number = |bytes: &[u8; 2 * DIGEST_MAX]| shifted_right(from_bytes(&bytes[..C::LEN]), spare);
    Zeroizing::new(bytes.iter().map(number).collect())
}

/// A number without its last `bits` bits, fewer than a limb has.
fn shifted_right<const L: usize>(mut number: [u64; L], bits: u32) -> [u64; L] {
    use super::super::isa::{LIMB_BITS, LIMB_MAX};
    for i in 0..L {
        let above = if i + 1 < L { number[i + 1] << (LIMB_BITS - bits) & LIMB_MAX } else { 0 };
        number[i] = number[i] >> bits | if bits > 0 { above } else { 0 };
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
