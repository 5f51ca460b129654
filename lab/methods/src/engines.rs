//! Engines, peers and suites by name.

use std::sync::Arc;

use ciphermill_contract::{Engine, Error, Refusal, Suite};

use crate::LabError;

/// Every name that `--engine` takes: our engines, then the peers.
pub fn names() -> Vec<&'static str> {
    ciphermill_engines::names().chain(ciphermill_peers::NAMES).collect()
}

/// An engine, or why there is none.
pub type Opened = Result<Arc<dyn Engine>, LabError>;

/// The suite of a name that stands in the source.
#[expect(clippy::expect_used, reason = "names in the source are suites, as the methods' tests say")]
pub(crate) fn suite(name: &str) -> Suite {
    name.parse().expect("the name of a suite")
}

/// The engine that has kernels to choose from.
const CHOOSABLE: &str = "lanes";

/// An engine that no machine has, for tests of what is said of missing ones.
#[cfg(test)]
pub(crate) const ABSENT: &str = "absent";

/// Opens the engine or peer called `name`; `lanes:des=avx2,aes=aesni` forces kernels.
///
/// # Errors
/// [`LabError::UnknownEngine`], [`LabError::UnknownKernel`]; where this machine cannot run it, [`LabError::Unavailable`], or
/// [`LabError::Parameters`] when the user asked for it in a way that cannot work.
pub fn open(name: &str) -> Result<Arc<dyn Engine>, LabError> {
    let unavailable = |why: String| LabError::Unavailable { name: name.to_owned(), why };
    let (name, kernels) = name.split_once(':').unwrap_or((name, ""));
    let kernels: Vec<&str> = kernels.split(',').map(str::trim).filter(|kernel| !kernel.is_empty()).collect();
    if let Some(opened) = ciphermill_engines::open_with_kernels(name, &kernels) {
        return opened.map_err(|error| match error {
            Error::Refused(Refusal::KernelUnavailable(kernel)) => unknown_kernel(name, &kernel),
            other => unavailable(other.to_string()),
        });
    }
    #[cfg(test)]
    if name == ABSENT {
        return Err(unavailable("a test has taken it away".to_owned()));
    }
    if !ciphermill_peers::NAMES.contains(&name) {
        return Err(LabError::UnknownEngine { name: name.to_owned(), known: names().join(", ") });
    }
    match kernels.first() {
        Some(kernel) => Err(unknown_kernel(name, kernel)),
        None => ciphermill_peers::open(name).map_err(|missing| match missing.is_mistake {
            true => LabError::Parameters(missing.why),
            false => unavailable(missing.why),
        }),
    }
}

/// Opens several, with kernels forced on those that have a choice.
///
/// # Errors
/// As [`open`]; [`LabError::UnknownKernel`] when kernels are asked for and none of the engines has a choice.
pub fn open_forced(names: &[String], kernels: &[String]) -> Result<Vec<Opened>, LabError> {
    let has_choice = |name: &str| name == CHOOSABLE || name.starts_with(&format!("{CHOOSABLE}:"));
    if let Some(kernel) = kernels.first().filter(|_| !names.iter().any(|name| has_choice(name))) {
        return Err(unknown_kernel(&names.join(", "), kernel));
    }
    let forced = |name: &String| match has_choice(name) && !kernels.is_empty() {
        true if name == CHOOSABLE => open(&format!("{name}:{}", kernels.join(","))),
        true => open(&format!("{name},{}", kernels.join(","))),
        false => open(name),
    };
    Ok(names.iter().map(forced).collect())
}

fn unknown_kernel(engine: &str, kernel: &str) -> LabError {
    let known: Vec<String> = match engine {
        CHOOSABLE => ciphermill_engines::kernels()
            .into_iter()
            .filter(|kernel| kernel.capable)
            .map(|kernel| format!("{}={}", kernel.family, kernel.name))
            .collect(),
        _ if ciphermill_engines::DEVICES.contains(&engine) => ciphermill_engines::WAYS.map(str::to_owned).to_vec(),
        _ => Vec::new(),
    };
    let known = if known.is_empty() { "none that can be chosen".to_owned() } else { known.join(", ") };
    LabError::UnknownKernel { engine: engine.to_owned(), kernel: kernel.to_owned(), known }
}
