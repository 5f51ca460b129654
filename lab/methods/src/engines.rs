//! Engines and peers by name.

use std::sync::Arc;

use ciphermill_contract::Engine;

use crate::LabError;

/// Every name that `--engine` takes: our engines, then the peers.
pub fn names() -> Vec<&'static str> {
    ciphermill_engines::NAMES.into_iter().chain(ciphermill_peers::NAMES).collect()
}

/// Opens the engine or peer called `name`; `lanes:des=avx2,aes=aesni` forces kernels.
///
/// # Errors
/// [`LabError::UnknownEngine`] or, where this machine cannot run it, [`LabError::Unavailable`].
pub fn open(name: &str) -> Result<Arc<dyn Engine>, LabError> {
    let unavailable = |why: String| LabError::Unavailable { name: name.to_owned(), why };
    let (name, kernels) = name.split_once(':').unwrap_or((name, ""));
    let kernels: Vec<&str> = kernels.split(',').filter(|kernel| !kernel.is_empty()).collect();
    if let Some(opened) = ciphermill_engines::open_with_kernels(name, &kernels) {
        return opened.map_err(|error| unavailable(error.to_string()));
    }
    if ciphermill_peers::NAMES.contains(&name) {
        return ciphermill_peers::open(name).map_err(|missing| unavailable(missing.why));
    }
    Err(LabError::UnknownEngine { name: name.to_owned(), known: names().join(", ") })
}

/// Checks that an engine runs a kernel of this name.
///
/// # Errors
/// [`LabError::UnknownKernel`] with those that it runs.
pub fn require_kernel(engine: &dyn Engine, kernel: &str) -> Result<(), LabError> {
    let info = engine.info();
    if info.kernels.iter().any(|known| known.name == kernel) {
        return Ok(());
    }
    let known: Vec<&str> = info.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    Err(LabError::UnknownKernel {
        engine: info.name.to_owned(),
        kernel: kernel.to_owned(),
        known: if known.is_empty() { "none that can be chosen".to_owned() } else { known.join(", ") },
    })
}
