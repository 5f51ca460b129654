//! A contest: engines with their own workloads, verified against the reference, then timed in turns.

use std::borrow::BorrowMut;
use std::sync::Arc;
use std::time::Instant;

use ciphermill_contract::{Batch, CheckedBatch, Direction, Engine, EngineQueue, Op, OpStatus, PreparedKey, Suite};
use ciphermill_peers::native;
use ciphermill_peers::native::{NativeLoop, Task};

use crate::LabError;
use crate::columns::MillColumns;
use crate::mill_batch::{MillBatch, MillKeys};
use crate::rules::{cycles, ghz};
use crate::timing::{Budget, Contestant, Samples, interleave};
use crate::workload::{Workload, failed};

/// Batches smaller than this are run again and again within one timing, so that reading the clock does not count …
const TIMED_OPS_MIN: usize = 1024;

/// … unless they have as many bytes as this, which take long enough by themselves. A batch of public keys always does.
const TIMED_BYTES_MIN: u64 = 256 * 1024;

/// Rounds in which the ways of a native loop are tried; the fastest round of each counts.
const TRIALS: usize = 7;

/// An engine and the workload that it is timed on. Its answers have been found right.
pub(crate) struct Entrant {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) workload: Workload,
    /// The same workload elsewhere in memory; runs go from one to the next.
    copies: Vec<Workload>,
    prepared: Vec<PreparedKey>,
    native: Option<Native>,
}

/// Makes a loop over a workload; `None` where there is none for it.
type Make = Box<dyn Fn(&Workload) -> Result<Option<Box<dyn NativeLoop>>, LabError>>;

/// Whether a loop's answers, operations over an arena, are the right ones.
pub(crate) type IsRight<'a> = &'a dyn Fn(&[Op], &[u8]) -> bool;

