//! Counting, on the way of a batch.
//!
//! One thread writes a block, any thread may read it: a count goes up by a load and a store, both relaxed, which costs
//! what a plain addition does. Histograms are behind a lock that only their own thread and readers take, and are
//! touched by timed batches alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ciphermill_contract::{CheckedBatch, CheckedColumns, Direction, OpStatus, Suite};
use ciphermill_router::{Route, RouteReason};
use ciphermill_shifts::lock;

use super::snapshot::{Distribution, Outcomes, Routes, SuiteMetrics, Sums};
use crate::cell::SuiteCell;
use crate::engines::EngineSlot;

/// Batches that are predicted to take less are timed now and then only: reading the clock twice is a tenth of what they
/// cost.
pub(crate) const TIMED_FROM_NS: f64 = 2_000.0;

/// Lone operations that come one after the other are not timed for so long together: as long as for 64 of the longest that
/// are short. To route and time one takes up to half a microsecond, a twentieth of the shortest signatures.
pub(crate) const UNTIMED_NS: f64 = 64.0 * TIMED_FROM_NS;

/// Nanoseconds that a batch of so many operations is predicted to take at least where each is timed.
#[inline]
pub(crate) fn timed_from_ns(ops: u64) -> f64 {
    if ops == 1 { UNTIMED_NS } else { TIMED_FROM_NS }
}

/// Blocks that are kept before those of ended sessions are first looked for.
const LIVE_UNSWEPT_MIN: usize = 64;

/// A count that one thread writes and any may read.
#[derive(Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self) -> u64 {
        let count = self.read();
        self.0.store(0, Ordering::Relaxed);
        count
    }
}

/// What a thread has counted of one suite in one direction on one engine.
struct Entry {
    suite: Suite,
    direction: Direction,
    batches: Count,
    done: Count,
    auth_failed: Count,
    bad_input: Count,
    refused: Count,
    engine_fault: Count,
    input_bytes: Count,
    replayed: Count,
    witnessed: Count,
    witness_ns: Count,
    disagreements: Count,
    /// In the order of [`REASONS`].
    routes: [Count; REASONS.len()],
    /// Short batches and lone operations since the last timed one.
    untimed: Count,
    times: Mutex<Times>,
}

#[derive(Clone, Default)]
struct Times {
    latency_ns: Distribution,
    /// Actual by predicted time, in thousandths.
    ratio: Distribution,
}

impl Entry {
    #[cold]
    fn new(suite: Suite, direction: Direction) -> Box<Entry> {
        Box::new(Entry {
            suite: suite.canonical(),
            direction,
            batches: Count::default(),
            done: Count::default(),
            auth_failed: Count::default(),
            bad_input: Count::default(),
            refused: Count::default(),
            engine_fault: Count::default(),
            input_bytes: Count::default(),
            replayed: Count::default(),
            witnessed: Count::default(),
            witness_ns: Count::default(),
            disagreements: Count::default(),
            routes: Default::default(),
            untimed: Count::default(),
            times: Mutex::default(),
        })
    }

    /// Short batches and lone operations are timed now and then only; one that is stands for those before it that were not.
    fn time(&self, ops: u64, predicted_ns: f64, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let weight = if predicted_ns < timed_from_ns(ops) { self.untimed.take() + 1 } else { 1 };
        let ratio = took_ns as f64 / predicted_ns * 1000.0;
        let mut times = lock(&self.times);
        times.latency_ns.record(took_ns, weight);
        if ratio.is_finite() {
            times.ratio.record(ratio as u64, weight);
        }
    }

    /// Adds what stands here to `sum`.
    fn add_to(&self, sum: &mut SuiteMetrics) {
        sum.batches += self.batches.read();
        let outcomes = &mut sum.operations;
        outcomes.done += self.done.read();
        outcomes.authentication_failed += self.auth_failed.read();
        outcomes.bad_input += self.bad_input.read();
        outcomes.refused += self.refused.read();
        outcomes.engine_fault += self.engine_fault.read();
        sum.input_bytes += self.input_bytes.read();
        sum.replayed += self.replayed.read();
        sum.witnessed += self.witnessed.read();
        sum.witness_ns += self.witness_ns.read();
        sum.disagreements += self.disagreements.read();
        let [pinned, only, fastest, least_late, probe, share] = self.routes.each_ref().map(Count::read);
        sum.routes.add(&Routes { fastest, only, pinned, least_late, probe, share });
        let times = lock(&self.times);
        sum.latency_ns.add(&times.latency_ns);
        sum.ratio_thousandths.add(&times.ratio);
    }
}

