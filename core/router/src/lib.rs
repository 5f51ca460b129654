//! The router: which engine runs a batch, and why. Pure functions over shapes and figures: no clocks, no engines.
#![forbid(unsafe_code)]

pub mod decide;

pub use decide::{Candidate, NoRoute, Request, Route, RouteReason, Verdict, decide, explain};
