//! The checks, one file a subject. Each notes what it finds in the report and goes on.

mod authentication;
mod boundaries;
mod columns;
mod generation;
mod keys;
mod pieces;
mod rules;
mod shapes;
mod vectors;

use ciphermill_contract::{Direction, Engine, EngineQueue, OpStatus, PreparedKey, QueueHint, Suite};
use ciphermill_vectors::{Answer, Job};

use crate::execute::{Load, Run, Style};
use crate::jobs::Item;
use crate::pool::KeyPool;
use crate::random::Rng;
use crate::report::{Failure, Report};
use crate::{Options, claims};

/// One engine ready to run one suite: its queue and keys for both directions, where it claims them.
pub(crate) struct Side<'a> {
    pub(crate) engine: &'a dyn Engine,
    queue: Box<dyn EngineQueue>,
    encrypt: Option<Vec<Option<PreparedKey>>>,
    decrypt: Option<Vec<Option<PreparedKey>>>,
}

impl<'a> Side<'a> {
    pub(crate) fn open(engine: &'a dyn Engine, suite: Suite, pool: &KeyPool) -> Result<Side<'a>, String> {
        let prepare = |direction| match claims(engine, suite, direction) {
            true => {
                pool.prepare(engine, direction).map(Some).map_err(|error| format!("prepare for {direction}: {error}"))
            }
            false => Ok(None),
        };
        let queue = engine.queue(QueueHint::default()).map_err(|error| format!("queue: {error}"))?;
        Ok(Side { engine, queue, encrypt: prepare(Direction::Encrypt)?, decrypt: prepare(Direction::Decrypt)? })
    }

    pub(crate) fn claims(&self, direction: Direction) -> bool {
        self.keys(direction).is_some()
    }

    fn keys(&self, direction: Direction) -> Option<&Vec<Option<PreparedKey>>> {
        match direction {
            Direction::Encrypt => self.encrypt.as_ref(),
            Direction::Decrypt => self.decrypt.as_ref(),
        }
    }

    /// Runs operations under the pool's keys; the engine must claim the direction.
    pub(crate) fn run(
        &mut self,
        suite: Suite,
        direction: Direction,
        items: &[Item],
        style: Style,
        rng: &mut Rng,
    ) -> Result<Run, String> {
        self.run_some(suite, direction, items, &[], style, rng)
    }

    /// The same, with some operations settled before the engine sees them.
    pub(crate) fn run_some(
        &mut self,
        suite: Suite,
        direction: Direction,
        items: &[Item],
        settled: &[(usize, OpStatus)],
        style: Style,
        rng: &mut Rng,
    ) -> Result<Run, String> {
        let jobs: Vec<Job> = items.iter().map(|item| item.job.clone()).collect();
        let prepared = match direction {
            Direction::Encrypt => self.encrypt.as_ref(),
            Direction::Decrypt => self.decrypt.as_ref(),
        };
        let prepared = prepared.ok_or_else(|| format!("{direction} is not claimed"))?;
        let keys = if suite.needs_key() {
            items.iter().map(|item| prepared.get(item.key).and_then(Option::as_ref)).collect()
        } else {
            Vec::new()
        };
        Load { suite, direction, jobs: &jobs, keys, settled: settled.to_vec() }.run(&mut *self.queue, style, rng)
    }
}

/// What the checks of one suite work with.
pub(crate) struct Context<'a> {
    pub(crate) suite: Suite,
    pub(crate) pool: KeyPool,
    pub(crate) engine: Side<'a>,
    pub(crate) oracle: Option<Side<'a>>,
    pub(crate) options: &'a Options,
    pub(crate) rng: Rng,
    pub(crate) report: &'a mut Report,
    /// The check at work and its direction, for messages.
    pub(crate) check: &'static str,
    pub(crate) direction: Direction,
}

/// Runs every check of one suite.
pub(crate) fn run<'a>(
    engine: &'a dyn Engine,
    oracle: Option<&'a dyn Engine>,
    suite: Suite,
    options: &'a Options,
    report: &'a mut Report,
) {
    let Some(mut context) = Context::open(engine, oracle, suite, options, report) else { return };
    if let Suite::Generate(pair) = suite {
        context.generation(pair);
        if generation::is_slow(pair) {
            return context.vectors();
        }
    }
    context.shapes();
    context.batches();
    context.long();
    context.pieces();
    context.damage();
    context.settled();
    context.guards();
    context.keys();
    context.rules();
    context.vectors();
    context.columns();
}

