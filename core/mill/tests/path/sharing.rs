//! Large batches that several engines work on at the same time.

use std::sync::Arc;

use ciphermill::{Costs, KeyPolicy, Mill, RouteReason, RunOptions, SelfTest};
use ciphermill_contract::{
    Batch, Cost, Direction, Engine, EngineKind, EngineKinds, KeyId, KeyMaterial, Op, OpStatus, Reason, Span,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};
use ciphermill_reference::Reference;

use crate::suite;

const COUNT: usize = 400;
const LEN: usize = 32;

/// A mill over an engine of this processor and a device as fast, for which waking a thread costs nothing.
fn mill(script: Script) -> (Mill, FaultHandle) {
    let inner: Arc<dyn Engine> = Arc::new(Reference::new());
    let engine = |name, kind, script| {
        let engine = FaultEngine::new(name, Arc::clone(&inner), script).with_kind(kind);
        engine.with_prior(Cost::new(0.0, 1000.0, 0.0))
    };
    let device = engine("device", EngineKind::Gpu, script);
    let handle = device.handle();
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let builder = Mill::builder().engine(Arc::new(engine("here", EngineKind::Library, Script::healthy())));
    let builder = builder.engine(Arc::new(device)).costs(costs).self_test(SelfTest::Never).workers(1);
    (builder.open().expect("opens"), handle)
}

fn import(mill: &Mill, policy: KeyPolicy) -> KeyId {
    mill.keys().import(KeyMaterial::secret(&[7; 16]), policy).expect("room")
}

fn ops(key: KeyId) -> Vec<Op> {
    let op = |n: usize| Op::in_place(key, Span::new((n * LEN) as u32, LEN as u32)).with_iv(&[n as u8; 16]);
    (0..COUNT).map(op).collect()
}

/// What the reference makes of [`ops`].
fn expected() -> Vec<u8> {
    let mill = Mill::builder().engine(Arc::new(Reference::new())).open().expect("opens");
    let mut arena = vec![3; COUNT * LEN];
    let mut ops = ops(import(&mill, KeyPolicy::default()));
    mill.run(Batch::new(suite("aes-128-cbc"), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
    arena
}

/// Operations that each engine did.
fn done(mill: &Mill) -> Vec<(String, u64)> {
    let metrics = mill.metrics();
    let sum = |engine: &ciphermill::EngineMetrics| engine.suites.iter().map(|one| one.operations.done).sum();
    metrics.engines.iter().map(|engine| (engine.engine.to_owned(), sum(engine))).collect()
}

#[test]
fn both_engines_work_on_one_batch() {
    let (mill, _handle) = mill(Script::healthy());
    let mut ops = ops(import(&mill, KeyPolicy::default()));
    let mut arena = vec![3; COUNT * LEN];
    let batch = Batch::new(suite("aes-128-cbc"), Direction::Encrypt, &mut ops, &mut arena);
    let report = mill.run(batch).expect("runs");
    assert_eq!((report.route.reason, report.done, report.failed), (RouteReason::Share, COUNT, 0));
    assert_eq!(arena, expected());
    let done = done(&mill);
    assert_eq!(done.iter().map(|(_, count)| count).sum::<u64>(), COUNT as u64, "{done:?}");
    assert!(done.len() == 2 && done.iter().all(|(_, count)| *count >= COUNT as u64 / 4), "{done:?}");
    let explained =
        mill.explain(suite("aes-128-cbc"), Direction::Encrypt, COUNT as u64, LEN as u64, &RunOptions::default());
    let shares = explained.expect("explains").shares.expect("it is shared");
    assert_eq!(shares.shares.iter().map(|share| share.ops).sum::<u64>(), COUNT as u64);
    assert_eq!(shares.shares.iter().map(|share| share.name).collect::<Vec<_>>(), ["here", "device"]);
}

#[test]
fn a_share_that_a_device_fails_is_run_elsewhere() {
    for fault in [Fault::Errors, Fault::Unfinished, Fault::Panic, Fault::Death] {
        let (mill, handle) = mill(Script::at(0, fault));
        let mut ops = ops(import(&mill, KeyPolicy::default()));
        let mut arena = vec![3; COUNT * LEN];
        let batch = Batch::new(suite("aes-128-cbc"), Direction::Encrypt, &mut ops, &mut arena);
        let report = mill.run(batch).expect("runs");
        assert_eq!((report.done, handle.injected()), (COUNT, 1), "{fault:?}");
        assert_eq!(arena, expected(), "{fault:?}");
    }
}

#[test]
fn budgets_are_spent_once_and_policies_bind_shares() {
    let (mill, _handle) = mill(Script::healthy());
    let key = import(&mill, KeyPolicy::default().operations_max(COUNT as u64 + 5));
    let mut arena = vec![3; COUNT * LEN];
    let (mut first, mut second) = (ops(key), ops(key));
    let cbc = suite("aes-128-cbc");
    assert_eq!(mill.run(Batch::new(cbc, Direction::Encrypt, &mut first, &mut arena)).expect("runs").done, COUNT);
    assert_eq!(mill.run(Batch::new(cbc, Direction::Encrypt, &mut second, &mut arena)).expect("runs").done, 5);
    assert_eq!(second.iter().filter(|op| op.status == OpStatus::Refused(Reason::KeyBudget)).count(), COUNT - 5);

    let stays = import(&mill, KeyPolicy { engines: EngineKinds::only(EngineKind::Library), ..KeyPolicy::default() });
    let before = done(&mill).into_iter().find(|(engine, _)| engine == "device").expect("it worked").1;
    let mut ops = ops(stays);
    assert_eq!(mill.run(Batch::new(cbc, Direction::Encrypt, &mut ops, &mut arena)).expect("runs").done, COUNT);
    let after = done(&mill).into_iter().find(|(engine, _)| engine == "device").expect("it worked").1;
    assert_eq!(before, after, "the key may not go there");
}

#[test]
fn what_lies_across_shares_stays_whole() {
    let (mill, _handle) = mill(Script::healthy());
    let mut ops = ops(import(&mill, KeyPolicy::default()));
    ops.reverse();
    let mut arena = vec![3; COUNT * LEN];
    let batch = Batch::new(suite("aes-128-cbc"), Direction::Encrypt, &mut ops, &mut arena);
    let report = mill.run(batch).expect("runs");
    assert_ne!(report.route.reason, RouteReason::Share);
    assert_eq!((report.done, arena), (COUNT, expected()));
}
