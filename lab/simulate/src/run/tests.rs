//! Against closed forms (Kleinrock, Queueing Systems, volume 1: sections 3.2, 3.4 and 5.6), and what the service promises.

use ciphermill_contract::{Cost, EngineKind};
use ciphermill_router::Prediction;
use proptest::prelude::*;

use super::*;
use crate::scenario::tests::{rsa, scenario};
use crate::scenario::{Clients, Device, DeviceCost};

const SERVICE_NS: f64 = 100_000.0;

/// Requests of 100 µs that share no batch.
fn lone(by_chance: bool) -> Work {
    let cost = Prediction::even(Cost::new(0.0, SERVICE_NS, 0.0));
    Work { name: "lone".to_owned(), bytes: 20_000, cost, by_chance, ..rsa() }
}

/// Fifty clients that ask for one work at a load, on cores that never sleep.
fn open(work: Work, cores: u32, load: f64) -> Scenario {
    let mut scenario = scenario(vec![work]);
    let rate = load * f64::from(cores) * 1e9 / SERVICE_NS;
    scenario.clients[0].count = 50;
    scenario.clients[0].arrivals = Arrivals::Poisson { rate };
    // Longer than anybody is idle.
    Scenario { cores, spin_ns: 10_000_000, seconds: 1.2e6 / rate, ..scenario }
}

fn mean_wait_ns(scenario: &Scenario) -> f64 {
    run(scenario).expect("sound").all.latency.mean_ns - SERVICE_NS
}

fn close(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < share, "{what}: {found}, expected {expected}");
}

#[test]
fn waiting_times_are_those_of_m_d_1() {
    for load in [0.3, 0.5, 0.7] {
        let expected = load * SERVICE_NS / (2.0 * (1.0 - load));
        close(mean_wait_ns(&open(lone(false), 1, load)), expected, 0.03, &format!("load {load}"));
    }
}

#[test]
fn waiting_times_are_those_of_m_m_1_and_m_m_2() {
    for load in [0.3, 0.6] {
        let one = load * SERVICE_NS / (1.0 - load);
        close(mean_wait_ns(&open(lone(true), 1, load)), one, 0.03, &format!("one server, load {load}"));
        // Erlang's C formula for two servers.
        let two = 2.0 * load * load / (1.0 + load) * SERVICE_NS / (2.0 * (1.0 - load));
        close(mean_wait_ns(&open(lone(true), 2, load)), two, 0.03, &format!("two servers, load {load}"));
    }
}

#[test]
fn cores_are_as_busy_as_the_load_says() {
    let outcome = run(&open(lone(false), 4, 0.5)).expect("sound");
    close(outcome.engines[0].busy, 0.5, 0.01, "busy");
    close(outcome.all.rate, outcome.all.offered, 0.01, "answered");
    close(outcome.engines[0].rate, outcome.all.rate, 0.01, "operations");
}

/// The time alone, and what is around it; no window and no wake-up.
#[test]
fn one_client_alone_never_waits() {
    let mut scenario = scenario(vec![rsa()]);
    (scenario.overheads.request_ns, scenario.overheads.client_ns) = (1000.0, 600.0);
    let outcome = run(&scenario).expect("sound");
    let latency = outcome.all.latency;
    close(latency.mean_ns, 401_600.0, 1e-6, "latency");
    close(latency.p999_ns, 401_600.0, 2e-3, "latency");
    assert_eq!(outcome.lanes.requests_a_batch(), 1.0);
}

#[test]
fn who_sleeps_is_woken() {
    let mut scenario = scenario(vec![rsa()]);
    scenario.clients[0].arrivals = Arrivals::Closed { think_ns: 10e6 };
    (scenario.overheads.wakeup_ns, scenario.overheads.client_wakeup_ns) = (30_000.0, 20_000.0);
    // With one core one client is a crowd.
    (scenario.cores, scenario.seconds) = (2, 20.0);
    let outcome = run(&scenario).expect("sound");
    close(outcome.all.latency.p50_ns, 430_000.0, 2e-3, "the worker sleeps, the client looks");
    scenario.works[0].cost = Prediction::even(Cost::new(0.0, 600_000.0, 0.0));
    let outcome = run(&scenario).expect("sound");
    close(outcome.all.latency.p50_ns, 650_000.0, 2e-3, "both sleep");
}

