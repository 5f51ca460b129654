//! Records, sections and measurements.

use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, SPREAD_QUOTABLE_MAX};
use crate::machine::Machine;
use crate::map::Map;
use crate::plot::Plot;
use crate::table::Table;

/// The version of the records' format that this program writes.
///
/// * 1: a spread is the interquartile range of the rounds, and the machine's disturbances forbid quoting a record.
/// * 2: a spread is half the width of the 95 % interval; ratios have their interval; disturbances are only told.
pub const RECORD_FORMAT: u32 = 2;

/// The oldest format that is read; others are refused.
pub(crate) const RECORD_FORMAT_MIN: u32 = 1;

/// One run of the lab on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`RECORD_FORMAT`] of the program that wrote it.
    pub format: u32,
    /// When it was made: RFC 3339, UTC.
    pub made: String,
    /// The command line that makes it again.
    pub command: String,
    /// The machine.
    pub machine: Machine,
    /// What the machine did meanwhile.
    pub environment: Environment,
    /// What was measured, in the order of measuring.
    pub sections: Vec<Section>,
}

/// What could have disturbed the measuring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The smallest step of the clock that was used, nanoseconds.
    pub timer_resolution_ns: f64,
    /// What reading that clock costs, nanoseconds.
    pub timer_cost_ns: f64,
    /// The core's clock rate by a chain of dependent instructions, lowest and highest seen, gigahertz.
    pub ghz: Option<[f64; 2]>,
    /// The share of the time that a hypervisor gave to others, where the system counts it.
    pub steal: Option<f64>,
    /// How often this thread lost its core to another against its will.
    pub preemptions: Option<u64>,
    /// The core that the measuring thread was pinned to.
    pub core: Option<usize>,
    /// What forbids quoting the record, in words, each with what to try; empty when nothing does.
    pub warnings: Vec<String>,
    /// What took time or changed the clock's rate meanwhile, in words, each with what to try. Absolute times are those of
    /// this run only; ratios of rounds that were interleaved hold all the same.
    #[serde(default)]
    pub disturbances: Vec<String>,
}

/// What one method measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The method's name on the command line: `ladder`.
    pub method: String,
    /// Its title.
    pub title: String,
    /// What is measured and why so, in a paragraph or two that teach somebody who has not read the paper.
    pub lesson: Vec<String>,
    /// Where the method comes from: authors, title, section.
    pub source: String,
    /// What the data say, in sentences that the program computed from them.
    pub conclusions: Vec<String>,
    /// The plots.
    pub plots: Vec<Plot>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The heat maps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<Map>,
    /// The numbers, each under a name that stays the same from record to record.
    pub measurements: Vec<Measurement>,
    /// What was asked for and not measured.
    pub missing: Vec<Missing>,
}

/// A number that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// What it is: path-like, from general to special, unique in its section: `aes-128-cbc/encrypt/lanes/64`.
    pub name: String,
    /// The median.
    pub value: f64,
    /// Its unit: `ns/op`, `op/s`, `Mb/s`, `×`, `%`.
    pub unit: String,
    /// Half the width of its 95 % interval as a share of it; zero for what is counted rather than timed.
    pub spread: f64,
    /// Which way is better.
    pub better: Better,
    /// Of a ratio that was computed round by round: the ends of its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Which way a number is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Rates.
    More,
    /// Times.
    Less,
    /// Neither: a crossing point, a share that only describes.
    Neither,
}

/// Something that was asked for and not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Section {
    /// An empty section.
    pub fn new(method: &str, title: &str, source: &str) -> Section {
        Section { method: method.to_owned(), title: title.to_owned(), source: source.to_owned(), ..Section::default() }
    }

    /// Adds a number.
    pub fn measured(&mut self, name: impl Into<String>, value: f64, unit: &str, spread: f64, better: Better) {
        let (name, unit) = (name.into(), unit.to_owned());
        self.measurements.push(Measurement { name, value, unit, spread, better, interval: None });
    }

    /// Adds a ratio that was computed round by round.
    pub fn ratio(&mut self, name: impl Into<String>, ratio: Estimate, better: Better) {
        self.estimated(name, ratio, "×", better);
    }

    /// Adds a ratio in another unit, as `%`.
    pub fn estimated(&mut self, name: impl Into<String>, ratio: Estimate, unit: &str, better: Better) {
        let (name, unit, interval) = (name.into(), unit.to_owned(), Some(ratio.interval));
        self.measurements.push(Measurement {
            name,
            value: ratio.value,
            unit,
            spread: ratio.spread(),
            better,
            interval,
        });
    }

    /// Adds what could not be measured, once.
    pub fn lacks(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let missing = Missing { what: what.into(), why: why.into() };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// How many of the numbers are too noisy to be quoted.
    pub fn noisy(&self) -> usize {
        self.measurements.iter().filter(|measurement| measurement.is_noisy()).count()
    }
}

impl Measurement {
    /// Whether the spread forbids quoting it.
    pub fn is_noisy(&self) -> bool {
        self.spread > SPREAD_QUOTABLE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_once() {
        let mut section = Section::new("peaks", "Peaks", "nobody");
        section.lacks("ipsec-mb", "not installed");
        section.lacks("ipsec-mb", "not installed");
        assert_eq!(section.missing.len(), 1);
        section.measured("a", 1.0, "ns/op", 0.06, Better::Less);
        section.measured("b", 1.0, "ns/op", 0.05, Better::Less);
        assert_eq!(section.noisy(), 1);
    }

    #[test]
    fn a_ratio_is_noisy_when_its_interval_is_wide() {
        let mut section = Section::new("cases", "Cases", "nobody");
        for (name, half) in [("narrow", 0.049), ("wide", 0.051)] {
            section.ratio(name, Estimate { value: 1.0, interval: [1.0 - half, 1.0 + half] }, Better::More);
        }
        let noisy: Vec<bool> = section.measurements.iter().map(Measurement::is_noisy).collect();
        assert_eq!(noisy, [false, true]);
        let scaled = Estimate { value: 2.0, interval: [1.0, 4.0] }.scaled(0.5);
        assert_eq!((scaled.value, scaled.interval, scaled.spread()), (1.0, [0.5, 2.0], 0.75));
        assert_eq!(Estimate::default().spread(), 0.0);
    }
}
