//! One batch, once: check, lease, route, prepare, execute, account; and again elsewhere for what an engine failed.
//!
//! This file is the way from top to bottom; each step calls downwards: [`route`] names an engine, [`prepare`] has keys
//! prepared for it, [`execute`] runs the batch there (in [`parts`], or [`isolated`]) and has a [`witness`] look at the
//! answers, [`replay`] says what is to be run elsewhere, and [`share`] cuts a large batch up beforehand. [`columns`] is the way of
//! the other form of a batch, [`bound`] a shorter one for single operations that are all alike, [`multi_part`] that of messages that
//! come in parts.

mod batch_run;
pub(crate) mod bound;
mod columns;
mod context;
mod copies;
mod execute;
mod explain;
mod isolated;
mod lease;
pub(crate) mod multi_part;
mod parts;
mod prepare;
mod references;
mod replay;
mod route;
mod runner;
mod share;
mod transform;
mod witness;

use ciphermill_contract::error::{Fault, FaultKind, Refusal};
use ciphermill_contract::{
    Batch, CheckedBatch, EngineKinds, Error, KeyId, OpStatus, OwnedBatch, PreparedKey, Reason, Result, Suite,
};
use ciphermill_keys::{KeyAsk, KeyEntry, KeyLease, now_unix_s};
use ciphermill_router::{Route, size_class};

use self::batch_run::{BatchRun, Bounds};
pub(crate) use self::context::Context;
use self::execute::run_once;
pub use self::explain::{Considered, DisabledEngine, Explanation};
use self::lease::{lease_keys, put_back};
pub(crate) use self::prepare::Preparer;
use self::prepare::{Entries, Prepared, Ready, prepare};
use self::replay::give_up;
use self::route::{choose, no_engine};
pub(crate) use self::runner::Runner;
use crate::cell::CostCell;
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::report::Report;

impl Runner {
    /// Runs a batch; [`crate::Session::run`] documents it.
    pub(crate) fn run(&self, context: &mut Context, batch: Batch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        let mut batch = batch.check()?;
        let mut run = begin(self, context, batch.suite(), options)?;
        // Engines' panics are dealt with on the way. This is for what nobody thought of: the operations get their status.
        caught(|| run_batch(&mut run, &mut batch)).unwrap_or_else(|| {
            *context = Context::default();
            give_up(&mut batch);
            Err(Error::fault("mill", FaultKind::Panicked))
        })
    }

    /// What an owned batch will probably take, in nanoseconds, on the engine that is fastest for it. Its bytes are taken
    /// to be its arena's.
    pub(crate) fn predict(&self, context: &mut Context, batch: &OwnedBatch) -> u64 {
        let (ops, bytes) = (batch.ops.len() as u64, batch.arena.bytes().len() as u64);
        let cell = CostCell::new(batch.suite, batch.direction, size_class(ops, bytes));
        let (set, ..) = context.begin(&self.state);
        let plan = set.plan(batch.suite, batch.direction);
        let ns = plan.iter().map(|candidate| set.as_of_now(candidate, cell, ops, 0)).filter(|now| now.trusted);
        ns.map(|now| now.cost.predict_ns(ops, bytes)).fold(f64::MAX, f64::min).min(1e15) as u64
    }
}

/// Applies the mill's policy and the caller's options.
fn begin<'r>(
    runner: &'r Runner,
    context: &'r mut Context,
    suite: Suite,
    options: &RunOptions<'_>,
) -> Result<BatchRun<'r>> {
    if suite.is_legacy() && !runner.state.policy.legacy {
        return Err(Error::Refused(Refusal::LegacyDisabled(suite)));
    }
    let begun = context.begin(&runner.state);
    let pinned = options.engine.map(|name| begun.0.named(name)).transpose()?;
    let deadline_ns = options.deadline.map(|deadline| deadline.as_nanos() as f64);
    let RunOptions { kinds, splits, .. } = *options;
    let bounds = Bounds { kinds, pinned, deadline_ns, splits, ..Bounds::default() };
    Ok(BatchRun::new(runner, begun, bounds))
}

/// Runs a batch, or a share of one.
fn run_batch(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>) -> Result<Report> {
    let (suite, direction) = (batch.suite(), batch.direction());
    let plan_kinds = route::kinds_of_plan(run, suite, direction);
    if plan_kinds.is_empty() {
        return Err(no_engine(run, suite, direction));
    }
    let shares = share::shares_of(run, batch, plan_kinds);
    if let Some(report) = shares.and_then(|shares| share::run_shares(run, batch, &shares, run_batch)) {
        return report;
    }
    if !suite.needs_key() {
        let route = run_keyless(run, batch, plan_kinds)?;
        return Ok(account(run, batch, route));
    }
    let runner = run.runner;
    let lease = runner.state.keys.lease();
    if let Some(route) = run_unrestricted(run, batch, &lease, plan_kinds)? {
        return Ok(account(run, batch, route));
    }
    let mut entries = Entries::with_capacity(batch.len());
    let kinds = lease_keys(run, batch, &lease, plan_kinds, &mut entries);
    let route = match kinds {
        Some(kinds) => run_with_keys(run, batch, &lease, &entries, kinds),
        None => run_by_kinds(run, batch, &lease, &entries, plan_kinds),
    };
    match route {
        Ok(route) => Ok(account(run, batch, route)),
        Err(error) => {
            put_back(batch, &entries);
            Err(error)
        }
    }
}

