//! One batch on one engine, and what is made of its outcome: on this thread for engines on this processor, from a copy
//! and on the engine's own thread for those that can fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{
    CheckedBatch, EngineKinds, EngineQueue, Error, KeyMaterial, OpStatus, PreparedKey, QueueHint, Reason, Result, Suite,
};
use ciphermill_keys::{KeyEntry, KeyLease, OwnedKeyLease, PreparedName};

use crate::choose::Choice;
use crate::copies::{Copied, copy_pending};
use crate::dispatch::{Prepared, Way, refusal};
use crate::engines::EngineSlot;
use crate::health::Trouble;
use crate::isolate::{DriverQueue, Lost};

/// Batches that are predicted to take less are timed once in [`TIMED_EVERY`] only: reading the clock twice is a tenth of
/// what they cost.
const TIMED_FROM_NS: f64 = 2_000.0;
const TIMED_EVERY: u32 = 16;

/// The longest that a caller waits for an engine that can fail.
const STALL_MAX: Duration = Duration::from_secs(600);

impl Way<'_> {
    /// Runs the pending operations on the chosen engine. Returns how many are to be run elsewhere; those are pending,
    /// and the engine is excluded for them.
    ///
    /// # Errors
    /// The engine could not be used at all, and nothing has happened.
    pub(crate) fn run_once(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        choice: &Choice,
        lease: Option<&KeyLease<'_>>,
        prepared: &[Option<&PreparedKey>],
        kinds: EngineKinds,
    ) -> Result<usize> {
        let slot = &self.set.slots[choice.route.engine];
        let inputs = if self.witness_is_due(batch) { Some(copy_pending(batch, |_| true)?) } else { None };
        let mut left = if slot.is_isolated() {
            self.run_isolated(batch, choice, slot)?
        } else {
            self.run_here(batch, choice, slot, prepared)?
        };
        if let Some(inputs) = inputs {
            left = self.compare(batch, inputs, choice, lease, kinds, left)?;
        }
        if left == 0 {
            slot.health.good();
        }
        self.last = Some(choice.route);
        Ok(left)
    }

    fn run_here(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        choice: &Choice,
        slot: &EngineSlot,
        prepared: &[Option<&PreparedKey>],
    ) -> Result<usize> {
        let queue = self.open.on(slot)?;
        let is_timed = choice.route.predicted_ns >= TIMED_FROM_NS || self.tick.is_multiple_of(TIMED_EVERY);
        let start = is_timed.then(Instant::now);
        let mut with_keys = batch.attach_keys(prepared)?;
        let ran = catch_unwind(AssertUnwindSafe(|| queue.run(&mut with_keys)));
        if let Some(start) = start {
            self.learn(choice, slot, batch, start.elapsed());
        }
        if ran.is_err() {
            self.open.close(slot);
            slot.health.quarantine(slot.name(), Trouble::Panic, &self.shared.policy.trust);
            self.exclude(choice.route.engine, Error::fault(slot.name(), FaultKind::Panicked));
            return Ok(replayable(batch));
        }
        if batch.ops().iter().all(|op| op.status.is_done()) {
            return Ok(0);
        }
        Ok(self.after_faults(batch, choice, slot))
    }

    /// Looks for operations that the engine did not end or that it failed, and makes those pending whose input is still
    /// there.
    #[cold]
    fn after_faults(&mut self, batch: &mut CheckedBatch<'_>, choice: &Choice, slot: &EngineSlot) -> usize {
        if !batch.ops().iter().any(|op| is_fault(op.status)) {
            return 0;
        }
        slot.health.faulty(slot.name(), &self.shared.policy.trust);
        self.exclude(choice.route.engine, Error::fault(slot.name(), FaultKind::Unfinished));
        replayable(batch)
    }

    fn learn(&self, choice: &Choice, slot: &EngineSlot, batch: &CheckedBatch<'_>, took: Duration) {
        let predicted_ns = choice.cost.predict_ns(batch.len() as u64, batch.input_bytes());
        slot.learned.observe(choice.place, choice.class, predicted_ns, took.as_nanos() as f64, choice.sample());
    }

    fn run_isolated(&mut self, batch: &mut CheckedBatch<'_>, choice: &Choice, slot: &Arc<EngineSlot>) -> Result<usize> {
        let policy = &self.shared.policy.trust;
        let mut copied = copy_pending(batch, |_| true)?;
        let lease = self.shared.keys.lease_owned();
        let predicted_ns = choice.route.predicted_ns;
        let allowed_ns = predicted_ns * f64::from(policy.stall_factor);
        let timeout = Duration::try_from_secs_f64(allowed_ns / 1e9)
            .unwrap_or(STALL_MAX)
            .clamp(policy.stall_min.min(STALL_MAX), STALL_MAX);
        let start = Instant::now();
        let came_back = slot.drivers.call(slot, predicted_ns, timeout, move |slot, queue| {
            let ran = run_copy(slot, queue, &lease, &mut copied);
            (copied, ran)
        });
        let engine = slot.name();
        match came_back {
            Ok((copied, Ok(()))) => {
                self.learn(choice, slot, batch, start.elapsed());
                if copied.write_back(batch) != 0 {
                    slot.health.faulty(engine, policy);
                    self.exclude(choice.route.engine, Error::fault(engine, FaultKind::Unfinished));
                }
            }
            Ok((_, Err(error))) => {
                slot.health.quarantine(engine, Trouble::Errors, policy);
                self.exclude(choice.route.engine, error);
            }
            Err(Lost::Trouble(trouble)) => {
                slot.health.quarantine(engine, trouble, policy);
                let kind = if trouble == Trouble::Panic { FaultKind::Panicked } else { FaultKind::Stalled };
                self.exclude(choice.route.engine, Error::fault(engine, kind));
            }
            Err(Lost::Busy) => self.exclude(choice.route.engine, Error::fault(engine, FaultKind::Unavailable)),
        }
        Ok(batch.ops().iter().filter(|op| op.status.is_pending()).count())
    }
}

