//! Published vectors and the known answer.

use std::collections::BTreeMap;

use ciphermill_contract::{Direction, OpStatus, PreparedKey, Suite};
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::{Answer, Case, Job, KnownAnswerError, Outcome, cases, has_self_test, run_known_answer};

use super::{Context, difference};
use crate::execute::{Load, Style};

/// Vectors that run in one batch.
const CHUNK: usize = 64;

/// A vector ready to run: what it does, what it must yield, and its key among those prepared.
struct Ready<'c> {
    case: &'c Case,
    job: Job,
    expected: Answer,
    key: Option<usize>,
}

impl Context<'_> {
    pub(super) fn vectors(&mut self) {
        self.check = "known answer";
        if has_self_test(self.suite)
            && let Err(error) = run_known_answer(self.engine.engine, self.suite)
            && !matches!(error, KnownAnswerError::NotClaimed(_))
        {
            self.fail(error.to_string());
        }
        self.check = "vectors";
        let found = cases(self.suite);
        let max =
            if self.suite.is_public_key() { self.options.public_cases_max } else { self.options.symmetric_cases_max };
        let step = found.len().div_ceil(max.max(1)).max(1);
        let taken: Vec<&Case> = found.iter().step_by(step).copied().collect();
        self.report.vectors += taken.len();
        self.report.vectors_left_out += found.len() - taken.len();
        // FF1's radix belongs to the suite: one batch has one.
        let mut by_suite: BTreeMap<Suite, Vec<&Case>> = BTreeMap::new();
        taken.into_iter().for_each(|case| by_suite.entry(case.suite).or_default().push(case));
        for (suite, cases) in by_suite {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if self.engine.claims(direction) {
                    self.direction = direction;
                    let cases: Vec<&Case> = cases.iter().filter(|c| c.ways.contains(direction)).copied().collect();
                    cases.chunks(CHUNK).for_each(|chunk| self.chunk(suite, direction, chunk));
                }
            }
        }
    }

    fn chunk(&mut self, suite: Suite, direction: Direction, cases: &[&Case]) {
        let mut prepared: Vec<PreparedKey> = Vec::new();
        let mut known: BTreeMap<Vec<u8>, Option<usize>> = BTreeMap::new();
        let mut ready: Vec<Ready<'_>> = Vec::new();
        for case in cases {
            let mut key = None;
            if let Some(material) = key_of(case, direction) {
                let found = known.entry(material.bytes.to_vec()).or_insert_with(|| {
                    prepared.push(self.engine.engine.prepare(&material, suite).ok()?);
                    Some(prepared.len() - 1)
                });
                if found.is_none() {
                    if case.outcome == Outcome::Valid {
                        self.fail(format!("{} {}: its key was refused", case.source, case.id));
                    }
                    continue;
                }
                key = *found;
            }
            let (job, expected) = Job::of(case, direction);
            ready.push(Ready { case, job, expected, key });
        }
        self.run_ready(suite, direction, &ready, &prepared);
    }

    fn run_ready(&mut self, suite: Suite, direction: Direction, ready: &[Ready<'_>], prepared: &[PreparedKey]) {
        if ready.is_empty() {
            return;
        }
        let jobs: Vec<Job> = ready.iter().map(|ready| room_for_tag(suite, direction, &ready.job)).collect();
        let keys = if suite.needs_key() {
            ready.iter().map(|ready| ready.key.and_then(|key| prepared.get(key))).collect()
        } else {
            Vec::new()
        };
        self.report.ops += ready.len();
        let load = Load { suite, direction, jobs: &jobs, keys, settled: Vec::new() };
        let run = match load.run(&mut *self.engine.queue, Style::SPREAD, &mut self.rng) {
            Ok(run) => run,
            Err(error) => return self.fail(format!("{} {}…: {error}", ready[0].case.source, ready[0].case.id)),
        };
        run.trespasses.into_iter().for_each(|trespass| self.fail(trespass));
        for (ready, got) in ready.iter().zip(&run.answers) {
            let wrong = match &ready.case.outcome {
                Outcome::Valid => difference(got, &ready.expected),
                Outcome::Invalid(why) => got.status.is_done().then(|| format!("done, although {why}")),
                Outcome::Acceptable(_) if got.status == OpStatus::Done => difference(got, &ready.expected),
                Outcome::Acceptable(_) => None,
            };
            if let Some(wrong) = wrong {
                self.fail(format!("{} {}: {wrong}", ready.case.source, ready.case.id));
            }
        }
    }
}

/// Signing and encapsulation need room for what they write, which invalid vectors may lack.
fn room_for_tag(suite: Suite, direction: Direction, job: &Job) -> Job {
    let mut job = job.clone();
    if direction == Direction::Encrypt && suite.is_public_key() && job.tag.len() < suite.default_tag_len() {
        job.tag.resize(suite.default_tag_len(), 0);
    }
    job
}
