//! From a batch to the engine that runs it: what the router is told, and what is asked of an engine before it is believed.

use ciphermill_contract::error::Refusal;
use ciphermill_contract::{CheckedBatch, CheckedColumns, Direction, EngineKinds, Error, Result, Suite};
use ciphermill_router::{Candidate, Request, Route, RouteReason, SKEW_BYTES_MIN, decide, shape_class};

use super::batch_run::BatchRun;
use super::context::{Choice, Remembered};
use crate::cell::CostCell;
use crate::engines::{EngineSlot, LeftOut};
use crate::metrics::{TIMED_FROM_NS, timed_from_ns};
use crate::policy::SelfTest;

/// One of so many batches goes to an engine that was slow of late and would be the fastest by its own figures.
const PROBE_EVERY: u32 = 128;

/// A probe may take so many times as long as the best route …
const PROBE_FACTOR_MAX: f64 = 16.0;

/// … and this long.
const PROBE_NS_MAX: f64 = 5e6;

/// The route of a batch that took less than [`TIMED_FROM_NS`] stands for so many that follow with the same shape: deciding
/// anew takes a tenth of what a lone operation does.
const REMEMBERED_FOR: u32 = 16;

/// What the router is told of a batch of either form.
pub(super) trait Shape {
    fn suite(&self) -> Suite;
    fn direction(&self) -> Direction;
    fn op_count(&self) -> u64;
    fn input_bytes(&self) -> u64;
    /// Bytes of the longest input; a pass over the operations.
    fn longest_input(&self) -> u64;
}

impl Shape for CheckedBatch<'_> {
    fn suite(&self) -> Suite {
        self.suite()
    }
    fn direction(&self) -> Direction {
        self.direction()
    }
    fn op_count(&self) -> u64 {
        self.len() as u64
    }
    fn input_bytes(&self) -> u64 {
        self.input_bytes()
    }
    fn longest_input(&self) -> u64 {
        self.ops().iter().map(|op| u64::from(op.input.len)).max().unwrap_or(0)
    }
}

impl Shape for CheckedColumns<'_> {
    fn suite(&self) -> Suite {
        self.suite()
    }
    fn direction(&self) -> Direction {
        self.direction()
    }
    fn op_count(&self) -> u64 {
        self.pending() as u64
    }
    fn input_bytes(&self) -> u64 {
        self.input_bytes()
    }
    fn longest_input(&self) -> u64 {
        self.longest_input() as u64
    }
}

/// Kinds of engines that could run the batch.
pub(super) fn kinds_of_plan(run: &BatchRun<'_>, suite: Suite, direction: Direction) -> EngineKinds {
    run.set
        .plan(suite, direction)
        .iter()
        .filter(|candidate| run.bounds.pinned.is_none_or(|pinned| pinned == candidate.engine))
        .fold(EngineKinds::NONE, |kinds, candidate| kinds.with(candidate.kind))
        .intersect(run.bounds.kinds)
}

/// Why no engine may run a suite whose plan has none that is within bounds.
#[cold]
pub(super) fn no_engine(run: &BatchRun<'_>, suite: Suite, direction: Direction) -> Error {
    let bounds = &run.bounds;
    let is_within = |left: &LeftOut| {
        bounds.kinds.contains(left.candidate.kind) && bounds.pinned.is_none_or(|pinned| pinned == left.candidate.engine)
    };
    Error::Refused(if run.set.left_out(suite, direction).iter().any(is_within) {
        Refusal::Disabled(suite, direction)
    } else {
        Refusal::NoEngine(suite, direction)
    })
}

/// Asks the router, and again when the engine that it names fails its known-answer test.
pub(super) fn choose(run: &mut BatchRun<'_>, batch: &impl Shape, kinds: EngineKinds) -> Result<Choice> {
    let (suite, direction) = (batch.suite(), batch.direction());
    let set = run.set;
    let plan = set.plan(suite, direction);
    let (request, cell) = request(run, batch, kinds);
    if let Some(choice) = remembered(run, suite, cell, &request) {
        return Ok(choice);
    }
    loop {
        let excluded = run.progress.excluded;
        let now = || plan.iter().map(|candidate| set.as_of_now(candidate, cell, request.ops, excluded));
        let preferred = run.bounds.preferred.and_then(|engine| decide_for(&request, engine, now()));
        let route = match preferred {
            Some(route) => route,
            None => {
                let route = decide(&request, now()).map_err(|_| no_route(run, (suite, direction), &request))?;
                probe(run, &request, route, plan, cell).unwrap_or(route)
            }
        };
        if run.runner.state.policy.self_test == SelfTest::Never || !run.slot(route.engine).self_tests.is_untested(suite)
        {
            let cost = set.cost_on((suite, direction), route.engine, cell.class, request.ops);
            let choice = Choice { route, cost, cell };
            remember(run, request, choice);
            return Ok(choice);
        }
        test(run, &request, batch, route.engine, cell);
    }
}

/// Has an engine answer the suite's known-answer test. One that may take its time over it, since it has a device to open
/// or a kernel to build, is left out of this batch as soon as it has had the time of a stalled one, if another engine can
/// do.
fn test(run: &mut BatchRun<'_>, request: &Request, batch: &impl Shape, engine: usize, cell: CostCell) {
    let (suite, plan) = (batch.suite(), run.set.plan(batch.suite(), batch.direction()));
    let (slot, policy) = (run.slot(engine), run.trust());
    let excluded = run.progress.excluded | 1 << engine;
    let mut others = plan.iter().map(|candidate| run.set.as_of_now(candidate, cell, request.ops, excluded));
    if slot.is_isolated() && decide(request, &mut others).is_ok() {
        slot.test_aside(suite, policy);
    } else {
        slot.test(suite, policy);
    }
    // An engine that has not answered is not asked again for this batch.
    if slot.self_tests.is_untested(suite) {
        run.progress.excluded = excluded;
    }
}

