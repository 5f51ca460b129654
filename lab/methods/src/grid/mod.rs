//! `lab grid`: suites by sizes, batches, keys and working sets; our engines, the mill's own choice and every peer.
//!
//! Named cases tell what was thought of; a grid finds the shapes between them where a kernel falls off a cliff. In each cell
//! all answers are verified, whoever is far behind in a short trial is sent home, and the rest are timed in turns. The ratio
//! of a cell is that of our fastest engine and the fastest peer, which may be another in each cell. What the router would
//! choose, and the time that it predicts, are set beside the times that were measured.

mod cell;
mod plan;
mod routing;
mod show;

use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_contract::{Engine, EngineKind, Suite};
use ciphermill_peers::NAMES as PEERS;
use ciphermill_report::Section;
use ciphermill_tuning::{Effort, pairs, tune};

use crate::engines::open;
use crate::method::{Options, Progress};
use crate::router::opened;
use crate::short::pin;
use crate::{LabError, lineup};
use cell::{Field, Measured};
use plan::{Cell, Plan, WorkingSet};
use routing::{Figures, Routed};

/// Our engines.
const OWN: [&str; 2] = ["lanes", "library"];

/// Bytes a nanosecond below which a batch's data cannot come from memory too slowly.
const RATE_OF_MEMORY: f64 = 1.0;

/// Measures the grid.
///
/// # Errors
/// [`LabError`]: an engine whose output is wrong, a core that cannot be had, a user who asked for an end.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    pin(options.core)?;
    let mut section = show::section();
    let usual: Vec<&str> = OWN.into_iter().chain(PEERS).collect();
    let engines = lineup::engines(options, &usual, &mut section)?;
    let own: Vec<Arc<dyn Engine>> =
        engines.iter().filter(|engine| engine.info().kind != EngineKind::Peer).cloned().collect();
    if own.is_empty() || own.len() == engines.len() {
        return Err(LabError::Parameters(
            "a grid compares engines of ours with peers: it needs one of each".to_owned(),
        ));
    }
    let plan = Plan::new(options);
    let mut mills = vec![(Figures::Estimates, mill(&own)?.open())];
    if plan.is_tuned {
        progress("our engines' costs")?;
        let suites: Vec<Suite> = plan.rows().map(|(suite, _)| suite).collect();
        let measured = tune(&pairs(&own, |suite| suites.contains(&suite)), Effort::default(), |_, _| ());
        mills.push((Figures::Measured, mill(&own)?.costs(measured.into_costs()).open()));
    }
    let mills = mills.into_iter().map(|(figures, mill)| Ok((figures, mill.map_err(crate::router::mill_error)?)));
    let mills: Vec<(Figures, Mill)> = mills.collect::<Result<_, LabError>>()?;
    let (reference, running) = (open("reference")?, opened(mill(&own)?)?);
    let field = Field {
        engines: &engines,
        reference: reference.as_ref(),
        mill: &running,
        budget: plan.budget,
        seed: plan.seed,
    };
    let mut measured = Vec::new();
    for (suite, direction) in plan.rows() {
        progress(&format!("{suite} {direction}"))?;
        row(&field, &plan.cells(suite, direction), &mut measured, &mut section, progress)?;
    }
    let routed: Vec<Routed> = routing::routes(&mills, &measured)?;
    show::fill(&mut section, &measured, &routed);
    Ok(section)
}

/// A mill over our engines, on this thread alone.
fn mill(own: &[Arc<dyn Engine>]) -> Result<ciphermill::MillBuilder, LabError> {
    Ok(Mill::builder().legacy(true).engines(own.iter().cloned()).workers(0))
}

/// Measures the cells of one suite and direction.
fn row(
    field: &Field<'_>,
    cells: &[Cell],
    measured: &mut Vec<Measured>,
    section: &mut Section,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    let first = measured.len();
    for cell in cells {
        if !field.has_both_sides(cell) {
            section.lacks(cell.row(), "no peer, or no engine of ours, runs it");
            continue;
        }
        // Asked for an end, one does not wait for the row's.
        progress(&format!("{} {}", cell.row(), cell.shape()))?;
        let is_like = |other: &&Measured| (other.cell.ops, other.cell.len) == (cell.ops, cell.len);
        let again = measured[first..].iter().find(is_like).and_then(|again| again.own.first());
        let rate = again.map_or(RATE_OF_MEMORY, |own| cell.bytes() as f64 / own.ns);
        if cell.set == WorkingSet::Again || rate >= RATE_OF_MEMORY {
            measured.extend(field.measure(cell)?);
        }
    }
    Ok(())
}
