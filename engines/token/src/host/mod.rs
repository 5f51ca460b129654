//! A token in a process of its own: a vendor's library that crashes, or hangs, does not take its user along.
//!
//! [`HostedEngine`] starts a program that calls [`serve`] and tells it over a socket, which is that program's standard input, what to
//! open and what to run. A process that dies, says what makes no sense, or does not answer in time is ended, what it was asked fails as an
//! engine's fault, and the next use starts another, in which keys are prepared again. A key by reference has to have the public half
//! there that it had before.

mod child;
mod engine;
mod serve;
mod wire;

pub(crate) use engine::HostedEngine;
pub use serve::serve;
