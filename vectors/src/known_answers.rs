//! One known answer for each suite: what an engine has to get right before it is believed, at load and on re-admission.
//!
//! Most are published vectors; the others were made by tools apart from every engine (see `source` of each).

use core::fmt;
use std::sync::OnceLock;

use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::suite::{Chain, ChainOrder, KeyPair};
use ciphermill_contract::{Direction, Engine, Error, KeyMaterial, OpStatus, Suite, capability};

use crate::case::Case;
use crate::consistency::is_consistent;
use crate::file;
use crate::job::{Answer, Job, key_of, run_jobs};

/// Operations that a self-test runs side by side at most, so that vector kernels run full and not full.
const COPIES_MAX: usize = 33;

/// Bytes of each of the samples that [`Suite::Random`] is judged by.
const SAMPLE_LEN: usize = 64;

/// Why an engine may not run a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownAnswerError {
    /// There is no known answer for the suite.
    NoAnswer(Suite),
    /// The engine does not claim the suite.
    NotClaimed(Suite),
    /// The engine refused the key, the queue or the batch.
    Failed {
        /// The suite.
        suite: Suite,
        /// Which way.
        direction: Direction,
        /// What it answered.
        error: Error,
    },
    /// The engine's answer is wrong.
    Wrong {
        /// The suite.
        suite: Suite,
        /// Which way.
        direction: Direction,
        /// Index of the operation within the self-test's batch.
        op: usize,
        /// Which part of the answer is wrong.
        what: &'static str,
    },
}

impl fmt::Display for KnownAnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnownAnswerError::NoAnswer(suite) => write!(f, "{suite}: no known answer"),
            KnownAnswerError::NotClaimed(suite) => write!(f, "{suite}: the engine does not claim the suite"),
            KnownAnswerError::Failed { suite, direction, error } => write!(f, "{suite} {direction}: {error}"),
            KnownAnswerError::Wrong { suite, direction, op, what } => {
                write!(f, "{suite} {direction}, operation {op}: wrong {what}")
            }
        }
    }
}

impl std::error::Error for KnownAnswerError {}

/// The known answer of a suite; FF1 with any radix has that of radix 10. `None` for [`Suite::Random`] and
/// [`Suite::Generate`].
pub fn known_answer(suite: Suite) -> Option<&'static Case> {
    table().get(suite.ordinal()).and_then(Option::as_ref)
}

/// Whether [`run_known_answer`] can judge a suite: by its known answer, or without one as random bytes and key pairs are.
pub fn has_self_test(suite: Suite) -> bool {
    matches!(suite, Suite::Random | Suite::Generate(_)) || known_answer(suite).is_some()
}

/// The answers by [`Suite::ordinal`].
fn table() -> &'static [Option<Case>] {
    static TABLE: OnceLock<Vec<Option<Case>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: Vec<Option<Case>> = (0..SUITE_ORDINALS_MAX).map(|_| None).collect();
        // A file that did not parse would leave the table empty, and no engine would pass; a test reads it whole.
        for case in file::parse(include_str!("../data/known_answers.json")).unwrap_or_default() {
            let ordinal = case.suite.ordinal();
            table[ordinal] = Some(case);
        }
        table
    })
}

/// Runs a suite's known answer on an engine, in every direction that the engine claims.
///
/// Deterministic directions must give the stored bytes, randomised ones something that takes the way back on the same
/// engine. Where the suite authenticates, a damaged copy between good ones must fail alone. [`Suite::Random`] has no
/// answer; two samples of it must differ and be neither blank nor lopsided. Nor has [`Suite::Generate`]: two pairs must differ, and both
/// halves of each belong together in a suite that the engine claims besides.
///
/// # Errors
/// The first thing that was not right.
pub fn run_known_answer(engine: &dyn Engine, suite: Suite) -> Result<(), KnownAnswerError> {
    let claimed = |direction| capability::find(engine.capabilities(), suite, direction);
    let directions = [Direction::Encrypt, Direction::Decrypt];
    if directions.iter().all(|direction| claimed(*direction).is_none()) {
        return Err(KnownAnswerError::NotClaimed(suite));
    }
    if suite == Suite::Random {
        return sample_random(engine);
    }
    if let Suite::Generate(pair) = suite {
        return generate_pairs(engine, pair);
    }
    let case = known_answer(suite).ok_or(KnownAnswerError::NoAnswer(suite))?;
    for direction in directions {
        if let Some(capability) = claimed(direction) {
            let lanes = if suite.is_public_key() { 1 } else { usize::from(capability.lanes) };
            let test = SelfTest { engine, case, direction };
            test.run(lanes.clamp(1, COPIES_MAX - 1), claimed(Direction::Decrypt).is_some())?;
        }
    }
    Ok(())
}

