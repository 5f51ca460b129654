//! Tokens of SoftHSM as engines. Each test runs in a process of its own, since a module reads its configuration once and keeps it.
#![allow(unsafe_code, reason = "a module is shut down and started again under an engine")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod failover;
mod signing;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use ciphermill::{KeyPolicy, Mill, SelfTest};
use ciphermill_contract::capability;
use ciphermill_contract::suite::{
    Aead, AesSize, Agreement, BlockCipher, Curve, Digest, KeyPair, Mac, Mode, PublicEncryption, RsaSize, SignPadding,
    Signature,
};
use ciphermill_contract::{Batch, Direction, Engine, Error, KeyMaterial, Op, OpStatus, Reason, Refusal, Suite};
use ciphermill_token::{TokenEngine, TokenError};
use ciphermill_vectors::known_answers::run_known_answer;

use crate::signing::{MESSAGE, is_valid, op_of, p256, run, signature_len};
use crate::support::{alone, generate, import, open, opening, restart_module};

/// A signature by reference, verified with the reference engine.
fn signs(engine: &TokenEngine, name: &str, suite: Suite, public: &[u8], input: &[u8]) {
    let key = engine.prepare(&KeyMaterial::reference(name), suite).expect("the token has it");
    let (status, signature) = run(engine, &key, suite, Direction::Encrypt, input, &vec![0; signature_len(suite)]);
    assert_eq!(status, OpStatus::Done, "{suite}");
    assert!(is_valid(suite, public, input, &signature), "{suite}");
    let mut other = input.to_vec();
    other[0] ^= 1;
    assert!(!is_valid(suite, public, &other, &signature), "{suite}: a damaged message");
}

#[test]
fn keys_sign_by_label_and_identifier() {
    alone("keys_sign_by_label_and_identifier", |store| {
        store.token("one");
        let rsa = generate(KeyPair::Rsa(RsaSize::Rsa2048));
        import(store, "one", "rsa", "0a01", &rsa);
        let curves = [(Curve::P256, "0b01"), (Curve::P384, "0b02"), (Curve::P521, "0b03")];
        let pairs = curves.map(|(curve, id)| {
            let pair = generate(KeyPair::Ec(curve));
            import(store, "one", id, id, &pair);
            pair
        });
        let engine = open("one", "one", false);
        for padding in [SignPadding::Pkcs1, SignPadding::Pss] {
            for digest in [Digest::Sha256, Digest::Sha384, Digest::Sha512] {
                let suite = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, padding, digest));
                assert!(engine.capabilities().iter().any(|one| one.covers(suite, Direction::Encrypt)), "{suite}");
                signs(&engine, "rsa", suite, &rsa.public, MESSAGE);
                signs(&engine, "id:0A01", suite, &rsa.public, MESSAGE);
            }
        }
        for ((curve, id), pair) in curves.into_iter().zip(&pairs) {
            signs(&engine, id, Suite::Sign(Signature::Ecdsa(curve)), &pair.public, MESSAGE);
            for len in [20, 32, 64] {
                let digest: Vec<u8> = (1..=len).collect();
                signs(&engine, id, Suite::Sign(Signature::EcdsaDigest(curve)), &pair.public, &digest);
            }
        }
    });
}

#[test]
fn copied_keys_pass_every_known_answer() {
    alone("copied_keys_pass_every_known_answer", |store| {
        store.token("one");
        let engine = open("one", "one", true);
        let rsa = |padding| Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, padding, Digest::Sha256));
        let encryption = |digest| Suite::PublicEncrypt(PublicEncryption::RsaOaep(RsaSize::Rsa2048, digest));
        let aes = |mode| Suite::Cipher(BlockCipher::Aes(AesSize::Aes192), mode);
        for suite in [
            rsa(SignPadding::Pkcs1),
            rsa(SignPadding::Pss),
            p256(),
            Suite::Sign(Signature::Ed25519),
            Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa2048)),
            encryption(Digest::Sha1),
            aes(Mode::Ecb),
            aes(Mode::Cbc),
            aes(Mode::Ctr),
            Suite::Aead(Aead::AesGcm(AesSize::Aes128)),
            Suite::Mac(Mac::Cmac(AesSize::Aes256)),
            Suite::Mac(Mac::Hmac(Digest::Sha384)),
        ] {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                assert!(capability::find(engine.capabilities(), suite, direction).is_some(), "{suite} {direction}");
            }
        }
        let agreement = Suite::Agree(Agreement::Ecdh(Curve::P521));
        assert!(capability::find(engine.capabilities(), agreement, Direction::Encrypt).is_some());
        let unknown = capability::find(engine.capabilities(), encryption(Digest::Sha256), Direction::Decrypt);
        assert!(unknown.is_none(), "SoftHSM has OAEP with SHA-1 alone");
        let mut count = 0;
        for suite in engine.capabilities().iter().flat_map(|one| one.suites) {
            run_known_answer(&engine, *suite).unwrap_or_else(|error| panic!("{suite}: {error}"));
            count += 1;
        }
        assert!(count >= 60, "{count} suites are claimed");
    });
}

