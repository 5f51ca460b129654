//! Single operations that wait for others, on an engine whose lanes go in step: when windows are opened, and what ends them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill, MillBuilder, One, OneDone, OneFuture, SelfTest, SharedMetrics};
use ciphermill_contract::suite::lists::AES_CBC;
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, KeyId, KeyMaterial,
    OpStatus, PreparedKey, QueueHint, Result, Suite,
};

use crate::cbc;
use crate::singles::{run_all, run_until_done};

const STEP: usize = 8;

/// What an operation takes alone on the one engine, and a step of eight on the other.
const ALONE: Duration = Duration::from_micros(1600);
const FULL: Duration = Duration::from_micros(2400);

const SINGLE: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(0.0, ns(ALONE), 0.0))];
const LANES: &[Capability] =
    &[Capability::new(&AES_CBC, Cost::new(0.0, ns(FULL) / STEP as f64, 0.0)).lanes(STEP as u16).in_step()];

/// The same for who says that it takes ten thousand times as long: tests may look away for seconds.
const PATIENT_SINGLE: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(0.0, 1e4 * ns(ALONE), 0.0))];
const PATIENT_LANES: &[Capability] =
    &[Capability::new(&AES_CBC, Cost::new(0.0, 1e4 * ns(FULL) / STEP as f64, 0.0)).lanes(STEP as u16).in_step()];

/// Operations so cheap that waiting for others costs more than any number of them.
const CHEAP: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(10.0, 12.0, 0.0)).lanes(STEP as u16).in_step()];

const fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// An engine that turns every bit over and takes so long for each step.
struct Stepped {
    info: EngineInfo,
    capabilities: &'static [Capability],
    takes: Duration,
    /// Batches and operations that it has run.
    ran: Arc<(AtomicU64, AtomicU64)>,
}

impl Stepped {
    fn new(name: &'static str, capabilities: &'static [Capability], takes: Duration) -> Stepped {
        let kind = if capabilities[0].step > 1 { EngineKind::Lanes } else { EngineKind::Library };
        let info = EngineInfo { name, kind, version: String::new(), parallelism: 1, kernels: Vec::new() };
        Stepped { info, capabilities, takes, ran: Arc::default() }
    }
}

impl Engine for Stepped {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, _: Suite) -> Result<PreparedKey> {
        Ok(PreparedKey::new(key.bytes.len()))
    }

    fn queue(&self, _: QueueHint) -> Result<Box<dyn EngineQueue>> {
        let (step, takes, ran) = (usize::from(self.capabilities[0].step), self.takes, Arc::clone(&self.ran));
        Ok(Box::new(SteppedQueue { step, takes, ran }))
    }
}

struct SteppedQueue {
    step: usize,
    takes: Duration,
    ran: Arc<(AtomicU64, AtomicU64)>,
}

impl EngineQueue for SteppedQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let ops = batch.len();
        thread::sleep(self.takes * ops.div_ceil(self.step) as u32);
        self.ran.0.fetch_add(1, Ordering::Relaxed);
        self.ran.1.fetch_add(ops as u64, Ordering::Relaxed);
        batch.process(|buffers| {
            buffers.data.iter_mut().for_each(|byte| *byte = !*byte);
            OpStatus::Done
        });
    }
}

/// A mill with an engine for single operations and one that goes in steps of eight, without threads of its own.
fn builder() -> MillBuilder {
    of([Stepped::new("single", SINGLE, ALONE), Stepped::new("lanes", LANES, FULL)])
}

fn of(engines: [Stepped; 2]) -> MillBuilder {
    let engines = engines.map(|engine| Arc::new(engine) as Arc<dyn Engine>);
    Mill::builder().engines(engines).self_test(SelfTest::Never).workers(0)
}

fn open(builder: MillBuilder) -> (Mill, KeyId) {
    let mill = builder.open().expect("opens");
    let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room");
    (mill, key)
}

fn one(key: KeyId, data: &mut [u8; 16]) -> One<'_> {
    One { key, iv: &[1; 16], aad: &[], input_len: 16, data, tag: &mut [] }
}

fn run_one(mill: &Mill, key: KeyId, number: u8) {
    let mut data = [number; 16];
    let done = mill.run_one(cbc(), Direction::Encrypt, one(key, &mut data)).expect("runs");
    assert_eq!((done.status, data), (OpStatus::Done, [!number; 16]));
}

/// What was counted of shared batches.
fn shared(mill: &Mill) -> SharedMetrics {
    let all = mill.metrics().shared;
    let (suite, direction) = (cbc(), Direction::Encrypt);
    let none = SharedMetrics { suite, direction, batches: 0, operations: 0, windows: 0, filled: 0, window_ns: 0 };
    all.into_iter().find(|shared| shared.direction == direction).unwrap_or(none)
}

type Boxed<'f> = Pin<Box<OneFuture<'f>>>;

/// Futures of operations with these buffers.
fn futures<'f>(mill: &'f Mill, key: KeyId, buffers: &'f mut [[u8; 16]]) -> Vec<Boxed<'f>> {
    let future = |data| Box::pin(mill.submit_one(cbc(), Direction::Encrypt, one(key, data)));
    buffers.iter_mut().map(future).collect()
}

