//! Operations of one suite, direction and key, each in a batch of its own, for whoever has many of them one after the other.
//!
//! What the way of a batch finds out is the same for all of them while nothing changes: policy, engine, the key's form.
//! So it is found out by an operation that goes that way, and stands for those that follow ([`Way`]): up to
//! [`WAY_OPS_MAX`] of them, for [`UNTIMED_NS`] together, while the state's epoch stays the same. They go at once: check,
//! lease, engine, count. An operation that does not simply end well is taken up by the rest of the way of batches where it
//! stands.
//!
//! The key is leased for each operation, so that a key that was destroyed is found by none that begins later, and is
//! wiped however long nothing is run.

use std::slice;
use std::sync::Arc;

use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{
    Batch, CheckedBatch, Direction, EngineKinds, Error, KeyId, LoneCheck, Op, OpStatus, PreparedKey, Reason, Result,
    Suite,
};
use ciphermill_keys::{KeyEntry, KeyLease, KeyUsage, PreparedName, now_unix_s};

use super::batch_run::{BatchRun, Bounds};
use super::context::{Choice, Context};
use super::lease::put_back;
use super::prepare::Preparer;
use super::replay::{after_panic, after_run, give_up};
use super::route::{Shape, choose, kinds_of_plan, no_engine};
use super::runner::Runner;
use super::{account, begin, run_keyless, run_with_keys};
use crate::engines::EngineSlot;
use crate::metrics::{Ended, TIMED_FROM_NS, UNTIMED_NS, span_around, span_leave};
use crate::panics::caught;
use crate::policy::RunOptions;

/// Operations that one way stands for at most. The one after them is routed and timed as any other: with 64, that adds some
/// two nanoseconds to each, of longer ones a two-hundred-and-fiftieth of their time.
const WAY_OPS_MAX: u32 = 64;

/// An input may make an operation take so many times as long as the one that found out its way, where that is no longer short.
const LONGER_MAX: f64 = 1.25;

/// Classes of lengths that have ways of their own, those of [`ciphermill_router::size_class`] for a single operation.
const LEN_CLASSES: usize = ciphermill_router::LEN_CLASSES.len();

/// Bytes of input that a handle is prepared for: which engine that is for others, the first operation of theirs finds out.
const USUAL_LEN: u64 = 64;

/// Operations of one suite and direction, under one key or under any.
pub(crate) struct Binding {
    suite: Suite,
    direction: Direction,
    /// `None` for whatever key an operation has. Those whose policy has to be asked go the way of batches then.
    key: Option<KeyId>,
    check: LoneCheck,
    ways: [Option<Way>; LEN_CLASSES],
}

/// What was found out for operations of one class of lengths.
struct Way {
    choice: Choice,
    /// The engine that it names, which may have left since.
    slot: Arc<EngineSlot>,
    /// What the key's form is called that the engine made.
    form: PreparedName,
    /// Whether the key has a budget or expires: both are asked each time.
    is_limited: bool,
    /// Up to how many bytes of input this holds.
    len_max: u64,
    /// The state's number for which it holds.
    epoch: u64,
    /// The operation that it was found out by, and how many follow before one is due that has to be looked at.
    since: u32,
    good_for: u32,
    /// Operations that were done this way and are not in the books so far, and their bytes.
    done: u64,
    bytes: u64,
}

/// What one operation tells the router.
pub(super) struct Lone {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) len: u64,
}

impl Shape for Lone {
    fn suite(&self) -> Suite {
        self.suite
    }
    fn direction(&self) -> Direction {
        self.direction
    }
    fn op_count(&self) -> u64 {
        1
    }
    fn input_bytes(&self) -> u64 {
        self.len
    }
    fn longest_input(&self) -> u64 {
        self.len
    }
}

#[inline]
fn len_class(len: u64) -> usize {
    // Bounds are told to the compiler: classes of one operation come first.
    ciphermill_router::size_class(1, len) % LEN_CLASSES
}

