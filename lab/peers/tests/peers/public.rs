//! OpenSSL's public keys: the contract, the published vectors, and batches in which every operation is another.

use std::sync::Arc;

use ciphermill_conformance::{Options, check_engine, differential};
use ciphermill_contract::suite::Agreement;
use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyMaterial, OpStatus, QueueHint, Reason, Refusal, Suite, capability,
};
use ciphermill_peers::{open, openssl::public::NAME};
use ciphermill_reference::Reference;
use ciphermill_vectors::job::{Job, pack};
use ciphermill_vectors::keys::{pair_name, pairs};
use ciphermill_vectors::run_known_answer;

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
    check_engine(&*peer(), Some(&Reference::new()), &options).assert_clean();
}

#[test]
fn it_agrees_with_the_reference_on_random_batches() {
    differential(&*peer(), &Reference::new(), 0x0dd5_eed5, 60).assert_clean();
}

#[test]
fn every_suite_gives_its_known_answer_and_no_other_is_claimed() {
    assert_eq!(claimed().len(), 8 + 3 + 3 + 3 + 3 + 2);
    for suite in claimed() {
        assert!(suite.is_public_key());
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
        let pairs = pairs(&pair_name(suite).expect("a kind of pair"));
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

#[test]
fn both_directions_of_a_private_key_are_there() {
    for suite in claimed() {
        let decrypts = capability::find(peer().capabilities(), suite, Direction::Decrypt).is_some();
        assert_eq!(decrypts, suite.has_direction(Direction::Decrypt), "{suite}");
        assert!(capability::find(peer().capabilities(), suite, Direction::Encrypt).is_some(), "{suite}");
    }
}
