//! ML-KEM (FIPS 203).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Kem;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use ml_kem::kem::{Ciphertext, DecapsulationKey, Decapsulator, EncapsulationKey, Kem as KemSet, KeyExport, SharedKey};
use ml_kem::{B32, Decapsulate, KeyInit, MlKem512, MlKem768, MlKem1024, TryKeyInit};
use zeroize::Zeroize;

use super::{Outcome, Pair, put_output, put_tag, state};

type KemPair<K> = Pair<DecapsulationKey<K>, EncapsulationKey<K>>;

/// A key of one parameter set.
enum KemKey {
    MlKem512(KemPair<MlKem512>),
    MlKem768(KemPair<MlKem768>),
    MlKem1024(KemPair<MlKem1024>),
}

/// Prepares a seed `d ‖ z` or an encapsulation key.
///
/// # Errors
/// `Length`; `Encoding` when a coefficient of an encapsulation key is not reduced (FIPS 203, 7.2).
pub(super) fn prepare(key: &KeyMaterial<'_>, kem: Kem) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::new(match kem {
        Kem::MlKem512 => KemKey::MlKem512(pair::<MlKem512>(key, kem)?),
        Kem::MlKem768 => KemKey::MlKem768(pair::<MlKem768>(key, kem)?),
        Kem::MlKem1024 => KemKey::MlKem1024(pair::<MlKem1024>(key, kem)?),
    }))
}

/// Encapsulates or decapsulates.
pub(super) fn run(kem: Kem, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    match (state(buffers)?, kem) {
        (KemKey::MlKem512(pair), Kem::MlKem512) => {
            run_with::<MlKem512>(pair, direction, buffers, |public, coins| public.encapsulate_deterministic(coins))
        }
        (KemKey::MlKem768(pair), Kem::MlKem768) => {
            run_with::<MlKem768>(pair, direction, buffers, |public, coins| public.encapsulate_deterministic(coins))
        }
        (KemKey::MlKem1024(pair), Kem::MlKem1024) => {
            run_with::<MlKem1024>(pair, direction, buffers, |public, coins| public.encapsulate_deterministic(coins))
        }
        _ => Err(OpStatus::EngineFault),
    }
}

fn pair<K>(key: &KeyMaterial<'_>, kem: Kem) -> Result<KemPair<K>, KeyProblem>
where
    K: KemSet,
    DecapsulationKey<K>: KeyInit + Decapsulator<Kem = K>,
    EncapsulationKey<K>: TryKeyInit,
{
    match key.form {
        KeyForm::Private => {
            let private = DecapsulationKey::<K>::new_from_slice(key.bytes).map_err(|_| KeyProblem::Length)?;
            Ok(Pair { public: private.encapsulation_key().clone(), private: Some(private) })
        }
        _ if key.bytes.len() != kem.public_len() => Err(KeyProblem::Length),
        _ => {
            let public = EncapsulationKey::<K>::new_from_slice(key.bytes).map_err(|_| KeyProblem::Encoding)?;
            Ok(Pair { public, private: None })
        }
    }
}

/// The encapsulation key of a seed.
pub(super) fn public_of<K>(seed: &[u8]) -> Option<Vec<u8>>
where
    K: KemSet,
    DecapsulationKey<K>: KeyInit + Decapsulator<Kem = K>,
    EncapsulationKey<K>: KeyExport,
{
    let private = DecapsulationKey::<K>::new_from_slice(seed).ok()?;
    Some(private.encapsulation_key().to_bytes().to_vec())
}

/// `encapsulate` is given the random message `m`, so that missing random bytes are a fault and no panic.
fn run_with<K>(
    pair: &KemPair<K>,
    direction: Direction,
    buffers: &mut OpBuffers<'_>,
    encapsulate: impl FnOnce(&EncapsulationKey<K>, &B32) -> (Ciphertext<K>, SharedKey<K>),
) -> Outcome
where
    K: KemSet,
    DecapsulationKey<K>: Decapsulate<Kem = K>,
{
    let mut secret = match direction {
        Direction::Encrypt => {
            let mut coins = B32::default();
            getrandom::fill(&mut coins).map_err(|_| OpStatus::EngineFault)?;
            let (ciphertext, secret) = encapsulate(&pair.public, &coins);
            coins.as_mut_slice().zeroize();
            put_tag(buffers, &ciphertext)?;
            secret
        }
        // Damaged ciphertexts yield another secret (FIPS 203, 6.3).
        Direction::Decrypt => pair.private()?.decapsulate_slice(buffers.tag).map_err(|_| OpStatus::EngineFault)?,
    };
    let outcome = put_output(buffers, &secret);
    secret.as_mut_slice().zeroize();
    outcome
}
