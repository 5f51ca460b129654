//! Keys, taken apart and checked.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::acceptance::der;
use ciphermill_contract::{KeyForm, KeyMaterial, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::affine::{Decompress, IsMember};
use super::curve::{Curve, coordinates, from_bytes, is_within};
use super::field::Polynomial;
use super::isa::{BinaryKernel, with_vectors};
use super::multiply::{Affine, Factor, Multiple, Multiply};

/// A key pair, or its public half.
pub(super) struct Key<const W: usize> {
    pub(super) secret: Option<Secret<W>>,
    pub(super) public: Affine<W>,
}

/// A private key's scalar.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct Secret<const W: usize>(pub(super) [u64; W]);

/// Prepares a key.
///
/// # Errors
/// `Parameters` for another algorithm or curve, `Encoding` when the key does not parse, its scalar is out of its range, its point is
/// not in the group or does not belong to its scalar.
pub(super) fn prepare<F: Polynomial<W>, const W: usize>(
    curve: &'static Curve<F, W>,
    kernel: BinaryKernel,
    key: &KeyMaterial<'_>,
    suite: Suite,
) -> Result<PreparedKey, KeyProblem> {
    let parts = der::curve_key(curve.name, key)?;
    let key = match (key.form, parts.scalar, parts.point) {
        (KeyForm::Private, Some(scalar), point) => {
            let secret = Secret(from_bytes(scalar));
            if !is_within(&secret.0, &curve.order) {
                return Err(KeyProblem::Encoding);
            }
            let factors = [Factor { scalar: &secret.0, point: &curve.generator }];
            let multiples = with_vectors(kernel, Multiply { curve, factors: &factors, checks: false });
            let [Multiple::Done(public)] = multiples[..] else { return Err(KeyProblem::Encoding) };
            // The public key is in the group, and so is what equals it.
            let belongs = |octets| decode(curve, kernel, octets) == Some(public);
            if !point.is_none_or(belongs) {
                return Err(KeyProblem::Encoding);
            }
            Key { secret: Some(secret), public }
        }
        (KeyForm::Public, _, Some(octets)) => {
            let public = decode(curve, kernel, octets).ok_or(KeyProblem::Encoding)?;
            if !with_vectors(kernel, IsMember { curve, point: &public }) {
                return Err(KeyProblem::Encoding);
            }
            Key { secret: None, public }
        }
        _ => return Err(KeyProblem::Form),
    };
    Ok(PreparedKey::for_suite(suite, key))
}

/// The point of SEC 1, 2.3.4, compressed or not. Whether it is on the curve is not looked at.
fn decode<F: Polynomial<W>, const W: usize>(
    curve: &'static Curve<F, W>,
    kernel: BinaryKernel,
    octets: &[u8],
) -> Option<Affine<W>> {
    let (first, rest) = octets.split_first()?;
    if *first == 4 {
        return coordinates::<F, W, 2>(rest);
    }
    let [x] = coordinates::<F, W, 1>(rest)?;
    Some(with_vectors(kernel, Decompress { curve, x: &x, bit: first & 1 == 1 }))
}
