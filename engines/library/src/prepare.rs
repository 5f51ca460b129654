//! Keys on their way in: what every suite asks of a key's bytes. The states that come of them are each family's own.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Direction, Error, KeyMaterial, PreparedKey, Refusal, Result, Suite, capability};

use crate::engine::NAME;
use crate::{CAPABILITIES, aead, chain, cipher, mac, public, stream};

/// Prepares a key for a suite.
///
/// # Errors
/// `Refused`: with `EngineUnavailable` when the engine does not run the suite, with `KeyUnsuitable` when form, length,
/// encoding or parameters do not suit it. `EngineFault` when AWS-LC fails.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    let claimed = [Direction::Encrypt, Direction::Decrypt]
        .into_iter()
        .any(|direction| capability::find(CAPABILITIES, suite, direction).is_some());
    if !claimed {
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
        Suite::Aead(aead) => aead::prepare(key, aead),
        Suite::Mac(mac) => mac::prepare(key, mac),
        Suite::Chain(chain) => chain::prepare(key, chain),
        _ => Err(Error::key(suite, KeyProblem::Form)),
    }
}
