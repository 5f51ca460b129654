//! `lab ladder`: the experiments of Lindemann and Smith (2001) as rungs, each a configuration of this project.
//!
//! A child process stands where the paper's coprocessor stood: the lab's program, started anew
//! ([`serve_if_child`]). What a rung does is in `rungs`, how the sides speak in `wire`, the child in `service`, the
//! parent in `client`.

mod analysis;
mod chain;
mod client;
mod definitions;
mod frames;
mod measure;
mod poll;
mod rungs;
mod service;
mod show;
#[doc(hidden)]
pub mod trials;
mod wire;
mod work;

use std::cell::RefCell;
use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, Suite, capability};
use ciphermill_report::{Better, Section};

pub use service::serve_if_child;

use crate::LabError;
use crate::engines::open;
use crate::lineup::open_or_lack;
use crate::method::{Options, Progress};
use crate::workload::Parameters;
use analysis::{Reached, conclusions};
use client::{Load, Service};
use definitions::{BULK_LEN, ENGINES, FULL, KEYS, LANES, LEN, OPS, QUICK, SUITES, Sweep, takes};
use measure::{Taken, compare};
use rungs::{Place, RUNGS, Rung};
use show::Shown;
use wire::Opening;
use work::{Keys, Work};

/// The direction that the ladder is climbed in: the one in which chaining can be broken from outside (`chain`).
pub(crate) const DIRECTION: Direction = Direction::Decrypt;

/// The rung that a long operation is sent up.
const BULK_RUNG: usize = 7;

/// Measures.
///
/// # Errors
/// [`LabError`]: no child, an output that is not the reference's.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut section = Section::new(
        "ladder",
        "Short operations, rung by rung",
        "Lindemann and Smith: Improving DES Coprocessor Throughput for Short Operations, USENIX Security 2001, section 3",
    );
    section.lesson = lesson();
    crate::short::pin(options.core)?;
    let suites = options.suites_or(&SUITES);
    let (can, cannot): (Vec<Suite>, Vec<Suite>) = suites.into_iter().partition(|suite| takes(*suite).is_ok());
    for suite in cannot {
        section.lacks(suite.to_string(), takes(suite).err().unwrap_or_default());
    }
    let share = 1.0 / can.len().max(1) as f64;
    for suite in can {
        climb(suite, share, options, progress, &mut section)?;
    }
    Ok(section)
}

