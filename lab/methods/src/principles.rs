//! `lab principles`: the optimisation principles of the IXP1200 paper, timed on this machine beside its own figures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_principles::{Algorithm, Experiment, Message, SCALAR_WIDTH, Variant, paper};
use ciphermill_report::Estimate;

pub use crate::sections::principles::section;

use crate::LabError;
use crate::clock::Clock;
use crate::counters::{Counters, Reading};
use crate::method::Progress;
use crate::timing::{Budget, Contestant, Samples, interleave};

/// Messages of a run. With 1 KB each they fill the first-level cache of one core and leave the second nearly empty.
const MESSAGES: usize = 64;

/// Keys that messages take by turns: their tables fit into the first-level cache beside the messages at work.
const KEYS: usize = 4;

/// A run takes about this long, so that starting threads does not count.
const RUN: Duration = Duration::from_millis(2);

/// Passes of a run at most, should a message take no time at all.
const PASSES_MAX: usize = 1 << 16;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options<'s> {
    /// Which algorithms.
    pub algorithms: Vec<Algorithm>,
    /// Bytes of each message.
    pub len: usize,
    /// Where keys and messages start.
    pub seed: u64,
    /// How long to measure each variant.
    pub budget: Budget,
    /// Set when the user wants an end.
    pub stop: &'s AtomicBool,
}

/// A record of the experiment.
#[derive(Clone, Debug)]
pub struct Record {
    /// Messages of a run.
    pub messages: usize,
    /// Bytes of each.
    pub len: usize,
    /// Keys that they take by turns.
    pub keys: usize,
    /// What utilisation is in this record.
    pub utilisation: Utilisation,
    /// The algorithms.
    pub algorithms: Vec<AlgorithmRecord>,
}

/// How utilisation was found.
#[derive(Clone, Debug)]
pub enum Utilisation {
    /// Instructions a cycle from the processor's counters, as a share of the issue width.
    Counters {
        /// Instructions that a core is taken to begin in a cycle.
        issue_width: f64,
    },
    /// The kernel's floor, which is its counted instructions at the issue width, as a share of the cycles that it took.
    Floor {
        /// Instructions that a core is taken to begin in a cycle; fewer of those that compute with vectors.
        issue_width: f64,
        /// Why there are no counters.
        why: String,
    },
}

/// One algorithm: its lines of both tables.
#[derive(Clone, Debug)]
pub struct AlgorithmRecord {
    /// Its name.
    pub algorithm: &'static str,
    /// How many rounds how many bytes take.
    pub rounds: &'static str,
    /// Messages side by side in the lanes, and on what.
    pub lanes: String,
    /// The processor's clock while this was measured.
    pub clock_ghz: f64,
    /// The paper's table 1.
    pub paper: paper::Characteristics,
    /// The variants.
    pub variants: Vec<VariantRecord>,
}

/// One variant of an algorithm.
#[derive(Clone, Debug)]
pub struct VariantRecord {
    /// Its name.
    pub variant: &'static str,
    /// Threads that it ran on.
    pub threads: usize,
    /// Counted instructions a round.
    pub instructions_per_round: f64,
    /// Counted memory accesses a round.
    pub accesses_per_round: f64,
    /// Throughput, in 10^6 bits a second.
    pub mbps: f64,
    /// Cycles of the clock that pass for a byte.
    pub cycles_per_byte: f64,
    /// Its rate by that of the unoptimised variant.
    pub gain: Estimate,
    /// Utilisation in percent, by [`Record::utilisation`].
    pub utilisation: f64,
    /// Half the width of the median's 95 % interval, as a share of it.
    pub spread: f64,
    /// The paper's table 2.
    pub paper: Option<PaperFigure>,
}

/// A cell of the paper's table 2.
#[derive(Clone, Copy, Debug)]
pub struct PaperFigure {
    /// Throughput in Mb/s.
    pub mbps: f64,
    /// Its throughput by that of the paper's unoptimised variant.
    pub gain: f64,
    /// Utilisation in percent.
    pub utilisation: f64,
}

/// The algorithms of these names, in their order; all where there is no name.
///
/// # Errors
/// [`LabError::Parameters`] with the names that there are.
pub fn named(names: &[String]) -> Result<Vec<Algorithm>, LabError> {
    let parse = |name: &String| name.parse::<Algorithm>().map_err(|error| LabError::Parameters(error.to_string()));
    let mut chosen = names.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if chosen.is_empty() {
        chosen = Algorithm::ALL.to_vec();
    }
    let order = |algorithm: &Algorithm| Algorithm::ALL.iter().position(|other| other == algorithm);
    chosen.sort_by_key(order);
    chosen.dedup();
    Ok(chosen)
}

