//! The command line of Ciphermill: translation only, from words to the mill and back.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod config;
mod costs;
mod interrupt;
mod metrics_socket;
mod mills;
mod output;
mod policy;
mod records;
mod secret;

use std::process::ExitCode;

use args::{Cli, Command, LabCommand};
use clap::Parser;
use config::Config;

/// Exit codes: 0 success, 1 failure, 2 wrong usage, 128 and a signal's number when one ended the work
/// (129 SIGHUP, 130 SIGINT, 143 SIGTERM).
fn main() -> ExitCode {
    if let Some(code) = ciphermill_lab::ladder::serve_if_child() {
        return code;
    }
    let as_json = args::wants_json(std::env::args_os().skip(1));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if as_json && error.use_stderr() => {
            let text = error.render().to_string();
            return fail(text.trim_start_matches("error: ").trim(), USAGE, true);
        }
        Err(error) => error.exit(),
    };
    output::init_log(cli.verbose);
    if let Err(error) = ciphermill_memory::protect_process() {
        tracing::warn!(%error, "core dumps could not be disabled");
    }
    match run(cli) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&output::chain(&error), interrupt::exit_code().unwrap_or(FAILURE), as_json),
    }
}

const FAILURE: u8 = 1;
const USAGE: u8 = 2;

/// Says on standard error what went wrong.
fn fail(text: &str, code: u8, as_json: bool) -> ExitCode {
    if as_json {
        output::tell(serde_json::json!({ "error": text, "exit_code": code }));
    } else {
        output::tell(format_args!("ciphermill: {text}"));
    }
    ExitCode::from(code)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = || Config::load(cli.config.as_deref());
    match cli.command {
        Command::Protect(args) => commands::protect::protect(&args, &config()?),
        Command::Unprotect(args) => commands::protect::unprotect(&args, &config()?),
        Command::Inspect(args) => commands::inspect::run(&args, &config()?),
        Command::Engines(args) => commands::engines::run(&args, &config()?),
        Command::Keys(command) => commands::keys::run(command, &config()?),
        Command::Selftest(args) => commands::selftest::run(&args, &config()?),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Explain(args) => commands::explain::run(&args, &config()?),
        Command::Lab(command) => lab(command),
        Command::Value(args) => commands::value::run(&args, &config()?),
        Command::Config { policy: Some(policy) } => commands::config::check_policy(&policy),
        Command::Config { policy: None } => commands::config::run(&config()?),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { out } => commands::manual::man(out.as_deref()),
    }
}

fn lab(command: LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Method(command) => commands::lab::method(&command),
        LabCommand::Short(args) => commands::lab::short(&args),
        LabCommand::Principles(args) => commands::lab::principles(&args),
        LabCommand::All(args) => commands::lab::all(&args),
        LabCommand::Show(args) => commands::lab::show(&args),
        LabCommand::Compare(args) => commands::lab::compare(&args),
        LabCommand::Readme(args) => commands::readme::run(&args),
        LabCommand::Cases(args) => commands::lab::cases(&args),
        LabCommand::Router(args) => commands::lab::router(&args),
    }
}
