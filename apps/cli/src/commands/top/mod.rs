//! `ciphermill top`: a live view of a service, a gateway, or of a program that was started with `--metrics-socket`.

mod clients;
mod gateway;
mod sample;
mod screen;

use std::collections::VecDeque;
use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use crate::args::TopArgs;
use crate::interrupt;
use crate::output::{self, say, short};
use crate::service::Asked;
use clients::ClientFigures;
use gateway::WayRow;
use sample::{Counts, Sample};
use screen::Screen;

/// The variable that names the socket of a program's metrics.
const METRICS_VARIABLE: &str = "CIPHERMILL_METRICS_SOCKET";

/// Rates that the line above the tables remembers.
const HISTORY_MAX: usize = 60;

/// How often the keyboard and the interrupt are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct View {
    queued_batches: f64,
    busy_workers: f64,
    operations_per_s: Option<f64>,
    engines: Vec<EngineRow>,
    suites: Vec<SuiteRow>,
    /// Of a gateway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateway: Vec<WayRow>,
    /// Of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<Vec<ClientFigures>>,
}

#[derive(Serialize)]
struct EngineRow {
    engine: String,
    #[serde(flatten)]
    figures: Figures,
    quarantines: f64,
    quarantined: bool,
}

#[derive(Serialize)]
struct SuiteRow {
    engine: String,
    suite: String,
    direction: String,
    #[serde(flatten)]
    figures: Figures,
}

/// Rates over the last interval, `None` when there are no two samples; totals and quantiles since the start.
#[derive(Serialize)]
struct Figures {
    batches_per_s: Option<f64>,
    operations_per_s: Option<f64>,
    mb_per_s: Option<f64>,
    busy: Option<f64>,
    actual_by_predicted: Option<f64>,
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    operations: f64,
    failed: f64,
}

/// What is watched.
enum Watched {
    Program(PathBuf),
    Service(Asked),
}

