//! What machine a record was made on.

use serde::{Deserialize, Serialize};

/// The machine, in words that a reader of a record needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's own name.
    pub cpu: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Instruction sets that matter to ciphers, of those that the processor has.
    pub features: Vec<String>,
    /// Operating system and kernel version.
    pub os: String,
    /// This program's version.
    pub ciphermill: String,
    /// Whether this program was built with optimisation; figures of other builds mean nothing.
    pub optimised: bool,
}
