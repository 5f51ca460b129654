//! A contest: engines with their own workloads, verified against the reference, then timed in turns.

use std::sync::Arc;
use std::time::Instant;

use ciphermill_contract::{Batch, CheckedBatch, Direction, Engine, EngineQueue, OpStatus, PreparedKey, Suite};
use ciphermill_peers::native;
use ciphermill_peers::native::{NativeLoop, Task};

use crate::LabError;
use crate::columns::MillColumns;
use crate::rules::{cycles, ghz};
use crate::timing::{Budget, Contestant, Samples, interleave};
use crate::workload::{Workload, failed};

/// Batches smaller than this are run again and again within one timing, so that reading the clock does not count …
const TIMED_OPS_MIN: usize = 1024;

/// … unless they have as many bytes as this, which take long enough by themselves.
const TIMED_BYTES_MIN: u64 = 256 * 1024;

/// Rounds in which the ways of a native loop are tried; the fastest round of each counts.
const TRIALS: usize = 7;

/// An engine and the workload that it is timed on. Its answers have been found right.
pub(crate) struct Entrant {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) workload: Workload,
    prepared: Vec<PreparedKey>,
    native: Option<Native>,
}

/// A native loop that takes the place of its peer's engine, in one of its ways.
struct Native {
    own: Box<dyn NativeLoop>,
    way: usize,
    name: String,
    /// What is to be said should a timed run go wrong.
    peer: String,
    task: (Suite, Direction),
}

impl Native {
    fn failed(&self) -> LabError {
        LabError::WrongResult { engine: self.peer.clone(), suite: self.task.0, direction: self.task.1, op: 0 }
    }
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
        let mut entrant = Entrant { engine: Arc::clone(engine), workload: own, prepared, native: None };
        entrant.agrees(expected)?;
        entrant.workload.reset();
        Ok(entrant)
    }

    /// The engine's native loop in the fastest of its ways, where it has one. A way whose answers are not the expected ones
    /// is left out.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] when no way has the right answers.
    pub(crate) fn native(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        expected: &Workload,
    ) -> Result<Option<Entrant>, LabError> {
        let keys: Vec<&[u8]> = workload.keys().iter().map(|key| key.as_slice()).collect();
        let Workload { suite, direction, ops, arena, .. } = workload;
        let task = Task { suite: *suite, direction: *direction, ops, arena, keys: &keys, key_of: workload.key_of() };
        let Some(mut own) = native(engine.info().name, &task) else { return Ok(None) };
        let names = own.ways();
        let right: Vec<usize> = (0..names.len()).filter(|way| is_right(own.as_mut(), *way, expected)).collect();
        let mut best: Option<(f64, usize)> = None;
        for way in right.iter().copied().cycle().take(TRIALS * right.len()) {
            let start = Instant::now();
            own.run(way);
            let ns = start.elapsed().as_nanos() as f64;
            if best.is_none_or(|(least, _)| ns < least) {
                best = Some((ns, way));
            }
        }
        let peer = format!("the native loop of {}", engine.info().name);
        let (way, name) = best.map_or((0, String::new()), |(_, way)| (way, names[way].clone()));
        let native = Native { own, way, name, peer, task: (*suite, *direction) };
        if best.is_none() {
            return Err(native.failed());
        }
        let native = Some(native);
        Ok(Some(Entrant { engine: Arc::clone(engine), workload: workload.clone(), prepared: Vec::new(), native }))
    }

    /// A mill over the engine, which gets the workload as columns.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] when its answers are not the expected ones; [`LabError::Engine`] when it cannot be opened.
    pub(crate) fn columns(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        expected: &Workload,
    ) -> Result<Entrant, LabError> {
        let columns = MillColumns::new(engine, workload).map_err(|source| failed(engine.as_ref(), source))?;
        let mut own: Box<dyn NativeLoop> = Box::new(columns);
        let is_right = is_right(own.as_mut(), 0, expected);
        let (name, task) = (own.ways().concat(), (workload.suite, workload.direction));
        let native = Native { own, way: 0, name, peer: format!("columns on {}", engine.info().name), task };
        if !is_right {
            return Err(native.failed());
        }
        let native = Some(native);
        Ok(Entrant { engine: Arc::clone(engine), workload: workload.clone(), prepared: Vec::new(), native })
    }

    /// What runs: the engine's kernel, or the way of the native loop.
    pub(crate) fn kernel(&self) -> &str {
        let kernel = || self.engine.info().kernel_for(self.workload.suite);
        self.native.as_ref().map_or_else(kernel, |native| &native.name)
    }

    /// What would let a native loop run faster and is not there.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.native.as_ref()?.own.missing()
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

