//! Threads that submit one operation at a time and block until it is done.
//!
//! They share batches as tasks do ([`super::coalescer`]), with the operating system's scheduler in the executor's place: a
//! thread that leads a batch yields its core once, or while a window is open, so that the others add theirs. That costs each
//! operation a change of threads, one to two microseconds, which is more than most short operations take. So only operations
//! that save more than that wait for company, and only while another one is on its way; all others run at once, alone.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ciphermill_contract::Result;

use super::one::OneDone;
use super::worth::{CHANGE_NS, Kind, LATE_AFTER, LEN_CLASSES, LONE_PATH_NS, SHARED_PATH_NS, len_class, lowest_ns};
use crate::state::State;

/// Operations that a batch of threads is taken to have.
const SHARED_OPS: u64 = 16;

/// What sharing saves, the change of threads deducted, has to be this share of a lone operation's time.
const WORTH: f64 = 0.25;

/// How long a thread gives others its core before it sleeps until it is woken.
const YIELD_MAX: Duration = Duration::from_micros(100);

/// How long it sleeps at most before it looks for itself.
const SLEEP_MAX: Duration = Duration::from_millis(2);

/// What threads know of one suite and direction.
#[derive(Default)]
pub(crate) struct Threads {
    /// For each class of lengths whether sharing pays, two bits each, below the epoch of the engines it holds for.
    pays: AtomicU64,
}

const UNKNOWN: u64 = 0;
const NO: u64 = 1;
const YES: u64 = 2;
const EPOCH_SHIFT: u32 = 2 * LEN_CLASSES as u32;

impl Threads {
    /// Whether sharing saves more than changing threads costs. Worked out once for each class of lengths while the
    /// engines stay the same.
    #[inline]
    pub(super) fn pays(&self, mill: &State, kind: Kind) -> bool {
        let shift = 2 * len_class(kind.len) as u32;
        let epoch = mill.epoch() << EPOCH_SHIFT >> EPOCH_SHIFT;
        let known = self.pays.load(Ordering::Relaxed);
        match known >> shift & 3 {
            UNKNOWN => self.work_out(mill, kind, epoch, shift),
            _ if known >> EPOCH_SHIFT != epoch => self.work_out(mill, kind, epoch, shift),
            answer => answer == YES,
        }
    }

    #[cold]
    fn work_out(&self, mill: &State, kind: Kind, epoch: u64, shift: u32) -> bool {
        let ns = |ops| lowest_ns(mill, kind, ops);
        let lone_ns = ns(1) + LONE_PATH_NS;
        let pays = lone_ns - (ns(SHARED_OPS) + SHARED_PATH_NS + CHANGE_NS) >= WORTH * lone_ns;
        let known = self.pays.load(Ordering::Relaxed);
        let kept = if known >> EPOCH_SHIFT == epoch { known } else { epoch << EPOCH_SHIFT };
        let answer = if pays { YES } else { NO };
        // Threads that work it out at the same moment may forget each other's answer, and work it out again.
        self.pays.store(kept & !(3 << shift) | answer << shift, Ordering::Relaxed);
        pays
    }
}

/// Wakes a thread that yields or sleeps.
struct Call {
    is_called: AtomicBool,
    thread: Thread,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_called.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Lets other threads have the core until the operation is done. Also where that takes longer than a change of threads: a thread that
/// sleeps is woken late on a core that has gone idle, and the step that it would have filled waits for it (P-256 by 16 threads on two
/// cores: 180,000 signatures a second instead of 85,000).
pub(super) fn block_on(operation: impl Future<Output = Result<OneDone>>) -> Result<OneDone> {
    let call = Arc::new(Call { is_called: AtomicBool::new(true), thread: thread::current() });
    let waker = Waker::from(Arc::clone(&call));
    let mut operation = pin!(operation);
    let begun = Instant::now();
    let mut looked = begun;
    loop {
        // A batch whose leader is late is anybody's.
        if call.is_called.swap(false, Ordering::Acquire) || looked.elapsed() >= LATE_AFTER {
            if let Poll::Ready(done) = operation.as_mut().poll(&mut Context::from_waker(&waker)) {
                return done;
            }
            looked = Instant::now();
        }
        // Who waits for a window to end calls itself.
        if call.is_called.load(Ordering::Acquire) || begun.elapsed() < YIELD_MAX {
            thread::yield_now();
        } else {
            thread::park_timeout(SLEEP_MAX);
        }
    }
}
