//! What faults must not cost: operations of others, inputs that nobody touched, lengths that were asked for, and
//! plaintext that nobody authenticated.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use ciphermill::{Costs, KeyPolicy, Mill, One, OneDone, SelfTest, SelfTestState, SubmitOptions, TrustPolicy};
use ciphermill_contract::{
    Batch, Cost, Direction, EngineKind, Error, KeyId, KeyMaterial, Op, OpStatus, OwnedBatch, Result, Span, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, Script};

use crate::reference;

/// Long enough for anything that has to happen; nothing waits for it to pass.
const SOON: Duration = Duration::from_secs(20);

/// Faults that spoil an operation without giving a wrong answer.
const FAULTS: [Fault; 3] = [Fault::Errors, Fault::Unfinished, Fault::Panic];

/// A mill over `engine`, which is preferred and much better at many than at one, and perhaps the reference.
fn mill(engine: FaultEngine, has_other: bool, workers: usize) -> Mill {
    let engine = engine.with_prior(Cost::new(10_000.0, 10.0, 0.0));
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy { witness_every: 0, ..TrustPolicy::default() };
    let mut builder = Mill::builder().engine(Arc::new(engine)).costs(costs).trust(trust).workers(workers);
    if has_other {
        builder = builder.engine(Arc::new(
            FaultEngine::new("other", reference(), Script::healthy())
                .with_kind(EngineKind::Reference)
                .with_prior(Cost::new(1e6, 1000.0, 0.0)),
        ));
    }
    builder.self_test(SelfTest::Never).open().expect("opens")
}

fn faulty(script: Script, kind: EngineKind) -> FaultEngine {
    FaultEngine::new("faulty", reference(), script).with_kind(kind)
}

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

fn key(mill: &Mill) -> KeyId {
    mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room")
}

