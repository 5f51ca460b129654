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
use ciphermill_vectors::known_answers;

use crate::engines::EngineSlot;
use crate::health::Trouble;
use crate::policy::TrustPolicy;
use crate::report::SelfTestState;

const UNTESTED: u8 = 0;
const PASSED: u8 = 1;
const FAILED: u8 = 2;
const NO_ANSWER: u8 = 3;
const UNDER_WAY: u8 = 4;

/// An isolated engine has at least this long for a known-answer test: keys are prepared in it, perhaps a device opened.
const TEST_TIME_MIN: Duration = Duration::from_secs(2);

/// The same for a test that nobody waits for: a device's compiler may have a kernel to build first.
const TEST_TIME_ASIDE: Duration = Duration::from_secs(60);

/// The state of an engine's known-answer tests, one a suite.
pub(crate) struct Trust {
    states: Box<[AtomicU8]>,
    /// Tests that have not come back, by the suite's ordinal.
    under_way: Mutex<HashMap<usize, UnderWay>>,
}

/// A known-answer test on a thread of its own.
struct UnderWay {
    since: Instant,
    answer: Receiver<u8>,
}

impl Trust {
    pub(crate) fn new() -> Trust {
        let states = (0..SUITE_ORDINALS_MAX).map(|_| AtomicU8::new(UNTESTED)).collect();
        Trust { states, under_way: Mutex::default() }
    }

    pub(crate) fn state(&self, suite: Suite) -> SelfTestState {
        match self.states[suite.ordinal()].load(Ordering::Acquire) {
            PASSED => SelfTestState::Passed,
            FAILED => SelfTestState::Failed,
            NO_ANSWER => SelfTestState::NoAnswer,
            _ => SelfTestState::Untested,
        }
    }

    /// Whether the engine may run `suite`, as far as is known.
    #[inline]
    pub(crate) fn allows(&self, suite: Suite) -> bool {
        self.states[suite.ordinal()].load(Ordering::Relaxed) != FAILED
    }

    /// The same by a place in tables of suites and directions.
    #[inline]
    pub(crate) fn allows_place(&self, place: usize) -> bool {
        self.states[place / 2].load(Ordering::Relaxed) != FAILED
    }

    /// Whether the test still has to be run, or to come back.
    #[inline]
    pub(crate) fn is_untested(&self, suite: Suite) -> bool {
        matches!(self.states[suite.ordinal()].load(Ordering::Acquire), UNTESTED | UNDER_WAY)
    }

    /// Forgets all results, those that are still to come too: the engine comes back from quarantine.
    pub(crate) fn forget(&self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.clear();
        self.states.iter().for_each(|state| state.store(UNTESTED, Ordering::Release));
    }
}

impl EngineSlot {
    /// Runs the suite's known-answer test, even if it has been run before, and waits for it. Two threads may run it at
    /// once; both come to the same result. An engine that stalls or panics over it goes into quarantine, and the suite
    /// stays untested.
    pub(crate) fn test(self: &Arc<EngineSlot>, suite: Suite, policy: &TrustPolicy) -> SelfTestState {
        let time = policy.stall_min.max(TEST_TIME_MIN);
        self.test_within(suite, policy, time, time)
    }

    /// The same, but waits no longer than for a stalled engine: a suite that is still untested then has its test under
    /// way, and whoever asks again later learns how it ended.
    pub(crate) fn test_aside(self: &Arc<EngineSlot>, suite: Suite, policy: &TrustPolicy) -> SelfTestState {
        self.test_within(suite, policy, policy.stall_min, policy.stall_min.max(TEST_TIME_ASIDE))
    }

    /// Waits for a test as long as `patience`; from `time` on the engine counts as stalled.
    fn test_within(
        self: &Arc<EngineSlot>,
        suite: Suite,
        policy: &TrustPolicy,
        patience: Duration,
        time: Duration,
    ) -> SelfTestState {
        let suite = suite.canonical();
        // Random bytes have a test without an answer of their own.
        let state = if suite != Suite::Random && known_answers::known_answer(suite).is_none() {
            NO_ANSWER
        } else if !self.is_isolated() {
            self.ask(policy, |engine| Ok(answer(engine, suite))).unwrap_or(UNTESTED)
        } else {
            match self.isolated_answer(suite, patience, time) {
                Ok(state) => state,
                Err(trouble) => {
                    self.health.quarantine(self.name(), trouble, policy);
                    UNTESTED
                }
            }
        };
        if state == FAILED && self.health.quarantines() != 0 {
            // It was let in again too early. The next time is further off.
            self.health.quarantine(self.name(), Trouble::SelfTest, policy);
        }
        self.trust.states[suite.ordinal()].store(state, Ordering::Release);
        self.trust.state(suite)
    }

    /// The state that a test on a thread of its own leads to; it is begun if it is not under way. The engine's drivers go
    /// on with batches of other suites meanwhile.
    fn isolated_answer(
        self: &Arc<EngineSlot>,
        suite: Suite,
        patience: Duration,
        time: Duration,
    ) -> core::result::Result<u8, Trouble> {
        let mut under_way = match self.trust.under_way.try_lock() {
            Ok(under_way) => under_way,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody waits for a test. Whoever has less patience comes again.
            Err(TryLockError::WouldBlock) if patience < time => return Ok(UNDER_WAY),
            Err(TryLockError::WouldBlock) => self.trust.under_way.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let test = match under_way.remove(&suite.ordinal()) {
            Some(test) => test,
            None => match self.begin_test(suite) {
                Ok(test) => test,
                // The system gives no thread now; the engine is not to blame.
                Err(_) => return Ok(UNTESTED),
            },
        };
        let left = time.saturating_sub(test.since.elapsed());
        match test.answer.recv_timeout(patience.min(left)) {
            Ok(state) => Ok(state),
            Err(RecvTimeoutError::Disconnected) => Err(Trouble::Panic),
            Err(RecvTimeoutError::Timeout) if test.since.elapsed() >= time => Err(Trouble::Stall),
            Err(RecvTimeoutError::Timeout) => {
                under_way.insert(suite.ordinal(), test);
                Ok(UNDER_WAY)
            }
        }
    }

    fn begin_test(self: &Arc<EngineSlot>, suite: Suite) -> std::io::Result<UnderWay> {
        let (sender, receiver) = sync_channel(1);
        let slot = Arc::clone(self);
        let test = move || {
            // Nobody may want to know any more.
            let _ = sender.send(answer(slot.engine.as_ref(), suite));
        };
        thread::Builder::new().name(format!("test-{}", self.name())).spawn(test)?;
        Ok(UnderWay { since: Instant::now(), answer: receiver })
    }
}

fn answer(engine: &dyn Engine, suite: Suite) -> u8 {
    match known_answers::run_known_answer(engine, suite) {
        Ok(()) => PASSED,
        Err(failure) => {
            tracing::error!(engine = engine.info().name, %suite, %failure, "known-answer test failed");
            FAILED
        }
    }
}
