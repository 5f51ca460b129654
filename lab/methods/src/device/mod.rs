//! `lab device`: a device across a link, beside what its link carries and beside all cores of this processor.
//!
//! An accelerator that sits across a bus can be as fast as the bus at best; the coprocessor papers measure theirs by that.
//! So what short operations reach is shown as a share of the measured link, heavy ones beside this processor's engines on
//! all cores, and small batches by the size from which on the way there and back pays.

mod plan;
mod show;

use std::sync::Arc;

use ciphermill_contract::{Direction, Engine};
use ciphermill_engines::LinkRate;
use ciphermill_report::Section;
use ciphermill_tuning::Host;

use crate::breakeven::cross::overtaking;
use crate::crew::{self, Entry, Timed, Work, threads_up_to};
use crate::engines::open;
use crate::method::{Options, Progress};
use crate::workload::{Parameters, Workload, failed};
use crate::{LabError, lineup};
use plan::{Figure, Goal, Plan};
use show::{Outcome, Rate};

/// Keys that symmetric operations draw from.
const KEYS: usize = 64;

/// The device, by the name that finds the best one.
const DEVICE: &str = "gpu";

/// Measures a device. Of the engines that the options name, the first device counts (`gpu`, `gpu:cuda` …).
///
/// # Errors
/// [`LabError`]: a name that is none, an engine whose output is wrong.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut section = show::section();
    let plan = Plan::new(options);
    let is_device = |name: &&String| name.split(':').next() == Some(DEVICE);
    let name = options.engines.iter().find(is_device).map_or(DEVICE, String::as_str);
    progress(&format!("the link of {name}"))?;
    let Some(engine) = lineup::open_or_lack(name, &mut section)? else {
        section.conclusions.push("This machine has no device to measure.".to_owned());
        return Ok(section);
    };
    let link = ciphermill_engines::link_rates(name).map_err(|source| failed(engine.as_ref(), source))?;
    let bench = Bench { plan: &plan, device: &engine, link: best(&link), cores: Host::here().cores };
    let outcomes = bench.measure(&mut section, progress)?;
    show::fill(&mut section, engine.info(), &link, &outcomes);
    Ok(section)
}

/// What the link carries at best, whatever the copies' length.
fn best(rates: &[LinkRate]) -> LinkRate {
    let best = |of: fn(&LinkRate) -> f64| rates.iter().map(of).fold(0.0, f64::max);
    LinkRate {
        copy_len: rates.iter().map(|rate| rate.copy_len).max().unwrap_or(0),
        to_device: best(|rate| rate.to_device),
        from_device: best(|rate| rate.from_device),
        both_ways: best(|rate| rate.both_ways),
    }
}

/// What a device is measured with.
struct Bench<'b> {
    plan: &'b Plan,
    device: &'b Arc<dyn Engine>,
    link: LinkRate,
    cores: usize,
}

