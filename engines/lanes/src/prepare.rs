//! Keys on their way in: what every suite asks of a key's bytes. The states that come of them are each family's own.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, BlockCipher, Mac, Signature, StreamCipher};
use ciphermill_contract::{Claims, Error, KeyMaterial, PreparedKey, Refusal, Result, Suite};

use crate::engine::NAME;
use crate::select::Kernels;

/// Prepares a key for a suite.
///
/// # Errors
/// `Refused`: with `EngineUnavailable` when the engine does not run the suite, with `KeyUnsuitable` when form, length or
/// parameters do not suit it.
pub(crate) fn prepare(kernels: &Kernels, claims: &Claims, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    check(claims, key, suite)?;
    let problem = |problem| Error::key(suite, problem);
    match suite {
        Suite::Cipher(BlockCipher::Des | BlockCipher::TripleDes, _) => {
            crate::des::prepare(key.bytes, suite).map_err(problem)
        }
        Suite::Stream(StreamCipher::ChaCha20) | Suite::Aead(Aead::ChaCha20Poly1305) | Suite::Mac(Mac::Poly1305) => {
            crate::chacha::prepare(key.bytes, suite).map_err(problem)
        }
        Suite::Mac(Mac::Hmac(_)) => crate::hash::prepare(key.bytes, suite).map_err(problem),
        suite if crate::legacy::runs(suite) => crate::legacy::prepare(key.bytes, suite).map_err(problem),
        suite if suite.is_public_key() => crate::public::prepare(kernels, key, suite).map_err(problem),
        #[cfg(target_arch = "x86_64")]
        Suite::Chain(chain) => crate::chain::prepare(kernels, key.bytes, chain).map_err(problem),
        #[cfg(target_arch = "x86_64")]
        Suite::Fpe(ff1) => {
            let aes = kernels.aes.ok_or_else(unavailable)?;
            crate::fpe::prepare(aes, key.bytes, ff1).map_err(problem)
        }
        #[cfg(target_arch = "x86_64")]
        _ => {
            let aes = kernels.aes.ok_or_else(unavailable)?;
            crate::aes::prepare(aes, key.bytes, suite).map_err(problem)
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => {
            let _ = kernels;
            Err(unavailable())
        }
    }
}

/// How a family prepares several keys side by side.
type PrepareMany = fn(&Kernels, &[KeyMaterial<'_>], Suite) -> Vec<Result<PreparedKey, KeyProblem>>;

/// Prepares several keys for a suite, side by side where a family can.
pub(crate) fn prepare_many(
    kernels: &Kernels,
    claims: &Claims,
    keys: &[KeyMaterial<'_>],
    suite: Suite,
) -> Vec<Result<PreparedKey>> {
    let side_by_side: PrepareMany = match suite {
        Suite::Kem(_) | Suite::Sign(Signature::MlDsa(_)) => crate::public::lattice::prepare,
        suite if crate::legacy::runs(suite) => |_, keys, suite| {
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes).collect();
            crate::legacy::prepare_many(&keys, suite)
        },
        _ => return keys.iter().map(|key| prepare(kernels, claims, key, suite)).collect(),
    };
    let checks: Vec<Result<()>> = keys.iter().map(|key| check(claims, key, suite)).collect();
    let good: Vec<KeyMaterial<'_>> =
        keys.iter().zip(&checks).filter(|(_, check)| check.is_ok()).map(|(key, _)| *key).collect();
    let mut prepared = side_by_side(kernels, &good, suite).into_iter();
    let outcome = |check: Result<()>| {
        check?;
        prepared.next().unwrap_or(Err(KeyProblem::Parameters)).map_err(|problem| Error::key(suite, problem))
    };
    checks.into_iter().map(outcome).collect()
}

/// What every suite asks of a key.
fn check(claims: &Claims, key: &KeyMaterial<'_>, suite: Suite) -> Result<()> {
    if !claims.contains(suite) {
        return Err(unavailable());
    }
    suite.check_key(key)
}

fn unavailable() -> Error {
    Error::Refused(Refusal::EngineUnavailable(NAME.to_owned()))
}
