//! The engine itself: its name, how it is opened, its queues.

use std::sync::Arc;

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::{
    ArenaBuffer, Capability, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyMaterial, PreparedKey, QueueHint,
    Refusal, Result, Suite,
};

use crate::arena::Arenas;
use crate::capabilities::CAPABILITIES;
use crate::device::{Device, Trouble};
use crate::keys::KeyTable;
use crate::link::{self, LinkRate};
use crate::pipeline::{Pipeline, SLOTS_MAX};
use crate::queue::Queue;
use crate::trouble::NAME;
use crate::{cuda, opencl, prepare};

/// The GPU engine on one device. Prepared keys may be used by any number of its queues at the same time; a queue keeps
/// several shares of a batch in flight.
pub struct Gpu {
    info: EngineInfo,
    device: Arc<dyn Device>,
    table: Arc<KeyTable>,
    arenas: Arc<Arenas>,
}

impl Gpu {
    /// Opens the best device of this machine that is not software.
    ///
    /// # Errors
    /// `EngineFault`: `Unavailable` where there is none, `Call` when the runtime fails.
    pub fn new() -> Result<Gpu> {
        match cuda::open() {
            Err(Trouble::Absent) => Gpu::on(opencl::open(opencl::Wanted::Hardware)?),
            opened => Gpu::on(opened?),
        }
    }

    /// Opens a device by name: `cuda` and `opencl` for the first of a runtime that is not software, `pocl` for the
    /// processor itself through PoCL, which is for tests.
    ///
    /// # Errors
    /// As [`Gpu::new`]; `Refused` with `KernelUnavailable` for another name.
    pub fn open(name: &str) -> Result<Gpu> {
        match name {
            "cuda" => Gpu::on(cuda::open()?),
            "opencl" => Gpu::on(opencl::open(opencl::Wanted::Hardware)?),
            "pocl" => Gpu::on(opencl::open(opencl::Wanted::Software)?),
            _ => Err(Error::Refused(Refusal::KernelUnavailable(name.to_owned()))),
        }
    }

    /// A zeroed arena that the device copies from and to by itself. Uniform batches whose data lie in it one behind the
    /// other, inputs and outputs, are not packed: the device fetches them and brings them back as they lie. It is wiped when
    /// it is dropped, and kept for the next who asks.
    ///
    /// # Errors
    /// `EngineFault` when the device has no such memory to give.
    pub fn pinned_arena(&self, len: usize) -> Result<Box<dyn ArenaBuffer>> {
        Ok(self.arenas.take(len)?)
    }

    /// Measures what the link to the device carries, which takes about a second. Other work on the device makes it less; on
    /// the processor it is the speed of copies in memory.
    ///
    /// # Errors
    /// `EngineFault` when the device fails.
    pub fn link_rates(&self) -> Result<Vec<LinkRate>> {
        Ok(link::measure(self.device.as_ref())?)
    }

    fn on(device: Arc<dyn Device>) -> Result<Gpu> {
        let description = device.description();
        tracing::debug!(runtime = description.runtime, device = %description.words, "gpu: device opened");
        let kernel = |family| Kernel { family, name: description.runtime.to_owned() };
        let info = EngineInfo {
            name: NAME,
            kind: EngineKind::Gpu,
            version: description.words.clone(),
            parallelism: SLOTS_MAX,
            kernels: ["aes", "chacha20", "des", "hash", "lattice", "legacy", "public"].map(kernel).into(),
        };
        let table = Arc::new(KeyTable::new(Arc::clone(&device)));
        let source = Arc::clone(&device);
        let arenas = Arc::new(Arenas::new(move |len| source.pinned(len)));
        Ok(Gpu { info, device, table, arenas })
    }
}

impl core::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gpu").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Engine for Gpu {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let unavailable = || Err(Error::Refused(Refusal::EngineUnavailable(NAME.to_owned())));
        self.prepare_many(&[*key], suite).pop().unwrap_or_else(unavailable)
    }

    /// Keys are put on the device together, in one copy.
    fn prepare_many(&self, keys: &[KeyMaterial<'_>], suite: Suite) -> Vec<Result<PreparedKey>> {
        prepare::prepare_many(&self.table, keys, suite)
    }

    /// Only what is pinned already: pinning more would wait for the driver, which [`Gpu::pinned_arena`] does.
    fn arena(&self, len: usize) -> Option<Box<dyn ArenaBuffer>> {
        self.arenas.at_hand(len)
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue::new(Pipeline::new(Arc::clone(&self.device), Arc::clone(&self.arenas)))))
    }
}
