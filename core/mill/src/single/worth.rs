//! What sharing a batch saves an operation, and what waiting for others may, as predicted.

use std::time::Duration;

use ciphermill_contract::{Direction, Suite};
use ciphermill_router::{Arrivals, BatchTime, Candidate, Gathering, Window, size_class, window};

use crate::cell::CostCell;
use crate::engines::EngineSet;
use crate::state::State;

/// The mill's own path for a lone operation and for one of a shared batch, in nanoseconds (`benches/path.rs`, `ciphermill lab router alone`).
pub(super) const LONE_PATH_NS: f64 = 50.0;
pub(super) const SHARED_PATH_NS: f64 = 100.0;

/// What it costs an operation to let other threads have the core, in nanoseconds: 0.9 to 2.2 µs a change were measured
/// with 2 to 64 threads on two cores under Linux 6, and a change is needed to begin a batch and another to end it.
pub(super) const CHANGE_NS: f64 = 3_000.0;

/// How long a batch for which no window is open waits for its leader before whoever looks next runs it.
pub(super) const LATE_AFTER: Duration = Duration::from_micros(20);

/// What sharing a batch with tasks that are ready saves has to be this share of a lone operation's time.
const WORTH: f64 = 0.1;

/// A step that takes at least so long, in nanoseconds, is worth a batch of its own.
const LONG_NS: f64 = 10.0 * CHANGE_NS;

/// Operations that a batch of tasks is taken to have.
const SHARED_OPS: u64 = 64;

/// Classes of lengths that waiting may or may not pay for.
pub(super) const LEN_CLASSES: usize = 3;

/// The class of a length in bytes.
#[inline]
pub(super) fn len_class(len: usize) -> usize {
    usize::from(len > 128) + usize::from(len > 2048)
}

/// Operations of one suite, direction and length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    /// Bytes of input.
    pub(super) len: usize,
}

/// What company is worth to operations of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    /// Whether those share a batch that are ready at the same time.
    pub(super) shares: bool,
    /// Whether others may be waited for, if they arrive quickly.
    pub(super) waits: bool,
    /// Operations with which a batch leaves at once where this process has no idle worker: a full step on the engine that is
    /// best for many, if that takes so long that a batch of its own costs nothing beside it. More would only wait for each
    /// other on one core.
    pub(super) full: usize,
}

impl Worth {
    /// What company is worth with the engines as they are.
    pub(super) fn of(state: &State, kind: Kind) -> Worth {
        let lone_ns = lowest_ns(state, kind, 1) + LONE_PATH_NS;
        let shares = lone_ns - (lowest_ns(state, kind, SHARED_OPS) + SHARED_PATH_NS) >= WORTH * lone_ns;
        // As if the next one came at once.
        let soon = Arrivals::default().after(0.0, max_ns(state));
        let waits = shares && window_of(state, kind, (1, 2), soon, state.policy.window_max).is_some();
        let engines = state.engines();
        let step = u64::from(batch_time(&engines, kind, SHARED_OPS).step);
        let is_long = step > 1 && batch_time(&engines, kind, step).ns >= LONG_NS;
        Worth { shares, waits, full: if is_long { step as usize } else { usize::MAX } }
    }
}

fn max_ns(state: &State) -> f64 {
    state.policy.window_max.as_nanos() as f64
}

/// The mean gap after another arrival, so long behind the one before.
pub(super) fn arrived(state: &State, before: Arrivals, gap: Duration) -> Arrivals {
    before.after(gap.as_nanos() as f64, max_ns(state))
}

/// How long so many operations that are collected wait for more, up to `left`, while so many callers have one on its way.
pub(super) fn window_of(
    state: &State,
    kind: Kind,
    (ops, callers): (u64, u64),
    arrivals: Arrivals,
    left: Duration,
) -> Option<Window> {
    let gathering = Gathering { ops, callers, arrivals, max_ns: left.as_nanos() as f64, change_ns: CHANGE_NS };
    let engines = state.engines();
    window(&gathering, |ops| batch_time(&engines, kind, ops))
}

/// What a batch of `ops` operations takes on the engine that is best for it now, as was learnt of late.
fn batch_time(engines: &EngineSet, Kind { suite, direction, len }: Kind, ops: u64) -> BatchTime {
    let bytes = ops * len as u64;
    let cell = CostCell::new(suite, direction, size_class(ops, bytes));
    let now = engines.plan(suite, direction).iter().map(|candidate| engines.as_of_now(candidate, cell, ops, 0));
    let times = now.filter(|candidate| candidate.trusted).map(|candidate| BatchTime {
        ns: candidate.cost.predict_ns(ops, bytes) + candidate.wakeup_ns + candidate.backlog_ns,
        step: candidate.step,
    });
    // Where nothing may run, nothing is saved.
    times.min_by(|a, b| a.ns.total_cmp(&b.ns)).unwrap_or(BatchTime { ns: 0.0, step: 1 })
}

/// What an operation takes on the best engine in a batch of `ops`, in nanoseconds.
pub(super) fn lowest_ns(state: &State, Kind { suite, direction, len }: Kind, ops: u64) -> f64 {
    let engines = state.engines();
    let cell = CostCell::new(suite, direction, size_class(ops, ops * len as u64));
    let known = |candidate: &Candidate| engines.figures(candidate, cell, ops);
    let figures = engines.plan(suite, direction).iter().map(known);
    figures.map(|cost| cost.predict_ns(ops, ops * len as u64) / ops as f64).fold(f64::MAX, f64::min)
}
