//! Batches that are handed over: every way in which they come back, and what stops them.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod singles;
mod windows;

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ciphermill::{
    Costs, IN_FLIGHT_MAX, KeyPolicy, Mill, MillBuilder, OnFull, QUEUED_MAX, RunOptions, SelfTest, SubmitOptions,
};
use ciphermill_contract::error::Refusal;
use ciphermill_contract::{
    Batch, Completed, Cost, Direction, Engine, EngineKind, Error, KeyId, KeyMaterial, Op, OpStatus, OwnedBatch, Reason,
    Span, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};
use ciphermill_reference::Reference;

const LEN: usize = 32;

fn cbc() -> Suite {
    "aes-128-cbc".parse().expect("a suite")
}

fn reference() -> Arc<dyn Engine> {
    static REFERENCE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    Arc::clone(REFERENCE.get_or_init(|| Arc::new(Reference::new())))
}

/// A mill over the reference engine, for which handing over costs nothing.
fn builder(workers: usize) -> MillBuilder {
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    Mill::builder().engine(reference()).costs(costs).workers(workers).self_test(SelfTest::Never)
}

/// A mill whose only engine waits until it is let go on.
fn stuck(workers: usize) -> (Mill, FaultHandle) {
    let script = Script::at(0, Fault::Stall);
    let engine = FaultEngine::new("slow", reference(), script).with_kind(EngineKind::Library);
    let handle = engine.handle();
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let mill = Mill::builder().engine(Arc::new(engine)).costs(costs).workers(workers).self_test(SelfTest::Never);
    (mill.open().expect("opens"), handle)
}

fn import(mill: &Mill) -> KeyId {
    mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room")
}

fn batch(key: KeyId, count: usize, mark: u8) -> OwnedBatch {
    let op = |n: usize| Op::in_place(key, Span::new((n * LEN) as u32, LEN as u32)).with_iv(&[mark; 16]);
    OwnedBatch {
        suite: cbc(),
        direction: Direction::Encrypt,
        ops: (0..count).map(op).collect(),
        arena: Box::new(vec![mark; count * LEN]),
    }
}

/// What [`batch`] becomes.
fn expected(count: usize, mark: u8) -> Vec<u8> {
    let mill = Mill::builder().engine(reference()).self_test(SelfTest::Never).open().expect("opens");
    let mut owned = batch(import(&mill), count, mark);
    mill.run(owned.as_batch()).expect("runs");
    owned.arena.bytes().to_vec()
}

fn assert_done(completed: &Completed, mark: u8) {
    assert_eq!(completed.result, Ok(()));
    assert!(completed.batch.ops.iter().all(|op| op.status == OpStatus::Done));
    assert_eq!(completed.batch.arena.bytes(), expected(completed.batch.ops.len(), mark));
}

fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn batches_come_back_by_wait_with_and_without_workers() {
    for workers in [0, 1, 2] {
        let mill = builder(workers).open().expect("opens");
        let key = import(&mill);
        let mut session = mill.session();
        let tickets: Vec<_> = (0..20).map(|mark| session.submit(batch(key, 5, mark)).expect("room")).collect();
        let mut seen = vec![0; 20];
        while let Some(completed) = session.wait() {
            let mark = tickets.iter().position(|ticket| *ticket == completed.ticket).expect("a ticket of ours");
            seen[mark] += 1;
            assert_done(&completed, mark as u8);
        }
        assert_eq!((seen, session.in_flight()), (vec![1; 20], 0), "{workers} workers");
    }
}

#[test]
fn polling_alone_gets_everything_done() {
    let mill = builder(0).open().expect("opens");
    let key = import(&mill);
    let mut session = mill.session();
    for mark in 0..5 {
        session.submit(batch(key, 2, mark)).expect("room");
    }
    let mut done = Vec::new();
    for polled in 1..=5 {
        assert_eq!(session.poll(&mut done), 1, "one batch is run when none is done");
        assert_eq!(done.len(), polled);
    }
    assert_eq!(session.poll(&mut done), 0);
}

#[test]
fn order_is_kept_where_it_is_asked_for() {
    let mill = builder(2).open().expect("opens");
    let key = import(&mill);
    let mut session = mill.session().in_order();
    // Large ones first, so that small ones overtake them.
    let tickets: Vec<_> = (0..40).map(|n| session.submit(batch(key, 2000 / (n + 1), 1)).expect("room")).collect();
    let mut done = Vec::new();
    session.wait_all(&mut done);
    assert_eq!(done.iter().map(|completed| completed.ticket).collect::<Vec<_>>(), tickets);
}

