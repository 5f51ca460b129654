//! What a mill allows, and what a single run asks for.

use std::time::Duration;

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
    /// How far engines are believed afterwards.
    pub trust: TrustPolicy,
    /// How long single operations wait for others at most to share a batch with ([`ciphermill_router::window()`]); zero for not
    /// at all. A caller who is alone never waits. While turns of an executor bring more operations or have other work, they wait
    /// up to ten times as long.
    pub window_max: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            legacy: false,
            engines: EngineKinds::ALL,
            self_test: SelfTest::OnFirstUse,
            trust: TrustPolicy::default(),
            window_max: Duration::from_micros(200),
        }
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

/// How far engines are believed once they have passed their known-answer tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustPolicy {
    /// One of so many batches is checked on another engine; zero for none. It is computed again and compared; where no two
    /// answers are alike, signatures are verified, and what was encrypted or encapsulated is taken back if its key is a
    /// private one. Random bytes have no witness.
    pub witness_every: u32,
    /// Operations of such a batch that are recomputed at most.
    pub witness_ops_max: u32,
    /// An engine that can fail stalls when it has not answered within so many times the predicted time …
    pub stall_factor: u32,
    /// … and within this time at least.
    pub stall_min: Duration,
    /// The length of an engine's first quarantine; each further one is twice as long …
    pub quarantine_min: Duration,
    /// … up to this.
    pub quarantine_max: Duration,
}

impl Default for TrustPolicy {
    fn default() -> TrustPolicy {
        TrustPolicy {
            witness_every: 4096,
            witness_ops_max: 256,
            stall_factor: 10,
            stall_min: Duration::from_millis(100),
            quarantine_min: Duration::from_millis(100),
            quarantine_max: Duration::from_secs(600),
        }
    }
}

/// What one run asks for beyond the mill's policy.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// The engine to run on, by name, instead of the router's choice.
    pub engine: Option<&'a str>,
    /// Kinds of engines that may run this batch.
    pub kinds: EngineKinds,
    /// The time from now in which the batch should be done. A batch that has not been begun by then is not begun at
    /// all; one that is late while it runs is finished.
    pub deadline: Option<Duration>,
    /// Whether a large batch may be split over the cores on which the mill has nothing to do. Who has threads of its own there says no.
    pub splits: bool,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions { engine: None, kinds: EngineKinds::ALL, deadline: None, splits: true }
    }
}

/// What is done with a batch that finds the queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// It is given back.
    #[default]
    Refuse,
    /// The caller works on what waits until there is room.
    Wait,
}

/// What a submission asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubmitOptions<'a> {
    /// What is asked for the run itself.
    pub run: RunOptions<'a>,
    /// What is done when the queue is full.
    pub on_full: OnFull,
}
