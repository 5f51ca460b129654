//! Random batches on two engines, compared operation by operation, byte for byte.

use ciphermill_contract::{Direction, Engine, Suite};
use ciphermill_vectors::Answer;

use crate::checks::{Side, difference, inverses};
use crate::execute::{Memory, Style};
use crate::jobs::{Damage, Item, damaged, forward, some_len};
use crate::pool::KeyPool;
use crate::random::Rng;
use crate::report::{Failure, Report};
use crate::{claimed_suites, claims};

/// Operations of a batch at most; public-key suites have a tenth of them.
const OPS_MAX: usize = 64;

/// Runs random batches of suites that both engines claim in some direction and compares their answers. Randomised
/// directions are checked across: what one engine signs, encrypts or encapsulates, the other must take back.
///
/// Batches go round the common suites, so that a run of at least as many batches as there are suites meets each.
pub fn differential(engine: &dyn Engine, oracle: &dyn Engine, seed: u64, batches: usize) -> Report {
    differential_of(engine, oracle, &claimed_suites(engine), seed, batches)
}

/// The same of some of the engine's suites.
pub fn differential_of(
    engine: &dyn Engine,
    oracle: &dyn Engine,
    suites: &[Suite],
    seed: u64,
    batches: usize,
) -> Report {
    let mut report = Report::new(engine.info().name);
    let theirs = claimed_suites(oracle);
    let common: Vec<Suite> = suites.iter().copied().filter(|suite| theirs.contains(suite)).collect();
    report.suites = common.len();
    if common.is_empty() {
        report.fail("has no suite in common with the oracle");
        return report;
    }
    let mut rng = Rng::new(seed, "differential");
    let start = rng.below(common.len());
    for batch in 0..batches {
        let suite = common[(start + batch) % common.len()];
        // Nobody can tell right ones from wrong.
        if matches!(suite, Suite::Random | Suite::Generate(_)) {
            continue;
        }
        let mut duel = Duel { engine, oracle, suite, batch, rng: Rng::new(rng.next(), "batch"), report: &mut report };
        if let Err(what) = duel.run() {
            duel.fail(None, what);
        }
    }
    report
}

/// One batch on two engines.
struct Duel<'a> {
    engine: &'a dyn Engine,
    oracle: &'a dyn Engine,
    suite: Suite,
    batch: usize,
    rng: Rng,
    report: &'a mut Report,
}

impl Duel<'_> {
    fn fail(&mut self, direction: Option<Direction>, what: String) {
        let what = format!("batch {}: {what}", self.batch);
        self.report.failures.push(Failure { suite: Some(self.suite), direction, check: "differential", what });
    }

    fn run(&mut self) -> Result<(), String> {
        let suite = self.suite;
        let pool = KeyPool::new(suite, &mut self.rng);
        let max = if suite.is_public_key() { OPS_MAX / 10 } else { OPS_MAX };
        let items: Vec<Item> = (0..self.rng.between(1, max))
            .map(|_| {
                let len = some_len(suite, &mut self.rng);
                forward(suite, &pool, len, &mut self.rng)
            })
            .collect();
        let mut ours = Side::open(self.engine, suite, &pool)?;
        let mut theirs = Side::open(self.oracle, suite, &pool).map_err(|error| format!("oracle: {error}"))?;
        let both = |direction| claims(self.engine, suite, direction) && claims(self.oracle, suite, direction);
        let (forward_both, back_both) = (both(Direction::Encrypt), both(Direction::Decrypt));
        let fixed = !suite.is_randomized(Direction::Encrypt);
        let from_ours = match ours.claims(Direction::Encrypt) {
            true => Some(self.one(&mut ours, Direction::Encrypt, &items)?),
            false => None,
        };
        let from_theirs = match theirs.claims(Direction::Encrypt) {
            true => Some(self.one(&mut theirs, Direction::Encrypt, &items)?),
            false => None,
        };
        if let (true, true, Some(ours), Some(theirs)) = (forward_both, fixed, &from_ours, &from_theirs) {
            self.compare(Direction::Encrypt, ours, theirs);
        }
        // Across: each engine takes back what the other made.
        for (maker, side) in [(&from_ours, &mut theirs), (&from_theirs, &mut ours)] {
            if let Some(answers) = maker
                && side.claims(Direction::Decrypt)
            {
                let (back, expected) = inverses(suite, &items, answers);
                let got = self.one(side, Direction::Decrypt, &back)?;
                self.compare(Direction::Decrypt, &got, &expected);
            }
        }
        if let (true, Some(answers)) = (back_both, from_theirs.or(from_ours)) {
            let (mut back, _) = inverses(suite, &items, &answers);
            for item in back.iter_mut().step_by(3) {
                let damage = Damage::ALL[self.rng.below(Damage::ALL.len())];
                if let Some(job) = damaged(&item.job, damage, &mut self.rng) {
                    item.job = job;
                }
            }
            let got = self.one(&mut ours, Direction::Decrypt, &back)?;
            let expected = self.one(&mut theirs, Direction::Decrypt, &back)?;
            self.compare(Direction::Decrypt, &got, &expected);
        }
        Ok(())
    }

    /// Runs operations on one side in a random style.
    fn one(&mut self, side: &mut Side<'_>, direction: Direction, items: &[Item]) -> Result<Vec<Answer>, String> {
        let gap = (!self.rng.coin()).then(|| self.rng.below(5));
        let style = Style { in_place: self.rng.coin(), gap, order: self.rng.below(4), memory: Memory::Heap };
        self.report.ops += items.len();
        let name = side.engine.info().name;
        let run = side.run(self.suite, direction, items, style, &mut self.rng).map_err(|e| format!("{name}: {e}"))?;
        for trespass in run.trespasses {
            self.fail(Some(direction), format!("{name}: {trespass}"));
        }
        Ok(run.answers)
    }

    fn compare(&mut self, direction: Direction, got: &[Answer], expected: &[Answer]) {
        for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
            if let Some(what) = difference(got, expected) {
                self.fail(Some(direction), format!("operation {index}: {what}"));
            }
        }
    }
}
