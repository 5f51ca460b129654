//! secp160r1 (SEC 2, version 1.0, 2.4.2), which no crate has: what the other curves leave to theirs, one operation at a time.
//!
//! Points are added by one formula for all pairs, whether they are alike, inverse or infinity (Renes, Costello and Batina 2016,
//! "Complete addition formulas for prime order elliptic curves", section 3.1).

use std::sync::OnceLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::acceptance::der;
use ciphermill_contract::suite::{Curve as Name, Digest};
use ciphermill_contract::{KeyForm, KeyMaterial};
use ciphermill_pairs::curves::{SECP160R1, words};
use crypto_bigint::modular::{ConstMontyForm, ConstMontyParams};
use crypto_bigint::{Choice, CtSelect, U192, const_monty_params};
use zeroize::Zeroizing;

use super::super::nonce::leftmost;
use super::curve::{Curve, Pair};
use super::modulus::{P160Order, P160Prime, limbs};
use super::table::Table;

const_monty_params!(Field, U192, "00000000ffffffffffffffffffffffffffffffff7fffffff", "The field.");
const_monty_params!(Order, U192, "0000000100000000000000000001f4c8f927aed3ca752257", "The order.");

/// A number modulo the prime.
type Element = ConstMontyForm<Field, { U192::LIMBS }>;

/// A number modulo the order.
type Scalar = ConstMontyForm<Order, { U192::LIMBS }>;

/// Bytes of a field element.
const FIELD_LEN: usize = 20;

/// Bytes of a scalar.
const ORDER_LEN: usize = 21;

/// Bits of the order.
const ORDER_BITS: usize = 161;

/// secp160r1.
pub(super) struct Secp160r1;

impl Curve<4> for Secp160r1 {
    type Prime = P160Prime;
    type Order = P160Order;
    type Verifier = Affine;
    const BITS: usize = ORDER_BITS;
    const FIELD_LEN: usize = FIELD_LEN;
    const DIGEST: Digest = Digest::Sha256;
    const B: [u64; 4] = limbs(SECP160R1.b);
    const GENERATOR: [[u64; 4]; 2] = [limbs(SECP160R1.x), limbs(SECP160R1.y)];

    fn table() -> &'static OnceLock<Table> {
        static TABLE: OnceLock<Table> = OnceLock::new();
        &TABLE
    }

    fn pair(key: &KeyMaterial<'_>) -> Result<Pair<Affine>, KeyProblem> {
        let parts = der::curve_key(Name::Secp160r1, key)?;
        let (secret, public) = match (key.form, parts.scalar) {
            (KeyForm::Private, Some(scalar)) => {
                let number = Zeroizing::new(number(scalar));
                if *number == U192::ZERO || *number >= *Order::PARAMS.modulus().as_ref() {
                    return Err(KeyProblem::Encoding);
                }
                let public = Affine::GENERATOR.multiply(&number).affine().ok_or(KeyProblem::Encoding)?;
                if !parts.point.is_none_or(|point| Affine::decode(point) == Some(public)) {
                    return Err(KeyProblem::Encoding);
                }
                (Some(Zeroizing::new(scalar.to_vec())), public)
            }
            _ => (None, parts.point.and_then(Affine::decode).ok_or(KeyProblem::Encoding)?),
        };
        Ok(Pair { secret, point: public.encode(), verifier: public })
    }

    fn secret(key: &KeyMaterial<'_>) -> Result<Zeroizing<Vec<u8>>, KeyProblem> {
        Self::pair(key)?.secret.ok_or(KeyProblem::Form)
    }

    fn verify(key: &Affine, digest: &[u8], signature: &[u8]) -> bool {
        let Some((r, s)) = signature.split_at_checked(ORDER_LEN) else { return false };
        let [r, s] = [number(r), number(s)];
        let digest = number(&leftmost(digest, ORDER_BITS)[..ORDER_LEN]);
        let inverse = Scalar::new(&s).invert().unwrap_or(Scalar::ZERO);
        let [first, second] = [digest, r].map(|number| (Scalar::new(&number) * inverse).retrieve());
        let sum = Affine::GENERATOR.multiply(&first).sum(&key.multiply(&second));
        // The order is above the prime: coordinates are what they are modulo it.
        sum.affine().is_some_and(|sum| sum.x.retrieve() == r)
    }
}