#[test]
fn lanes_fill_under_load() {
    let fill = |clients: u32, cores: u32| {
        let mut scenario = scenario(vec![rsa()]);
        (scenario.clients[0].count, scenario.cores) = (clients, cores);
        let outcome = run(&scenario).expect("sound");
        (outcome.lanes.fill().unwrap_or(0.0), outcome.all.rate)
    };
    let (eight, rate) = fill(8, 1);
    close(eight, 1.0, 0.01, "eight clients and one core");
    close(rate, 1e9 / 60_000.0, 0.02, "the rate of full lanes");
    let (sixteen, rate) = fill(16, 2);
    close(sixteen, 1.0, 0.05, "sixteen clients and two cores");
    close(rate, 2e9 / 60_000.0, 0.05, "twice the rate");
    let (two, _) = fill(2, 1);
    assert!(two < 0.5, "two clients cannot fill eight lanes: {two}");
}

#[test]
fn clients_have_shares_by_their_weights() {
    let mut scenario = scenario(vec![lone(false)]);
    let arrivals = Arrivals::Closed { think_ns: 0.0 };
    let group = |count, weight| Clients { count, weight, arrivals: arrivals.clone(), mix: vec![(0, 1.0)] };
    scenario.clients = vec![group(4, 1.0), group(4, 2.0), group(4, 4.0)];
    let outcome = run(&scenario).expect("sound");
    let work = |group: usize| outcome.groups[group].work_ns;
    close(work(1) / work(0), 2.0, 0.03, "twice the weight");
    close(work(2) / work(0), 4.0, 0.03, "four times the weight");
}

/// Who asks for little and seldom comes before those who always ask: once in each round of theirs, which are 10 ms here.
#[test]
fn a_flood_does_not_starve_a_quiet_client() {
    let quiet = Work { name: "quiet".to_owned(), ops: 1, cost: Prediction::even(Cost::new(1000.0, 0.0, 0.0)), ..rsa() };
    let quiet = Work { suite: "sha256".parse().expect("a suite"), ..quiet };
    let mut scenario = scenario(vec![lone(false), quiet]);
    let arrivals = Arrivals::Closed { think_ns: 1e9 };
    scenario.clients = vec![
        Clients { count: 100, weight: 1.0, arrivals: Arrivals::Closed { think_ns: 0.0 }, mix: vec![(0, 1.0)] },
        Clients { count: 1, weight: 1.0, arrivals, mix: vec![(1, 1.0)] },
    ];
    scenario.seconds = 50.0;
    let outcome = run(&scenario).expect("sound");
    assert!(outcome.works[0].latency.p50_ns > 9e6, "the flood waits for itself");
    assert!(outcome.works[1].latency.p50_ns < 1.1 * SERVICE_NS, "{:?}", outcome.works[1].latency);
}

#[test]
fn the_same_seed_has_the_same_outcome_and_another_has_not() {
    let mut scenario = open(lone(true), 2, 0.7);
    scenario.seconds = 1.0;
    let first = run(&scenario).expect("sound");
    assert_eq!(first, run(&scenario).expect("sound"));
    scenario.seed = 2;
    assert_ne!(first, run(&scenario).expect("sound"));
}

fn hsm(name: &str) -> Device {
    let rsa = rsa();
    let cost = DeviceCost { suite: rsa.suite, direction: rsa.direction, cost: Cost::new(0.0, 500_000.0, 0.0), step: 1 };
    Device { name: name.to_owned(), kind: EngineKind::Token, latency_ns: 1e6, at_once: 1, costs: vec![cost] }
}

#[test]
fn devices_share_what_only_they_can_do() {
    let mut scenario = scenario(vec![Work { keys_in: Some(EngineKind::Token), ..rsa() }]);
    (scenario.clients[0].count, scenario.cores, scenario.seconds) = (200, 8, 10.0);
    scenario.devices = vec![hsm("a")];
    let one = run(&scenario).expect("sound");
    close(one.all.rate, 2000.0, 0.02, "one device's rate");
    close(one.engines[1].busy, 1.0, 0.02, "it is busy");
    scenario.devices.push(hsm("b"));
    let two = run(&scenario).expect("sound");
    close(two.engines[1].rate / two.engines[2].rate, 1.0, 0.05, "both do as much");
    close(two.all.rate, 4000.0, 0.05, "twice the rate");
}

#[test]
fn nodes_have_their_own_clients() {
    let mut scenario = scenario(vec![lone(false)]);
    (scenario.clients[0].count, scenario.cores, scenario.nodes) = (3, 4, 2);
    let outcome = run(&scenario).expect("sound");
    // Two clients have two cores, one has two for itself.
    close(outcome.all.rate, 3e9 / SERVICE_NS, 0.01, "each has a core");
    scenario.cores = 2;
    let outcome = run(&scenario).expect("sound");
    close(outcome.all.rate, 2e9 / SERVICE_NS, 0.01, "a core each node");
}

