//! Arithmetic on curves that no token is asked for: whether a point is one, and which belongs to a private key that is copied.

use ciphermill_contract::suite::Curve;
use p256::NistP256;
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize, PublicKey, SecretKey};
use p384::NistP384;
use p521::NistP521;

/// The point of a scalar, uncompressed (SEC 1, 2.3.3); none for zero, a scalar that is not below the order, and other curves than those
/// that are claimed.
pub(crate) fn point_of(curve: Curve, scalar: &[u8]) -> Option<Vec<u8>> {
    match curve {
        Curve::P256 => of_scalar::<NistP256>(scalar),
        Curve::P384 => of_scalar::<NistP384>(scalar),
        Curve::P521 => of_scalar::<NistP521>(scalar),
        _ => None,
    }
}

/// A point in either form, uncompressed; none when it is not on the curve.
pub(crate) fn uncompressed(curve: Curve, octets: &[u8]) -> Option<Vec<u8>> {
    match curve {
        Curve::P256 => of_octets::<NistP256>(octets),
        Curve::P384 => of_octets::<NistP384>(octets),
        Curve::P521 => of_octets::<NistP521>(octets),
        _ => None,
    }
}

fn of_scalar<C>(scalar: &[u8]) -> Option<Vec<u8>>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let secret = SecretKey::<C>::from_slice(scalar).ok()?;
    Some(secret.public_key().to_sec1_point(false).as_bytes().to_vec())
}

/// Points off the curve and the point at infinity do not parse; the cofactor of these curves is one.
fn of_octets<C>(octets: &[u8]) -> Option<Vec<u8>>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let public = PublicKey::<C>::from_sec1_bytes(octets).ok()?;
    Some(public.to_sec1_point(false).as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_off_the_curve_and_scalars_out_of_range_are_none() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            let mut scalar = vec![0; curve.order_len()];
            assert_eq!(point_of(curve, &scalar), None, "zero");
            scalar[curve.order_len() - 1] = 3;
            let mut point = point_of(curve, &scalar).expect("three");
            assert_eq!(uncompressed(curve, &point), Some(point.clone()));
            let compressed = [&[2 + (point[point.len() - 1] & 1)], &point[1..=curve.field_len()]].concat();
            assert_eq!(uncompressed(curve, &compressed), Some(point.clone()));
            let last = point.len() - 1;
            point[last] ^= 1;
            assert_eq!(uncompressed(curve, &point), None);
            assert_eq!(point_of(curve, &vec![0xff; curve.order_len()]), None, "beyond the order");
        }
    }
}
