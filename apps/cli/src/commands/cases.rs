//! `ciphermill lab cases`: named measurements against their goals.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ciphermill_lab::cases::{self, Case, Figure, Outcome, Verdict};
use ciphermill_lab::short::{Row, Skipped};
use ciphermill_lab::timing::Budget;
use ciphermill_report::Machine;

use crate::args::CasesArgs;
use crate::output::{self, say};
use crate::records;

/// `ciphermill lab cases`.
pub(crate) fn run(args: &CasesArgs) -> anyhow::Result<ExitCode> {
    let chosen = cases::named(&args.names)?;
    if args.list {
        if !write_json(args.json.as_deref(), &chosen)? {
            list(&chosen)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let options = cases::Options {
        kernels: args.kernel.clone(),
        seed: args.seed,
        core: args.core,
        budget: Budget { time: Duration::from_millis(args.time), ..Budget::default() },
    };
    let bar = output::bar(None, "", args.json.is_some());
    let record = cases::run(&chosen, &options, |what| bar.set_message(what.to_owned()))?;
    bar.finish_and_clear();
    if !write_json(args.json.as_deref(), &record)? {
        print_cases(&record)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a record where `--json` says. Returns whether that was standard output, which then carries nothing else.
pub(crate) fn write_json<T: serde::Serialize>(path: Option<&Path>, record: &T) -> anyhow::Result<bool> {
    let Some(path) = path else { return Ok(false) };
    records::write(path, &(serde_json::to_string_pretty(record)? + "\n"))?;
    Ok(records::is_stdout(path))
}

fn list(chosen: &[Case]) -> anyhow::Result<()> {
    let mut table = output::table(&["case", "suite", "compared", "must", "aim", "what"], 6);
    for case in chosen {
        let goal = |value: f64| match case.figure {
            Figure::Rate => format!("≥ {value} ×"),
            Figure::Latency => format!("≤ {value} ×"),
        };
        table.add_row([
            case.name.clone(),
            case.suite()?.to_string(),
            case.comparison(),
            goal(case.must),
            goal(case.aim),
            case.about.clone(),
        ]);
    }
    say(table)
}

fn print_cases(record: &cases::Record) -> anyhow::Result<()> {
    say(format!("{}, {} cores, {}", record.machine.cpu, record.machine.cores, record.machine.os))?;
    say("One core; both sides in turns; every output compared with the reference before it is timed.\n")?;
    let head = [
        "case",
        "direction",
        "kernel",
        "ns/op",
        "MB/s",
        "idle lanes",
        "compared with",
        "ns/op",
        "MB/s",
        "figure",
        "must",
        "aim",
        "verdict",
    ];
    let mut table = output::table(&head, 3);
    for outcome in &record.outcomes {
        let other = match outcome.other.engine == outcome.own.engine {
            true => format!("itself, {} operations", outcome.other.ops),
            false => outcome.other.engine.clone(),
        };
        table.add_row([
            outcome.case.clone(),
            outcome.own.direction.clone(),
            outcome.own.kernel.clone(),
            format!("{:.1}", outcome.own.ns_per_op),
            format!("{:.0}", outcome.own.mb_per_s),
            idle_lanes(&outcome.own),
            other,
            format!("{:.1}", outcome.other.ns_per_op),
            format!("{:.0}", outcome.other.mb_per_s),
            format!("{:.2} ×", outcome.ratio),
            format!("{}", outcome.must),
            format!("{}", outcome.aim),
            verdict(outcome),
        ]);
    }
    say(table)?;
    footnotes(&record.machine, &record.skipped, record.outcomes.iter().any(Outcome::is_noisy))
}

/// The share of idle lanes, where an engine counts them.
fn idle_lanes(row: &Row) -> String {
    row.idle_lanes.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0))
}

fn verdict(outcome: &Outcome) -> String {
    let word = match outcome.verdict {
        Verdict::Aim => "aim reached",
        Verdict::Must => "reached",
        Verdict::Missed => "missed",
    };
    format!("{word}{}", if outcome.is_noisy() { ", noisy" } else { "" })
}

/// What a reader of a table has to know: what is missing, what is noisy, what kind of build it was.
fn footnotes(machine: &Machine, skipped: &[Skipped], noisy: bool) -> anyhow::Result<()> {
    for skipped in skipped {
        say(format!("not measured: {} {} on {}: {}", skipped.suite, skipped.direction, skipped.engine, skipped.why))?;
    }
    if noisy {
        say("Rows marked noisy should not be quoted: give a longer --time, a --core, a quieter machine.")?;
    }
    if !machine.optimised {
        say("This is a debug build; its figures mean nothing.")?;
    }
    Ok(())
}
