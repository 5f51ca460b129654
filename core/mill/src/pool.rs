//! The mill's threads: one a core, for work that is handed over. Batches wait in a bounded queue a core; whoever has
//! nothing to do takes them, own core first: workers, and callers that wait for results.
//!
//! A worker that sleeps costs tens of microseconds to wake (Niagara paper, and `Costs::wakeup_ns` on this machine), more
//! than most batches take. So a batch wakes somebody only when what waits is worth that; until then it waits for the
//! caller's own `poll` or `wait`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ciphermill_router::BEYOND_MAX;
use ciphermill_shifts::Shifts;
use crossbeam_queue::ArrayQueue;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::job::Job;
use crate::mill::Shared;

/// Batches that wait in one core's queue at most.
pub const QUEUED_MAX: usize = 1024;

/// How long a worker that finds nothing to do looks again before it goes to sleep.
const LINGER: Duration = Duration::from_micros(20);

/// Threads that wait for engines beyond this processor: as many as one batch is shared out to.
const WAITERS: usize = BEYOND_MAX;

/// Queues and the threads that work on them; those start when they are first needed.
pub(crate) struct Pool {
    queues: Box<[Queue]>,
    threads: OnceLock<Option<ThreadPool>>,
    /// Threads that wait for engines beyond this processor.
    waiters: OnceLock<Option<ThreadPool>>,
    shifts: Shifts,
    /// Parts of split batches that are being run; who runs one looks at no queue meanwhile.
    parts: AtomicUsize,
    /// Sessions and submitters that were given a home queue.
    homes: AtomicUsize,
}

/// What waits on one core, on cache lines of its own.
#[repr(align(128))]
struct Queue {
    jobs: ArrayQueue<Job>,
    /// Predicted nanoseconds of what waits.
    backlog_ns: AtomicU64,
}

impl Pool {
    /// Queues for `workers` threads; with none, callers do everything themselves.
    pub(crate) fn new(workers: usize) -> Pool {
        let queue = |_| Queue { jobs: ArrayQueue::new(QUEUED_MAX), backlog_ns: AtomicU64::new(0) };
        Pool {
            queues: (0..workers.max(1)).map(queue).collect(),
            threads: OnceLock::new(),
            waiters: OnceLock::new(),
            shifts: Shifts::new(workers),
            parts: AtomicUsize::new(0),
            homes: AtomicUsize::new(0),
        }
    }

    /// The queue that a session or a submitting thread puts its batches into.
    pub(crate) fn home(&self) -> usize {
        self.homes.fetch_add(1, Ordering::Relaxed) % self.queues.len()
    }

    /// Whether there are threads to hand work to.
    pub(crate) fn has_workers(&self) -> bool {
        self.threads().is_some()
    }

