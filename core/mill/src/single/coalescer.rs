//! Single operations of many tasks that share batches.
//!
//! A task that submits one operation puts it into the open batch of its suite and direction. The first to do so leads that
//! batch: it yields once, so that every other task that is ready gets its turn and adds its own operation, and then runs
//! the batch, on its own thread, without a timer or another thread. Tasks that keep finding themselves alone stop waiting
//! and only try again now and then.
//!
//! Threads that block share the same batches ([`super::blocking`]), where that is worth a change of threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use ciphermill_contract::{Batch, Direction, Error, Op, OpStatus, Result, Suite};
use ciphermill_shifts::{OpenBatch, Part, SharedBatch, lock};

use super::alone::Alone;
use super::blocking::Threads;
use super::one::{One, OneDone, copy_in, copy_out, lay_out, run_alone};
use super::wiped::WipedVec;
use super::worth::{LEN_CLASSES, LONE_PATH_NS, SHARED_PATH_NS, WAIT_MAX, len_class, lowest_ns};
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::run::Runner;
use crate::state::State;

/// Operations that share a batch at most.
pub const SHARED_OPS_MAX: usize = 1024;

/// Shared batches of one operation in a row after which nobody waits any more …
const LONELY_MAX: u32 = 2;

/// … for so many operations.
const ALONE_FOR: u32 = 32;

/// What a shared batch saves has to be this share of a lone operation's time.
const WORTH: f64 = 0.1;

/// The open batch of one suite and direction, and whether sharing has been worth it.
#[derive(Default)]
pub(crate) struct Coalescer {
    state: Mutex<CoalescerState>,
    threads: Threads,
    alone: Alone,
}

impl Coalescer {
    /// Runs one operation by itself.
    pub(super) fn run_alone(
        &self,
        runner: &Runner,
        suite: Suite,
        direction: Direction,
        one: &mut One<'_>,
    ) -> Result<OneDone> {
        match self.alone.run(runner, suite, direction, one) {
            Some(done) => done,
            None => run_alone(runner, suite, direction, one),
        }
    }

    /// What is kept of operations that come alone.
    pub(super) fn alone(&self) -> &Alone {
        &self.alone
    }

    /// What threads that block know of it.
    pub(crate) fn threads(&self) -> &Threads {
        &self.threads
    }
}

#[derive(Default)]
struct CoalescerState {
    open: Option<OpenBatch<Collected, Done, Waker>>,
    /// Operations of the last shared batch, and bytes: as many are expected of the next.
    last: (usize, usize),
    lonely: u32,
    alone_for: u32,
    /// Whether waiting pays, by class of lengths, with the engines of this epoch.
    pays: [Option<bool>; LEN_CLASSES],
    epoch: u64,
}

/// The operations of an open batch.
struct Collected {
    suite: Suite,
    ops: Vec<Op>,
    arena: WipedVec,
    begun: Instant,
}

/// What became of a batch.
struct Done {
    result: Result<()>,
    ops: Vec<Op>,
    arena: WipedVec,
}

/// One operation on its way; resolves to what became of it. Dropped, its outcome is lost, others' are not.
#[must_use = "futures do nothing unless polled"]
pub struct OneFuture<'d> {
    runner: &'d Runner,
    coalescer: &'d Coalescer,
    suite: Suite,
    direction: Direction,
    one: One<'d>,
    part: Option<Part<Done, Waker>>,
}

impl<'d> OneFuture<'d> {
    /// An operation that joins the others of its suite and direction when it is first polled.
    pub(super) fn new(
        runner: &'d Runner,
        coalescer: &'d Coalescer,
        (suite, direction): (Suite, Direction),
        one: One<'d>,
    ) -> OneFuture<'d> {
        OneFuture { runner, coalescer, suite, direction, one, part: None }
    }
}

impl OneFuture<'_> {
    /// Joins the open batch, or opens one. `None` when it is better not to wait.
    fn join(&self, context: &Context<'_>) -> Option<Part<Done, Waker>> {
        let mut locked = lock(&self.coalescer.state);
        let state = &mut *locked;
        if !state.pays(&self.runner.state, self.suite, self.direction, self.one.input_len) {
            return None;
        }
        if state.alone_for != 0 {
            state.alone_for -= 1;
            return None;
        }
        if state.open.is_none() {
            state.open = Some(OpenBatch::new(Collected::new(self.suite, state.last), state.last.0));
        }
        // FF1 in another radix has the same coalescer and another suite. A full batch is about to be run.
        let is_open = |own: &&mut OpenBatch<Collected, _, _>| {
            own.batch.suite == self.suite && own.batch.ops.len() < SHARED_OPS_MAX
        };
        let open = state.open.as_mut().filter(is_open)?;
        let batch = &mut open.batch;
        let start = batch.arena.0.len().next_multiple_of(16);
        // Buffers that break a rule are told so on the way of a lone operation.
        let (op, end) = lay_out(&self.one, self.suite, self.direction, start).ok()?;
        if end > batch.arena.0.capacity() {
            batch.arena.grow(end);
        }
        batch.arena.0.resize(end, 0);
        copy_in(&self.one, &op, &mut batch.arena.0);
        // Callers' code, before anything is half done.
        let waker = context.waker().clone();
        batch.ops.push(op);
        Some(open.join(|| waker))
    }

    /// Runs the batch if it is still open and `wanted` says so.
    fn lead(
        &self,
        shared: &Arc<SharedBatch<Done, Waker>>,
        wanted: impl FnOnce(&OpenBatch<Collected, Done, Waker>) -> bool,
    ) {
        let mut state = lock(&self.coalescer.state);
        let taken = state.open.take_if(|open| open.is_of(shared) && wanted(open));
        let Some(open) = taken else { return };
        let (Collected { mut ops, mut arena, .. }, wakers) = open.into_parts();
        state.note(ops.len(), arena.0.len());
        drop(state);
        let result = run_shared(self.runner, self.suite, self.direction, &mut ops, &mut arena.0);
        let late = shared.finish(Done { result, ops, arena });
        wake_all(wakers.into_iter().chain(late));
    }

    /// The outcome, when the batch is done.
    fn outcome(&mut self, part: &Part<Done, Waker>) -> Option<Result<OneDone>> {
        part.shared.outcome(|Done { result, ops, arena }| {
            let op = &ops[part.index];
            result.clone().map(|()| copy_out(&mut self.one, self.direction, self.suite, op, &arena.0))
        })
    }
}

