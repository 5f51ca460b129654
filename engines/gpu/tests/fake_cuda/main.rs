//! The CUDA runtime at work, on machines without a GPU: a double of CUDA's driver and compiler runs its kernels on the
//! processor, does everything as late and in as odd an order as the rules allow, watches the rules, and fails calls.
//!
//! Each test runs in a process of its own, where the double is what is found under CUDA's names.
#![allow(unsafe_code, reason = "a library of C functions")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod double;
mod faults;
mod jobs;
mod rules;

use std::sync::atomic::{AtomicUsize, Ordering};

use ciphermill_conformance::{Options, check_suite, differential};
use ciphermill_contract::{Direction, Engine as _, Suite, capability};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

use double::{Pace, inside};

/// Orders that are tried.
const SEEDS: u64 = 9;

/// The suites that the engine claims, of RSA the first of each family: all of them run through PoCL, and what is tried here
/// is the runtime, which does not know one from another.
fn suites(gpu: &Gpu, only: &str) -> Vec<Suite> {
    let mut seen = Vec::new();
    let mut is_new = |family| {
        let new = !seen.contains(&family);
        seen.push(family);
        new
    };
    let both = [Direction::Encrypt, Direction::Decrypt];
    let claimed = |suite: &Suite| both.iter().any(|way| capability::find(gpu.capabilities(), *suite, *way).is_some());
    let wanted = |suite: &Suite| only.is_empty() || suite.to_string() == only || suite.family() == only;
    Suite::all()
        .filter(|suite| claimed(suite) && wanted(suite))
        .filter(|suite| !suite.family().starts_with("RSA") || is_new(suite.family()))
        .collect()
}

#[test]
fn every_suite_keeps_the_contract() {
    inside("every_suite_keeps_the_contract", |double| {
        double.reset(1, Pace::Random);
        let gpu = Gpu::open("cuda").expect("the double opens");
        let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
        let suites = suites(&gpu, &only);
        assert!(!suites.is_empty(), "there is something to run");
        let options = Options { symmetric_cases_max: 20, public_cases_max: 4, ..Options::default() };
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
                check_suite(&gpu, Some(&Reference::new()), *suite, &options).assert_clean();
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
        double::say(&format!("ran every suite on {}: {} launches", gpu.info().version, double.launches()));
        drop(gpu);
        double.assert_clean("conformance");
    });
}

#[test]
fn random_batches_agree_with_the_reference() {
    inside("random_batches_agree_with_the_reference", |double| {
        for pace in double::PACES {
            double.reset(7, pace);
            let gpu = Gpu::open("cuda").expect("the double opens");
            differential(&gpu, &Reference::new(), 0x6b70_5eed, 30).assert_clean();
            drop(gpu);
            double.assert_clean("random batches");
        }
    });
}

/// Several queues at work at a time, batches of several shares, long messages in parts, batches handed over, keys that come and
/// go meanwhile: right with every seed, that is in every order that streams and events leave open.
#[test]
fn work_is_in_order_whatever_the_device_puts_off() {
    inside("work_is_in_order_whatever_the_device_puts_off", |double| {
        for seed in 0..SEEDS {
            let pace = double::PACES[seed as usize % 3];
            double.reset(seed, pace);
            let gpu = Gpu::open("cuda").expect("the double opens");
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (gpu, thread) = (&gpu, seed + thread);
                    scope.spawn(move || jobs::run_all(gpu, thread).assert_done());
                }
            });
            drop(gpu);
            double.assert_clean(&format!("seed {seed}, {pace:?}"));
        }
    });
}
