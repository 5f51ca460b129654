//! `ciphermill service`: the service of this machine, and what it says of itself.

mod keys;
mod run;

use std::process::ExitCode;

use anyhow::{Context, bail};
use ciphermill_channel::{Answer, Ask};
use ciphermill_service_engine::{Link, default_socket};
use comfy_table::CellAlignment;
use serde_json::Value;

use crate::args::{AskArgs, ServiceCommand, SocketArgs};
use crate::config::Config;
use crate::output::{self, say};

pub(crate) fn run(
    command: &ServiceCommand,
    config: impl FnOnce() -> anyhow::Result<Config>,
) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Run(args) => run::run(args, &config()?),
        ServiceCommand::Status(args) => status(args),
        ServiceCommand::Clients(args) => clients(args),
        ServiceCommand::Keys(args) => keys::run(args),
        ServiceCommand::Metrics(args) => {
            let text = ask(args, &Ask::Metrics)?;
            say(text.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        ServiceCommand::Drain(args) => {
            ask(args, &Ask::Drain)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Asks the service; what it answers, if that is a text.
fn ask(args: &SocketArgs, what: &Ask<'_>) -> anyhow::Result<String> {
    let socket = args.socket.clone().unwrap_or_else(default_socket);
    let at = || format!("the service at {}", socket.display());
    let (link, ..) = Link::connect(&socket).with_context(at)?;
    match link.ask(what).with_context(at)? {
        Answer::Text(text) => Ok(text),
        Answer::Done => Ok(String::new()),
        _ => bail!("{}: it gave another answer than was asked for", at()),
    }
}

fn status(args: &AskArgs) -> anyhow::Result<ExitCode> {
    let text = ask(&args.socket, &Ask::Status)?;
    if args.json {
        say(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let status: Value = serde_json::from_str(&text).context("the service's answer is no JSON")?;
    let number = |name: &str| status[name].as_u64().unwrap_or_default();
    let engines = status["engines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let engines: Vec<&str> = engines.iter().filter_map(Value::as_str).collect();
    let state = if status["draining"].as_bool() == Some(true) { "ends" } else { "runs" };
    say(format_args!("{state} as process {} for {} s", number("pid"), number("uptime_s")))?;
    say(format_args!("workers   {}", number("workers")))?;
    say(format_args!("engines   {}", engines.join(", ")))?;
    say(format_args!(
        "clients   {}, with {} channels and {} keys",
        number("clients"),
        number("channels"),
        number("keys")
    ))?;
    say(format_args!("waiting   {} requests", number("waiting")))?;
    if number("audit_lost") > 0 {
        say(format_args!("audit     {} lines could not be written", number("audit_lost")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn clients(args: &AskArgs) -> anyhow::Result<ExitCode> {
    let text = ask(&args.socket, &Ask::Clients)?;
    if args.json {
        say(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Value> = serde_json::from_str(&text).context("the service's answer is no JSON")?;
    let head = [
        "client", "pid", "user", "seconds", "channels", "keys", "requests", "shared", "ops", "bytes", "busy ms",
        "unit", "program",
    ];
    let mut table = output::table(&head, 0);
    for index in [head.len() - 2, head.len() - 1] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    for row in rows {
        let number = |name: &str| row[name].as_u64().unwrap_or_default();
        let busy = number("busy_ns") / 1_000_000;
        let names = ["id", "pid", "uid", "seconds", "channels", "keys", "requests", "shared", "ops", "bytes"];
        let numbers = names.map(number).into_iter().chain([busy]).map(|value| value.to_string());
        table.add_row(numbers.chain([unit(&row), program(&row)]));
    }
    say(table)?;
    Ok(ExitCode::SUCCESS)
}

/// The unit of a client's process.
fn unit(row: &Value) -> String {
    row["unit"].as_str().map_or_else(|| "-".to_owned(), output::printable)
}

/// A client's program, in parentheses what the process calls itself where the service cannot see the file that it runs.
fn program(row: &Value) -> String {
    match (row["program"].as_str(), row["command"].as_str()) {
        (Some(path), _) => output::printable(path),
        (None, Some(command)) => format!("({})", output::printable(command)),
        (None, None) => "-".to_owned(),
    }
}
