//! No engine is believed: each passes a suite's known-answer test before it runs that suite, and again when it comes back
//! from quarantine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Engine, Suite};
use ciphermill_vectors::known_answers;

use crate::engines::EngineSlot;
use crate::health::Trouble;
use crate::isolate::Lost;
use crate::policy::TrustPolicy;
use crate::report::SelfTestState;

const UNTESTED: u8 = 0;
const PASSED: u8 = 1;
const FAILED: u8 = 2;
const NO_ANSWER: u8 = 3;

/// An isolated engine has at least this long for a known-answer test: keys are prepared in it, perhaps a device opened.
const TEST_TIME_MIN: Duration = Duration::from_secs(2);

/// The state of an engine's known-answer tests, one a suite.
pub(crate) struct Trust {
    states: Box<[AtomicU8]>,
}

impl Trust {
    pub(crate) fn new() -> Trust {
        Trust { states: (0..SUITE_ORDINALS_MAX).map(|_| AtomicU8::new(UNTESTED)).collect() }
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

    /// Whether the test still has to be run.
    #[inline]
    pub(crate) fn is_untested(&self, suite: Suite) -> bool {
        self.states[suite.ordinal()].load(Ordering::Acquire) == UNTESTED
    }

    /// Forgets all results: the engine comes back from quarantine.
    pub(crate) fn forget(&self) {
        self.states.iter().for_each(|state| state.store(UNTESTED, Ordering::Release));
    }
}

impl EngineSlot {
    /// Runs the suite's known-answer test, even if it has been run before. Two threads may run it at once; both come
    /// to the same result. An engine that stalls or panics over it goes into quarantine, and the suite stays untested.
    pub(crate) fn test(self: &Arc<EngineSlot>, suite: Suite, policy: &TrustPolicy) -> SelfTestState {
        let suite = suite.canonical();
        let state = if known_answers::known_answer(suite).is_none() {
            NO_ANSWER
        } else if !self.is_isolated() {
            answer(self.engine.as_ref(), suite)
        } else {
            let timeout = policy.stall_min.max(TEST_TIME_MIN);
            match self.drivers.call(self, 0.0, timeout, move |slot, _| answer(slot.engine.as_ref(), suite)) {
                Ok(state) => state,
                Err(Lost::Trouble(trouble)) => {
                    self.health.quarantine(self.name(), trouble, policy);
                    UNTESTED
                }
                Err(Lost::Busy) => UNTESTED,
            }
        };
        if state == FAILED && self.health.quarantines() != 0 {
            // It was let in again too early. The next time is further off.
            self.health.quarantine(self.name(), Trouble::SelfTest, policy);
        }
        self.trust.states[suite.ordinal()].store(state, Ordering::Release);
        self.trust.state(suite)
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
