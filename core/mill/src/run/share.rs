//! A large batch over several engines: this processor's fastest and offload engines, each of which goes the whole way with
//! its share, so that nothing of trust, replay or key policy is different for a share.

use ciphermill_contract::{CheckedBatch, CheckedColumns, ColumnStatus, EngineKinds, OpStatus, Result};
use ciphermill_router::{Candidate, IdleWorkers, Request, Route, RouteReason, Share, Shares, decide, share};

use super::batch_run::{BatchRun, Bounds};
use super::parts::{SPLIT_FROM_WAKEUPS, counts_of};
use super::route::{Shape, request};
use super::runner::Runner;
use crate::report::Report;

/// Which engines should work on the batch, if several should.
pub(super) fn shares_of(run: &BatchRun<'_>, batch: &impl Shape, kinds: EngineKinds) -> Option<Shares> {
    if run.bounds.is_share || run.bounds.pinned.is_some() || !run.set.may_share(batch.suite(), batch.direction()) {
        // Far from every batch on this processor alone.
        return None;
    }
    let (request, cell) = request(run, batch, kinds);
    let plan = run.set.plan(batch.suite(), batch.direction());
    let now = || plan.iter().map(|candidate| run.set.as_of_now(candidate, cell, request.ops, run.progress.excluded));
    share_out(run.runner, &request, now)
}

/// The same for any request and the candidates as they are now.
pub(super) fn share_out<C: Iterator<Item = Candidate>>(
    runner: &Runner,
    request: &Request,
    candidates: impl Fn() -> C,
) -> Option<Shares> {
    let wakeup_ns = runner.state.costs.wakeup_ns();
    let best = decide(request, candidates()).ok()?;
    if best.predicted_ns < SPLIT_FROM_WAKEUPS * wakeup_ns || !runner.workers.has_threads() {
        return None;
    }
    let workers = IdleWorkers { count: runner.workers.idle(), wakeup_ns };
    share(request, candidates(), workers, wakeup_ns / 2.0)
}

/// Runs a batch in shares, the first on this thread, each other on one that waits for its engine; `run_share` runs one.
/// `None`, and nothing has happened, when its operations lie so that it cannot be cut.
pub(super) fn run_shares(
    run: &mut BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    shares: &Shares,
    run_share: impl Fn(&mut BatchRun<'_>, &mut CheckedBatch<'_>) -> Result<Report> + Sync,
) -> Option<Result<Report>> {
    let counts: Vec<usize> = shares.shares.iter().map(|share| share.ops as usize).collect();
    let reports = batch.in_parts(&counts, |parts| run_each(run, parts, shares, run_share))?;
    Some(together(shares, reports).map(|route| {
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
        let done = batch.ops().iter().filter(|op| op.status.is_done()).count();
        Report { route, done, failed: batch.len() - done }
    }))
}

/// The same for columns.
pub(super) fn run_column_shares(
    run: &mut BatchRun<'_>,
    columns: &mut CheckedColumns<'_>,
    shares: &Shares,
    run_share: impl Fn(&mut BatchRun<'_>, &mut CheckedColumns<'_>) -> Result<Report> + Sync,
) -> Option<Result<Report>> {
    let counts = counts_of(columns, shares.shares.iter().map(|share| share.ops as usize));
    let reports = columns.in_parts(&counts, |parts| run_each(run, parts, shares, run_share))?;
    Some(together(shares, reports).map(|route| {
        columns.replace_status(ColumnStatus::is_pending, ColumnStatus::ENGINE_FAULT);
        let done = columns.done();
        Report { route, done, failed: columns.pending() - done }
    }))
}

fn run_each<P: Send>(
    run: &mut BatchRun<'_>,
    parts: Vec<P>,
    shares: &Shares,
    run_share: impl Fn(&mut BatchRun<'_>, &mut P) -> Result<Report> + Sync,
) -> Vec<Option<Result<Report>>> {
    let mut reports: Vec<Option<Result<Report>>> = vec![None; parts.len()];
    let (runner, set) = (run.runner, run.set);
    let bounds = Bounds { pinned: None, preferred: None, is_share: true, ..run.bounds };
    let mut places = parts.into_iter().zip(&shares.shares).zip(&mut reports);
    let first = places.next();
    let run_share = &run_share;
    let others = places.map(|((mut part, share), report)| {
        move || {
            *report = Some(runner.with_context(|context| {
                // Engines may have joined, left or been disabled since the batch began.
                let (own, tick) = context.begin_share(&runner.state, set);
                let bounds = Bounds { preferred: Some(share.engine), ..bounds };
                run_share(&mut BatchRun::new(runner, (set, own, tick), bounds), &mut part)
            }));
        }
    });
    let others: Vec<_> = others.collect();
    let here = || {
        if let Some(((mut part, Share { engine, .. }), report)) = first {
            let bounds = Bounds { preferred: Some(*engine), ..bounds };
            let mut own = BatchRun::new(runner, (run.set, &mut *run.own, run.tick), bounds);
            *report = Some(run_share(&mut own, &mut part));
        }
    };
    runner.workers.run_while_waiting(here, others);
    reports
}

/// The route of the batch as a whole. A share that nobody could run is an error only when all are.
fn together(shares: &Shares, reports: Vec<Option<Result<Report>>>) -> Result<Route> {
    let mut failure = None;
    let mut ran = false;
    for report in reports.into_iter().flatten() {
        match report {
            Ok(_) => ran = true,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) if !ran => return Err(error),
        Some(error) => tracing::warn!(%error, "a share of a batch could not be run"),
        None => {}
    }
    let largest = shares.shares.iter().max_by_key(|share| share.ops);
    let (engine, name) = largest.map_or((0, ""), |share| (share.engine, share.name));
    Ok(Route { engine, name, predicted_ns: shares.predicted_ns, reason: RouteReason::Share })
}
