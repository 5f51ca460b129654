//! Probes the machine and returns the engines found, by value. What a mill holds is chosen where it is opened; no cargo
//! feature changes it.
use std::sync::Arc;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Engine, Error, Refusal};
use ciphermill_gpu::Gpu;
pub use ciphermill_gpu::{CAPABILITIES as GPU_CAPABILITIES, LinkRate};
use ciphermill_lanes::Lanes;
pub use ciphermill_lanes::{KernelChoice, kernels};
use ciphermill_library::Library;
use ciphermill_reference::Reference;
use ciphermill_service_engine::{Opening, ServiceEngine};

/// The names of the engines that every machine has, in the order of preference.
pub const NAMES: [&str; 3] = ["lanes", "library", "reference"];

/// The names of the engines that need a device. `gpu` is the best one that is not software; `gpu:cuda` and `gpu:opencl`
/// say through what, and `gpu:pocl` is the processor itself, slowly, for tests.
pub const DEVICES: [&str; 1] = ["gpu"];

/// The name of the engine that is another process: the service at the socket that the environment names, else at its usual place
/// ([`ciphermill_service_engine::default_socket`]).
pub const SERVICE: &str = "service";

/// Every name that [`open`] takes, but for the ways to a device.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(DEVICES).chain([SERVICE])
}

/// The ways to a device, as in `gpu:cuda`.
pub const WAYS: [&str; 3] = ["cuda", "opencl", "pocl"];