struct SelfTest<'a> {
    engine: &'a dyn Engine,
    case: &'a Case,
    direction: Direction,
}

impl SelfTest<'_> {
    /// Runs one operation alone, then one more than fills the lanes.
    fn run(&self, lanes: usize, has_way_back: bool) -> Result<(), KnownAnswerError> {
        let (job, expected) = Job::of(self.case, self.direction);
        if self.case.suite.is_randomized(self.direction) {
            let job = self.randomised_job(job);
            let got = self.execute(std::slice::from_ref(&job))?;
            self.require(got[0].status == OpStatus::Done, 0, "status")?;
            if has_way_back && let Some((back, expected)) = job.inverse(self.case.suite, &got[0]) {
                let back_test = SelfTest { direction: Direction::Decrypt, ..*self };
                let got = back_test.execute(std::slice::from_ref(&back))?;
                return back_test.compare(0, &got[0], &expected);
            }
            return Ok(());
        }
        let mut jobs = vec![job.clone(); lanes + 1];
        let damaged = self.damage(&job).map(|job| (lanes / 2, job));
        if let Some((at, job)) = &damaged {
            jobs.insert(*at, job.clone());
        }
        for jobs in [std::slice::from_ref(&job), &jobs] {
            for (index, got) in self.execute(jobs)?.iter().enumerate() {
                match &damaged {
                    Some((at, _)) if *at == index && jobs.len() > 1 => {
                        self.require(got.status == OpStatus::AuthFailed, index, "status of a damaged operation")?;
                        self.require(got.output.is_empty(), index, "output of a damaged operation")?;
                    }
                    _ => self.compare(index, got, &expected)?,
                }
            }
        }
        Ok(())
    }

    /// The forward operation of a vector that may lack forward lengths: signatures and encapsulations need room.
    fn randomised_job(&self, job: Job) -> Job {
        Job { tag: vec![0; self.case.suite.default_tag_len()], ..job }
    }

    /// A copy that must not authenticate, for suites and directions that authenticate.
    fn damage(&self, job: &Job) -> Option<Job> {
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut()? ^= 0x40;
            Some(bytes)
        };
        match (self.direction, self.case.suite) {
            (Direction::Decrypt, Suite::Wrap(_) | Suite::Chain(Chain { order: ChainOrder::MacThenEncrypt, .. })) => {
                Some(Job { input: flip(&job.input)?, ..job.clone() })
            }
            (Direction::Decrypt, Suite::Aead(_) | Suite::Mac(_) | Suite::Chain(_) | Suite::Sign(_)) => {
                Some(Job { tag: flip(&job.tag)?, ..job.clone() })
            }
            _ => None,
        }
    }

    fn execute(&self, jobs: &[Job]) -> Result<Vec<Answer>, KnownAnswerError> {
        let key = match key_of(self.case, self.direction) {
            Some(material) => {
                Some(self.engine.prepare(&material, self.case.suite).map_err(|error| self.failed(error))?)
            }
            None => None,
        };
        run_jobs(self.engine, self.case.suite, self.direction, jobs, key.as_ref()).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: Error) -> KnownAnswerError {
        KnownAnswerError::Failed { suite: self.case.suite, direction: self.direction, error }
    }

    fn require(&self, holds: bool, op: usize, what: &'static str) -> Result<(), KnownAnswerError> {
        let wrong = KnownAnswerError::Wrong { suite: self.case.suite, direction: self.direction, op, what };
        if holds { Ok(()) } else { Err(wrong) }
    }

    fn compare(&self, op: usize, got: &Answer, expected: &Answer) -> Result<(), KnownAnswerError> {
        self.require(got.status == OpStatus::Done, op, "status")?;
        self.require(got.output == expected.output, op, "output")?;
        self.require(got.tag == expected.tag, op, "tag")
    }
}

