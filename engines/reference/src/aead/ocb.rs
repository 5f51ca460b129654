//! AES-OCB3 (RFC 7253) with nonces of 8 to 120 bits and tags of 64 to 128. Blocks are numbers here, their first bit the highest.

use ciphermill_contract::{Direction, OpStatus};
use zeroize::Zeroizing;

use crate::aead::Scheme;
use crate::block::{Aes, xor};
use crate::mac::double;
use crate::tag;

/// OCB3 under one AES key.
pub(super) struct Ocb {
    cipher: Aes,
    /// `L_*`, the cipher's answer to a block of zeros; the other offsets are doublings of it.
    l_star: Zeroizing<u128>,
}

impl Ocb {
    pub(super) fn new(cipher: Aes) -> Ocb {
        let l_star = Zeroizing::new(encipher(&cipher, 0));
        Ocb { cipher, l_star }
    }

    /// `L_{ntz(i)}` for the block number `index`, which counts from one (RFC 7253, 4.1).
    fn l(&self, index: usize) -> u128 {
        doubled(*self.l_star, 2 + index.trailing_zeros())
    }

    /// HASH (RFC 7253, 4.1).
    fn hash(&self, aad: &[u8]) -> u128 {
        let (mut sum, mut offset) = (0, 0);
        let (blocks, rest) = aad.as_chunks::<16>();
        for (index, block) in (1..).zip(blocks) {
            offset ^= self.l(index);
            sum ^= encipher(&self.cipher, u128::from_be_bytes(*block) ^ offset);
        }
        if !rest.is_empty() {
            offset ^= *self.l_star;
            sum ^= encipher(&self.cipher, padded(rest) ^ offset);
        }
        sum
    }

    /// The first offset, a window of a stretched block that the nonce's last six bits place (RFC 7253, 4.2).
    ///
    /// Before the nonce stand the tag's length in bits, modulo 128, in the first seven bits, and a one bit just before it.
    /// `None` for a nonce of no or of more than 15 bytes.
    fn first_offset(&self, nonce: &[u8], tag_len: usize) -> Option<u128> {
        let mut block = [0; 16];
        let at = block.len().checked_sub(nonce.len()).filter(|at| (1..16).contains(at))?;
        block[0] = ((8 * tag_len % 128) as u8) << 1;
        block[at - 1] |= 1;
        block[at..].copy_from_slice(nonce);
        let block = u128::from_be_bytes(block);
        let bottom = (block & 0x3f) as u32;
        let top = encipher(&self.cipher, block & !0x3f);
        let stretch = ((top >> 64) as u64) ^ ((top >> 56) as u64);
        Some((top << bottom) | (u128::from(stretch) >> (64 - bottom)))
    }

    /// Runs over `data` in place and gives the tag, of which `tag_len` bytes count (RFC 7253, 4.2 and 4.3).
    fn run(
        &self,
        direction: Direction,
        nonce: &[u8],
        aad: &[u8],
        data: &mut [u8],
        tag_len: usize,
    ) -> Option<Zeroizing<[u8; 16]>> {
        let mut offset = self.first_offset(nonce, tag_len)?;
        let mut checksum = Zeroizing::new(0);
        let (blocks, rest) = data.as_chunks_mut::<16>();
        for (index, block) in (1..).zip(blocks) {
            offset ^= self.l(index);
            let from = u128::from_be_bytes(*block);
            let to = match direction {
                Direction::Encrypt => encipher(&self.cipher, from ^ offset) ^ offset,
                Direction::Decrypt => decipher(&self.cipher, from ^ offset) ^ offset,
            };
            *checksum ^= if direction == Direction::Encrypt { from } else { to };
            *block = to.to_be_bytes();
        }
        if !rest.is_empty() {
            offset ^= *self.l_star;
            let pad = encipher(&self.cipher, offset);
            if direction == Direction::Encrypt {
                *checksum ^= padded(rest);
            }
            xor(rest, &pad.to_be_bytes());
            if direction == Direction::Decrypt {
                *checksum ^= padded(rest);
            }
        }
        let l_dollar = doubled(*self.l_star, 1);
        let tag = encipher(&self.cipher, *checksum ^ offset ^ l_dollar) ^ self.hash(aad);
        Some(Zeroizing::new(tag.to_be_bytes()))
    }
}

impl Scheme for Ocb {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        let full = self.run(Direction::Encrypt, nonce, aad, data, tag.len());
        full.map_or(OpStatus::EngineFault, |full| tag::settle(Direction::Encrypt, &*full, tag))
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let full = self.run(Direction::Decrypt, nonce, aad, data, tag.len());
        let expected = full.as_ref().and_then(|full| full.get(..tag.len()));
        expected.map_or(OpStatus::EngineFault, |expected| tag::verify(expected, tag))
    }
}

fn encipher(cipher: &Aes, block: u128) -> u128 {
    let mut block = Zeroizing::new(block.to_be_bytes());
    cipher.encrypt(&mut block);
    u128::from_be_bytes(*block)
}

fn decipher(cipher: &Aes, block: u128) -> u128 {
    let mut block = Zeroizing::new(block.to_be_bytes());
    cipher.decrypt(&mut block);
    u128::from_be_bytes(*block)
}

fn doubled(block: u128, times: u32) -> u128 {
    (0..times).fold(block, |block, _| u128::from_be_bytes(double(&block.to_be_bytes())))
}

/// The bytes, a one bit, and zeros up to a block.
fn padded(rest: &[u8]) -> u128 {
    let mut block = [0; 16];
    block[..rest.len()].copy_from_slice(rest);
    block[rest.len()] = 0x80;
    u128::from_be_bytes(block)
}
