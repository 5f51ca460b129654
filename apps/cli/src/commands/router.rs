//! `ciphermill lab router`: what the mill costs around an engine, and whether its router does what it promises.

use std::process::ExitCode;
use std::time::Duration;

use ciphermill_lab::router::{self, Figure, Goal, Record};
use ciphermill_lab::timing::Budget;
use ciphermill_report::SPREAD_QUOTABLE_MAX;

use super::cases::write_json;
use crate::args::RouterArgs;
use crate::output::{self, say};

/// `ciphermill lab router`.
pub(crate) fn run(args: &RouterArgs) -> anyhow::Result<ExitCode> {
    let bar = output::bar(None, "", args.json.is_some());
    let budget = Budget { time: Duration::from_millis(args.time), ..Budget::default() };
    let record = router::run(&args.names, budget, |what| bar.set_message(what.to_owned()))?;
    bar.finish_and_clear();
    if !write_json(args.json.as_deref(), &record)? {
        print(&record)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(record: &Record) -> anyhow::Result<()> {
    let machine = &record.machine;
    say(format!("{}, {} cores, {}", machine.cpu, machine.cores, machine.os))?;
    say("Both sides of a comparison in turns; outcomes compared before they are timed.\n")?;
    let mut table = output::table(&["promise", "of", "figure", "goal", "verdict", "behind it"], 6);
    for figure in &record.figures {
        table.add_row([
            figure.name.clone(),
            figure.of.clone(),
            value(figure),
            goal(figure),
            verdict(figure),
            figure.detail.clone(),
        ]);
    }
    say(table)?;
    if record.figures.iter().any(|figure| figure.spread > SPREAD_QUOTABLE_MAX) {
        say("Rows marked noisy should not be quoted: give a longer --time, a quieter machine.")?;
    }
    if !machine.optimised {
        say("This is a debug build; its figures mean nothing.")?;
    }
    Ok(())
}

fn value(figure: &Figure) -> String {
    match figure.unit {
        "×" => format!("{:.2} ×", figure.value),
        "batches" => format!("{:.0} batches", figure.value),
        unit => format!("{:.1} {unit}", figure.value),
    }
}

fn goal(figure: &Figure) -> String {
    match figure.goal {
        Goal::AtLeast(goal) => format!("≥ {goal}"),
        Goal::AtMost(goal) => format!("≤ {goal}"),
        Goal::None => String::new(),
    }
}

fn verdict(figure: &Figure) -> String {
    let word = match figure.is_reached() {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "",
    };
    format!("{word}{}", if figure.spread > SPREAD_QUOTABLE_MAX { ", noisy" } else { "" })
}
