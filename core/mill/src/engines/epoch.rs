//! A number that whoever has chosen an engine can compare, instead of asking everything again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what takes an engine away from those who have chosen it: engines that join and leave, quarantines and their
/// ends, failed known-answer tests. Shared by the engines of one mill.
#[derive(Clone, Default)]
pub(crate) struct Epoch(Arc<Line>);

/// On lines of its own (two: processors fetch pairs): every operation reads it, and nearly nobody writes.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Epoch {
    /// The number now. Whoever chooses an engine reads it before.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.0.0.load(Ordering::Acquire)
    }

    /// To be called after the change.
    pub(crate) fn advance(&self) {
        self.0.0.fetch_add(1, Ordering::Release);
    }
}
