//! What is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::{Engine, QueueHint};
use ciphermill_service_engine::{Opening, ServiceEngine};

use crate::work::{ColumnWork, Runner, Work, quantile, times};
use crate::{Served, again, mill};

/// A worker never sleeps.
const ALWAYS: Duration = Duration::from_secs(3600);

/// A worker sleeps as soon as there is nothing to do.
const NEVER: Duration = Duration::ZERO;

/// Deterministic, so that answers can be compared.
const RSA: &str = "rsa-2048-sign-pkcs1-sha256";

type Case = (&'static str, fn());

const CASES: [Case; 9] = [
    ("round trip", round_trip),
    // On a thread of its own, which ends with its core.
    ("parked", || std::thread::spawn(parked).join().expect("measured")),
    ("batch", batch),
    ("columns", columns),
    ("rsa", || many(RSA, 16)),
    ("x25519", || many("x25519", 16)),
    ("alone", alone),
    ("quiet", quiet),
    ("idle", idle),
];

/// Times that a case is measured, both sides in turns.
const ROUNDS: usize = 5;

pub(crate) fn run(wanted: &[&str]) {
    println!("{:<58} {:>12} {:>20}  against", "work", "service", "ratio");
    for (name, case) in CASES {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word)) {
            case();
        }
    }
}

/// Measures the service and what it is held against in turns, and prints the medians and the least, middle and greatest ratio.
fn compare(work: &str, unit: &str, against: &str, mut round: impl FnMut() -> (f64, f64)) {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| round()).collect();
    let sorted = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (service, other, ratios) =
        (sorted(|round| round.0), sorted(|round| round.1), sorted(|round| round.0 / round.1));
    let middle = ROUNDS / 2;
    let ratio = format!("{:.2} ({:.2} to {:.2})", ratios[middle], ratios[0], ratios[ROUNDS - 1]);
    let value = format!("{:.0} {unit}", service[middle]);
    println!("{work:<58} {value:>12} {ratio:>20}  {against}: {:.0} {unit}", other[middle]);
}

fn connect(served: &Served, spin: Duration) -> Arc<dyn Engine> {
    let opening = Opening { spin, ..Opening::at(&served.socket) };
    Arc::new(ServiceEngine::open(&opening).expect("connects"))
}

fn median(mut times: Vec<u64>) -> f64 {
    quantile(&mut times, 0.5) as f64
}

fn round_trip() {
    let served = Served::start(ALWAYS);
    let work = Work::new("aes-128-gcm", 1, 64);
    let mut there = Runner::verified(&connect(&served, ALWAYS), &work);
    let mut here = Runner::new(&crate::named("library"), work);
    compare("one aes-128-gcm of 64 bytes, spinning: time", "ns", "AWS-LC here", || {
        (median(there.times(20_000)), median(here.times(20_000)))
    });
}

fn parked() {
    // Each side on a core of its own, in both ways: otherwise it is by chance whether a wake-up goes to a core that sleeps.
    crate::stay_on(1);
    let served = Served::start(NEVER);
    let mut pair = EventPair::start();
    crate::stay_on(0);
    let mut runner = Runner::verified(&connect(&served, NEVER), &Work::new("aes-128-gcm", 1, 64));
    compare("the same, both asleep: time", "ns", "event descriptors", || {
        (median(times(2000, || runner.run())), median(times(2000, || pair.round_trip())))
    });
}

/// Another thread that answers over event descriptors: what two processes take that sleep.
struct EventPair {
    to: rustix::fd::OwnedFd,
    from: rustix::fd::OwnedFd,
}

impl EventPair {
    fn start() -> EventPair {
        use rustix::event::{EventfdFlags, eventfd};
        let make = || eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let (to, from) = (make(), make());
        let (theirs, ours) = (to.try_clone().expect("a descriptor"), from.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            let mut count = [0; 8];
            while rustix::io::read(&theirs, &mut count).is_ok() {
                let _ = rustix::io::write(&ours, &1u64.to_ne_bytes());
            }
        });
        EventPair { to, from }
    }

    fn round_trip(&mut self) {
        rustix::io::write(&self.to, &1u64.to_ne_bytes()).expect("rings");
        rustix::io::read(&self.from, &mut [0; 8]).expect("answers");
    }
}

fn batch() {
    let served = Served::start(ALWAYS);
    let engine = connect(&served, ALWAYS);
    let local = mill();
    for (suite, count, len) in [("aes-128-gcm", 256, 64), ("aes-128-cbc", 256, 64), ("hmac-sha256", 256, 64)] {
        let mut work = Work::new(suite, count, len);
        let mut runner = Runner::verified(&engine, &work);
        let mut ops = work.on_mill(&local);
        work.run_on_mill(&local, &mut ops);
        let rounds = 100_000 / work.len() + 10;
        compare(&format!("{count} {suite} of {len} bytes: rate"), "k/s", "a mill here", || {
            let rate = |times: Vec<u64>| count as f64 / median(times) * 1e6;
            (rate(runner.times(rounds)), rate(times(rounds, || work.run_on_mill(&local, &mut ops))))
        });
    }
}

