//! Keys that a token has, by their names there: what it makes of them is compared with what the reference engine makes of the same keys.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use ciphermill_contract::suite::{
    Aead, AesSize, Agreement, BlockCipher, Curve, Digest, KeyPair, Mac, Mode, PublicEncryption, RsaSize, SignPadding,
    Signature,
};
use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Refusal, Span, Suite,
};
use ciphermill_reference::Reference;
use ciphermill_token::TokenEngine;
use cryptoki::object::{Attribute, KeyType, ObjectClass};

use support::{Pair, alone, generate, import, import_aes, open};

const MESSAGE: &[u8] = b"a message of some length, which is not a digest";

/// Of which operations of a suite are made: an initialisation vector, an input, and a tag or the room for one.
#[derive(Clone, Copy, Default)]
struct Asked<'a> {
    iv: &'a [u8],
    input: &'a [u8],
    tag: &'a [u8],
}

/// One operation by an engine: what became of it, its output and its tag.
fn run(
    engine: &dyn Engine,
    key: &PreparedKey,
    suite: Suite,
    direction: Direction,
    asked: Asked<'_>,
) -> (OpStatus, Vec<u8>, Vec<u8>) {
    let output_len = suite.output_len(direction, asked.input.len(), 0);
    let (output, tag) = (asked.input.len(), asked.input.len() + output_len);
    let mut arena = [asked.input, &vec![0; output_len], asked.tag].concat();
    let id = KeyId { slot: 1, generation: 1 };
    let op = Op::in_place(id, Span::new(0, asked.input.len() as u32)).with_iv(asked.iv);
    let mut ops = [op.with_output(output as u32).with_tag(tag as u32, asked.tag.len() as u16)];
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("sound");
    let keys = [Some(key)];
    engine.queue(QueueHint::default()).expect("opens").run(&mut batch.attach_keys(&keys).expect("one key"));
    let written = ops[0].output_len as usize;
    (ops[0].status, arena[output..output + written].to_vec(), arena[tag..].to_vec())
}

/// By the reference engine.
fn expected(key: &KeyMaterial<'_>, suite: Suite, direction: Direction, asked: Asked<'_>) -> (Vec<u8>, Vec<u8>) {
    let reference = Reference::new();
    let key = reference.prepare(key, suite).expect("suits");
    let (status, output, tag) = run(&reference, &key, suite, direction, asked);
    assert_eq!(status, OpStatus::Done, "{suite}");
    (output, tag)
}

fn by_name(engine: &TokenEngine, name: &str, suite: Suite) -> PreparedKey {
    let prepared = engine.prepare(&KeyMaterial::reference(name), suite);
    prepared.unwrap_or_else(|error| panic!("{suite}: {error}"))
}

/// What a token signs it verifies by the same name, and damage it does not.
fn signs_and_verifies(engine: &TokenEngine, name: &str, suite: Suite, public: &[u8]) {
    let key = by_name(engine, name, suite);
    let room = vec![0; suite.default_tag_len()];
    let (status, _, signature) =
        run(engine, &key, suite, Direction::Encrypt, Asked { input: MESSAGE, tag: &room, ..Asked::default() });
    assert_eq!(status, OpStatus::Done, "{suite}");
    let signed = Asked { input: MESSAGE, tag: &signature, ..Asked::default() };
    expected(&KeyMaterial::public(public), suite, Direction::Decrypt, signed);
    assert_eq!(run(engine, &key, suite, Direction::Decrypt, signed).0, OpStatus::Done, "{suite}");
    let mut damaged = signature.clone();
    damaged[7] ^= 1;
    for wrong in [Asked { tag: &damaged, ..signed }, Asked { input: &MESSAGE[1..], ..signed }] {
        assert_eq!(run(engine, &key, suite, Direction::Decrypt, wrong).0, OpStatus::AuthFailed, "{suite}");
    }
}

