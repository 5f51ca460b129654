//! `ciphermill engines`: what this machine has.

use std::process::ExitCode;
use std::sync::Arc;

use ciphermill::contract::engine::Kernel;
use ciphermill::{DisabledRule, EngineReport, SelfTestState};
use ciphermill_contract::Engine;
use serde::Serialize;

use crate::args::EnginesArgs;
use crate::config::Config;
use crate::costs;
use crate::mills;
use crate::output::{self, say};

#[derive(Serialize)]
struct EngineJson {
    name: &'static str,
    kind: String,
    version: String,
    parallelism: usize,
    kernels: Vec<KernelJson>,
    disabled: Option<String>,
    suites: Vec<SuiteJson>,
}

#[derive(Serialize)]
struct KernelJson {
    family: &'static str,
    name: String,
}

#[derive(Serialize)]
struct SuiteJson {
    suite: String,
    directions: Vec<String>,
    kernel: String,
    constant_time: bool,
    legacy: bool,
    self_test: &'static str,
    disabled: Option<String>,
}

#[derive(Serialize)]
struct Listing {
    engines: Vec<EngineJson>,
    unavailable: Vec<UnavailableJson>,
    disabled: Vec<RuleJson>,
    lanes_kernels: Vec<ChoiceJson>,
}

#[derive(Serialize)]
struct ChoiceJson {
    family: &'static str,
    name: &'static str,
    capable: bool,
}

#[derive(Serialize)]
struct RuleJson {
    rule: String,
    reason: String,
}

#[derive(Serialize)]
struct UnavailableJson {
    name: &'static str,
    why: String,
}

