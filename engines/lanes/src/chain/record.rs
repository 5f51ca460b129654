//! Opening records of TLS 1.2 (RFC 5246, 6.2.3.2) in constant time.
//!
//! After decryption the plaintext's length is a secret until the MAC is known to be right: code whose time depends on
//! the padding gives the plaintext away (Vaudenay 2002; AlFardan and Paterson 2013). So every length that the padding
//! could mean is treated alike: all padding bytes are compared under masks, the inner digest runs over as many blocks as
//! the longest plaintext needs and keeps the right one by mask, and the MAC is gathered from every place where it may be.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater, ConstantTimeLess};

use super::hmac::{BLOCK, Hmac, State, TAG_LEN_MAX};

/// Bytes that the MAC covers before the plaintext: sequence number, type, version, length.
pub(super) const HEADER: usize = 13;

/// The longest padding with its length byte.
const PADDING_MAX: usize = 256;

/// A record after decryption, whose plaintext ends somewhere from `shortest` to `longest`.
struct Record<'a> {
    data: &'a [u8],
    shortest: usize,
    longest: usize,
    /// Secret.
    len: u64,
}

/// What the MAC covers before a plaintext of `len` bytes, from the additional data.
pub(super) fn header(aad: &[u8], len: u64) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    header[..HEADER - 2].copy_from_slice(<&[u8; HEADER - 2]>::try_from(aad).ok()?);
    header[HEADER - 2..].copy_from_slice(&(len as u16).to_be_bytes());
    Some(header)
}

/// The plaintext's length when padding and MAC of a decrypted record are right. `padded` says whether it ends in padding
/// (CBC does, CTR does not).
pub(super) fn open(hmac: &Hmac, aad: &[u8], data: &[u8], padded: bool) -> Option<usize> {
    let longest = data.len().checked_sub(hmac.hash.len() + usize::from(padded))?;
    let (padding_right, len) = if padded { padding(data, longest) } else { (Choice::from(1), longest as u64) };
    let shortest = if padded { (longest + 1).saturating_sub(PADDING_MAX) } else { longest };
    let record = Record { data, shortest, longest, len };
    let expected = hmac.finish(record.inner(hmac, &header(aad, len)?));
    let found = record.mac(hmac.hash.len());
    let right = padding_right & expected[..hmac.hash.len()].ct_eq(&found[..hmac.hash.len()]);
    // The length is public from here on: the caller learns it.
    bool::from(right).then_some(len as usize)
}

/// Whether the padding is well-formed, and the plaintext's length if so; else the length without any padding.
fn padding(data: &[u8], longest: usize) -> (Choice, u64) {
    let last = data.last().copied().unwrap_or(0);
    let mut right = !u64::from(last).ct_gt(&(longest as u64));
    for (distance, byte) in data.iter().rev().enumerate().take(PADDING_MAX) {
        right &= (distance as u64).ct_gt(&u64::from(last)) | byte.ct_eq(&last);
    }
    let taken = u64::conditional_select(&0, &u64::from(last), right);
    (right, longest as u64 - taken)
}

impl Record<'_> {
    /// The inner digest of header and plaintext; time depends on `shortest` and `longest` alone.
    fn inner(&self, hmac: &Hmac, header: &[u8; HEADER]) -> State {
        let message_len = HEADER as u64 + self.len;
        // Where the padding of the digest ends (FIPS 180-4, 5.1.1); blocks are 64 bytes, so shifts divide.
        let last_block = (message_len + 8) >> 6;
        let blocks = (HEADER + self.longest + 8) / BLOCK + 1;
        // Before this block nothing depends on the length.
        let certain = (HEADER + self.shortest) / BLOCK;
        let bits = (8 * (BLOCK as u64 + message_len)).to_be_bytes();
        let mut state = hmac.inner;
        let mut kept = State([0; 8]);
        for index in 0..blocks {
            let mut block = [0u8; BLOCK];
            for (at, to) in block.iter_mut().enumerate() {
                let position = index * BLOCK + at;
                let byte = self.byte(header, position);
                *to = match index < certain {
                    true => byte,
                    false => ending(byte, position as u64, message_len),
                };
            }
            let is_last = (index as u64).ct_eq(&last_block);
            for (to, from) in block[BLOCK - 8..].iter_mut().zip(bits) {
                *to |= u8::conditional_select(&0, &from, is_last);
            }
            hmac.hash.compress(&mut state, &[block]);
            for (to, from) in kept.0.iter_mut().zip(&state.0) {
                to.conditional_assign(from, is_last);
            }
        }
        kept
    }

    /// A byte of header and data; the position is public.
    fn byte(&self, header: &[u8; HEADER], position: usize) -> u8 {
        match position.checked_sub(HEADER) {
            None => header[position],
            Some(at) if at < self.longest => self.data[at],
            Some(_) => 0,
        }
    }

    /// The MAC behind the plaintext, gathered from all places where it may be.
    fn mac(&self, len: usize) -> [u8; TAG_LEN_MAX] {
        let mut mac = [0; TAG_LEN_MAX];
        for start in self.shortest..=self.longest {
            let here = (start as u64).ct_eq(&self.len);
            for (to, from) in mac[..len].iter_mut().zip(&self.data[start..]) {
                to.conditional_assign(from, here);
            }
        }
        mac
    }
}

/// A message's byte, the one bit behind it, or zero.
fn ending(byte: u8, position: u64, message_len: u64) -> u8 {
    let inside = u8::conditional_select(&0, &byte, position.ct_lt(&message_len));
    inside | u8::conditional_select(&0, &0x80, position.ct_eq(&message_len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::hmac::Hash;

    /// A record as it is before encryption.
    fn record(hmac: &Hmac, aad: &[u8], plaintext: &[u8], padding: u8) -> Vec<u8> {
        let header = header(aad, plaintext.len() as u64).expect("eleven bytes");
        let mut data = plaintext.to_vec();
        data.extend(&hmac.tag(&[&header, plaintext])[..hmac.hash.len()]);
        data.extend(vec![padding; usize::from(padding) + 1]);
        data
    }

    #[test]
    fn every_padding_is_taken_and_every_damage_noticed() {
        let aad = [7; 11];
        for hash in [Hash::Sha1, Hash::Sha256] {
            let hmac = Hmac::new(hash, b"a key");
            for len in [0, 1, 40, 41, 42, 43, 44, 50, 51, 52, 107, 300] {
                let plaintext: Vec<u8> = (0..len).map(|i| (i * 5) as u8).collect();
                for padding in [0u8, 1, 7, 15, 16, 100, 254, 255] {
                    let data = record(&hmac, &aad, &plaintext, padding);
                    assert_eq!(open(&hmac, &aad, &data, true), Some(len), "{hash:?} {len} {padding}");
                    for at in [0, len, len + hash.len() - 1, len + hash.len(), data.len() - 1] {
                        let mut damaged = data.clone();
                        damaged[at] ^= 1;
                        assert_eq!(open(&hmac, &aad, &damaged, true), None, "{hash:?} {len} {padding}, byte {at}");
                    }
                }
                let whole = record(&hmac, &aad, &plaintext, 0);
                assert_eq!(open(&hmac, &aad, &whole[..whole.len() - 1], false), Some(len));
                assert_eq!(open(&hmac, &[8; 11], &whole, true), None);
            }
            assert_eq!(open(&hmac, &aad, &[0; 20], true), None);
        }
    }
}
