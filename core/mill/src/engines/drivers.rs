//! Engines that can fail run on threads of their own, on copies of what they are to work on. A caller waits for an answer
//! as long as the policy allows and then goes elsewhere; what a stalled engine says later reaches nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use ciphermill_contract::EngineQueue;
use ciphermill_shifts::{Begun, Line, NotSent, lock};

use super::health::Trouble;

/// Calls that wait for one driver at most.
const CALLS_MAX: usize = 64;

/// Threads that one engine is driven by at most.
const DRIVERS_MAX: usize = 8;

/// An engine's queue as its driver holds it; opened when first needed.
pub(crate) type DriverQueue = Option<Box<dyn EngineQueue>>;

type Call = Box<dyn FnOnce(&mut DriverQueue) + Send>;

/// The threads that drive one engine. They start when they are needed, and end with the engine's slot.
pub(crate) struct Drivers {
    /// The way to each driver; one that stalls is left to itself, and its line gets another.
    lines: Box<[Mutex<Line<SyncSender<Call>>>]>,
    next: AtomicUsize,
    /// Queues that callers use on their own threads, for an engine whose calls come back; those that nobody uses at the moment.
    here: Option<Mutex<Vec<DriverQueue>>>,
    /// Predicted nanoseconds of the calls that have not come back.
    backlog_ns: AtomicU64,
}

/// Why a call did not come back with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The engine is to blame.
    Trouble(Trouble),
    /// Too many calls wait, or the system gives no thread.
    Busy,
}

impl Drivers {
    /// `comes_back` is [`ciphermill_contract::Engine::comes_back`].
    pub(crate) fn new(parallelism: usize, comes_back: bool) -> Drivers {
        let lines = (0..parallelism.clamp(1, DRIVERS_MAX)).map(|_| Mutex::default()).collect();
        let here = comes_back.then(Mutex::default);
        Drivers { lines, next: AtomicUsize::new(0), here, backlog_ns: AtomicU64::new(0) }
    }

    /// Predicted nanoseconds until a call that is made now begins.
    #[inline]
    pub(crate) fn backlog_ns(&self) -> f64 {
        self.backlog_ns.load(Ordering::Relaxed) as f64 / self.lines.len() as f64
    }

    /// Runs `work` on one of the engine's threads and waits for its result up to `timeout`; on this thread if the engine's calls come
    /// back. `work` that was not begun by
    /// then is dropped; else it and what it holds are dropped whenever the engine comes back, if ever.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        engine: &'static str,
        predicted_ns: f64,
        timeout: Duration,
        work: impl FnOnce(&mut DriverQueue) -> R + Send + 'static,
    ) -> Result<R, Lost> {
        if let Some(queues) = &self.here {
            return call_here(queues, work);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len();
        let (answer, answered) = sync_channel(1);
        let work = Begun::not_yet(work);
        let waiting = work.clone();
        let call: Call = Box::new(move |queue: &mut DriverQueue| {
            // Nothing when whoever gave up waiting has taken it back.
            if let Some(work) = waiting.take() {
                // Nobody may be waiting any more.
                let _ = answer.send(work(queue));
            }
        });
        let driver = self.send(number, engine, call)?;
        let predicted_ns = predicted_ns.max(0.0) as u64;
        self.backlog_ns.fetch_add(predicted_ns, Ordering::Relaxed);
        let result = answered.recv_timeout(timeout);
        self.backlog_ns.fetch_sub(predicted_ns, Ordering::Relaxed);
        result.map_err(|error| {
            lock(&self.lines[number]).leave(driver);
            // What waits behind a call that hangs is let go of here, with its keys and its data.
            drop(work.take());
            Lost::Trouble(match error {
                RecvTimeoutError::Timeout => Trouble::Stall,
                RecvTimeoutError::Disconnected => Trouble::Panic,
            })
        })
    }

    /// Hands a call to the line's driver, which is started if there is none. Returns which driver that is.
    fn send(&self, number: usize, engine: &'static str, call: Call) -> Result<u64, Lost> {
        let start = || {
            let (sender, calls) = sync_channel(CALLS_MAX);
            let started = thread::Builder::new().name(format!("mill-{engine}")).spawn(move || drive(&calls));
            started.is_ok().then_some(sender)
        };
        let try_send = |sender: &SyncSender<Call>, call| {
            sender.try_send(call).map_err(|error| match error {
                TrySendError::Full(_) => NotSent::Full,
                TrySendError::Disconnected(back) => NotSent::Ended(back),
            })
        };
        lock(&self.lines[number]).send(call, start, try_send).ok_or(Lost::Busy)
    }
}

/// Runs `work` on the caller's thread. A panic costs the queue.
fn call_here<R>(queues: &Mutex<Vec<DriverQueue>>, work: impl FnOnce(&mut DriverQueue) -> R) -> Result<R, Lost> {
    let mut queue = lock(queues).pop().flatten();
    let result = catch_unwind(AssertUnwindSafe(|| work(&mut queue)));
    result.map_err(|_| Lost::Trouble(Trouble::Panic)).inspect(|_| lock(queues).push(queue))
}

/// What a driver does: one call after the other. A panic ends it; its caller sees the answer's channel closed.
fn drive(calls: &Receiver<Call>) {
    let mut queue: DriverQueue = None;
    while let Ok(call) = calls.recv() {
        if catch_unwind(AssertUnwindSafe(|| call(&mut queue))).is_err() {
            return;
        }
    }
}
