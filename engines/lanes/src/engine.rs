//! The engine itself: its name, its queues and the way from a suite to the family that runs it.

use ciphermill_contract::columns::PreparedColumn;
use ciphermill_contract::engine::Kernel;
use ciphermill_contract::{
    Capability, CheckedBatch, CheckedColumns, Claims, ColumnStatus, Direction, Engine, EngineInfo, EngineKind,
    EngineQueue, KeyMaterial, Occupancy, OpStatus, PreparedKey, QueueHint, Result, Stream, Suite,
};

#[cfg(target_arch = "x86_64")]
use crate::aes::siv_columns::SivColumns;
use crate::capabilities;
use crate::columns::{Columns, Pointers};
use crate::prepare;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// The name under which mills, policies and records know this engine.
pub(crate) const NAME: &str = "lanes";

/// Operations that the direct way of AES-SIV looks at together.
const SIV_WINDOW: usize = 512;

/// The lanes engine. Prepared keys may be used by any number of its queues at the same time; queues work on the
/// caller's thread.
#[derive(Debug)]
pub struct Lanes {
    info: EngineInfo,
    capabilities: Vec<Capability>,
    claims: Claims,
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
        let capabilities = capabilities::of(&kernels);
        Ok(Lanes { info, claims: Claims::of(&capabilities), capabilities, kernels })
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
        prepare::prepare(&self.kernels, &self.claims, key, suite)
    }

    /// Side by side where that takes less time than one after the other: ciphers whose key set-up is a long chain of
    /// lookups.
    fn prepare_many(&self, keys: &[KeyMaterial<'_>], suite: Suite) -> Vec<Result<PreparedKey>> {
        prepare::prepare_many(&self.kernels, &self.claims, keys, suite)
    }

    fn stream(&self, suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
        #[cfg(target_arch = "x86_64")]
        if let Some(aes) = self.kernels.aes {
            return crate::aes::pieces::stream(aes, suite, direction);
        }
        let _ = (suite, direction);
        None
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
        run_columns(&self.kernels, &mut self.scratch, columns);
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
        suite if suite.is_public_key() => crate::public::run(kernels, work, scratch),
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

/// Runs columns. Suites that this engine does not claim end as faults.
fn run_columns(kernels: &Kernels, scratch: &mut Scratch, columns: &mut CheckedColumns<'_>) {
    let (suite, direction, layout, count) = (columns.suite(), columns.direction(), columns.layout(), columns.len());
    let one;
    let keys: &[Option<&PreparedKey>] = match columns.prepared() {
        PreparedColumn::None => &[],
        PreparedColumn::One(key) => {
            one = [Some(key)];
            &one
        }
        PreparedColumn::Each(keys) => keys,
    };
    #[cfg(target_arch = "x86_64")]
    let mut siv = kernels.aes.and_then(|aes| SivColumns::of(aes, columns));
    #[cfg(target_arch = "x86_64")]
    let most = if siv.is_some() { SIV_WINDOW } else { count };
    #[cfg(not(target_arch = "x86_64"))]
    let most = count;
    let (buffers, statuses) = columns.parts();
    let pointers = Pointers::of(&mut buffers.data, &mut buffers.tags);
    let mut all_settled = true;
    for first in (0..count).step_by(most.max(1)) {
        let here = first..count.min(first + most);
        let statuses = &mut statuses[here.clone()];
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "by the direct way alone"))]
        let mut window = Columns::new(layout, &pointers, statuses, first);
        #[cfg(target_arch = "x86_64")]
        if let Some(siv) = &mut siv
            && siv.run(&mut window, &mut scratch.occupancy)
        {
            continue;
        }
        let keys = keys.get(here).unwrap_or(keys);
        let mut work = Work::of_columns(suite, direction, window, keys);
        run(kernels, &mut work, scratch);
        all_settled &= work.settled() == work.len();
    }
    if !all_settled {
        columns.replace_status(ColumnStatus::is_pending, ColumnStatus::ENGINE_FAULT);
    }
}
