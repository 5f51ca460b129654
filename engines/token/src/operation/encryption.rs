//! RSA encryption (PKCS#11 3.1, 6.1.6 and 6.1.8), and the primitive without padding (6.1.11), which signs as well.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{PublicEncryption, RsaSize};
use ciphermill_contract::{OpBuffers, OpStatus, Reason};
use cryptoki_sys::{CK_RV, CKM_RSA_PKCS, CKM_RSA_X_509, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_MECHANISM_INVALID};
use zeroize::Zeroizing;

use super::{Outcome, judge};
use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::Half;
use crate::mechanism::Mechanism;
use crate::public;
use crate::session::{Call, Session};

/// A message that a token encrypts and decrypts where it is not clear whether it still can.
const TEXT: &[u8] = b"is it there";

/// Encrypts.
pub(super) fn encrypt(key: &TokenKey, encryption: PublicEncryption, buffers: &mut OpBuffers<'_>) -> Outcome {
    let mechanism = mechanism(encryption).ok_or(Failure::Wrong)?;
    let input = Zeroizing::new(buffers.data.get(..buffers.input_len).ok_or(Failure::Wrong)?.to_vec());
    let len = encryption.size().len();
    if matches!(encryption, PublicEncryption::RsaRaw(_)) && !is_below_modulus(key, &input)? {
        return Ok(OpStatus::BadInput(Reason::NotBelowModulus));
    }
    let room = buffers.data.get_mut(..len).ok_or(Failure::Wrong)?;
    let written = key.token().with(|connection| {
        let handle = key.at(connection, Half::Public)?;
        connection.session.begin(Call::Encrypt, &mechanism, handle)?;
        Ok(connection.session.finish(Call::Encrypt, &input, room)?)
    })?;
    if written != len {
        return Err(Failure::Wrong);
    }
    buffers.output_len = len;
    Ok(OpStatus::Done)
}

/// Decrypts. All ciphertexts that hold no message end alike (RFC 8017, 7.1.2 and 7.2.2): what a token says of them goes no further.
pub(super) fn decrypt(key: &TokenKey, encryption: PublicEncryption, buffers: &mut OpBuffers<'_>) -> Outcome {
    if let PublicEncryption::RsaRaw(size) = encryption {
        return raise_private(key, size, buffers);
    }
    let mechanism = mechanism(encryption).ok_or(Failure::Wrong)?;
    let input = buffers.data.get(..buffers.input_len).ok_or(Failure::Wrong)?.to_vec();
    let room = &mut *buffers.data;
    let written = key.token().with(|connection| {
        let session = &connection.session;
        let own = key.at(connection, Half::Own)?;
        session.begin(Call::Decrypt, &mechanism, own)?;
        match session.finish(Call::Decrypt, &input, room) {
            Ok(written) => Ok(Ok(written)),
            Err(code) => {
                let public = key.at(connection, Half::Public)?;
                judge(code, || is_sound(session, &mechanism, public, own)).map(Err)
            }
        }
    })?;
    match written {
        Ok(written) if encryption.message_len().contains(written) => {
            buffers.output_len = written;
            Ok(OpStatus::Done)
        }
        Ok(_) => Err(Failure::Wrong),
        Err(status) => Ok(status),
    }
}

/// The primitive of the private key (RFC 8017, 5.1.2 and 5.2.1: one function): as a signature, or as a decryption where the key does not
/// sign.
fn raise_private(key: &TokenKey, size: RsaSize, buffers: &mut OpBuffers<'_>) -> Outcome {
    let len = size.len();
    let input = Zeroizing::new(buffers.data.get(..buffers.input_len).ok_or(Failure::Wrong)?.to_vec());
    if !is_below_modulus(key, &input)? {
        return Ok(OpStatus::AuthFailed);
    }
    let mechanism = Mechanism::bare(CKM_RSA_X_509);
    let room = buffers.data.get_mut(..len).ok_or(Failure::Wrong)?;
    let written = key.token().with(|connection| {
        let session = &connection.session;
        let own = key.at(connection, Half::Own)?;
        let call = match session.begin(Call::Sign, &mechanism, own) {
            Ok(()) => Call::Sign,
            Err(CKR_KEY_FUNCTION_NOT_PERMITTED | CKR_MECHANISM_INVALID) => {
                session.begin(Call::Decrypt, &mechanism, own)?;
                Call::Decrypt
            }
            Err(code) => return Err(code.into()),
        };
        Ok(session.finish(call, &input, room)?)
    })?;
    if written != len {
        room.fill(0);
        return Err(Failure::Wrong);
    }
    buffers.output_len = len;
    Ok(OpStatus::Done)
}

/// Whether a number, as long as the modulus, is below it: no token is asked for what the primitive is not defined for.
fn is_below_modulus(key: &TokenKey, number: &[u8]) -> Result<bool, Failure> {
    let half = key.public().ok_or(Failure::Key(KeyProblem::Form))?;
    let [(_, modulus), _] = public::rsa_numbers(half).map_err(Failure::Key)?;
    Ok(number.len() == modulus.len() && number < modulus)
}

/// Whether the token decrypts what it encrypts.
fn is_sound(session: &Session, mechanism: &Mechanism<'_>, public: u64, own: u64) -> Result<bool, CK_RV> {
    let mut room = vec![0; 1024];
    session.begin(Call::Encrypt, mechanism, public)?;
    let len = session.finish(Call::Encrypt, TEXT, &mut room)?;
    let ciphertext = room.get(..len).unwrap_or_default().to_vec();
    session.begin(Call::Decrypt, mechanism, own)?;
    let len = session.finish(Call::Decrypt, &ciphertext, &mut room)?;
    Ok(room.get(..len) == Some(TEXT))
}

fn mechanism(encryption: PublicEncryption) -> Option<Mechanism<'static>> {
    match encryption {
        PublicEncryption::RsaPkcs1(_) => Some(Mechanism::bare(CKM_RSA_PKCS)),
        PublicEncryption::RsaOaep(_, digest) => Mechanism::oaep(digest),
        PublicEncryption::RsaRaw(_) => Some(Mechanism::bare(CKM_RSA_X_509)),
    }
}
