//! How a program begins and ends: arguments, log, exit codes.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage, 128 and a signal's number when one ended the work (129 SIGHUP, 130 SIGINT,
//! 143 SIGTERM).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::{interrupt, output};

/// The name under which the program is the service.
const DAEMON: &str = "ciphermilld";

const FAILURE: u8 = 1;
const USAGE: u8 = 2;

/// Parses the arguments, has `verbose` say how much is logged, and runs the program; `is_loud` says which errors are told
/// although the reader of standard output has gone.
pub fn run<C: Parser>(
    verbose: impl FnOnce(&C) -> u8,
    work: impl FnOnce(C) -> anyhow::Result<ExitCode>,
    is_loud: impl FnOnce(&anyhow::Error) -> bool,
) -> ExitCode {
    let as_json = wants_json(std::env::args_os().skip(1));
    let cli = match C::try_parse_from(arguments()) {
        Ok(cli) => cli,
        Err(error) if as_json && error.use_stderr() => {
            let text = error.render().to_string();
            return fail(text.trim_start_matches("error: ").trim(), USAGE, true);
        }
        Err(error) => error.exit(),
    };
    output::init_log(verbose(&cli));
    if let Err(error) = ciphermill_memory::protect_process() {
        tracing::warn!(%error, "core dumps could not be disabled");
    }
    match work(cli) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) && !is_loud(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&output::chain(&error), interrupt::exit_code().unwrap_or(FAILURE), as_json),
    }
}

/// A program of this project, beside this one, else wherever PATH has it.
pub fn beside(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// The arguments. `ciphermilld`, a link to the program, is the service.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let is_daemon = arguments.first().is_some_and(|program| Path::new(program).file_name() == Some(OsStr::new(DAEMON)));
    if is_daemon {
        arguments.splice(1..1, ["service", "run"].map(OsString::from));
    }
    arguments
}

/// Says on standard error what went wrong.
fn fail(text: &str, code: u8, as_json: bool) -> ExitCode {
    if as_json {
        output::tell(serde_json::json!({ "error": text, "exit_code": code }));
    } else {
        output::tell(format_args!("ciphermill: {text}"));
    }
    ExitCode::from(code)
}

/// Whether the arguments ask for JSON. Errors are written as JSON then, also those of arguments that do not parse.
fn wants_json(args: impl Iterator<Item = OsString>) -> bool {
    args.take_while(|arg| arg != "--").any(|arg| arg == "--json" || arg.as_encoded_bytes().starts_with(b"--json="))
}
