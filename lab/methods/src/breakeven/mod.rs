//! `lab breakeven`: from which batch and length on one engine overtakes another.
//!
//! Method of the Niagara slides (Schuba and others), "Packet size issues": a sweep of block sizes with and without the
//! accelerator, and the size at which it pays. Here every engine and peer is swept over lengths and batches, since what an
//! engine costs beforehand is paid once a batch.

pub(crate) mod cross;
mod plan;
mod show;

use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, Suite};
use ciphermill_report::Section;

use crate::contest::{self, Entrant};
use crate::engines::{names, open};
use crate::method::{Options, Progress};
use crate::short::pin;
use crate::workload::Parameters;
use crate::{LabError, lineup};
use plan::Plan;
use show::{Shape, Swept};

/// Keys that operations draw from.
const KEYS: usize = 64;

/// Runs the break-even sweep.
///
/// # Errors
/// [`LabError`]: a core that cannot be had, an engine whose output is wrong.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut section = show::section();
    let engines = lineup::engines(options, &names(), &mut section)?;
    pin(options.core)?;
    measure(&Plan::new(options), &engines, section, progress)
}

fn measure(
    plan: &Plan,
    engines: &[Arc<dyn Engine>],
    mut section: Section,
    progress: Progress<'_>,
) -> Result<Section, LabError> {
    let mut all = Vec::new();
    for suite in &plan.suites {
        all.push(sweep(plan, engines, *suite, &mut section, progress)?);
    }
    show::fill(&mut section, plan, &all);
    Ok(section)
}

/// Every engine on every shape of one suite.
fn sweep(
    plan: &Plan,
    engines: &[Arc<dyn Engine>],
    suite: Suite,
    section: &mut Section,
    progress: Progress<'_>,
) -> Result<Swept, LabError> {
    let reference = open("reference")?;
    let direction = Direction::Encrypt;
    let mut swept = Swept { suite, shapes: Vec::new() };
    for len in plan.extent.lengths {
        progress(&format!("{suite}, {len} B"))?;
        let engines: Vec<&Arc<dyn Engine>> =
            engines.iter().filter(|engine| lineup::runs(engine.as_ref(), suite, direction, *len, section)).collect();
        for ops in plan.extent.batches.iter().filter(|ops| **ops == 1 || **ops * len <= plan.extent.bytes_max) {
            if engines.is_empty() {
                continue;
            }
            let parameters = Parameters {
                ops: *ops,
                keys: KEYS.min(*ops),
                len_min: *len,
                len_max: *len,
                seed: plan.seed,
                ..Parameters::default()
            };
            let workload = parameters.workload(suite, direction, reference.as_ref())?;
            let expected = contest::expected(&workload, reference.as_ref())?;
            let verified = |engine: &&Arc<dyn Engine>| Entrant::verified(engine, &workload, &expected);
            let mut entrants: Vec<Entrant> = engines.iter().map(verified).collect::<Result<_, _>>()?;
            let timed = contest::time(&mut entrants, plan.budget)?;
            for (entrant, timed) in entrants.iter().zip(&timed) {
                entrant.agrees(&expected)?;
                swept.shapes.push(Shape {
                    engine: entrant.engine.info().name,
                    len: *len,
                    ops: *ops,
                    ns: timed.samples.median_ns() / entrant.repeats() as f64,
                    spread: timed.samples.spread(),
                });
            }
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use ciphermill_fault::{Fault, FaultEngine, Script};
    use ciphermill_report::Look;

    use super::*;

    fn tiny(suite: &str) -> Plan {
        let suites = vec![suite.parse().expect("a suite")];
        let budget = crate::timing::Budget { time: std::time::Duration::ZERO, rounds_min: 1, rounds_max: 1 };
        let mut plan = Plan::new(&Options { quick: true, suites, budget, ..Options::default() });
        plan.extent.lengths = &[16, 64, 256];
        plan.extent.table_lengths = plan.extent.lengths;
        plan.extent.batches = &[1, 8, 64];
        plan.extent.table = 8;
        plan
    }

    #[test]
    fn a_small_run_has_every_figure() {
        let engines = ["lanes", "library", "reference"].map(|name| open(name).expect("opens"));
        let mut progress = |_: &str| Ok(());
        let section = measure(&tiny("aes-128-cbc"), &engines, show::section(), &mut progress).expect("measured");
        let of_shapes = section.measurements.iter().filter(|number| number.unit == "ns/op");
        assert_eq!(of_shapes.count(), 3 * 3 * 3);
        assert!(section.measurements.iter().all(|number| number.value.is_finite() && number.value > 0.0));
        assert!(section.measurements.iter().any(|number| number.name == "aes-128-cbc/encrypt/lanes/64/x8"));
        let speed = &section.tables[0];
        assert_eq!((speed.rows.len(), speed.columns.len()), (3, 2 + 3));
        assert!(speed.rows[0][2].text.ends_with('k'), "{:?}", speed.rows[0]);
        assert_eq!(section.plots.len(), 2);
        assert_eq!(section.plots[0].series.iter().filter(|series| series.look == Look::Cited).count(), 2);
        assert!(section.conclusions.iter().any(|words| words.contains("accelerator")), "{:?}", section.conclusions);
        assert!(section.missing.is_empty(), "{:?}", section.missing);
    }

    #[test]
    fn a_suite_that_an_engine_lacks_is_said() {
        let engines = [open("library").expect("opens"), open("reference").expect("opens")];
        let mut progress = |_: &str| Ok(());
        let section = measure(&tiny("aes-128-siv"), &engines, show::section(), &mut progress).expect("measured");
        assert!(section.missing.iter().any(|missing| missing.what.starts_with("library, aes-128-siv")));
        assert!(section.measurements.iter().all(|number| !number.name.contains("library")));
    }

    #[test]
    fn an_engine_that_computes_wrongly_is_refused() {
        let mut plan = tiny("sha256");
        (plan.extent.batches, plan.extent.table) = (&[1024], 1024);
        // Of each length, batch 0 is verified, 1 warms up, and 2 is the last that is timed.
        for at in [3, 5] {
            let script = Script::at(at, Fault::WrongBit { op: 0, bit: 1 });
            let liar: Arc<dyn Engine> = Arc::new(FaultEngine::new("liar", open("library").expect("opens"), script));
            let result = measure(&plan, &[liar], show::section(), &mut |_: &str| Ok(()));
            assert!(matches!(result, Err(LabError::WrongResult { op: 0, .. })), "{at}: {:?}", result.err());
        }
    }
}
