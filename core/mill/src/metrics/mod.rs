//! What the mill counts while it works: outcomes, bytes, times, predictions and reasons, for each engine, suite and
//! direction.
//!
//! Each thread's queues write into blocks of their own ([`record`]), so counting shares no cache line with other
//! threads; who wants to know adds the blocks up into a [`Snapshot`].

mod prometheus;
mod record;
mod snapshot;
mod spans;

pub(crate) use record::{Before, Books, Ended, Recorder, TIMED_FROM_NS, UNTIMED_NS, timed_from_ns};
pub use snapshot::{Distribution, EngineMetrics, Outcomes, Routes, SharedMetrics, Snapshot, SuiteMetrics};
pub(crate) use spans::{around as span_around, leave as span_leave};
