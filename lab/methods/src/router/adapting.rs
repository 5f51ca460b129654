//! How routes follow an engine's speed, and what is left to other programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::{Mill, Session};
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineQueue, KeyMaterial, OpStatus, OwnedBatch,
    PreparedKey, QueueHint, Result, Suite,
};

use super::{Figure, Goal, mill, mill_error, opened};
use crate::LabError;
use crate::engines::{open, suite};
use crate::timing::Budget;
use crate::workload::Parameters;

/// What is run while an engine changes its speed: the lanes are up to twice as fast as the library, so that with a
/// quarter of their speed the library is.
const SUITE: &str = "aes-256-gcm";
const LEN: usize = 2048;
const OPS: usize = 64;

/// Batches in a row on the same engine after which a route has changed.
const SETTLED: usize = 10;

/// Batches after which waiting for a change is given up.
const BATCHES_MAX: usize = 5_000;

/// Repetitions; the worst counts.
const TURNS: usize = 5;

/// An engine that takes so many times as long as the one inside.
struct Slowed {
    inner: Arc<dyn Engine>,
    factor: Arc<AtomicU32>,
}

impl Engine for Slowed {
    fn info(&self) -> &EngineInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> &[Capability] {
        self.inner.capabilities()
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        self.inner.prepare(key, suite)
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(SlowedQueue { inner: self.inner.queue(hint)?, factor: Arc::clone(&self.factor) }))
    }
}

struct SlowedQueue {
    inner: Box<dyn EngineQueue>,
    factor: Arc<AtomicU32>,
}

impl EngineQueue for SlowedQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let start = Instant::now();
        self.inner.run(batch);
        let wanted = start.elapsed() * self.factor.load(Ordering::Relaxed);
        while start.elapsed() < wanted {
            std::hint::spin_loop();
        }
    }
}

/// Batches until so many in a row went to `engine`, counted to the first of them.
fn batches_until(session: &mut Session, batch: &mut OwnedBatch, engine: &str) -> Result<usize, LabError> {
    let mut in_a_row = 0;
    for count in 0..BATCHES_MAX {
        batch.ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
        let report = session.run(batch.as_batch()).map_err(mill_error)?;
        in_a_row = if report.route.name == engine { in_a_row + 1 } else { 0 };
        if in_a_row == SETTLED {
            return Ok(count + 1 - SETTLED);
        }
    }
    Ok(BATCHES_MAX)
}

/// How many batches it takes until routes leave an engine that has become four times slower, and until they go back.
pub(super) fn following() -> Result<Vec<Figure>, LabError> {
    let suite = suite(SUITE);
    let factor = Arc::new(AtomicU32::new(1));
    let slowed = Slowed { inner: open("lanes")?, factor: Arc::clone(&factor) };
    let mill = Mill::builder().engine(Arc::new(slowed)).engine(open("library")?).legacy(true).workers(0);
    let mill = opened(mill)?;
    let parameters = Parameters { ops: OPS, keys: 1, len_min: LEN, len_max: LEN, ..Parameters::default() };
    let workload = parameters.workload(suite, Direction::Encrypt, open("reference")?.as_ref())?;
    let mut batch = workload.owned(mill.keys()).map_err(mill_error)?;
    let mut session = mill.session();
    let (mut away, mut back) = (Vec::new(), Vec::new());
    batches_until(&mut session, &mut batch, "lanes")?;
    for _ in 0..TURNS {
        factor.store(4, Ordering::Relaxed);
        away.push(batches_until(&mut session, &mut batch, "library")?);
        factor.store(1, Ordering::Relaxed);
        back.push(batches_until(&mut session, &mut batch, "lanes")?);
    }
    let figure = |name: &str, counts: &[usize], goal| Figure {
        name: name.to_owned(),
        of: format!("{SUITE}, {OPS} × {LEN} B, lanes and library"),
        value: counts.iter().copied().max().unwrap_or(BATCHES_MAX) as f64,
        unit: "batches",
        goal: Goal::AtMost(goal),
        detail: format!("the most of {counts:?}"),
        spread: 0.0,
        interval: None,
    };
    Ok(vec![
        figure("until routes leave an engine 4 × slower", &away, 100.0),
        figure("until they go back", &back, 1000.0),
    ])
}

/// Counts for so long, on every core; the sum.
pub(crate) fn count(for_time: Duration) -> u64 {
    let stop = AtomicBool::new(false);
    let counted = AtomicU64::new(0);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut own = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..1000 {
                        own = std::hint::black_box(own + 1);
                    }
                }
                counted.fetch_add(own, Ordering::Relaxed);
            });
        }
        thread::sleep(for_time);
        stop.store(true, Ordering::Relaxed);
    });
    counted.into_inner()
}

/// Counts for so long while `rival` works until it is told to stop; what was counted, and what the rival says of itself.
pub(crate) fn count_beside<R: Send>(for_time: Duration, rival: impl FnOnce(&AtomicBool) -> R + Send) -> (u64, R) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let working = scope.spawn(|| rival(&stop));
        let beside = count(for_time);
        stop.store(true, Ordering::Relaxed);
        match working.join() {
            Ok(said) => (beside, said),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Keeps a mill busy with these batches until it is told to stop; the operations that ended well meanwhile.
pub(crate) fn saturate(mill: &Mill, batches: Vec<OwnedBatch>, stop: &AtomicBool) -> u64 {
    let mut session = mill.session();
    let mut done = 0;
    // Whatever is refused is missing from what is in flight; there is room for all.
    batches.into_iter().for_each(|batch| drop(session.submit(batch)));
    while !stop.load(Ordering::Relaxed)
        && let Some(completed) = session.wait()
    {
        let mut batch = completed.batch;
        done += batch.ops.iter().filter(|op| op.status.is_done()).count() as u64;
        batch.ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
        drop(session.submit(batch));
    }
    done
}

/// Batches that keep a mill busy: 3DES, 64 bytes, as many as a saturated program has in flight.
pub(crate) fn rival_batches(mill: &Mill) -> Result<Vec<OwnedBatch>, LabError> {
    let parameters = Parameters { ops: 1000, keys: 64, len_min: 64, len_max: 64, ..Parameters::default() };
    let workload = parameters.workload(suite("3des-cbc"), Direction::Encrypt, open("reference")?.as_ref())?;
    (0..16).map(|_| workload.owned(mill.keys())).collect::<Result<_>>().map_err(mill_error)
}

/// What is left to a program that counts on every core while the mill is given more than it can do.
pub(super) fn fair_share(budget: Budget) -> Result<Figure, LabError> {
    let for_time = budget.time.max(Duration::from_millis(300)) * 2;
    let mill = opened(mill()?)?;
    let batches = rival_batches(&mill)?;
    let alone = count(for_time);
    let (beside, done) = count_beside(for_time, |stop| saturate(&mill, batches, stop));
    let rate = done as f64 / for_time.as_secs_f64() / 1e6;
    Ok(Figure {
        name: "left to a counting program".to_owned(),
        of: "a thread a core beside a saturated mill".to_owned(),
        value: 100.0 * beside as f64 / alone as f64,
        unit: "%",
        goal: Goal::AtLeast(40.0),
        detail: format!("its fair share is half or less; the mill did {rate:.2} M operations (3DES, 64 B) a second"),
        spread: 0.0,
        interval: None,
    })
}
