//! What becomes of an engine that fails, step by step.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::{Costs, Mill, SelfTest, Session, TrustPolicy};
use ciphermill_contract::{
    Batch, Cost, Direction, EngineKind, Error, KeyId, Op, OpStatus, OwnedBatch, Refusal, Result, Span, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};

use crate::reference;
use crate::work::{Piece, Random};

const QUARANTINE: Duration = Duration::from_millis(300);

/// A mill over a faulty engine that is preferred and, if `has_other`, the reference.
fn mill(script: Script, kind: EngineKind, has_other: bool, witness_every: u32) -> (Mill, FaultHandle) {
    let engine = FaultEngine::new("faulty", reference(), script).with_kind(kind).with_prior(Cost::new(0.0, 1.0, 0.01));
    let handle = engine.handle();
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy {
        witness_every,
        stall_min: Duration::from_millis(50),
        quarantine_min: QUARANTINE,
        ..TrustPolicy::default()
    };
    let mut builder = Mill::builder().engine(Arc::new(engine)).costs(costs).trust(trust).legacy(true).workers(0);
    if has_other {
        builder = builder.engine(reference());
    }
    (builder.self_test(SelfTest::Never).open().expect("opens"), handle)
}

/// Runs a piece; says where it went last. Outcomes are compared.
fn run(mill: &Mill, seed: u64) -> Result<&'static str> {
    let piece = Piece::new(&mut Random::new(seed), mill.keys());
    let mut owned: OwnedBatch = piece.owned();
    let report = mill.run(owned.as_batch())?;
    (0..owned.ops.len()).for_each(|index| piece.check(index, &owned));
    Ok(report.route.name)
}

fn quarantines(mill: &Mill) -> (u64, bool) {
    let metrics = mill.metrics();
    let faulty = metrics.engines.iter().find(|engine| engine.engine == "faulty").expect("it is there");
    (faulty.quarantines, faulty.quarantined)
}

#[test]
fn a_stalled_engine_is_left_and_comes_back_after_its_quarantine() {
    let (mill, handle) = mill(Script::at(0, Fault::Stall), EngineKind::Gpu, true, 0);
    let start = Instant::now();
    assert_eq!(run(&mill, 1), Ok("reference"));
    assert!(start.elapsed() >= Duration::from_millis(50), "it was waited for");
    assert_eq!((quarantines(&mill), handle.stalled()), ((1, true), 1));
    let start = Instant::now();
    assert_eq!(run(&mill, 2), Ok("reference"));
    assert!(start.elapsed() < Duration::from_millis(50), "nobody waits again");
    // The late answer reaches nobody; the first batch after the quarantine is on another thread of that engine.
    handle.release();
    thread::sleep(QUARANTINE);
    assert_eq!(run(&mill, 3), Ok("faulty"));
    assert_eq!((quarantines(&mill), handle.batches()), ((1, false), 2));
}

#[test]
fn a_wrong_bit_is_found_by_a_witness() {
    for kind in [EngineKind::Gpu, EngineKind::Library] {
        let (mill, handle) = mill(Script::always(Fault::WrongBit { op: 3, bit: 5 }), kind, true, 1);
        assert_eq!(run(&mill, 4), Ok("reference"), "{kind}");
        assert_eq!(quarantines(&mill), (1, true));
        let batches = handle.batches();
        assert_eq!(run(&mill, 5), Ok("reference"));
        assert_eq!(handle.batches(), batches, "it is not asked again");
        let metrics = mill.metrics();
        let sums = metrics.engines.iter().flat_map(|engine| &engine.suites);
        assert_eq!(sums.map(|suite| suite.disagreements).sum::<u64>(), 1);
    }
}

