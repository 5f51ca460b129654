//! The way of a batch through the mill: check, lease, route, prepare, run, account.

use std::time::{SystemTime, UNIX_EPOCH};

use ciphermill_contract::error::Refusal;
use ciphermill_contract::{
    Batch, CheckedBatch, EngineKinds, Error, KeyMaterial, OpStatus, PreparedKey, Reason, Result, Suite,
};
use ciphermill_keys::{KeyEntry, KeyLease, PreparedName};
use ciphermill_router::{Candidate, Request, Route, decide};
use smallvec::SmallVec;

use crate::mill::Shared;
use crate::policy::{RunOptions, SelfTest};
use crate::report::Report;
use crate::session::Queues;

/// Operations whose keys fit on the stack; larger batches take one allocation each for entries and prepared keys.
const INLINE_OPS: usize = 32;

type Entries<'l> = SmallVec<[Option<&'l KeyEntry>; INLINE_OPS]>;
type Prepared<'l> = SmallVec<[Option<&'l PreparedKey>; INLINE_OPS]>;

impl Queues {
    /// Runs a batch; [`crate::Session::run`] documents it.
    pub(crate) fn run(&mut self, shared: &Shared, batch: Batch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        let mut batch = batch.check()?;
        let suite = batch.suite();
        if suite.is_legacy() && !shared.policy.legacy {
            return Err(Error::Refused(Refusal::LegacyDisabled(suite)));
        }
        let pinned = match options.engine {
            None => None,
            Some(name) => Some(
                shared.engine_index(name).ok_or_else(|| Error::Refused(Refusal::EngineUnavailable(name.to_owned())))?,
            ),
        };
        let plan = shared.plan(suite, batch.direction());
        let plan_kinds = kinds_of(plan, options.kinds, pinned);
        if plan_kinds.is_empty() {
            return Err(Error::Refused(Refusal::NoEngine(suite, batch.direction())));
        }
        if !suite.needs_key() {
            let route = self.run_round(shared, &mut batch, &[], plan_kinds, pinned)?;
            return Ok(account(&mut batch, route));
        }
        let lease = shared.keys.lease();
        if let Some(route) = self.run_unrestricted(shared, &mut batch, &lease, plan_kinds, pinned)? {
            return Ok(account(&mut batch, route));
        }
        let mut entries = Entries::with_capacity(batch.len());
        let kinds = lease_keys(shared, &mut batch, &lease, plan_kinds, &mut entries);
        let route = match kinds {
            Some(kinds) => self.run_round(shared, &mut batch, &entries, kinds, pinned),
            None => self.run_rounds(shared, &mut batch, &entries, plan_kinds, pinned),
        };
        match route {
            Ok(route) => Ok(account(&mut batch, route)),
            Err(error) => {
                put_back(&batch, &entries);
                Err(error)
            }
        }
    }

    /// The usual case: every key is there, may be held by any of the engines, has no budget, and is prepared in one go.
    /// `None` when that is not so; nothing has happened then.
    fn run_unrestricted(
        &mut self,
        shared: &Shared,
        batch: &mut CheckedBatch<'_>,
        lease: &KeyLease<'_>,
        plan_kinds: EngineKinds,
        pinned: Option<usize>,
    ) -> Result<Option<Route>> {
        let route = choose(shared, batch, plan_kinds, pinned)?;
        let slot = &shared.engines[route.engine];
        let (suite, direction) = (batch.suite(), batch.direction());
        let now_unix_s = if shared.keys.any_expiry() { now_unix_s() } else { 0 };
        let name = PreparedName::new(route.engine, suite);
        let prepare = |material: &KeyMaterial<'_>| slot.engine.prepare(material, suite);
        let mut prepared = Prepared::from_elem(None, batch.len());
        for (op, place) in batch.ops().iter().zip(prepared.iter_mut()) {
            let Some(entry) = lease.entry(op.key) else { return Ok(None) };
            if !entry.is_free() {
                let Ok(own_kinds) = entry.check(suite, direction, now_unix_s) else { return Ok(None) };
                if own_kinds.intersect(plan_kinds) != plan_kinds || entry.has_budget() {
                    return Ok(None);
                }
            }
            let Ok(key) = entry.prepared_as(name, prepare) else { return Ok(None) };
            *place = Some(key);
        }
        let queue = self.on(route.engine, slot)?;
        queue.run(&mut batch.attach_keys(&prepared)?);
        Ok(Some(route))
    }

