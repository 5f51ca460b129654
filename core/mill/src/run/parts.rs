//! A large batch on one engine in parts, each on a core that has nothing else to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_contract::columns::PreparedColumn;
use ciphermill_contract::{CheckedBatch, CheckedColumns, Cost, Direction, EngineQueue, PreparedKey, Result, Suite};
use ciphermill_router::split::PARTS_MAX;
use ciphermill_router::{Line, Split, size_class, split};

use super::batch_run::BatchRun;
use super::context::Choice;
use super::route::Shape;
use super::runner::Runner;
use crate::cell::CostCell;
use crate::engines::EngineSlot;
use crate::panics::caught;

/// Batches whose best engine takes fewer times the waking of a thread are not looked at for being split or shared.
pub(super) const SPLIT_FROM_WAKEUPS: f64 = 2.0;

/// How a large batch of either form is split over the cores that have nothing to do, if that pays.
pub(super) fn split_of(run: &BatchRun<'_>, batch: &impl Shape, choice: &Choice) -> Option<Split> {
    if !run.bounds.splits || choice.route.predicted_ns < SPLIT_FROM_WAKEUPS * run.runner.state.costs.wakeup_ns() {
        return None;
    }
    let correction = run.slot(choice.route.engine).learned.correction(choice.cell);
    let cost = choice.cost.scaled(correction.factor());
    let plan = run.set.plan(batch.suite(), batch.direction());
    let step = plan.iter().find(|candidate| candidate.engine == choice.route.engine)?.step;
    split_over_cores(run.runner, (batch.op_count(), batch.input_bytes()), (cost, step))
}

/// The same for operations and bytes whose engine has this cost, for steps of so many operations.
pub(super) fn split_over_cores(runner: &Runner, (ops, bytes): (u64, u64), (cost, step): (Cost, u16)) -> Option<Split> {
    let idle = runner.workers.idle();
    let wakeup_ns = runner.state.costs.wakeup_ns();
    if idle == 0 || ops < 2 || cost.predict_ns(ops, bytes) < SPLIT_FROM_WAKEUPS * wakeup_ns {
        return None;
    }
    let mut lines = vec![Line { engine: 0, cost, start_ns: wakeup_ns, step }; idle.min(PARTS_MAX - 1) + 1];
    lines[0].start_ns = 0.0;
    split(ops, bytes, &lines, wakeup_ns / 2.0)
}

/// Runs a batch in parts, the first on this thread. `None` when its operations lie so that it cannot be cut; else
/// whether no part panicked.
///
/// # Errors
/// The engine could not be used on this thread, and nothing has happened.
pub(super) fn run_parts(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    choice: &Choice,
    prepared: &[Option<&PreparedKey>],
    split: &Split,
) -> Result<Option<bool>> {
    let way = (batch.suite(), batch.direction());
    let counts: Vec<usize> = split.parts.iter().map(|part| part.ops as usize).collect();
    let (runner, slot) = (run.runner, run.slot(choice.route.engine));
    let own = run.own.queue_on(slot, run.trust())?;
    let mut with_keys = batch.attach_keys(prepared)?;
    let start = Instant::now();
    let ran = with_keys.in_parts(&counts, |parts| side_by_side(runner, slot, own, parts));
    Ok(ran.map(|ran| ran.learn(run, (choice, way), split, start.elapsed())))
}

/// The same for columns.
pub(super) fn run_columns_in_parts(
    run: &mut BatchRun<'_>,
    columns: &mut CheckedColumns<'_>,
    choice: &Choice,
    prepared: PreparedColumn<'_>,
    split: &Split,
) -> Result<Option<bool>> {
    let way = (columns.suite(), columns.direction());
    let counts = counts_of(columns, split.parts.iter().map(|part| part.ops as usize));
    let (runner, slot) = (run.runner, run.slot(choice.route.engine));
    let own = run.own.queue_on(slot, run.trust())?;
    let mut with_keys = columns.attach_keys(prepared)?;
    let start = Instant::now();
    let ran = with_keys.in_parts(&counts, |parts| side_by_side(runner, slot, own, parts));
    Ok(ran.map(|ran| ran.learn(run, (choice, way), split, start.elapsed())))
}

