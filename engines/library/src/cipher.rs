//! Block ciphers in modes without authentication: AES in ECB, CBC, CFB, OFB, CTR and XTS, DES and triple DES in ECB and CBC.

use aws_lc_sys as sys;
use ciphermill_contract::suite::{AesSize, BlockCipher, Mode};
use ciphermill_contract::{CheckedBatch, Direction, OpBuffers, OpStatus, PreparedKey, Result, Suite};

use crate::aes::{self, AesKey, BLOCK, Feedback};
use crate::des::{self, DesKey, DesModes, TripleDesKey};
use crate::ffi::{Wiped, fault, op_fault};
use crate::prepared::{Prepared, state};
use crate::scratch::{CipherScratch, ScheduleId};
use crate::xts;

/// From how many bytes on ECB goes through the EVP interface, which keeps several blocks in flight but has to expand
/// the key anew in each queue.
const ECB_BULK_LEN: usize = 16 * aes::BLOCK;

/// An AES key that the EVP interface is to expand in a queue's own context.
struct RawKey {
    id: ScheduleId,
    len: usize,
    bytes: Wiped<[u8; 64]>,
}

/// An AES key for ECB.
struct EcbKey {
    encryption: AesKey,
    decryption: AesKey,
    raw: RawKey,
}

/// An AES key for XTS where AWS-LC has none.
struct XtsKey {
    data: EcbKey,
    tweak: AesKey,
}

/// An AES key for CBC.
struct CbcKey {
    encryption: AesKey,
    decryption: AesKey,
}

impl RawKey {
    fn new(key: &[u8]) -> Option<RawKey> {
        let mut bytes = Wiped([0; 64]);
        bytes.0.get_mut(..key.len())?.copy_from_slice(key);
        Some(RawKey { id: ScheduleId::next(), len: key.len(), bytes })
    }

    fn load(&self, scratch: &mut CipherScratch, cipher: *const sys::EVP_CIPHER, encrypt: bool) -> bool {
        scratch.load(cipher, self.id, &self.bytes.0[..self.len], encrypt)
    }
}

/// Prepares a key of a length that the cipher takes.
pub(crate) fn prepare(key: &[u8], cipher: BlockCipher, mode: Mode) -> Result<PreparedKey> {
    let suite = Suite::Cipher(cipher, mode);
    let prepared = match (cipher, mode) {
        (BlockCipher::Aes(_), Mode::Ecb) => ecb_key(key).map(|state| Prepared::key(suite, state)),
        (BlockCipher::Aes(_), Mode::Cbc | Mode::CbcCs1 | Mode::CbcCs2 | Mode::CbcCs3) => {
            cbc_key(key).map(|state| Prepared::key(suite, state))
        }
        // CFB and OFB decrypt by enciphering, too.
        (BlockCipher::Aes(_), Mode::Ctr | Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb) => {
            AesKey::encryption(key).map(|state| Prepared::key(suite, state))
        }
        (BlockCipher::Aes(AesSize::Aes128), Mode::Xts) => xts_key(key).map(|state| Prepared::key(suite, state)),
        (BlockCipher::Aes(_), Mode::Xts) => RawKey::new(key).map(|state| Prepared::key(suite, state)),
        (BlockCipher::Des, _) => DesKey::new(key).map(|state| Prepared::key(suite, state)),
        (BlockCipher::TripleDes, _) => TripleDesKey::new(key).map(|state| Prepared::key(suite, state)),
        _ => None,
    };
    prepared.ok_or_else(fault)
}

fn ecb_key(key: &[u8]) -> Option<EcbKey> {
    Some(EcbKey { encryption: AesKey::encryption(key)?, decryption: AesKey::decryption(key)?, raw: RawKey::new(key)? })
}

/// An XTS key's two halves; the first is for the data, the second for the tweak (IEEE 1619, 5.1).
fn xts_key(key: &[u8]) -> Option<XtsKey> {
    let (data, tweak) = key.split_at(key.len() / 2);
    Some(XtsKey { data: ecb_key(data)?, tweak: AesKey::encryption(tweak)? })
}

