//! Calls to an engine that may hang or die: each is begun once or taken back, and a line that lost its thread gets another.

use std::sync::PoisonError;

use crate::sync::{Arc, Mutex, MutexGuard};

/// Locks what cannot be left half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work that one thread waits for and another one begins, whichever takes it first.
pub struct Begun<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for Begun<W> {
    fn clone(&self) -> Begun<W> {
        Begun(Arc::clone(&self.0))
    }
}

impl<W> Begun<W> {
    /// Work that nobody has begun.
    pub fn not_yet(work: W) -> Begun<W> {
        Begun(Arc::new(Mutex::new(Some(work))))
    }

    /// The work, once: to be begun, or to be dropped by who has waited long enough. The lock is not held while it runs.
    pub fn take(&self) -> Option<W> {
        lock(&self.0).take()
    }
}

/// The way to one thread, under a lock of the caller's: `S` sends to it.
pub struct Line<S> {
    sender: Option<S>,
    /// Counts the threads that this line has had.
    thread: u64,
}

/// Why a call `C` was not sent.
pub enum NotSent<C> {
    /// As many wait as may.
    Full,
    /// The thread has ended; the call comes back.
    Ended(C),
}

impl<S> Default for Line<S> {
    fn default() -> Line<S> {
        Line { sender: None, thread: 0 }
    }
}

impl<S> Line<S> {
    /// Sends a call to the line's thread, which `start` starts if there is none or it has ended. Returns which one that
    /// is; `None` when as many calls wait as may, or no thread can be had.
    pub fn send<C>(
        &mut self,
        call: C,
        mut start: impl FnMut() -> Option<S>,
        try_send: impl Fn(&S, C) -> Result<(), NotSent<C>>,
    ) -> Option<u64> {
        let mut call = call;
        // A thread that ended after a panic is found by its closed channel.
        for _ in 0..2 {
            let sender = match self.sender.take() {
                Some(sender) => sender,
                None => {
                    self.thread += 1;
                    start()?
                }
            };
            match try_send(&sender, call) {
                Ok(()) => {
                    self.sender = Some(sender);
                    return Some(self.thread);
                }
                Err(NotSent::Full) => {
                    self.sender = Some(sender);
                    return None;
                }
                Err(NotSent::Ended(back)) => call = back,
            }
        }
        None
    }

    /// Leaves a thread to itself, unless the line has another by now.
    pub fn leave(&mut self, thread: u64) {
        if self.thread == thread {
            self.sender = None;
        }
    }
}

#[cfg(all(loom, test))]
mod model {
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering;

    use loom::sync::Condvar;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread;

    use super::*;

    /// A channel that closes when its receiver ends; loom's own does not.
    struct Channel<T> {
        state: Mutex<(VecDeque<T>, bool)>,
        changed: Condvar,
    }

    impl<T> Channel<T> {
        fn new() -> Arc<Channel<T>> {
            Arc::new(Channel { state: Mutex::new((VecDeque::new(), false)), changed: Condvar::new() })
        }

        fn send(&self, value: T) -> Result<(), NotSent<T>> {
            let mut state = lock(&self.state);
            if state.1 {
                return Err(NotSent::Ended(value));
            }
            state.0.push_back(value);
            self.changed.notify_all();
            Ok(())
        }

        /// The sender ends: what waits is received before the end is seen.
        fn end(&self) {
            lock(&self.state).1 = true;
            self.changed.notify_all();
        }

        /// The receiver ends: what waits is dropped.
        fn close(&self) {
            self.end();
            let dropped = std::mem::take(&mut lock(&self.state).0);
            drop(dropped);
        }

        fn recv(&self) -> Option<T> {
            let mut state = lock(&self.state);
            loop {
                if let Some(value) = state.0.pop_front() {
                    return Some(value);
                }
                if state.1 {
                    return None;
                }
                state = self.changed.wait(state).expect("no panic");
            }
        }
    }

    /// The work of a call: the engine dies over it or does not.
    struct Work {
        runs: Arc<AtomicUsize>,
        dies: bool,
    }

    /// Goes with the call alone: when that is dropped, its caller hears that nobody will answer.
    struct Answer(Arc<Channel<()>>);

    impl Drop for Answer {
        fn drop(&mut self) {
            self.0.end();
        }
    }

    type Sender = Arc<Channel<(Begun<Work>, Answer)>>;

    fn drive(calls: &Sender) {
        while let Some((call, answer)) = calls.recv() {
            let Some(work) = call.take() else { continue };
            work.runs.fetch_add(1, Ordering::Relaxed);
            if work.dies {
                calls.close();
                return;
            }
            drop(answer.0.send(()));
        }
    }

    struct Engine {
        line: Mutex<Line<Sender>>,
        threads: Mutex<Vec<(Sender, thread::JoinHandle<()>)>>,
    }

    /// Makes a call; says how often it was run and whether there was an answer.
    fn call(engine: &Engine, dies: bool, waits: bool) -> (Arc<AtomicUsize>, bool) {
        let (runs, answer) = (Arc::new(AtomicUsize::new(0)), Channel::new());
        let work = Begun::not_yet(Work { runs: Arc::clone(&runs), dies });
        let call = (work.clone(), Answer(Arc::clone(&answer)));
        let start = || {
            let calls = Channel::new();
            let own = Arc::clone(&calls);
            lock(&engine.threads).push((Arc::clone(&calls), thread::spawn(move || drive(&own))));
            Some(calls)
        };
        let driver = lock(&engine.line).send(call, start, |sender, call| sender.send(call));
        let driver = driver.expect("a thread that has just been started takes a call");
        let answered = waits && answer.recv().is_some();
        if !answered {
            lock(&engine.line).leave(driver);
            drop(work.take());
        }
        (runs, answered)
    }

    /// Two callers, the first of which may give up and whose call may kill the engine.
    fn check(dies: bool, waits: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let engine = Arc::new(Engine { line: Mutex::new(Line::default()), threads: Mutex::new(Vec::new()) });
            let is_answered = Arc::new(AtomicBool::new(false));
            let other = {
                let (engine, is_answered) = (Arc::clone(&engine), Arc::clone(&is_answered));
                thread::spawn(move || {
                    let (runs, answered) = call(&engine, false, true);
                    assert_eq!(runs.load(Ordering::Relaxed), usize::from(answered), "run and answered, or neither");
                    is_answered.store(answered, Ordering::Relaxed);
                })
            };
            let (runs, answered) = call(&engine, dies, waits);
            other.join().expect("ends");
            assert!(answered || dies || !waits);
            // Only a death may cost the other its answer; giving up may not.
            assert!(dies || is_answered.load(Ordering::Relaxed), "nobody else's call is lost");
            // Afterwards the line serves whoever comes next.
            assert!(call(&engine, false, true).1);
            let threads: Vec<_> = lock(&engine.threads).drain(..).collect();
            assert!(threads.len() <= 2, "one thread was lost, so one other is started");
            for (calls, thread) in threads {
                calls.end();
                thread.join().expect("ends");
            }
            assert!(runs.load(Ordering::Relaxed) <= 1);
        });
    }

    /// No interleaving of giving up and of sending loses a call of somebody else, runs one twice, or starts a thread too many.
    #[test]
    fn who_gives_up_costs_nobody_else_a_call() {
        check(false, false);
    }

    /// Fails when `leave` does not compare threads, and when `send` does not count them or does not try a second time.
    #[test]
    fn a_thread_that_ends_is_replaced() {
        check(true, true);
    }
}
