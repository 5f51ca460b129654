//! `ciphermill explain`: which engine a batch would run on, and why.

use std::process::ExitCode;

use anyhow::bail;
use ciphermill::{Considered, DisabledEngine, DisabledRule, Explanation, Mill, RunOptions, Share, Verdict};
use ciphermill_contract::EngineKind;
use serde::Serialize;

use crate::args::ExplainArgs;
use crate::config::Config;
use crate::output::{self, say};
use crate::{costs, mills};

#[derive(Serialize)]
struct ExplanationJson {
    suite: String,
    direction: String,
    ops: u64,
    len: u64,
    candidates: Vec<CandidateJson>,
    disabled: Vec<DisabledJson>,
    #[serde(flatten)]
    left: Left,
    choice: Option<ChoiceJson>,
    together: Option<TogetherJson>,
}

#[derive(Serialize)]
struct CandidateJson {
    engine: &'static str,
    kernel: String,
    figures: &'static str,
    batch_ns: f64,
    op_ns: f64,
    byte_ns: f64,
    spread: Option<f64>,
    class_factor: f64,
    correction: f64,
    wakeup_ns: f64,
    backlog_ns: f64,
    predicted_ns: Option<f64>,
    verdict: String,
}

/// An engine that a rule leaves out; one that was not opened has no kernel.
#[derive(Serialize)]
struct DisabledJson {
    engine: &'static str,
    kernel: Option<String>,
    rule: String,
    reason: String,
}

/// What the router was not asked about.
#[derive(Serialize)]
struct Left {
    /// Engines that have not opened.
    unavailable: Vec<LeftJson>,
    /// Tokens that have, and what keeps them from the batch.
    tokens: Vec<LeftJson>,
}

#[derive(Serialize)]
struct LeftJson {
    engine: &'static str,
    why: String,
}

#[derive(Serialize)]
struct ChoiceJson {
    engine: &'static str,
    predicted_ns: f64,
    reason: String,
}

/// Who would work on the batch at the same time.
#[derive(Serialize)]
struct TogetherJson {
    predicted_ns: f64,
    shares: Vec<ShareJson>,
}

#[derive(Serialize)]
struct ShareJson {
    engine: &'static str,
    ops: u64,
    cores: usize,
}