/// The router's reasons in one or two words.
const REASONS: [&str; 6] = ["pinned", "only", "fastest", "least-late", "probe", "share"];

/// A reason in one or two words.
pub(super) fn reason_word(reason: &RouteReason) -> &'static str {
    REASONS[reason_index(reason)]
}

/// Where a reason stands in [`REASONS`].
fn reason_index(reason: &RouteReason) -> usize {
    match reason {
        RouteReason::Pinned => 0,
        RouteReason::Only => 1,
        RouteReason::Fastest { .. } => 2,
        RouteReason::LeastLate => 3,
        RouteReason::Probe => 4,
        RouteReason::Share => 5,
    }
}

/// What a thread has counted on one engine, by suite and direction.
struct Block {
    engine: &'static str,
    entries: Box<[OnceLock<Box<Entry>>]>,
}

impl Block {
    fn new(engine: &'static str) -> Block {
        Block { engine, entries: (0..SuiteCell::COUNT).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    fn entry(&self, cell: SuiteCell, suite: Suite, direction: Direction) -> &Entry {
        self.entries[cell.index()].get_or_init(|| Entry::new(suite, direction))
    }
}

/// All blocks of a mill.
#[derive(Default)]
pub(crate) struct Books(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    live: Vec<Arc<Block>>,
    /// How many live blocks there may be until those are looked for whose threads have ended.
    sweep_at: usize,
    retired: Sums,
}

impl Books {
    /// A new block, which this keeps as well.
    #[cold]
    fn open(&self, engine: &'static str) -> Arc<Block> {
        let block = Arc::new(Block::new(engine));
        let mut pages = lock(&self.0);
        if pages.live.len() >= pages.sweep_at {
            pages.sweep();
            pages.sweep_at = (2 * pages.live.len()).max(LIVE_UNSWEPT_MIN);
        }
        pages.live.push(Arc::clone(&block));
        block
    }

    /// Everything that has been counted so far.
    pub(crate) fn sums(&self) -> Sums {
        let mut pages = lock(&self.0);
        pages.sweep();
        let mut sums = pages.retired.clone();
        pages.live.iter().for_each(|block| add_block(&mut sums, block));
        sums
    }
}

impl Pages {
    /// Takes over what ended sessions have counted.
    fn sweep(&mut self) {
        let retired = &mut self.retired;
        self.live.retain_mut(|block| {
            // The last holder's counts are seen: `get_mut` synchronises with its drop.
            let ended = Arc::get_mut(block).is_some();
            if ended {
                add_block(retired, block);
            }
            !ended
        });
    }
}

fn add_block(sums: &mut Sums, block: &Block) {
    for (place, entry) in block.entries.iter().enumerate() {
        if let Some(entry) = entry.get() {
            let empty = || SuiteMetrics::new(entry.suite, entry.direction);
            entry.add_to(sums.entry((block.engine, place)).or_insert_with(empty));
        }
    }
}

/// A thread's way to its blocks, and what the run in hand leaves for them.
#[derive(Default)]
pub(crate) struct Recorder {
    /// With each engine's number.
    blocks: Vec<(u16, Arc<Block>)>,
    run: Run,
}

/// What is known of a run once the engine is through with it.
#[derive(Clone, Copy, Default)]
struct Run {
    took: Option<Duration>,
    /// What was predicted, if not what the route says: the batch was split.
    predicted_ns: Option<f64>,
}

/// What was so before a run.
pub(crate) struct Before {
    outcomes: Outcomes,
    bytes: u64,
}

/// How a run on an engine ended.
pub(crate) struct Ended<'r> {
    pub(crate) route: &'r Route,
    /// What was so before it, if it was not the batch's first.
    pub(crate) before: Option<Before>,
    /// Whether every operation of the batch is done.
    pub(crate) all_done: bool,
    /// Whether the engine failed some of them.
    pub(crate) has_failed: bool,
}

impl Recorder {
    /// How long the run in hand took.
    #[inline]
    pub(crate) fn took(&mut self, took: Duration) {
        self.run.took = Some(took);
    }