/// Operations of each part, such that it has as many that are pending as are wanted of it.
pub(super) fn counts_of(columns: &CheckedColumns<'_>, wanted: impl ExactSizeIterator<Item = usize>) -> Vec<usize> {
    if columns.pending() == columns.len() {
        return wanted.collect();
    }
    let mut rest = columns.statuses();
    let mut counts: Vec<usize> = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let pending = rest.iter().enumerate().filter(|(_, status)| status.is_pending());
        let count = pending.map(|(index, _)| index + 1).take(wanted).last().unwrap_or(0);
        counts.push(count);
        rest = &rest[count..];
    }
    // What is left out behind the last of them.
    if let Some(last) = counts.last_mut() {
        *last += rest.len();
    }
    counts
}

/// A part of a batch of either form.
trait Part: Shape + Send {
    fn run_on(&mut self, queue: &mut dyn EngineQueue);
}

impl Part for CheckedBatch<'_> {
    fn run_on(&mut self, queue: &mut dyn EngineQueue) {
        queue.run(self);
    }
}

impl Part for CheckedColumns<'_> {
    fn run_on(&mut self, queue: &mut dyn EngineQueue) {
        queue.run_columns(self);
    }
}

/// What became of a batch in parts.
struct Ran {
    /// Whether no part panicked.
    is_well: bool,
    /// The operations and bytes of the first part, and what it took.
    first: Option<(u64, u64, Duration)>,
}

/// Runs the first part on this thread's own queue, and each other on a thread of the mill.
fn side_by_side<P: Part>(runner: &Runner, slot: &EngineSlot, own: &mut dyn EngineQueue, parts: Vec<P>) -> Ran {
    let policy = &runner.state.policy.trust;
    let is_well = AtomicBool::new(true);
    let run_part = |queue: &mut dyn EngineQueue, part: &mut P| {
        let is_through = caught(|| part.run_on(queue)).is_some();
        if !is_through {
            is_well.store(false, Ordering::Relaxed);
        }
        is_through
    };
    let mut parts = parts.into_iter();
    let mut here = parts.next();
    let mut first = None;
    let others = parts.map(|mut part| {
        let run_part = &run_part;
        move || {
            runner.with_context(|context| {
                let (_, theirs, _) = context.begin(&runner.state);
                // Without a queue the part's operations stay pending: the engine's fault, as everywhere.
                if let Ok(queue) = theirs.queue_on(slot, policy)
                    && !run_part(queue, &mut part)
                {
                    theirs.close(slot);
                }
            });
        }
    });
    let here = || {
        let start = Instant::now();
        if let Some(part) = &mut here {
            run_part(own, part);
            first = Some((part.op_count(), part.input_bytes(), start.elapsed()));
        }
    };
    runner.workers.run_side_by_side(here, others.collect());
    Ran { is_well: is_well.load(Ordering::Relaxed), first }
}

impl Ran {
    /// Takes in what all parts took, and what the first did. Returns whether none panicked.
    fn learn(
        self,
        run: &mut BatchRun<'_>,
        (choice, (suite, direction)): (&Choice, (Suite, Direction)),
        split: &Split,
        took: Duration,
    ) -> bool {
        run.own.recorder.took_in_parts(took, split.predicted_ns);
        if let Some((ops, bytes, took)) = self.first {
            let (engine, class) = (choice.route.engine, size_class(ops, bytes));
            let cost = run.set.cost_on((suite, direction), engine, class, ops);
            let (cell, learned) = (CostCell { class, ..choice.cell }, &run.slot(engine).learned);
            learned.observe(cell, cost.predict_ns(ops, bytes), took.as_nanos() as f64, choice.sample());
        }
        self.is_well
    }
}
