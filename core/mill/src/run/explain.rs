//! What the router would do with a batch, and with which figures.

use ciphermill_contract::{Cost, Direction, Result, Suite};
use ciphermill_router::{Candidate, Request, Route, Share, Shares, Verdict, decide, explain, size_class};

use super::parts::split_over_cores;
use super::runner::Runner;
use super::share::share_out;
use crate::cell::CostCell;
use crate::engines::LeftOut;
use crate::policy::RunOptions;

/// What the router thinks of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Every engine that runs the suite in this direction.
    pub candidates: Vec<Considered>,
    /// Engines that would run it if it were not disabled on them.
    pub disabled: Vec<DisabledEngine>,
    /// Where the batch would go; `None` when every engine is ruled out. A mill now and then tries an engine that was
    /// slow again; that is left out here.
    pub route: Option<Route>,
    /// Who would work on it at the same time, with what is idle now; `None` when one engine on one thread would.
    pub shares: Option<Shares>,
}

/// An engine that a rule leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledEngine {
    /// The engine's name.
    pub engine: &'static str,
    /// Its kernel for the suite.
    pub kernel: String,
    /// The rule as it is written.
    pub rule: String,
}

/// What the router thinks of one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// The engine's name.
    pub engine: &'static str,
    /// Its kernel for the suite.
    pub kernel: String,
    /// Its cost, before anything was learnt.
    pub cost: Cost,
    /// Operations that are paid for together ([`Cost::in_steps`]).
    pub step: u16,
    /// How well that describes what was measured before; `None` when the cost is the engine's own estimate.
    pub spread: Option<f64>,
    /// How much longer batches of this class of sizes were measured to take than that, or are estimated to.
    pub class_factor: f64,
    /// How much longer they took of late than they should.
    pub correction: f64,
    /// Nanoseconds until it begins when it sleeps.
    pub wakeup_ns: f64,
    /// Nanoseconds of work that it still has to do.
    pub backlog_ns: f64,
    /// Its predicted time, or what rules it out.
    pub verdict: Verdict,
}

/// The cores that would work on a batch on the engine of `route`, if several would.
fn over_cores(
    runner: &Runner,
    request: &Request,
    route: Route,
    mut candidates: impl Iterator<Item = Candidate>,
) -> Option<Shares> {
    let chosen = candidates.find(|candidate| candidate.engine == route.engine && !candidate.kind.can_fail())?;
    let split = split_over_cores(runner, (request.ops, request.bytes), (chosen.cost, chosen.step))?;
    let share = Share { engine: route.engine, name: route.name, ops: request.ops, cores: split.parts.len() };
    Some(Shares { shares: [share].into_iter().collect(), predicted_ns: split.predicted_ns })
}

impl Runner {
    /// What the router thinks of each engine for `ops` operations of `len` bytes, and what it would choose.
    ///
    /// # Errors
    /// `Refused` when the engine that `options` name is not there.
    pub(crate) fn explain(
        &self,
        suite: Suite,
        direction: Direction,
        (ops, len): (u64, u64),
        options: &RunOptions<'_>,
    ) -> Result<Explanation> {
        let set = self.state.engines();
        let bytes = ops.saturating_mul(len);
        let request = Request {
            ops,
            bytes,
            input_len_max: len,
            kinds: self.state.policy.engines.intersect(options.kinds),
            pinned: options.engine.map(|name| set.named(name)).transpose()?,
            deadline_ns: options.deadline.map(|deadline| deadline.as_nanos() as f64),
        };
        let cell = CostCell::new(suite, direction, size_class(ops, bytes));
        let plan = set.plan(suite, direction);
        let now = || plan.iter().map(|candidate| set.as_of_now(candidate, cell, ops, 0));
        let kernel = |engine: usize| set.slots[engine].engine.info().kernel_for(suite.canonical()).to_owned();
        let consider = |(figures, (now, verdict)): (&Candidate, (Candidate, Verdict))| {
            let slot = &set.slots[figures.engine];
            let info = slot.engine.info();
            let measured = self.state.costs.find(info, suite, direction);
            Considered {
                engine: info.name,
                kernel: kernel(figures.engine),
                cost: figures.cost,
                step: figures.step,
                spread: measured.map(|measured| measured.spread),
                class_factor: slot.learned.class_factor(cell),
                correction: slot.learned.correction(cell).factor(),
                wakeup_ns: now.wakeup_ns,
                backlog_ns: now.backlog_ns,
                verdict,
            }
        };
        let candidates = plan.iter().zip(explain(&request, now())).map(consider).collect();
        let left_out = |left: &LeftOut| {
            let LeftOut { candidate, rule } = left;
            DisabledEngine { engine: candidate.name, kernel: kernel(candidate.engine), rule: rule.clone() }
        };
        let disabled = set.left_out(suite, direction).iter().map(left_out).collect();
        let route = decide(&request, now()).ok();
        let shares = if set.may_share(suite, direction) { share_out(self, &request, now) } else { None };
        let shares = shares.or_else(|| over_cores(self, &request, route?, now()));
        Ok(Explanation { candidates, disabled, route, shares })
    }
}
