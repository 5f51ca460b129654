//! Keys on their way in: what every suite asks of a key's bytes. The states that come of them are each family's own.

use std::sync::LazyLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Aead;
use ciphermill_contract::{Claims, Error, KeyMaterial, PreparedKey, Refusal, Result, Suite};

use crate::capabilities::NAME;
use crate::{CAPABILITIES, aead, cbc_hmac, chain, cipher, mac, public, stream, wrap};

/// Prepares a key for a suite.
///
/// # Errors
/// `Refused`: with `EngineUnavailable` when the engine does not run the suite, with `KeyUnsuitable` when form, length,
/// encoding or parameters do not suit it. `EngineFault` when AWS-LC fails.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    static CLAIMS: LazyLock<Claims> = LazyLock::new(|| Claims::of(CAPABILITIES));
    if !CLAIMS.contains(suite) {
        return Err(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned())));
    }
    suite.check_key(key)?;
    if suite.is_public_key() { public::prepare(key, suite) } else { symmetric(key.bytes, suite) }
}

/// Prepares a secret whose length the suite takes.
fn symmetric(key: &[u8], suite: Suite) -> Result<PreparedKey> {
    match suite {
        Suite::Cipher(cipher, mode) => cipher::prepare(key, cipher, mode),
        Suite::Stream(stream) => stream::prepare(key, stream),
        Suite::Aead(Aead::AesCbcHmac(size)) => cbc_hmac::prepare(key, size),
        Suite::Aead(aead) => aead::prepare(key, aead),
        Suite::Mac(mac) => mac::prepare(key, mac),
        Suite::Chain(chain) => chain::prepare(key, chain),
        Suite::Wrap(_) => wrap::prepare(key, suite),
        _ => Err(Error::key(suite, KeyProblem::Form)),
    }
}
