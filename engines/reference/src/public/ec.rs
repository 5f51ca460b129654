//! Prime curves and secp256k1: ECDSA (FIPS 186-5) with the nonces of RFC 6979, and ECDH (NIST SP 800-56A, 5.7.1.2).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::{Direction, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use k256::{Secp256k1, ecdsa as ecdsa_k256};
use p256::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
use p256::ecdsa::signature::{SignatureEncoding, Signer, Verifier};
use p256::elliptic_curve::pkcs8::AssociatedOid;
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize, PublicKey, SecretKey};
use p256::{NistP256, ecdsa as ecdsa_p256};
use p384::{NistP384, ecdsa as ecdsa_p384};
use p521::{NistP521, ecdsa as ecdsa_p521};

use super::der::{self, Algorithm};
use super::{BAD_PUBLIC_VALUE, Outcome, Pair, put_output, put_tag, state};

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A key for ECDSA.
enum EcdsaKey {
    P256(Pair<ecdsa_p256::SigningKey, ecdsa_p256::VerifyingKey>),
    P384(Pair<ecdsa_p384::SigningKey, ecdsa_p384::VerifyingKey>),
    P521(Pair<ecdsa_p521::SigningKey, ecdsa_p521::VerifyingKey>),
    Secp256k1(Pair<ecdsa_k256::SigningKey, ecdsa_k256::VerifyingKey>),
}

/// A private key for ECDH.
enum EcdhKey {
    P256(SecretKey<NistP256>),
    P384(SecretKey<NistP384>),
    P521(SecretKey<NistP521>),
    Secp256k1(SecretKey<Secp256k1>),
}

/// A signature, and which one is verified in its place.
trait Verified: SignatureEncoding {
    fn verified(self) -> Self {
        self
    }
}

impl Verified for ecdsa_p256::Signature {}
impl Verified for ecdsa_p384::Signature {}
impl Verified for ecdsa_p521::Signature {}

/// Of two signatures `(r, s)` and `(r, -s)` the crate takes and makes the one with the smaller number only, as Bitcoin does. FIPS 186-5 has no
/// such rule: both are right.
impl Verified for ecdsa_k256::Signature {
    fn verified(self) -> Self {
        self.normalize_s()
    }
}

/// Prepares a key for ECDSA.
///
/// # Errors
/// `Parameters` for another algorithm or curve, `Encoding` when the key does not parse, its point is not on the curve
/// or does not belong to its scalar.
pub(super) fn prepare_ecdsa(key: &KeyMaterial<'_>, curve: Curve) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::new(match curve {
        Curve::P256 => EcdsaKey::P256(der::pair(key, Algorithm::Curve(NistP256::OID))?),
        Curve::P384 => EcdsaKey::P384(der::pair(key, Algorithm::Curve(NistP384::OID))?),
        Curve::P521 => EcdsaKey::P521(der::pair(key, Algorithm::Curve(NistP521::OID))?),
        Curve::Secp256k1 => EcdsaKey::Secp256k1(der::pair(key, Algorithm::Curve(Secp256k1::OID))?),
        _ => return Err(KeyProblem::Parameters),
    }))
}

/// Prepares a private key for ECDH.
///
/// # Errors
/// As [`prepare_ecdsa`].
pub(super) fn prepare_ecdh(key: &KeyMaterial<'_>, curve: Curve) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::new(match curve {
        Curve::P256 => EcdhKey::P256(secret(key)?),
        Curve::P384 => EcdhKey::P384(secret(key)?),
        Curve::P521 => EcdhKey::P521(secret(key)?),
        Curve::Secp256k1 => EcdhKey::Secp256k1(secret(key)?),
        _ => return Err(KeyProblem::Parameters),
    }))
}

/// Signs or verifies.
pub(super) fn sign(curve: Curve, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    match (state(buffers)?, curve) {
        (EcdsaKey::P256(pair), Curve::P256) => sign_with::<_, _, ecdsa_p256::Signature>(pair, direction, buffers),
        (EcdsaKey::P384(pair), Curve::P384) => sign_with::<_, _, ecdsa_p384::Signature>(pair, direction, buffers),
        (EcdsaKey::P521(pair), Curve::P521) => sign_with::<_, _, ecdsa_p521::Signature>(pair, direction, buffers),
        (EcdsaKey::Secp256k1(pair), Curve::Secp256k1) => {
            sign_with::<_, _, ecdsa_k256::Signature>(pair, direction, buffers)
        }
        _ => Err(OpStatus::EngineFault),
    }
}