#[test]
fn misuse_comes_back_with_its_batch_untouched() {
    let mill = builder(1).open().expect("opens");
    let mut session = mill.session();
    let mut wrong = batch(import(&mill), 3, 9);
    wrong.ops[1].input.len = 7;
    session.submit(wrong).expect("room");
    let completed = session.wait().expect("it comes back");
    assert_eq!(completed.result, Err(Error::misuse(1, Reason::NotBlockMultiple)));
    assert_eq!(completed.batch.arena.bytes(), [9; 3 * LEN]);
}

#[test]
fn an_event_descriptor_becomes_readable() {
    let mill = builder(1).open().expect("opens");
    let key = import(&mill);
    let mut session = mill.session();
    session.event_fd().expect("a descriptor");
    session.submit(batch(key, 3, 1)).expect("room");
    let fd = session.event_fd().expect("the same");
    let mut buffer = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut buffer, Some(&limit)), Ok(1), "the mill's threads did the work");
    let mut done = Vec::new();
    assert_eq!(session.poll(&mut done), 1);
    assert_done(&done[0], 1);
    let fd = session.event_fd().expect("the same");
    let mut buffer = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut buffer, Some(&at_once)), Ok(0), "polling set it back");
    let without = builder(0).open().expect("opens");
    assert_eq!(without.session().event_fd().err(), Some(Error::exhausted("workers", 0, 1)));
}

#[test]
fn an_event_descriptor_that_is_made_late_is_readable_for_what_has_come_back() {
    let mill = builder(1).open().expect("opens");
    let key = import(&mill);
    let (mut session, mut other) = (mill.session(), mill.session());
    session.submit(batch(key, 3, 1)).expect("room");
    // The other session's thread works on what waits, so the first one's batch is back before it asks for a descriptor.
    other.submit(batch(key, 3, 2)).expect("room");
    assert_done(&other.wait().expect("it comes back"), 2);
    while mill.queued() + mill.metrics().busy_workers as usize != 0 {
        thread::yield_now();
    }
    let fd = session.event_fd().expect("a descriptor");
    let mut buffer = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut buffer, Some(&limit)), Ok(1));
    assert_done(&session.wait().expect("it is there"), 1);
}

#[test]
fn futures_and_callbacks_get_their_batches() {
    for workers in [0, 2] {
        let mill = builder(workers).open().expect("opens");
        let key = import(&mill);
        let options = SubmitOptions::default();
        let futures: Vec<_> = (0..9).map(|mark| mill.submit(batch(key, 50, mark), &options).expect("room")).collect();
        for (mark, future) in futures.into_iter().enumerate() {
            assert_done(&block_on(future), mark as u8);
        }
        let (sender, receiver) = channel();
        for mark in 0..9 {
            let sender = sender.clone();
            let callback = move |completed| sender.send((mark, completed)).expect("somebody listens");
            mill.submit_with_callback(batch(key, 50, mark), &options, callback).expect("room");
        }
        drop(sender);
        let mut heard = Vec::new();
        for (mark, completed) in receiver {
            assert_done(&completed, mark);
            heard.push(mark);
        }
        heard.sort_unstable();
        assert_eq!(heard, (0..9).collect::<Vec<_>>());
    }
}

#[test]
fn a_cancelled_batch_is_not_begun_and_comes_back() {
    let mill = builder(0).open().expect("opens");
    let key = import(&mill);
    let mut session = mill.session();
    let first = session.submit(batch(key, 1, 1)).expect("room");
    let second = session.submit(batch(key, 1, 2)).expect("room");
    session.cancel(second);
    session.cancel(second);
    let mut done = Vec::new();
    assert_eq!(session.wait_all(&mut done), 2);
    assert_eq!(done[0].ticket, first);
    assert_done(&done[0], 1);
    assert_eq!(done[1].result, Err(Error::Refused(Refusal::Cancelled)));
    assert_eq!(done[1].batch.arena.bytes(), [2; LEN]);
    assert!(done[1].batch.ops[0].status.is_pending());
    // A cancellation that came too late concerns no later batch.
    session.cancel(second);
    session.submit(batch(key, 1, 3)).expect("room");
    assert_done(&session.wait().expect("it is run"), 3);
}

