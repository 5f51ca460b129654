//! The group of Ed25519 against what its constants say of themselves, and against another implementation's multiples of points, by
//! every kernel that this processor can run.

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity as _;

use super::super::isa::{PublicKernel, public_kernels};
use super::super::room::Room;
use super::base::{BaseProduct, Digits, multiply};
use super::combine::{Unpacking, Verification, combine, unpack};
use super::edwards::{D, ROOT_OF_MINUS_ONE, TWICE_D};
use super::field::Element;
use super::isa::FieldIsa;
use super::{bytes_of, words_of};

fn words(bytes: &[u8; 32]) -> [u64; 4] {
    words_of(bytes).expect("as many")
}

/// Scalars at both ends of what there is, and others.
fn scalars(count: usize) -> Vec<Scalar> {
    let mut bytes = [7u8; 64];
    let mut next = |index: usize| {
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = byte.wrapping_mul(5).wrapping_add((index + i) as u8));
        Scalar::from_bytes_mod_order_wide(&bytes)
    };
    let ends = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(2u64), -Scalar::from(2u64), Scalar::from(31u64)];
    ends.into_iter().chain((0..).map(&mut next)).take(count).collect()
}

#[inline(always)]
fn constants_in<I: FieldIsa>(isa: I, all: u32) {
    let (d, twice_d) = (Element::splat(isa, D), Element::splat(isa, TWICE_D));
    let number = |number: u64| Element::splat(isa, [number, 0, 0, 0, 0]);
    // d = -121665 / 121666.
    let product = d.mul(isa, &number(121_666)).carry(isa);
    assert_eq!(isa.bits(product.equals(isa, &number(121_665).negative(isa))), all);
    assert_eq!(isa.bits(twice_d.equals(isa, &d.add(isa, &d).carry(isa))), all);
    let square = Element::splat(isa, ROOT_OF_MINUS_ONE).square(isa).carry(isa);
    assert_eq!(isa.bits(square.equals(isa, &number(1).negative(isa))), all);
}

public_kernels! {
    fn constants(all: u32) = constants_in
}

fn kernels() -> impl Iterator<Item = PublicKernel> {
    PublicKernel::NAMES.iter().filter_map(|name| PublicKernel::detect(name))
}

#[test]
fn the_constants_are_those_of_the_curve() {
    for kernel in kernels() {
        constants(kernel, (1 << kernel.lanes()) - 1);
    }
}

#[test]
fn products_of_the_base_point_are_another_implementations() {
    for kernel in kernels() {
        for count in [1, 7, 8, 19] {
            let scalars = scalars(count);
            let of = |scalar: &Scalar| BaseProduct { scalar: Digits::of(words(scalar.as_bytes())), encoding: [0; 4] };
            let mut all: Vec<BaseProduct> = scalars.iter().map(of).collect();
            multiply(kernel, &mut Room::default(), &mut all);
            for (scalar, product) in scalars.iter().zip(&all) {
                let expected = EdwardsPoint::mul_base(scalar).compress();
                assert_eq!(bytes_of(&product.encoding), expected.0, "{} of {count}", kernel.name());
            }
        }
    }
}

/// With keys that have a part of small order too, for which multiples of the order are not zero.
#[test]
fn combinations_of_points_are_another_implementations() {
    // A point of order eight (RFC 8032 has none by name): its `y` is among those that the contract refuses as keys.
    let mut torsion = [0; 32];
    hex::decode_to_slice("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", &mut torsion)
        .expect("hex");
    let torsion = CompressedEdwardsY(torsion).decompress().expect("a point");
    assert!(torsion.is_small_order() && !(torsion + torsion + torsion + torsion).is_identity());
    for kernel in kernels() {
        let scalars = scalars(21);
        let points: Vec<EdwardsPoint> = scalars.iter().skip(1).map(|s| EdwardsPoint::mul_base(s) + torsion).collect();
        let of = |point: &EdwardsPoint| Unpacking { encoding: words(&point.compress().0), points: None };
        let mut keys: Vec<Unpacking> = points.iter().map(of).collect();
        unpack(kernel, &mut Room::default(), &mut keys);
        let of = |(i, key): (usize, &Unpacking)| (scalars[i], scalars[(i * 7 + 2) % 21], key.points.expect("a point"));
        let parts: Vec<_> = keys.iter().enumerate().map(of).collect();
        let of = |(s, k, key)| Verification { key, s: Digits::of(words(s)), k: words(k), r: [0; 4] };
        let mut all: Vec<Verification<'_>> =
            parts.iter().map(|(s, k, key)| of((s.as_bytes(), k.as_bytes(), key))).collect();
        combine(kernel, &mut Room::default(), &mut all);
        for (((s, k, _), point), got) in parts.iter().zip(&points).zip(&all) {
            let expected = EdwardsPoint::mul_base(s) - point * k;
            assert_eq!(bytes_of(&got.r), expected.compress().0, "{}", kernel.name());
        }
    }
}

#[test]
fn about_half_of_all_numbers_are_a_points() {
    for kernel in kernels() {
        let of = |y: u64| Unpacking { encoding: [y / 2, 0, 0, y << 63], points: None };
        let mut all: Vec<Unpacking> = (4..100).map(of).collect();
        unpack(kernel, &mut Room::default(), &mut all);
        for got in &all {
            let expected = CompressedEdwardsY(bytes_of(&got.encoding)).decompress();
            assert_eq!(got.points.is_some(), expected.is_some(), "{} {:?}", kernel.name(), got.encoding);
        }
        assert!((20..80).contains(&all.iter().filter(|one| one.points.is_some()).count()));
    }
}
