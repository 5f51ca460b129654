//! When a worker begins and when it may end, so that no job is left lying while everybody sleeps.
//!
//! Who brings a job puts it into a queue and then counts the workers; who ends counts itself out and then looks at the
//! queues once more. Each has a fence between its two steps, so at least one of them sees what the other did.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicUsize, fence};

/// Counts the workers that are taking from the queues.
pub struct Shifts {
    busy: AtomicUsize,
    workers: usize,
}

impl Shifts {
    /// Nobody at work yet; `workers` at most.
    pub fn new(workers: usize) -> Shifts {
        Shifts { busy: AtomicUsize::new(0), workers }
    }

    /// Workers at most.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Workers that are taking from the queues.
    #[inline]
    pub fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// After a job was put into a queue: whether the caller has to start a worker, of `wanted` in all. It counts as busy
    /// from here on.
    #[inline]
    pub fn begins(&self, wanted: usize) -> bool {
        // Pairs with the fence in `goes_on`.
        fence(Ordering::SeqCst);
        let busy = self.busy();
        // Who changed the count meanwhile has started a worker, or has ended and looks at the queues after that.
        busy < wanted.min(self.workers)
            && self.busy.compare_exchange(busy, busy + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A worker that found nothing to do: whether it has to go on after all. If not, it counts as busy no more.
    pub fn goes_on(&self, nothing_waits: impl Fn() -> bool) -> bool {
        self.busy.fetch_sub(1, Ordering::AcqRel);
        // Pairs with the fence in `begins`: a job may have come between the last look and the line above, from somebody
        // who saw this worker busy.
        fence(Ordering::SeqCst);
        if nothing_waits() {
            return false;
        }
        let busy = self.busy();
        // Whoever changes the count now has seen the job's queue, or will: one of them takes it.
        busy < self.workers && self.busy.compare_exchange(busy, busy + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_more_begin_than_are_wanted_or_there() {
        let shifts = Shifts::new(2);
        assert!(shifts.begins(1));
        assert!(!shifts.begins(1), "one is enough");
        assert!(shifts.begins(5));
        assert!(!shifts.begins(5), "there are two");
        assert!(shifts.goes_on(|| false) && shifts.busy() == 2);
        assert!(!shifts.goes_on(|| true) && shifts.busy() == 1);
        assert!(!Shifts::new(0).begins(1));
    }
}

/// The interleavings of small programs: `RUSTFLAGS="--cfg loom" cargo test -p ciphermill-shifts`.
#[cfg(all(loom, test))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Work {
        shifts: Shifts,
        waiting: AtomicUsize,
        done: AtomicUsize,
    }

    impl Work {
        fn take(&self) -> bool {
            let taken =
                self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |waiting| waiting.checked_sub(1));
            taken.is_ok()
        }
    }

    fn work(work: &Work) {
        loop {
            while work.take() {
                work.done.fetch_add(1, Ordering::Relaxed);
            }
            if !work.shifts.goes_on(|| work.waiting.load(Ordering::Acquire) == 0) {
                return;
            }
        }
    }

    fn bring(work_there: &Arc<Work>) {
        work_there.waiting.fetch_add(1, Ordering::Release);
        if work_there.shifts.begins(usize::MAX) {
            let own = Arc::clone(work_there);
            thread::spawn(move || work(&own)).join().expect("a worker");
        }
    }

    fn check(workers: usize) {
        // All interleavings with so many changes of threads that no thread asked for; without a bound two workers take
        // minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let (waiting, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let there = Arc::new(Work { shifts: Shifts::new(workers), waiting, done });
            let other = Arc::clone(&there);
            let other = thread::spawn(move || bring(&other));
            bring(&there);
            other.join().expect("the other");
            assert_eq!(there.done.load(Ordering::Relaxed), 2, "every job is done");
            assert_eq!(there.shifts.busy(), 0, "nobody is counted who has ended");
        });
    }

    #[test]
    fn with_one_worker_no_job_is_left_lying() {
        check(1);
    }

    #[test]
    fn with_two_workers_no_job_is_left_lying() {
        check(2);
    }
}
