//! Round trips, damaged operations, and operations that a key cannot do.

use ciphermill_contract::suite::{
    Agreement, Curve, DhGroup, Digest, PublicEncryption, RsaSize, SignPadding, Signature,
};
use ciphermill_contract::{Direction, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use ciphermill_vectors::Job;
use ciphermill_vectors::keys::pair_name;

use super::published::unhex;
use super::{answer, prepare, prepared, status, suites, test_pairs};

const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);
const KEY_UNSUITABLE: OpStatus = OpStatus::Refused(Reason::KeyUnsuitable);

fn flip(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// An operation that signs or encapsulates, with three bytes more room than it needs.
fn forward(suite: Suite, input: &[u8]) -> Job {
    Job { input: input.to_vec(), tag: vec![0; suite.default_tag_len() + 3], ..Job::default() }
}

#[test]
fn signatures_verify_and_nothing_else_does() {
    for suite in suites().filter(|suite| matches!(suite, Suite::Sign(_))) {
        let [pair, other] = test_pairs(suite);
        let (private, public) = prepared(pair, suite);
        let (_, other) = prepared(other, suite);
        let takes_digests = matches!(suite, Suite::Sign(Signature::EcdsaDigest(_)));
        let empty: &[u8] = if takes_digests { &[0; 20] } else { b"" };
        for message in [empty, b"message of some bytes"] {
            let got = answer(suite, Direction::Encrypt, &private, &forward(suite, message));
            assert_eq!((got.status, got.tag.len()), (OpStatus::Done, suite.default_tag_len()), "{suite}");
            let job = Job { input: message.to_vec(), tag: got.tag.clone(), ..Job::default() };
            assert_eq!(status(suite, Direction::Decrypt, &public, &job), OpStatus::Done, "{suite}");
            assert_eq!(status(suite, Direction::Decrypt, &private, &job), OpStatus::Done, "{suite}");
            assert_eq!(status(suite, Direction::Decrypt, &other, &job), OpStatus::AuthFailed, "{suite}");
            for at in [0, job.tag.len() / 2, job.tag.len() - 1] {
                let damaged = Job { tag: flip(&job.tag, at), ..job.clone() };
                assert_eq!(status(suite, Direction::Decrypt, &public, &damaged), OpStatus::AuthFailed, "{suite}");
            }
            let longer = Job { input: [message, b"."].concat(), ..job.clone() };
            assert_eq!(status(suite, Direction::Decrypt, &public, &longer), OpStatus::AuthFailed, "{suite}");
            for byte in [0, 0xff] {
                let constant = Job { tag: vec![byte; job.tag.len()], ..job.clone() };
                assert_eq!(status(suite, Direction::Decrypt, &public, &constant), OpStatus::AuthFailed, "{suite}");
            }
        }
        assert_eq!(status(suite, Direction::Encrypt, &public, &forward(suite, empty)), KEY_UNSUITABLE, "{suite}");
    }
}

/// ECDSA, which may be randomised too, is not here: its nonces are those of RFC 6979.
#[test]
fn pss_and_ml_dsa_sign_the_same_message_differently() {
    for padding in [SignPadding::Pkcs1, SignPadding::Pss] {
        assert_signs_randomized(Suite::Sign(Signature::Rsa(RsaSize::Rsa1024, padding, Digest::Sha256)));
    }
    for name in ["ed25519", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"] {
        assert_signs_randomized(name.parse().unwrap());
    }
}

fn assert_signs_randomized(suite: Suite) {
    let (private, _) = prepared(test_pairs(suite)[0], suite);
    let sign = || answer(suite, Direction::Encrypt, &private, &forward(suite, b"twice")).tag;
    assert_eq!(sign() != sign(), suite.is_randomized(Direction::Encrypt), "{suite}");
}

/// Encryption with padding; without it, a message is a number, of which conformance asks.
fn padded(suite: Suite) -> Option<PublicEncryption> {
    match suite {
        Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)) => None,
        Suite::PublicEncrypt(encryption) => Some(encryption),
        _ => None,
    }
}

