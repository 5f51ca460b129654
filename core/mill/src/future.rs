//! Batches as futures, for any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use ciphermill_contract::Completed;

use crate::job::Job;
use crate::mill::Shared;

/// What a future waits for.
#[derive(Default)]
pub(crate) struct Promise {
    state: Mutex<State>,
    is_abandoned: AtomicBool,
}

#[derive(Default)]
struct State {
    completed: Option<Completed>,
    waker: Option<Waker>,
}

impl Promise {
    pub(crate) fn keep(&self, completed: Completed) {
        let mut state = self.state();
        state.completed = Some(completed);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing in there can be half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch on its way; yields it when it is done. Dropped before the batch is begun, the batch is not begun.
#[must_use = "a future that is dropped cancels its batch"]
pub struct BatchFuture {
    promise: Arc<Promise>,
    /// A batch that is not worth another core's waking: the first poll runs it.
    own: Option<(Arc<Shared>, Job)>,
}

impl BatchFuture {
    /// A batch that a worker runs.
    pub(crate) fn handed_over(promise: Arc<Promise>) -> BatchFuture {
        BatchFuture { promise, own: None }
    }

    /// A batch that is run when it is first polled.
    pub(crate) fn own(promise: Arc<Promise>, shared: Arc<Shared>, job: Job) -> BatchFuture {
        BatchFuture { promise, own: Some((shared, job)) }
    }
}

impl Future for BatchFuture {
    type Output = Completed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completed> {
        if let Some((shared, job)) = self.own.take() {
            let mut queues = shared.idle().pop().unwrap_or_default();
            job.run(&shared, &mut queues);
            shared.give_back(queues);
        }
        let mut state = self.promise.state();
        match state.completed.take() {
            Some(completed) => Poll::Ready(completed),
            None => {
                if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    state.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for BatchFuture {
    fn drop(&mut self) {
        self.promise.is_abandoned.store(true, Ordering::Release);
    }
}
