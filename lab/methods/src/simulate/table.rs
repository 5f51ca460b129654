//! Costs from the file that `ciphermill tune` writes, on this machine or another.

use ciphermill::{SIZE_CLASSES, size_class};
use ciphermill_contract::{Cost, Direction, EngineKind, Suite};
use ciphermill_router::{MANY, Prediction};
use ciphermill_simulate::{Device, DeviceCost, Sources};
use serde::Deserialize;

use super::machine::{device, device_cost, trace};
use crate::LabError;

/// The file's form.
const FORMAT: u32 = 2;

/// Engines on cores, by name.
const CORES: [&str; 2] = ["library", "lanes"];

/// What is read of the file; who wrote it and how good the figures are is the tuner's business.
#[derive(Deserialize)]
struct File {
    format: u32,
    costs: Vec<Entry>,
}

#[derive(Clone, Deserialize)]
struct Entry {
    engine: String,
    suite: String,
    direction: String,
    batch_ns: f64,
    op_ns: f64,
    byte_ns: f64,
    #[serde(default)]
    step: u16,
    class_factors: [f64; SIZE_CLASSES],
}

/// A table of measured costs.
pub struct Table {
    costs: Vec<Entry>,
}

impl Table {
    /// The table of a file's text.
    ///
    /// # Errors
    /// [`LabError::Parameters`], which says what is wrong with it.
    pub fn read(text: &str) -> Result<Table, LabError> {
        let wrong = LabError::Parameters;
        let file: File =
            serde_json::from_str(text).map_err(|error| wrong(format!("no file of `ciphermill tune`: {error}")))?;
        if file.format != FORMAT {
            return Err(wrong(format!("its form is number {}, this program's is {FORMAT}", file.format)));
        }
        let figures =
            |entry: &Entry| [entry.batch_ns, entry.op_ns, entry.byte_ns].into_iter().chain(entry.class_factors);
        if let Some(entry) = file.costs.iter().find(|entry| !figures(entry).all(|ns| ns.is_finite() && ns >= 0.0)) {
            return Err(wrong(format!("{} {}: not all figures are zero or above", entry.suite, entry.direction)));
        }
        Ok(Table { costs: file.costs })
    }

    /// What the best of these engines takes for so many operations.
    fn best(&self, engines: &[&str], (suite, direction): (Suite, Direction), ops: u64) -> Option<(Cost, u16)> {
        let (suite, direction) = (suite.canonical(), direction.to_string());
        let name = suite.to_string();
        let len = suite.input_len(direction.parse().ok()?).round_up(64) as u64;
        let of = self.costs.iter().filter(|entry| entry.suite == name && entry.direction == direction);
        let costs = of.filter(|entry| engines.contains(&entry.engine.as_str())).map(|entry| {
            let factor = entry.class_factors.get(size_class(ops, ops * len)).copied().unwrap_or(1.0);
            (Cost::new(entry.batch_ns, entry.op_ns, entry.byte_ns).scaled(factor), entry.step.max(1))
        });
        let ns = |(cost, step): &(Cost, u16)| cost.in_steps(ops, *step).predict_ns(ops, ops * len);
        costs.min_by(|a, b| ns(a).total_cmp(&ns(b)))
    }
}

impl Sources for Table {
    fn cost(&self, suite: Suite, direction: Direction) -> Option<Prediction> {
        let best = |ops| self.best(&CORES, (suite, direction), ops);
        let ((many, step), (alone, _)) = (best(MANY)?, best(1)?);
        Some(Prediction::new(many, step, alone))
    }

    fn device(&self, kind: EngineKind) -> Option<Device> {
        device(kind)
    }

    fn device_cost(&self, kind: EngineKind, suite: Suite, direction: Direction) -> Option<DeviceCost> {
        let measured = self.best(&["gpu"], (suite, direction), MANY).filter(|_| kind == EngineKind::Gpu);
        device_cost(kind, (suite, direction), measured)
    }

    fn trace(&self, path: &str) -> Result<String, String> {
        trace(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(engine: &str, op_ns: f64, step: u16) -> String {
        format!(
            r#"{{"engine":"{engine}","version":"1","kernel":"k","suite":"x25519","direction":"encrypt","batch_ns":100.0,
            "op_ns":{op_ns},"byte_ns":0.0,"step":{step},"spread":0.01,"class_factors":{:?}}}"#,
            [1.0; SIZE_CLASSES]
        )
    }

    #[test]
    fn the_best_engines_for_one_and_for_many_are_found() {
        let costs = [text("library", 20_000.0, 1), text("lanes", 5_000.0, 8), text("gpu", 1_000.0, 1)].join(",");
        let table = Table::read(&format!(r#"{{"format":2,"machine":{{}},"costs":[{costs}]}}"#)).expect("a table");
        let suite: Suite = "x25519".parse().expect("a suite");
        let known = table.cost(suite, Direction::Encrypt).expect("known");
        assert_eq!((known.alone.op_ns, known.many.op_ns, known.step), (20_000.0, 5_000.0, 8));
        assert_eq!(table.cost(suite, Direction::Decrypt), None);
        let gpu = table.device_cost(EngineKind::Gpu, suite, Direction::Encrypt).expect("measured");
        assert_eq!(gpu.cost.op_ns, 1_000.0);
    }

    #[test]
    fn what_is_no_table_says_why() {
        for (text, word) in [
            ("{}", "format"),
            (r#"{"format":3,"costs":[]}"#, "number 3"),
            (&format!(r#"{{"format":2,"costs":[{}]}}"#, text("lanes", -1.0, 1)), "x25519 encrypt"),
        ] {
            let said = Table::read(text).map(|_| ()).expect_err(word).to_string();
            assert!(said.contains(word), "{said}");
        }
    }
}
