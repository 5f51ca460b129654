//! Who takes part in a method, and what is said of those who do not.

use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, Suite, capability};
use ciphermill_report::Section;

use crate::LabError;
use crate::engines::open;
use crate::method::Options;

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
        match open(name) {
            Ok(engine) => engines.push(engine),
            Err(LabError::Unavailable { name, why }) => section.lacks(name, why),
            Err(error) => return Err(error),
        }
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

/// A number with three significant digits, as people read it.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// A whole number with a comma every three digits.
pub(crate) fn grouped(value: usize) -> String {
    let plain = value.to_string();
    let mut text = String::new();
    for (place, digit) in plain.chars().enumerate() {
        if place > 0 && (plain.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The geometric mean, zero of nothing.
pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        count += 1.0;
    }
    if count == 0.0 { 0.0 } else { f64::exp(sum / count) }
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
        let curve = "ecdh-sect163r2".parse().expect("a suite");
        assert!(!runs(engines[0].as_ref(), curve, Direction::Encrypt, 32, &mut section));
        assert_eq!(section.missing.len(), 1);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1234.6, 12.34, 1.234, 0.1234, 0.001234].map(digits).join(" "), "1235 12.3 1.23 0.123 1.23e-3");
        assert_eq!([7, 1000, 50_000, 1_234_567].map(grouped).join(" "), "7 1,000 50,000 1,234,567");
        assert!((geometric_mean([1.0, 100.0].into_iter()) - 10.0).abs() < 1e-9);
    }
}
