//! Threads that run the same work side by side, each with a queue and an arena of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ciphermill_contract::suite::KeyPair;
use ciphermill_contract::{Batch, Direction, Engine, Op, OpStatus, PreparedKey, Span, Suite};
use ciphermill_vectors::consistency::is_consistent;

use crate::timing::{Budget, Contestant, interleave};
use crate::workload::{Parameters, Workload, failed};
use crate::{LabError, contest};

/// Repetitions of one timing at most, should a run take no time at all.
const REPEATS_MAX: usize = 1 << 20;

/// One, two, four … and all cores.
pub(crate) fn threads_up_to(cores: usize, quick: bool) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1usize), |threads| threads.checked_mul(2));
    let mut threads: Vec<usize> = doubled.take_while(|threads| *threads < cores).collect();
    if quick {
        threads.truncate(1);
    }
    threads.push(cores.max(1));
    threads
}

/// The work of a suite, and the reference's answers to it. Public keys have operations as their known answers are,
/// whatever the parameters say of lengths.
///
/// # Errors
/// [`LabError`]: parameters that make no batch, a suite without a known answer.
pub(crate) fn work(
    suite: Suite,
    direction: Direction,
    parameters: &Parameters,
    reference: &dyn Engine,
) -> Result<Work, LabError> {
    let workload = match suite.is_public_key() {
        true => Workload::of_known_answer(suite, direction, parameters.ops)?,
        false => parameters.workload(suite, direction, reference)?,
    };
    // Signatures are verified, encapsulations opened and pairs used, not compared.
    let expected = match (suite, direction) {
        (Suite::Sign(_) | Suite::Kem(_) | Suite::Generate(_), Direction::Encrypt) => workload.clone(),
        _ => contest::expected(&workload, reference)?,
    };
    Ok(Work { workload, expected: Arc::new(expected) })
}

/// Compares a run's answers with the reference's; signatures may differ and are verified by it, what was encapsulated is what it
/// decapsulates, and what it does with one half of a pair it takes back with the other.
///
/// # Errors
/// [`LabError::WrongResult`] for the first that is wrong.
fn agrees(engine: &dyn Engine, ran: &Workload, expected: &Workload, reference: &dyn Engine) -> Result<(), LabError> {
    let wrong = match ran.verification()? {
        None => match ran.suite {
            Suite::Generate(pair) => first_bad_pair(ran, pair, reference)?,
            _ => ran.first_difference(expected),
        },
        Some(mut signed) => match ran.ops.iter().position(|op| !op.status.is_done()) {
            Some(op) => Some(op),
            None => {
                let prepared = signed.prepare(reference)?;
                signed.run_once(reference, &prepared)?;
                let secret = |workload: &Workload, op: usize| {
                    let Op { output, output_len, .. } = workload.ops[op];
                    workload.arena[Span::new(output, output_len).range()].to_vec()
                };
                let is_wrong =
                    |op: &usize| !signed.ops[*op].status.is_done() || secret(&signed, *op) != secret(ran, *op);
                (0..ran.ops.len()).find(is_wrong)
            }
        },
    };
    let (suite, direction) = (ran.suite, ran.direction);
    match wrong {
        None => Ok(()),
        Some(op) => Err(LabError::WrongResult { engine: engine.info().name.to_owned(), suite, direction, op }),
    }
}

