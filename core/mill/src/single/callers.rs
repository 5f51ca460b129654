//! Who has an operation of one suite and direction on its way: nobody is waited for on behalf of a caller who is alone.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Callers with an operation that is worth sharing, collected or being run.
#[derive(Default)]
pub(super) struct Callers(AtomicUsize);

/// One of them, until it is dropped.
pub(super) struct Caller<'c>(&'c AtomicUsize);

impl Callers {
    pub(super) fn enter(&self) -> Caller<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Caller(&self.0)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
