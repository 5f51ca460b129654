//! `ciphermill selftest`: every known-answer test on every engine.

use std::process::ExitCode;

use ciphermill::SelfTestState;
use serde::Serialize;

use crate::args::SelftestArgs;
use crate::commands::engines::word;
use crate::config::Config;
use crate::mills;
use crate::output::{self, say};

#[derive(Serialize)]
struct TestJson {
    engine: &'static str,
    suite: String,
    result: &'static str,
}

/// Runs the tests; fails when one failed.
pub(crate) fn run(args: &SelftestArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let engines = match args.engines.as_slice() {
        [] => ciphermill_engines::all(),
        names => names.iter().map(|name| mills::engine_named(name)).collect::<anyhow::Result<_>>()?,
    };
    let mill = mills::builder(engines, config)?.open()?;
    let total: usize = mill.engines().iter().map(|engine| engine.suites.len()).sum();
    let bar = output::bar(Some(total as u64), "tests", args.json).with_message("self-test");
    let mut results = Vec::new();
    let failed = mill.self_test(|engine, suite, state| {
        bar.inc(1);
        results.push((engine, suite, state));
    });
    bar.finish_and_clear();
    if args.json {
        let rows = results.iter().map(|(engine, suite, state)| TestJson {
            engine,
            suite: suite.to_string(),
            result: word(*state),
        });
        output::json(&rows.collect::<Vec<_>>())?;
    } else {
        print(&results, args.all)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(results: &[(&'static str, ciphermill_contract::Suite, SelfTestState)], all: bool) -> anyhow::Result<()> {
    let mut table = output::table(&["engine", "suite", "result"], 3);
    for (engine, suite, state) in results {
        if all || *state == SelfTestState::Failed {
            table.add_row([(*engine).to_owned(), suite.to_string(), word(*state).to_owned()]);
        }
    }
    if !table.is_empty() {
        say(table)?;
    }
    let count = |wanted| results.iter().filter(|(_, _, state)| *state == wanted).count();
    say(format!(
        "{} passed, {} failed, {} without a known answer",
        count(SelfTestState::Passed),
        count(SelfTestState::Failed),
        count(SelfTestState::NoAnswer)
    ))
}
