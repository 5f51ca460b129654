//! What runs a batch: the cores, and devices with their queues. Which one is the router's decision.

use ciphermill_contract::{Cost, EngineKind, EngineKinds};
use ciphermill_router::{BatchTime, Candidate, MANY, Prediction, Request, Times, decide};

use crate::scenario::{Device, DeviceCost, Scenario, Work};

/// The numbers of engines: a core that takes one operation after the other, one whose lanes go side by side, and behind them the devices.
const ALONE: usize = 0;
const LANES: usize = 1;
pub(crate) const DEVICES_FROM: usize = 2;

/// What takes keys that a client hands over: the cores, and devices that are no token.
const TAKES_KEYS: EngineKinds =
    EngineKinds::only(EngineKind::Library).with(EngineKind::Lanes).with(EngineKind::Gpu).with(EngineKind::Service);

/// Requests whose batches are shared, as the service tells them apart: by suite and direction, and here by where their keys are.
#[derive(Debug)]
struct Kind {
    prediction: Prediction,
    candidates: Vec<Candidate>,
    may: EngineKinds,
}

/// Everything that runs batches.
#[derive(Debug)]
pub(crate) struct Engines {
    kinds: Vec<Kind>,
    of_work: Vec<usize>,
    devices: Vec<Queue>,
}

/// A device's queue: when each of its units is free.
#[derive(Debug)]
struct Queue {
    free_at_ns: Vec<u64>,
    latency_ns: f64,
    /// Whether the operations of a batch are spread over the units.
    spreads: bool,
}

/// Where a batch runs, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ran {
    /// The engine's number: below [`DEVICES_FROM`] a core.
    pub(crate) engine: usize,
    /// Nanoseconds from now on.
    pub(crate) ns: u64,
    /// Nanoseconds that units of the device were busy.
    pub(crate) busy_ns: u64,
    /// Operations that are paid for together there.
    pub(crate) step: u16,
}

impl Engines {
    pub(crate) fn new(scenario: &Scenario) -> Engines {
        let mut distinct: Vec<&Work> = Vec::new();
        let mut of_work = Vec::new();
        for work in &scenario.works {
            let same = |other: &&Work| {
                (other.suite, other.direction, other.keys_in) == (work.suite, work.direction, work.keys_in)
            };
            of_work.push(distinct.iter().position(same).unwrap_or_else(|| {
                distinct.push(work);
                distinct.len() - 1
            }));
        }
        let kinds = distinct.into_iter().map(|work| Kind::of(work, &scenario.devices)).collect();
        let queue = |device: &Device| Queue {
            free_at_ns: vec![0; device.at_once as usize],
            latency_ns: device.latency_ns,
            spreads: device.kind == EngineKind::Token,
        };
        Engines { kinds, of_work, devices: scenario.devices.iter().map(queue).collect() }
    }

    /// Kinds of requests.
    pub(crate) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// The kind of a work's requests.
    #[inline]
    pub(crate) fn kind(&self, work: u32) -> usize {
        self.of_work[work as usize]
    }

    /// Runs a batch on the engine that the router chooses; `factor` is how many times as long as predicted it takes. `None` if no engine may
    /// run it, which a scenario that was checked rules out.
    pub(crate) fn run(&mut self, kind: usize, (ops, bytes): (u64, u64), now_ns: u64, factor: f64) -> Option<Ran> {
        let Kind { candidates, may, .. } = &self.kinds[kind];
        let request =
            Request { ops, bytes, input_len_max: bytes / ops.max(1), kinds: *may, pinned: None, deadline_ns: None };
        let now = candidates.iter().map(|candidate| Candidate {
            cost: candidate.cost.in_steps(ops, candidate.step),
            backlog_ns: self.backlog_ns(candidate.engine, now_ns),
            ..*candidate
        });
        let engine = decide(&request, now).ok()?.engine;
        let candidate = candidates.iter().find(|candidate| candidate.engine == engine)?;
        let (cost, step) = (candidate.cost, candidate.step);
        if engine < DEVICES_FROM {
            let ns = cost.in_steps(ops, step).predict_ns(ops, bytes) * factor;
            return Some(Ran { engine, ns: ns.round() as u64, busy_ns: 0, step });
        }
        let queue = &mut self.devices[engine - DEVICES_FROM];
        Some(queue.run(engine, (cost, step), (ops, bytes), now_ns, factor))
    }