/// Whether the engine failed the operation or did not end it.
fn is_fault(status: OpStatus) -> bool {
    matches!(status, OpStatus::Pending | OpStatus::EngineFault)
}

/// Makes those failed operations pending again whose input has not been written over; the others are lost. Returns how
/// many are pending.
fn replayable(batch: &mut CheckedBatch<'_>) -> usize {
    let transforms = batch.suite().transforms();
    let mut count = 0;
    for index in 0..batch.len() {
        let op = batch.ops()[index];
        if !is_fault(op.status) {
            continue;
        }
        let intact = !transforms || op.output != op.input.offset;
        batch.set_status(index, if intact { OpStatus::Pending } else { OpStatus::EngineFault });
        count += usize::from(intact);
    }
    count
}

/// Has the engine prepare the keys of `entries` that it has not prepared for the suite, side by side if it can.
pub(crate) fn prepare_lacking<'l>(
    slot: &EngineSlot,
    name: PreparedName,
    suite: Suite,
    entries: impl Iterator<Item = &'l KeyEntry>,
) {
    let lacking: Vec<&KeyEntry> = entries.filter(|entry| entry.prepared_before(name).is_none()).collect();
    if lacking.len() > 1 {
        KeyEntry::prepare_all(&lacking, name, |materials| slot.engine.prepare_many(materials, suite));
    } else if let Some(entry) = lacking.first() {
        // Who asks for the key hears of a failure.
        let _ = entry.prepared_as(name, |material: &KeyMaterial<'_>| slot.engine.prepare(material, suite));
    }
}

/// Runs a copy of operations on an engine; each gets a status, except that the engine may leave some pending.
///
/// # Errors
/// The engine could not be opened.
pub(crate) fn run_copy(
    slot: &EngineSlot,
    queue: &mut DriverQueue,
    lease: &OwnedKeyLease,
    copied: &mut Copied,
) -> Result<()> {
    let mut batch = copied.batch.as_batch().check()?;
    let suite = batch.suite();
    let open = match queue.take() {
        Some(open) => open,
        None => slot.engine.queue(QueueHint::default())?,
    };
    let queue = queue.insert(open);
    if !suite.needs_key() {
        queue.run(&mut batch);
        return Ok(());
    }
    let name = PreparedName::new(slot.number, suite);
    let keys: Vec<_> = batch.ops().iter().map(|op| op.key).collect();
    prepare_lacking(slot, name, suite, keys.iter().filter_map(|key| lease.entry(*key)));
    let mut prepared = Prepared::with_capacity(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        let made = match lease.entry(key) {
            None => Err(OpStatus::Refused(Reason::KeyUnknown)),
            Some(entry) => entry
                .prepared_as(name, |material: &KeyMaterial<'_>| slot.engine.prepare(material, suite))
                .map_err(|error| refusal(&error)),
        };
        prepared.push(made.map_err(|status| batch.set_status(index, status)).ok());
    }
    let queue: &mut dyn EngineQueue = queue.as_mut();
    queue.run(&mut batch.attach_keys(&prepared)?);
    Ok(())
}
