//! Public-key suites: there and back, damage, peers' bad values, and keys that do not suit.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may stop at once, its helpers too")]

mod support;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve, PublicEncryption, Signature, lists};
use ciphermill_contract::{
    Direction, Engine, Error, KeyForm, KeyMaterial, OpStatus, Reason, Refusal, Suite, capability,
};
use ciphermill_vectors::keys::{TestPair, pair_name, pairs};
use support::{Answer, Job, Random, library, run_one};

const FORWARD: Direction = Direction::Encrypt;
const BACK: Direction = Direction::Decrypt;

/// Suites of one kind that the engine claims, each with two key pairs.
fn claimed(wanted: impl Fn(Suite) -> bool) -> Vec<(Suite, Vec<&'static TestPair>)> {
    let engine = library();
    Suite::all()
        .filter(|suite| wanted(*suite) && capability::find(engine.capabilities(), *suite, FORWARD).is_some())
        .map(|suite| (suite, pairs(&pair_name(suite).unwrap())))
        .collect()
}

fn job(key: &[u8], input: &[u8], tag: &[u8]) -> Job {
    Job { key: key.to_vec(), input: input.to_vec(), tag: tag.to_vec(), gap: 5, ..Job::default() }
}

fn private(suite: Suite, direction: Direction, job: &Job) -> Answer {
    run_one(suite, direction, KeyForm::Private, job)
}

fn public(suite: Suite, direction: Direction, job: &Job) -> Answer {
    run_one(suite, direction, KeyForm::Public, job)
}

#[test]
fn signatures_verify_until_anything_changes() {
    let suites = claimed(|suite| matches!(suite, Suite::Sign(_)));
    assert_eq!(suites.len(), 16 + 15 + 3 + 3 + 4 * 2 + 1 + 3);
    let mut random = Random(1);
    for (suite, pairs) in suites {
        let [pair, other] = pairs[..] else { panic!("{suite}: two pairs") };
        let len = suite.default_tag_len();
        let takes_digests = matches!(suite, Suite::Sign(Signature::EcdsaDigest(_)));
        for message_len in if takes_digests { [20, 32, 64] } else { [0, 1, 1000] } {
            let message = random.bytes(message_len);
            let signed = private(suite, FORWARD, &job(&pair.private, &message, &vec![0; len + 7]));
            assert_eq!((signed.status, signed.tag.len()), (OpStatus::Done, len), "{suite}");
            let good = job(&pair.public, &message, &signed.tag);
            assert_eq!(public(suite, BACK, &good).status, OpStatus::Done, "{suite}");
            let with_private = Job { key: pair.private.clone(), ..good.clone() };
            assert_eq!(private(suite, BACK, &with_private).status, OpStatus::Done, "{suite}");
            let mut damaged = good.clone();
            damaged.tag[random.below(len)] ^= 1 << random.below(8);
            // Of a digest only the leftmost bits may count.
            let other_message = match message.split_first() {
                Some((first, rest)) if takes_digests => [&[first ^ 1], rest].concat(),
                _ => [&message[..], b"!"].concat(),
            };
            let exchanged = Job { input: other_message, ..good.clone() };
            let foreign = Job { key: other.public.clone(), ..good.clone() };
            let blank = Job { tag: vec![0; len], ..good.clone() };
            let full = Job { tag: vec![0xff; len], ..good };
            for bad in [damaged, exchanged, foreign, blank, full] {
                assert_eq!(public(suite, BACK, &bad).status, OpStatus::AuthFailed, "{suite}");
            }
        }
        let refused = public(suite, FORWARD, &job(&pair.public, &[7; 32], &vec![0; len]));
        assert_eq!(refused.status, OpStatus::Refused(Reason::KeyUnsuitable), "{suite}");
    }
}

