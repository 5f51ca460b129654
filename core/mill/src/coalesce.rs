//! Single operations of many tasks that share batches.
//!
//! A task that submits one operation puts it into the round that is being gathered for its suite and direction. The first
//! of a round leads it: it yields once, so that every other task that is ready gets its turn and adds its own, and then
//! runs the round, on its own thread, without a timer or another thread. Tasks that keep finding themselves alone stop
//! waiting and only try again now and then.
//!
//! Threads that block share the same rounds ([`crate::threads`]), where that is worth a change of threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ciphermill_contract::{Aad, Batch, Direction, Error, KeyId, Op, OpStatus, Reason, Result, Span, Suite};
use ciphermill_memory::wipe;
use ciphermill_router::{Candidate, size_class};
use ciphermill_shifts::{Gathering, Part, Round, lock};
use smallvec::SmallVec;

use crate::engines::place;
use crate::mill::{Mill, Shared};
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::threads::Threads;

/// Operations that share a batch at most.
pub const ROUND_OPS_MAX: usize = 1024;

/// How long an operation waits at most before whoever looks next runs the round.
pub(crate) const WAIT_MAX: Duration = Duration::from_micros(20);

/// Rounds of one operation in a row after which nobody waits any more …
const LONELY_ROUNDS: u32 = 2;

/// … for so many operations.
const ALONE_FOR: u32 = 32;

/// What a shared batch saves has to be this share of a lone operation's time.
const WORTH: f64 = 0.1;

/// The mill's own path for a lone operation and for one of a shared batch, in nanoseconds (`benches/path.rs`).
pub(crate) const LONE_PATH_NS: f64 = 200.0;
pub(crate) const SHARED_PATH_NS: f64 = 100.0;

/// One operation and its buffers.
#[derive(Debug)]
pub struct One<'d> {
    /// The key, [`KeyId::NONE`] for suites without one.
    pub key: KeyId,
    /// The initialisation vector, nonce, tweak or counter block.
    pub iv: &'d [u8],
    /// Additional authenticated data, or FF1's tweak.
    pub aad: &'d [u8],
    /// The input, and where the output goes: as long as the longer of both.
    pub data: &'d mut [u8],
    /// Bytes of input in `data`.
    pub input_len: usize,
    /// Where the tag, digest or signature goes, or lies when it is to be verified.
    pub tag: &'d mut [u8],
}

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneDone {
    /// Its status.
    pub status: OpStatus,
    /// Bytes of output in `data`.
    pub output_len: usize,
    /// Bytes at `tag`.
    pub tag_len: usize,
}

/// The rounds of one suite and direction.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    threads: Threads,
}

impl Gate {
    /// What threads that block know of it.
    pub(crate) fn threads(&self) -> &Threads {
        &self.threads
    }
}

#[derive(Default)]
struct GateState {
    gathering: Option<Gathering<Gathered, Done, Waker>>,
    /// Operations of the last round, and bytes: as many are expected of the next.
    last: (usize, usize),
    lonely_rounds: u32,
    alone_for: u32,
    /// Whether waiting pays, by class of lengths, with the engines of this epoch.
    pays: [Option<bool>; LEN_CLASSES],
    epoch: u64,
}

/// Bytes that are wiped when they are dropped.
#[derive(Default)]
struct WipedVec(Vec<u8>);

impl WipedVec {
    /// Makes room for `len` bytes and more, and wipes where they were before.
    fn grow(&mut self, len: usize) {
        let mut wider = Vec::with_capacity(2 * len);
        wider.extend_from_slice(&self.0);
        wipe(&mut self.0);
        self.0 = wider;
    }
}

