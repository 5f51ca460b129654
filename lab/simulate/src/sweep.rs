//! Where a scenario saturates, and how many cores it needs.
//!
//! The knee is the highest load at which the 99th percentile stays below so many times that of a machine without load, and at which what is
//! asked for is answered.

use ciphermill_router::Waiting;
use ciphermill_router::queue::shared_ops;

use crate::outcome::Outcome;
use crate::run::run;
use crate::scenario::{Arrivals, CORES_MAX, SECONDS_MAX, Scenario};
use crate::{SimulationError, rule};

/// The load at which the unloaded 99th percentile is found, as a share of the estimated capacity.
const UNLOADED: f64 = 0.02;

/// Loads that are tried, as shares of the estimated capacity.
const LOADS: [f64; 12] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2];

/// By how much the highest of these is raised, and how often, as long as it is below the knee: devices may help.
const RAISED: f64 = 1.3;
const RAISES: i32 = 8;

/// Halvings between the last load that is below the knee and the first beyond it.
const HALVINGS: usize = 4;

/// Requests of a step at most: a step's time is shortened to that.
const REQUESTS_MAX: f64 = 400_000.0;

/// And at least: a step's time is lengthened to that, since a 99th percentile of few is chance.
const REQUESTS_MIN: f64 = 5_000.0;

/// From this share of its time on an engine is what saturates.
const SATURATED: f64 = 0.95;

/// The least share of what is asked for that is answered below the knee.
const ANSWERED: f64 = 0.97;

/// One simulation of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Cores.
    pub cores: u32,
    /// Requests a second that were asked for.
    pub load: f64,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether the 99th percentile is below the bound.
    pub is_below: bool,
}

/// Where a machine saturates.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// The 99th percentile without load, in nanoseconds.
    pub unloaded_p99_ns: f64,
    /// Every load, ascending.
    pub steps: Vec<Step>,
    /// The highest load below the bound, in requests a second; `None` if all are beyond it.
    pub load: Option<f64>,
    /// What is saturated at the first load beyond it: an engine's name and its busy share; `None` if all loads are below the bound.
    pub saturated: Option<(String, f64)>,
}

/// How many cores a load needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores {
    /// The 99th percentile without load, in nanoseconds.
    pub unloaded_p99_ns: f64,
    /// Every number of cores that was tried, ascending.
    pub steps: Vec<Step>,
    /// The least that keeps the 99th percentile below the bound; `None` if 256 do not.
    pub needed: Option<u32>,
}

