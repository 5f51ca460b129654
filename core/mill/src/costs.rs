//! What batches cost on this machine's engines, as measured before.

use std::collections::BTreeMap;

use ciphermill_contract::{Cost, Direction, EngineInfo, Suite};
use ciphermill_router::{LEN_CLASSES, OPS_CLASSES, SIZE_CLASSES, break_even, break_even_len, size_class};

use crate::cell::SuiteCell;

/// Nanoseconds that waking a sleeping thread takes on a machine that has not been measured.
const WAKEUP_PRIOR_NS: f64 = 50_000.0;

/// What a suite costs in a direction on one engine, and what it was measured with.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredCost {
    /// The engine's name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// The kernel that ran the suite ([`EngineInfo::kernel_for`]).
    pub kernel: String,
    /// The suite.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// The cost.
    pub cost: Cost,
    /// Operations that are paid for together ([`Cost::in_steps`]).
    pub step: u16,
    /// The median of the relative errors' absolute values: how well the cost describes what was measured.
    pub spread: f64,
    /// How many times as long as predicted batches of each class of sizes took ([`size_class`]).
    pub factors: [f64; SIZE_CLASSES],
}

impl MeasuredCost {
    /// Whether it was measured with the engine as it is now.
    pub fn is_of(&self, engine: &EngineInfo) -> bool {
        self.engine == engine.name
            && self.version == engine.version
            && self.kernel == engine.kernel_for(self.suite.canonical())
    }

    /// What a batch takes, in nanoseconds.
    fn predict_ns(&self, ops: u64, bytes: u64) -> f64 {
        self.of_class(size_class(ops, bytes)).in_steps(ops, self.step).predict_ns(ops, bytes)
    }

    /// The cost of batches of one class of sizes.
    pub fn of_class(&self, class: usize) -> Cost {
        self.cost.scaled(self.factors.get(class).copied().unwrap_or(1.0))
    }

    /// The smallest batch of operations of `len` bytes in which this one is faster than `other`; `None` when there is none.
    pub fn overtakes(&self, other: &MeasuredCost, len: u64) -> Option<u64> {
        let is_faster = |ops: u64| self.predict_ns(ops, ops * len) < other.predict_ns(ops, ops * len);
        // Within steps no line says it.
        let steps = u64::from(self.step.max(other.step));
        if steps > 1
            && let Some(first) = (1..=2 * steps).find(|ops| is_faster(*ops))
        {
            return Some(first);
        }
        first_in_classes(&OPS_CLASSES, |first| {
            let class = size_class(first, first.saturating_mul(len));
            let (theirs, own) = (other.of_class(class), self.of_class(class));
            (is_faster(first), break_even(&theirs, &own, len))
        })
    }

    /// The shortest length in bytes at which a batch of `ops` operations is faster here than on `other`; `None` when there
    /// is none.
    pub fn overtakes_len(&self, other: &MeasuredCost, ops: u64) -> Option<u64> {
        first_in_classes(&LEN_CLASSES, |first| {
            let class = size_class(ops, first.saturating_mul(ops));
            let (theirs, own) = (other.of_class(class), self.of_class(class));
            let bytes = first.saturating_mul(ops);
            let faster = own.predict_ns(ops, bytes) < theirs.predict_ns(ops, bytes);
            (faster, break_even_len(&theirs, &own, ops))
        })
    }

    /// Whether both are about the same thing, so that one takes the other's place.
    fn replaces(&self, other: &MeasuredCost) -> bool {
        (&self.engine, &self.version, &self.kernel) == (&other.engine, &other.version, &other.kernel)
            && (self.suite.canonical(), self.direction) == (other.suite.canonical(), other.direction)
    }
}

/// Measured costs by engine, suite and direction. What is missing is estimated by the engines themselves.
///
/// Costs of several versions and kernels of an engine lie side by side. A cost counts for the version and kernel that it
/// was measured with; an engine that has changed since is taken as not measured.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    measured: BTreeMap<SuiteCell, Vec<MeasuredCost>>,
    wakeup_ns: Option<f64>,
}

impl Costs {
    /// No costs.
    pub fn new() -> Costs {
        Costs::default()
    }

    /// Takes in a cost, in the place of an earlier one of the same engine, version, kernel, suite and direction.
    pub fn insert(&mut self, cost: MeasuredCost) {
        let all = self.measured.entry(SuiteCell::new(cost.suite, cost.direction)).or_default();
        match all.iter_mut().find(|known| cost.replaces(known)) {
            Some(known) => *known = cost,
            None => all.push(cost),
        }
    }

