//! What a device is held to, out of `lab/methods/definitions/device.toml`.

use std::time::Duration;

use ciphermill_contract::{Direction, Suite};
use serde::Deserialize;

use crate::LabError;
use crate::method::Options;
use crate::timing::Budget;

const DEFINITIONS: &str = include_str!("../../definitions/device.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    full: Extent,
    quick: Extent,
    goal: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extent {
    threads_max: usize,
    bytes: usize,
    public: usize,
    batches: Vec<usize>,
    run_ms: u64,
    time_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    figure: Figure,
    suite: String,
    #[serde(default)]
    len: [usize; 2],
    rival: Option<String>,
    must: f64,
    aim: f64,
    #[serde(default)]
    quick: bool,
}

/// What a goal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Figure {
    /// The time that the link alone needs, by the whole time.
    Link,
    /// Operations a second, by the rival's on all cores.
    Cores,
    /// The batch from which on the device is faster than the rival on one core.
    Batch,
}

/// One thing that a device is held to.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) name: String,
    pub(super) figure: Figure,
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    /// The shortest and the longest input; both zero for public keys.
    pub(super) len: [usize; 2],
    /// Whom it is compared with; nobody but the link for [`Figure::Link`].
    pub(super) rival: Option<String>,
    pub(super) must: f64,
    pub(super) aim: f64,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) goals: Vec<Goal>,
    pub(super) threads_max: usize,
    pub(super) bytes: usize,
    pub(super) public: usize,
    pub(super) batches: Vec<usize>,
    pub(super) run: Duration,
    pub(super) budget: Budget,
    pub(super) seed: u64,
}

fn wrong(why: impl Into<String>) -> LabError {
    LabError::Definitions(format!("device: {}", why.into()))
}

impl Entry {
    fn goal(self) -> Result<Goal, LabError> {
        let suite: Suite = self.suite.parse().map_err(|error| wrong(format!("{error}")))?;
        let [min, max] = self.len;
        if min > max || (max == 0) != suite.is_public_key() {
            return Err(wrong(format!("{}: lengths of {min} to {max} bytes", self.name)));
        }
        if self.rival.is_none() != (self.figure == Figure::Link) {
            return Err(wrong(format!("{}: there is a rival unless it is the link", self.name)));
        }
        // A batch should be small, the other figures large.
        let [less, more] = if self.figure == Figure::Batch { [self.aim, self.must] } else { [self.must, self.aim] };
        if !(less > 0.0 && less <= more) {
            return Err(wrong(format!("{}: {} has to be reached and {} is hoped for", self.name, self.must, self.aim)));
        }
        let Entry { name, figure, len, rival, must, aim, .. } = self;
        Ok(Goal { name, figure, suite, direction: Direction::Encrypt, len, rival, must, aim })
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
        let numbers = [extent.threads_max, extent.bytes, extent.public, extent.run_ms as usize];
        if numbers.contains(&0) || extent.batches.len() < 2 || !extent.batches.is_sorted() {
            return Err(wrong("numbers are above zero, and batches ascend"));
        }
        let mut goals = Vec::new();
        for entry in definitions.goal {
            let quick = entry.quick;
            let goal = entry.goal()?;
            let wanted = match options.suites.is_empty() {
                true => !options.quick || quick,
                false => options.suites.contains(&goal.suite),
            };
            if wanted {
                goals.push(goal);
            }
        }
        let budget = Budget {
            time: options.budget.time.min(Duration::from_millis(extent.time_ms)),
            rounds_min: options.budget.rounds_min.min(if options.quick { 3 } else { 5 }),
            ..options.budget
        };
        Ok(Plan {
            goals,
            threads_max: extent.threads_max,
            bytes: extent.bytes,
            public: extent.public,
            batches: extent.batches,
            run: Duration::from_millis(extent.run_ms),
            budget,
            seed: options.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together() {
        let full = Plan::read(&Options::default()).expect("the definitions are right");
        for figure in [Figure::Link, Figure::Cores, Figure::Batch] {
            assert!(full.goals.iter().any(|goal| goal.figure == figure), "{figure:?}");
        }
        let quick = Plan::read(&Options { quick: true, ..Options::default() }).expect("the definitions are right");
        assert!(!quick.goals.is_empty() && quick.goals.len() < full.goals.len());
        let suite: Suite = "sha256".parse().expect("a suite");
        let one = Plan::read(&Options { suites: vec![suite], ..Options::default() }).expect("right");
        assert!(!one.goals.is_empty() && one.goals.iter().all(|goal| goal.suite == suite));
    }

    #[test]
    fn goals_that_contradict_themselves_are_refused() {
        let entry = |figure, len, rival: Option<&str>, must, aim| Entry {
            name: "a".to_owned(),
            figure,
            suite: "sha256".to_owned(),
            len,
            rival: rival.map(str::to_owned),
            must,
            aim,
            quick: false,
        };
        assert!(entry(Figure::Link, [8, 80], None, 0.6, 0.8).goal().is_ok());
        assert!(entry(Figure::Batch, [8, 80], Some("lanes"), 2000.0, 500.0).goal().is_ok());
        for bad in [
            entry(Figure::Link, [80, 8], None, 0.6, 0.8),
            entry(Figure::Link, [0, 0], None, 0.6, 0.8),
            entry(Figure::Link, [8, 80], Some("lanes"), 0.6, 0.8),
            entry(Figure::Cores, [8, 80], None, 0.6, 0.8),
            entry(Figure::Batch, [8, 80], Some("lanes"), 500.0, 2000.0),
        ] {
            assert!(matches!(bad.goal(), Err(LabError::Definitions(_))));
        }
    }
}
