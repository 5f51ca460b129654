//! Every call to CUDA fails once, in turn, and with each everything behind it once: operations end as faults of the engine or
//! right, nothing hangs, nothing is left over, and what is secret is wiped all the same.

use ciphermill_contract::Error;
use ciphermill_contract::error::Fault;
use ciphermill_gpu::Gpu;

use crate::double::{Double, PACES, inside, say};
use crate::jobs::{self, Outcome};

const OUT_OF_MEMORY: i32 = 2;
const ECC_UNCORRECTABLE: i32 = 214;
const LAUNCH_FAILED: i32 = 719;
const UNKNOWN: i32 = 999;

/// Opens the engine, works, and closes it. What fails at opening is one fault.
fn session(seed: u64) -> Outcome {
    match Gpu::open("cuda") {
        Ok(gpu) => {
            let mut outcome = jobs::small(&gpu, seed);
            outcome.add(jobs::lying(&gpu, seed, 2000));
            outcome.add(jobs::columns(&gpu, seed, 2000));
            outcome.add(jobs::digests(&gpu, seed));
            outcome
        }
        Err(error) => {
            assert!(matches!(error, Error::EngineFault(Fault { .. })), "{error}");
            Outcome { done: 0, faults: 1 }
        }
    }
}

/// Sessions in which the first, the second and so on of something fails, until there is no such one any more.
fn each(double: &Double, what: &str, step: u64, arm: impl Fn(u64)) {
    // Programs are compiled in the first session and kept: from then on every session makes the same calls.
    double.reset(0, PACES[0]);
    session(0).assert_done();
    let (mut nth, mut faults) = (1, 0);
    loop {
        let pace = PACES[(nth / step % 3) as usize];
        double.reset(nth, pace);
        arm(nth);
        let outcome = session(nth);
        let Some(failed) = double.failed() else {
            double.assert_clean(&format!("{what}, none fails"));
            outcome.assert_done();
            break;
        };
        double.assert_clean(&format!("{what} number {nth}, {failed}, fails, {pace:?}, {outcome:?}"));
        faults += usize::from(outcome.faults > 0);
        nth += step;
    }
    say(&format!("{what}: {} failed in turn, {faults} of them were noticed", (nth - 1) / step));
    assert!(faults > 0, "{what}: faults reach whoever asked");
}

#[test]
fn a_call_that_fails_is_a_fault_and_nothing_else() {
    inside("faults::a_call_that_fails_is_a_fault_and_nothing_else", |double| {
        each(double, "call", 2, |nth| double.fail(None, nth, UNKNOWN, false));
    });
}

#[test]
fn a_device_that_is_lost_takes_nothing_along() {
    inside("faults::a_device_that_is_lost_takes_nothing_along", |double| {
        each(double, "call for good", 5, |nth| double.fail(None, nth, ECC_UNCORRECTABLE, true));
    });
}

#[test]
fn work_that_fails_is_a_fault_and_nothing_else() {
    inside("faults::work_that_fails_is_a_fault_and_nothing_else", |double| {
        each(double, "work", 1, |nth| double.fail_work(nth, LAUNCH_FAILED));
    });
}

/// Programs are compiled anew each time, because no folder is there to keep them in.
#[test]
fn compilers_that_fail_are_faults_and_nothing_else() {
    inside("faults::compilers_that_fail_are_faults_and_nothing_else", |double| {
        for name in ["XDG_CACHE_HOME", "HOME"] {
            // SAFETY: nobody else reads the environment yet.
            unsafe { std::env::remove_var(name) };
        }
        let calls = ["Version", "CreateProgram", "CompileProgram", "GetCUBINSize", "GetCUBIN", "DestroyProgram"];
        for name in calls {
            double.reset(1, PACES[1]);
            double.fail(Some(&format!("nvrtc{name}")), 1, OUT_OF_MEMORY, false);
            let outcome = Gpu::open("cuda").map_or(Outcome { done: 0, faults: 1 }, |gpu| jobs::digests(&gpu, 1));
            assert!(outcome.faults > 0, "{name}: {outcome:?}");
            double.assert_clean(name);
        }
        // A program that did not compile is compiled again when it is asked for again.
        double.reset(1, PACES[1]);
        let gpu = Gpu::open("cuda").expect("the double opens");
        double.fail(Some("nvrtcCompileProgram"), 1, OUT_OF_MEMORY, false);
        assert_eq!(jobs::digests(&gpu, 1), Outcome { done: 3, faults: 1 });
        jobs::digests(&gpu, 2).assert_done();
        drop(gpu);
        double.assert_clean("a second try");
    });
}

#[test]
fn memory_that_runs_out_is_a_fault_and_passes() {
    inside("faults::memory_that_runs_out_is_a_fault_and_passes", |double| {
        for name in ["cuMemAlloc_v2", "cuMemHostAlloc"] {
            each(double, name, 1, |nth| double.fail(Some(name), nth, OUT_OF_MEMORY, false));
        }
        // The same engine goes on when there is memory again.
        double.reset(1, PACES[0]);
        let gpu = Gpu::open("cuda").expect("the double opens");
        double.fail(Some("cuMemHostAlloc"), 1, OUT_OF_MEMORY, false);
        assert!(jobs::small(&gpu, 1).faults > 0, "memory was missing");
        jobs::small(&gpu, 2).assert_done();
        drop(gpu);
        double.assert_clean("memory came back");
    });
}
