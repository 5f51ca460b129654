//! The router: which engine runs a batch, in how many parts, and why, how long single operations wait for others, and which
//! of the requests that wait is next. Pure functions over shapes and figures: no clocks, no engines.
pub mod decide;
pub mod fair;
pub mod fit;
pub mod learn;
pub mod predict;
pub mod queue;
pub mod rate;
pub mod share;
pub mod split;
pub mod window;

pub use decide::{Candidate, NoRoute, Request, Route, RouteReason, Verdict, decide, explain};
pub use fair::{FairClock, Turn};
pub use fit::{Fit, Point, break_even, break_even_len, class_factors, fit};
pub use learn::{
    Correction, LEN_CLASSES, OPS_CLASSES, SHAPE_CLASSES, SIZE_CLASSES, SKEW_BYTES_MIN, Sample, shape_class, size_class,
};
pub use predict::{MANY, Prediction};
pub use queue::{Next, Owner, Queue, QueueOptions, Ticket, Times, Waiting};
pub use rate::Bucket;
pub use share::{IdleWorkers, OFFLOAD_MAX, Share, Shares, share};
pub use split::{Line, Part, Split, split};
pub use window::{Arrivals, BatchTime, Gathering, Window, window};
