//! Single operations of many tasks that share batches.
//!
//! A task that submits one operation puts it into the open batch of its suite and direction. The first to do so leads that
//! batch: it yields once, so that every other task that is ready gets its turn and adds its own operation, and then runs
//! the batch, on its own thread, without a timer or another thread. Tasks that keep finding themselves alone stop waiting
//! and only try again now and then.
//!
//! Operations that take long on engines whose lanes go in step (public keys) are worth more than that. Their arrivals are
//! measured, and the leader may open a *window* ([`ciphermill_router::window()`]): it yields again and again until the window
//! ends. Whoever fills the step runs the batch at once, window or not, so that the next one may run on another core. Nobody
//! waits while no other caller has such an operation on its way.
//!
//! Threads that block share the same batches ([`super::blocking`]), where that is worth a change of threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ciphermill_contract::{Batch, Direction, Error, Op, OpStatus, Result, Suite};
use ciphermill_router::Arrivals;
use ciphermill_shifts::{OpenBatch, Part, SharedBatch, lock};

use super::alone::Alone;
use super::blocking::Threads;
use super::callers::{Caller, Callers};
use super::one::{One, OneDone, copy_in, copy_out, lay_out, run_alone};
use super::wiped::WipedVec;
use super::worth::{Kind, LATE_AFTER, LEN_CLASSES, Worth, arrived, len_class, window_of};
use crate::metrics::SharedMetrics;
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::run::Runner;
use crate::state::State;

/// Operations that share a batch at most.
pub const SHARED_OPS_MAX: usize = 1024;

/// Shared batches of one operation in a row after which nobody waits any more …
const LONELY_MAX: u32 = 2;

/// … the same where a step takes long: a turn taken in vain costs little beside it, and in a busy event loop some batches have one
/// operation only by chance.
const LONELY_LONG_MAX: u32 = 8;

/// … for so many operations.
const ALONE_FOR: u32 = 32;

/// While its executor is busy with other work a batch stays open for so many of the longest windows.
const BUSY_WINDOWS: u32 = 10;

/// A turn of an executor that takes so long has had other work: one of an event loop without any takes a few microseconds.
const BUSY_TURN: Duration = Duration::from_micros(20);

/// The open batch of one suite and direction, and whether sharing has been worth it.
#[derive(Default)]
pub(crate) struct Coalescer {
    state: Mutex<CoalescerState>,
    callers: Callers,
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
    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Takes note of a thread that has come with an operation, and of when it came where others may be waited for. Tells whether others
    /// have one on its way.
    pub(super) fn arrive(&self, mill: &State, kind: Kind) -> (Caller<'_>, bool) {
        let caller = self.callers.enter();
        let mut state = lock(&self.state);
        if state.worth(mill, kind).waits {
            state.arrived(mill);
        }
        (caller, self.callers.count() > 1)
    }

    /// A caller of an operation that nobody would share a batch with now. `None` for one that is better brought here: it is not
    /// taken note of yet.
    pub(super) fn come_alone(&self, mill: &State, kind: Kind, by: By) -> Option<Caller<'_>> {
        let caller = self.callers.enter();
        let mut locked = lock(&self.state);
        let state = &mut *locked;
        let worth = state.worth(mill, kind);
        let has_others = self.callers.count() > 1;
        let is_alone = !worth.shares
            || match by {
                By::Thread => !self.threads.pays(mill, kind) || !has_others,
                By::Task => state.open.is_none() && state.alone_for != 0 && !(worth.waits && has_others),
            };
        if !is_alone {
            return None;
        }
        state.alone_for = state.alone_for.saturating_sub(u32::from(by == By::Task));
        if worth.waits {
            state.arrived(mill);
        }
        Some(caller)
    }

    /// What was counted of shared batches; `None` before there was one.
    pub(super) fn counts(&self) -> Option<SharedMetrics> {
        lock(&self.state).counts
    }
}

/// Who comes with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A thread that would block.
    Thread,
    /// A task that would yield.
    Task,
}

