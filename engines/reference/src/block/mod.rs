//! Block ciphers, their modes without authentication, and key wrap.

mod modes;
mod parts;
pub(crate) mod wrap;
mod xts;

use aes::{Aes128, Aes192, Aes256};
use blowfish::Blowfish;
use cipher::consts::{U8, U16};
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit};
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{AesSize, BlockCipher, Mode};
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use des::{Des, TdesEde2, TdesEde3};

use crate::engine::state;
use crate::legacy::khafre::Khafre;
use crate::legacy::khufu::Khufu;

pub(crate) use modes::{ctr, increment, xor};
pub(crate) use parts::FeedbackStream;
pub(crate) use wrap::WrapKey;
pub(crate) use xts::XtsKey;

/// Rounds of Khufu and Khafre.
const MERKLE_ROUNDS: u32 = 16;

/// A block cipher under one key: a permutation of blocks of `N` bytes and its inverse.
pub(crate) trait Permutation<const N: usize>: Send + Sync {
    /// Enciphers one block.
    fn encrypt(&self, block: &mut [u8; N]);
    /// Deciphers one block.
    fn decrypt(&self, block: &mut [u8; N]);
}

/// AES under one key of any size.
pub(crate) type Aes = Box<dyn Permutation<16>>;

/// A block cipher under one key, by the length of its blocks. The ciphers wipe their schedules when dropped.
pub(crate) enum BlockKey {
    /// Blocks of 8 bytes.
    Narrow(Box<dyn Permutation<8>>),
    /// Blocks of 16 bytes.
    Wide(Aes),
}

impl BlockKey {
    /// The key schedule of `cipher` for `bytes`.
    ///
    /// # Errors
    /// `Length` when the cipher has no keys of that length.
    pub(crate) fn new(cipher: BlockCipher, bytes: &[u8]) -> Result<BlockKey, KeyProblem> {
        Ok(match cipher {
            BlockCipher::Aes(size) => BlockKey::Wide(aes(size, bytes)?),
            BlockCipher::Des => BlockKey::Narrow(Box::new(from_slice::<Des>(bytes)?)),
            BlockCipher::TripleDes => BlockKey::Narrow(triple_des(bytes)?),
            BlockCipher::Blowfish => BlockKey::Narrow(Box::new(from_slice::<Blowfish>(bytes)?)),
            BlockCipher::Khufu => {
                BlockKey::Narrow(Box::new(Khufu::new(bytes, MERKLE_ROUNDS).map_err(|_| KeyProblem::Length)?))
            }
            BlockCipher::Khafre => {
                BlockKey::Narrow(Box::new(Khafre::new(bytes, MERKLE_ROUNDS).map_err(|_| KeyProblem::Length)?))
            }
        })
    }

    /// AES; `None` for the other ciphers.
    pub(crate) fn aes(&self) -> Option<&dyn Permutation<16>> {
        match self {
            BlockKey::Wide(cipher) => Some(cipher.as_ref()),
            BlockKey::Narrow(_) => None,
        }
    }

    /// Runs a mode other than XTS over `data` in place. `None` when IV or data do not fit the cipher's blocks.
    pub(crate) fn run(&self, mode: Mode, direction: Direction, iv: &[u8], data: &mut [u8]) -> Option<()> {
        match self {
            BlockKey::Narrow(cipher) => modes::run(cipher.as_ref(), mode, direction, iv, data),
            BlockKey::Wide(cipher) => modes::run(cipher.as_ref(), mode, direction, iv, data),
        }
    }
}

/// AES under a key of `size`.
///
/// # Errors
/// `Length` when the bytes are not a key of that size.
pub(crate) fn aes(size: AesSize, bytes: &[u8]) -> Result<Aes, KeyProblem> {
    Ok(match size {
        AesSize::Aes128 => Box::new(from_slice::<Aes128>(bytes)?),
        AesSize::Aes192 => Box::new(from_slice::<Aes192>(bytes)?),
        AesSize::Aes256 => Box::new(from_slice::<Aes256>(bytes)?),
    })
}

/// Triple DES under two or three keys; with two the third is the first (NIST SP 800-67, 3.2).
///
/// # Errors
/// `Length` when the bytes are neither.
pub(crate) fn triple_des(bytes: &[u8]) -> Result<Box<dyn Permutation<8>>, KeyProblem> {
    Ok(match bytes.len() {
        16 => Box::new(from_slice::<TdesEde2>(bytes)?),
        _ => Box::new(from_slice::<TdesEde3>(bytes)?),
    })
}

/// Runs one operation of a mode.
pub(crate) fn process(mode: Mode, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let done = match mode {
        Mode::Xts => state::<XtsKey>(buffers).and_then(|key| key.run(direction, buffers.iv, buffers.data)),
        _ => state::<BlockKey>(buffers).and_then(|key| key.run(mode, direction, buffers.iv, buffers.data)),
    };
    done.map_or(OpStatus::EngineFault, |()| OpStatus::Done)
}

fn from_slice<C: KeyInit>(bytes: &[u8]) -> Result<C, KeyProblem> {
    C::new_from_slice(bytes).map_err(|_| KeyProblem::Length)
}

impl<C> Permutation<16> for C
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn encrypt(&self, block: &mut [u8; 16]) {
        self.encrypt_block(block.into());
    }

    fn decrypt(&self, block: &mut [u8; 16]) {
        self.decrypt_block(block.into());
    }
}

impl<C> Permutation<8> for C
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U8> + Send + Sync,
{
    fn encrypt(&self, block: &mut [u8; 8]) {
        self.encrypt_block(block.into());
    }

    fn decrypt(&self, block: &mut [u8; 8]) {
        self.decrypt_block(block.into());
    }
}

impl Permutation<8> for Khufu {
    fn encrypt(&self, block: &mut [u8; 8]) {
        self.encrypt_block(block);
    }

    fn decrypt(&self, block: &mut [u8; 8]) {
        self.decrypt_block(block);
    }
}

impl Permutation<8> for Khafre {
    fn encrypt(&self, block: &mut [u8; 8]) {
        self.encrypt_block(block);
    }

    fn decrypt(&self, block: &mut [u8; 8]) {
        self.decrypt_block(block);
    }
}
