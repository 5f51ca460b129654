//! AES (PKCS#11 3.1, 6.13): without authentication in ECB, CBC and counter mode, and GCM.

use ciphermill_contract::suite::Mode;
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use cryptoki_sys::{CK_OBJECT_HANDLE, CK_RV};
use zeroize::Zeroizing;

use super::{Outcome, judge};
use crate::failure::Failure;
use crate::key::TokenKey;
use crate::kind::Half;
use crate::mechanism::{BLOCK_LEN, Mechanism};
use crate::session::{Call, Session};

/// Bytes of the tag that a token is tried with.
const TRIAL_TAG_LEN: usize = 16;

/// Enciphers or deciphers.
pub(super) fn cipher(key: &TokenKey, mode: Mode, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    let call = if direction == Direction::Encrypt { Call::Encrypt } else { Call::Decrypt };
    let data = buffers.data.get_mut(..buffers.input_len).ok_or(Failure::Wrong)?;
    if data.is_empty() {
        return Ok(OpStatus::Done);
    }
    let input = Zeroizing::new(data.to_vec());
    let first = before_wrap(mode, buffers.iv).min(data.len());
    let parts = [(buffers.iv, 0..first), (&[0; BLOCK_LEN], first..data.len())];
    key.token().with(|connection| {
        let handle = key.at(connection, Half::Own)?;
        for (iv, range) in parts.into_iter().filter(|(_, range)| !range.is_empty()) {
            let mechanism = Mechanism::cipher(mode, iv).ok_or(Failure::Wrong)?;
            let (from, to) = (input.get(range.clone()), data.get_mut(range));
            let (from, to) = from.zip(to).ok_or(Failure::Wrong)?;
            connection.session.begin(call, &mechanism, handle)?;
            if connection.session.finish(call, from, to)? != from.len() {
                return Err(Failure::Wrong);
            }
        }
        Ok(OpStatus::Done)
    })
}

/// Bytes until a counter of a whole block is zero again, which tokens refuse to go beyond. With a nonce that is more than any input has.
fn before_wrap(mode: Mode, iv: &[u8]) -> usize {
    let Some(counter) = iv.first_chunk().filter(|_| mode == Mode::Ctr) else { return usize::MAX };
    match u128::from_be_bytes(*counter) {
        0 => usize::MAX,
        counter => usize::try_from(counter.wrapping_neg()).unwrap_or(usize::MAX).saturating_mul(BLOCK_LEN),
    }
}

/// Seals. The tag comes behind the ciphertext.
pub(super) fn seal(key: &TokenKey, buffers: &mut OpBuffers<'_>) -> Outcome {
    let (data_len, tag_len) = (buffers.input_len, buffers.tag.len());
    let data = buffers.data.get_mut(..data_len).ok_or(Failure::Wrong)?;
    let mechanism = Mechanism::gcm(buffers.iv, buffers.aad, tag_len);
    let mut sealed = vec![0; data_len + tag_len];
    key.token().with(|connection| {
        let handle = key.at(connection, Half::Own)?;
        connection.session.begin(Call::Encrypt, &mechanism, handle)?;
        let written = connection.session.finish(Call::Encrypt, data, &mut sealed)?;
        if written == sealed.len() { Ok(()) } else { Err(Failure::Wrong) }
    })?;
    let (ciphertext, tag) = sealed.split_at_checked(data_len).ok_or(Failure::Wrong)?;
    data.copy_from_slice(ciphertext);
    buffers.tag.copy_from_slice(tag);
    Ok(OpStatus::Done)
}

/// Opens.
pub(super) fn open(key: &TokenKey, buffers: &mut OpBuffers<'_>) -> Outcome {
    let data = buffers.data.get_mut(..buffers.input_len).ok_or(Failure::Wrong)?;
    let sealed = [&*data, &*buffers.tag].concat();
    let mechanism = Mechanism::gcm(buffers.iv, buffers.aad, buffers.tag.len());
    // Tokens are known that want room for the tag too.
    let mut opened = Zeroizing::new(vec![0; sealed.len()]);
    let status = key.token().with(|connection| {
        let session = &connection.session;
        let handle = key.at(connection, Half::Own)?;
        session.begin(Call::Decrypt, &mechanism, handle)?;
        match session.finish(Call::Decrypt, &sealed, &mut opened) {
            Ok(written) if written == data.len() => Ok(OpStatus::Done),
            Ok(_) => Err(Failure::Wrong),
            Err(code) => judge(code, || is_sound(session, handle)),
        }
    })?;
    if status.is_done() {
        data.copy_from_slice(opened.get(..data.len()).ok_or(Failure::Wrong)?);
    }
    Ok(status)
}

/// Whether the token opens what it seals: nothing but a tag, which does not leave this function.
fn is_sound(session: &Session, key: CK_OBJECT_HANDLE) -> Result<bool, CK_RV> {
    let mechanism = Mechanism::gcm(&[0; 12], &[], TRIAL_TAG_LEN);
    let (mut tag, mut nothing) = (Zeroizing::new([0; TRIAL_TAG_LEN]), [0; TRIAL_TAG_LEN]);
    session.begin(Call::Encrypt, &mechanism, key)?;
    if session.finish(Call::Encrypt, &[], tag.as_mut_slice())? != TRIAL_TAG_LEN {
        return Ok(false);
    }
    session.begin(Call::Decrypt, &mechanism, key)?;
    Ok(session.finish(Call::Decrypt, tag.as_slice(), &mut nothing)? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_behind_the_last_block() {
        let mut iv = [0xff; 16];
        assert_eq!(before_wrap(Mode::Ctr, &iv), 16);
        iv[15] = 0xfe;
        assert_eq!(before_wrap(Mode::Ctr, &iv), 32);
        assert_eq!(before_wrap(Mode::Cbc, &iv), usize::MAX);
        assert_eq!(before_wrap(Mode::Ctr, &iv[..12]), usize::MAX);
        assert_eq!(before_wrap(Mode::Ctr, &[0; 16]), usize::MAX);
    }
}
