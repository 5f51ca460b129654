//! Authenticated encryption with associated data.
//!
//! Where a scheme can tell a forgery without decrypting, it does so first. SIV, GCM-SIV and OCB have to decrypt before
//! they can tell; the batch zeroes what they leave when the answer is no.

mod cbc_hmac;
mod ccm;
mod chacha;
mod gcm;
mod ocb;
mod packaged;
mod siv;

use aes::{Aes128, Aes256};
use aes_gcm_siv::AesGcmSiv;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use zeroize::Zeroizing;

use crate::block;
use crate::engine::state;
use cbc_hmac::CbcHmac;
use ccm::Ccm;
use chacha::{ChaCha, XChaCha};
use ocb::Ocb;
use packaged::packaged;
use siv::Siv;

pub(crate) use gcm::Gcm;

/// An AEAD under one key.
trait Scheme: Send + Sync {
    /// Encrypts `data` in place and fills `tag`.
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus;

    /// Decrypts `data` in place when `tag` is the right one. What `data` holds otherwise is for the caller to zero.
    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus;
}

/// The key of an AEAD.
pub(crate) struct AeadKey(Kind);

enum Kind {
    /// One whose ciphertext is as long as the text.
    Scheme(Box<dyn Scheme>),
    /// The one that pads.
    CbcHmac(Box<CbcHmac>),
}

impl AeadKey {
    /// Schedules and hash keys of `aead` for `bytes`.
    ///
    /// # Errors
    /// `Length` when the scheme has no keys of that length; `Parameters` for GCM-SIV with AES-192, which does not exist.
    pub(crate) fn new(aead: Aead, bytes: &[u8]) -> Result<AeadKey, KeyProblem> {
        Ok(AeadKey(Kind::Scheme(match aead {
            Aead::AesCbcHmac(size) => return Ok(AeadKey(Kind::CbcHmac(Box::new(CbcHmac::new(size, bytes)?)))),
            Aead::AesGcm(size) | Aead::AesGcmAnyIv(size) => Box::new(Gcm::new(block::aes(size, bytes)?)),
            Aead::AesCcm(size) => Box::new(Ccm::new(block::aes(size, bytes)?)),
            Aead::AesGcmSiv(AesSize::Aes128) => packaged::<AesGcmSiv<Aes128>>(bytes)?,
            Aead::AesGcmSiv(AesSize::Aes256) => packaged::<AesGcmSiv<Aes256>>(bytes)?,
            Aead::AesGcmSiv(AesSize::Aes192) => return Err(KeyProblem::Parameters),
            Aead::AesSiv(size) => Box::new(Siv::new(size, bytes)?),
            Aead::AesOcb(size) => Box::new(Ocb::new(block::aes(size, bytes)?)),
            Aead::ChaCha20Poly1305 => Box::new(ChaCha(raw(bytes)?)),
            Aead::XChaCha20Poly1305 => Box::new(XChaCha(raw(bytes)?)),
        })))
    }
}

/// A key of 32 bytes without a schedule.
fn raw(bytes: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeyProblem> {
    bytes.try_into().map(Zeroizing::new).map_err(|_| KeyProblem::Length)
}

/// Seals or opens one operation.
pub(crate) fn process(direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let Some(AeadKey(kind)) = state(buffers) else { return OpStatus::EngineFault };
    match (kind, direction) {
        (Kind::Scheme(scheme), Direction::Encrypt) => scheme.seal(buffers.iv, buffers.aad, buffers.data, buffers.tag),
        (Kind::Scheme(scheme), Direction::Decrypt) => scheme.open(buffers.iv, buffers.aad, buffers.data, buffers.tag),
        (Kind::CbcHmac(key), Direction::Encrypt) => key.seal(buffers),
        (Kind::CbcHmac(key), Direction::Decrypt) => key.open(buffers),
    }
}
