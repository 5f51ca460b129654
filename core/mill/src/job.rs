//! Batches that were handed over: what is to be done with each, and whom it goes back to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Completed, EngineKinds, Error, OpStatus, OwnedBatch, Result, Ticket};

use crate::future::Promise;
use crate::inbox::Inbox;
use crate::mill::Shared;
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::queues::Queues;

/// One batch that waits to be run.
pub(crate) struct Job {
    pub(crate) batch: OwnedBatch,
    pub(crate) wishes: Wishes,
    /// What it will probably take, in nanoseconds.
    pub(crate) predicted_ns: u64,
    pub(crate) reply: Reply,
}

/// [`RunOptions`] that outlive their caller.
#[derive(Clone, Copy)]
pub(crate) struct Wishes {
    pub(crate) engine: Option<&'static str>,
    pub(crate) kinds: EngineKinds,
    /// When it should be done, and how long that was from its submission.
    pub(crate) deadline: Option<(Instant, Duration)>,
}

/// Whom a batch goes back to.
pub(crate) enum Reply {
    Session(Arc<Inbox>, Ticket),
    Future(Arc<Promise>),
    Callback(Box<dyn FnOnce(Completed) + Send>),
}

impl Wishes {
    /// The options as they stand now.
    ///
    /// # Errors
    /// `Refused` when there is no engine of the name asked for.
    pub(crate) fn new(shared: &Shared, options: &RunOptions<'_>) -> Result<Wishes> {
        let engine = match options.engine {
            None => None,
            Some(name) => {
                let known = shared.engines().slots.iter().map(|slot| slot.name()).find(|known| *known == name);
                Some(known.ok_or_else(|| Error::Refused(Refusal::EngineUnavailable(name.to_owned())))?)
            }
        };
        let deadline = options.deadline.and_then(|time| Some((Instant::now().checked_add(time)?, time)));
        Ok(Wishes { engine, kinds: options.kinds, deadline })
    }
}

impl Job {
    /// Runs the batch, unless it was cancelled or is too late, and hands it back.
    pub(crate) fn run(self, shared: &Shared, queues: &mut Queues) {
        let Job { mut batch, wishes, reply, .. } = self;
        let result = if reply.is_cancelled() {
            Err(Error::Refused(Refusal::Cancelled))
        } else {
            run(&mut batch, wishes, shared, queues)
        };
        // Callbacks, wakers and what they drop are callers' code.
        if caught(|| reply.send(batch, result)).is_none() {
            tracing::error!("a callback or a waker panicked");
        }
    }
}

fn run(batch: &mut OwnedBatch, wishes: Wishes, shared: &Shared, queues: &mut Queues) -> Result<()> {
    let mut left = None;
    if let Some((end, whole)) = wishes.deadline {
        left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        if left.is_none() {
            let ns = |time: Duration| usize::try_from(time.as_nanos()).unwrap_or(usize::MAX);
            let late = end.elapsed();
            return Err(Error::exhausted("the batch's deadline in ns", ns(whole), ns(whole.saturating_add(late))));
        }
    }
    let options = RunOptions { engine: wishes.engine, kinds: wishes.kinds, deadline: left };
    // The arena may be of the caller's own making; whatever it does, the batch must come back.
    let ran = caught(|| queues.run(shared, batch.as_batch(), &options));
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
