//! What batches cost on this machine's engines, as measured before.

use std::collections::HashMap;

use ciphermill_contract::{Cost, Direction, EngineInfo, Suite};

use crate::engines::place;

/// Nanoseconds that waking a sleeping thread takes on a machine that has not been measured.
const WAKEUP_PRIOR_NS: f64 = 50_000.0;

/// Measured costs by engine, suite and direction. What is missing is estimated by the engines themselves.
///
/// A cost counts for the engine's version and kernel that it was measured with; an engine that has changed since is taken
/// as not measured.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    measured: HashMap<(String, usize), (Made, Cost)>,
    wakeup_ns: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    version: String,
    kernel: String,
}

impl Costs {
    /// No costs.
    pub fn new() -> Costs {
        Costs::default()
    }

    /// Takes in what `suite` costs in `direction` on an engine with this version and kernel.
    pub fn insert(
        &mut self,
        engine: &str,
        version: &str,
        kernel: &str,
        suite: Suite,
        direction: Direction,
        cost: Cost,
    ) {
        let made = Made { version: version.to_owned(), kernel: kernel.to_owned() };
        self.measured.insert((engine.to_owned(), place(suite, direction)), (made, cost));
    }

    /// Takes in what waking a sleeping thread costs, in nanoseconds.
    pub fn set_wakeup_ns(&mut self, wakeup_ns: f64) {
        self.wakeup_ns = Some(wakeup_ns);
    }

    /// What waking a sleeping thread costs, in nanoseconds.
    pub fn wakeup_ns(&self) -> f64 {
        self.wakeup_ns.unwrap_or(WAKEUP_PRIOR_NS)
    }

    /// Number of costs.
    pub fn len(&self) -> usize {
        self.measured.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    /// The cost of `suite` in `direction` on this engine as it is now, if it was measured.
    pub fn find(&self, engine: &EngineInfo, suite: Suite, direction: Direction) -> Option<Cost> {
        let (made, cost) = self.measured.get(&(engine.name.to_owned(), place(suite, direction)))?;
        (made.version == engine.version && made.kernel == engine.kernel_for(suite)).then_some(*cost)
    }
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
        let cost = Cost::new(1.0, 2.0, 3.0);
        costs.insert("lanes", "1", "default", suite, Direction::Encrypt, cost);
        assert_eq!(costs.find(&info("1"), suite, Direction::Encrypt), Some(cost));
        assert_eq!(costs.find(&info("1"), suite, Direction::Decrypt), None);
        assert_eq!(costs.find(&info("2"), suite, Direction::Encrypt), None);
        assert_eq!(costs.find(&EngineInfo { name: "library", ..info("1") }, suite, Direction::Encrypt), None);
        assert_eq!((costs.len(), costs.wakeup_ns()), (1, WAKEUP_PRIOR_NS));
    }
}
