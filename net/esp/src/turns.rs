//! Workers of one way that take turns.
//!
//! A worker begins a burst while it holds the way's input; then the next one begins another, while this one encrypts. Bursts are committed in the
//! order in which they were begun. So packets stay in order, one association keeps several cores busy, and what is no cryptography needs one
//! lock a burst.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Looks for the turn, or for a lock, before the processor is given to others: some tens of microseconds, as long as a burst is begun. Waking
/// takes as long again.
const SPINS: u32 = 1000;

/// Locks what others hold for no longer than a burst is begun or committed: looks for it for as long, and only then sleeps. Whatever happened to
/// a thread that held it: what is locked here is looked at or counted, and stays whole.
pub fn lock_soon<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..SPINS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => core::hint::spin_loop(),
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bursts in order: `I` is what they come from.
pub struct Turns<I> {
    input: Mutex<(I, u64)>,
    turn: AtomicU64,
}

/// A burst's place in the order. It has to be committed, or those behind it wait for ever.
#[must_use]
#[derive(Debug)]
pub struct Ticket(u64);

impl<I> Turns<I> {
    /// From this input.
    pub fn new(input: I) -> Turns<I> {
        Turns { input: Mutex::new((input, 0)), turn: AtomicU64::new(0) }
    }

    /// Begins a burst, by itself among the workers. Where `begin` says false, there is none, and no place in the order is taken.
    ///
    /// # Errors
    /// Those of `begin`, after which no place is taken either.
    pub fn begin<E>(&self, begin: impl FnOnce(&mut I) -> Result<bool, E>) -> Result<Option<Ticket>, E> {
        // A worker that panicked while it held this has begun no burst, and taken no place.
        let mut input = lock_soon(&self.input);
        if !begin(&mut input.0)? {
            return Ok(None);
        }
        input.1 += 1;
        Ok(Some(Ticket(input.1 - 1)))
    }

    /// Commits a burst when those before it have been.
    pub fn commit<R>(&self, ticket: Ticket, commit: impl FnOnce() -> R) -> R {
        let mut spins = 0;
        while self.turn.load(Ordering::Acquire) != ticket.0 {
            spins += 1;
            if spins < SPINS { core::hint::spin_loop() } else { std::thread::yield_now() }
        }
        // Also where `commit` panics: the others go on.
        let next = Next(self, ticket.0 + 1);
        let done = commit();
        drop(next);
        done
    }

    /// Looks at the input between two bursts.
    pub fn with_input<R>(&self, look: impl FnOnce(&mut I) -> R) -> R {
        look(&mut lock_soon(&self.input).0)
    }
}

struct Next<'t, I>(&'t Turns<I>, u64);

impl<I> Drop for Next<'_, I> {
    fn drop(&mut self) {
        self.0.turn.store(self.1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_committed_in_the_order_in_which_they_were_begun() {
        const COUNT: u64 = 2000;
        let turns = Turns::new(0u64);
        let committed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let mut number = 0;
                        let begun = turns.begin(|next| {
                            number = *next;
                            *next += 1;
                            Ok::<_, ()>(number < COUNT)
                        });
                        let Ok(Some(ticket)) = begun else { break };
                        // Some take longer than others.
                        (0..number % 7 * 100).for_each(|_| core::hint::spin_loop());
                        turns.commit(ticket, || committed.lock().expect("no panic").push(number));
                    }
                });
            }
        });
        assert!(committed.into_inner().expect("no panic").into_iter().eq(0..COUNT));
    }

    #[test]
    fn a_worker_that_panics_holds_nobody_up() {
        let turns = Turns::new(());
        let begin = || turns.begin(|()| Ok::<_, ()>(true)).expect("begun").expect("a ticket");
        let (first, second) = (begin(), begin());
        let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| turns.commit(first, || panic!("lost"))));
        assert!(lost.is_err());
        assert_eq!(turns.commit(second, || 5), 5);
        assert_eq!(turns.begin(|()| Err::<bool, _>("full")).err(), Some("full"));
    }
}
