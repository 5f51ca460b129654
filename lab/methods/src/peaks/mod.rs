//! `lab peaks`: what each algorithm reaches at best, on one thread and on all.
//!
//! Method of the Niagara slides (Schuba and others), "Peak Crypto T2 Accelerator Performance": bulk rates in Gb/s and
//! public-key operations a second, of a whole chip.

mod plan;
mod show;

use std::sync::Arc;

use ciphermill_contract::Engine;
use ciphermill_report::Section;
use ciphermill_tuning::Host;

use crate::crew::{self, Entry, Timed, Work};
use crate::engines::{names, open};
use crate::method::{Options, Progress};
use crate::workload::Parameters;
use crate::{LabError, lineup};
use plan::{Algorithm, Plan, Shape};
use show::{Peak, What};

/// Keys that symmetric operations draw from.
const KEYS: usize = 64;

/// Measures peaks. Threads are pinned to cores of their own, whatever core the options name.
///
/// # Errors
/// [`LabError`]: an engine whose output is wrong.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut section = show::section();
    let engines = lineup::engines(options, &names(), &mut section)?;
    // Not those that this thread may use: it may be pinned to one.
    let plan = Plan::new(options, Host::here().cores);
    measure(&plan, &engines, section, progress)
}

fn measure(
    plan: &Plan,
    engines: &[Arc<dyn Engine>],
    mut section: Section,
    progress: Progress<'_>,
) -> Result<Section, LabError> {
    let reference = open("reference")?;
    let mut peaks = Vec::new();
    for algorithm in &plan.algorithms {
        let Algorithm { suite, direction, .. } = algorithm;
        progress(&format!("{suite} {direction}"))?;
        let (bulk, short) = match suite.is_public_key() {
            true => (&[][..], Shape { ops: plan.extent.public, len: 0 }),
            false => (plan.extent.bulk, plan.extent.short),
        };
        let longest = bulk.iter().map(|shape| shape.len).max().unwrap_or_default();
        let able: Vec<&Arc<dyn Engine>> = engines
            .iter()
            .filter(|engine| lineup::runs(engine.as_ref(), *suite, *direction, longest, &mut section))
            .collect();
        if able.is_empty() {
            section.lacks(format!("{suite} {direction}"), "no engine of those that take part runs it");
            continue;
        }
        let bench = Bench { plan, algorithm, engines: &able, reference: reference.as_ref() };
        if !bulk.is_empty() {
            let shapes = bench.best_shapes(bulk)?;
            peaks.extend(bench.by_thread(&shapes, What::Bulk)?);
        }
        peaks.extend(bench.by_thread(&vec![short; able.len()], What::Operations)?);
    }
    show::fill(&mut section, plan, &peaks);
    Ok(section)
}

/// What one algorithm is measured with.
struct Bench<'b> {
    plan: &'b Plan,
    algorithm: &'b Algorithm,
    engines: &'b [&'b Arc<dyn Engine>],
    reference: &'b dyn Engine,
}

