//! The mill and how it is opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::available_parallelism;

use ciphermill_contract::error::Refusal;
use ciphermill_contract::limits::{ENGINES_MAX, SUITE_ORDINALS_MAX};
use ciphermill_contract::{Batch, Completed, Direction, Engine, Error, KeyId, OwnedBatch, Result, Suite};
use ciphermill_keys::KeyTable;

use crate::coalesce::Gate;
use crate::costs::Costs;
use crate::engines::{EngineSet, EngineSlot, place};
use crate::execute::Preparer;
use crate::future::{BatchFuture, Promise};
use crate::job::{Job, Reply, Wishes};
use crate::metrics::{Books, Snapshot};
use crate::policy::{OnFull, Policy, RunOptions, SelfTest, SubmitOptions, TrustPolicy};
use crate::pool::{Pool, QUEUED_MAX};
use crate::queues::Queues;
use crate::report::{EngineReport, Report, SelfTestState, SuiteReport};
use crate::session::Session;

/// Idle sessions that a mill keeps for callers of [`Mill::run`].
const IDLE_SESSIONS_MAX: usize = 64;

/// Engines, key table and router, opened. Cheap to clone; clones are the same mill.
#[derive(Clone)]
pub struct Mill {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    engines: RwLock<Arc<EngineSet>>,
    /// Counts the changes of `engines`.
    pub(crate) epoch: AtomicU64,
    /// Engines that ever joined.
    joined: AtomicU64,
    pub(crate) keys: KeyTable,
    pub(crate) policy: Policy,
    pub(crate) metrics: Books,
    pub(crate) costs: Costs,
    pub(crate) pool: Pool,
    /// Where single operations share batches, by suite and direction.
    gates: Box<[OnceLock<Gate>]>,
    idle: Mutex<Vec<Queues>>,
}

/// Collects what a mill is opened with.
#[derive(Default)]
pub struct MillBuilder {
    engines: Vec<Arc<dyn Engine>>,
    keys: Option<KeyTable>,
    policy: Policy,
    costs: Costs,
    workers: Option<usize>,
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

    /// Sets what batches cost on this machine's engines, as measured before.
    #[must_use]
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// Sets how many threads work on what is handed over; one a core without this. With none, callers do the work in
    /// [`Session::poll`] and [`Session::wait`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets how far engines are believed.
    #[must_use]
    pub fn trust(mut self, trust: TrustPolicy) -> Self {
        self.policy.trust = trust;
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
        let shared = Shared {
            engines: RwLock::new(Arc::new(EngineSet::new(Vec::new(), self.policy.engines, &self.costs))),
            epoch: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            keys: self.keys.unwrap_or_default(),
            policy: self.policy,
            metrics: Books::default(),
            costs: self.costs,
            pool: Pool::new(self.workers.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))),
            gates: (0..2 * SUITE_ORDINALS_MAX).map(|_| OnceLock::new()).collect(),
            idle: Mutex::default(),
        };
        shared.change(self.engines, None)?;
        let mill = Mill { shared: Arc::new(shared) };
        if self.policy.self_test == SelfTest::AtOpen {
            mill.self_test(|_, _, _| {});
        }
        Ok(mill)
    }
}