fn columns() {
    let served = Served::start(ALWAYS);
    let engine = connect(&served, ALWAYS);
    let local = mill();
    let (suite, count, len) = ("aes-256-siv", 10_000, 25);
    let mut work = ColumnWork::new(suite, count, len);
    let key = work.import(&local);
    let prepared = work.prepare(&engine);
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    work.run_on(queue.as_mut(), &prepared);
    let service = work.sealed.clone();
    work.run_on_mill(&local, key);
    assert!(service == work.sealed, "wrong answers");
    compare(&format!("columns of {count} {suite} of {len} bytes: rate"), "k/s", "a mill here", || {
        let rate = |times: Vec<u64>| count as f64 / median(times) * 1e6;
        let service = rate(times(50, || work.run_on(queue.as_mut(), &prepared)));
        (service, rate(times(50, || work.run_on_mill(&local, key))))
    });
}

/// A client's process.
struct Client {
    child: Child,
    begin: ChildStdin,
    out: BufReader<ChildStdout>,
}

impl Client {
    fn start(way: &str, kind: &str, socket: &str, seconds: f64) -> Client {
        let mut command = again(&["client", way, kind, socket, &seconds.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let (begin, out) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut client = Client { child, begin, out: BufReader::new(out) };
        assert_eq!(client.line(), "ready\n");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    fn begin(&mut self) {
        self.begin.write_all(b"\n").expect("told");
    }

    /// Operations, median and 99th percentile.
    fn end(mut self) -> [u64; 3] {
        let line = self.line();
        let _ = self.child.wait();
        let figures: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        figures.try_into().expect("three numbers")
    }
}

/// Operations a second of so many clients together.
fn together(way: &str, kind: &str, socket: &str, clients: usize, seconds: f64) -> f64 {
    let mut clients: Vec<Client> = (0..clients).map(|_| Client::start(way, kind, socket, seconds)).collect();
    clients.iter_mut().for_each(Client::begin);
    let ops: u64 = clients.into_iter().map(|client| client.end()[0]).sum();
    ops as f64 / seconds
}

/// Processes that each do one operation at a time.
fn many(suite: &str, clients: usize) {
    let served = Served::start(Duration::from_micros(50));
    let each = |way: &str| together(way, suite, served.socket(), clients, 2.0);
    compare(&format!("{clients} processes, {suite}: rate"), "/s", "OpenSSL in each", || {
        (each("service"), each("openssl-public"))
    });
}

fn alone() {
    let served = Served::start(Duration::from_micros(50));
    for suite in [RSA, "x25519", "ecdsa-p256"] {
        let latency = |way: &str| {
            let mut client = Client::start(way, suite, served.socket(), 1.0);
            client.begin();
            client.end()[1] as f64
        };
        for other in ["openssl-public", "library"] {
            compare(&format!("one process alone, {suite}: latency"), "ns", other, || {
                (latency("service"), latency(other))
            });
        }
    }
}

fn quiet() {
    let served = Served::start(Duration::from_micros(50));
    let p99 = |greedy: usize| {
        let mut greedy: Vec<Client> =
            (0..greedy).map(|_| Client::start("service", "greedy", served.socket(), 4.0)).collect();
        let mut quiet = Client::start("service", "quiet", served.socket(), 3.0);
        greedy.iter_mut().for_each(Client::begin);
        std::thread::sleep(Duration::from_millis(300));
        quiet.begin();
        let [_, _, p99] = quiet.end();
        for client in greedy {
            client.end();
        }
        p99 as f64
    };
    compare("a quiet client beside 8 greedy ones: 99th percentile", "ns", "alone", || (p99(8), p99(0)));
}

fn idle() {
    let served = Served::start(Duration::from_micros(50));
    let clients: Vec<Client> = (0..16).map(|_| Client::start("service", "quiet", served.socket(), 0.1)).collect();
    std::thread::sleep(Duration::from_millis(200));
    let (begun, before) = (Instant::now(), ticks(served.pid()));
    std::thread::sleep(Duration::from_secs(60));
    let used = (ticks(served.pid()) - before) as f64 / 100.0;
    let share = used / begun.elapsed().as_secs_f64() * 100.0;
    println!("{:<58} {share:>10.3} %", "CPU in idle, 16 clients, 60 s");
    for mut client in clients {
        client.begin();
        client.end();
    }
}

/// Hundredths of a second that a process has used, from `/proc/<pid>/stat` (proc(5), fields 14 and 15).
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}