fn poll(future: &mut Boxed<'_>) -> Poll<Result<OneDone>> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn is_done(polled: Poll<Result<OneDone>>) -> bool {
    match polled {
        Poll::Ready(done) => done.expect("runs").status.is_done(),
        Poll::Pending => false,
    }
}

/// A mill whose windows are opened and kept open while a test looks away for a moment.
fn patient() -> MillBuilder {
    let engines = [("single", PATIENT_SINGLE), ("lanes", PATIENT_LANES)];
    of(engines.map(|(name, capabilities)| Stepped::new(name, capabilities, Duration::ZERO)))
        .window_max(Duration::from_secs(100))
}

#[test]
fn a_full_step_leaves_at_once() {
    full_steps_leave(builder());
    // Where nobody waits, too: 64 in one batch would keep one core, and leave nothing to the others.
    full_steps_leave(builder().window_max(Duration::ZERO));
}

fn full_steps_leave(builder: MillBuilder) {
    let (mill, key) = open(builder);
    let (mill_ref, each) = (&mill, 4);
    let task = |task: u8| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            for round in 0..each {
                let mut data = [task ^ round; 16];
                let done = mill_ref.submit_one(cbc(), Direction::Encrypt, one(key, &mut data)).await.expect("runs");
                assert_eq!((done.status, data), (OpStatus::Done, [!(task ^ round); 16]));
            }
        })
    };
    run_all((0..64).map(task).collect());
    let shared = shared(&mill);
    let expected = (8 * u64::from(each), 64 * u64::from(each));
    assert_eq!((shared.batches, shared.operations), expected, "all of them are full");
}

#[test]
fn a_window_is_opened_for_those_who_come_and_ends_with_a_full_step() {
    let (mill, key) = open(patient());
    let mut buffers: Vec<[u8; 16]> = (0..STEP as u8).map(|number| [number; 16]).collect();
    {
        let mut futures = futures(&mill, key, &mut buffers);
        for future in &mut futures[..3] {
            assert!(poll(future).is_pending());
        }
        assert_eq!(shared(&mill).windows, 0, "the leader has not looked yet");
        assert!(poll(&mut futures[0]).is_pending(), "it waits");
        assert_eq!((shared(&mill).windows, shared(&mill).batches), (1, 0));
        for future in &mut futures[3..STEP - 1] {
            assert!(poll(future).is_pending());
        }
        let filled = futures.last_mut().expect("there are eight");
        assert!(is_done(poll(filled)), "who fills the step runs the batch");
        assert!(futures[..STEP - 1].iter_mut().all(|future| is_done(poll(future))), "all are done");
    }
    let shared = shared(&mill);
    assert_eq!((shared.batches, shared.operations, shared.windows, shared.filled), (1, 8, 1, 1));
    assert!(shared.window_ns > 0);
    assert!(buffers.iter().zip(0..).all(|(data, number): (_, u8)| *data == [!number; 16]));
}

#[test]
fn a_window_ends_when_nobody_comes() {
    let (mill, key) = open(patient());
    let mut buffers = [[1; 16], [2; 16]];
    {
        let mut futures = futures(&mill, key, &mut buffers);
        assert!(futures.iter_mut().all(|future| poll(future).is_pending()));
        // Six more were expected within as many gaps as there was one between both.
        let mut looks = 0u64;
        while !is_done(poll(&mut futures[0])) {
            looks += 1;
        }
        assert!(looks > 0 && is_done(poll(&mut futures[1])));
    }
    let shared = shared(&mill);
    assert_eq!((shared.batches, shared.operations, shared.windows, shared.filled), (1, 2, 1, 0));
    assert_eq!(buffers, [[!1; 16], [!2; 16]]);
}

#[test]
fn others_may_lead_when_a_window_is_over_but_not_before() {
    let (mill, key) = open(patient());
    let mut buffers = [[1; 16], [2; 16]];
    let mut futures = futures(&mill, key, &mut buffers);
    assert!(poll(&mut futures[0]).is_pending());
    // Six more are expected, each after as long a gap.
    let gap = Duration::from_millis(50);
    thread::sleep(gap);
    assert!(poll(&mut futures[1]).is_pending());
    assert!(poll(&mut futures[0]).is_pending(), "waits");
    let opened = Instant::now();
    thread::sleep(Duration::from_millis(1));
    assert!(poll(&mut futures[1]).is_pending() || opened.elapsed() > 6 * gap, "it is not late yet");
    // The leader is gone for long.
    while !is_done(poll(&mut futures[1])) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(opened.elapsed() >= 5 * gap, "its batch is anybody's only then");
    assert!(is_done(poll(&mut futures[0])));
}

#[test]
fn nobody_waits_alone() {
    // Threads.
    let (mill, key) = open(builder());
    (0..30).for_each(|number| run_one(&mill, key, number));
    assert_eq!(shared(&mill).windows + shared(&mill).batches, 0);
    // Tasks, the second of which comes a moment after the first.
    let (mill, key) = open(patient());
    for number in 0..30u8 {
        let mut data = [number; 16];
        let mut future = pin!(mill.submit_one(cbc(), Direction::Encrypt, one(key, &mut data)));
        let mut polls = 0;
        while !is_done(future.as_mut().poll(&mut Context::from_waker(Waker::noop()))) {
            polls += 1;
            assert!(polls <= 1, "it yields once at most");
        }
    }
    assert_eq!(shared(&mill).windows, 0);
}

