//! Batches that were handed over: what is to be done with each, and whom it goes back to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Completed, EngineKinds, Error, OpStatus, OwnedBatch, Result, Ticket};

use super::inbox::Inbox;
use super::promise::Promise;
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::run::{Context, Runner};
use crate::state::State;

/// One batch that waits to be run.
pub(super) struct Job {
    pub(super) batch: OwnedBatch,
    pub(super) request: RunRequest,
    /// What it will probably take, in nanoseconds.
    pub(super) predicted_ns: u64,
    pub(super) reply: Reply,
}

/// [`RunOptions`] that outlive their caller.
#[derive(Clone, Copy)]
pub(super) struct RunRequest {
    pub(super) engine: Option<&'static str>,
    pub(super) kinds: EngineKinds,
    /// When it should be done, and how long that was from its submission.
    pub(super) deadline: Option<(Instant, Duration)>,
    pub(super) splits: bool,
}

/// Whom a batch goes back to.
pub(super) enum Reply {
    Session(Arc<Inbox>, Ticket),
    Future(Arc<Promise>),
    Callback(Box<dyn FnOnce(Completed) + Send>),
}

impl RunRequest {
    /// The options as they stand now.
    ///
    /// # Errors
    /// `Refused` when there is no engine of the name asked for.
    pub(super) fn new(state: &State, options: &RunOptions<'_>) -> Result<RunRequest> {
        let engine = match options.engine {
            None => None,
            Some(name) => {
                let set = state.engines();
                Some(set.slots[set.named(name)?].name())
            }
        };
        let deadline = options.deadline.and_then(|time| Some((Instant::now().checked_add(time)?, time)));
        Ok(RunRequest { engine, kinds: options.kinds, deadline, splits: options.splits })
    }
}

impl Job {
    /// Runs the batch, unless it was cancelled or is too late, and hands it back.
    pub(super) fn run(self, runner: &Runner, context: &mut Context) {
        let Job { mut batch, request, reply, .. } = self;
        let result = if reply.is_cancelled() {
            Err(Error::Refused(Refusal::Cancelled))
        } else {
            run(&mut batch, request, runner, context)
        };
        // Callbacks, wakers and what they drop are callers' code.
        if caught(|| reply.send(batch, result)).is_none() {
            tracing::error!("a callback or a waker panicked");
        }
    }
}

fn run(batch: &mut OwnedBatch, request: RunRequest, runner: &Runner, context: &mut Context) -> Result<()> {
    let mut left = None;
    if let Some((end, whole)) = request.deadline {
        left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        if left.is_none() {
            let ns = |time: Duration| usize::try_from(time.as_nanos()).unwrap_or(usize::MAX);
            let late = end.elapsed();
            return Err(Error::exhausted("the batch's deadline in ns", ns(whole), ns(whole.saturating_add(late))));
        }
    }
    let RunRequest { engine, kinds, splits, .. } = request;
    let options = RunOptions { engine, kinds, deadline: left, splits };
    // The arena may be of the caller's own making; whatever it does, the batch must come back.
    let ran = caught(|| runner.run(context, batch.as_batch(), &options));
    ran.unwrap_or_else(|| {
        for op in batch.ops.iter_mut().filter(|op| op.status.is_pending()) {
            op.status = OpStatus::EngineFault;
        }
        Err(Error::fault("mill", FaultKind::Panicked))
    })
    .map(|_| ())
}

impl Reply {
    fn is_cancelled(&self) -> bool {
        match self {
            Reply::Session(inbox, ticket) => inbox.is_cancelled(*ticket),
            Reply::Future(promise) => promise.is_abandoned(),
            Reply::Callback(_) => false,
        }
    }

    fn send(self, batch: OwnedBatch, result: Result<()>) {
        match self {
            Reply::Session(inbox, ticket) => inbox.deliver(Completed { ticket, batch, result }),
            Reply::Future(promise) => promise.keep(Completed { ticket: Ticket(0), batch, result }),
            Reply::Callback(callback) => callback(Completed { ticket: Ticket(0), batch, result }),
        }
    }
}
