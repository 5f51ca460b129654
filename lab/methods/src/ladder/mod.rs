//! `lab ladder`: the experiments of Lindemann and Smith (2001) as rungs, each a way to use this project's service.
//!
//! The service stands where the paper's coprocessor stood: a process of its own, which the lab starts (`service`). What a rung does is in
//! `rungs`, and the program that uses the service in `client`.

mod analysis;
mod chain;
mod client;
mod definitions;
mod measure;
mod rungs;
mod service;
mod show;
#[doc(hidden)]
pub mod trials;
mod work;
mod written;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, Suite, capability};
use ciphermill_report::{Better, Section};
use zeroize::Zeroizing;

use crate::LabError;
use crate::engines::open;
use crate::lineup::open_or_lack;
use crate::method::{Options, Progress};
use crate::workload::Parameters;
use analysis::{Reached, conclusions};
use client::Client;
use definitions::{BULK_LEN, ENGINES, FULL, KEYS, KNOWN, LANES, LEN, OPS, QUICK, REFERENCE, SUITES, Sweep, takes};
use measure::{Load, Taken, compare};
use rungs::{Place, RUNGS, Rung};
use service::Service;
use show::{Shown, paper};
use work::Work;

/// The direction that the ladder is climbed in: the one in which chaining can be broken from outside (`chain`).
pub(crate) const DIRECTION: Direction = Direction::Decrypt;

/// The rung that a long operation is sent up: the engine for single messages gets it in one call, and nothing is checked.
const BULK_RUNG: usize = 4;

/// Measures.
///
/// # Errors
/// [`LabError`]: no program that serves, an output that is not the reference's.
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
    for suite in &can {
        climb(*suite, share, options, progress, &mut section).or_else(|error| {
            // Who interrupts the lab on a terminal interrupts its services, too: asked here, that is told first.
            progress(&format!("{suite}: {error}")).and(Err(error))
        })?;
    }
    if !can.is_empty() {
        section.tables.push(paper());
    }
    Ok(section)
}