#[test]
fn an_engine_that_comes_back_answers_its_known_answers_first() {
    let engine = FaultEngine::new("faulty", reference(), Script::healthy())
        .with_kind(EngineKind::Token)
        .with_prior(Cost::new(0.0, 1.0, 0.01));
    let handle = engine.handle();
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy { quarantine_min: QUARANTINE, witness_every: 0, ..TrustPolicy::default() };
    let mill = Mill::builder().engine(Arc::new(engine)).engine(reference()).costs(costs).trust(trust).legacy(true);
    let mill = mill.workers(0).open().expect("opens");
    assert_eq!(run(&mill, 6), Ok("faulty"));
    assert!(handle.batches() > 1, "known answers and the batch");
    handle.set_script(Script::always(Fault::Errors));
    handle.kill();
    assert_eq!(run(&mill, 6), Ok("reference"));
    handle.revive();
    let before = handle.batches();
    thread::sleep(QUARANTINE);
    assert_eq!(run(&mill, 6), Ok("reference"), "it fails its test");
    assert_eq!(quarantines(&mill), (2, true));
    assert!(handle.batches() > before, "it was asked");
    handle.set_script(Script::healthy());
    thread::sleep(QUARANTINE);
    assert_eq!(run(&mill, 6), Ok("reference"), "the second quarantine is twice as long");
    thread::sleep(QUARANTINE);
    assert_eq!(run(&mill, 6), Ok("faulty"));
    assert_eq!(quarantines(&mill), (2, false));
}

#[test]
fn without_another_engine_the_error_is_clear() {
    let (mill, handle) = mill(Script::healthy(), EngineKind::Gpu, false, 0);
    assert_eq!(run(&mill, 7), Ok("faulty"));
    handle.kill();
    assert!(matches!(run(&mill, 7), Err(Error::EngineFault(fault)) if fault.engine == "faulty"));
    assert!(matches!(run(&mill, 7), Err(Error::Refused(Refusal::InQuarantine(_)))));
}

#[test]
fn a_panic_on_this_thread_costs_what_was_in_place_only() {
    let (mill, _) = mill(Script::at(0, Fault::Panic), EngineKind::Library, true, 0);
    let ends_in_place = |piece: &Piece| (1..20).contains(&piece.last()) && piece.is_in_place(piece.last());
    let piece = (11..).map(|seed| Piece::new(&mut Random::new(seed), mill.keys())).find(ends_in_place).expect("one");
    let mut owned = piece.owned();
    mill.run(owned.as_batch()).expect("some operations end");
    let mut lost = 0;
    for (index, op) in owned.ops.iter().enumerate() {
        if op.status == OpStatus::EngineFault {
            assert!(owned.suite.transforms() && op.output == op.input.offset, "its input is there");
            lost += 1;
        } else {
            piece.check(index, &owned);
        }
    }
    assert!(lost > 0 && lost < owned.ops.len(), "{lost} of {piece:?}");
    assert_eq!(quarantines(&mill), (1, true));
}

#[test]
fn faults_now_and_then_are_made_up_for_and_faults_in_a_row_are_not() {
    let now_and_then = Script::cycle(vec![Fault::ErrorAt(1), Fault::None, Fault::None, Fault::None, Fault::None]);
    let (one, _) = mill(now_and_then, EngineKind::Gpu, true, 0);
    for seed in 20..60 {
        run(&one, seed).expect("the reference makes up for it");
    }
    assert_eq!(quarantines(&one), (0, false));
    let (other, _) = mill(Script::always(Fault::ErrorAt(0)), EngineKind::Gpu, true, 0);
    for seed in 20..23 {
        assert_eq!(run(&other, seed), Ok("reference"));
    }
    assert_eq!(quarantines(&other), (1, true));
}

/// Runs one digest; says on which engine.
fn digest(session: &mut Session, suite: &str) -> &'static str {
    let suite: Suite = suite.parse().expect("a suite");
    let len = suite.default_tag_len();
    let mut arena = vec![7u8; 3 + len];
    let mut ops = [Op::in_place(KeyId::NONE, Span::new(0, 3)).with_tag(3, len as u16)];
    let report = session.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
    assert_eq!(report.done, 1);
    report.route.name
}

