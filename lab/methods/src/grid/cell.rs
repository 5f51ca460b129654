//! One cell: our engines, a mill over them and the peers on the same batches, each verified and then timed in turns.

use std::sync::Arc;
use std::time::Duration;

use ciphermill::Mill;
use ciphermill_contract::{Engine, EngineKind, Op, capability};
use ciphermill_report::Estimate;

use super::plan::{Cell, WorkingSet};
use crate::LabError;
use crate::contest::{self, Entrant, Timed};
use crate::mill_batch::MillKeys;
use crate::router::mill_error;
use crate::timing::Budget;
use crate::workload::{Parameters, Workload};

/// Batches of more bytes than this are computed by one of our engines, of which the reference engine checks every so many-th
/// operation: it takes seconds for them.
const REFERENCE_BYTES_MAX: usize = 1 << 20;

/// Rounds after which those that are far behind in their camp are sent home.
const TRIAL_ROUNDS: usize = 3;

/// How many times as long as the fastest of its camp an entrant may have taken to stay.
const STAYS: f64 = 1.25;

/// Bytes that batches from memory have together, by those of the last cache; two entrants at least take turns besides.
const BY_CACHE: usize = 2;

/// Such bytes at most, operations and outputs included.
const MEMORY_MAX: usize = 192 << 20;

/// The last cache where the system does not tell.
const CACHE_USUAL: usize = 32 << 20;

/// Who an entrant works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Camp {
    Own,
    /// The mill by its own choice.
    Mill,
    /// The mill on an engine that it is told.
    Pinned,
    Peer,
}

/// One engine's time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Time {
    pub(super) engine: String,
    /// Nanoseconds a batch.
    pub(super) ns: f64,
}

/// What was measured of a cell.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) cell: Cell,
    /// Every engine of ours, the fastest first.
    pub(super) own: Vec<Time>,
    /// The fastest peer.
    pub(super) peer: Time,
    /// Our fastest engine's rate by the fastest peer's.
    pub(super) ratio: Estimate,
    /// The mill's time by its own choice, by its time on the engine that is the fastest there.
    pub(super) mill: Option<Estimate>,
}

/// Who takes part in every cell.
pub(super) struct Field<'f> {
    pub(super) engines: &'f [Arc<dyn Engine>],
    pub(super) reference: &'f dyn Engine,
    /// Over those of the engines that are ours.
    pub(super) mill: &'f Mill,
    pub(super) budget: Budget,
    pub(super) seed: u64,
}

/// An entrant, and whose it is.
struct Runner {
    camp: Camp,
    entrant: Entrant,
}

impl Runner {
    /// Its engine and what a batch took it.
    fn time(&self, timed: &Timed) -> Time {
        let ns = timed.samples.median_ns() / self.entrant.repeats() as f64;
        Time { engine: self.entrant.engine.info().name.to_owned(), ns }
    }
}

