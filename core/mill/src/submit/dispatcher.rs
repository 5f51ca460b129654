//! Whoever hands a batch over and whoever takes it: callers, and workers that are woken for what is worth it.
//!
//! A worker that sleeps costs tens of microseconds to wake (Niagara paper, and `Costs::wakeup_ns` on this machine), more
//! than most batches take. So a batch wakes somebody only when what waits is worth that; until then it waits for the
//! caller's own `poll` or `wait`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::{Completed, Error, OwnedBatch, Result};

use super::job::{Job, Reply, RunRequest};
use super::queues::{JobQueues, QUEUED_MAX};
use crate::policy::{OnFull, SubmitOptions};
use crate::run::Runner;

/// How long a worker that finds nothing to do looks again before it goes to sleep.
const LINGER: Duration = Duration::from_micros(20);

/// A batch that could not be handed over, and why.
pub(super) type HandedBack = Box<(OwnedBatch, Error)>;

/// Runs what is handed over.
pub(crate) struct Dispatcher {
    pub(crate) runner: Runner,
    pub(super) queues: JobQueues,
}

impl Dispatcher {
    pub(crate) fn new(runner: Runner) -> Dispatcher {
        let queues = JobQueues::new(runner.workers.shifts().workers());
        Dispatcher { runner, queues }
    }

    /// Batches that wait for a thread.
    pub(crate) fn queued(&self) -> usize {
        self.queues.len()
    }

    /// Hands a batch over with a callback; [`crate::Mill::submit_with_callback`] documents it.
    pub(crate) fn submit_with_callback(
        self: &Arc<Self>,
        batch: OwnedBatch,
        options: &SubmitOptions<'_>,
        callback: impl FnOnce(Completed) + Send + 'static,
    ) -> Result<(), HandedBack> {
        let job = self.job(batch, options, Reply::Callback(Box::new(callback)))?;
        if self.runner.workers.has_threads() {
            return self.hand_over(job, options.on_full);
        }
        self.runner.with_context(|context| job.run(&self.runner, context));
        Ok(())
    }

    pub(super) fn job(&self, batch: OwnedBatch, options: &SubmitOptions<'_>, reply: Reply) -> Result<Job, HandedBack> {
        let request = match RunRequest::new(&self.runner.state, &options.run) {
            Ok(request) => request,
            Err(error) => return Err(Box::new((batch, error))),
        };
        let predicted_ns = self.runner.with_context(|context| self.runner.predict(context, &batch));
        Ok(Job { batch, request, predicted_ns, reply })
    }

    /// Puts a job where workers find it.
    pub(super) fn hand_over(self: &Arc<Self>, job: Job, on_full: OnFull) -> Result<(), HandedBack> {
        let home = self.queues.home();
        self.push(home, job, on_full, std::thread::yield_now)?;
        self.wake(home, true);
        Ok(())
    }

    /// Puts a job into a queue; `meanwhile` is what the caller does while it waits for room.
    ///
    /// # Errors
    /// The batch with `Exhausted`, when the queue is full and the caller does not want to wait.
    pub(super) fn push(
        self: &Arc<Self>,
        home: usize,
        mut job: Job,
        on_full: OnFull,
        mut meanwhile: impl FnMut(),
    ) -> Result<(), HandedBack> {
        while let Err(back) = self.queues.push(home, job) {
            if on_full == OnFull::Refuse {
                let error = Error::exhausted("QUEUED_MAX", QUEUED_MAX, QUEUED_MAX + 1);
                return Err(Box::new((back.batch, error)));
            }
            job = back;
            self.wake(home, true);
            meanwhile();
        }
        Ok(())
    }

    /// Sees to it that somebody works on a queue if that pays: `urgent` work nobody waits for on this thread, or a backlog
    /// that takes longer than waking a worker.
    pub(super) fn wake(self: &Arc<Self>, home: usize, urgent: bool) {
        let shifts = self.runner.workers.shifts();
        let backlog_ns = self.queues.backlog_ns(home);
        let wakeup_ns = self.runner.state.costs.wakeup_ns();
        let workers = shifts.workers();
        if workers == 0 || !urgent && backlog_ns < wakeup_ns {
            return;
        }
        // No more are woken than the backlog is worth.
        let worth = (1.0 + backlog_ns / (2.0 * wakeup_ns)).min(workers as f64) as usize;
        let wanted = if urgent { workers } else { worth.max(1) };
        // Without threads there is nobody to be counted.
        let Some(threads) = self.runner.workers.threads() else { return };
        if shifts.begins(wanted) {
            let own = Arc::clone(self);
            threads.spawn(move || own.work(home));
        }
    }

    /// What a worker does: one job after the other, until for a while there is none.
    fn work(&self, home: usize) {
        self.runner.with_context(|context| {
            let shifts = self.runner.workers.shifts();
            loop {
                while let Some(job) = self.queues.take(home) {
                    job.run(&self.runner, context);
                    // Parts of split batches wait for a thread of this pool.
                    rayon::yield_now();
                }
                let idle_since = Instant::now();
                while self.queues.is_empty() && idle_since.elapsed() < LINGER {
                    if rayon::yield_now() != Some(rayon::Yield::Executed) {
                        std::hint::spin_loop();
                    }
                }
                if self.queues.is_empty() && !shifts.goes_on(|| self.queues.is_empty()) {
                    break;
                }
            }
        });
    }
}
