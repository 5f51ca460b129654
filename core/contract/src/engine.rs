//! Engines: what executes batches.
//!
//! Control plane ([`Engine`]) and data plane ([`EngineQueue`]) are different types. There is one indirect call per
//! batch, none per operation.

use core::time::Duration;

use crate::batch::CheckedBatch;
use crate::capability::{Capability, EngineKind};
use crate::columns::CheckedColumns;
use crate::error::Result;
use crate::key::{KeyMaterial, PreparedKey};
use crate::owned::ArenaBuffer;
use crate::stream::Stream;
use crate::suite::{Direction, Suite};

/// An engine: says what it can do, prepares keys, opens queues.
pub trait Engine: Send + Sync {
    /// Name, kind, version, parallelism, chosen kernels.
    fn info(&self) -> &EngineInfo;

    /// What it runs, as const data.
    fn capabilities(&self) -> &[Capability];

    /// Turns a key's bytes into what the data path needs: schedules, hash powers, midstates. Done once per key and
    /// suite, not per operation.
    ///
    /// # Errors
    /// `Refused` with `KeyUnsuitable` when the bytes do not suit the suite; `EngineFault` when the engine fails.
    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey>;

    /// Prepares several keys for one suite; each has an outcome of its own, in the keys' order. Engines that can work on
    /// several keys side by side have a version of their own.
    fn prepare_many(&self, keys: &[KeyMaterial<'_>], suite: Suite) -> Vec<Result<PreparedKey>> {
        keys.iter().map(|key| self.prepare(key, suite)).collect()
    }

    /// The public half (as [`crate::KeyForm::Public`]) of a key by reference that it has prepared: others can verify then what it signs
    /// with a key that they do not have. `None` where it does not know; engines without references keep this default.
    fn public_half<'k>(&self, key: &'k PreparedKey, suite: Suite) -> Option<&'k [u8]> {
        let _ = (key, suite);
        None
    }

    /// Whether it takes keys' bytes. One that does not has keys by reference alone, and cannot be asked for known answers.
    fn takes_key_bytes(&self) -> bool {
        true
    }

    /// How long one operation may take before whoever waits for it goes elsewhere, however fast it was predicted to be; none for engines that
    /// the mill's own limits suit.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Zeroed memory of `len` bytes that the engine's device reaches by itself, if there is some at hand: it can leave
    /// out a copy of a batch whose arena lies there. Never waits for a device; an engine that has none at hand makes
    /// some when it next runs a batch. Wiped when it is dropped. Engines without such memory keep this default.
    fn arena(&self, len: usize) -> Option<Box<dyn ArenaBuffer>> {
        let _ = len;
        None
    }

    /// Messages in pieces, on the caller's thread; `None` for suites whose messages this engine takes whole only. Engines that
    /// take none in pieces keep this default.
    fn stream(&self, suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
        let _ = (suite, direction);
        None
    }

    /// Whether its calls come back by themselves within a time that it bounds, whatever becomes of the device or process behind it. A
    /// mill calls such an engine on the caller's thread; one that can fail and may hang as well has threads of its own, and a call
    /// costs the change to one of them.
    fn comes_back(&self) -> bool {
        !self.info().kind.can_fail()
    }

    /// Opens a queue: one per core or stream, so that it needs no locks.
    ///
    /// # Errors
    /// `Exhausted` when the engine has no more queues; `EngineFault` when it fails.
    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>>;
}

/// A queue of an engine, owned by one thread at a time.
pub trait EngineQueue: Send {
    /// Runs a batch on the caller's thread. On return no operation is pending: each one that was has a status.
    fn run(&mut self, batch: &mut CheckedBatch<'_>);

    /// Runs columns on the caller's thread. On return no operation is pending. Engines without a way of their own run them as
    /// ops.
    fn run_columns(&mut self, columns: &mut CheckedColumns<'_>) {
        columns.run_as_ops(|batch| self.run(batch));
    }

    /// How well lanes have been filled since the queue was opened; `None` for engines that do not count.
    fn occupancy(&self) -> Option<Occupancy> {
        None
    }
}

/// How well lanes were filled, in steps of one lane by one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Lane steps that worked on a message.
    pub busy: u64,
    /// Lane steps that ran empty.
    pub idle: u64,
}

impl Occupancy {
    /// Counts steps.
    #[inline]
    pub fn add(&mut self, busy: usize, idle: usize) {
        self.busy += busy as u64;
        self.idle += idle as u64;
    }

    /// The share of steps that ran empty; `None` when nothing was counted.
    pub fn idle_share(&self) -> Option<f64> {
        let all = self.busy + self.idle;
        (all > 0).then(|| self.idle as f64 / all as f64)
    }
}

/// What is known of an engine as such.
#[derive(Clone, Debug)]
pub struct EngineInfo {
    /// Its name: `reference`, `library`, `lanes`, `openssl` …; unique within a mill.
    pub name: &'static str,
    /// What kind of thing it is.
    pub kind: EngineKind,
    /// The version of what does the work, for example the library's.
    pub version: String,
    /// Batches that it can work on at the same time.
    pub parallelism: usize,
    /// The kernels that it chose on this machine, one a family.
    pub kernels: Vec<Kernel>,
}

/// A kernel that was chosen for a family of suites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The family, for example `aes` or `des`.
    pub family: &'static str,
    /// The kernel's name, by which it can be forced, for example `vaes512`.
    pub name: String,
}

impl EngineInfo {
    /// The name of the kernel that runs `suite`: that of its family ([`Suite::kernel_family`]), else the engine's only
    /// one, else `default`.
    pub fn kernel_for(&self, suite: Suite) -> &str {
        let family = suite.kernel_family();
        self.kernels
            .iter()
            .find(|kernel| kernel.family == family)
            .or_else(|| self.kernels.first().filter(|_| self.kernels.len() == 1))
            .map_or("default", |kernel| kernel.name.as_str())
    }
}

/// Where a queue will be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueHint {
    /// The core that its owner runs on, if that is fixed.
    pub core: Option<usize>,
}
