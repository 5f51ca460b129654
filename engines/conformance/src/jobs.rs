//! Random operations, valid for their suite.

use ciphermill_contract::suite::{Aead, Mac, Mode, PublicEncryption, StreamCipher};
use ciphermill_contract::{Direction, Suite};
use ciphermill_vectors::Job;

use crate::pool::KeyPool;
use crate::random::Rng;

/// An operation and the index of its key in the pool.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) job: Job,
    pub(crate) key: usize,
}

/// An operation in the forward direction with `len` bytes of input, which the suite must allow.
pub(crate) fn forward(suite: Suite, pool: &KeyPool, len: usize, rng: &mut Rng) -> Item {
    let key = rng.below(pool.len());
    let job = Job {
        iv: iv(suite, len, rng),
        aad: aad(suite, rng),
        input: input(suite, pool, key, len, rng),
        tag: vec![0; tag_room(suite, rng)],
        asked: if suite == Suite::Random { len as u32 } else { 0 },
    };
    Item { job, key }
}

/// The input lengths that a suite is checked with one by one: every tail, and lengths around larger blocks.
pub(crate) fn lengths(suite: Suite) -> Vec<usize> {
    let rule = suite.input_len(Direction::Encrypt);
    match suite {
        Suite::Random => vec![0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 1000],
        Suite::Kem(_) | Suite::Generate(_) => vec![0; 4],
        Suite::Agree(agreement) => vec![agreement.public_len(); 4],
        Suite::PublicEncrypt(encryption) => {
            let len = encryption.message_len();
            [0, 1, len.max / 2, len.max].map(|wanted| len.round_up(wanted)).to_vec()
        }
        Suite::Sign(_) if rule.min > 0 => vec![20, 31, 32, 48, 64],
        Suite::Sign(_) => vec![0, 1, 64, 131],
        _ => {
            let more = [
                96, 111, 112, 127, 128, 129, 143, 144, 192, 240, 255, 256, 257, 511, 512, 513, 1000, 1024, 4095, 4096,
                4097,
            ];
            let tails = (0..=80usize).chain(more);
            // FF1 counts in numerals of two bytes, and its shortest value may be longer than 80 bytes' worth.
            let near = [rule.min, rule.min + rule.step];
            let mut all: Vec<usize> = tails.chain(near).filter(|len| rule.contains(*len)).collect();
            all.sort_unstable();
            all.dedup();
            if matches!(suite, Suite::Fpe(_)) {
                all.retain(|len| *len <= 200);
            }
            all
        }
    }
}

/// The longest allowed length up to `wanted`.
pub(crate) fn longest(suite: Suite, wanted: usize, engine_max: usize) -> usize {
    let rule = suite.input_len(Direction::Encrypt);
    let top = wanted.min(rule.max).min(engine_max).max(rule.min);
    rule.min + (top - rule.min) / rule.step * rule.step
}

/// A random length that the suite allows, mostly short.
pub(crate) fn some_len(suite: Suite, rng: &mut Rng) -> usize {
    let wanted = match rng.below(20) {
        0 => 0,
        1 => rng.below(5000),
        2..=6 => rng.below(300),
        _ => rng.below(81),
    };
    match suite {
        Suite::Random => wanted,
        Suite::Fpe(_) => longest(suite, wanted.min(300), usize::MAX),
        _ => longest(suite, wanted, usize::MAX),
    }
}

fn iv(suite: Suite, len: usize, rng: &mut Rng) -> Vec<u8> {
    let rule = suite.iv_len();
    let max = match suite {
        // The length field has 15 - nonce bytes (RFC 3610, 2).
        Suite::Aead(Aead::AesCcm(_)) if len > 0xffff => 11,
        _ => rule.max,
    };
    let steps = (max - rule.min) / rule.step;
    let iv_len = rule.min + rng.below(steps + 1) * rule.step;
    iv_of_len(suite, iv_len, rng)
}

