//! `lab router`: what the mill costs around an engine, and whether its router does what it promises.
//!
//! Method of the OpenBSD paper (Keromytis, Wright and de Raadt 2003): the framework against the bare device, and the
//! share of the processor that is left to an unrelated program. Both sides of a comparison are interleaved in one thread.

pub(crate) mod adapting;
mod public;
mod single;
pub(crate) mod stream;
mod threads;

use std::time::Duration;

use ciphermill::{Mill, MillBuilder};
use ciphermill_contract::{Cost, EngineKind, EngineKinds};
use ciphermill_report::Section;
use ciphermill_router::{Candidate, Request, decide};

use crate::LabError;
use crate::engines::open;
use crate::method::Progress;
use crate::timing::{Budget, Contestant, Samples, interleave};

/// The engines of the mills that are measured.
const ENGINES: [&str; 3] = ["lanes", "library", "reference"];

/// A measured promise.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The operations or other circumstances.
    pub of: String,
    /// The measured value.
    pub value: f64,
    /// Its unit: `×`, `ns`, `batches` or `%`.
    pub unit: &'static str,
    /// The goal.
    pub goal: Goal,
    /// What stands behind the value, in words.
    pub detail: String,
    /// Half the width of its interval, as a share of it.
    pub spread: f64,
    /// The 95 % interval of a ratio.
    pub interval: Option<[f64; 2]>,
}

/// What a value should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Shown for comparison.
    None,
}

impl Figure {
    /// Whether the goal is reached; `None` without one.
    pub fn is_reached(&self) -> Option<bool> {
        match self.goal {
            Goal::AtLeast(goal) => Some(self.value >= goal),
            Goal::AtMost(goal) => Some(self.value <= goal),
            Goal::None => None,
        }
    }
}

type Experiment = fn(Budget) -> Result<Vec<Figure>, LabError>;

/// What is measured: a name to ask for it by, what it is in words, and how.
const EXPERIMENTS: [(&str, &str, Experiment); 10] = [
    ("decide", "one decision", |budget| Ok(vec![deciding(budget)])),
    ("engine", "the mill against the bare engine", stream::against_the_engine),
    ("cores", "two cores against one", stream::two_cores),
    ("tasks", "single operations of many tasks", single::tasks),
    ("threads", "single operations of threads that block", threads::threads),
    ("alone", "a single operation alone", single::alone),
    ("public", "a public-key operation alone", public::alone),
    ("signatures", "many tasks that each want a signature", public::signatures),
    ("following", "an engine that becomes slower", |_| adapting::following()),
    ("share", "another program on the same cores", |budget| Ok(vec![adapting::fair_share(budget)?])),
];

/// Whether promises of these names can be measured.
///
/// # Errors
/// [`LabError::Parameters`] for a name that there is not.
pub fn check(names: &[String]) -> Result<(), LabError> {
    let unknown = |name: &&String| !EXPERIMENTS.iter().any(|(known, ..)| known == name);
    let Some(name) = names.iter().find(unknown) else { return Ok(()) };
    let known = EXPERIMENTS.map(|(name, ..)| name).join(", ");
    Err(LabError::Parameters(format!("nothing that is measured is called `{name}`; there are {known}")))
}

/// Measures the promises of these names, all when there are none, and tells how they are kept as a section of a record.
/// `progress` hears what is being measured.
///
/// # Errors
/// [`LabError::Parameters`] for a name that there is not; others when an engine cannot be opened or answers wrongly.
pub fn section(names: &[String], budget: Budget, progress: Progress<'_>) -> Result<Section, LabError> {
    check(names)?;
    let mut figures = Vec::new();
    for (name, what, experiment) in EXPERIMENTS {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            progress(what)?;
            figures.extend(experiment(budget)?);
        }
    }
    Ok(crate::sections::router::section(&figures))
}

/// A mill over the engines of this machine, without the threads that cargo's tests or other runs may want.
pub(crate) fn mill() -> Result<MillBuilder, LabError> {
    let mut builder = Mill::builder().legacy(true);
    for name in ENGINES {
        builder = builder.engine(open(name)?);
    }
    Ok(builder)
}

pub(crate) fn opened(builder: MillBuilder) -> Result<Mill, LabError> {
    builder.open().map_err(mill_error)
}

pub(crate) fn mill_error(source: ciphermill_contract::Error) -> LabError {
    LabError::Engine { engine: "mill".to_owned(), source }
}

/// Times two contestants in turns.
pub(crate) fn compare(first: &mut dyn Contestant, second: &mut dyn Contestant, budget: Budget) -> (Samples, Samples) {
    let mut samples = interleave(&mut [first, second], budget).into_iter();
    (samples.next().unwrap_or_default(), samples.next().unwrap_or_default())
}

/// What one decision between three engines costs.
fn deciding(budget: Budget) -> Figure {
    const DECISIONS: u32 = 10_000;
    struct Deciding(u64);
    impl Contestant for Deciding {
        fn reset(&mut self) {}
        fn run(&mut self) {
            let costs = [(400.0, 10.0, 0.2), (30.0, 90.0, 0.1), (20.0, 400.0, 3.0)];
            for n in 0..u64::from(DECISIONS) {
                let request = Request {
                    ops: 1 + n % 300,
                    bytes: 64 * (1 + n % 300),
                    input_len_max: 64,
                    kinds: EngineKinds::ALL,
                    pinned: None,
                    deadline_ns: None,
                };
                let candidates = costs.iter().enumerate().map(|(engine, (batch_ns, op_ns, byte_ns))| Candidate {
                    engine,
                    name: ENGINES[engine],
                    kind: EngineKind::Lanes,
                    cost: Cost::new(*batch_ns, *op_ns, *byte_ns),
                    wakeup_ns: 0.0,
                    step: 1,
                    backlog_ns: n as f64,
                    input_len_max: 1 << 20,
                    trusted: true,
                });
                let route = decide(std::hint::black_box(&request), candidates);
                self.0 += route.map_or(0, |route| route.engine as u64);
            }
            std::hint::black_box(self.0);
        }
    }
    let budget = Budget { time: budget.time.min(Duration::from_millis(100)), ..budget };
    let samples = interleave(&mut [&mut Deciding(0)], budget).pop().unwrap_or_default();
    Figure {
        name: "decide".to_owned(),
        of: "three engines".to_owned(),
        value: samples.median_ns() / f64::from(DECISIONS),
        unit: "ns",
        goal: Goal::AtMost(500.0),
        detail: "one decision with its reason".to_owned(),
        spread: samples.spread(),
        interval: None,
    }
}
