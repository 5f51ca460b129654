//! Keys on their way in: what every suite asks of a key's bytes, and the form that its kernel reads.

use std::sync::Arc;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, BlockCipher, Mac, Mode, StreamCipher};
use ciphermill_contract::{Direction, Error, KeyMaterial, PreparedKey, Refusal, Result, Suite, capability};
use zeroize::Zeroizing;

use crate::capabilities::CAPABILITIES;
use crate::keys::{Halves, KeyTable, prepared};
use crate::public;
use crate::trouble::NAME;

/// Prepares keys for a suite and puts them on the device together.
pub(crate) fn prepare_many(table: &Arc<KeyTable>, keys: &[KeyMaterial<'_>], suite: Suite) -> Vec<Result<PreparedKey>> {
    let forms: Vec<Result<Halves>> = keys.iter().map(|key| halves(key, suite)).collect();
    let good: Vec<&[u8]> = forms.iter().flatten().map(|halves| halves.device.as_slice()).collect();
    match table.insert(&good) {
        Ok(resident) => {
            let mut resident = resident.into_iter();
            let unavailable = || Error::Refused(Refusal::EngineUnavailable(NAME.to_owned()));
            let outcome = |halves: Result<Halves>| {
                let Halves { host, .. } = halves?;
                resident.next().map(|key| prepared(suite, key, host)).ok_or_else(unavailable)
            };
            forms.into_iter().map(outcome).collect()
        }
        Err(trouble) => forms.into_iter().map(|form| form.and(Err(trouble.into()))).collect(),
    }
}

/// Checks a key and works out its halves.
fn halves(key: &KeyMaterial<'_>, suite: Suite) -> Result<Halves> {
    let both = [Direction::Encrypt, Direction::Decrypt];
    if !both.into_iter().any(|direction| capability::find(CAPABILITIES, suite, direction).is_some()) {
        return Err(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned())));
    }
    suite.check_key(key)?;
    if public::takes(suite) {
        return public::prepare(key, suite).map_err(|problem| Error::key(suite, problem));
    }
    let form = match suite {
        Suite::Cipher(BlockCipher::Aes(_), Mode::Xts) => crate::aes::prepare_xts(key.bytes),
        Suite::Cipher(BlockCipher::Aes(_), _) => crate::aes::prepare(key.bytes),
        Suite::Cipher(BlockCipher::Des | BlockCipher::TripleDes, _) => crate::des::prepare(key.bytes),
        Suite::Cipher(BlockCipher::Blowfish, _) => Ok(crate::legacy::prepare_blowfish(key.bytes)),
        Suite::Cipher(BlockCipher::Khufu, _) => Ok(crate::legacy::prepare_khufu(key.bytes)),
        Suite::Cipher(BlockCipher::Khafre, _) => crate::legacy::prepare_khafre(key.bytes),
        Suite::Aead(Aead::AesGcm(_)) | Suite::Mac(Mac::Gmac(_)) => crate::aes::prepare_gcm(key.bytes),
        Suite::Stream(StreamCipher::ChaCha20) | Suite::Aead(Aead::ChaCha20Poly1305) | Suite::Mac(Mac::Poly1305) => {
            // The eight words as they are.
            Ok(Zeroizing::new(key.bytes.to_vec()))
        }
        Suite::Stream(StreamCipher::Rc4) => Ok(crate::legacy::prepare_rc4(key.bytes)),
        Suite::Stream(StreamCipher::Seal3) => crate::legacy::prepare_seal(key.bytes),
        Suite::Mac(Mac::Hmac(digest)) => crate::hash::prepare(digest, key.bytes),
        _ => Err(KeyProblem::Parameters),
    };
    let device = form.map_err(|problem| Error::key(suite, problem))?;
    Ok(Halves { device, host: None })
}
