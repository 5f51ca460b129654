//! What an engine made of a batch: what is learnt of its time, what it failed, and which of that can be run elsewhere.

use std::time::Duration;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{CheckedBatch, Error, OpStatus, Suite};

use super::batch_run::BatchRun;
use super::context::Choice;
use super::copies::wipe_output;
use crate::engines::{EngineSlot, Trouble};

/// Takes in what a run of so many operations and bytes took.
pub(super) fn learn(
    run: &mut BatchRun<'_>,
    choice: &Choice,
    slot: &EngineSlot,
    (ops, bytes): (usize, u64),
    took: Duration,
) {
    run.own.recorder.took(took);
    let predicted_ns = choice.cost.predict_ns(ops as u64, bytes);
    slot.learned.observe(choice.cell, predicted_ns, took.as_nanos() as f64, choice.sample());
}

/// The outcome of a run on this thread: how many operations are to be run elsewhere.
#[inline]
pub(super) fn after_run(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>, choice: &Choice) -> usize {
    if batch.ops().iter().all(|op| op.status.is_done()) {
        run.progress.all_done = true;
        return 0;
    }
    after_faults(run, batch, choice)
}

/// The same for a run in which the engine panicked.
#[cold]
pub(super) fn after_panic(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>, choice: &Choice) -> usize {
    let slot = run.slot(choice.route.engine);
    run.own.close(slot);
    slot.health.quarantine(slot.name(), Trouble::Panic, run.trust());
    run.exclude(choice.route.engine, Error::fault(slot.name(), FaultKind::Panicked));
    replayable(run, batch)
}

/// Looks for operations that the engine did not end or that it failed, and makes those pending whose input is still
/// there.
#[cold]
fn after_faults(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>, choice: &Choice) -> usize {
    if batch.ops().iter().filter(|op| is_fault(op.status)).count() == run.progress.lost {
        return 0;
    }
    let slot = run.slot(choice.route.engine);
    slot.health.faulty(slot.name(), run.trust());
    run.exclude(choice.route.engine, Error::fault(slot.name(), FaultKind::Unfinished));
    replayable(run, batch)
}

/// Makes those failed operations pending again whose input has not been written over; the others are lost. Returns how
/// many are pending.
fn replayable(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>) -> usize {
    let transforms = batch.suite().transforms();
    let (mut count, mut lost) = (0, 0);
    for index in 0..batch.len() {
        let op = batch.ops()[index];
        if !is_fault(op.status) {
            continue;
        }
        wipe_output(batch, index);
        let intact = !transforms || op.output != op.input.offset;
        batch.set_status(index, if intact { OpStatus::Pending } else { OpStatus::EngineFault });
        *(if intact { &mut count } else { &mut lost }) += 1;
    }
    run.progress.lost = lost;
    count
}

/// Ends every operation of a batch that was left in the middle, as a fault without output.
#[cold]
pub(super) fn give_up(batch: &mut CheckedBatch<'_>) {
    for index in 0..batch.len() {
        if batch.ops()[index].status.is_pending() {
            wipe_output(batch, index);
            batch.set_status(index, OpStatus::EngineFault);
        }
    }
}

/// Whether the engine failed the operation or did not end it.
fn is_fault(status: OpStatus) -> bool {
    matches!(status, OpStatus::Pending | OpStatus::EngineFault)
}

/// How many random bytes each operation asks for; that stands where engines write how many they gave. Every other suite's
/// engines find all that they read in fields that they do not write.
#[inline]
pub(super) fn asked_lens(batch: &CheckedBatch<'_>) -> Option<Vec<u32>> {
    (batch.suite() == Suite::Random).then(|| batch.ops().iter().map(|op| op.output_len).collect())
}

/// Has operations that an engine failed ask for as much as before.
pub(super) fn ask_again(batch: &mut CheckedBatch<'_>, asked: &[u32]) {
    let (ops, ..) = batch.parts();
    for (op, asked) in ops.iter_mut().zip(asked).filter(|(op, _)| is_fault(op.status)) {
        op.output_len = *asked;
    }
}
