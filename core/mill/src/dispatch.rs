//! The way of a batch through the mill: check, lease, route, prepare, run, account; and again elsewhere for what an
//! engine failed.

use ciphermill_contract::error::{Fault, FaultKind, Refusal};
use ciphermill_contract::{Batch, CheckedBatch, EngineKinds, Error, OpStatus, PreparedKey, Reason, Result};
use ciphermill_keys::{KeyEntry, KeyLease, now_unix_s};
use ciphermill_router::Route;
use smallvec::SmallVec;

use crate::engines::{EngineSet, EngineSlot};
use crate::execute::Preparer;
use crate::mill::Shared;
use crate::panics::{caught, give_up};
use crate::policy::{RunOptions, TrustPolicy};
use crate::queues::{Open, Queues};
use crate::report::Report;

/// Operations whose keys fit on the stack; larger batches take one allocation each for entries and prepared keys.
const INLINE_OPS: usize = 32;

pub(crate) type Entries<'l> = SmallVec<[Option<&'l KeyEntry>; INLINE_OPS]>;
pub(crate) type Prepared<'l> = SmallVec<[Option<&'l PreparedKey>; INLINE_OPS]>;

/// One batch on its way.
pub(crate) struct Way<'w> {
    pub(crate) shared: &'w Shared,
    pub(crate) set: &'w EngineSet,
    pub(crate) open: &'w mut Open,
    /// Counts the batches of these queues.
    pub(crate) tick: u32,
    /// Kinds of engines that the caller allows.
    pub(crate) allowed: EngineKinds,
    pub(crate) pinned: Option<usize>,
    pub(crate) deadline_ns: Option<f64>,
    /// The engine that the batch goes to unless it may not or cannot run it.
    pub(crate) preferred: Option<usize>,
    /// Whether it is a share of a larger batch, and so not shared out again.
    pub(crate) is_share: bool,
    /// Engines that have failed this batch, a bit for each index.
    pub(crate) excluded: u32,
    /// What the last of them failed with.
    pub(crate) fault: Option<Error>,
    /// Operations that were lost: they are nobody's fault any more.
    pub(crate) lost: usize,
    /// Where operations of this batch were last run.
    pub(crate) last: Option<Route>,
}

impl Queues {
    /// Runs a batch; [`crate::Session::run`] documents it.
    pub(crate) fn run(&mut self, shared: &Shared, batch: Batch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        let mut batch = batch.check()?;
        let suite = batch.suite();
        if suite.is_legacy() && !shared.policy.legacy {
            return Err(Error::Refused(Refusal::LegacyDisabled(suite)));
        }
        let (set, open, tick) = self.begin(shared);
        let pinned = match options.engine {
            None => None,
            Some(name) => {
                Some(set.index_of(name).ok_or_else(|| Error::Refused(Refusal::EngineUnavailable(name.to_owned())))?)
            }
        };
        let deadline_ns = options.deadline.map(|deadline| deadline.as_nanos() as f64);
        let allowed = options.kinds;
        let mut way = Way { allowed, pinned, deadline_ns, ..Way::new(shared, set, open, tick) };
        // Engines' panics are dealt with on the way. This is for what nobody thought of: the operations get their status.
        caught(|| way.run(&mut batch)).unwrap_or_else(|| {
            *self = Queues::default();
            give_up(&mut batch);
            Err(Error::fault("mill", FaultKind::Panicked))
        })
    }
}

