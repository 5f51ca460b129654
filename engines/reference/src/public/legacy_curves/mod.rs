//! ECDSA (FIPS 186-4, 6) with the nonces of RFC 6979, and ECDH (NIST SP 800-56A, 5.7.1.2, without the cofactor), on secp160r1 and
//! the curves over binary fields. No crate has them: [`prime`] and [`binary`] are their arithmetic, written to be read. What is done
//! with secrets takes the same steps whatever they are.

mod binary;
mod binary_field;
mod domain;
mod ecdsa;
mod group;
mod prime;
#[cfg(test)]
mod tests;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::suite::acceptance::der::curve_key;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use ciphermill_pairs::der;
use zeroize::Zeroizing;

use self::domain::{Domain, UNCOMPRESSED};
use self::group::{Point, from_bytes};
use super::random::draw;
use super::{BAD_PUBLIC_VALUE, Outcome, Pair, put_output, put_tag, state};

/// A private key: the scalar as bytes, as long as the order.
struct Secret(Zeroizing<Vec<u8>>);

/// A key pair on a curve, or its public half.
struct Key {
    domain: Domain,
    pair: Pair<Secret, Point>,
}

/// Prepares a key for ECDSA or ECDH.
///
/// # Errors
/// `Parameters` for another algorithm or curve, `Encoding` when the key does not parse, its point is not in the group or does not
/// belong to its scalar.
pub(super) fn prepare(key: &KeyMaterial<'_>, curve: Curve) -> Result<PreparedKey, KeyProblem> {
    let domain = Domain::new(curve).ok_or(KeyProblem::Parameters)?;
    let parts = curve_key(curve, key)?;
    let pair = match (key.form, parts.scalar) {
        (KeyForm::Private, Some(scalar)) => {
            let number = Zeroizing::new(from_bytes(scalar).ok_or(KeyProblem::Encoding)?);
            if !domain.is_scalar(&number) {
                return Err(KeyProblem::Encoding);
            }
            let public = domain.group.multiply(scalar, &domain.generator).ok_or(KeyProblem::Encoding)?;
            let belongs = |point: &[u8]| domain.decode(point).as_ref() == Some(&public);
            if !parts.point.is_none_or(belongs) {
                return Err(KeyProblem::Encoding);
            }
            Pair { private: Some(Secret(Zeroizing::new(scalar.to_vec()))), public }
        }
        (KeyForm::Public, _) => {
            let point = parts.point.ok_or(KeyProblem::Encoding)?;
            Pair { private: None, public: domain.decode(point).ok_or(KeyProblem::Encoding)? }
        }
        _ => return Err(KeyProblem::Form),
    };
    Ok(PreparedKey::new(Key { domain, pair }))
}

/// The key of an operation on this curve.
fn key<'b>(curve: Curve, buffers: &OpBuffers<'b>) -> Result<&'b Key, OpStatus> {
    state::<Key>(buffers).and_then(|key| if key.domain.curve == curve { Ok(key) } else { Err(OpStatus::EngineFault) })
}

/// Generates a pair: a scalar by rejection (FIPS 186-5, A.2.2), and its point.
pub(super) fn generate(curve: Curve) -> Result<der::Pair, OpStatus> {
    let domain = Domain::new(curve).ok_or(OpStatus::EngineFault)?;
    let mut scalar = Zeroizing::new(vec![0; curve.order_len()]);
    // Bits above the order's would only be rejected.
    let above = 8 * curve.order_len() as u32 - domain.order.bits();
    loop {
        draw(&mut scalar)?;
        scalar[0] &= 0xff >> above;
        let number = Zeroizing::new(from_bytes(&scalar).ok_or(OpStatus::EngineFault)?);
        if domain.is_scalar(&number) {
            break;
        }
    }
    let point = domain.group.multiply(&scalar, &domain.generator).ok_or(OpStatus::EngineFault)?;
    Ok(der::ec(curve, &scalar, &[&point.x[..], &point.y[..]].concat()))
}

/// Signs or verifies.
pub(super) fn sign(curve: Curve, direction: Direction, buffers: &mut OpBuffers<'_>) -> Outcome {
    let Key { domain, pair } = key(curve, buffers)?;
    match direction {
        Direction::Encrypt => {
            let signature = ecdsa::sign(domain, &pair.private()?.0, buffers.input).ok_or(OpStatus::EngineFault)?;
            put_tag(buffers, &signature)
        }
        Direction::Decrypt if ecdsa::is_valid(domain, &pair.public, buffers.input, buffers.tag) => Ok(()),
        Direction::Decrypt => Err(OpStatus::AuthFailed),
    }
}

/// Agrees with the peer whose point is the input.
pub(super) fn agree(curve: Curve, buffers: &mut OpBuffers<'_>) -> Outcome {
    let Key { domain, pair } = key(curve, buffers)?;
    let secret = pair.private()?;
    if buffers.input.first() != Some(&UNCOMPRESSED) {
        return Err(BAD_PUBLIC_VALUE);
    }
    let peer = domain.decode(buffers.input).ok_or(BAD_PUBLIC_VALUE)?;
    let shared = domain.group.multiply(&secret.0, &peer).ok_or(OpStatus::EngineFault)?;
    put_output(buffers, &shared.x)
}