#[test]
fn random_bytes_are_asked_for_again_in_full() {
    for kind in [EngineKind::Library, EngineKind::Gpu] {
        for fault in FAULTS {
            let mill = mill(faulty(Script::at(0, fault), kind), true, 0);
            let mut arena = [0u8; 5 * 64];
            let op = |n: u32| Op { output: 64 * n, output_len: 64, ..Op::default() };
            let mut ops: Vec<Op> = (0..5).map(op).collect();
            let report = mill.run(Batch::new(Suite::Random, Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
            assert_eq!((report.done, report.failed), (5, 0), "{kind} {fault:?}");
            for op in &ops {
                assert_eq!((op.status, op.output_len), (OpStatus::Done, 64), "{kind} {fault:?}");
                let bytes = &arena[op.output as usize..][..64];
                assert!(bytes.iter().any(|byte| *byte != 0), "{kind} {fault:?}: zeros are no random bytes");
            }
        }
    }
}

/// Messages of 64 bytes with their tags, sealed in an arena in which they will be opened in place.
fn sealed(mill: &Mill, key: KeyId) -> (Vec<Op>, Vec<u8>) {
    let mut arena: Vec<u8> = (0..6 * 80).map(|n| n as u8 | 1).collect();
    let op = |n: u32| Op::in_place(key, Span::new(80 * n, 64)).with_iv(&[n as u8; 12]).with_tag(80 * n + 64, 16);
    let mut ops: Vec<Op> = (0..6).map(op).collect();
    mill.run(Batch::new(suite("aes-128-gcm"), Direction::Encrypt, &mut ops, &mut arena)).expect("seals");
    ((0..6).map(op).collect(), arena)
}

#[test]
fn a_fault_while_opening_in_place_leaves_nothing_of_the_plaintext() {
    for fault in [Fault::Unfinished, Fault::Panic] {
        for has_other in [false, true] {
            let mill = mill(faulty(Script::at(1, fault), EngineKind::Library), has_other, 0);
            let key = key(&mill);
            let (ops, arena) = sealed(&mill, key);
            let suite = suite("aes-128-gcm");
            let mut batch = OwnedBatch { suite, direction: Direction::Decrypt, ops, arena: Box::new(arena) };
            mill.run(batch.as_batch()).expect("the first half is opened");
            let mut lost = 0;
            for op in batch.ops.iter().filter(|op| !op.status.is_done()) {
                assert_eq!(op.status, OpStatus::EngineFault);
                assert_eq!(batch.arena.bytes()[op.input.range()], [0; 64], "{fault:?}");
                lost += 1;
            }
            assert_eq!(lost, 3, "{fault:?}");
        }
    }
}

#[test]
fn operations_that_were_lost_are_not_the_next_engines_fault() {
    let mill = mill(faulty(Script::cycle(vec![Fault::None, Fault::Unfinished]), EngineKind::Library), true, 0);
    let key = key(&mill);
    for _ in 0..8 {
        // The second half of what is out of place goes to the other engine, beside what was lost in place.
        let (mut ops, mut arena) = sealed(&mill, key);
        arena.resize(12 * 80, 0);
        ops[5].output = 6 * 80;
        mill.run(Batch::new(suite("aes-128-gcm"), Direction::Decrypt, &mut ops, &mut arena)).expect("runs");
        assert_eq!(ops[5].status, OpStatus::Done);
    }
    let metrics = mill.metrics();
    let other = metrics.engines.iter().find(|engine| engine.engine == "other").expect("it is there");
    assert_eq!(other.quarantines, 0);
}

#[test]
fn keys_that_an_engine_cannot_prepare_are_prepared_elsewhere() {
    for kind in [EngineKind::Library, EngineKind::Gpu] {
        for fault in [Fault::Errors, Fault::Panic] {
            // The queue is opened before keys are prepared on an isolated engine, and afterwards on any other.
            let calls = Script::always(fault);
            let engine = faulty(Script::healthy(), kind).with_call_script(calls);
            let mill = mill(engine, true, 0);
            let key = key(&mill);
            let mut arena = [9u8; 64];
            let mut ops = [0, 16, 32].map(|at| Op::in_place(key, Span::new(at, 16)).with_iv(&[1; 16]));
            let batch = Batch::new(suite("aes-128-cbc"), Direction::Encrypt, &mut ops, &mut arena);
            let report = mill.run(batch).expect("the other engine does it");
            assert_eq!((report.route.name, report.done), ("other", 3), "{kind} {fault:?}");
            assert!(ops.iter().all(|op| op.status.is_done()));
        }
    }
}

#[test]
fn a_panic_in_a_self_test_is_the_engines_fault() {
    for self_test in [SelfTest::AtOpen, SelfTest::OnFirstUse] {
        for calls in [Script::healthy(), Script::always(Fault::Panic)] {
            let engine = faulty(Script::always(Fault::Panic), EngineKind::Library).with_call_script(calls);
            let engine = Arc::new(engine.with_prior(Cost::new(0.0, 1.0, 0.0)));
            let builder = Mill::builder().engine(engine).engine(reference()).self_test(self_test).workers(0);
            let mill = builder.open().expect("opens all the same");
            let mut arena = [0u8; 35];
            let mut ops = [Op::in_place(KeyId::NONE, Span::new(0, 3)).with_tag(3, 32)];
            let batch = Batch::new(suite("sha256"), Direction::Encrypt, &mut ops, &mut arena);
            assert_eq!(mill.run(batch).map(|report| report.route.name), Ok("reference"));
            let engines = mill.engines();
            let faulty = engines.iter().find(|engine| engine.info.name == "faulty").expect("it is there");
            let state = faulty.suites.iter().find(|own| own.suite == suite("sha256")).map(|own| own.self_test);
            assert_ne!(state, Some(SelfTestState::Passed));
            assert!(mill.metrics().engines.iter().any(|engine| engine.engine == "faulty" && engine.quarantines > 0));
        }
    }
}

#[test]
fn random_bytes_have_a_self_test() {
    let (engine, other) = (faulty(Script::always(Fault::Errors), EngineKind::Library), reference());
    let engine = Arc::new(engine.with_prior(Cost::new(0.0, 1.0, 0.0)));
    let mill = Mill::builder().engine(engine).engine(other).workers(0).open().expect("opens");
    mill.self_test(|engine, own, state| {
        if own == Suite::Random {
            let expected = if engine == "faulty" { SelfTestState::Failed } else { SelfTestState::Passed };
            assert_eq!(state, expected, "{engine}");
        }
    });
}

/// Counts how often it is called; may panic.
struct Bell {
    calls: AtomicUsize,
    panics: bool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.panics {
            std::panic::resume_unwind(Box::new("a waker by script"));
        }
    }
}

/// How a task ended: its outcome, or a panic of its own, or not at all.
type End = Option<std::thread::Result<Result<OneDone>>>;

/// Polls tasks that put one operation each into the same round: all join, then the first one leads. They are polled until all have
/// ended, windows among them, or until that takes too long. Says how each ended, and how often each was woken.
fn share_a_round(mill: &Mill, key: KeyId, count: usize, panics: impl Fn(usize) -> bool) -> Vec<(End, usize)> {
    let bells: Vec<Arc<Bell>> =
        (0..count).map(|n| Arc::new(Bell { calls: AtomicUsize::new(0), panics: panics(n) })).collect();
    let mut data = vec![[3u8; 16]; count];
    let mut futures: Vec<_> = data
        .iter_mut()
        .map(|data| {
            let one = One { key, iv: &[1; 16], aad: &[], input_len: 16, data, tag: &mut [] };
            Box::pin(mill.submit_one(suite("aes-128-cbc"), Direction::Encrypt, one))
        })
        .collect();
    let mut ends: Vec<End> = (0..count).map(|_| None).collect();
    let begun = Instant::now();
    while ends.iter().any(Option::is_none) && begun.elapsed() < SOON {
        for ((future, bell), end) in futures.iter_mut().zip(&bells).zip(&mut ends) {
            if end.is_some() {
                continue;
            }
            let waker = Waker::from(Arc::clone(bell));
            let poll = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
            *end = match poll {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(outcome)) => Some(Ok(outcome)),
                Err(panic) => Some(Err(panic)),
            };
        }
    }
    ends.into_iter().zip(bells.iter().map(|bell| bell.calls.load(Ordering::SeqCst))).collect()
}

