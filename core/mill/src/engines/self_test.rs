//! No engine is believed: each passes a suite's known-answer test before it runs that suite, and again when it comes back
//! from quarantine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Engine, Suite};
use ciphermill_shifts::lock;
use ciphermill_vectors::known_answers;

use super::health::Trouble;
use crate::report::SelfTestState;

/// How far a suite's test has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TestState {
    Untested,
    Passed,
    Failed,
    NoAnswer,
    UnderWay,
}

impl TestState {
    /// In the order of their numbers.
    const ALL: [TestState; 5] =
        [TestState::Untested, TestState::Passed, TestState::Failed, TestState::NoAnswer, TestState::UnderWay];
}

/// The state of an engine's known-answer tests, one a suite.
pub(crate) struct SelfTests {
    /// [`TestState`] by the suite's ordinal.
    states: Box<[AtomicU8]>,
    /// Tests that have not come back, by the suite's ordinal.
    under_way: Mutex<HashMap<usize, UnderWay>>,
}

/// A known-answer test on a thread of its own.
struct UnderWay {
    since: Instant,
    answer: Receiver<TestState>,
}

impl SelfTests {
    pub(super) fn new() -> SelfTests {
        let states = (0..SUITE_ORDINALS_MAX).map(|_| AtomicU8::new(TestState::Untested as u8)).collect();
        SelfTests { states, under_way: Mutex::default() }
    }

    pub(super) fn state(&self, suite: Suite) -> SelfTestState {
        match TestState::ALL[usize::from(self.states[suite.ordinal()].load(Ordering::Acquire))] {
            TestState::Passed => SelfTestState::Passed,
            TestState::Failed => SelfTestState::Failed,
            TestState::NoAnswer => SelfTestState::NoAnswer,
            TestState::Untested | TestState::UnderWay => SelfTestState::Untested,
        }
    }

    /// Sets a suite's state; returns the one before.
    pub(super) fn set(&self, suite: Suite, state: TestState) -> TestState {
        TestState::ALL[usize::from(self.states[suite.ordinal()].swap(state as u8, Ordering::AcqRel))]
    }

    /// Whether the engine may run the suite with this ordinal, as far as is known.
    #[inline]
    pub(crate) fn allows(&self, ordinal: usize) -> bool {
        self.states[ordinal].load(Ordering::Relaxed) != TestState::Failed as u8
    }

    /// Whether the test still has to be run, or to come back.
    #[inline]
    pub(crate) fn is_untested(&self, suite: Suite) -> bool {
        let state = self.states[suite.ordinal()].load(Ordering::Acquire);
        state == TestState::Untested as u8 || state == TestState::UnderWay as u8
    }

    /// Forgets all results, those that are still to come too: the engine comes back from quarantine.
    pub(super) fn forget(&self) {
        let mut under_way = lock(&self.under_way);
        under_way.clear();
        self.states.iter().for_each(|state| state.store(TestState::Untested as u8, Ordering::Release));
    }

    /// The state that a test on a thread of its own leads to; it is begun if it is not under way. The engine's drivers go
    /// on with batches of other suites meanwhile. Waits as long as `patience`; from `time` on the engine counts as
    /// stalled.
    pub(super) fn isolated(
        &self,
        engine: &Arc<dyn Engine>,
        suite: Suite,
        patience: Duration,
        time: Duration,
    ) -> Result<TestState, Trouble> {
        let mut under_way = match self.under_way.try_lock() {
            Ok(under_way) => under_way,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Somebody waits for a test. Whoever has less patience comes again.
            Err(TryLockError::WouldBlock) if patience < time => return Ok(TestState::UnderWay),
            Err(TryLockError::WouldBlock) => lock(&self.under_way),
        };
        let test = match under_way.remove(&suite.ordinal()) {
            Some(test) => test,
            None => match begin(engine, suite) {
                Ok(test) => test,
                // The system gives no thread now; the engine is not to blame.
                Err(_) => return Ok(TestState::Untested),
            },
        };
        let left = time.saturating_sub(test.since.elapsed());
        match test.answer.recv_timeout(patience.min(left)) {
            Ok(state) => Ok(state),
            Err(RecvTimeoutError::Disconnected) => Err(Trouble::Panic),
            Err(RecvTimeoutError::Timeout) if test.since.elapsed() >= time => Err(Trouble::Stall),
            Err(RecvTimeoutError::Timeout) => {
                under_way.insert(suite.ordinal(), test);
                Ok(TestState::UnderWay)
            }
        }
    }
}

fn begin(engine: &Arc<dyn Engine>, suite: Suite) -> std::io::Result<UnderWay> {
    let (sender, receiver) = sync_channel(1);
    let own = Arc::clone(engine);
    let test = move || {
        // Nobody may want to know any more.
        let _ = sender.send(answer(own.as_ref(), suite));
    };
    thread::Builder::new().name(format!("test-{}", engine.info().name)).spawn(test)?;
    Ok(UnderWay { since: Instant::now(), answer: receiver })
}

/// Runs a known-answer test on this thread.
pub(super) fn answer(engine: &dyn Engine, suite: Suite) -> TestState {
    match known_answers::run_known_answer(engine, suite) {
        Ok(()) => TestState::Passed,
        Err(failure) => {
            tracing::error!(engine = engine.info().name, %suite, %failure, "known-answer test failed");
            TestState::Failed
        }
    }
}