#[derive(Default)]
struct CoalescerState {
    open: Option<Open>,
    /// Operations of the last shared batch, and bytes: as many are expected of the next.
    last: (usize, usize),
    lonely: u32,
    alone_for: u32,
    /// What company is worth, by class of lengths, with the engines of this epoch.
    worth: [Option<Worth>; LEN_CLASSES],
    epoch: u64,
    /// How quickly operations come that others may be waited for, and when the last one came.
    arrivals: Arrivals,
    last_arrival: Option<Instant>,
    counts: Option<SharedMetrics>,
}

/// A batch that is open to more operations.
type Open = OpenBatch<Collected, Done, Waker>;

/// The operations of an open batch.
struct Collected {
    suite: Suite,
    ops: Vec<Op>,
    arena: WipedVec,
    begun: Instant,
    /// With so many it is run at once.
    full: usize,
    /// Whether a step of such operations takes long.
    is_long: bool,
    /// When its leader looked last, and operations then: none before the first time if the last batch was shared.
    looked: Instant,
    seen: usize,
    /// How long it is waited for more, if it is.
    window: Option<OpenWindow>,
}

/// A window that was opened at a moment, for so long.
#[derive(Clone, Copy)]
struct OpenWindow {
    opened: Instant,
    len: Duration,
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
    /// Counts as a caller while it is on its way, if others may be waited for.
    caller: Option<Caller<'d>>,
}

impl<'d> OneFuture<'d> {
    /// An operation that joins the others of its suite and direction when it is first polled.
    pub(super) fn new(
        runner: &'d Runner,
        coalescer: &'d Coalescer,
        (suite, direction): (Suite, Direction),
        one: One<'d>,
    ) -> OneFuture<'d> {
        OneFuture { runner, coalescer, suite, direction, one, part: None, caller: None }
    }

    /// The same for a caller whose arrival was taken note of.
    pub(super) fn of_caller(mut self, caller: Caller<'d>) -> OneFuture<'d> {
        self.caller = Some(caller);
        self
    }
}