/// Wakes tasks. An executor that panics over one does not keep the others from theirs.
fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        if caught(|| waker.wake()).is_none() {
            tracing::error!("a waker panicked");
        }
    }
}

impl Collected {
    /// A batch without operations, with room for as many as the last one had.
    fn new(suite: Suite, (ops, bytes): (usize, usize)) -> Collected {
        let (ops, arena) = (Vec::with_capacity(ops), WipedVec(Vec::with_capacity(bytes)));
        Collected { suite, ops, arena, begun: Instant::now() }
    }
}

impl CoalescerState {
    /// Whether sharing batches is predicted to save enough for operations of this length. Worked out once for each class
    /// of lengths while the engines stay the same.
    fn pays(&mut self, mill: &State, suite: Suite, direction: Direction, len: usize) -> bool {
        let epoch = mill.epoch();
        if self.epoch != epoch {
            (self.epoch, self.pays) = (epoch, [None; LEN_CLASSES]);
        }
        *self.pays[len_class(len)].get_or_insert_with(|| {
            let ns = |ops| lowest_ns(mill, suite, direction, len, ops);
            let lone_ns = ns(1) + LONE_PATH_NS;
            lone_ns - (ns(64) + SHARED_PATH_NS) >= WORTH * lone_ns
        })
    }

    /// Learns from a shared batch of so many operations and bytes whether waiting is worth it.
    fn note(&mut self, ops: usize, bytes: usize) {
        self.last = (ops, bytes);
        self.lonely = if ops == 1 { self.lonely + 1 } else { 0 };
        if self.lonely >= LONELY_MAX {
            (self.lonely, self.alone_for) = (LONELY_MAX - 1, ALONE_FOR);
        }
    }
}

impl Future for OneFuture<'_> {
    type Output = Result<OneDone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<OneDone>> {
        let this = &mut *self;
        let Some(part) = this.part.take() else {
            let Some(part) = this.join(context) else {
                let done = this.coalescer.run_alone(this.runner, this.suite, this.direction, &mut this.one);
                return Poll::Ready(done);
            };
            if part.leads {
                context.waker().wake_by_ref();
            }
            this.part = Some(part);
            return Poll::Pending;
        };
        if part.leads {
            this.lead(&part.shared, |_| true);
        }
        if let Some(outcome) = this.outcome(&part) {
            return Poll::Ready(outcome);
        }
        // Before the looks that follow: what happens after them wakes this task.
        part.shared.wait(context.waker().clone());
        // Looked at without having been told to: the leader may be gone, or late.
        this.lead(&part.shared, |own| own.is_orphaned() || own.batch.begun.elapsed() >= WAIT_MAX);
        if let Some(outcome) = this.outcome(&part) {
            return Poll::Ready(outcome);
        }
        this.part = Some(part);
        Poll::Pending
    }
}

impl Drop for OneFuture<'_> {
    fn drop(&mut self) {
        let Some(part) = self.part.take() else { return };
        let mut state = lock(&self.coalescer.state);
        let ours = state.open.as_mut().filter(|open| open.is_of(&part.shared));
        let wakers = ours.map(|open| open.leave(&part));
        drop(state);
        wake_all(wakers.into_iter().flatten());
    }
}

/// Runs a shared batch. One that breaks a rule somewhere is run operation by operation, so that it fails nobody else.
fn run_shared(runner: &Runner, suite: Suite, direction: Direction, ops: &mut [Op], arena: &mut [u8]) -> Result<()> {
    let options = RunOptions::default();
    runner.with_context(|context| {
        let ran = runner.run(context, Batch::new(suite, direction, ops, arena), &options);
        if !matches!(ran, Err(Error::Misuse(_))) {
            return ran.map(|_| ());
        }
        for op in ops.iter_mut() {
            let batch = Batch::new(suite, direction, std::slice::from_mut(op), arena);
            if let Err(Error::Misuse(misuse)) = runner.run(context, batch, &options) {
                op.status = OpStatus::BadInput(misuse.reason);
            }
        }
        Ok(())
    })
}
