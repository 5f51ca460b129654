//! Single operations of many tasks that share batches.
//!
//! A task that submits one operation puts it into the round that is being gathered for its suite and direction. The first
//! of a round leads it: it yields once, so that every other task that is ready gets its turn and adds its own, and then
//! runs the round, on its own thread, without a timer or another thread. Tasks that keep finding themselves alone stop
//! waiting and only try again now and then.
//!
//! Threads that block do not share batches: to wake a sleeping thread takes longer than nearly every operation.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ciphermill_contract::{Aad, Batch, Direction, Error, KeyId, Op, OpStatus, Reason, Result, Span, Suite};
use ciphermill_router::{Candidate, size_class};
use smallvec::SmallVec;
use zeroize::Zeroize;

use crate::engines::place;
use crate::mill::{Mill, Shared};
use crate::policy::RunOptions;

/// Operations that share a batch at most.
pub const ROUND_OPS_MAX: usize = 1024;

/// How long an operation waits at most before whoever looks next runs the round.
const WAIT_MAX: Duration = Duration::from_micros(20);

/// Rounds of one operation in a row after which nobody waits any more …
const LONELY_ROUNDS: u32 = 2;

/// … for so many operations.
const ALONE_FOR: u32 = 32;

/// What a shared batch saves has to be this share of a lone operation's time.
const WORTH: f64 = 0.1;

/// The mill's own path for a lone operation and for one of a shared batch, in nanoseconds (`benches/path.rs`).
const LONE_PATH_NS: f64 = 200.0;
const SHARED_PATH_NS: f64 = 100.0;

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
pub(crate) struct Gate(Mutex<GateState>);

#[derive(Default)]
struct GateState {
    gathering: Option<Arc<Round>>,
    /// A round whose buffers can be used again.
    spare: Option<Arc<Round>>,
    lonely_rounds: u32,
    alone_for: u32,
    /// Whether waiting pays, by class of lengths, with the engines of this epoch.
    pays: [Option<bool>; 3],
    epoch: u64,
}

/// A batch that is being gathered, run, or read by those who took part.
#[derive(Default)]
struct Round(Mutex<RoundState>);

#[derive(Default)]
struct RoundState {
    ops: Vec<Op>,
    arena: Vec<u8>,
    wakers: Vec<Waker>,
    stage: Stage,
    /// The leader is gone; whoever looks next leads.
    is_orphaned: bool,
    begun: Option<Instant>,
    /// Operations whose tasks have read their outcome or have gone.
    left: usize,
    suite: Option<Suite>,
}

#[derive(Clone, Default, PartialEq)]
enum Stage {
    #[default]
    Gathering,
    Running,
    Done(Result<()>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic within leaves at worst a round that nobody leads; its tasks see it orphaned.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One operation on its way; resolves to what became of it. Dropped, its outcome is lost, others' are not.
#[must_use = "futures do nothing unless polled"]
pub struct OneFuture<'d> {
    shared: Arc<Shared>,
    suite: Suite,
    direction: Direction,
    one: One<'d>,
    part: Option<Part>,
}

/// A future's place in a round.
struct Part {
    round: Arc<Round>,
    index: usize,
    leads: bool,
}

impl Mill {
    /// Runs one operation on the caller's thread.
    ///
    /// An operation that breaks a rule of its suite ends with [`OpStatus::BadInput`].
    ///
    /// # Errors
    /// `Refused` and `EngineFault` as [`crate::Session::run`].
    pub fn run_one(&self, suite: Suite, direction: Direction, mut one: One<'_>) -> Result<OneDone> {
        run_alone(self.shared(), suite, direction, &mut one)
    }

