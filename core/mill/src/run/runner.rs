//! What batches are run with: the mill's state, its threads, and contexts for threads that have none of their own.

use std::ops::{Deref, DerefMut};
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
    idle: Mutex<Vec<Context>>,
}

impl Runner {
    pub(crate) fn new(state: State, workers: Workers) -> Runner {
        Runner { state, workers, idle: Mutex::default() }
    }

    /// A context for as long as the caller needs one.
    #[inline]
    pub(crate) fn context(&self) -> IdleContext<'_> {
        IdleContext { runner: self, context: lock(&self.idle).pop().unwrap_or_default() }
    }
}

/// A context that goes back to its runner when it is dropped.
pub(crate) struct IdleContext<'r> {
    runner: &'r Runner,
    context: Context,
}

impl Deref for IdleContext<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl DerefMut for IdleContext<'_> {
    fn deref_mut(&mut self) -> &mut Context {
        &mut self.context
    }
}

impl Drop for IdleContext<'_> {
    fn drop(&mut self) {
        // A panic may have left it in any state.
        if std::thread::panicking() {
            return;
        }
        let mut idle = lock(&self.runner.idle);
        if idle.len() < IDLE_CONTEXTS_MAX {
            idle.push(std::mem::take(&mut self.context));
        }
    }
}