/// An IV of a length that the suite takes.
pub(crate) fn iv_of_len(suite: Suite, iv_len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut iv = rng.bytes(iv_len);
    match suite {
        // A counter that wraps around has no defined key stream (RFC 8439, 2.4).
        Suite::Stream(StreamCipher::ChaCha20) if iv.len() == 16 => iv[3] = 0,
        // Sixty-four or 128 bits of counter do wrap; make it happen.
        Suite::Cipher(cipher, Mode::Ctr) if iv.len() == cipher.block_len() && rng.below(4) == 0 => {
            iv.fill(0xff);
            if let Some(last) = iv.last_mut() {
                *last = 0xfe;
            }
        }
        _ => {}
    }
    iv
}

fn aad(suite: Suite, rng: &mut Rng) -> Vec<u8> {
    let rule = suite.aad_len();
    let len = match rng.below(4) {
        0 => rule.min,
        _ => rng.between(rule.min, rule.max.min(rule.min.max(70))),
    };
    rng.bytes(len)
}

fn input(suite: Suite, pool: &KeyPool, key: usize, len: usize, rng: &mut Rng) -> Vec<u8> {
    match suite {
        Suite::Fpe(ff1) => (0..len / 2).flat_map(|_| (rng.below(ff1.radix as usize) as u16).to_le_bytes()).collect(),
        // The peer is another pair than the key's own.
        Suite::Agree(agreement) => {
            let peer = pool.pairs.get((key + 1) % pool.len()).map_or(&[][..], |pair| &pair.public);
            peer[peer.len().saturating_sub(agreement.public_len())..].to_vec()
        }
        Suite::Kem(_) | Suite::Generate(_) | Suite::Random => Vec::new(),
        // Below every modulus of that many bytes.
        Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)) => {
            let mut number = rng.bytes(len);
            number[0] &= 0x7f;
            number
        }
        _ => rng.bytes(len),
    }
}

/// Bytes for the tag: the full length, a truncation where the suite allows it, more room where it allows that.
fn tag_room(suite: Suite, rng: &mut Rng) -> usize {
    let rule = suite.tag_len(Direction::Encrypt);
    let full = suite.default_tag_len();
    if rng.coin() {
        return full;
    }
    // Of functions with outputs of any length several blocks.
    let is_open = matches!(suite, Suite::Digest(_) | Suite::Mac(Mac::Kmac(_))) && rng.below(4) == 0;
    let steps = (rule.max.min(if is_open { 700 } else { full + 13 }) - rule.min) / rule.step;
    rule.round_up(rule.min + rng.below(steps + 1) * rule.step)
}

/// What is damaged to see whether authentication notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    TagFirst,
    TagLast,
    Input,
    Aad,
    Iv,
}

impl Damage {
    pub(crate) const ALL: [Damage; 5] = [Damage::TagFirst, Damage::TagLast, Damage::Input, Damage::Aad, Damage::Iv];
}

/// A copy with one bit turned over; `None` when there is no such byte.
pub(crate) fn damaged(job: &Job, damage: Damage, rng: &mut Rng) -> Option<Job> {
    let mut job = job.clone();
    let bit = 1u8 << rng.below(8);
    let target = match damage {
        Damage::TagFirst => job.tag.first_mut(),
        Damage::TagLast => job.tag.last_mut(),
        Damage::Input => {
            let at = rng.below(job.input.len());
            job.input.get_mut(at)
        }
        Damage::Aad => job.aad.first_mut(),
        Damage::Iv => {
            let at = rng.below(job.iv.len());
            job.iv.get_mut(at)
        }
    };
    *target? ^= bit;
    Some(job)
}

/// Whether a damaged operation of this suite has to end as `AuthFailed`.
pub(crate) fn authenticates(suite: Suite) -> bool {
    matches!(suite, Suite::Aead(_) | Suite::Mac(_) | Suite::Sign(_) | Suite::Chain(_) | Suite::Wrap(_))
}
