//! What a future waits for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use ciphermill_contract::Completed;
use ciphermill_shifts::lock;

/// What a future waits for.
#[derive(Default)]
pub(super) struct Promise {
    state: Mutex<State>,
    is_abandoned: AtomicBool,
}

#[derive(Default)]
struct State {
    completed: Option<Completed>,
    waker: Option<Waker>,
}

impl Promise {
    pub(super) fn keep(&self, completed: Completed) {
        let mut state = lock(&self.state);
        state.completed = Some(completed);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// The batch, if it is done; else whom to wake.
    pub(super) fn take(&self, context: &Context<'_>) -> Poll<Completed> {
        let mut state = lock(&self.state);
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

    /// Nobody waits any more.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }
}
