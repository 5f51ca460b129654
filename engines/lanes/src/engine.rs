//! The engine itself: its name, its queues and the way from a suite to the family that runs it.

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::{
    Capability, CheckedBatch, CheckedColumns, Engine, EngineInfo, EngineKind, EngineQueue, KeyMaterial, Occupancy,
    OpStatus, PreparedKey, QueueHint, Result, Suite,
};

use crate::capabilities;
use crate::prepare;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// The name under which mills, policies and records know this engine.
pub(crate) const NAME: &str = "lanes";

/// The lanes engine. Prepared keys may be used by any number of its queues at the same time; queues work on the
/// caller's thread.
#[derive(Debug)]
pub struct Lanes {
    info: EngineInfo,
    capabilities: Vec<Capability>,
    kernels: Kernels,
}

impl Lanes {
    /// Opens the engine with the kernels that this processor runs fastest.
    ///
    /// # Errors
    /// None today; every processor has kernels for some families.
    pub fn new() -> Result<Lanes> {
        Lanes::with_kernels(&[])
    }

    /// Opens the engine with kernels forced by name: `avx2` in every family that has it, `des=avx2` in one.
    ///
    /// # Errors
    /// `Refused` with `KernelUnavailable` for a name that no family has or that this processor cannot run.
    pub fn with_kernels(wanted: &[&str]) -> Result<Lanes> {
        let kernels = Kernels::choose(wanted)?;
        for (family, kernel) in kernels.names() {
            tracing::debug!(family, kernel, "lanes: kernel chosen");
        }
        let named = |(family, name): (&'static str, &'static str)| Kernel { family, name: name.to_owned() };
        let info = EngineInfo {
            name: NAME,
            kind: EngineKind::Lanes,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
            kernels: kernels.names().into_iter().map(named).collect(),
        };
        Ok(Lanes { info, capabilities: capabilities::of(&kernels), kernels })
    }
}

impl Engine for Lanes {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        prepare::prepare(&self.kernels, &self.capabilities, key, suite)
    }

    /// Side by side where that takes less time than one after the other: ciphers whose key set-up is a long chain of
    /// lookups.
    fn prepare_many(&self, keys: &[KeyMaterial<'_>], suite: Suite) -> Vec<Result<PreparedKey>> {
        prepare::prepare_many(&self.kernels, &self.capabilities, keys, suite)
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue { kernels: self.kernels, scratch: Scratch::default() }))
    }
}

/// A queue: batches one after the other on the caller's thread, each over many lanes.
struct Queue {
    kernels: Kernels,
    scratch: Scratch,
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let mut work = Work::new(batch);
        run(&self.kernels, &mut work, &mut self.scratch);
        // Suites that this engine does not claim end here. Whole batches need not be looked through again.
        if work.settled() < work.len() {
            batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
        }
    }

    fn run_columns(&mut self, columns: &mut CheckedColumns<'_>) {
        crate::columns::run(&self.kernels, &mut self.scratch, columns, run);
    }

    fn occupancy(&self) -> Option<Occupancy> {
        Some(self.scratch.occupancy)
    }
}

/// The way from a suite to its family.
fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    use ciphermill_contract::suite::{Aead, BlockCipher, Mac, StreamCipher};
    match work.suite() {
        Suite::Cipher(BlockCipher::Des | BlockCipher::TripleDes, _) => crate::des::run(kernels.des, work, scratch),
        Suite::Stream(StreamCipher::ChaCha20) | Suite::Aead(Aead::ChaCha20Poly1305) | Suite::Mac(Mac::Poly1305) => {
            crate::chacha::run(kernels.chacha, work, scratch);
        }
        Suite::Digest(_) | Suite::Mac(Mac::Hmac(_)) => crate::hash::run(kernels.hash, work, scratch),
        suite if crate::legacy::runs(suite) => crate::legacy::run(kernels.legacy, work, scratch),
        #[cfg(target_arch = "x86_64")]
        Suite::Chain(chain) => crate::chain::run(kernels, chain, work, scratch),
        #[cfg(target_arch = "x86_64")]
        suite => {
            let Some(aes) = kernels.aes else { return };
            match suite {
                Suite::Fpe(ff1) => crate::fpe::run(aes, ff1, work, scratch),
                _ => crate::aes::run(aes, work, scratch),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => {}
    }
}
