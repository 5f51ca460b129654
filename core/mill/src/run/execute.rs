//! One batch on one engine, and what is made of its outcome: on this thread for engines on this processor, from a copy
//! and on the engine's own thread for those that can fail.

use std::time::Instant;

use ciphermill_contract::{CheckedBatch, PreparedKey, Result};
use ciphermill_keys::KeyLease;

use super::batch_run::BatchRun;
use super::context::Choice;
use super::isolated::run_isolated;
use super::parts::{run_parts, split_of};
use super::replay::{after_panic, after_run, ask_again, asked_lens, learn};
use super::witness;
use crate::metrics::{Before, Ended, TIMED_FROM_NS, span_around, span_leave};
use crate::panics::caught;

/// Of batches that are predicted to take less than [`TIMED_FROM_NS`], one of so many is timed.
pub(super) const TIMED_EVERY: u32 = 16;

/// Runs the pending operations on the chosen engine. Returns how many are to be run elsewhere; those are pending, and the
/// engine is excluded for them.
///
/// # Errors
/// The engine could not be used at all, and nothing has happened.
pub(super) fn run_once(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    choice: &Choice,
    lease: Option<&KeyLease<'_>>,
    prepared: &[Option<&PreparedKey>],
) -> Result<usize> {
    let engine = choice.route.engine;
    let (slot, books) = (run.slot(engine), &run.runner.state.metrics);
    let before = begin_record(run, batch);
    let inputs = if witness::is_due(run, batch.suite()) { witness::inputs(batch) } else { None };
    let span = span_around(batch.suite(), batch.direction(), (batch.len(), batch.input_bytes()), &choice.route);
    let mut left = if slot.is_isolated() {
        run_isolated(run, batch, choice, lease)?
    } else {
        run_here(run, batch, choice, prepared)?
    };
    if let Some(span) = span {
        span_leave(span);
    }
    if let Some((inputs, copying)) = inputs {
        let start = Instant::now();
        left = witness::compare(run, batch, inputs, choice, lease, left)?;
        let way = (batch.suite(), batch.direction());
        run.own.recorder.witness_time(books, slot, way, copying + start.elapsed());
    }
    if left == 0 {
        slot.health.good();
    } else {
        // A witness may have undone it all.
        run.progress.all_done = false;
    }
    let (route, has_failed) = (&choice.route, run.is_excluded(engine));
    let all_done = run.progress.all_done;
    run.own.recorder.record(books, slot, batch, Ended { route, before, all_done, has_failed });
    run.progress.last = Some(choice.route);
    Ok(left)
}

/// What stands before the run, unless it is the batch's first.
#[inline]
fn begin_record(run: &mut BatchRun<'_>, batch: &CheckedBatch<'_>) -> Option<Before> {
    run.own.recorder.begin();
    run.progress.all_done = false;
    let last = run.progress.last.as_ref()?.engine;
    let replayed = run.is_excluded(last);
    Some(run.own.recorder.begin_again(&run.runner.state.metrics, run.slot(last), batch, replayed))
}

/// Runs a batch on an engine on this processor: on this thread, or a large one in parts.
fn run_here(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    choice: &Choice,
    prepared: &[Option<&PreparedKey>],
) -> Result<usize> {
    if let Some(split) = split_of(run, batch, choice)
        && let Some(is_well) = run_parts(run, batch, choice, prepared, &split)?
    {
        return Ok(if is_well { after_run(run, batch, choice) } else { after_panic(run, batch, choice) });
    }
    let asked = asked_lens(batch);
    let (slot, policy) = (run.slot(choice.route.engine), run.trust());
    let queue = run.own.queue_on(slot, policy)?;
    let is_timed = choice.route.predicted_ns >= TIMED_FROM_NS || run.tick.is_multiple_of(TIMED_EVERY);
    let start = is_timed.then(Instant::now);
    let mut with_keys = batch.attach_keys(prepared)?;
    let ran = caught(|| queue.run(&mut with_keys));
    if let Some(start) = start {
        learn(run, choice, slot, (batch.len(), batch.input_bytes()), start.elapsed());
    }
    if let Some(asked) = asked {
        ask_again(batch, &asked);
    }
    Ok(if ran.is_some() { after_run(run, batch, choice) } else { after_panic(run, batch, choice) })
}
