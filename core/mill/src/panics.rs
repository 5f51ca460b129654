//! Panics of engines and of callers' code end here: threads, batches and operations of others outlive them.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; `None` when it panicked. The caller leaves nothing half done that it goes on to use.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(payload) => {
            // Whatever was thrown may panic again when it is dropped; what that throws is not dropped any more.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            None
        }
    }
}
