//! Every suite that the engine claims keeps the contract and agrees with the reference, on the kernels that a GPU runs,
//! here run by the processor through PoCL.
//!
//! `CONFORMANCE_ONLY` names one suite or family when looking for a fault.

mod common;

use std::process::{Child, Command};

use ciphermill_conformance::{Options, acceptance, check_engine, check_suite, differential};
use ciphermill_contract::{Direction, Engine, Suite, capability};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

/// Random batches: several for every suite.
const BATCHES: usize = 120;

/// What a process of its own checks. PoCL compiles one kernel at a time in a process, and compiling is most of the time;
/// these have no kernel in common.
const PARTS: [&str; 2] = ["symmetric", "public"];

/// The variable that tells a process its part.
const PART: &str = "CONFORMANCE_PART";

const NAME: &str = "every_suite_keeps_the_contract_and_random_batches_agree";

fn options(only: String) -> Options {
    Options { only, symmetric_cases_max: 100, public_cases_max: 24, ..Options::default() }
}

fn check_part(gpu: &Gpu, part: &str) {
    let both = [Direction::Encrypt, Direction::Decrypt];
    let claimed = |suite: &Suite| both.iter().any(|way| capability::find(gpu.capabilities(), *suite, *way).is_some());
    let is_own = |suite: &Suite| suite.is_public_key() == (part == PARTS[1]);
    let mut count = 0;
    for suite in Suite::all().filter(|suite| claimed(suite) && is_own(suite)) {
        check_suite(gpu, Some(&Reference::new()), suite, &options(String::new())).assert_clean();
        count += 1;
    }
    assert!(count > 10, "{part}: {count} suites");
    common::say(&format!("ran {count} {part} suites on {}", gpu.info().version));
}

#[test]
fn every_suite_keeps_the_contract_and_random_batches_agree() {
    if let Ok(part) = std::env::var(PART) {
        let gpu = common::device().expect("whoever started this process has it");
        return check_part(gpu, &part);
    }
    let Some(gpu) = common::device() else { return };
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    if !only.is_empty() {
        return check_engine(gpu.as_ref(), Some(&Reference::new()), &options(only)).assert_clean();
    }
    let this = std::env::current_exe().expect("a path");
    let start = |part: &&str| Command::new(&this).args(["--exact", NAME, "--nocapture"]).env(PART, part).spawn();
    let children: Vec<Child> = PARTS.iter().map(|part| start(part).expect("a process")).collect();
    for (part, mut child) in PARTS.iter().zip(children) {
        assert!(child.wait().expect("it ends").success(), "{part}");
    }
    // The kernels are compiled by now.
    differential(gpu.as_ref(), &Reference::new(), 0x6b70_5eed, BATCHES).assert_clean();
    let options = Options { mutations_max: 60, ..options(String::new()) };
    acceptance(&[&Reference::new(), gpu.as_ref()], &options).assert_clean();
}