/// A big-endian number of at most 24 bytes.
fn number(bytes: &[u8]) -> U192 {
    let mut padded = Zeroizing::new([0; U192::BYTES]);
    padded[U192::BYTES - bytes.len()..].copy_from_slice(bytes);
    U192::from_be_slice(&*padded)
}

/// A point other than infinity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Affine {
    x: Element,
    y: Element,
}

/// A point `(x / z, y / z)`; infinity is `(0, 1, 0)`.
#[derive(Clone, Copy)]
struct Projective {
    x: Element,
    y: Element,
    z: Element,
}

const A: Element = Element::new(&U192::from_words(words(SECP160R1.a)));
const B: Element = Element::new(&U192::from_words(words(SECP160R1.b)));

impl Affine {
    const GENERATOR: Affine = Affine {
        x: Element::new(&U192::from_words(words(SECP160R1.x))),
        y: Element::new(&U192::from_words(words(SECP160R1.y))),
    };

    /// SEC 1, 2.3.4, compressed or not; the coordinates are below the prime and the point is on the curve.
    fn decode(octets: &[u8]) -> Option<Affine> {
        let element = |bytes: &[u8]| {
            let number = number(bytes);
            (&number < Field::PARAMS.modulus().as_ref()).then(|| Element::new(&number))
        };
        let (first, rest) = octets.split_first()?;
        let (x, y) = rest.split_at_checked(FIELD_LEN)?;
        let x = element(x)?;
        let square = (x.square() + A) * x + B;
        let y = match first {
            4 => element(y)?,
            _ => {
                // The prime is 3 modulo 4: a root of a square is its power by (p + 1) / 4.
                let root = square.pow(&Field::PARAMS.modulus().as_ref().wrapping_add(&U192::ONE).wrapping_shr(2));
                if root.retrieve().to_words()[0] & 1 == u64::from(first & 1) { root } else { -root }
            }
        };
        (y.square() == square).then_some(Affine { x, y })
    }

    /// Without compression.
    fn encode(&self) -> Vec<u8> {
        let mut octets = vec![4];
        for coordinate in [self.x, self.y] {
            let words = coordinate.retrieve().to_words();
            let bytes = words.iter().rev().flat_map(|word| word.to_be_bytes());
            octets.extend(bytes.skip(U192::BYTES - FIELD_LEN));
        }
        octets
    }

    /// A multiple: a doubling and an addition for each bit, whose sum is taken or not without a branch.
    fn multiply(&self, scalar: &U192) -> Projective {
        let point = Projective { x: self.x, y: self.y, z: Element::ONE };
        let mut product = Projective { x: Element::ZERO, y: Element::ONE, z: Element::ZERO };
        let words = Zeroizing::new(scalar.to_words());
        for bit in (0..ORDER_BITS).rev() {
            product = product.sum(&product);
            let sum = product.sum(&point);
            let is_set = Choice::from_u8_lsb((words[bit / 64] >> (bit % 64)) as u8 & 1);
            product = Projective {
                x: product.x.ct_select(&sum.x, is_set),
                y: product.y.ct_select(&sum.y, is_set),
                z: product.z.ct_select(&sum.z, is_set),
            };
        }
        product
    }
}

impl Projective {
    fn sum(&self, other: &Projective) -> Projective {
        let three_b = B + B + B;
        let (xx, yy, zz) = (self.x * other.x, self.y * other.y, self.z * other.z);
        let xy = self.x * other.y + other.x * self.y;
        let xz = self.x * other.z + other.x * self.z;
        let yz = self.y * other.z + other.y * self.z;
        let rest = A * xz + three_b * zz;
        let (minus, plus) = (yy - rest, yy + rest);
        let cross = A * xx + three_b * xz - A * A * zz;
        let slope = xx + xx + xx + A * zz;
        Projective { x: xy * minus - yz * cross, y: slope * cross + plus * minus, z: yz * plus + xy * slope }
    }

    /// None for infinity.
    fn affine(&self) -> Option<Affine> {
        let inverse = self.z.invert().into_option()?;
        Some(Affine { x: self.x * inverse, y: self.y * inverse })
    }
}
