//! The mill's threads: one a core, for work that is handed over and for parts of large batches; and a few that wait for
//! offload engines. They start when they are first needed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ciphermill_router::OFFLOAD_MAX;
use ciphermill_shifts::Shifts;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads that wait for offload engines: as many as one batch is shared out to.
const WAITERS: usize = OFFLOAD_MAX;

/// Worker threads, and who of them is at work.
pub(crate) struct Workers {
    threads: OnceLock<Option<ThreadPool>>,
    /// Threads that wait for offload engines.
    waiters: OnceLock<Option<ThreadPool>>,
    shifts: Shifts,
    /// Parts of split batches that are being run; who runs one looks at no queue meanwhile.
    parts: AtomicUsize,
}

impl Workers {
    /// Up to `count` threads; with none, callers do everything themselves.
    pub(crate) fn new(count: usize) -> Workers {
        let (threads, waiters) = (OnceLock::new(), OnceLock::new());
        Workers { threads, waiters, shifts: Shifts::new(count), parts: AtomicUsize::new(0) }
    }

    /// Who takes jobs from the queues.
    pub(crate) fn shifts(&self) -> &Shifts {
        &self.shifts
    }

    /// The threads; `None` when there are to be none or the system gives none.
    pub(crate) fn threads(&self) -> Option<&ThreadPool> {
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

    /// Whether there are threads to hand work to.
    pub(crate) fn has_threads(&self) -> bool {
        self.threads().is_some()
    }

    /// Workers that are taking from the queues, and parts of split batches that are being run.
    pub(crate) fn busy(&self) -> usize {
        self.shifts.busy() + self.parts.load(Ordering::Relaxed)
    }

    /// Workers that have nothing to do.
    pub(crate) fn idle(&self) -> usize {
        self.shifts.workers().saturating_sub(self.busy())
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