#[test]
fn clients_on_the_cores_take_time_from_workers() {
    let mut scenario = scenario(vec![lone(false)]);
    (scenario.shares_cores, scenario.overheads.client_ns) = (true, 50_000.0);
    scenario.clients[0].count = 10;
    let outcome = run(&scenario).expect("sound");
    close(outcome.all.rate, 1e9 / (SERVICE_NS + 50_000.0), 0.02, "one after the other on one core");
    close(outcome.clients_busy, 1.0 / 3.0, 0.02, "clients' share");
    scenario.shares_cores = false;
    close(run(&scenario).expect("sound").all.rate, 1e9 / SERVICE_NS, 0.02, "clients elsewhere");
}

#[test]
fn bursts_and_traces_come_when_they_say() {
    let mut scenario = open(lone(false), 1, 0.3);
    scenario.seconds = 50.0;
    scenario.clients[0].arrivals = Arrivals::Bursts { rate: 3000.0, on_ns: 2e6, off_ns: 8e6 };
    let bursts = run(&scenario).expect("sound");
    close(bursts.all.offered, 3000.0, 0.02, "the rate over all");
    // 15,000 a second for 2 ms are 30 requests, of which 20 wait at the end: up to 1 ms and more.
    assert!(bursts.all.latency.p50_ns > 2.0 * SERVICE_NS, "{:?}", bursts.all.latency);
    let ask = |at_ns, client| crate::Ask { at_ns, client, work: 0 };
    scenario.clients[0].arrivals =
        Arrivals::Trace(vec![ask(11_000_000_000, 3), ask(11_000_010_000, 4), ask(40_000_000_000, 3)]);
    let trace = run(&scenario).expect("sound");
    assert_eq!((trace.all.answered, trace.made), (3, 3));
    close(trace.all.latency.mean_ns, SERVICE_NS + 90_000.0 / 3.0, 1e-3, "one waits for another");
}

/// As many clients as there may be.
#[test]
fn a_hundred_thousand_clients_are_simulated() {
    let mut scenario = scenario(vec![rsa()]);
    (scenario.clients[0].count, scenario.cores, scenario.nodes) = (100_000, 64, 2);
    scenario.clients[0].arrivals = Arrivals::Closed { think_ns: 100e6 };
    scenario.seconds = 0.5;
    let outcome = run(&scenario).expect("sound");
    assert!(outcome.answered > 400_000, "{}", outcome.answered);
    assert_eq!(outcome.made, outcome.answered + outcome.left);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is simulated, each request is answered once or still on its way, and nobody works more than all of the time.
    #[test]
    fn requests_are_conserved(
        (cores, nodes) in prop::sample::select(vec![(1, 1), (2, 1), (4, 2), (9, 3)]),
        (clients, think_ns) in (1u32..60, prop::sample::select(vec![0.0, 1e5, 3e6])),
        (rate, shares_cores) in (100.0..60_000.0f64, any::<bool>()),
        (seed, spin_ns) in (any::<u64>(), 0u64..200_000),
        devices in 0usize..3,
    ) {
        let mut works = vec![rsa(), lone(false), lone(true)];
        works[1].suite = "sha256".parse().expect("a suite");
        works[2].suite = "x25519".parse().expect("a suite");
        if devices > 0 {
            works.push(Work { name: "kept".to_owned(), keys_in: Some(EngineKind::Token), ..rsa() });
        }
        let mut scenario = scenario(works);
        scenario.overheads = crate::Overheads::default();
        scenario.devices = (0..devices).map(|_| hsm("hsm")).collect();
        let (arrivals, mix) = (Arrivals::Poisson { rate }, scenario.clients[0].mix.clone());
        scenario.clients[0].arrivals = Arrivals::Closed { think_ns };
        scenario.clients[0].count = clients;
        scenario.clients.push(Clients { count: 3, weight: 0.5, arrivals, mix });
        let scenario = Scenario { cores, nodes, shares_cores, seed, spin_ns, seconds: 0.3, ..scenario };
        let outcome = run(&scenario).expect("sound");
        prop_assert_eq!(outcome.made, outcome.answered + outcome.left);
        prop_assert!(outcome.answered > 0);
        let busy = outcome.engines.iter().map(|engine| engine.busy);
        prop_assert!(busy.clone().all(|busy| busy <= 1.0 + 1e-6), "{:?}", busy.collect::<Vec<_>>());
        let by_works: u64 = outcome.works.iter().map(|work| work.answered).sum();
        prop_assert_eq!(by_works, outcome.all.answered);
    }
}
