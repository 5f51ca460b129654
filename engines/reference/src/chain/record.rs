//! Records of TLS 1.2: MAC, then encrypt (RFC 5246, 6.2.3.1 and 6.2.3.2).
//!
//! When a CBC record is opened, the length of its plaintext is a secret until the MAC has been verified: padding that
//! tells by its time whether it was well-formed gives the plaintext away (Vaudenay 2002; AlFardan and Paterson 2013,
//! "Lucky Thirteen"). So the padding is checked with masks, the MAC is read from every place where it could lie, and
//! its hash takes in as many blocks as the longest plaintext needs, whatever the padding says.

use ciphermill_contract::suite::rules::TLS_AAD_LEN;
use ciphermill_contract::suite::{Chain, Digest, Mode};
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater, ConstantTimeLess};
use zeroize::Zeroizing;

use crate::chain::ChainKey;
use crate::chain::compress::{BLOCK_LEN_MAX, State};
use crate::mac::hmac::{INNER_PAD, OUTER_PAD, key_block};
use crate::tag::Output;

/// Bytes before the plaintext under the MAC: sequence number, type, version, length (RFC 5246, 6.2.3.1).
const HEADER_LEN: usize = TLS_AAD_LEN + 2;

/// The longest padding with its length byte (RFC 5246, 6.2.3.2).
const PADDING_LEN_MAX: usize = 256;

/// HMAC for messages whose length is secret: the chaining values after the blocks that hold the key.
pub(super) struct RecordMac {
    digest: Digest,
    inner: State,
    outer: State,
}

/// Where the plaintext of a record may end. Everything is public but `len`.
#[derive(Clone, Copy)]
struct Plaintext {
    min_len: usize,
    max_len: usize,
    len: u64,
}

/// Appends MAC and padding, then encrypts.
pub(super) fn seal(key: &ChainKey, chain: Chain, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let Some(header) = header(buffers.aad, buffers.input_len as u64) else { return OpStatus::EngineFault };
    let Some((plaintext, rest)) = buffers.data.split_at_mut_checked(buffers.input_len) else {
        return OpStatus::EngineFault;
    };
    let mac = key.hmac.tag(&[&header[..], &*plaintext]);
    let Some((place, padding)) = rest.split_at_mut_checked(mac.as_slice().len()) else {
        return OpStatus::EngineFault;
    };
    place.copy_from_slice(mac.as_slice());
    // RFC 5246, 6.2.3.2: every byte of the padding, the length byte included, is the number of those before that byte.
    padding.fill(padding.len().saturating_sub(1) as u8);
    let done = key.cipher.run(chain.mode, Direction::Encrypt, buffers.iv, buffers.data);
    done.map_or(OpStatus::EngineFault, |()| OpStatus::Done)
}

/// Decrypts, checks padding and MAC in constant time, and says how long the plaintext is only when both are right.
pub(super) fn open(key: &ChainKey, chain: Chain, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let mac_len = chain.digest.len();
    let length_byte = usize::from(chain.mode == Mode::Cbc);
    let Some(max_len) = buffers.data.len().checked_sub(mac_len + length_byte) else {
        return OpStatus::AuthFailed;
    };
    if key.cipher.run(chain.mode, Direction::Decrypt, buffers.iv, buffers.data).is_none() {
        return OpStatus::EngineFault;
    }
    let (padding_good, plaintext) = match chain.mode {
        Mode::Cbc => strip_padding(buffers.data, max_len),
        _ => (Choice::from(1), Plaintext { min_len: max_len, max_len, len: max_len as u64 }),
    };
    let Some(header) = header(buffers.aad, plaintext.len) else { return OpStatus::EngineFault };
    let expected = key.record_mac.tag(&header, buffers.data, plaintext);
    let found = read_mac(buffers.data, plaintext, mac_len);
    let good = padding_good & expected.as_slice().ct_eq(&found);
    if !bool::from(good) {
        return OpStatus::AuthFailed;
    }
    // From here on the length is public: the caller learns it.
    buffers.output_len = plaintext.len as usize;
    OpStatus::Done
}

