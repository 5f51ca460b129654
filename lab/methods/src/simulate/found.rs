//! What is simulated, and what came of it.

use ciphermill_simulate::{Cores, Knee, Outcome, Scenario};

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The scenario.
    pub scenario: Scenario,
    /// Over what it is repeated.
    pub sweep: Sweep,
    /// How many times as long as without load the 99th percentile may be.
    pub knee: f64,
}

/// Over what a scenario is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sweep {
    /// Nothing: it is simulated once.
    #[default]
    Once,
    /// Requests a second, to see where it saturates.
    Load,
    /// Cores, to see how many the load needs.
    Cores,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Once(Outcome),
    Load(Knee),
    Cores(Cores),
}

/// What was measured on this machine beside what was simulated for it.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What clients asked for.
    pub mix: String,
    /// Cores.
    pub cores: u32,
    /// Requests a second: measured and simulated.
    pub rate: [f64; 2],
    /// The 99th percentile in nanoseconds: measured and simulated.
    pub p99_ns: [f64; 2],
}

impl Compared {
    /// How far a simulated rate may be from the measured one, as a share of it.
    pub const RATE_OFF_MAX: f64 = 0.15;

    /// The same of a 99th percentile.
    pub const P99_OFF_MAX: f64 = 0.25;

    /// How many times what was measured was simulated, of rates and of 99th percentiles.
    pub fn ratios(&self) -> [f64; 2] {
        [self.rate, self.p99_ns].map(|[measured, simulated]| simulated / measured.max(1e-9))
    }

    /// Whether both are near enough.
    pub fn are_near(&self) -> [bool; 2] {
        let [rate, p99] = self.ratios().map(|ratio| (ratio - 1.0).abs());
        [rate <= Compared::RATE_OFF_MAX, p99 <= Compared::P99_OFF_MAX]
    }
}
