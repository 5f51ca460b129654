//! What the driver benchmark measures, out of `lab/methods/definitions/driver.toml`.

use std::time::Duration;

use ciphermill::IN_FLIGHT_MAX;
use ciphermill_contract::Suite;
use ciphermill_contract::limits::BATCH_OPS_MAX;
use serde::Deserialize;

use crate::LabError;
use crate::method::Options;
use crate::timing::Budget;

const DEFINITIONS: &str = include_str!("../../definitions/driver.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    keys: usize,
    batch: BatchSize,
    full: Extent,
    quick: Extent,
    paper: Paper,
}

/// What is handed over at once.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchSize {
    pub(super) chunks: usize,
    pub(super) bytes: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extent {
    chunks: usize,
    memory: usize,
    sizes: Vec<usize>,
    time_ms: u64,
    suites: Vec<SuiteEntry>,
    design: DesignEntry,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteEntry {
    name: String,
    input_max: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DesignEntry {
    suite: String,
    sizes: Vec<usize>,
    chunks: usize,
    time_ms: u64,
}

/// What the paper says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    pub(super) name: String,
    /// Bytes, and how many times as fast everything at once is.
    pub(super) factor: Vec<[f64; 2]>,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) keys: usize,
    pub(super) batch: BatchSize,
    pub(super) chunks: usize,
    pub(super) memory: usize,
    pub(super) sizes: Vec<usize>,
    pub(super) budget: Budget,
    /// Suites, each with the bytes of input that a run has at most.
    pub(super) suites: Vec<(Suite, usize)>,
    pub(super) design: Design,
    pub(super) paper: Paper,
    pub(super) seed: u64,
}

/// The factorial design.
#[derive(Clone, Debug)]
pub(super) struct Design {
    pub(super) suite: Suite,
    pub(super) sizes: Vec<usize>,
    pub(super) chunks: usize,
    pub(super) budget: Budget,
}

/// How many times a chunk's bytes stand in memory at most while a load is made: input and output of the workload, of the
/// reference's copy, of the bare engine's and of the batches, and the answers.
const COPIES: usize = 8;

fn wrong(why: impl Into<String>) -> LabError {
    LabError::Definitions(format!("driver: {}", why.into()))
}

impl Plan {
    /// The plan that the options ask for.
    ///
    /// # Errors
    /// [`LabError::Definitions`] when the data break their own rules.
    pub(super) fn read(options: &Options) -> Result<Plan, LabError> {
        let definitions: Definitions = toml::from_str(DEFINITIONS).map_err(|error| wrong(error.to_string()))?;
        let extent = if options.quick { definitions.quick } else { definitions.full };
        if definitions.keys == 0 || definitions.batch.chunks == 0 || definitions.batch.bytes == 0 {
            return Err(wrong("keys and batches must not be empty"));
        }
        if extent.chunks == 0 || extent.chunks > BATCH_OPS_MAX || extent.design.chunks == 0 {
            return Err(wrong(format!("chunks are 1 to {BATCH_OPS_MAX}")));
        }
        for sizes in [&extent.sizes, &extent.design.sizes] {
            if sizes.is_empty() || sizes.contains(&0) || !sizes.is_sorted_by(|a, b| a < b) {
                return Err(wrong("sizes ascend and are not zero"));
            }
        }
        let budget = |time_ms: u64| Budget {
            time: options.budget.time.min(Duration::from_millis(time_ms)),
            rounds_min: options.budget.rounds_min.min(if options.quick { 3 } else { 5 }),
            ..options.budget
        };
        let parse = |name: &str| name.parse::<Suite>().map_err(|error| wrong(error.to_string()));
        let mut suites = Vec::new();
        for entry in &extent.suites {
            suites.push((parse(&entry.name)?, entry.input_max));
        }
        let input_max = suites.iter().map(|(_, max)| *max).min().unwrap_or(extent.memory / COPIES);
        let mut design_suite = parse(&extent.design.suite)?;
        if let Some(first) = options.suites.first() {
            suites = options.suites.iter().map(|suite| (*suite, known(&suites, *suite).unwrap_or(input_max))).collect();
            design_suite = *first;
        }
        let design = Design {
            suite: design_suite,
            sizes: extent.design.sizes,
            chunks: extent.design.chunks,
            budget: budget(extent.design.time_ms),
        };
        Ok(Plan {
            keys: definitions.keys,
            batch: definitions.batch,
            chunks: extent.chunks,
            memory: extent.memory,
            sizes: extent.sizes,
            budget: budget(extent.time_ms),
            suites,
            design,
            paper: definitions.paper,
            seed: options.seed,
        })
    }

    /// How many chunks of a suite and size a run has, of `wanted`.
    pub(super) fn chunks_of(&self, wanted: usize, len: usize, input_max: usize) -> usize {
        // A tag, an operation and a key's name beside the data.
        const BESIDE: usize = 128;
        let held = self.memory / (COPIES * (len + BESIDE));
        wanted.min(held).min(input_max / len).max(1)
    }

    /// How many of `chunks` are handed over at once; never so few that a session could not have all in flight.
    pub(super) fn batch_of(&self, len: usize, chunks: usize) -> usize {
        self.batch.chunks.min(self.batch.bytes / len).max(chunks.div_ceil(IN_FLIGHT_MAX)).max(1)
    }
}

fn known(suites: &[(Suite, usize)], suite: Suite) -> Option<usize> {
    suites.iter().find(|(known, _)| *known == suite).map(|(_, max)| *max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together_and_memory_bounds_the_chunks() {
        for quick in [false, true] {
            let plan = Plan::read(&Options { quick, ..Options::default() }).expect("the definitions are right");
            for (suite, input_max) in &plan.suites {
                for len in &plan.sizes {
                    let chunks = plan.chunks_of(plan.chunks, *len, *input_max);
                    assert!(chunks >= 1 && chunks <= plan.chunks, "{suite} {len}");
                    assert!(chunks * len * COPIES <= plan.memory || chunks == 1, "{suite} {len}");
                    assert!(plan.batch_of(*len, chunks) * len <= plan.batch.bytes.max(*len));
                }
            }
            assert!(plan.paper.factor.iter().all(|[len, factor]| *len > 0.0 && *factor >= 1.0));
        }
        let full = Plan::read(&Options::default()).expect("the definitions are right");
        assert_eq!(full.chunks_of(full.chunks, 64, usize::MAX), 50_000);
        assert!(full.chunks_of(full.chunks, 65536, usize::MAX) < 2100);
    }

    #[test]
    fn suites_that_are_asked_for_take_the_place_of_the_usual_ones() {
        let suite: Suite = "des-cbc".parse().expect("a suite");
        let plan = Plan::read(&Options { suites: vec![suite], quick: true, ..Options::default() });
        let plan = plan.expect("the definitions are right");
        assert_eq!((plan.suites.len(), plan.suites[0].0, plan.design.suite), (1, suite, suite));
    }
}
