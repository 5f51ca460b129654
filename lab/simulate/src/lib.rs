//! The service on machines that are not there: a discrete-event simulation (Law, Simulation Modeling and Analysis, chapter 1).
//!
//! What is decided is decided by the router's own code: which request is next and what shares a batch ([`ciphermill_router::Queue`]), how
//! long it waits for others ([`ciphermill_router::window()`]), and which engine runs it ([`ciphermill_router::decide()`]). What takes time is
//! given: what engines cost, what the service costs around them, and when clients ask.
//!
//! - `scenario`: what is simulated; `parse`: its forms in text; `build`: works and devices of such; `file`: all of it as TOML.
//! - `events`: what happens next, and requests on their way.
//! - `engines`: what runs a batch: cores, and devices with their queues.
//! - `cores`: cores and the threads that share them, as Linux shares them out.
//! - `node`: the queue and the workers of one service, and its clients.
//! - `run`: the simulation; `outcome`: what it says.
//! - `sweep`: where a scenario saturates, and how many cores it needs.
mod build;
mod cores;
mod engines;
mod events;
mod file;
mod node;
mod outcome;
mod parse;
pub mod random;
mod run;
mod scenario;
mod sweep;

pub use build::Sources;
pub use file::read;
pub use outcome::{EngineOutcome, GroupOutcome, Lanes, Latency, Outcome, WorkOutcome};
pub use parse::{DeviceText, MixText, parse_arrivals, parse_devices, parse_mix, parse_trace};
pub use run::run;
pub use scenario::{Arrivals, Ask, Clients, Device, DeviceCost, Overheads, Scenario, Work};
pub use sweep::{Cores, Knee, Step, cores_needed, knee};

/// Why a scenario cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A value breaks a rule.
    #[error("{what}: {rule}")]
    Rule {
        /// What has the value, and the value.
        what: String,
        /// The rule, with its bound.
        rule: String,
    },
    /// A text has not the form that it should have.
    #[error("`{text}` is not {form}")]
    Form {
        /// What was given.
        text: String,
        /// What it should be, with an example.
        form: &'static str,
    },
    /// A file of a scenario or a trace is wrong somewhere.
    #[error("line {line}: {why}")]
    Line {
        /// The line, from one on.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A scenario as TOML is none.
    #[error("the scenario: {0}")]
    File(String),
}

/// An error that names a value and the rule that it breaks.
pub(crate) fn rule(what: impl Into<String>, rule: impl Into<String>) -> SimulationError {
    SimulationError::Rule { what: what.into(), rule: rule.into() }
}
