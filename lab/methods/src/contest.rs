//! A contest: engines with their own workloads, verified against the reference, then timed in turns.

use std::sync::Arc;

use ciphermill_contract::{Batch, CheckedBatch, Engine, EngineQueue, OpStatus, PreparedKey};

use crate::LabError;
use crate::rules::{cycles, ghz};
use crate::timing::{Budget, Contestant, Samples, interleave};
use crate::workload::{Workload, failed};

/// Batches smaller than this are run again and again within one timing, so that reading the clock does not count …
const TIMED_OPS_MIN: usize = 1024;

/// … unless they have as many bytes as this, which take long enough by themselves.
const TIMED_BYTES_MIN: u64 = 256 * 1024;

/// An engine and the workload that it is timed on. Its answers have been found right.
pub(crate) struct Entrant {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) workload: Workload,
    prepared: Vec<PreparedKey>,
}

/// The reference's answers to a workload.
///
/// # Errors
/// [`LabError::Engine`] when it cannot run it.
pub(crate) fn expected(workload: &Workload, reference: &dyn Engine) -> Result<Workload, LabError> {
    let mut expected = workload.clone();
    let prepared = expected.prepare(reference)?;
    expected.run_once(reference, &prepared)?;
    Ok(expected)
}

impl Entrant {
    /// Runs the workload once and compares every answer with `expected`.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] for the first that differs; [`LabError::Engine`] when the engine refuses.
    pub(crate) fn verified(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        expected: &Workload,
    ) -> Result<Entrant, LabError> {
        let prepared = workload.prepare(engine.as_ref())?;
        let mut own = workload.clone();
        own.run_once(engine.as_ref(), &prepared)?;
        let mut entrant = Entrant { engine: Arc::clone(engine), workload: own, prepared };
        entrant.agrees(expected)?;
        entrant.workload.reset();
        Ok(entrant)
    }

    /// Compares what the last run answered with `expected`.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] for the first answer that differs.
    pub(crate) fn agrees(&self, expected: &Workload) -> Result<(), LabError> {
        match self.workload.first_difference(expected) {
            None => Ok(()),
            Some(op) => Err(LabError::WrongResult {
                engine: self.engine.info().name.to_owned(),
                suite: self.workload.suite,
                direction: self.workload.direction,
                op,
            }),
        }
    }

    /// How often a timing runs the workload.
    pub(crate) fn repeats(&self) -> usize {
        let by_bytes = TIMED_BYTES_MIN.div_ceil(self.workload.bytes.max(1));
        TIMED_OPS_MIN.div_ceil(self.workload.ops.len().max(1)).min(usize::try_from(by_bytes).unwrap_or(usize::MAX))
    }
}

/// What was measured of an entrant.
pub(crate) struct Timed {
    pub(crate) samples: Samples,
    /// The share of lane steps that ran empty, where the engine counts them.
    pub(crate) idle: Option<f64>,
    /// Cycles of a run; [`crate::rules::cycles_by`] says how they were found.
    pub(crate) cycles: f64,
}

/// One engine with its checked batch, ready to be run again and again.
struct Runner<'a> {
    queue: Box<dyn EngineQueue>,
    batch: CheckedBatch<'a>,
    repeats: usize,
}

impl Contestant for Runner<'_> {
    fn reset(&mut self) {
        self.batch.replace_status(|_| true, OpStatus::Pending);
    }

    fn run(&mut self) {
        self.queue.run(&mut self.batch);
        for _ in 1..self.repeats {
            self.reset();
            self.queue.run(&mut self.batch);
        }
    }
}

/// Times the entrants in turns.
///
/// # Errors
/// [`LabError::Engine`] when an engine has no queue or a batch does not pass its check.
pub(crate) fn time(entrants: &mut [Entrant], budget: Budget) -> Result<Vec<Timed>, LabError> {
    let (mut queues, mut checked) = (Vec::new(), Vec::new());
    for entrant in entrants.iter_mut() {
        let repeats = entrant.repeats();
        let Entrant { engine, workload, prepared } = entrant;
        let refused = |source| failed(engine.as_ref(), source);
        queues.push(engine.queue(Default::default()).map_err(refused)?);
        let keys = workload.keys_of(prepared);
        let batch = Batch::new(workload.suite, workload.direction, &mut workload.ops, &mut workload.arena);
        checked.push((batch.check().map_err(refused)?, keys, repeats, engine));
    }
    let mut runners = Vec::new();
    for (queue, (batch, keys, repeats, engine)) in queues.into_iter().zip(&mut checked) {
        let batch = batch.attach_keys(keys).map_err(|source| failed(engine.as_ref(), source))?;
        runners.push(Runner { queue, batch, repeats: *repeats });
    }
    let mut contestants: Vec<&mut dyn Contestant> =
        runners.iter_mut().map(|runner| runner as &mut dyn Contestant).collect();
    let samples = interleave(&mut contestants, budget);
    let clock_ghz = ghz();
    let timed = |(samples, runner): (Samples, &mut Runner<'_>)| {
        let idle = runner.queue.occupancy().and_then(|occupancy| occupancy.idle_share());
        let cycles = cycles(samples.median_ns(), clock_ghz, || {
            runner.reset();
            runner.run();
        });
        Timed { samples, idle, cycles }
    };
    Ok(samples.into_iter().zip(&mut runners).map(timed).collect())
}
