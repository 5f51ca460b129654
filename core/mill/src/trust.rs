//! No engine is believed: each passes a suite's known-answer test before it runs that suite.

use std::sync::atomic::{AtomicU8, Ordering};

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Engine, Suite};
use ciphermill_vectors::known_answers;

use crate::report::SelfTestState;

const UNTESTED: u8 = 0;
const PASSED: u8 = 1;
const FAILED: u8 = 2;
const NO_ANSWER: u8 = 3;

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

    /// Whether the test still has to be run.
    #[inline]
    pub(crate) fn is_untested(&self, suite: Suite) -> bool {
        self.states[suite.ordinal()].load(Ordering::Acquire) == UNTESTED
    }

    /// Runs the suite's known-answer test, even if it has been run before. Two threads may run it at once; both come
    /// to the same result.
    pub(crate) fn test(&self, engine: &dyn Engine, suite: Suite) -> SelfTestState {
        let suite = suite.canonical();
        let state = if known_answers::known_answer(suite).is_none() {
            NO_ANSWER
        } else {
            match known_answers::run_known_answer(engine, suite) {
                Ok(()) => PASSED,
                Err(failure) => {
                    tracing::error!(engine = engine.info().name, %suite, %failure, "known-answer test failed");
                    FAILED
                }
            }
        };
        self.states[suite.ordinal()].store(state, Ordering::Release);
        self.state(suite)
    }
}
