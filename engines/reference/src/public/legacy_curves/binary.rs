//! Curves `y² + x y = x³ + a x² + b` over binary fields (SEC 1, 2.2.2).
//!
//! Multiples are taken by the ladder of López and Dahab (1999, "Fast Multiplication on Elliptic Curves over GF(2^m) without
//! Precomputation"): it keeps the `x` of `k P` and of `(k + 1) P`, as quotients, and takes the same steps for every bit of `k`.

use ciphermill_pairs::curves::{Parameters, words};
use zeroize::Zeroizing;

use super::binary_field::{BinaryField, Element, swap};
use super::group::{Group, Point, bytes, number};

/// A curve.
pub(super) struct BinaryCurve {
    field: BinaryField,
    a: Element,
    b: Element,
    /// The group's order, big-endian.
    order: Zeroizing<Vec<u8>>,
}

/// An `x` as a quotient; `z` is zero for the point at infinity.
#[derive(Clone, Copy)]
struct Quotient {
    x: Element,
    z: Element,
}

/// `k P` and `(k + 1) P`.
type Neighbours = Zeroizing<[Element; 4]>;

impl BinaryCurve {
    pub(super) fn new(field: BinaryField, parameters: &'static Parameters) -> BinaryCurve {
        let order = number(parameters.order);
        BinaryCurve {
            field,
            a: Element(words(parameters.a)),
            b: Element(words(parameters.b)),
            order: bytes(&order, order.bits().div_ceil(8) as usize),
        }
    }

    fn coordinates(&self, point: &Point) -> Option<[Element; 2]> {
        Some([self.field.decode(&point.x)?, self.field.decode(&point.y)?])
    }

    fn point(&self, x: &Element, y: &Element) -> Point {
        Point { x: self.field.encode(x), y: self.field.encode(y) }
    }

    fn is_on_curve(&self, x: &Element, y: &Element) -> bool {
        let field = &self.field;
        let left = field.multiply(y, &y.add(x));
        let right = field.multiply(&field.square(x), &x.add(&self.a)).add(&self.b);
        left == right
    }

    /// Twice a point: `x⁴ + b z⁴` over `x² z²`.
    fn double(&self, point: &Quotient) -> Quotient {
        let field = &self.field;
        let (x_2, z_2) = (field.square(&point.x), field.square(&point.z));
        let x = field.square(&x_2).add(&field.multiply(&self.b, &field.square(&z_2)));
        Quotient { x, z: field.multiply(&x_2, &z_2) }
    }

    /// The sum of two points whose difference has the affine coordinate `difference`, which is not zero.
    fn add_known(&self, left: &Quotient, right: &Quotient, difference: &Element) -> Quotient {
        let field = &self.field;
        let (one, other) = (field.multiply(&left.x, &right.z), field.multiply(&right.x, &left.z));
        let z = field.square(&one.add(&other));
        Quotient { x: field.multiply(difference, &z).add(&field.multiply(&one, &other)), z }
    }

    /// The multiple of a point with this `x` by a scalar, big-endian, and that by the next scalar.
    fn ladder(&self, scalar: &[u8], x: &Element) -> [Quotient; 2] {
        let mut low = Quotient { x: Element::ONE, z: Element::ZERO };
        let mut high = Quotient { x: *x, z: Element::ONE };
        for bit in scalar.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
            let mask = u64::from(bit).wrapping_neg();
            swap(mask, &mut low.x, &mut high.x);
            swap(mask, &mut low.z, &mut high.z);
            high = self.add_known(&low, &high, x);
            low = self.double(&low);
            swap(mask, &mut low.x, &mut high.x);
            swap(mask, &mut low.z, &mut high.z);
        }
        [low, high]
    }
}

impl Group for BinaryCurve {
    fn contains(&self, point: &Point) -> bool {
        // An x of zero belongs to the point of order two.
        self.coordinates(point).is_some_and(|[x, y]| {
            self.is_on_curve(&x, &y) && !x.is_zero() && self.ladder(&self.order, &x)[0].z.is_zero()
        })
    }

    /// With `z = y / x`, `z² + z = x + a + b / x²`; the bit is the last one of `z`.
    fn decompress(&self, x: &[u8], bit: bool) -> Option<Point> {
        let field = &self.field;
        let x = field.decode(x)?;
        if x.is_zero() {
            return Some(self.point(&x, &field.root(&self.b)));
        }
        let inverse_2 = field.square(&field.invert(&x));
        let z = field.solve_quadratic(&x.add(&self.a).add(&field.multiply(&self.b, &inverse_2)))?;
        let z = if z.is_odd() == bit { z } else { z.add(&Element::ONE) };
        Some(self.point(&x, &field.multiply(&x, &z)))
    }

    /// The product's `y` follows from its `x` and that of its neighbour (López and Dahab 1999, lemma 3).
    fn multiply(&self, scalar: &[u8], point: &Point) -> Option<Point> {
        let field = &self.field;
        let [x, y] = self.coordinates(point)?;
        let [low, high] = self.ladder(scalar, &x);
        let neighbours: Neighbours = Zeroizing::new([low.x, low.z, high.x, high.z]);
        let [low_x, low_z, high_x, high_z] = &*neighbours;
        let x_low = field.multiply(low_x, &field.invert(low_z));
        let x_high = field.multiply(high_x, &field.invert(high_z));
        let (from_low, from_high) = (x_low.add(&x), x_high.add(&x));
        let slope = field.multiply(&from_low, &from_high).add(&field.square(&x)).add(&y);
        let y_low = field.multiply(&field.multiply(&from_low, &slope), &field.invert(&x)).add(&y);
        // The order less one has the point at infinity for its neighbour, and the product is the negative point: (x, x + y).
        let y_low = y_low.add(&x.masked(high_z.zero_mask()));
        Some(self.point(&x_low, &y_low))
    }

    fn add(&self, left: &Point, right: &Point) -> Option<Point> {
        let field = &self.field;
        let ([x_1, y_1], [x_2, y_2]) = (self.coordinates(left)?, self.coordinates(right)?);
        let slope = match (x_1 == x_2, y_1 == y_2) {
            (false, _) => field.multiply(&y_1.add(&y_2), &field.invert(&x_1.add(&x_2))),
            (true, true) => x_1.add(&field.multiply(&y_1, &field.invert(&x_1))),
            (true, false) => return None,
        };
        let x = field.square(&slope).add(&slope).add(&x_1).add(&x_2).add(&self.a);
        let y = field.multiply(&slope, &x_1.add(&x)).add(&x).add(&y_1);
        Some(self.point(&x, &y))
    }
}
