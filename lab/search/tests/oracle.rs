//! The search beside the package MLRsearch, whose answers for simulated devices are in tests/oracle/devices.json.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_search::mlr::{Goal, GoalResult, Standing, search};
use ciphermill_search::{Outcome, Range, Trial};
use serde::Deserialize;
use std::convert::Infallible;
use std::time::Duration;

#[derive(Deserialize)]
struct Reference {
    min_pps: f64,
    max_pps: f64,
    devices: Vec<Device>,
}

/// A device, as tests/oracle/generate.py describes it, and what the package found.
#[derive(Deserialize)]
struct Device {
    name: String,
    limit: f64,
    knee: Option<f64>,
    #[serde(default)]
    slope: f64,
    #[serde(default)]
    leak: f64,
    doubles_above: Option<f64>,
    #[serde(default)]
    doubled: f64,
    trials: usize,
    ndr: Expected,
    pdr: Expected,
}

#[derive(Deserialize)]
struct Expected {
    lower_pps: Option<f64>,
    upper_pps: Option<f64>,
    throughput_pps: Option<f64>,
}

impl Trial for &Device {
    type Error = Infallible;

    fn run(&mut self, rate_pps: f64, duration: Duration) -> Result<Outcome, Self::Error> {
        let seconds = duration.as_secs_f64();
        let offered = (rate_pps * seconds + 0.5).floor();
        let mut missing = (offered - (self.limit * seconds).floor()).max(0.0);
        if let Some(knee) = self.knee.filter(|&knee| rate_pps > knee) {
            let share = self.slope * (rate_pps / knee - 1.0).powi(2);
            missing = missing.max((offered * share.min(1.0)).floor());
        }
        missing = missing.max((offered * self.leak).floor());
        let doubles = self.doubles_above.is_some_and(|above| rate_pps > above);
        let duplicates = if doubles { (offered * self.doubled).floor() } else { 0.0 };
        let received = offered - missing + duplicates;
        Ok(Outcome { offered: offered as u64, received: received as u64, duplicates: duplicates as u64, duration })
    }
}

/// The gap between two intervals, as a share of the upper end of the lower one; negative if they overlap.
fn gap(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0.max(b.0) - a.1.min(b.1)) / a.1.min(b.1)
}

fn compare(name: &str, found: &GoalResult, expected: &Expected) {
    let ends = |lower: Option<f64>, upper: Option<f64>| (lower.unwrap_or(0.0), upper.unwrap_or(f64::MAX));
    let (ours, theirs) = (ends(found.lower_pps, found.upper_pps), ends(expected.lower_pps, expected.upper_pps));
    assert_eq!(found.lower_pps.is_some(), expected.lower_pps.is_some(), "{name}: {found:?}");
    assert_eq!(found.upper_pps.is_some(), expected.upper_pps.is_some(), "{name}: {found:?}");
    assert!(gap(ours, theirs) <= found.goal.width, "{name}: {ours:?} beside {theirs:?}");
    match (found.throughput_pps, expected.throughput_pps) {
        (Some(ours), Some(theirs)) => assert!((ours / theirs - 1.0).abs() <= 0.01, "{name}: {ours} beside {theirs}"),
        (ours, theirs) => assert_eq!(ours, theirs, "{name}"),
    }
    let standing = match (expected.lower_pps, expected.upper_pps) {
        (Some(_), Some(_)) => Standing::Regular,
        (Some(_), None) => Standing::AtMaximum,
        _ => Standing::BelowMinimum,
    };
    assert_eq!(found.standing, standing, "{name}");
}

#[test]
fn devices_are_found_to_carry_what_the_package_finds() {
    let reference: Reference = serde_json::from_str(include_str!("oracle/devices.json")).unwrap();
    let range = Range::new(reference.min_pps, reference.max_pps).unwrap();
    assert!(reference.devices.len() >= 12);
    for device in &reference.devices {
        let found = search(&mut &*device, range, &[Goal::ndr(), Goal::pdr()]).unwrap();
        let [ndr, pdr] = &found.goals[..] else { panic!("two goals have two results") };
        compare(&format!("{}, NDR", device.name), ndr, &device.ndr);
        compare(&format!("{}, PDR", device.name), pdr, &device.pdr);
        println!("{}: {} trials, the package {}", device.name, found.trials.len(), device.trials);
        // Not much slower either.
        assert!(found.trials.len() <= 2 * device.trials, "{}: {} trials", device.name, found.trials.len());
    }
}
