//! `ciphermill lab simulate`: its arguments made a scenario, and its comparison with this machine.

mod calibrate;
mod check;
mod client;
mod served;

use std::process::ExitCode;

use anyhow::Context;
use ciphermill::Mill;
use ciphermill_lab::method::{Options, Progress};
use ciphermill_lab::rules::Work;
use ciphermill_lab::simulate::{Machine, Simulation, Sweep, Table};
use ciphermill_simulate::{Scenario, Sources, parse_devices, read};

use crate::args::{Over, SimulateArgs};
use crate::interrupt;
use crate::measure::measure;

/// `ciphermill lab simulate`.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let options = Options { seed: args.seed, ..Options::default() };
    let stop = interrupt::watch()?;
    if args.check {
        anyhow::ensure!(
            (0.1..=60.0).contains(&args.seconds),
            "--seconds {}: must be 0.1 to 60 with --check",
            args.seconds
        );
        let run = |progress: Progress<'_>| check::section(args.seconds, args.seed, progress);
        return measure(vec![Work { name: "simulate", run: Box::new(run) }], &options, &args.output, stop);
    }
    let sources = sources(args)?;
    let sweep = match args.sweep {
        None => Sweep::Once,
        Some(Over::Load) => Sweep::Load,
        Some(Over::Cores) => Sweep::Cores,
    };
    let simulation = Simulation { scenario: scenario(args, sources.as_ref())?, sweep, knee: args.knee };
    let run = |progress: Progress<'_>| simulation.section(progress);
    measure(vec![Work { name: "simulate", run: Box::new(run) }], &options, &args.output, stop)
}

fn sources(args: &SimulateArgs) -> anyhow::Result<Box<dyn Sources>> {
    let Some(path) = &args.costs else {
        return Ok(Box::new(Machine::new(Mill::builder().engines(ciphermill_engines::all()).open()?)));
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("--costs {}", path.display()))?;
    Ok(Box::new(Table::read(&text).with_context(|| format!("--costs {}", path.display()))?))
}

fn scenario(args: &SimulateArgs, sources: &dyn Sources) -> anyhow::Result<Scenario> {
    if let Some(path) = &args.scenario {
        let text = std::fs::read_to_string(path).with_context(|| format!("--scenario {}", path.display()))?;
        return read(&text, sources).with_context(|| format!("--scenario {}", path.display()));
    }
    let mut scenario = Scenario {
        cores: args.cores,
        nodes: args.nodes,
        shares_cores: args.shares_cores,
        seconds: args.seconds,
        seed: args.seed,
        ..Scenario::default()
    };
    scenario.add_clients((args.clients, 1.0), &args.arrivals, &args.mix, sources)?;
    if let Some(devices) = &args.devices {
        scenario.add_devices(&parse_devices(devices)?, sources)?;
    }
    scenario.check()?;
    Ok(scenario)
}