    /// How long the run in hand took in parts, and what was predicted of that.
    #[inline]
    pub(crate) fn took_in_parts(&mut self, took: Duration, predicted_ns: f64) {
        (self.run.took, self.run.predicted_ns) = (Some(took), Some(predicted_ns));
    }

    /// Lets go of engines that have left.
    pub(crate) fn retain(&mut self, stays: impl Fn(u16) -> bool) {
        self.blocks.retain(|(number, _)| stays(*number));
    }

    #[cold]
    fn open(&mut self, books: &Books, slot: &EngineSlot) -> usize {
        self.blocks.push((slot.number, books.open(slot.name())));
        self.blocks.len() - 1
    }

    #[inline(always)]
    fn entry(
        &mut self,
        books: &Books,
        slot: &EngineSlot,
        cell: SuiteCell,
        suite: Suite,
        direction: Direction,
    ) -> &Entry {
        let index = match self.blocks.iter().position(|(number, _)| *number == slot.number) {
            Some(index) => index,
            None => self.open(books, slot),
        };
        self.blocks[index].1.entry(cell, suite, direction)
    }
}

impl Recorder {
    /// The entry of an engine for a suite and direction.
    fn entry_of(&mut self, books: &Books, slot: &EngineSlot, (suite, direction): (Suite, Direction)) -> &Entry {
        self.entry(books, slot, SuiteCell::new(suite, direction), suite, direction)
    }

    /// To be called before an engine runs a batch for the first time: nothing of it is done or failed yet.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.run = Run::default();
    }

    /// To be called after [`Recorder::begin`] for a batch that ran before, on the engine of `last`: operations may be on
    /// their second engine, `replayed` if that one failed them.
    #[cold]
    pub(crate) fn begin_again(
        &mut self,
        books: &Books,
        last: &EngineSlot,
        batch: &CheckedBatch<'_>,
        replayed: bool,
    ) -> Before {
        let pending = batch.ops().iter().filter(|op| op.status.is_pending());
        let (mut count, mut bytes) = (0, 0);
        pending.for_each(|op| (count, bytes) = (count + 1, bytes + u64::from(op.input.len)));
        if replayed {
            tracing::debug!(engine = last.name(), suite = %batch.suite(), ops = count, "operations are run again elsewhere");
            self.entry_of(books, last, (batch.suite(), batch.direction())).replayed.add(count);
        }
        Before { outcomes: outcomes(batch), bytes }
    }

    /// Counts a run on an engine. `ended` says how it did.
    #[inline]
    pub(crate) fn record(&mut self, books: &Books, slot: &EngineSlot, batch: &CheckedBatch<'_>, ended: Ended<'_>) {
        let ops = batch.len() as u64;
        let entry = self.begin_entry(books, slot, (batch.suite(), batch.direction()), ops, ended.route);
        let Ended { before, all_done, has_failed, .. } = ended;
        match before {
            None if all_done => {
                entry.done.add(ops);
                entry.input_bytes.add(batch.input_bytes());
            }
            before => entry.add_outcomes(batch, before, has_failed),
        }
    }

    /// Counts a run of columns on an engine. Those that it failed or left pending are its faults.
    pub(crate) fn record_columns(
        &mut self,
        books: &Books,
        slot: &EngineSlot,
        columns: &CheckedColumns<'_>,
        done: usize,
        route: &Route,
    ) {
        let what = (columns.suite(), columns.direction());
        let entry = self.begin_entry(books, slot, what, columns.len() as u64, route);
        entry.input_bytes.add(columns.input_bytes());
        if done == columns.pending() {
            return entry.done.add(done as u64);
        }
        for status in columns.statuses() {
            match status.status() {
                None | Some(OpStatus::Refused(_)) => continue,
                Some(OpStatus::Done) => &entry.done,
                Some(OpStatus::AuthFailed) => &entry.auth_failed,
                Some(OpStatus::BadInput(_)) => &entry.bad_input,
                Some(OpStatus::Pending | OpStatus::EngineFault) => &entry.engine_fault,
            }
            .add(1);
        }
    }

