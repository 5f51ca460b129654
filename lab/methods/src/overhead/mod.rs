//! `lab overhead`: what the mill costs around an engine, what it does for many applications, and what it leaves to others.
//!
//! Method of Keromytis, Wright and de Raadt (2003), "The Design of the OpenBSD Cryptographic Framework": the framework
//! against the bare device, several applications at once, and an unrelated task beside them. The experiments are those of
//! [`crate::router`], over more shapes.

mod plan;
mod show;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ciphermill::{Mill, RunOptions, Session};
use ciphermill_contract::{Direction, Engine, OwnedBatch, capability};
use ciphermill_report::Section;

use crate::engines::suite;
use crate::method::{Options, Progress};
use crate::router::adapting::{count, count_beside, rival_batches, saturate};
use crate::router::stream::{Bare, Handed, Stream, agrees, answered, pend};
use crate::router::{mill, mill_error, opened};
use crate::short::pin;
use crate::timing::{Contestant, Samples, interleave};
use crate::workload::Workload;
use crate::{LabError, lineup};
use plan::Plan;
use show::{Apps, Left, Path, Value};

/// Measures the mill's overhead, around the first engine that takes part.
///
/// # Errors
/// [`LabError`]: a core that cannot be had, an engine whose output is wrong.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut section = show::section();
    let engines = lineup::engines(options, &["lanes"], &mut section)?;
    for other in &engines[1..] {
        section.lacks(other.info().name, "the method measures the mill around one engine: ask for this one alone");
    }
    measure(&Plan::new(options), &engines[0], options.core, section, progress)
}

fn measure(
    plan: &Plan,
    engine: &Arc<dyn Engine>,
    core: Option<usize>,
    mut section: Section,
    progress: Progress<'_>,
) -> Result<Section, LabError> {
    // What runs on several cores comes first: threads start where their maker is pinned.
    progress("what is left to another program")?;
    let left = left(plan)?;
    let mut apps = Vec::new();
    if lineup::runs(engine.as_ref(), plan.app.suite, Direction::Encrypt, plan.app.len, &mut section) {
        for count in plan.extent.apps {
            progress(&format!("{count} applications at once"))?;
            apps.push(applications(plan, engine, *count)?);
        }
    }
    pin(core)?;
    let mut paths = Vec::new();
    for suite in &plan.suites {
        for len in plan.extent.lengths {
            if capability::find(engine.capabilities(), *suite, Direction::Encrypt).is_none() {
                lineup::runs(engine.as_ref(), *suite, Direction::Encrypt, *len, &mut section);
                continue;
            }
            progress(&format!("{suite}, {len} B through the mill"))?;
            for ops in plan.extent.batches.iter().filter(|ops| **ops == 1 || **ops * len <= plan.extent.bytes_max) {
                paths.push(path(plan, engine, &plan.stream(*suite, *len, *ops))?);
            }
        }
    }
    show::fill(&mut section, plan, engine.info().name, &paths, &apps, &left);
    Ok(section)
}

/// A mill around one engine, in which callers do the work.
fn around(engine: &Arc<dyn Engine>) -> Result<Mill, LabError> {
    opened(Mill::builder().legacy(true).engine(Arc::clone(engine)).workers(0))
}

/// Batches through [`Session::run_with`], one after the other.
struct Called {
    session: Session,
    batches: Vec<OwnedBatch>,
    options: RunOptions<'static>,
    total: usize,
    failed: usize,
}

impl Called {
    fn new(mill: &Mill, workloads: &[Workload], total: usize) -> Result<Called, LabError> {
        let batches = workloads.iter().map(|work| work.owned(mill.keys())).collect::<Result<_, _>>();
        let batches = batches.map_err(mill_error)?;
        Ok(Called { session: mill.session(), batches, options: RunOptions::default(), total, failed: 0 })
    }

    fn agrees(&self, expected: &[Workload]) -> Result<(), LabError> {
        if self.failed > 0 {
            return Err(LabError::Parameters(format!("{} batches failed in the mill", self.failed)));
        }
        self.batches.iter().zip(expected).try_for_each(|(batch, expected)| agrees(batch, expected))
    }
}

impl Contestant for Called {
    fn reset(&mut self) {}

