//! What the service costs around engines on this machine, found with one client alone and with work that is compared with nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use ciphermill::Costs;
use ciphermill_contract::{Direction, Suite};
use ciphermill_lab::simulate::Machine;
use ciphermill_simulate::{Overheads, Sources};
use ciphermill_tuning::Effort;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use super::client::{Client, Request};
use super::served::{Served, pinned, stay_on};

/// The work: no key, no steps, and about as long as anything that the service does.
pub(super) const SUITE: &str = "sha256";

/// Operations and bytes of large requests, from which what one of them takes follows.
const OPS: usize = 64;
const LEN: usize = 64;
const LEN_LONG: usize = 16 << 10;

/// A thread on another core is woken so often, each time after so long a pause that the core sleeps.
const WAKINGS: u64 = 1_000;
const PAUSE: Duration = Duration::from_micros(200);

/// Clients that have the worker's batches shared.
const MANY: u32 = 8;

/// What is left of a request's time when threads change on one core is the client's and the worker's in equal parts: only their sum can be seen
/// from outside.
const CLIENT_SHARE: f64 = 0.5;

/// What a request took: of the time that all clients waited its share, and its client's thread of the processor.
#[derive(Clone, Copy)]
struct Took {
    whole_ns: f64,
    client_ns: f64,
}

/// Measures: on `cores` cores, and on one, where everything happens one after the other.
pub(super) fn overheads((machine, costs): (&Machine, &Costs), cores: u32, seconds: f64) -> anyhow::Result<Overheads> {
    let suite: Suite = SUITE.parse()?;
    let known = machine.cost(suite, Direction::Encrypt);
    let engine_ns = |ops: usize, len: usize| known.map_or(0.0, |known| known.time(ops as u64, (ops * len) as u64).ns);
    let on = |cores: u32, clients: u32, (ops, len): (usize, usize)| {
        pinned(cores, || {
            let served = Served::start(costs, cores)?;
            let request = Request::new(suite, ops, len, machine.mill())?;
            took((served.socket(), clients), &request, seconds)
        })
    };
    // What the engine takes is in the simulation's costs.
    let around = |cores, what: (usize, usize)| -> anyhow::Result<f64> {
        Ok((on(cores, 1, what)?.whole_ns - engine_ns(what.0, what.1)).max(0.0))
    };
    let one = (1, LEN);
    let awake = around(cores, one)?;
    let many = around(cores, (OPS, LEN))?;
    let long = around(cores, (1, LEN_LONG))?;
    let [alone, shared] = [on(1, 1, one)?, on(1, MANY, one)?];
    let byte_ns = ((long - awake) / (LEN_LONG - LEN) as f64).max(0.0);
    let op_ns = ((many - awake) / (OPS - 1) as f64 - byte_ns * LEN as f64).max(0.0);
    let work_ns = op_ns + byte_ns * LEN as f64;
    // On one core clients sleep, and the worker has what they have not. It pays for a batch once, however many share it.
    let worker_alone = (alone.whole_ns - alone.client_ns - engine_ns(1, LEN) - work_ns).max(0.0);
    let each = 1.0 / f64::from(MANY);
    let worker_shared = shared.whole_ns - shared.client_ns - engine_ns(MANY as usize, LEN) * each - work_ns;
    // Where nobody sleeps nobody is woken, and a batch takes no more than all of it.
    let awake = (awake - work_ns).max(0.0);
    let batch_ns = ((worker_alone - worker_shared) / (1.0 - each)).clamp(0.0, awake.min(worker_alone));
    let both = awake - batch_ns;
    let (client_ns, request_ns) = (both * CLIENT_SHARE, both * (1.0 - CLIENT_SHARE));
    let switch_ns = (alone.client_ns - client_ns).max(0.0);
    let wake_ns = (worker_alone - batch_ns - request_ns).max(0.0);
    let (call_ns, latency_ns) = if cores > 1 { wakings()? } else { (wake_ns, switch_ns / 2.0) };
    Ok(Overheads {
        batch_ns,
        request_ns,
        op_ns,
        byte_ns,
        wakeup_ns: (latency_ns - switch_ns / 2.0).max(0.0),
        client_ns,
        client_wakeup_ns: latency_ns,
        wake_ns,
        interrupt_ns: (call_ns - wake_ns).max(0.0),
        switch_ns,
    })
}