/// Our engines of those that run a cell.
fn own_of<'a>(able: &'a [(Camp, &'a Arc<dyn Engine>)]) -> impl Iterator<Item = &'a Arc<dyn Engine>> {
    able.iter().filter(|(camp, _)| *camp == Camp::Own).map(|(_, engine)| *engine)
}

impl Field<'_> {
    /// Those that run the cell.
    fn able(&self, cell: &Cell) -> Vec<(Camp, &Arc<dyn Engine>)> {
        let runs = |engine: &&Arc<dyn Engine>| {
            let found = capability::find(engine.capabilities(), cell.suite, cell.direction);
            found.is_some_and(|capability| capability.input_len_max >= cell.len)
        };
        let camp =
            |engine: &Arc<dyn Engine>| if engine.info().kind == EngineKind::Peer { Camp::Peer } else { Camp::Own };
        self.engines.iter().filter(runs).map(|engine| (camp(engine), engine)).collect()
    }

    /// Whether there is somebody on either side.
    pub(super) fn has_both_sides(&self, cell: &Cell) -> bool {
        let able = self.able(cell);
        [Camp::Own, Camp::Peer].into_iter().all(|camp| able.iter().any(|(own, _)| *own == camp))
    }

    /// The batch and its right answers.
    fn work(&self, cell: &Cell, own: &Arc<dyn Engine>) -> Result<(Workload, Workload), LabError> {
        let parameters = Parameters {
            ops: cell.ops,
            keys: cell.keys(),
            len_min: cell.len,
            len_max: cell.len,
            seed: self.seed,
            ..Parameters::default()
        };
        if cell.bytes() <= REFERENCE_BYTES_MAX {
            let workload = parameters.workload(cell.suite, cell.direction, self.reference)?.in_place();
            let expected = contest::expected(&workload, self.reference)?;
            return Ok((workload, expected));
        }
        let workload = parameters.workload(cell.suite, cell.direction, own.as_ref())?.in_place();
        let expected = contest::expected(&workload, own.as_ref())?;
        let step = cell.bytes().div_ceil(REFERENCE_BYTES_MAX);
        let sample = contest::expected(&workload.every(step), self.reference)?;
        match expected.every(step).first_difference(&sample) {
            None => Ok((workload, expected)),
            Some(op) => Err(LabError::WrongResult {
                engine: own.info().name.to_owned(),
                suite: cell.suite,
                direction: cell.direction,
                op: op * step,
            }),
        }
    }

    fn runners(&self, cell: &Cell) -> Result<Vec<Runner>, LabError> {
        let able = self.able(cell);
        let Some(own) = own_of(&able).next() else { return Ok(Vec::new()) };
        let (workload, expected) = self.work(cell, own)?;
        let mut runners = Vec::new();
        let mut add = |camp: Camp, entrant: Entrant| runners.push(Runner { camp, entrant });
        for (camp, engine) in &able {
            add(*camp, Entrant::verified(engine, &workload, &expected)?);
            let is_right = |ops: &[Op], arena: &[u8]| expected.first_difference_in(ops, arena).is_none();
            if *camp == Camp::Peer
                && let Some(native) = Entrant::native(engine, &workload, &is_right)?
            {
                add(Camp::Peer, native);
            }
        }
        // Each with keys of its own: whoever came next would find shared ones in the caches.
        let keys = || MillKeys::new(self.mill, &workload).map(Arc::new).map_err(mill_error);
        let choices: Vec<&Arc<dyn Engine>> = own_of(&able).collect();
        if choices.len() > 1 {
            add(Camp::Mill, Entrant::mill(&keys()?, choices[0], true, &workload, &expected)?);
            for engine in choices {
                add(Camp::Pinned, Entrant::mill(&keys()?, engine, false, &workload, &expected)?);
            }
        }
        if cell.set == WorkingSet::Memory {
            let copies = copies(&workload);
            let more = |runner: Runner| Ok(Runner { entrant: runner.entrant.in_copies(copies)?, ..runner });
            return runners.into_iter().map(more).collect();
        }
        Ok(runners)
    }

    /// Measures the cell; `None` where one side is missing.
    pub(super) fn measure(&self, cell: &Cell) -> Result<Option<Measured>, LabError> {
        let mut runners = self.runners(cell)?;
        let trial = Budget { time: Duration::ZERO, rounds_min: TRIAL_ROUNDS, rounds_max: TRIAL_ROUNDS };
        let tried = time(&mut runners, trial)?;
        let best = |camp: Camp| {
            let of_camp = runners.iter().zip(&tried).filter(|(runner, _)| runner.camp == camp);
            of_camp.map(|(_, timed)| timed.samples.median_ns()).fold(f64::INFINITY, f64::min)
        };
        let limits = [Camp::Own, Camp::Mill, Camp::Pinned, Camp::Peer].map(|camp| (camp, best(camp) * STAYS));
        let stays = |runner: &Runner, timed: &Timed| {
            limits.iter().any(|(camp, limit)| *camp == runner.camp && timed.samples.median_ns() <= *limit)
        };
        let (mut finalists, mut own) = (Vec::new(), Vec::new());
        for (runner, timed) in runners.into_iter().zip(&tried) {
            if stays(&runner, timed) {
                finalists.push(runner);
            } else if runner.camp == Camp::Own {
                own.push(runner.time(timed));
            }
        }
        let timed = time(&mut finalists, self.budget)?;
        Ok(compared(*cell, &finalists, &timed, own))
    }
}

/// The fastest of each camp against each other. `own` has those of our engines that were sent home.
fn compared(cell: Cell, runners: &[Runner], timed: &[Timed], mut own: Vec<Time>) -> Option<Measured> {
    let fastest = |camp: Camp| {
        let of_camp = runners.iter().zip(timed).filter(|(runner, _)| runner.camp == camp);
        of_camp.min_by(|a, b| a.1.samples.median_ns().total_cmp(&b.1.samples.median_ns()))
    };
    let (ours, peer) = (fastest(Camp::Own)?, fastest(Camp::Peer)?);
    let mill = fastest(Camp::Mill).zip(fastest(Camp::Pinned));
    let still = runners.iter().zip(timed).filter(|(runner, _)| runner.camp == Camp::Own);
    own.extend(still.map(|(runner, timed)| runner.time(timed)));
    own.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    Some(Measured {
        cell,
        own,
        peer: peer.0.time(peer.1),
        // All repeat the batch as often.
        ratio: peer.1.samples.ratio(&ours.1.samples),
        mill: mill.map(|(free, pinned)| free.1.samples.ratio(&pinned.1.samples)),
    })
}

fn time(runners: &mut [Runner], budget: Budget) -> Result<Vec<Timed>, LabError> {
    let mut entrants: Vec<&mut Entrant> = runners.iter_mut().map(|runner| &mut runner.entrant).collect();
    contest::time(&mut entrants, budget)
}

/// How many places of memory a batch needs so that the last cache does not hold them.
fn copies(workload: &Workload) -> usize {
    let each = workload.arena.len() + size_of_val(workload.ops.as_slice());
    let wanted = (last_cache_len().unwrap_or(CACHE_USUAL) * BY_CACHE).min(MEMORY_MAX);
    wanted.div_ceil(each.max(1)).max(1)
}

/// Bytes of the largest cache of the first core.
fn last_cache_len() -> Option<usize> {
    let read = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
    };
    (0..8).filter_map(read).max()
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::Direction;

    use super::super::plan::Keys;
    use super::*;
    use crate::engines::{open, suite};
    use crate::router::{mill, opened};

    fn cell(name: &str, ops: usize, len: usize, set: WorkingSet) -> Cell {
        Cell { suite: suite(name), direction: Direction::Decrypt, ops, len, keys: Keys::Distinct, set }
    }

    #[test]
    fn both_sides_are_timed_and_the_fastest_compared() {
        let engines = ["lanes", "library", "openssl", "openssl-context"].map(|name| open(name).expect("is there"));
        let (reference, mill) =
            (open("reference").expect("is there"), opened(mill().expect("engines")).expect("opens"));
        let budget = Budget { time: Duration::from_millis(1), rounds_min: 3, rounds_max: 9 };
        let field = Field { engines: &engines, reference: reference.as_ref(), mill: &mill, budget, seed: 1 };
        // The last is larger than what the reference computes whole.
        for cell in
            [cell("aes-128-cbc", 8, 64, WorkingSet::Again), cell("aes-128-gcm", 70, 1 << 14, WorkingSet::Memory)]
        {
            assert!(field.has_both_sides(&cell));
            let measured = field.measure(&cell).expect("measured").expect("both sides");
            assert!(measured.own.len() == 2 && measured.own[0].ns <= measured.own[1].ns, "{measured:?}");
            assert!(measured.peer.engine.starts_with("openssl"), "{measured:?}");
            for estimate in [measured.ratio, measured.mill.expect("two engines")] {
                assert!(estimate.value > 0.0 && estimate.interval[0] <= estimate.interval[1], "{measured:?}");
            }
        }
        assert!(mill.keys().is_empty(), "the cells' keys are gone");
        assert!(!field.has_both_sides(&cell("seal-3.0", 8, 64, WorkingSet::Again)), "no peer has SEAL");
    }

    #[test]
    fn batches_from_memory_are_more_than_the_caches_hold() {
        let reference = open("reference").expect("is there");
        let parameters = Parameters { ops: 64, len_min: 1024, len_max: 1024, ..Parameters::default() };
        let workload = parameters.workload(suite("sha1"), Direction::Encrypt, reference.as_ref()).expect("made");
        let bytes = copies(&workload) * workload.arena.len();
        assert!(bytes >= last_cache_len().unwrap_or(CACHE_USUAL) || bytes * 2 > MEMORY_MAX, "{bytes}");
    }
}
