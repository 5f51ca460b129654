//! What a simulation says.

use hdrhistogram::Histogram;

use crate::engines::{DEVICES_FROM, Ran};
use crate::scenario::Scenario;

/// The longest time that is told apart from longer ones: an hour, in nanoseconds.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// What came of a scenario, of the time that was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds that were counted.
    pub seconds: f64,
    /// All requests.
    pub all: WorkOutcome,
    /// By works, in the scenario's order.
    pub works: Vec<WorkOutcome>,
    /// By groups of clients.
    pub groups: Vec<GroupOutcome>,
    /// The cores, and behind them the devices.
    pub engines: Vec<EngineOutcome>,
    /// The share of the cores' time that clients had.
    pub clients_busy: f64,
    /// How full batches were.
    pub lanes: Lanes,
    /// Requests that were made, answered, and on their way at the end; from the beginning on, not from when counting began.
    pub made: u64,
    /// See `made`.
    pub answered: u64,
    /// See `made`.
    pub left: u64,
    /// Events that were simulated.
    pub events: u64,
}

/// Requests of one work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkOutcome {
    /// What it is called.
    pub name: String,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests a second that were made.
    pub offered: f64,
    /// Requests a second that were answered.
    pub rate: f64,
    /// How long they took.
    pub latency: Latency,
}

/// Times from a client's beginning to make a request until it has its answer, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean_ns: f64,
    /// The time within which half of them are answered, …
    pub p50_ns: f64,
    /// … 99 % …
    pub p99_ns: f64,
    /// … and 99.9 %.
    pub p999_ns: f64,
}

/// A group of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupOutcome {
    /// Requests that were answered.
    pub answered: u64,
    /// What they had of the cores' and devices' time, as predicted for each alone, in nanoseconds.
    pub work_ns: f64,
}

/// An engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOutcome {
    /// What it is called.
    pub name: String,
    /// Operations a second.
    pub rate: f64,
    /// The share of its time in which it worked.
    pub busy: f64,
}

/// How full batches were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Batches.
    pub batches: u64,
    /// Operations of all of them.
    pub ops: u64,
    /// Requests of all of them.
    pub requests: u64,
    /// Operations that went in steps, …
    pub stepped: u64,
    /// … and those that those steps had room for.
    pub room: u64,
}

impl Lanes {
    /// Requests a batch.
    pub fn requests_a_batch(&self) -> f64 {
        self.requests as f64 / self.batches.max(1) as f64
    }

    /// The share of the lanes that had an operation; `None` where none went in steps.
    pub fn fill(&self) -> Option<f64> {
        (self.room > 0).then(|| self.stepped as f64 / self.room as f64)
    }
}

/// Requests of one work, as they are counted.
#[derive(Debug)]
struct Counted {
    times: Histogram<u64>,
    sum_ns: f64,
    made: u64,
}

/// What is counted.
#[derive(Debug)]
pub(crate) struct Counts {
    window: (u64, u64),
    works: Vec<Counted>,
    all: Counted,
    groups: Vec<GroupOutcome>,
    ops: Vec<u64>,
    busy_ns: Vec<f64>,
    lanes: Lanes,
    pub(crate) made: u64,
    pub(crate) answered: u64,
}

impl Counted {
    /// Three figures up to an hour.
    #[expect(clippy::expect_used, reason = "the histogram refuses other bounds and precisions above five alone")]
    fn new() -> Counted {
        let times = Histogram::new_with_bounds(1, TIME_MAX_NS, 3).expect("known bounds");
        Counted { times, sum_ns: 0.0, made: 0 }
    }

    fn outcome(&self, name: &str, seconds: f64) -> WorkOutcome {
        let answered = self.times.len();
        let quantile = |share| self.times.value_at_quantile(share) as f64;
        let latency = Latency {
            mean_ns: self.sum_ns / answered.max(1) as f64,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
        };
        let (name, rate, offered) = (name.to_owned(), answered as f64 / seconds, self.made as f64 / seconds);
        WorkOutcome { name, answered, offered, rate, latency }
    }

