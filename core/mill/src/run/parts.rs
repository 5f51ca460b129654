//! A large batch on one engine in parts, each on a core that has nothing else to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ciphermill_contract::{CheckedBatch, Cost, EngineQueue, PreparedKey, Result};
use ciphermill_router::split::PARTS_MAX;
use ciphermill_router::{Line, Split, size_class, split};

use super::batch_run::BatchRun;
use super::context::Choice;
use super::runner::Runner;
use crate::cell::CostCell;
use crate::panics::caught;

/// Batches whose best engine takes fewer times the waking of a thread are not looked at for being split or shared.
pub(super) const SPLIT_FROM_WAKEUPS: f64 = 2.0;

/// How a large batch is split over the cores that have nothing to do, if that pays.
pub(super) fn split_of(run: &BatchRun<'_>, batch: &CheckedBatch<'_>, choice: &Choice) -> Option<Split> {
    let correction = run.slot(choice.route.engine).learned.correction(choice.cell);
    split_over_cores(run.runner, (batch.len() as u64, batch.input_bytes()), choice.cost.scaled(correction.factor()))
}

/// The same for operations and bytes whose engine has this cost.
pub(super) fn split_over_cores(runner: &Runner, (ops, bytes): (u64, u64), cost: Cost) -> Option<Split> {
    let idle = runner.workers.idle();
    let wakeup_ns = runner.state.costs.wakeup_ns();
    if idle == 0 || ops < 2 || cost.predict_ns(ops, bytes) < SPLIT_FROM_WAKEUPS * wakeup_ns {
        return None;
    }
    let mut lines = vec![Line { engine: 0, cost, start_ns: wakeup_ns }; idle.min(PARTS_MAX - 1) + 1];
    lines[0].start_ns = 0.0;
    split(ops, bytes, &lines, wakeup_ns / 2.0)
}

/// Runs a batch in parts, the first on this thread. `None` when its operations lie so that it cannot be cut; else
/// whether no part panicked.
pub(super) fn run_parts(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    choice: &Choice,
    prepared: &[Option<&PreparedKey>],
    split: &Split,
) -> Result<Option<bool>> {
    let counts: Vec<usize> = split.parts.iter().map(|part| part.ops as usize).collect();
    let (runner, slot, policy) = (run.runner, run.slot(choice.route.engine), run.trust());
    let own = run.own.queue_on(slot, policy)?;
    let mut with_keys = batch.attach_keys(prepared)?;
    let is_well = AtomicBool::new(true);
    let run_part = |queue: &mut dyn EngineQueue, part: &mut CheckedBatch<'_>| {
        if caught(|| queue.run(part)).is_none() {
            is_well.store(false, Ordering::Relaxed);
        }
    };
    let start = Instant::now();
    let first_part_took = with_keys.in_parts(&counts, |parts| {
        let mut parts = parts.into_iter();
        let mut first = parts.next();
        let mut took = None;
        let others = parts.map(|mut part| {
            let run_part = &run_part;
            move || {
                runner.with_context(|context| {
                    let (_, theirs, _) = context.begin(&runner.state);
                    // Without a queue the part's operations stay pending: the engine's fault, as everywhere.
                    if let Ok(queue) = theirs.queue_on(slot, policy) {
                        run_part(queue, &mut part);
                    }
                });
            }
        });
        let here = || {
            let start = Instant::now();
            if let Some(part) = &mut first {
                run_part(own, part);
                took = Some((part.len() as u64, part.input_bytes(), start.elapsed()));
            }
        };
        runner.workers.run_side_by_side(here, others.collect());
        took
    });
    let Some(took) = first_part_took else { return Ok(None) };
    run.own.recorder.took_in_parts(start.elapsed(), split.predicted_ns);
    if let Some((ops, bytes, took)) = took {
        let (suite, direction, class) = (batch.suite(), batch.direction(), size_class(ops, bytes));
        let cost = run.set.cost_on(suite, direction, choice.route.engine, class);
        let cell = CostCell { class, ..choice.cell };
        slot.learned.observe(cell, cost.predict_ns(ops, bytes), took.as_nanos() as f64, choice.sample());
    }
    Ok(Some(is_well.load(Ordering::Relaxed)))
}
