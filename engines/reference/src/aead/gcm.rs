//! AES-GCM (NIST SP 800-38D) with nonces of any length and tags of 4 to 16 bytes.

use ciphermill_contract::{Direction, OpStatus};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use zeroize::Zeroizing;

use crate::aead::Scheme;
use crate::block::{Aes, ctr, increment, xor};
use crate::tag;

/// Bytes of the counter at the end of a block (SP 800-38D, 6.2).
const COUNTER_LEN: usize = 4;

/// The block before the first that is added to text (SP 800-38D, 7.1, step 2). It masks the tag.
#[derive(Clone, Copy)]
pub(crate) struct PreCounter([u8; 16]);

/// GCM under one AES key: the cipher and GHASH under its subkey.
pub(crate) struct Gcm {
    cipher: Aes,
    hash: GHash,
}

impl Gcm {
    /// Derives the hash subkey, the cipher's answer to a block of zeros.
    pub(crate) fn new(cipher: Aes) -> Gcm {
        let mut subkey = Zeroizing::new([0; 16]);
        cipher.encrypt(&mut subkey);
        let subkey: &[u8; 16] = &subkey;
        let hash = GHash::new(subkey.into());
        Gcm { cipher, hash }
    }

    /// The block that a nonce begins with: itself before a counter of one, or what GHASH makes of it if it has not 96 bits.
    pub(crate) fn pre_counter(&self, nonce: &[u8]) -> PreCounter {
        let mut block = [0; 16];
        if nonce.len() == 12 {
            block[..12].copy_from_slice(nonce);
            block[15] = 1;
            return PreCounter(block);
        }
        let mut hash = self.hash.clone();
        hash.update_padded(nonce);
        hash.update_padded(&u128::from(nonce.len() as u64 * 8).to_be_bytes());
        PreCounter(hash.finalize().into())
    }

    /// The full tag of additional data and ciphertext (SP 800-38D, 7.1, steps 4 to 6).
    pub(crate) fn tag(&self, start: PreCounter, aad: &[u8], ciphertext: &[u8]) -> Zeroizing<[u8; 16]> {
        let bits = |bytes: &[u8]| u128::from(bytes.len() as u64 * 8);
        let lengths = ((bits(aad) << 64) | bits(ciphertext)).to_be_bytes();
        let mut hash = self.hash.clone();
        hash.update_padded(aad);
        hash.update_padded(ciphertext);
        hash.update_padded(&lengths);
        let mut tag = Zeroizing::new(start.0);
        self.cipher.encrypt(&mut tag);
        xor(tag.as_mut_slice(), &hash.finalize());
        tag
    }

    /// The key stream, which starts behind the block that masks the tag.
    fn add_stream(&self, PreCounter(mut block): PreCounter, data: &mut [u8]) {
        increment(&mut block, COUNTER_LEN);
        ctr(self.cipher.as_ref(), block, COUNTER_LEN, data);
    }
}

impl Scheme for Gcm {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        let start = self.pre_counter(nonce);
        self.add_stream(start, data);
        tag::settle(Direction::Encrypt, &*self.tag(start, aad, data), tag)
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let start = self.pre_counter(nonce);
        let full = self.tag(start, aad, data);
        let Some(expected) = full.get(..tag.len()) else { return OpStatus::EngineFault };
        let status = tag::verify(expected, tag);
        if status.is_done() {
            self.add_stream(start, data);
        }
        status
    }
}