impl Drop for WipedVec {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// A batch that is being gathered.
struct Gathered {
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
    shared: &'d Shared,
    suite: Suite,
    direction: Direction,
    one: One<'d>,
    part: Option<Part<Done, Waker>>,
}

impl Mill {
    /// One operation as a future, for any executor; it shares a batch with those of other tasks that are ready at the
    /// same time.
    pub fn submit_one<'d>(&'d self, suite: Suite, direction: Direction, one: One<'d>) -> OneFuture<'d> {
        OneFuture { shared: self.shared(), suite, direction, one, part: None }
    }
}

/// Where an operation's parts lie in an arena from `start` on, and where they end; or the rule that its buffers break.
/// What the arena holds behind them is no room for it.
fn lay_out(one: &One<'_>, suite: Suite, direction: Direction, start: usize) -> Result<(Op, usize), Reason> {
    if one.input_len > one.data.len() {
        return Err(Reason::InputPastEnd);
    }
    if suite.output_len(direction, one.input_len, one.data.len()) > one.data.len() {
        return Err(Reason::OutputPastEnd);
    }
    let aad = start + one.data.len();
    let tag = aad + one.aad.len();
    let output = if suite.transforms() { start } else { tag + one.tag.len() };
    let end = if suite.transforms() { output.max(tag + one.tag.len()) } else { output + one.data.len() };
    let (Ok(end_offset), Ok(aad_len), Ok(tag_len)) =
        (u32::try_from(end), u16::try_from(one.aad.len()), u16::try_from(one.tag.len()))
    else {
        return Err(Reason::InputTooLong);
    };
    debug_assert!(end_offset as usize == end);
    let op = Op {
        key: one.key,
        input: Span::new(start as u32, one.input_len as u32),
        output: output as u32,
        tag: tag as u32,
        tag_len,
        aad: Aad::new(aad as u32, aad_len),
        // Random bytes are asked for by the room that there is; all other suites set this themselves.
        output_len: if suite == Suite::Random { one.data.len() as u32 } else { 0 },
        ..Op::default()
    };
    Ok((op.with_iv(one.iv), end))
}

fn copy_in(one: &One<'_>, op: &Op, arena: &mut [u8]) {
    arena[op.input.range()].copy_from_slice(&one.data[..one.input_len]);
    arena[op.aad.span().range()].copy_from_slice(one.aad);
    arena[op.tag_span().range()].copy_from_slice(one.tag);
}

fn copy_out(one: &mut One<'_>, direction: Direction, suite: Suite, op: &Op, arena: &[u8]) -> OneDone {
    let output_len = op.output_len as usize;
    if suite.output_len(direction, one.input_len, one.data.len()) != 0 {
        // As the engine left it: zeros after a failure.
        let len = one.data.len();
        one.data.copy_from_slice(&arena[op.output as usize..][..len]);
    }
    if direction == Direction::Encrypt {
        let len = one.tag.len();
        one.tag.copy_from_slice(&arena[op.tag as usize..][..len]);
    }
    OneDone { status: op.status, output_len, tag_len: usize::from(op.tag_len) }
}

/// Runs one operation in a batch of its own.
pub(crate) fn run_alone(shared: &Shared, suite: Suite, direction: Direction, one: &mut One<'_>) -> Result<OneDone> {
    let (op, end) = match lay_out(one, suite, direction, 0) {
        Ok(place) => place,
        Err(reason) => return Ok(bad_input(reason)),
    };
    let mut arena: SmallVec<[u8; 512]> = SmallVec::from_elem(0, end);
    copy_in(one, &op, &mut arena);
    let mut ops = [op];
    let mut queues = shared.idle().pop().unwrap_or_default();
    let ran = queues.run(shared, Batch::new(suite, direction, &mut ops, &mut arena), &RunOptions::default());
    shared.give_back(queues);
    let done = match ran {
        Ok(_) => Ok(copy_out(one, direction, suite, &ops[0], &arena)),
        Err(Error::Misuse(misuse)) => Ok(bad_input(misuse.reason)),
        Err(error) => Err(error),
    };
    wipe(&mut arena);
    done
}

/// The outcome of an operation that breaks a rule; its buffers are as they were.
fn bad_input(reason: Reason) -> OneDone {
    OneDone { status: OpStatus::BadInput(reason), output_len: 0, tag_len: 0 }
}

impl OneFuture<'_> {
    fn gate(&self) -> &Gate {
        self.shared.gate(self.suite, self.direction)
    }

    /// Joins the round that is being gathered, or begins one. `None` when it is better not to wait.
    fn join(&self, context: &Context<'_>) -> Option<Part<Done, Waker>> {
        let mut locked = lock(&self.gate().state);
        let gate = &mut *locked;
        if !gate.pays(self.shared, self.suite, self.direction, self.one.input_len) {
            return None;
        }
        if gate.alone_for != 0 {
            gate.alone_for -= 1;
            return None;
        }
        if gate.gathering.is_none() {
            gate.gathering = Some(Gathering::new(Gathered::new(self.suite, gate.last), gate.last.0));
        }
        // FF1 in another radix has the same gate and another suite. A full round is about to be run.
        let is_open =
            |own: &&mut Gathering<Gathered, _, _>| own.batch.suite == self.suite && own.batch.ops.len() < ROUND_OPS_MAX;
        let gathering = gate.gathering.as_mut().filter(is_open)?;
        let batch = &mut gathering.batch;
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
        Some(gathering.join(|| waker))
    }

    /// Runs the round if it is still being gathered and `wanted` says so.
    fn lead(&self, round: &Arc<Round<Done, Waker>>, wanted: impl FnOnce(&Gathering<Gathered, Done, Waker>) -> bool) {
        let mut gate = lock(&self.gate().state);
        let taken = gate.gathering.take_if(|gathering| gathering.is_of(round) && wanted(gathering));
        let Some(gathering) = taken else { return };
        let (Gathered { mut ops, mut arena, .. }, wakers) = gathering.into_parts();
        gate.note(ops.len(), arena.0.len());
        drop(gate);
        let result = run_round(self.shared, self.suite, self.direction, &mut ops, &mut arena.0);
        let late = round.finish(Done { result, ops, arena });
        wake_all(wakers.into_iter().chain(late));
    }