    fn run(&mut self) {
        for n in 0..self.total {
            let place = n % self.batches.len();
            let batch = &mut self.batches[place];
            pend(batch);
            self.failed += usize::from(self.session.run_with(batch.as_batch(), &self.options).is_err());
        }
    }
}

/// The bare engine, the mill called, and the mill handed batches to, on one shape.
fn path(plan: &Plan, engine: &Arc<dyn Engine>, stream: &Stream) -> Result<Path, LabError> {
    let (workloads, answers) = answered(stream)?;
    let mill = around(engine)?;
    let mut called = Called::new(&mill, &workloads, stream.batches)?;
    let mut handed = Handed::new(&mill, None, &workloads, stream.batches)?;
    let mut bare = Bare::new(engine, workloads, stream.batches)?;
    bare.run_each();
    bare.agrees(&answers)?;
    called.run();
    called.agrees(&answers)?;
    handed.run();
    handed.agrees(&answers)?;
    let samples = interleave(&mut [&mut bare, &mut called, &mut handed], plan.budget);
    bare.agrees(&answers)?;
    called.agrees(&answers)?;
    handed.agrees(&answers)?;
    let each = |index: usize| {
        let samples = samples.get(index).cloned().unwrap_or_default();
        Value { value: samples.median_ns() / stream.timed_ops() as f64, spread: samples.spread() }
    };
    let Stream { suite, len, ops, .. } = *stream;
    let share = |index: usize| match (samples.first(), samples.get(index)) {
        (Some(bare), Some(other)) => bare.ratio(other).scaled(100.0),
        _ => Default::default(),
    };
    let (called_share, share) = (share(1), share(2));
    Ok(Path { suite, len, ops, bare: each(0), called: each(1), handed: each(2), called_share, share })
}

/// Several of a kind, each on a thread of its own.
struct AtOnce<C>(Vec<C>);

impl<C: Contestant + Send> Contestant for AtOnce<C> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        thread::scope(|scope| {
            for one in &mut self.0 {
                scope.spawn(|| one.run());
            }
        });
    }
}

/// So many applications on one mill, against as many threads on the bare engine.
fn applications(plan: &Plan, engine: &Arc<dyn Engine>, count: usize) -> Result<Apps, LabError> {
    let (workloads, answers) = answered(&plan.app)?;
    let mill = around(engine)?;
    let total = plan.app.batches;
    let bare = || Bare::new(engine, workloads.clone(), total);
    let mut bare = AtOnce((0..count).map(|_| bare()).collect::<Result<Vec<_>, _>>()?);
    let handed = || Handed::new(&mill, None, &workloads, total);
    let mut handed = AtOnce((0..count).map(|_| handed()).collect::<Result<Vec<_>, _>>()?);
    bare.run();
    handed.run();
    let agree = |bare: &AtOnce<Bare>, handed: &AtOnce<Handed>| {
        bare.0.iter().try_for_each(|one| one.agrees(&answers))?;
        handed.0.iter().try_for_each(|one| one.agrees(&answers))
    };
    agree(&bare, &handed)?;
    let samples = interleave(&mut [&mut bare, &mut handed], plan.budget);
    agree(&bare, &handed)?;
    let ops = (count * plan.app.timed_ops()) as f64;
    let rate = |index: usize| {
        let samples = samples.get(index).cloned().unwrap_or_default();
        Value { value: ops * 1e9 / samples.median_ns().max(1.0), spread: samples.spread() }
    };
    Ok(Apps { count, bare: rate(0), mill: rate(1) })
}

/// Works on a bare engine until told to stop; the operations done.
fn saturate_bare(mut bare: Bare, ops: usize, stop: &AtomicBool) -> u64 {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        bare.run();
        done += ops as u64;
    }
    done
}

