//! A batch on an engine that can fail: from a copy, on one of the engine's own threads, waited for as long as the policy
//! allows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::columns::{OwnedColumns, PreparedColumn};
use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::{
    CheckedBatch, CheckedColumns, EngineQueue, Error, KeyForm, KeyId, OpStatus, QueueHint, Reason, Result,
};
use ciphermill_keys::{KeyEntry, KeyLease};

use super::batch_run::BatchRun;
use super::context::Choice;
use super::copies::{Copied, copy_pending, wiped};
use super::prepare::{Prepared, Preparer, refusal};
use super::references::{self, Checked};
use super::replay::learn;
use crate::engines::{DriverQueue, EngineSlot, Lost, Trouble};
use crate::policy::TrustPolicy;

/// The longest that a caller waits for an engine that can fail.
const STALL_MAX: Duration = Duration::from_secs(600);

/// Runs the pending operations; returns how many still are, and excludes the engine for them.
///
/// # Errors
/// There is no memory for the copy; nothing has happened.
pub(super) fn run_isolated(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    choice: &Choice,
    lease: Option<&KeyLease<'_>>,
) -> Result<usize> {
    let engine = choice.route.engine;
    let (slot, policy) = (run.slot(engine), run.trust());
    let arena = |len| slot.ask(policy, |engine| Ok(engine.arena(len))).ok().flatten();
    let mut copied = copy_pending(batch, |_| true, arena)?;
    // An engine that hangs keeps these keys and no other: a lease that never ends would keep all that are destroyed
    // from then on.
    let pins = Pins::of(lease, copied.batch.ops.iter().map(|op| op.key));
    let (own_slot, own_policy, start) = (Arc::clone(slot), *policy, Instant::now());
    let timeout = time_allowed(choice.route.predicted_ns, batch.len(), slot, policy);
    let came_back = slot.drivers.call(slot.name(), choice.route.predicted_ns, timeout, move |queue| {
        let ran = run_copy(&own_slot, &own_policy, queue, &pins, &mut copied);
        (copied, ran)
    });
    let name = slot.name();
    match came_back {
        Ok((mut copied, Ok(Ran { lacking, checked }))) => {
            if lacking.count == 0 {
                learn(run, choice, slot, (batch.len(), batch.input_bytes()), start.elapsed());
            }
            let is_right = references::verify(run, batch, &mut copied, &checked, engine)?;
            let left = copied.write_back(batch);
            if is_right && left > lacking.count {
                slot.health.faulty(name, policy);
                run.exclude(engine, Error::fault(name, FaultKind::Unfinished));
            } else if let Some(error) = lacking.error.filter(|_| is_right) {
                run.exclude_lacking(engine, error);
            }
        }
        Ok((_, Err(error))) => {
            slot.health.quarantine(name, Trouble::Errors, policy);
            run.exclude(engine, error);
        }
        Err(lost) => run.exclude(engine, fault_of(slot, policy, lost)),
    }
    Ok(batch.ops().iter().filter(|op| op.status.is_pending()).count())
}

/// Runs columns, from a copy of them as they lie. On return those are pending that the engine did not end. `false`, and
/// nothing has happened, when they are for ops: there is no memory for the copy, or the engine cannot have one of the keys.
///
/// # Errors
/// The engine could not be used; nothing has happened. One that is to blame is in quarantine.
pub(super) fn run_columns_isolated(
    run: &mut BatchRun<'_>,
    columns: &mut CheckedColumns<'_>,
    choice: &Choice,
    pins: Pins,
) -> Result<bool> {
    let (slot, policy) = (run.slot(choice.route.engine), run.trust());
    let arena = |len| match slot.ask(policy, |engine| Ok(engine.arena(len))).ok().flatten() {
        Some(arena) if arena.bytes().len() == len => Ok(arena),
        _ => wiped(len as u64),
    };
    let Ok(mut copied) = columns.to_owned_in(arena) else { return Ok(false) };
    let (own_slot, own_policy, start) = (Arc::clone(slot), *policy, Instant::now());
    let timeout = time_allowed(choice.route.predicted_ns, columns.pending(), slot, policy);
    let name = slot.name();
    let came_back = slot.drivers.call(name, choice.route.predicted_ns, timeout, move |queue| {
        let ran = run_columns_copy(&own_slot, &own_policy, queue, &pins, &mut copied);
        (copied, ran)
    });
    match came_back {
        Ok((copied, Ok(true))) => {
            learn(run, choice, slot, (columns.pending(), columns.input_bytes()), start.elapsed());
            copied.write_back(columns);
            Ok(true)
        }
        Ok((_, Ok(false))) => Ok(false),
        Ok((_, Err(error))) => {
            slot.health.quarantine(name, Trouble::Errors, policy);
            Err(error)
        }
        Err(lost) => Err(fault_of(slot, policy, lost)),
    }
}

/// What a batch failed with that did not come back. An engine that is to blame goes into quarantine.
fn fault_of(slot: &EngineSlot, policy: &TrustPolicy, lost: Lost) -> Error {
    let kind = match lost {
        Lost::Trouble(trouble) => {
            slot.health.quarantine(slot.name(), trouble, policy);
            if trouble == Trouble::Panic { FaultKind::Panicked } else { FaultKind::Stalled }
        }
        Lost::Busy => FaultKind::Unavailable,
    };
    Error::fault(slot.name(), kind)
}

