//! AES-GCM (NIST SP 800-38D) with nonces of 96 bits and tags of 4 to 16 bytes.

use ciphermill_contract::{Direction, OpStatus};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use zeroize::Zeroizing;

use crate::aead::Scheme;
use crate::block::{Aes, ctr, xor};
use crate::tag;

/// Bytes of the counter behind the nonce (SP 800-38D, 6.2).
const COUNTER_LEN: usize = 4;

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

    /// The full tag of additional data and ciphertext (SP 800-38D, 7.1, steps 4 to 6).
    pub(crate) fn tag(&self, nonce: &[u8; 12], aad: &[u8], ciphertext: &[u8]) -> Zeroizing<[u8; 16]> {
        let bits = |bytes: &[u8]| u128::from(bytes.len() as u64 * 8);
        let lengths = ((bits(aad) << 64) | bits(ciphertext)).to_be_bytes();
        let mut hash = self.hash.clone();
        hash.update_padded(aad);
        hash.update_padded(ciphertext);
        hash.update_padded(&lengths);
        let mut tag = Zeroizing::new(counter_block(nonce, 1));
        self.cipher.encrypt(&mut tag);
        xor(tag.as_mut_slice(), &hash.finalize());
        tag
    }

    /// The key stream, which starts behind the block that masks the tag.
    fn add_stream(&self, nonce: &[u8; 12], data: &mut [u8]) {
        ctr(self.cipher.as_ref(), counter_block(nonce, 2), COUNTER_LEN, data);
    }
}

impl Scheme for Gcm {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        let Ok(nonce) = nonce.try_into() else { return OpStatus::EngineFault };
        self.add_stream(nonce, data);
        tag::settle(Direction::Encrypt, &*self.tag(nonce, aad, data), tag)
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let Ok(nonce) = nonce.try_into() else { return OpStatus::EngineFault };
        let full = self.tag(nonce, aad, data);
        let Some(expected) = full.get(..tag.len()) else { return OpStatus::EngineFault };
        let status = tag::verify(expected, tag);
        if status.is_done() {
            self.add_stream(nonce, data);
        }
        status
    }
}

fn counter_block(nonce: &[u8; 12], counter: u32) -> [u8; 16] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&counter.to_be_bytes());
    block
}
