//! The engines at one moment, and for each suite and direction those that run it. Engines join and leave while a mill is
//! open; a batch keeps the set that it began with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ciphermill_contract::error::Refusal;
use ciphermill_contract::{Capability, Cost, Direction, EngineKinds, Error, Result, Suite};
use ciphermill_router::{Candidate, LEN_CLASSES, OPS_CLASSES, SIZE_CLASSES, size_class};

use super::slot::EngineSlot;
use crate::cell::{CostCell, SuiteCell};
use crate::costs::Costs;
use crate::disabled::Disabled;

/// The engines at one moment.
pub(crate) struct EngineSet {
    pub(crate) slots: Vec<Arc<EngineSlot>>,
    /// By suite and direction; `engine` is an index into `slots`.
    plans: Vec<Vec<Candidate>>,
    /// For each plan whether several engines may work on one batch at the same time.
    sharing: Vec<bool>,
    /// What is disabled, and the engines that would stand in a plan otherwise, by the same index.
    pub(crate) disabled: Arc<Disabled>,
    left_out: BTreeMap<usize, Vec<LeftOut>>,
}

/// An engine that a rule keeps out of a plan.
pub(crate) struct LeftOut {
    pub(crate) candidate: Candidate,
    /// The rule as it is written.
    pub(crate) rule: String,
}

/// How an engine's estimates of each class of sizes differ from its straight line: where lanes are not full.
fn estimated(capability: &Capability) -> [f64; SIZE_CLASSES] {
    let mut factors = [1.0; SIZE_CLASSES];
    for first_ops in OPS_CLASSES {
        for first_len in LEN_CLASSES {
            // The middle of the class, which reaches some eight times as far by operations and four times by length.
            let ops = if first_ops == 1 { 1 } else { 3 * first_ops };
            let bytes = ops * (2 * first_len).max(16);
            let straight = capability.prior.predict_ns(ops, bytes);
            if straight > 0.0 {
                factors[size_class(ops, bytes)] = capability.estimate_ns(ops, bytes) / straight;
            }
        }
    }
    factors
}

/// What the router is told of an engine that runs a suite in a direction.
fn candidate(
    (index, slot): (usize, &EngineSlot),
    capability: &Capability,
    (suite, direction): (Suite, Direction),
    costs: &Costs,
) -> Candidate {
    let (info, cell) = (slot.engine.info(), SuiteCell::new(suite, direction));
    let measured = costs.find(info, suite, direction);
    match measured {
        Some(measured) => slot.learned.know(cell, &measured.factors),
        None if capability.few.is_some() => slot.learned.know(cell, &estimated(capability)),
        None => {}
    }
    Candidate {
        engine: index,
        name: info.name,
        kind: info.kind,
        cost: measured.map_or(capability.prior, |measured| measured.cost),
        wakeup_ns: if slot.engine.comes_back() { 0.0 } else { costs.wakeup_ns() },
        backlog_ns: 0.0,
        step: capability.step,
        input_len_max: capability.input_len_max as u64,
        trusted: true,
    }
}

impl EngineSet {
    /// The set of these engines, with what `costs` knows of them, for all that is not disabled.
    pub(crate) fn new(
        slots: Vec<Arc<EngineSlot>>,
        kinds: EngineKinds,
        costs: &Costs,
        disabled: Arc<Disabled>,
    ) -> EngineSet {
        let mut plans = vec![Vec::new(); SuiteCell::COUNT];
        let mut left_out: BTreeMap<usize, Vec<LeftOut>> = BTreeMap::new();
        for (index, slot) in slots.iter().enumerate() {
            let info = slot.engine.info();
            if !kinds.contains(info.kind) {
                continue;
            }
            let mut seen = BTreeSet::new();
            for capability in slot.engine.capabilities() {
                for way in pairs(capability.suites) {
                    let cell = SuiteCell::new(way.0, way.1).index();
                    if !capability.covers(way.0, way.1) || !seen.insert(cell) {
                        continue;
                    }
                    let candidate = candidate((index, slot), capability, way, costs);
                    match disabled.find(info.name, way.0) {
                        None => plans[cell].push(candidate),
                        Some(rule) => {
                            let left = LeftOut { candidate, rule: rule.to_string() };
                            left_out.entry(cell).or_default().push(left);
                        }
                    }
                }
            }
        }
        // Engines on this processor would only take its cores from each other.
        let shares = |plan: &Vec<Candidate>| plan.len() > 1 && plan.iter().any(|candidate| candidate.kind.can_fail());
        let sharing = plans.iter().map(shares).collect();
        EngineSet { slots, plans, sharing, disabled, left_out }
    }

    /// The engines that run a suite in a direction.
    pub(crate) fn plan(&self, suite: Suite, direction: Direction) -> &[Candidate] {
        &self.plans[SuiteCell::new(suite, direction).index()]
    }

    /// The engines that would run a suite in a direction if it were not disabled on them.
    pub(crate) fn left_out(&self, suite: Suite, direction: Direction) -> &[LeftOut] {
        self.left_out.get(&SuiteCell::new(suite, direction).index()).map_or(&[], Vec::as_slice)
    }