#[test]
fn a_dropped_future_is_not_begun() {
    let (mill, handle) = stuck(1);
    let key = import(&mill);
    let first = mill.submit(batch(key, 1, 1), &SubmitOptions::default()).expect("room");
    assert!(handle.wait_until_stalled(1, Duration::from_secs(20)));
    drop(mill.submit(batch(key, 1, 2), &SubmitOptions::default()).expect("room"));
    let third = mill.submit(batch(key, 1, 3), &SubmitOptions::default()).expect("room");
    handle.release();
    assert_done(&block_on(first), 1);
    assert_done(&block_on(third), 3);
    assert_eq!(handle.batches(), 2);
}

#[test]
fn a_batch_that_is_late_is_not_begun() {
    let (mill, handle) = stuck(1);
    let key = import(&mill);
    let first = mill.submit(batch(key, 1, 1), &SubmitOptions::default()).expect("room");
    assert!(handle.wait_until_stalled(1, Duration::from_secs(20)));
    let run = RunOptions { deadline: Some(Duration::from_millis(1)), ..RunOptions::default() };
    let late = mill.submit(batch(key, 1, 2), &SubmitOptions { run, on_full: OnFull::Refuse }).expect("room");
    thread::sleep(Duration::from_millis(5));
    handle.release();
    assert_done(&block_on(first), 1);
    let late = block_on(late);
    assert!(
        matches!(&late.result, Err(Error::Exhausted(limit)) if limit.value == 1_000_000 && limit.asked > 1_000_000)
    );
    assert_eq!(late.batch.arena.bytes(), [2; LEN]);
}

#[test]
fn a_full_queue_pushes_back() {
    let (mill, handle) = stuck(1);
    let key = import(&mill);
    let first = mill.submit(batch(key, 1, 0), &SubmitOptions::default()).expect("room");
    assert!(handle.wait_until_stalled(1, Duration::from_secs(20)));
    let waiting: Vec<_> =
        (0..QUEUED_MAX).map(|_| mill.submit(batch(key, 1, 1), &SubmitOptions::default()).expect("room")).collect();
    assert_eq!(mill.queued(), QUEUED_MAX);
    let refused = mill.submit(batch(key, 1, 2), &SubmitOptions::default()).map(|_| ()).expect_err("full");
    assert_eq!(refused.1, Error::exhausted("QUEUED_MAX", QUEUED_MAX, QUEUED_MAX + 1));
    assert_eq!(refused.0.arena.bytes(), [2; LEN]);
    // Whoever wishes to wait works on what is there, so it ends although the worker is stuck.
    let mut session = mill.session();
    let wait = SubmitOptions { on_full: OnFull::Wait, ..SubmitOptions::default() };
    session.submit_with(batch(key, 1, 3), &wait).expect("room in the end");
    handle.release();
    assert_done(&session.wait().expect("it is run"), 3);
    assert_done(&block_on(first), 0);
    waiting.into_iter().for_each(|future| assert_done(&block_on(future), 1));
}

#[test]
fn a_session_has_a_limit_of_its_own() {
    let mill = builder(0).open().expect("opens");
    let key = import(&mill);
    let mut session = mill.session();
    for _ in 0..IN_FLIGHT_MAX {
        session.submit(batch(key, 1, 1)).expect("room");
    }
    let refused = session.submit(batch(key, 1, 1)).expect_err("full");
    assert_eq!(refused.1, Error::exhausted("IN_FLIGHT_MAX", IN_FLIGHT_MAX, IN_FLIGHT_MAX + 1));
    session.wait().expect("one comes back");
    session.submit(batch(key, 1, 1)).expect("room for another");
}

#[test]
fn a_dropped_session_leaves_nothing_behind() {
    let mill = builder(0).open().expect("opens");
    let key = import(&mill);
    let mut other = mill.session();
    let mut session = mill.session();
    for _ in 0..10 {
        session.submit(batch(key, 1, 1)).expect("room");
    }
    other.submit(batch(key, 1, 2)).expect("room");
    drop(session);
    assert_eq!(mill.queued(), 0);
    assert_done(&other.wait().expect("what was the other's is done"), 2);
}

