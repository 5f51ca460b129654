//! ML-DSA (FIPS 204), hedged.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::MlDsaSet;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use getrandom::SysRng;
use ml_dsa::{
    EncodedVerifyingKey, ExpandedSigningKey, MlDsa44, MlDsa65, MlDsa87, MlDsaParams, Seed, Signature, VerifyingKey,
};
use zeroize::Zeroize;

use super::{Outcome, Pair, put_tag, state};

type DsaPair<P> = Pair<Box<ExpandedSigningKey<P>>, VerifyingKey<P>>;

/// A key of one parameter set.
enum DsaKey {
    MlDsa44(DsaPair<MlDsa44>),
    MlDsa65(DsaPair<MlDsa65>),
    MlDsa87(DsaPair<MlDsa87>),
}

/// Prepares a seed or a public key. Any bytes of the right length are a public key.
///
/// # Errors
/// `Length`.
pub(super) fn prepare(key: &KeyMaterial<'_>, set: MlDsaSet) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::new(match set {
        MlDsaSet::MlDsa44 => DsaKey::MlDsa44(pair(key)?),
        MlDsaSet::MlDsa65 => DsaKey::MlDsa65(pair(key)?),
        MlDsaSet::MlDsa87 => DsaKey::MlDsa87(pair(key)?),
    }))
}

/// Signs or verifies.
pub(super) fn sign(set: MlDsaSet, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    match (state(buffers)?, set) {
        (DsaKey::MlDsa44(pair), MlDsaSet::MlDsa44) => sign_with(pair, direction, buffers),
        (DsaKey::MlDsa65(pair), MlDsaSet::MlDsa65) => sign_with(pair, direction, buffers),
        (DsaKey::MlDsa87(pair), MlDsaSet::MlDsa87) => sign_with(pair, direction, buffers),
        _ => Err(OpStatus::EngineFault),
    }
}

fn pair<P: MlDsaParams>(key: &KeyMaterial<'_>) -> Result<DsaPair<P>, KeyProblem> {
    match key.form {
        KeyForm::Private => {
            let mut seed = Seed::try_from(key.bytes).map_err(|_| KeyProblem::Length)?;
            let private = Box::new(ExpandedSigningKey::from_seed(&seed));
            seed.as_mut_slice().zeroize();
            Ok(Pair { public: private.verifying_key(), private: Some(private) })
        }
        _ => {
            let encoded = EncodedVerifyingKey::<P>::try_from(key.bytes).map_err(|_| KeyProblem::Length)?;
            Ok(Pair { public: VerifyingKey::decode(&encoded), private: None })
        }
    }
}

/// The public key of a seed.
pub(super) fn public_of<P: MlDsaParams>(seed: &[u8]) -> Option<Vec<u8>> {
    let pair: DsaPair<P> = pair(&KeyMaterial::private(seed)).ok()?;
    Some(pair.public.encode().to_vec())
}

fn sign_with<P: MlDsaParams>(pair: &DsaPair<P>, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    match direction {
        Direction::Encrypt => {
            // Fails without random bytes, or after thousands of rejected candidates in a row.
            let signature = pair.private()?.sign_randomized(buffers.input, buffers.aad, &mut SysRng);
            put_tag(buffers, &signature.map_err(|_| OpStatus::EngineFault)?.encode())
        }
        Direction::Decrypt => {
            let signature = Signature::<P>::try_from(&*buffers.tag).map_err(|_| OpStatus::AuthFailed)?;
            let is_valid = pair.public.verify_with_context(buffers.input, buffers.aad, &signature);
            if is_valid { Ok(()) } else { Err(OpStatus::AuthFailed) }
        }
    }
}
