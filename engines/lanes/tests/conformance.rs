//! Every kernel that this processor can run keeps the contract and agrees with the reference, for every suite that it
//! claims. The test prints which kernels ran and which this processor cannot run, and fails if one was left out.
//!
//! `CONFORMANCE_ONLY` names suites or families, with commas between them, and `CONFORMANCE_KERNEL` kernels (`aes=vaes256`), which have
//! to run then: for who looks for a fault, and where a processor is emulated. With `CONFORMANCE_ALL` every kernel has as many vectors as the
//! one that this processor uses, and that one more than otherwise.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::collections::BTreeSet;
use std::io::Write;

use ciphermill_conformance::{Options, check_suite, differential_of};
use ciphermill_contract::{Engine, Suite};
use ciphermill_lanes::{KernelChoice, Lanes, kernels};
use ciphermill_reference::Reference;

/// Random batches of each suite of a kernel.
const BATCHES: usize = 2;

/// Past the test harness, which would keep it to itself: every log of a run shows which kernels were tested.
fn say(what: &str) {
    // A log that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr(), "lanes: {what}");
}

/// The kernels that were asked for, if only some are.
fn asked() -> Option<Vec<String>> {
    let names = std::env::var("CONFORMANCE_KERNEL").ok()?;
    Some(names.split(',').map(str::to_owned).collect())
}

fn full(kernel: &KernelChoice) -> String {
    format!("{}={}", kernel.family, kernel.name)
}

fn chosen(kernel: &KernelChoice) -> bool {
    asked().is_none_or(|asked| asked.contains(&full(kernel)))
}

fn wanted(suite: Suite) -> bool {
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    only.is_empty() || only.split(',').any(|only| suite.to_string() == only || suite.family() == only)
}

/// The engine with one kernel forced, and the suites that it claims and that this kernel runs.
fn forced(kernel: &KernelChoice) -> (Lanes, Vec<Suite>) {
    let engine = Lanes::with_kernels(&[&full(kernel)]).expect("this processor can");
    let claimed: BTreeSet<Suite> =
        engine.capabilities().iter().flat_map(|capability| capability.suites).copied().collect();
    let own = |suite: &Suite| engine.info().kernel_for(*suite) == kernel.name && suite.kernel_family() == kernel.family;
    let suites = claimed.into_iter().filter(own).collect();
    (engine, suites)
}

#[test]
fn every_kernel_keeps_the_contract() {
    let reference = Reference::new();
    let (mut ran, mut families) = (Vec::new(), BTreeSet::new());
    for kernel in kernels() {
        let name = full(&kernel);
        if !kernel.capable {
            say(&format!("this processor cannot run {name}"));
            continue;
        }
        if !chosen(&kernel) {
            continue;
        }
        let (engine, suites) = forced(&kernel);
        assert!(!suites.is_empty(), "{name} claims no suite");
        let suites: Vec<Suite> = suites.into_iter().filter(|suite| wanted(*suite)).collect();
        // The first of a family is what this processor uses; the others have fewer vectors.
        let takes_all = families.insert(kernel.family) || std::env::var_os("CONFORMANCE_ALL").is_some();
        let options = match takes_all {
            true => Options::from_environment(),
            false => Options { symmetric_cases_max: 200, public_cases_max: 24, ..Options::default() },
        };
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(suite) = suites.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                        check_suite(&engine, Some(&reference), *suite, &options).assert_clean();
                    }
                });
            }
        });
        say(&format!("ran {name}: {} suites", suites.len()));
        ran.push(name);
    }
    let can = kernels().iter().filter(|kernel| kernel.capable).map(full).collect();
    for name in asked().unwrap_or(can) {
        assert!(ran.contains(&name), "{name} was not run");
    }
}

/// Nothing that the engine claims is left out by the test above: each suite is some kernel's own.
#[test]
fn every_claimed_suite_is_a_kernels_own() {
    let own: BTreeSet<Suite> =
        kernels().iter().filter(|kernel| kernel.capable).flat_map(|kernel| forced(kernel).1).collect();
    let engine = Lanes::new().expect("opens everywhere");
    let claimed: BTreeSet<Suite> =
        engine.capabilities().iter().flat_map(|capability| capability.suites).copied().collect();
    assert_eq!(claimed.difference(&own).collect::<Vec<_>>(), Vec::<&Suite>::new());
}

#[test]
fn every_kernel_agrees_with_the_reference_on_random_batches() {
    let reference = Reference::new();
    for (round, kernel) in kernels().into_iter().filter(|kernel| kernel.capable && chosen(kernel)).enumerate() {
        let (engine, suites) = forced(&kernel);
        let (seed, batches) = (0x1a9e_5eed + round as u64, BATCHES * suites.len());
        differential_of(&engine, &reference, &suites, seed, batches).assert_clean();
    }
}