#[test]
fn large_batches_are_split_over_the_cores_and_stay_right() {
    let costs = |ns| {
        let mut costs = Costs::new();
        costs.set_wakeup_ns(ns);
        costs
    };
    for (workers, wakeup_ns) in [(3, 0.0), (3, 1e3), (1, 0.0), (0, 0.0)] {
        let counting = FaultEngine::new("counting", reference(), Script::healthy())
            .with_kind(EngineKind::Library)
            .with_prior(Cost::new(0.0, 100.0, 1.0));
        let handle = counting.handle();
        let mill = Mill::builder()
            .engine(Arc::new(counting))
            .costs(costs(wakeup_ns))
            .workers(workers)
            .self_test(SelfTest::Never)
            .open()
            .expect("opens");
        let mut owned = batch(import(&mill), 3001, 4);
        let report = mill.run(owned.as_batch()).expect("runs");
        assert_eq!((report.done, report.failed), (3001, 0));
        assert_eq!(owned.arena.bytes(), expected(3001, 4));
        assert_eq!(handle.batches(), workers as u64 + 1, "a part on each core and one here");
    }
}

#[test]
fn a_split_batch_with_a_failing_part_reports_those_operations_only() {
    let engine = FaultEngine::new("one", reference(), Script::at(1, Fault::Panic))
        .with_kind(EngineKind::Library)
        .with_prior(Cost::new(0.0, 100.0, 1.0));
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let mill = Mill::builder().engine(Arc::new(engine)).costs(costs).workers(3).self_test(SelfTest::Never);
    let mill = mill.open().expect("opens");
    let mut owned = batch(import(&mill), 4000, 4);
    let report = mill.run(owned.as_batch()).expect("most is done");
    let right = expected(4000, 4);
    let mut failed = 0;
    for (n, op) in owned.ops.iter().enumerate() {
        match op.status {
            OpStatus::Done => assert_eq!(owned.arena.bytes()[n * LEN..][..LEN], right[n * LEN..][..LEN]),
            status => {
                assert_eq!(status, OpStatus::EngineFault);
                failed += 1;
            }
        }
    }
    assert_eq!((report.done, report.failed), (4000 - failed, failed));
    assert!(failed > 0 && failed < 2000, "{failed}");
}

#[test]
fn engines_join_and_leave_while_sessions_work() {
    let mill = builder(1).open().expect("opens");
    let key = import(&mill);
    let mut session = mill.session();
    let run = |session: &mut ciphermill::Session| {
        let (mut ops, mut arena) = (batch(key, 1, 1).ops, vec![1; LEN]);
        session.run(Batch::new(cbc(), Direction::Encrypt, &mut ops, &mut arena)).map(|report| report.route.name)
    };
    assert_eq!(run(&mut session), Ok("reference"));
    let faster = FaultEngine::new("faster", reference(), Script::healthy())
        .with_kind(EngineKind::Library)
        .with_prior(Cost::new(0.0, 0.1, 0.0));
    mill.add_engine(Arc::new(faster)).expect("room");
    assert_eq!(run(&mut session), Ok("faster"));
    assert!(mill.add_engine(reference()).is_err(), "there is one of that name");
    mill.remove_engine("reference").expect("it is there");
    mill.remove_engine("faster").expect("it is there");
    assert!(matches!(run(&mut session), Err(Error::Refused(Refusal::NoEngine(..)))));
    assert!(mill.remove_engine("faster").is_err());
    mill.add_engine(reference()).expect("room");
    assert_eq!(run(&mut session), Ok("reference"));
}

#[test]
fn a_batch_on_an_engine_that_leaves_finishes_there() {
    let (mill, handle) = stuck(1);
    let key = import(&mill);
    let future = mill.submit(batch(key, 4, 6), &SubmitOptions::default()).expect("room");
    assert!(handle.wait_until_stalled(1, Duration::from_secs(20)));
    mill.remove_engine("slow").expect("it is there");
    handle.release();
    assert_done(&block_on(future), 6);
}

#[test]
fn waiting_sleeps_while_others_work() {
    let (mill, handle) = stuck(1);
    let key = import(&mill);
    let mut session = mill.session();
    session.event_fd().expect("so that a worker takes it");
    session.submit(batch(key, 1, 5)).expect("room");
    assert!(handle.wait_until_stalled(1, Duration::from_secs(20)));
    let releaser = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        handle.release();
    });
    let start = Instant::now();
    assert_done(&session.wait().expect("it comes back"), 5);
    assert!(start.elapsed() >= Duration::from_millis(40));
    releaser.join().expect("ends");
}
