//! One batch that is being run: what it is run with, and how far it has come.

use std::sync::Arc;

use ciphermill_contract::{EngineKinds, Error};
use ciphermill_keys::KeyUsage;
use ciphermill_router::Route;

use super::context::Own;
use super::runner::Runner;
use crate::engines::{EngineSet, EngineSlot};
use crate::policy::TrustPolicy;

/// What a batch may run on, and where it should.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Kinds of engines that the caller allows.
    pub(super) kinds: EngineKinds,
    /// The only engine that may run it.
    pub(super) pinned: Option<usize>,
    pub(super) deadline_ns: Option<f64>,
    /// The engine that it goes to unless that may not or cannot run it.
    pub(super) preferred: Option<usize>,
    /// Whether it may be split over cores.
    pub(super) splits: bool,
    /// Whether it is a share of a larger batch, and so not shared out again.
    pub(super) is_share: bool,
    /// What its keys are used for.
    pub(super) usage: KeyUsage,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            kinds: EngineKinds::ALL,
            pinned: None,
            deadline_ns: None,
            preferred: None,
            is_share: false,
            splits: true,
            usage: KeyUsage::Plain,
        }
    }
}

/// One batch that is being run.
pub(super) struct BatchRun<'r> {
    pub(super) runner: &'r Runner,
    pub(super) set: &'r EngineSet,
    /// Counts the batches of a context.
    pub(super) tick: u32,
    pub(super) bounds: Bounds,
    pub(super) own: &'r mut Own,
    pub(super) progress: Progress,
}

/// How far a run has come.
#[derive(Default)]
pub(super) struct Progress {
    /// Engines that have failed this batch, a bit for each index.
    pub(super) excluded: u32,
    /// What the last of them failed with.
    pub(super) fault: Option<Error>,
    /// Whether the last run left every operation done.
    pub(super) all_done: bool,
    /// Operations that were lost: they are nobody's fault any more.
    pub(super) lost: usize,
    /// Where operations of this batch were last run.
    pub(super) last: Option<Route>,
}

impl<'r> BatchRun<'r> {
    pub(super) fn new(
        runner: &'r Runner,
        (set, own, tick): (&'r EngineSet, &'r mut Own, u32),
        bounds: Bounds,
    ) -> BatchRun<'r> {
        BatchRun { runner, set, tick, bounds, own, progress: Progress::default() }
    }

    pub(super) fn slot(&self, engine: usize) -> &'r Arc<EngineSlot> {
        &self.set.slots[engine]
    }

    /// How far engines are believed.
    pub(super) fn trust(&self) -> &'r TrustPolicy {
        &self.runner.state.policy.trust
    }

    /// Notes that an engine has failed this batch and with what.
    pub(super) fn exclude(&mut self, engine: usize, fault: Error) {
        self.progress.excluded |= 1 << engine;
        self.progress.fault = Some(fault);
    }

    /// Notes that an engine does not have a key of this batch, which is no failure: one that another engine had is told of before it.
    pub(super) fn exclude_lacking(&mut self, engine: usize, error: Error) {
        self.progress.excluded |= 1 << engine;
        self.progress.fault.get_or_insert(error);
    }

    pub(super) fn is_excluded(&self, engine: usize) -> bool {
        self.progress.excluded & 1 << engine != 0
    }
}
