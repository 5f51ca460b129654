//! The compression functions on the host, for the one or two blocks of a key.

use ciphermill_contract::suite::Digest;
use zeroize::Zeroizing;

use super::STATE_WORDS;

/// Works whole blocks into a state that is kept as the kernels keep it.
pub(super) fn compress(digest: Digest, state: &mut [u32; STATE_WORDS], blocks: &[u8]) {
    let (short, _) = blocks.as_chunks::<64>();
    match digest {
        Digest::Md5 => {
            let mut own = Zeroizing::new([0u32; 4]);
            own.copy_from_slice(&state[..4]);
            md5::block_api::compress(&mut own, short);
            state[..4].copy_from_slice(&*own);
        }
        Digest::Sha1 => {
            let mut own = Zeroizing::new([0u32; 5]);
            own.copy_from_slice(&state[..5]);
            sha1::block_api::compress(&mut own, short);
            state[..5].copy_from_slice(&*own);
        }
        Digest::Sha224 | Digest::Sha256 => {
            let mut own = Zeroizing::new([0u32; 8]);
            own.copy_from_slice(&state[..8]);
            sha2::block_api::compress256(&mut own, short);
            state[..8].copy_from_slice(&*own);
        }
        _ => {
            let (long, _) = blocks.as_chunks::<128>();
            let number = |at: usize| u64::from(state[2 * at + 1]) << 32 | u64::from(state[2 * at]);
            let mut own: Zeroizing<[u64; 8]> = Zeroizing::new(std::array::from_fn(number));
            sha2::block_api::compress512(&mut own, long);
            *state = super::halves(&own);
        }
    }
}

/// The digest of a long key, as many bytes of it as `out` takes.
pub(super) fn digest(digest: Digest, initial: &[u32; STATE_WORDS], key: &[u8], out: &mut [u8]) {
    let wide = matches!(digest, Digest::Sha384 | Digest::Sha512);
    let (block_len, length_len) = if wide { (128, 16) } else { (64, 8) };
    let padded_len = (key.len() + 1 + length_len).next_multiple_of(block_len);
    let mut padded = Zeroizing::new(vec![0u8; padded_len]);
    padded[..key.len()].copy_from_slice(key);
    padded[key.len()] = 0x80;
    let bits = 8 * key.len() as u64;
    let length = if digest == Digest::Md5 { bits.to_le_bytes() } else { bits.to_be_bytes() };
    padded[padded_len - 8..].copy_from_slice(&length);
    let mut state = Zeroizing::new(*initial);
    compress(digest, &mut state, &padded);
    for (at, to) in out.iter_mut().enumerate() {
        let (word, byte) = (at / 4, at % 4);
        *to = match digest {
            Digest::Md5 => state[word].to_le_bytes()[byte],
            // A number of 64 bits begins with its upper half, which is the second word.
            _ if wide => state[word ^ 1].to_be_bytes()[byte],
            _ => state[word].to_be_bytes()[byte],
        };
    }
}
