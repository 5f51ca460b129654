//! Where batches go: by predicted or measured cost, by pins, and by what keys allow.

use std::sync::Arc;

use ciphermill::{
    Costs, Disabled, KeyPolicy, MeasuredCost, Mill, RouteReason, RunOptions, SIZE_CLASSES, SelfTest, Verdict,
    prediction, size_class,
};
use ciphermill_contract::error::Refusal;
use ciphermill_contract::{Batch, Cost, Direction, Engine, EngineKind, EngineKinds, Error, Op, OpStatus, Reason, Span};

use crate::engines::{bulk, in_step, mark, short_only, slow};
use crate::{CBC, import, mill, op, suite};

#[test]
fn a_batch_goes_where_it_is_predicted_to_be_fastest() {
    let mill = mill([mark("library", 1), bulk("gpu", 2)]);
    let key = import(&mill, KeyPolicy::default());
    for (count, winner) in [(1, 1u8), (100, 1), (2_000, 1), (20_000, 2)] {
        let mut ops: Vec<_> = (0..count).map(|index| op(key, index)).collect();
        let mut arena = vec![0u8; 16 * count];
        let report = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
        assert!(arena.iter().all(|byte| *byte == winner), "{count} operations");
        assert!(matches!(report.route.reason, RouteReason::Fastest { .. }));
    }
}

#[test]
fn a_pin_overrides_cost_and_an_unknown_pin_is_refused() {
    let mill = mill([mark("library", 1), slow("reference", EngineKind::Reference, 2)]);
    let key = import(&mill, KeyPolicy::default());
    let mut arena = [0u8; 16];
    let options = RunOptions { engine: Some("reference"), ..RunOptions::default() };
    let report = mill
        .run_with(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut arena), &options)
        .expect("runs");
    assert_eq!((report.route.name, report.route.reason), ("reference", RouteReason::Pinned));
    assert_eq!(arena, [2; 16]);
    let options = RunOptions { engine: Some("abacus"), ..RunOptions::default() };
    let error = mill.run_with(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut arena), &options);
    assert_eq!(error, Err(Error::Refused(Refusal::EngineUnavailable("abacus".into()))));
}

#[test]
fn an_engine_gets_no_input_longer_than_it_takes() {
    let mill = mill([mark("library", 1), short_only("lanes", 2)]);
    let key = import(&mill, KeyPolicy::default());
    for (len, winner) in [(16u32, 2u8), (32, 1)] {
        let mut ops = [ciphermill_contract::Op { input: ciphermill_contract::Span::new(0, len), ..op(key, 0) }];
        let mut arena = [0u8; 32];
        mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
        assert_eq!(arena[0], winner);
    }
}

#[test]
fn keys_that_no_engine_kind_may_share_are_run_where_each_may_be() {
    let mill = mill([mark("library", 1), slow("reference", EngineKind::Reference, 2)]);
    let only = |kind| KeyPolicy::default().engines(EngineKinds::only(kind));
    let library = import(&mill, only(EngineKind::Library));
    let reference = import(&mill, only(EngineKind::Reference));
    let token = import(&mill, only(EngineKind::Token));
    let free = import(&mill, KeyPolicy::default());
    let keys = [library, reference, free, token, reference, library];
    let mut ops: Vec<_> = keys.iter().enumerate().map(|(index, key)| op(*key, index)).collect();
    let mut arena = [0u8; 96];
    let report = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
    let ran_on: Vec<u8> = arena.iter().step_by(16).copied().collect();
    assert_eq!((ran_on[0], ran_on[1], ran_on[3], ran_on[4], ran_on[5]), (1, 2, 0, 2, 1));
    assert_ne!(ran_on[2], 0);
    assert_eq!(ops[3].status, OpStatus::Refused(Reason::KeyEngine));
    assert_eq!((report.done, report.failed), (5, 1));
}

#[test]
fn policy_closes_legacy_suites_and_kinds_of_engines() {
    let mill = mill([mark("library", 1)]);
    let key = import(&mill, KeyPolicy::default());
    let des = suite("des-cbc");
    let mut ops = [ciphermill_contract::Op { iv_len: 8, ..op(key, 0) }];
    let run = mill.run(Batch::new(des, Direction::Encrypt, &mut ops, &mut [0; 16]));
    assert_eq!(run, Err(Error::Refused(Refusal::LegacyDisabled(des))));

    let gcm = suite("aes-128-gcm");
    let run = mill.run(Batch::new(gcm, Direction::Encrypt, &mut [], &mut []));
    assert_eq!(run, Err(Error::Refused(Refusal::NoEngine(gcm, Direction::Encrypt))));

    let options = RunOptions { kinds: EngineKinds::only(EngineKind::Gpu), ..RunOptions::default() };
    let run = mill.run_with(Batch::new(suite(CBC), Direction::Encrypt, &mut [], &mut []), &options);
    assert_eq!(run, Err(Error::Refused(Refusal::NoEngine(suite(CBC), Direction::Encrypt))));
}