fn lesson() -> Vec<String> {
    [
        "A cryptographic coprocessor that decrypted 20 megabytes a second was measured at 1.5 kilobytes a second by \
         somebody whose data were 8 to 80 bytes long. Nothing was wrong with its cipher. Its builders changed one thing at a \
         time, and each time another overhead turned out to be the one that counted: first requests, then calls between \
         its layers, then copies, then the bus that parameters came over. The ladder repeats their experiments. The service, a \
         process of its own, stands for the coprocessor, and each rung but the last differs from the one below in one thing; none is \
         simulated. What the service never does without is no rung: the last table says what has become of each experiment.",
        "The time of a batch is C1 for the batch, plus C2 for each operation, plus C3 for each byte. A line that rises \
         with the batch's size still pays C1; batches that are large enough make it disappear, and then only C2 and C3 are \
         left to work on. The last rungs go where the paper could not: an engine that works on many messages side by side, \
         and many batches on their way at a time. No rung announces a batch while both sides are awake, which the paper could \
         only propose.",
        "All rungs decrypt. On the third, one engine operation runs over all messages under one key, and the chaining between them \
         is taken out by XOR; from outside of an engine that is possible only where the block that was chained is known \
         beforehand. Rates count the data, not keys, IVs or the known answers that are sent along.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The engines that the services run on.
struct Engines {
    single: Arc<dyn Engine>,
    lanes: Option<Arc<dyn Engine>>,
}

fn engines(suite: Suite, options: &Options, section: &mut Section) -> Result<Engines, LabError> {
    let usual = ENGINES.map(str::to_owned);
    let wanted = if options.engines.is_empty() { &usual[..] } else { &options.engines };
    let runs = |engine: &Arc<dyn Engine>| capability::find(engine.capabilities(), suite, DIRECTION).is_some();
    let mut single = None;
    for name in wanted.iter().filter(|name| *name != LANES) {
        if !ENGINES.contains(&name.as_str()) {
            section.lacks(name, format!("the ladder's services run on {}", ENGINES.join(" or ")));
            continue;
        }
        single = open_or_lack(name, section)?.filter(runs);
        if single.is_some() {
            break;
        }
        section.lacks(name, format!("does not run {suite}"));
    }
    let single = single.ok_or_else(|| LabError::Unavailable {
        name: "an engine for single messages".to_owned(),
        why: format!("none of {} runs {suite} in a service", wanted.join(", ")),
    })?;
    if single.info().name == REFERENCE {
        section.lacks("a witness on rung 8", format!("{REFERENCE} alone has nobody to recompute its answers"));
    }
    let lanes = open_or_lack(LANES, section)?.filter(runs);
    if lanes.is_none() {
        section.lacks("rungs 9 and 10", format!("no lanes run {suite} here"));
    }
    Ok(Engines { single, lanes })
}

/// A ladder that stands: programs with their services, and the operations' makers.
struct Ladder {
    /// By the numbers of their places; the lanes' may be missing.
    clients: Vec<RefCell<Client>>,
    suite: Suite,
    reference: Arc<dyn Engine>,
    parameters: Parameters,
    /// Where the services run, in words.
    placed: String,
}

/// What the services are started as.
struct Start<'a> {
    program: &'a Path,
    /// The engine for single messages.
    single: &'a str,
    has_lanes: bool,
    core: Option<usize>,
}

impl Ladder {
    fn raise(suite: Suite, start: &Start<'_>, parameters: Parameters) -> Result<Ladder, LabError> {
        let reference = open(REFERENCE)?;
        let des_keys = takes(suite).map_err(LabError::Parameters)?;
        // Keys are made first, and so are the same for any number of operations.
        let mut keys = parameters.workload(suite, DIRECTION, reference.as_ref())?.keys().to_vec();
        keys.push(Zeroizing::new(KNOWN.key.repeat(des_keys)));
        let mut clients = Vec::new();
        let mut placed = "on any core".to_owned();
        for place in Place::ALL.into_iter().filter(|place| *place != Place::Lanes || start.has_lanes) {
            let service = Service::start(start.program, place, start.single)?;
            let client = Client::new(service, suite, &keys)?;
            if let Some(core) = start.core {
                placed = match client.service.pin(core) {
                    Ok(()) => format!("on core {core}"),
                    Err(error) => format!("on any core ({error})"),
                };
            }
            clients.push(RefCell::new(client));
        }
        Ok(Ladder { clients, suite, reference, parameters, placed })
    }

    /// Operations with lengths in this range, under all keys and under one.
    fn works(&self, len: [usize; 2], ops: usize) -> Result<[Work; 2], LabError> {
        let [len_min, len_max] = len;
        let parameters = Parameters { len_min, len_max, ops: ops.max(self.parameters.keys), ..self.parameters.clone() };
        let one_key = Parameters { keys: 1, ..parameters.clone() };
        Ok([self.work(&parameters)?, self.work(&one_key)?])
    }

    fn work(&self, parameters: &Parameters) -> Result<Work, LabError> {
        Work::new(parameters, self.suite, self.parameters.keys, self.reference.as_ref())
    }

    fn load<'a>(&'a self, works: &'a [Work; 2], rung: &Rung) -> Load<'a> {
        Load { work: &works[usize::from(rung.is_one_op)], client: &self.clients[rung.place as usize] }
    }

    /// The rungs that there are services for.
    fn rungs(&self) -> impl Iterator<Item = (usize, &'static Rung)> {
        let services = self.clients.len();
        RUNGS.iter().enumerate().filter(move |(_, rung)| (rung.place as usize) < services)
    }

    /// Times the rungs with batches of `ops` operations.
    fn compare(&self, works: &[Work; 2], ops: usize, sweep: &Sweep, share: f64) -> Result<Vec<Taken>, LabError> {
        let climbs = |rung: &Rung| !matches!(rung.way, rungs::Way::Ops(_)) || ops <= sweep.singles_max;
        let rungs: Vec<_> = self
            .rungs()
            .filter(|(_, rung)| climbs(rung))
            .map(|(place, rung)| (place, rung, self.load(works, rung)))
            .collect();
        let comparisons = sweep.batches.len() + sweep.fit_batches.len() * sweep.fit_lens.len();
        let mut budget = sweep.budget(comparisons * RUNGS.len());
        budget.time = budget.time.mul_f64(share);
        compare(&rungs, ops, sweep.timing_ns, budget)
    }

    /// The share of operations that each engine has done for a place, in words.
    fn done_for(&self, place: Place) -> Result<String, LabError> {
        let done = self.clients[place as usize].borrow_mut().done_by_engine()?;
        let all: f64 = done.iter().map(|(_, ops)| ops).sum();
        let words = done.iter().map(|(engine, ops)| format!("{engine} {:.1} %", ops / all * 100.0));
        Ok(words.collect::<Vec<_>>().join(", "))
    }
}

/// The core beside the one that is measured on: the services'.
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
    let program = options.program.as_deref().ok_or_else(|| LabError::Unavailable {
        name: "the service".to_owned(),
        why: "nobody has said which program serves".to_owned(),
    })?;
    let engines = engines(suite, options, section)?;
    let (single, has_lanes, core) = (engines.single.info().name, engines.lanes.is_some(), options.core.map(other_core));
    let parameters = Parameters {
        ops: OPS,
        keys: KEYS,
        len_min: LEN[0],
        len_max: LEN[1],
        seed: options.seed,
        ..Parameters::default()
    };
    let sweep = if options.quick { &QUICK } else { &FULL };
    let ladder = Ladder::raise(suite, &Start { program, single, has_lanes, core }, parameters)?;
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
    let words = in_words(&engines, &ladder)?;
    let (suite, bulk_kb_per_s) = (&suite.to_string(), Some(bulk.kb_per_s()));
    Shown { suite, climb: &climb, bulk_kb_per_s, single, engines: &words }.add_to(section);
    Ok(())
}

/// One long operation, on the rung where an engine gets a whole batch and nothing is checked.
fn bulk(ladder: &Ladder, sweep: &Sweep) -> Result<Taken, LabError> {
    let parameters = Parameters { ops: 1, keys: 1, len_min: BULK_LEN, len_max: BULK_LEN, ..ladder.parameters.clone() };
    let work = ladder.work(&parameters)?;
    let rung = &RUNGS[BULK_RUNG];
    let load = Load { work: &work, client: &ladder.clients[rung.place as usize] };
    let taken = compare(&[(BULK_RUNG, rung, load)], 1, sweep.timing_ns, sweep.budget(100))?;
    taken.into_iter().next().ok_or_else(|| LabError::Parameters("nothing was timed".to_owned()))
}

fn in_words(engines: &Engines, ladder: &Ladder) -> Result<String, LabError> {
    let version = &engines.single.info().version;
    let [plain, checked] = [ladder.done_for(Place::Plain)?, ladder.done_for(Place::Checked)?];
    let mut text = format!("Operations were done by: {plain} ({version}) on rungs 1 to 4; {checked} on rung 8");
    if let Some(lanes) = &engines.lanes {
        let (done, kernel) = (ladder.done_for(Place::Lanes)?, lanes.info().kernel_for(ladder.suite).to_owned());
        text += &format!("; {done} on rungs 9 and 10, where the lanes run the kernel {kernel}");
    }
    Ok(text + &format!(". The services run {}, with a worker for each node of memory.", ladder.placed))
}
