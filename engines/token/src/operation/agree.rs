//! Key agreement (PKCS#11 3.1, 6.3.17): the secret is derived as an object, read, and destroyed.

use ciphermill_contract::suite::Agreement;
use ciphermill_contract::{OpBuffers, OpStatus, Reason};
use cryptoki_sys::{
    CK_ULONG, CKA_CLASS, CKA_EXTRACTABLE, CKA_KEY_TYPE, CKA_PRIVATE, CKA_SENSITIVE, CKA_TOKEN, CKA_VALUE,
    CKA_VALUE_LEN, CKK_GENERIC_SECRET, CKO_SECRET_KEY,
};

use super::Outcome;
use crate::curve;
use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::{Half, NO, YES};
use crate::mechanism::Mechanism;

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Agrees with the peer whose point is the input. Whether it is on the curve is found out here: tokens are not relied on for that, and
/// a private key is never multiplied with another point.
pub(super) fn agree(key: &TokenKey, agreement: Agreement, buffers: &mut OpBuffers<'_>) -> Outcome {
    let Agreement::Ecdh(curve) = agreement else { return Err(Failure::Wrong) };
    let is_point = buffers.input.first() == Some(&UNCOMPRESSED) && curve::uncompressed(curve, buffers.input).is_some();
    if !is_point {
        return Ok(OpStatus::BadInput(Reason::BadPublicValue));
    }
    let len = agreement.secret_len();
    let (class, key_type) = (CKO_SECRET_KEY.to_ne_bytes(), CKK_GENERIC_SECRET.to_ne_bytes());
    let value_len = (len as CK_ULONG).to_ne_bytes();
    let template: [(_, &[u8]); 7] = [
        (CKA_CLASS, &class),
        (CKA_KEY_TYPE, &key_type),
        (CKA_TOKEN, NO),
        (CKA_PRIVATE, NO),
        (CKA_SENSITIVE, NO),
        (CKA_EXTRACTABLE, YES),
        (CKA_VALUE_LEN, &value_len),
    ];
    let secret = key.token().with(|connection| {
        let session = &connection.session;
        let handle = key.at(connection, Half::Own)?;
        let derived = session.derive(&Mechanism::agreement(buffers.input), handle, &template)?;
        let secret = session.attribute(derived, CKA_VALUE);
        session.destroy(derived)?;
        Ok(secret?)
    })?;
    if secret.len() != len {
        return Err(Failure::Wrong);
    }
    buffers.data.get_mut(..len).ok_or(Failure::Wrong)?.copy_from_slice(&secret);
    buffers.output_len = len;
    Ok(OpStatus::Done)
}