/// What the machine offers.
pub struct Found {
    /// Engines that opened.
    pub engines: Vec<Arc<dyn Engine>>,
    /// Engines that did not, and why.
    pub unavailable: Vec<(&'static str, Error)>,
}

/// Opens every engine that this machine can run. Devices that are software are not among them: whoever wants one names
/// it. Nor is a service, unless the environment names one: what runs it is somebody else's.
pub fn probe() -> Found {
    probe_where(|_| true)
}

/// The same for the names that `is_wanted` takes; of others nothing is opened, no driver either.
pub fn probe_where(is_wanted: impl Fn(&str) -> bool) -> Found {
    let mut found = Found { engines: Vec::new(), unavailable: Vec::new() };
    let is_named = |name: &str| name != SERVICE || ciphermill_service_engine::named_socket().is_some();
    for name in names().filter(|name| is_named(name) && is_wanted(name)) {
        match open(name) {
            Some(Ok(engine)) => found.engines.push(engine),
            Some(Err(error)) => found.unavailable.push((name, error)),
            None => {}
        }
    }
    found
}

/// Opens the engine called `name`; `None` when there is no such engine.
pub fn open(name: &str) -> Option<Result<Arc<dyn Engine>, Error>> {
    match name.split_once(':') {
        Some((device, way)) if DEVICES.contains(&device) => open_with_kernels(device, &[way]),
        _ => open_with_kernels(name, &[]),
    }
}

/// The same, with kernels forced by name; for a device, the way to it. An engine that has none to choose from takes no
/// names.
///
/// # Errors
/// Within the option: what opening the engine says; `Refused` with `KernelUnavailable` for a kernel that it does not
/// have or that this processor cannot run.
pub fn open_with_kernels(name: &str, kernels: &[&str]) -> Option<Result<Arc<dyn Engine>, Error>> {
    if name != "lanes"
        && (NAMES.contains(&name) || name == SERVICE)
        && let Some(kernel) = kernels.first()
    {
        return Some(Err(Error::Refused(Refusal::KernelUnavailable((*kernel).to_owned()))));
    }
    match name {
        "lanes" => Some(Lanes::with_kernels(kernels).map(|engine| Arc::new(engine) as Arc<dyn Engine>)),
        "library" => Some(Library::new().map(|engine| Arc::new(engine) as Arc<dyn Engine>)),
        "reference" => Some(Ok(Arc::new(Reference::new()))),
        "gpu" => Some(open_gpu(kernels)),
        SERVICE => Some(open_service()),
        _ => None,
    }
}

/// The GPU engine, through what is named if anything is.
fn open_gpu(ways: &[&str]) -> Result<Arc<dyn Engine>, Error> {
    let opened = match ways {
        [] => Gpu::new(),
        [way] => Gpu::open(way),
        [_, other, ..] => Err(Error::Refused(Refusal::KernelUnavailable((*other).to_owned()))),
    };
    opened.map(|engine| Arc::new(engine) as Arc<dyn Engine>)
}

fn open_service() -> Result<Arc<dyn Engine>, Error> {
    let opening = Opening::at(&ciphermill_service_engine::default_socket());
    let opened = ServiceEngine::open(&opening).map_err(|_| Error::fault(SERVICE, FaultKind::Unavailable));
    opened.map(|engine| Arc::new(engine) as Arc<dyn Engine>)
}

/// Measures what the link to a device carries, in copies of several lengths. Takes about a second.
///
/// # Errors
/// What opening the device says, `Refused` with `EngineUnavailable` when `name` is no device's; `EngineFault` when it fails.
pub fn link_rates(name: &str) -> Result<Vec<LinkRate>, Error> {
    match name.split_once(':').unwrap_or((name, "")) {
        ("gpu", "") => Gpu::new()?.link_rates(),
        ("gpu", way) => Gpu::open(way)?.link_rates(),
        _ => Err(Error::Refused(Refusal::EngineUnavailable(name.to_owned()))),
    }
}

/// Every engine that opens on this machine.
pub fn all() -> Vec<Arc<dyn Engine>> {
    probe().engines
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::EngineKind;

    use super::*;

    #[test]
    fn names_are_the_engines_own() {
        for name in NAMES {
            let engine = open(name).expect("a known name").expect("opens everywhere");
            assert_eq!(engine.info().name, name);
        }
        assert!(open("lanes of tomorrow").is_none());
    }

    #[test]
    fn a_device_is_there_or_said_to_be_missing_and_never_software_by_itself() {
        let found = probe();
        let missing = found.unavailable.iter().any(|(name, _)| *name == "gpu");
        let device = found.engines.iter().find(|engine| engine.info().kind == EngineKind::Gpu);
        assert_eq!(missing, device.is_none());
        if let (Some(device), Some(Ok(software))) = (device, open("gpu:pocl")) {
            assert_ne!(device.info().version, software.info().version, "PoCL is opened by name only");
        }
        let unknown = open("gpu:abacus").expect("a known name").err();
        assert_eq!(unknown, Some(Error::Refused(Refusal::KernelUnavailable("abacus".to_owned()))));
        assert!(open("gpus").is_none());
    }

    #[test]
    fn what_is_not_wanted_is_neither_opened_nor_missing() {
        let found = probe_where(|name| name == "library");
        assert_eq!(found.engines.iter().map(|engine| engine.info().name).collect::<Vec<_>>(), ["library"]);
        assert!(found.unavailable.is_empty());
    }

    #[test]
    fn kernels_are_forced_where_there_is_a_choice_and_refused_elsewhere() {
        let chosen = ciphermill_lanes::kernels().into_iter().rfind(|kernel| kernel.capable);
        let chosen = chosen.expect("every processor runs some kernel");
        let wanted = format!("{}={}", chosen.family, chosen.name);
        let engine = open_with_kernels("lanes", &[&wanted]).expect("a known name").expect("the processor can");
        assert!(
            engine.info().kernels.iter().any(|kernel| kernel.family == chosen.family && kernel.name == chosen.name)
        );
        for name in ["library", "reference"] {
            let refused = open_with_kernels(name, &["avx2"]).expect("a known name").err();
            assert_eq!(refused, Some(Error::Refused(Refusal::KernelUnavailable("avx2".to_owned()))));
        }
    }
}
