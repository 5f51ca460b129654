//! OpenSSL's public keys: the contract, the published vectors, and batches in which every operation is another.

use std::sync::Arc;

use ciphermill_conformance::{Options, check_engine, differential};
use ciphermill_contract::suite::{Agreement, Curve, Signature};
use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyMaterial, OpStatus, QueueHint, Reason, Refusal, Span, Suite, capability,
};
use ciphermill_peers::{open, openssl::public::NAME};
use ciphermill_reference::Reference;
use ciphermill_vectors::job::{Job, pack};
use ciphermill_vectors::keys::{pair_name, pairs};
use ciphermill_vectors::{known_answer, run_known_answer};
use openssl::bn::BigNumContext;
use openssl::ec::{EcGroup, EcKey, PointConversionForm};
use openssl::nid::Nid;
use openssl::pkey::PKey;

fn peer() -> Arc<dyn Engine> {
    open(NAME).expect("OpenSSL is there")
}

fn claimed() -> Vec<Suite> {
    let mut all: Vec<Suite> = peer().capabilities().iter().flat_map(|group| group.suites.iter().copied()).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn it_keeps_the_contract() {
    let options = Options { public_cases_max: 40, ..Options::default() };
    let mut report = check_engine(&*peer(), Some(&Reference::new()), &options);
    // OpenSSL agrees with any point of a binary curve, those outside the subgroup among them: it saves a check that ours makes.
    let is_outside = |what: &str| what.contains("peer of order two") || what.contains("peer outside the subgroup");
    report.failures.retain(|failure| {
        let is_binary = matches!(failure.suite, Some(Suite::Agree(Agreement::Ecdh(curve))) if curve.is_binary());
        !(is_binary && failure.check == "vectors" && is_outside(&failure.what))
    });
    report.assert_clean();
}

#[test]
fn it_agrees_with_the_reference_on_random_batches() {
    differential(&*peer(), &Reference::new(), 0x0dd5_eed5, 60).assert_clean();
}

#[test]
fn every_suite_gives_its_known_answer_and_no_other_is_claimed() {
    assert_eq!(claimed().len(), 8 + 3 + 3 + 3 + 3 + 6 + 3 + 8);
    for suite in claimed() {
        assert!(suite.is_public_key());
        if known_answer(suite).is_none() {
            assert_eq!(suite.family(), "binary curves");
            continue;
        }
        assert_eq!(run_known_answer(&*peer(), suite), Ok(()), "{suite}");
    }
    let other: Suite = "rsa-2048-encrypt-pkcs1".parse().expect("a suite's name");
    let error = peer().prepare(&KeyMaterial::private(&[1; 32]), other).err();
    assert_eq!(error, Some(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned()))));
}

/// Agreements of one queue and key with values that differ, bad ones between good ones: what a context keeps of one operation
/// must not reach the next.
#[test]
fn kept_contexts_keep_nothing_of_the_last_value() {
    let (peer, reference) = (peer(), Reference::new());
    for suite in claimed() {
        let Suite::Agree(agreement) = suite else { continue };
        // Binary curves may have none.
        let Some(pairs) = pair_name(suite).map(|name| pairs(&name)) else { continue };
        let value = |index: usize| pairs[index].public[pairs[index].public.len() - agreement.public_len()..].to_vec();
        let mut off = value(0);
        match agreement {
            // Off the curve; above the prime; of small order.
            Agreement::Ecdh(_) => off[5] ^= 1,
            Agreement::Dh(_) => off.fill(0xff),
            Agreement::X25519 | Agreement::X448 => off.fill(0),
        }
        let inputs = [value(0), value(1), off.clone(), value(0), off, value(1)];
        let jobs: Vec<Job> = inputs.into_iter().map(|input| Job { input, ..Job::default() }).collect();
        let run = |engine: &dyn Engine| {
            let (mut arena, mut ops) = pack(suite, Direction::Encrypt, &jobs);
            let key = engine.prepare(&KeyMaterial::private(&pairs[0].private), suite).expect("a sound key");
            let keys = vec![Some(&key); ops.len()];
            let mut queue = engine.queue(QueueHint::default()).expect("a queue");
            let mut checked = Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena).check().expect("sound");
            queue.run(&mut checked.attach_keys(&keys).expect("as many keys as operations"));
            (ops, arena)
        };
        let (ops, arena) = run(&*peer);
        assert_eq!((&ops, &arena), (&run(&reference).0, &run(&reference).1), "{suite}");
        let bad = OpStatus::BadInput(Reason::BadPublicValue);
        let wanted = [OpStatus::Done, OpStatus::Done, bad, OpStatus::Done, bad, OpStatus::Done];
        assert_eq!(ops.iter().map(|op| op.status).collect::<Vec<_>>(), wanted, "{suite}");
    }
}