    /// Counts that a batch ran, and its time if it was taken.
    #[inline(always)]
    fn begin_entry(
        &mut self,
        books: &Books,
        slot: &EngineSlot,
        (suite, direction): (Suite, Direction),
        ops: u64,
        route: &Route,
    ) -> &Entry {
        let run = self.run;
        let entry = self.entry(books, slot, SuiteCell::new(suite, direction), suite, direction);
        entry.batches.add(1);
        entry.routes[reason_index(&route.reason)].add(1);
        match run.took {
            Some(took) => entry.time(ops, run.predicted_ns.unwrap_or(route.predicted_ns), took),
            None => entry.untimed.add(1),
        }
        entry
    }

    /// Counts operations that ran alone on an engine and are done, each a batch that was not timed, and their bytes.
    #[cold]
    pub(crate) fn lone_done(
        &mut self,
        books: &Books,
        slot: &EngineSlot,
        way: (Suite, Direction),
        reason: &RouteReason,
        (ops, bytes): (u64, u64),
    ) {
        let entry = self.entry_of(books, slot, way);
        entry.batches.add(ops);
        entry.routes[reason_index(reason)].add(ops);
        entry.untimed.add(ops);
        entry.done.add(ops);
        entry.input_bytes.add(bytes);
    }

    /// Counts a comparison of an engine's answer with another's.
    #[cold]
    pub(crate) fn witness(&mut self, books: &Books, slot: &EngineSlot, way: (Suite, Direction), agrees: bool) {
        let entry = self.entry_of(books, slot, way);
        entry.witnessed.add(1);
        entry.disagreements.add(u64::from(!agrees));
    }

    /// Counts what a comparison took, copies included.
    #[cold]
    pub(crate) fn witness_time(&mut self, books: &Books, slot: &EngineSlot, way: (Suite, Direction), took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.entry_of(books, slot, way).witness_ns.add(ns);
    }

    /// Counts operations that policy or the key table refused, once the batch is through. They are the engine's that
    /// the batch went to.
    #[cold]
    pub(crate) fn refused(&mut self, books: &Books, slot: &EngineSlot, batch: &CheckedBatch<'_>) {
        let refused = outcomes(batch).refused;
        if refused != 0 {
            self.entry_of(books, slot, (batch.suite(), batch.direction())).refused.add(refused);
        }
    }
}

impl Entry {
    /// Counts what a run changed when not simply everything was done. Operations that are still pending are those that
    /// the engine failed, if it did; else their turn is yet to come.
    #[cold]
    fn add_outcomes(&self, batch: &CheckedBatch<'_>, before: Option<Before>, failed: bool) {
        let after = outcomes(batch);
        let bytes_of = |of: fn(OpStatus) -> bool| -> u64 {
            batch.ops().iter().filter(|op| of(op.status)).map(|op| u64::from(op.input.len)).sum()
        };
        let bytes = match &before {
            Some(before) => before.bytes,
            None => bytes_of(|status| !matches!(status, OpStatus::Refused(_))),
        };
        let (left, waiting) = match failed {
            true => (batch.ops().iter().filter(|op| op.status.is_pending()).count(), 0),
            false => (0, bytes_of(OpStatus::is_pending)),
        };
        let earlier = before.map_or(Outcomes::default(), |before| before.outcomes);
        self.done.add(after.done.saturating_sub(earlier.done));
        self.auth_failed.add(after.authentication_failed.saturating_sub(earlier.authentication_failed));
        self.bad_input.add(after.bad_input.saturating_sub(earlier.bad_input));
        self.engine_fault.add(after.engine_fault.saturating_sub(earlier.engine_fault) + left as u64);
        self.input_bytes.add(bytes.saturating_sub(waiting));
    }
}

/// The batch's operations by status; those still pending are not counted.
fn outcomes(batch: &CheckedBatch<'_>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for op in batch.ops() {
        match op.status {
            OpStatus::Pending => {}
            OpStatus::Done => outcomes.done += 1,
            OpStatus::AuthFailed => outcomes.authentication_failed += 1,
            OpStatus::BadInput(_) => outcomes.bad_input += 1,
            OpStatus::Refused(_) => outcomes.refused += 1,
            OpStatus::EngineFault => outcomes.engine_fault += 1,
        }
    }
    outcomes
}
