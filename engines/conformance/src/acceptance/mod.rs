//! Whether engines agree on what they accept: every key that one takes the others take, every operation has the same status
//! on all of them. Which engine runs a batch is the router's choice, so that a verdict must not depend on it. The rules are
//! the contract's ([`ciphermill_contract::suite::acceptance`]).

mod keys;
mod operations;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ciphermill_contract::error::{KeyProblem, Refusal};
use ciphermill_contract::{
    Direction, Engine, EngineQueue, Error, KeyForm, KeyMaterial, PreparedKey, QueueHint, Result, Suite,
};
use ciphermill_vectors::{Answer, Job};

use crate::execute::{Load, Style};
use crate::pool::KeyPool;
use crate::random::Rng;
use crate::report::{Failure, Report};
use crate::{Options, claimed_suites, claims};

/// Operations that run in one batch.
const CHUNK: usize = 256;

/// A key that is shown to every engine.
struct Candidate {
    what: String,
    form: KeyForm,
    bytes: Vec<u8>,
    /// The contract's verdict, where it is known without an engine.
    taken: Option<bool>,
}

/// An operation that every engine is given, and its key.
struct Trial {
    what: String,
    form: KeyForm,
    key: Vec<u8>,
    job: Job,
}

/// Compares the engines with each other, for every suite that at least two of them claim in one direction.
pub fn acceptance(engines: &[&dyn Engine], options: &Options) -> Report {
    let wanted =
        |suite: &Suite| options.only.is_empty() || suite.to_string() == options.only || suite.family() == options.only;
    let mut suites: Vec<Suite> = engines.iter().flat_map(|engine| claimed_suites(*engine)).filter(wanted).collect();
    suites.sort_unstable();
    suites.dedup();
    // Those that take longest first, so that workers end together.
    suites.sort_by_key(|suite| !suite.is_public_key());
    let report = Mutex::new(Report::new("acceptance"));
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = compare(engines, *suite, options);
                    report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).merge(own);
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Compares the engines that claim a suite.
fn compare(engines: &[&dyn Engine], suite: Suite, options: &Options) -> Report {
    let mut report = Report::new("acceptance");
    let both = [Direction::Encrypt, Direction::Decrypt];
    let shared = both.iter().any(|way| engines.iter().filter(|engine| claims(**engine, suite, *way)).count() > 1);
    // Generating keys takes nothing that could be refused.
    if !shared || matches!(suite, Suite::Generate(_)) {
        return report;
    }
    report.suites += 1;
    let claimants = engines.iter().filter(|engine| both.iter().any(|way| claims(**engine, suite, *way)));
    let mut judge = Judge { suite, sides: Vec::new(), rng: Rng::new(options.seed, &suite.to_string()), report };
    for engine in claimants {
        match engine.queue(QueueHint::default()) {
            Ok(queue) => judge.sides.push(Side { engine: *engine, queue }),
            Err(error) => judge.fail("open", format!("{}: {error}", engine.info().name)),
        }
    }
    let pool = KeyPool::new(suite, &mut judge.rng);
    judge.keys(&pool, options);
    judge.operations(&pool, options);
    judge.report
}

/// One engine and its queue.
struct Side<'a> {
    engine: &'a dyn Engine,
    queue: Box<dyn EngineQueue>,
}

/// Gives engines the same to do and compares what they say.
struct Judge<'a> {
    suite: Suite,
    sides: Vec<Side<'a>>,
    rng: Rng,
    report: Report,
}

