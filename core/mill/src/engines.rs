//! The engines of a mill: what is known of each, and which of them run a suite. Engines join and leave while it is open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Cost, Direction, Engine, EngineKinds, Suite};
use ciphermill_router::{Candidate, Correction, SHAPE_CLASSES, SIZE_CLASSES, Sample};

use crate::costs::Costs;
use crate::health::Health;
use crate::isolate::Drivers;
use crate::trust::Trust;

/// An engine within a mill. It outlives its removal for as long as batches run on it.
pub(crate) struct EngineSlot {
    /// Given once; an engine that joins later never gets the number of one that left, so no key prepared for one is
    /// handed to the other.
    pub(crate) number: u16,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) trust: Trust,
    pub(crate) health: Health,
    pub(crate) learned: Learned,
    /// Threads that run it, when it is of a kind that can fail.
    pub(crate) drivers: Drivers,
}

impl EngineSlot {
    pub(crate) fn new(number: u16, engine: Arc<dyn Engine>) -> Arc<EngineSlot> {
        let info = engine.info();
        tracing::info!(engine = info.name, version = %info.version, kernels = ?info.kernels, "engine joins");
        let drivers = Drivers::new(info.parallelism);
        let (trust, health, learned) = (Trust::new(), Health::new(), Learned::new());
        Arc::new(EngineSlot { number, engine, trust, health, learned, drivers })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.engine.info().name
    }

    /// Whether it is run on a thread of its own, from copies.
    pub(crate) fn is_isolated(&self) -> bool {
        self.engine.info().kind.can_fail()
    }
}

/// The engines at one moment, and for each suite and direction those that run it.
pub(crate) struct EngineSet {
    pub(crate) slots: Vec<Arc<EngineSlot>>,
    /// By `2 · ordinal + direction`; `engine` is an index into `slots`.
    plans: Vec<Vec<Candidate>>,
    /// For each plan whether several engines may work on one batch at the same time.
    sharing: Vec<bool>,
}

impl EngineSet {
    /// The set of these engines, with what `costs` knows of them.
    pub(crate) fn new(slots: Vec<Arc<EngineSlot>>, kinds: EngineKinds, costs: &Costs) -> EngineSet {
        let mut plans = vec![Vec::new(); 2 * SUITE_ORDINALS_MAX];
        for (index, slot) in slots.iter().enumerate() {
            let info = slot.engine.info();
            if !kinds.contains(info.kind) {
                continue;
            }
            for capability in slot.engine.capabilities() {
                for (suite, direction) in pairs(capability.suites) {
                    let plan = &mut plans[place(suite, direction)];
                    let known = plan.iter().any(|candidate: &Candidate| candidate.engine == index);
                    if known || !capability.covers(suite, direction) {
                        continue;
                    }
                    let measured = costs.find(info, suite, direction);
                    if let Some(measured) = measured {
                        slot.learned.know(place(suite, direction), &measured.factors);
                    }
                    plan.push(Candidate {
                        engine: index,
                        name: info.name,
                        kind: info.kind,
                        cost: measured.map_or(capability.prior, |measured| measured.cost),
                        wakeup_ns: if slot.is_isolated() { costs.wakeup_ns() } else { 0.0 },
                        backlog_ns: 0.0,
                        input_len_max: capability.input_len_max as u64,
                        trusted: true,
                    });
                }
            }
        }
        // Engines on this processor would only take its cores from each other.
        let shares = |plan: &Vec<Candidate>| plan.len() > 1 && plan.iter().any(|candidate| candidate.kind.can_fail());
        let sharing = plans.iter().map(shares).collect();
        EngineSet { slots, plans, sharing }
    }

    pub(crate) fn plan(&self, suite: Suite, direction: Direction) -> &[Candidate] {
        &self.plans[place(suite, direction)]
    }

    /// Whether batches of this suite and direction may be worked on by several engines at the same time.
    #[inline]
    pub(crate) fn may_share(&self, suite: Suite, direction: Direction) -> bool {
        self.sharing[place(suite, direction)]
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name() == name)
    }
}

fn pairs(suites: &'static [Suite]) -> impl Iterator<Item = (Suite, Direction)> {
    suites.iter().flat_map(|suite| [(*suite, Direction::Encrypt), (*suite, Direction::Decrypt)])
}

/// Where a suite and direction stand in tables that are indexed by both.
#[inline]
pub(crate) fn place(suite: Suite, direction: Direction) -> usize {
    2 * suite.ordinal() + direction as usize
}

/// How far an engine is off its figures, for each suite, direction and class of shapes.
pub(crate) struct Learned {
    corrections: Box<[OnceLock<Box<[AtomicU64; SHAPE_CLASSES]>>]>,
    /// What was measured before: how a class of sizes differs from the cost's straight line.
    factors: Box<[OnceLock<Box<[f64; SIZE_CLASSES]>>]>,
}

impl Learned {
    fn new() -> Learned {
        let places = 0..2 * SUITE_ORDINALS_MAX;
        Learned {
            corrections: places.clone().map(|_| OnceLock::new()).collect(),
            factors: places.map(|_| OnceLock::new()).collect(),
        }
    }

    /// Takes in how classes of sizes differ from the straight line; the mill's costs never change, so once is enough.
    fn know(&self, place: usize, factors: &[f64; SIZE_CLASSES]) {
        self.factors[place].get_or_init(|| Box::new(*factors));
    }

    /// `cost`, that of a candidate, as it was measured for a class of sizes.
    #[inline]
    pub(crate) fn of_class(&self, cost: Cost, place: usize, class: usize) -> Cost {
        self.factors[place].get().map_or(cost, |factors| cost.scaled(factors[class % SIZE_CLASSES]))
    }

    #[inline]
    pub(crate) fn correction(&self, place: usize, class: usize) -> Correction {
        let known = self.corrections[place].get();
        known.map_or_else(Correction::default, |all| Correction::from_bits(all[class].load(Ordering::Relaxed)))
    }

    /// Threads that measure at the same moment may lose a measurement to each other; there are more.
    pub(crate) fn observe(&self, place: usize, class: usize, predicted_ns: f64, actual_ns: f64, sample: Sample) {
        let all = self.corrections[place].get_or_init(|| Box::new([const { AtomicU64::new(0) }; SHAPE_CLASSES]));
        let before = Correction::from_bits(all[class].load(Ordering::Relaxed));
        let after = before.observe(predicted_ns, actual_ns, sample);
        all[class].store(after.to_bits(), Ordering::Relaxed);
    }
}
