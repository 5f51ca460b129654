//! Key pairs, each from the operating system's random bytes.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use ciphermill_contract::suite::{Curve, Kem, KeyPair, MlDsaSet, RsaSize};
use ciphermill_contract::{OpBuffers, OpStatus};
use ciphermill_pairs::der::{self, Pair};
use ciphermill_pairs::rsa::pair_of_primes;
use k256::Secp256k1;
use ml_dsa::{MlDsa44, MlDsa65, MlDsa87};
use ml_kem::{MlKem512, MlKem768, MlKem1024};
use p256::NistP256;
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize, Generate, SecretKey};
use p384::NistP384;
use p521::NistP521;
use rsa::RsaPrivateKey;
use rsa::traits::PrivateKeyParts;
use zeroize::Zeroizing;

use super::random::draw;
use super::{Outcome, curve448, legacy_curves, ml_dsa as dsa, ml_kem as kem, put_output, put_tag};

/// Generates a pair: the private key is the output, the public key the tag.
pub(super) fn run(pair: KeyPair, buffers: &mut OpBuffers<'_>) -> Outcome {
    let pair = match pair {
        KeyPair::Rsa(size) => rsa_pair(size)?,
        KeyPair::Ec(curve @ Curve::P256) => ec_pair::<NistP256>(curve)?,
        KeyPair::Ec(curve @ Curve::P384) => ec_pair::<NistP384>(curve)?,
        KeyPair::Ec(curve @ Curve::P521) => ec_pair::<NistP521>(curve)?,
        KeyPair::Ec(curve @ Curve::Secp256k1) => ec_pair::<Secp256k1>(curve)?,
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
        KeyPair::Ec(curve) => legacy_curves::generate(curve)?,
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

/// FIPS 186-5, A.2.2: a scalar by rejection, and its point.
fn ec_pair<C>(curve: Curve) -> Result<Pair, OpStatus>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let secret = SecretKey::<C>::try_generate().map_err(|_| OpStatus::EngineFault)?;
    let point = secret.public_key().to_sec1_point(false);
    let coordinates = point.as_bytes().get(1..).ok_or(OpStatus::EngineFault)?;
    Ok(der::ec(curve, &Zeroizing::new(secret.to_bytes()), coordinates))
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
