//! A small run of the whole method, and engines that lie.

use ciphermill_fault::{Fault, FaultEngine, Script};
use ciphermill_report::Look;

use super::*;

/// The quick plan on very little data.
fn tiny(suite: &str) -> Plan {
    let suites = vec![suite.parse().expect("a suite")];
    let budget = crate::timing::Budget { time: std::time::Duration::ZERO, rounds_min: 1, rounds_max: 1 };
    let options = Options { quick: true, suites, budget, ..Options::default() };
    let mut plan = Plan::new(&options);
    plan.extent.sizes = &[16, 64];
    plan.extent.chunks = 40;
    plan.extent.batch_chunks = 16;
    plan.extent.keys = 8;
    plan.extent.design.sizes = &[64, 256];
    plan.extent.design.chunks = 40;
    plan
}

fn quiet() -> impl FnMut(&str) -> Result<(), LabError> {
    |_: &str| Ok(())
}

#[test]
fn a_small_run_has_every_figure() {
    let engines = [crate::engines::open("lanes").expect("opens"), crate::engines::open("library").expect("opens")];
    let plan = tiny("aes-128-cbc+hmac-sha1");
    let section = measure(plan, &engines, None, show::section(), &mut quiet()).expect("measured");
    assert_eq!(section.plots.len(), 2);
    assert_eq!(section.plots[0].series.len(), 4, "two directions, all at once, bare");
    assert!(section.plots[1].series.iter().any(|series| series.look == Look::Cited));
    assert!(section.missing.iter().any(|missing| missing.what.contains("chunks")) || section.missing.is_empty());
    let design = section.measurements.iter().filter(|number| number.name.starts_with("design/")).count();
    assert_eq!(design, 2 * 2 * 2 * 2 * 2 * 3);
    for name in [
        "aes-128-cbc+hmac-sha1/encrypt/one-at-a-time/16",
        "aes-128-cbc+hmac-sha1/decrypt/all-at-once/64",
        "aes-128-cbc+hmac-sha1/encrypt/bare-lanes/64",
        "aes-128-cbc+hmac-sha1/encrypt/factor/16",
        "design/64-B/all-at-once/woken/unique-chunks/many-keys/after-the-timer",
        "effect/dispatch",
        "share/checking",
    ] {
        let found: Vec<_> = section.measurements.iter().filter(|number| number.name == name).collect();
        assert_eq!(found.len(), 1, "{name}");
    }
    assert!(section.measurements.iter().all(|number| number.value.is_finite() && number.value >= 0.0));
    let rates = section.measurements.iter().filter(|number| number.unit == "Mb/s");
    assert!(rates.into_iter().all(|number| number.value > 0.0));
    assert!(
        section
            .conclusions
            .iter()
            .any(|words| words.contains("What moved the result") || words.contains("Less than a tenth"))
    );
}

#[test]
fn an_engine_that_computes_wrongly_is_refused() {
    for at in 0..6 {
        let inner = crate::engines::open("library").expect("opens");
        let script = Script::at(at, Fault::WrongBit { op: 3, bit: 5 });
        let liar: Arc<dyn Engine> = Arc::new(FaultEngine::new("liar", inner, script));
        let result = measure(tiny("hmac-sha256"), &[liar], None, show::section(), &mut quiet());
        // Whichever batch it is, someone notices: the check before the timing, the mill's own tests, or a check after.
        assert!(result.is_err(), "a wrong bit in batch {at} went unnoticed");
        if at == 0 {
            assert!(matches!(result, Err(LabError::WrongResult { .. })), "{:?}", result.err());
        }
    }
}

#[test]
fn the_user_can_end_it() {
    let engines = [crate::engines::open("library").expect("opens")];
    let mut progress = |_: &str| Err(LabError::Interrupted);
    let result = measure(tiny("sha256"), &engines, None, show::section(), &mut progress);
    assert!(matches!(result, Err(LabError::Interrupted)));
}

#[test]
fn a_suite_that_nobody_runs_is_said() {
    let engines = [crate::engines::open("lanes").expect("opens")];
    let plan = tiny("generate-ec-sect163k1");
    let section = measure(plan, &engines, None, show::section(), &mut quiet()).expect("nothing to measure");
    assert!(section.missing.iter().any(|missing| missing.what.contains("generate-ec-sect163k1")));
    assert!(section.measurements.is_empty());
}
