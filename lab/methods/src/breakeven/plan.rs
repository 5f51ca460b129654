//! What the break-even sweep measures, out of `lab/methods/definitions/breakeven.toml`.

use std::time::Duration;

use ciphermill_contract::Suite;
use ciphermill_contract::limits::BATCH_OPS_MAX;
use serde::Deserialize;

use crate::LabError;
use crate::method::Options;
use crate::timing::Budget;

const DEFINITIONS: &str = include_str!("../../definitions/breakeven.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    table_lengths: Vec<usize>,
    full: Extent,
    quick: Extent,
    paper: PaperEntry,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extent {
    suites: Vec<String>,
    lengths: Vec<usize>,
    batches: Vec<usize>,
    bytes_max: usize,
    time_ms: u64,
    table: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperEntry {
    suite: String,
    lines: Vec<Line>,
}

/// A run of `openssl speed` in the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) name: String,
    /// Bytes a block, blocks done, seconds.
    runs: Vec<[f64; 3]>,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) suites: Vec<Suite>,
    pub(super) lengths: Vec<usize>,
    pub(super) batches: Vec<usize>,
    pub(super) bytes_max: usize,
    pub(super) budget: Budget,
    pub(super) table: usize,
    pub(super) table_lengths: Vec<usize>,
    pub(super) paper_suite: Suite,
    pub(super) paper: Vec<Line>,
    pub(super) seed: u64,
}

fn wrong(why: impl Into<String>) -> LabError {
    LabError::Definitions(format!("breakeven: {}", why.into()))
}

impl Line {
    /// Nanoseconds an operation by length.
    pub(super) fn ns(&self) -> Vec<[f64; 2]> {
        self.runs.iter().map(|[len, done, seconds]| [*len, seconds * 1e9 / done]).collect()
    }

    /// Megabytes a second by length.
    pub(super) fn rates(&self) -> Vec<[f64; 2]> {
        self.ns().into_iter().map(|[len, ns]| [len, len * 1000.0 / ns]).collect()
    }
}

impl Plan {
    /// The plan that the options ask for.
    ///
    /// # Errors
    /// [`LabError::Definitions`] when the data break their own rules.
    pub(super) fn read(options: &Options) -> Result<Plan, LabError> {
        let definitions: Definitions = toml::from_str(DEFINITIONS).map_err(|error| wrong(error.to_string()))?;
        let extent = if options.quick { definitions.quick } else { definitions.full };
        for sizes in [&extent.lengths, &extent.batches, &definitions.table_lengths] {
            if sizes.is_empty() || sizes.contains(&0) || !sizes.is_sorted_by(|a, b| a < b) {
                return Err(wrong("lengths and batches ascend and are not zero"));
            }
        }
        if extent.batches.last().is_some_and(|batch| *batch > BATCH_OPS_MAX) {
            return Err(wrong(format!("a batch has at most {BATCH_OPS_MAX} operations")));
        }
        if extent.batches[0] != 1 || !extent.batches.contains(&extent.table) {
            return Err(wrong("the tables' batches, one and `table`, must be among those measured"));
        }
        let lines = &definitions.paper.lines;
        if lines.iter().flat_map(|line| &line.runs).flatten().any(|value| *value <= 0.0) {
            return Err(wrong("the paper's figures are above zero"));
        }
        let parse = |name: &String| name.parse::<Suite>().map_err(|error| wrong(error.to_string()));
        let suites = match options.suites.is_empty() {
            true => extent.suites.iter().map(parse).collect::<Result<_, _>>()?,
            false => options.suites.clone(),
        };
        let budget = Budget {
            time: options.budget.time.min(Duration::from_millis(extent.time_ms)),
            rounds_min: options.budget.rounds_min.min(if options.quick { 3 } else { 5 }),
            ..options.budget
        };
        Ok(Plan {
            suites,
            lengths: extent.lengths,
            batches: extent.batches,
            bytes_max: extent.bytes_max,
            budget,
            table: extent.table,
            table_lengths: definitions.table_lengths,
            paper_suite: parse(&definitions.paper.suite)?,
            paper: definitions.paper.lines,
            seed: options.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together() {
        for quick in [false, true] {
            let plan = Plan::read(&Options { quick, ..Options::default() }).expect("the definitions are right");
            assert!(plan.suites.contains(&plan.paper_suite));
            assert!(
                plan.table_lengths.iter().all(|len| plan.lengths.contains(len)),
                "the table's columns are measured"
            );
            assert!(plan.table_lengths.iter().all(|len| len * plan.table <= plan.bytes_max), "and none is left out");
            assert_eq!(plan.paper.len(), 2);
        }
    }

    #[test]
    fn the_papers_counts_become_times() {
        let plan = Plan::read(&Options::default()).expect("the definitions are right");
        let software = plan.paper[0].ns();
        assert_eq!(software[0][0], 16.0);
        assert!((software[0][1] - 1306.7).abs() < 0.1, "{software:?}");
        assert!((plan.paper[0].rates()[1][1] - 64.0 * 703_001.0 / 3e6).abs() < 1e-6);
    }
}