    fn record(&mut self, ns: u64) {
        self.times.saturating_record(ns);
        self.sum_ns += ns as f64;
    }
}

impl Counts {
    pub(crate) fn new(scenario: &Scenario) -> Counts {
        let engines = DEVICES_FROM + scenario.devices.len();
        Counts {
            window: scenario.window(),
            works: scenario.works.iter().map(|_| Counted::new()).collect(),
            all: Counted::new(),
            groups: vec![GroupOutcome::default(); scenario.clients.len()],
            ops: vec![0; engines],
            busy_ns: vec![0.0; engines],
            lanes: Lanes::default(),
            made: 0,
            answered: 0,
        }
    }

    fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.window.0
    }

    /// A request was made.
    pub(crate) fn made(&mut self, work: u32, at_ns: u64) {
        self.made += 1;
        if self.counts(at_ns) {
            self.works[work as usize].made += 1;
            self.all.made += 1;
        }
    }

    /// A client has its answer; `work_ns` is what the request takes alone.
    pub(crate) fn answered(&mut self, (work, group): (u32, u32), born_ns: u64, at_ns: u64, work_ns: f64) {
        self.answered += 1;
        if self.counts(at_ns) {
            self.works[work as usize].record(at_ns - born_ns);
            self.all.record(at_ns - born_ns);
            let group = &mut self.groups[group as usize];
            group.answered += 1;
            group.work_ns += work_ns;
        }
    }

    /// A batch has begun on what the engine says.
    pub(crate) fn ran(&mut self, ran: &Ran, (requests, ops): (u64, u64), at_ns: u64) {
        if !self.counts(at_ns) {
            return;
        }
        if ran.engine >= DEVICES_FROM {
            // Units work some time later; over the whole time that is the same.
            self.busy_ns[ran.engine] += ran.busy_ns as f64;
        }
        self.ops[ran.engine] += ops;
        let lanes = &mut self.lanes;
        lanes.batches += 1;
        lanes.requests += requests;
        lanes.ops += ops;
        if ran.step > 1 {
            lanes.stepped += ops;
            lanes.room += ops.next_multiple_of(ran.step.into());
        }
    }

    /// `own_ns` and `clients_ns` are the cores' time that the service's threads and clients' have had.
    pub(crate) fn outcome(
        self,
        scenario: &Scenario,
        [own_ns, clients_ns]: [f64; 2],
        (left, events): (u64, u64),
    ) -> Outcome {
        let seconds = (self.window.1 - self.window.0) as f64 / 1e9;
        let cores_ns = f64::from(scenario.cores) * seconds * 1e9;
        let mut engines = vec![EngineOutcome {
            name: "cores".to_owned(),
            rate: (self.ops[0] + self.ops[1]) as f64 / seconds,
            busy: own_ns / cores_ns,
        }];
        engines.extend(scenario.devices.iter().enumerate().map(|(index, device)| {
            let (ops, busy_ns) = (self.ops[DEVICES_FROM + index], self.busy_ns[DEVICES_FROM + index]);
            // What was handed over just before the end is done after it.
            let busy = (busy_ns / (f64::from(device.at_once) * seconds * 1e9)).min(1.0);
            EngineOutcome { name: device.name.clone(), rate: ops as f64 / seconds, busy }
        }));
        let works = scenario.works.iter().zip(&self.works).map(|(work, counted)| counted.outcome(&work.name, seconds));
        Outcome {
            seconds,
            all: self.all.outcome("all", seconds),
            works: works.collect(),
            groups: self.groups,
            engines,
            clients_busy: clients_ns / cores_ns,
            lanes: self.lanes,
            made: self.made,
            answered: self.answered,
            left,
            events,
        }
    }
}
