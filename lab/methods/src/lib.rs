//! The lab: measures engines and peers in the same loop, and verifies every answer before it is timed.
pub mod breakeven;
mod bytes;
pub mod cases;
mod clock;
mod columns;
mod contest;
mod counters;
mod crew;
pub mod device;
pub mod driver;
pub mod engines;
mod estimate;
pub mod gateway;
pub mod grid;
pub mod ladder;
mod lineup;
pub mod method;
mod mill_batch;
pub mod overhead;
pub mod peaks;
pub mod principles;
pub mod router;
pub mod rules;
mod sections;
pub mod short;
mod shown;
pub mod simulate;
pub mod timing;
pub mod workload;

use ciphermill_contract::{Direction, Error, Suite};
pub use ciphermill_simulate::random;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// No engine or peer has this name.
    #[error("no engine is called `{name}`; there are {known}")]
    UnknownEngine {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The engine exists but not on this machine.
    #[error("{name} is not available here: {why}")]
    Unavailable {
        /// The engine.
        name: String,
        /// Why.
        why: String,
    },
    /// The engine has no kernel of this name on this machine.
    #[error("{engine} has no kernel `{kernel}` here; it runs {known}")]
    UnknownKernel {
        /// The engine.
        engine: String,
        /// What was asked for.
        kernel: String,
        /// What it runs.
        known: String,
    },
    /// No case has this name.
    #[error("no case is called `{name}`; `ciphermill lab cases --list` lists them")]
    UnknownCase {
        /// What was asked for.
        name: String,
    },
    /// A file of definitions breaks its own rules.
    #[error("the definitions of the cases are wrong: {0}")]
    Definitions(String),
    /// A variant of an algorithm computes something else than the others; nothing was timed.
    #[error("{algorithm}, {variant}: the output differs from the unoptimised variant's; not timed")]
    Disagrees {
        /// The algorithm.
        algorithm: &'static str,
        /// The variant.
        variant: &'static str,
    },
    /// A service of the ladder ended, was late, refused or answered wrongly.
    #[error("the ladder: {0}")]
    Service(String),
    /// A method panicked, which it never should.
    #[error("a defect in the method `{method}` ended it; what it said stands on standard error")]
    Defect {
        /// The method.
        method: String,
    },
    /// The user asked for an end.
    #[error("interrupted")]
    Interrupted,
    /// The parameters make no workload.
    #[error("{0}")]
    Parameters(String),
    /// A scenario cannot be simulated.
    #[error("{0}")]
    Simulation(#[from] ciphermill_simulate::SimulationError),
    /// An engine's output differs from the reference engine's; nothing was timed.
    #[error("{engine} computes {suite} {direction} wrongly: operation {op} differs from the reference; not timed")]
    WrongResult {
        /// The engine.
        engine: String,
        /// The suite.
        suite: Suite,
        /// The direction.
        direction: Direction,
        /// The first operation that differs.
        op: usize,
    },
    /// An engine refused or failed.
    #[error("{engine}: {source}")]
    Engine {
        /// The engine.
        engine: String,
        /// What it said.
        source: Error,
    },
}
