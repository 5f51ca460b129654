//! Answers that are never the same twice have witnesses too: signatures are verified, ciphertexts taken back.

use std::sync::Arc;

use ciphermill::{Costs, KeyPolicy, Mill, SelfTest, TrustPolicy};
use ciphermill_contract::{Batch, Cost, Direction, EngineKind, KeyId, Op, OpStatus, Suite};
use ciphermill_fault::{Fault, FaultEngine, Script};
use ciphermill_vectors::job::{Job, key_of, pack};
use ciphermill_vectors::known_answer;

use crate::reference;

fn mill(script: Script, kind: EngineKind) -> Mill {
    let engine = FaultEngine::new("faulty", reference(), script).with_kind(kind).with_prior(Cost::new(0.0, 1.0, 0.0));
    let trust = TrustPolicy { witness_every: 1, witness_ops_max: u32::MAX, ..TrustPolicy::default() };
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let builder = Mill::builder().engine(Arc::new(engine)).engine(reference()).costs(costs).trust(trust);
    builder.self_test(SelfTest::Never).workers(0).open().expect("opens")
}

/// Three operations of a suite's known answer and their arena, under a key of the mill for that direction.
fn operations(mill: &Mill, suite: Suite, form: Direction) -> (Vec<Op>, Vec<u8>) {
    let case = known_answer(suite).expect("an answer");
    let key = key_of(case, form).expect("a key");
    let key: KeyId = mill.keys().import(key, KeyPolicy::default()).expect("room");
    let (mut job, _) = Job::of(case, Direction::Encrypt);
    job.tag = vec![0; suite.default_tag_len()];
    let (arena, mut ops) = pack(suite, Direction::Encrypt, &vec![job; 3]);
    ops.iter_mut().for_each(|op| op.key = key);
    (ops, arena)
}

/// Batches that were witnessed, and disagreements.
fn witnessed(mill: &Mill) -> (u64, u64) {
    let metrics = mill.metrics();
    let suites = metrics.engines.iter().flat_map(|engine| &engine.suites);
    suites.fold((0, 0), |(all, bad), suite| (all + suite.witnessed, bad + suite.disagreements))
}

#[test]
fn a_wrong_bit_in_what_is_randomised_is_found_by_taking_it_back() {
    // Signed with private keys; encrypted and encapsulated with them as well, since public ones lead no way back.
    let suites = [
        ("ecdsa-p256", Direction::Encrypt),
        ("rsa-2048-sign-pss-sha256", Direction::Encrypt),
        ("ml-dsa-44", Direction::Encrypt),
        ("ml-kem-768", Direction::Decrypt),
        ("rsa-2048-encrypt-oaep-sha256", Direction::Decrypt),
    ];
    for (name, form) in suites {
        let suite: Suite = name.parse().expect("a suite");
        assert!(suite.is_randomized(Direction::Encrypt));
        for kind in [EngineKind::Gpu, EngineKind::Library] {
            for (script, expected, bad) in
                [(Script::healthy(), "faulty", 0), (Script::always(Fault::WrongBit { op: 1, bit: 77 }), "reference", 1)]
            {
                let mill = mill(script, kind);
                let (mut ops, mut arena) = operations(&mill, suite, form);
                let report = mill.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
                assert_eq!((report.route.name, report.done), (expected, 3), "{name} on {kind}");
                assert_eq!(witnessed(&mill).1, bad, "{name} on {kind}");
                assert!(witnessed(&mill).0 > 0, "{name} on {kind}");
                assert!(ops.iter().all(|op| op.status == OpStatus::Done));
            }
        }
    }
}

#[test]
fn what_was_encapsulated_with_a_public_key_alone_has_no_witness() {
    let suite: Suite = "ml-kem-768".parse().expect("a suite");
    let mill = mill(Script::healthy(), EngineKind::Gpu);
    let (mut ops, mut arena) = operations(&mill, suite, Direction::Encrypt);
    let report = mill.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
    assert_eq!((report.route.name, report.done, witnessed(&mill)), ("faulty", 3, (0, 0)));
}
