//! Key pairs, each from the operating system's random bytes.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use ciphermill_contract::suite::{Kem, KeyPair, MlDsaSet, RsaSize};
use ciphermill_contract::{OpBuffers, OpStatus};
use ciphermill_pairs::der::Pair;
use ciphermill_pairs::rsa::pair_of_primes;
use ml_dsa::{MlDsa44, MlDsa65, MlDsa87};
use ml_kem::{MlKem512, MlKem768, MlKem1024};
use rsa::RsaPrivateKey;
use rsa::traits::PrivateKeyParts;
use zeroize::Zeroizing;

use super::random::draw;
use super::{Outcome, curve448, ec, legacy_curves, ml_dsa as dsa, ml_kem as kem, put_output, put_tag};

/// Generates a pair: the private key is the output, the public key the tag.
pub(super) fn run(pair: KeyPair, buffers: &mut OpBuffers<'_>) -> Outcome {
    let pair = match pair {
        KeyPair::Rsa(size) => rsa_pair(size)?,
        KeyPair::X25519 => of_bytes(32, |scalar| {
            let scalar = Zeroizing::new(<[u8; 32]>::try_from(scalar).ok()?);
            Some(x25519_dalek::PublicKey::from(&x25519_dalek::StaticSecret::from(*scalar)).as_bytes().to_vec())
        })?,
        KeyPair::Ed25519 => of_bytes(32, |seed| {
            let seed = Zeroizing::new(<[u8; 32]>::try_from(seed).ok()?);
            Some(ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key().as_bytes().to_vec())
        })?,
        KeyPair::MlKem(Kem::MlKem512) => of_bytes(64, kem::public_of::<MlKem512>)?,
        KeyPair::MlKem(Kem::MlKem768) => of_bytes(64, kem::public_of::<MlKem768>)?,
        KeyPair::MlKem(Kem::MlKem1024) => of_bytes(64, kem::public_of::<MlKem1024>)?,
        KeyPair::MlDsa(MlDsaSet::MlDsa44) => of_bytes(32, dsa::public_of::<MlDsa44>)?,
        KeyPair::MlDsa(MlDsaSet::MlDsa65) => of_bytes(32, dsa::public_of::<MlDsa65>)?,
        KeyPair::MlDsa(MlDsaSet::MlDsa87) => of_bytes(32, dsa::public_of::<MlDsa87>)?,
        KeyPair::X448 => of_bytes(56, curve448::public_of)?,
        KeyPair::Ec(curve) if curve.is_legacy() => legacy_curves::generate(curve)?,
        KeyPair::Ec(curve) => ec::generate(curve)?,
    };
    put_output(buffers, &pair.private)?;
    put_tag(buffers, &pair.public)
}

/// A pair whose private key is `len` random bytes: a seed or a scalar that is clamped where it is used.
fn of_bytes(len: usize, public_of: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Result<Pair, OpStatus> {
    let mut private = Zeroizing::new(vec![0; len]);
    draw(&mut private)?;
    let public = public_of(&private).ok_or(OpStatus::EngineFault)?;
    Ok(Pair { private, public })
}

/// FIPS 186-5, A.1.3: primes at random. The crate wants a generator that cannot fail: ChaCha20 under a key of 256 random bits.
fn rsa_pair(size: RsaSize) -> Result<Pair, OpStatus> {
    let mut seed = Zeroizing::new([0; 32]);
    draw(&mut *seed)?;
    let mut generator = ChaCha20Rng::from_seed(*seed);
    loop {
        let key = RsaPrivateKey::new(&mut generator, size.bits()).map_err(|_| OpStatus::EngineFault)?;
        let [p, q] = key.primes() else { return Err(OpStatus::EngineFault) };
        let bytes = |prime: &rsa::BoxedUint| Zeroizing::new(prime.to_le_bytes().into_vec());
        // Primes that are too near to each other, which nobody will ever see, are drawn again.
        if let Some(pair) = pair_of_primes(size, &bytes(p), &bytes(q)) {
            return Ok(pair);
        }
    }
}
