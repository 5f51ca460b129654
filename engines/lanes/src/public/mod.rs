//! Public-key suites: an operation a lane.

pub(crate) mod isa;
mod montgomery;
mod portable;
pub(crate) mod room;
#[cfg(target_arch = "x86_64")]
mod x86;