/// Wakes a thread on a core that sleeps: what the call takes, and the time from its beginning until the thread runs, in nanoseconds.
fn wakings() -> anyhow::Result<(f64, f64)> {
    let begun = Instant::now();
    let now_ns = || begun.elapsed().as_nanos() as u64;
    // The number of the waking, and when its thread has run.
    let (number, ran_ns) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_here = AtomicBool::new(false);
    let before = sched_getaffinity(None)?;
    let measured = std::thread::scope(|scope| -> anyhow::Result<[Vec<u64>; 2]> {
        let woken = scope.spawn(|| -> anyhow::Result<()> {
            let pinned = stay_on(1);
            is_here.store(true, Ordering::Release);
            let mut seen = 0;
            while seen < WAKINGS {
                std::thread::park();
                let last = number.load(Ordering::Acquire);
                if last != seen {
                    seen = last;
                    ran_ns.store(now_ns(), Ordering::Release);
                }
            }
            pinned
        });
        stay_on(0)?;
        while !is_here.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let [mut calls, mut latencies] = [Vec::new(), Vec::new()];
        for waking in 1..=WAKINGS {
            let paused = Instant::now();
            while paused.elapsed() < PAUSE {
                core::hint::spin_loop();
            }
            ran_ns.store(0, Ordering::Release);
            let from_ns = now_ns();
            number.store(waking, Ordering::Release);
            woken.thread().unpark();
            calls.push(now_ns() - from_ns);
            while ran_ns.load(Ordering::Acquire) == 0 {
                core::hint::spin_loop();
            }
            latencies.push(ran_ns.load(Ordering::Acquire).saturating_sub(from_ns));
        }
        woken.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        Ok([calls, latencies])
    });
    sched_setaffinity(None, &before)?;
    let [call_ns, latency_ns] = measured?.map(|mut all| {
        let middle = all.len() / 2;
        *all.select_nth_unstable(middle).1 as f64
    });
    Ok((call_ns, latency_ns))
}

/// The turn of a thread that has not asked for another, in nanoseconds, as the kernel says it.
pub(super) fn slice_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/sched").ok()?;
    let line = text.lines().find(|line| line.starts_with("se.slice "))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Nanoseconds that this thread has had of processors (`/proc/PID/schedstat`).
fn processor_ns() -> anyhow::Result<f64> {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).context(path)?;
    Ok(text.split_whitespace().next().context("no figures")?.parse()?)
}

/// What a request takes of so many clients that ask for the same, in the mean.
fn took((socket, clients): (&Path, u32), request: &Request, seconds: f64) -> anyhow::Result<Took> {
    let counted = Duration::from_secs_f64(seconds);
    let one = |mut client: Client, seed: u64| -> anyhow::Result<(Vec<u64>, f64)> {
        // Before what is counted everything has been used once.
        client.ask_for(&[1.0], (Instant::now(), counted / 5), seed)?;
        let before = processor_ns()?;
        let times = client.ask_for(&[1.0], (Instant::now(), counted), seed)?;
        Ok((times, processor_ns()? - before))
    };
    let connect = || Client::connect(socket, std::slice::from_ref(request));
    let connected = (0..clients).map(|_| connect()).collect::<anyhow::Result<Vec<_>>>()?;
    let all = std::thread::scope(|scope| {
        let numbered = connected.into_iter().zip(1..);
        let threads: Vec<_> = numbered.map(|(client, seed)| scope.spawn(move || one(client, seed))).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?);
        ended.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let count: usize = all.iter().map(|(times, _)| times.len()).sum();
    anyhow::ensure!(count > 0, "no request was answered within {seconds} s");
    let client_ns = all.iter().map(|(_, ns)| ns).sum::<f64>() / count as f64;
    let sum: u64 = all.iter().flat_map(|(times, _)| times).sum();
    let whole_ns = sum as f64 / count as f64 / f64::from(clients);
    Ok(Took { whole_ns, client_ns })
}

/// What this machine's engines take for these suites, measured now.
pub(super) fn costs(suites: &[Suite]) -> Costs {
    let pairs = ciphermill_tuning::pairs(&ciphermill_engines::all(), |suite| suites.contains(&suite));
    let mut costs = Costs::new();
    for cost in ciphermill_tuning::tune(&pairs, Effort::QUICK, |_, _| {}).costs {
        costs.insert(cost);
    }
    costs
}
