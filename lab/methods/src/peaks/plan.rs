//! What is measured of peaks, out of `lab/methods/definitions/peaks.toml`.

use std::time::Duration;

use ciphermill_contract::{Direction, Suite};
use serde::Deserialize;

use crate::LabError;
use crate::crew::threads_up_to;
use crate::method::Options;
use crate::timing::Budget;

const DEFINITIONS: &str = include_str!("../../definitions/peaks.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    full: Extent,
    quick: Extent,
    paper: Paper,
    algorithm: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extent {
    bulk: Vec<Shape>,
    short: Shape,
    public: usize,
    run_ms: u64,
    time_ms: u64,
}

/// So many operations of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    pub(super) ops: usize,
    /// Zero for public keys, whose operations are what they are.
    pub(super) len: usize,
}

/// The paper's machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    pub(super) name: String,
    pub(super) accelerators: usize,
    pub(super) peak_slide: String,
    pub(super) counter_slide: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    suite: String,
    #[serde(default = "forward")]
    direction: String,
    #[serde(default)]
    quick: bool,
    paper: Option<Cited>,
}

/// A figure of the paper's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cited {
    /// The algorithm's name there.
    pub(super) name: String,
    /// Gb/s, or operations a second.
    pub(super) value: f64,
    pub(super) slide: Slide,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Slide {
    Peak,
    Counter,
}

/// An algorithm to be measured.
#[derive(Clone, Debug)]
pub(super) struct Algorithm {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) cited: Option<Cited>,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) bulk: Vec<Shape>,
    pub(super) short: Shape,
    pub(super) public: usize,
    pub(super) run: Duration,
    pub(super) budget: Budget,
    pub(super) paper: Paper,
    /// Numbers of threads, ascending from one.
    pub(super) threads: Vec<usize>,
    pub(super) seed: u64,
}

fn forward() -> String {
    Direction::Encrypt.to_string()
}

fn wrong(why: impl Into<String>) -> LabError {
    LabError::Definitions(format!("peaks: {}", why.into()))
}

impl Plan {
    /// The plan that the options ask for, on a machine of so many cores.
    ///
    /// # Errors
    /// [`LabError::Definitions`] when the data break their own rules.
    pub(super) fn read(options: &Options, cores: usize) -> Result<Plan, LabError> {
        let definitions: Definitions = toml::from_str(DEFINITIONS).map_err(|error| wrong(error.to_string()))?;
        let extent = if options.quick { definitions.quick } else { definitions.full };
        let shapes = extent.bulk.iter().chain([&extent.short]);
        if extent.bulk.is_empty() || shapes.into_iter().any(|shape| shape.ops == 0 || shape.len == 0) {
            return Err(wrong("shapes have operations and bytes"));
        }
        if extent.public == 0 || extent.run_ms == 0 || definitions.paper.accelerators == 0 {
            return Err(wrong("`public`, `run_ms` and `accelerators` are above zero"));
        }
        let mut algorithms = Vec::new();
        for entry in definitions.algorithm {
            let suite: Suite = entry.suite.parse().map_err(|error| wrong(format!("{error}")))?;
            let direction: Direction = entry.direction.parse().map_err(|error| wrong(format!("{error}")))?;
            if !suite.has_direction(direction) || entry.paper.as_ref().is_some_and(|cited| cited.value <= 0.0) {
                return Err(wrong(format!("{suite} {direction}")));
            }
            let wanted = match options.suites.is_empty() {
                true => !options.quick || entry.quick,
                false => options.suites.contains(&suite),
            };
            if wanted {
                algorithms.push(Algorithm { suite, direction, cited: entry.paper });
            }
        }
        for suite in &options.suites {
            if !algorithms.iter().any(|algorithm| algorithm.suite == *suite) {
                algorithms.push(Algorithm { suite: *suite, direction: Direction::Encrypt, cited: None });
            }
        }
        let budget = Budget {
            time: options.budget.time.min(Duration::from_millis(extent.time_ms)),
            rounds_min: options.budget.rounds_min.min(if options.quick { 3 } else { 5 }),
            ..options.budget
        };
        Ok(Plan {
            algorithms,
            bulk: extent.bulk,
            short: extent.short,
            public: extent.public,
            run: Duration::from_millis(extent.run_ms),
            budget,
            paper: definitions.paper,
            threads: threads_up_to(cores, options.quick),
            seed: options.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together_and_the_papers_table_is_whole() {
        let full = Plan::read(&Options::default(), 4).expect("the definitions are right");
        let on = |slide| {
            let cited = full.algorithms.iter().filter_map(|algorithm| algorithm.cited.as_ref());
            cited.filter(|cited| cited.slide == slide).count()
        };
        assert_eq!((on(Slide::Peak), on(Slide::Counter)), (6 + 3 + 4, 3));
        let quick = Plan::read(&Options { quick: true, ..Options::default() }, 4).expect("the definitions are right");
        assert!(!quick.algorithms.is_empty() && quick.algorithms.len() < full.algorithms.len());
        let suite: Suite = "khufu-cbc".parse().expect("a suite");
        let asked = Plan::read(&Options { suites: vec![suite], ..Options::default() }, 4).expect("right");
        assert_eq!((asked.algorithms.len(), asked.algorithms[0].suite), (1, suite));
    }
}
