//! A large batch over several engines: this processor's fastest and those that lie beyond it, each of which goes the
//! whole way with its share, so that nothing of trust, replay or key policy is different for a share.

use ciphermill_contract::{CheckedBatch, EngineKinds, OpStatus, Result};
use ciphermill_router::{Hands, Request, Route, RouteReason, Share, Shares, share};

use crate::dispatch::Way;
use crate::report::Report;

/// Batches whose best engine takes fewer times the waking of a thread are not looked at for being split or shared.
pub(crate) const SHARED_FROM_WAKEUPS: f64 = 2.0;

impl Way<'_> {
    /// Runs a batch in shares, one an engine. `None`, and nothing has happened, when that does not pay or its operations
    /// lie so that it cannot be cut.
    pub(crate) fn run_shares(&mut self, batch: &mut CheckedBatch<'_>, kinds: EngineKinds) -> Option<Result<Report>> {
        let shares = self.shares(batch, kinds)?;
        let counts: Vec<usize> = shares.shares.iter().map(|share| share.ops as usize).collect();
        let reports = batch.in_parts(&counts, |parts| self.run_each(parts, &shares))?;
        Some(self.together(batch, &shares, reports))
    }

    /// Which engines should work on the batch, if several should.
    fn shares(&self, batch: &CheckedBatch<'_>, kinds: EngineKinds) -> Option<Shares> {
        let (request, place, class) = self.request(batch, kinds);
        let now =
            || self.set.plan(batch.suite(), batch.direction()).iter().map(|one| self.as_of_now(one, place, class));
        self.share_out(&request, now)
    }

    /// The same for any request and the candidates as they are now.
    pub(crate) fn share_out<C: Iterator<Item = ciphermill_router::Candidate>>(
        &self,
        request: &Request,
        candidates: impl Fn() -> C,
    ) -> Option<Shares> {
        let wakeup_ns = self.shared.costs.wakeup_ns();
        let best = ciphermill_router::decide(request, candidates()).ok()?;
        if best.predicted_ns < SHARED_FROM_WAKEUPS * wakeup_ns || !self.shared.pool.has_workers() {
            return None;
        }
        let hands = Hands { idle: self.shared.pool.idle_workers(), wakeup_ns };
        share(request, candidates(), hands, wakeup_ns / 2.0)
    }

    /// The first share on this thread, each other on one that waits for its engine.
    fn run_each(&mut self, parts: Vec<CheckedBatch<'_>>, shares: &Shares) -> Vec<Option<Result<Report>>> {
        let mut reports: Vec<Option<Result<Report>>> = vec![None; parts.len()];
        let (shared, allowed, deadline_ns) = (self.shared, self.allowed, self.deadline_ns);
        let mut places = parts.into_iter().zip(&shares.shares).zip(&mut reports);
        let first = places.next();
        let others = places.map(|((mut part, share), report)| {
            move || {
                let mut queues = shared.idle().pop().unwrap_or_default();
                let (set, open, tick) = queues.begin(shared);
                // Engines may have joined or left since the batch began: an index would be another engine's.
                let preferred = set.index_of(share.name);
                let way = Way::new(shared, set, open, tick);
                *report = Some(Way { allowed, deadline_ns, preferred, is_share: true, ..way }.run(&mut part));
                shared.give_back(queues);
            }
        });
        let others: Vec<_> = others.collect();
        let here = || {
            if let Some(((mut part, Share { engine, .. }), report)) = first {
                let way = Way::new(shared, self.set, self.open, self.tick);
                let preferred = Some(*engine);
                *report = Some(Way { allowed, deadline_ns, preferred, is_share: true, ..way }.run(&mut part));
            }
        };
        shared.pool.run_while_waiting(here, others);
        reports
    }

    /// What became of the batch as a whole. A share that nobody could run is an error only when all are.
    fn together(
        &mut self,
        batch: &mut CheckedBatch<'_>,
        shares: &Shares,
        reports: Vec<Option<Result<Report>>>,
    ) -> Result<Report> {
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
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
        let largest = shares.shares.iter().max_by_key(|share| share.ops);
        let (engine, name) = largest.map_or((0, ""), |share| (share.engine, share.name));
        let route = Route { engine, name, predicted_ns: shares.predicted_ns, reason: RouteReason::Share };
        let done = batch.ops().iter().filter(|op| op.status.is_done()).count();
        Ok(Report { route, done, failed: batch.len() - done })
    }
}
