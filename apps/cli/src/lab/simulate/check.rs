//! The simulation beside the service on this machine: the same clients, the same cores.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use ciphermill::Costs;
use ciphermill_contract::Suite;
use ciphermill_lab::LabError;
use ciphermill_lab::method::Progress;
use ciphermill_lab::simulate::{Compared, Figure, Machine, compared};
use ciphermill_report::Section;
use ciphermill_simulate::{Overheads, Scenario, parse_mix, run};
use rustix::thread::sched_getaffinity;

use super::client::{Client, Request};
use super::served::{Served, pinned};
use super::{calibrate, served};

/// Mixes, and clients that wait for their answers.
const MIXES: [(&str, u32); 3] =
    [("rsa-2048-sign-pkcs1-sha256", 8), ("x25519", 8), ("aes-256-gcm/64:0.5,ecdsa-p256:0.5", 6)];

/// Numbers of cores that are compared, as far as there are as many.
const CORES: [u32; 2] = [1, 2];

/// Runs of each, which show how much this machine differs from itself.
const RUNS: usize = 3;

/// Measures and simulates all mixes on one and on two cores.
pub(super) fn section(seconds: f64, seed: u64, progress: Progress<'_>) -> Result<Section, LabError> {
    let failed = |error: anyhow::Error| LabError::Service(format!("{error:#}"));
    progress("what engines cost")?;
    let costs = calibrate::costs(&suites().map_err(failed)?);
    let machine = served::mill(&costs).map(Machine::new).map_err(failed)?;
    let available = sched_getaffinity(None).map_or(1, |cores| cores.count());
    let cores: Vec<u32> = CORES.into_iter().filter(|cores| *cores <= available).collect();
    progress("what the service costs around them")?;
    let most = cores.last().copied().unwrap_or(1);
    let overheads = calibrate::overheads((&machine, &costs), most, seconds.min(0.5)).map_err(failed)?;
    let mut all = Vec::new();
    for cores in &cores {
        for (mix, clients) in MIXES {
            progress(&format!("{clients} clients, {mix}, {cores} cores"))?;
            let (mut rates, mut p99s_ns) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let measured = pinned(*cores, || measure((&machine, &costs), (mix, clients), *cores, seconds));
                let (rate, p99_ns) = measured.map_err(failed)?;
                rates.push(rate);
                p99s_ns.push(p99_ns);
            }
            let mut scenario = Scenario { cores: *cores, shares_cores: true, overheads, seed, ..Scenario::default() };
            scenario.slice_ns = calibrate::slice_ns().unwrap_or(scenario.slice_ns);
            scenario.add_clients((clients, 1.0), "closed", mix, &machine)?;
            let outcome = run(&scenario)?;
            all.push(Compared {
                mix: format!("{clients} × {mix}"),
                cores: *cores,
                rate: Figure::new(rates, outcome.all.rate),
                p99_ns: Figure::new(p99s_ns, outcome.all.latency.p99_ns),
            });
        }
    }
    let mut section = compared(&all, &named(&overheads));
    if cores.len() < CORES.len() {
        section.lacks("two cores", format!("this process may use {available}"));
    }
    Ok(section)
}

fn named(overheads: &Overheads) -> [(&'static str, f64); 10] {
    [
        ("batch_ns", overheads.batch_ns),
        ("request_ns", overheads.request_ns),
        ("op_ns", overheads.op_ns),
        ("byte_ns", overheads.byte_ns),
        ("wakeup_ns", overheads.wakeup_ns),
        ("client_ns", overheads.client_ns),
        ("client_wakeup_ns", overheads.client_wakeup_ns),
        ("wake_ns", overheads.wake_ns),
        ("interrupt_ns", overheads.interrupt_ns),
        ("switch_ns", overheads.switch_ns),
    ]
}

fn suites() -> anyhow::Result<Vec<Suite>> {
    let mut suites = vec![calibrate::SUITE.parse()?];
    for (mix, _) in MIXES {
        suites.extend(parse_mix(mix)?.into_iter().map(|work| work.suite));
    }
    Ok(suites)
}

/// Requests a second, and the 99th percentile of their times in nanoseconds.
fn measure(
    (machine, costs): (&Machine, &Costs),
    (mix, clients): (&str, u32),
    cores: u32,
    seconds: f64,
) -> anyhow::Result<(f64, f64)> {
    let works = parse_mix(mix)?;
    let shares: Vec<f64> = works.iter().map(|work| work.share).collect();
    let request = |work: &ciphermill_simulate::MixText| {
        Request::new(work.suite, work.ops as usize, work.len.unwrap_or(64) as usize, machine.mill())
    };
    let requests = works.iter().map(request).collect::<anyhow::Result<Vec<_>>>()?;
    let served = Served::start(costs, cores)?;
    let begin = Arc::new(Barrier::new(clients as usize));
    let counted = Duration::from_secs_f64(seconds);
    let mut threads = Vec::new();
    for number in 0..clients {
        let mut client = Client::connect(served.socket(), &requests)?;
        let (begin, shares) = (Arc::clone(&begin), shares.clone());
        let work = move || {
            begin.wait();
            let window = (Instant::now() + counted / 5, counted);
            client.ask_for(&shares, window, u64::from(number) + 1)
        };
        threads.push(std::thread::Builder::new().name(format!("client-{number}")).spawn(work)?);
    }
    let mut times = Vec::new();
    for thread in threads {
        let own = thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        times.extend(own?);
    }
    anyhow::ensure!(!times.is_empty(), "no request was answered within {seconds} s");
    let place = (times.len() - 1) * 99 / 100;
    let rate = times.len() as f64 / seconds;
    Ok((rate, *times.select_nth_unstable(place).1 as f64))
}
