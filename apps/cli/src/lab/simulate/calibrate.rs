//! What the service costs around engines on this machine, found with one client alone and with work that is compared with nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use ciphermill::Costs;
use ciphermill_contract::{Direction, Suite};
use ciphermill_lab::simulate::Machine;
use ciphermill_simulate::{Overheads, Sources};
use ciphermill_tuning::Effort;

use super::client::{Client, Request};
use super::served::{Served, pinned};

/// The work: no key, no steps, and about as long as anything that the service does.
pub(super) const SUITE: &str = "sha256";

/// Operations and bytes of large requests, from which what one of them takes follows.
const OPS: usize = 64;
const LEN: usize = 64;
const LEN_LONG: usize = 16 << 10;

/// Longer than workers look for requests.
const PAUSE: Duration = Duration::from_millis(3);

/// Of what a request with one operation costs around the engine: the client's share, the worker's for it, and for the batch. Only their sum
/// can be seen from outside.
const CLIENT_SHARE: f64 = 0.4;
const REQUEST_SHARE: f64 = 0.4;

/// Measures: on `cores` cores, and on one.
pub(super) fn overheads((machine, costs): (&Machine, &Costs), cores: u32, seconds: f64) -> anyhow::Result<Overheads> {
    let mill = machine.mill();
    let suite: Suite = SUITE.parse()?;
    let on = |cores: u32, (ops, len), pause| -> anyhow::Result<f64> {
        pinned(cores, || {
            let served = Served::start(costs, cores)?;
            let took = median_ns(served.socket(), &Request::new(suite, ops, len, mill)?, pause, seconds)?;
            // What the engine takes is in the simulation's costs.
            let known = machine.cost(suite, Direction::Encrypt);
            let engine_ns = known.map_or(0.0, |known| known.time(ops as u64, (ops * len) as u64).ns);
            Ok((took - engine_ns).max(0.0))
        })
    };
    let none = Duration::ZERO;
    let one = on(cores, (1, LEN), none)?;
    let many = on(cores, (OPS, LEN), none)?;
    let long = on(cores, (1, LEN_LONG), none)?;
    let paused = on(cores, (1, LEN), PAUSE)?;
    let alone = on(1, (1, LEN), none)?;
    let byte_ns = ((long - one) / (LEN_LONG - LEN) as f64).max(0.0);
    let op_ns = ((many - one) / (OPS - 1) as f64 - byte_ns * LEN as f64).max(0.0);
    let base = (one - op_ns - byte_ns * LEN as f64).max(0.0);
    let wakeup_ns = (paused - one).max(0.0);
    Ok(Overheads {
        batch_ns: base * (1.0 - CLIENT_SHARE - REQUEST_SHARE),
        request_ns: base * REQUEST_SHARE,
        op_ns,
        byte_ns,
        wakeup_ns,
        client_ns: base * CLIENT_SHARE,
        client_wakeup_ns: wakeup_ns,
        // To the worker and back.
        switch_ns: ((alone - one) / 2.0).max(0.0),
    })
}

fn median_ns(socket: &Path, request: &Request, pause: Duration, seconds: f64) -> anyhow::Result<f64> {
    let mut client = Client::connect(socket, std::slice::from_ref(request))?;
    let counted = Duration::from_secs_f64(seconds);
    let mut times = client.ask_for(&[1.0], (Instant::now() + counted / 5, counted), pause, 1)?;
    anyhow::ensure!(!times.is_empty(), "no request was answered within {seconds} s");
    let middle = times.len() / 2;
    Ok(*times.select_nth_unstable(middle).1 as f64)
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