impl Shared {
    /// The engines as they are now.
    pub(crate) fn engines(&self) -> Arc<EngineSet> {
        // Nothing in there can be half done.
        Arc::clone(&self.engines.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets engines join and one leave.
    fn change(&self, joining: Vec<Arc<dyn Engine>>, leaving: Option<&str>) -> Result<()> {
        let mut engines = self.engines.write().unwrap_or_else(PoisonError::into_inner);
        let mut slots: Vec<Arc<EngineSlot>> = engines.slots.clone();
        if let Some(name) = leaving {
            let index = engines.index_of(name);
            let index = index.ok_or_else(|| Error::Refused(Refusal::EngineUnavailable(name.to_owned())))?;
            tracing::info!(engine = name, "engine leaves");
            slots.remove(index);
        }
        if slots.len() + joining.len() > ENGINES_MAX {
            return Err(Error::exhausted("ENGINES_MAX", ENGINES_MAX, slots.len() + joining.len()));
        }
        for engine in joining {
            let name = engine.info().name;
            if slots.iter().any(|slot| slot.name() == name) {
                return Err(Error::Refused(Refusal::EngineUnavailable(format!("{name}, given twice"))));
            }
            let number = self.joined.fetch_add(1, Ordering::Relaxed);
            let number = u16::try_from(number)
                .map_err(|_| Error::exhausted("engines that ever joined", u16::MAX.into(), number as usize))?;
            slots.push(EngineSlot::new(number, engine));
        }
        *engines = Arc::new(EngineSet::new(slots, self.policy.engines, &self.costs));
        self.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Where single operations of this suite and direction share batches.
    pub(crate) fn gate(&self, suite: Suite, direction: Direction) -> &Gate {
        self.gates[place(suite, direction)].get_or_init(Gate::default)
    }

    /// Keeps queues for the next thread that needs some.
    pub(crate) fn give_back(&self, queues: Queues) {
        let mut idle = self.idle();
        if idle.len() < IDLE_SESSIONS_MAX {
            idle.push(queues);
        }
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

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
        self.shared.give_back(queues);
        result
    }

    /// Hands a batch over as a future, for any executor. A batch that takes less time than waking a worker is run when
    /// the future is first polled; any other by the mill's threads.
    ///
    /// # Errors
    /// As [`Session::submit_with`].
    pub fn submit(
        &self,
        batch: OwnedBatch,
        options: &SubmitOptions<'_>,
    ) -> core::result::Result<BatchFuture, Box<(OwnedBatch, Error)>> {
        let promise = Arc::new(Promise::default());
        let job = self.job(batch, options, Reply::Future(Arc::clone(&promise)))?;
        let is_small = (job.predicted_ns as f64) < self.shared.costs.wakeup_ns() && !job.batch.suite.is_public_key();
        if is_small || !self.shared.pool.has_workers() {
            return Ok(BatchFuture::own(promise, Arc::clone(&self.shared), job));
        }
        self.hand_over(job, options.on_full)?;
        Ok(BatchFuture::handed_over(promise))
    }

    /// Hands a batch over and has `callback` called with it when it is done, on one of the mill's threads, or on this one
    /// when the mill has none.
    ///
    /// # Errors
    /// As [`Session::submit_with`]; the callback is not called then.
    pub fn submit_with_callback(
        &self,
        batch: OwnedBatch,
        options: &SubmitOptions<'_>,
        callback: impl FnOnce(Completed) + Send + 'static,
    ) -> core::result::Result<(), Box<(OwnedBatch, Error)>> {
        let job = self.job(batch, options, Reply::Callback(Box::new(callback)))?;
        if self.shared.pool.has_workers() {
            return self.hand_over(job, options.on_full);
        }
        let mut queues = self.shared.idle().pop().unwrap_or_default();
        job.run(&self.shared, &mut queues);
        self.shared.give_back(queues);
        Ok(())
    }

    fn job(
        &self,
        batch: OwnedBatch,
        options: &SubmitOptions<'_>,
        reply: Reply,
    ) -> core::result::Result<Job, Box<(OwnedBatch, Error)>> {
        let wishes = match Wishes::new(&self.shared, &options.run) {
            Ok(wishes) => wishes,
            Err(error) => return Err(Box::new((batch, error))),
        };
        let mut queues = self.shared.idle().pop().unwrap_or_default();
        let predicted_ns = queues.predict(&self.shared, &batch);
        self.shared.give_back(queues);
        Ok(Job { batch, wishes, predicted_ns, reply })
    }

    /// Puts a job where workers find it.
    fn hand_over(&self, mut job: Job, on_full: OnFull) -> core::result::Result<(), Box<(OwnedBatch, Error)>> {
        let pool = &self.shared.pool;
        let home = pool.home();
        while let Err(back) = pool.push(home, job) {
            if on_full == OnFull::Refuse {
                let error = Error::exhausted("QUEUED_MAX", QUEUED_MAX, QUEUED_MAX + 1);
                return Err(Box::new((back.batch, error)));
            }
            job = back;
            pool.wake(&self.shared, home, true);
            std::thread::yield_now();
        }
        pool.wake(&self.shared, home, true);
        Ok(())
    }

    /// Batches that wait for a thread.
    pub fn queued(&self) -> usize {
        self.shared.pool.queued()
    }

    /// Runs the known-answer test of every suite on every engine. `progress` hears of each result.
    ///
    /// Returns how many tests failed.
    pub fn self_test(&self, mut progress: impl FnMut(&'static str, Suite, SelfTestState)) -> usize {
        let mut failed = 0;
        for slot in &self.shared.engines().slots {
            for suite in suites_of(slot.engine.as_ref()) {
                let state = slot.test(suite, &self.shared.policy.trust);
                failed += usize::from(state == SelfTestState::Failed);
                progress(slot.engine.info().name, suite, state);
            }
        }
        failed
    }

    /// The mill's engines, what they run and how their self-tests ended.
    pub fn engines(&self) -> Vec<EngineReport> {
        self.shared.engines().slots.iter().map(|slot| describe(slot)).collect()
    }

    /// What the mill has counted since it was opened.
    pub fn metrics(&self) -> Snapshot {
        let shared = &self.shared;
        Snapshot {
            queued_batches: shared.pool.queued() as u64,
            busy_workers: shared.pool.busy_workers() as u64,
            ..Snapshot::new(&shared.engines(), shared.metrics.sums())
        }
    }

    /// Lets an engine join. Sessions see it with their next batch.
    ///
    /// # Errors
    /// `Exhausted` beyond [`ENGINES_MAX`] engines; `Refused` when there is one of that name.
    pub fn add_engine(&self, engine: Arc<dyn Engine>) -> Result<()> {
        self.shared.change(vec![engine], None)
    }

    /// Lets an engine leave. Batches that are on it finish there, or elsewhere if it fails them; no batch that begins
    /// later goes to it.
    ///
    /// # Errors
    /// `Refused` when there is no engine of that name.
    pub fn remove_engine(&self, name: &str) -> Result<()> {
        self.shared.change(Vec::new(), Some(name))
    }

    /// Has keys prepared for a suite by every engine of this mill that may hold them and runs it, side by side where an
    /// engine can; otherwise the first batch that uses a key does that. Returns how many forms there are then.
    ///
    /// Keys that are unknown, that policy keeps from an engine, or that an engine refuses are passed over: the
    /// operations that use them say why.
    pub fn prepare(&self, suite: Suite, keys: &[KeyId]) -> usize {
        let lease = self.shared.keys.lease();
        let engines = self.shared.engines();
        let directions = [Direction::Encrypt, Direction::Decrypt];
        let runs = |engine: usize| {
            let of = |direction| engines.plan(suite, direction).iter().any(|candidate| candidate.engine == engine);
            directions.into_iter().any(of)
        };
        let mut forms = 0;
        for (_, slot) in engines.slots.iter().enumerate().filter(|(index, slot)| runs(*index) && !slot.is_isolated()) {
            let kind = slot.engine.info().kind;
            let held: Vec<_> =
                keys.iter().filter_map(|key| lease.entry(*key)).filter(|key| key.engines().contains(kind)).collect();
            let mut preparer = Preparer::new(slot, &self.shared.policy.trust, suite);
            preparer.prepare(held.iter().copied());
            forms += held.iter().filter(|key| preparer.before(key).is_some()).count();
        }
        forms
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
