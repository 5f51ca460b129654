//! Curves by their parameters.

use ciphermill_contract::suite::Curve;
use ciphermill_pairs::curves::{Field, Parameters, parameters};
use crypto_bigint::U576;
use zeroize::Zeroizing;

use super::binary::BinaryCurve;
use super::binary_field::BinaryField;
use super::group::{Group, Point, bytes, number};
use super::prime::PrimeCurve;

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
pub(super) const UNCOMPRESSED: u8 = 4;

fn group(parameters: &'static Parameters) -> Option<Box<dyn Group>> {
    Some(match parameters.field {
        Field::Prime(prime) => Box::new(PrimeCurve::new(prime, parameters)?),
        Field::Binary { degree, middle } => Box::new(BinaryCurve::new(BinaryField::new(degree, middle), parameters)),
    })
}

/// A curve with its group.
pub(super) struct Domain {
    pub(super) curve: Curve,
    pub(super) group: Box<dyn Group>,
    pub(super) generator: Point,
    pub(super) order: U576,
}

impl Domain {
    pub(super) fn new(curve: Curve) -> Option<Domain> {
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
    pub(super) fn decode(&self, octets: &[u8]) -> Option<Point> {
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
    pub(super) fn is_scalar(&self, scalar: &U576) -> bool {
        bool::from(scalar.is_nonzero()) && scalar < &self.order
    }
}
