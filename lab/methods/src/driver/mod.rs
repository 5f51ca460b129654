//! `lab driver`: how the way of driving an engine moves what is measured of it.
//!
//! Method of Waters (2009), "Accelerator Measurement Methodology": unique chunks of data, handed over one at a time or
//! all at once, completions polled or signalled, answers checked or not. Figure 1 of the article is measured again here,
//! and a factorial design says which of the variables moved the result.

mod drive;
mod effects;
mod load;
mod plan;
mod show;

use std::cell::RefCell;
use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_contract::{Direction, Engine, Suite, capability};
use ciphermill_report::Section;

use crate::LabError;
use crate::lineup;
use crate::method::{Options, Progress};
use crate::random::Random;
use crate::router::mill_error;
use crate::short::pin;
use crate::timing::{Contestant, Samples, interleave};
use drive::{CHECKINGS, COMPLETIONS, Checking, Completion, DISPATCHES, Dispatch, Drive, Way};
use effects::Observation;
use load::{Load, Spec};
use plan::Plan;
use show::{DesignPoint, Point, Rate};

/// Which of a load's names for keys belong to the mill of each completion.
const POLLED: usize = 0;
const WOKEN: usize = 1;

/// Runs the driver benchmark.
///
/// # Errors
/// [`LabError`]: a core that cannot be had, an engine whose output is wrong.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut section = show::section();
    let engines = lineup::engines(options, &["lanes", "library"], &mut section)?;
    measure(Plan::new(options), &engines, options.core, section, progress)
}

fn measure(
    plan: Plan,
    engines: &[Arc<dyn Engine>],
    core: Option<usize>,
    mut section: Section,
    progress: Progress<'_>,
) -> Result<Section, LabError> {
    let bench = Bench::new(plan, engines)?;
    // The mills' threads have been started, so that they keep cores of their own.
    pin(core)?;
    let mut points = Vec::new();
    for (suite, input_max) in &bench.plan.suites {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if !suite.has_direction(direction) {
                section.lacks(format!("{suite} {direction}"), "the suite has no such direction");
                continue;
            }
            for len in bench.plan.extent.sizes {
                progress(&format!("{suite} {direction}, {len} B"))?;
                points.extend(bench.point(*suite, direction, *len, *input_max, &mut section)?);
            }
        }
    }
    let mut seen = Vec::new();
    for (size, len) in bench.plan.extent.design.sizes.iter().enumerate() {
        progress(&format!("what moves the result, {len} B"))?;
        seen.extend(bench.design(size, *len, &mut section)?);
    }
    show::fill(&mut section, &bench.plan, &points, &seen);
    Ok(section)
}

/// What everything is measured with.
struct Bench {
    plan: Plan,
    engines: Vec<Arc<dyn Engine>>,
    reference: Arc<dyn Engine>,
    /// Without threads, and with one.
    mills: [Mill; 2],
}

impl Bench {
    fn new(plan: Plan, engines: &[Arc<dyn Engine>]) -> Result<Bench, LabError> {
        let opened = |workers| {
            let builder = Mill::builder().legacy(true).engines(engines.iter().map(Arc::clone)).workers(workers);
            builder.open().map_err(mill_error)
        };
        let mills = [opened(0)?, opened(1)?];
        let bench = Bench { plan, engines: engines.to_vec(), reference: crate::engines::open("reference")?, mills };
        bench.start()?;
        Ok(bench)
    }

    /// Has the second mill start its thread, by a chunk that its caller is woken for.
    fn start(&self) -> Result<(), LabError> {
        let (suite, direction) = (self.plan.design_suite, Direction::Encrypt);
        let Some(engine) = self.first_that_runs(suite, direction) else { return Ok(()) };
        let spec = Spec {
            suite,
            direction,
            len: self.plan.extent.sizes[0],
            chunks: 1,
            batch: 1,
            keys: 1,
            repeated: false,
            seed: self.plan.seed,
        };
        let (load, _) = Load::new(spec, engine, self.reference.as_ref(), &[&self.mills[POLLED], &self.mills[WOKEN]])?;
        let load = RefCell::new(load);
        let way = Way { dispatch: Dispatch::All, completion: Completion::Woken, checking: Checking::Inside };
        Drive::new(way, &load, &self.mills[WOKEN], WOKEN)?.verify()
    }

    fn first_that_runs(&self, suite: Suite, direction: Direction) -> Option<&Arc<dyn Engine>> {
        self.engines.iter().find(|engine| capability::find(engine.capabilities(), suite, direction).is_some())
    }

    fn load(&self, spec: Spec) -> Result<Option<(Load, crate::router::stream::Bare, &'static str)>, LabError> {
        let Some(engine) = self.first_that_runs(spec.suite, spec.direction) else { return Ok(None) };
        let mills = [&self.mills[POLLED], &self.mills[WOKEN]];
        let (load, bare) = Load::new(spec, engine, self.reference.as_ref(), &mills)?;
        Ok(Some((load, bare, engine.info().name)))
    }

