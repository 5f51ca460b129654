//! How a session's thread hears that a batch has come back: it sleeps, or it waits by an event descriptor.

use std::sync::atomic::Ordering;

use crate::isolation::lock;
use crate::sync::{AtomicBool, Mutex, Thread, fence, thread};

/// One waiting thread, and many that have something for it. What they have lies in a queue of the caller's.
pub struct Wakeup {
    is_sleeping: AtomicBool,
    has_event: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Wakeup {
    /// Nobody sleeps, and there is no event.
    pub fn new() -> Wakeup {
        Wakeup { is_sleeping: AtomicBool::new(false), has_event: AtomicBool::new(false), sleeper: Mutex::new(None) }
    }

    /// After something was put into the queue: wakes the thread, and has `ring` ring the event if there is one.
    pub fn notify(&self, ring: impl FnOnce()) {
        // Pairs with the fences in `sleep` and `event_made`: either they see what is in the queue, or this sees them.
        fence(Ordering::SeqCst);
        // Acquire: the event is whole.
        if self.has_event.load(Ordering::Acquire) {
            ring();
        }
        if self.is_sleeping.load(Ordering::Relaxed)
            && let Some(sleeper) = lock(&self.sleeper).as_ref()
        {
            sleeper.unpark();
        }
    }

    /// Sleeps until something is put into the queue, or for no reason.
    pub fn sleep(&self, is_empty: impl FnOnce() -> bool) {
        *lock(&self.sleeper) = Some(thread::current());
        self.is_sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_empty() {
            thread::park();
        }
        self.is_sleeping.store(false, Ordering::Relaxed);
    }

    /// After the event was made: has it rung for what is in the queue already.
    pub fn event_made(&self, is_empty: impl FnOnce() -> bool, ring: impl FnOnce()) {
        self.has_event.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if !is_empty() {
            ring();
        }
    }

    /// Whether there is an event.
    pub fn has_event(&self) -> bool {
        self.has_event.load(Ordering::Acquire)
    }
}

impl Default for Wakeup {
    fn default() -> Wakeup {
        Wakeup::new()
    }
}

/// What makes each model fail was tried.
#[cfg(all(loom, test))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    /// The queue is a counter that is read and written without any ordering of its own.
    #[derive(Default)]
    struct Inbox {
        wakeup: Wakeup,
        waiting: AtomicUsize,
        rung: AtomicUsize,
    }

    fn check(program: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(program);
    }

    fn deliver(inbox: &Inbox) {
        inbox.waiting.fetch_add(1, Ordering::Relaxed);
        inbox.wakeup.notify(|| {
            inbox.rung.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Without the fence in `notify` or in `sleep` the thread sleeps for ever.
    #[test]
    fn a_sleeper_hears_of_everything() {
        check(|| {
            let inbox = Arc::new(Inbox::default());
            let other = {
                let inbox = Arc::clone(&inbox);
                loom::thread::spawn(move || deliver(&inbox))
            };
            while inbox.waiting.load(Ordering::Relaxed) == 0 {
                inbox.wakeup.sleep(|| inbox.waiting.load(Ordering::Relaxed) == 0);
            }
            other.join().expect("ends");
        });
    }

    /// Without the fence in `notify` or in `event_made`, or without the look into the queue, nobody rings.
    #[test]
    fn an_event_that_is_made_late_is_rung() {
        check(|| {
            let inbox = Arc::new(Inbox::default());
            let other = {
                let inbox = Arc::clone(&inbox);
                loom::thread::spawn(move || deliver(&inbox))
            };
            let is_empty = || inbox.waiting.load(Ordering::Relaxed) == 0;
            inbox.wakeup.event_made(is_empty, || {
                inbox.rung.fetch_add(1, Ordering::Relaxed);
            });
            other.join().expect("ends");
            assert!(inbox.rung.load(Ordering::Relaxed) > 0, "the event is rung");
        });
    }
}