#[test]
fn encryption_takes_every_length_up_to_the_longest() {
    for suite in suites() {
        let Some(encryption) = padded(suite) else { continue };
        let (private, public) = prepared(test_pairs(suite)[0], suite);
        let (_, key) = prepared(test_pairs(suite)[1], suite);
        assert_eq!(status(suite, Direction::Decrypt, &public, &ciphertext(encryption, 0)), KEY_UNSUITABLE, "{suite}");
        for len in [0, 1, encryption.message_len().max] {
            let message: Vec<u8> = (0..len).map(|index| index as u8).collect();
            let job = Job { input: message.clone(), ..Job::default() };
            for encryptor in [&public, &private] {
                let sealed = answer(suite, Direction::Encrypt, encryptor, &job);
                assert_eq!((sealed.status, sealed.output.len()), (OpStatus::Done, encryption.size().len()), "{suite}");
                let back = Job { input: sealed.output, ..Job::default() };
                let opened = answer(suite, Direction::Decrypt, &private, &back);
                assert_eq!((opened.status, &opened.output), (OpStatus::Done, &message), "{suite}, {len} bytes");
                assert_damage_shows(suite, &private, &back, &message);
            }
        }
        let twice = [0, 1].map(|_| answer(suite, Direction::Encrypt, &key, &Job::default()).output);
        assert_ne!(twice[0], twice[1], "{suite}");
    }
}

/// A damaged PKCS#1 ciphertext has valid padding once in some ten thousand times, but never the old message.
fn assert_damage_shows(suite: Suite, key: &PreparedKey, sealed: &Job, message: &[u8]) {
    let at = sealed.input.len() - 1;
    let got = answer(suite, Direction::Decrypt, key, &Job { input: flip(&sealed.input, at), ..Job::default() });
    match suite {
        Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(_)) if got.status.is_done() => {
            assert_ne!(got.output, message, "{suite}");
        }
        _ => assert_eq!(got.status, OpStatus::AuthFailed, "{suite}"),
    }
}

fn ciphertext(encryption: PublicEncryption, last: u8) -> Job {
    let mut input = vec![0; encryption.size().len()];
    input[encryption.size().len() - 1] = last;
    Job { input, ..Job::default() }
}

#[test]
fn ciphertexts_without_padding_fail() {
    for suite in suites() {
        let Some(encryption) = padded(suite) else { continue };
        let (private, _) = prepared(test_pairs(suite)[0], suite);
        // Zero and one are their own roots; the largest number is not below the modulus.
        for last in [0, 1] {
            let job = ciphertext(encryption, last);
            assert_eq!(status(suite, Direction::Decrypt, &private, &job), OpStatus::AuthFailed, "{suite}");
        }
        let largest = Job { input: vec![0xff; encryption.size().len()], ..Job::default() };
        assert_eq!(status(suite, Direction::Decrypt, &private, &largest), OpStatus::AuthFailed, "{suite}");
    }
}

/// The public value of a test pair as the peer sends it: a point instead of its SubjectPublicKeyInfo.
fn public_value(agreement: Agreement, public: &[u8]) -> Vec<u8> {
    public[public.len() - agreement.public_len()..].to_vec()
}

#[test]
fn both_sides_agree() {
    for suite in suites() {
        let Suite::Agree(agreement) = suite else { continue };
        let [first, second] = test_pairs(suite);
        let agree = |own: &[u8], peer: &[u8]| {
            let key = prepare(KeyMaterial::private(own), suite).unwrap();
            let job = Job { input: public_value(agreement, peer), ..Job::default() };
            let got = answer(suite, Direction::Encrypt, &key, &job);
            assert_eq!((got.status, got.output.len()), (OpStatus::Done, agreement.secret_len()), "{suite}");
            got.output
        };
        assert_eq!(agree(&first.private, &second.public), agree(&second.private, &first.public), "{suite}");
        assert_ne!(agree(&first.private, &second.public), agree(&first.private, &first.public), "{suite}");
    }
}

/// With the generator as peer the secret is the public value that another program computed for the test pairs.
#[test]
fn dh_of_the_generator_is_the_public_value() {
    for group in [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096] {
        let suite = Suite::Agree(Agreement::Dh(group));
        for pair in test_pairs(suite) {
            let key = prepare(KeyMaterial::private(&pair.private), suite).unwrap();
            let mut input = vec![0; group.len()];
            input[group.len() - 1] = 2;
            let got = answer(suite, Direction::Encrypt, &key, &Job { input, ..Job::default() });
            assert_eq!(got.output, pair.public, "{suite}");
        }
    }
}

