//! Curves over prime fields: ECDSA (FIPS 186-5) with the nonces of RFC 6979, and ECDH (NIST SP 800-56A, 5.7.1.2).

use bp256::BrainpoolP256r1;
use bp384::BrainpoolP384r1;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::{Direction, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use ciphermill_pairs::der as written;
use ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
use ecdsa::signature::{Signer, Verifier};
use ecdsa::{DigestAlgorithm, EcdsaCurve, Signature, SigningKey, VerifyingKey};
use k256::Secp256k1;
use p224::NistP224;
use p256::NistP256;
use p256::elliptic_curve::pkcs8::AssociatedOid;
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize, Generate, PublicKey, SecretKey};
use p384::NistP384;
use p521::NistP521;
use zeroize::Zeroizing;

use super::der::{self, Algorithm};
use super::{BAD_PUBLIC_VALUE, Outcome, Pair, put_output, put_tag, state};

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A key for ECDSA.
type EcdsaKey<C> = Pair<SigningKey<C>, VerifyingKey<C>>;

/// An expression with the curve's type as `$c`, or another for the legacy curves, which are not of these crates.
macro_rules! with_curve {
    ($curve:expr, $c:ident => $run:expr, else $other:expr) => {
        with_curve!(
            $curve, $c, $run, $other,
            P224 = NistP224, P256 = NistP256, P384 = NistP384, P521 = NistP521, Secp256k1 = Secp256k1,
            BrainpoolP256r1 = BrainpoolP256r1, BrainpoolP384r1 = BrainpoolP384r1
        )
    };
    ($curve:expr, $c:ident, $run:expr, $other:expr, $($name:ident = $type:ty),*) => {
        match $curve {
            $(Curve::$name => {
                type $c = $type;
                $run
            })*
            _ => $other,
        }
    };
}

/// Prepares a key for ECDSA.
///
/// # Errors
/// `Parameters` for another algorithm or curve, `Encoding` when the key does not parse, its point is not on the curve
/// or does not belong to its scalar.
pub(super) fn prepare_ecdsa(key: &KeyMaterial<'_>, curve: Curve) -> Result<PreparedKey, KeyProblem> {
    with_curve!(curve, C => {
        let pair: EcdsaKey<C> = der::pair(key, Algorithm::Curve(C::OID))?;
        Ok(PreparedKey::new(pair))
    }, else Err(KeyProblem::Parameters))
}

/// Prepares a private key for ECDH.
///
/// # Errors
/// As [`prepare_ecdsa`].
pub(super) fn prepare_ecdh(key: &KeyMaterial<'_>, curve: Curve) -> Result<PreparedKey, KeyProblem> {
    with_curve!(curve, C => Ok(PreparedKey::new(secret::<C>(key)?)), else Err(KeyProblem::Parameters))
}

/// Signs or verifies.
pub(super) fn sign(curve: Curve, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    with_curve!(curve, C => sign_with::<C>(direction, buffers), else Err(OpStatus::EngineFault))
}

/// Signs or verifies a given digest.
pub(super) fn sign_digest(curve: Curve, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    with_curve!(curve, C => sign_digest_with::<C>(direction, buffers), else Err(OpStatus::EngineFault))
}

/// Agrees with the peer whose point is the input.
pub(super) fn agree(curve: Curve, buffers: &mut OpBuffers<'_>) -> Outcome {
    with_curve!(curve, C => agree_with::<C>(buffers), else Err(OpStatus::EngineFault))
}

/// Generates a pair.
pub(super) fn generate(curve: Curve) -> Result<written::Pair, OpStatus> {
    with_curve!(curve, C => generate_on::<C>(curve), else Err(OpStatus::EngineFault))
}

fn secret<C>(key: &KeyMaterial<'_>) -> Result<SecretKey<C>, KeyProblem>
where
    C: CurveArithmetic + AssociatedOid,
    SecretKey<C>: for<'a> TryFrom<rsa::pkcs8::PrivateKeyInfoRef<'a>>,
{
    let info = der::private(key.bytes, Algorithm::Curve(C::OID))?;
    SecretKey::try_from(info).map_err(|_| KeyProblem::Encoding)
}

fn sign_with<C>(direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome
where
    C: CurveArithmetic + DigestAlgorithm,
    SigningKey<C>: Signer<Signature<C>>,
{
    let pair: &EcdsaKey<C> = state(buffers)?;
    match direction {
        Direction::Encrypt => {
            let signature = pair.private()?.try_sign(buffers.input).map_err(|_| OpStatus::EngineFault)?;
            put_tag(buffers, signature.to_bytes().as_ref())
        }
        Direction::Decrypt => {
            pair.public.verify(buffers.input, &to_verify(buffers.tag)?).map_err(|_| OpStatus::AuthFailed)
        }
    }
}

/// As [`sign_with`]. The crates take as many leftmost bits of a digest as the order has, all of a shorter one (FIPS 186-5, 6.4.1,
/// step 2).
fn sign_digest_with<C>(direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome
where
    C: CurveArithmetic + EcdsaCurve,
    SigningKey<C>: PrehashSigner<Signature<C>>,
{
    let pair: &EcdsaKey<C> = state(buffers)?;
    match direction {
        Direction::Encrypt => {
            let signature = pair.private()?.sign_prehash(buffers.input).map_err(|_| OpStatus::EngineFault)?;
            put_tag(buffers, signature.to_bytes().as_ref())
        }
        Direction::Decrypt => {
            pair.public.verify_prehash(buffers.input, &to_verify(buffers.tag)?).map_err(|_| OpStatus::AuthFailed)
        }
    }
}

/// The signature that is verified. Numbers of zero or beyond the order do not parse (FIPS 186-5, 6.4.2).
///
/// Of two signatures `(r, s)` and `(r, -s)` the crate of secp256k1 takes and makes the one with the smaller number only, as Bitcoin does.
/// FIPS 186-5 has no such rule: both are right.
fn to_verify<C: CurveArithmetic + EcdsaCurve>(tag: &[u8]) -> Result<Signature<C>, OpStatus> {
    let signature = Signature::try_from(tag).map_err(|_| OpStatus::AuthFailed)?;
    Ok(if C::NORMALIZE_S { signature.normalize_s() } else { signature })
}

fn agree_with<C>(buffers: &mut OpBuffers<'_>) -> Outcome
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let secret: &SecretKey<C> = state(buffers)?;
    if buffers.input.first() != Some(&UNCOMPRESSED) {
        return Err(BAD_PUBLIC_VALUE);
    }
    // Points off the curve and the point at infinity do not parse; the cofactor of these curves is one.
    let peer = PublicKey::<C>::from_sec1_bytes(buffers.input).map_err(|_| BAD_PUBLIC_VALUE)?;
    put_output(buffers, secret.diffie_hellman(&peer).raw_secret_bytes())
}

/// FIPS 186-5, A.2.2: a scalar by rejection, and its point.
fn generate_on<C>(curve: Curve) -> Result<written::Pair, OpStatus>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let secret = SecretKey::<C>::try_generate().map_err(|_| OpStatus::EngineFault)?;
    let point = secret.public_key().to_sec1_point(false);
    let coordinates = point.as_bytes().get(1..).ok_or(OpStatus::EngineFault)?;
    Ok(written::ec(curve, &Zeroizing::new(secret.to_bytes()), coordinates))
}
