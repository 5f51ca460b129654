//! ECDSA (FIPS 186-4, 6) with the nonces of RFC 6979, and ECDH (NIST SP 800-56A, 5.7.1.2, without the cofactor), on secp160r1 and
//! the curves over binary fields. No crate has them: [`prime`] and [`binary`] are their arithmetic, written to be read. What is done
//! with secrets takes the same steps whatever they are.

mod binary;
mod binary_field;
mod ecdsa;
mod prime;
#[cfg(test)]
mod tests;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::suite::acceptance::der;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result};
use ciphermill_pairs::curves::{Field, Parameters, parameters};
use crypto_bigint::U576;
use zeroize::Zeroizing;

use self::binary::BinaryCurve;
use self::binary_field::BinaryField;
use self::prime::PrimeCurve;
use super::{BAD_PUBLIC_VALUE, Outcome, Pair, put_output, put_tag, state};

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A point other than that at infinity: its coordinates, big-endian, as long as a field element.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    x: Zeroizing<Vec<u8>>,
    y: Zeroizing<Vec<u8>>,
}

/// A curve's group of prime order.
trait Group: Send + Sync {
    /// Whether a point is on the curve and a multiple of the generator. Its coordinates may be anything.
    fn contains(&self, point: &Point) -> bool;
    /// The point of the curve with this `x`, by the bit that stands for its `y` (SEC 1, 2.3.4).
    fn decompress(&self, x: &[u8], bit: bool) -> Option<Point>;
    /// A multiple of a point of the group, by a scalar from one to the order less one, big-endian and as long as the order; `None` for
    /// anything else.
    fn multiply(&self, scalar: &[u8], point: &Point) -> Option<Point>;
    /// A sum; `None` for the point at infinity. For public points.
    fn add(&self, left: &Point, right: &Point) -> Option<Point>;
}

fn group(parameters: &'static Parameters) -> Option<Box<dyn Group>> {
    Some(match parameters.field {
        Field::Prime(prime) => Box::new(PrimeCurve::new(prime, parameters)?),
        Field::Binary { degree, middle } => Box::new(BinaryCurve::new(BinaryField::new(degree, middle), parameters)),
    })
}

/// A curve with its group.
struct Domain {
    curve: Curve,
    group: Box<dyn Group>,
    generator: Point,
    order: U576,
}

impl Domain {
    fn new(curve: Curve) -> Option<Domain> {
        let parameters = parameters(curve)?;
        let coordinate = |hex| bytes(&number(hex), curve.field_len());
        Some(Domain {
            curve,
            group: group(parameters)?,
            generator: Point { x: coordinate(parameters.x), y: coordinate(parameters.y) },
            order: number(parameters.order),
        })
    }

    /// A point of the group as SEC 1, 2.3.4, has it, with or without compression.
    fn decode(&self, octets: &[u8]) -> Option<Point> {
        let (first, rest) = octets.split_first()?;
        let len = self.curve.field_len();
        let point = match first {
            2 | 3 if rest.len() == len => self.group.decompress(rest, first & 1 == 1)?,
            &UNCOMPRESSED if rest.len() == 2 * len => {
                let (x, y) = rest.split_at(len);
                Point { x: Zeroizing::new(x.to_vec()), y: Zeroizing::new(y.to_vec()) }
            }
            _ => return None,
        };
        self.group.contains(&point).then_some(point)
    }

    /// Whether a scalar is from one to the order less one.
    fn is_scalar(&self, scalar: &U576) -> bool {
        bool::from(scalar.is_nonzero()) && scalar < &self.order
    }
}

/// A number in hexadecimal.
fn number(hex: &str) -> U576 {
    U576::from_words(ciphermill_pairs::curves::words(hex))
}

/// A big-endian number of at most 72 bytes.
fn from_bytes(bytes: &[u8]) -> Option<U576> {
    let mut padded = Zeroizing::new([0; 72]);
    let at = padded.len().checked_sub(bytes.len())?;
    padded[at..].copy_from_slice(bytes);
    Some(U576::from_be_slice(&*padded))
}

/// The last `len` bytes of a number, big-endian.
fn bytes(number: &U576, len: usize) -> Zeroizing<Vec<u8>> {
    let all = Zeroizing::new(number.to_be_bytes());
    let all: &[u8] = all.as_ref();
    Zeroizing::new(all[all.len() - len..].to_vec())
}

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
    let parts = der::curve_key(curve, key)?;
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