impl Watched {
    fn of(args: &TopArgs) -> anyhow::Result<Watched> {
        if let Some(socket) = &args.service {
            return Ok(Watched::Service(Asked::connect(socket.as_deref())?));
        }
        let named = || env::var_os(METRICS_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let path = args.socket.clone().or_else(named).context(
            "nothing to watch is named: say --service, or --socket PATH with the PATH that a program was given by \
             --metrics-socket, as in `ciphermill demo --metrics-socket PATH`",
        )?;
        Ok(Watched::Program(path))
    }

    fn read(&self) -> anyhow::Result<Sample> {
        match self {
            Watched::Program(path) => sample::read(path),
            Watched::Service(service) => sample::of_service(service),
        }
    }

    fn name(&self) -> String {
        match self {
            Watched::Program(path) => path.display().to_string(),
            Watched::Service(service) => format!("the service at {}", service.socket().display()),
        }
    }
}

/// Shows what is counted until what is watched ends, or the user has seen enough.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let stop = interrupt::watch()?;
    let watched = Watched::of(args)?;
    let mut last = watched.read()?;
    let is_live = !args.once && !args.json && io::stdout().is_terminal();
    let screen = is_live.then(Screen::open).transpose()?;
    let (name, mut history) = (watched.name(), VecDeque::new());
    if let Some(screen) = &screen {
        screen.draw(&text(&name, &view(&last, None), &history))?;
    }
    let quits = || stop.load(Ordering::Relaxed) || screen.as_ref().is_some_and(Screen::quits);
    let mut has_ended = false;
    while sleep(Duration::from_secs_f64(args.interval), quits) {
        let now = watched.read().ok();
        has_ended = now.is_none();
        if has_ended && !args.once {
            break;
        }
        // What ends meanwhile leaves totals without rates.
        let view = match &now {
            Some(now) => view(now, Some(&last)),
            None => view(&last, None),
        };
        if let Some(rate) = view.operations_per_s {
            history.push_back(rate);
            history.drain(..history.len().saturating_sub(HISTORY_MAX));
        }
        match &screen {
            Some(screen) => screen.draw(&text(&name, &view, &history))?,
            None if args.json => say(serde_json::to_string(&view)?)?,
            None => say(text(&name, &view, &history))?,
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        last = now.unwrap_or(last);
    }
    drop(screen);
    if has_ended && !args.json {
        say(match watched {
            Watched::Program(_) => "The program that was watched has ended.",
            Watched::Service(_) => "The service that was watched has ended.",
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sleeps; `false` as soon as the user wants to quit.
fn sleep(time: Duration, quits: impl Fn() -> bool) -> bool {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if quits() {
            return false;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
    !quits()
}

fn view(now: &Sample, before: Option<&Sample>) -> View {
    let seconds = before.map(|before| now.at.duration_since(before.at).as_secs_f64());
    let engines: Vec<EngineRow> = now
        .engines
        .iter()
        .map(|(name, engine)| {
            let earlier = before.map(|before| before.engines.get(name).map(|engine| engine.counts).unwrap_or_default());
            EngineRow {
                engine: name.clone(),
                figures: figures(&engine.counts, earlier.as_ref(), seconds),
                quarantines: engine.quarantines,
                quarantined: engine.quarantined,
            }
        })
        .collect();
    let suites = now.suites.iter().map(|(name, counts)| {
        let earlier = before.map(|before| before.suites.get(name).copied().unwrap_or_default());
        let (engine, suite, direction) = name.clone();
        SuiteRow { engine, suite, direction, figures: figures(counts, earlier.as_ref(), seconds) }
    });
    let clients = now
        .service
        .as_ref()
        .map(|service| clients::figures(service, before.and_then(|before| before.service.as_ref()), seconds));
    // Who does not see the engines of a service sees the clients.
    let operations_per_s = match &clients {
        Some(clients) if engines.is_empty() => clients.iter().map(|client| client.operations_per_s).sum(),
        _ => engines.iter().map(|engine| engine.figures.operations_per_s).sum(),
    };
    View {
        queued_batches: now.queued,
        busy_workers: now.busy_workers,
        operations_per_s,
        clients,
        gateway: gateway::rows(&now.ways, before.map(|before| &before.ways), seconds),
        suites: suites.collect(),
        engines,
    }
}

fn figures(now: &Counts, before: Option<&Counts>, seconds: Option<f64>) -> Figures {
    let since = before.map(|before| now.since(before));
    let rate = |count: fn(&Counts) -> f64| Some(count(since.as_ref()?) / seconds?);
    let of_ratio = since.unwrap_or(*now);
    Figures {
        batches_per_s: rate(|counts| counts.batches),
        operations_per_s: rate(|counts| counts.done + counts.failed),
        mb_per_s: rate(|counts| counts.bytes / 1e6),
        busy: rate(|counts| counts.busy_s),
        actual_by_predicted: (of_ratio.ratio_count > 0.0).then(|| of_ratio.ratio_sum / of_ratio.ratio_count),
        p50_s: now.p50_s,
        p99_s: now.p99_s,
        operations: now.done + now.failed,
        failed: now.failed,
    }
}

fn text(name: &str, view: &View, history: &VecDeque<f64>) -> String {
    let mut text = format!("ciphermill top: {name}\n");
    if let Some(rate) = view.operations_per_s {
        text += &format!("{} operations/s {}\n", short(rate), sparkline(history));
    }
    text += &format!("{} batches wait, {} workers are busy\n\n", view.queued_batches, view.busy_workers);
    let head = ["batches/s", "operations/s", "MB/s", "busy", "p50", "p99", "actual/predicted", "operations", "failed"];
    let mut engines = output::table(&[&["engine"], &head[..], &["standing"]].concat(), 1);
    for row in &view.engines {
        let standing = match (row.quarantined, row.quarantines) {
            (true, _) => "in quarantine".to_owned(),
            (false, 0.0) => "well".to_owned(),
            (false, count) => format!("well, {count} quarantines"),
        };
        engines.add_row([vec![row.engine.clone()], cells(&row.figures), vec![standing]].concat());
    }
    let mut suites = output::table(&[&["engine", "suite", "direction"], &head[..]].concat(), 3);
    for row in &view.suites {
        let name = vec![row.engine.clone(), row.suite.clone(), row.direction.clone()];
        suites.add_row([name, cells(&row.figures)].concat());
    }
    if !view.gateway.is_empty() {
        text += &format!("{}\n\n", gateway::table(&view.gateway));
    }
    if let Some(clients) = &view.clients {
        text += &format!("{}\n\n", clients::table(clients));
    }
    if view.clients.is_none() || !view.engines.is_empty() {
        text += &format!("{engines}\n");
    }
    if !view.suites.is_empty() {
        text += &format!("\n{suites}\n");
    }
    text + "\nRates and actual/predicted over the last interval; p50, p99 and totals since the start."
}

fn cells(figures: &Figures) -> Vec<String> {
    let or_dash = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), text);
    vec![
        or_dash(figures.batches_per_s, |value| short(value.round())),
        or_dash(figures.operations_per_s, |value| short(value.round())),
        or_dash(figures.mb_per_s, |value| format!("{value:.1}")),
        or_dash(figures.busy, |value| format!("{:.0} %", value * 100.0)),
        or_dash(figures.p50_s, duration),
        or_dash(figures.p99_s, duration),
        or_dash(figures.actual_by_predicted, |value| format!("{value:.2} ×")),
        short(figures.operations),
        short(figures.failed),
    ]
}

/// A time in three digits.
fn duration(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    let decimals = if scaled >= 100.0 { 0 } else { 1 };
    format!("{scaled:.decimals$} {unit}")
}

/// A line of bars, the highest for the highest rate.
fn sparkline(rates: &VecDeque<f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = rates.iter().copied().fold(0.0, f64::max);
    let bar = |rate: &f64| if most > 0.0 { BARS[((rate / most * 7.0).round() as usize).min(7)] } else { BARS[0] };
    rates.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_rates() {
        assert_eq!(sparkline(&VecDeque::from([0.0, 50.0, 100.0])), "▁▅█");
        assert_eq!(sparkline(&VecDeque::from([0.0])), "▁");
        assert_eq!(sparkline(&VecDeque::new()), "");
    }

    #[test]
    fn times_have_units() {
        let said = [3.2, 0.0041, 4.25e-6, 1.2e-7].map(duration);
        assert_eq!(said, ["3.2 s", "4.1 ms", "4.2 µs", "120 ns"]);
    }

    #[test]
    fn rates_are_differences_over_time() {
        let before = Counts { batches: 10.0, done: 100.0, bytes: 1e6, busy_s: 1.0, ..Counts::default() };
        let now = Counts { batches: 20.0, done: 300.0, failed: 4.0, bytes: 5e6, busy_s: 1.5, ..Counts::default() };
        let figures = figures(&now, Some(&before), Some(2.0));
        assert_eq!((figures.batches_per_s, figures.operations_per_s), (Some(5.0), Some(102.0)));
        assert_eq!((figures.mb_per_s, figures.busy, figures.operations), (Some(2.0), Some(0.25), 304.0));
    }
}
