//! Keys that do not suit: forms, lengths, encodings, parameters, weak values, and bytes of no meaning.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve, DhGroup, Digest, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Error, KeyForm, KeyMaterial, Refusal, Suite};
use proptest::prelude::*;

use super::published::unhex;
use super::{prepare, suites, test_pairs};

fn suite(name: &str) -> Suite {
    name.parse().unwrap()
}

#[track_caller]
fn assert_problem(key: KeyMaterial<'_>, suite: Suite, problem: KeyProblem) {
    assert_eq!(prepare(key, suite).err(), Some(Error::key(suite, problem)), "{suite} {key:?}");
}

/// Whether keys are DER; the others are raw bytes.
fn is_der(suite: Suite) -> bool {
    let name = ciphermill_vectors::keys::pair_name(suite).unwrap();
    ["rsa", "p224", "p256", "p384", "p521", "sec", "brainpool"].iter().any(|kind| name.starts_with(kind))
}

#[test]
fn forms_that_serve_no_direction_are_refused() {
    for suite in suites() {
        let pair = test_pairs(suite)[0];
        assert_problem(KeyMaterial::secret(&pair.private), suite, KeyProblem::Form);
        if matches!(suite, Suite::Agree(_)) {
            assert_problem(KeyMaterial::public(&pair.public), suite, KeyProblem::Form);
        }
    }
}

#[test]
fn empty_and_huge_keys_are_refused() {
    for suite in suites() {
        for form in [KeyForm::Private, KeyForm::Public] {
            if form == KeyForm::Public && matches!(suite, Suite::Agree(_)) {
                continue;
            }
            for bytes in [vec![], vec![1; ciphermill_contract::limits::KEY_LEN_MAX + 1]] {
                assert_problem(KeyMaterial { form, bytes: &bytes }, suite, KeyProblem::Length);
            }
        }
    }
}

#[test]
fn damaged_lengths_are_refused() {
    for suite in suites() {
        let pair = test_pairs(suite)[0];
        let problem = if is_der(suite) { KeyProblem::Encoding } else { KeyProblem::Length };
        let is_dh = matches!(suite, Suite::Agree(Agreement::Dh(_)));
        for (form, bytes) in [(KeyForm::Private, &pair.private), (KeyForm::Public, &pair.public)] {
            if is_dh || (form == KeyForm::Public && matches!(suite, Suite::Agree(_))) {
                continue;
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert_problem(KeyMaterial { form, bytes: &bytes[..bytes.len() - 1] }, suite, problem);
            assert_problem(KeyMaterial { form, bytes: &longer }, suite, problem);
        }
        if is_der(suite) {
            // One form in place of the other.
            assert_problem(KeyMaterial::private(&pair.public), suite, KeyProblem::Encoding);
        }
    }
}

#[test]
fn keys_of_other_sizes_and_curves_are_refused() {
    let kinds = [
        rsa_suite(RsaSize::Rsa1024),
        rsa_suite(RsaSize::Rsa2048),
        suite("ecdsa-p256"),
        suite("ecdsa-p384"),
        suite("ecdsa-p521"),
        suite("ecdsa-sect163k1"),
        suite("ecdsa-sect163r1"),
        suite("ecdsa-secp160r1"),
        suite("ecdsa-secp256k1"),
        suite("ecdsa-p224"),
        suite("ecdsa-brainpoolp256r1"),
        suite("ecdsa-brainpoolp384r1"),
    ];
    for key_suite in kinds {
        for suite in kinds.into_iter().filter(|suite| *suite != key_suite) {
            let pair = test_pairs(key_suite)[0];
            assert_problem(KeyMaterial::private(&pair.private), suite, KeyProblem::Parameters);
            assert_problem(KeyMaterial::public(&pair.public), suite, KeyProblem::Parameters);
        }
    }
}

/// A signature suite over a modulus of this size.
fn rsa_suite(size: RsaSize) -> Suite {
    Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256))
}

/// A private key with a public key in it that belongs to another one.
#[test]
fn halves_of_different_pairs_are_refused() {
    for curve in Curve::ALL {
        let agreement = Agreement::Ecdh(curve);
        for suite in [Suite::Agree(agreement), suite(&format!("ecdsa-{curve}"))] {
            let [first, second] = test_pairs(suite);
            let mut mixed = first.private.clone();
            let at = mixed.len() - agreement.public_len();
            assert_eq!(mixed[at..], first.public[first.public.len() - agreement.public_len()..]);
            mixed[at..].copy_from_slice(&second.public[second.public.len() - agreement.public_len()..]);
            assert_problem(KeyMaterial::private(&mixed), suite, KeyProblem::Encoding);
        }
    }
}

