//! What sharing a batch saves an operation, as predicted.

use std::time::Duration;

use ciphermill_contract::{Direction, Suite};
use ciphermill_router::{Candidate, size_class};

use crate::cell::CostCell;
use crate::state::State;

/// The mill's own path for a lone operation and for one of a shared batch, in nanoseconds (`benches/path.rs`, `ciphermill lab router alone`).
pub(super) const LONE_PATH_NS: f64 = 50.0;
pub(super) const SHARED_PATH_NS: f64 = 100.0;

/// How long an operation waits at most before whoever looks next runs the shared batch.
pub(super) const WAIT_MAX: Duration = Duration::from_micros(20);

/// Classes of lengths that waiting may or may not pay for.
pub(super) const LEN_CLASSES: usize = 3;

/// The class of a length in bytes.
#[inline]
pub(super) fn len_class(len: usize) -> usize {
    usize::from(len > 128) + usize::from(len > 2048)
}

/// What an operation of this length takes on the best engine in a batch of `ops`, in nanoseconds.
pub(super) fn lowest_ns(state: &State, suite: Suite, direction: Direction, len: usize, ops: u64) -> f64 {
    let engines = state.engines();
    let cell = CostCell::new(suite, direction, size_class(ops, ops * len as u64));
    let known = |candidate: &Candidate| engines.figures(candidate, cell, ops);
    let figures = engines.plan(suite, direction).iter().map(known);
    figures.map(|cost| cost.predict_ns(ops, ops * len as u64) / ops as f64).fold(f64::MAX, f64::min)
}