/// Explains; fails when no engine may run the batch.
pub(crate) fn run(args: &ExplainArgs, config: &Config) -> anyhow::Result<ExitCode> {
    check(args)?;
    let found = mills::probe(config);
    let mill = mills::builder(found.engines, config)?.open()?;
    let options = RunOptions { engine: args.engine.as_deref(), ..RunOptions::default() };
    if let Some(name) = &args.engine {
        mills::engine_named(name, config)?;
    }
    let explanation = mill.explain(args.suite, args.direction, args.ops, args.len, &options)?;
    let unavailable = found.unavailable.into_iter().map(|(engine, why)| LeftJson { engine, why }).collect();
    let left = Left { unavailable, tokens: tokens(args, config, &mill) };
    if args.json {
        output::json(&to_json(args, config, &explanation, left))?;
    } else {
        print(args, config, &explanation, &left)?;
    }
    Ok(if explanation.route.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The router would answer for batches that no mill takes; people want to know.
fn check(args: &ExplainArgs) -> anyhow::Result<()> {
    let (suite, direction) = (args.suite, args.direction);
    if !suite.has_direction(direction) {
        bail!("{suite} has no direction `{direction}`");
    }
    let lengths = suite.input_len(direction);
    if !usize::try_from(args.len).is_ok_and(|len| lengths.contains(len)) {
        let steps = if lengths.step == 1 { String::new() } else { format!(" in steps of {}", lengths.step) };
        bail!(
            "{suite} {direction} takes inputs of {} to {} bytes{steps}, not of {}",
            lengths.min,
            lengths.max,
            args.len
        );
    }
    Ok(())
}

/// What keeps tokens that have opened from the batch, as far as they themselves do.
fn tokens(args: &ExplainArgs, config: &Config, mill: &Mill) -> Vec<LeftJson> {
    let mut left = Vec::new();
    for report in mill.engines().iter().filter(|report| report.info.kind == EngineKind::Token) {
        let engine = report.info.name;
        let is_offered = report
            .suites
            .iter()
            .any(|own| own.suite.canonical() == args.suite.canonical() && own.directions.contains(&args.direction));
        if !is_offered {
            left.push(LeftJson { engine, why: format!("its mechanisms offer no {} {}", args.suite, args.direction) });
        } else if !mills::takes_copies(engine, config) {
            let why = "it takes no copies of keys: it runs batches with its own alone, by their names";
            left.push(LeftJson { engine, why: why.to_owned() });
        }
    }
    left
}

/// Devices and tokens that are not opened, since a rule disables them, each with the rule: nobody knows whether they would run the suite.
fn unopened(config: &Config) -> impl Iterator<Item = (&'static str, &DisabledRule)> {
    mills::unopened(config).filter_map(|name| Some((name, config.disabled.engine(name)?)))
}

fn disabled_json(config: &Config, explanation: &Explanation) -> Vec<DisabledJson> {
    let opened = explanation.disabled.iter().cloned().map(|DisabledEngine { engine, kernel, rule }| DisabledJson {
        engine,
        kernel: Some(kernel),
        reason: config.reason(&rule),
        rule,
    });
    let unopened = unopened(config).map(|(engine, rule)| DisabledJson {
        engine,
        kernel: None,
        rule: rule.to_string(),
        reason: config.reason(rule),
    });
    opened.chain(unopened).collect()
}

fn to_json(args: &ExplainArgs, config: &Config, explanation: &Explanation, left: Left) -> ExplanationJson {
    let candidate = |considered: &Considered| CandidateJson {
        engine: considered.engine,
        kernel: considered.kernel.clone(),
        figures: figures(considered),
        batch_ns: considered.cost.batch_ns,
        op_ns: considered.cost.op_ns,
        byte_ns: considered.cost.byte_ns,
        spread: considered.spread,
        class_factor: considered.class_factor,
        correction: considered.correction,
        wakeup_ns: considered.wakeup_ns,
        backlog_ns: considered.backlog_ns,
        predicted_ns: match considered.verdict {
            Verdict::Predicted(ns) => Some(ns),
            _ => None,
        },
        verdict: considered.verdict.to_string(),
    };
    ExplanationJson {
        suite: args.suite.to_string(),
        direction: args.direction.to_string(),
        ops: args.ops,
        len: args.len,
        candidates: explanation.candidates.iter().map(candidate).collect(),
        disabled: disabled_json(config, explanation),
        left,
        choice: explanation.route.map(|route| ChoiceJson {
            engine: route.name,
            predicted_ns: route.predicted_ns,
            reason: route.reason.to_string(),
        }),
        together: explanation.shares.as_ref().map(|shares| TogetherJson {
            predicted_ns: shares.predicted_ns,
            shares: shares.shares.iter().map(share_json).collect(),
        }),
    }
}

fn share_json(share: &Share) -> ShareJson {
    ShareJson { engine: share.name, ops: share.ops, cores: share.cores }
}

fn figures(considered: &Considered) -> &'static str {
    if considered.spread.is_some() { "measured" } else { "estimate" }
}

fn print(args: &ExplainArgs, config: &Config, explanation: &Explanation, left: &Left) -> anyhow::Result<()> {
    say(format!("{} {}: {} operations of {} bytes\n", args.suite, args.direction, args.ops, args.len))?;
    let head = ["engine", "kernel", "figures", "C1", "C2", "C3", "spread", "class", "of late", "predicted or why not"];
    let mut table = output::table(&head, 3);
    for considered in &explanation.candidates {
        table.add_row([
            considered.engine.to_owned(),
            considered.kernel.clone(),
            figures(considered).to_owned(),
            format!("{:.0}", considered.cost.batch_ns),
            format!("{:.1}", considered.cost.op_ns),
            format!("{:.3}", considered.cost.byte_ns),
            considered.spread.map_or_else(String::new, |spread| format!("{:.0} %", spread * 100.0)),
            format!("× {:.2}", considered.class_factor),
            format!("× {:.2}", considered.correction),
            considered.verdict.to_string(),
        ]);
    }
    say(table)?;
    match &explanation.route {
        Some(route) => say(format!("\n{route}"))?,
        None if explanation.candidates.is_empty() && explanation.disabled.is_empty() => say("\nno engine runs it")?,
        None => say("\nno engine may run it")?,
    }
    if let Some(shares) = &explanation.shares {
        let words = shares.shares.iter().map(|share| match share.cores {
            1 => format!("{} operations on {}", share.ops, share.name),
            cores => format!("{} operations on {} over {cores} cores", share.ops, share.name),
        });
        let words = words.collect::<Vec<_>>().join(", ");
        say(format!("while all are idle: {words}; {:.1} µs", shares.predicted_ns / 1000.0))?;
    }
    for DisabledEngine { engine, kernel, rule } in &explanation.disabled {
        say(format!("{engine} with kernel {kernel} is left out; {}", config.reason(rule)))?;
    }
    for (name, rule) in unopened(config) {
        say(format!("{name} was not opened; {}", config.reason(rule)))?;
    }
    for LeftJson { engine, why } in &left.unavailable {
        say(format!("{engine} is not available: {why}"))?;
    }
    for LeftJson { engine, why } in &left.tokens {
        say(format!("{engine}: {why}"))?;
    }
    if args.suite.is_legacy() && !config.policy()?.legacy {
        say("The suite is legacy: a mill refuses it unless `legacy = true` stands under [policy].")?;
    }
    for note in outdated(args, explanation) {
        say(note)?;
    }
    match costs::note() {
        Some(note) => say(note),
        None => say("Nothing has been measured: these are the engines' own estimates. `ciphermill tune` measures."),
    }
}

/// Costs of these engines that are there but do not count, since version or kernel were others.
fn outdated(args: &ExplainArgs, explanation: &Explanation) -> Vec<String> {
    let costs::Kept::Here(kept) = costs::load() else { return Vec::new() };
    let estimated = |engine: &str| {
        explanation.candidates.iter().any(|considered| considered.engine == engine && considered.spread.is_none())
    };
    kept.iter()
        .filter(|cost| (cost.suite.canonical(), cost.direction) == (args.suite.canonical(), args.direction))
        .filter(|cost| estimated(&cost.engine))
        .map(|cost| {
            format!(
                "{} was measured as version {} with kernel {}, which it is not now",
                cost.engine, cost.version, cost.kernel
            )
        })
        .collect()
}
