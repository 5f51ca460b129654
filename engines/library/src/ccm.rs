//! AES-CCM (NIST SP 800-38C, RFC 3610) over AWS-LC's CBC and counter mode. AWS-LC's own CCM needs a context that it
//! writes to; this one only reads a key schedule.

use ciphermill_contract::{OpBuffers, OpStatus, Reason};

use crate::aes::{AesKey, BLOCK};
use crate::ffi::{equal, wipe};

/// A key for CCM.
pub(crate) struct CcmKey(AesKey);

impl CcmKey {
    /// Expands a key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<CcmKey> {
        AesKey::encryption(key).map(CcmKey)
    }

    /// Encrypts in place and writes the tag.
    pub(crate) fn seal(&self, op: &mut OpBuffers<'_>) -> OpStatus {
        if !fits(op) {
            return OpStatus::BadInput(Reason::InputTooLong);
        }
        let tag = self.tag(op);
        self.0.ctr(counter(op.iv, 1), op.data);
        let len = op.tag.len();
        op.tag.copy_from_slice(&tag[..len]);
        OpStatus::Done
    }

    /// Decrypts in place and verifies the tag.
    pub(crate) fn open(&self, op: &mut OpBuffers<'_>) -> OpStatus {
        if !fits(op) {
            return OpStatus::BadInput(Reason::InputTooLong);
        }
        self.0.ctr(counter(op.iv, 1), op.data);
        let mut tag = self.tag(op);
        let right = equal(&tag[..op.tag.len()], op.tag);
        wipe(&mut tag);
        if right { OpStatus::Done } else { OpStatus::AuthFailed }
    }

    /// The tag over additional data and the plaintext that lies in `op.data` (RFC 3610, sections 2.2 and 2.3).
    fn tag(&self, op: &OpBuffers<'_>) -> [u8; BLOCK] {
        let mut state = [0; BLOCK];
        self.0.cbc_mac(&mut state, &first_block(op));
        if !op.aad.is_empty() {
            self.mac_aad(&mut state, op.aad);
        }
        self.mac_padded(&mut state, op.data);
        let mut mask = counter(op.iv, 0);
        self.0.encrypt_block(&mut mask);
        for (byte, mask) in state.iter_mut().zip(mask) {
            *byte ^= mask;
        }
        state
    }

    /// Absorbs the additional data behind their length: two bytes below 2^16 - 2^8, else 0xfffe and four bytes.
    fn mac_aad(&self, state: &mut [u8; BLOCK], aad: &[u8]) {
        let len = aad.len() as u32;
        let mut head = [0; BLOCK];
        let used = if len < 0xff00 {
            head[..2].copy_from_slice(&len.to_be_bytes()[2..]);
            2
        } else {
            head[..2].copy_from_slice(&[0xff, 0xfe]);
            head[2..6].copy_from_slice(&len.to_be_bytes());
            6
        };
        let (with_head, rest) = aad.split_at(aad.len().min(BLOCK - used));
        head[used..used + with_head.len()].copy_from_slice(with_head);
        self.0.cbc_mac(state, &head);
        self.mac_padded(state, rest);
    }

    /// Absorbs bytes, the last block filled up with zeros.
    fn mac_padded(&self, state: &mut [u8; BLOCK], bytes: &[u8]) {
        self.0.cbc_mac(state, bytes);
        let rest = bytes.len() % BLOCK;
        if rest > 0 {
            let mut last = [0; BLOCK];
            last[..rest].copy_from_slice(&bytes[bytes.len() - rest..]);
            self.0.cbc_mac(state, &last);
            wipe(&mut last);
        }
    }
}

/// Bytes of the length field: 15 less the nonce.
fn length_field(nonce: &[u8]) -> usize {
    BLOCK - 1 - nonce.len().min(BLOCK - 3)
}

/// Whether the input's length fits its field; only short fields, those of long nonces, can be too short.
fn fits(op: &OpBuffers<'_>) -> bool {
    let bits = 8 * length_field(op.iv);
    bits >= 32 || op.data.len() >> bits == 0
}

/// The first block under the MAC: flags, nonce, the plaintext's length (RFC 3610, section 2.2).
fn first_block(op: &OpBuffers<'_>) -> [u8; BLOCK] {
    let field = length_field(op.iv);
    let mut block = [0; BLOCK];
    let flags = 0x40 * usize::from(!op.aad.is_empty()) + 8 * ((op.tag.len() - 2) / 2) + (field - 1);
    block[0] = flags as u8;
    block[1..BLOCK - field].copy_from_slice(op.iv);
    let len = (op.data.len() as u64).to_be_bytes();
    let field = field.min(len.len());
    block[BLOCK - field..].copy_from_slice(&len[len.len() - field..]);
    block
}

/// The counter block with number `number` (RFC 3610, section 2.3).
fn counter(nonce: &[u8], number: u8) -> [u8; BLOCK] {
    let field = length_field(nonce);
    let mut block = [0; BLOCK];
    block[0] = (field - 1) as u8;
    block[1..BLOCK - field].copy_from_slice(nonce);
    block[BLOCK - 1] = number;
    block
}
