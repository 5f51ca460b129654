//! What every engine has to pass, for every suite and direction that it claims.
//!
//! [`check_engine`] runs everything about one engine: every tail length, in and out of place, odd offsets, batches of
//! many sizes and keys, damaged tags between good ones, refused keys, guard pages, columns in every layout against ops,
//! published vectors, known answers.
//! [`differential()`] compares an engine with an oracle on random batches, [`acceptance()`] engines with each other on which
//! keys and operations they accept. All return a [`Report`] that names engine,
//! suite, direction, check and operation of each failure; [`Report::assert_clean`] turns it into a test:
//!
//! ```no_run
//! use ciphermill_conformance::{Options, check_engine};
//! use ciphermill_reference::Reference;
//!
//! check_engine(&Reference::new(), None, &Options::default()).assert_clean();
//! ```
//!
//! The suite knows nothing of engines but the contract, and is itself tested against engines broken on purpose.
mod acceptance;
mod checks;
mod columns;
pub mod differential;
mod execute;
mod jobs;
mod pool;
mod random;
mod report;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ciphermill_contract::suite::Ff1;
use ciphermill_contract::{Direction, Engine, Suite, capability};

pub use acceptance::acceptance;
pub use differential::{differential, differential_of};
pub use report::{Failure, Report};

/// How much is tried.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the random numbers start; the same seed gives the same operations.
    pub seed: u64,
    /// Published vectors of one symmetric suite at most; of more, evenly spread ones are taken.
    pub symmetric_cases_max: usize,
    /// The same for one public-key suite.
    pub public_cases_max: usize,
    /// Changed keys a key at most, where engines are compared with each other on what they accept.
    pub mutations_max: usize,
    /// Only the suite or family of this name; everything when empty.
    pub only: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 0x5eed,
            symmetric_cases_max: 400,
            public_cases_max: 40,
            mutations_max: 200,
            only: String::new(),
        }
    }
}

impl Options {
    /// What the environment asks for: with `CONFORMANCE_ALL` five times as many vectors of symmetric suites and three times as many of
    /// public-key ones; `CONFORMANCE_ONLY` names the one suite or family that is checked, for who looks for a fault.
    pub fn from_environment() -> Options {
        let sample = Options { only: std::env::var("CONFORMANCE_ONLY").unwrap_or_default(), ..Options::default() };
        match std::env::var_os("CONFORMANCE_ALL") {
            None => sample,
            Some(_) => Options { symmetric_cases_max: 2000, public_cases_max: 120, ..sample },
        }
    }
}

/// The radices that FF1 is checked with.
const RADICES: [u32; 6] = [10, 2, 36, 255, 256, 65_536];

/// Checks an engine against the contract for every suite that it claims. `oracle` is another engine whose answers are
/// believed; without one, answers are compared with published vectors and with the engine's own way back.
pub fn check_engine(engine: &dyn Engine, oracle: Option<&dyn Engine>, options: &Options) -> Report {
    let wanted =
        |suite: &Suite| options.only.is_empty() || suite.to_string() == options.only || suite.family() == options.only;
    let suites: Vec<Suite> = claimed_suites(engine).into_iter().filter(wanted).collect();
    let report = Mutex::new(Report::new(engine.info().name));
    if suites.is_empty() {
        report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).fail("claims no suite of those wanted");
    }
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = check_suite(engine, oracle, *suite, options);
                    report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).merge(own);
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Checks one suite of an engine, in every direction that the engine claims.
pub fn check_suite(engine: &dyn Engine, oracle: Option<&dyn Engine>, suite: Suite, options: &Options) -> Report {
    let mut report = Report::new(engine.info().name);
    report.suites += 1;
    checks::run(engine, oracle, suite, options, &mut report);
    if let Suite::Fpe(ff1) = suite {
        for radix in RADICES.into_iter().filter(|radix| *radix != ff1.radix) {
            checks::shapes_only(engine, oracle, Suite::Fpe(Ff1 { radix, ..ff1 }), options, &mut report);
        }
    }
    report
}

/// Whether an engine claims a suite in a direction.
fn claims(engine: &dyn Engine, suite: Suite, direction: Direction) -> bool {
    capability::find(engine.capabilities(), suite, direction).is_some()
}

/// The suites that an engine claims in any direction.
fn claimed_suites(engine: &dyn Engine) -> Vec<Suite> {
    let both = [Direction::Encrypt, Direction::Decrypt];
    Suite::all().filter(|suite| both.iter().any(|direction| claims(engine, *suite, *direction))).collect()
}