/// Loops that take the place of an engine, in one of their ways: one over the workload, and one over each copy of it.
struct Native {
    loops: Vec<Box<dyn NativeLoop>>,
    make: Make,
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
        let entrant = Entrant::ran(engine, workload)?;
        entrant.agrees(expected)?;
        Ok(entrant)
    }

    /// Runs the workload once; the answers are the caller's to look at.
    ///
    /// # Errors
    /// [`LabError::Engine`] when the engine refuses.
    pub(crate) fn ran(engine: &Arc<dyn Engine>, workload: &Workload) -> Result<Entrant, LabError> {
        let prepared = workload.prepare(engine.as_ref())?;
        let mut own = workload.clone();
        own.run_once(engine.as_ref(), &prepared)?;
        Ok(Entrant { engine: Arc::clone(engine), workload: own, copies: Vec::new(), prepared, native: None })
    }

    /// The engine's native loop in the fastest of its ways, where it has one. A way whose answers `is_right` does not find so
    /// is left out.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] when no way has the right answers.
    pub(crate) fn native(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        is_right: IsRight<'_>,
    ) -> Result<Option<Entrant>, LabError> {
        let name = engine.info().name;
        let make = move |workload: &Workload| {
            let keys: Vec<&[u8]> = workload.keys().iter().map(|key| key.as_slice()).collect();
            let Workload { suite, direction, ops, arena, .. } = workload;
            let (form, key_of) = (workload.form(), workload.key_of());
            let task = Task { suite: *suite, direction: *direction, ops, arena, form, keys: &keys, key_of };
            Ok(native(name, &task))
        };
        Entrant::of_loop(engine, workload, is_right, format!("the native loop of {name}"), Box::new(make))
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
        let own = Arc::clone(engine);
        let make = move |workload: &Workload| -> Result<Option<Box<dyn NativeLoop>>, LabError> {
            let columns = MillColumns::new(&own, workload).map_err(|source| failed(own.as_ref(), source))?;
            Ok(Some(Box::new(columns)))
        };
        let name = format!("columns on {}", engine.info().name);
        Entrant::made(engine, workload, expected, name, Box::new(make))
    }

    /// A mill that has these keys, which gets the workload as a batch: on this engine of its own, or with `is_free` on the one
    /// that it chooses.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] when its answers are not the expected ones.
    pub(crate) fn mill(
        keys: &Arc<MillKeys>,
        engine: &Arc<dyn Engine>,
        is_free: bool,
        workload: &Workload,
        expected: &Workload,
    ) -> Result<Entrant, LabError> {
        let (keys, pinned) = (Arc::clone(keys), (!is_free).then_some(engine.info().name));
        let fresh = Arc::new(workload.arena.clone());
        let make = move |workload: &Workload| -> Result<Option<Box<dyn NativeLoop>>, LabError> {
            Ok(Some(Box::new(MillBatch::new(&keys, workload, &fresh, pinned))))
        };
        Entrant::made(engine, workload, expected, "the mill".to_owned(), Box::new(make))
    }

    /// A loop that there is for every workload.
    fn made(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        expected: &Workload,
        name: String,
        make: Make,
    ) -> Result<Entrant, LabError> {
        let lacking = LabError::Parameters(format!("{name} has no loop for {}", workload.suite));
        let is_right = |ops: &[Op], arena: &[u8]| expected.first_difference_in(ops, arena).is_none();
        Entrant::of_loop(engine, workload, &is_right, name, make)?.ok_or(lacking)
    }

    /// The loop that `make` makes, in the fastest of its ways that have the right answers.
    fn of_loop(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        is_right: IsRight<'_>,
        peer: String,
        make: Make,
    ) -> Result<Option<Entrant>, LabError> {
        let Some(mut own) = make(workload)? else { return Ok(None) };
        let names = own.ways();
        let right: Vec<usize> = (0..names.len()).filter(|way| runs_right(own.as_mut(), *way, is_right)).collect();
        let mut best: Option<(f64, usize)> = None;
        let trials = if right.len() > 1 { TRIALS } else { 1 };
        for way in right.iter().copied().cycle().take(trials * right.len()) {
            let start = Instant::now();
            own.run(way);
            let ns = start.elapsed().as_nanos() as f64;
            if best.is_none_or(|(least, _)| ns < least) {
                best = Some((ns, way));
            }
        }
        let (way, name) = best.map_or((0, String::new()), |(_, way)| (way, names[way].clone()));
        let native = Native { loops: vec![own], make, way, name, peer, task: (workload.suite, workload.direction) };
        if best.is_none() {
            return Err(native.failed());
        }
        Ok(Some(Entrant {
            engine: Arc::clone(engine),
            workload: workload.clone(),
            copies: Vec::new(),
            prepared: Vec::new(),
            native: Some(native),
        }))
    }

    /// The same over `copies` places of memory, to which runs go in turns: where they are more than the caches hold, each run
    /// finds its operations and data in memory.
    ///
    /// # Errors
    /// As for the entrant itself.
    pub(crate) fn in_copies(mut self, copies: usize) -> Result<Entrant, LabError> {
        match &mut self.native {
            None => self.copies = vec![self.workload.clone(); copies.saturating_sub(1)],
            Some(native) => {
                while native.loops.len() < copies {
                    let Some(more) = (native.make)(&self.workload)? else { return Err(native.failed()) };
                    native.loops.push(more);
                }
            }
        }
        Ok(self)
    }

    /// What runs: the engine's kernel, or the way of the native loop.
    pub(crate) fn kernel(&self) -> &str {
        let kernel = || self.engine.info().kernel_for(self.workload.suite);
        self.native.as_ref().map_or_else(kernel, |native| &native.name)
    }

    /// What would let a native loop run faster and is not there.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.native.as_ref()?.loops.first()?.missing()
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
        if self.workload.suite.is_public_key() {
            return 1;
        }
        let by_bytes = TIMED_BYTES_MIN.div_ceil(self.workload.bytes.max(1));
        TIMED_OPS_MIN.div_ceil(self.workload.ops.len().max(1)).min(usize::try_from(by_bytes).unwrap_or(usize::MAX))
    }
}

