//! The command line of Ciphermill: translation only, from words to the mill and back.
mod args;
mod commands;
mod config;
mod costs;
#[cfg(test)]
mod help_rules;
mod metrics_socket;
mod mills;
mod policy;
mod rules;
mod secret;
mod service;
mod tokens;

use std::process::ExitCode;

use args::{Cli, Command};
use ciphermill_cli::{interrupt, manual, output, program};
use ciphermill_table::TableError;
use clap::CommandFactory;
use config::Config;

fn main() -> ExitCode {
    // Whoever was to get a table hears of it when that failed.
    let is_loud = |error: &anyhow::Error| error.chain().any(|cause| cause.is::<TableError>());
    program::run(|cli: &Cli| cli.verbose, run, is_loud)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = || Config::load(cli.config.as_deref(), &mills::names());
    match cli.command {
        Command::Protect(args) => commands::protect::protect(&args, &config()?),
        Command::Rekey(args) => commands::rekey::rekey(&args, &config()?),
        Command::Unprotect(args) => commands::protect::unprotect(&args, &config()?),
        Command::Inspect(args) => commands::inspect::run(&args, &config()?),
        Command::Engines(args) => commands::engines::run(&args, &config()?),
        Command::Keys(command) => commands::keys::run(command, &config()?),
        Command::Openssl(command) => commands::openssl::run(&command, config),
        Command::Pkcs11(command) => commands::pkcs11::run(&command),
        Command::Service(command) => commands::service::run(&command, config),
        Command::Gateway(command) => commands::gateway::run(&command, config),
        Command::Tokens(command) => commands::tokens::run(&command, cli.config.as_deref(), config),
        Command::TokenHost => match ciphermill_token::serve() {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(words) => Err(anyhow::anyhow!(words)),
        },
        Command::Selftest(args) => commands::selftest::run(&args, &config()?),
        Command::Disable(args) => commands::disable::disable(&args, cli.config.as_deref()),
        Command::Enable(args) => commands::disable::enable(&args, cli.config.as_deref()),
        Command::Tune(args) => commands::tune::run(&args, &config()?),
        Command::Explain(args) => commands::explain::run(&args, &config()?),
        Command::Lab { args } => commands::lab::run(&args, cli.verbose),
        Command::Value(args) => commands::value::run(&args, &config()?),
        Command::Config { policy: Some(policy) } => commands::config::check_policy(&policy),
        Command::Config { policy: None } => commands::config::run(&config()?),
        Command::Demo(args) => commands::demo::run(&args, &config()?),
        Command::Top(args) => commands::top::run(&args),
        Command::Completions { shell } => manual::completions(Cli::command(), shell),
        Command::Man { out } => {
            let code = manual::man(Cli::command(), out.as_deref())?;
            // The lab's own pages say more than the one that stands for it here.
            if let Some(folder) = &out {
                commands::lab::write_pages(folder)?;
            }
            Ok(code)
        }
    }
}