impl Judge<'_> {
    fn fail(&mut self, check: &'static str, what: String) {
        self.report.failures.push(Failure { suite: Some(self.suite), direction: None, check, what });
    }

    fn keys(&mut self, pool: &KeyPool, options: &Options) {
        if !self.suite.needs_key() {
            return;
        }
        for candidate in keys::candidates(self.suite, pool, options.mutations_max, &mut self.rng) {
            let Candidate { what, form, bytes, taken } = candidate;
            let Some(verdict) = self.prepare(self.suite, &what, form, &bytes).map(|keys| keys.is_some()) else {
                continue;
            };
            if taken.is_some_and(|taken| taken != verdict) {
                let said = if verdict { "taken" } else { "refused" };
                self.fail("keys", format!("{what} ({form:?}) is {said} by all, against the contract"));
            }
        }
    }

    /// The key, prepared by every engine; `Some(None)` when all refuse it alike. A disagreement is noted, and is `None`.
    fn prepare(&mut self, suite: Suite, what: &str, form: KeyForm, bytes: &[u8]) -> Option<Option<Vec<PreparedKey>>> {
        self.report.ops += 1;
        let verdicts: Vec<Result<PreparedKey, String>> = self
            .sides
            .iter()
            .map(|side| {
                let prepare = || side.engine.prepare(&KeyMaterial { form, bytes }, suite);
                match catch_unwind(AssertUnwindSafe(prepare)) {
                    Ok(Ok(key)) => Ok(key),
                    Ok(Err(Error::Refused(Refusal::KeyUnsuitable { problem, .. }))) => Err(name(problem).to_owned()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("panics".to_owned()),
                }
            })
            .collect();
        let said = |verdict: &Result<PreparedKey, String>| verdict.as_ref().map(|_| ()).map_err(Clone::clone);
        let first = verdicts.first().map(said)?;
        if verdicts.iter().all(|verdict| said(verdict) == first) {
            return Some(verdicts.into_iter().collect::<Result<Vec<PreparedKey>, String>>().ok());
        }
        let all: Vec<String> = (self.sides.iter().zip(&verdicts))
            .map(|(side, verdict)| {
                let verdict = said(verdict).map_or_else(|problem| problem, |()| "takes it".to_owned());
                format!("{}: {verdict}", side.engine.info().name)
            })
            .collect();
        self.fail("keys", format!("{what} ({form:?}): {}", all.join("; ")));
        None
    }

    fn operations(&mut self, pool: &KeyPool, options: &Options) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if self.sides.iter().filter(|side| claims(side.engine, self.suite, direction)).count() < 2 {
                continue;
            }
            // FF1's radix belongs to the suite: one batch has one.
            let mut by_suite: BTreeMap<Suite, Vec<Trial>> = BTreeMap::new();
            for (suite, trial) in operations::published(self.suite, direction, options) {
                by_suite.entry(suite).or_default().push(trial);
            }
            let own = self.forward(pool, options, direction);
            by_suite.entry(self.suite).or_default().extend(own);
            for (suite, trials) in by_suite {
                trials.chunks(CHUNK).for_each(|chunk| self.chunk(suite, direction, chunk));
            }
        }
    }

    /// Operations of the project's own, whole and spoilt, in a direction. Those that go back were made by the first engine
    /// that can.
    fn forward(&mut self, pool: &KeyPool, options: &Options, direction: Direction) -> Vec<Trial> {
        let suite = self.suite;
        let whole = operations::forward(suite, pool, options.mutations_max, &mut self.rng);
        let whole = match direction {
            Direction::Encrypt => whole,
            Direction::Decrypt => {
                let Some(at) = self.sides.iter().position(|side| claims(side.engine, suite, Direction::Encrypt)) else {
                    return Vec::new();
                };
                let mut back = Vec::new();
                for trial in whole {
                    let key = KeyMaterial { form: trial.form, bytes: &trial.key };
                    let Ok(key) = self.sides[at].engine.prepare(&key, suite).map(Some) else { continue };
                    let key = key.filter(|_| suite.needs_key());
                    let answers =
                        self.run(at, suite, Direction::Encrypt, std::slice::from_ref(&trial), &[key.as_ref()]);
                    let answer = answers.into_iter().flatten().next();
                    let inverse = answer.filter(|answer| answer.status.is_done());
                    back.extend(inverse.and_then(|answer| operations::back(suite, pool, trial, &answer)));
                }
                back
            }
        };
        operations::with_spoilt(suite, direction, whole, &mut self.rng)
    }

    fn chunk(&mut self, suite: Suite, direction: Direction, trials: &[Trial]) {
        let mut prepared = Prepared::new();
        if suite.needs_key() {
            for trial in trials {
                if let Entry::Vacant(place) = prepared.entry((trial.form as u8, trial.key.as_slice())) {
                    place.insert(self.prepare(suite, &trial.what, trial.form, &trial.key).flatten());
                }
            }
        }
        let ready: Vec<&Trial> =
            trials.iter().filter(|trial| !suite.needs_key() || keys_of(&prepared, trial).is_some()).collect();
        let mut all: Vec<(&'static str, Vec<Answer>)> = Vec::new();
        for at in 0..self.sides.len() {
            if !claims(self.sides[at].engine, suite, direction) {
                continue;
            }
            let keys: Vec<Option<&PreparedKey>> =
                ready.iter().map(|trial| keys_of(&prepared, trial).and_then(|keys| keys.get(at))).collect();
            let Some(answers) = self.run(at, suite, direction, &ready, &keys) else { return };
            all.push((self.sides[at].engine.info().name, answers));
        }
        for (index, trial) in ready.iter().enumerate() {
            self.judge(
                suite,
                direction,
                &trial.what,
                all.iter().map(|(name, answers)| (*name, &answers[index])).collect(),
            );
        }
    }

    fn run<T: std::borrow::Borrow<Trial>>(
        &mut self,
        at: usize,
        suite: Suite,
        direction: Direction,
        trials: &[T],
        keys: &[Option<&PreparedKey>],
    ) -> Option<Vec<Answer>> {
        let jobs: Vec<Job> = trials.iter().map(|trial| trial.borrow().job.clone()).collect();
        let keys = if suite.needs_key() { keys.to_vec() } else { Vec::new() };
        self.report.ops += jobs.len();
        let load = Load { suite, direction, jobs: &jobs, keys, settled: Vec::new() };
        let run = load.run(&mut *self.sides[at].queue, Style::SPREAD, &mut self.rng);
        let name = self.sides[at].engine.info().name;
        match run {
            Ok(run) => {
                run.trespasses.into_iter().for_each(|what| self.fail("operations", format!("{name}: {what}")));
                Some(run.answers)
            }
            Err(error) => {
                self.fail("operations", format!("{name} {direction}: {error}"));
                None
            }
        }
    }

    fn judge(&mut self, suite: Suite, direction: Direction, what: &str, answers: Vec<(&'static str, &Answer)>) {
        let Some((_, first)) = answers.first() else { return };
        let alike = |answer: &Answer| {
            answer.status == first.status && (suite.is_randomized(direction) || answer.output == first.output)
        };
        if answers.iter().all(|(_, answer)| alike(answer)) {
            return;
        }
        let said: Vec<String> = answers.iter().map(|(name, answer)| format!("{name}: {}", answer.status)).collect();
        self.fail("operations", format!("{direction}, {what}: {}", said.join("; ")));
    }
}

/// Keys by form and bytes, as each engine prepared them; `None` for one that was refused.
type Prepared<'t> = BTreeMap<(u8, &'t [u8]), Option<Vec<PreparedKey>>>;

fn keys_of<'p>(prepared: &'p Prepared<'p>, trial: &'p Trial) -> Option<&'p Vec<PreparedKey>> {
    prepared.get(&(trial.form as u8, trial.key.as_slice())).and_then(Option::as_ref)
}

fn name(problem: KeyProblem) -> &'static str {
    match problem {
        KeyProblem::Length => "length",
        KeyProblem::Form => "form",
        KeyProblem::Encoding => "encoding",
        KeyProblem::Parameters => "parameters",
        KeyProblem::Weak => "weak",
    }
}
