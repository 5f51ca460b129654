//! The router: which engine runs a batch, in how many parts, and why. Pure functions over shapes and figures: no clocks,
//! no engines.
#![forbid(unsafe_code)]

pub mod decide;
pub mod learn;
pub mod split;

pub use decide::{Candidate, NoRoute, Request, Route, RouteReason, Verdict, decide, explain};
pub use learn::{Correction, SIZE_CLASSES, Sample, size_class};
pub use split::{Line, Part, Split, split};