#[test]
fn what_a_name_signed_it_verifies() {
    alone("what_a_name_signed_it_verifies", |store| {
        store.token("one");
        let rsa = generate(KeyPair::Rsa(RsaSize::Rsa2048));
        import(store, "one", "rsa", "01", &rsa);
        let curve = generate(KeyPair::Ec(Curve::P384));
        import(store, "one", "curve", "02", &curve);
        let edwards = generate(KeyPair::Ed25519);
        // RFC 8410, 7: the seed in PKCS#8.
        let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let file = Pair { private: [&head[..], &edwards.private].concat(), public: Vec::new() };
        import(store, "one", "edwards", "03", &file);
        let engine = open("one", "one", false);
        for padding in [SignPadding::Pkcs1, SignPadding::Pss] {
            let suite = Suite::Sign(Signature::Rsa(RsaSize::Rsa2048, padding, Digest::Sha256));
            signs_and_verifies(&engine, "rsa", suite, &rsa.public);
        }
        signs_and_verifies(&engine, "curve", Suite::Sign(Signature::Ecdsa(Curve::P384)), &curve.public);
        signs_and_verifies(&engine, "edwards", Suite::Sign(Signature::Ed25519), &edwards.public);
    });
}

#[test]
fn a_name_agrees_and_refuses_points_off_the_curve() {
    alone("a_name_agrees_and_refuses_points_off_the_curve", |store| {
        store.token("one");
        for (curve, id) in [(Curve::P256, "01"), (Curve::P384, "02"), (Curve::P521, "03")] {
            let (own, peer) = (generate(KeyPair::Ec(curve)), generate(KeyPair::Ec(curve)));
            let suite = Suite::Agree(Agreement::Ecdh(curve));
            import(store, "one", &suite.to_string(), id, &own);
            let refused = open("one", "one", false).prepare(&KeyMaterial::reference(&suite.to_string()), suite);
            assert!(refused.is_err(), "the key may not derive, as the program imports it");
            support::as_application("one", |session| {
                let label = Attribute::Label(suite.to_string().into_bytes());
                let found = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY), label]);
                let key = found.expect("searches")[0];
                session.update_attributes(key, &[Attribute::Derive(true)]).expect("may be changed");
            });
            let engine = open("one", "one", false);
            let key = by_name(&engine, &suite.to_string(), suite);
            let mut point = peer.public[peer.public.len() - 1 - 2 * curve.field_len()..].to_vec();
            let asked = Asked { input: &point, ..Asked::default() };
            let (secret, _) = expected(&KeyMaterial::private(&own.private), suite, Direction::Encrypt, asked);
            let (status, made, _) = run(&engine, &key, suite, Direction::Encrypt, asked);
            assert_eq!((status, made), (OpStatus::Done, secret), "{suite}");
            let last = point.len() - 1;
            point[last] ^= 1;
            let asked = Asked { input: &point, ..Asked::default() };
            let status = run(&engine, &key, suite, Direction::Encrypt, asked).0;
            assert!(matches!(status, OpStatus::BadInput(_)), "{suite}: {status}");
        }
    });
}

#[test]
fn every_damage_to_a_ciphertext_has_the_same_status() {
    alone("every_damage_to_a_ciphertext_has_the_same_status", |store| {
        store.token("one");
        let pair = generate(KeyPair::Rsa(RsaSize::Rsa2048));
        import(store, "one", "rsa", "01", &pair);
        let engine = open("one", "one", false);
        let public = KeyMaterial::public(&pair.public);
        let oaep = Suite::PublicEncrypt(PublicEncryption::RsaOaep(RsaSize::Rsa2048, Digest::Sha1));
        let pkcs1 = Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa2048));
        let raw = Suite::PublicEncrypt(PublicEncryption::RsaRaw(RsaSize::Rsa2048));
        let block = |change: &dyn Fn(&mut [u8])| {
            let mut block = vec![0x55; 256];
            (block[0], block[1], block[200]) = (0, 2, 0);
            change(&mut block);
            expected(&public, raw, Direction::Encrypt, Asked { input: &block, ..Asked::default() }).0
        };
        for suite in [oaep, pkcs1] {
            let key = by_name(&engine, "rsa", suite);
            let decrypt = |input: &[u8]| {
                let (status, output, _) =
                    run(&engine, &key, suite, Direction::Decrypt, Asked { input, ..Asked::default() });
                (status, output)
            };
            let sealed = expected(&public, suite, Direction::Encrypt, Asked { input: MESSAGE, ..Asked::default() }).0;
            let wrong = [
                block(&|block| block[1] = 1),
                block(&|block| block[0] = 1),
                block(&|block| block[9] = 0),
                block(&|block| block[200] = 1),
                vec![0; 256],
                vec![0xff; 256],
            ];
            for wrong in wrong {
                assert_eq!(decrypt(&wrong), (OpStatus::AuthFailed, Vec::new()), "{suite}");
                assert_eq!(decrypt(&sealed), (OpStatus::Done, MESSAGE.to_vec()), "{suite}");
            }
        }
        let key = by_name(&engine, "rsa", pkcs1);
        let (status, message, _) =
            run(&engine, &key, pkcs1, Direction::Decrypt, Asked { input: &block(&|_| ()), ..Asked::default() });
        assert_eq!((status, message), (OpStatus::Done, vec![0x55; 55]), "the block without damage");
    });
}

