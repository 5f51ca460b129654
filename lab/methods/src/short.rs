//! `lab short`: short operations, each with its own key and IV; engines and peers in the same loop.
//!
//! The workload is that of Lindemann and Smith (2001), section 3. Every engine's whole output is compared with the
//! reference engine's before anything is timed.

use std::sync::Arc;

use ciphermill_contract::capability;
use ciphermill_contract::{Direction, Engine, Suite};
use ciphermill_report::{Estimate, Section};

use crate::LabError;
use crate::contest::{self, Entrant, Timed};
use crate::engines::{open, open_forced};
use crate::method::Progress;
use crate::timing::Budget;
use crate::workload::{Parameters, Workload};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Short {
    /// Suites, one table section each.
    pub suites: Vec<Suite>,
    /// Directions; suites without a way back run forward only.
    pub directions: Vec<Direction>,
    /// Engines and peers by name. An engine that cannot run a suite gives no row.
    pub engines: Vec<String>,
    /// Kernels that engines with a choice must run, by name: `avx2`, `des=avx2`.
    pub kernels: Vec<String>,
    /// The workload.
    pub parameters: Parameters,
    /// The core that this thread is pinned to.
    pub core: Option<usize>,
    /// How long to measure.
    pub budget: Budget,
}

/// One engine on one suite and direction.
#[derive(Clone, Debug)]
pub struct Row {
    /// The suite's name.
    pub suite: String,
    /// The direction's name.
    pub direction: String,
    /// The engine's name.
    pub engine: String,
    /// The kernel that ran.
    pub kernel: String,
    /// Operations in a run.
    pub ops: usize,
    /// Bytes of input in a run.
    pub bytes: u64,
    /// Nanoseconds an operation, the median over runs.
    pub ns_per_op: f64,
    /// Megabytes (10^6 bytes) of input a second.
    pub mb_per_s: f64,
    /// Cycles that pass for a byte of input.
    pub cycles_per_byte: f64,
    /// Half the width of the median's 95 % interval as a share of it.
    pub spread: f64,
    /// Its time by that of the fastest on the same operations, round by round.
    pub of_fastest: Estimate,
    /// The share of lane steps that ran empty, for engines that count them.
    pub idle_lanes: Option<f64>,
}

impl Short {
    /// Runs the measurement; what is not there is said in `section`. `progress` hears what is being done.
    ///
    /// # Errors
    /// [`LabError`]: unknown names, impossible parameters, an engine whose output is wrong, an error of `progress`.
    pub(crate) fn run(&self, section: &mut Section, progress: Progress<'_>) -> Result<Vec<Row>, LabError> {
        pin(self.core)?;
        let reference = open("reference")?;
        let mut engines = Vec::new();
        for opened in open_forced(&self.engines, &self.kernels)? {
            match opened {
                Ok(engine) => engines.push(engine),
                Err(LabError::Unavailable { name, why }) => section.lacks(name, why),
                Err(error) => return Err(error),
            }
        }
        let mut rows = Vec::new();
        for suite in &self.suites {
            for direction in self.directions.iter().filter(|direction| suite.has_direction(**direction)) {
                progress(&format!("{suite} {direction}"))?;
                let workload = self.parameters.workload(*suite, *direction, reference.as_ref())?;
                rows.extend(measure(&workload, &engines, reference.as_ref(), self.budget, section)?);
            }
        }
        Ok(rows)
    }
}

/// Verifies and times the engines that can run a workload; what the others lack is said in `section`.
///
/// # Errors
/// [`LabError::WrongResult`] when an engine's output is not the reference's; nothing is timed then.
pub fn measure(
    workload: &Workload,
    engines: &[Arc<dyn Engine>],
    reference: &dyn Engine,
    budget: Budget,
    section: &mut Section,
) -> Result<Vec<Row>, LabError> {
    let (suite, direction) = (workload.suite, workload.direction);
    let expected = contest::expected(workload, reference)?;
    let mut entrants = Vec::new();
    for engine in engines {
        if capability::find(engine.capabilities(), suite, direction).is_none() {
            let what = format!("{suite} {direction} on {}", engine.info().name);
            section.lacks(what, "the engine does not run this suite");
            continue;
        }
        entrants.push(Entrant::verified(engine, workload, &expected)?);
    }
    let timed = contest::time(&mut entrants, budget)?;
    let mut rows: Vec<Row> = entrants.iter().zip(&timed).map(|(entrant, timed)| row(entrant, timed)).collect();
    // All have the same operations, and repeat them as often.
    let fastest = timed.iter().min_by(|a, b| a.samples.median_ns().total_cmp(&b.samples.median_ns()));
    for (row, timed) in rows.iter_mut().zip(&timed) {
        row.of_fastest = fastest.map_or_else(Estimate::default, |fastest| timed.samples.ratio(&fastest.samples));
    }
    Ok(rows)
}

/// A row of a record: one entrant's figures.
pub(crate) fn row(entrant: &Entrant, timed: &Timed) -> Row {
    let (workload, info, samples) = (&entrant.workload, entrant.engine.info(), &timed.samples);
    let ns_per_op = samples.median_ns() / (workload.ops.len() * entrant.repeats()) as f64;
    Row {
        suite: workload.suite.to_string(),
        direction: workload.direction.to_string(),
        engine: info.name.to_owned(),
        kernel: entrant.kernel().to_owned(),
        ops: workload.ops.len(),
        bytes: workload.bytes,
        ns_per_op,
        mb_per_s: workload.bytes as f64 * 1000.0 / (ns_per_op * workload.ops.len() as f64),
        cycles_per_byte: timed.cycles / (workload.bytes.max(1) * entrant.repeats() as u64) as f64,
        spread: samples.spread(),
        of_fastest: Estimate::default(),
        idle_lanes: timed.idle,
    }
}

/// Pins this thread to a core, when one is given.
///
/// # Errors
/// [`LabError::Parameters`] for a core that this process may not run on.
pub(crate) fn pin(core: Option<usize>) -> Result<(), LabError> {
    let Some(core) = core else { return Ok(()) };
    // Numbers that are no core of this process must not reach the system call's bit set.
    let known = core_affinity::get_core_ids().is_some_and(|ids| ids.iter().any(|id| id.id == core));
    if known && core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
        Ok(())
    } else {
        Err(LabError::Parameters(format!("--core {core}: this process may not run there")))
    }
}