impl<'w> Way<'w> {
    /// The way of a batch with no wishes.
    pub(crate) fn new(shared: &'w Shared, set: &'w EngineSet, open: &'w mut Open, tick: u32) -> Way<'w> {
        let allowed = EngineKinds::ALL;
        let (pinned, deadline_ns, preferred, is_share) = (None, None, None, false);
        let (excluded, fault, lost, last) = (0, None, 0, None);
        Way { shared, set, open, tick, allowed, pinned, deadline_ns, preferred, is_share, excluded, fault, lost, last }
    }

    pub(crate) fn run(&mut self, batch: &mut CheckedBatch<'_>) -> Result<Report> {
        let plan_kinds = self.kinds_of_plan(batch);
        if plan_kinds.is_empty() {
            return Err(Error::Refused(Refusal::NoEngine(batch.suite(), batch.direction())));
        }
        if !self.is_share && self.set.may_share(batch.suite(), batch.direction()) && self.pinned.is_none() {
            // Far from every batch on this processor alone.
            if let Some(shared) = self.run_shares(batch, plan_kinds) {
                return shared;
            }
        }
        if !batch.suite().needs_key() {
            let route = self.run_keyless(batch, plan_kinds)?;
            return Ok(self.account(batch, route));
        }
        let shared = self.shared;
        let lease = shared.keys.lease();
        if let Some(route) = self.run_unrestricted(batch, &lease, plan_kinds)? {
            return Ok(self.account(batch, route));
        }
        let mut entries = Entries::with_capacity(batch.len());
        let kinds = self.lease_keys(batch, &lease, plan_kinds, &mut entries);
        let route = match kinds {
            Some(kinds) => self.run_round(batch, &lease, &entries, kinds),
            None => self.run_rounds(batch, &lease, &entries, plan_kinds),
        };
        match route {
            Ok(route) => Ok(self.account(batch, route)),
            Err(error) => {
                put_back(batch, &entries);
                Err(error)
            }
        }
    }

    /// Counts outcomes. An operation that an engine left pending is that engine's fault.
    fn account(&mut self, batch: &mut CheckedBatch<'_>, route: Route) -> Report {
        let done = batch.ops().iter().filter(|op| op.status.is_done()).count();
        let failed = batch.len() - done;
        if failed != 0 {
            batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
            self.record_refused(batch, &route);
        }
        Report { route, done, failed }
    }

    /// The usual case: every key is there, may be held by any of the engines, has no budget, and is prepared in one go
    /// for an engine on this processor. `None` when that is not so; nothing has happened then.
    fn run_unrestricted(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        lease: &KeyLease<'_>,
        plan_kinds: EngineKinds,
    ) -> Result<Option<Route>> {
        let choice = self.choose(batch, plan_kinds)?;
        let slot = &self.set.slots[choice.route.engine];
        if slot.is_isolated() {
            return Ok(None);
        }
        let (suite, direction) = (batch.suite(), batch.direction());
        let now_unix_s = if self.shared.keys.any_expiry() { now_unix_s() } else { 0 };
        let mut preparer = Preparer::new(slot, &self.shared.policy.trust, suite);
        let mut prepared = Prepared::from_elem(None, batch.len());
        let mut lacking: Vec<(usize, &KeyEntry)> = Vec::new();
        for (index, (op, place)) in batch.ops().iter().zip(prepared.iter_mut()).enumerate() {
            let Some(entry) = lease.entry(op.key) else { return Ok(None) };
            if !entry.is_free() {
                let Ok(own_kinds) = entry.check(suite, direction, now_unix_s) else { return Ok(None) };
                if own_kinds.intersect(plan_kinds) != plan_kinds || entry.has_budget() {
                    return Ok(None);
                }
            }
            *place = preparer.before(entry);
            if place.is_none() {
                lacking.push((index, entry));
            }
        }
        if !lacking.is_empty() {
            preparer.prepare(lacking.iter().map(|(_, entry)| *entry));
            for (index, entry) in lacking {
                prepared[index] = match preparer.get(entry) {
                    Ok(key) => Some(key),
                    Err(error) => {
                        // What the engine fails one key with concerns that key's operations alone.
                        if matches!(error, Error::EngineFault(Fault { kind: FaultKind::Panicked, .. })) {
                            self.exclude(choice.route.engine, error);
                        }
                        return Ok(None);
                    }
                }
            }
        }
        match self.run_once(batch, &choice, Some(lease), &prepared) {
            Ok(0) => return Ok(Some(choice.route)),
            Ok(_) => {}
            Err(error) => self.exclude(choice.route.engine, error),
        }
        let entries: Entries<'_> = batch.ops().iter().map(|op| lease.entry(op.key)).collect();
        self.run_round(batch, lease, &entries, plan_kinds).map(Some)
    }

    /// Runs the pending operations, all on one engine unless that fails some of them.
    fn run_round(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        lease: &KeyLease<'_>,
        entries: &[Option<&KeyEntry>],
        kinds: EngineKinds,
    ) -> Result<Route> {
        loop {
            let choice = match self.choose(batch, kinds) {
                Ok(choice) => choice,
                Err(error) => return self.nobody_left(batch, error),
            };
            let slot = &self.set.slots[choice.route.engine];
            let policy = &self.shared.policy.trust;
            let ready = if slot.is_isolated() { Ready::default() } else { prepare(slot, policy, batch, entries) };
            let ran = self.run_once(batch, &choice, Some(lease), &ready.keys);
            if let Some(fault) = ready.fault {
                // Nothing has happened to these operations: another engine may prepare their keys.
                ready.unprepared.iter().for_each(|index| batch.set_status(*index, OpStatus::Pending));
                if matches!(fault, Error::EngineFault(_)) {
                    slot.health.faulty(slot.name(), policy);
                }
                self.exclude(choice.route.engine, fault);
                continue;
            }
            match ran {
                Ok(0) => return Ok(choice.route),
                Ok(_) => {}
                Err(error) => self.exclude(choice.route.engine, error),
            }
        }
    }

    /// The same for suites without keys.
    fn run_keyless(&mut self, batch: &mut CheckedBatch<'_>, kinds: EngineKinds) -> Result<Route> {
        loop {
            let choice = match self.choose(batch, kinds) {
                Ok(choice) => choice,
                Err(error) => return self.nobody_left(batch, error),
            };
            match self.run_once(batch, &choice, None, &[]) {
                Ok(0) => return Ok(choice.route),
                Ok(_) => {}
                Err(error) => self.exclude(choice.route.engine, error),
            }
        }
    }

    /// Runs a batch whose keys may not all be held by the same kinds of engines: round by round, in each those
    /// operations that go together.
    #[cold]
    fn run_rounds(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        lease: &KeyLease<'_>,
        entries: &[Option<&KeyEntry>],
        plan_kinds: EngineKinds,
    ) -> Result<Route> {
        loop {
            let mut kinds = plan_kinds;
            let mut held = Vec::new();
            for (index, entry) in entries.iter().enumerate() {
                let Some(entry) = entry.filter(|_| batch.ops()[index].status.is_pending()) else { continue };
                let joint = kinds.intersect(entry.engines());
                if joint.is_empty() {
                    held.push(index);
                    batch.set_status(index, OpStatus::Refused(Reason::KeyEngine));
                } else {
                    kinds = joint;
                }
            }
            let route = self.run_round(batch, lease, entries, kinds);
            held.iter().for_each(|index| batch.set_status(*index, OpStatus::Pending));
            if held.is_empty() || route.is_err() {
                return route;
            }
        }
    }

    /// Notes that an engine has failed this batch and with what.
    pub(crate) fn exclude(&mut self, index: usize, fault: Error) {
        self.excluded |= 1 << index;
        self.fault = Some(fault);
    }

    /// What becomes of a batch that no engine (any more) may run. Operations that an engine began are its fault.
    #[cold]
    fn nobody_left(&mut self, batch: &mut CheckedBatch<'_>, error: Error) -> Result<Route> {
        let fault = self.fault.take().unwrap_or(error);
        let Some(route) = self.last.take() else { return Err(fault) };
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
        if batch.ops().iter().any(|op| op.status.is_done()) { Ok(route) } else { Err(fault) }
    }

    /// Finds every operation's key and asks its policy. Operations that may not run get their status here.
    ///
    /// Returns the kinds of engines that all keys agree on, `None` when they do not.
    fn lease_keys<'l>(
        &self,
        batch: &mut CheckedBatch<'_>,
        lease: &'l KeyLease<'_>,
        plan_kinds: EngineKinds,
        entries: &mut Entries<'l>,
    ) -> Option<EngineKinds> {
        let (suite, direction) = (batch.suite(), batch.direction());
        let now_unix_s = if self.shared.keys.any_expiry() { now_unix_s() } else { 0 };
        let mut kinds = Some(plan_kinds);
        for index in 0..batch.len() {
            let found = match lease.entry(batch.ops()[index].key) {
                None => Err(Reason::KeyUnknown),
                Some(entry) => entry.check(suite, direction, now_unix_s).map(|own_kinds| (entry, own_kinds)),
            };
            let found = found.and_then(|(entry, own_kinds)| {
                if own_kinds.intersect(plan_kinds).is_empty() {
                    Err(Reason::KeyEngine)
                } else if entry.has_budget() && entry.spend(1) == 0 {
                    Err(Reason::KeyBudget)
                } else {
                    Ok((entry, own_kinds))
                }
            });
            match found {
                Ok((entry, own_kinds)) => {
                    kinds = kinds.map(|kinds| kinds.intersect(own_kinds)).filter(|kinds| !kinds.is_empty());
                    entries.push(Some(entry));
                }
                Err(reason) => {
                    batch.set_status(index, OpStatus::Refused(reason));
                    entries.push(None);
                }
            }
        }
        kinds
    }
}