#[test]
fn a_session_that_knows_the_way_waits_for_the_known_answers_too() {
    let engine = FaultEngine::new("faulty", reference(), Script::healthy())
        .with_kind(EngineKind::Library)
        .with_prior(Cost::new(0.0, 1.0, 0.01));
    let handle = engine.handle();
    let trust = TrustPolicy { quarantine_min: QUARANTINE, witness_every: 0, ..TrustPolicy::default() };
    let builder = Mill::builder().engine(Arc::new(engine)).engine(reference()).trust(trust).workers(0);
    let mill = builder.open().expect("opens");
    let (mut knows, mut other) = (mill.session(), mill.session());
    assert_eq!(digest(&mut knows, "sha256"), "faulty");
    assert_eq!(digest(&mut other, "sha512"), "faulty");
    handle.set_script(Script::always(Fault::Errors));
    (0..3).for_each(|_| assert_eq!(digest(&mut other, "sha512"), "reference"));
    assert_eq!(quarantines(&mill), (1, true));
    handle.set_script(Script::healthy());
    thread::sleep(QUARANTINE);
    // The other session lets the engine in again, after the known answer of its own suite.
    assert_eq!(digest(&mut other, "sha512"), "faulty");
    let before = handle.batches();
    assert_eq!(digest(&mut knows, "sha256"), "faulty");
    assert!(handle.batches() > before + 1, "the known answer of this suite, and the batch");
}

/// A mill over a fast device that takes its time over its first batch, and perhaps the reference beside it.
fn slow_to_begin(script: Script, has_other: bool) -> (Mill, FaultHandle) {
    let engine = FaultEngine::new("faulty", reference(), script).with_kind(EngineKind::Gpu);
    let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.0));
    let handle = engine.handle();
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy { stall_min: Duration::from_millis(20), witness_every: 0, ..TrustPolicy::default() };
    let mut builder = Mill::builder().engine(Arc::new(engine)).trust(trust).costs(costs).workers(0);
    if has_other {
        builder = builder.engine(reference());
    }
    (builder.open().expect("opens"), handle)
}

#[test]
fn nobody_waits_for_a_device_that_is_slow_to_begin_unless_it_is_the_only_one() {
    let late = Duration::from_millis(400);
    let (mill, handle) = slow_to_begin(Script::sequence(vec![Fault::Delay(late)]), true);
    let mut session = mill.session();
    let begun = Instant::now();
    assert_eq!(digest(&mut session, "sha256"), "reference");
    assert_eq!(digest(&mut session, "sha256"), "reference", "the test is under way, and there is one of them");
    assert!(begun.elapsed() < late && handle.batches() == 1);
    // Other suites are tested and run meanwhile.
    assert_eq!(digest(&mut session, "sha512"), "faulty");
    assert!(begun.elapsed() < late, "{:?}", begun.elapsed());
    while digest(&mut session, "sha256") == "reference" {
        assert!(begun.elapsed() < 20 * late, "the device never joined");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(quarantines(&mill), (0, false), "it was slow, not broken");

    let (mill, _) = slow_to_begin(Script::sequence(vec![Fault::Delay(late)]), false);
    assert_eq!(digest(&mut mill.session(), "sha256"), "faulty", "there is no other, so it is waited for");
}

#[test]
fn a_device_that_fails_its_test_behind_the_callers_back_runs_nothing() {
    for (fault, expected) in [(Fault::Errors, (0, false)), (Fault::Panic, (1, true))] {
        let (mill, handle) = slow_to_begin(Script::always(fault), true);
        for _ in 0..3 {
            assert_eq!(digest(&mut mill.session(), "sha256"), "reference", "{fault:?}");
        }
        assert_eq!((handle.injected() > 0, quarantines(&mill)), (true, expected), "{fault:?}");
    }
}