fn lesson() -> Vec<String> {
    [
        "A cryptographic coprocessor that decrypted 20 megabytes a second was measured at 1.5 kilobytes a second by \
         somebody whose data were 8 to 80 bytes long. Nothing was wrong with its cipher. Its builders changed one thing at a \
         time, and each time another overhead turned out to be the one that counted: first requests, then calls between \
         its layers, then copies, then the bus that parameters came over. The ladder repeats their experiments. A \
         process of its own stands for the coprocessor, and each rung differs from the one below in one thing; none is \
         simulated.",
        "The time of a batch is C1 for the batch, plus C2 for each operation, plus C3 for each byte. A line that rises \
         with the batch's size still pays C1; batches that are large enough make it disappear, and then only C2 and C3 are \
         left to work on. The last rungs go where the paper could not: an engine that works on many messages side by side, \
         and a ring of shared memory in which no batch has to be announced. On the ring several batches are under way, on \
         all other rungs one.",
        "All rungs decrypt. On the third, one engine operation runs over all messages under one key, and the chaining between them \
         is taken out by XOR; from outside of an engine that is possible only where the block that was chained is known \
         beforehand. Rates count the data, not keys, IVs or the known answers that are sent along.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The engines of the child's mills.
struct Engines {
    single: Arc<dyn Engine>,
    single_name: String,
    lanes: Option<Arc<dyn Engine>>,
}

fn engines(suite: Suite, options: &Options, section: &mut Section) -> Result<Engines, LabError> {
    let usual = ENGINES.map(str::to_owned);
    let wanted = if options.engines.is_empty() { &usual[..] } else { &options.engines };
    let runs = |engine: &Arc<dyn Engine>| capability::find(engine.capabilities(), suite, DIRECTION).is_some();
    let mut single = None;
    for name in wanted.iter().filter(|name| *name != LANES) {
        let Some(engine) = open_or_lack(name, section)? else { continue };
        if runs(&engine) {
            single = Some((engine, name.clone()));
            break;
        }
        section.lacks(name, format!("does not run {suite}"));
    }
    let (single, single_name) = single.ok_or_else(|| LabError::Unavailable {
        name: "an engine for single messages".to_owned(),
        why: format!("none of {} runs {suite} here", wanted.join(", ")),
    })?;
    let lanes = open_or_lack(LANES, section)?.filter(runs);
    if lanes.is_none() {
        section.lacks("rungs 9 and 10", format!("no lanes run {suite} here"));
    }
    Ok(Engines { single, single_name, lanes })
}

/// A ladder that stands: the child with its mills, keys, and the operations' makers.
struct Ladder {
    service: RefCell<Service>,
    suite: Suite,
    reference: Arc<dyn Engine>,
    parameters: Parameters,
    keys: Keys,
    /// The child's mills, with the kernels that they run; the lanes' may be missing.
    kernels: Vec<String>,
}

impl Ladder {
    fn raise(
        suite: Suite,
        names: [Option<&str>; 3],
        parameters: Parameters,
        core: Option<usize>,
    ) -> Result<Ladder, LabError> {
        let reference = open("reference")?;
        let des_keys = takes(suite).map_err(LabError::Parameters)?;
        let keys = Keys::new(&parameters, suite, des_keys, reference.as_ref())?;
        let mut service = Service::start(core.map(other_core))?;
        let mut kernels = Vec::new();
        for (place, name) in Place::ALL.into_iter().zip(names) {
            let Some(name) = name else { continue };
            let opening = Opening {
                suite: suite.to_string(),
                engine: name.to_owned(),
                checked: place != Place::Plain,
                wrapping: keys.wrapping,
                wrapped: keys.wrapped.clone(),
            };
            kernels.push(service.open(place as u8, &opening)?);
        }
        Ok(Ladder { service: RefCell::new(service), suite, reference, parameters, keys, kernels })
    }

    /// Operations with lengths in this range, under all keys and under one.
    fn works(&self, len: [usize; 2], ops: usize) -> Result<[Work; 2], LabError> {
        let [len_min, len_max] = len;
        let parameters = Parameters { len_min, len_max, ops: ops.max(self.parameters.keys), ..self.parameters.clone() };
        let one_key = Parameters { keys: 1, ..parameters.clone() };
        let make = |parameters: &Parameters| Work::new(parameters, self.suite, self.reference.as_ref());
        Ok([make(&parameters)?, make(&one_key)?])
    }

    fn load<'a>(&'a self, works: &'a [Work; 2], rung: &Rung) -> Load<'a> {
        Load { work: &works[usize::from(rung.one_key)], keys: &self.keys }
    }

    /// The rungs that there are mills for.
    fn rungs(&self) -> impl Iterator<Item = (usize, &'static Rung)> {
        let mills = self.kernels.len();
        RUNGS.iter().enumerate().filter(move |(_, rung)| (rung.place as usize) < mills)
    }

    /// Times the rungs with batches of `ops` operations.
    fn compare(&self, works: &[Work; 2], ops: usize, sweep: &Sweep, share: f64) -> Result<Vec<Taken>, LabError> {
        let climbs = |rung: &Rung| rung.way != rungs::Way::Singles || ops <= sweep.singles_max;
        let rungs: Vec<_> = self
            .rungs()
            .filter(|(_, rung)| climbs(rung))
            .map(|(place, rung)| (place, rung, self.load(works, rung)))
            .collect();
        let comparisons = sweep.batches.len() + sweep.fit_batches.len() * sweep.fit_lens.len();
        let mut budget = sweep.budget(comparisons * RUNGS.len());
        budget.time = budget.time.mul_f64(share);
        compare(&self.service, &rungs, ops, sweep.timing_ns, budget)
    }
}

/// The core beside the one that is measured on: the child's.
fn other_core(core: usize) -> usize {
    let cores = ciphermill_tuning::Host::here().cores;
    (core + 1) % cores.max(1)
}

fn climb(
    suite: Suite,
    share: f64,
    options: &Options,
    progress: Progress<'_>,
    section: &mut Section,
) -> Result<(), LabError> {
    progress(&format!("{suite}: raising the ladder"))?;
    let engines = engines(suite, options, section)?;
    let names =
        [Some(engines.single_name.as_str()), Some(engines.single_name.as_str()), engines.lanes.as_ref().map(|_| LANES)];
    let parameters = Parameters {
        ops: OPS,
        keys: KEYS,
        len_min: LEN[0],
        len_max: LEN[1],
        seed: options.seed,
        ..Parameters::default()
    };
    let sweep = if options.quick { &QUICK } else { &FULL };
    let ladder = Ladder::raise(suite, names, parameters, options.core)?;
    let works = ladder.works(LEN, sweep.batches.iter().copied().max().unwrap_or(1))?;
    let (mut taken, mut others) = (Vec::new(), Vec::new());
    for ops in sweep.batches {
        progress(&format!("{suite}: {ops} operations a batch"))?;
        taken.extend(ladder.compare(&works, *ops, sweep, share)?);
    }
    for len in sweep.fit_lens {
        progress(&format!("{suite}: operations of {len} bytes"))?;
        let works = ladder.works([*len, *len], sweep.fit_batches.iter().copied().max().unwrap_or(1))?;
        for ops in sweep.fit_batches {
            others.extend(ladder.compare(&works, *ops, sweep, share)?);
        }
    }
    progress(&format!("{suite}: one long operation"))?;
    let bulk = bulk(&ladder, sweep)?;
    let climb: Vec<Reached> = ladder
        .rungs()
        .map(|(place, rung)| {
            let of = |all: &[Taken]| all.iter().filter(|taken| taken.rung == place).cloned().collect::<Vec<_>>();
            Reached::new(rung, of(&taken), &of(&others))
        })
        .collect();
    section.conclusions.extend(conclusions(&climb, Some(bulk.kb_per_s())));
    section.measured(format!("{suite}/bulk"), bulk.kb_per_s(), "KB/s", bulk.spread, Better::More);
    let words = in_words(&engines, &ladder);
    let shown =
        Shown { suite: &suite.to_string(), climb: &climb, bulk_kb_per_s: Some(bulk.kb_per_s()), engines: &words };
    shown.add_to(section);
    Ok(())
}

/// One long operation, on the rung that has shared memory and checks nothing.
fn bulk(ladder: &Ladder, sweep: &Sweep) -> Result<Taken, LabError> {
    let parameters = Parameters { ops: 1, keys: 1, len_min: BULK_LEN, len_max: BULK_LEN, ..ladder.parameters.clone() };
    let work = Work::new(&parameters, ladder.suite, ladder.reference.as_ref())?;
    let load = Load { work: &work, keys: &ladder.keys };
    let rungs = [(BULK_RUNG, &RUNGS[BULK_RUNG], load)];
    let taken = compare(&ladder.service, &rungs, 1, sweep.timing_ns, sweep.budget(100))?;
    taken.into_iter().next().ok_or_else(|| LabError::Parameters("nothing was timed".to_owned()))
}

fn in_words(engines: &Engines, ladder: &Ladder) -> String {
    let info = engines.single.info();
    let mut text = format!("Rungs 1 to 8 run on {} {}", info.name, info.version);
    if let (Some(lanes), Some(kernel)) = (&engines.lanes, ladder.kernels.get(Place::Lanes as usize)) {
        text += &format!(", 9 and 10 on {} (kernel {kernel})", lanes.info().name);
    }
    text + &format!("; the child runs {}.", ladder.service.borrow().placed)
}
