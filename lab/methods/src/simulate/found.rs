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
    /// Requests a second.
    pub rate: Figure,
    /// The 99th percentile in nanoseconds.
    pub p99_ns: Figure,
}

/// A figure of several runs on this machine, and of the simulation.
#[derive(Clone, Debug)]
pub struct Figure {
    measured: Vec<f64>,
    /// As it was simulated.
    pub simulated: f64,
}

impl Figure {
    /// From one run at least.
    pub fn new(mut measured: Vec<f64>, simulated: f64) -> Figure {
        measured.sort_by(f64::total_cmp);
        Figure { measured, simulated }
    }

    /// The median of the runs.
    pub fn measured(&self) -> f64 {
        self.measured.get(self.measured.len() / 2).copied().unwrap_or_default()
    }

    /// The least and the greatest of the runs.
    pub fn range(&self) -> [f64; 2] {
        [self.measured.first(), self.measured.last()].map(|value| value.copied().unwrap_or_default())
    }

    /// How many times what was measured was simulated.
    pub fn ratio(&self) -> f64 {
        self.simulated / self.measured().max(1e-9)
    }

    /// Half of what the runs differ by, as a share.
    pub fn spread(&self) -> f64 {
        let [least, greatest] = self.range();
        (greatest - least) / 2.0 / self.measured().max(1e-9)
    }
}

impl Compared {
    /// How far a simulated rate may be from the measured one, as a share of it.
    pub const RATE_OFF_MAX: f64 = 0.15;

    /// The same of a 99th percentile.
    pub const P99_OFF_MAX: f64 = 0.25;

    fn figures(&self) -> [(&Figure, f64); 2] {
        [(&self.rate, Compared::RATE_OFF_MAX), (&self.p99_ns, Compared::P99_OFF_MAX)]
    }

    /// Whether what was simulated is near enough, of the rate and of the 99th percentile.
    pub fn are_near(&self) -> [bool; 2] {
        self.figures().map(|(figure, most)| (figure.ratio() - 1.0).abs() <= most)
    }

    /// Whether all that was measured is as near to its own median.
    pub fn are_steady(&self) -> [bool; 2] {
        self.figures().map(|(figure, most)| {
            figure.range().iter().all(|value| (value / figure.measured().max(1e-9) - 1.0).abs() <= most)
        })
    }
}
