//! Where batches wait that were handed over: a bounded queue a core.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;

use super::job::Job;

/// Batches that wait in one core's queue at most.
pub const QUEUED_MAX: usize = 1024;

/// A queue a core. Whoever has nothing to do takes from all of them, its own first.
pub(super) struct JobQueues {
    queues: Box<[JobQueue]>,
    /// Sessions and submitters that were given a home queue.
    homes: AtomicUsize,
}

/// What waits on one core, on cache lines of its own.
#[repr(align(128))]
struct JobQueue {
    jobs: ArrayQueue<Job>,
    /// Predicted nanoseconds of what waits.
    backlog_ns: AtomicU64,
}

impl JobQueues {
    /// Queues for `workers` threads; one if there are to be none.
    pub(super) fn new(workers: usize) -> JobQueues {
        let queue = |_| JobQueue { jobs: ArrayQueue::new(QUEUED_MAX), backlog_ns: AtomicU64::new(0) };
        JobQueues { queues: (0..workers.max(1)).map(queue).collect(), homes: AtomicUsize::new(0) }
    }

    /// The queue that a session or a submitting thread puts its batches into.
    pub(super) fn home(&self) -> usize {
        self.homes.fetch_add(1, Ordering::Relaxed) % self.queues.len()
    }

    /// Batches that wait.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.jobs.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.jobs.is_empty())
    }

    /// Predicted nanoseconds of what waits in a queue.
    pub(super) fn backlog_ns(&self, home: usize) -> f64 {
        self.queues[home].backlog_ns.load(Ordering::Relaxed) as f64
    }

    /// Puts a job into a queue.
    ///
    /// # Errors
    /// The job, when the queue is full.
    #[expect(clippy::result_large_err, reason = "the job goes back to its owner, who holds it in place")]
    pub(super) fn push(&self, home: usize, job: Job) -> Result<(), Job> {
        let queue = &self.queues[home];
        let ns = job.predicted_ns;
        queue.backlog_ns.fetch_add(ns, Ordering::Relaxed);
        queue.jobs.push(job).inspect_err(|job| {
            queue.backlog_ns.fetch_sub(job.predicted_ns, Ordering::Relaxed);
        })
    }

    /// A job from the home queue, else from another.
    pub(super) fn take(&self, home: usize) -> Option<Job> {
        let count = self.queues.len();
        (0..count).find_map(|step| self.take_from((home + step) % count))
    }

    /// A job from this queue.
    pub(super) fn take_from(&self, home: usize) -> Option<Job> {
        let queue = &self.queues[home];
        let job = queue.jobs.pop()?;
        queue.backlog_ns.fetch_sub(job.predicted_ns, Ordering::Relaxed);
        Some(job)
    }
}