#[test]
fn dh_refuses_values_outside_the_group() {
    for group in [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096] {
        let suite = Suite::Agree(Agreement::Dh(group));
        let key = prepare(KeyMaterial::private(&test_pairs(suite)[0].private), suite).unwrap();
        let prime = ciphermill_pairs::dh::prime(group);
        let with_last = |bytes: &[u8], last: u8| [&bytes[..bytes.len() - 1], &[last]].concat();
        let zero = vec![0; group.len()];
        // The primes end with 64 ones: two is a square, minus one is none.
        let refused = [
            zero.clone(),
            with_last(&zero, 1),
            with_last(prime, 0xfd),
            with_last(prime, 0xfe),
            prime.to_vec(),
            vec![0xff; group.len()],
        ];
        for input in refused {
            assert_eq!(status(suite, Direction::Encrypt, &key, &Job { input, ..Job::default() }), BAD_PUBLIC_VALUE);
        }
        let square = Job { input: with_last(&zero, 2), ..Job::default() };
        assert_eq!(status(suite, Direction::Encrypt, &key, &square), OpStatus::Done);
    }
}

#[test]
fn ecdh_refuses_points_off_the_curve() {
    for curve in Curve::ALL {
        let agreement = Agreement::Ecdh(curve);
        let suite = Suite::Agree(agreement);
        let [own, peer] = test_pairs(suite);
        let key = prepare(KeyMaterial::private(&own.private), suite).unwrap();
        let point = public_value(agreement, &peer.public);
        let refused = |input: Vec<u8>| {
            let job = Job { input, ..Job::default() };
            assert_eq!(status(suite, Direction::Encrypt, &key, &job), BAD_PUBLIC_VALUE, "{suite}");
        };
        refused(flip(&point, 1));
        refused(flip(&point, point.len() - 1));
        refused(vec![0; point.len()]);
        refused(vec![0xff; point.len()]);
        for form in [0, 2, 3, 5, 6, 7] {
            refused([&[form], &point[1..]].concat());
        }
    }
}

/// The points of order 1, 2, 4 and 8 of Curve25519 and its twist, as coordinates below the prime.
#[test]
fn x25519_refuses_peers_of_small_order() {
    let suite = Suite::Agree(Agreement::X25519);
    let key = prepare(KeyMaterial::private(&test_pairs(suite)[0].private), suite).unwrap();
    for coordinate in [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ] {
        let job = Job { input: unhex(coordinate), ..Job::default() };
        assert_eq!(status(suite, Direction::Encrypt, &key, &job), BAD_PUBLIC_VALUE, "{coordinate}");
    }
}

#[test]
fn encapsulated_secrets_come_out_again() {
    for suite in suites().filter(|suite| matches!(suite, Suite::Kem(_))) {
        let [pair, other] = test_pairs(suite);
        let (private, public) = prepared(pair, suite);
        let (other, _) = prepared(other, suite);
        let mut secrets = Vec::new();
        for encapsulator in [&public, &private] {
            let sent = answer(suite, Direction::Encrypt, encapsulator, &forward(suite, b""));
            assert_eq!((sent.status, sent.tag.len()), (OpStatus::Done, suite.default_tag_len()), "{suite}");
            assert_eq!(sent.output.len(), 32, "{suite}");
            let job = Job { tag: sent.tag.clone(), ..Job::default() };
            assert_eq!(answer(suite, Direction::Decrypt, &private, &job).output, sent.output, "{suite}");
            let damaged = Job { tag: flip(&sent.tag, 7), ..Job::default() };
            for (key, job) in [(&private, &damaged), (&other, &job)] {
                let got = answer(suite, Direction::Decrypt, key, job);
                assert_eq!(got.status, OpStatus::Done, "{suite}: rejection is implicit");
                assert_ne!(got.output, sent.output, "{suite}");
            }
            assert_eq!(status(suite, Direction::Decrypt, &public, &job), KEY_UNSUITABLE, "{suite}");
            secrets.push(sent.output);
        }
        assert_ne!(secrets[0], secrets[1], "{suite}");
    }
}

/// A caller that mixes keys up gets a fault, not another suite's answer.
#[test]
fn keys_of_other_suites_are_faults() {
    let all: Vec<Suite> = suites().filter(|suite| !pair_name(*suite).unwrap().contains("4096")).collect();
    for window in all.windows(2) {
        let [from, to] = window else { continue };
        let key = prepare(KeyMaterial::private(&test_pairs(*from)[0].private), *from).unwrap();
        let is_same_state = pair_name(*from) == pair_name(*to) && !matches!(to, Suite::Agree(_));
        let job = Job {
            input: vec![4; to.input_len(Direction::Encrypt).min],
            tag: vec![0; to.default_tag_len()],
            ..Job::default()
        };
        let got = status(*to, Direction::Encrypt, &key, &job);
        let expected = if is_same_state { OpStatus::Done } else { OpStatus::EngineFault };
        assert_eq!(got, expected, "a key of {from} with {to}");
    }
}