/// What the MAC covers before the plaintext: the additional data and the plaintext's length in two bytes.
fn header(aad: &[u8], len: u64) -> Option<[u8; HEADER_LEN]> {
    let aad: &[u8; TLS_AAD_LEN] = aad.try_into().ok()?;
    let mut header = [0; HEADER_LEN];
    header[..TLS_AAD_LEN].copy_from_slice(aad);
    header[TLS_AAD_LEN..].copy_from_slice(&(len as u16).to_be_bytes());
    Some(header)
}

/// Whether the padding is well-formed, and how long the plaintext is if so. Otherwise the padding counts as its length
/// byte alone (RFC 5246, 6.2.3.2, implementation note).
fn strip_padding(data: &[u8], max_len: usize) -> (Choice, Plaintext) {
    let min_len = (max_len + 1).saturating_sub(PADDING_LEN_MAX);
    let last = data.last().copied().unwrap_or(0);
    let mut good = !u64::from(last).ct_gt(&(max_len as u64));
    for (distance, byte) in (0u64..).zip(data.iter().rev()).take(PADDING_LEN_MAX) {
        let outside = distance.ct_gt(&u64::from(last));
        good &= outside | byte.ct_eq(&last);
    }
    let padding = u64::conditional_select(&0, &u64::from(last), good);
    (good, Plaintext { min_len, max_len, len: max_len as u64 - padding })
}

/// The bytes behind the plaintext, gathered from every place where they could lie.
fn read_mac(data: &[u8], plaintext: Plaintext, mac_len: usize) -> Zeroizing<Vec<u8>> {
    let mut mac = Zeroizing::new(vec![0; mac_len]);
    for start in plaintext.min_len..=plaintext.max_len {
        let here = (start as u64).ct_eq(&plaintext.len);
        for (to, from) in mac.iter_mut().zip(data.iter().skip(start)) {
            to.conditional_assign(from, here);
        }
    }
    mac
}

impl RecordMac {
    /// The chaining values for a key; `None` for digests without a compression function of the kind.
    pub(super) fn new(digest: Digest, key: &[u8]) -> Option<RecordMac> {
        let key = key_block(digest, key);
        let midstate = |pad: u8| {
            let mut block = Zeroizing::new([0; BLOCK_LEN_MAX]);
            for (to, from) in block.iter_mut().zip(key.iter()) {
                *to = from ^ pad;
            }
            let mut state = State::new(digest)?;
            state.compress(&block);
            Some(state)
        };
        Some(RecordMac { digest, inner: midstate(INNER_PAD)?, outer: midstate(OUTER_PAD)? })
    }

    /// The HMAC of header and plaintext. Time and memory accesses depend on `min_len` and `max_len` alone.
    fn tag(&self, header: &[u8; HEADER_LEN], data: &[u8], plaintext: Plaintext) -> Output {
        let block_len = self.digest.block_len();
        let length_len = self.length_len();
        // Block lengths are powers of two: no division by which a processor could tell the length.
        let shift = block_len.trailing_zeros();
        let message_len = HEADER_LEN as u64 + plaintext.len;
        let last = (message_len + length_len as u64) >> shift;
        let last_max = (HEADER_LEN + plaintext.max_len + length_len) >> shift;
        let certain = HEADER_LEN + plaintext.min_len;
        let possible = HEADER_LEN + plaintext.max_len;
        let lengths = self.length_bytes(message_len);

        let mut state = self.inner.clone();
        let mut result = state.zero();
        let mut block = Zeroizing::new([0; BLOCK_LEN_MAX]);
        for index in 0..=last_max {
            for (position, to) in (index * block_len..).zip(block[..block_len].iter_mut()) {
                let from = if position < possible { byte_at(header, data, position) } else { 0 };
                *to = if position < certain { from } else { padded(from, position as u64, message_len) };
            }
            let is_last = (index as u64).ct_eq(&last);
            for (to, from) in block[block_len - lengths.len()..block_len].iter_mut().zip(lengths) {
                *to |= u8::conditional_select(&0, &from, is_last);
            }
            state.compress(&block);
            result.assign_if(is_last, &state);
        }
        self.finish(&result.output())
    }