#[test]
fn secret_keys_serve_by_name() {
    alone("secret_keys_serve_by_name", |store| {
        store.token("one");
        import_aes(store, "secret", &[7; 32]);
        let engine = open("one", "one", false);
        let size = AesSize::Aes256;
        let cipher = |mode| Suite::Cipher(BlockCipher::Aes(size), mode);
        let suites = [
            (cipher(Mode::Ecb), 0, 0),
            (cipher(Mode::Cbc), 16, 0),
            (cipher(Mode::Ctr), 16, 0),
            (Suite::Aead(Aead::AesGcm(size)), 12, 13),
            (Suite::Mac(Mac::Cmac(size)), 0, 5),
        ];
        for (suite, iv_len, tag_len) in suites {
            let key = by_name(&engine, "secret", suite);
            // The counter wraps between the blocks.
            let (iv, room) = (vec![0xff; iv_len], vec![0; tag_len]);
            let asked = Asked { iv: &iv, input: &MESSAGE[..32], tag: &room };
            let (output, tag) = expected(&KeyMaterial::secret(&[7; 32]), suite, Direction::Encrypt, asked);
            let made = run(&engine, &key, suite, Direction::Encrypt, asked);
            assert_eq!(made, (OpStatus::Done, output.clone(), tag.clone()), "{suite}");
            let back = if output.is_empty() { &MESSAGE[..32] } else { &output };
            let (status, opened, _) =
                run(&engine, &key, suite, Direction::Decrypt, Asked { iv: &iv, input: back, tag: &tag });
            assert_eq!(status, OpStatus::Done, "{suite}");
            assert!(output.is_empty() || opened == MESSAGE[..32], "{suite}");
            if tag_len > 0 {
                let mut damaged = tag.clone();
                damaged[0] ^= 1;
                let asked = Asked { iv: &iv, input: back, tag: &damaged };
                let (status, opened, _) = run(&engine, &key, suite, Direction::Decrypt, asked);
                assert_eq!((status, opened), (OpStatus::AuthFailed, Vec::new()), "{suite}");
            }
        }
        support::as_application("one", |session| {
            let generic = [
                Attribute::Class(ObjectClass::SECRET_KEY),
                Attribute::KeyType(KeyType::GENERIC_SECRET),
                Attribute::Token(true),
                Attribute::Sign(true),
                Attribute::Label(b"generic".to_vec()),
                Attribute::Value(vec![9; 40]),
            ];
            session.create_object(&generic).expect("is made");
        });
        let suite = Suite::Mac(Mac::Hmac(Digest::Sha256));
        let key = by_name(&open("again", "one", false), "generic", suite);
        let asked = Asked { input: MESSAGE, tag: &[0; 32], ..Asked::default() };
        let (_, tag) = expected(&KeyMaterial::secret(&[9; 40]), suite, Direction::Encrypt, asked);
        assert_eq!(run(&engine, &key, suite, Direction::Encrypt, asked), (OpStatus::Done, Vec::new(), tag));
        let shorter = Suite::Mac(Mac::Hmac(Digest::Sha512));
        let error = engine.prepare(&KeyMaterial::reference("generic"), shorter).expect_err("SoftHSM wants 64 bytes");
        assert!(matches!(error, Error::Refused(Refusal::KeyUnsuitable { .. })), "no fault of the token's: {error}");
        let short = Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Ecb);
        assert!(engine.prepare(&KeyMaterial::reference("secret"), short).is_err(), "it has 32 bytes");
    });
}

