//! AES-CCM (NIST SP 800-38C, RFC 3610): nonces of 7 to 13 bytes, tags of 4 to 16 bytes.

use ciphermill_contract::{Direction, OpStatus, Reason};
use zeroize::Zeroizing;

use crate::aead::Scheme;
use crate::block::{Aes, ctr, xor};
use crate::mac::CbcMac;
use crate::tag;

/// From this length on, additional data are announced with six bytes instead of two (SP 800-38C, A.2.2).
const LONG_AAD_LEN: usize = 0xff00;

/// CCM under one AES key.
pub(super) struct Ccm {
    cipher: Aes,
}

/// What nonce and message length fix: the nonce and the bytes left for lengths and counters.
struct Frame<'a> {
    nonce: &'a [u8],
    /// `q` in SP 800-38C, `L` in RFC 3610.
    length_len: usize,
}

impl Ccm {
    pub(super) fn new(cipher: Aes) -> Ccm {
        Ccm { cipher }
    }

    /// The tag: a CBC-MAC over lengths, additional data and plaintext, masked with the counter block of zero.
    fn tag(&self, frame: &Frame<'_>, tag_len: usize, aad: &[u8], plaintext: &[u8]) -> Zeroizing<[u8; 16]> {
        let mut mac = CbcMac::new(self.cipher.as_ref());
        mac.update(&frame.first_block(tag_len, !aad.is_empty(), plaintext.len()));
        if !aad.is_empty() {
            // SP 800-38C, A.2.2.
            let len = (aad.len() as u64).to_be_bytes();
            if aad.len() >= LONG_AAD_LEN {
                mac.update(&[0xff, 0xfe]);
                mac.update(&len[4..]);
            } else {
                mac.update(&len[6..]);
            }
            mac.update(aad);
            mac.pad();
        }
        mac.update(plaintext);
        let mut tag = mac.finish();
        let mut mask = Zeroizing::new(frame.counter_block(0));
        self.cipher.encrypt(&mut mask);
        xor(tag.as_mut_slice(), mask.as_slice());
        tag
    }

    fn add_stream(&self, frame: &Frame<'_>, data: &mut [u8]) {
        ctr(self.cipher.as_ref(), frame.counter_block(1), frame.length_len, data);
    }
}

impl Scheme for Ccm {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        let frame = match Frame::new(nonce, data.len()) {
            Ok(frame) => frame,
            Err(status) => return status,
        };
        let full = self.tag(&frame, tag.len(), aad, data);
        self.add_stream(&frame, data);
        tag::settle(Direction::Encrypt, &*full, tag)
    }

    /// CCM authenticates the plaintext, so that it has to be there first.
    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let frame = match Frame::new(nonce, data.len()) {
            Ok(frame) => frame,
            Err(status) => return status,
        };
        self.add_stream(&frame, data);
        let full = self.tag(&frame, tag.len(), aad, data);
        full.get(..tag.len()).map_or(OpStatus::EngineFault, |expected| tag::verify(expected, tag))
    }
}

impl Frame<'_> {
    /// # Errors
    /// `BadInput` when the length of the data does not fit the bytes that the nonce leaves for it.
    fn new(nonce: &[u8], data_len: usize) -> Result<Frame<'_>, OpStatus> {
        if !(7..=13).contains(&nonce.len()) {
            return Err(OpStatus::EngineFault);
        }
        let length_len = 15 - nonce.len();
        if length_len < 8 && data_len as u64 >> (8 * length_len) != 0 {
            return Err(OpStatus::BadInput(Reason::InputTooLong));
        }
        Ok(Frame { nonce, length_len })
    }

    /// SP 800-38C, A.2.1: flags, nonce, length of the plaintext.
    fn first_block(&self, tag_len: usize, has_aad: bool, plaintext_len: usize) -> [u8; 16] {
        let tag_code = tag_len.saturating_sub(2) / 2;
        let flags = (u8::from(has_aad) << 6) | ((tag_code as u8) << 3);
        let mut block = self.block(plaintext_len as u64);
        block[0] |= flags;
        block
    }

    /// SP 800-38C, A.3.
    fn counter_block(&self, counter: u64) -> [u8; 16] {
        self.block(counter)
    }

    fn block(&self, number: u64) -> [u8; 16] {
        let mut block = u128::from(number).to_be_bytes();
        block[0] = (self.length_len - 1) as u8;
        block[1..=self.nonce.len()].copy_from_slice(self.nonce);
        block
    }
}
