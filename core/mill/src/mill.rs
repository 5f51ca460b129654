//! The mill and how it is opened.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ciphermill_contract::columns::TransformBatch;
use ciphermill_contract::error::Refusal;
use ciphermill_contract::suite::KeyPair;
use ciphermill_contract::{
    Batch, ColumnBatch, Completed, Direction, Engine, Error, KeyId, OwnedBatch, Reason, Result, Suite,
};
use ciphermill_keys::{KeyPolicy, KeyTable, KeyUsage};

use crate::costs::Costs;
use crate::disabled::Disabled;
use crate::generate::{self, GeneratedPair};
use crate::metrics::Snapshot;
use crate::policy::{Policy, RunOptions, SelfTest, SubmitOptions, TrustPolicy};
use crate::report::{EngineReport, Report, SelfTestState, TransformReport};
use crate::run::{Explanation, Preparer, Runner};
use crate::single::{Bound, Coalescers, ComesAlone, MultiPart, One, OneDone, OneFuture};
use crate::state::State;
use crate::submit::{self, BatchFuture, Dispatcher, Session};
use crate::workers::Workers;

/// Engines, key table and router, opened. Cheap to clone; clones are the same mill.
#[derive(Clone)]
pub struct Mill {
    dispatcher: Arc<Dispatcher>,
    coalescers: Arc<Coalescers>,
}

/// Collects what a mill is opened with.
#[derive(Default)]
pub struct MillBuilder {
    engines: Vec<Arc<dyn Engine>>,
    keys: Option<KeyTable>,
    policy: Policy,
    costs: Costs,
    disabled: Disabled,
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

