//! What is measured of the mill's overhead, and what the paper measured.

use std::time::Duration;

use ciphermill_contract::Suite;

use crate::engines::suite;
use crate::method::Options;
use crate::router::stream::Stream;
use crate::timing::Budget;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// What is run through the mill and by the bare engine, in every length and batch.
    suites: &'static [&'static str],
    pub(super) lengths: &'static [usize],
    pub(super) batches: &'static [usize],
    /// Larger batches are left out.
    pub(super) bytes_max: usize,
    /// Batches that are handed over before the first is taken back.
    in_flight: usize,
    /// One timing has as many batches as reach either these operations or these bytes.
    pub(super) ops: usize,
    bytes: usize,
    /// Time for each contestant.
    time_ms: u64,
    /// Applications at the same time, each with a thread and a session, and the batches that each runs.
    pub(super) apps: &'static [usize],
    app_batches: usize,
    /// How long and how often a program counts beside others.
    pub(super) share: Duration,
    pub(super) turns: usize,
}

const FULL: Extent = Extent {
    suites: &[APP_SUITE, "3des-cbc", "hmac-sha256"],
    lengths: &[16, 64, 256, 1024, 4096],
    batches: &[1, 4, 16, 64, 256, 1024],
    bytes_max: 1 << 20,
    in_flight: 8,
    ops: 2048,
    bytes: 1 << 19,
    time_ms: 30,
    apps: &[1, 2, 4, 8, 16],
    app_batches: 512,
    share: Duration::from_millis(300),
    turns: 5,
};

const QUICK: Extent = Extent {
    suites: &[APP_SUITE],
    lengths: &[64, 1024],
    batches: &[1, 16, 256],
    bytes_max: 1 << 18,
    in_flight: 4,
    ops: 1024,
    bytes: 1 << 18,
    time_ms: 10,
    apps: &[1, 4],
    app_batches: 64,
    share: Duration::from_millis(100),
    turns: 3,
};

/// What an application runs: this suite, so many bytes an operation, so many operations a batch.
const APP_SUITE: &str = "aes-128-cbc";
const APP_LEN: usize = 256;
const APP_OPS: usize = 64;

/// The paper's framework.
pub(super) const FRAMEWORK: &str = "OpenBSD framework";

/// Percent of the accelerator's peak that it attains, by the paper's introduction.
pub(super) const FRAMEWORK_SHARE: f64 = 95.0;

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) extent: Extent,
    pub(super) suites: Vec<Suite>,
    pub(super) budget: Budget,
    /// What each application runs.
    pub(super) app: Stream,
}

impl Plan {
    /// The plan that the options ask for.
    pub(super) fn new(options: &Options) -> Plan {
        let extent = if options.quick { QUICK } else { FULL };
        let app = Stream {
            suite: options.suites.first().map_or_else(|| suite(APP_SUITE), |first| *first),
            len: APP_LEN,
            ops: APP_OPS,
            in_flight: extent.in_flight,
            batches: extent.app_batches,
        };
        Plan { extent, suites: options.suites_or(extent.suites), budget: options.budget_of(extent.time_ms), app }
    }

    /// The stream of one shape.
    pub(super) fn stream(&self, suite: Suite, len: usize, ops: usize) -> Stream {
        let by_ops = self.extent.ops.div_ceil(ops);
        let by_bytes = self.extent.bytes.div_ceil(ops * len);
        let batches = by_ops.min(by_bytes).max(1);
        Stream { suite, len, ops, in_flight: self.extent.in_flight.min(batches), batches }
    }
}

#[cfg(test)]
mod tests {
    use ciphermill::IN_FLIGHT_MAX;

    use super::*;

    #[test]
    fn the_plans_hold_together() {
        for quick in [false, true] {
            let plan = Plan::new(&Options { quick, ..Options::default() });
            let Extent { lengths, batches, apps, in_flight, .. } = plan.extent;
            for sizes in [lengths, batches, apps] {
                assert!(sizes[0] > 0 && sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
            }
            assert!(in_flight <= IN_FLIGHT_MAX && plan.app.batches >= in_flight);
            for (len, ops) in lengths.iter().flat_map(|len| batches.iter().map(move |ops| (*len, *ops))) {
                let stream = plan.stream(plan.suites[0], len, ops);
                assert!(stream.in_flight >= 1 && stream.in_flight <= stream.batches);
                assert!(stream.timed_ops() <= plan.extent.ops.next_multiple_of(ops).max(ops));
            }
        }
        let rc4 = suite("rc4");
        let plan = Plan::new(&Options { suites: vec![rc4], ..Options::default() });
        assert_eq!((plan.suites.as_slice(), plan.app.suite), ([rc4].as_slice(), rc4));
    }
}