    /// Whether batches of this suite and direction may be worked on by several engines at the same time.
    #[inline]
    pub(crate) fn may_share(&self, suite: Suite, direction: Direction) -> bool {
        self.sharing[SuiteCell::new(suite, direction).index()]
    }

    /// The index of the engine that a caller named.
    ///
    /// # Errors
    /// `Refused` when it is not there.
    pub(crate) fn named(&self, name: &str) -> Result<usize> {
        let index = self.slots.iter().position(|slot| slot.name() == name);
        index.ok_or_else(|| Error::Refused(Refusal::EngineUnavailable(name.to_owned())))
    }

    /// The candidate's own figures for a batch of `ops` operations in a class of sizes, before anything was learnt.
    #[inline]
    pub(crate) fn figures(&self, candidate: &Candidate, cell: CostCell, ops: u64) -> Cost {
        self.slots[candidate.engine].learned.of_class(candidate.cost, cell).in_steps(ops, candidate.step)
    }

    /// An engine's own figures for a batch of `ops` operations in a class of sizes.
    pub(crate) fn cost_on(
        &self,
        (suite, direction): (Suite, Direction),
        engine: usize,
        class: usize,
        ops: u64,
    ) -> Cost {
        let figures = self.plan(suite, direction).iter().find(|candidate| candidate.engine == engine);
        let cell = CostCell::new(suite, direction, class);
        figures.map_or(Cost::new(0.0, 0.0, 0.0), |candidate| self.figures(candidate, cell, ops))
    }

    /// The candidate with its cost as learnt, its backlog and its standing; `excluded` has a bit for each engine that is
    /// not to be trusted with the batch.
    #[inline]
    pub(crate) fn as_of_now(&self, candidate: &Candidate, cell: CostCell, ops: u64, excluded: u32) -> Candidate {
        let slot = &self.slots[candidate.engine];
        slot.readmit();
        let suite_allowed = slot.self_tests.allows(cell.suite.ordinal());
        Candidate {
            cost: self.figures(candidate, cell, ops).scaled(slot.learned.correction(cell).factor()),
            backlog_ns: slot.drivers.backlog_ns(),
            trusted: suite_allowed && slot.health.allows() && excluded & 1 << candidate.engine == 0,
            ..*candidate
        }
    }
}

fn pairs(suites: &'static [Suite]) -> impl Iterator<Item = (Suite, Direction)> {
    suites.iter().flat_map(|suite| [(*suite, Direction::Encrypt), (*suite, Direction::Decrypt)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITES: &[Suite] = &[Suite::Random];

    #[test]
    fn classes_of_few_operations_have_estimates_of_their_own() {
        let capability = Capability::new(SUITES, Cost::new(0.0, 10.0, 0.1)).lanes(16).few(Cost::new(0.0, 50.0, 1.0));
        let factors = estimated(&capability);
        // One message of 16 KB: alone, not on sixteen lanes.
        let alone = factors[size_class(1, 16_386)];
        assert!((alone - (50.0 + 16_386.0) / (10.0 + 1638.6)).abs() < 1e-9, "{alone}");
        for ops in [16, 128, 1024] {
            assert_eq!(factors[size_class(ops, ops * 64)], 1.0, "{ops} operations fill the lanes");
        }
    }

    #[test]
    fn fewer_operations_than_lanes_cost_full_lanes_or_their_own_way() {
        let plain = Capability::new(SUITES, Cost::new(10.0, 2.0, 0.5)).lanes(8);
        assert_eq!(plain.estimate_ns(2, 200), plain.prior.predict_ns(2, 200));
        let serial = plain.few(Cost::new(0.0, 100.0, 4.0));
        // Alone 500 ns, eight lanes of as long messages 426.
        assert_eq!(serial.estimate_ns(1, 100), 426.0);
        assert_eq!(plain.few(Cost::new(0.0, 10.0, 1.0)).estimate_ns(1, 100), 110.0);
        assert_eq!(serial.estimate_ns(8, 800), 426.0, "full lanes are as the prior says");
        assert_eq!(serial.estimate_ns(0, 0), serial.prior.predict_ns(0, 0));
        let wide = Capability::new(SUITES, Cost::new(1000.0, 0.0, 1.0)).lanes(512);
        let narrow = wide.narrow(Cost::new(0.0, 0.0, 2.0), 3);
        assert_eq!([narrow.estimate_ns(1, 10), narrow.estimate_ns(5, 50)], [80.0, 160.0]);
        let by_blocks = wide.little(Cost::new(0.0, 0.0, 9.0));
        assert_eq!([by_blocks.estimate_ns(1, 10), by_blocks.estimate_ns(1, 4096)], [90.0, 5096.0]);
        let in_step = plain.in_step();
        assert_eq!([1, 2, 8, 9, 16].map(|ops| in_step.estimate_ns(ops, 0)), [26.0, 26.0, 26.0, 42.0, 42.0]);
        assert_eq!(in_step.estimate_ns(4, 40), 10.0 + 16.0 + 40.0);
    }
}
