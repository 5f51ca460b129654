//! `ciphermill selftest`: every known-answer test on every engine.

use std::process::ExitCode;

use ciphermill::{SelfTestState, SuiteReport};
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
        [] => mills::with_copies(config),
        names => names.iter().map(|name| mills::engine_named(name, config)).collect::<anyhow::Result<_>>()?,
    };
    let mill = mills::builder(engines, config)?.open()?;
    let is_left_out = |suite: &&SuiteReport| suite.disabled.is_some();
    let reports = mill.engines();
    let suites = || reports.iter().flat_map(|engine| &engine.suites);
    let (total, left_out) = (suites().count(), suites().filter(is_left_out).count());
    let bar = output::bar(Some((total - left_out) as u64), "tests", args.json).with_message("self-test");
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
        if left_out != 0 {
            say(format!("{left_out} are disabled and were left out; `ciphermill engines` shows the rules"))?;
        }
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