impl Step {
    /// The engine that has the least time left, with its busy share.
    pub fn busiest(&self) -> Option<(&str, f64)> {
        let clients = self.outcome.clients_busy;
        let busy = self.outcome.engines.iter().enumerate().map(|(index, engine)| {
            (engine.name.as_str(), if index == 0 { engine.busy + clients } else { engine.busy })
        });
        busy.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether that one is saturated.
    pub fn is_saturated(&self) -> bool {
        self.busiest().is_some_and(|(_, busy)| busy > SATURATED)
    }
}

/// The knee of a scenario whose clients ask whether answers come or not: its rates are scaled. `factor` is how many times as long as without
/// load the 99th percentile may be.
///
/// # Errors
/// [`SimulationError::Rule`] for a scenario that breaks one, or whose clients wait for answers.
pub fn knee(scenario: &Scenario, factor: f64, mut goes_on: impl FnMut(f64) -> bool) -> Result<Knee, SimulationError> {
    let capacity = capacity(scenario)?;
    let unloaded_p99_ns = step(scenario, UNLOADED * capacity, f64::INFINITY)?.outcome.all.latency.p99_ns;
    let bound_ns = unloaded_p99_ns * factor;
    let mut steps = Vec::new();
    let (mut below, mut beyond) = (None, None);
    let raised = (1..=RAISES).map(|times| LOADS[LOADS.len() - 1] * RAISED.powi(times));
    for (index, share) in LOADS.into_iter().chain(raised).enumerate() {
        let is_enough = index >= LOADS.len() && beyond.is_some();
        if is_enough || !goes_on(share * capacity) {
            break;
        }
        let step = step(scenario, share * capacity, bound_ns)?;
        match (step.is_below, beyond) {
            (true, None) => below = Some(step.load),
            (false, None) => beyond = Some(step.load),
            _ => {}
        }
        steps.push(step);
        // One more shows what is beyond.
        if beyond.is_some_and(|beyond| share * capacity > beyond) {
            break;
        }
    }
    for _ in 0..HALVINGS {
        let (Some(low), Some(high)) = (below, beyond) else { break };
        let middle = f64::midpoint(low, high);
        if !goes_on(middle) {
            break;
        }
        let step = step(scenario, middle, bound_ns)?;
        if step.is_below {
            below = Some(middle);
        } else {
            beyond = Some(middle);
        }
        steps.push(step);
    }
    steps.sort_by(|a, b| a.load.total_cmp(&b.load));
    // Just beyond the knee the queue is long and nothing is full yet: the last step tells what it is that fills.
    let saturated = beyond.and(steps.last()).and_then(Step::busiest).map(|(name, busy)| (name.to_owned(), busy));
    Ok(Knee { unloaded_p99_ns, steps, load: below, saturated })
}

/// The least number of cores for a scenario whose clients ask whether answers come or not.
///
/// # Errors
/// As [`knee`].
pub fn cores_needed(
    scenario: &Scenario,
    factor: f64,
    mut goes_on: impl FnMut(u32) -> bool,
) -> Result<Cores, SimulationError> {
    let rate = open_rate(scenario)?;
    let most = Scenario { cores: CORES_MAX / scenario.nodes * scenario.nodes, ..scenario.clone() };
    let load = UNLOADED * rate.min(capacity(&most)?);
    let unloaded_p99_ns = step(&most, load, f64::INFINITY)?.outcome.all.latency.p99_ns;
    let bound_ns = unloaded_p99_ns * factor;
    let (mut low, mut high) = (0, most.cores / scenario.nodes);
    let mut needed = None;
    let mut steps = Vec::new();
    // Doubled until it is enough, and halved between.
    let mut of_node = 1;
    while of_node <= most.cores / scenario.nodes && goes_on(of_node * scenario.nodes) {
        let cores = of_node * scenario.nodes;
        let step = step(&Scenario { cores, ..scenario.clone() }, rate, bound_ns)?;
        let enough = step.is_below;
        steps.push(step);
        if enough {
            (high, needed) = (of_node, Some(cores));
        } else {
            low = of_node;
        }
        of_node = match needed {
            None if 2 * of_node > high && of_node < high => high,
            None => 2 * of_node,
            Some(_) if high - low <= 1 => break,
            Some(_) => u32::midpoint(low, high),
        };
    }
    steps.sort_by_key(|step| step.cores);
    Ok(Cores { unloaded_p99_ns, steps, needed })
}

fn open_rate(scenario: &Scenario) -> Result<f64, SimulationError> {
    scenario
        .rate()
        .ok_or_else(|| rule("arrivals", "a sweep needs clients that ask at a rate, not when they are answered"))
}

/// A simulation at so many requests a second in all.
fn step(scenario: &Scenario, load: f64, bound_ns: f64) -> Result<Step, SimulationError> {
    let factor = load / open_rate(scenario)?;
    let mut scaled = scenario.clone();
    for group in &mut scaled.clients {
        match &mut group.arrivals {
            Arrivals::Closed { .. } => {}
            Arrivals::Poisson { rate } | Arrivals::Bursts { rate, .. } => *rate *= factor,
            Arrivals::Trace(asks) => asks.iter_mut().for_each(|ask| ask.at_ns = (ask.at_ns as f64 / factor) as u64),
        }
    }
    let seconds = scaled.seconds.min(REQUESTS_MAX / load).max(REQUESTS_MIN / load);
    scaled.seconds = seconds.min(SECONDS_MAX);
    let outcome = run(&scaled)?;
    let answered = outcome.all.rate >= ANSWERED * outcome.all.offered;
    let is_below = answered && outcome.all.latency.p99_ns < bound_ns;
    Ok(Step { cores: scenario.cores, load, outcome, is_below })
}

/// Requests a second that the scenario's engines should bear with full lanes: where a sweep looks for the knee.
fn capacity(scenario: &Scenario) -> Result<f64, SimulationError> {
    scenario.check()?;
    let all = open_rate(scenario)?;
    let (mut core_ns, mut device_ns) = (0.0, 0.0);
    for group in &scenario.clients {
        let share = group.arrivals.rate().unwrap_or_default() / all;
        let mut add = |work: usize, share: f64| {
            let work = &scenario.works[work];
            let o = &scenario.overheads;
            let (ops, bytes) = (f64::from(work.ops), f64::from(work.bytes));
            core_ns += share * (o.request_ns + o.op_ns * ops + o.byte_ns * bytes);
            if work.keys_in.is_some() {
                let devices = scenario.devices.iter().filter(|device| Some(device.kind) == work.keys_in);
                let rates = devices.filter_map(|device| {
                    let cost = device.cost(work.suite, work.direction)?;
                    Some(f64::from(device.at_once) / cost.cost.predict_ns(work.ops.into(), work.bytes.into()))
                });
                device_ns += share / rates.sum::<f64>();
            } else {
                // As many as share a batch.
                let request = Waiting { kind: 0, variant: 0, ops: work.ops, bytes: work.bytes, slow: false };
                let many = if request.is_small() { (shared_ops(work.cost.step) / work.ops).max(1) } else { 1 };
                let (ops, bytes) = (u64::from(many * work.ops), u64::from(many * work.bytes));
                core_ns += share * work.cost.time(ops, bytes).ns / f64::from(many);
            }
        };
        match &group.arrivals {
            Arrivals::Trace(asks) => asks.iter().for_each(|ask| add(ask.work, share / asks.len() as f64)),
            _ => {
                let sum: f64 = group.mix.iter().map(|(_, share)| share).sum();
                group.mix.iter().for_each(|(work, part)| add(*work, share * part / sum));
            }
        }
    }
    let cores = f64::from(scenario.cores) * 1e9 / core_ns.max(1.0);
    let devices = if device_ns > 0.0 { 1e9 / device_ns } else { f64::INFINITY };
    Ok(cores.min(devices))
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::{Cost, EngineKind};
    use ciphermill_router::Prediction;

    use super::*;
    use crate::scenario::tests::{rsa, scenario};
    use crate::scenario::{Device, DeviceCost, Work};

    /// Requests of 100 µs that share no batch, at 35,000 a second.
    fn lone(cores: u32) -> Scenario {
        let cost = Prediction::even(Cost::new(0.0, SERVICE_NS, 0.0));
        let mut scenario = scenario(vec![Work { bytes: 20_000, cost, ..rsa() }]);
        (scenario.clients[0].count, scenario.cores, scenario.seconds) = (50, cores, 1.0);
        scenario.clients[0].arrivals = Arrivals::Poisson { rate: 35_000.0 };
        scenario
    }

    const SERVICE_NS: f64 = 100_000.0;

    #[test]
    fn a_knee_lies_below_what_the_cores_can_do() {
        let knee = knee(&lone(4), 5.0, |_| true).expect("sound");
        assert!((knee.unloaded_p99_ns / SERVICE_NS - 1.0).abs() < 0.5, "{}", knee.unloaded_p99_ns);
        let load = knee.load.expect("a knee");
        assert!((0.7..1.0).contains(&(load / 40_000.0)), "{load}");
        assert_eq!(knee.saturated.map(|(name, busy)| (name, busy > 0.95)), Some(("cores".to_owned(), true)));
        assert!(knee.steps.is_sorted_by(|a, b| a.load <= b.load));
        let (below, beyond): (Vec<_>, Vec<_>) = knee.steps.iter().partition(|step| step.load <= load);
        assert!(below.iter().all(|step| step.is_below) && beyond.iter().all(|step| !step.is_below));
    }

    #[test]
    fn a_device_that_is_full_is_named() {
        let suite = rsa().suite;
        let cost = DeviceCost { suite, direction: rsa().direction, cost: Cost::new(0.0, 500_000.0, 0.0), step: 1 };
        let mut scenario = scenario(vec![Work { keys_in: Some(EngineKind::Token), ..rsa() }]);
        let (name, kind) = ("hsm 1".to_owned(), EngineKind::Token);
        scenario.devices = vec![Device { name, kind, latency_ns: 1e6, at_once: 1, costs: vec![cost] }];
        (scenario.clients[0].count, scenario.cores, scenario.seconds) = (100, 8, 20.0);
        scenario.clients[0].arrivals = Arrivals::Poisson { rate: 1000.0 };
        let knee = knee(&scenario, 5.0, |_| true).expect("sound");
        assert!((1000.0..2000.0).contains(&knee.load.expect("a knee")), "{:?}", knee.load);
        assert_eq!(knee.saturated.map(|(name, _)| name), Some("hsm 1".to_owned()));
    }

    #[test]
    fn a_load_needs_as_many_cores_as_its_work_and_some_more() {
        let found = cores_needed(&lone(1), 5.0, |_| true).expect("sound");
        let needed = found.needed.expect("a number");
        assert!((4..=6).contains(&needed), "{needed}");
        for step in &found.steps {
            assert_eq!(step.is_below, step.cores >= needed, "{} cores", step.cores);
        }
        assert!(found.steps.iter().any(|step| step.cores == needed - 1), "one core less was tried");
        let much = |scenario: &mut Scenario| scenario.clients[0].arrivals = Arrivals::Poisson { rate: 4e6 };
        let mut scenario = lone(1);
        much(&mut scenario);
        assert_eq!(cores_needed(&scenario, 5.0, |_| true).expect("sound").needed, None);
    }

    #[test]
    fn clients_that_wait_for_answers_have_no_load_to_change() {
        let closed = scenario(vec![rsa()]);
        let said = knee(&closed, 5.0, |_| true).map(|_| ()).expect_err("no").to_string();
        assert!(said.contains("at a rate"), "{said}");
        assert!(cores_needed(&closed, 5.0, |_| true).is_err());
    }

    #[test]
    fn a_sweep_ends_when_it_is_told_to() {
        let mut asked = 0;
        let knee = knee(&lone(4), 5.0, |_| {
            asked += 1;
            asked <= 2
        });
        assert_eq!(knee.expect("sound").steps.len(), 2);
    }
}