impl OneFuture<'_> {
    fn kind(&self) -> Kind {
        Kind { suite: self.suite, direction: self.direction, len: self.one.input_len }
    }

    /// Joins the open batch, or opens one; takes that if it is full now. `None` when it is better not to wait.
    fn join(&mut self, context: &Context<'_>) -> Option<(Part<Done, Waker>, Option<Open>)> {
        let (mill, callers) = (&self.runner.state, &self.coalescer.callers);
        let mut locked = lock(&self.coalescer.state);
        let state = &mut *locked;
        let worth = state.worth(mill, self.kind());
        if !worth.shares {
            return None;
        }
        if worth.waits && self.caller.is_none() {
            self.caller = Some(callers.enter());
            state.arrived(mill);
        }
        if state.alone_for != 0 && !(worth.waits && callers.count() > 1) {
            state.alone_for -= 1;
            return None;
        }
        if state.open.is_none() {
            // Idle workers of the mill take steps of a large batch.
            let full = if self.runner.workers.idle() == 0 { worth.full } else { usize::MAX };
            let collected =
                Collected { is_long: worth.full != usize::MAX, ..Collected::new(self.suite, full, state.last) };
            state.open = Some(OpenBatch::new(collected, state.last.0));
        }
        // FF1 in another radix has the same coalescer and another suite. A full batch is about to be run.
        let is_open = |own: &&mut Open| own.batch.suite == self.suite && own.batch.ops.len() < SHARED_OPS_MAX;
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
        if !batch.is_full() && !batch.is_overdue(mill.policy.window_max) {
            return Some((open.join(|| waker), None));
        }
        let part = open.join_last();
        // At once: nobody else may join it.
        let open = state.open.take();
        open.iter().for_each(|open| state.note(&open.batch, self.direction));
        Some((part, open))
    }

    /// Whether the leader of a batch waits for more operations. The first time it asks, it opens the window, if any. At its end,
    /// when fewer have come than were expected, it looks whether waiting on is worth it for those who are on their way. Without a
    /// window it may take another turn of its executor.
    fn waits(&self, shared: &Arc<SharedBatch<Done, Waker>>) -> bool {
        if self.caller.is_none() {
            return false;
        }
        let (mill, kind) = (&self.runner.state, self.kind());
        let mut locked = lock(&self.coalescer.state);
        let state = &mut *locked;
        let worth = state.worth(mill, kind);
        let Some(open) = state.open.as_mut().filter(|open| open.is_of(shared)) else { return false };
        let batch = &mut open.batch;
        if !worth.waits || batch.is_full() {
            return false;
        }
        let is_worth_a_turn = batch.is_worth_a_turn(mill.policy.window_max);
        let (now, callers) = (Instant::now(), self.coalescer.callers.count());
        let (opened, arrivals) = match batch.window {
            None => (now, state.arrivals),
            Some(window) if window.is_open(now) => return true,
            Some(_) if callers <= batch.ops.len() => return is_worth_a_turn,
            Some(window) => {
                let since = state.last_arrival.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
                (window.opened, state.arrivals.slower(since.as_nanos() as f64))
            }
        };
        let waited = now.saturating_duration_since(opened);
        let left = mill.policy.window_max.saturating_sub(waited);
        let there = (batch.ops.len() as u64, callers as u64);
        let Some(window) = window_of(mill, kind, there, arrivals, left) else { return is_worth_a_turn };
        batch.full = usize::try_from(window.full).unwrap_or(usize::MAX);
        let is_first = batch.window.is_none();
        batch.window = Some(OpenWindow { opened, len: waited + Duration::from_nanos(window.ns as u64) });
        state.counts_of(self.suite, self.direction).windows += u64::from(is_first);
        true
    }

    /// Runs the batch if it is still open and `wanted` says so.
    fn lead(&self, shared: &Arc<SharedBatch<Done, Waker>>, wanted: impl FnOnce(&Open) -> bool) {
        let mut state = lock(&self.coalescer.state);
        let taken = state.open.take_if(|open| open.is_of(shared) && wanted(open));
        let Some(open) = taken else { return };
        state.note(&open.batch, self.direction);
        drop(state);
        self.run(open, shared);
    }

    /// Runs a batch that was taken, and tells everybody.
    fn run(&self, open: Open, shared: &SharedBatch<Done, Waker>) {
        let (Collected { mut ops, mut arena, .. }, wakers) = open.into_parts();
        let result = run_shared(self.runner, self.suite, self.direction, &mut ops, &mut arena.0);
        let late = shared.finish(Done { result, ops, arena });
        wake_all(wakers.into_iter().chain(late));
    }

    /// The first poll: joins a batch, or runs the operation at once.
    fn begin(&mut self, context: &Context<'_>) -> Poll<Result<OneDone>> {
        let Some((part, full)) = self.join(context) else {
            let done = self.coalescer.run_alone(self.runner, self.suite, self.direction, &mut self.one);
            self.caller = None;
            return Poll::Ready(done);
        };
        if let Some(open) = full {
            self.run(open, &part.shared);
            return self.look(part, context);
        }
        if part.leads {
            context.waker().wake_by_ref();
        }
        self.part = Some(part);
        Poll::Pending
    }

    /// Looks for the outcome, and waits for it if it is not there.
    fn look(&mut self, part: Part<Done, Waker>, context: &Context<'_>) -> Poll<Result<OneDone>> {
        if let Some(outcome) = self.outcome(&part) {
            return Poll::Ready(outcome);
        }
        // Before the looks that follow: what happens after them wakes this task.
        part.shared.wait(context.waker().clone());
        // Looked at without having been told to: the leader may be gone, or late.
        self.lead(&part.shared, |own| own.is_orphaned() || own.batch.is_late());
        if let Some(outcome) = self.outcome(&part) {
            return Poll::Ready(outcome);
        }
        self.part = Some(part);
        Poll::Pending
    }

    /// The outcome, when the batch is done.
    fn outcome(&mut self, part: &Part<Done, Waker>) -> Option<Result<OneDone>> {
        let done = part.shared.outcome(|Done { result, ops, arena }| {
            let op = &ops[part.index];
            result.clone().map(|()| copy_out(&mut self.one, self.direction, self.suite, op, &arena.0))
        })?;
        self.caller = None;
        Some(done)
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
    /// A batch without operations that is full with so many, with room for as many as the last one had.
    fn new(suite: Suite, full: usize, (last_ops, bytes): (usize, usize)) -> Collected {
        let (ops, arena) = (Vec::with_capacity(last_ops), WipedVec(Vec::with_capacity(bytes)));
        // Where the last one was shared, others get a whole turn, although this one may have been opened at the end of one.
        let seen = usize::from(last_ops <= 1);
        let begun = Instant::now();
        Collected { suite, ops, arena, begun, full, is_long: false, looked: begun, seen, window: None }
    }

    fn is_full(&self) -> bool {
        self.ops.len() >= self.full
    }

    /// Whether another turn of the executor is worth taking: where steps take long, while the batch grows, and, once it is shared,
    /// while turns are busy. An event loop has no operations come while it works on a batch, and then takes a few connections in a
    /// turn, however many wait; as long as it has other work nobody waits in vain. A turn without any says that all are here.
    fn is_worth_a_turn(&mut self, time_max: Duration) -> bool {
        let now = Instant::now();
        let turn = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        let before = std::mem::replace(&mut self.seen, self.ops.len());
        let (grows, is_shared) = (self.ops.len() > before, self.ops.len() > 1 || before == 0);
        let is_in_time = now.saturating_duration_since(self.begun) < BUSY_WINDOWS * time_max;
        self.is_long && is_in_time && (grows || is_shared && turn >= BUSY_TURN)
    }

    /// Whether its leader should have run it long ago: it may be a connection that its program does not come back to, on a thread that
    /// is busy. Whoever comes next runs it.
    fn is_overdue(&self, time_max: Duration) -> bool {
        self.is_long && self.begun.elapsed() >= 2 * BUSY_WINDOWS * time_max.max(LATE_AFTER)
    }

    /// Whether its leader should have run it.
    fn is_late(&self) -> bool {
        self.begun.elapsed() >= LATE_AFTER && !self.window.is_some_and(|window| window.is_open(Instant::now()))
    }
}

