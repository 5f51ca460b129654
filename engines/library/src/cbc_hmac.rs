//! AES-CBC with HMAC as JOSE has it (RFC 7518, 5.2), over AWS-LC's CBC and HMAC.

use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{CheckedBatch, Direction, OpBuffers, OpStatus, PreparedKey, Result, Suite};

use crate::aes::{AesKey, BLOCK};
use crate::ffi::{fault, op_fault};
use crate::hmac::{DIGEST_MAX, HmacKey};
use crate::mac::settle;
use crate::prepared::{Prepared, state};

/// The keys of cipher and MAC.
struct CbcHmacKey {
    encryption: AesKey,
    decryption: AesKey,
    mac: HmacKey,
}

/// Prepares a key of a length that the suite takes.
pub(crate) fn prepare(key: &[u8], size: AesSize) -> Result<PreparedKey> {
    let suite = Suite::Aead(Aead::AesCbcHmac(size));
    CbcHmacKey::new(size, key).map(|state| Prepared::key(suite, state)).ok_or_else(fault)
}

/// Runs a batch.
pub(crate) fn run(batch: &mut CheckedBatch<'_>) {
    let (suite, direction) = (batch.suite(), batch.direction());
    batch.process(|op| match (state::<CbcHmacKey>(op, suite), direction) {
        (Some(key), Direction::Encrypt) => key.seal(op),
        (Some(key), Direction::Decrypt) => key.open(op),
        (None, _) => OpStatus::EngineFault,
    });
}

impl CbcHmacKey {
    /// The MAC's key is the first half (5.2.2.1, step 1); `None` for other lengths.
    fn new(size: AesSize, key: &[u8]) -> Option<CbcHmacKey> {
        let (mac, cipher) = key.split_at_checked(size.key_len())?;
        let mac = HmacKey::new(Aead::cbc_hmac_digest(size), mac)?;
        Some(CbcHmacKey { encryption: AesKey::encryption(cipher)?, decryption: AesKey::decryption(cipher)?, mac })
    }

    /// Pads, encrypts and writes the tag.
    fn seal(&self, op: &mut OpBuffers<'_>) -> OpStatus {
        let (Some(padding), Ok(mut iv)) = (op.data.get_mut(op.input_len..), op.iv.try_into()) else {
            return OpStatus::EngineFault;
        };
        // PKCS #7: each byte is their number, 1 to 16.
        padding.fill(padding.len() as u8);
        self.encryption.cbc(&mut iv, op.data, true);
        self.settle(op, Direction::Encrypt)
    }

    /// Verifies before anything is decrypted. Padding that is wrong all the same is one that the key's owner has made.
    fn open(&self, op: &mut OpBuffers<'_>) -> OpStatus {
        let status = self.settle(op, Direction::Decrypt);
        if !status.is_done() {
            return status;
        }
        let Ok(mut iv) = op.iv.try_into() else { return OpStatus::EngineFault };
        self.decryption.cbc(&mut iv, op.data, false);
        let padding = op.data.last().map_or(0, |last| usize::from(*last));
        let text_len = op.data.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding));
        match text_len {
            Some(len) if op.data[len..].iter().all(|byte| usize::from(*byte) == padding) => {
                op.output_len = len;
                OpStatus::Done
            }
            _ => OpStatus::AuthFailed,
        }
    }

    /// Writes or compares the MAC over additional data, IV, ciphertext and the additional data's length in bits (5.2.2.1, steps 4
    /// and 5), whose first half the tag is.
    fn settle(&self, op: &mut OpBuffers<'_>, direction: Direction) -> OpStatus {
        let (bits, mut full) = ((op.aad.len() as u64 * 8).to_be_bytes(), [0; DIGEST_MAX]);
        if !self.mac.compute(&[op.aad, op.iv, op.data, &bits], &mut full) {
            return op_fault();
        }
        settle(op, direction, full)
    }
}