    /// One size of one suite: one at a time, all at once, and all as one batch of the bare engine.
    fn point(
        &self,
        suite: Suite,
        direction: Direction,
        len: usize,
        input_max: usize,
        section: &mut Section,
    ) -> Result<Option<Point>, LabError> {
        let plan = &self.plan;
        let chunks = plan.chunks_of(plan.extent.chunks, len, input_max);
        if chunks < plan.extent.chunks {
            section.lacks(
                format!("{suite}, {} chunks of {len} B", crate::shown::grouped(plan.extent.chunks)),
                format!(
                    "more memory or time than the method may take; {} chunks instead",
                    crate::shown::grouped(chunks)
                ),
            );
        }
        let (batch, seed) = (plan.batch_of(len, chunks), plan.seed);
        let spec = Spec { suite, direction, len, chunks, batch, keys: 1, repeated: false, seed };
        let Some((load, mut bare, bare_name)) = self.load(spec)? else {
            section.lacks(format!("{suite} {direction}"), "no engine of those that take part runs it");
            return Ok(None);
        };
        let (bytes, len) = (load.bytes(), load.spec.len);
        let load = RefCell::new(load);
        let way = |dispatch| Way { dispatch, completion: Completion::Polled, checking: Checking::Off };
        let drive = |dispatch| Drive::new(way(dispatch), &load, &self.mills[POLLED], POLLED);
        let (mut one, mut all) = (drive(Dispatch::OneAtATime)?, drive(Dispatch::All)?);
        one.verify()?;
        all.verify()?;
        let samples = interleave(&mut [&mut one, &mut all, &mut bare], plan.budget);
        one.finish()?;
        all.finish()?;
        let rate = |samples: &Samples| Rate::of(bytes, samples);
        let [one, all, bare] = samples.as_slice() else { return Ok(None) };
        let factor = one.ratio(all);
        let (one, all, bare) = (rate(one), rate(all), rate(bare));
        Ok(Some(Point { suite, direction, len, chunks, one, all, factor, bare, bare_name }))
    }

    /// Every combination of the design's levels at one size.
    fn design(&self, size: usize, len: usize, section: &mut Section) -> Result<Vec<DesignPoint>, LabError> {
        let plan = &self.plan;
        let chunks = plan.chunks_of(plan.extent.design.chunks, len, usize::MAX);
        let mut loads = Vec::new();
        for (data, keys) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let spec = Spec {
                suite: plan.design_suite,
                direction: Direction::Encrypt,
                len,
                chunks,
                batch: plan.batch_of(len, chunks),
                keys: if keys == 0 { 1 } else { plan.extent.keys },
                repeated: data == 1,
                seed: plan.seed,
            };
            let Some((load, ..)) = self.load(spec)? else {
                section
                    .lacks("what moves the result", format!("no engine of those that take part runs {}", spec.suite));
                return Ok(Vec::new());
            };
            loads.push((data, keys, RefCell::new(load)));
        }
        let (mut drives, mut levels) = (Vec::new(), Vec::new());
        for (data, keys, load) in &loads {
            for (d, (dispatch, _)) in DISPATCHES.into_iter().enumerate() {
                for (c, (completion, _)) in COMPLETIONS.into_iter().enumerate() {
                    for (k, (checking, _)) in CHECKINGS.into_iter().enumerate() {
                        let names = if completion == Completion::Polled { POLLED } else { WOKEN };
                        let way = Way { dispatch, completion, checking };
                        let mut drive = Drive::new(way, load, &self.mills[names], names)?;
                        drive.verify()?;
                        drives.push(drive);
                        levels.push((vec![size, d, c, *data, *keys, k], load.borrow().bytes()));
                    }
                }
            }
        }
        // What a contestant finds in the caches, and whether a thread still sleeps, depends on the one before it. In a
        // random order that falls on all levels alike.
        let mut random = Random::new(plan.seed);
        for place in (1..drives.len()).rev() {
            let other = random.below(place as u64 + 1) as usize;
            drives.swap(place, other);
            levels.swap(place, other);
        }
        let mut contestants: Vec<&mut dyn Contestant> =
            drives.iter_mut().map(|drive| drive as &mut dyn Contestant).collect();
        let samples = interleave(&mut contestants, plan.design_budget);
        drives.iter_mut().try_for_each(Drive::finish)?;
        let point = |((levels, bytes), samples): ((Vec<usize>, f64), &Samples)| {
            let rate = Rate::of(bytes, samples);
            DesignPoint { seen: Observation { levels, rate: rate.mbit_per_s }, spread: rate.spread }
        };
        Ok(levels.into_iter().zip(&samples).map(point).collect())
    }
}

#[cfg(test)]
mod tests;