impl Bench<'_> {
    fn measure(&self, section: &mut Section, progress: Progress<'_>) -> Result<Vec<Outcome>, LabError> {
        let mut outcomes = Vec::new();
        for goal in &self.plan.goals {
            progress(goal.name)?;
            let rival = match goal.rival {
                None => None,
                Some(name) => match lineup::open_or_lack(name, section)? {
                    None => continue,
                    rival => rival,
                },
            };
            let able = |engine: &Arc<dyn Engine>, section: &mut Section| {
                lineup::runs(engine.as_ref(), goal.suite(), Direction::Encrypt, goal.len[1], section)
            };
            if !able(self.device, section) || rival.as_ref().is_some_and(|rival| !able(rival, section)) {
                continue;
            }
            outcomes.push(match (goal.figure, rival) {
                (Figure::Batch, Some(rival)) => self.by_batch(goal, &rival)?,
                (_, rival) => self.at_best(goal, rival.as_ref())?,
            });
        }
        Ok(outcomes)
    }

    /// The work of a goal in batches of so many operations.
    fn work(&self, goal: &Goal, ops: usize) -> Result<Work, LabError> {
        let reference = open("reference")?;
        let [len_min, len_max] = goal.len;
        let (keys, seed) = (KEYS.min(ops), self.plan.seed);
        let parameters = Parameters { ops, keys, len_min, len_max, seed, ..Parameters::default() };
        crew::work(goal.suite(), Direction::Encrypt, &parameters, reference.as_ref())
    }

    /// Starts so many threads on an engine, whose answers have been found right.
    fn entry(&self, engine: &Arc<dyn Engine>, work: &Work, threads: usize) -> Result<Entry, LabError> {
        let prepared = Arc::new(work.workload.prepare(engine.as_ref())?);
        Ok(Entry::start(engine, work, &prepared, threads, self.plan.extent.run))
    }

    /// Times entries in turns; nanoseconds an operation of all threads together.
    fn time(&self, entries: Vec<Entry>) -> Result<Vec<Rate>, LabError> {
        let timed = crew::time(entries, self.plan.budget, open("reference")?.as_ref())?;
        let rate = |timed: Timed| {
            let Timed { engine, threads, ops: batch, spread, .. } = timed;
            let (ns_per_op, bytes_per_op) = (timed.ns / batch as f64, timed.bytes as f64 / batch as f64);
            Rate { engine, threads, batch, ns_per_op, bytes_per_op, spread }
        };
        Ok(timed.into_iter().map(rate).collect())
    }

    /// The device on its best number of threads, beside the link or beside the rival on all cores.
    fn at_best(&self, goal: &Goal, rival: Option<&Arc<dyn Engine>>) -> Result<Outcome, LabError> {
        let ops = match goal.suite().is_public_key() {
            true => self.plan.extent.public,
            false => (2 * self.plan.extent.bytes).div_ceil(goal.len[0] + goal.len[1]),
        };
        let work = self.work(goal, ops)?;
        let threads = threads_up_to(self.cores.min(self.plan.extent.threads_max), false);
        let entries = threads.iter().map(|threads| self.entry(self.device, &work, *threads));
        let mut entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        let own = entries.len();
        if let Some(rival) = rival {
            entries.push(self.entry(rival, &work, self.cores)?);
        }
        let rates = self.time(entries)?;
        let (own, others) = rates.split_at(own);
        let best = own.iter().min_by(|a, b| a.ns_per_op.total_cmp(&b.ns_per_op));
        let best = best.ok_or_else(|| LabError::Parameters("the device has no thread".to_owned()))?;
        let other_ns = match others.first() {
            Some(rival) => rival.ns_per_op,
            None => self.link_ns(&work.workload),
        };
        let spread = others.iter().map(|rate| rate.spread).fold(best.spread, f64::max);
        let value = Some(other_ns / best.ns_per_op);
        Ok(Outcome { goal: *goal, value, spread, best: Some(best.clone()), rates: rates.clone() })
    }

    /// What the link alone takes for an operation: input, IV and the key's place there, output and tag back, with both
    /// directions at work.
    fn link_ns(&self, workload: &Workload) -> f64 {
        let [mut there, mut back] = [0.0; 2];
        let suite = workload.suite;
        let key = if suite.needs_key() { 4.0 } else { 0.0 };
        for op in &workload.ops {
            let output = suite.output_len(workload.direction, op.input.len as usize, 0);
            there += f64::from(op.input.len) + f64::from(op.iv_len) + key;
            back += output as f64 + f64::from(op.tag_len);
        }
        let alone = (there / self.link.to_device).max(back / self.link.from_device);
        alone.max(there.max(back) / self.link.both_ways) * 1e9 / workload.ops.len().max(1) as f64
    }

    /// The batch from which on the device is faster than the rival, each on one thread.
    fn by_batch(&self, goal: &Goal, rival: &Arc<dyn Engine>) -> Result<Outcome, LabError> {
        let mut rates = Vec::new();
        let (mut theirs, mut own) = (Vec::new(), Vec::new());
        for ops in self.plan.extent.batches {
            let work = self.work(goal, *ops)?;
            let entries = vec![self.entry(self.device, &work, 1)?, self.entry(rival, &work, 1)?];
            let timed = self.time(entries)?;
            for (rate, line) in timed.iter().zip([&mut own, &mut theirs]) {
                line.push([*ops as f64, rate.ns_per_op * *ops as f64]);
            }
            rates.extend(timed);
        }
        let last = rates.iter().rev().find(|rate| rate.engine == self.device.info().name).cloned();
        let value = overtaking(&theirs, &own).and_then(|overtaking| show::batch(overtaking, self.plan.extent.batches));
        let spread = rates.iter().map(|rate| rate.spread).fold(0.0, f64::max);
        Ok(Outcome { goal: *goal, value, spread, best: last, rates })
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_fault::{Fault, FaultEngine, Script};

    use super::*;

    fn tiny() -> Plan {
        let budget = crate::timing::Budget { time: std::time::Duration::ZERO, rounds_min: 1, rounds_max: 1 };
        let mut plan = Plan::new(&Options { quick: true, budget, ..Options::default() });
        plan.extent.bytes = 4096;
        plan.extent.batches = &[4, 64];
        plan.extent.run = std::time::Duration::from_micros(50);
        plan
    }

    fn stand_in(script: Script) -> Arc<dyn Engine> {
        Arc::new(FaultEngine::new("stand-in", open("library").expect("opens"), script))
    }

    const LINK: LinkRate = LinkRate { copy_len: 1 << 20, to_device: 10e9, from_device: 4e9, both_ways: 6e9 };

    #[test]
    fn a_small_run_has_every_figure() {
        let (plan, device) = (tiny(), stand_in(Script::healthy()));
        let bench = Bench { plan: &plan, device: &device, link: LINK, cores: 2 };
        let mut section = show::section();
        let outcomes = bench.measure(&mut section, &mut |_: &str| Ok(())).expect("measured");
        assert_eq!(outcomes.len(), plan.goals.len());
        show::fill(&mut section, device.info(), &[LINK], &outcomes);
        section.check().expect("sound");
        for name in ["link/there", "link/back", "link/both", "sha256-64/link", "3des-cbc-short/cores"] {
            assert!(section.measurements.iter().any(|one| one.name == name && one.value > 0.0), "{name}");
        }
        assert_eq!(section.tables[0].rows.len(), plan.goals.len());
        assert_eq!(
            section.tables[0].rows.len(),
            section.tables[0].rows.iter().filter(|row| !row[4].text.is_empty()).count()
        );
        assert_eq!(section.plots.len(), 1);
    }

    #[test]
    fn the_link_alone_takes_its_time() {
        let (plan, device) = (tiny(), stand_in(Script::healthy()));
        let bench = Bench { plan: &plan, device: &device, link: LINK, cores: 1 };
        let goal = |name: &str| *plan.goals.iter().find(|goal| goal.name == name).expect("a goal");
        // 64 bytes there and 32 back: 10.7 ns with both directions at work, which is more than each alone takes.
        let hashes = bench.work(&goal("sha256-64"), 8).expect("work");
        assert!((bench.link_ns(&hashes.workload) - 64.0 / 6.0).abs() < 1e-9);
        // Blocks of 48 bytes with IV and the key's place, 68 bytes there, and 48 back, which take longer by that alone.
        let short = Goal { len: [48, 48], ..goal("aes-128-cbc-short") };
        let ciphers = bench.work(&short, 8).expect("work");
        assert!((bench.link_ns(&ciphers.workload) - 48.0 / 4.0).abs() < 1e-9);
        assert_eq!(
            best(&[LINK, LinkRate { copy_len: 64, both_ways: 7e9, ..LINK }]),
            LinkRate { both_ways: 7e9, ..LINK }
        );
    }

    #[test]
    fn a_device_that_computes_wrongly_is_refused() {
        let plan = tiny();
        let device = stand_in(Script::always(Fault::WrongBit { op: 0, bit: 3 }));
        let bench = Bench { plan: &plan, device: &device, link: LINK, cores: 1 };
        let result = bench.measure(&mut show::section(), &mut |_: &str| Ok(()));
        assert!(matches!(result, Err(LabError::WrongResult { .. })), "{:?}", result.err());
    }

    #[test]
    fn a_machine_without_a_device_says_so() {
        let options = Options { quick: true, engines: vec!["gpu:abacus".to_owned()], ..Options::default() };
        let unknown = run(&options, &mut |_: &str| Ok(()));
        assert!(matches!(unknown, Err(LabError::UnknownKernel { .. })), "{:?}", unknown.err());
    }
}