/// Counts outcomes. An operation that an engine left pending is that engine's fault.
fn account(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>, route: Route) -> Report {
    if run.progress.all_done {
        return Report { route, done: batch.len(), failed: 0 };
    }
    let done = batch.ops().iter().filter(|op| op.status.is_done()).count();
    let failed = batch.len() - done;
    if failed != 0 {
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
        run.own.recorder.refused(&run.runner.state.metrics, run.slot(route.engine), batch);
    }
    Report { route, done, failed }
}

/// The usual case: every key is there, may be held by any of the engines, has no budget, and is prepared in one go for an
/// engine on this processor. `None` when that is not so; nothing has happened then.
fn run_unrestricted(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    lease: &KeyLease<'_>,
    plan_kinds: EngineKinds,
) -> Result<Option<Route>> {
    let choice = choose(run, batch, plan_kinds)?;
    let (engine, slot) = (choice.route.engine, run.slot(choice.route.engine));
    if slot.is_isolated() {
        return Ok(None);
    }
    let (suite, direction, keys) = (batch.suite(), batch.direction(), &run.runner.state.keys);
    let ask = KeyAsk::new(suite, direction, run.bounds.usage, if keys.any_expiry() { now_unix_s() } else { 0 });
    let mut preparer = Preparer::new(slot, run.trust(), suite);
    let mut prepared = Prepared::from_elem(None, batch.len());
    let mut lacking: Vec<(usize, &KeyEntry)> = Vec::new();
    let mut last: (KeyId, Option<&PreparedKey>) = (KeyId::NONE, None);
    for (index, (op, key)) in batch.ops().iter().zip(prepared.iter_mut()).enumerate() {
        // Neighbours often have one key.
        if op.key == last.0 && last.1.is_some() {
            *key = last.1;
            continue;
        }
        let Some(entry) = lease.entry(op.key) else { return Ok(None) };
        if !entry.is_free() {
            let Ok(own_kinds) = entry.allows(&ask) else { return Ok(None) };
            if own_kinds.intersect(plan_kinds) != plan_kinds || entry.has_budget() {
                return Ok(None);
            }
        }
        *key = preparer.before(entry);
        last = (op.key, *key);
        if key.is_none() {
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
                        run.exclude(engine, error);
                    }
                    return Ok(None);
                }
            }
        }
    }
    let ran = run_once(run, batch, &choice, Some(lease), &prepared);
    if is_through(run, engine, ran) {
        return Ok(Some(choice.route));
    }
    let entries: Entries<'_> = batch.ops().iter().map(|op| lease.entry(op.key)).collect();
    run_with_keys(run, batch, lease, &entries, plan_kinds).map(Some)
}

/// Runs the pending operations, all on one engine unless that fails some of them.
fn run_with_keys(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    lease: &KeyLease<'_>,
    entries: &[Option<&KeyEntry>],
    kinds: EngineKinds,
) -> Result<Route> {
    loop {
        let choice = match choose(run, batch, kinds) {
            Ok(choice) => choice,
            Err(error) => return nobody_left(run, batch, error),
        };
        let (engine, slot) = (choice.route.engine, run.slot(choice.route.engine));
        let ready = if slot.is_isolated() { Ready::default() } else { prepare(slot, run.trust(), batch, entries) };
        let ran = run_once(run, batch, &choice, Some(lease), &ready.keys);
        if let Some(fault) = ready.fault {
            // Nothing has happened to these operations: another engine may prepare their keys.
            ready.unprepared.iter().for_each(|index| batch.set_status(*index, OpStatus::Pending));
            if matches!(fault, Error::EngineFault(_)) {
                slot.health.faulty(slot.name(), run.trust());
            }
            run.exclude(engine, fault);
        } else if is_through(run, engine, ran) {
            return Ok(choice.route);
        }
    }
}

/// The same for suites without keys.
fn run_keyless(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>, kinds: EngineKinds) -> Result<Route> {
    loop {
        let choice = match choose(run, batch, kinds) {
            Ok(choice) => choice,
            Err(error) => return nobody_left(run, batch, error),
        };
        let ran = run_once(run, batch, &choice, None, &[]);
        if is_through(run, choice.route.engine, ran) {
            return Ok(choice.route);
        }
    }
}

/// Runs a batch whose keys may not all be held by the same kinds of engines: again and again, each time those operations
/// that go together.
#[cold]
fn run_by_kinds(
    run: &mut BatchRun<'_>,
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
        let route = run_with_keys(run, batch, lease, entries, kinds);
        held.iter().for_each(|index| batch.set_status(*index, OpStatus::Pending));
        if held.is_empty() || route.is_err() {
            return route;
        }
    }
}

/// Whether nothing is left to be run elsewhere; an engine that could not be used at all is excluded.
fn is_through(run: &mut BatchRun<'_>, engine: usize, ran: Result<usize>) -> bool {
    match ran {
        Ok(left) => left == 0,
        Err(error) => {
            run.exclude(engine, error);
            false
        }
    }
}

/// What becomes of a batch that no engine (any more) may run. Operations that an engine began are its fault.
#[cold]
fn nobody_left(run: &mut BatchRun<'_>, batch: &mut CheckedBatch<'_>, error: Error) -> Result<Route> {
    let fault = run.progress.fault.take().unwrap_or(error);
    let Some(route) = run.progress.last.take() else { return Err(fault) };
    if matches!(fault, Error::Refused(Refusal::KeyUnsuitable { .. })) {
        // No engine has the key, and none has failed.
        batch.replace_status(OpStatus::is_pending, OpStatus::Refused(Reason::KeyUnsuitable));
        return Ok(route);
    }
    batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
    if batch.ops().iter().any(|op| op.status.is_done()) { Ok(route) } else { Err(fault) }
}
