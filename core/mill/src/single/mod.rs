//! Single operations: of tasks and of blocking threads, which share batches where that pays, and of handles for many that are
//! alike.

mod alone;
mod blocking;
mod bound;
mod coalescer;
mod one;
mod wiped;
mod worth;

use std::sync::OnceLock;

use ciphermill_contract::{Direction, Result, Suite};

use self::blocking::{Inside, block_on};
pub use self::bound::{Bound, BoundOp};
use self::coalescer::Coalescer;
pub use self::coalescer::{OneFuture, SHARED_OPS_MAX};
pub use self::one::{One, OneDone};
use crate::cell::SuiteCell;
use crate::run::Runner;

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

    /// One operation as a future; [`crate::Mill::submit_one`] documents it.
    pub(crate) fn submit<'d>(&'d self, runner: &'d Runner, what: (Suite, Direction), one: One<'d>) -> OneFuture<'d> {
        OneFuture::new(runner, self.of(what.0, what.1), what, one)
    }

    /// Runs one operation for a thread that blocks; [`crate::Mill::run_one`] documents it.
    pub(crate) fn run(&self, runner: &Runner, what: (Suite, Direction), mut one: One<'_>) -> Result<OneDone> {
        let (suite, direction) = what;
        let coalescer = self.of(suite, direction);
        let threads = coalescer.threads();
        if !threads.pays(&runner.state, suite, direction, one.input_len) {
            return coalescer.run_alone(runner, suite, direction, &mut one);
        }
        let (_inside, has_others) = Inside::enter(threads);
        if !has_others {
            return coalescer.run_alone(runner, suite, direction, &mut one);
        }
        block_on(OneFuture::new(runner, coalescer, what, one))
    }
}
