//! Clients in processes of their own: each does one thing at a time, as often as it can, and says how often and how long it took.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::Engine;
use ciphermill_service_engine::{Opening, ServiceEngine};

use crate::work::{Runner, Work, quantile};

/// The engine that a client uses: the service, or the peer that it is held against.
pub(crate) fn engine(way: &str, socket: &Path) -> Arc<dyn Engine> {
    match way {
        "service" => Arc::new(ServiceEngine::open(&Opening::at(socket)).expect("connects")),
        "library" => crate::named("library"),
        peer => ciphermill_peers::open(peer).expect("a peer"),
    }
}

/// What a client does: a suite, and the bytes of its operations.
fn work(kind: &str) -> Work {
    match kind {
        "quiet" => Work::new("aes-128-gcm", 1, 64),
        "greedy" => Work::new("aes-128-gcm", 1, 1 << 20),
        suite => Work::new(suite, 1, 64),
    }
}

/// Begins when a line comes, so that all begin together; ends after so many seconds; prints operations, and the median and the 99th
/// percentile of their times in nanoseconds.
pub(crate) fn run(way: &str, kind: &str, socket: &Path, seconds: f64) {
    let mut runner = Runner::verified(&engine(way, socket), &work(kind));
    runner.run();
    println!("ready");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("told to begin");
    let begun = Instant::now();
    let mut times = Vec::new();
    let pause = if kind == "quiet" { Duration::from_micros(200) } else { Duration::ZERO };
    while begun.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        runner.run();
        times.push(start.elapsed().as_nanos() as u64);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    println!("{} {} {}", times.len(), quantile(&mut times.clone(), 0.5), quantile(&mut times, 0.99));
}