#[test]
fn keys_that_are_not_there_or_twice_or_of_another_kind_are_refused() {
    alone("keys_that_are_not_there_or_twice_or_of_another_kind_are_refused", |store| {
        store.token("one");
        import(store, "one", "twice", "01", &generate(KeyPair::Ec(Curve::P256)));
        import(store, "one", "twice", "02", &generate(KeyPair::Ec(Curve::P256)));
        import(store, "one", "other", "03", &generate(KeyPair::Ec(Curve::P384)));
        let engine = open("one", "one", false);
        for name in ["missing", "twice", "other", "id:0"] {
            let error = engine.prepare(&KeyMaterial::reference(name), p256()).expect_err(name);
            assert!(matches!(error, Error::Refused(Refusal::KeyUnsuitable { .. })), "{name}: {error}");
        }
        let own = generate(KeyPair::Ec(Curve::P256));
        assert!(engine.prepare(&KeyMaterial::private(&own.private), p256()).is_err(), "copies are not allowed");
        assert!(engine.prepare(&KeyMaterial::reference("id:02"), p256()).is_ok());
    });
}

#[test]
fn a_wrong_pin_opens_nothing() {
    alone("a_wrong_pin_opens_nothing", |store| {
        store.token("one");
        let error = TokenEngine::open(opening("one", "one", "00000000", false)).expect_err("a wrong PIN");
        // CKR_PIN_INCORRECT.
        assert_eq!(error, TokenError::Call(0xa0));
    });
}

#[test]
fn after_a_restart_the_same_key_signs_and_another_of_its_name_does_not() {
    alone("after_a_restart_the_same_key_signs_and_another_of_its_name_does_not", |store| {
        store.token("one");
        let pair = generate(KeyPair::Ec(Curve::P256));
        import(store, "one", "signer", "01", &pair);
        let engine = open("one", "one", false);
        let key = engine.prepare(&KeyMaterial::reference("signer"), p256()).expect("is there");
        let sign = || run(&engine, &key, p256(), Direction::Encrypt, MESSAGE, &[0; 64]);
        assert!(sign().0.is_done());
        restart_module(|| ());
        assert_eq!(sign().0, OpStatus::EngineFault, "the lost session is found out");
        let (status, signature) = sign();
        assert!(status.is_done() && is_valid(p256(), &pair.public, MESSAGE, &signature));
        // The token is replaced by one of the same label, with another key of the same label and identifier.
        restart_module(|| {
            store.util(&["--delete-token", "--token", "one"]);
            store.token("one");
            import(store, "one", "signer", "01", &generate(KeyPair::Ec(Curve::P256)));
        });
        for _ in 0..3 {
            let (status, signature) = sign();
            assert_eq!((status, signature), (OpStatus::EngineFault, vec![0; 64]));
        }
    });
}

#[test]
fn a_mill_takes_the_token_that_has_the_key() {
    alone("a_mill_takes_the_token_that_has_the_key", |store| {
        let pair = generate(KeyPair::Ec(Curve::P256));
        store.token("empty");
        store.token("full");
        import(store, "full", "signer", "01", &pair);
        let engines: [Arc<dyn Engine>; 2] =
            [Arc::new(open("empty", "empty", true)), Arc::new(open("full", "full", true))];
        let mill = Mill::builder().engines(engines).self_test(SelfTest::OnFirstUse).open().expect("opens");
        let key = mill.keys().import(KeyMaterial::reference("signer"), KeyPolicy::default()).expect("room");
        for _ in 0..4 {
            let mut arena = [MESSAGE, &[0; 64]].concat();
            let mut ops = [Op { key, ..op_of(MESSAGE.len(), 64) }];
            let report = mill.run(Batch::new(p256(), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
            assert_eq!((ops[0].status, report.route.name), (OpStatus::Done, "full"));
            assert!(is_valid(p256(), &pair.public, MESSAGE, &arena[MESSAGE.len()..]));
        }
        let missing = mill.keys().import(KeyMaterial::reference("missing"), KeyPolicy::default()).expect("room");
        let mut arena = [MESSAGE, &[0; 64]].concat();
        let mut ops = [Op { key: missing, ..op_of(MESSAGE.len(), 64) }];
        mill.run(Batch::new(p256(), Direction::Encrypt, &mut ops, &mut arena)).expect("nobody has failed");
        assert_eq!(ops[0].status, OpStatus::Refused(Reason::KeyUnsuitable), "no token has it");
        let metrics = mill.metrics();
        assert!(metrics.engines.iter().all(|engine| engine.quarantines == 0), "lacking a key is no fault");
    });
}
