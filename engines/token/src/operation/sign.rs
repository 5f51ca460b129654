//! Signatures (PKCS#11 3.1, 6.1.6, 6.1.10, 6.3.12 and 6.3.14), over digests that are made here, so that a token sees no messages; Ed25519
//! takes the message itself.

use ciphermill_contract::suite::acceptance::ed25519;
use ciphermill_contract::suite::{SignPadding, Signature};
use ciphermill_contract::{OpBuffers, OpStatus};
use ciphermill_pairs::padding::digest_info;
use cryptoki_sys::{CKM_ECDSA, CKM_EDDSA, CKM_RSA_PKCS, CKR_SIGNATURE_INVALID, CKR_SIGNATURE_LEN_RANGE};

use super::Outcome;
use crate::digest;
use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::Half;
use crate::mechanism::Mechanism;
use crate::session::Call;

/// Signs. A token that writes another length than the suite's has not made a signature.
pub(super) fn sign(key: &TokenKey, signature: Signature, buffers: &mut OpBuffers<'_>) -> Outcome {
    let len = signature.len();
    let (mechanism, data) = mechanism(signature, buffers.input).ok_or(Failure::Wrong)?;
    let room = buffers.tag.get_mut(..len).ok_or(Failure::Wrong)?;
    let written = key.token().with(|connection| {
        let handle = key.at(connection, Half::Own)?;
        connection.session.begin(Call::Sign, &mechanism, handle)?;
        Ok(connection.session.finish(Call::Sign, &data, room)?)
    })?;
    if written != len {
        room.fill(0);
        return Err(Failure::Wrong);
    }
    buffers.tag_written = len;
    Ok(OpStatus::Done)
}

/// Verifies.
pub(super) fn verify(key: &TokenKey, signature: Signature, buffers: &OpBuffers<'_>) -> Outcome {
    let (mechanism, data) = mechanism(signature, buffers.input).ok_or(Failure::Wrong)?;
    if let Signature::Ed25519 = signature
        && !buffers.tag.first_chunk().is_some_and(ed25519::is_strict)
    {
        return Ok(OpStatus::AuthFailed);
    }
    key.token().with(|connection| {
        let handle = key.at(connection, Half::Public)?;
        connection.session.begin(Call::Verify, &mechanism, handle)?;
        match connection.session.verify(&data, buffers.tag) {
            Ok(()) => Ok(OpStatus::Done),
            Err(CKR_SIGNATURE_INVALID | CKR_SIGNATURE_LEN_RANGE) => Ok(OpStatus::AuthFailed),
            Err(code) => Err(code.into()),
        }
    })
}

/// The mechanism, and what the token is given: a message, a digest, or a `DigestInfo`.
fn mechanism(signature: Signature, input: &[u8]) -> Option<(Mechanism<'static>, Vec<u8>)> {
    Some(match signature {
        Signature::Rsa(_, SignPadding::Pkcs1, digest) => {
            (Mechanism::bare(CKM_RSA_PKCS), [digest_info(digest)?, &digest::of(digest, input)?].concat())
        }
        Signature::Rsa(_, SignPadding::Pss, digest) => (Mechanism::pss(digest)?, digest::of(digest, input)?),
        Signature::Ecdsa(curve) => (Mechanism::bare(CKM_ECDSA), digest::of(curve.digest(), input)?),
        // Of a longer digest the leftmost bits, as many as the order has (FIPS 186-5, 6.4.1); tokens may refuse to cut it.
        Signature::EcdsaDigest(curve) => {
            let len = input.len().min(curve.order_len());
            (Mechanism::bare(CKM_ECDSA), input.get(..len)?.to_vec())
        }
        Signature::Ed25519 | Signature::Ed25519Cofactored => (Mechanism::bare(CKM_EDDSA), input.to_vec()),
        _ => return None,
    })
}
