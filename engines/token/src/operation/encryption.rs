//! RSA encryption (PKCS#11 3.1, 6.1.6 and 6.1.8).

use ciphermill_contract::suite::PublicEncryption;
use ciphermill_contract::{OpBuffers, OpStatus};
use cryptoki_sys::{CK_RV, CKM_RSA_PKCS};
use zeroize::Zeroizing;

use super::{Outcome, judge};
use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::Half;
use crate::mechanism::Mechanism;
use crate::session::{Call, Session};

/// A message that a token encrypts and decrypts where it is not clear whether it still can.
const TEXT: &[u8] = b"is it there";

/// Encrypts.
pub(super) fn encrypt(key: &TokenKey, encryption: PublicEncryption, buffers: &mut OpBuffers<'_>) -> Outcome {
    let mechanism = mechanism(encryption).ok_or(Failure::Wrong)?;
    let input = Zeroizing::new(buffers.data.get(..buffers.input_len).ok_or(Failure::Wrong)?.to_vec());
    let len = encryption.size().len();
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
        PublicEncryption::RsaRaw(_) => None,
    }
}