impl Binding {
    /// Asks everything that can be asked before there is an operation, and has the key prepared;
    /// [`crate::Mill::bind`] documents it.
    pub(crate) fn new(
        runner: &Runner,
        context: &mut Context,
        (suite, direction): (Suite, Direction),
        key: KeyId,
    ) -> Result<Binding> {
        let check = LoneCheck::new(suite, direction)?;
        match (suite.needs_key(), key.is_none()) {
            (true, true) => return Err(Error::misuse(0, Reason::KeyMissing)),
            (false, false) => return Err(Error::misuse(0, Reason::KeyUnexpected)),
            _ => {}
        }
        let mut run = begin(runner, context, suite, &RunOptions::default())?;
        let plan_kinds = kinds_of_plan(&run, suite, direction);
        if plan_kinds.is_empty() {
            return Err(no_engine(&run, suite, direction));
        }
        let lone = Lone { suite, direction, len: USUAL_LEN };
        if suite.needs_key() {
            let lease = runner.state.keys.lease();
            let entry = lease.entry(key).ok_or(Error::Refused(Refusal::KeyUnknown))?;
            let kinds = allowed_kinds(entry, suite, direction, plan_kinds)
                .map_err(|reason| Error::Refused(Refusal::KeyPolicy(reason)))?;
            let choice = choose(&mut run, &lone, kinds)?;
            prepare(&run, &choice, suite, entry)?;
        } else {
            choose(&mut run, &lone, plan_kinds)?;
        }
        Ok(Binding { suite, direction, key: Some(key), check, ways: [const { None }; LEN_CLASSES] })
    }

    /// One for operations under any key, which asks nothing beforehand.
    ///
    /// # Errors
    /// As [`LoneCheck::new`].
    pub(crate) fn of_any(suite: Suite, direction: Direction) -> Result<Binding> {
        let check = LoneCheck::new(suite, direction)?;
        Ok(Binding { suite, direction, key: None, check, ways: [const { None }; LEN_CLASSES] })
    }

    pub(crate) fn suite(&self) -> Suite {
        self.suite
    }

    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// The key that all operations have; none where they may have any.
    pub(crate) fn key(&self) -> KeyId {
        self.key.unwrap_or(KeyId::NONE)
    }

    /// Whether the next operation of this length may go at once, with the context that the others had.
    #[inline]
    pub(crate) fn knows_way(&self, runner: &Runner, context: &Context, len: usize) -> bool {
        let len = len as u64;
        self.ways[len_class(len)].as_ref().is_some_and(|way| {
            // Earlier than all else that is read for the operation.
            way.epoch == runner.state.epoch()
                && len <= way.len_max
                && context.tick().wrapping_add(1).wrapping_sub(way.since) < way.good_for
        })
    }

    /// Runs an operation on the engine that is known; [`Binding::knows_way`] has said that there is one. `kept` is the
    /// operation's input in another place, from which it can be run again if an engine has spoilt the first. `false`
    /// when it has to go the way of batches; nothing has happened then.
    ///
    /// # Errors
    /// As [`Runner::run`].
    #[inline]
    pub(crate) fn run_at_once(
        &mut self,
        (runner, context): (&Runner, &mut Context),
        op: &mut Op,
        arena: &mut [u8],
        kept: Option<&[u8]>,
    ) -> Result<bool> {
        let (suite, direction, key) = (self.suite, self.direction, op.key);
        let mut batch = self.check.check(op, arena)?;
        let bytes = batch.input_bytes();
        let Some(way) = &mut self.ways[len_class(bytes)] else { return Ok(false) };
        let lease = suite.needs_key().then(|| runner.state.keys.lease());
        let entry = lease.as_ref().and_then(|lease| lease.entry(key));
        let mut prepared = [None];
        if lease.is_some() {
            prepared[0] = entry.and_then(|entry| entry.prepared_before(way.form));
            if prepared[0].is_none() {
                return Ok(false);
            }
        }
        let Some((set, own, tick)) = context.go_on() else { return Ok(false) };
        let (choice, policy) = (way.choice, &runner.state.policy.trust);
        let slot = &set.slots[choice.route.engine];
        let Ok(queue) = own.queue_on(slot, policy) else { return Ok(false) };
        let asks = if self.key.is_some() { way.is_limited } else { entry.is_some_and(|entry| !entry.is_free()) };
        if asks && (self.key.is_none() || !entry.is_some_and(|entry| is_granted(entry, suite, direction))) {
            return Ok(false);
        }
        let span = span_around(suite, direction, (1, bytes), &choice.route);
        let keys: &[Option<&PreparedKey>] = if lease.is_some() { &prepared } else { &[] };
        let mut with_keys = batch.attach_keys(keys)?;
        let ran = caught(|| queue.run(&mut with_keys)).is_some();
        if let Some(span) = span {
            span_leave(span);
        }
        if ran && batch.ops()[0].status.is_done() {
            slot.health.good();
            way.done += 1;
            way.bytes += bytes;
            return Ok(true);
        }
        let run = BatchRun::new(runner, (set, own, tick), Bounds::default());
        match caught(|| go_on(run, &mut batch, &choice, (lease.as_ref(), entry), (ran, kept))) {
            Some(went_on) => went_on.map(|()| true),
            None => {
                // For what nobody thought of: the operation gets its status.
                give_up(&mut batch);
                self.write_up(runner, context);
                *context = Context::default();
                Err(Error::fault("mill", FaultKind::Panicked))
            }
        }
    }