    /// The outer digest; its message is one block, of public length.
    fn finish(&self, inner: &Output) -> Output {
        let inner = inner.as_slice();
        let block_len = self.digest.block_len();
        let mut block = Zeroizing::new([0; BLOCK_LEN_MAX]);
        block[..inner.len()].copy_from_slice(inner);
        block[inner.len()] = 0x80;
        block[block_len - 8..block_len].copy_from_slice(&self.length_bytes(inner.len() as u64));
        let mut state = self.outer.clone();
        state.compress(&block);
        state.output()
    }

    /// Bytes that the padding of the digest keeps for the length (FIPS 180-4, 5.1; RFC 1321, 3.2).
    fn length_len(&self) -> usize {
        if self.digest.block_len() == BLOCK_LEN_MAX { 16 } else { 8 }
    }

    /// The length in bits of the key's block and the message. Sixteen-byte lengths begin with eight zeros.
    fn length_bytes(&self, message_len: u64) -> [u8; 8] {
        let bits = (self.digest.block_len() as u64 + message_len) * 8;
        if self.digest == Digest::Md5 { bits.to_le_bytes() } else { bits.to_be_bytes() }
    }
}

/// A byte of the message, wherever it ends; the position is public.
fn byte_at(header: &[u8; HEADER_LEN], data: &[u8], position: usize) -> u8 {
    let in_data = || position.checked_sub(HEADER_LEN).and_then(|position| data.get(position));
    header.get(position).or_else(in_data).copied().unwrap_or(0)
}

/// The byte itself within the message, a one bit right behind it, zero beyond.
fn padded(byte: u8, position: u64, message_len: u64) -> u8 {
    let within = u8::conditional_select(&0, &byte, position.ct_lt(&message_len));
    within | u8::conditional_select(&0, &0x80, position.ct_eq(&message_len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::Hmac;
    use ciphermill_contract::suite::lists::CHAIN_DIGESTS;

    #[test]
    fn a_secret_length_gives_the_same_tag_as_a_public_one() {
        let data: Vec<u8> = (0..700).map(|i| (i * 7 + i / 256) as u8).collect();
        for digest in CHAIN_DIGESTS {
            for key_len in [1, 64, 65, 128, 129] {
                let key = &data[100..100 + key_len];
                let (ordinary, secret) = (Hmac::new(digest, key), RecordMac::new(digest, key).unwrap());
                for len in 0..=400 {
                    let header = header(&[7; TLS_AAD_LEN], len as u64).unwrap();
                    let expected = ordinary.tag(&[&header, &data[..len]]);
                    let plaintext =
                        Plaintext { min_len: len.saturating_sub(255), max_len: len + len % 256, len: len as u64 };
                    let tag = secret.tag(&header, &data, plaintext);
                    assert_eq!(tag.as_slice(), expected.as_slice(), "{digest} of {len} bytes");
                }
            }
        }
    }

    #[test]
    fn padding_is_taken_in_every_length() {
        for padding in 0..=255u8 {
            let mut data = vec![0xee; 40];
            data.extend(vec![padding; usize::from(padding) + 1]);
            let max_len = data.len() - 21;
            let (good, plaintext) = strip_padding(&data, max_len);
            assert!(bool::from(good));
            assert_eq!(plaintext.len, 20);
            assert!((plaintext.min_len..=plaintext.max_len).contains(&20));
        }
    }

    #[test]
    fn one_wrong_byte_of_padding_is_noticed_and_counts_as_none() {
        let mut data = vec![9; 60];
        data[50] = 8;
        let (good, plaintext) = strip_padding(&data, 39);
        assert!(!bool::from(good));
        assert_eq!(plaintext.len, 39);
        // One byte before the padding may be anything.
        data.swap(49, 50);
        assert!(bool::from(strip_padding(&data, 39).0));
    }

    #[test]
    fn padding_longer_than_the_record_is_refused() {
        let data = vec![20; 21];
        assert!(!bool::from(strip_padding(&data, 19).0));
        assert!(bool::from(strip_padding(&data, 20).0));
    }

    #[test]
    fn macs_are_read_from_any_place() {
        let data: Vec<u8> = (0..100).collect();
        for len in 3..=70 {
            let plaintext = Plaintext { min_len: 3, max_len: 70, len };
            let expected: Vec<u8> = (len as u8..len as u8 + 20).collect();
            assert_eq!(*read_mac(&data, plaintext, 20), expected);
        }
    }
}