/// Whether a way of a native loop has the right answers, also when it runs again.
fn runs_right(native: &mut dyn NativeLoop, way: usize, is_right: IsRight<'_>) -> bool {
    let ran = native.restart() && native.run(way) && native.restart() && native.run(way);
    let right = ran && {
        let (ops, arena) = native.answers();
        is_right(&ops, &arena)
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

/// One engine with its checked batches, or native loops, ready to be run again and again, one after the other.
enum Runner<'a> {
    Engine { queue: &'a mut Box<dyn EngineQueue>, batches: Vec<CheckedBatch<'a>>, next: usize, repeats: usize },
    Native { native: &'a mut Native, has_failed: bool, next: usize, repeats: usize },
}

/// What a runner borrows of.
enum Ready<'a> {
    Engine(Box<dyn EngineQueue>, Vec<CheckedBatch<'a>>, Vec<Option<&'a PreparedKey>>),
    Native(&'a mut Native),
}

/// The next place after `at` of so many, in turns.
fn after(at: usize, places: usize) -> usize {
    if at + 1 < places { at + 1 } else { 0 }
}

impl Contestant for Runner<'_> {
    fn reset(&mut self) {
        if let Runner::Engine { batches, next, .. } = self {
            batches[*next].replace_status(|_| true, OpStatus::Pending);
        }
    }

    fn run(&mut self) {
        match self {
            Runner::Engine { queue, batches, next, repeats } => {
                for turn in 0..*repeats {
                    let batch = &mut batches[*next];
                    if turn > 0 {
                        batch.replace_status(|_| true, OpStatus::Pending);
                    }
                    queue.run(batch);
                    *next = after(*next, batches.len());
                }
            }
            Runner::Native { native, has_failed, next, repeats } => {
                for _ in 0..*repeats {
                    *has_failed |= !native.loops[*next].run(native.way);
                    *next = after(*next, native.loops.len());
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
pub(crate) fn time<E: BorrowMut<Entrant>>(entrants: &mut [E], budget: Budget) -> Result<Vec<Timed>, LabError> {
    let mut checked = Vec::new();
    for entrant in entrants.iter_mut() {
        let entrant: &mut Entrant = entrant.borrow_mut();
        let repeats = entrant.repeats();
        let Entrant { engine, workload, copies, prepared, native } = entrant;
        let refused = |source| failed(engine.as_ref(), source);
        let ready = match native {
            Some(native) => Ready::Native(native),
            None => {
                let queue = engine.queue(Default::default()).map_err(refused)?;
                let keys = workload.keys_of(prepared);
                workload.reset();
                copies.iter_mut().for_each(Workload::reset);
                let batches = std::iter::once((&mut workload.ops, &mut workload.arena))
                    .chain(copies.iter_mut().map(|copy| (&mut copy.ops, &mut copy.arena)))
                    .map(|(ops, arena)| Batch::new(workload.suite, workload.direction, ops, arena).check());
                Ready::Engine(queue, batches.collect::<Result<_, _>>().map_err(refused)?, keys)
            }
        };
        checked.push((ready, repeats, engine));
    }
    let mut runners = Vec::new();
    for (ready, repeats, engine) in &mut checked {
        let (repeats, next) = (*repeats, 0);
        runners.push(match ready {
            Ready::Native(native) => Runner::Native { native, has_failed: false, next, repeats },
            Ready::Engine(queue, batches, keys) => {
                let attached = batches.iter_mut().map(|batch| batch.attach_keys(keys)).collect::<Result<_, _>>();
                let batches = attached.map_err(|source| failed(engine.as_ref(), source))?;
                Runner::Engine { queue, batches, next, repeats }
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
