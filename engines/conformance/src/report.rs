//! What a run found.

use core::fmt;

use ciphermill_contract::{Direction, Suite};

/// Failures shown by [`Report::assert_clean`].
const SHOWN_MAX: usize = 40;

/// One thing that an engine did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The suite; `None` when it concerns the engine as such.
    pub suite: Option<Suite>,
    /// Which way, where that matters.
    pub direction: Option<Direction>,
    /// The check that found it.
    pub check: &'static str,
    /// Which vector or operation, and what was wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(suite) = self.suite {
            write!(f, "{suite} ")?;
        }
        if let Some(direction) = self.direction {
            write!(f, "{direction} ")?;
        }
        write!(f, "[{}] {}", self.check, self.what)
    }
}

/// What was checked and what was found.
#[derive(Clone, Debug)]
#[must_use]
pub struct Report {
    /// The engine's name.
    pub engine: &'static str,
    /// Suites looked at.
    pub suites: usize,
    /// Operations run.
    pub ops: usize,
    /// Published vectors run.
    pub vectors: usize,
    /// Published vectors left out to save time.
    pub vectors_left_out: usize,
    /// What the engine did wrong.
    pub failures: Vec<Failure>,
}

impl Report {
    pub(crate) fn new(engine: &'static str) -> Report {
        Report { engine, suites: 0, ops: 0, vectors: 0, vectors_left_out: 0, failures: Vec::new() }
    }

    pub(crate) fn merge(&mut self, other: Report) {
        self.suites += other.suites;
        self.ops += other.ops;
        self.vectors += other.vectors;
        self.vectors_left_out += other.vectors_left_out;
        self.failures.extend(other.failures);
    }

    /// Notes a failure of the engine as such.
    pub(crate) fn fail(&mut self, what: &str) {
        self.failures.push(Failure { suite: None, direction: None, check: "engine", what: what.to_owned() });
    }

    /// Whether a check found something.
    pub fn failed(&self, check: &str) -> bool {
        self.failures.iter().any(|failure| failure.check == check)
    }

    /// Panics with the failures, if there are any.
    ///
    /// # Panics
    /// When the engine failed, or when nothing was checked.
    pub fn assert_clean(&self) {
        let shown: Vec<String> = self.failures.iter().take(SHOWN_MAX).map(Failure::to_string).collect();
        assert!(
            shown.is_empty(),
            "{}: {} failures in {} operations\n  {}",
            self.engine,
            self.failures.len(),
            self.ops,
            shown.join("\n  ")
        );
        assert!(self.suites > 0 && self.ops > 0, "{}: nothing was checked", self.engine);
        println!(
            "{}: {} suites, {} operations, {} vectors ({} left out)",
            self.engine, self.suites, self.ops, self.vectors, self.vectors_left_out
        );
    }
}
