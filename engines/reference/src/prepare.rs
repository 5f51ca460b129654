//! Keys on their way in: what every suite asks of a key's bytes, and the state that each family keeps of them.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{BlockCipher, Mac, Mode};
use ciphermill_contract::{Error, KeyMaterial, PreparedKey, Result, Suite};

use crate::aead::AeadKey;
use crate::block::{self, BlockKey, WrapKey, XtsKey};
use crate::chain::ChainKey;
use crate::fpe::FpeKey;
use crate::mac::{KmacKey, MacKey};
use crate::public;
use crate::stream::StreamKey;

/// Prepares a key for a suite.
///
/// # Errors
/// As [`Suite::check_key`]; for public-key suites see [`public::prepare`].
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    if suite.is_public_key() {
        return public::prepare(key, suite);
    }
    suite.check_key(key)?;
    let prepared = match suite {
        Suite::Cipher(cipher, Mode::Xts) => xts(cipher, key.bytes).map(PreparedKey::new),
        Suite::Cipher(cipher, _) => BlockKey::new(cipher, key.bytes).map(PreparedKey::new),
        Suite::Stream(stream) => StreamKey::new(stream, key.bytes).map(PreparedKey::new),
        Suite::Aead(aead) => AeadKey::new(aead, key.bytes).map(PreparedKey::new),
        Suite::Mac(Mac::Kmac(_)) => Ok(PreparedKey::new(KmacKey::new(key.bytes))),
        Suite::Mac(mac) => MacKey::new(mac, key.bytes).map(PreparedKey::new),
        Suite::Chain(chain) => ChainKey::new(chain, key.bytes).map(PreparedKey::new),
        Suite::Wrap(wrap) => WrapKey::new(wrap, key.bytes).map(PreparedKey::new),
        Suite::Fpe(ff1) => FpeKey::new(ff1, key.bytes).map(PreparedKey::new),
        _ => Err(KeyProblem::Form),
    };
    prepared.map_err(|problem| Error::key(suite, problem))
}

/// An XTS key's two halves; the first is for the data, the second for the tweak (IEEE 1619, 5.1).
fn xts(cipher: BlockCipher, bytes: &[u8]) -> Result<XtsKey, KeyProblem> {
    let BlockCipher::Aes(size) = cipher else { return Err(KeyProblem::Parameters) };
    let (data, tweak) = bytes.split_at_checked(size.key_len()).ok_or(KeyProblem::Length)?;
    Ok(XtsKey { data: block::aes(size, data)?, tweak: block::aes(size, tweak)? })
}
