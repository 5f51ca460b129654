//! Which keys suites take: raw keys by length, encoded ones by their structure. Numbers that are no key's serve as well as
//! others, since no arithmetic is done.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Error, KeyForm, KeyMaterial, Suite};

fn verdict(name: &str, form: KeyForm, bytes: &[u8]) -> Result<(), KeyProblem> {
    let suite: Suite = name.parse().expect("a suite");
    let checked = suite.check_key(&KeyMaterial { form, bytes });
    let problems =
        [KeyProblem::Form, KeyProblem::Length, KeyProblem::Encoding, KeyProblem::Parameters, KeyProblem::Weak];
    checked
        .map_err(|error| problems.into_iter().find(|problem| error == Error::key(suite, *problem)).expect("a problem"))
}

#[test]
fn raw_keys_have_one_length() {
    let lengths = [
        // RFC 7748, 5; RFC 8032, 5.1.5.
        ("x25519", KeyForm::Private, 32),
        ("ed25519", KeyForm::Private, 32),
        ("ed25519", KeyForm::Public, 32),
        // FIPS 203, table 3 and algorithm 19; FIPS 204, table 2 and algorithm 6.
        ("ml-kem-512", KeyForm::Private, 64),
        ("ml-kem-512", KeyForm::Public, 800),
        ("ml-kem-768", KeyForm::Public, 1184),
        ("ml-kem-1024", KeyForm::Public, 1568),
        ("ml-dsa-65", KeyForm::Private, 32),
        ("ml-dsa-44", KeyForm::Public, 1312),
        ("ml-dsa-65", KeyForm::Public, 1952),
        ("ml-dsa-87", KeyForm::Public, 2592),
    ];
    for (name, form, len) in lengths {
        for other in [1, len - 1, len, len + 1] {
            let expected = if other == len { Ok(()) } else { Err(KeyProblem::Length) };
            assert_eq!(verdict(name, form, &vec![7; other]), expected, "{name} {form:?} of {other} bytes");
        }
    }
}

#[test]
fn keys_that_are_known_to_everybody_are_weak() {
    let mut halves = [7; 64];
    assert_eq!(verdict("aes-256-xts", KeyForm::Secret, &halves), Err(KeyProblem::Weak));
    halves[63] = 8;
    assert_eq!(verdict("aes-256-xts", KeyForm::Secret, &halves), Ok(()));
    assert_eq!(verdict("dh-ffdhe2048", KeyForm::Private, &[0; 256]), Err(KeyProblem::Weak));
    assert_eq!(verdict("dh-ffdhe2048", KeyForm::Private, &[1, 1]), Ok(()), "not zero, though equal bytes cancel out");
    assert_eq!(verdict("dh-ffdhe2048", KeyForm::Private, &[1; 257]), Err(KeyProblem::Length));
    // The point with y = 0, of order four.
    assert_eq!(verdict("ed25519", KeyForm::Public, &[0; 32]), Err(KeyProblem::Weak));
}

/// An element of DER (X.690, 8.1).
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let len = match body.len() {
        len @ 0..=0x7f => vec![len as u8],
        len @ 0x80..=0xff => vec![0x81, len as u8],
        len => vec![0x82, (len >> 8) as u8, len as u8],
    };
    [&[tag][..], &len, &body].concat()
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, parts)
}

fn integer(number: &[u8]) -> Vec<u8> {
    let sign: &[u8] = if number.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    element(2, &[sign, number])
}

/// A number of so many bits, whose last byte is `last`.
fn number(bits: usize, last: u8) -> Vec<u8> {
    let mut bytes = vec![0x11; bits.div_ceil(8)];
    bytes[0] = 1 << ((bits - 1) % 8);
    *bytes.last_mut().expect("one bit or more") |= last;
    bytes
}

/// rsaEncryption and NULL (RFC 8017, A.1).
const RSA: &[u8] = &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
/// ecPublicKey on P-256 and on P-384 (RFC 5480, 2.1.1).
const P256: &[u8] = &[0x30, 19, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x30, 16, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 5, 0x2b, 0x81, 4, 0, 0x22];

const SUITES: [&str; 2] = ["rsa-1024-sign-pss-sha256", "rsa-1024-encrypt-oaep-sha256"];

