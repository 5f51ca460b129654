//! Indices of tables that have an entry for each suite and direction, and for each class of sizes within those.

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Direction, Suite};

/// A suite in one direction, as an index. Suites that differ only in an open parameter (FF1's radix) share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SuiteCell(u16);

impl SuiteCell {
    /// Entries of a table that is indexed by these.
    pub(crate) const COUNT: usize = 2 * SUITE_ORDINALS_MAX;

    #[inline]
    pub(crate) fn new(suite: Suite, direction: Direction) -> SuiteCell {
        SuiteCell((2 * suite.ordinal() + direction as usize) as u16)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The suite's ordinal ([`Suite::ordinal`]).
    #[inline]
    pub(crate) fn ordinal(self) -> usize {
        usize::from(self.0 / 2)
    }
}

/// What a cost is learnt for: a suite in one direction, and a class of batch sizes ([`ciphermill_router::shape_class`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CostCell {
    pub(crate) suite: SuiteCell,
    pub(crate) class: usize,
}

impl CostCell {
    #[inline]
    pub(crate) fn new(suite: Suite, direction: Direction, class: usize) -> CostCell {
        CostCell { suite: SuiteCell::new(suite, direction), class }
    }
}