/// Lists engines; fails when a known-answer test failed.
pub(crate) fn run(args: &EnginesArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut found = mills::probe(config);
    if args.test {
        // Known answers come with keys of their own.
        let kept = |engine: &Arc<dyn Engine>| mills::takes_copies(engine.info().name, config);
        let (engines, others): (Vec<_>, Vec<_>) = found.engines.into_iter().partition(kept);
        found.engines = engines;
        let why = || format!("not tested: {}", mills::NO_COPIES);
        found.unavailable.extend(others.iter().map(|engine| (engine.info().name, why())));
    }
    let mill = mills::builder(found.engines, config)?.open()?;
    let failed = if args.test { mill.self_test(|_, _, _| {}) } else { 0 };
    let engines = mill.engines();
    let unavailable: Vec<UnavailableJson> =
        found.unavailable.into_iter().map(|(name, why)| UnavailableJson { name, why }).collect();
    if args.json {
        let choice = |kernel: ciphermill_engines::KernelChoice| ChoiceJson {
            family: kernel.family,
            name: kernel.name,
            capable: kernel.capable,
        };
        let lanes_kernels = ciphermill_engines::kernels().into_iter().map(choice).collect();
        let rule = |rule: &DisabledRule| RuleJson { rule: rule.to_string(), reason: config.reason(rule) };
        let disabled = config.disabled.rules().iter().map(rule).collect();
        let engines = engines.iter().map(to_json).collect();
        output::json(&Listing { engines, unavailable, disabled, lanes_kernels })?;
    } else {
        print(&engines, &unavailable, config, args.suites)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A self-test's state in one word.
pub(crate) fn word(state: SelfTestState) -> &'static str {
    match state {
        SelfTestState::Untested => "untested",
        SelfTestState::Passed => "passed",
        SelfTestState::Failed => "failed",
        SelfTestState::NoAnswer => "no-answer",
    }
}

fn to_json(engine: &EngineReport) -> EngineJson {
    EngineJson {
        name: engine.info.name,
        kind: engine.info.kind.to_string(),
        version: engine.info.version.clone(),
        parallelism: engine.info.parallelism,
        kernels: engine
            .info
            .kernels
            .iter()
            .map(|kernel| KernelJson { family: kernel.family, name: kernel.name.clone() })
            .collect(),
        disabled: engine.disabled.clone(),
        suites: engine
            .suites
            .iter()
            .map(|suite| SuiteJson {
                suite: suite.suite.to_string(),
                directions: suite.directions.iter().map(ToString::to_string).collect(),
                kernel: suite.kernel.clone(),
                constant_time: suite.timing == ciphermill_contract::Timing::Constant,
                legacy: suite.suite.is_legacy(),
                self_test: word(suite.self_test),
                disabled: suite.disabled.clone(),
            })
            .collect(),
    }
}

fn print(
    engines: &[EngineReport],
    unavailable: &[UnavailableJson],
    config: &Config,
    suites: bool,
) -> anyhow::Result<()> {
    let mut table = output::table(&["engine", "kind", "version", "kernels", "suites", "self-test"], 4);
    for engine in engines {
        let named = |kernel: &Kernel| match kernel.family {
            "" => kernel.name.clone(),
            family => format!("{family}={}", kernel.name),
        };
        let kernels: Vec<String> = engine.info.kernels.iter().map(named).collect();
        table.add_row([
            engine.info.name.to_owned(),
            engine.info.kind.to_string(),
            engine.info.version.clone(),
            kernels.join(", "),
            engine.suites.len().to_string(),
            tally(engine),
        ]);
    }
    say(table)?;
    for missing in unavailable {
        say(format!("{} is not available: {}", missing.name, missing.why))?;
    }
    for name in mills::unopened(config) {
        say(format!("{name} was not opened"))?;
    }
    for rule in config.disabled.rules() {
        say(config.reason(rule))?;
    }
    say(choices())?;
    if let Some(note) = costs::note() {
        say(note)?;
    }
    if suites {
        for engine in engines {
            print_suites(engine)?;
        }
    } else {
        say("`--suites` lists the suites, `--test` runs every known-answer test now instead of on first use.")?;
    }
    Ok(())
}

/// Which kernels `lanes` has, and which of them this processor cannot run.
fn choices() -> String {
    let listed = |capable: bool| {
        let named = |kernel: ciphermill_engines::KernelChoice| format!("{}={}", kernel.family, kernel.name);
        let chosen = ciphermill_engines::kernels().into_iter().filter(|kernel| kernel.capable == capable);
        chosen.map(named).collect::<Vec<String>>().join(", ")
    };
    let mut text = format!("lanes can be made to run, by --kernel: {}", listed(true));
    let cannot = listed(false);
    if !cannot.is_empty() {
        text += &format!("; this processor cannot run {cannot}");
    }
    text
}

fn tally(engine: &EngineReport) -> String {
    if engine.disabled.is_some() {
        return "disabled".to_owned();
    }
    let (enabled, disabled): (Vec<_>, Vec<_>) = engine.suites.iter().partition(|suite| suite.disabled.is_none());
    let count = |wanted: SelfTestState| enabled.iter().filter(|suite| suite.self_test == wanted).count();
    let parts = [SelfTestState::Passed, SelfTestState::Failed, SelfTestState::Untested, SelfTestState::NoAnswer];
    let mut parts: Vec<String> = parts
        .into_iter()
        .filter(|state| count(*state) > 0)
        .map(|state| format!("{} {}", count(state), word(state)))
        .collect();
    if !disabled.is_empty() {
        parts.push(format!("{} disabled", disabled.len()));
    }
    parts.join(", ")
}

fn print_suites(engine: &EngineReport) -> anyhow::Result<()> {
    let mut table = output::table(&["suite", "family", "directions", "kernel", "time", "self-test"], 6);
    for suite in &engine.suites {
        let directions: Vec<String> = suite.directions.iter().map(ToString::to_string).collect();
        let time = match suite.timing {
            ciphermill_contract::Timing::Constant => "constant",
            ciphermill_contract::Timing::Variable => "variable",
        };
        table.add_row([
            suite.suite.to_string(),
            suite.suite.family().to_owned(),
            directions.join(", "),
            suite.kernel.clone(),
            time.to_owned(),
            suite
                .disabled
                .as_ref()
                .map_or_else(|| word(suite.self_test).to_owned(), |rule| format!("disabled: {rule}")),
        ]);
    }
    say(format!("\n{}", engine.info.name))?;
    say(table)
}
