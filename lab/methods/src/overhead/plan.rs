//! What is measured of the mill's overhead, out of `lab/methods/definitions/overhead.toml`.

use std::time::Duration;

use ciphermill::IN_FLIGHT_MAX;
use ciphermill_contract::Suite;
use serde::Deserialize;

use crate::LabError;
use crate::method::Options;
use crate::router::stream::Stream;
use crate::timing::Budget;

const DEFINITIONS: &str = include_str!("../../definitions/overhead.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    full: Extent,
    quick: Extent,
    paper: Paper,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extent {
    suites: Vec<String>,
    lengths: Vec<usize>,
    batches: Vec<usize>,
    bytes_max: usize,
    in_flight: usize,
    ops: usize,
    bytes: usize,
    time_ms: u64,
    apps: Vec<usize>,
    app: AppEntry,
    share_ms: u64,
    turns: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppEntry {
    suite: String,
    len: usize,
    ops: usize,
    batches: usize,
}

/// What the paper says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    pub(super) name: String,
    /// Percent of the bare device's rate that goes through the framework.
    pub(super) share: f64,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) suites: Vec<Suite>,
    /// Streams by length and batch, their suite to be set.
    pub(super) lengths: Vec<usize>,
    pub(super) batches: Vec<usize>,
    pub(super) bytes_max: usize,
    pub(super) in_flight: usize,
    pub(super) ops: usize,
    pub(super) bytes: usize,
    pub(super) budget: Budget,
    pub(super) apps: Vec<usize>,
    /// What each application runs.
    pub(super) app: Stream,
    pub(super) share: Duration,
    pub(super) turns: usize,
    pub(super) paper: Paper,
}

fn wrong(why: impl Into<String>) -> LabError {
    LabError::Definitions(format!("overhead: {}", why.into()))
}

impl Plan {
    /// The plan that the options ask for.
    ///
    /// # Errors
    /// [`LabError::Definitions`] when the data break their own rules.
    pub(super) fn read(options: &Options) -> Result<Plan, LabError> {
        let definitions: Definitions = toml::from_str(DEFINITIONS).map_err(|error| wrong(error.to_string()))?;
        let extent = if options.quick { definitions.quick } else { definitions.full };
        for sizes in [&extent.lengths, &extent.batches, &extent.apps] {
            if sizes.is_empty() || sizes.contains(&0) || !sizes.is_sorted_by(|a, b| a < b) {
                return Err(wrong("lengths, batches and applications ascend and are not zero"));
            }
        }
        if extent.in_flight == 0 || extent.in_flight > IN_FLIGHT_MAX || extent.turns == 0 || extent.share_ms == 0 {
            return Err(wrong(format!("`in_flight` is 1 to {IN_FLIGHT_MAX}, `turns` and `share_ms` are above zero")));
        }
        if extent.app.ops == 0 || extent.app.batches < extent.in_flight || definitions.paper.share <= 0.0 {
            return Err(wrong(
                "an application has as many batches as are in flight, and the paper's share is above zero",
            ));
        }
        let parse = |name: &String| name.parse::<Suite>().map_err(|error| wrong(error.to_string()));
        let (mut suites, mut app_suite) =
            (extent.suites.iter().map(parse).collect::<Result<Vec<_>, _>>()?, parse(&extent.app.suite)?);
        if let Some(first) = options.suites.first() {
            (suites, app_suite) = (options.suites.clone(), *first);
        }
        let app = Stream {
            suite: app_suite,
            len: extent.app.len,
            ops: extent.app.ops,
            in_flight: extent.in_flight,
            batches: extent.app.batches,
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
            in_flight: extent.in_flight,
            ops: extent.ops,
            bytes: extent.bytes,
            budget,
            apps: extent.apps,
            app,
            share: Duration::from_millis(extent.share_ms),
            turns: extent.turns,
            paper: definitions.paper,
        })
    }

    /// The stream of one shape.
    pub(super) fn stream(&self, suite: Suite, len: usize, ops: usize) -> Stream {
        let by_ops = self.ops.div_ceil(ops);
        let by_bytes = self.bytes.div_ceil(ops * len);
        let batches = by_ops.min(by_bytes).max(1);
        Stream { suite, len, ops, in_flight: self.in_flight.min(batches), batches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together() {
        for quick in [false, true] {
            let plan = Plan::read(&Options { quick, ..Options::default() }).expect("the definitions are right");
            for (len, ops) in plan.lengths.iter().flat_map(|len| plan.batches.iter().map(move |ops| (*len, *ops))) {
                let stream = plan.stream(plan.suites[0], len, ops);
                assert!(stream.in_flight >= 1 && stream.in_flight <= stream.batches);
                assert!(stream.timed_ops() <= plan.ops.next_multiple_of(ops).max(ops));
            }
        }
        let suite: Suite = "rc4".parse().expect("a suite");
        let plan = Plan::read(&Options { suites: vec![suite], ..Options::default() }).expect("right");
        assert_eq!((plan.suites.as_slice(), plan.app.suite), ([suite].as_slice(), suite));
    }
}