impl OpenWindow {
    fn is_open(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.opened) < self.len
    }
}

impl CoalescerState {
    /// What company is predicted to be worth. Worked out once for each class of lengths while the engines stay the same.
    fn worth(&mut self, mill: &State, kind: Kind) -> Worth {
        let epoch = mill.epoch();
        if self.epoch != epoch {
            (self.epoch, self.worth) = (epoch, [None; LEN_CLASSES]);
        }
        *self.worth[len_class(kind.len)].get_or_insert_with(|| Worth::of(mill, kind))
    }

    /// Takes note of an operation that has just come.
    fn arrived(&mut self, mill: &State) {
        let now = Instant::now();
        if let Some(before) = self.last_arrival.replace(now) {
            self.arrivals = arrived(mill, self.arrivals, now.saturating_duration_since(before));
        }
    }

    fn counts_of(&mut self, suite: Suite, direction: Direction) -> &mut SharedMetrics {
        self.counts.get_or_insert_with(|| SharedMetrics::new(suite, direction))
    }

    /// Counts a shared batch that is about to be run, and learns from it whether waiting is worth it.
    fn note(&mut self, batch: &Collected, direction: Direction) {
        let ops = batch.ops.len();
        let counts = self.counts_of(batch.suite, direction);
        counts.batches += 1;
        counts.operations += ops as u64;
        if let Some(window) = batch.window {
            counts.filled += u64::from(batch.is_full());
            counts.window_ns += window.opened.elapsed().as_nanos() as u64;
        }
        self.last = (ops, batch.arena.0.len());
        self.lonely = if ops == 1 { self.lonely + 1 } else { 0 };
        let lonely_max = if batch.is_long { LONELY_LONG_MAX } else { LONELY_MAX };
        if self.lonely >= lonely_max {
            (self.lonely, self.alone_for) = (lonely_max - 1, ALONE_FOR);
        }
    }
}

impl Future for OneFuture<'_> {
    type Output = Result<OneDone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<OneDone>> {
        let this = &mut *self;
        let Some(part) = this.part.take() else { return this.begin(context) };
        if part.leads && this.waits(&part.shared) {
            context.waker().wake_by_ref();
            this.part = Some(part);
            return Poll::Pending;
        }
        if part.leads {
            this.lead(&part.shared, |_| true);
        }
        this.look(part, context)
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
