//! AES-SIV (RFC 5297): the tag is a MAC of everything and at the same time the IV.
//!
//! The additional data are always one component, also when they are empty; the nonce, when there is one, is another.
//! So nothing but a plaintext is authenticated as the vector of an empty string and the plaintext, which differs from
//! the vector of the plaintext alone that RFC 5297 would allow.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::AesSize;
use ciphermill_contract::{Direction, OpStatus};
use zeroize::Zeroizing;

use crate::aead::Scheme;
use crate::block::{self, Aes, ctr, xor};
use crate::mac::{Cmac, double};
use crate::tag;

/// SIV under one key: its first half is for the MAC, its second for the cipher (RFC 5297, 2.2).
pub(super) struct Siv {
    mac: Cmac<16>,
    cipher: Aes,
}

impl Siv {
    /// # Errors
    /// `Length` when the bytes are not two keys of `size`.
    pub(super) fn new(size: AesSize, bytes: &[u8]) -> Result<Siv, KeyProblem> {
        let (mac, cipher) = bytes.split_at_checked(size.key_len()).ok_or(KeyProblem::Length)?;
        Ok(Siv { mac: Cmac::new(block::aes(size, mac)?), cipher: block::aes(size, cipher)? })
    }

    /// S2V (RFC 5297, 2.4) over additional data, nonce and plaintext.
    fn synthetic_iv(&self, nonce: &[u8], aad: &[u8], plaintext: &[u8]) -> Zeroizing<[u8; 16]> {
        let mut sum = self.mac.tag(&[&[0; 16]]);
        let components = [Some(aad), Some(nonce).filter(|nonce| !nonce.is_empty())];
        for component in components.into_iter().flatten() {
            *sum = double(&sum);
            xor(sum.as_mut_slice(), self.mac.tag(&[component]).as_slice());
        }
        match plaintext.split_last_chunk::<16>() {
            Some((start, end)) => {
                xor(sum.as_mut_slice(), end);
                self.mac.tag(&[start, sum.as_slice()])
            }
            None => {
                *sum = double(&sum);
                xor(sum.as_mut_slice(), plaintext);
                sum[plaintext.len()] ^= 0x80;
                self.mac.tag(&[sum.as_slice()])
            }
        }
    }

    /// RFC 5297, 2.5: two bits of the IV are cleared, so that implementations may count in 32 bits.
    fn add_stream(&self, iv: &[u8; 16], data: &mut [u8]) {
        let mut first = *iv;
        first[8] &= 0x7f;
        first[12] &= 0x7f;
        ctr(self.cipher.as_ref(), first, 16, data);
    }
}

impl Scheme for Siv {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        let iv = self.synthetic_iv(nonce, aad, data);
        self.add_stream(&iv, data);
        tag::settle(Direction::Encrypt, &*iv, tag)
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let Ok(iv) = tag.try_into() else { return OpStatus::EngineFault };
        self.add_stream(iv, data);
        tag::verify(self.synthetic_iv(nonce, aad, data).as_slice(), tag)
    }
}
