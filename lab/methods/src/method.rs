//! The methods of the lab in one frame: each takes the same options and returns a section of a record.

use std::path::PathBuf;
use std::time::Duration;

use ciphermill_contract::Suite;
use ciphermill_report::Section;

use crate::LabError;
use crate::engines::suite;
use crate::timing::Budget;

/// What a method is asked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Fewer sizes and shorter measuring: to see what comes, not to quote.
    pub quick: bool,
    /// The core that single-threaded measuring is pinned to.
    pub core: Option<usize>,
    /// Where random workloads start.
    pub seed: u64,
    /// Engines and peers by name, as [`crate::engines::open`] takes them; empty for the method's own choice.
    pub engines: Vec<String>,
    /// Suites; empty for the method's own choice.
    pub suites: Vec<Suite>,
    /// Time for each contestant.
    pub budget: Budget,
    /// The program `ciphermill`, which runs the services that [`crate::ladder`] climbs through.
    pub program: Option<PathBuf>,
}

impl Options {
    /// The suites that are asked for, or else the usual ones.
    pub(crate) fn suites_or(&self, usual: &[&str]) -> Vec<Suite> {
        if self.suites.is_empty() { usual.iter().map(|name| suite(name)).collect() } else { self.suites.clone() }
    }

    /// Whether a suite of a method's list is measured: one that is asked for, or else any, in a quick run those marked so.
    pub(crate) fn wants(&self, suite: Suite, quick: bool) -> bool {
        if self.suites.is_empty() { quick || !self.quick } else { self.suites.contains(&suite) }
    }

    /// The budget of a sweep over many shapes: no longer than this for each contestant.
    pub(crate) fn budget_of(&self, time_ms: u64) -> Budget {
        Budget {
            time: self.budget.time.min(Duration::from_millis(time_ms)),
            rounds_min: self.budget.rounds_min.min(if self.quick { 3 } else { 5 }),
            ..self.budget
        }
    }
}

/// Hears what is being measured. An error ends the measuring: the user asked for an end.
pub type Progress<'a> = &'a mut dyn FnMut(&str) -> Result<(), LabError>;

/// A method of the lab.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    /// Measures.
    pub run: fn(&Options, Progress<'_>) -> Result<Section, LabError>,
}

/// Every method, in the order in which `ciphermill lab all` runs them.
pub const METHODS: &[Method] = &[
    Method {
        name: "driver",
        about: "how the way of driving an engine moves what is measured of it",
        run: crate::driver::run,
    },
    Method {
        name: "ladder",
        about: "what each overhead of short operations costs, removed one by one",
        run: crate::ladder::run,
    },
    Method { name: "breakeven", about: "from which size on one engine overtakes another", run: crate::breakeven::run },
    Method { name: "peaks", about: "what each algorithm reaches on one thread and on all", run: crate::peaks::run },
    Method {
        name: "device",
        about: "what a GPU reaches beside its link and beside all cores, and from which batch on it pays",
        run: crate::device::run,
    },
    Method {
        name: "overhead",
        about: "what the mill costs around an engine and leaves to others",
        run: crate::overhead::run,
    },
    Method {
        name: "router",
        about: "what the mill costs around an engine, and whether its router does what it promises",
        run: crate::sections::router::run,
    },
    Method {
        name: "cases",
        about: "the goals of the lanes engine, each with something to compare with in the same loop",
        run: crate::sections::cases::run,
    },
    Method {
        name: "grid",
        about: "every size and every batch of every suite, beside the fastest peer in each",
        run: crate::grid::run,
    },
    Method {
        name: "gateway",
        about: "ESP in memory beside DPDK's gateway, and gateways over veth pairs beside other stacks",
        run: crate::gateway::run,
    },
    Method {
        name: "short",
        about: "short operations, each with its own key and IV; engines and peers in the same loop",
        run: crate::sections::short::run,
    },
    Method {
        name: "principles",
        about: "the optimisation principles of a network processor's paper, beside its figures",
        run: crate::sections::principles::run,
    },
    Method {
        name: "simulate",
        about: "the service on machines that are not there, with this machine's costs and the router's own decisions",
        run: crate::simulate::run,
    },
];
