//! Streams of batches: through the mill against the bare engine, and over two cores against one.

use std::sync::Arc;

use ciphermill::{Mill, RunOptions, Session, SubmitOptions};
use ciphermill_contract::{Batch, Direction, Engine, EngineQueue, OpStatus, OwnedBatch, PreparedKey, Suite};

use super::{Figure, Goal, compare, mill, mill_error, opened};
use crate::LabError;
use crate::contest::expected;
use crate::engines::{open, suite};
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

/// A stream of batches of one suite, all of the same shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) suite: Suite,
    /// Bytes of an operation.
    pub(crate) len: usize,
    /// Operations of a batch.
    pub(crate) ops: usize,
    /// Batches in flight.
    pub(crate) in_flight: usize,
    /// Batches of one timing.
    pub(crate) batches: usize,
}

impl Stream {
    /// The stream of the promises.
    fn of(suite: Suite, len: usize) -> Stream {
        Stream { suite, len, ops: OPS, in_flight: IN_FLIGHT, batches: BATCHES }
    }

    /// Operations of one timing.
    pub(crate) fn timed_ops(&self) -> usize {
        self.ops * self.batches
    }

    /// The batches in flight, pending, as the reference's answers.
    pub(crate) fn workloads(&self, reference: &dyn Engine) -> Result<Vec<Workload>, LabError> {
        let (keys, len_min, len_max) = (self.ops.min(64), self.len, self.len);
        let parameters = Parameters { ops: self.ops, keys, len_min, len_max, ..Parameters::default() };
        let of = |seed| Parameters { seed, ..parameters.clone() }.workload(self.suite, Direction::Encrypt, reference);
        (0..self.in_flight as u64).map(of).collect()
    }
}

pub(crate) fn pend(batch: &mut OwnedBatch) {
    for op in &mut batch.ops {
        (op.status, op.output_len) = (OpStatus::Pending, 0);
    }
}

/// Compares what the mill answered to a batch with the reference's answers.
///
/// # Errors
/// [`LabError::WrongResult`] for the first that differs.
pub(crate) fn agrees(batch: &OwnedBatch, expected: &Workload) -> Result<(), LabError> {
    let (engine, suite, direction) = ("mill".to_owned(), batch.suite, batch.direction);
    match expected.first_difference_in(&batch.ops, batch.arena.bytes()) {
        None => Ok(()),
        Some(op) => Err(LabError::WrongResult { engine, suite, direction, op }),
    }
}

/// The engine by itself: the check that it relies on, and the run.
pub(crate) struct Bare {
    queue: Box<dyn EngineQueue>,
    prepared: Vec<Vec<PreparedKey>>,
    pub(crate) workloads: Vec<Workload>,
    batches: usize,
    name: &'static str,
}

impl Bare {
    /// An engine that runs so many `batches` in one timing, the workloads in turns.
    ///
    /// # Errors
    /// [`LabError::Engine`] when it refuses a key or has no queue.
    pub(crate) fn new(engine: &Arc<dyn Engine>, workloads: Vec<Workload>, batches: usize) -> Result<Bare, LabError> {
        let prepared = workloads.iter().map(|work| work.prepare(engine.as_ref())).collect::<Result<_, _>>()?;
        let queue = engine.queue(Default::default()).map_err(|source| failed(engine.as_ref(), source))?;
        Ok(Bare { queue, prepared, workloads, batches, name: engine.info().name })
    }

    /// Runs workload `n`.
    fn run_one(&mut self, n: usize) {
        let work = &mut self.workloads[n];
        work.reset();
        let keys = work.keys_of(&self.prepared[n]);
        let batch = Batch::new(work.suite, work.direction, &mut work.ops, &mut work.arena);
        let Ok(mut batch) = batch.check() else { unreachable!("workloads are right") };
        let Ok(mut batch) = batch.attach_keys(&keys) else { unreachable!("a key an operation") };
        self.queue.run(&mut batch);
    }

    /// Runs every workload once.
    pub(crate) fn run_each(&mut self) {
        (0..self.workloads.len()).for_each(|n| self.run_one(n));
    }

    /// Compares what the last runs answered with the reference's answers to the same workloads.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] for the first that differs.
    pub(crate) fn agrees(&self, expected: &[Workload]) -> Result<(), LabError> {
        for (own, expected) in self.workloads.iter().zip(expected) {
            if let Some(op) = own.first_difference(expected) {
                let (suite, direction) = (own.suite, own.direction);
                return Err(LabError::WrongResult { engine: self.name.to_owned(), suite, direction, op });
            }
        }
        Ok(())
    }
}

impl Contestant for Bare {
    fn reset(&mut self) {}

    fn run(&mut self) {
        for n in 0..self.batches {
            self.run_one(n % self.workloads.len());
        }
    }
}

/// The same batches through a session, so many in flight.
pub(crate) struct Handed {
    session: Session,
    /// Those that are not in flight; the first operation's cookie is the place of the workload.
    batches: Vec<OwnedBatch>,
    total: usize,
    options: SubmitOptions<'static>,
    failed: usize,
}