#[test]
fn a_panic_over_a_shared_round_reaches_everybody_who_waits() {
    for has_other in [true, false] {
        let engine = faulty(Script::healthy(), EngineKind::Library).with_call_script(Script::always(Fault::Panic));
        let mill = mill(engine, has_other, 0);
        let key = key(&mill);
        for (number, (end, woken)) in share_a_round(&mill, key, 20, |_| false).into_iter().enumerate() {
            let outcome = end.expect("nobody waits for ever").expect("no panic comes out of the mill");
            match has_other {
                true => assert_eq!(outcome.map(|done| done.status), Ok(OpStatus::Done), "task {number}"),
                false => assert!(matches!(outcome, Err(Error::EngineFault(_))), "task {number}: {outcome:?}"),
            }
            assert!(woken > 0, "task {number} is told");
        }
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_from_being_woken() {
    let mill = mill(faulty(Script::healthy(), EngineKind::Library), false, 0);
    let key = key(&mill);
    for (number, (end, woken)) in share_a_round(&mill, key, 20, |number| number == 2).into_iter().enumerate() {
        let outcome = end.expect("nobody waits for ever").expect("nobody else's panic");
        assert_eq!(outcome.map(|done| done.status), Ok(OpStatus::Done), "task {number}");
        assert!(woken > 0, "task {number} is told");
    }
}

#[test]
fn a_panic_over_a_round_of_threads_reaches_all_of_them() {
    const THREADS: usize = 8;
    let engine = faulty(Script::healthy(), EngineKind::Library).with_call_script(Script::always(Fault::Panic));
    let mill = mill(engine, true, 0);
    let key = key(&mill);
    let barrier = Arc::new(Barrier::new(THREADS));
    let (sender, receiver) = sync_channel(THREADS);
    for _ in 0..THREADS {
        let (mill, barrier, sender) = (mill.clone(), Arc::clone(&barrier), sender.clone());
        std::thread::spawn(move || {
            barrier.wait();
            for _ in 0..50 {
                let mut data = [3u8; 16];
                let one = One { key, iv: &[1; 16], aad: &[], input_len: 16, data: &mut data, tag: &mut [] };
                let done =
                    mill.run_one(suite("aes-128-cbc"), Direction::Encrypt, one).expect("the other engine does it");
                assert_eq!(done.status, OpStatus::Done);
            }
            sender.send(()).expect("somebody waits");
        });
    }
    drop(sender);
    (0..THREADS).for_each(|_| receiver.recv_timeout(SOON).expect("every thread comes back"));
}

#[test]
fn callbacks_and_wakers_that_panic_cost_neither_workers_nor_batches() {
    let mill = mill(faulty(Script::healthy(), EngineKind::Library), false, 1);
    let key = key(&mill);
    let batch = || {
        let ops = vec![Op::in_place(key, Span::new(0, 16)).with_iv(&[1; 16])];
        let suite = suite("aes-128-cbc");
        OwnedBatch { suite, direction: Direction::Encrypt, ops, arena: Box::new(vec![5u8; 16]) }
    };
    let options = SubmitOptions::default();
    for _ in 0..10 {
        let panics = |_| std::panic::resume_unwind(Box::new("a callback by script"));
        mill.submit_with_callback(batch(), &options, panics).expect("room");
        let bell = Arc::new(Bell { calls: AtomicUsize::new(0), panics: true });
        let waker = Waker::from(Arc::clone(&bell));
        let mut future = Box::pin(mill.submit(batch(), &options).expect("room"));
        while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            std::thread::yield_now();
        }
    }
    let (sender, receiver) = sync_channel(1);
    let send = move |completed: ciphermill_contract::Completed| sender.send(completed).expect("somebody waits");
    mill.submit_with_callback(batch(), &options, send).expect("room");
    let completed = receiver.recv_timeout(SOON).expect("the worker is still there");
    assert_eq!(completed.batch.ops[0].status, OpStatus::Done);
    assert_eq!(mill.queued(), 0);
}
