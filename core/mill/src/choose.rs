//! From a batch to the engine that runs it: what the router is told, and what is asked of an engine before it is believed.

use ciphermill_contract::error::Refusal;
use ciphermill_contract::{CheckedBatch, Cost, EngineKinds, Error, Result, Suite};
use ciphermill_router::{Candidate, Request, Route, RouteReason, SKEW_BYTES_MIN, Sample, decide, shape_class};

use crate::dispatch::Way;
use crate::engines::{EngineSlot, place};
use crate::execute::TIMED_FROM_NS;
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

/// What was decided for a short batch.
pub(crate) struct Remembered {
    place: usize,
    request: Request,
    choice: Choice,
    tick: u32,
}

/// A route and what it takes to learn from it.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) route: Route,
    /// The engine's own figures.
    pub(crate) cost: Cost,
    /// Where its correction stands.
    pub(crate) place: usize,
    pub(crate) class: usize,
}

impl Choice {
    pub(crate) fn sample(&self) -> Sample {
        if self.route.reason == RouteReason::Probe { Sample::Probe } else { Sample::Routed }
    }
}

impl Way<'_> {
    /// Kinds of engines that could run the batch.
    pub(crate) fn kinds_of_plan(&self, batch: &CheckedBatch<'_>) -> EngineKinds {
        self.set
            .plan(batch.suite(), batch.direction())
            .iter()
            .filter(|candidate| self.pinned.is_none_or(|pinned| pinned == candidate.engine))
            .fold(EngineKinds::NONE, |kinds, candidate| kinds.with(candidate.kind))
            .intersect(self.allowed)
    }

    /// The candidate's own figures for this class of sizes, before anything was learnt.
    #[inline]
    pub(crate) fn figures(&self, candidate: &Candidate, place: usize, class: usize) -> Cost {
        self.set.slots[candidate.engine].learned.of_class(candidate.cost, place, class)
    }

    /// An engine's own figures for a class of sizes.
    pub(crate) fn cost_on(&self, batch: &CheckedBatch<'_>, engine: usize, class: usize) -> Cost {
        let (suite, direction) = (batch.suite(), batch.direction());
        let figures = self.set.plan(suite, direction).iter().find(|candidate| candidate.engine == engine);
        let place = place(suite, direction);
        figures.map_or(Cost::new(0.0, 0.0, 0.0), |candidate| self.figures(candidate, place, class))
    }

    /// The candidate with its cost as learnt, its backlog and its standing.
    #[inline]
    pub(crate) fn as_of_now(&self, candidate: &Candidate, place: usize, class: usize) -> Candidate {
        let slot = &self.set.slots[candidate.engine];
        if slot.health.readmits() {
            // What it failed before it went into quarantine says nothing of it now.
            slot.trust.forget();
        }
        let suite_allowed = slot.trust.allows_place(place);
        Candidate {
            cost: self.figures(candidate, place, class).scaled(slot.learned.correction(place, class).factor()),
            backlog_ns: slot.drivers.backlog_ns(),
            trusted: suite_allowed && slot.health.allows() && self.excluded & 1 << candidate.engine == 0,
            ..*candidate
        }
    }

    /// Asks the router, and again when the engine that it names fails its known-answer test.
    pub(crate) fn choose(&mut self, batch: &CheckedBatch<'_>, kinds: EngineKinds) -> Result<Choice> {
        let (suite, direction) = (batch.suite(), batch.direction());
        let plan = self.set.plan(suite, direction);
        let (request, place, class) = self.request(batch, kinds);
        if let Some(choice) = self.remembered(suite, place, &request) {
            return Ok(choice);
        }
        loop {
            let now = || plan.iter().map(|candidate| self.as_of_now(candidate, place, class));
            let shared = self.preferred.and_then(|engine| decide_for(&request, engine, now()));
            let route = match shared {
                Some(route) => route,
                None => {
                    let route = decide(&request, now()).map_err(|_| self.no_route(batch))?;
                    self.probe(&request, route, plan, place, class).unwrap_or(route)
                }
            };
            let slot = &self.set.slots[route.engine];
            if self.shared.policy.self_test == SelfTest::Never || !slot.trust.is_untested(suite) {
                let cost = self.cost_on(batch, route.engine, class);
                let choice = Choice { route, cost, place, class };
                self.remember(place, request, choice);
                return Ok(choice);
            }
            self.test(&request, batch, route.engine, place, class);
        }
    }

    /// Has an engine answer the suite's known-answer test. One that may take its time over it, since it has a device to
    /// open or a kernel to build, is left out of this batch as soon as it has had the time of a stalled one, if another
    /// engine can do.
    fn test(&mut self, request: &Request, batch: &CheckedBatch<'_>, engine: usize, place: usize, class: usize) {
        let (suite, plan) = (batch.suite(), self.set.plan(batch.suite(), batch.direction()));
        let (slot, policy) = (&self.set.slots[engine], &self.shared.policy.trust);
        let before = self.excluded;
        self.excluded |= 1 << engine;
        if slot.is_isolated() {
            let others = plan.iter().map(|candidate| self.as_of_now(candidate, place, class));
            if decide(request, others).is_ok() {
                slot.test_aside(suite, policy);
            } else {
                slot.test(suite, policy);
            }
        } else {
            slot.test(suite, policy);
        }
        // An engine that has not answered is not asked again for this batch.
        if !slot.trust.is_untested(suite) {
            self.excluded = before;
        }
    }

    /// What was decided for a batch of this shape a moment ago, unless its engine may not run it any more.
    #[inline]
    fn remembered(&self, suite: Suite, place: usize, request: &Request) -> Option<Choice> {
        let before = self.open.remembered.as_ref()?;
        let is_same = before.place == place && before.request == *request;
        let is_fresh = self.tick.wrapping_sub(before.tick) < REMEMBERED_FOR && !self.is_probe_due();
        let slot = &self.set.slots[before.choice.route.engine];
        let is_free = self.excluded == 0 && self.preferred.is_none();
        // An engine that came back from quarantine meanwhile has its known-answer test before it.
        let is_tested = self.shared.policy.self_test == SelfTest::Never || !slot.trust.is_untested(suite);
        let is_trusted = slot.health.is_well() && is_tested && slot.trust.allows_place(place);
        (is_same && is_fresh && is_free && is_trusted).then_some(before.choice)
    }

    /// Remembers the choice for a short batch that every engine could run at once.
    #[inline]
    fn remember(&mut self, place: usize, request: Request, choice: Choice) {
        let is_usual = self.excluded == 0 && self.preferred.is_none() && choice.route.reason != RouteReason::Probe;
        if is_usual && choice.route.predicted_ns < TIMED_FROM_NS && !self.set.slots[choice.route.engine].is_isolated() {
            self.open.remembered = Some(Remembered { place, request, choice, tick: self.tick });
        }
    }

    fn is_probe_due(&self) -> bool {
        self.tick % PROBE_EVERY == PROBE_EVERY / 2
    }

    /// What the router is asked about a batch, where its suite and direction stand, and its class of sizes.
    #[inline]
    pub(crate) fn request(&self, batch: &CheckedBatch<'_>, kinds: EngineKinds) -> (Request, usize, usize) {
        let (suite, direction) = (batch.suite(), batch.direction());
        let (ops, bytes) = (batch.len() as u64, batch.input_bytes());
        let plan = self.set.plan(suite, direction);
        let unlimited = plan.iter().all(|candidate| candidate.input_len_max >= bytes);
        let is_even = ops < 2 || bytes <= SKEW_BYTES_MIN;
        let input_len_max = if unlimited && is_even { 0 } else { longest_input(batch) };
        let (pinned, deadline_ns) = (self.pinned, self.deadline_ns);
        let request = Request { ops, bytes, input_len_max, kinds, pinned, deadline_ns };
        (request, place(suite, direction), shape_class(ops, bytes, input_len_max))
    }

    /// Now and then, an engine that is taken to be slow although its figures say that it would be the fastest.
    #[inline]
    fn probe(&self, request: &Request, best: Route, plan: &[Candidate], place: usize, class: usize) -> Option<Route> {
        if !self.is_probe_due() || plan.len() < 2 || best.reason == RouteReason::Pinned {
            return None;
        }
        let limit_ns = (best.predicted_ns * PROBE_FACTOR_MAX).min(PROBE_NS_MAX);
        plan.iter().find_map(|figures| {
            let slot = &self.set.slots[figures.engine];
            let now = self.as_of_now(figures, place, class);
            let own = self.figures(figures, place, class);
            let hoped_ns = own.predict_ns(request.ops, request.bytes) + now.wakeup_ns + now.backlog_ns;
            let feared = decide(request, [now]).ok()?;
            let worth = slot.learned.correction(place, class).is_slow()
                && figures.engine != best.engine
                && hoped_ns < best.predicted_ns
                && feared.predicted_ns <= limit_ns;
            worth.then_some(Route { reason: RouteReason::Probe, ..feared })
        })
    }

    fn no_route(&self, batch: &CheckedBatch<'_>) -> Error {
        let (suite, direction) = (batch.suite(), batch.direction());
        let any = |is: &dyn Fn(&EngineSlot) -> bool| {
            self.set.plan(suite, direction).iter().any(|candidate| is(&self.set.slots[candidate.engine]))
        };
        Error::Refused(if any(&|slot| !slot.health.allows()) {
            Refusal::InQuarantine(suite)
        } else if any(&|slot| !slot.trust.allows(suite)) {
            Refusal::SelfTestFailed(suite)
        } else {
            Refusal::NoEngine(suite, direction)
        })
    }
}

/// The route of a share, on the engine that it was given to if that may run it.
fn decide_for(request: &Request, engine: usize, candidates: impl Iterator<Item = Candidate>) -> Option<Route> {
    let route = decide(&Request { pinned: Some(engine), ..*request }, candidates).ok()?;
    Some(Route { reason: RouteReason::Share, ..route })
}

fn longest_input(batch: &CheckedBatch<'_>) -> u64 {
    batch.ops().iter().map(|op| u64::from(op.input.len)).max().unwrap_or(0)
}