    /// Batches that wait.
    pub(crate) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.jobs.len()).sum()
    }

    /// Puts a job into a queue.
    ///
    /// # Errors
    /// The job, when the queue is full.
    #[expect(clippy::result_large_err, reason = "the job goes back to its owner, who holds it in place")]
    pub(crate) fn push(&self, home: usize, job: Job) -> Result<(), Job> {
        let queue = &self.queues[home];
        let ns = job.predicted_ns;
        queue.backlog_ns.fetch_add(ns, Ordering::Relaxed);
        queue.jobs.push(job).inspect_err(|job| {
            queue.backlog_ns.fetch_sub(job.predicted_ns, Ordering::Relaxed);
        })
    }

    /// A job from the home queue, else from another.
    pub(crate) fn take(&self, home: usize) -> Option<Job> {
        let count = self.queues.len();
        (0..count).find_map(|step| self.take_from((home + step) % count))
    }

    /// A job from this queue.
    pub(crate) fn take_from(&self, home: usize) -> Option<Job> {
        let queue = &self.queues[home];
        let job = queue.jobs.pop()?;
        queue.backlog_ns.fetch_sub(job.predicted_ns, Ordering::Relaxed);
        Some(job)
    }

    fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.jobs.is_empty())
    }

    /// Sees to it that somebody works on a queue if that pays: `urgent` work nobody waits for on this thread, or a backlog
    /// that takes longer than waking a worker.
    pub(crate) fn wake(&self, shared: &Arc<Shared>, home: usize, urgent: bool) {
        let backlog_ns = self.queues[home].backlog_ns.load(Ordering::Relaxed) as f64;
        let wakeup_ns = shared.costs.wakeup_ns();
        let workers = self.shifts.workers();
        if workers == 0 || !urgent && backlog_ns < wakeup_ns {
            return;
        }
        // No more are woken than the backlog is worth.
        let worth = (1.0 + backlog_ns / (2.0 * wakeup_ns)).min(workers as f64) as usize;
        let wanted = if urgent { workers } else { worth.max(1) };
        // Without threads there is nobody to be counted.
        let Some(threads) = self.threads() else { return };
        if self.shifts.begins(wanted) {
            let shared = Arc::clone(shared);
            threads.spawn(move || work(&shared, home));
        }
    }

    /// The threads; `None` when there are to be none or the system gives none.
    fn threads(&self) -> Option<&ThreadPool> {
        self.threads
            .get_or_init(|| {
                if self.shifts.workers() == 0 {
                    return None;
                }
                let cores = core_affinity::get_core_ids().unwrap_or_default();
                let built = ThreadPoolBuilder::new()
                    .num_threads(self.shifts.workers())
                    .thread_name(|index| format!("mill-{index}"))
                    .start_handler(move |index| {
                        if let Some(core) = cores.get(index % cores.len().max(1)) {
                            // A core that this process may not use leaves the thread where the system puts it.
                            core_affinity::set_for_current(*core);
                        }
                    })
                    .build();
                built.inspect_err(|error| tracing::warn!(%error, "no worker threads; callers do the work")).ok()
            })
            .as_ref()
    }

    /// Workers that are taking from the queues, and parts of split batches that are being run.
    pub(crate) fn busy_workers(&self) -> usize {
        self.shifts.busy() + self.parts.load(Ordering::Relaxed)
    }

    /// Workers that have nothing to do.
    pub(crate) fn idle_workers(&self) -> usize {
        self.shifts.workers().saturating_sub(self.busy_workers())
    }

    /// Runs `first` on this thread and each of `others` on a worker, and returns when all have ended. Without workers
    /// all run here.
    pub(crate) fn run_side_by_side<'s>(&self, first: impl FnOnce() + Send, others: Vec<impl FnOnce() + Send + 's>) {
        let Some(threads) = self.threads() else {
            first();
            others.into_iter().for_each(|part| part());
            return;
        };
        threads.in_place_scope(|scope| {
            for part in others {
                let counted = Counted::new(&self.parts);
                scope.spawn(|_| {
                    let _counted = counted;
                    part();
                });
            }
            first();
        });
    }

    /// Runs `first` on this thread and each of `others` on a thread that may block, and returns when all have ended.
    pub(crate) fn run_while_waiting<'s>(&self, first: impl FnOnce() + Send, others: Vec<impl FnOnce() + Send + 's>) {
        let waiters = self.waiters.get_or_init(|| {
            let named =
                ThreadPoolBuilder::new().num_threads(WAITERS).thread_name(|index| format!("mill-waits-{index}"));
            named.build().inspect_err(|error| tracing::warn!(%error, "no threads that wait; shares run in turn")).ok()
        });
        let Some(waiters) = waiters else {
            first();
            others.into_iter().for_each(|share| share());
            return;
        };
        waiters.in_place_scope(|scope| {
            others.into_iter().for_each(|share| scope.spawn(|_| share()));
            first();
        });
    }
}

/// A part that is being run; it counts until it ends, however it does.
struct Counted<'p>(&'p AtomicUsize);

impl<'p> Counted<'p> {
    fn new(parts: &'p AtomicUsize) -> Counted<'p> {
        parts.fetch_add(1, Ordering::Relaxed);
        Counted(parts)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a worker does: one job after the other, until for a while there is none.
fn work(shared: &Arc<Shared>, home: usize) {
    let pool = &shared.pool;
    let mut queues = shared.idle().pop().unwrap_or_default();
    loop {
        while let Some(job) = pool.take(home) {
            job.run(shared, &mut queues);
            // Parts of split batches wait for a thread of this pool.
            rayon::yield_now();
        }
        let idle_since = Instant::now();
        while pool.is_empty() && idle_since.elapsed() < LINGER {
            if rayon::yield_now() != Some(rayon::Yield::Executed) {
                std::hint::spin_loop();
            }
        }
        if pool.is_empty() && !pool.shifts.goes_on(|| pool.is_empty()) {
            break;
        }
    }
    shared.give_back(queues);
}