    /// How long a batch that is handed over now waits for the engine.
    fn backlog_ns(&self, engine: usize, now_ns: u64) -> f64 {
        let device = engine.checked_sub(DEVICES_FROM).and_then(|device| self.devices.get(device));
        device.map_or(0.0, |queue| queue.first().1.saturating_sub(now_ns) as f64)
    }
}

impl Queue {
    /// The unit that is free first, and when.
    fn first(&self) -> (usize, u64) {
        let units = self.free_at_ns.iter().copied().enumerate();
        units.min_by_key(|(_, free_ns)| *free_ns).unwrap_or((0, 0))
    }

    fn run(
        &mut self,
        engine: usize,
        (cost, step): (Cost, u16),
        (ops, bytes): (u64, u64),
        now_ns: u64,
        factor: f64,
    ) -> Ran {
        // There, on one of the units, and back.
        let there = now_ns + (self.latency_ns / 2.0) as u64;
        let (pieces, ops, bytes) = if self.spreads { (ops, 1, bytes / ops.max(1)) } else { (1, ops, bytes) };
        let each = (cost.in_steps(ops, step).predict_ns(ops, bytes) * factor).round() as u64;
        let mut done = there;
        for _ in 0..pieces {
            let (unit, free) = self.first();
            let end = free.max(there) + each;
            self.free_at_ns[unit] = end;
            done = done.max(end);
        }
        let ns = done + (self.latency_ns / 2.0) as u64 - now_ns;
        Ran { engine, ns, busy_ns: each * pieces, step }
    }
}

impl Kind {
    fn of(work: &Work, devices: &[Device]) -> Kind {
        let candidate = |engine: usize, name: &'static str, kind, cost, step, wakeup_ns| Candidate {
            engine,
            name,
            kind,
            cost,
            wakeup_ns,
            backlog_ns: 0.0,
            step,
            input_len_max: u64::MAX,
            trusted: true,
        };
        let mut candidates = Vec::new();
        if work.keys_in.is_none() {
            let Prediction { few, step, alone, .. } = work.cost;
            candidates.push(candidate(ALONE, "library", EngineKind::Library, alone, 1, 0.0));
            candidates.push(candidate(LANES, "lanes", EngineKind::Lanes, few, step, 0.0));
        }
        let (ops, bytes) = (u64::from(work.ops), u64::from(work.bytes));
        let mut prediction = work.keys_in.is_none().then_some(work.cost);
        for (index, device) in devices.iter().enumerate().filter(|(_, device)| work.allows(device.kind)) {
            let Some(known) = device.cost(work.suite, work.direction) else { continue };
            let name = if device.kind == EngineKind::Token { "token" } else { "gpu" };
            let engine = DEVICES_FROM + index;
            candidates.push(candidate(engine, name, device.kind, known.cost, known.step, device.latency_ns));
            let there = device.prediction(work, known);
            // As a mill predicts: by the engine that is best for many.
            let many_ns = |prediction: &Prediction| prediction.time(MANY * ops, MANY * bytes).ns;
            match &mut prediction {
                Some(best) if many_ns(&there) < many_ns(best) => (best.many, best.many_step) = (there.many, there.step),
                Some(_) => {}
                None => prediction = Some(there),
            }
        }
        let may = work.keys_in.map_or(TAKES_KEYS, EngineKinds::only);
        Kind { prediction: prediction.unwrap_or(work.cost), candidates, may }
    }
}

impl Device {
    /// What batches take on it as the service predicts them. A token's units work side by side, and nothing goes in step there.
    fn prediction(&self, work: &Work, known: &DeviceCost) -> Prediction {
        let cost = known.cost;
        if work.keys_in.is_none() {
            let cost = Cost { batch_ns: cost.batch_ns + self.latency_ns, ..cost };
            return Prediction::new(cost, known.step, cost);
        }
        let units = f64::from(self.at_once);
        let first_ns = cost.op_ns * (1.0 - 1.0 / units);
        Prediction::even(Cost {
            batch_ns: self.latency_ns + cost.batch_ns + first_ns,
            op_ns: cost.op_ns / units,
            byte_ns: cost.byte_ns / units,
        })
    }
}