/// Two pairs of each binary curve: both sides agree, and each verifies what the other signed and nothing else.
#[test]
fn binary_curves_agree_with_themselves() {
    for (curve, nid) in [
        (Curve::Sect163k1, Nid::SECT163K1),
        (Curve::Sect163r2, Nid::SECT163R2),
        (Curve::Sect233k1, Nid::SECT233K1),
        (Curve::Sect233r1, Nid::SECT233R1),
    ] {
        let group = EcGroup::from_curve_name(nid).expect("OpenSSL has the curve");
        let keys = [0, 1].map(|_| EcKey::generate(&group).expect("a pair"));
        let private = keys
            .each_ref()
            .map(|key| PKey::from_ec_key(key.clone()).and_then(|key| key.private_key_to_pkcs8()).expect("as PKCS#8"));
        let points = keys.each_ref().map(|key| {
            let mut context = BigNumContext::new().expect("a context");
            let form = PointConversionForm::UNCOMPRESSED;
            key.public_key().to_bytes(&group, form, &mut context).expect("a point")
        });
        let suite = Suite::Agree(Agreement::Ecdh(curve));
        let secret = |own: usize, input: &[u8]| one(suite, Direction::Encrypt, &private[own], input, &[]);
        let (left, right) = (secret(0, &points[1]), secret(1, &points[0]));
        assert_eq!((&left, left.0, left.1.len()), (&right, OpStatus::Done, curve.field_len()), "{suite}");
        let mut off = points[1].clone();
        off[5] ^= 1;
        assert_eq!(secret(0, &off).0, OpStatus::BadInput(Reason::BadPublicValue), "{suite}");
        let suite = Suite::Sign(Signature::Ecdsa(curve));
        let room = vec![0; suite.default_tag_len()];
        let (status, signature) = one(suite, Direction::Encrypt, &private[0], b"message", &room);
        assert_eq!(status, OpStatus::Done, "{suite}");
        for (key, message, wanted) in [
            (0, &b"message"[..], OpStatus::Done),
            (0, b"massage", OpStatus::AuthFailed),
            (1, b"message", OpStatus::AuthFailed),
        ] {
            assert_eq!(one(suite, Direction::Decrypt, &private[key], message, &signature).0, wanted, "{suite}");
        }
    }
}

/// One operation under a private key: its status, and its output or signature.
fn one(suite: Suite, direction: Direction, key: &[u8], input: &[u8], tag: &[u8]) -> (OpStatus, Vec<u8>) {
    let job = Job { input: input.to_vec(), tag: tag.to_vec(), ..Job::default() };
    let (mut arena, mut ops) = pack(suite, direction, &[job]);
    let peer = peer();
    let key = peer.prepare(&KeyMaterial::private(key), suite).expect("a sound key");
    let mut queue = peer.queue(QueueHint::default()).expect("a queue");
    let mut checked = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("sound");
    queue.run(&mut checked.attach_keys(&[Some(&key)]).expect("one key"));
    let place = match suite {
        Suite::Sign(_) => ops[0].tag_span(),
        _ => Span::new(ops[0].output, ops[0].output_len),
    };
    (ops[0].status, arena[place.range()].to_vec())
}

#[test]
fn both_directions_of_a_private_key_are_there() {
    for suite in claimed() {
        let decrypts = capability::find(peer().capabilities(), suite, Direction::Decrypt).is_some();
        assert_eq!(decrypts, suite.has_direction(Direction::Decrypt), "{suite}");
        assert!(capability::find(peer().capabilities(), suite, Direction::Encrypt).is_some(), "{suite}");
    }
}