fn cbc_key(key: &[u8]) -> Option<CbcKey> {
    Some(CbcKey { encryption: AesKey::encryption(key)?, decryption: AesKey::decryption(key)? })
}

/// Runs a batch; leaves operations of other ciphers and modes pending.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, cipher: BlockCipher, mode: Mode, scratch: &mut CipherScratch) {
    let suite = batch.suite();
    let encrypt = batch.direction() == Direction::Encrypt;
    match (cipher, mode) {
        (BlockCipher::Aes(size), Mode::Ecb) => {
            let bulk = evp_ecb(size);
            batch.process(|op| {
                let Some(key) = state::<EcbKey>(op, suite) else { return OpStatus::EngineFault };
                ecb(key, op.data, encrypt, bulk, scratch)
            });
        }
        (BlockCipher::Aes(_), Mode::Cbc) => batch.process(|op| {
            let (Some(key), Ok(mut iv)) = (state::<CbcKey>(op, suite), op.iv.try_into()) else {
                return OpStatus::EngineFault;
            };
            let schedule = if encrypt { &key.encryption } else { &key.decryption };
            schedule.cbc(&mut iv, op.data, encrypt);
            OpStatus::Done
        }),
        (BlockCipher::Aes(_), Mode::CbcCs1 | Mode::CbcCs2 | Mode::CbcCs3) => batch.process(|op| {
            let (Some(key), Ok(iv)) = (state::<CbcKey>(op, suite), op.iv.try_into()) else {
                return OpStatus::EngineFault;
            };
            stealing(key, mode, iv, op.data, encrypt).map_or(OpStatus::EngineFault, |()| OpStatus::Done)
        }),
        (BlockCipher::Aes(_), Mode::Ctr) => batch.process(|op| {
            let Some(key) = state::<AesKey>(op, suite) else { return OpStatus::EngineFault };
            key.ctr(aes::counter_block(op.iv), op.data);
            OpStatus::Done
        }),
        (BlockCipher::Aes(_), Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb) => batch.process(|op| {
            let (Some(key), Ok(iv)) = (state::<AesKey>(op, suite), op.iv.try_into()) else {
                return OpStatus::EngineFault;
            };
            let place = op.data.as_mut_ptr();
            // SAFETY: `data.len()` bytes lie at `place`.
            unsafe { key.feedback_on(&mut Feedback::new(mode, encrypt, iv), place, place, op.data.len()) };
            OpStatus::Done
        }),
        (BlockCipher::Aes(size @ AesSize::Aes128), Mode::Xts) => {
            let bulk = evp_ecb(size);
            batch.process(|op| {
                let (Some(key), Ok(iv)) = (state::<XtsKey>(op, suite), op.iv.try_into()) else {
                    return OpStatus::EngineFault;
                };
                xts::run(&key.tweak, iv, op.data, encrypt, |data| ecb(&key.data, data, encrypt, bulk, scratch))
            });
        }
        (BlockCipher::Aes(AesSize::Aes256), Mode::Xts) => batch.process(|op| {
            let Some(key) = state::<RawKey>(op, suite) else { return OpStatus::EngineFault };
            xts_256(key, op, encrypt, scratch)
        }),
        (BlockCipher::Des, Mode::Ecb | Mode::Cbc) => batch.process(|op| des::<DesKey>(op, suite, encrypt)),
        (BlockCipher::TripleDes, Mode::Ecb | Mode::Cbc) => {
            batch.process(|op| des::<TripleDesKey>(op, suite, encrypt));
        }
        _ => {}
    }
}

