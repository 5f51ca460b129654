//! The engines of a mill: what is known of each, the threads that drive those that can fail, and which of them run a suite.

mod drivers;
mod epoch;
mod health;
mod learned;
mod self_test;
mod set;
mod slot;

pub(crate) use drivers::{DriverQueue, Lost};
pub(crate) use epoch::Epoch;
pub use health::Trouble;
pub(crate) use set::{EngineSet, LeftOut};
pub(crate) use slot::EngineSlot;