impl Bench<'_> {
    /// The work of a shape, and the reference's answers to it.
    fn work(&self, shape: Shape) -> Result<Work, LabError> {
        let Algorithm { suite, direction, .. } = *self.algorithm;
        let (keys, seed) = (KEYS.min(shape.ops), self.plan.seed);
        let parameters =
            Parameters { ops: shape.ops, keys, len_min: shape.len, len_max: shape.len, seed, ..Parameters::default() };
        crew::work(suite, direction, &parameters, self.reference)
    }

    /// Verifies an engine on a shape and starts crews of these many threads.
    fn entries(&self, engine: &Arc<dyn Engine>, shape: Shape, threads: &[usize]) -> Result<Vec<Entry>, LabError> {
        let work = self.work(shape)?;
        let prepared = Arc::new(work.workload.prepare(engine.as_ref())?);
        let mut ran = work.workload.clone();
        ran.run_once(engine.as_ref(), &prepared)?;
        work.agrees(engine.as_ref(), &ran, self.reference)?;
        let entry = |threads: &usize| Entry::start(engine, &work, &prepared, *threads, self.plan.extent.run);
        Ok(threads.iter().map(entry).collect())
    }

    /// Times entries in turns.
    fn time(&self, entries: Vec<Entry>, what: What) -> Result<Vec<Peak>, LabError> {
        let Algorithm { suite, direction, .. } = *self.algorithm;
        let peak = |timed: Timed| {
            let Timed { engine, threads, spread, ns, .. } = timed;
            let rate = match what {
                What::Bulk => timed.bytes as f64 * 8.0 / ns,
                What::Operations => timed.ops as f64 * 1e9 / ns,
            };
            Peak { suite, direction, engine, threads, what, rate, spread }
        };
        Ok(crew::time(entries, self.plan.budget, self.reference)?.into_iter().map(peak).collect())
    }

    /// The shape with the highest rate on one thread, for each engine.
    fn best_shapes(&self, shapes: &[Shape]) -> Result<Vec<Shape>, LabError> {
        let mut best = vec![shapes[0]; self.engines.len()];
        if shapes.len() == 1 {
            return Ok(best);
        }
        for (engine, best) in self.engines.iter().zip(&mut best) {
            let mut entries = Vec::new();
            for shape in shapes {
                entries.extend(self.entries(engine, *shape, &[1])?);
            }
            let timed = self.time(entries, What::Bulk)?;
            if let Some((shape, _)) = shapes.iter().zip(&timed).max_by(|a, b| a.1.rate.total_cmp(&b.1.rate)) {
                *best = *shape;
            }
        }
        Ok(best)
    }

    /// Every engine on every number of threads, in turns.
    fn by_thread(&self, shapes: &[Shape], what: What) -> Result<Vec<Peak>, LabError> {
        let mut entries = Vec::new();
        for (engine, shape) in self.engines.iter().zip(shapes) {
            entries.extend(self.entries(engine, *shape, &self.plan.threads)?);
        }
        self.time(entries, what)
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::Direction;
    use ciphermill_fault::{Fault, FaultEngine, Script};

    use super::*;

    fn tiny(suites: &[&str]) -> Plan {
        let suites = suites.iter().map(|name| name.parse().expect("a suite")).collect();
        let budget = crate::timing::Budget { time: std::time::Duration::ZERO, rounds_min: 1, rounds_max: 1 };
        let options = Options { quick: true, suites, budget, ..Options::default() };
        let mut plan = Plan::new(&options, 2);
        plan.algorithms.retain(|algorithm| algorithm.direction == Direction::Encrypt);
        plan.extent.bulk = &[Shape { ops: 4, len: 256 }, Shape { ops: 2, len: 512 }];
        plan.extent.short = Shape { ops: 8, len: 64 };
        plan.extent.run = std::time::Duration::from_micros(50);
        plan
    }

    #[test]
    fn a_small_run_has_every_figure() {
        let engines = ["lanes", "library"].map(|name| open(name).expect("opens"));
        let plan = tiny(&["aes-128-cbc", "aes-128-cbc+hmac-sha512", "ecdsa-p256"]);
        let section = measure(&plan, &engines, show::section(), &mut |_: &str| Ok(())).expect("measured");
        for name in [
            "aes-128-cbc/encrypt/lanes/bulk/t1",
            "aes-128-cbc/encrypt/library/bulk/t2",
            "aes-128-cbc/encrypt/lanes/ops/t2",
            "aes-128-cbc+hmac-sha512/encrypt/library/bulk/t1",
            "ecdsa-p256/encrypt/library/ops/t2",
        ] {
            let found: Vec<_> = section.measurements.iter().filter(|number| number.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].unit, if name.contains("bulk") { "Gb/s" } else { "op/s" });
        }
        assert!(section.measurements.iter().all(|number| number.value.is_finite() && number.value > 0.0));
        assert_eq!(section.tables.len(), 3);
        assert!(section.missing.iter().any(|missing| missing.what.starts_with("lanes, aes-128-cbc+hmac-sha512")));
        assert!(section.conclusions.iter().any(|words| words.contains("UltraSPARC T2")), "{:?}", section.conclusions);
    }

    #[test]
    fn an_engine_that_computes_wrongly_is_refused() {
        for (suite, op) in [("sha256", 1), ("ecdsa-p256", 0)] {
            let script = Script::at(0, Fault::WrongBit { op, bit: 9 });
            let liar: Arc<dyn Engine> = Arc::new(FaultEngine::new("liar", open("library").expect("opens"), script));
            let result = measure(&tiny(&[suite]), &[liar], show::section(), &mut |_: &str| Ok(()));
            assert!(matches!(result, Err(LabError::WrongResult { .. })), "{suite}: {:?}", result.err());
        }
    }

    #[test]
    fn one_thread_that_answers_wrongly_in_the_end_is_found() {
        let engine = open("library").expect("opens");
        let plan = tiny(&["sha256"]);
        let reference = open("reference").expect("opens");
        let engines = [&engine];
        let bench =
            Bench { plan: &plan, algorithm: &plan.algorithms[0], engines: &engines, reference: reference.as_ref() };
        let work = bench.work(plan.extent.short).expect("work");
        let prepared = Arc::new(work.workload.prepare(engine.as_ref()).expect("no keys"));
        let crew = crew::Crew::start(&engine, &work.workload, &prepared, 2, plan.extent.run);
        let mut ran = crew.end().expect("ran");
        assert!(ran.iter().all(|ran| work.agrees(engine.as_ref(), ran, bench.reference).is_ok()));
        let at = ran[1].ops[3].tag_span().range().start;
        ran[1].arena[at] ^= 1;
        let result = work.agrees(engine.as_ref(), &ran[1], bench.reference);
        assert!(matches!(result, Err(LabError::WrongResult { op: 3, .. })));
    }
}
