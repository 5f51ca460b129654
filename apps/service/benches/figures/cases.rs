//! What is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::Engine;
use ciphermill_service_engine::{Opening, ServiceEngine};

use crate::work::{Runner, Work, quantile, times};
use crate::{Served, again, mill};

/// A worker never sleeps.
const ALWAYS: Duration = Duration::from_secs(3600);

/// A worker sleeps as soon as there is nothing to do.
const NEVER: Duration = Duration::ZERO;

type Case = (&'static str, fn());

const CASES: [Case; 8] = [
    ("round trip", round_trip),
    ("parked", parked),
    ("batch", batch),
    ("rsa", || many("rsa-2048-sign-pss-sha256", 16)),
    ("x25519", || many("x25519", 16)),
    ("alone", alone),
    ("quiet", quiet),
    ("idle", idle),
];

pub(crate) fn run(wanted: &[&str]) {
    println!("{:<44} {:>12} {:>12}  against", "work", "service", "ratio");
    for (name, case) in CASES {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word)) {
            case();
        }
    }
}

fn row(work: &str, value: &str, ratio: f64, against: &str) {
    println!("{work:<44} {value:>12} {ratio:>12.2}  {against}");
}

fn connect(served: &Served, spin: Option<Duration>) -> Arc<dyn Engine> {
    let mut opening = Opening::at(&served.socket);
    opening.spin = spin.unwrap_or(opening.spin);
    Arc::new(ServiceEngine::open(&opening).expect("connects"))
}

fn round_trip() {
    let served = Served::start(ALWAYS);
    let engine = connect(&served, Some(ALWAYS));
    let mut all = Runner::new(&engine, Work::new("aes-128-gcm", 1, 64)).times(50_000);
    let mut local = Runner::new(&local_engine(), Work::new("aes-128-gcm", 1, 64)).times(50_000);
    let (service, local) = (quantile(&mut all, 0.5), quantile(&mut local, 0.5));
    row(
        "one aes-128-gcm of 64 bytes, spinning",
        &format!("{service} ns"),
        service as f64 / 2000.0,
        &format!("2000 ns; the library here {local} ns"),
    );
}

/// AWS-LC in this process.
fn local_engine() -> Arc<dyn Engine> {
    ciphermill_engines::open("library").expect("a known name").expect("opens everywhere")
}

fn parked() {
    let served = Served::start(NEVER);
    let engine = connect(&served, Some(NEVER));
    let mut runner = Runner::new(&engine, Work::new("aes-128-gcm", 1, 64));
    let mut both = (Vec::new(), Vec::new());
    let mut pair = EventPair::start();
    for _ in 0..10 {
        // Pauses, so that both sides sleep.
        let pause = || std::thread::sleep(Duration::from_micros(300));
        both.0.extend(times(200, || runner.run()));
        pause();
        both.1.extend(times(200, || pair.round_trip()));
        pause();
    }
    let (service, events) = (quantile(&mut both.0, 0.5), quantile(&mut both.1, 0.5));
    row(
        "the same, both asleep",
        &format!("{service} ns"),
        service as f64 / events as f64,
        &format!("event descriptors: {events} ns"),
    );
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
    let engine = connect(&served, Some(ALWAYS));
    let local = mill();
    for (suite, count, len) in
        [("aes-128-gcm", 256, 64), ("aes-128-cbc", 256, 64), ("hmac-sha256", 256, 64), ("aes-256-siv", 10_000, 25)]
    {
        let mut runner = Runner::new(&engine, Work::new(suite, count, len));
        let mut work = Work::new(suite, count, len);
        let mut ops = work.on_mill(&local);
        work.run_on_mill(&local, &mut ops);
        let (mut there, mut here) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let rounds = 200_000 / work.len() / 20 + 2;
            there.extend(runner.times(rounds));
            here.extend(times(rounds, || work.run_on_mill(&local, &mut ops)));
        }
        let (there, here) = (quantile(&mut there, 0.5), quantile(&mut here, 0.5));
        let name = format!("{count} {suite} of {len} bytes: share of the rate");
        row(&name, &format!("{there} ns"), here as f64 / there as f64, &format!("a mill here: {here} ns"));
    }
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
    let (mut service, mut openssl) = (0.0, 0.0);
    for _ in 0..3 {
        service += together("service", suite, served.socket(), clients, 2.0) / 3.0;
        openssl += together("openssl-public", suite, served.socket(), clients, 2.0) / 3.0;
    }
    let name = format!("{clients} processes, {suite}: rate");
    row(&name, &format!("{service:.0}/s"), service / openssl, &format!("OpenSSL in each: {openssl:.0}/s"));
}

fn alone() {
    let served = Served::start(Duration::from_micros(50));
    for suite in ["rsa-2048-sign-pss-sha256", "x25519", "ecdsa-p256"] {
        let (mut service, mut openssl, mut library) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..3 {
            for (way, all) in [("service", &mut service), ("openssl-public", &mut openssl), ("library", &mut library)] {
                let mut client = Client::start(way, suite, served.socket(), 1.0);
                client.begin();
                all.push(client.end()[1]);
            }
        }
        let (service, openssl) = (quantile(&mut service, 0.5), quantile(&mut openssl, 0.5));
        let library = quantile(&mut library, 0.5);
        let name = format!("one process alone, {suite}: latency");
        row(
            &name,
            &format!("{service} ns"),
            service as f64 / openssl as f64,
            &format!("OpenSSL: {openssl} ns; AWS-LC in the process: {library} ns"),
        );
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
        let [_, median, p99] = quiet.end();
        for client in greedy {
            client.end();
        }
        (median, p99)
    };
    let (alone, beside) = (p99(0), p99(8));
    let against = format!("alone: {} ns; medians {} and {} ns", alone.1, beside.0, alone.0);
    row(
        "quiet beside 8 greedy: 99th percentile",
        &format!("{} ns", beside.1),
        beside.1 as f64 / alone.1 as f64,
        &against,
    );
}

fn idle() {
    let served = Served::start(Duration::from_micros(50));
    let clients: Vec<Client> = (0..16).map(|_| Client::start("service", "quiet", served.socket(), 0.1)).collect();
    std::thread::sleep(Duration::from_millis(200));
    let (begun, before) = (Instant::now(), ticks(served.pid()));
    std::thread::sleep(Duration::from_secs(20));
    let used = (ticks(served.pid()) - before) as f64 / 100.0;
    let share = used / begun.elapsed().as_secs_f64() * 100.0;
    row("CPU in idle, 16 clients", &format!("{share:.3} %"), share / 0.1, "0.1 %");
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