/// The first operation whose pair was not generated or has halves that do not belong together.
///
/// # Errors
/// [`LabError::Parameters`] when the reference has no suite for such pairs; [`LabError::Engine`] when it refuses one.
fn first_bad_pair(ran: &Workload, pair: KeyPair, reference: &dyn Engine) -> Result<Option<usize>, LabError> {
    let runs = |suite: &Suite| reference.capabilities().iter().any(|capability| capability.suites.contains(suite));
    let Some(suite) = Suite::all().find(|suite| suite.key_pair() == Some(pair) && runs(suite)) else {
        return Err(LabError::Parameters(format!("nothing takes what {} makes", ran.suite)));
    };
    for (index, op) in ran.ops.iter().enumerate() {
        let private = &ran.arena[Span::new(op.output, op.output_len).range()];
        let public = &ran.arena[op.tag_span().range()];
        let is_good = op.status.is_done()
            && is_consistent(reference, reference, suite, private, public)
                .map_err(|source| failed(reference, source))?;
        if !is_good {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Operations and the reference's answers.
pub(crate) struct Work {
    pub(crate) workload: Workload,
    pub(crate) expected: Arc<Workload>,
}

impl Work {
    /// Compares a run's answers, as [`agrees`] does.
    ///
    /// # Errors
    /// As [`agrees`].
    pub(crate) fn agrees(&self, engine: &dyn Engine, ran: &Workload, reference: &dyn Engine) -> Result<(), LabError> {
        agrees(engine, ran, &self.expected, reference)
    }
}

/// An engine on so many threads with its work.
pub(crate) struct Entry {
    engine: Arc<dyn Engine>,
    threads: usize,
    ops: usize,
    bytes: u64,
    expected: Arc<Workload>,
    crew: Crew,
}

impl Entry {
    /// Starts so many threads on work that is prepared for an engine, which one timing takes `run` to do.
    pub(crate) fn start(
        engine: &Arc<dyn Engine>,
        work: &Work,
        prepared: &Arc<Vec<PreparedKey>>,
        threads: usize,
        run: Duration,
    ) -> Entry {
        let crew = Crew::start(engine, &work.workload, prepared, threads, run);
        let (engine, ops, bytes) = (Arc::clone(engine), work.workload.ops.len(), work.workload.bytes);
        Entry { engine, threads, ops, bytes, expected: Arc::clone(&work.expected), crew }
    }
}

/// What an entry took.
pub(crate) struct Timed {
    pub(crate) engine: &'static str,
    pub(crate) threads: usize,
    pub(crate) ops: usize,
    pub(crate) bytes: u64,
    /// For the work once, all threads together.
    pub(crate) ns: f64,
    pub(crate) spread: f64,
}

/// Times entries in turns. Every thread's last answers are compared with the reference's.
///
/// # Errors
/// [`LabError::WrongResult`] for the first that is wrong; [`LabError::Engine`] when an engine refused the work.
pub(crate) fn time(mut entries: Vec<Entry>, budget: Budget, reference: &dyn Engine) -> Result<Vec<Timed>, LabError> {
    let crews = entries.iter_mut().map(|entry| &mut entry.crew as &mut dyn Contestant);
    let samples = interleave(&mut crews.collect::<Vec<_>>(), budget);
    let mut all = Vec::new();
    for (Entry { engine, threads, ops, bytes, expected, crew }, samples) in entries.into_iter().zip(&samples) {
        let ns = samples.median_ns().max(1.0) / crew.runs() as f64;
        for ran in crew.end()? {
            agrees(engine.as_ref(), &ran, &expected, reference)?;
        }
        all.push(Timed { engine: engine.info().name, threads, ops, bytes, ns, spread: samples.spread() });
    }
    Ok(all)
}

/// So many threads on one engine.
pub(crate) struct Crew {
    members: Vec<Member>,
    repeats: usize,
}

struct Member {
    /// How often to run.
    go: Sender<usize>,
    done: Receiver<()>,
    thread: JoinHandle<Result<Workload, LabError>>,
}

impl Crew {
    /// Starts the threads, each on a core of its own where the system allows, and has each run once.
    pub(crate) fn start(
        engine: &Arc<dyn Engine>,
        workload: &Workload,
        prepared: &Arc<Vec<PreparedKey>>,
        threads: usize,
        run: Duration,
    ) -> Crew {
        let member = |core: usize| {
            let (go, orders) = channel();
            let (report, done) = channel();
            let (engine, work, prepared) = (Arc::clone(engine), workload.clone(), Arc::clone(prepared));
            let thread = thread::spawn(move || serve(&engine, work, &prepared, core, &orders, &report));
            Member { go, done, thread }
        };
        let mut crew = Crew { members: (0..threads).map(member).collect(), repeats: 1 };
        crew.run();
        let start = Instant::now();
        crew.run();
        let once = start.elapsed().max(Duration::from_nanos(1));
        crew.repeats = (run.as_nanos().div_ceil(once.as_nanos()) as usize).clamp(1, REPEATS_MAX);
        crew
    }

    /// How often a timing runs the work on all threads together.
    pub(crate) fn runs(&self) -> usize {
        self.repeats * self.members.len()
    }

    /// Ends the threads; the work of each as its last run left it.
    ///
    /// # Errors
    /// [`LabError::Engine`] when the engine refused it.
    pub(crate) fn end(self) -> Result<Vec<Workload>, LabError> {
        let end = |member: Member| {
            let Member { go, thread, .. } = member;
            drop(go);
            thread.join().map_err(|_| LabError::Parameters("a measuring thread panicked".to_owned()))?
        };
        self.members.into_iter().map(end).collect()
    }
}

/// A member's life: the work, as often as it is told to, until nobody tells it any more.
fn serve(
    engine: &Arc<dyn Engine>,
    mut work: Workload,
    prepared: &[PreparedKey],
    core: usize,
    orders: &Receiver<usize>,
    report: &Sender<()>,
) -> Result<Workload, LabError> {
    // A core that cannot be had is chosen by the system instead.
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
    let refused = |source| failed(engine.as_ref(), source);
    let mut queue = engine.queue(Default::default()).map_err(refused)?;
    let is_public = work.suite.is_public_key();
    while let Ok(repeats) = orders.recv() {
        let mut left = repeats;
        while left > 0 {
            work.reset();
            let keys = work.keys_of(prepared);
            let batch = Batch::new(work.suite, work.direction, &mut work.ops, &mut work.arena);
            let mut checked = batch.check().map_err(refused)?;
            let mut batch = checked.attach_keys(&keys).map_err(refused)?;
            // Signing changes lengths that the check looks at; nothing else has to be checked again.
            let turns = if is_public { 1 } else { left };
            for turn in 0..turns {
                if turn > 0 {
                    batch.replace_status(|_| true, OpStatus::Pending);
                }
                queue.run(&mut batch);
            }
            left -= turns;
        }
        // Nobody listens when the measuring was ended early.
        let _ = report.send(());
    }
    Ok(work)
}

impl Contestant for Crew {
    fn reset(&mut self) {}

    fn run(&mut self) {
        // A member that is gone has failed; `end` says why.
        for member in &self.members {
            let _ = member.go.send(self.repeats);
        }
        for member in &self.members {
            let _ = member.done.recv();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_all_cores() {
        assert_eq!(threads_up_to(1, false), [1]);
        assert_eq!(threads_up_to(6, false), [1, 2, 4, 6]);
        assert_eq!(threads_up_to(8, false), [1, 2, 4, 8]);
        assert_eq!(threads_up_to(8, true), [1, 8]);
        assert_eq!(threads_up_to(1, true), [1]);
    }
}
