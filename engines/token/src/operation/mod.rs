//! Operations of each suite on a token: one file a family.

mod agree;
mod cipher;
mod encryption;
mod mac;
mod sign;

use ciphermill_contract::{Direction, OpBuffers, OpStatus, Reason, Suite};
use cryptoki_sys::{
    CK_RV, CKR_AEAD_DECRYPT_FAILED, CKR_DATA_INVALID, CKR_DATA_LEN_RANGE, CKR_DEVICE_ERROR, CKR_ENCRYPTED_DATA_INVALID,
    CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_FUNCTION_FAILED, CKR_GENERAL_ERROR, CKR_KEY_FUNCTION_NOT_PERMITTED,
};

use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::Half;

/// How an operation ended: with a status, or in a failure of the token.
type Outcome = Result<OpStatus, Failure>;

/// What a private key was asked for, and is not: the key table has one that does.
const UNSUITABLE: OpStatus = OpStatus::Refused(Reason::KeyUnsuitable);

/// Runs one operation.
pub(crate) fn run(key: &TokenKey, suite: Suite, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    if !key.has(Half::of(suite, direction)) {
        return UNSUITABLE;
    }
    let outcome = match (suite, direction) {
        (Suite::Sign(signature), Direction::Encrypt) => sign::sign(key, signature, buffers),
        (Suite::Sign(signature), Direction::Decrypt) => sign::verify(key, signature, buffers),
        (Suite::PublicEncrypt(encryption), Direction::Encrypt) => encryption::encrypt(key, encryption, buffers),
        (Suite::PublicEncrypt(encryption), Direction::Decrypt) => encryption::decrypt(key, encryption, buffers),
        (Suite::Agree(agreement), _) => agree::agree(key, agreement, buffers),
        (Suite::Cipher(_, mode), _) => cipher::cipher(key, mode, direction, buffers),
        (Suite::Aead(_), Direction::Encrypt) => cipher::seal(key, buffers),
        (Suite::Aead(_), Direction::Decrypt) => cipher::open(key, buffers),
        (Suite::Mac(mac), _) => mac::mac(key, mac, direction, buffers),
        _ => Err(Failure::Wrong),
    };
    match outcome {
        Ok(status) => status,
        Err(Failure::Call(CKR_KEY_FUNCTION_NOT_PERMITTED)) => UNSUITABLE,
        Err(_) => OpStatus::EngineFault,
    }
}

/// Whose fault it is that something was not decrypted.
enum Blame {
    Data,
    /// The code does not tell. Tokens are known that say so of a wrong padding or tag.
    Unknown,
    Token,
}

impl Blame {
    fn of(code: CK_RV) -> Blame {
        match code {
            CKR_AEAD_DECRYPT_FAILED
            | CKR_DATA_INVALID
            | CKR_DATA_LEN_RANGE
            | CKR_ENCRYPTED_DATA_INVALID
            | CKR_ENCRYPTED_DATA_LEN_RANGE => Blame::Data,
            CKR_DEVICE_ERROR | CKR_FUNCTION_FAILED | CKR_GENERAL_ERROR => Blame::Unknown,
            _ => Blame::Token,
        }
    }
}

/// What becomes of an operation whose decryption ended with a code. Where that does not tell whose fault it is, the token is asked by
/// `is_sound` for something that it must be able to: every kind of damage then has the same status, and a token that has failed none.
fn judge(code: CK_RV, is_sound: impl FnOnce() -> Result<bool, CK_RV>) -> Outcome {
    match Blame::of(code) {
        Blame::Data => Ok(OpStatus::AuthFailed),
        Blame::Unknown if is_sound() == Ok(true) => Ok(OpStatus::AuthFailed),
        _ => Err(Failure::Call(code)),
    }
}