/// Prepared keys, one an operation.
#[derive(Default)]
struct Ready<'l> {
    keys: Prepared<'l>,
    /// Operations whose key the engine failed to prepare; they are kept from it by a status that is to be taken back.
    unprepared: Vec<usize>,
    /// What it failed with.
    fault: Option<Error>,
}

/// Every pending operation's key, prepared for the engine. Operations whose key it refuses get their status here.
fn prepare<'l>(
    slot: &EngineSlot,
    policy: &TrustPolicy,
    batch: &mut CheckedBatch<'_>,
    entries: &[Option<&'l KeyEntry>],
) -> Ready<'l> {
    let mut preparer = Preparer::new(slot, policy, batch.suite());
    preparer.prepare(entries.iter().flatten().copied());
    let mut ready = Ready { keys: Prepared::with_capacity(entries.len()), ..Ready::default() };
    for (index, entry) in entries.iter().enumerate() {
        let entry = entry.filter(|_| batch.ops()[index].status.is_pending());
        let key = entry.map(|entry| preparer.get(entry));
        ready.keys.push(match key {
            None => None,
            Some(Ok(key)) => Some(key),
            Some(Err(error)) => {
                batch.set_status(index, OpStatus::Refused(Reason::KeyUnsuitable));
                if refusal(&error) == OpStatus::EngineFault {
                    ready.unprepared.push(index);
                    ready.fault = Some(error);
                }
                None
            }
        });
    }
    ready
}

/// Gives the operations that were never begun back to their keys' budgets.
#[cold]
fn put_back(batch: &CheckedBatch<'_>, entries: &[Option<&KeyEntry>]) {
    for (op, entry) in batch.ops().iter().zip(entries) {
        if let Some(entry) = entry.filter(|_| op.status.is_pending()) {
            entry.put_back(1);
        }
    }
}

/// The status that a key which could not be prepared earns its operation.
#[cold]
pub(crate) fn refusal(error: &Error) -> OpStatus {
    match error {
        Error::Misuse(_) | Error::Refused(_) => OpStatus::Refused(Reason::KeyUnsuitable),
        _ => OpStatus::EngineFault,
    }
}