/// How long a caller waits for so many operations that should take so many nanoseconds: ten times that, or as long as the engine says that
/// one may take.
fn time_allowed(predicted_ns: f64, ops: usize, slot: &EngineSlot, policy: &TrustPolicy) -> Duration {
    let allowed_ns = predicted_ns * f64::from(policy.stall_factor);
    let allowed = Duration::try_from_secs_f64(allowed_ns / 1e9).unwrap_or(STALL_MAX);
    let patience = slot.engine.patience().unwrap_or_default().saturating_mul(u32::try_from(ops).unwrap_or(u32::MAX));
    allowed.max(patience).clamp(policy.stall_min.min(STALL_MAX), STALL_MAX)
}

/// Keys of operations that run on another thread, kept until these pins are dropped.
pub(super) struct Pins {
    /// One for each run of operations with the same key; `None` for keys that are gone.
    keys: Vec<Option<Arc<KeyEntry>>>,
    /// For each operation the index of its key; none for suites without keys.
    of: Vec<u32>,
}

impl Pins {
    /// Those of operations with these keys.
    pub(super) fn of(lease: Option<&KeyLease<'_>>, keys: impl ExactSizeIterator<Item = KeyId>) -> Pins {
        let mut pins = Pins { keys: Vec::new(), of: Vec::new() };
        let Some(lease) = lease else { return pins };
        pins.of.reserve_exact(keys.len());
        let mut last = KeyId::NONE;
        for key in keys {
            if key != last || pins.keys.is_empty() {
                pins.keys.push(lease.pin(key));
                last = key;
            }
            pins.of.push(pins.keys.len() as u32 - 1);
        }
        pins
    }

    /// Each operation's key.
    fn entries(&self) -> impl Iterator<Item = Option<&KeyEntry>> {
        self.pinned().map(|entry| entry.map(Arc::as_ref))
    }

    fn pinned(&self) -> impl Iterator<Item = Option<&Arc<KeyEntry>>> {
        self.of.iter().map(|index| self.keys[*index as usize].as_ref())
    }
}

/// Operations whose key is a name that says nothing to the engine. They are left pending: another engine may have that key.
#[derive(Default)]
struct Lacking {
    count: usize,
    /// What the engine said of the last of them.
    error: Option<Error>,
}

/// What became of a copy.
#[derive(Default)]
struct Ran {
    lacking: Lacking,
    checked: Vec<Checked>,
}

/// Runs a copy of operations on an engine; each gets a status, except that the engine may leave some pending, and those are left so whose
/// key it does not have.
///
/// # Errors
/// The engine could not be opened.
fn run_copy(
    slot: &EngineSlot,
    policy: &TrustPolicy,
    queue: &mut DriverQueue,
    pins: &Pins,
    copied: &mut Copied,
) -> Result<Ran> {
    let mut batch = copied.batch.as_batch().check()?;
    let suite = batch.suite();
    let queue = opened(slot, queue)?;
    if !suite.needs_key() {
        queue.run(&mut batch);
        return Ok(Ran::default());
    }
    let mut preparer = Preparer::new(slot, policy, suite);
    preparer.prepare(pins.entries().flatten());
    let mut prepared = Prepared::with_capacity(batch.len());
    let (mut lacking, mut places, mut checked) = (Lacking::default(), Vec::new(), Vec::new());
    for (index, entry) in pins.pinned().enumerate() {
        let Some(entry) = entry else {
            batch.set_status(index, OpStatus::Refused(Reason::KeyUnknown));
            prepared.push(None);
            continue;
        };
        let is_reference = entry.form() == KeyForm::Reference;
        let made = preparer.get(entry).and_then(|key| {
            let half = if is_reference { slot.engine.public_half(key, suite) } else { None };
            if half.is_some_and(|half| !entry.is_same_key(half)) {
                tracing::warn!(engine = slot.name(), "another key has the name that a reference says: it is not used");
                return Err(Error::key(suite, KeyProblem::Parameters));
            }
            checked.extend(half.map(|_| (index, Arc::clone(entry))));
            Ok(key)
        });
        let made = made.map_err(|error| {
            let status = refusal(&error);
            if is_reference && matches!(error, Error::Refused(_)) {
                places.push(index);
                lacking.error = Some(error);
            }
            status
        });
        prepared.push(made.map_err(|status| batch.set_status(index, status)).ok());
    }
    queue.run(&mut batch.attach_keys(&prepared)?);
    lacking.count = places.len();
    places.into_iter().for_each(|index| batch.set_status(index, OpStatus::Pending));
    Ok(Ran { lacking, checked })
}

/// Runs a copy of columns on an engine, under one key or as many as operations. `false`, and nothing has happened, when it
/// cannot have one of the keys: why, and whose fault that is, ops find out for each key.
///
/// # Errors
/// The engine could not be opened.
fn run_columns_copy(
    slot: &EngineSlot,
    policy: &TrustPolicy,
    queue: &mut DriverQueue,
    pins: &Pins,
    copied: &mut OwnedColumns,
) -> Result<bool> {
    let mut columns = copied.as_checked();
    let suite = columns.suite();
    let queue = opened(slot, queue)?;
    let mut preparer = Preparer::new(slot, policy, suite);
    preparer.prepare(pins.entries().flatten());
    let each: Option<Vec<_>> = pins.entries().map(|entry| preparer.get(entry?).ok().map(Some)).collect();
    let Some(each) = each else { return Ok(false) };
    let prepared = match each.as_slice() {
        [] => PreparedColumn::None,
        [Some(one)] => PreparedColumn::One(one),
        each => PreparedColumn::Each(each),
    };
    queue.run_columns(&mut columns.attach_keys(prepared)?);
    Ok(true)
}

/// The driver's queue, opened when first needed.
fn opened<'q>(slot: &EngineSlot, queue: &'q mut DriverQueue) -> Result<&'q mut dyn EngineQueue> {
    let open = match queue.take() {
        Some(open) => open,
        None => slot.engine.queue(QueueHint::default())?,
    };
    Ok(queue.insert(open).as_mut())
}
