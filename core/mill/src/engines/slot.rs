//! One engine within a mill.

use std::sync::Arc;
use std::time::Duration;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Direction, Engine, Error, Result, Suite, Timing, capability};
use ciphermill_vectors::known_answers;

use super::drivers::Drivers;
use super::epoch::Epoch;
use super::health::{Health, Trouble};
use super::learned::Learned;
use super::self_test::{self, SelfTests, TestState};
use crate::disabled::Disabled;
use crate::panics::caught;
use crate::policy::TrustPolicy;
use crate::report::{EngineReport, SelfTestState, SuiteReport};

/// An isolated engine has at least this long for a known-answer test: keys are prepared in it, perhaps a device opened.
const TEST_TIME_MIN: Duration = Duration::from_secs(2);

/// The same for a test that nobody waits for: a device's compiler may have a kernel to build first.
const TEST_TIME_ASIDE: Duration = Duration::from_secs(60);

/// An engine within a mill. It outlives its removal for as long as batches run on it.
pub(crate) struct EngineSlot {
    /// Given once; an engine that joins later never gets the number of one that left, so no key prepared for one is
    /// handed to the other.
    pub(crate) number: u16,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) self_tests: SelfTests,
    pub(crate) health: Health,
    pub(crate) learned: Learned,
    /// What runs it, when it is of a kind that can fail.
    pub(crate) drivers: Drivers,
    /// That of the mill: advances when the engine may no longer run what it might.
    epoch: Epoch,
}

impl EngineSlot {
    pub(crate) fn new(number: u16, engine: Arc<dyn Engine>, epoch: Epoch) -> Arc<EngineSlot> {
        let info = engine.info();
        tracing::info!(engine = info.name, version = %info.version, kernels = ?info.kernels, "engine joins");
        let drivers = Drivers::new(info.parallelism, engine.comes_back());
        let (self_tests, health, learned) = (SelfTests::new(), Health::new(epoch.clone()), Learned::new());
        Arc::new(EngineSlot { number, engine, self_tests, health, learned, drivers, epoch })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.engine.info().name
    }

    /// Whether it is run from copies, and, if it may hang, on a thread of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.engine.info().kind.can_fail()
    }

    /// Lets the engine in again when its quarantine is over: it has its known-answer tests before it, since what it answered
    /// before says nothing of it now.
    #[inline]
    pub(super) fn readmit(&self) {
        if self.health.readmits() {
            self.self_tests.forget();
            self.epoch.advance();
        }
    }

    /// Asks the engine for something that is not a batch: a key, a queue. A panic puts it into quarantine.
    ///
    /// # Errors
    /// What the engine returns; `EngineFault` when it panicked.
    pub(crate) fn ask<R>(&self, policy: &TrustPolicy, work: impl FnOnce(&dyn Engine) -> Result<R>) -> Result<R> {
        caught(|| work(self.engine.as_ref())).unwrap_or_else(|| {
            self.health.quarantine(self.name(), Trouble::Panic, policy);
            Err(Error::fault(self.name(), FaultKind::Panicked))
        })
    }

    /// Runs the suite's known-answer test, even if it has been run before, and waits for it. Two threads may run it at
    /// once; both come to the same result. An engine that stalls or panics over it goes into quarantine, and the suite
    /// stays untested.
    pub(crate) fn test(&self, suite: Suite, policy: &TrustPolicy) -> SelfTestState {
        let time = policy.stall_min.max(TEST_TIME_MIN);
        self.test_within(suite, policy, time, time)
    }

    /// The same, but waits no longer than for a stalled engine: a suite that is still untested then has its test under
    /// way, and whoever asks again later learns how it ended.
    pub(crate) fn test_aside(&self, suite: Suite, policy: &TrustPolicy) -> SelfTestState {
        self.test_within(suite, policy, policy.stall_min, policy.stall_min.max(TEST_TIME_ASIDE))
    }

    /// Waits for a test as long as `patience`; from `time` on the engine counts as stalled.
    fn test_within(&self, suite: Suite, policy: &TrustPolicy, patience: Duration, time: Duration) -> SelfTestState {
        let suite = suite.canonical();
        let state = if !known_answers::has_self_test(suite) || suite.needs_key() && !self.engine.takes_key_bytes() {
            TestState::NoAnswer
        } else if !self.is_isolated() {
            self.ask(policy, |engine| Ok(self_test::answer(engine, suite))).unwrap_or(TestState::Untested)
        } else {
            match self.self_tests.isolated(&self.engine, suite, patience, time) {
                Ok(state) => state,
                Err(trouble) => {
                    self.health.quarantine(self.name(), trouble, policy);
                    TestState::Untested
                }
            }
        };
        if state == TestState::Failed && self.health.quarantines() != 0 {
            // It was let in again too early. The next time is further off.
            self.health.quarantine(self.name(), Trouble::SelfTest, policy);
        }
        let before = self.self_tests.set(suite, state);
        if before != state && !matches!(state, TestState::Passed | TestState::NoAnswer) {
            self.epoch.advance();
        }
        self.self_tests.state(suite)
    }

    /// The suites that the engine claims, each once, in the order of its capabilities.
    pub(crate) fn suites(&self) -> Vec<Suite> {
        let mut suites: Vec<Suite> = Vec::new();
        for suite in self.engine.capabilities().iter().flat_map(|capability| capability.suites) {
            if !suites.contains(suite) {
                suites.push(*suite);
            }
        }
        suites
    }

    /// What is known of it.
    pub(crate) fn report(&self, disabled: &Disabled) -> EngineReport {
        let suites = self.suites().into_iter().map(|suite| self.report_of(suite, disabled)).collect();
        let rule = disabled.engine(self.name()).map(ToString::to_string);
        EngineReport { info: self.engine.info().clone(), disabled: rule, suites }
    }

    fn report_of(&self, suite: Suite, disabled: &Disabled) -> SuiteReport {
        let covering = |direction| {
            let found = capability::find(self.engine.capabilities(), suite, direction);
            found.map(|capability| (direction, capability.timing))
        };
        let covered: Vec<_> = [Direction::Encrypt, Direction::Decrypt].into_iter().filter_map(covering).collect();
        let is_variable = covered.iter().any(|(_, timing)| *timing == Timing::Variable);
        SuiteReport {
            suite,
            directions: covered.iter().map(|(direction, _)| *direction).collect(),
            kernel: self.engine.info().kernel_for(suite).to_owned(),
            timing: if is_variable { Timing::Variable } else { Timing::Constant },
            self_test: self.self_tests.state(suite),
            disabled: disabled.find(self.name(), suite).map(ToString::to_string),
        }
    }
}
