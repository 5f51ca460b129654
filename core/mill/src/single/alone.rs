//! Single operations that come alone, again and again under the same key: what a handle would know of them is kept here, so
//! that they go as quickly without one.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use ciphermill_contract::{Direction, KeyId, Result, Suite};

use super::bound::{Lent, run_copied};
use super::one::{One, OneDone};
use crate::run::Runner;
use crate::run::bound::Binding;

/// Places that threads are spread over. A thread whose place is another's at the moment does without.
const SHARDS: usize = 8;

/// Keys that a place knows at most.
const KEYS: usize = 4;

/// So many operations in a row have to come under a key before it is kept: finding out what is kept takes about as long as
/// one of them.
const KEPT_FROM: u32 = 8;

/// Operations of one suite and direction, each alone.
pub(super) struct Alone([Mutex<Shard>; SHARDS]);

#[derive(Default)]
struct Shard {
    kept: [Kept; KEYS],
    /// One for all keys, so that an engine is asked for a witness after as many operations as otherwise.
    lent: Lent,
    /// The state's number for which anything is kept.
    epoch: u64,
}

/// What is known of a key, and which other one would be in its place.
#[derive(Default)]
struct Kept {
    binding: Option<Box<Binding>>,
    other: KeyId,
    seen: u32,
}

impl Default for Alone {
    fn default() -> Alone {
        Alone(array::from_fn(|_| Mutex::default()))
    }
}

impl Alone {
    /// Runs an operation if its key is known, and remembers that it came. `None`, and nothing has happened, for all others.
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
        if shard.epoch != epoch {
            shard.forget(runner, epoch);
        }
        let Shard { kept, lent, .. } = &mut *shard;
        let kept = &mut kept[one.key.slot as usize % KEYS];
        let is_known = kept.binding.as_ref().is_some_and(|own| own.key() == one.key && own.suite() == suite);
        if is_known {
            kept.seen = 0;
        } else if !kept.learn(runner, lent, (suite, direction), one.key) {
            return None;
        }
        kept.binding.as_mut().map(|binding| run_copied(runner, binding, lent, one))
    }

    /// Puts into the books what stands here only, but for places that are in use at the moment: up to 64 operations each.
    pub(super) fn write_up(&self, runner: &Runner) {
        self.0.iter().filter_map(try_lock).for_each(|mut shard| shard.write_up(runner));
    }

    /// Lets go of engines, as they were before the state's number changed.
    pub(super) fn let_go(&self, runner: &Runner) {
        let epoch = runner.state.epoch();
        self.0.iter().filter_map(try_lock).for_each(|mut shard| shard.forget(runner, epoch));
    }
}

impl Shard {
    fn write_up(&mut self, runner: &Runner) {
        let bindings = self.kept.iter_mut().filter_map(|kept| kept.binding.as_mut());
        bindings.for_each(|binding| binding.write_up(runner, &mut self.lent.context));
    }

    #[cold]
    fn forget(&mut self, runner: &Runner, epoch: u64) {
        self.write_up(runner);
        *self = Shard { epoch, ..Shard::default() };
    }
}

impl Kept {
    /// Whether the key came often enough, and may be used, so that it is known from now on.
    #[cold]
    fn learn(&mut self, runner: &Runner, lent: &mut Lent, way: (Suite, Direction), key: KeyId) -> bool {
        self.seen = if self.other == key { self.seen + 1 } else { 1 };
        self.other = key;
        if self.seen < KEPT_FROM {
            return false;
        }
        self.seen = 0;
        // What forbids it is told by the operation itself.
        let Ok(binding) = Binding::new(runner, &mut lent.context, way, key) else { return false };
        if let Some(mut before) = self.binding.replace(Box::new(binding)) {
            before.write_up(runner, &mut lent.context);
        }
        true
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