    /// Runs an operation the way of batches, which those that follow may go at once then.
    ///
    /// # Errors
    /// As [`Runner::run`].
    #[cold]
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        (runner, context): (&Runner, &mut Context),
        op: &mut Op,
        arena: &mut [u8],
    ) -> Result<()> {
        let len = u64::from(op.input.len);
        let (class, key) = (len_class(len), op.key);
        // A key that may not go at once says nothing of others.
        let is_kept = self.key.is_none() && self.knows_way(runner, context, op.input.len as usize);
        if !is_kept {
            self.write_up(runner, context);
            self.ways[class] = None;
        }
        let batch = Batch::new(self.suite, self.direction, slice::from_mut(op), arena);
        let report = runner.run(context, batch, &RunOptions::default())?;
        if !is_kept {
            self.ways[class] = self.way_of(runner, context, report.route.engine, (key, len));
        }
        Ok(())
    }

    /// Puts into the books what stands here only.
    pub(crate) fn write_up(&mut self, runner: &Runner, context: &mut Context) {
        let Some((_, own)) = context.as_it_was() else { return };
        for way in self.ways.iter_mut().flatten().filter(|way| way.done != 0) {
            let counts = (std::mem::take(&mut way.done), std::mem::take(&mut way.bytes));
            let (reason, what) = (&way.choice.route.reason, (self.suite, self.direction));
            own.recorder.lone_done(&runner.state.metrics, &way.slot, what, reason, counts);
        }
    }

    /// The way that an operation of `len` bytes has just gone, if others can go it at once: several of them take no longer
    /// than [`UNTIMED_NS`], on an engine on this processor, and it is what the router chose.
    fn way_of(&self, runner: &Runner, context: &mut Context, engine: usize, (key, len): (KeyId, u64)) -> Option<Way> {
        let (suite, direction) = (self.suite, self.direction);
        let (tick, epoch) = (context.tick(), context.epoch());
        let (set, own) = context.as_it_was()?;
        let remembered = own.remembered.as_ref()?;
        let (choice, request) = (remembered.choice, &remembered.request);
        let is_this = (request.ops, request.bytes, choice.route.engine) == (1, len, engine);
        // Random bytes are asked for by what engines write over.
        if !is_this || suite == Suite::Random {
            return None;
        }
        let slot = &set.slots[engine];
        let lease = suite.needs_key().then(|| runner.state.keys.lease());
        let mut is_limited = false;
        if let Some(lease) = &lease {
            let entry = lease.entry(key)?;
            if self.key.is_none() && !entry.is_free() {
                return None;
            }
            let kind = slot.engine.info().kind;
            allowed_kinds(entry, suite, direction, EngineKinds::only(kind)).ok()?;
            is_limited = entry.has_budget() || entry.policy().expires_unix_s.is_some();
        }
        let plan = set.plan(suite, direction);
        let limit = plan.iter().map(|candidate| candidate.input_len_max).min()?;
        let every = runner.state.policy.trust.witness_every;
        let until = |period: u32| period - tick % period;
        let untimed = (UNTIMED_NS / choice.route.predicted_ns) as u32;
        let good_for = if every == 0 { until(WAY_OPS_MAX) } else { until(WAY_OPS_MAX).min(until(every)) }.min(untimed);
        let form = PreparedName::new(slot.number, suite);
        let len_max = limit.min(longest_short(&choice, len));
        let slot = Arc::clone(slot);
        Some(Way { choice, slot, form, is_limited, len_max, epoch, since: tick, good_for, done: 0, bytes: 0 })
    }
}

