//! Chains of a cipher and an HMAC: encrypt-then-MAC (RFC 4303, RFC 7366) and the records of TLS 1.2 (RFC 5246, 6.2.3).

mod compress;
mod record;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Chain, ChainOrder};
use ciphermill_contract::{Direction, OpBuffers, OpStatus};

use crate::block::BlockKey;
use crate::engine::state;
use crate::mac::Hmac;
use crate::tag;
use record::RecordMac;

/// The key of a chain.
pub(crate) struct ChainKey {
    cipher: BlockKey,
    hmac: Hmac,
    record_mac: RecordMac,
}

impl ChainKey {
    /// The cipher's schedule and the MAC's midstates; the key is the cipher's followed by the MAC's.
    ///
    /// # Errors
    /// `Length` when nothing is left for the MAC; `Parameters` for digests that chains do not know.
    pub(crate) fn new(chain: Chain, bytes: &[u8]) -> Result<ChainKey, KeyProblem> {
        let (cipher, mac) = bytes.split_at_checked(chain.cipher_key_len()).ok_or(KeyProblem::Length)?;
        if mac.is_empty() {
            return Err(KeyProblem::Length);
        }
        Ok(ChainKey {
            cipher: BlockKey::new(chain.cipher, cipher)?,
            hmac: Hmac::new(chain.digest, mac),
            record_mac: RecordMac::new(chain.digest, mac).ok_or(KeyProblem::Parameters)?,
        })
    }
}

/// Runs one operation of a chain.
pub(crate) fn process(chain: Chain, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let Some(key) = state::<ChainKey>(buffers) else { return OpStatus::EngineFault };
    match (chain.order, direction) {
        (ChainOrder::EncryptThenMac, Direction::Encrypt) => seal(key, chain, buffers),
        (ChainOrder::EncryptThenMac, Direction::Decrypt) => open(key, chain, buffers),
        (ChainOrder::MacThenEncrypt, Direction::Encrypt) => record::seal(key, chain, buffers),
        (ChainOrder::MacThenEncrypt, Direction::Decrypt) => record::open(key, chain, buffers),
    }
}

/// Encrypts, then authenticates additional data, IV and ciphertext.
fn seal(key: &ChainKey, chain: Chain, buffers: &mut OpBuffers<'_>) -> OpStatus {
    if key.cipher.run(chain.mode, Direction::Encrypt, buffers.iv, buffers.data).is_none() {
        return OpStatus::EngineFault;
    }
    let full = key.hmac.tag(&[buffers.aad, buffers.iv, &*buffers.data]);
    tag::settle(Direction::Encrypt, full.as_slice(), buffers.tag)
}

/// Verifies before anything is decrypted.
fn open(key: &ChainKey, chain: Chain, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let full = key.hmac.tag(&[buffers.aad, buffers.iv, &*buffers.data]);
    let status = tag::settle(Direction::Decrypt, full.as_slice(), buffers.tag);
    if !status.is_done() {
        return status;
    }
    let done = key.cipher.run(chain.mode, Direction::Decrypt, buffers.iv, buffers.data);
    done.map_or(OpStatus::EngineFault, |()| OpStatus::Done)
}
