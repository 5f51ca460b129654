//! HMAC-SHA-1 and HMAC-SHA-256 (RFC 2104, FIPS 198-1) from midstates: the compressions of the padded key are done at
//! import, so a message costs its own blocks and one more.
//!
//! The compression functions are RustCrypto's, which use the processor's SHA instructions where it has them.

use ciphermill_contract::suite::Digest;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a block of both digests.
pub(super) const BLOCK: usize = 64;

/// Bytes of the longest tag.
pub(super) const TAG_LEN_MAX: usize = 32;

/// Which of the two digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

/// A chaining value; SHA-1 uses five words of it.
#[derive(Clone, Copy, Zeroize)]
pub(super) struct State(pub(super) [u32; 8]);

/// HMAC under one key.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub(super) struct Hmac {
    /// After the block of key and inner pad.
    pub(super) inner: State,
    /// After the block of key and outer pad.
    pub(super) outer: State,
    #[zeroize(skip)]
    pub(super) hash: Hash,
}

impl Hash {
    /// The digest of the contract, if it is one of these.
    pub(super) fn of(digest: Digest) -> Option<Hash> {
        match digest {
            Digest::Sha1 => Some(Hash::Sha1),
            Digest::Sha256 => Some(Hash::Sha256),
            _ => None,
        }
    }

    /// Bytes of a digest.
    pub(super) fn len(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
        }
    }

    /// The initial chaining value (FIPS 180-4, 5.3.1 and 5.3.3).
    fn start(self) -> State {
        State(match self {
            Hash::Sha1 => [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0, 0, 0, 0],
            Hash::Sha256 => {
                [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19]
            }
        })
    }

    /// Takes in whole blocks.
    #[inline]
    pub(super) fn compress(self, state: &mut State, blocks: &[[u8; BLOCK]]) {
        match self {
            Hash::Sha1 => {
                if let Some(words) = state.0.first_chunk_mut::<5>() {
                    sha1::block_api::compress(words, blocks);
                }
            }
            Hash::Sha256 => sha2::block_api::compress256(&mut state.0, blocks),
        }
    }
}

impl State {
    /// The digest's bytes; SHA-1's are the first twenty.
    pub(super) fn bytes(&self) -> [u8; TAG_LEN_MAX] {
        let mut bytes = [0; TAG_LEN_MAX];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *to = word.to_be_bytes();
        }
        bytes
    }
}

impl Hmac {
    /// Both midstates, one behind the other.
    pub(super) fn midstates(&self) -> *const u8 {
        const { assert!(core::mem::offset_of!(Hmac, outer) == 32) };
        core::ptr::from_ref(self).cast()
    }

    /// The midstates of a key of any length; one longer than a block is digested first (RFC 2104, section 2).
    pub(super) fn new(hash: Hash, key: &[u8]) -> Hmac {
        let mut block = [0u8; BLOCK];
        if key.len() <= BLOCK {
            block[..key.len()].copy_from_slice(key);
        } else {
            let mut state = digest(hash, hash.start(), 0, &[key]).bytes();
            block[..hash.len()].copy_from_slice(&state[..hash.len()]);
            state.zeroize();
        }
        let midstate = |pad: u8| {
            let mut padded = block.map(|byte| byte ^ pad);
            let mut state = hash.start();
            hash.compress(&mut state, &[padded]);
            padded.zeroize();
            state
        };
        let hmac = Hmac { hash, inner: midstate(0x36), outer: midstate(0x5c) };
        block.zeroize();
        hmac
    }

    /// The full tag of the parts, one after the other; the first [`Hash::len`] bytes.
    pub(super) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN_MAX] {
        self.finish(digest(self.hash, self.inner, 1, parts))
    }

    /// The outer digest of an inner one.
    pub(super) fn finish(&self, inner: State) -> [u8; TAG_LEN_MAX] {
        let len = self.hash.len();
        digest(self.hash, self.outer, 1, &[&inner.bytes()[..len]]).bytes()
    }
}

/// The digest of parts, from a chaining value that has taken in `before` blocks.
fn digest(hash: Hash, mut state: State, before: usize, parts: &[&[u8]]) -> State {
    let mut pending = [0u8; BLOCK];
    let mut filled = 0;
    let mut total = before * BLOCK;
    for part in parts {
        total += part.len();
        let mut rest = *part;
        if filled > 0 {
            let (head, tail) = rest.split_at(rest.len().min(BLOCK - filled));
            pending[filled..filled + head.len()].copy_from_slice(head);
            filled += head.len();
            rest = tail;
            if filled < BLOCK {
                continue;
            }
            hash.compress(&mut state, &[pending]);
        }
        let (blocks, tail) = rest.as_chunks::<BLOCK>();
        hash.compress(&mut state, blocks);
        pending[..tail.len()].copy_from_slice(tail);
        filled = tail.len();
    }
    // FIPS 180-4, 5.1.1: a one bit, zeros, the length in bits as 64 bits.
    let mut last = [[0u8; BLOCK]; 2];
    last[0][..filled].copy_from_slice(&pending[..filled]);
    last[0][filled] = 0x80;
    let blocks = if filled + 9 <= BLOCK { 1 } else { 2 };
    last[blocks - 1][BLOCK - 8..].copy_from_slice(&(8 * total as u64).to_be_bytes());
    hash.compress(&mut state, &last[..blocks]);
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202, 3, cases 1, 2 and 6; RFC 4231, 4.2, 4.3 and 4.7.
    #[test]
    fn tags_are_those_of_the_standards() {
        let long_key = "Test Using Larger Than Block-Size Key - Hash Key First";
        let cases: [(Hash, &[u8], &str, &str); 6] = [
            (Hash::Sha1, &[0x0b; 20], "Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
            (Hash::Sha1, b"Jefe", "what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Hash::Sha1, &[0xaa; 80], long_key, "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
            (Hash::Sha256, &[0x0b; 20], "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                Hash::Sha256,
                b"Jefe",
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (Hash::Sha256, &[0xaa; 131], long_key, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
        ];
        for (hash, key, message, expected) in cases {
            let hmac = Hmac::new(hash, key);
            for cut in 0..=message.len() {
                let (first, second) = message.as_bytes().split_at(cut);
                assert_eq!(hex::encode(&hmac.tag(&[first, second])[..hash.len()]), expected, "{hash:?}, cut at {cut}");
            }
        }
    }
}