/// Kinds of engines that may run operations with a key, of those that there are.
///
/// # Errors
/// The rule of the key's policy that forbids it.
pub(super) fn allowed_kinds(
    entry: &KeyEntry,
    suite: Suite,
    direction: Direction,
    kinds: EngineKinds,
) -> Result<EngineKinds, Reason> {
    let kinds = entry.check(suite, direction, KeyUsage::Plain, now_unix_s())?.intersect(kinds);
    if kinds.is_empty() { Err(Reason::KeyEngine) } else { Ok(kinds) }
}

/// Has an engine on this processor prepare the key. What it fails with is left to the operations, which may go elsewhere.
///
/// # Errors
/// The key does not suit.
fn prepare(run: &BatchRun<'_>, choice: &Choice, suite: Suite, entry: &KeyEntry) -> Result<()> {
    let slot = run.slot(choice.route.engine);
    if slot.is_isolated() {
        return Ok(());
    }
    match Preparer::new(slot, run.trust(), suite).get(entry) {
        Err(error @ (Error::Misuse(_) | Error::Refused(_))) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a key that expires or has a budget may be used now; takes one from the budget then.
#[cold]
pub(super) fn is_granted(entry: &KeyEntry, suite: Suite, direction: Direction) -> bool {
    entry.check(suite, direction, KeyUsage::Plain, now_unix_s()).is_ok() && entry.spend(1) == 1
}

/// The longest input that is still taken to be short, or hardly longer, when one of `len` bytes has that route.
fn longest_short(choice: &Choice, len: u64) -> u64 {
    let route_ns = choice.route.predicted_ns;
    let byte_ns = choice.cost.byte_ns * (route_ns / choice.cost.predict_ns(1, len)).max(1.0);
    let more = (TIMED_FROM_NS.max(LONGER_MAX * route_ns) - route_ns) / byte_ns;
    // No number where neither costs anything; then any length is short.
    if more.is_nan() { u64::MAX } else { len.saturating_add(more.max(0.0) as u64) }
}

/// The rest of the way of a batch, for an operation that did not simply end well: whose fault it was, whether it is run
/// elsewhere, and what is counted.
#[cold]
#[inline(never)]
fn go_on(
    mut run: BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    choice: &Choice,
    (lease, entry): (Option<&KeyLease<'_>>, Option<&KeyEntry>),
    (ran, kept): (bool, Option<&[u8]>),
) -> Result<()> {
    let run = &mut run;
    let (engine, route) = (choice.route.engine, &choice.route);
    let slot = run.slot(engine);
    run.own.recorder.begin();
    let mut left = if ran { after_run(run, batch, choice) } else { after_panic(run, batch, choice) };
    if let (Some(kept), OpStatus::EngineFault) = (kept, batch.ops()[0].status) {
        let (ops, arena, _) = batch.parts();
        arena[ops[0].input.range()].copy_from_slice(kept);
        ops[0].status = OpStatus::Pending;
        (left, run.progress.lost) = (1, 0);
    }
    let has_failed = run.is_excluded(engine);
    if left == 0 {
        slot.health.good();
    }
    run.progress.all_done &= left == 0;
    let all_done = run.progress.all_done;
    run.own.recorder.record(
        &run.runner.state.metrics,
        slot,
        batch,
        Ended { route, before: None, all_done, has_failed },
    );
    run.progress.last = Some(*route);
    if left == 0 {
        account(run, batch, *route);
        return Ok(());
    }
    let kinds = kinds_of_plan(run, batch.suite(), batch.direction());
    let route = match (lease, entry) {
        (Some(lease), Some(entry)) => {
            let entries = [Some(entry)];
            let route = run_with_keys(run, batch, lease, &entries, kinds.intersect(entry.engines()));
            route.inspect_err(|_| put_back(batch, &entries))?
        }
        _ => run_keyless(run, batch, kinds)?,
    };
    account(run, batch, route);
    Ok(())
}
