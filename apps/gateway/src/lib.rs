//! The gateway as a library: what `ciphermill gateway` runs.
//!
//! Packets from the inside go through [`ciphermill_esp`] to the outside, and back. Each way has its workers, which take turns: one receives
//! and gives out sequence numbers while others encrypt, and what they have is committed and sent in the order in which it came
//! ([`mod@line`]). Associations come from a file ([`configuration`]).

pub mod configuration;
mod derive;
pub mod line;
pub mod metrics;
pub mod ports;
mod setup;

mod gateway;
pub mod ike;

pub use gateway::{Gateway, GatewayError, Status};
