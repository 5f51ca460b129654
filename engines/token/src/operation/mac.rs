//! Authentication codes (PKCS#11 3.1, 6.13.12 and 6.23.4). A code that is to be verified is made and compared here, since mechanisms verify
//! whole codes alone.

use ciphermill_contract::suite::Mac;
use ciphermill_contract::{Direction, OpBuffers, OpStatus, Suite};
use cryptoki_sys::CKR_GENERAL_ERROR;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::Outcome;
use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::Half;
use crate::mechanism::Mechanism;
use crate::session::Call;

/// Makes a code, or compares one. Shorter codes are the first bytes of whole ones.
pub(super) fn mac(key: &TokenKey, mac: Mac, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    let mechanism = Mechanism::mac(mac).ok_or(Failure::Wrong)?;
    let mut code = Zeroizing::new(vec![0; Suite::Mac(mac).default_tag_len()]);
    key.token().with(|connection| {
        let handle = key.at(connection, Half::Own)?;
        connection.session.begin(Call::Sign, &mechanism, handle)?;
        let len = connection.session.finish(Call::Sign, buffers.input, &mut code)?;
        if len == code.len() { Ok(()) } else { Err(Failure::Call(CKR_GENERAL_ERROR)) }
    })?;
    let code = code.get(..buffers.tag.len()).ok_or(Failure::Wrong)?;
    match direction {
        Direction::Encrypt => buffers.tag.copy_from_slice(code),
        Direction::Decrypt if bool::from(code.ct_eq(buffers.tag)) => {}
        Direction::Decrypt => return Ok(OpStatus::AuthFailed),
    }
    Ok(OpStatus::Done)
}