fn rsa_public(algorithm: &[u8], numbers: &[&[u8]]) -> Result<(), KeyProblem> {
    let key = sequence(
        &numbers.iter().map(|number| integer(number)).collect::<Vec<_>>().iter().map(Vec::as_slice).collect::<Vec<_>>(),
    );
    let der = sequence(&[algorithm, &element(3, &[&[0], &key])]);
    let verdicts = SUITES.map(|name| verdict(name, KeyForm::Public, &der));
    assert_eq!(verdicts[0], verdicts[1]);
    verdicts[0]
}

#[test]
fn a_modulus_has_its_size_and_an_exponent_its_bounds() {
    let (modulus, exponent) = (number(1024, 1), &[1, 0, 1][..]);
    let of = |modulus: &[u8], exponent: &[u8]| rsa_public(RSA, &[modulus, exponent]);
    assert_eq!(of(&modulus, exponent), Ok(()));
    for bits in [1016, 1023, 1025, 1032, 2048] {
        assert_eq!(of(&number(bits, 1), exponent), Err(KeyProblem::Parameters), "{bits} bits");
    }
    assert_eq!(of(&[&modulus[..127], &[0x10]].concat(), exponent), Err(KeyProblem::Encoding), "even");
    for right in [&[3][..], &[17], &number(33, 1)] {
        assert_eq!(of(&modulus, right), Ok(()), "{right:?}");
    }
    for wrong in [&[][..], &[1], &[2], &[1, 0, 0], &number(34, 1)] {
        assert_eq!(of(&modulus, wrong), Err(KeyProblem::Encoding), "{wrong:?}");
    }
    assert_eq!(rsa_public(RSA, &[&modulus, exponent, &[1]]), Err(KeyProblem::Encoding), "a number too many");
    assert_eq!(rsa_public(RSA, &[&modulus]), Err(KeyProblem::Encoding), "one too few");
    assert_eq!(rsa_public(P256, &[&modulus, exponent]), Err(KeyProblem::Parameters));
    let mut not_null = RSA.to_vec();
    not_null.push(0);
    (not_null[1], not_null[14]) = (14, 1);
    assert_eq!(rsa_public(&not_null, &[&modulus, exponent]), Err(KeyProblem::Encoding), "parameters other than NULL");
}

/// Version, modulus, exponent, private exponent, two primes, three numbers for the remainder theorem (RFC 8017, A.1.2).
fn rsa_numbers() -> Vec<Vec<u8>> {
    let half = || number(512, 1);
    vec![vec![], number(1024, 1), vec![1, 0, 1], number(1023, 1), half(), half(), half(), half(), half()]
}

