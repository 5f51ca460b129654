//! HMAC (RFC 2104, FIPS 198-1) over every digest but the extendable-output functions.

use ciphermill_contract::suite::Digest;
use zeroize::Zeroizing;

use crate::digest::Hasher;
use crate::tag::Output;

/// What the key is combined with before the message (RFC 2104, section 2).
pub(crate) const INNER_PAD: u8 = 0x36;
/// What the key is combined with before the inner digest.
pub(crate) const OUTER_PAD: u8 = 0x5c;

/// An HMAC under one key: both digests after the block that holds the key.
#[derive(Clone)]
pub(crate) struct Hmac {
    inner: Hasher,
    outer: Hasher,
}

impl Hmac {
    /// The midstates for a key of any length.
    pub(crate) fn new(digest: Digest, key: &[u8]) -> Hmac {
        let block = key_block(digest, key);
        let midstate = |pad: u8| {
            let mut hasher = Hasher::new(digest);
            let padded = Zeroizing::new(block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>());
            hasher.update(&padded);
            hasher
        };
        Hmac { inner: midstate(INNER_PAD), outer: midstate(OUTER_PAD) }
    }

    /// The full tag of the parts, one after the other.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Output {
        let mut inner = self.inner.clone();
        for part in parts {
            inner.update(part);
        }
        let mut outer = self.outer.clone();
        outer.update(inner.finish().as_slice());
        outer.finish()
    }
}

/// The key filled up to the digest's block; a longer key is digested first (RFC 2104, section 3).
pub(crate) fn key_block(digest: Digest, key: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut block = Zeroizing::new(vec![0; digest.block_len()]);
    if key.len() <= block.len() {
        block[..key.len()].copy_from_slice(key);
    } else {
        let mut hasher = Hasher::new(digest);
        hasher.update(key);
        let short = hasher.finish();
        block[..short.as_slice().len()].copy_from_slice(short.as_slice());
    }
    block
}
