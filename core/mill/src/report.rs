//! What a mill says of a run and of itself.

use ciphermill_contract::{Direction, EngineInfo, Suite, Timing};
use ciphermill_router::Route;

/// What became of a batch as a whole; each operation has its own status besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Where the batch went and why. With keys that may be held by different kinds of engines a batch can go several
    /// ways; this is the last.
    pub route: Route,
    /// Operations that ended well.
    pub done: usize,
    /// Operations that did not; their status says why.
    pub failed: usize,
}

/// What a mill knows of one of its engines.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The engine's own words.
    pub info: EngineInfo,
    /// The rule that disables it, whatever it runs.
    pub disabled: Option<String>,
    /// What it runs in this mill, or would if it were not disabled.
    pub suites: Vec<SuiteReport>,
}

/// One suite on one engine.
#[derive(Clone, Debug)]
pub struct SuiteReport {
    /// The suite.
    pub suite: Suite,
    /// The directions it runs in.
    pub directions: Vec<Direction>,
    /// The kernel that runs it.
    pub kernel: String,
    /// Whether its running time tells anything about secrets.
    pub timing: Timing,
    /// Its known-answer test.
    pub self_test: SelfTestState,
    /// The rule that disables the suite on this engine.
    pub disabled: Option<String>,
}

/// How a known-answer test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfTestState {
    /// Not run so far.
    Untested,
    /// The engine gave the known answer.
    Passed,
    /// The engine gave another answer; it does not run the suite in this mill.
    Failed,
    /// There is no known answer for this suite: random bytes.
    NoAnswer,
}

/// What has become of a transform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransformReport {
    /// Values that are sealed anew.
    pub done: usize,
    /// Values with another status; those that were left out do not count.
    pub failed: usize,
    /// The engine that opened the last of them; empty if none was opened.
    pub opened_by: &'static str,
    /// The engine that sealed the last of them; empty if none was sealed.
    pub sealed_by: &'static str,
}
