//! AES-CBC with HMAC as JOSE has it (RFC 7518, 5.2): encrypt, then MAC.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Mode};
use ciphermill_contract::{Direction, OpBuffers, OpStatus};

use crate::block::BlockKey;
use crate::mac::Hmac;
use crate::tag::{self, Output};

/// Bytes of a block.
const BLOCK: usize = 16;

/// The keys of cipher and MAC.
pub(super) struct CbcHmac {
    cipher: BlockKey,
    mac: Hmac,
}

impl CbcHmac {
    /// The MAC's key is the first half (5.2.2.1, step 1).
    ///
    /// # Errors
    /// `Length` when the bytes are not two keys of `size`.
    pub(super) fn new(size: AesSize, bytes: &[u8]) -> Result<CbcHmac, KeyProblem> {
        let (mac, cipher) = bytes.split_at_checked(size.key_len()).ok_or(KeyProblem::Length)?;
        let cipher = BlockKey::new(BlockCipher::Aes(size), cipher)?;
        Ok(CbcHmac { cipher, mac: Hmac::new(Aead::cbc_hmac_digest(size), mac) })
    }

    /// The MAC over additional data, IV, ciphertext and the additional data's length in bits (5.2.2.1, steps 4 and 5).
    fn tag(&self, buffers: &OpBuffers<'_>) -> Output {
        let bits = (buffers.aad.len() as u64 * 8).to_be_bytes();
        self.mac.tag(&[buffers.aad, buffers.iv, &*buffers.data, &bits])
    }

    pub(super) fn seal(&self, buffers: &mut OpBuffers<'_>) -> OpStatus {
        let Some(padding) = buffers.data.get_mut(buffers.input_len..) else { return OpStatus::EngineFault };
        // PKCS #7: each byte is their number, 1 to 16.
        padding.fill(padding.len() as u8);
        if self.cipher.run(Mode::Cbc, Direction::Encrypt, buffers.iv, buffers.data).is_none() {
            return OpStatus::EngineFault;
        }
        let full = self.tag(buffers);
        tag::settle(Direction::Encrypt, full.as_slice(), buffers.tag)
    }

    /// Verifies before anything is decrypted. Padding that is wrong all the same is one that the key's owner has made.
    pub(super) fn open(&self, buffers: &mut OpBuffers<'_>) -> OpStatus {
        let full = self.tag(buffers);
        let status = tag::settle(Direction::Decrypt, full.as_slice(), buffers.tag);
        if !status.is_done() {
            return status;
        }
        if self.cipher.run(Mode::Cbc, Direction::Decrypt, buffers.iv, buffers.data).is_none() {
            return OpStatus::EngineFault;
        }
        let padding = buffers.data.last().map_or(0, |last| usize::from(*last));
        let text_len = buffers.data.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding));
        let Some(text_len) =
            text_len.filter(|len| buffers.data[*len..].iter().all(|byte| usize::from(*byte) == padding))
        else {
            return OpStatus::AuthFailed;
        };
        buffers.output_len = text_len;
        OpStatus::Done
    }
}
