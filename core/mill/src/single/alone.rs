//! Single operations that come alone: what a handle would know of them is kept here, so that they go as quickly without one.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use ciphermill_contract::{Direction, Result, Suite};

use super::bound::{Lent, run_copied};
use super::one::{One, OneDone};
use crate::run::Runner;
use crate::run::bound::Binding;

/// Places that threads are spread over. A thread whose place is another's at the moment does without.
const SHARDS: usize = 8;

/// Operations of one suite and direction, each alone.
pub(super) struct Alone([Mutex<Shard>; SHARDS]);

#[derive(Default)]
struct Shard {
    binding: Option<Binding>,
    lent: Lent,
    /// The state's number for which anything is kept.
    epoch: u64,
}

impl Default for Alone {
    fn default() -> Alone {
        Alone(array::from_fn(|_| Mutex::default()))
    }
}

impl Alone {
    /// Runs an operation. `None`, and nothing has happened, when the thread's place is in use, or knows another suite of the
    /// same cell, such as FF1 in another radix.
    #[inline]
    pub(super) fn run(
        &self,
        runner: &Runner,
        suite: Suite,
        direction: Direction,
        one: &mut One<'_>,
    ) -> Option<Result<OneDone>> {
        let mut shard = try_lock(&self.0[shard_of_thread()])?;
        let epoch = runner.state.epoch();
        if shard.epoch != epoch || shard.binding.is_none() {
            shard.begin(runner, epoch, (suite, direction));
        }
        let Shard { binding, lent, .. } = &mut *shard;
        let binding = binding.as_mut().filter(|binding| binding.suite() == suite)?;
        Some(run_copied(runner, binding, lent, one))
    }

    /// Puts into the books what stands here only, but for places that are in use at the moment: up to 64 operations each.
    pub(super) fn write_up(&self, runner: &Runner) {
        self.0.iter().filter_map(try_lock).for_each(|mut shard| shard.write_up(runner));
    }

    /// Lets go of engines that have left.
    pub(super) fn let_go(&self, runner: &Runner) {
        for mut shard in self.0.iter().filter_map(try_lock) {
            shard.write_up(runner);
            *shard = Shard::default();
        }
    }
}

impl Shard {
    fn write_up(&mut self, runner: &Runner) {
        if let Some(binding) = &mut self.binding {
            binding.write_up(runner, &mut self.lent.context);
        }
    }

    /// Begins anew, with the engines of this epoch.
    #[cold]
    fn begin(&mut self, runner: &Runner, epoch: u64, (suite, direction): (Suite, Direction)) {
        self.write_up(runner);
        // What forbids it is told by the operation itself.
        *self = Shard { epoch, binding: Binding::of_any(suite, direction).ok(), ..Shard::default() };
    }
}

/// `None` while another thread has it.
fn try_lock(shard: &Mutex<Shard>) -> Option<MutexGuard<'_, Shard>> {
    match shard.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        // Whatever a panic left in queues is not used again.
        Err(TryLockError::Poisoned(poisoned)) => {
            shard.clear_poison();
            let mut guard = poisoned.into_inner();
            guard.lent = Lent::default();
            Some(guard)
        }
    }
}

/// The place of the calling thread.
#[inline]
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<Option<usize>> = const { Cell::new(None) });
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            own.set(Some(number));
            number
        })
    })
}