#[test]
fn another_secret_key_of_the_same_name_is_not_taken() {
    alone("another_secret_key_of_the_same_name_is_not_taken", |store| {
        store.token("one");
        import_aes(store, "secret", &[7; 16]);
        let engine = open("one", "one", false);
        for suite in [
            Suite::Aead(Aead::AesGcm(AesSize::Aes128)),
            Suite::Mac(Mac::Cmac(AesSize::Aes128)),
            Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Ecb),
        ] {
            let room = [0; 16];
            let asked = Asked {
                iv: &[1; 16][..suite.iv_len().max],
                input: &MESSAGE[..16],
                tag: &room[..suite.default_tag_len()],
            };
            let key = by_name(&engine, "secret", suite);
            let seal = || run(&engine, &key, suite, Direction::Encrypt, asked).0;
            assert_eq!(seal(), OpStatus::Done, "{suite}");
            support::restart_module(|| ());
            // The lost session is found out.
            assert_eq!((seal(), seal()), (OpStatus::EngineFault, OpStatus::Done), "{suite}");
            support::restart_module(|| {
                store.util(&["--delete-token", "--token", "one"]);
                store.token("one");
                import_aes(store, "secret", &[8; 16]);
            });
            assert_eq!([seal(), seal(), seal()], [OpStatus::EngineFault; 3], "{suite}");
            support::restart_module(|| {
                store.util(&["--delete-token", "--token", "one"]);
                store.token("one");
                import_aes(store, "secret", &[7; 16]);
            });
            assert_eq!((seal(), seal()), (OpStatus::EngineFault, OpStatus::Done), "{suite}: the key is back");
        }
    });
}

#[test]
fn a_number_is_raised_by_a_key_that_signs_or_decrypts() {
    alone("a_number_is_raised_by_a_key_that_signs_or_decrypts", |store| {
        store.token("one");
        let pair = generate(KeyPair::Rsa(RsaSize::Rsa2048));
        import(store, "one", "rsa", "01", &pair);
        let raw = Suite::PublicEncrypt(PublicEncryption::RsaRaw(RsaSize::Rsa2048));
        let mut number = vec![0x5a; 256];
        number[0] = 0;
        let asked = Asked { input: &number, ..Asked::default() };
        let (raised, _) = expected(&KeyMaterial::private(&pair.private), raw, Direction::Decrypt, asked);
        for (signs, decrypts) in [(true, true), (true, false), (false, true), (false, false)] {
            support::as_application("one", |session| {
                let key = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY)]).expect("searches")[0];
                let uses = [Attribute::Sign(signs), Attribute::Decrypt(decrypts)];
                session.update_attributes(key, &uses).expect("may be changed");
            });
            let engine = open("one", "one", false);
            if !signs && !decrypts {
                assert!(engine.prepare(&KeyMaterial::reference("rsa"), raw).is_err());
                continue;
            }
            let key = by_name(&engine, "rsa", raw);
            let (status, output, _) = run(&engine, &key, raw, Direction::Decrypt, asked);
            assert_eq!((status, &output), (OpStatus::Done, &raised), "signs: {signs}, decrypts: {decrypts}");
            let (status, back, _) =
                run(&engine, &key, raw, Direction::Encrypt, Asked { input: &raised, ..Asked::default() });
            assert_eq!((status, &back), (OpStatus::Done, &number));
            // Not below the modulus.
            let above = Asked { input: &[0xff; 256], ..Asked::default() };
            assert_eq!(run(&engine, &key, raw, Direction::Decrypt, above).0, OpStatus::AuthFailed);
        }
    });
}
