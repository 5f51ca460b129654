//! The mill and how it is opened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciphermill_contract::error::Refusal;
use ciphermill_contract::limits::{ENGINES_MAX, SUITE_ORDINALS_MAX};
use ciphermill_contract::{Batch, Direction, Engine, EngineKinds, Error, Result, Suite};
use ciphermill_keys::KeyTable;
use ciphermill_router::{Candidate, Request, Verdict, explain};

use crate::policy::{Policy, RunOptions, SelfTest};
use crate::report::{EngineReport, Report, SelfTestState, SuiteReport};
use crate::session::{Queues, Session};
use crate::trust::Trust;

/// Idle sessions that a mill keeps for callers of [`Mill::run`].
const IDLE_SESSIONS_MAX: usize = 64;

/// Engines, key table and router, opened. Cheap to clone; clones are the same mill.
#[derive(Clone)]
pub struct Mill {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) engines: Vec<EngineSlot>,
    pub(crate) keys: KeyTable,
    pub(crate) policy: Policy,
    /// Candidates for each suite and direction, by `2 · ordinal + direction`.
    plans: Vec<Vec<Candidate>>,
    idle: Mutex<Vec<Queues>>,
}

pub(crate) struct EngineSlot {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) trust: Trust,
}

/// Collects what a mill is opened with.
#[derive(Default)]
pub struct MillBuilder {
    engines: Vec<Arc<dyn Engine>>,
    keys: Option<KeyTable>,
    policy: Policy,
}

impl MillBuilder {
    /// Adds an engine.
    #[must_use]
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engines.push(engine);
        self
    }

    /// Adds engines.
    #[must_use]
    pub fn engines(mut self, engines: impl IntoIterator<Item = Arc<dyn Engine>>) -> Self {
        self.engines.extend(engines);
        self
    }

    /// Sets the key table; without one the mill opens an empty one.
    #[must_use]
    pub fn keys(mut self, keys: KeyTable) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Enables or disables legacy suites.
    #[must_use]
    pub fn legacy(mut self, legacy: bool) -> Self {
        self.policy.legacy = legacy;
        self
    }

    /// Sets when known-answer tests run.
    #[must_use]
    pub fn self_test(mut self, self_test: SelfTest) -> Self {
        self.policy.self_test = self_test;
        self
    }

    /// Opens the mill.
    ///
    /// # Errors
    /// `Exhausted` for more than [`ENGINES_MAX`] engines; `Refused` when two engines have the same name.
    pub fn open(self) -> Result<Mill> {
        if self.engines.len() > ENGINES_MAX {
            return Err(Error::exhausted("ENGINES_MAX", ENGINES_MAX, self.engines.len()));
        }
        for (index, engine) in self.engines.iter().enumerate() {
            let name = engine.info().name;
            if self.engines[..index].iter().any(|other| other.info().name == name) {
                return Err(Error::Refused(Refusal::EngineUnavailable(format!("{name}, given twice"))));
            }
        }
        let engines: Vec<EngineSlot> =
            self.engines.into_iter().map(|engine| EngineSlot { engine, trust: Trust::new() }).collect();
        for slot in &engines {
            let info = slot.engine.info();
            tracing::info!(engine = info.name, version = %info.version, kernels = ?info.kernels, "engine opened");
        }
        let plans = plans(&engines, self.policy.engines);
        let keys = self.keys.unwrap_or_default();
        let shared = Shared { engines, keys, policy: self.policy, plans, idle: Mutex::default() };
        let mill = Mill { shared: Arc::new(shared) };
        if self.policy.self_test == SelfTest::AtOpen {
            mill.self_test(|_, _, _| {});
        }
        Ok(mill)
    }
}

/// Which engines run each suite in each direction.
fn plans(engines: &[EngineSlot], kinds: EngineKinds) -> Vec<Vec<Candidate>> {
    let mut plans = vec![Vec::new(); 2 * SUITE_ORDINALS_MAX];
    for (index, slot) in engines.iter().enumerate() {
        let info = slot.engine.info();
        if !kinds.contains(info.kind) {
            continue;
        }
        for capability in slot.engine.capabilities() {
            for (suite, direction) in pairs(capability.suites) {
                let plan = &mut plans[place(suite, direction)];
                let known = plan.iter().any(|candidate: &Candidate| candidate.engine == index);
                if known || !capability.covers(suite, direction) {
                    continue;
                }
                plan.push(Candidate {
                    engine: index,
                    name: info.name,
                    kind: info.kind,
                    cost: capability.prior,
                    backlog_ns: 0.0,
                    input_len_max: capability.input_len_max as u64,
                    trusted: true,
                });
            }
        }
    }
    plans
}