/// Measures.
///
/// # Errors
/// [`LabError::Parameters`] for a length that an algorithm does not take, [`LabError::Disagrees`] when a variant computes
/// something else than the others, [`LabError::Interrupted`] when [`Options::stop`] was set.
pub fn run(options: &Options<'_>, progress: Progress<'_>) -> Result<Record, LabError> {
    check_len(options)?;
    let issue_width = SCALAR_WIDTH;
    let utilisation = match Counters::open() {
        Ok(_) => Utilisation::Counters { issue_width },
        Err(why) => Utilisation::Floor { issue_width, why },
    };
    let mut record = Record { messages: MESSAGES, len: options.len, keys: KEYS, utilisation, algorithms: Vec::new() };
    for algorithm in &options.algorithms {
        progress(algorithm.name())?;
        let experiment = Experiment::random(*algorithm, KEYS, options.seed);
        verify(&experiment, options)?;
        record.algorithms.push(measure(&experiment, options)?);
    }
    Ok(record)
}

fn check_len(options: &Options<'_>) -> Result<(), LabError> {
    let wrong = |algorithm: &Algorithm, rule: String| {
        let len = options.len;
        Err(LabError::Parameters(format!("{} takes no messages of {len} bytes: {rule}", algorithm.name())))
    };
    for algorithm in &options.algorithms {
        if options.len == 0 || options.len > algorithm.len_max() {
            return wrong(algorithm, format!("1 to {} are needed", algorithm.len_max()));
        }
        if algorithm.takes_blocks() && !options.len.is_multiple_of(8) {
            return wrong(algorithm, "a multiple of 8 is needed".to_owned());
        }
    }
    Ok(())
}

/// Compares every variant with the unoptimised one, which the crate's tests compare with the reference engine.
fn verify(experiment: &Experiment, options: &Options<'_>) -> Result<(), LabError> {
    let messages = Experiment::messages(MESSAGES, options.len, options.seed);
    let mut want = messages.clone();
    experiment.run(Variant::Unoptimised, &mut want, 1);
    for variant in experiment.variants() {
        let mut got = messages.clone();
        experiment.run(variant, &mut got, 1);
        if got != want {
            return Err(LabError::Disagrees { algorithm: experiment.algorithm().name(), variant: variant.name() });
        }
    }
    Ok(())
}

/// One variant with messages of its own.
struct Run<'e> {
    experiment: &'e Experiment,
    variant: Variant,
    messages: Vec<Message>,
    passes: usize,
    counters: Option<Counters>,
    stop: &'e AtomicBool,
}

impl<'e> Run<'e> {
    fn new(experiment: &'e Experiment, variant: Variant, options: &Options<'e>) -> Run<'e> {
        let mut messages = Experiment::messages(MESSAGES, options.len, options.seed);
        let mut time = |passes| {
            let start = Instant::now();
            experiment.run(variant, &mut messages, passes);
            start.elapsed()
        };
        // By doubling, and the shorter of two tries: what the first pass takes is threads starting, or somebody else's.
        let mut passes = 1;
        while passes < PASSES_MAX && time(passes).min(time(passes)) < RUN {
            passes *= 2;
        }
        Run { experiment, variant, messages, passes, counters: Counters::open().ok(), stop: options.stop }
    }
}

impl Contestant for Run<'_> {
    fn reset(&mut self) {}

    fn run(&mut self) {
        // What is left of the rounds then takes no time, and nobody looks at it.
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        let Run { experiment, variant, messages, passes, counters, .. } = self;
        match counters {
            Some(counters) => counters.count(|| experiment.run(*variant, messages, *passes)),
            None => experiment.run(*variant, messages, *passes),
        }
    }
}

fn measure(experiment: &Experiment, options: &Options<'_>) -> Result<AlgorithmRecord, LabError> {
    let mut runs: Vec<Run<'_>> = experiment.variants().map(|variant| Run::new(experiment, variant, options)).collect();
    let mut clock = Clock::default();
    let mut contestants: Vec<&mut dyn Contestant> = vec![&mut clock];
    contestants.extend(runs.iter_mut().map(|run| run as &mut dyn Contestant));
    let samples = interleave(&mut contestants, options.budget);
    if options.stop.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    let [clock, samples @ ..] = &samples[..] else { return Err(LabError::Interrupted) };
    let clock_ghz = Clock::ghz(clock.median_ns());
    let algorithm = experiment.algorithm();
    let messages = |run: &Run<'_>| (run.passes * run.messages.len()) as f64;
    let unoptimised = samples.first().zip(runs.first().map(messages));
    let variants = runs.iter_mut().zip(samples).map(|(run, samples)| {
        let gain = unoptimised.map(|(first, of_first)| first.ratio(samples).scaled(messages(run) / of_first));
        VariantRecord { gain: gain.unwrap_or_default(), ..row(run, samples, clock_ghz) }
    });
    let variants: Vec<VariantRecord> = variants.collect();
    Ok(AlgorithmRecord {
        algorithm: algorithm.name(),
        rounds: algorithm.round_rate(),
        lanes: experiment.lanes(),
        clock_ghz,
        paper: paper::characteristics(algorithm),
        variants,
    })
}