    /// One operation as a future, for any executor; it shares a batch with those of other tasks that are ready at the
    /// same time.
    pub fn submit_one<'d>(&self, suite: Suite, direction: Direction, one: One<'d>) -> OneFuture<'d> {
        OneFuture { shared: Arc::clone(self.shared()), suite, direction, one, part: None }
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
fn run_alone(shared: &Shared, suite: Suite, direction: Direction, one: &mut One<'_>) -> Result<OneDone> {
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
    arena.zeroize();
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
    fn join(&self, context: &Context<'_>) -> Option<Part> {
        let mut locked = lock(&self.gate().0);
        let gate = &mut *locked;
        if !gate.pays(&self.shared, self.suite, self.direction, self.one.input_len) {
            return None;
        }
        if gate.alone_for != 0 {
            gate.alone_for -= 1;
            return None;
        }
        let round = Arc::clone(gate.gathering.get_or_insert_with(|| gate.spare.take().unwrap_or_default()));
        let mut state = lock(&round.0);
        if *state.suite.get_or_insert(self.suite) != self.suite {
            // FF1 in another radix.
            return None;
        }
        let start = state.arena.len().next_multiple_of(16);
        // Buffers that break a rule are told so on the way of a lone operation.
        let (op, end) = lay_out(&self.one, self.suite, self.direction, start).ok()?;
        let index = state.ops.len();
        state.arena.resize(end, 0);
        copy_in(&self.one, &op, &mut state.arena);
        state.ops.push(op);
        let is_full = index + 1 == ROUND_OPS_MAX;
        let is_late = || state.begun.is_some_and(|begun| begun.elapsed() >= WAIT_MAX);
        let leads = index == 0 || is_full || state.is_orphaned || is_late();
        if index == 0 {
            state.begun = Some(Instant::now());
        }
        if leads {
            state.is_orphaned = false;
        } else {
            state.wakers.push(context.waker().clone());
        }
        if is_full {
            gate.gathering = None;
        }
        drop(state);
        Some(Part { round, index, leads })
    }

    /// Runs the round, unless somebody does or has done so.
    fn lead(&self, round: &Arc<Round>) {
        let mut gate = lock(&self.gate().0);
        if gate.gathering.as_ref().is_some_and(|gathering| Arc::ptr_eq(gathering, round)) {
            gate.gathering = None;
        }
        let mut state = lock(&round.0);
        if state.stage != Stage::Gathering {
            return;
        }
        state.stage = Stage::Running;
        let (mut ops, mut arena) = (std::mem::take(&mut state.ops), std::mem::take(&mut state.arena));
        drop(state);
        gate.note(ops.len());
        drop(gate);
        let result = run_round(&self.shared, self.suite, self.direction, &mut ops, &mut arena);
        let mut state = lock(&round.0);
        (state.ops, state.arena, state.stage) = (ops, arena, Stage::Done(result));
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The outcome, when the round is done.
    fn outcome(&mut self, part: &Part) -> Option<Result<OneDone>> {
        let mut state = lock(&part.round.0);
        let Stage::Done(result) = &state.stage else { return None };
        let outcome = result.clone().map(|()| {
            let op = state.ops[part.index];
            copy_out(&mut self.one, self.direction, self.suite, &op, &state.arena)
        });
        self.leave(&mut state, &part.round);
        Some(outcome)
    }

    /// Counts this operation out; the last one makes the round ready to be used again.
    fn leave(&self, state: &mut RoundState, round: &Arc<Round>) {
        state.left += 1;
        if state.left == state.ops.len() && matches!(state.stage, Stage::Done(_)) {
            state.arena.zeroize();
            state.ops.clear();
            state.wakers.clear();
            *state = RoundState {
                ops: std::mem::take(&mut state.ops),
                arena: std::mem::take(&mut state.arena),
                wakers: std::mem::take(&mut state.wakers),
                ..RoundState::default()
            };
            // Locks are taken gate first everywhere else; nobody else holds a round that is not being gathered.
            if let Ok(mut gate) = self.gate().0.try_lock() {
                gate.spare = Some(Arc::clone(round));
            }
        }
    }
}

impl GateState {
    /// Whether sharing batches is predicted to save enough for operations of this length. Worked out once for each class
    /// of lengths while the engines stay the same.
    fn pays(&mut self, shared: &Shared, suite: Suite, direction: Direction, len: usize) -> bool {
        let epoch = shared.epoch.load(Ordering::Relaxed);
        if self.epoch != epoch {
            (self.epoch, self.pays) = (epoch, [None; 3]);
        }
        let class = usize::from(len > 128) + usize::from(len > 2048);
        *self.pays[class].get_or_insert_with(|| {
            let engines = shared.engines();
            let ns = |ops: u64| {
                let (place, class) = (place(suite, direction), size_class(ops, ops * len as u64));
                let known = |candidate: &Candidate| {
                    engines.slots[candidate.engine].learned.of_class(candidate.cost, place, class)
                };
                let figures = engines.plan(suite, direction).iter().map(known);
                figures.map(|cost| cost.predict_ns(ops, ops * len as u64) / ops as f64).fold(f64::MAX, f64::min)
            };
            let lone_ns = ns(1) + LONE_PATH_NS;
            lone_ns - (ns(64) + SHARED_PATH_NS) >= WORTH * lone_ns
        })
    }

    /// Learns from a round of so many operations whether waiting is worth it.
    fn note(&mut self, ops: usize) {
        self.lonely_rounds = if ops == 1 { self.lonely_rounds + 1 } else { 0 };
        if self.lonely_rounds >= LONELY_ROUNDS {
            (self.lonely_rounds, self.alone_for) = (LONELY_ROUNDS - 1, ALONE_FOR);
        }
    }
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
                return Poll::Ready(run_alone(&this.shared, this.suite, this.direction, &mut this.one));
            };
            if part.leads {
                context.waker().wake_by_ref();
            }
            this.part = Some(part);
            return Poll::Pending;
        };
        let must_lead = part.leads || {
            let state = lock(&part.round.0);
            let is_late = || state.begun.is_some_and(|begun| begun.elapsed() >= WAIT_MAX);
            state.stage == Stage::Gathering && (state.is_orphaned || is_late())
        };
        if must_lead {
            this.lead(&part.round);
        }
        if let Some(outcome) = this.outcome(&part) {
            return Poll::Ready(outcome);
        }
        let mut state = lock(&part.round.0);
        if matches!(state.stage, Stage::Done(_)) {
            drop(state);
            context.waker().wake_by_ref();
        } else {
            state.wakers.push(context.waker().clone());
            drop(state);
        }
        this.part = Some(part);
        Poll::Pending
    }
}

impl Drop for OneFuture<'_> {
    fn drop(&mut self) {
        let Some(part) = self.part.take() else { return };
        let mut state = lock(&part.round.0);
        let waker = if part.leads && state.stage == Stage::Gathering {
            state.is_orphaned = true;
            state.wakers.pop()
        } else {
            None
        };
        self.leave(&mut state, &part.round);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
