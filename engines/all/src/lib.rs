//! Probes the machine and returns the engines found, by value. What a mill holds is chosen where it is opened; no cargo
//! feature changes it.
#![forbid(unsafe_code)]

use std::sync::Arc;

use ciphermill_contract::{Engine, Error};
use ciphermill_library::Library;
use ciphermill_reference::Reference;

/// The names of the engines that a mill can be opened with, in the order of preference.
pub const NAMES: [&str; 2] = ["library", "reference"];

/// What the machine offers.
pub struct Found {
    /// Engines that opened.
    pub engines: Vec<Arc<dyn Engine>>,
    /// Engines that did not, and why.
    pub unavailable: Vec<(&'static str, Error)>,
}

/// Opens every engine that this machine can run.
pub fn probe() -> Found {
    let mut found = Found { engines: Vec::new(), unavailable: Vec::new() };
    for name in NAMES {
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
    match name {
        "library" => Some(Library::new().map(|engine| Arc::new(engine) as Arc<dyn Engine>)),
        "reference" => Some(Ok(Arc::new(Reference::new()))),
        _ => None,
    }
}

/// Every engine that opens on this machine.
pub fn all() -> Vec<Arc<dyn Engine>> {
    probe().engines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_engines_own() {
        for name in NAMES {
            let engine = open(name).expect("a known name").expect("opens everywhere");
            assert_eq!(engine.info().name, name);
        }
        assert!(open("lanes of tomorrow").is_none());
    }
}