    /// Sets which engines and suites are disabled; [`Mill::set_disabled`] changes that.
    #[must_use]
    pub fn disabled(mut self, disabled: Disabled) -> Self {
        self.disabled = disabled;
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

    /// Sets how long single operations wait for others at most ([`Policy::window_max`]).
    #[must_use]
    pub fn window_max(mut self, window_max: Duration) -> Self {
        self.policy.window_max = window_max;
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
    /// `Exhausted` for more than [`ENGINES_MAX`](ciphermill_contract::limits::ENGINES_MAX) engines; `Refused` when two engines have the same name.
    pub fn open(self) -> Result<Mill> {
        let self_test = self.policy.self_test;
        let workers = self.workers.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let state = State::new(self.keys.unwrap_or_default(), self.policy, self.costs, self.disabled);
        state.change_engines(self.engines, None)?;
        let runner = Runner::new(state, Workers::new(workers));
        let mill = Mill { dispatcher: Arc::new(Dispatcher::new(runner)), coalescers: Arc::new(Coalescers::new()) };
        if self_test == SelfTest::AtOpen {
            mill.self_test(|_, _, _| {});
        }
        Ok(mill)
    }
}

impl Mill {
    /// Starts to collect what a mill is opened with.
    pub fn builder() -> MillBuilder {
        MillBuilder::default()
    }

    /// The key table.
    pub fn keys(&self) -> &KeyTable {
        &self.state().keys
    }

    /// The policy that the mill was opened with.
    pub fn policy(&self) -> Policy {
        self.state().policy
    }

    /// A session: queues of its own on every engine, for one thread at a time.
    pub fn session(&self) -> Session {
        Session::new(Arc::clone(&self.dispatcher))
    }

    fn runner(&self) -> &Runner {
        &self.dispatcher.runner
    }

    fn state(&self) -> &State {
        &self.runner().state
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
        self.runner().with_context(|context| self.runner().run(context, batch, options))
    }

    /// Runs columns on the engine that the router chooses, on the caller's thread; large ones in parts, on the mill's threads
    /// as well. On return every operation that was pending has a status. IVs that are to be drawn come from AES-256 in
    /// counter mode under a key that the operating system gives for each batch.
    ///
    /// # Errors
    /// As [`Session::run`]; `Misuse` for a status that is neither pending nor left out, `Refused` for a suite that does not run
    /// as columns.
    pub fn run_columns(&self, batch: ColumnBatch<'_>) -> Result<Report> {
        self.run_columns_with(batch, &RunOptions::default())
    }

    /// Runs columns with options of their own.
    ///
    /// # Errors
    /// As [`Mill::run_columns`].
    pub fn run_columns_with(&self, batch: ColumnBatch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        self.runner().with_context(|context| self.runner().run_columns(context, batch, KeyUsage::Plain, options))
    }

    /// Opens values under one suite and key and seals them under another, as one operation: in clear they lie in locked memory
    /// alone, a chunk at a time, which is wiped. Each half goes to the engine that is best for it. Key policy may allow it to
    /// callers who may do neither half alone: [`KeyPolicy::transform`](crate::KeyPolicy::transform).
    ///
    /// On return every value that was pending has a status. One that does not open has that of opening, and its output stays as
    /// it was. Each value counts once for each of both keys' budgets.
    ///
    /// ```
    /// # fn rekey(mill: &ciphermill::Mill, old: ciphermill_contract::KeyId, new: ciphermill_contract::KeyId) -> ciphermill_contract::Result<()> {
    /// use ciphermill_contract::columns::{Extents, TransformBatch, TransformHalf, TransformTags};
    /// use ciphermill_contract::ColumnStatus;
    ///
    /// let suite = "aes-256-siv".parse().expect("a suite");
    /// let half = |key| TransformHalf { tags: TransformTags::Before { len: 16 }, ..TransformHalf::new(suite, key) };
    /// // Two values of 20 bytes, each behind its tag.
    /// let (stored, mut again) = ([0; 72], [0; 72]);
    /// let mut statuses = [ColumnStatus::PENDING; 2];
    /// let batch = TransformBatch {
    ///     source: half(old),
    ///     target: half(new),
    ///     input: &stored,
    ///     inputs: Extents::Offsets(&[0, 36, 72]),
    ///     output: &mut again,
    ///     outputs: Extents::Offsets(&[0, 36, 72]),
    ///     statuses: &mut statuses,
    /// };
    /// let report = mill.transform(batch)?;
    /// println!("{} values, opened by {} and sealed by {}", report.done, report.opened_by, report.sealed_by);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`TransformBatch::check`], before anything is written, and those of [`Mill::run_columns`]; values that were done
    /// by then have their status and their output, all others have neither.
    pub fn transform(&self, batch: TransformBatch<'_>) -> Result<TransformReport> {
        self.transform_with(batch, &RunOptions::default())
    }

    /// Transforms values with options, which hold for both halves.
    ///
    /// # Errors
    /// As [`Mill::transform`].
    pub fn transform_with(&self, batch: TransformBatch<'_>, options: &RunOptions<'_>) -> Result<TransformReport> {
        self.runner().with_context(|context| self.runner().transform(context, batch, options))
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
        submit::submit(&self.dispatcher, batch, options)
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
        self.dispatcher.submit_with_callback(batch, options, callback)
    }

    /// One operation as a future, for any executor; it shares a batch with those of other tasks that are ready at the
    /// same time, and with those of threads in [`Mill::run_one`]. Where others arrive quickly and sharing saves more than
    /// waiting costs, it waits for them up to [`Policy::window_max`]; its task then stays ready meanwhile.
    pub fn submit_one<'d>(&'d self, suite: Suite, direction: Direction, one: One<'d>) -> OneFuture<'d> {
        self.coalescers.submit(self.runner(), (suite, direction), one)
    }

    /// For callers who can have a lone operation done elsewhere as quickly: whether one of `input_len` bytes would be alone here, in
    /// [`Mill::submit_one`] (`as_task`) or [`Mill::run_one`]. It counts as having come then, and as being on its way until what is
    /// returned is dropped. `None` where it would share a batch, or may: it is to be brought here.
    pub fn comes_alone(
        &self,
        suite: Suite,
        direction: Direction,
        input_len: usize,
        as_task: bool,
    ) -> Option<ComesAlone<'_>> {
        self.coalescers.comes_alone(self.runner(), (suite, direction), input_len, as_task)
    }

    /// Runs one operation on the caller's thread, or in a batch with those of other threads that are here at the same
    /// time where that is predicted to be worth the wait, which is at most [`Policy::window_max`].
    ///
    /// An operation that breaks a rule of its suite ends with [`ciphermill_contract::OpStatus::BadInput`]. One that came
    /// alone and that an engine fails is run elsewhere. What a handle knows ([`Mill::bind`]) but for the key is kept.
    ///
    /// # Errors
    /// `Refused` and `EngineFault` as [`Session::run`].
    pub fn run_one(&self, suite: Suite, direction: Direction, one: One<'_>) -> Result<OneDone> {
        self.coalescers.run(self.runner(), (suite, direction), one)
    }

    /// A handle for single operations of one suite, direction and key, which asks but once what is the same for all of them.
    /// The key is [`KeyId::NONE`] for suites without one. An engine is chosen and tested and the key prepared here.
    ///
    /// # Errors
    /// `Misuse` for a key that is missing or not needed; `Refused` for a legacy suite that the mill's policy forbids, a
    /// direction that there is not, a key that is unknown, does not suit or whose policy forbids it, and when no engine may
    /// run the suite. A budget that is spent is told by the operations.
    pub fn bind(&self, suite: Suite, direction: Direction, key: KeyId) -> Result<Bound> {
        Bound::new(Arc::clone(&self.dispatcher), suite, direction, key)
    }

    /// Messages that come in parts, in one suite and direction and under one key ([`KeyId::NONE`] for suites without one). An engine
    /// is chosen and tested and the key prepared here.
    ///
    /// Suites whose messages engines take whole only are refused: those whose beginning depends on the end or on the length (CCM,
    /// SIV, GCM-SIV, XTS, FF1), and public keys. So is decryption with authentication: parts of it would be given out before anybody
    /// knows whether they are right. Who has the message whole runs it by [`Mill::bind`]; who must have the parts at once asks
    /// [`Mill::multi_part_unverified`].
    ///
    /// # Errors
    /// As [`Mill::bind`]; `Refused` with `NoEngine` when no engine takes the suite's messages in parts.
    pub fn multi_part(&self, suite: Suite, direction: Direction, key: KeyId) -> Result<MultiPart> {
        if matches!(suite, Suite::Aead(_)) && direction == Direction::Decrypt {
            return Err(Error::Refused(Refusal::Unverified(suite)));
        }
        self.multi_part_unverified(suite, direction, key)
    }

    /// As [`Mill::multi_part`], and for decryption with authentication too: its caller takes care that nobody believes the text before
    /// [`MultiPart::finish`] has said `Done`, and forgets it when it says `AuthFailed`.
    ///
    /// # Errors
    /// As [`Mill::multi_part`].
    pub fn multi_part_unverified(&self, suite: Suite, direction: Direction, key: KeyId) -> Result<MultiPart> {
        MultiPart::new(Arc::clone(&self.dispatcher), (suite, direction), key)
    }

    /// What the router thinks of each engine for `ops` operations of `len` bytes, and what it would choose.
    ///
    /// # Errors
    /// `Refused` when the engine that `options` name is not there.
    pub fn explain(
        &self,
        suite: Suite,
        direction: Direction,
        ops: u64,
        len: u64,
        options: &RunOptions<'_>,
    ) -> Result<Explanation> {
        self.runner().explain(suite, direction, (ops, len), options)
    }

    /// Generates a key pair on the engine that the router chooses and takes its private key into the key table, under a policy. Its
    /// bytes never reach the caller. Returns where it is, and the public key in the contract's form (see [`KeyPair`]).
    ///
    /// # Errors
    /// As [`Mill::generate_pair`]; `Refused` when the policy allows no suite that takes such pairs; those of [`KeyTable::import`].
    pub fn generate(&self, pair: KeyPair, policy: KeyPolicy) -> Result<(KeyId, Vec<u8>)> {
        if !generate::is_of_use(pair, &policy) {
            return Err(Error::Refused(Refusal::KeyPolicy(Reason::KeySuite)));
        }
        let generated = self.generate_pair(pair)?;
        let key = self.keys().import(generated.private(), policy)?;
        Ok((key, generated.public().to_vec()))
    }

    /// Generates a key pair for somebody who keeps it, for example in a keystore.
    ///
    /// # Errors
    /// As [`Mill::run`]; `Exhausted` when there is no memory for the private key, `EngineFault` when no engine could generate the pair.
    pub fn generate_pair(&self, pair: KeyPair) -> Result<GeneratedPair> {
        generate::pair(self.runner(), pair)
    }

    /// Batches that wait for a thread.
    pub fn queued(&self) -> usize {
        self.dispatcher.queued()
    }

    /// Runs the known-answer test of every suite on every engine that it is not disabled on. `progress` hears of each result.
    ///
    /// Returns how many tests failed.
    pub fn self_test(&self, mut progress: impl FnMut(&'static str, Suite, SelfTestState)) -> usize {
        let mut failed = 0;
        let engines = self.state().engines();
        for slot in &engines.slots {
            let suites = slot.suites();
            for suite in suites.into_iter().filter(|suite| engines.disabled.find(slot.name(), *suite).is_none()) {
                let state = slot.test(suite, &self.state().policy.trust);
                failed += usize::from(state == SelfTestState::Failed);
                progress(slot.name(), suite, state);
            }
        }
        failed
    }

    /// The mill's engines, what they run and how their self-tests ended.
    pub fn engines(&self) -> Vec<EngineReport> {
        let engines = self.state().engines();
        engines.slots.iter().map(|slot| slot.report(&engines.disabled)).collect()
    }

    /// What the mill has counted since it was opened.
    pub fn metrics(&self) -> Snapshot {
        self.coalescers.write_up(self.runner());
        Snapshot {
            queued_batches: self.dispatcher.queued() as u64,
            busy_workers: self.runner().workers.busy() as u64,
            shared: self.coalescers.counts(),
            ..Snapshot::new(&self.state().engines(), self.state().metrics.sums())
        }
    }

    /// Lets an engine join. Sessions see it with their next batch.
    ///
    /// # Errors
    /// `Exhausted` beyond [`ENGINES_MAX`](ciphermill_contract::limits::ENGINES_MAX) engines; `Refused` when there is one of that name.
    pub fn add_engine(&self, engine: Arc<dyn Engine>) -> Result<()> {
        self.state().change_engines(vec![engine], None)
    }

    /// Lets an engine leave. Batches that are on it finish there, or elsewhere if it fails them; no batch that begins
    /// later goes to it.
    ///
    /// # Errors
    /// `Refused` when there is no engine of that name.
    pub fn remove_engine(&self, name: &str) -> Result<()> {
        self.state().change_engines(Vec::new(), Some(name))?;
        self.coalescers.let_go(self.runner());
        Ok(())
    }

    /// What is disabled.
    pub fn disabled(&self) -> Disabled {
        Disabled::clone(&self.state().engines().disabled)
    }

    /// Replaces the rules that disable engines and suites. All that begins later goes by them, operations of open handles included.
    /// Batches that have begun, and messages in parts, end on the engines that they began with.
    pub fn set_disabled(&self, disabled: Disabled) {
        self.state().set_disabled(disabled);
        self.coalescers.let_go(self.runner());
    }

    /// Has keys prepared for a suite by every engine of this mill that may hold them and runs it, side by side where an
    /// engine can; otherwise the first batch that uses a key does that. Returns how many forms there are then.
    ///
    /// Keys that are unknown, that policy keeps from an engine, or that an engine refuses are passed over: the
    /// operations that use them say why.
    pub fn prepare(&self, suite: Suite, keys: &[KeyId]) -> usize {
        let lease = self.state().keys.lease();
        let engines = self.state().engines();
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
            let mut preparer = Preparer::new(slot, &self.state().policy.trust, suite);
            preparer.prepare(held.iter().copied());
            forms += held.iter().filter(|key| preparer.before(key).is_some()).count();
        }
        forms
    }
}
