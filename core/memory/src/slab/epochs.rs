//! Which readers may still see what was removed: epochs of open leases.
//!
//! Time is cut into numbered epochs. A lease belongs to the epoch in which it was opened and is counted there until it ends.
//! Whoever has removed something ends the current epoch and then waits, by looking from time to time and never by
//! blocking, until every lease of that epoch and of the earlier ones has ended.
//!
//! Counters exist for [`BUCKETS`] epochs at a time, epoch `e` using bucket `e % BUCKETS`; the epoch only advances while the
//! next one's bucket is free. They are striped over the threads, so that readers do not fight for a cache line.
//!
//! # Why it is sound
//!
//! All accesses to `current`, `draining` and the counters named here are sequentially consistent, so there is one
//! total order S of them. The *collector* is whoever holds the writer lock.
//!
//! Opening a lease is: (A1) read `current` as `e`; (A2) add one to a counter of bucket `e`; (A3) read `current` again,
//! and if it is not `e` any more take the count back and start over. Removing is: (R1) make the entry
//! unfindable; (R2) retire it under epoch `e`; (R3) set `current` to `e + 1`; (R4) read all counters of bucket `e`.
//!
//! 1. *A lease of epoch `e` or earlier is counted until it ends.* If A3 reads `e`, it comes before R3 in S, and so A2 comes
//!    before R4: R4 sees the count unless it also sees the lease's end. Leases of epoch `e` that are opened later
//!    than R3 fail at A3, so once a stripe has been seen at zero it holds no lease of that epoch and never will again.
//!    (A stripe may for a moment count an attempt that A3 is about to reject. That only delays a collector, and the
//!    attempt's end wakes one like any lease's end.) So the stripes may be read one after the other.
//! 2. *The end of a lease happens before the drop.* Counters are only changed by read-modify-write operations, so a
//!    reading of zero synchronises with every earlier release of that stripe; all reads under these leases
//!    happened before.
//! 3. *A lease of a later epoch cannot find the entry.* Its A3 reads a value that was stored at R3 or later, by a
//!    collector who held the lock at or after R3; so R1 happens before everything done under the lease, and it
//!    sees the entry gone.
//! 4. *The bucket of `e` counts no other epoch meanwhile.* The current epoch is at most `BUCKETS - 1` ahead of the oldest
//!    whose leases have not been seen ended.
//! 5. *No wake-up is lost.* A lease's end is: (D1) take the count back; (D2) read `draining`. A collector that waits has
//!    (C1) stored the bucket in `draining` and then (C2) read the counters. Either D1 comes before C2 in S, and the
//!    collector sees the end, or C1 comes before D2, and the ending lease sees that it has to collect.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::sync::{AtomicU64, AtomicUsize, total_order_in_model};

/// Epochs whose leases can be told apart at one time.
pub(super) const BUCKETS: usize = 4;

/// Most stripes that readers are spread over.
const STRIPES_MAX: usize = 64;

/// No collector waits for any bucket.
const NOTHING: usize = usize::MAX;

/// The right to look at entries; handed back to [`Epochs::leave`] exactly once.
#[derive(Debug)]
pub(super) struct Ticket {
    stripe: usize,
    bucket: usize,
}

/// The open leases by epoch.
#[derive(Debug)]
pub(super) struct Epochs {
    state: State,
    /// A power of two of them.
    stripes: Box<[Stripe]>,
}

/// Read by every lease, written by removals alone.
#[derive(Debug)]
#[repr(align(128))]
struct State {
    current: AtomicU64,
    draining: AtomicUsize,
}

/// The counters of some of the threads, on cache lines of their own (two: processors fetch pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    open: [AtomicUsize; BUCKETS],
}

impl Epochs {
    pub(super) fn new() -> Self {
        let stripe = |_| Stripe { open: core::array::from_fn(|_| AtomicUsize::new(0)) };
        Self {
            state: State { current: AtomicU64::new(0), draining: AtomicUsize::new(NOTHING) },
            stripes: (0..stripe_count()).map(stripe).collect(),
        }
    }

    /// Opens a lease of the current epoch. `collect` is called when an attempt that did not count kept a collector waiting.
    #[inline]
    pub(super) fn enter(&self, collect: impl Fn()) -> Ticket {
        let stripe = stripe_of_this_thread() & (self.stripes.len() - 1);
        loop {
            let epoch = self.state.current.load(SeqCst); // A1
            let ticket = Ticket { stripe, bucket: bucket_of(epoch) };
            self.counter(&ticket).fetch_add(1, SeqCst); // A2
            total_order_in_model();
            if self.state.current.load(SeqCst) == epoch {
                return ticket; // A3
            }
            if self.leave(ticket) {
                collect();
            }
        }
    }

    /// Ends a lease. True when a collector waits for leases of its epoch and this was the last on its stripe: the caller
    /// then has to collect.
    #[inline]
    pub(super) fn leave(&self, ticket: Ticket) -> bool {
        let before = self.counter(&ticket).fetch_sub(1, SeqCst); // D1
        total_order_in_model();
        before == 1 && self.state.draining.load(SeqCst) == ticket.bucket // D2
    }

    /// The current epoch. Only for the collector, who alone changes it.
    pub(super) fn current(&self) -> u64 {
        self.state.current.load(Relaxed)
    }

    /// Ends the current epoch, unless its successor's bucket still belongs to epoch `oldest`. Only for the collector.
    pub(super) fn advance(&self, oldest: u64) {
        let current = self.current();
        if current - oldest < BUCKETS as u64 - 1 {
            self.state.current.store(current + 1, SeqCst); // R3
            total_order_in_model();
        }
    }

    /// Whether all leases of `epoch` have ended; if not, the last of them to end will be told to collect. Only for the
    /// collector, and only for the oldest epoch and once it is not the current one any more.
    pub(super) fn is_drained(&self, epoch: u64) -> bool {
        debug_assert!(epoch < self.current());
        let bucket = bucket_of(epoch);
        self.state.draining.store(bucket, SeqCst); // C1
        total_order_in_model();
        self.stripes.iter().all(|stripe| stripe.open[bucket].load(SeqCst) == 0) // C2, R4
    }

    /// Nothing waits for leases to end. Only for the collector.
    pub(super) fn rest(&self) {
        self.state.draining.store(NOTHING, SeqCst);
    }

    fn counter(&self, ticket: &Ticket) -> &AtomicUsize {
        &self.stripes[ticket.stripe].open[ticket.bucket]
    }
}

fn bucket_of(epoch: u64) -> usize {
    (epoch % BUCKETS as u64) as usize
}

#[cfg(not(all(loom, test)))]
fn stripe_count() -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    threads.next_power_of_two().min(STRIPES_MAX)
}

/// Threads take stripes in turn, once for their lifetime.
#[cfg(not(all(loom, test)))]
#[inline]
fn stripe_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Relaxed);
    }
    STRIPE.try_with(|stripe| *stripe).unwrap_or(0)
}

/// Two stripes in the model: enough to read one after the other, few enough to explore.
#[cfg(all(loom, test))]
fn stripe_count() -> usize {
    2_usize.min(STRIPES_MAX)
}

#[cfg(all(loom, test))]
fn stripe_of_this_thread() -> usize {
    super::model::stripe()
}
