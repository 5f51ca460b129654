//! Key pairs that a mill generates.

use std::sync::Arc;

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::error::Refusal;
use ciphermill_contract::suite::{Curve, KeyPair, RsaSize};
use ciphermill_contract::{Batch, Direction, Error, KeyMaterial, Op, OpStatus, Reason, Span, Suite};
use ciphermill_reference::Reference;

use crate::suite;

fn mill() -> Mill {
    Mill::builder().engine(Arc::new(Reference::new())).open().expect("opens")
}

#[test]
fn the_private_key_signs_and_the_public_one_verifies() {
    let mill = mill();
    for (pair, name) in [(KeyPair::Ec(Curve::P256), "ecdsa-p256"), (KeyPair::Ed25519, "ed25519")] {
        let suite = suite(name);
        let (private, public) = mill.generate(pair, KeyPolicy::only(suite)).expect("generated");
        let public = mill.keys().import(KeyMaterial::public(&public), KeyPolicy::only(suite)).expect("room");
        let mut arena = vec![7; 100];
        let mut run = |direction, key| {
            let mut ops = [Op { key, input: Span::new(0, 30), tag: 30, tag_len: 64, ..Op::default() }];
            mill.run(Batch::new(suite, direction, &mut ops, &mut arena)).expect("runs");
            ops[0].status
        };
        assert_eq!(run(Direction::Encrypt, private), OpStatus::Done, "{name}");
        assert_eq!(run(Direction::Decrypt, public), OpStatus::Done, "{name}");
        let (other, _) = mill.generate(pair, KeyPolicy::only(suite)).expect("generated");
        assert_eq!(run(Direction::Encrypt, other), OpStatus::Done, "{name}");
        assert_eq!(run(Direction::Decrypt, public), OpStatus::AuthFailed, "another pair's signature, {name}");
    }
}

#[test]
fn pairs_that_nothing_could_use_are_refused() {
    let mill = mill();
    let refused = mill.generate(KeyPair::Ed25519, KeyPolicy::only(suite("ecdsa-p256"))).expect_err("another kind");
    assert_eq!(refused, Error::Refused(Refusal::KeyPolicy(Reason::KeySuite)));
    assert!(mill.generate(KeyPair::Ed25519, KeyPolicy::default()).is_ok());
}

#[test]
fn legacy_pairs_want_a_policy_that_allows_them() {
    let mill = mill();
    let pair = KeyPair::Rsa(RsaSize::Rsa1024);
    assert_eq!(mill.generate_pair(pair).err(), Some(Error::Refused(Refusal::LegacyDisabled(Suite::Generate(pair)))));
}

#[test]
fn a_pair_for_a_keystore_has_the_lengths_of_its_kind() {
    let mill = mill();
    for pair in [KeyPair::X25519, KeyPair::Ec(Curve::P521), KeyPair::Rsa(RsaSize::Rsa2048)] {
        let generated = mill.generate_pair(pair).expect("generated");
        assert_eq!(generated.public().len(), pair.public_len(), "{pair:?}");
        let private = generated.private();
        let takers: Vec<Suite> = Suite::all().filter(|suite| suite.key_pair() == Some(pair)).collect();
        assert!(!takers.is_empty() && takers.iter().all(|suite| suite.check_key(&private).is_ok()), "{pair:?}");
    }
}
