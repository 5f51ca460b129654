//! `ciphermill lab`: measuring.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ciphermill_contract::{Direction, Suite};
use ciphermill_lab::short::{Record, SPREAD_QUOTABLE_MAX, Short};
use ciphermill_lab::timing::Budget;
use ciphermill_lab::workload::Parameters;

use crate::args::ShortArgs;
use crate::output::{self, say};

/// The suites that are measured when none is named: those of the central workload.
const SUITES: [&str; 3] = ["des-cbc", "3des-cbc", "aes-128-cbc"];

/// `ciphermill lab short`.
pub(crate) fn short(args: &ShortArgs) -> anyhow::Result<ExitCode> {
    let method = method(args)?;
    let bar = output::bar(None, "", args.json.is_some());
    let record = method.run(|what| bar.set_message(what.to_owned()))?;
    bar.finish_and_clear();
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    match args.json.as_deref() {
        Some(_) if to_stdout => output::json(&record)?,
        Some(path) => {
            let text = serde_json::to_string_pretty(&record)? + "\n";
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => {}
    }
    if !to_stdout {
        print(&record, args)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn method(args: &ShortArgs) -> anyhow::Result<Short> {
    let suites = if args.suites.is_empty() {
        SUITES.iter().map(|name| name.parse::<Suite>()).collect::<Result<_, _>>()?
    } else {
        args.suites.clone()
    };
    let directions = match args.directions.is_empty() {
        true => vec![Direction::Encrypt, Direction::Decrypt],
        false => args.directions.clone(),
    };
    let engines = match args.engines.is_empty() {
        true => ciphermill_lab::engines::names().into_iter().map(str::to_owned).collect(),
        false => args.engines.clone(),
    };
    let parameters = Parameters {
        ops: args.ops,
        keys: args.keys,
        len_min: args.len.0,
        len_max: args.len.1,
        aad_len: args.aad,
        seed: args.seed,
    };
    let budget = Budget { time: Duration::from_millis(args.time), ..Budget::default() };
    Ok(Short { suites, directions, engines, kernel: args.kernel.clone(), parameters, core: args.core, budget })
}

fn print(record: &Record, args: &ShortArgs) -> anyhow::Result<()> {
    let machine = &record.machine;
    say(format!("{}, {} cores, {}", machine.cpu, machine.cores, machine.os))?;
    say(format!(
        "{} operations of {}..{} bytes, {} keys, a fresh IV each; one core; outputs verified\n",
        args.ops, args.len.0, args.len.1, args.keys
    ))?;
    let head = ["suite", "direction", "engine", "kernel", "ns/op", "MB/s", "against slowest", "spread"];
    let mut table = output::table(&head, 4);
    for row in &record.rows {
        let same = |other: &&ciphermill_lab::short::Row| other.suite == row.suite && other.direction == row.direction;
        let slowest = record.rows.iter().filter(same).map(|other| other.ns_per_op).fold(row.ns_per_op, f64::max);
        let noisy = if row.spread > SPREAD_QUOTABLE_MAX { " noisy" } else { "" };
        table.add_row([
            row.suite.clone(),
            row.direction.clone(),
            row.engine.clone(),
            row.kernel.clone(),
            format!("{:.1}", row.ns_per_op),
            format!("{:.0}", row.mb_per_s),
            format!("{:.1} ×", slowest / row.ns_per_op),
            format!("{:.1} %{noisy}", row.spread * 100.0),
        ]);
    }
    say(table)?;
    for skipped in &record.skipped {
        say(format!("not measured: {} {} on {}: {}", skipped.suite, skipped.direction, skipped.engine, skipped.why))?;
    }
    if record.rows.iter().any(|row| row.spread > SPREAD_QUOTABLE_MAX) {
        say("Rows marked noisy should not be quoted: give a longer --time, a --core, a quieter machine.")?;
    }
    if !machine.optimised {
        say("This is a debug build; its figures mean nothing.")?;
    }
    Ok(())
}
