//! Measuring engines: what each suite costs in each direction, for a mill to be opened with
//! ([`ciphermill::MillBuilder::costs`]).
//!
//! A pair of engine and suite runs a small design of batch sizes and lengths, shape after shape and round after round, so
//! that a disturbance meets all shapes alike. The lowest tenth of each shape's times goes into a fit
//! ([`mod@ciphermill_router::fit`]). One pair is measured at a time, on the caller's thread: two at once would share caches
//! and clock frequency, and say less about the engine.

mod bench;
mod host;
pub mod layout;
mod material;
mod shapes;
mod wakeup;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill::{Costs, MeasuredCost};
use ciphermill_contract::suite::KeyPair;
use ciphermill_contract::{Capability, Direction, Engine, Suite, capability};

use bench::Clock;
pub use host::Host;
pub use wakeup::wakeup_ns;

/// The least time that a pair gets, however late it is …
const PAIR_MIN: Duration = Duration::from_millis(2);

/// … and the most, which is what makes a time-out of a pair that hangs on one slow shape.
const PAIR_MAX: Duration = Duration::from_millis(150);

/// Fits that are further off than this are noisy: a machine that was busy, or an engine that is far from linear.
pub const SPREAD_NOISY: f64 = 0.25;

/// Something to measure.
#[derive(Clone)]
pub struct Pair {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// The suite.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
}

/// How much time measuring may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// For all pairs together. Pairs whose single operation takes long may exceed it.
    pub time: Duration,
    /// Rounds over a pair's shapes at most.
    pub rounds: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { time: Duration::from_secs(17), rounds: 12 }
    }
}

impl Effort {
    /// For a first impression.
    pub const QUICK: Effort = Effort { time: Duration::from_secs(5), rounds: 4 };
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Tuned {
    /// The costs.
    pub costs: Vec<MeasuredCost>,
    /// What could not be measured.
    pub left_out: Vec<LeftOut>,
}

/// A pair that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The engine's name.
    pub engine: &'static str,
    /// The suite.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// Why.
    pub why: String,
}

/// What `engines` claim of the suites that are `wanted`, each engine, version, kernel, suite and direction once. An engine
/// may be given several times, opened with different kernels.
pub fn pairs(engines: &[Arc<dyn Engine>], wanted: impl Fn(Suite) -> bool) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for engine in engines {
        for suite in engine.capabilities().iter().flat_map(|capability| capability.suites).copied() {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let known = |pair: &Pair| {
                    let (theirs, own) = (pair.engine.info(), engine.info());
                    (pair.suite, pair.direction, theirs.name) == (suite, direction, own.name)
                        && theirs.version == own.version
                        && theirs.kernel_for(suite) == own.kernel_for(suite)
                };
                let claimed = capability::find(engine.capabilities(), suite, direction).is_some();
                // How long the search for primes takes is chance: some runs tell less than the prior.
                let is_chance = matches!(suite, Suite::Generate(KeyPair::Rsa(_)));
                if claimed && !is_chance && wanted(suite) && !pairs.iter().any(known) {
                    pairs.push(Pair { engine: Arc::clone(engine), suite, direction });
                }
            }
        }
    }
    pairs
}

/// Measures pairs. `progress` hears of each before it begins, with the number of those before it.
///
/// Time is divided as it is left, the slowest pairs first, so that what quick ones do not need is there for others.
pub fn tune(pairs: &[Pair], effort: Effort, mut progress: impl FnMut(usize, &Pair)) -> Tuned {
    let start = Instant::now();
    let clock = Clock::new();
    let mut order: Vec<&Pair> = pairs.iter().collect();
    order.sort_by(|a, b| expected_ns(b).total_cmp(&expected_ns(a)));
    let mut tuned = Tuned::default();
    for (done, pair) in order.iter().enumerate() {
        progress(done, pair);
        let left = effort.time.saturating_sub(start.elapsed());
        let share = left / u32::try_from(order.len() - done).unwrap_or(u32::MAX);
        match bench::measure(pair, pairs, clock, share.clamp(PAIR_MIN, PAIR_MAX), effort.rounds) {
            Ok(cost) => tuned.costs.push(cost),
            Err(why) => {
                let (engine, suite, direction) = (pair.engine.info().name, pair.suite, pair.direction);
                tuned.left_out.push(LeftOut { engine, suite, direction, why });
            }
        }
    }
    tuned.costs.sort_by_cached_key(|cost| (cost.suite.ordinal(), cost.direction, cost.engine.clone()));
    tuned
}

impl Tuned {
    /// The costs as a mill is opened with.
    pub fn into_costs(self) -> Costs {
        let mut costs = Costs::new();
        for cost in self.costs {
            costs.insert(cost);
        }
        costs
    }
}

impl Pair {
    fn capability(&self) -> Option<&Capability> {
        capability::find(self.engine.capabilities(), self.suite, self.direction)
    }
}

/// What one operation probably takes, by the engine's own estimate.
fn expected_ns(pair: &Pair) -> f64 {
    pair.capability().map_or(0.0, |capability| capability.prior.predict_ns(1, 1024))
}
