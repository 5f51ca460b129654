//! One batch on one engine, and what is made of its outcome: on this thread for engines on this processor, from a copy
//! and on the engine's own thread for those that can fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_contract::error::{Fault, FaultKind};
use ciphermill_contract::{
    CheckedBatch, Cost, EngineQueue, Error, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Reason, Result,
    Suite,
};
use ciphermill_keys::{KeyEntry, KeyLease, PreparedName};
use ciphermill_router::split::PARTS_MAX;
use ciphermill_router::{Line, Split, size_class, split};

use crate::choose::Choice;
use crate::copies::{Copied, copy_pending};
use crate::dispatch::{Prepared, Way, refusal};
use crate::engines::EngineSlot;
use crate::health::Trouble;
use crate::isolate::{DriverQueue, Lost};
use crate::metrics::{span_around, span_leave};
use crate::panics::{caught, wipe_output};
use crate::policy::TrustPolicy;
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
            self.run_isolated(batch, choice, slot, lease)?
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
        let asked = asked_lens(batch);
        let queue = self.open.on(slot, &self.shared.policy.trust)?;
        let is_timed = choice.route.predicted_ns >= TIMED_FROM_NS || self.tick.is_multiple_of(TIMED_EVERY);
        let start = is_timed.then(Instant::now);
        let mut with_keys = batch.attach_keys(prepared)?;
        let ran = caught(|| queue.run(&mut with_keys));
        if let Some(start) = start {
            self.learn(choice, slot, batch, start.elapsed());
        }
        if let Some(asked) = asked {
            ask_again(batch, &asked);
        }
        Ok(if ran.is_some() { self.after_run(batch, choice, slot) } else { self.after_panic(batch, choice, slot) })
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
        self.replayable(batch)
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
        let (shared, policy) = (self.shared, &self.shared.policy.trust);
        let own = self.open.on(slot, policy)?;
        let mut with_keys = batch.attach_keys(prepared)?;
        let is_well = AtomicBool::new(true);
        let run = |queue: &mut dyn EngineQueue, part: &mut CheckedBatch<'_>| {
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
                let run = &run;
                move || {
                    let mut queues = shared.idle().pop().unwrap_or_default();
                    let (_, open, _) = queues.begin(shared);
                    // Without a queue the part's operations stay pending: the engine's fault, as everywhere.
                    let is_open = open.on(slot, policy).map(|queue| run(queue, &mut part)).is_ok();
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
        if batch.ops().iter().filter(|op| is_fault(op.status)).count() == self.lost {
            return 0;
        }
        slot.health.faulty(slot.name(), &self.shared.policy.trust);
        self.exclude(choice.route.engine, Error::fault(slot.name(), FaultKind::Unfinished));
        self.replayable(batch)
    }

    /// Makes those failed operations pending again whose input has not been written over; the others are lost. Returns
    /// how many are pending.
    fn replayable(&mut self, batch: &mut CheckedBatch<'_>) -> usize {
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
        self.lost = lost;
        count
    }

    fn learn(&mut self, choice: &Choice, slot: &EngineSlot, batch: &CheckedBatch<'_>, took: Duration) {
        self.open.recorder.took(took);
        let predicted_ns = choice.cost.predict_ns(batch.len() as u64, batch.input_bytes());
        slot.learned.observe(choice.place, choice.class, predicted_ns, took.as_nanos() as f64, choice.sample());
    }

    fn run_isolated(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        choice: &Choice,
        slot: &Arc<EngineSlot>,
        lease: Option<&KeyLease<'_>>,
    ) -> Result<usize> {
        let policy = &self.shared.policy.trust;
        let arena = |len| slot.ask(policy, |engine| Ok(engine.arena(len))).ok().flatten();
        let mut copied = copy_pending(batch, |_| true, arena)?;
        // An engine that hangs keeps these keys and no other: a lease that never ends would keep all that are destroyed
        // from then on.
        let pins = Pins::of(lease, &copied.batch.ops);
        let predicted_ns = choice.route.predicted_ns;
        let allowed_ns = predicted_ns * f64::from(policy.stall_factor);
        let timeout = Duration::try_from_secs_f64(allowed_ns / 1e9)
            .unwrap_or(STALL_MAX)
            .clamp(policy.stall_min.min(STALL_MAX), STALL_MAX);
        let (start, own_policy) = (Instant::now(), *policy);
        let came_back = slot.drivers.call(slot, predicted_ns, timeout, move |slot, queue| {
            let ran = run_copy(slot, &own_policy, queue, &pins, &mut copied);
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

/// How many random bytes each operation asks for; that stands where engines write how many they gave. Every other suite's
/// engines find all that they read in fields that they do not write.
#[inline]
fn asked_lens(batch: &CheckedBatch<'_>) -> Option<Vec<u32>> {
    (batch.suite() == Suite::Random).then(|| batch.ops().iter().map(|op| op.output_len).collect())
}

/// Has operations that an engine failed ask for as much as before.
fn ask_again(batch: &mut CheckedBatch<'_>, asked: &[u32]) {
    let (ops, ..) = batch.parts();
    for (op, asked) in ops.iter_mut().zip(asked).filter(|(op, _)| is_fault(op.status)) {
        op.output_len = *asked;
    }
}

/// An engine that prepares keys for one suite.
pub(crate) struct Preparer<'p> {
    slot: &'p EngineSlot,
    policy: &'p TrustPolicy,
    name: PreparedName,
    suite: Suite,
    /// What the engine failed with as a whole: it is not asked again.
    fault: Option<Error>,
}

impl<'p> Preparer<'p> {
    pub(crate) fn new(slot: &'p EngineSlot, policy: &'p TrustPolicy, suite: Suite) -> Preparer<'p> {
        Preparer { slot, policy, name: PreparedName::new(slot.number, suite), suite, fault: None }
    }

    /// A key as it was prepared before.
    #[inline]
    pub(crate) fn before<'l>(&self, entry: &'l KeyEntry) -> Option<&'l PreparedKey> {
        entry.prepared_before(self.name)
    }

    /// Has the engine prepare those of these keys that it has not prepared, side by side if it can. Who gets a key hears
    /// of a failure.
    pub(crate) fn prepare<'l>(&mut self, entries: impl Iterator<Item = &'l KeyEntry>) {
        let lacking: Vec<&KeyEntry> = entries.filter(|entry| self.before(entry).is_none()).collect();
        if lacking.len() > 1 {
            KeyEntry::prepare_all(&lacking, self.name, |materials| {
                let made = self.slot.ask(self.policy, |engine| Ok(engine.prepare_many(materials, self.suite)));
                made.unwrap_or_else(|fault| {
                    self.fault = Some(fault);
                    Vec::new()
                })
            });
        } else if let Some(entry) = lacking.first() {
            let _ = self.get(entry);
        }
    }

    /// A key as the engine prepared it, which it does now if it has not before.
    ///
    /// # Errors
    /// What the engine says, or [`ciphermill_keys::PREPARED_MAX`].
    pub(crate) fn get<'l>(&mut self, entry: &'l KeyEntry) -> Result<&'l PreparedKey> {
        let made = entry.prepared_as(self.name, |material: &KeyMaterial<'_>| match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => self.slot.ask(self.policy, |engine| engine.prepare(material, self.suite)),
        });
        if let Err(fault @ Error::EngineFault(Fault { kind: FaultKind::Panicked, .. })) = &made {
            self.fault = Some(fault.clone());
        }
        made
    }
}