/// What a counting program gets by itself, beside one thread of a bare engine, and beside a mill on all cores.
fn left(plan: &Plan) -> Result<Left, LabError> {
    let mill = opened(mill()?)?;
    let engine = crate::engines::open("lanes")?;
    let (mut alone, mut thread, mut beside, mut done) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let stream = Stream { suite: suite("3des-cbc"), len: 64, ops: 1000, in_flight: 1, batches: 1 };
    for _ in 0..plan.extent.turns {
        alone.push(count(plan.extent.share) as f64);
        let (workloads, _) = answered(&stream)?;
        let bare = Bare::new(&engine, workloads, stream.batches)?;
        thread.push(count_beside(plan.extent.share, |stop| saturate_bare(bare, stream.timed_ops(), stop)).0 as f64);
        let batches = rival_batches(&mill)?;
        let (counted, operations) = count_beside(plan.extent.share, |stop| saturate(&mill, batches, stop));
        beside.push(counted as f64);
        done.push(operations as f64 / plan.extent.share.as_secs_f64());
    }
    let value = |values: Vec<f64>| {
        let samples: Samples = values.into_iter().collect();
        Value { value: samples.median_ns(), spread: samples.spread() }
    };
    let alone = value(alone);
    let share = |values: Vec<f64>| {
        let counted = value(values);
        Value { value: 100.0 * counted.value / alone.value, spread: counted.spread.max(alone.spread) }
    };
    Ok(Left { beside_thread: share(thread), beside_mill: share(beside), mill_ops: value(done) })
}

#[cfg(test)]
mod tests {
    use ciphermill_fault::{Fault, FaultEngine, Script};

    use super::*;

    fn tiny(suite: &str) -> Plan {
        let suites = vec![suite.parse().expect("a suite")];
        let budget = crate::timing::Budget { time: std::time::Duration::ZERO, rounds_min: 1, rounds_max: 1 };
        let mut plan = Plan::new(&Options { quick: true, suites, budget, ..Options::default() });
        plan.extent.lengths = &[16, 64];
        plan.extent.batches = &[1, 8];
        plan.extent.ops = 16;
        plan.app = Stream { len: 64, ops: 8, in_flight: 2, batches: 4, ..plan.app };
        plan.extent.apps = &[1, 3];
        plan.extent.share = std::time::Duration::from_millis(20);
        plan.extent.turns = 2;
        plan
    }

    #[test]
    fn a_small_run_has_every_figure() {
        let engine = crate::engines::open("lanes").expect("opens");
        let plan = tiny("aes-128-cbc");
        let section = measure(&plan, &engine, None, show::section(), &mut |_: &str| Ok(())).expect("measured");
        for name in [
            "aes-128-cbc/16/x1/bare",
            "aes-128-cbc/64/x8/called",
            "aes-128-cbc/64/x8/handed",
            "aes-128-cbc/64/x8/share",
            "apps/aes-128-cbc/3/mill",
            "apps/aes-128-cbc/1/bare",
            "left/beside-mill",
            "left/beside-thread",
        ] {
            let found: Vec<_> = section.measurements.iter().filter(|number| number.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
        }
        assert!(section.measurements.iter().all(|number| number.value.is_finite() && number.value > 0.0));
        assert_eq!((section.plots.len(), section.tables.len()), (2, 3));
        assert!(
            section.conclusions.iter().any(|words| words.contains("OpenBSD framework")),
            "{:?}",
            section.conclusions
        );
        assert!(section.missing.is_empty());
    }

    #[test]
    fn an_engine_that_computes_wrongly_is_refused() {
        // The first batches are the bare engine's own; later ones run in a mill, which asks its known answer first.
        for at in [0, 3] {
            let script = Script::at(at, Fault::WrongBit { op: 2, bit: 7 });
            let inner = crate::engines::open("library").expect("opens");
            let liar: Arc<dyn Engine> = Arc::new(FaultEngine::new("liar", inner, script));
            let stream = Stream { in_flight: 4, batches: 8, ..tiny("sha256").stream(tiny("sha256").suites[0], 64, 4) };
            let result = path(&tiny("sha256"), &liar, &stream);
            assert!(matches!(result, Err(LabError::WrongResult { op: 2, .. })), "{at}: {:?}", result.err());
        }
    }

    #[test]
    fn a_suite_that_the_engine_lacks_is_said() {
        let engine = crate::engines::open("library").expect("opens");
        let section =
            measure(&tiny("aes-128-siv"), &engine, None, show::section(), &mut |_: &str| Ok(())).expect("runs");
        assert!(section.missing.iter().any(|missing| missing.what.contains("aes-128-siv")));
        assert!(section.measurements.iter().all(|number| number.name.starts_with("left/")));
    }
}
