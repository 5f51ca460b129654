//! Batches as futures, for any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ciphermill_contract::{Completed, OwnedBatch, Result};

use super::dispatcher::{Dispatcher, HandedBack};
use super::job::{Job, Reply};
use super::promise::Promise;
use crate::policy::SubmitOptions;

/// A batch on its way; yields it when it is done. Dropped before the batch is begun, the batch is not begun.
#[must_use = "a future that is dropped cancels its batch"]
pub struct BatchFuture {
    promise: Arc<Promise>,
    /// A batch that is not worth another core's waking: the first poll runs it.
    own: Option<(Arc<Dispatcher>, Job)>,
}

/// Hands a batch over; [`crate::Mill::submit`] documents it.
pub(crate) fn submit(
    dispatcher: &Arc<Dispatcher>,
    batch: OwnedBatch,
    options: &SubmitOptions<'_>,
) -> Result<BatchFuture, HandedBack> {
    let promise = Arc::new(Promise::default());
    let job = dispatcher.job(batch, options, Reply::Future(Arc::clone(&promise)))?;
    let runner = &dispatcher.runner;
    let is_small = (job.predicted_ns as f64) < runner.state.costs.wakeup_ns() && !job.batch.suite.is_public_key();
    if is_small || !runner.workers.has_threads() {
        return Ok(BatchFuture { promise, own: Some((Arc::clone(dispatcher), job)) });
    }
    dispatcher.hand_over(job, options.on_full)?;
    Ok(BatchFuture { promise, own: None })
}

impl Future for BatchFuture {
    type Output = Completed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed> {
        if let Some((dispatcher, job)) = self.own.take() {
            dispatcher.runner.with_context(|context| job.run(&dispatcher.runner, context));
        }
        self.promise.take(context)
    }
}

impl Drop for BatchFuture {
    fn drop(&mut self) {
        self.promise.abandon();
    }
}