/// Judges random bytes as far as two samples allow: about half of 1,024 bits are ones; 128 fewer or more, eight standard
/// deviations, do not happen by chance.
fn sample_random(engine: &dyn Engine) -> Result<(), KnownAnswerError> {
    let (suite, direction) = (Suite::Random, Direction::Encrypt);
    let wrong = |op, what| Err(KnownAnswerError::Wrong { suite, direction, op, what });
    let asked = u32::try_from(SAMPLE_LEN).unwrap_or(u32::MAX);
    let jobs = vec![Job { asked, ..Job::default() }; 2];
    let answers = run_jobs(engine, suite, direction, &jobs, None).map_err(|error| KnownAnswerError::Failed {
        suite,
        direction,
        error,
    })?;
    for (index, answer) in answers.iter().enumerate() {
        if answer.status != OpStatus::Done || answer.output.len() != SAMPLE_LEN {
            return wrong(index, "status");
        }
    }
    let ones: u32 = answers.iter().flat_map(|answer| &answer.output).map(|byte| byte.count_ones()).sum();
    if answers[0].output == answers[1].output || !(384..=640).contains(&ones) {
        return wrong(1, "randomness");
    }
    Ok(())
}

/// Generates pairs and uses them. One of RSA has to do, which takes long to generate.
fn generate_pairs(engine: &dyn Engine, pair: KeyPair) -> Result<(), KnownAnswerError> {
    let (suite, direction) = (Suite::Generate(pair), Direction::Encrypt);
    let failed = |error| KnownAnswerError::Failed { suite, direction, error };
    let require = |holds: bool, op, what| {
        let wrong = KnownAnswerError::Wrong { suite, direction, op, what };
        if holds { Ok(()) } else { Err(wrong) }
    };
    let count = if matches!(pair, KeyPair::Rsa(_)) { 1 } else { 2 };
    let jobs = vec![Job { tag: vec![0; pair.public_len()], ..Job::default() }; count];
    let answers = run_jobs(engine, suite, direction, &jobs, None).map_err(failed)?;
    let claims = |suite, direction| capability::find(engine.capabilities(), suite, direction).is_some();
    let takers: Vec<Suite> = Suite::all().filter(|suite| suite.key_pair() == Some(pair)).collect();
    let user = takers.iter().copied().find(|suite| {
        claims(*suite, Direction::Encrypt) && (claims(*suite, Direction::Decrypt) || matches!(suite, Suite::Agree(_)))
    });
    for (index, Answer { status, output, tag }) in answers.iter().enumerate() {
        require(*status == OpStatus::Done, index, "status")?;
        require(tag.len() == pair.public_len(), index, "public key")?;
        let takes = |suite: &Suite| suite.check_key(&KeyMaterial::private(output)).is_ok();
        require(takers.iter().all(takes), index, "private key")?;
        if let Some(user) = user {
            let belong = is_consistent(engine, engine, user, output, tag).map_err(failed)?;
            require(belong, index, "pair, whose halves do not belong together")?;
        }
    }
    let differ = answers.windows(2).all(|two| two[0].output != two[1].output && two[0].tag != two[1].tag);
    require(answers.len() == count && differ, count - 1, "randomness")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Outcome;
    use ciphermill_contract::Batch;

    use crate::job::pack;
    use crate::keys::is_answered;

    #[test]
    fn every_suite_has_one_answer() {
        let cases = file::parse(include_str!("../data/known_answers.json")).expect("the file is sound");
        let mut suites: Vec<Suite> = cases.iter().map(|case| case.suite).collect();
        suites.sort_unstable();
        let mut wanted: Vec<Suite> = Suite::all().filter(|suite| is_answered(*suite)).collect();
        wanted.sort_unstable();
        assert_eq!(suites, wanted);
        assert!(
            Suite::all().filter_map(known_answer).all(|case| case.outcome == Outcome::Valid && !case.source.is_empty())
        );
    }

    #[test]
    fn answers_are_such_as_the_contract_takes() {
        for case in Suite::all().filter_map(known_answer) {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if !case.suite.has_direction(direction) {
                    continue;
                }
                if case.suite.needs_key() {
                    assert!(key_of(case, direction).is_some(), "{} {direction}: no key", case.suite);
                }
                let (job, expected) = Job::of(case, direction);
                assert!(!job.input.is_empty() || matches!(case.suite, Suite::Kem(_)), "{}: nothing to do", case.suite);
                let job = if case.suite.is_randomized(direction) {
                    Job { tag: vec![0; case.suite.default_tag_len()], ..job }
                } else {
                    assert!(!expected.output.is_empty() || !expected.tag.is_empty(), "{}: no answer", case.suite);
                    job
                };
                let (mut arena, mut ops) = pack(case.suite, direction, &[job]);
                let checked = Batch::new(case.suite, direction, &mut ops, &mut arena).check();
                assert!(checked.is_ok(), "{} {direction}: {checked:?}", case.suite);
            }
        }
    }
}
