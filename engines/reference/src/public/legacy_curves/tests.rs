//! The groups by themselves.

use ciphermill_contract::suite::Curve;

use crypto_bigint::U576;

use super::group::bytes;
use super::*;

fn domains() -> impl Iterator<Item = Domain> {
    Curve::ALL.into_iter().filter(|curve| curve.is_legacy()).map(|curve| Domain::new(curve).unwrap())
}

fn scalar(domain: &Domain, number: &U576) -> Zeroizing<Vec<u8>> {
    bytes(number, domain.curve.order_len())
}

#[test]
fn generators_are_in_their_groups() {
    for domain in domains() {
        assert!(domain.group.contains(&domain.generator), "{}", domain.curve);
        assert_eq!(domain.order.bits().div_ceil(8) as usize, domain.curve.order_len(), "{}", domain.curve);
    }
}

/// Multiples and sums are computed in different ways.
#[test]
fn multiples_are_repeated_sums() {
    for domain in domains() {
        let (group, generator) = (&domain.group, &domain.generator);
        let mut sum = generator.clone();
        for number in 1..9u64 {
            assert_eq!(group.multiply(&scalar(&domain, &U576::from(number)), generator).as_ref(), Some(&sum));
            sum = group.add(&sum, generator).unwrap();
        }
        let last = group.multiply(&scalar(&domain, &domain.order.wrapping_sub(&U576::ONE)), generator).unwrap();
        assert_eq!(group.add(&last, generator), None, "{}", domain.curve);
        let before =
            group.multiply(&scalar(&domain, &domain.order.wrapping_sub(&U576::from(2u64))), generator).unwrap();
        assert_eq!(group.add(&before, generator), Some(last), "{}", domain.curve);
    }
}

#[test]
fn points_come_back_from_their_compression() {
    for domain in domains() {
        let two = domain.group.multiply(&scalar(&domain, &U576::from(2u64)), &domain.generator).unwrap();
        for point in [&domain.generator, &two] {
            let both = [2, 3].map(|first| domain.decode(&[&[first][..], &point.x].concat()).unwrap());
            assert!(both.contains(point) && both[0] != both[1], "{}", domain.curve);
            assert_eq!(domain.group.add(&both[0], &both[1]), None, "{}", domain.curve);
        }
    }
}

/// The point of order two, `(0, √b)`, and its sum with the generator are on the curve, but in no group of odd order.
#[test]
fn points_outside_the_subgroup_are_found() {
    for domain in domains().filter(|domain| domain.curve.is_binary()) {
        let zero = vec![0; domain.curve.field_len()];
        let second = domain.group.decompress(&zero, false).unwrap();
        let mixed = domain.group.add(&second, &domain.generator).unwrap();
        for point in [second, mixed] {
            assert!(!domain.group.contains(&point), "{}", domain.curve);
        }
    }
}