#[test]
fn rsa_numbers_that_do_not_belong_together_are_refused() {
    let suite = rsa_suite(RsaSize::Rsa2048);
    let pair = test_pairs(suite)[0];
    // Somewhere within the private exponent, the primes and the modulus.
    for at in [100, 400, 700, 800] {
        let mut damaged = pair.private.clone();
        damaged[at] ^= 1;
        assert_problem(KeyMaterial::private(&damaged), suite, KeyProblem::Encoding);
    }
    // Even moduli have no Montgomery form; the last byte of the modulus is before the exponent's five.
    let mut even = pair.public.clone();
    let at = even.len() - 6;
    even[at] &= 0xfe;
    assert_problem(KeyMaterial::public(&even), suite, KeyProblem::Encoding);
}

#[test]
fn public_points_off_the_curve_are_refused() {
    for name in ["ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ecdsa-secp160r1", "ecdsa-sect283k1", "ecdsa-sect233r1"] {
        let suite = suite(name);
        let mut public = test_pairs(suite)[0].public.clone();
        *public.last_mut().unwrap() ^= 1;
        assert_problem(KeyMaterial::public(&public), suite, KeyProblem::Encoding);
    }
}

#[test]
fn dh_exponents_lie_below_the_order() {
    for group in [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096] {
        let suite = Suite::Agree(Agreement::Dh(group));
        let prime = ciphermill_pairs::dh::prime(group);
        // (p - 1) / 2: the prime shifted by one bit.
        let mut carry = 0;
        let order: Vec<u8> = prime.iter().map(|byte| std::mem::replace(&mut carry, byte << 7) | byte >> 1).collect();
        let mut below = order.clone();
        *below.last_mut().unwrap() -= 1;
        assert!(prepare(KeyMaterial::private(&below), suite).is_ok());
        assert!(prepare(KeyMaterial::private(&[1]), suite).is_ok());
        assert_problem(KeyMaterial::private(&order), suite, KeyProblem::Parameters);
        assert_problem(KeyMaterial::private(prime), suite, KeyProblem::Parameters);
        assert_problem(KeyMaterial::private(&[0]), suite, KeyProblem::Weak);
        assert_problem(KeyMaterial::private(&vec![0; group.len()]), suite, KeyProblem::Weak);
        assert_problem(KeyMaterial::private(&vec![1; group.len() + 1]), suite, KeyProblem::Length);
    }
}

/// RFC 8032, 5.1.3: coordinates are below the prime, and zero has no sign. Points of order 1, 2, 4 and 8 sign for all
/// messages alike.
#[test]
fn ed25519_keys_are_canonical_and_of_large_order() {
    let suite = suite("ed25519");
    for (key, problem) in [
        // y = p, p + 1, and 1 with the sign of a zero.
        ("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyProblem::Encoding),
        ("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyProblem::Encoding),
        ("0100000000000000000000000000000000000000000000000000000000000080", KeyProblem::Encoding),
        // y = 2: not on the curve.
        ("0200000000000000000000000000000000000000000000000000000000000000", KeyProblem::Encoding),
        ("0100000000000000000000000000000000000000000000000000000000000000", KeyProblem::Weak),
        ("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyProblem::Weak),
        ("0000000000000000000000000000000000000000000000000000000000000000", KeyProblem::Weak),
        ("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", KeyProblem::Weak),
    ] {
        assert_problem(KeyMaterial::public(&unhex(key)), suite, problem);
    }
}

#[test]
fn ml_kem_coefficients_are_reduced() {
    for suite in suites() {
        let Suite::Kem(kem) = suite else { continue };
        assert_problem(KeyMaterial::public(&vec![0xff; kem.public_len()]), suite, KeyProblem::Encoding);
    }
}

#[test]
fn suites_outside_the_lists_are_not_available() {
    let unlisted = [
        Suite::Sign(Signature::Rsa(RsaSize::Rsa1024, SignPadding::Pss, Digest::Sha512)),
        Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pkcs1, Digest::Md5)),
    ];
    for suite in unlisted {
        let error = prepare(KeyMaterial::private(&[1; 32]), suite).err();
        assert_eq!(error, Some(Error::Refused(Refusal::EngineUnavailable("reference".to_owned()))), "{suite}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a key's bytes are, preparing ends with a key or a refusal.
    #[test]
    fn no_bytes_of_a_key_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), private in any::<bool>()) {
        let form = if private { KeyForm::Private } else { KeyForm::Public };
        for suite in suites() {
            let is_raw_secret = private && bytes.len() == 32;
            let is_refused = prepare(KeyMaterial { form, bytes: &bytes }, suite).is_err();
            prop_assert!(is_refused || is_raw_secret || !is_der(suite));
        }
    }

    /// The same of keys with one byte changed, which reaches deeper into the parsers.
    #[test]
    fn no_change_of_a_key_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), private in any::<bool>()) {
        for suite in ["ecdsa-p256", "ecdh-p384", "ecdsa-p521", "ecdsa-sect163r1"].map(suite).into_iter().chain([rsa_suite(RsaSize::Rsa1024)]) {
            let pair = test_pairs(suite)[0];
            let (form, bytes) =
                if private { (KeyForm::Private, &pair.private) } else { (KeyForm::Public, &pair.public) };
            let mut bytes = bytes.clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = prepare(KeyMaterial { form, bytes: &bytes }, suite);
        }
    }
}
