//! Published vectors and known answers.

use ciphermill_contract::suite::{Curve, Signature};
use ciphermill_contract::{Direction, KeyMaterial, OpStatus, PreparedKey, Suite};
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::{Case, Job, Outcome, cases, run_known_answer};
use p256::pkcs8::EncodePrivateKey;

use super::{answer, prepare, run, suites};
use crate::Reference;

#[test]
fn every_suite_gives_its_known_answer() {
    for suite in suites() {
        run_known_answer(&Reference::new(), suite).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A key as prepared, or that it was refused, kept for the cases that follow with the same one.
#[derive(Default)]
struct LastKey {
    bytes: Vec<u8>,
    prepared: Option<PreparedKey>,
}

impl LastKey {
    fn of(&mut self, key: KeyMaterial<'_>, suite: Suite) -> Option<&PreparedKey> {
        if self.bytes != key.bytes {
            self.bytes = key.bytes.to_vec();
            self.prepared = prepare(key, suite).ok();
        }
        self.prepared.as_ref()
    }
}

/// What is wrong with the engine's answer to a vector, if anything.
fn judge(case: &Case, direction: Direction, last: &mut LastKey) -> Option<String> {
    let material = key_of(case, direction)?;
    let (mut job, expected) = Job::of(case, direction);
    let is_randomized = case.suite.is_randomized(direction);
    if is_randomized {
        job.tag = vec![0; case.suite.default_tag_len()];
    }
    let got = last.of(material, case.suite).and_then(|key| run(case.suite, direction, key, &job).ok());
    let got = got.filter(|answer| answer.status.is_done());
    match (&case.outcome, got) {
        (Outcome::Valid, None) => Some("refused although valid".to_owned()),
        (Outcome::Invalid(why), Some(_)) => Some(format!("accepted although invalid: {why}")),
        (Outcome::Invalid(_) | Outcome::Acceptable(_), None) => None,
        (Outcome::Valid | Outcome::Acceptable(_), Some(_)) if is_randomized => None,
        (Outcome::Valid | Outcome::Acceptable(_), Some(answer)) => {
            (answer != expected).then(|| "wrong result".to_owned())
        }
    }
}

/// Runs every vector of the suites whose family begins with `family`; there must be at least `count_min` of them.
fn check_family(family: &str, count_min: usize) {
    let mut count = 0;
    let mut wrong = Vec::new();
    for suite in suites().filter(|suite| suite.family().starts_with(family)) {
        let mut last = [LastKey::default(), LastKey::default()];
        for case in cases(suite) {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if case.ways.contains(direction) {
                    count += 1;
                    if let Some(what) = judge(case, direction, &mut last[direction as usize]) {
                        wrong.push(format!("{suite} {direction}, {} {}: {what}", case.source, case.id));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= count_min, "{family}: {count} vectors");
}

#[test]
fn rsa_signature_vectors_pass() {
    check_family("RSA PKCS#1 signatures", 2300);
    check_family("RSA PSS signatures", 300);
}

#[test]
fn rsa_encryption_vectors_pass() {
    check_family("RSA PKCS#1 encryption", 190);
    check_family("RSA OAEP encryption", 100);
}

#[test]
fn ecdsa_vectors_pass() {
    check_family("ECDSA", 800);
}

#[test]
fn legacy_curve_vectors_pass() {
    check_family("legacy curves", 500);
}

#[test]
fn agreement_vectors_pass() {
    check_family("ECDH", 1700);
    check_family("DH", 18);
    check_family("DH of IKE", 42);
    check_family("X25519", 500);
    check_family("X448", 500);
}

#[test]
fn ed25519_vectors_pass() {
    check_family("Ed25519", 290);
}

#[test]
fn lattice_vectors_pass() {
    check_family("ML-KEM", 890);
    check_family("ML-DSA", 200);
}

/// RFC 6979, A.2.5 to A.2.7: the signatures of "sample" with the digest of the curve's strength.
#[test]
fn ecdsa_nonces_are_those_of_rfc_6979() {
    let p256 = p256::SecretKey::from_slice(&unhex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"));
    let p384 = p384::SecretKey::from_slice(&unhex(
        "6b9d3dad2e1b8c1c05b19875b6659f4de23c3b667bf297ba9aa47740787137d8
         96d5724e4c70a825f872c9ea60d2edf5",
    ));
    let p521 = p521::SecretKey::from_slice(&unhex(
        "00fad06daa62ba3b25d2fb40133da757205de67f5bb0018fee8c86e1b68c7e75
         caa896eb32f1f47c70855836a6d16fcc1466f6d8fbec67db89ec0c08b0e996b83538",
    ));
    for (suite, key, signature) in [
        (
            "ecdsa-p256",
            p256.unwrap().to_pkcs8_der().unwrap(),
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716
             f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
        (
            "ecdsa-p384",
            p384.unwrap().to_pkcs8_der().unwrap(),
            "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c
             81a648152e44acf96e36dd1e80fabe4699ef4aeb15f178cea1fe40db2603138f
             130e740a19624526203b6351d0a3a94fa329c145786e679e7b82c71a38628ac8",
        ),
        (
            "ecdsa-p521",
            p521.unwrap().to_pkcs8_der().unwrap(),
            "00c328fafcbd79dd77850370c46325d987cb525569fb63c5d3bc53950e6d4c5f
             174e25a1ee9017b5d450606add152b534931d7d4e8455cc91f9b15bf05ec36e377fa
             00617cce7cf5064806c467f678d3b4080d6f1cc50af26ca209417308281b68af
             282623eaa63e5b5c0723d8b8c37ff0777b1a20f8ccb1dccc43997f1ee0e44da4a67a",
        ),
    ] {
        let suite: Suite = suite.parse().unwrap();
        let key = prepare(KeyMaterial::private(key.as_bytes()), suite).unwrap();
        let job = Job { input: b"sample".to_vec(), tag: vec![0; suite.default_tag_len()], ..Job::default() };
        let got = answer(suite, Direction::Encrypt, &key, &job);
        assert_eq!((got.status, hex::encode(got.tag)), (OpStatus::Done, hex::encode(unhex(signature))), "{suite}");
    }
}

/// RFC 6979, A.2.8 to A.2.17: two messages on each curve, with orders of no whole bytes and digests longer and shorter.
#[test]
fn binary_curves_nonces_are_those_of_rfc_6979() {
    let mut count = 0;
    for suite in suites() {
        for case in cases(suite).into_iter().filter(|case| case.source.starts_with("RFC 6979, A.2.8")) {
            let key = prepare(KeyMaterial::private(&case.keys.private), suite).unwrap();
            let job = Job { input: case.input.clone(), tag: vec![0; suite.default_tag_len()], ..Job::default() };
            let got = answer(suite, Direction::Encrypt, &key, &job);
            assert_eq!((got.status, &got.tag), (OpStatus::Done, &case.tag), "{suite} {}", case.id);
            count += 1;
        }
    }
    assert_eq!(count, 20);
}

/// RFC 6979, A.2.4 to A.2.7: nonces are drawn with the curve's digest, so that they are those of the cases with it.
#[test]
fn nonces_of_given_digests_are_those_of_rfc_6979() {
    let mut count = 0;
    for curve in [Curve::P224, Curve::P256, Curve::P384, Curve::P521] {
        let suite = Suite::Sign(Signature::EcdsaDigest(curve));
        let digest = curve.digest().to_string();
        let is_own = |case: &&&Case| case.source.starts_with("RFC 6979") && case.id.contains(&digest);
        for case in cases(suite).iter().filter(is_own) {
            let key = prepare(KeyMaterial::private(&case.keys.private), suite).unwrap();
            let job = Job { input: case.input.clone(), tag: vec![0; suite.default_tag_len()], ..Job::default() };
            let got = answer(suite, Direction::Encrypt, &key, &job);
            assert_eq!((got.status, &got.tag), (OpStatus::Done, &case.tag), "{suite} {}", case.id);
            count += 1;
        }
    }
    assert_eq!(count, 8);
}

/// Bytes written in hexadecimal over several lines.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap()
}