/// Keys of operations that run on another thread, kept until these pins are dropped.
struct Pins {
    /// One for each run of operations with the same key; `None` for keys that are gone.
    keys: Vec<Option<Arc<KeyEntry>>>,
    /// For each operation the index of its key; none for suites without keys.
    of: Vec<u32>,
}

impl Pins {
    fn of(lease: Option<&KeyLease<'_>>, ops: &[Op]) -> Pins {
        let mut pins = Pins { keys: Vec::new(), of: Vec::new() };
        let Some(lease) = lease else { return pins };
        pins.of.reserve_exact(ops.len());
        let mut last = KeyId::NONE;
        for op in ops {
            if op.key != last || pins.keys.is_empty() {
                pins.keys.push(lease.pin(op.key));
                last = op.key;
            }
            pins.of.push(pins.keys.len() as u32 - 1);
        }
        pins
    }

    /// Each operation's key.
    fn entries(&self) -> impl Iterator<Item = Option<&KeyEntry>> {
        self.of.iter().map(|index| self.keys[*index as usize].as_deref())
    }
}

/// Runs a copy of operations on an engine; each gets a status, except that the engine may leave some pending.
///
/// # Errors
/// The engine could not be opened.
fn run_copy(
    slot: &EngineSlot,
    policy: &TrustPolicy,
    queue: &mut DriverQueue,
    pins: &Pins,
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
    let mut preparer = Preparer::new(slot, policy, suite);
    preparer.prepare(pins.entries().flatten());
    let mut prepared = Prepared::with_capacity(batch.len());
    for (index, entry) in pins.entries().enumerate() {
        let made = match entry {
            None => Err(OpStatus::Refused(Reason::KeyUnknown)),
            Some(entry) => preparer.get(entry).map_err(|error| refusal(&error)),
        };
        prepared.push(made.map_err(|status| batch.set_status(index, status)).ok());
    }
    let queue: &mut dyn EngineQueue = queue.as_mut();
    queue.run(&mut batch.attach_keys(&prepared)?);
    Ok(())
}
