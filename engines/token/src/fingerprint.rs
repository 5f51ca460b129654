//! What a secret key makes of data that are always the same. It tells whether a name still means the key that it meant, since secret keys
//! have no public half. It is kept like a secret, and no caller sees it.

use ciphermill_contract::{Suite, suite::Aead};
use cryptoki_sys::{CK_OBJECT_HANDLE, CK_RV, CKR_MECHANISM_INVALID};
use zeroize::Zeroizing;

use crate::mechanism::{BLOCK_LEN, Mechanism};
use crate::session::{Call, Session};

const TEXT: [u8; BLOCK_LEN] = *b"token identities";

/// Bytes of the longest one, an HMAC of SHA-512.
const LEN_MAX: usize = 64;

/// The fingerprint of a key by the suite's own mechanism, the only one that it is sure to permit.
///
/// # Errors
/// The code of the call that failed.
pub(crate) fn fingerprint(session: &Session, suite: Suite, key: CK_OBJECT_HANDLE) -> Result<Zeroizing<Vec<u8>>, CK_RV> {
    let iv = [0; BLOCK_LEN];
    let (call, mechanism) = match suite {
        Suite::Mac(mac) => (Call::Sign, Mechanism::mac(mac)),
        Suite::Cipher(_, mode) => (Call::Encrypt, Mechanism::cipher(mode, &iv)),
        Suite::Aead(Aead::AesGcm(_)) => (Call::Encrypt, Some(Mechanism::gcm(&iv[..12], &TEXT, BLOCK_LEN))),
        _ => (Call::Encrypt, None),
    };
    let mechanism = mechanism.ok_or(CKR_MECHANISM_INVALID)?;
    // Of GCM the tag alone: a text would show its key stream.
    let text: &[u8] = if let Suite::Aead(_) = suite { &[] } else { &TEXT };
    let mut made = Zeroizing::new(vec![0; LEN_MAX]);
    session.begin(call, &mechanism, key)?;
    let len = session.finish(call, text, &mut made)?;
    made.truncate(len);
    Ok(made)
}
