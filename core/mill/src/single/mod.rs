//! Single operations: of tasks and of blocking threads, which share batches where that pays, and of handles for many that are
//! alike.

mod alone;
mod blocking;
mod bound;
mod callers;
mod coalescer;
mod multi_part;
mod one;
mod wiped;
mod worth;

use std::sync::OnceLock;

use ciphermill_contract::{Direction, Result, Suite};

use self::blocking::block_on;
pub use self::bound::{Bound, BoundOp};
use self::callers::Caller;
use self::coalescer::{By, Coalescer};
pub use self::coalescer::{OneFuture, SHARED_OPS_MAX};
pub use self::multi_part::MultiPart;
pub use self::one::{One, OneDone};
use self::worth::Kind;
use crate::cell::SuiteCell;
use crate::metrics::SharedMetrics;
use crate::run::Runner;

/// A caller who has an operation done elsewhere, since nobody would have shared a batch with it here. Until it is dropped, others who come
/// know that they are not alone.
#[must_use = "dropped, nobody knows of the caller"]
pub struct ComesAlone<'m>(#[allow(dead_code, reason = "held until it is dropped")] Caller<'m>);

impl std::fmt::Debug for ComesAlone<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ComesAlone")
    }
}

/// Where single operations meet, by suite and direction. Boxed: each has kilobytes, and most suites are never asked for.
pub(crate) struct Coalescers(Box<[OnceLock<Box<Coalescer>>]>);

impl Coalescers {
    pub(crate) fn new() -> Coalescers {
        Coalescers((0..SuiteCell::COUNT).map(|_| OnceLock::new()).collect())
    }

    fn of(&self, suite: Suite, direction: Direction) -> &Coalescer {
        self.0[SuiteCell::new(suite, direction).index()].get_or_init(Box::default)
    }

    /// Puts into the books what stands here only.
    pub(crate) fn write_up(&self, runner: &Runner) {
        self.0.iter().filter_map(OnceLock::get).for_each(|coalescer| coalescer.alone().write_up(runner));
    }

    /// Lets go of engines that have left.
    pub(crate) fn let_go(&self, runner: &Runner) {
        self.0.iter().filter_map(OnceLock::get).for_each(|coalescer| coalescer.alone().let_go(runner));
    }

    /// What was counted of shared batches.
    pub(crate) fn counts(&self) -> Vec<SharedMetrics> {
        self.0.iter().filter_map(OnceLock::get).filter_map(|coalescer| coalescer.counts()).collect()
    }

    /// One operation as a future; [`crate::Mill::submit_one`] documents it.
    pub(crate) fn submit<'d>(&'d self, runner: &'d Runner, what: (Suite, Direction), one: One<'d>) -> OneFuture<'d> {
        OneFuture::new(runner, self.of(what.0, what.1), what, one)
    }

    /// A caller that would be alone; [`crate::Mill::comes_alone`] documents it.
    pub(crate) fn comes_alone(
        &self,
        runner: &Runner,
        (suite, direction): (Suite, Direction),
        len: usize,
        as_task: bool,
    ) -> Option<ComesAlone<'_>> {
        let by = if as_task { By::Task } else { By::Thread };
        let kind = Kind { suite, direction, len };
        self.of(suite, direction).come_alone(&runner.state, kind, by).map(ComesAlone)
    }

    /// Runs one operation for a thread that blocks; [`crate::Mill::run_one`] documents it.
    pub(crate) fn run(&self, runner: &Runner, what: (Suite, Direction), mut one: One<'_>) -> Result<OneDone> {
        let (suite, direction) = what;
        let coalescer = self.of(suite, direction);
        let kind = Kind { suite, direction, len: one.input_len };
        if !coalescer.threads().pays(&runner.state, kind) {
            return coalescer.run_alone(runner, suite, direction, &mut one);
        }
        let (caller, has_others) = coalescer.arrive(&runner.state, kind);
        if !has_others {
            return coalescer.run_alone(runner, suite, direction, &mut one);
        }
        block_on(OneFuture::new(runner, coalescer, what, one).of_caller(caller))
    }
}