#[test]
fn encryption_comes_back() {
    // Without padding, messages are numbers: conformance asks for those.
    let is_padded = |encryption| !matches!(encryption, PublicEncryption::RsaRaw(_));
    let suites = claimed(|suite| matches!(suite, Suite::PublicEncrypt(encryption) if is_padded(encryption)));
    assert_eq!(suites.len(), 4 + 8);
    let mut random = Random(2);
    for (suite, pairs) in suites {
        let Suite::PublicEncrypt(encryption) = suite else { unreachable!() };
        let size = encryption.size().len();
        for message_len in [0, 1, encryption.message_len().max] {
            for in_place in [false, true] {
                let message = random.bytes(message_len);
                let plain = Job { in_place, ..job(&pairs[0].public, &message, &[]) };
                let (ciphertext, _) = public(suite, FORWARD, &plain).done();
                assert_eq!(ciphertext.len(), size, "{suite}");
                let back = Job { in_place, ..job(&pairs[0].private, &ciphertext, &[]) };
                assert_eq!(private(suite, BACK, &back).done().0, message, "{suite}");
                if matches!(encryption, PublicEncryption::RsaOaep(..)) {
                    let mut damaged = back.clone();
                    damaged.input[size - 1] ^= 1;
                    let foreign = Job { key: pairs[1].private.clone(), ..back };
                    for bad in [damaged, foreign] {
                        let answer = private(suite, BACK, &bad);
                        assert_eq!((answer.status, answer.output.len()), (OpStatus::AuthFailed, 0), "{suite}");
                    }
                }
            }
        }
        let above_modulus = job(&pairs[0].private, &vec![0xff; size], &[]);
        assert_eq!(private(suite, BACK, &above_modulus).status, OpStatus::AuthFailed, "{suite}");
        let refused = public(suite, BACK, &job(&pairs[0].public, &vec![1; size], &[]));
        assert_eq!(refused.status, OpStatus::Refused(Reason::KeyUnsuitable), "{suite}");
    }
}

/// The public value as a peer sends it: for curves the point at the end of the SubjectPublicKeyInfo.
fn public_value(suite: Suite, pair: &TestPair) -> Vec<u8> {
    let Suite::Agree(agreement) = suite else { unreachable!() };
    pair.public[pair.public.len() - agreement.public_len()..].to_vec()
}

#[test]
fn both_sides_agree() {
    let suites = claimed(|suite| matches!(suite, Suite::Agree(_)));
    assert_eq!(suites.len(), 3 + 4 + 3 + 7 + 1);
    for (suite, pairs) in suites {
        let [one, two] = pairs[..] else { panic!("{suite}: two pairs") };
        let (first, _) = private(suite, FORWARD, &job(&one.private, &public_value(suite, two), &[])).done();
        let (second, _) = private(suite, FORWARD, &job(&two.private, &public_value(suite, one), &[])).done();
        assert_eq!(first, second, "{suite}");
        assert!(first.iter().any(|byte| *byte != 0), "{suite}");
        let material = KeyMaterial::public(&one.public);
        let error = library().prepare(&material, suite).unwrap_err();
        assert_eq!(error, Error::key(suite, KeyProblem::Form), "{suite}");
    }
}

#[test]
fn bad_public_values_are_named() {
    for (suite, pairs) in claimed(|suite| matches!(suite, Suite::Agree(_))) {
        let Suite::Agree(agreement) = suite else { unreachable!() };
        let good = public_value(suite, pairs[1]);
        let len = good.len();
        let mut bad = vec![vec![0; len]];
        match agreement {
            Agreement::Dh(_) => {
                let one = [vec![0; len - 1], vec![1]].concat();
                // Every prime ends in ones: all ones are above it.
                bad.extend([one, vec![0xff; len]]);
            }
            Agreement::Ecdh(_) => {
                for at in [0, 1, len - 1] {
                    let mut value = good.clone();
                    value[at] ^= 2;
                    bad.push(value);
                }
            }
            Agreement::X25519 | Agreement::X448 => bad.push([vec![1], vec![0; len - 1]].concat()),
        }
        for value in bad {
            let answer = private(suite, FORWARD, &job(&pairs[0].private, &value, &[]));
            let wanted = (OpStatus::BadInput(Reason::BadPublicValue), Vec::new());
            assert_eq!((answer.status, answer.output), wanted, "{suite}");
        }
    }
}

#[test]
fn encapsulated_secrets_come_back() {
    let suites = claimed(|suite| matches!(suite, Suite::Kem(_)));
    assert_eq!(suites.len(), 3);
    for (suite, pairs) in suites {
        let len = suite.default_tag_len();
        let (secret, ciphertext) = public(suite, FORWARD, &job(&pairs[0].public, &[], &vec![0; len + 3])).done();
        assert_eq!((secret.len(), ciphertext.len()), (32, len), "{suite}");
        let back = job(&pairs[0].private, &[], &ciphertext);
        assert_eq!(private(suite, BACK, &back).done().0, secret, "{suite}");
        let mut damaged = back.clone();
        damaged.tag[len / 2] ^= 1;
        let foreign = Job { key: pairs[1].private.clone(), ..back.clone() };
        for bad in [damaged, foreign] {
            // FIPS 203, 6.3: implicit rejection, always the same way.
            let (other, _) = private(suite, BACK, &bad).done();
            assert_ne!(other, secret, "{suite}");
            assert_eq!(private(suite, BACK, &bad).done().0, other, "{suite}");
        }
        let refused = public(suite, BACK, &Job { key: pairs[0].public.clone(), ..back });
        assert_eq!(refused.status, OpStatus::Refused(Reason::KeyUnsuitable), "{suite}");
        // FIPS 203, 7.2: a coefficient of 4,095 is not below the modulus.
        let mut key = pairs[0].public.clone();
        key[..2].fill(0xff);
        let error = library().prepare(&KeyMaterial::public(&key), suite).unwrap_err();
        assert_eq!(error, Error::key(suite, KeyProblem::Encoding), "{suite}");
    }
}

