//! Witnesses: now and then what an engine answered is checked on another: computed again and compared, or, where no two
//! answers are alike, taken back.

use std::time::{Duration, Instant};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Batch, CheckedBatch, Direction, Error, OpStatus, Result, Suite};
use ciphermill_keys::KeyLease;
use ciphermill_router::size_class;

use super::batch_run::BatchRun;
use super::context::Choice;
use super::copies::{Copied, Verdict, copy_pending};
use super::prepare::{Prepared, Preparer};
use crate::cell::CostCell;
use crate::engines::Trouble;
use crate::panics::caught;
use crate::report::SelfTestState;

/// Which way a witness runs. A signature is verified, with the public half of the key that made it, and what was
/// encapsulated or encrypted is taken back where the batch names private keys; with public ones nobody can.
fn way_of_check(batch: &CheckedBatch<'_>) -> (Suite, Direction) {
    let (suite, direction) = (batch.suite(), batch.direction());
    (suite, if suite.is_randomized(direction) { Direction::Decrypt } else { direction })
}

/// Whether this batch is one of those that are checked. Random bytes and generated keys are not: nobody can tell right ones
/// from wrong.
#[inline]
pub(super) fn is_due(run: &BatchRun<'_>, suite: Suite) -> bool {
    let every = run.trust().witness_every;
    every != 0 && run.tick.is_multiple_of(every) && !matches!(suite, Suite::Random | Suite::Generate(_))
}

/// A copy of all that is about to be run, from which it could be run again, and the time that took. `None` when there is no room for one, in
/// memory or in a single copy (64 MiB): such a batch is run without a witness rather than not at all.
#[cold]
pub(super) fn inputs(batch: &CheckedBatch<'_>) -> Option<(Copied, Duration)> {
    let start = Instant::now();
    let pending = batch.ops().iter().filter(|op| op.status.is_pending()).count();
    let copied = copy_pending(batch, |_| true, |_| None);
    let copied = copied.inspect_err(|error| tracing::warn!(%error, "a batch goes without its witness")).ok()?;
    (copied.from.len() == pending).then(|| (copied, start.elapsed()))
}

/// Compares what an engine answered with what another makes of the same `inputs`. When the engine was wrong, all
/// its work on this batch is undone and it goes into quarantine.
///
/// Returns how many operations are to be run elsewhere; `left` when the answers agree or nobody could be asked.
#[cold]
pub(super) fn compare(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    mut inputs: Copied,
    choice: &Choice,
    lease: Option<&KeyLease<'_>>,
    left: usize,
) -> Result<usize> {
    let accused = choice.route.engine;
    let shape = (batch.len(), batch.input_bytes());
    let Some(witness) = other_engine(run, way_of_check(batch), shape, &[accused]) else { return Ok(left) };
    let policy = *run.trust();
    let stride = inputs.batch.ops.len().div_ceil(policy.witness_ops_max.max(1) as usize).max(1);
    let phase = (run.tick / policy.witness_every.max(1)) as usize % stride;
    let verdict = ask_witness(run, batch, &mut inputs, |index| index % stride == phase, witness, lease)?;
    if verdict != Verdict::Unknown {
        let way = (batch.suite(), batch.direction());
        run.own.recorder.witness(&run.runner.state.metrics, run.slot(accused), way, verdict == Verdict::Agrees);
    }
    let Verdict::Differs(op) = verdict else { return Ok(left) };
    let (slot, witness_slot) = (run.slot(accused), run.slot(witness));
    tracing::error!(
        engine = slot.name(), witness = witness_slot.name(), suite = %batch.suite(), op, "answers differ"
    );
    if !is_wrong(run, batch, &mut inputs, op, (accused, witness), lease)? {
        witness_slot.health.quarantine(witness_slot.name(), Trouble::WrongResult, &policy);
        return Ok(left);
    }
    slot.health.quarantine(slot.name(), Trouble::WrongResult, &policy);
    run.exclude(accused, Error::fault(slot.name(), FaultKind::WrongResult));
    inputs.restore(batch);
    // What was lost on this run is there again.
    run.progress.lost = batch.ops().iter().filter(|op| op.status == OpStatus::EngineFault).count();
    Ok(inputs.from.len())
}

/// Whether the first of two engines that disagree over an operation is the wrong one: by their known-answer tests,
/// else by a third engine's answer, else by their kinds; the reference is believed most.
fn is_wrong(
    run: &mut BatchRun<'_>,
    batch: &CheckedBatch<'_>,
    inputs: &mut Copied,
    op: usize,
    (accused, witness): (usize, usize),
    lease: Option<&KeyLease<'_>>,
) -> Result<bool> {
    if let Some(wrong) = failed_alone(run, batch.suite(), (accused, witness)) {
        return Ok(wrong);
    }
    let bytes = batch.input_bytes();
    if let Some(third) = other_engine(run, way_of_check(batch), (batch.len(), bytes), &[accused, witness]) {
        let at = inputs.from.iter().position(|index| *index as usize == op);
        let verdict = ask_witness(run, batch, inputs, |index| Some(index) == at, third, lease)?;
        if verdict != Verdict::Unknown {
            return Ok(verdict != Verdict::Agrees);
        }
    }
    Ok(is_less_believed(run, accused, witness))
}