/// CBC with ciphertext stealing (NIST SP 800-38A, addendum), which AWS-LC does not offer, over its CBC. `None` for less than a block.
fn stealing(key: &CbcKey, mode: Mode, mut iv: [u8; BLOCK], data: &mut [u8], encrypt: bool) -> Option<()> {
    let last_len = if data.len().is_multiple_of(BLOCK) { BLOCK } else { data.len() % BLOCK };
    let head_len = data.len().checked_sub(last_len)?;
    let Some(tail) = head_len.checked_sub(BLOCK) else {
        let schedule = if encrypt { &key.encryption } else { &key.decryption };
        schedule.cbc(&mut iv, data, encrypt);
        return (last_len == BLOCK).then_some(());
    };
    // In the middle the last block comes first, as in CS3.
    let is_swapped = mode == Mode::CbcCs3 || (mode == Mode::CbcCs2 && last_len < BLOCK);
    if !encrypt && !is_swapped {
        data[tail..].rotate_left(last_len);
    }
    let (head, last) = data.split_at_mut(head_len);
    let mut block = Wiped([0; BLOCK]);
    if encrypt {
        key.encryption.cbc(&mut iv, head, true);
        block.0[..last_len].copy_from_slice(last);
        key.encryption.cbc(&mut iv, &mut block.0, true);
        last.copy_from_slice(&head[tail..][..last_len]);
        head[tail..].copy_from_slice(&block.0);
    } else {
        block.0.copy_from_slice(&head[tail..]);
        key.decryption.decrypt_block(&mut block.0);
        // Behind the text, where there were zeros, is what was left out of the ciphertext before.
        head[tail..][..last_len].copy_from_slice(last);
        head[tail + last_len..].copy_from_slice(&block.0[last_len..]);
        for (byte, text) in last.iter_mut().zip(&block.0) {
            *byte ^= text;
        }
        key.decryption.cbc(&mut iv, head, false);
    }
    if encrypt && !is_swapped {
        data[tail..].rotate_left(BLOCK);
    }
    Some(())
}

fn ecb(
    key: &EcbKey,
    data: &mut [u8],
    encrypt: bool,
    bulk: *const sys::EVP_CIPHER,
    scratch: &mut CipherScratch,
) -> OpStatus {
    if data.len() >= ECB_BULK_LEN {
        let ok = key.raw.load(scratch, bulk, encrypt) && scratch.update(data);
        return if ok { OpStatus::Done } else { op_fault() };
    }
    for block in data.as_chunks_mut::<{ aes::BLOCK }>().0 {
        if encrypt {
            key.encryption.encrypt_block(block);
        } else {
            key.decryption.decrypt_block(block);
        }
    }
    OpStatus::Done
}

fn xts_256(key: &RawKey, op: &mut OpBuffers<'_>, encrypt: bool, scratch: &mut CipherScratch) -> OpStatus {
    let Ok(iv) = op.iv.try_into() else { return OpStatus::EngineFault };
    // SAFETY: the function returns a static table.
    let cipher = unsafe { sys::EVP_aes_256_xts() };
    let ok = key.load(scratch, cipher, encrypt) && scratch.set_iv(iv) && scratch.update(op.data);
    if ok { OpStatus::Done } else { op_fault() }
}

fn des<K: DesModes + 'static>(op: &mut OpBuffers<'_>, suite: Suite, encrypt: bool) -> OpStatus {
    let Some(key) = state::<K>(op, suite) else { return OpStatus::EngineFault };
    if matches!(suite, Suite::Cipher(_, Mode::Ecb)) {
        key.ecb(op.data, encrypt);
        return OpStatus::Done;
    }
    let Ok(iv) = <[u8; des::BLOCK]>::try_from(op.iv) else { return OpStatus::EngineFault };
    key.cbc(iv, op.data, encrypt);
    OpStatus::Done
}

fn evp_ecb(size: AesSize) -> *const sys::EVP_CIPHER {
    // SAFETY: each function returns a static table.
    unsafe {
        match size {
            AesSize::Aes128 => sys::EVP_aes_128_ecb(),
            AesSize::Aes192 => sys::EVP_aes_192_ecb(),
            AesSize::Aes256 => sys::EVP_aes_256_ecb(),
        }
    }
}