fn rsa_private(numbers: &[Vec<u8>]) -> Result<(), KeyProblem> {
    let numbers: Vec<Vec<u8>> = numbers.iter().map(|number| integer(number)).collect();
    let key = sequence(&numbers.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let der = sequence(&[&integer(&[]), RSA, &element(4, &[&key])]);
    let verdicts = SUITES.map(|name| verdict(name, KeyForm::Private, &der));
    assert_eq!(verdicts[0], verdicts[1]);
    verdicts[0]
}

#[test]
fn private_rsa_keys_have_nine_numbers_of_their_sizes() {
    assert_eq!(rsa_private(&rsa_numbers()), Ok(()));
    let with = |place: usize, number: Vec<u8>| {
        let mut numbers = rsa_numbers();
        numbers[place] = number;
        rsa_private(&numbers)
    };
    assert_eq!(with(0, vec![1]), Err(KeyProblem::Encoding), "more than two primes");
    assert_eq!(with(1, number(1023, 1)), Err(KeyProblem::Parameters));
    assert_eq!(with(2, vec![2]), Err(KeyProblem::Encoding));
    for place in [4, 5] {
        for bits in [504, 511, 513, 1024] {
            assert_eq!(with(place, number(bits, 1)), Err(KeyProblem::Parameters), "a prime of {bits} bits");
        }
    }
    assert_eq!(rsa_private(&rsa_numbers()[..8]), Err(KeyProblem::Encoding));
    assert_eq!(rsa_private(&[rsa_numbers(), vec![vec![1]]].concat()), Err(KeyProblem::Encoding));
    // The private exponent is below the modulus (RFC 8017, 3.2).
    let modulus = number(1024, 1);
    let mut below = modulus.clone();
    below[127] -= 1;
    let mut above = modulus.clone();
    above[127] += 1;
    let shorter = vec![0xff; 127];
    for right in [below, shorter] {
        assert_eq!(with(3, right), Ok(()));
    }
    for wrong in [modulus, above, number(1032, 1)] {
        assert_eq!(with(3, wrong), Err(KeyProblem::Encoding));
    }
}

fn curve_public(algorithm: &[u8]) -> Result<(), KeyProblem> {
    let der = sequence(&[algorithm, &element(3, &[&[0, 4], &[7; 64]])]);
    let verdicts = ["ecdsa-p256", "ecdh-p256"].map(|name| verdict(name, KeyForm::Public, &der));
    assert_eq!(verdicts[1], Err(KeyProblem::Form), "of an agreement they come with the operation");
    verdicts[0]
}

#[test]
fn a_key_names_its_curve_and_nothing_besides() {
    assert_eq!(curve_public(P256), Ok(()));
    assert_eq!(curve_public(P384), Err(KeyProblem::Parameters));
    assert_eq!(curve_public(RSA), Err(KeyProblem::Parameters));
    for (curve, problem) in [(P256, KeyProblem::Encoding), (P384, KeyProblem::Encoding)] {
        let more = sequence(&[&curve[2..], &[5, 0]]);
        assert_eq!(curve_public(&more), Err(problem), "something after the curve");
    }
    let no_name = sequence(&[&P256[2..11], &[5, 0]]);
    assert_eq!(curve_public(&no_name), Err(KeyProblem::Parameters));
    assert_eq!(curve_public(&sequence(&[&P256[2..11]])), Err(KeyProblem::Parameters));
}

/// A scalar in SEC 1 (RFC 5915, 3) with what may follow it, and attributes (RFC 5208, 5).
fn curve_private(scalar_len: usize, optional: &[u8], attributes: &[u8]) -> Result<(), KeyProblem> {
    let key = sequence(&[&[2, 1, 1], &element(4, &[&vec![7; scalar_len]]), optional]);
    let der = sequence(&[&integer(&[]), P256, &element(4, &[&key]), attributes]);
    let verdicts = ["ecdsa-p256", "ecdh-p256"].map(|name| verdict(name, KeyForm::Private, &der));
    assert_eq!(verdicts[0], verdicts[1]);
    verdicts[0]
}

#[test]
fn a_scalar_may_be_followed_by_the_same_curve_and_a_point() {
    let curve = |algorithm: &[u8]| element(0xa0, &[&algorithm[11..]]);
    let point = |len: usize| element(0xa1, &[&element(3, &[&[0, 4], &vec![7; len]])]);
    for right in [vec![], curve(P256), point(64), [curve(P256), point(64)].concat()] {
        assert_eq!(curve_private(32, &right, &[]), Ok(()), "{right:?}");
    }
    assert_eq!(curve_private(32, &curve(P384), &[]), Err(KeyProblem::Parameters));
    for wrong in [point(63), [point(64), curve(P256)].concat(), vec![5, 0]] {
        assert_eq!(curve_private(32, &wrong, &[]), Err(KeyProblem::Encoding), "{wrong:?}");
    }
    assert_eq!(curve_private(33, &[], &[]), Err(KeyProblem::Encoding));
}

#[test]
fn attributes_are_sound_though_nobody_reads_them() {
    let attribute = |values: &[u8]| element(0xa0, &[&sequence(&[&[6, 3, 0x55, 0x1d, 15], &element(0x31, &[values])])]);
    for right in [&[][..], &[3, 2, 0, 0x80], &[3, 2, 0, 0x80, 5, 0]] {
        assert_eq!(curve_private(32, &[], &attribute(right)), Ok(()), "{right:?}");
    }
    for wrong in [&[3][..], &[3, 2, 0], &[3, 2, 0, 0x80, 5]] {
        assert_eq!(curve_private(32, &[], &attribute(wrong)), Err(KeyProblem::Encoding), "{wrong:?}");
    }
}