/// Whether the first of two engines fails the suite's known-answer test and the second does not, or the other way round.
pub(super) fn failed_alone(run: &BatchRun<'_>, suite: Suite, (first, second): (usize, usize)) -> Option<bool> {
    let failed = |index: usize| run.slot(index).test(suite, run.trust()) == SelfTestState::Failed;
    let (first_failed, second_failed) = (failed(first), failed(second));
    (first_failed != second_failed).then_some(first_failed)
}

/// Whether the first engine is of a kind that is not believed more than the second's.
pub(super) fn is_less_believed(run: &BatchRun<'_>, first: usize, second: usize) -> bool {
    let kind = |index: usize| run.slot(index).engine.info().kind as u8;
    kind(first) >= kind(second)
}

/// The fastest engine on this processor beside `but` that may run the batch; a pin does not bind witnesses.
pub(super) fn other_engine(
    run: &BatchRun<'_>,
    (suite, direction): (Suite, Direction),
    (ops, bytes): (usize, u64),
    but: &[usize],
) -> Option<usize> {
    let (ops, class) = (ops as u64, size_class(ops as u64, bytes));
    let cell = CostCell::new(suite, direction, class);
    run.set
        .plan(suite, direction)
        .iter()
        .filter(|figures| {
            let candidate = run.set.as_of_now(figures, cell, ops, run.progress.excluded);
            candidate.trusted
                && run.bounds.kinds.contains(candidate.kind)
                && !candidate.kind.can_fail()
                && candidate.input_len_max >= bytes
                && !but.contains(&candidate.engine)
        })
        .map(|figures| (figures.engine, run.set.figures(figures, cell, ops).predict_ns(ops, bytes)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(engine, _)| engine)
}

/// What an engine on this processor thinks of a batch's answers to those `inputs` that `wanted` takes.
fn ask_witness(
    run: &mut BatchRun<'_>,
    batch: &CheckedBatch<'_>,
    inputs: &mut Copied,
    wanted: impl Fn(usize) -> bool,
    engine: usize,
    lease: Option<&KeyLease<'_>>,
) -> Result<Verdict> {
    if !batch.suite().is_randomized(batch.direction()) {
        let mut again = inputs.select(wanted)?;
        let ran = run_witness(run, &mut again, engine, lease)?;
        return Ok(if ran { again.verdict_on(batch) } else { Verdict::Unknown });
    }
    let mut back = match inputs.way_back(batch, wanted)? {
        Ok(back) => back,
        Err(op) => return Ok(Verdict::Differs(op)),
    };
    let ran = run_witness(run, &mut back, engine, lease)?;
    Ok(if ran { back.verdict_of_way_back(batch, inputs) } else { Verdict::Unknown })
}

/// Runs operations on an engine on this processor; false when that cannot be used.
fn run_witness(
    run: &mut BatchRun<'_>,
    copied: &mut Copied,
    engine: usize,
    lease: Option<&KeyLease<'_>>,
) -> Result<bool> {
    run_ops_of_witness(run, copied.batch.as_batch(), engine, lease)
}

/// The same for operations that lie anywhere.
pub(super) fn run_ops_of_witness(
    run: &mut BatchRun<'_>,
    batch: Batch<'_>,
    engine: usize,
    lease: Option<&KeyLease<'_>>,
) -> Result<bool> {
    let (slot, policy) = (run.slot(engine), run.trust());
    let mut batch = batch.check()?;
    let suite = batch.suite();
    let mut prepared = Prepared::new();
    if let Some(lease) = lease {
        let mut preparer = Preparer::new(slot, policy, suite);
        // Keys that this kind of engine may not hold are left out.
        let kind = slot.engine.info().kind;
        let held = |key| lease.entry(key).filter(|entry| entry.engines().contains(kind));
        let entries: Vec<_> = batch.ops().iter().map(|op| held(op.key)).collect();
        preparer.prepare(entries.iter().flatten().copied());
        for (index, entry) in entries.into_iter().enumerate() {
            let key = entry.and_then(|entry| preparer.before(entry));
            if key.is_none() {
                batch.set_status(index, OpStatus::EngineFault);
            }
            prepared.push(key);
        }
    }
    let Ok(queue) = run.own.queue_on(slot, policy) else { return Ok(false) };
    let mut with_keys = batch.attach_keys(&prepared)?;
    if caught(|| queue.run(&mut with_keys)).is_none() {
        run.own.close(slot);
        slot.health.quarantine(slot.name(), Trouble::Panic, policy);
        return Ok(false);
    }
    Ok(true)
}