#[test]
fn nobody_waits_for_arrivals_that_are_too_slow_or_too_cheap() {
    let come = |mill: &Mill, key: KeyId, gap: Duration, turns_max: usize| {
        let mut buffers = [[0; 16]; 3];
        let mut futures = futures(mill, key, &mut buffers);
        for future in &mut futures {
            thread::sleep(gap);
            assert!(poll(future).is_pending());
        }
        // Others have come since the leader looked; a turn in which the machine was elsewhere counts as busy.
        let mut looks = 0;
        while !is_done(poll(&mut futures[0])) {
            looks += 1;
            assert!(looks <= turns_max, "the leader does not wait");
        }
        assert!(looks >= turns_max.min(1));
        assert!(futures[1..].iter_mut().all(|future| is_done(poll(future))));
        assert_eq!(shared(mill).windows, 0);
    };
    // Slower than one engine does them one by one.
    let (mill, key) = open(builder().window_max(Duration::from_secs(100)));
    come(&mill, key, 3 * ALONE, 100);
    // No time to wait in.
    let (mill, key) = open(patient().window_max(Duration::ZERO));
    come(&mill, key, Duration::ZERO, 0);
    // An engine for which sharing is worth it and waiting is not.
    let cheap = Stepped::new("lanes", CHEAP, Duration::ZERO);
    let builder = Mill::builder().engine(Arc::new(cheap)).self_test(SelfTest::Never).workers(0);
    let (mill, key) = open(builder.window_max(Duration::from_secs(100)));
    come(&mill, key, Duration::ZERO, 0);
}

#[test]
fn threads_that_block_fill_steps() {
    let lanes = Stepped::new("lanes", LANES, FULL);
    let single = Stepped::new("single", SINGLE, ALONE);
    let ran = [Arc::clone(&lanes.ran), Arc::clone(&single.ran)];
    let builder = Mill::builder().engine(Arc::new(lanes)).engine(Arc::new(single));
    // Operations take some six times as long as a signature does.
    let window_max = Duration::from_millis(2);
    let (mill, key) = open(builder.self_test(SelfTest::Never).workers(0).window_max(window_max));
    let (threads, each) = (64u8, 8u8);
    thread::scope(|scope| {
        for number in 0..threads {
            let mill = &mill;
            scope.spawn(move || (0..each).for_each(|round| run_one(mill, key, number ^ round)));
        }
    });
    let total = |of: fn(&(AtomicU64, AtomicU64)) -> &AtomicU64| -> u64 {
        ran.iter().map(|ran| of(ran).load(Ordering::Relaxed)).sum()
    };
    let (batches, operations) = (total(|ran| &ran.0), total(|ran| &ran.1));
    assert_eq!(operations, u64::from(threads) * u64::from(each));
    // The first comes alone and the last are few; which threads get the core is the scheduler's business.
    assert!(operations >= 5 * batches, "{operations} operations in {batches} batches");
}

#[test]
fn tasks_and_threads_share_steps() {
    let (mill, key) = open(builder());
    let (mill_ref, rounds) = (&mill, 6u8);
    thread::scope(|scope| {
        for number in 0..12u8 {
            scope.spawn(move || (0..rounds).for_each(|round| run_one(mill_ref, key, number ^ round)));
        }
        let task = |task: u8| -> Pin<Box<dyn Future<Output = ()> + '_>> {
            Box::pin(async move {
                for round in 0..rounds {
                    let mut data = [task ^ round; 16];
                    let done = mill_ref.submit_one(cbc(), Direction::Encrypt, one(key, &mut data)).await.expect("runs");
                    assert_eq!((done.status, data), (OpStatus::Done, [!(task ^ round); 16]));
                }
            })
        };
        run_until_done((0..12).map(task).collect());
    });
    let (shared, total) = (shared(&mill), 24 * u64::from(rounds));
    let metrics = mill.metrics();
    let done: u64 = metrics.engines.iter().flat_map(|of| &of.suites).map(|suite| suite.operations.done).sum();
    assert_eq!(done, total);
    assert!(shared.operations > shared.batches && shared.operations <= total, "{shared:?}");
}

#[test]
fn a_leader_that_goes_while_its_window_is_open_leaves_nobody_waiting() {
    let (mill, key) = open(patient());
    let mut buffers = [[1; 16], [2; 16], [3; 16]];
    let mut futures = futures(&mill, key, &mut buffers);
    for future in &mut futures {
        assert!(poll(future).is_pending());
    }
    assert!(poll(&mut futures[0]).is_pending());
    assert_eq!(shared(&mill).windows, 1);
    drop(futures.remove(0));
    assert!(is_done(poll(&mut futures[1])), "whoever looks next leads");
    assert!(is_done(poll(&mut futures[0])));
}