/// Signs or verifies a given digest.
pub(super) fn sign_digest(curve: Curve, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    match (state(buffers)?, curve) {
        (EcdsaKey::P256(pair), Curve::P256) => {
            sign_digest_with::<_, _, ecdsa_p256::Signature>(pair, direction, buffers)
        }
        (EcdsaKey::P384(pair), Curve::P384) => {
            sign_digest_with::<_, _, ecdsa_p384::Signature>(pair, direction, buffers)
        }
        (EcdsaKey::P521(pair), Curve::P521) => {
            sign_digest_with::<_, _, ecdsa_p521::Signature>(pair, direction, buffers)
        }
        (EcdsaKey::Secp256k1(pair), Curve::Secp256k1) => {
            sign_digest_with::<_, _, ecdsa_k256::Signature>(pair, direction, buffers)
        }
        _ => Err(OpStatus::EngineFault),
    }
}

/// Agrees with the peer whose point is the input.
pub(super) fn agree(curve: Curve, buffers: &mut OpBuffers<'_>) -> Outcome {
    match (state(buffers)?, curve) {
        (EcdhKey::P256(secret), Curve::P256) => agree_with(secret, buffers),
        (EcdhKey::P384(secret), Curve::P384) => agree_with(secret, buffers),
        (EcdhKey::P521(secret), Curve::P521) => agree_with(secret, buffers),
        (EcdhKey::Secp256k1(secret), Curve::Secp256k1) => agree_with(secret, buffers),
        _ => Err(OpStatus::EngineFault),
    }
}

fn secret<C>(key: &KeyMaterial<'_>) -> Result<SecretKey<C>, KeyProblem>
where
    C: CurveArithmetic + AssociatedOid,
    SecretKey<C>: for<'a> TryFrom<rsa::pkcs8::PrivateKeyInfoRef<'a>>,
{
    let info = der::private(key.bytes, Algorithm::Curve(C::OID))?;
    SecretKey::try_from(info).map_err(|_| KeyProblem::Encoding)
}

fn sign_with<S, V, G>(pair: &Pair<S, V>, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome
where
    S: Signer<G>,
    V: Verifier<G>,
    G: Verified,
{
    match direction {
        Direction::Encrypt => {
            let signature = pair.private()?.try_sign(buffers.input).map_err(|_| OpStatus::EngineFault)?;
            put_tag(buffers, signature.to_bytes().as_ref())
        }
        Direction::Decrypt => {
            // Numbers of zero or beyond the order do not parse (FIPS 186-5, 6.4.2).
            let signature = G::try_from(buffers.tag).map_err(|_| OpStatus::AuthFailed)?.verified();
            pair.public.verify(buffers.input, &signature).map_err(|_| OpStatus::AuthFailed)
        }
    }
}

/// As [`sign_with`]. The crates take as many leftmost bits of a digest as the order has, all of a shorter one (FIPS 186-5, 6.4.1,
/// step 2).
fn sign_digest_with<S, V, G>(pair: &Pair<S, V>, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome
where
    S: PrehashSigner<G>,
    V: PrehashVerifier<G>,
    G: Verified,
{
    match direction {
        Direction::Encrypt => {
            let signature = pair.private()?.sign_prehash(buffers.input).map_err(|_| OpStatus::EngineFault)?;
            put_tag(buffers, signature.to_bytes().as_ref())
        }
        Direction::Decrypt => {
            let signature = G::try_from(buffers.tag).map_err(|_| OpStatus::AuthFailed)?.verified();
            pair.public.verify_prehash(buffers.input, &signature).map_err(|_| OpStatus::AuthFailed)
        }
    }
}

fn agree_with<C>(secret: &SecretKey<C>, buffers: &mut OpBuffers<'_>) -> Outcome
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    if buffers.input.first() != Some(&UNCOMPRESSED) {
        return Err(BAD_PUBLIC_VALUE);
    }
    // Points off the curve and the point at infinity do not parse; the cofactor of these curves is one.
    let peer = PublicKey::<C>::from_sec1_bytes(buffers.input).map_err(|_| BAD_PUBLIC_VALUE)?;
    put_output(buffers, secret.diffie_hellman(&peer).raw_secret_bytes())
}
