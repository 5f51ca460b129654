//! X25519 (RFC 7748) and Ed25519 (RFC 8032).
//!
//! Verification is the strict one: the key must be encoded canonically (RFC 8032, 5.1.3) and be of large order, `S` be
//! below the group's order, `R` be canonical and of large order, and `[S]B = R + [k]A` hold without the cofactor
//! (5.1.7 allows either equation). Whoever signs as RFC 8032 says passes it.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::{BAD_PUBLIC_VALUE, Outcome, Pair, put_output, put_tag, state};

type EdwardsKey = Pair<SigningKey, VerifyingKey>;

/// Prepares a seed or public key for Ed25519.
///
/// # Errors
/// `Length`; `Encoding` when a public key is no canonically encoded point; `Weak` when it has a small order.
pub(super) fn prepare_ed25519(key: &KeyMaterial<'_>) -> Result<PreparedKey, KeyProblem> {
    let bytes = Zeroizing::new(<[u8; 32]>::try_from(key.bytes).map_err(|_| KeyProblem::Length)?);
    let pair: EdwardsKey = match key.form {
        KeyForm::Private => {
            let private = SigningKey::from_bytes(&bytes);
            Pair { public: private.verifying_key(), private: Some(private) }
        }
        _ => Pair { public: edwards_point(&bytes)?, private: None },
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

/// Signs or verifies with Ed25519.
pub(super) fn sign(direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    let pair: &EdwardsKey = state(buffers)?;
    match direction {
        Direction::Encrypt => {
            let signature = pair.private()?.try_sign(buffers.input).map_err(|_| OpStatus::EngineFault)?;
            put_tag(buffers, &signature.to_bytes())
        }
        Direction::Decrypt => {
            let signature = Signature::from_slice(buffers.tag).map_err(|_| OpStatus::AuthFailed)?;
            pair.public.verify_strict(buffers.input, &signature).map_err(|_| OpStatus::AuthFailed)
        }
    }
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

fn edwards_point(bytes: &[u8; 32]) -> Result<VerifyingKey, KeyProblem> {
    let public = VerifyingKey::from_bytes(bytes).map_err(|_| KeyProblem::Encoding)?;
    if public.to_edwards().compress().as_bytes() != bytes {
        return Err(KeyProblem::Encoding);
    }
    if public.is_weak() { Err(KeyProblem::Weak) } else { Ok(public) }
}
