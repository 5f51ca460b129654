//! Keys that are brought to a token of SoftHSM from outside, seen in its inventory, and taken back where they do not sign as they should.
//! Each test runs in a process of its own, since a module reads its configuration once and keeps it.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use std::path::Path;

use ciphermill_contract::suite::{Curve, Digest, KeyPair, RsaSize, SignPadding, Signature};
use ciphermill_contract::{KeyMaterial, Suite};
use ciphermill_memory::SecretBytes;
use ciphermill_token::{CloneError, Inventory, KeyClass, Opening, Outside, clone_key, install_key, inventory, slots};
use support::{MODULE, PIN, Pair};

/// Runs a test of this name in a process of its own, with tokens of these labels.
fn alone(name: &str, labels: &[&str], test: impl FnOnce()) {
    support::alone(name, |store| {
        labels.iter().for_each(|label| store.token(label));
        test();
    });
}

fn opening(label: &'static str) -> Opening {
    support::opening(label, label, PIN, false)
}

/// A private and a public key in the contract's form.
fn generate(pair: KeyPair) -> (Vec<u8>, Vec<u8>) {
    let Pair { private, public } = support::generate(pair);
    (private, public)
}

fn p521() -> Suite {
    Suite::Sign(Signature::Ecdsa(Curve::P521))
}

#[test]
fn a_key_from_outside_is_seen_with_its_public_half() {
    alone("a_key_from_outside_is_seen_with_its_public_half", &["one"], || {
        let rsa = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, SignPadding::Pss, Digest::Sha256));
        for (suite, pair, label, kind) in [
            (p521(), KeyPair::Ec(Curve::P521), "curve", "ec-p521"),
            (rsa, KeyPair::Rsa(RsaSize::Rsa2048), "numbers", "rsa-2048"),
        ] {
            let (private, public) = generate(pair);
            let outside = Outside { key: KeyMaterial::private(&private), public: &public, suite, label };
            let asked = std::cell::Cell::new(0);
            let is_same = |_: Suite, name: &str, info: &[u8]| {
                asked.set(asked.get() + 1);
                name.starts_with("id:") && info == public
            };
            let cloned = install_key(outside, &opening("one"), &is_same).expect("is taken");
            assert_eq!((asked.get(), cloned.kind.as_str(), &cloned.public), (1, kind, &public));
            let kept = inventory(&opening("one")).expect("listed").keys;
            let own: Vec<_> = kept.iter().filter(|key| key.label == label).collect();
            assert_eq!(own.iter().map(|key| key.class).collect::<Vec<_>>(), [KeyClass::Private, KeyClass::Public]);
            assert_eq!((own[0].extractable, own[0].sensitive), (Some(false), Some(true)));
            assert!(own.iter().all(|key| key.id == cloned.id && key.id.len() == 20 && key.kind == kind));
            assert!(own.iter().all(|key| key.suites.contains(&suite) && key.public.as_ref() == Some(&public)));
            // Neither once more, nor on to another token.
            let twice = install_key(outside, &opening("one"), &is_same);
            assert_eq!(twice, Err(CloneError::IsThere("one")));
        }
        let kept = slots(Path::new(MODULE)).expect("listed");
        let slot = kept.iter().find(|slot| slot.label == "one").expect("the token");
        assert!(slot.mechanisms > 10 && slot.flags.contains(&"login-required"), "{slot:?}");
    });
}

#[test]
fn a_key_that_signs_otherwise_is_destroyed() {
    alone("a_key_that_signs_otherwise_is_destroyed", &["one"], || {
        let (private, public) = generate(KeyPair::Ec(Curve::P521));
        let outside = Outside { key: KeyMaterial::private(&private), public: &public, suite: p521(), label: "curve" };
        assert_eq!(install_key(outside, &opening("one"), &|_, _, _| false), Err(CloneError::Differs("one")));
        assert_eq!(inventory(&opening("one")), Ok(Inventory::default()));
        // A public half on another curve is none of this key.
        let (_, other) = generate(KeyPair::Ec(Curve::P256));
        let wrong = Outside { public: &other, ..outside };
        assert_eq!(install_key(wrong, &opening("one"), &|_, _, _| true), Err(CloneError::Unsuitable("one")));
        assert_eq!(inventory(&opening("one")), Ok(Inventory::default()));
    });
}

#[test]
fn a_key_that_may_not_leave_does_not() {
    alone("a_key_that_may_not_leave_does_not", &["one", "two"], || {
        let (private, public) = generate(KeyPair::Ec(Curve::P521));
        let outside = Outside { key: KeyMaterial::private(&private), public: &public, suite: p521(), label: "curve" };
        install_key(outside, &opening("one"), &|_, _, _| true).expect("is taken");
        let clone = |name: &str| clone_key(name, &opening("one"), &opening("two"), &|_, _, _| true);
        assert_eq!(clone("curve"), Err(CloneError::NotExtractable("one")));
        for name in ["absent", "", "id:0"] {
            assert_eq!(clone(name), Err(CloneError::NotThere("one")), "{name}");
        }
        let wrong = Opening { pin: Some(SecretBytes::from_slice(b"00000000").expect("memory")), ..opening("one") };
        assert!(matches!(inventory(&wrong), Err(ciphermill_token::TokenError::Call(0xa0))), "CKR_PIN_INCORRECT");
        assert_eq!(inventory(&opening("two")), Ok(Inventory::default()));
    });
}
