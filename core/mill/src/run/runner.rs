//! What batches are run with: the mill's state, its threads, and contexts for threads that have none of their own.

use std::sync::Mutex;

use ciphermill_shifts::lock;

use super::context::Context;
use crate::state::State;
use crate::workers::Workers;

/// Contexts that are kept for threads without one.
const IDLE_CONTEXTS_MAX: usize = 64;

/// The mill's state and threads.
pub(crate) struct Runner {
    pub(crate) state: State,
    pub(crate) workers: Workers,
    /// Boxed, so that lending one moves a pointer.
    #[expect(clippy::vec_box, reason = "a context is a few hundred bytes, and goes in and out for every batch")]
    idle: Mutex<Vec<Box<Context>>>,
}

impl Runner {
    pub(crate) fn new(state: State, workers: Workers) -> Runner {
        Runner { state, workers, idle: Mutex::default() }
    }

    /// Lends `work` a context that nobody else has meanwhile. One that a panic went through is not used again.
    #[inline]
    pub(crate) fn with_context<R>(&self, work: impl FnOnce(&mut Context) -> R) -> R {
        let mut context = lock(&self.idle).pop().unwrap_or_default();
        let done = work(&mut context);
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_CONTEXTS_MAX {
            idle.push(context);
        }
        done
    }
}
