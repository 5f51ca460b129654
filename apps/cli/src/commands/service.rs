//! `ciphermill service`: the service of this machine, and what it says of itself.

mod keys;
mod run;

use std::process::ExitCode;

use anyhow::Context;
use ciphermill_channel::Ask;
use comfy_table::CellAlignment;
use serde_json::Value;

use crate::args::{AskArgs, ServiceCommand, SocketArgs};
use crate::config::Config;
use crate::output::{self, say};
use crate::service::Asked;

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

fn ask(args: &SocketArgs, what: &Ask<'_>) -> anyhow::Result<String> {
    Asked::connect(args.socket.as_deref())?.ask(what)
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
    let pools = number("pools");
    let in_pools = if pools > 1 { format!(" in {pools} pools") } else { String::new() };
    say(format_args!("workers   {}{in_pools}", number("workers")))?;
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
    let service = Asked::connect(args.socket.socket.as_deref())?;
    if args.json {
        say(service.ask(&Ask::Clients)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = [
        "client", "pid", "user", "seconds", "channels", "keys", "requests", "shared", "held", "ops", "bytes",
        "busy ms", "unit", "program",
    ];
    let mut table = output::table(&head, 0);
    for index in [head.len() - 2, head.len() - 1] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    for row in service.clients()? {
        let number = |value: u64| value.to_string();
        table.add_row([
            number(row.id),
            row.pid.to_string(),
            row.user(),
            number(row.seconds),
            number(row.channels),
            number(row.keys),
            number(row.requests),
            number(row.shared),
            number(row.held),
            number(row.ops),
            number(row.bytes),
            number(row.busy_ns / 1_000_000),
            row.unit(),
            row.program(),
        ]);
    }
    say(table)?;
    Ok(ExitCode::SUCCESS)
}
