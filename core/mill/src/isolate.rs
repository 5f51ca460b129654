//! Engines that can fail run on threads of their own, on copies of what they are to work on. A caller waits for an answer
//! as long as the policy allows and then goes elsewhere; what a stalled engine says later reaches nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ciphermill_contract::EngineQueue;

use crate::engines::EngineSlot;
use crate::health::Trouble;

/// Calls that wait for one driver at most.
const CALLS_MAX: usize = 64;

/// Threads that one engine is driven by at most.
const DRIVERS_MAX: usize = 8;

/// An engine's queue as its driver holds it; opened when first needed.
pub(crate) type DriverQueue = Option<Box<dyn EngineQueue>>;

type Call = Box<dyn FnOnce(&mut DriverQueue) + Send>;

/// The threads that drive one engine. They start when they are needed, and end with the engine's slot.
pub(crate) struct Drivers {
    lines: Box<[Mutex<Line>]>,
    next: AtomicUsize,
    /// Predicted nanoseconds of the calls that have not come back.
    backlog_ns: AtomicU64,
}

/// The way to one driver; a driver that stalls is left to itself, and the line gets another.
#[derive(Default)]
struct Line {
    sender: Option<SyncSender<Call>>,
    /// Counts the drivers that this line has had.
    driver: u64,
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
    pub(crate) fn new(parallelism: usize) -> Drivers {
        let lines = (0..parallelism.clamp(1, DRIVERS_MAX)).map(|_| Mutex::default()).collect();
        Drivers { lines, next: AtomicUsize::new(0), backlog_ns: AtomicU64::new(0) }
    }

    /// Predicted nanoseconds until a call that is made now begins.
    #[inline]
    pub(crate) fn backlog_ns(&self) -> f64 {
        self.backlog_ns.load(Ordering::Relaxed) as f64 / self.lines.len() as f64
    }

    /// Runs `work` on one of the engine's threads and waits for its result up to `timeout`. `work` that was not begun by
    /// then is dropped; else it and what it holds are dropped whenever the engine comes back, if ever.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        slot: &Arc<EngineSlot>,
        predicted_ns: f64,
        timeout: Duration,
        work: impl FnOnce(&EngineSlot, &mut DriverQueue) -> R + Send + 'static,
    ) -> Result<R, Lost> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len();
        let (answer, answered) = sync_channel(1);
        let own_slot = Arc::clone(slot);
        let work = Arc::new(Mutex::new(Some(work)));
        let waiting = Arc::clone(&work);
        let call: Call = Box::new(move |queue: &mut DriverQueue| {
            // Nothing when whoever gave up waiting has taken it back. The lock is not held while it runs.
            let work = lock(&waiting).take();
            if let Some(work) = work {
                // Nobody may be waiting any more.
                let _ = answer.send(work(&own_slot, queue));
            }
        });
        let driver = self.send(number, slot.name(), call)?;
        let predicted_ns = predicted_ns.max(0.0) as u64;
        self.backlog_ns.fetch_add(predicted_ns, Ordering::Relaxed);
        let result = answered.recv_timeout(timeout);
        self.backlog_ns.fetch_sub(predicted_ns, Ordering::Relaxed);
        result.map_err(|error| {
            self.leave(number, driver);
            // What waits behind a call that hangs is let go of here, with its keys and its data.
            drop(lock(&work).take());
            Lost::Trouble(match error {
                RecvTimeoutError::Timeout => Trouble::Stall,
                RecvTimeoutError::Disconnected => Trouble::Panic,
            })
        })
    }

    /// Hands a call to the line's driver, which is started if there is none. Returns which driver that is.
    fn send(&self, number: usize, engine: &'static str, call: Call) -> Result<u64, Lost> {
        let mut line = lock(&self.lines[number]);
        let mut call = call;
        // A driver that ended after a panic is found by its closed channel.
        for _ in 0..2 {
            if line.sender.is_none() {
                let (sender, calls) = sync_channel(CALLS_MAX);
                let started = thread::Builder::new().name(format!("mill-{engine}")).spawn(move || drive(&calls));
                if started.is_err() {
                    return Err(Lost::Busy);
                }
                line.sender = Some(sender);
                line.driver += 1;
            }
            let Some(sender) = &line.sender else { break };
            match sender.try_send(call) {
                Ok(()) => return Ok(line.driver),
                Err(TrySendError::Full(_)) => return Err(Lost::Busy),
                Err(TrySendError::Disconnected(back)) => call = back,
            }
            line.sender = None;
        }
        Err(Lost::Busy)
    }

    /// Leaves a driver to itself, unless the line has another by now.
    fn leave(&self, number: usize, driver: u64) {
        let mut line = lock(&self.lines[number]);
        if line.driver == driver {
            line.sender = None;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in there can be half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
