//! What a mill allows, and what a single run asks for.

use ciphermill_contract::EngineKinds;

/// What a mill allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether legacy suites may run: broken, undersized or variable-time ones. Off by default.
    pub legacy: bool,
    /// Kinds of engines that may be used at all.
    pub engines: EngineKinds,
    /// When engines have to pass their known-answer tests.
    pub self_test: SelfTest,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { legacy: false, engines: EngineKinds::ALL, self_test: SelfTest::OnFirstUse }
    }
}

/// When an engine has to pass a suite's known-answer test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfTest {
    /// Before the engine's first batch of that suite.
    OnFirstUse,
    /// For every suite while the mill opens; takes a moment, public keys most of it.
    AtOpen,
    /// Not at all: for measuring engines that compute nothing.
    Never,
}

/// What one run asks for beyond the mill's policy.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// The engine to run on, by name, instead of the router's choice.
    pub engine: Option<&'a str>,
    /// Kinds of engines that may run this batch.
    pub kinds: EngineKinds,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions { engine: None, kinds: EngineKinds::ALL }
    }
}
