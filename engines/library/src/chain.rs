//! Chains that encrypt, then MAC. The tag covers additional data, IV and ciphertext; decryption starts only once it has
//! been verified.

use ciphermill_contract::suite::{BlockCipher, Chain, ChainOrder, Mode};
use ciphermill_contract::{CheckedBatch, Direction, OpBuffers, OpStatus, PreparedKey, Result, Suite};

use crate::aes::{self, AesKey};
use crate::des::{DesKey, DesModes, TripleDesKey};
use crate::ffi::{fault, op_fault};
use crate::hmac::{DIGEST_MAX, HmacKey};
use crate::mac::settle;
use crate::prepared::{Prepared, state};

enum ChainCipher {
    AesCbc { encryption: AesKey, decryption: AesKey },
    AesCtr(AesKey),
    Des(DesKey),
    TripleDes(TripleDesKey),
}

/// A chain's two keys.
struct ChainKey {
    cipher: ChainCipher,
    mac: HmacKey,
}

impl ChainKey {
    fn new(chain: Chain, key: &[u8]) -> Option<ChainKey> {
        let (cipher_key, mac_key) = key.split_at_checked(chain.cipher_key_len())?;
        let cipher = match (chain.cipher, chain.mode) {
            (BlockCipher::Aes(_), Mode::Cbc) => ChainCipher::AesCbc {
                encryption: AesKey::encryption(cipher_key)?,
                decryption: AesKey::decryption(cipher_key)?,
            },
            (BlockCipher::Aes(_), Mode::Ctr) => ChainCipher::AesCtr(AesKey::encryption(cipher_key)?),
            (BlockCipher::Des, Mode::Cbc) => ChainCipher::Des(DesKey::new(cipher_key)?),
            (BlockCipher::TripleDes, Mode::Cbc) => ChainCipher::TripleDes(TripleDesKey::new(cipher_key)?),
            _ => return None,
        };
        Some(ChainKey { cipher, mac: HmacKey::new(chain.digest, mac_key)? })
    }
}

impl ChainCipher {
    /// The cipher over `data` in place; false for an IV of a wrong length.
    fn apply(&self, iv: &[u8], data: &mut [u8], encrypt: bool) -> bool {
        match self {
            ChainCipher::AesCbc { encryption, decryption } => {
                let Ok(mut iv) = iv.try_into() else { return false };
                let schedule = if encrypt { encryption } else { decryption };
                schedule.cbc(&mut iv, data, encrypt);
            }
            ChainCipher::AesCtr(key) => key.ctr(aes::counter_block(iv), data),
            ChainCipher::Des(key) => {
                let Ok(iv) = iv.try_into() else { return false };
                key.cbc(iv, data, encrypt);
            }
            ChainCipher::TripleDes(key) => {
                let Ok(iv) = iv.try_into() else { return false };
                key.cbc(iv, data, encrypt);
            }
        }
        true
    }
}

/// Prepares the cipher's key followed by the MAC's.
pub(crate) fn prepare(key: &[u8], chain: Chain) -> Result<PreparedKey> {
    ChainKey::new(chain, key).map(|state| Prepared::key(Suite::Chain(chain), state)).ok_or_else(fault)
}

/// Runs a batch; leaves operations of other chains pending.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, chain: Chain) {
    if chain.order != ChainOrder::EncryptThenMac {
        return;
    }
    let suite = batch.suite();
    let direction = batch.direction();
    batch.process(|op| match state::<ChainKey>(op, suite) {
        Some(key) => run_op(key, op, direction),
        None => OpStatus::EngineFault,
    });
}

fn run_op(key: &ChainKey, op: &mut OpBuffers<'_>, direction: Direction) -> OpStatus {
    let encrypt = direction == Direction::Encrypt;
    if encrypt && !key.cipher.apply(op.iv, op.data, true) {
        return OpStatus::EngineFault;
    }
    let mut full = [0; DIGEST_MAX];
    if !key.mac.compute(&[op.aad, op.iv, op.data], &mut full) {
        return op_fault();
    }
    let status = settle(op, direction, full);
    if !encrypt && status.is_done() && !key.cipher.apply(op.iv, op.data, false) {
        return OpStatus::EngineFault;
    }
    status
}
