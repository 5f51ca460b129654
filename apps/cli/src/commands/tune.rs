//! `ciphermill tune`: what batches cost on each engine of this machine.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ciphermill::{Costs, MeasuredCost};
use ciphermill_contract::{Engine, Suite};
use ciphermill_tuning::{Effort, LeftOut, Pair, SPREAD_NOISY};
use serde::Serialize;

use crate::args::TuneArgs;
use crate::config::Config;
use crate::costs::{self, Fingerprint, Kept, Record};
use crate::mills;
use crate::output::{self, say};

/// The lengths at which the batch is shown from which an engine overtakes another …
const LENGTHS: [u64; 3] = [16, 64, 1024];

/// … and the batches at which the length is.
const BATCHES: [u64; 2] = [1, 32];

#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    record: &'a Record,
    left_out: Vec<LeftOutJson>,
    break_even: Vec<BreakEven>,
}

#[derive(Serialize)]
struct LeftOutJson {
    engine: &'static str,
    suite: String,
    direction: String,
    why: String,
}

/// Where one engine overtakes another: from how many operations, and from how many bytes; null for never.
#[derive(Serialize)]
struct BreakEven {
    family: &'static str,
    suite: String,
    direction: String,
    /// The faster one for a single operation of 16 bytes.
    single: String,
    other: String,
    ops_at_16: Option<u64>,
    ops_at_64: Option<u64>,
    ops_at_1024: Option<u64>,
    len_at_1: Option<u64>,
    len_at_32: Option<u64>,
}