impl Handed {
    /// The workloads as batches of a session of `mill`.
    ///
    /// # Errors
    /// [`LabError::Engine`] when the mill does not take the keys.
    pub(crate) fn new(
        mill: &Mill,
        engine: Option<&'static str>,
        workloads: &[Workload],
        total: usize,
    ) -> Result<Handed, LabError> {
        let import = |(place, work): (usize, &Workload)| {
            let mut owned = work.owned(mill.keys())?;
            owned.ops.iter_mut().for_each(|op| op.cookie = place as u64);
            Ok(owned)
        };
        let batches = workloads.iter().enumerate().map(import).collect::<ciphermill_contract::Result<_>>();
        let batches = batches.map_err(mill_error)?;
        let run = RunOptions { engine, ..RunOptions::default() };
        let options = SubmitOptions { run, ..SubmitOptions::default() };
        Ok(Handed { session: mill.session(), batches, total, options, failed: 0 })
    }

    fn submit(&mut self, mut batch: OwnedBatch) {
        pend(&mut batch);
        if let Err(refused) = self.session.submit_with(batch, &self.options) {
            self.failed += 1;
            self.batches.push(refused.0);
        }
    }

    /// Compares what the last runs answered with the reference's answers.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] for the first that differs; [`LabError::Parameters`] when a batch as such failed.
    pub(crate) fn agrees(&self, expected: &[Workload]) -> Result<(), LabError> {
        if self.failed > 0 || self.batches.len() != expected.len() {
            return Err(LabError::Parameters(format!("{} batches failed in the mill", self.failed)));
        }
        let place = |batch: &OwnedBatch| batch.ops.first().map_or(0, |op| op.cookie as usize);
        self.batches.iter().try_for_each(|batch| agrees(batch, &expected[place(batch)]))
    }
}

impl Contestant for Handed {
    fn reset(&mut self) {}

    fn run(&mut self) {
        let mut left = self.total.saturating_sub(self.batches.len());
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

/// The workloads of a stream, and the reference's answers to them.
pub(crate) fn answered(stream: &Stream) -> Result<(Vec<Workload>, Vec<Workload>), LabError> {
    let reference = open("reference")?;
    let workloads = stream.workloads(reference.as_ref())?;
    let answers = workloads.iter().map(|work| expected(work, reference.as_ref())).collect::<Result<_, _>>()?;
    Ok((workloads, answers))
}

/// The mill's asynchronous path on one core against its engine called directly.
pub(super) fn against_the_engine(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let engine = open("lanes")?;
    let mut figures = Vec::new();
    for (name, len) in SUITES {
        let suite = suite(name);
        // The caller's own core does everything, as the bare engine does.
        let mill = opened(mill()?.workers(0))?;
        let stream = Stream::of(suite, len);
        let (workloads, answers) = answered(&stream)?;
        let mut handed = Handed::new(&mill, Some("lanes"), &workloads, stream.batches)?;
        let mut bare = Bare::new(&engine, workloads, stream.batches)?;
        let (bare_ns, mill_ns) = compare(&mut bare, &mut handed, budget);
        let share = bare_ns.ratio(&mill_ns).scaled(100.0);
        bare.agrees(&answers)?;
        handed.agrees(&answers)?;
        let each = |ns: f64| ns / (BATCHES * OPS) as f64;
        let (bare_each, mill_each) = (each(bare_ns.median_ns()), each(mill_ns.median_ns()));
        let of = format!("{name}, {OPS} × {len} B");
        figures.push(Figure {
            name: "share of the bare engine".to_owned(),
            of: of.clone(),
            value: share.value,
            unit: "%",
            goal: Goal::AtLeast(97.0),
            detail: format!("{bare_each:.1} ns an operation by the engine, {mill_each:.1} through the mill"),
            spread: share.spread(),
            interval: Some(share.interval),
        });
        figures.push(Figure {
            name: "path of an operation".to_owned(),
            of,
            value: mill_each - bare_each,
            unit: "ns",
            goal: Goal::AtMost(10.0),
            detail: "keys leased, routed, handed over, accounted for".to_owned(),
            spread: bare_ns.spread().max(mill_ns.spread()),
            interval: None,
        });
    }
    Ok(figures)
}

/// A stream of batches over two cores against the caller's alone.
pub(super) fn two_cores(budget: Budget) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (name, len) in SUITES {
        let suite = suite(name);
        let (one, two) = (opened(mill()?.workers(0))?, opened(mill()?.workers(2))?);
        let stream = Stream::of(suite, len);
        let (workloads, answers) = answered(&stream)?;
        let mut on_one = Handed::new(&one, Some("lanes"), &workloads, stream.batches)?;
        let mut on_two = Handed::new(&two, Some("lanes"), &workloads, stream.batches)?;
        let (one_ns, two_ns) = compare(&mut on_one, &mut on_two, budget);
        let ratio = one_ns.ratio(&two_ns);
        on_one.agrees(&answers)?;
        on_two.agrees(&answers)?;
        let batch_us = one_ns.median_ns() / BATCHES as f64 / 1000.0;
        figures.push(Figure {
            name: "two cores by one".to_owned(),
            of: format!("{name}, {OPS} × {len} B"),
            value: ratio.value,
            unit: "×",
            goal: Goal::AtLeast(1.8),
            detail: format!("batches of {batch_us:.0} µs, {IN_FLIGHT} in flight"),
            spread: ratio.spread(),
            interval: Some(ratio.interval),
        });
    }
    Ok(figures)
}
