//! X25519 (RFC 7748) and Ed25519 (RFC 8032).
//!
//! Verification is one of the contract's two ([`ed25519`]).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::acceptance::ed25519;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity as _;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha512};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::{BAD_PUBLIC_VALUE, Outcome, Pair, put_output, put_tag, state};

type EdwardsKey = Pair<SigningKey, VerifyingKey>;

/// Prepares a seed or public key for Ed25519.
///
/// # Errors
/// `Length`; `Encoding` when a public key is no point. The contract has looked at encoding and order.
pub(super) fn prepare_ed25519(key: &KeyMaterial<'_>) -> Result<PreparedKey, KeyProblem> {
    let bytes = Zeroizing::new(<[u8; 32]>::try_from(key.bytes).map_err(|_| KeyProblem::Length)?);
    let pair: EdwardsKey = match key.form {
        KeyForm::Private => {
            let private = SigningKey::from_bytes(&bytes);
            Pair { public: private.verifying_key(), private: Some(private) }
        }
        _ => {
            let public = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyProblem::Encoding)?;
            Pair { public, private: None }
        }
    };
    Ok(PreparedKey::new(pair))
}

/// Prepares a scalar for X25519.
///
/// # Errors
/// `Length`.
pub(super) fn prepare_x25519(key: &KeyMaterial<'_>) -> Result<PreparedKey, KeyProblem> {
    let bytes = Zeroizing::new(<[u8; 32]>::try_from(key.bytes).map_err(|_| KeyProblem::Length)?);
    Ok(PreparedKey::new(StaticSecret::from(*bytes)))
}

/// Signs or verifies with Ed25519, by the equation with the cofactor or without.
pub(super) fn sign(direction: Direction, buffers: &mut OpBuffers<'_>, with_cofactor: bool) -> Outcome {
    let pair: &EdwardsKey = state(buffers)?;
    match direction {
        Direction::Encrypt => {
            let signature = pair.private()?.try_sign(buffers.input).map_err(|_| OpStatus::EngineFault)?;
            put_tag(buffers, &signature.to_bytes())
        }
        Direction::Decrypt => {
            let signature = <&[u8; 64]>::try_from(&*buffers.tag).map_err(|_| OpStatus::AuthFailed)?;
            if !ed25519::is_strict(signature) {
                return Err(OpStatus::AuthFailed);
            }
            if with_cofactor {
                return holds_times_eight(&pair.public, buffers.input, signature).ok_or(OpStatus::AuthFailed);
            }
            let signature = Signature::from_bytes(signature);
            pair.public.verify_strict(buffers.input, &signature).map_err(|_| OpStatus::AuthFailed)
        }
    }
}

/// `[8]([S]B - R - [k]A) = 0` (RFC 8032, 5.1.7).
fn holds_times_eight(public: &VerifyingKey, message: &[u8], signature: &[u8; 64]) -> Option<()> {
    let (r, s) = (CompressedEdwardsY::from_slice(&signature[..32]).ok()?, signature.last_chunk()?);
    let s: Scalar = Option::from(Scalar::from_canonical_bytes(*s))?;
    let hash = Sha512::new().chain_update(r.as_bytes()).chain_update(public.as_bytes()).chain_update(message);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let point = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-public.to_edwards(), &s) - r.decompress()?;
    point.mul_by_cofactor().is_identity().then_some(())
}

/// Agrees with the peer whose coordinate is the input.
pub(super) fn agree(buffers: &mut OpBuffers<'_>) -> Outcome {
    let secret: &StaticSecret = state(buffers)?;
    let peer = <[u8; 32]>::try_from(buffers.input).map_err(|_| BAD_PUBLIC_VALUE)?;
    let shared = secret.diffie_hellman(&PublicKey::from(peer));
    // RFC 7748, 6.1: a peer of small order leads to zero.
    if !shared.was_contributory() {
        return Err(BAD_PUBLIC_VALUE);
    }
    put_output(buffers, shared.as_bytes())
}