    /// The outcome, when the round is done.
    fn outcome(&mut self, part: &Part<Done, Waker>) -> Option<Result<OneDone>> {
        part.round.outcome(|Done { result, ops, arena }| {
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

impl Gathered {
    /// A batch without operations, with room for as many as the last one had.
    fn new(suite: Suite, (ops, bytes): (usize, usize)) -> Gathered {
        let (ops, arena) = (Vec::with_capacity(ops), WipedVec(Vec::with_capacity(bytes)));
        Gathered { suite, ops, arena, begun: Instant::now() }
    }
}

impl GateState {
    /// Whether sharing batches is predicted to save enough for operations of this length. Worked out once for each class
    /// of lengths while the engines stay the same.
    fn pays(&mut self, shared: &Shared, suite: Suite, direction: Direction, len: usize) -> bool {
        let epoch = shared.epoch.load(Ordering::Relaxed);
        if self.epoch != epoch {
            (self.epoch, self.pays) = (epoch, [None; LEN_CLASSES]);
        }
        *self.pays[len_class(len)].get_or_insert_with(|| {
            let ns = |ops| lowest_ns(shared, suite, direction, len, ops);
            let lone_ns = ns(1) + LONE_PATH_NS;
            lone_ns - (ns(64) + SHARED_PATH_NS) >= WORTH * lone_ns
        })
    }

    /// Learns from a round of so many operations and bytes whether waiting is worth it.
    fn note(&mut self, ops: usize, bytes: usize) {
        self.last = (ops, bytes);
        self.lonely_rounds = if ops == 1 { self.lonely_rounds + 1 } else { 0 };
        if self.lonely_rounds >= LONELY_ROUNDS {
            (self.lonely_rounds, self.alone_for) = (LONELY_ROUNDS - 1, ALONE_FOR);
        }
    }
}

/// Classes of lengths that waiting may or may not pay for.
pub(crate) const LEN_CLASSES: usize = 3;

/// The class of a length in bytes.
#[inline]
pub(crate) fn len_class(len: usize) -> usize {
    usize::from(len > 128) + usize::from(len > 2048)
}

/// What an operation of this length takes on the best engine in a batch of `ops`, in nanoseconds.
pub(crate) fn lowest_ns(shared: &Shared, suite: Suite, direction: Direction, len: usize, ops: u64) -> f64 {
    let engines = shared.engines();
    let (place, class) = (place(suite, direction), size_class(ops, ops * len as u64));
    let known = |candidate: &Candidate| engines.slots[candidate.engine].learned.of_class(candidate.cost, place, class);
    let figures = engines.plan(suite, direction).iter().map(known);
    figures.map(|cost| cost.predict_ns(ops, ops * len as u64) / ops as f64).fold(f64::MAX, f64::min)
}

/// Runs a round. A batch that breaks a rule somewhere is run operation by operation, so that it fails nobody else.
fn run_round(shared: &Shared, suite: Suite, direction: Direction, ops: &mut [Op], arena: &mut [u8]) -> Result<()> {
    let mut queues = shared.idle().pop().unwrap_or_default();
    let options = RunOptions::default();
    let mut result = queues.run(shared, Batch::new(suite, direction, ops, arena), &options).map(|_| ());
    if matches!(result, Err(Error::Misuse(_))) {
        for op in ops.iter_mut() {
            let one = std::slice::from_mut(op);
            if let Err(Error::Misuse(misuse)) = queues.run(shared, Batch::new(suite, direction, one, arena), &options) {
                op.status = OpStatus::BadInput(misuse.reason);
            }
        }
        result = Ok(());
    }
    shared.give_back(queues);
    result
}

impl Future for OneFuture<'_> {
    type Output = Result<OneDone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<OneDone>> {
        let this = &mut *self;
        let Some(part) = this.part.take() else {
            let Some(part) = this.join(context) else {
                return Poll::Ready(run_alone(this.shared, this.suite, this.direction, &mut this.one));
            };
            if part.leads {
                context.waker().wake_by_ref();
            }
            this.part = Some(part);
            return Poll::Pending;
        };
        if part.leads {
            this.lead(&part.round, |_| true);
        }
        if let Some(outcome) = this.outcome(&part) {
            return Poll::Ready(outcome);
        }
        // Before the looks that follow: what happens after them wakes this task.
        part.round.wait(context.waker().clone());
        // Looked at without having been told to: the leader may be gone, or late.
        this.lead(&part.round, |own| own.is_orphaned() || own.batch.begun.elapsed() >= WAIT_MAX);
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
        let mut gate = lock(&self.gate().state);
        let ours = gate.gathering.as_mut().filter(|gathering| gathering.is_of(&part.round));
        let wakers = ours.map(|gathering| gathering.leave(&part));
        drop(gate);
        wake_all(wakers.into_iter().flatten());
    }
}