/// What was decided for a batch of this shape a moment ago, unless its engine may not run it any more.
#[inline]
fn remembered(run: &BatchRun<'_>, suite: Suite, cell: CostCell, request: &Request) -> Option<Choice> {
    let before = run.own.remembered.as_ref()?;
    let is_same = before.choice.cell.suite == cell.suite && before.request == *request;
    let is_fresh = run.tick.wrapping_sub(before.tick) < REMEMBERED_FOR && !is_probe_due(run.tick);
    let is_short = before.choice.route.predicted_ns < TIMED_FROM_NS;
    let slot = run.slot(before.choice.route.engine);
    let is_free = run.progress.excluded == 0 && run.bounds.preferred.is_none();
    // An engine that came back from quarantine meanwhile has its known-answer test before it.
    let is_tested = run.runner.state.policy.self_test == SelfTest::Never || !slot.self_tests.is_untested(suite);
    let is_trusted = slot.health.is_well() && is_tested && slot.self_tests.allows(cell.suite.ordinal());
    (is_same && is_fresh && is_short && is_free && is_trusted).then_some(before.choice)
}

/// Remembers the choice for a short batch that every engine could run at once; that for a longer operation too, for those that
/// go at once ([`super::bound`]).
#[inline]
fn remember(run: &mut BatchRun<'_>, request: Request, choice: Choice) {
    let is_free = run.progress.excluded == 0 && run.bounds.preferred.is_none();
    let is_usual = is_free && choice.route.reason != RouteReason::Probe;
    if is_usual
        && choice.route.predicted_ns < timed_from_ns(request.ops)
        && !run.slot(choice.route.engine).is_isolated()
    {
        run.own.remembered = Some(Remembered { request, choice, tick: run.tick });
    }
}

fn is_probe_due(tick: u32) -> bool {
    tick % PROBE_EVERY == PROBE_EVERY / 2
}

/// What the router is asked about a batch, and what its cost is learnt for.
#[inline]
pub(super) fn request(run: &BatchRun<'_>, batch: &impl Shape, kinds: EngineKinds) -> (Request, CostCell) {
    let (suite, direction) = (batch.suite(), batch.direction());
    let (ops, bytes) = (batch.op_count(), batch.input_bytes());
    let plan = run.set.plan(suite, direction);
    let unlimited = plan.iter().all(|candidate| candidate.input_len_max >= bytes);
    let is_even = ops < 2 || bytes <= SKEW_BYTES_MIN;
    let input_len_max = if unlimited && is_even { 0 } else { batch.longest_input() };
    let (pinned, deadline_ns) = (run.bounds.pinned, run.bounds.deadline_ns);
    let request = Request { ops, bytes, input_len_max, kinds, pinned, deadline_ns };
    (request, CostCell::new(suite, direction, shape_class(ops, bytes, input_len_max)))
}

/// Now and then, an engine that is taken to be slow although its figures say that it would be the fastest.
#[inline]
fn probe(run: &BatchRun<'_>, request: &Request, best: Route, plan: &[Candidate], cell: CostCell) -> Option<Route> {
    if !is_probe_due(run.tick) || plan.len() < 2 || best.reason == RouteReason::Pinned {
        return None;
    }
    let limit_ns = (best.predicted_ns * PROBE_FACTOR_MAX).min(PROBE_NS_MAX);
    plan.iter().find_map(|figures| {
        let now = run.set.as_of_now(figures, cell, request.ops, run.progress.excluded);
        let own = run.set.figures(figures, cell, request.ops);
        let hoped_ns = own.predict_ns(request.ops, request.bytes) + now.wakeup_ns + now.backlog_ns;
        let feared = decide(request, [now]).ok()?;
        let worth = run.slot(figures.engine).learned.correction(cell).is_slow()
            && figures.engine != best.engine
            && hoped_ns < best.predicted_ns
            && feared.predicted_ns <= limit_ns;
        worth.then_some(Route { reason: RouteReason::Probe, ..feared })
    })
}

#[cold]
fn no_route(run: &BatchRun<'_>, (suite, direction): (Suite, Direction), request: &Request) -> Error {
    let set = run.set;
    let any = |is: &dyn Fn(&EngineSlot) -> bool| {
        set.plan(suite, direction).iter().any(|candidate| is(&set.slots[candidate.engine]))
    };
    // The kinds of the request are those of the plan, which they are not in.
    let request = Request { kinds: run.bounds.kinds, ..*request };
    let disabled = || set.left_out(suite, direction).iter().map(|left| left.candidate);
    Error::Refused(if any(&|slot| !slot.health.allows()) {
        Refusal::InQuarantine(suite)
    } else if any(&|slot| !slot.self_tests.allows(suite.ordinal())) {
        Refusal::SelfTestFailed(suite)
    } else if decide(&request, disabled()).is_ok() {
        Refusal::Disabled(suite, direction)
    } else {
        Refusal::NoEngine(suite, direction)
    })
}

/// The route of a share, on the engine that it was given to if that may run it.
fn decide_for(request: &Request, engine: usize, candidates: impl Iterator<Item = Candidate>) -> Option<Route> {
    let route = decide(&Request { pinned: Some(engine), ..*request }, candidates).ok()?;
    Some(Route { reason: RouteReason::Share, ..route })
}