    /// Runs the pending operations on one engine.
    fn run_round(
        &mut self,
        shared: &Shared,
        batch: &mut CheckedBatch<'_>,
        entries: &[Option<&KeyEntry>],
        kinds: EngineKinds,
        pinned: Option<usize>,
    ) -> Result<Route> {
        let route = choose(shared, batch, kinds, pinned)?;
        let slot = &shared.engines[route.engine];
        let queue = self.on(route.engine, slot)?;
        let mut prepared = Prepared::with_capacity(entries.len());
        let suite = batch.suite();
        let name = PreparedName::new(route.engine, suite);
        let prepare = |material: &KeyMaterial<'_>| slot.engine.prepare(material, suite);
        for (index, entry) in entries.iter().enumerate() {
            let key = entry.map(|entry| entry.prepared_as(name, prepare));
            prepared.push(match key {
                None => None,
                Some(Ok(key)) => Some(key),
                Some(Err(error)) => {
                    refuse(batch, index, &error);
                    None
                }
            });
        }
        queue.run(&mut batch.attach_keys(&prepared)?);
        Ok(route)
    }

    /// Runs a batch whose keys may not all be held by the same kinds of engines: round by round, in each those
    /// operations that go together.
    #[cold]
    fn run_rounds(
        &mut self,
        shared: &Shared,
        batch: &mut CheckedBatch<'_>,
        entries: &[Option<&KeyEntry>],
        plan_kinds: EngineKinds,
        pinned: Option<usize>,
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
            let route = self.run_round(shared, batch, entries, kinds, pinned);
            held.iter().for_each(|index| batch.set_status(*index, OpStatus::Pending));
            if held.is_empty() || route.is_err() {
                return route;
            }
        }
    }
}

/// Kinds of engines among the candidates.
fn kinds_of(plan: &[Candidate], allowed: EngineKinds, pinned: Option<usize>) -> EngineKinds {
    plan.iter()
        .filter(|candidate| pinned.is_none_or(|pinned| pinned == candidate.engine))
        .fold(EngineKinds::NONE, |kinds, candidate| kinds.with(candidate.kind))
        .intersect(allowed)
}

/// Finds every operation's key and asks its policy. Operations that may not run get their status here.
///
/// Returns the kinds of engines that all keys agree on, `None` when they do not.
fn lease_keys<'l>(
    shared: &Shared,
    batch: &mut CheckedBatch<'_>,
    lease: &'l KeyLease<'_>,
    plan_kinds: EngineKinds,
    entries: &mut Entries<'l>,
) -> Option<EngineKinds> {
    let (suite, direction) = (batch.suite(), batch.direction());
    let now_unix_s = if shared.keys.any_expiry() { now_unix_s() } else { 0 };
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

/// Asks the router, and again when the engine that it names fails its known-answer test.
fn choose(shared: &Shared, batch: &CheckedBatch<'_>, kinds: EngineKinds, pinned: Option<usize>) -> Result<Route> {
    let (suite, direction) = (batch.suite(), batch.direction());
    let plan = shared.plan(suite, direction);
    let bytes = batch.input_bytes();
    let unlimited = plan.iter().all(|candidate| candidate.input_len_max >= bytes);
    let input_len_max = if unlimited { 0 } else { longest_input(batch) };
    let request = Request { ops: batch.len() as u64, bytes, input_len_max, kinds, pinned };
    loop {
        let trusted = plan.iter().all(|candidate| shared.engines[candidate.engine].trust.allows(suite));
        let route = if trusted {
            decide(&request, plan)
        } else {
            let allowed = |candidate: &Candidate| shared.engines[candidate.engine].trust.allows(suite);
            let plan: Vec<Candidate> =
                plan.iter().map(|candidate| Candidate { trusted: allowed(candidate), ..*candidate }).collect();
            decide(&request, &plan)
        };
        let route = route.map_err(|_| no_route(suite, batch, trusted))?;
        let slot = &shared.engines[route.engine];
        if shared.policy.self_test == SelfTest::Never || !slot.trust.is_untested(suite) {
            return Ok(route);
        }
        slot.trust.test(slot.engine.as_ref(), suite);
    }
}

fn no_route(suite: Suite, batch: &CheckedBatch<'_>, trusted: bool) -> Error {
    Error::Refused(if trusted { Refusal::NoEngine(suite, batch.direction()) } else { Refusal::SelfTestFailed(suite) })
}

fn longest_input(batch: &CheckedBatch<'_>) -> u64 {
    batch.ops().iter().map(|op| u64::from(op.input.len)).max().unwrap_or(0)
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

/// Gives an operation the status that a key which could not be prepared earns it.
#[cold]
fn refuse(batch: &mut CheckedBatch<'_>, index: usize, error: &Error) {
    let status = match error {
        Error::EngineFault(_) | Error::Exhausted(_) => OpStatus::EngineFault,
        Error::Misuse(_) | Error::Refused(_) => OpStatus::Refused(Reason::KeyUnsuitable),
        _ => OpStatus::EngineFault,
    };
    batch.set_status(index, status);
}

/// Counts outcomes. An operation that an engine left pending is that engine's fault.
fn account(batch: &mut CheckedBatch<'_>, route: Route) -> Report {
    let done = batch.ops().iter().filter(|op| op.status.is_done()).count();
    let failed = batch.len() - done;
    if failed != 0 {
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
    }
    Report { route, done, failed }
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
