//! Streams of batches: through the mill against the bare engine, and over two cores against one.

use std::sync::Arc;

use ciphermill::{Mill, RunOptions, Session, SubmitOptions};
use ciphermill_contract::{Batch, Direction, Engine, EngineQueue, OpStatus, OwnedBatch, PreparedKey, Suite};

use super::{Figure, Goal, compare, mill, opened};
use crate::LabError;
use crate::engines::open;
use crate::timing::{Budget, Contestant};
use crate::workload::{Parameters, Workload, failed};

/// The suites of the promise, with the bytes of an operation.
const SUITES: [(&str, usize); 6] = [
    ("aes-128-cbc", 64),
    ("aes-128-cbc", 4096),
    ("3des-cbc", 64),
    ("3des-cbc", 1024),
    ("hmac-sha256", 64),
    ("hmac-sha256", 1024),
];

/// Operations of a batch.
const OPS: usize = 256;

/// Batches in flight, and batches of one timing.
const IN_FLIGHT: usize = 8;
const BATCHES: usize = 32;

fn workload(suite: Suite, len: usize, seed: u64) -> Result<Workload, LabError> {
    let parameters = Parameters { ops: OPS, keys: 64, len_min: len, len_max: len, seed, ..Parameters::default() };
    parameters.workload(suite, Direction::Encrypt, open("reference")?.as_ref())
}

fn pend(batch: &mut OwnedBatch) {
    for op in &mut batch.ops {
        (op.status, op.output_len) = (OpStatus::Pending, 0);
    }
}

/// The engine by itself: the check that it relies on, and the run.
struct Bare {
    queue: Box<dyn EngineQueue>,
    prepared: Vec<Vec<PreparedKey>>,
    workloads: Vec<Workload>,
}

impl Bare {
    fn new(engine: &Arc<dyn Engine>, suite: Suite, len: usize) -> Result<Bare, LabError> {
        let workloads: Vec<Workload> =
            (0..IN_FLIGHT as u64).map(|seed| workload(suite, len, seed)).collect::<Result<_, _>>()?;
        let prepared = workloads.iter().map(|work| work.prepare(engine.as_ref())).collect::<Result<_, _>>()?;
        let queue = engine.queue(Default::default()).map_err(|source| failed(engine.as_ref(), source))?;
        Ok(Bare { queue, prepared, workloads })
    }
}

impl Contestant for Bare {
    fn reset(&mut self) {}

    fn run(&mut self) {
        for n in 0..BATCHES {
            let work = &mut self.workloads[n % IN_FLIGHT];
            work.reset();
            let keys = work.keys_of(&self.prepared[n % IN_FLIGHT]);
            let batch = Batch::new(work.suite, work.direction, &mut work.ops, &mut work.arena);
            let Ok(mut batch) = batch.check() else { unreachable!("workloads are right") };
            let Ok(mut batch) = batch.attach_keys(&keys) else { unreachable!("a key an operation") };
            self.queue.run(&mut batch);
        }
    }
}

/// The same batches through a session, so many in flight.
struct Handed {
    session: Session,
    batches: Vec<OwnedBatch>,
    options: SubmitOptions<'static>,
    failed: usize,
}

impl Handed {
    fn new(mill: &Mill, engine: Option<&'static str>, suite: Suite, len: usize) -> Result<Handed, LabError> {
        let import = |seed: u64| {
            let work = workload(suite, len, seed)?;
            work.owned(mill.keys()).map_err(|source| LabError::Engine { engine: "mill".to_owned(), source })
        };
        let batches = (0..IN_FLIGHT as u64).map(import).collect::<Result<_, _>>()?;
        let run = RunOptions { engine, ..RunOptions::default() };
        let options = SubmitOptions { run, ..SubmitOptions::default() };
        Ok(Handed { session: mill.session(), batches, options, failed: 0 })
    }

    fn submit(&mut self, mut batch: OwnedBatch) {
        pend(&mut batch);
        if let Err(refused) = self.session.submit_with(batch, &self.options) {
            self.failed += 1;
            self.batches.push(refused.0);
        }
    }
}

impl Contestant for Handed {
    fn reset(&mut self) {}

    fn run(&mut self) {
        let mut left = BATCHES - self.batches.len();
        for batch in std::mem::take(&mut self.batches) {
            self.submit(batch);
        }
        while let Some(completed) = self.session.wait() {
            self.failed += usize::from(completed.result.is_err());
            if left == 0 {
                self.batches.push(completed.batch);
            } else {
                left -= 1;
                self.submit(completed.batch);
            }
        }
    }
}

/// An error when anything went wrong while it was timed.
fn all_well(handed: &Handed) -> Result<(), LabError> {
    let done = |batch: &OwnedBatch| batch.ops.iter().all(|op| op.status.is_done());
    if handed.failed == 0 && handed.batches.iter().all(done) {
        return Ok(());
    }
    Err(LabError::Parameters(format!("{} batches failed in the mill", handed.failed)))
}

/// The mill's asynchronous path on one core against its engine called directly.
pub(super) fn against_the_engine(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let engine = open("lanes")?;
    let mut figures = Vec::new();
    for (name, len) in SUITES {
        let Ok(suite) = name.parse::<Suite>() else { unreachable!("names above are suites") };
        // The caller's own core does everything, as the bare engine does.
        let mill = opened(mill()?.workers(0))?;
        let mut bare = Bare::new(&engine, suite, len)?;
        let mut handed = Handed::new(&mill, Some("lanes"), suite, len)?;
        let (bare_ns, mill_ns, spread) = compare(&mut bare, &mut handed, budget);
        all_well(&handed)?;
        let each = |ns: f64| ns / (BATCHES * OPS) as f64;
        let (bare_each, mill_each) = (each(bare_ns.median_ns()), each(mill_ns.median_ns()));
        let of = format!("{name}, {OPS} × {len} B");
        figures.push(Figure {
            name: "share of the bare engine".to_owned(),
            of: of.clone(),
            value: 100.0 * bare_each / mill_each,
            unit: "%",
            goal: Goal::AtLeast(97.0),
            detail: format!("{bare_each:.1} ns an operation by the engine, {mill_each:.1} through the mill"),
            spread,
        });
        figures.push(Figure {
            name: "path of an operation".to_owned(),
            of,
            value: mill_each - bare_each,
            unit: "ns",
            goal: Goal::AtMost(10.0),
            detail: "keys leased, routed, handed over, accounted for".to_owned(),
            spread,
        });
    }
    Ok(figures)
}

/// A stream of batches over two cores against the caller's alone.
pub(super) fn two_cores(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, len) in SUITES {
        let Ok(suite) = name.parse::<Suite>() else { unreachable!("names above are suites") };
        let (one, two) = (opened(mill()?.workers(0))?, opened(mill()?.workers(2))?);
        let mut on_one = Handed::new(&one, Some("lanes"), suite, len)?;
        let mut on_two = Handed::new(&two, Some("lanes"), suite, len)?;
        let (one_ns, two_ns, spread) = compare(&mut on_one, &mut on_two, budget);
        all_well(&on_one)?;
        all_well(&on_two)?;
        let batch_us = one_ns.median_ns() / BATCHES as f64 / 1000.0;
        figures.push(Figure {
            name: "two cores by one".to_owned(),
            of: format!("{name}, {OPS} × {len} B"),
            value: one_ns.median_ns() / two_ns.median_ns(),
            unit: "×",
            goal: Goal::AtLeast(1.8),
            detail: format!("batches of {batch_us:.0} µs, {IN_FLIGHT} in flight"),
            spread,
        });
    }
    Ok(figures)
}
