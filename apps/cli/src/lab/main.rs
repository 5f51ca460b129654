//! `ciphermill-lab`: the measuring methods and their records; `ciphermill lab` starts it.
mod args;
mod cases;
#[cfg(test)]
#[path = "../help_rules.rs"]
mod help_rules;
mod measure;
mod readme;
mod records;
mod simulate;
mod values;

use std::process::ExitCode;

use args::{Cli, LabCommand};
use ciphermill_cli::{interrupt, manual, output, program};
use clap::CommandFactory;

fn main() -> ExitCode {
    program::run(|cli: &Cli| cli.verbose, run, |_| false)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        LabCommand::Method(command) => measure::method(&command),
        LabCommand::Short(args) => measure::short(&args),
        LabCommand::Principles(args) => measure::principles(&args),
        LabCommand::Gateway(args) => measure::gateway(&args),
        LabCommand::All(args) => measure::all(&args),
        LabCommand::Show(args) => measure::show(&args),
        LabCommand::Compare(args) => measure::compare(&args),
        LabCommand::Readme(args) => readme::run(&args),
        LabCommand::Cases(args) => measure::cases(&args),
        LabCommand::Router(args) => measure::router(&args),
        LabCommand::Simulate(args) => simulate::run(&args),
        LabCommand::Values(args) => values::run(&args),
        LabCommand::Completions { shell } => manual::completions(Cli::command(), shell),
        LabCommand::Man { out } => manual::man(Cli::command(), out.as_deref()),
    }
}