/// Whether a way of a native loop has the right answers, also when it runs again.
fn is_right(native: &mut dyn NativeLoop, way: usize, expected: &Workload) -> bool {
    let ran = native.restart() && native.run(way) && native.restart() && native.run(way);
    let right = ran && {
        let (ops, arena) = native.answers();
        expected.first_difference_in(&ops, &arena).is_none()
    };
    // What a wrong run left in the library must not meet the next one.
    native.restart() && right
}

/// What was measured of an entrant.
pub(crate) struct Timed {
    pub(crate) samples: Samples,
    /// The share of lane steps that ran empty, where the engine counts them.
    pub(crate) idle: Option<f64>,
    /// Cycles of a run; [`crate::rules::cycles_by`] says how they were found.
    pub(crate) cycles: f64,
}

/// One engine with its checked batch, or one native loop, ready to be run again and again.
enum Runner<'a> {
    Engine { queue: &'a mut Box<dyn EngineQueue>, batch: CheckedBatch<'a>, repeats: usize },
    Native { native: &'a mut Native, has_failed: bool, repeats: usize },
}

/// What a runner borrows of.
enum Ready<'a> {
    Engine(Box<dyn EngineQueue>, CheckedBatch<'a>, Vec<Option<&'a PreparedKey>>),
    Native(&'a mut Native),
}

impl Contestant for Runner<'_> {
    fn reset(&mut self) {
        if let Runner::Engine { batch, .. } = self {
            batch.replace_status(|_| true, OpStatus::Pending);
        }
    }

    fn run(&mut self) {
        match self {
            Runner::Engine { queue, batch, repeats } => {
                queue.run(batch);
                for _ in 1..*repeats {
                    batch.replace_status(|_| true, OpStatus::Pending);
                    queue.run(batch);
                }
            }
            Runner::Native { native, has_failed, repeats } => {
                for _ in 0..*repeats {
                    *has_failed |= !native.own.run(native.way);
                }
            }
        }
    }
}

/// Times the entrants in turns.
///
/// # Errors
/// [`LabError::Engine`] when an engine has no queue or a batch does not pass its check, [`LabError::WrongResult`] when a
/// native loop went wrong.
pub(crate) fn time(entrants: &mut [Entrant], budget: Budget) -> Result<Vec<Timed>, LabError> {
    let mut checked = Vec::new();
    for entrant in entrants.iter_mut() {
        let repeats = entrant.repeats();
        let Entrant { engine, workload, prepared, native } = entrant;
        let refused = |source| failed(engine.as_ref(), source);
        let ready = match native {
            Some(native) => Ready::Native(native),
            None => {
                let queue = engine.queue(Default::default()).map_err(refused)?;
                let keys = workload.keys_of(prepared);
                let batch = Batch::new(workload.suite, workload.direction, &mut workload.ops, &mut workload.arena);
                Ready::Engine(queue, batch.check().map_err(refused)?, keys)
            }
        };
        checked.push((ready, repeats, engine));
    }
    let mut runners = Vec::new();
    for (ready, repeats, engine) in &mut checked {
        let repeats = *repeats;
        runners.push(match ready {
            Ready::Native(native) => Runner::Native { native, has_failed: false, repeats },
            Ready::Engine(queue, batch, keys) => {
                let batch = batch.attach_keys(keys).map_err(|source| failed(engine.as_ref(), source))?;
                Runner::Engine { queue, batch, repeats }
            }
        });
    }
    let mut contestants: Vec<&mut dyn Contestant> =
        runners.iter_mut().map(|runner| runner as &mut dyn Contestant).collect();
    let samples = interleave(&mut contestants, budget);
    let clock_ghz = ghz();
    let timed = |(samples, runner): (Samples, &mut Runner<'_>)| {
        let idle = match &runner {
            Runner::Engine { queue, .. } => queue.occupancy().and_then(|occupancy| occupancy.idle_share()),
            Runner::Native { .. } => None,
        };
        let cycles = cycles(samples.median_ns(), clock_ghz, || {
            runner.reset();
            runner.run();
        });
        match runner {
            Runner::Native { native, has_failed: true, .. } => Err(native.failed()),
            _ => Ok(Timed { samples, idle, cycles }),
        }
    };
    samples.into_iter().zip(&mut runners).map(timed).collect()
}