    /// Drops costs for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&MeasuredCost) -> bool) {
        for all in self.measured.values_mut() {
            all.retain(&mut keep);
        }
    }

    /// Every cost, suite by suite.
    pub fn iter(&self) -> impl Iterator<Item = &MeasuredCost> {
        self.measured.values().flatten()
    }

    /// Takes in what waking a sleeping thread costs, in nanoseconds.
    pub fn set_wakeup_ns(&mut self, wakeup_ns: f64) {
        self.wakeup_ns = Some(wakeup_ns);
    }

    /// What waking a sleeping thread costs, in nanoseconds; an estimate where it was not measured.
    pub fn wakeup_ns(&self) -> f64 {
        self.wakeup_ns.unwrap_or(WAKEUP_PRIOR_NS)
    }

    /// The same, if it was measured.
    pub fn measured_wakeup_ns(&self) -> Option<f64> {
        self.wakeup_ns
    }

    /// Number of costs.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The cost of `suite` in `direction` on this engine as it is now, if it was measured.
    pub fn find(&self, engine: &EngineInfo, suite: Suite, direction: Direction) -> Option<&MeasuredCost> {
        self.measured.get(&SuiteCell::new(suite, direction))?.iter().find(|cost| cost.is_of(engine))
    }
}

/// The first number that is in a class and beyond the class's break-even. `judge` says of a class whether the engine is
/// ahead at its beginning, and where the break-even would be if the class had no bounds.
fn first_in_classes(starts: &[u64], judge: impl Fn(u64) -> (bool, Option<u64>)) -> Option<u64> {
    let ends = starts.iter().skip(1).copied().chain([u64::MAX]);
    starts.iter().copied().zip(ends).find_map(|(first, end)| match judge(first) {
        (true, _) => Some(first),
        (false, found) => found.filter(|found| (first..end).contains(found)),
    })
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::EngineKind;

    use super::*;

    #[test]
    fn a_cost_counts_for_the_engine_it_was_measured_on_only() {
        let suite: Suite = "aes-128-cbc".parse().expect("a suite");
        let info = |version: &str| EngineInfo {
            name: "lanes",
            kind: EngineKind::Lanes,
            version: version.to_owned(),
            parallelism: 1,
            kernels: Vec::new(),
        };
        let mut costs = Costs::new();
        let cost = |kernel: &str, batch_ns| MeasuredCost {
            engine: "lanes".to_owned(),
            version: "1".to_owned(),
            kernel: kernel.to_owned(),
            suite,
            direction: Direction::Encrypt,
            cost: Cost::new(batch_ns, 2.0, 3.0),
            step: 1,
            spread: 0.01,
            factors: [1.0; SIZE_CLASSES],
        };
        costs.insert(cost("default", 1.0));
        costs.insert(cost("other", 5.0));
        costs.insert(cost("default", 3.0));
        assert_eq!(costs.find(&info("1"), suite, Direction::Encrypt), Some(&cost("default", 3.0)));
        assert_eq!(costs.find(&info("1"), suite, Direction::Decrypt), None);
        assert_eq!(costs.find(&info("2"), suite, Direction::Encrypt), None);
        assert_eq!(costs.find(&EngineInfo { name: "library", ..info("1") }, suite, Direction::Encrypt), None);
        assert_eq!((costs.len(), costs.wakeup_ns(), costs.measured_wakeup_ns()), (2, WAKEUP_PRIOR_NS, None));
        costs.retain(|cost| cost.kernel == "other");
        assert_eq!(costs.iter().map(|cost| cost.kernel.as_str()).collect::<Vec<_>>(), ["other"]);
    }

    #[test]
    fn an_engine_overtakes_where_its_class_of_sizes_lets_it() {
        let cost = |batch_ns, op_ns, byte_ns, factors| MeasuredCost {
            engine: "lanes".to_owned(),
            version: "1".to_owned(),
            kernel: "default".to_owned(),
            suite: "aes-128-cbc".parse().expect("a suite"),
            direction: Direction::Encrypt,
            cost: Cost::new(batch_ns, op_ns, byte_ns),
            step: 1,
            spread: 0.0,
            factors,
        };
        let single = cost(0.0, 100.0, 1.0, [1.0; SIZE_CLASSES]);
        let lanes = cost(1000.0, 20.0, 0.5, [1.0; SIZE_CLASSES]);
        assert_eq!((lanes.overtakes(&single, 0), single.overtakes(&lanes, 0)), (Some(13), Some(1)));
        assert_eq!((lanes.overtakes_len(&single, 1), lanes.overtakes_len(&single, 32)), (Some(1841), Some(0)));
        // Eight at the price of two of the other's: from three on.
        let in_step = MeasuredCost { step: 8, ..cost(0.0, 30.0, 0.0, [1.0; SIZE_CLASSES]) };
        assert_eq!((in_step.overtakes(&single, 0), single.overtakes(&in_step, 0)), (Some(3), Some(1)));
        // Slow where lanes are not full: overtakes with the next class of batches.
        let mut factors = [1.0; SIZE_CLASSES];
        factors[size_class(2, 0)] = 8.0;
        let lanes = cost(1000.0, 20.0, 0.5, factors);
        assert_eq!((lanes.overtakes(&single, 0), single.overtakes(&single, 0)), (Some(16), None));
        // Slow for long messages: ahead for short ones only.
        let mut factors = [1.0; SIZE_CLASSES];
        factors[size_class(32, 32 * 4096)] = 8.0;
        let lanes = cost(0.0, 200.0, 0.5, factors);
        assert_eq!(lanes.overtakes_len(&single, 32), Some(201));
        assert_eq!(single.overtakes_len(&lanes, 32), Some(0));
    }
}