/// Measures, stores and prints; or prints only.
pub(crate) fn run(args: &TuneArgs, config: &Config) -> anyhow::Result<ExitCode> {
    if args.print {
        return print_kept(args);
    }
    let engines = engines(args, config)?;
    let wanted = |suite: Suite| match args.suites.is_empty() {
        true => args.legacy || !suite.is_legacy(),
        false => args.suites.iter().any(|named| named.canonical() == suite),
    };
    let mut pairs = ciphermill_tuning::pairs(&engines, wanted);
    let missing = |pairs: &[Pair]| {
        let is_missing = |suite: &&Suite| !pairs.iter().any(|pair| pair.suite == suite.canonical());
        args.suites.iter().copied().find(|suite| is_missing(&suite))
    };
    if let Some(suite) = missing(&pairs) {
        bail!("none of the engines runs {suite}");
    }
    pairs.retain(|pair| config.disabled.find(pair.engine.info().name, pair.suite).is_none());
    if let Some(suite) = missing(&pairs) {
        bail!("{suite} is disabled on every engine that runs it; `ciphermill engines` shows the rules");
    }
    let path = costs::place()?;
    let mut effort = if args.quick { Effort::QUICK } else { Effort::default() };
    effort.time = args.time.map_or(effort.time, Duration::from_secs);
    let start = Instant::now();
    let bar = output::bar(Some(pairs.len() as u64), "measured", args.json).with_message("tune");
    let wakeup_ns = ciphermill_tuning::wakeup_ns();
    let tuned = ciphermill_tuning::tune(&pairs, effort, |done, pair: &Pair| {
        bar.set_position(done as u64);
        bar.set_message(format!("{} {} on {}", pair.suite, pair.direction, pair.engine.info().name));
    });
    bar.finish_and_clear();
    let took = start.elapsed();
    let fresh: Vec<&MeasuredCost> = tuned.costs.iter().collect();
    let mut kept = still_true(&engines)?;
    for cost in &tuned.costs {
        kept.insert(cost.clone());
    }
    kept.set_wakeup_ns(wakeup_ns);
    let record = Record::of(&kept, Fingerprint::here());
    let stored = costs::store(&path, &record);
    let show = || -> anyhow::Result<()> {
        if args.json {
            return print_json(&record, &fresh, &tuned.left_out);
        }
        say(format!("{}, {} cores", record.machine.cpu, record.machine.cores))?;
        print(&fresh, &tuned.left_out, wakeup_ns)?;
        if stored.is_ok() {
            let seconds = took.as_secs_f64();
            say(format!("{} measured in {seconds:.1} s, {} kept in {}", fresh.len(), kept.len(), path.display()))?;
        }
        Ok(())
    };
    let shown = show();
    stored?;
    output::after_change(shown)?;
    Ok(if tuned.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The engines to measure, once for each set of kernels.
fn engines(args: &TuneArgs, config: &Config) -> anyhow::Result<Vec<Arc<dyn Engine>>> {
    let mut engines: Vec<Arc<dyn Engine>> = match args.engines.is_empty() {
        true => mills::with_copies(config),
        false => args.engines.iter().map(|name| mills::engine_named(name, config)).collect::<Result<_, _>>()?,
    };
    if args.kernels && engines.iter().any(|engine| engine.info().name == "lanes") {
        let choices = ciphermill_engines::kernels();
        for choice in choices.iter().filter(|choice| choice.capable) {
            // Kernels that were measured before with another family's are not measured again.
            let name = format!("{}={}", choice.family, choice.name);
            let opened = ciphermill_engines::open_with_kernels("lanes", &[&name]);
            engines.push(opened.context("there is no engine called `lanes`")??);
        }
    }
    Ok(engines)
}

/// What the file holds already of these engines as they are and of any others.
///
/// # Errors
/// When the file cannot be read: what it holds would be lost.
fn still_true(engines: &[Arc<dyn Engine>]) -> anyhow::Result<Costs> {
    let mut kept = match costs::load() {
        Kept::Here(costs) => costs,
        Kept::Nothing => Costs::new(),
        Kept::Elsewhere(why) => {
            tracing::info!(why, "the measured costs before are dropped");
            Costs::new()
        }
        Kept::Damaged(why) => {
            tracing::warn!(why, "the measured costs before are damaged and are replaced");
            Costs::new()
        }
        Kept::Unreadable(why) => bail!("the measured costs before cannot be read, and are not replaced: {why}"),
    };
    let of_old_version = |cost: &MeasuredCost| {
        engines.iter().any(|engine| engine.info().name == cost.engine && engine.info().version != cost.version)
    };
    kept.retain(|cost| !of_old_version(cost));
    Ok(kept)
}

fn print_kept(args: &TuneArgs) -> anyhow::Result<ExitCode> {
    let path = costs::path().map_or_else(String::new, |path| path.display().to_string());
    let kept = match costs::load() {
        Kept::Here(costs) => costs,
        Kept::Nothing => bail!("nothing has been measured yet; `ciphermill tune` does it"),
        Kept::Elsewhere(why) => {
            bail!("the measured costs in {path} are not used: {why}; `ciphermill tune` measures again")
        }
        Kept::Damaged(why) => {
            bail!("the measured costs in {path} are damaged: {why}; `ciphermill tune` measures again")
        }
        Kept::Unreadable(why) => bail!("the measured costs in {path} cannot be read: {why}"),
    };
    let asked = |cost: &&MeasuredCost| {
        (args.suites.is_empty() || args.suites.iter().any(|suite| suite.canonical() == cost.suite.canonical()))
            && (args.engines.is_empty() || args.engines.contains(&cost.engine))
            && (args.legacy || !args.suites.is_empty() || !cost.suite.is_legacy())
    };
    let shown: Vec<&MeasuredCost> = kept.iter().filter(asked).collect();
    if args.json {
        print_json(&Record::of(&kept, Fingerprint::here()), &shown, &[])?;
    } else {
        print(&shown, &[], kept.wakeup_ns())?;
        say(format!("from {path}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(record: &Record, shown: &[&MeasuredCost], left_out: &[LeftOut]) -> anyhow::Result<()> {
    let left_out = left_out.iter().map(|left_out| LeftOutJson {
        engine: left_out.engine,
        suite: left_out.suite.to_string(),
        direction: left_out.direction.to_string(),
        why: left_out.why.clone(),
    });
    output::json(&Printed { record, left_out: left_out.collect(), break_even: break_even(shown) })
}

fn print(shown: &[&MeasuredCost], left_out: &[LeftOut], wakeup_ns: f64) -> anyhow::Result<()> {
    say("A batch takes C1 + C2 · operations + C3 · bytes nanoseconds.\n")?;
    let mut table = output::table(&["suite", "direction", "engine", "kernel", "C1", "C2", "C3", "spread"], 4);
    let mut before = (String::new(), String::new());
    for cost in shown {
        let now = (cost.suite.to_string(), cost.direction.to_string());
        let (suite, direction) = if now == before { Default::default() } else { now.clone() };
        before = now;
        table.add_row([
            suite,
            direction,
            cost.engine.clone(),
            cost.kernel.clone(),
            format!("{:.0}", cost.cost.batch_ns),
            format!("{:.1}", cost.cost.op_ns),
            format!("{:.3}", cost.cost.byte_ns),
            format!("{:.0} %{}", cost.spread * 100.0, if cost.spread > SPREAD_NOISY { " noisy" } else { "" }),
        ]);
    }
    say(table)?;
    let rows = break_even(shown);
    if !rows.is_empty() {
        say("\nWhere the engine that is faster for one operation of 16 bytes is overtaken: operations, then bytes.\n")?;
        print_break_even(&rows)?;
    }
    for left_out in left_out {
        say(format!(
            "not measured: {} {} on {}: {}",
            left_out.suite, left_out.direction, left_out.engine, left_out.why
        ))?;
    }
    if shown.iter().any(|cost| cost.spread > SPREAD_NOISY) {
        say(
            "Noisy fits are far from a straight line or come from a busy machine; classes of sizes are corrected apart.",
        )?;
    }
    if cfg!(debug_assertions) {
        say("This is a debug build; its figures mean nothing to others.")?;
    }
    say(format!("\nWaking a sleeping thread takes {:.1} µs.", wakeup_ns / 1000.0))
}

fn print_break_even(rows: &[BreakEven]) -> anyhow::Result<()> {
    let head = ["family", "suite", "direction", "single", "overtaken by", "16 B", "64 B", "1 KB", "1 op", "32 ops"];
    let mut table = output::table(&head, 5);
    let shown = |number: Option<u64>, unit: &str| number.map_or_else(|| "never".to_owned(), |n| format!("{n}{unit}"));
    let mut before = (String::new(), String::new());
    for row in rows {
        let now = (row.suite.clone(), row.direction.clone());
        let same = now == before;
        let once = |text: &str| if same { String::new() } else { text.to_owned() };
        table.add_row([
            once(row.family),
            once(&row.suite),
            once(&row.direction),
            row.single.clone(),
            row.other.clone(),
            shown(row.ops_at_16, ""),
            shown(row.ops_at_64, ""),
            shown(row.ops_at_1024, ""),
            shown(row.len_at_1, " B"),
            shown(row.len_at_32, " B"),
        ]);
        before = now;
    }
    say(table)
}

/// A row for each pair of engines in each family and direction; a family is represented by its first suite that several
/// engines run, since its suites cost about the same.
fn break_even(shown: &[&MeasuredCost]) -> Vec<BreakEven> {
    let mut rows: Vec<BreakEven> = Vec::new();
    let mut represented: Vec<(&str, ciphermill_contract::Direction, Suite)> = Vec::new();
    for (index, a) in shown.iter().enumerate() {
        for b in &shown[index + 1..] {
            if (a.suite, a.direction) != (b.suite, b.direction) {
                break;
            }
            let family = a.suite.family();
            let known = represented.iter().find(|(name, direction, _)| (*name, *direction) == (family, a.direction));
            match known {
                Some((_, _, suite)) if *suite != a.suite => continue,
                Some(_) => {}
                None => represented.push((family, a.direction, a.suite)),
            }
            let (single, other) = if b.overtakes(a, LENGTHS[0]) == Some(1) { (b, a) } else { (a, b) };
            rows.push(row(family, single, other));
        }
    }
    rows
}

fn row(family: &'static str, single: &MeasuredCost, other: &MeasuredCost) -> BreakEven {
    let named = |cost: &MeasuredCost| match cost.engine == single.engine && single.engine == other.engine {
        true => format!("{} {}", cost.engine, cost.kernel),
        false => cost.engine.clone(),
    };
    let [ops_at_16, ops_at_64, ops_at_1024] = LENGTHS.map(|len| other.overtakes(single, len));
    let [len_at_1, len_at_32] = BATCHES.map(|ops| other.overtakes_len(single, ops));
    BreakEven {
        family,
        suite: single.suite.to_string(),
        direction: single.direction.to_string(),
        single: named(single),
        other: named(other),
        ops_at_16,
        ops_at_64,
        ops_at_1024,
        len_at_1,
        len_at_32,
    }
}
