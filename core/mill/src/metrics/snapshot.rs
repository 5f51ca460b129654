//! What was counted, as plain data.

use std::collections::BTreeMap;

use ciphermill_contract::{Direction, Suite};
use hdrhistogram::Histogram;

use crate::engines::EngineSet;

/// What was counted, by engine and by the index of suite and direction.
pub(crate) type Sums = BTreeMap<(&'static str, usize), SuiteMetrics>;

/// Everything that a mill has counted since it was opened.
///
/// Counts of operations and batches are exact for every batch that had returned before the snapshot was taken; batches
/// that run meanwhile may be counted in part. Nothing here tells of data, keys or their ids.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By engine, in the order of the mill; engines that have left follow.
    pub engines: Vec<EngineMetrics>,
    /// Batches that have been submitted and wait to be run.
    pub queued_batches: u64,
    /// The mill's own threads that are at work at this moment.
    pub busy_workers: u64,
    /// Single operations that shared batches, by suite and direction; those that never did are left out.
    pub shared: Vec<SharedMetrics>,
}

/// What was counted of the single operations of one suite in one direction that were collected to share batches. Those that
/// were run at once, alone, are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMetrics {
    /// The suite; those that differ only in an open parameter (FF1's radix) are counted together.
    pub suite: Suite,
    /// The direction.
    pub direction: Direction,
    /// Batches …
    pub batches: u64,
    /// … and the operations in them.
    pub operations: u64,
    /// Windows that were opened to wait for more …
    pub windows: u64,
    /// … those that ended before their time, since the step was full …
    pub filled: u64,
    /// … and nanoseconds that they were open for, together.
    pub window_ns: u64,
}

/// What was counted on one engine.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    /// Its name. Engines of one name that came one after the other are counted together.
    pub engine: &'static str,
    /// Whether it is in the mill.
    pub present: bool,
    /// Quarantines since it joined.
    pub quarantines: u64,
    /// Whether it is in quarantine.
    pub quarantined: bool,
    /// By suite and direction; those that never ran are left out.
    pub suites: Vec<SuiteMetrics>,
}

/// What was counted of one suite in one direction on one engine.
#[derive(Clone, Debug)]
pub struct SuiteMetrics {
    /// The suite; those that differ only in an open parameter (FF1's radix) are counted together.
    pub suite: Suite,
    /// The direction.
    pub direction: Direction,
    /// Runs of batches on the engine. A batch that goes to several engines, or is tried again, is several runs.
    pub batches: u64,
    /// Operations by what became of them on this engine.
    pub operations: Outcomes,
    /// Bytes of input of those operations.
    pub input_bytes: u64,
    /// Operations that another engine ran again after this one failed them.
    pub replayed: u64,
    /// Runs whose answer was compared with another engine's …
    pub witnessed: u64,
    /// … what those comparisons took in nanoseconds, copies included …
    pub witness_ns: u64,
    /// … and those where the answers differed, whichever was right.
    pub disagreements: u64,
    /// Why the runs went to this engine.
    pub routes: Routes,
    /// Nanoseconds of runs. Short ones and lone operations are timed now and then only and stand for those between, so the count is not
    /// that of `batches` but a little behind.
    pub latency_ns: Distribution,
    /// Actual by predicted time of the same runs, in thousandths: 1,000 is as predicted, 2,000 takes twice as long.
    pub ratio_thousandths: Distribution,
}

/// Operations by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Ended well.
    pub done: u64,
    /// A tag, padding or signature did not verify.
    pub authentication_failed: u64,
    /// The data broke a rule of the suite.
    pub bad_input: u64,
    /// Policy or the key table refused them, in a batch that went to this engine.
    pub refused: u64,
    /// The engine failed them. They may have gone well elsewhere.
    pub engine_fault: u64,
}

/// Runs by the router's reason ([`crate::RouteReason`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Predicted to be the fastest.
    pub fastest: u64,
    /// The only engine that may run it.
    pub only: u64,
    /// The caller insisted.
    pub pinned: u64,
    /// The least late of engines that all miss the deadline.
    pub least_late: u64,
    /// Tried again after it had been slow.
    pub probe: u64,
    /// Its share of a batch that several engines worked on.
    pub share: u64,
}

impl Outcomes {
    /// Names and counts.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("done", self.done),
            ("authentication-failed", self.authentication_failed),
            ("bad-input", self.bad_input),
            ("refused", self.refused),
            ("engine-fault", self.engine_fault),
        ]
    }
}

impl Routes {
    /// Names and counts.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("fastest", self.fastest),
            ("only", self.only),
            ("pinned", self.pinned),
            ("least-late", self.least_late),
            ("probe", self.probe),
            ("share", self.share),
        ]
    }

    pub(crate) fn add(&mut self, more: &Routes) {
        self.fastest += more.fastest;
        self.only += more.only;
        self.pinned += more.pinned;
        self.least_late += more.least_late;
        self.probe += more.probe;
        self.share += more.share;
    }
}

/// Whole numbers and how often each was seen, within one part in a hundred.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum: u128,
}

impl Default for Distribution {
    #[expect(clippy::expect_used, reason = "two significant figures are between zero and five")]
    fn default() -> Distribution {
        Distribution { histogram: Histogram::new(2).expect("a valid precision"), sum: 0 }
    }
}

impl Distribution {
    pub(crate) fn record(&mut self, value: u64, times: u64) {
        self.sum += u128::from(value) * u128::from(times);
        // It grows to the range that it needs, and what no memory is left for is not worth failing a batch.
        let _ = self.histogram.record_n(value, times);
    }

    pub(crate) fn add(&mut self, more: &Distribution) {
        self.sum += more.sum;
        let _ = self.histogram.add(&more.histogram);
    }

    /// How many numbers were seen.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their sum, exactly.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The number below or at which the share `quantile` of them lies (0.5 for the median); zero when there are none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.histogram.max()
    }
}

impl SharedMetrics {
    pub(crate) fn new(suite: Suite, direction: Direction) -> SharedMetrics {
        let suite = suite.canonical();
        SharedMetrics { suite, direction, batches: 0, operations: 0, windows: 0, filled: 0, window_ns: 0 }
    }
}

impl SuiteMetrics {
    pub(crate) fn new(suite: Suite, direction: Direction) -> SuiteMetrics {
        SuiteMetrics {
            suite,
            direction,
            batches: 0,
            operations: Outcomes::default(),
            input_bytes: 0,
            replayed: 0,
            witnessed: 0,
            witness_ns: 0,
            disagreements: 0,
            routes: Routes::default(),
            latency_ns: Distribution::default(),
            ratio_thousandths: Distribution::default(),
        }
    }
}

impl Snapshot {
    pub(crate) fn new(set: &EngineSet, sums: Sums) -> Snapshot {
        let mut engines: Vec<EngineMetrics> = set
            .slots
            .iter()
            .map(|slot| EngineMetrics {
                engine: slot.name(),
                present: true,
                quarantines: slot.health.quarantines().into(),
                quarantined: !slot.health.allows(),
                suites: Vec::new(),
            })
            .collect();
        for ((name, _), suite) in sums {
            let index = engines.iter().position(|engine| engine.engine == name).unwrap_or_else(|| {
                engines.push(EngineMetrics {
                    engine: name,
                    present: false,
                    quarantines: 0,
                    quarantined: false,
                    suites: Vec::new(),
                });
                engines.len() - 1
            });
            engines[index].suites.push(suite);
        }
        Snapshot { engines, queued_batches: 0, busy_workers: 0, shared: Vec::new() }
    }
}