#[test]
fn rules_are_to_blame_only_where_the_engine_that_they_leave_out_could_run_the_batch() {
    let run = |engines: [Arc<dyn Engine>; 2], disabled: &str| {
        let mill = mill(engines);
        mill.set_disabled(Disabled::parse([disabled], &["library", "short"]).expect("a rule"));
        let mut ops = [Op::in_place(import(&mill, KeyPolicy::default()), Span::new(0, 32)).with_iv(&[1; 16])];
        mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 32])).map(|report| report.route.name)
    };
    let both = || [mark("library", 1), short_only("short", 2)];
    assert_eq!(run(both(), "short"), Ok("library"));
    assert_eq!(run(both(), "library"), Err(Error::Refused(Refusal::Disabled(suite(CBC), Direction::Encrypt))));
    // Nor would the other one take so much.
    let no_engine = Err(Error::Refused(Refusal::NoEngine(suite(CBC), Direction::Encrypt)));
    assert_eq!(run([short_only("short", 1), short_only("shorter", 2)], "short"), no_engine);
}

#[test]
fn digests_run_without_keys() {
    let mill = mill([mark("library", 6)]);
    let mut ops =
        [ciphermill_contract::Op::in_place(ciphermill_contract::KeyId::NONE, ciphermill_contract::Span::new(0, 7))
            .with_tag(8, 32)];
    let mut arena = [1u8; 40];
    let report = mill.run(Batch::new(suite("sha256"), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
    assert_eq!(report.done, 1);
    assert_eq!((&arena[..8], &arena[8..]), (&[1u8; 8][..], &[6u8; 32][..]));
}

#[test]
fn the_router_explains_itself() {
    let mill = mill([mark("library", 1), bulk("gpu", 2)]);
    let options = RunOptions::default();
    let explained = mill.explain(suite(CBC), Direction::Encrypt, 1000, 48, &options).expect("explains");
    assert_eq!(explained.candidates.len(), 2);
    for candidate in &explained.candidates {
        assert!(matches!(candidate.verdict, Verdict::Predicted(_)));
        assert_eq!((candidate.spread, candidate.class_factor, candidate.correction), (None, 1.0, 1.0));
    }
    let pinned = RunOptions { engine: Some("library"), ..options };
    let explained = mill.explain(suite(CBC), Direction::Encrypt, 1000, 48, &pinned).expect("explains");
    assert_eq!(explained.route.map(|route| (route.name, route.reason)), Some(("library", RouteReason::Pinned)));
    let nobody = RunOptions { engine: Some("abacus"), ..options };
    assert!(mill.explain(suite(CBC), Direction::Encrypt, 1, 48, &nobody).is_err());
}

/// What waits for others waits for a full step of lanes, though a device is best for many.
#[test]
fn the_step_that_is_predicted_is_that_of_the_engine_that_is_best_for_it() {
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    costs.insert(MeasuredCost {
        engine: "gpu".to_owned(),
        version: String::new(),
        kernel: "default".to_owned(),
        suite: suite(CBC),
        direction: Direction::Encrypt,
        cost: Cost::new(200.0, 0.5, 0.0),
        step: 1,
        spread: 0.1,
        factors: [1.0; SIZE_CLASSES],
    });
    let predicted = |engines: &[Arc<dyn Engine>]| {
        let mill = Mill::builder().engines(engines.iter().cloned()).self_test(SelfTest::Never);
        let mill = mill.costs(costs.clone()).open().expect("opens");
        prediction(&mill, suite(CBC), Direction::Encrypt, &RunOptions::default()).expect("runs")
    };
    let engines = [mark("library", 1), in_step("lanes", 2), bulk("gpu", 3)];
    let all = predicted(&engines);
    assert_eq!((all.step, all.few.op_ns), (8, 3.0));
    assert_eq!((all.many_step, all.many.op_ns, all.alone.op_ns), (1, 0.5, 10.0));
    let without_lanes = predicted(&[Arc::clone(&engines[0]), Arc::clone(&engines[2])]);
    assert_eq!((without_lanes.step, without_lanes.few), (1, without_lanes.many));
}

#[test]
fn a_mill_goes_by_what_was_measured() {
    let cost = |engine: &str, cost, factors| MeasuredCost {
        engine: engine.to_owned(),
        version: String::new(),
        kernel: "default".to_owned(),
        suite: suite(CBC),
        direction: Direction::Encrypt,
        cost,
        step: 1,
        spread: 0.1,
        factors,
    };
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    costs.insert(cost("library", Cost::new(0.0, 100.0, 0.0), [1.0; SIZE_CLASSES]));
    let mut factors = [1.0; SIZE_CLASSES];
    factors[size_class(1, 16)] = 5.0;
    costs.insert(cost("gpu", Cost::new(0.0, 50.0, 0.0), factors));
    let open = |costs| {
        let mill = Mill::builder().engines([mark("library", 1), bulk("gpu", 2)]).self_test(SelfTest::Never);
        mill.costs(costs).open().expect("opens")
    };
    let chosen = |mill: &Mill, ops| {
        let explained = mill.explain(suite(CBC), Direction::Encrypt, ops, 16, &RunOptions::default());
        let explained = explained.expect("explains");
        (explained.route.expect("a route").name, explained.candidates)
    };
    let (name, candidates) = chosen(&open(costs.clone()), 1);
    assert_eq!((name, candidates[1].class_factor, candidates[1].spread), ("library", 5.0, Some(0.1)));
    assert!(matches!(candidates[1].verdict, Verdict::Predicted(ns) if (ns - 250.0).abs() < 1.0));
    assert_eq!(chosen(&open(costs), 8).0, "gpu");
    assert_eq!(chosen(&open(Costs::new()), 8).0, "library", "the engines' own estimates");
}
