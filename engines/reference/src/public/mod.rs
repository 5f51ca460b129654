//! Public-key suites: signatures, encryption, agreement, encapsulation and key generation, each scheme by a RustCrypto crate where
//! there is one.
//!
//! A prepared key is a [`Pair`]: a private key with the public key derived from it, or a public key alone. A private
//! key therefore runs both directions; an operation that needs the missing half is refused.

mod capabilities;
mod curve25519;
mod curve448;
mod der;
mod dh;
mod ec;
mod generate;
mod legacy_curves;
mod ml_dsa;
mod ml_kem;
mod random;
mod rsa;
#[cfg(test)]
mod tests;

use std::any::Any;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Signature};
use ciphermill_contract::{
    Direction, Error, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Refusal, Result, Suite,
};

use crate::engine::NAME;

pub(crate) use capabilities::CAPABILITIES;

/// The public value that an operation brings along is malformed or not in the group.
const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// How one operation ended: well, or with a status.
type Outcome = Result<(), OpStatus>;

/// A public key and, where it is known, the private key that belongs to it. Private keys wipe themselves when dropped.
struct Pair<S, V> {
    private: Option<S>,
    public: V,
}

impl<S, V> Pair<S, V> {
    /// The private key, or the refusal of an operation that needs one.
    fn private(&self) -> Result<&S, OpStatus> {
        self.private.as_ref().ok_or(OpStatus::Refused(Reason::KeyUnsuitable))
    }
}

/// Prepares a key for a public-key suite.
///
/// # Errors
/// As [`Suite::check_key`]; `Refused` with `KeyUnsuitable` when the bytes do not parse or belong to other parameters, with `EngineUnavailable` for
/// suites that the engine does not run.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    if !CAPABILITIES.iter().any(|group| group.suites.contains(&suite)) {
        return Err(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned())));
    }
    suite.check_key(key)?;
    let prepared = match suite {
        Suite::Sign(Signature::Rsa(size, ..)) => rsa::prepare(key, size),
        Suite::Sign(Signature::Ecdsa(curve)) | Suite::Agree(Agreement::Ecdh(curve)) if curve.is_legacy() => {
            legacy_curves::prepare(key, curve)
        }
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) => ec::prepare_ecdsa(key, curve),
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => curve25519::prepare_ed25519(key),
        Suite::Sign(Signature::MlDsa(set)) => ml_dsa::prepare(key, set),
        Suite::PublicEncrypt(encryption) => rsa::prepare(key, encryption.size()),
        Suite::Agree(Agreement::Dh(group)) => dh::prepare(key, group),
        Suite::Agree(Agreement::Ecdh(curve)) => ec::prepare_ecdh(key, curve),
        Suite::Agree(Agreement::X25519) => curve25519::prepare_x25519(key),
        Suite::Agree(Agreement::X448) => curve448::prepare(key),
        Suite::Kem(kem) => ml_kem::prepare(key, kem),
        _ => Err(KeyProblem::Form),
    };
    prepared.map_err(|problem| Error::key(suite, problem))
}

/// Runs one operation of a public-key suite.
pub(crate) fn process(suite: Suite, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let outcome = match suite {
        Suite::Sign(Signature::Rsa(size, padding, digest)) => rsa::sign(size, padding, digest, direction, buffers),
        Suite::Sign(Signature::Ecdsa(curve)) if curve.is_legacy() => legacy_curves::sign(curve, direction, buffers),
        Suite::Sign(Signature::Ecdsa(curve)) => ec::sign(curve, direction, buffers),
        Suite::Sign(Signature::EcdsaDigest(curve)) => ec::sign_digest(curve, direction, buffers),
        Suite::Sign(Signature::Ed25519) => curve25519::sign(direction, buffers, false),
        Suite::Sign(Signature::Ed25519Cofactored) => curve25519::sign(direction, buffers, true),
        Suite::Sign(Signature::MlDsa(set)) => ml_dsa::sign(set, direction, buffers),
        Suite::PublicEncrypt(encryption) => rsa::encrypt(encryption, direction, buffers),
        Suite::Agree(Agreement::Dh(group)) => dh::agree(group, buffers),
        Suite::Agree(Agreement::Ecdh(curve)) if curve.is_legacy() => legacy_curves::agree(curve, buffers),
        Suite::Agree(Agreement::Ecdh(curve)) => ec::agree(curve, buffers),
        Suite::Agree(Agreement::X25519) => curve25519::agree(buffers),
        Suite::Agree(Agreement::X448) => curve448::agree(buffers),
        Suite::Kem(kem) => ml_kem::run(kem, direction, buffers),
        Suite::Generate(pair) => generate::run(pair, buffers),
        _ => Err(OpStatus::EngineFault),
    };
    outcome.map_or_else(|status| status, |()| OpStatus::Done)
}

/// The prepared state of an operation's key; a fault when the key is missing or was prepared for something else.
fn state<'b, T: Any>(buffers: &OpBuffers<'b>) -> Result<&'b T, OpStatus> {
    crate::engine::state(buffers).ok_or(OpStatus::EngineFault)
}

/// Writes a signature or ciphertext at the operation's tag.
fn put_tag(buffers: &mut OpBuffers<'_>, bytes: &[u8]) -> Outcome {
    let room = buffers.tag.get_mut(..bytes.len()).ok_or(OpStatus::EngineFault)?;
    room.copy_from_slice(bytes);
    buffers.tag_written = bytes.len();
    Ok(())
}

/// Writes a ciphertext, message or secret at the operation's output.
fn put_output(buffers: &mut OpBuffers<'_>, bytes: &[u8]) -> Outcome {
    let room = buffers.data.get_mut(..bytes.len()).ok_or(OpStatus::EngineFault)?;
    room.copy_from_slice(bytes);
    buffers.output_len = bytes.len();
    Ok(())
}