fn pairs(suites: &'static [Suite]) -> impl Iterator<Item = (Suite, Direction)> {
    suites.iter().flat_map(|suite| [(*suite, Direction::Encrypt), (*suite, Direction::Decrypt)])
}

#[inline]
fn place(suite: Suite, direction: Direction) -> usize {
    2 * suite.ordinal() + direction as usize
}

impl Shared {
    pub(crate) fn plan(&self, suite: Suite, direction: Direction) -> &[Candidate] {
        &self.plans[place(suite, direction)]
    }

    pub(crate) fn engine_index(&self, name: &str) -> Option<usize> {
        self.engines.iter().position(|slot| slot.engine.info().name == name)
    }

    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<Queues>> {
        // A panic while the lock was held left at worst one set of queues behind.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mill {
    /// Starts to collect what a mill is opened with.
    pub fn builder() -> MillBuilder {
        MillBuilder::default()
    }

    /// The key table.
    pub fn keys(&self) -> &KeyTable {
        &self.shared.keys
    }

    /// The policy that the mill was opened with.
    pub fn policy(&self) -> Policy {
        self.shared.policy
    }

    /// A session: queues of its own on every engine, for one thread at a time.
    pub fn session(&self) -> Session {
        Session::new(Arc::clone(&self.shared))
    }

    /// Runs a batch on the engine that the router chooses, on the caller's thread.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run(&self, batch: Batch<'_>) -> Result<Report> {
        self.run_with(batch, &RunOptions::default())
    }

    /// Runs a batch with options of its own.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_with(&self, batch: Batch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        let mut queues = self.shared.idle().pop().unwrap_or_default();
        let result = queues.run(&self.shared, batch, options);
        let mut idle = self.shared.idle();
        if idle.len() < IDLE_SESSIONS_MAX {
            idle.push(queues);
        }
        result
    }

    /// What the router thinks of each engine for `ops` operations of `len` bytes.
    pub fn explain(&self, suite: Suite, direction: Direction, ops: u64, len: u64) -> Vec<(&'static str, Verdict)> {
        let kinds = self.shared.policy.engines;
        let request = Request { ops, bytes: ops * len, input_len_max: len, kinds, pinned: None };
        let plan = self.shared.plan(suite, direction);
        explain(&request, plan).map(|(candidate, verdict)| (candidate.name, verdict)).collect()
    }

    /// Runs the known-answer test of every suite on every engine. `progress` hears of each result.
    ///
    /// Returns how many tests failed.
    pub fn self_test(&self, mut progress: impl FnMut(&'static str, Suite, SelfTestState)) -> usize {
        let mut failed = 0;
        for slot in &self.shared.engines {
            for suite in suites_of(slot.engine.as_ref()) {
                let state = slot.trust.test(slot.engine.as_ref(), suite);
                failed += usize::from(state == SelfTestState::Failed);
                progress(slot.engine.info().name, suite, state);
            }
        }
        failed
    }

    /// The mill's engines, what they run and how their self-tests ended.
    pub fn engines(&self) -> Vec<EngineReport> {
        self.shared.engines.iter().map(describe).collect()
    }
}

/// The suites that an engine claims, each once, in the order of its capabilities.
fn suites_of(engine: &dyn Engine) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    for suite in engine.capabilities().iter().flat_map(|capability| capability.suites) {
        if !suites.contains(suite) {
            suites.push(*suite);
        }
    }
    suites
}

fn describe(slot: &EngineSlot) -> EngineReport {
    let engine = slot.engine.as_ref();
    let describe_suite = |suite: Suite| {
        let covering = |direction| {
            let found = ciphermill_contract::capability::find(engine.capabilities(), suite, direction);
            found.map(|capability| (direction, capability.timing))
        };
        let covered: Vec<_> = [Direction::Encrypt, Direction::Decrypt].into_iter().filter_map(covering).collect();
        SuiteReport {
            suite,
            directions: covered.iter().map(|(direction, _)| *direction).collect(),
            kernel: engine.info().kernel_for(suite).to_owned(),
            timing: covered
                .iter()
                .map(|(_, timing)| *timing)
                .find(|timing| *timing == ciphermill_contract::Timing::Variable)
                .unwrap_or(ciphermill_contract::Timing::Constant),
            self_test: slot.trust.state(suite),
        }
    };
    EngineReport { info: engine.info().clone(), suites: suites_of(engine).into_iter().map(describe_suite).collect() }
}
