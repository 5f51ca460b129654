//! What is taken as a whole: AES-GCM-SIV (RFC 8452), which derives a key an operation.

use aes_gcm_siv::aead::consts::{U12, U16};
use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use ciphermill_contract::OpStatus;
use ciphermill_contract::error::KeyProblem;

use crate::aead::Scheme;
use crate::tag;
use ciphermill_contract::Direction;

struct Packaged<A>(A);

/// A scheme with 12-byte nonces and 16-byte tags under the key `bytes`.
///
/// # Errors
/// `Length` when the scheme has no keys of that length.
pub(super) fn packaged<A>(bytes: &[u8]) -> Result<Box<dyn Scheme>, KeyProblem>
where
    A: AeadInOut<NonceSize = U12, TagSize = U16> + KeyInit + Send + Sync + 'static,
{
    Ok(Box::new(Packaged(A::new_from_slice(bytes).map_err(|_| KeyProblem::Length)?)))
}

impl<A> Scheme for Packaged<A>
where
    A: AeadInOut<NonceSize = U12, TagSize = U16> + Send + Sync,
{
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        let Ok(nonce) = <&[u8; 12]>::try_from(nonce) else { return OpStatus::EngineFault };
        match self.0.encrypt_inout_detached(nonce.into(), aad, data.into()) {
            Ok(full) => tag::settle(Direction::Encrypt, &full, tag),
            Err(_) => OpStatus::EngineFault,
        }
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let Ok(nonce) = <&[u8; 12]>::try_from(nonce) else { return OpStatus::EngineFault };
        let Ok(tag) = <&[u8; 16]>::try_from(tag) else { return OpStatus::EngineFault };
        match self.0.decrypt_inout_detached(nonce.into(), aad, data.into(), tag.into()) {
            Ok(()) => OpStatus::Done,
            Err(_) => OpStatus::AuthFailed,
        }
    }
}