/// By kinds.
impl Times for Engines {
    #[inline]
    fn time(&self, kind: usize, ops: u64, bytes: u64) -> Option<BatchTime> {
        self.kinds.get(kind).map(|kind| kind.prediction.time(ops, bytes))
    }

    #[inline]
    fn step(&self, kind: usize) -> u16 {
        self.kinds.get(kind).map_or(1, |kind| kind.prediction.step)
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::Direction;

    use super::*;
    use crate::scenario::tests::{rsa, scenario};

    fn device(kind: EngineKind, at_once: u32, op_ns: f64) -> Device {
        let suite = rsa().suite;
        let cost = DeviceCost { suite, direction: Direction::Encrypt, cost: Cost::new(0.0, op_ns, 0.0), step: 1 };
        Device { name: "device".to_owned(), kind, latency_ns: 1000.0, at_once, costs: vec![cost] }
    }

    #[test]
    fn tokens_do_operations_side_by_side_and_in_turns() {
        let mut scenario = scenario(vec![Work { keys_in: Some(EngineKind::Token), ..rsa() }]);
        scenario.devices = vec![device(EngineKind::Token, 2, 500.0)];
        let mut engines = Engines::new(&scenario);
        let ran = engines.run(0, (3, 0), 0, 1.0).expect("a token");
        assert_eq!((ran.engine, ran.ns, ran.busy_ns), (2, 2000, 1500));
        assert_eq!(engines.backlog_ns(2, 600), 400.0, "the unit that had one operation is free first");
        // Until 1000 for the unit, 500 for the operation, and back.
        assert_eq!(engines.run(0, (1, 0), 0, 1.0).expect("a token").ns, 2000);
    }

    #[test]
    fn the_device_with_less_to_do_is_chosen() {
        let mut scenario = scenario(vec![Work { keys_in: Some(EngineKind::Token), ..rsa() }]);
        scenario.devices = vec![device(EngineKind::Token, 1, 500.0), device(EngineKind::Token, 1, 500.0)];
        let mut engines = Engines::new(&scenario);
        let chosen: Vec<usize> = (0..6).filter_map(|_| engines.run(0, (1, 0), 0, 1.0)).map(|ran| ran.engine).collect();
        assert_eq!(chosen, [2, 3, 2, 3, 2, 3]);
    }

    #[test]
    fn beside_a_device_for_many_a_few_go_in_the_steps_of_lanes() {
        let mut scenario = scenario(vec![rsa()]);
        scenario.devices = vec![device(EngineKind::Gpu, 1, 10.0)];
        scenario.devices[0].latency_ns = 1e6;
        let engines = Engines::new(&scenario);
        assert_eq!((engines.step(0), engines.time(0, 8, 0)), (8, Some(BatchTime { ns: 480_000.0, step: 8 })));
        assert_eq!(engines.time(0, 256, 0), Some(BatchTime { ns: 1_002_560.0, step: 1 }));
    }

    #[test]
    fn a_device_that_takes_keys_is_one_of_all_engines() {
        let mut scenario = scenario(vec![rsa()]);
        scenario.devices = vec![device(EngineKind::Gpu, 1, 10.0), device(EngineKind::Token, 1, 1.0)];
        let mut engines = Engines::new(&scenario);
        // One takes 400 µs on a core, eight 480 µs.
        assert_eq!(engines.run(0, (1, 0), 0, 1.0).map(|ran| ran.engine), Some(2));
        let busy = engines.run(0, (100_000, 0), 0, 1.0).expect("the device");
        assert_eq!(busy.engine, 2);
        assert_eq!(engines.run(0, (1, 0), 0, 1.0).map(|ran| ran.engine), Some(ALONE), "it has too much to do");
        assert_eq!(engines.run(0, (8, 0), 0, 1.0).map(|ran| (ran.engine, ran.ns)), Some((LANES, 480_000)));
    }
}
