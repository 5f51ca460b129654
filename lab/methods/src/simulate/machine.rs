//! What this machine's engines cost, as a mill knows it, and devices that it may have.

use std::path::Path;

use ciphermill::{Mill, RunOptions, prediction};
use ciphermill_contract::{Cost, Direction, EngineKind, EngineKinds, Suite, capability};
use ciphermill_router::Prediction;
use ciphermill_simulate::{Device, DeviceCost, Sources};

/// Nanoseconds to a token in the network and back, where nothing else is said.
const HSM_LATENCY_NS: f64 = 1e6;

/// What an operation with a private key takes on it: 2,000 a second.
const HSM_OP_NS: f64 = 500_000.0;

/// Bytes of a trace's file at most.
const TRACE_LEN_MAX: u64 = 64 << 20;

/// Engines on cores.
const CORES: EngineKinds = EngineKinds::only(EngineKind::Library).with(EngineKind::Lanes);

/// A mill's costs.
pub struct Machine {
    mill: Mill,
}

impl Machine {
    /// Those of a mill with this machine's engines.
    pub fn new(mill: Mill) -> Machine {
        Machine { mill }
    }

    /// The mill.
    pub fn mill(&self) -> &Mill {
        &self.mill
    }
}

impl Sources for Machine {
    fn cost(&self, suite: Suite, direction: Direction) -> Option<Prediction> {
        let options = RunOptions { kinds: CORES, ..RunOptions::default() };
        prediction(&self.mill, suite, direction, &options)
    }

    fn device(&self, kind: EngineKind) -> Option<Device> {
        device(kind)
    }

    fn device_cost(&self, kind: EngineKind, suite: Suite, direction: Direction) -> Option<DeviceCost> {
        let options = RunOptions { kinds: EngineKinds::only(EngineKind::Gpu), ..RunOptions::default() };
        let measured = prediction(&self.mill, suite, direction, &options).map(|known| (known.many, known.many_step));
        device_cost(kind, (suite, direction), measured)
    }

    fn trace(&self, path: &str) -> Result<String, String> {
        trace(path)
    }
}

/// A device of this kind, without costs.
pub(super) fn device(kind: EngineKind) -> Option<Device> {
    let device = |name: &str, latency_ns| {
        Some(Device { name: name.to_owned(), kind, latency_ns, at_once: 1, costs: Vec::new() })
    };
    match kind {
        EngineKind::Token => device("hsm", HSM_LATENCY_NS),
        // What a launch takes is in its costs.
        EngineKind::Gpu => device("gpu", 0.0),
        _ => None,
    }
}

/// What a suite costs on a device. A token takes the same for all that it does. A GPU takes what was `measured`, or else what its engine
/// declares.
pub(super) fn device_cost(
    kind: EngineKind,
    (suite, direction): (Suite, Direction),
    measured: Option<(Cost, u16)>,
) -> Option<DeviceCost> {
    let suite = suite.canonical();
    match kind {
        EngineKind::Token => {
            let has_keys = suite.key_pair().is_some();
            has_keys.then_some(DeviceCost { suite, direction, cost: Cost::new(0.0, HSM_OP_NS, 0.0), step: 1 })
        }
        EngineKind::Gpu => {
            let declared = capability::find(ciphermill_engines::GPU_CAPABILITIES, suite, direction);
            let (cost, step) = measured.or(declared.map(|known| (known.prior, known.step)))?;
            Some(DeviceCost { suite, direction, cost, step })
        }
        _ => None,
    }
}

/// The text of a trace's file.
pub(super) fn trace(path: &str) -> Result<String, String> {
    let path = Path::new(path);
    let len = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if len > TRACE_LEN_MAX {
        return Err(format!("{len} bytes; a trace has {TRACE_LEN_MAX} at most"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}