/// A variant's line, but for the gain.
fn row(run: &mut Run<'_>, samples: &Samples, clock_ghz: f64) -> VariantRecord {
    let (experiment, variant) = (run.experiment, run.variant);
    let algorithm = experiment.algorithm();
    let len = run.messages.first().map_or(0, |message| message.data.len());
    let cost = experiment.cost(variant, len);
    let round = cost.counts.share(algorithm.rounds(len) as f64);
    let message_ns = samples.median_ns() / (run.passes * run.messages.len()) as f64;
    let threads = variant.threads(experiment.threads());
    let cycles = message_ns * clock_ghz * threads as f64;
    let reading = run.counters.as_mut().and_then(Counters::reading);
    let per_cycle = reading.map(|Reading { instructions, cycles }| instructions as f64 / cycles as f64);
    VariantRecord {
        variant: variant.name(),
        threads,
        instructions_per_round: round.instructions,
        accesses_per_round: round.accesses(),
        mbps: 8.0 * len as f64 / message_ns * 1000.0,
        cycles_per_byte: message_ns * clock_ghz / len as f64,
        gain: Estimate::default(),
        utilisation: 100.0 * per_cycle.map_or(cost.floor_cycles / cycles, |per_cycle| per_cycle / SCALAR_WIDTH),
        spread: samples.spread(),
        paper: paper_figure(algorithm, variant),
    }
}

fn paper_figure(algorithm: Algorithm, variant: Variant) -> Option<PaperFigure> {
    let figure = paper::figure(algorithm, variant)?;
    let start = paper::figure(algorithm, Variant::Unoptimised)?;
    Some(PaperFigure { mbps: figure.mbps, gain: figure.mbps / start.mbps, utilisation: figure.utilisation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(stop: &AtomicBool) -> Options<'_> {
        let budget = Budget { time: Duration::ZERO, rounds_min: 1, rounds_max: 1 };
        Options { algorithms: vec![Algorithm::Rc4], len: 64, seed: 1, budget, stop }
    }

    #[test]
    fn a_record_has_every_variant_and_the_papers_figures() {
        let stop = AtomicBool::new(false);
        let record = run(&options(&stop), &mut |_| Ok(())).expect("a record");
        let [rc4] = &record.algorithms[..] else { panic!("{record:?}") };
        assert_eq!(rc4.variants.len(), Variant::ALL.len());
        assert_eq!(rc4.paper.accesses, 7);
        for variant in &rc4.variants {
            assert!(variant.mbps > 0.0 && variant.gain.value > 0.0 && variant.utilisation > 0.0, "{variant:?}");
            assert_eq!(variant.paper.is_none(), variant.variant == "lanes");
        }
        assert_eq!(rc4.variants[0].gain.value, 1.0);
        let helper = rc4.variants[5].paper.expect("a figure");
        assert_eq!((helper.mbps, helper.gain), (545.2, 545.2 / 263.5));
    }

    #[test]
    fn an_interrupt_ends_the_measurement() {
        let stop = AtomicBool::new(true);
        assert!(matches!(run(&options(&stop), &mut |_| Ok(())), Err(LabError::Interrupted)));
    }

    #[test]
    fn lengths_that_an_algorithm_does_not_take_are_refused() {
        let stop = AtomicBool::new(false);
        for (algorithm, len, rule) in [
            (Algorithm::Blowfish, 12, "multiple of 8"),
            (Algorithm::Seal, 65_537, "65536"),
            (Algorithm::Md5, 0, "1 to"),
        ] {
            let options = Options { algorithms: vec![algorithm], len, ..options(&stop) };
            let error = run(&options, &mut |_| Ok(())).expect_err("refused").to_string();
            assert!(error.contains(rule), "{error}");
        }
    }

    #[test]
    fn names_are_sorted_and_wrong_ones_told() {
        let chosen = named(&["md5".to_owned(), "blowfish".to_owned(), "md5".to_owned()]).expect("names");
        assert_eq!(chosen, [Algorithm::Blowfish, Algorithm::Md5]);
        assert_eq!(named(&[]).expect("all"), Algorithm::ALL);
        let error = named(&["abacus".to_owned()]).expect_err("no such name").to_string();
        assert!(error.contains("blowfish, khufu"), "{error}");
    }
}
