//! Spans for `tracing`: one around a batch's run on an engine, at trace level.

use ciphermill_contract::{Direction, Suite};
use ciphermill_router::Route;
use tracing::Level;
use tracing::span::EnteredSpan;

use super::record::reason_word;

/// A span around a run of so many operations and bytes, if anybody listens; otherwise the look at who does is all that it costs.
#[inline]
pub(crate) fn around(suite: Suite, direction: Direction, shape: (usize, u64), route: &Route) -> Option<EnteredSpan> {
    tracing::enabled!(target: "ciphermill::batch", Level::TRACE).then(|| enter(suite, direction, shape, route))
}

/// The end of a run, in a place of its own so that nothing of it is on the way of batches without spans.
#[cold]
pub(crate) fn leave(span: EnteredSpan) {
    drop(span);
}

#[cold]
fn enter(suite: Suite, direction: Direction, (ops, bytes): (usize, u64), route: &Route) -> EnteredSpan {
    tracing::trace_span!(
        target: "ciphermill::batch",
        "batch",
        engine = route.name,
        suite = %suite,
        direction = %direction,
        ops = ops as u64,
        bytes,
        predicted_ns = route.predicted_ns,
        reason = reason_word(&route.reason),
    )
    .entered()
}