/// Runs the checks that depend on the suite's parameters alone.
pub(crate) fn shapes_only<'a>(
    engine: &'a dyn Engine,
    oracle: Option<&'a dyn Engine>,
    suite: Suite,
    options: &'a Options,
    report: &'a mut Report,
) {
    if let Some(mut context) = Context::open(engine, oracle, suite, options, report) {
        context.shapes();
        context.rules();
    }
}

impl<'a> Context<'a> {
    fn open(
        engine: &'a dyn Engine,
        oracle: Option<&'a dyn Engine>,
        suite: Suite,
        options: &'a Options,
        report: &'a mut Report,
    ) -> Option<Context<'a>> {
        let mut rng = Rng::new(options.seed, &suite.to_string());
        let pool = KeyPool::new(suite, &mut rng);
        let mut fail = |what: String| {
            report.failures.push(Failure { suite: Some(suite), direction: None, check: "open", what });
        };
        let side = Side::open(engine, suite, &pool).map_err(&mut fail).ok()?;
        let oracle = oracle.map(|oracle| Side::open(oracle, suite, &pool).map_err(|error| format!("oracle: {error}")));
        let oracle = oracle.transpose().map_err(&mut fail).ok()?;
        Some(Context {
            suite,
            pool,
            engine: side,
            oracle,
            options,
            rng,
            report,
            check: "open",
            direction: Direction::Encrypt,
        })
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.report.failures.push(Failure {
            suite: Some(self.suite),
            direction: Some(self.direction),
            check: self.check,
            what: what.into(),
        });
    }

    /// Runs operations on the engine, notes what it did wrong around its answers, and gives the answers.
    pub(crate) fn engine_run(&mut self, direction: Direction, items: &[Item], style: Style) -> Option<Vec<Answer>> {
        self.direction = direction;
        self.report.ops += items.len();
        match self.engine.run(self.suite, direction, items, style, &mut self.rng) {
            Ok(run) => {
                for trespass in run.trespasses {
                    self.fail(trespass);
                }
                Some(run.answers)
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Runs operations on the oracle, when it claims the direction.
    pub(crate) fn oracle_run(&mut self, direction: Direction, items: &[Item]) -> Option<Vec<Answer>> {
        let oracle = self.oracle.as_mut().filter(|oracle| oracle.claims(direction))?;
        match oracle.run(self.suite, direction, items, Style::SPREAD, &mut self.rng) {
            Ok(run) => Some(run.answers),
            Err(error) => {
                self.fail(format!("oracle: {error}"));
                None
            }
        }
    }

    /// Answers to forward operations, from the engine or, where it does not claim the direction, from the oracle.
    pub(crate) fn forward_answers(&mut self, items: &[Item]) -> Option<Vec<Answer>> {
        if self.engine.claims(Direction::Encrypt) {
            self.engine_run(Direction::Encrypt, items, Style::SPREAD)
        } else {
            self.oracle_run(Direction::Encrypt, items)
        }
    }

    /// Compares answers with what they have to be.
    pub(crate) fn compare(&mut self, items: &[Item], got: &[Answer], expected: &[Answer], how: &str) {
        for (index, (item, (got, expected))) in items.iter().zip(got.iter().zip(expected)).enumerate() {
            if let Some(what) = difference(got, expected) {
                let len = item.job.input.len();
                self.fail(format!("operation {index} of {}, {len} bytes of input, {how}: {what}", items.len()));
            }
        }
    }

    /// Whether the engine's answers in this direction are always the same.
    pub(crate) fn is_deterministic(&self, direction: Direction) -> bool {
        !self.suite.is_randomized(direction)
    }
}

/// In which part two answers differ.
pub(crate) fn difference(got: &Answer, expected: &Answer) -> Option<String> {
    if got.status != expected.status {
        return Some(format!("status is {}, not {}", got.status, expected.status));
    }
    let place = |a: &[u8], b: &[u8]| a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    if got.output != expected.output {
        return Some(format!("output differs at byte {}", place(&got.output, &expected.output)));
    }
    if got.tag != expected.tag {
        return Some(format!("tag differs at byte {}", place(&got.tag, &expected.tag)));
    }
    None
}

/// The operations that take others back, and what they have to yield.
pub(crate) fn inverses(suite: Suite, items: &[Item], forward: &[Answer]) -> (Vec<Item>, Vec<Answer>) {
    let inverse = |(item, answer): (&Item, &Answer)| {
        let (job, expected) = item.job.inverse(suite, answer)?;
        Some((Item { job, key: item.key }, expected))
    };
    items.iter().zip(forward).filter_map(inverse).unzip()
}
