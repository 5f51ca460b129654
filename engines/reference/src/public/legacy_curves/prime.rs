//! secp160r1: a curve `y² = x³ + a x + b` of prime order over a prime field (SEC 1, 2.2.1).
//!
//! Points are added by one formula for all pairs, whether they are alike, inverse or infinity (Renes, Costello and Batina 2016,
//! "Complete addition formulas for prime order elliptic curves", section 3.1).

use ciphermill_pairs::curves::{Parameters, words};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Choice, CtSelect, Odd, U192};
use zeroize::Zeroizing;

use super::group::{Group, Point};

/// A number modulo the prime.
type Element = FixedMontyForm<{ U192::LIMBS }>;

/// Bytes of a field element.
const LEN: usize = 20;

/// A curve.
pub(super) struct PrimeCurve {
    params: FixedMontyParams<{ U192::LIMBS }>,
    a: Element,
    b: Element,
}

/// A point `(x / z, y / z)`; infinity is `(0, 1, 0)`.
#[derive(Clone, Copy)]
struct Projective {
    x: Element,
    y: Element,
    z: Element,
}

impl PrimeCurve {
    /// The curve over the field of a prime in hexadecimal; `None` for an even one.
    pub(super) fn new(prime: &str, parameters: &'static Parameters) -> Option<PrimeCurve> {
        let params = FixedMontyParams::new(Odd::new(U192::from_words(words(prime))).into_option()?);
        let element = |hex| Element::new(&U192::from_words(words(hex)), &params);
        Some(PrimeCurve { params, a: element(parameters.a), b: element(parameters.b) })
    }

    /// A big-endian number below the prime.
    fn decode(&self, bytes: &[u8]) -> Option<Element> {
        let mut padded = Zeroizing::new([0; U192::BYTES]);
        padded[U192::BYTES - LEN..].copy_from_slice(Some(bytes).filter(|bytes| bytes.len() == LEN)?);
        let number = U192::from_be_slice(&*padded);
        (&number < self.params.modulus().as_ref()).then(|| Element::new(&number, &self.params))
    }

    fn encode(element: &Element) -> Zeroizing<Vec<u8>> {
        let words = Zeroizing::new(element.retrieve().to_words());
        let all = words.iter().rev().flat_map(|word| word.to_be_bytes());
        Zeroizing::new(all.skip(U192::BYTES - LEN).collect())
    }

    fn affine(&self, point: &Point) -> Option<[Element; 2]> {
        Some([self.decode(&point.x)?, self.decode(&point.y)?])
    }

    fn projective(&self, point: &Point) -> Option<Projective> {
        let [x, y] = self.affine(point)?;
        Some(Projective { x, y, z: Element::one(&self.params) })
    }

    /// The coordinates of a point; `None` for infinity.
    fn point(&self, point: &Projective) -> Option<Point> {
        let inverse = point.z.invert().into_option()?;
        Some(Point { x: Self::encode(&(point.x * inverse)), y: Self::encode(&(point.y * inverse)) })
    }

    /// `x³ + a x + b`.
    fn right_side(&self, x: &Element) -> Element {
        (x.square() + self.a) * *x + self.b
    }

    fn sum(&self, left: &Projective, right: &Projective) -> Projective {
        let (a, three_b) = (self.a, self.b + self.b + self.b);
        let (xx, yy, zz) = (left.x * right.x, left.y * right.y, left.z * right.z);
        let xy = left.x * right.y + right.x * left.y;
        let xz = left.x * right.z + right.x * left.z;
        let yz = left.y * right.z + right.y * left.z;
        let rest = a * xz + three_b * zz;
        let (minus, plus) = (yy - rest, yy + rest);
        let cross = a * xx + three_b * xz - a * a * zz;
        let slope = xx + xx + xx + a * zz;
        Projective { x: xy * minus - yz * cross, y: slope * cross + plus * minus, z: yz * plus + xy * slope }
    }
}

impl Group for PrimeCurve {
    /// All points of the curve are in the group, whose order is prime.
    fn contains(&self, point: &Point) -> bool {
        self.affine(point).is_some_and(|[x, y]| y.square() == self.right_side(&x))
    }

    fn decompress(&self, x: &[u8], bit: bool) -> Option<Point> {
        let x = self.decode(x)?;
        let square = self.right_side(&x);
        // The prime is 3 modulo 4: a root of a square is its power by (p + 1) / 4.
        let exponent = self.params.modulus().as_ref().wrapping_add(&U192::ONE).wrapping_shr(2);
        let root = square.pow(&exponent);
        let y = if (root.retrieve().to_words()[0] & 1 == 1) == bit { root } else { -root };
        (y.square() == square).then(|| Point { x: Self::encode(&x), y: Self::encode(&y) })
    }

    /// A doubling and an addition for each bit, whose sum is taken or not without a branch.
    fn multiply(&self, scalar: &[u8], point: &Point) -> Option<Point> {
        let point = self.projective(point)?;
        let (zero, one) = (Element::zero(&self.params), Element::one(&self.params));
        let mut product = Projective { x: zero, y: one, z: zero };
        for bit in scalar.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
            product = self.sum(&product, &product);
            let sum = self.sum(&product, &point);
            let is_set = Choice::from_u8_lsb(bit);
            let choose = |not: &Element, then: &Element| not.ct_select(then, is_set);
            product = Projective {
                x: choose(&product.x, &sum.x),
                y: choose(&product.y, &sum.y),
                z: choose(&product.z, &sum.z),
            };
        }
        self.point(&product)
    }

    fn add(&self, left: &Point, right: &Point) -> Option<Point> {
        self.point(&self.sum(&self.projective(left)?, &self.projective(right)?))
    }
}
