//! Who takes part in a method, and what is said of those who do not.

use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, Suite, capability};
use ciphermill_report::Section;

use crate::LabError;
use crate::engines::open;
use crate::method::Options;

/// An engine or peer; one that this machine does not have is said in `section`.
///
/// # Errors
/// [`LabError::UnknownEngine`], [`LabError::UnknownKernel`].
pub(crate) fn open_or_lack(name: &str, section: &mut Section) -> Result<Option<Arc<dyn Engine>>, LabError> {
    match open(name) {
        Ok(engine) => Ok(Some(engine)),
        Err(LabError::Unavailable { name, why }) => {
            section.lacks(name, why);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The engines that the options name, `usual` when they name none. What this machine does not have is said in `section`.
///
/// # Errors
/// [`LabError::UnknownEngine`], [`LabError::UnknownKernel`]; [`LabError::Parameters`] when none is left.
pub(crate) fn engines(
    options: &Options,
    usual: &[&str],
    section: &mut Section,
) -> Result<Vec<Arc<dyn Engine>>, LabError> {
    let usual: Vec<String> = usual.iter().map(|name| (*name).to_owned()).collect();
    let names = if options.engines.is_empty() { &usual } else { &options.engines };
    let mut engines: Vec<Arc<dyn Engine>> = Vec::new();
    for name in names {
        engines.extend(open_or_lack(name, section)?);
    }
    if engines.is_empty() {
        return Err(LabError::Parameters(format!("none of {} is available here", names.join(", "))));
    }
    Ok(engines)
}

/// Whether an engine runs a suite on messages of `len` bytes; if not, `section` says so.
pub(crate) fn runs(engine: &dyn Engine, suite: Suite, direction: Direction, len: usize, section: &mut Section) -> bool {
    let name = engine.info().name;
    match capability::find(engine.capabilities(), suite, direction) {
        None => section.lacks(format!("{name}, {suite} {direction}"), "the engine does not run this suite"),
        Some(capability) if capability.input_len_max < len => {
            let max = capability.input_len_max;
            section.lacks(
                format!("{name}, {suite} {direction}, {len} B"),
                format!("the engine takes messages up to {max} bytes"),
            );
        }
        Some(_) => return true,
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_there_is_said_and_nobody_at_all_is_an_error() {
        let mut section = Section::new("peaks", "Peaks", "nobody");
        let options = Options { engines: vec!["reference".to_owned()], ..Options::default() };
        let engines = engines(&options, &["lanes"], &mut section).expect("always there");
        assert_eq!(engines[0].info().name, "reference");
        let suite = "rsa-2048-sign-pss-sha256".parse().expect("a suite");
        assert!(runs(engines[0].as_ref(), suite, Direction::Encrypt, 32, &mut section));
        let unknown = Options { engines: vec!["abacus".to_owned()], ..Options::default() };
        assert!(matches!(super::engines(&unknown, &[], &mut section), Err(LabError::UnknownEngine { .. })));
        assert!(matches!(super::engines(&Options::default(), &[], &mut section), Err(LabError::Parameters(_))));
        let curve = "generate-ec-sect163k1".parse().expect("a suite");
        let library = Options { engines: vec!["library".to_owned()], ..Options::default() };
        let engines = super::engines(&library, &["lanes"], &mut section).expect("always there");
        assert!(!runs(engines[0].as_ref(), curve, Direction::Encrypt, 32, &mut section));
        assert_eq!(section.missing.len(), 1);
    }
}
