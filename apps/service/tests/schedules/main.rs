//! The mill's schedules of faults with the service as an engine beside the faulty ones, while the service's process is killed and started
//! again: no operation is lost, done twice or wrong. `FAULT_SCHEDULES` of them, a thousand if nothing is said.

#![allow(clippy::expect_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../core/mill/tests/faults/schedule.rs"]
mod schedule;
#[path = "../../../../core/mill/tests/faults/work.rs"]
#[allow(dead_code, reason = "tests of the mill use all of it")]
mod work;

use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ciphermill_contract::{Cost, Engine, EngineKind};
use ciphermill_fault::{FaultEngine, Script};
use ciphermill_service_engine::{Link, Opening, ServiceEngine};
use common::campaign::wait_for;
use common::{Running, child};

fn reference() -> Arc<dyn Engine> {
    static REFERENCE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    Arc::clone(REFERENCE.get_or_init(|| Arc::new(ciphermill_reference::Reference::new())))
}

#[test]
#[ignore = "a process that the other test starts and kills"]
fn service_process() {
    let Some(socket) = child::socket() else { return };
    let _running = Running::start_at(socket, None, |_| {});
    loop {
        std::thread::park();
    }
}

/// A service in a process of its own, once it answers.
fn started(socket: &Path) -> Child {
    let child = child::start("service_process", socket);
    wait_for("the service answers", || Link::connect(socket).is_ok());
    child
}

#[test]
fn every_operation_is_answered_while_the_service_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut child = started(&socket);
    let service: Arc<dyn Engine> = Arc::new(ServiceEngine::open(&Opening::at(&socket)).expect("connects"));
    // As cheap as the faulty ones, and it counts.
    let service = FaultEngine::new("service", service, Script::healthy()).with_kind(EngineKind::Service);
    let service = service.with_prior(Cost::new(0.0, 1.0, 0.01));
    let handle = service.handle();
    let ends = AtomicBool::new(false);
    let kills = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut kills = 0u32;
            while !ends.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(u64::from(kills * 37 % 60)));
                child.kill().expect("it ran");
                child.wait().expect("it ended");
                kills += 1;
                // Nobody is there for a while.
                std::thread::sleep(Duration::from_millis(u64::from(kills % 4) * 5));
                child = started(&socket);
            }
            child.kill().expect("it ran");
            child.wait().expect("it ended");
            kills
        });
        let joined: [Arc<dyn Engine>; 1] = [Arc::new(service)];
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| schedule::run_all(1000, &joined)));
        ends.store(true, Ordering::Relaxed);
        let kills = killer.join().expect("it only kills");
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        kills
    });
    let batches = handle.batches();
    println!("NOTE: the service was killed {kills} times and had {batches} batches");
    assert!(kills > 3 && batches > 100, "{kills} kills, {batches} batches");
}
