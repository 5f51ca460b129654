//! Spans for `tracing`: one around a batch's run on an engine, at trace level.

use ciphermill_contract::CheckedBatch;
use ciphermill_router::Route;
use tracing::Level;
use tracing::span::EnteredSpan;

use super::record::reason_word;

/// A span around a run, if anybody listens; otherwise the look at who does is all that it costs.
#[inline]
pub(crate) fn around(batch: &CheckedBatch<'_>, route: &Route) -> Option<EnteredSpan> {
    tracing::enabled!(target: "ciphermill::batch", Level::TRACE).then(|| enter(batch, route))
}

/// The end of a run, in a place of its own so that nothing of it is on the way of batches without spans.
#[cold]
pub(crate) fn leave(span: EnteredSpan) {
    drop(span);
}

#[cold]
fn enter(batch: &CheckedBatch<'_>, route: &Route) -> EnteredSpan {
    tracing::trace_span!(
        target: "ciphermill::batch",
        "batch",
        engine = route.name,
        suite = %batch.suite(),
        direction = %batch.direction(),
        ops = batch.len() as u64,
        bytes = batch.input_bytes(),
        predicted_ns = route.predicted_ns,
        reason = reason_word(&route.reason),
    )
    .entered()
}
