//! Stream ciphers: ChaCha20, RC4 and SEAL 3.0.

use chacha20::variants::Ietf;
use chacha20::{ChaChaCore, R20};
use cipher::{Block, KeyIvInit, StreamCipherCore};
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::StreamCipher;
use ciphermill_contract::{OpBuffers, OpStatus, Reason};
use zeroize::{Zeroize, Zeroizing};

use crate::block::xor;
use crate::engine::state;
use crate::legacy::seal::Seal;

/// Bytes of ChaCha20's block.
const CHACHA_BLOCK_LEN: usize = 64;

/// The key of a stream cipher.
pub(crate) enum StreamKey {
    /// The key itself: ChaCha20 has no schedule.
    ChaCha20(Zeroizing<[u8; 32]>),
    /// RC4's permutation after its key schedule.
    Rc4(Box<Zeroizing<[u8; 256]>>),
    /// SEAL's tables.
    Seal3(Box<Seal>),
}

impl StreamKey {
    /// The schedule of `stream` for `bytes`.
    ///
    /// # Errors
    /// `Length` when the cipher has no keys of that length.
    pub(crate) fn new(stream: StreamCipher, bytes: &[u8]) -> Result<StreamKey, KeyProblem> {
        let wrong_length = |_| KeyProblem::Length;
        Ok(match stream {
            StreamCipher::ChaCha20 => StreamKey::ChaCha20(Zeroizing::new(bytes.try_into().map_err(wrong_length)?)),
            StreamCipher::Rc4 => StreamKey::Rc4(Box::new(rc4_schedule(bytes))),
            StreamCipher::Seal3 => StreamKey::Seal3(Box::new(Seal::new(bytes.try_into().map_err(wrong_length)?))),
        })
    }
}

/// Adds the key stream to one operation's data; both directions are the same.
pub(crate) fn process(buffers: &mut OpBuffers<'_>) -> OpStatus {
    let key = state::<StreamKey>(buffers);
    let data = &mut *buffers.data;
    match key {
        Some(StreamKey::ChaCha20(key)) => chacha20(key, buffers.iv, data),
        Some(StreamKey::Rc4(schedule)) => rc4(schedule.as_ref().clone(), data),
        Some(StreamKey::Seal3(seal)) => seal3(seal, buffers.iv, data),
        None => OpStatus::EngineFault,
    }
}

/// ChaCha20 (RFC 8439, 2.4). The counter has 32 bits; an operation that would need more of it is refused, since the
/// standard does not say what follows.
pub(crate) fn chacha20(key: &[u8; 32], iv: &[u8], data: &mut [u8]) -> OpStatus {
    let (counter, nonce) = match iv.split_first_chunk::<4>() {
        Some((counter, nonce)) if iv.len() == 16 => (u32::from_le_bytes(*counter), nonce),
        _ => (0, iv),
    };
    let Ok(nonce) = <&[u8; 12]>::try_from(nonce) else { return OpStatus::EngineFault };
    let blocks = data.len().div_ceil(CHACHA_BLOCK_LEN) as u64;
    if u64::from(counter) + blocks > 1 << 32 {
        return OpStatus::BadInput(Reason::InputTooLong);
    }
    let mut core = ChaChaCore::<R20, Ietf>::new(key.into(), nonce.into());
    let mut pad = Block::<ChaChaCore<R20, Ietf>>::default();
    for (index, chunk) in (counter..=u32::MAX).zip(data.chunks_mut(CHACHA_BLOCK_LEN)) {
        core.set_block_pos(index);
        core.write_keystream_block(&mut pad);
        xor(chunk, &pad);
    }
    pad.zeroize();
    OpStatus::Done
}

/// RC4's key schedule: 256 swaps driven by the key.
fn rc4_schedule(key: &[u8]) -> Zeroizing<[u8; 256]> {
    let mut permutation = Zeroizing::new([0; 256]);
    for (value, place) in (0..=u8::MAX).zip(permutation.iter_mut()) {
        *place = value;
    }
    let mut j = 0u8;
    for (i, byte) in (0..permutation.len()).zip(key.iter().cycle()) {
        j = j.wrapping_add(permutation[i]).wrapping_add(*byte);
        permutation.swap(i, usize::from(j));
    }
    permutation
}

/// RC4's key stream from its start.
fn rc4(mut permutation: Zeroizing<[u8; 256]>, data: &mut [u8]) -> OpStatus {
    let (mut i, mut j) = (0u8, 0u8);
    for byte in data {
        i = i.wrapping_add(1);
        j = j.wrapping_add(permutation[usize::from(i)]);
        permutation.swap(usize::from(i), usize::from(j));
        let sum = permutation[usize::from(i)].wrapping_add(permutation[usize::from(j)]);
        *byte ^= permutation[usize::from(sum)];
    }
    OpStatus::Done
}

/// SEAL 3.0's key stream for the position index that the IV is.
fn seal3(seal: &Seal, iv: &[u8], data: &mut [u8]) -> OpStatus {
    let Ok(position) = iv.try_into().map(u32::from_be_bytes) else { return OpStatus::EngineFault };
    let mut pad = Zeroizing::new(vec![0; data.len()]);
    if seal.keystream(position, &mut pad).is_err() {
        return OpStatus::BadInput(Reason::InputTooLong);
    }
    xor(data, &pad);
    OpStatus::Done
}
