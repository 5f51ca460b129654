//! One batch on one engine, and what is made of its outcome: on this thread for engines on this processor, from a copy
//! and on the engine's own thread for those that can fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{
    CheckedBatch, Cost, EngineQueue, Error, KeyMaterial, OpStatus, PreparedKey, QueueHint, Reason, Result, Suite,
};
use ciphermill_keys::{KeyEntry, KeyLease, OwnedKeyLease, PreparedName};
use ciphermill_router::split::PARTS_MAX;
use ciphermill_router::{Line, Split, size_class, split};

use crate::choose::Choice;
use crate::copies::{Copied, copy_pending};
use crate::dispatch::{Prepared, Way, refusal};
use crate::engines::EngineSlot;
use crate::health::Trouble;
use crate::isolate::{DriverQueue, Lost};
use crate::metrics::{span_around, span_leave};
use crate::shares::SHARED_FROM_WAKEUPS;

/// Batches that are predicted to take less are timed once in [`TIMED_EVERY`] only: reading the clock twice is a tenth of
/// what they cost.
pub(crate) const TIMED_FROM_NS: f64 = 2_000.0;
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
    ) -> Result<usize> {
        let slot = &self.set.slots[choice.route.engine];
        let before = self.begin_record(batch);
        let inputs = if self.witness_is_due(batch) { self.inputs_for_witness(batch) } else { None };
        let span = span_around(batch, &choice.route);
        let mut left = if slot.is_isolated() {
            self.run_isolated(batch, choice, slot)?
        } else {
            self.run_here(batch, choice, slot, prepared)?
        };
        if let Some(span) = span {
            span_leave(span);
        }
        if let Some((inputs, copying)) = inputs {
            let start = Instant::now();
            left = self.compare(batch, inputs, choice, lease, left)?;
            self.record_witness_time(batch, choice.route.engine, copying + start.elapsed());
        }
        if left == 0 {
            slot.health.good();
        }
        self.record(batch, choice, before, left);
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
        if choice.route.predicted_ns >= SHARED_FROM_WAKEUPS * self.shared.costs.wakeup_ns()
            && let Some(split) = self.split(batch, choice)
            && let Some(is_well) = self.run_parts(batch, choice, slot, prepared, &split)?
        {
            return Ok(if is_well {
                self.after_run(batch, choice, slot)
            } else {
                self.after_panic(batch, choice, slot)
            });
        }
        let queue = self.open.on(slot)?;
        let is_timed = choice.route.predicted_ns >= TIMED_FROM_NS || self.tick.is_multiple_of(TIMED_EVERY);
        let start = is_timed.then(Instant::now);
        let mut with_keys = batch.attach_keys(prepared)?;
        let ran = catch_unwind(AssertUnwindSafe(|| queue.run(&mut with_keys)));
        if let Some(start) = start {
            self.learn(choice, slot, batch, start.elapsed());
        }
        Ok(if ran.is_ok() { self.after_run(batch, choice, slot) } else { self.after_panic(batch, choice, slot) })
    }

    #[inline]
    fn after_run(&mut self, batch: &mut CheckedBatch<'_>, choice: &Choice, slot: &EngineSlot) -> usize {
        if batch.ops().iter().all(|op| op.status.is_done()) {
            self.open.recorder.all_done();
            return 0;
        }
        self.after_faults(batch, choice, slot)
    }

    #[cold]
    fn after_panic(&mut self, batch: &mut CheckedBatch<'_>, choice: &Choice, slot: &EngineSlot) -> usize {
        self.open.close(slot);
        slot.health.quarantine(slot.name(), Trouble::Panic, &self.shared.policy.trust);
        self.exclude(choice.route.engine, Error::fault(slot.name(), FaultKind::Panicked));
        replayable(batch)
    }

    /// How a large batch is shared out over the cores that have nothing to do.
    fn split(&self, batch: &CheckedBatch<'_>, choice: &Choice) -> Option<Split> {
        let correction = self.set.slots[choice.route.engine].learned.correction(choice.place, choice.class);
        self.split_over_cores((batch.len() as u64, batch.input_bytes()), choice.cost.scaled(correction.factor()))
    }

    /// The same for operations and bytes whose engine has this cost, if that pays.
    pub(crate) fn split_over_cores(&self, (ops, bytes): (u64, u64), cost: Cost) -> Option<Split> {
        let idle = self.shared.pool.idle_workers();
        let wakeup_ns = self.shared.costs.wakeup_ns();
        if idle == 0 || ops < 2 || cost.predict_ns(ops, bytes) < SHARED_FROM_WAKEUPS * wakeup_ns {
            return None;
        }
        let mut lines = vec![Line { engine: 0, cost, start_ns: wakeup_ns }; idle.min(PARTS_MAX - 1) + 1];
        lines[0].start_ns = 0.0;
        split(ops, bytes, &lines, wakeup_ns / 2.0)
    }

    /// Runs a batch in parts, the first on this thread. `None` when its operations lie so that it cannot be cut; else
    /// whether no part panicked.
    fn run_parts(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        choice: &Choice,
        slot: &EngineSlot,
        prepared: &[Option<&PreparedKey>],
        split: &Split,
    ) -> Result<Option<bool>> {
        let counts: Vec<usize> = split.parts.iter().map(|part| part.ops as usize).collect();
        let (shared, own) = (self.shared, self.open.on(slot)?);
        let mut with_keys = batch.attach_keys(prepared)?;
        let is_well = AtomicBool::new(true);
        let run = |queue: &mut dyn EngineQueue, part: &mut CheckedBatch<'_>| {
            if catch_unwind(AssertUnwindSafe(|| queue.run(part))).is_err() {
                is_well.store(false, Ordering::Relaxed);
            }
        };
        let start = Instant::now();
        let first_part_took = with_keys.in_parts(&counts, |parts| {
            let mut parts = parts.into_iter();
            let mut first = parts.next();
            let mut took = None;
            let others = parts.map(|mut part| {
                let run = &run;
                move || {
                    let mut queues = shared.idle().pop().unwrap_or_default();
                    let (_, open, _) = queues.begin(shared);
                    // Without a queue the part's operations stay pending: the engine's fault, as everywhere.
                    let is_open = open.on(slot).map(|queue| run(queue, &mut part)).is_ok();
                    if is_open {
                        shared.give_back(queues);
                    }
                }
            });
            let here = || {
                let start = Instant::now();
                if let Some(part) = &mut first {
                    run(own, part);
                    took = Some((part.len() as u64, part.input_bytes(), start.elapsed()));
                }
            };
            shared.pool.run_side_by_side(here, others.collect());
            took
        });
        let Some(took) = first_part_took else { return Ok(None) };
        self.open.recorder.took_in_parts(start.elapsed(), split.predicted_ns);
        if let Some((ops, bytes, took)) = took {
            let class = size_class(ops, bytes);
            let predicted_ns = self.cost_on(batch, choice.route.engine, class).predict_ns(ops, bytes);
            slot.learned.observe(choice.place, class, predicted_ns, took.as_nanos() as f64, choice.sample());
        }
        Ok(Some(is_well.load(Ordering::Relaxed)))
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

    fn learn(&mut self, choice: &Choice, slot: &EngineSlot, batch: &CheckedBatch<'_>, took: Duration) {
        self.open.recorder.took(took);
        let predicted_ns = choice.cost.predict_ns(batch.len() as u64, batch.input_bytes());
        slot.learned.observe(choice.place, choice.class, predicted_ns, took.as_nanos() as f64, choice.sample());
    }

    fn run_isolated(&mut self, batch: &mut CheckedBatch<'_>, choice: &Choice, slot: &Arc<EngineSlot>) -> Result<usize> {
        let policy = &self.shared.policy.trust;
        let mut copied = copy_pending(batch, |_| true, |len| slot.engine.arena(len))?;
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