#[track_caller]
fn refuses(suite: Suite, form: KeyForm, bytes: &[u8], problem: KeyProblem) {
    let error = library().prepare(&KeyMaterial { form, bytes }, suite).unwrap_err();
    assert_eq!(error, Error::key(suite, problem), "{suite} {form:?} {} bytes", bytes.len());
}

#[test]
fn keys_that_do_not_suit_are_refused() {
    for (suite, pairs) in claimed(|suite| suite.is_public_key() && suite.needs_key()) {
        let pair = pairs[0];
        refuses(suite, KeyForm::Secret, &pair.private, KeyProblem::Form);
        refuses(suite, KeyForm::Private, &[], KeyProblem::Length);
        let is_der = matches!(
            suite,
            Suite::Sign(Signature::Rsa(..) | Signature::Ecdsa(_) | Signature::EcdsaDigest(_))
                | Suite::PublicEncrypt(_)
                | Suite::Agree(Agreement::Ecdh(_))
        );
        if is_der {
            for (form, der) in [(KeyForm::Private, &pair.private), (KeyForm::Public, &pair.public)] {
                if form == KeyForm::Public && matches!(suite, Suite::Agree(_)) {
                    refuses(suite, form, der, KeyProblem::Form);
                    continue;
                }
                for len in [1, 10, der.len() / 2, der.len() - 1] {
                    refuses(suite, form, &der[..len], KeyProblem::Encoding);
                }
                refuses(suite, form, &[&der[..], &[0]].concat(), KeyProblem::Encoding);
                refuses(suite, form, &vec![0x30; der.len()], KeyProblem::Encoding);
            }
            refuses(suite, KeyForm::Private, &pair.public, KeyProblem::Encoding);
        } else if !matches!(suite, Suite::Agree(Agreement::Dh(_))) {
            refuses(suite, KeyForm::Private, &pair.private[1..], KeyProblem::Length);
            if !matches!(suite, Suite::Agree(_)) {
                refuses(suite, KeyForm::Public, &[&pair.public[..], &[0]].concat(), KeyProblem::Length);
            }
        }
    }
}

#[test]
fn keys_of_other_parameters_are_refused() {
    let (rsa, p256) = (pairs("rsa-2048")[0], pairs("p256")[0]);
    let longer: Suite = "rsa-3072-sign-pss-sha256".parse().unwrap();
    refuses(longer, KeyForm::Private, &rsa.private, KeyProblem::Parameters);
    refuses(longer, KeyForm::Public, &rsa.public, KeyProblem::Parameters);
    refuses(longer, KeyForm::Public, &p256.public, KeyProblem::Parameters);
    let p384 = Suite::Sign(Signature::Ecdsa(Curve::P384));
    refuses(p384, KeyForm::Private, &p256.private, KeyProblem::Parameters);
    refuses(p384, KeyForm::Private, &rsa.private, KeyProblem::Parameters);
    for suite in lists::DH.into_iter().chain(lists::DH_MODP) {
        let Suite::Agree(Agreement::Dh(group)) = suite else { unreachable!() };
        refuses(suite, KeyForm::Private, &[0; 32], KeyProblem::Weak);
        refuses(suite, KeyForm::Private, &vec![0xff; group.len()], KeyProblem::Parameters);
        refuses(suite, KeyForm::Private, &vec![1; group.len() + 1], KeyProblem::Length);
    }
}

#[test]
fn suites_that_are_not_claimed_are_refused() {
    for suite in lists::LEGACY_CURVES.into_iter().chain(lists::X448) {
        let error = library().prepare(&KeyMaterial::private(&[1; 32]), suite).unwrap_err();
        assert_eq!(error, Error::Refused(Refusal::EngineUnavailable("library".to_owned())), "{suite}");
    }
}
