//! The overhead's section.

use ciphermill_contract::Suite;
use ciphermill_report::{Axis, Better, Estimate, Look, Plot, Scale, Section, Series, Table};
use ciphermill_router::{Point, fit};

use super::plan::{FRAMEWORK, FRAMEWORK_SHARE, Plan};
use crate::shown::{self, digits, distinct, ends, figure_cell};

/// A measured value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) spread: f64,
}

/// One shape: nanoseconds an operation.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) suite: Suite,
    pub(super) len: usize,
    pub(super) ops: usize,
    pub(super) bare: Value,
    pub(super) called: Value,
    pub(super) handed: Value,
    /// The bare engine's time in percent of the mill's when it is called.
    pub(super) called_share: Estimate,
    /// The same when batches are handed over.
    pub(super) share: Estimate,
}

/// So many applications: operations a second together.
#[derive(Clone, Debug)]
pub(super) struct Apps {
    pub(super) count: usize,
    pub(super) bare: Value,
    pub(super) mill: Value,
}

/// What a counting program gets, in percent of what it gets alone.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// Beside one thread that keeps an engine busy.
    pub(super) beside_thread: Value,
    /// Beside a mill that is given more than all cores can do.
    pub(super) beside_mill: Value,
    /// What the mill did meanwhile, operations a second.
    pub(super) mill_ops: Value,
}

const SOURCE: &str = "Angelos Keromytis, Jason Wright, Theo de Raadt, The Design of the OpenBSD Cryptographic Framework (USENIX 2003): \
                      introduction and evaluation";

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "Between a program and an engine stands something that finds keys, chooses, queues and accounts. The paper asks of its \
     framework what everybody should ask of theirs: how much of the bare device's rate is left, whether many programs \
     together get more out of it than one, and whether an unrelated program next door still gets its work done.",
    "Here the same batches are run by the bare engine (the check that it relies on, and the run), through the mill by a call, and \
     through the mill by handing batches over and taking them back, all on one core. Then several applications at once, each \
     with a thread and a session of its own, against as many threads on bare engines. And a program that counts on every \
     core, by itself, beside one busy thread, and beside a mill that is given more than it can do.",
];

/// The section, with what is known before anything is measured.
pub(super) fn section() -> Section {
    shown::section("overhead", "Overhead: what a framework costs around an engine", SOURCE, LESSON)
}

/// Fills the section from what was measured.
pub(super) fn fill(section: &mut Section, plan: &Plan, engine: &str, paths: &[Path], apps: &[Apps], left: &Left) {
    for path in paths {
        let mut measured = |what: &str, value: Value, unit: &str, better| {
            let name = format!("{}/{}/x{}/{what}", path.suite, path.len, path.ops);
            section.measured(name, value.value, unit, value.spread, better);
        };
        measured("bare", path.bare, "ns/op", Better::Less);
        measured("called", path.called, "ns/op", Better::Less);
        measured("handed", path.handed, "ns/op", Better::Less);
        let name = format!("{}/{}/x{}/share", path.suite, path.len, path.ops);
        section.estimated(name, path.share, "%", Better::More);
    }
    for app in apps {
        for (who, value) in [("bare", app.bare), ("mill", app.mill)] {
            let name = format!("apps/{}/{}/{who}", plan.app.suite, app.count);
            section.measured(name, value.value, "op/s", value.spread, Better::More);
        }
    }
    let (thread, mill) = (left.beside_thread, left.beside_mill);
    section.measured("left/beside-thread", thread.value, "%", thread.spread, Better::More);
    section.measured("left/beside-mill", mill.value, "%", mill.spread, Better::More);
    section.measured("left/mill", left.mill_ops.value, "op/s", left.mill_ops.spread, Better::More);
    section.plots.extend(share_plot(engine, paths));
    section.plots.extend(apps_plot(plan, apps));
    section.tables.push(path_table(engine, paths));
    section.tables.push(apps_table(plan, apps));
    section.tables.push(left_table(left));
    section.conclusions.extend(share_words(engine, paths));
    section.conclusions.extend(cost_words(paths));
    section.conclusions.extend(apps_words(apps));
    section.conclusions.push(left_words(left));
}

/// The shapes of each suite and length, by batch.
fn by_length(paths: &[Path]) -> Vec<&[Path]> {
    paths.chunk_by(|a, b| (a.suite, a.len) == (b.suite, b.len)).collect()
}

fn share_plot(engine: &str, paths: &[Path]) -> Option<Plot> {
    let mut plot = Plot::new(
        "Through the mill, in percent of the bare engine",
        Axis::new("operations a batch", Scale::Log2),
        Axis::new("% of the bare engine's rate", Scale::Linear),
    );
    plot.caption = format!(
        "{engine} behind the mill, batches handed over and taken back on one core. Dashed: what the paper's framework attains of its \
         device."
    );
    for line in by_length(paths) {
        let points = line.iter().map(|path| [path.ops as f64, path.share.value]).collect();
        plot.series.push(Series::new(format!("{}, {} B", line[0].suite, line[0].len), Look::Measured, points));
    }
    let ends = [paths.iter().map(|path| path.ops).min()?, paths.iter().map(|path| path.ops).max()?];
    let cited = ends.map(|ops| [ops as f64, FRAMEWORK_SHARE]).to_vec();
    plot.series.push(Series::new(FRAMEWORK, Look::Cited, cited));
    Some(plot)
}

fn apps_plot(plan: &Plan, apps: &[Apps]) -> Option<Plot> {
    apps.first()?;
    let mut plot = Plot::new(
        "Applications at the same time",
        Axis::new("applications", Scale::Log2),
        Axis::new("operations a second, all together", Scale::Log10),
    );
    plot.caption = format!(
        "{}, batches of {} operations of {} B; each application has a thread. What a mill loses against bare engines here is what \
         sharing costs.",
        plan.app.suite, plan.app.ops, plan.app.len
    );
    for (name, value) in [("sessions of one mill", true), ("bare engines", false)] {
        let rate = |app: &Apps| if value { app.mill.value } else { app.bare.value };
        let points = apps.iter().map(|app| [app.count as f64, rate(app)]).collect();
        plot.series.push(Series::new(name, Look::Measured, points));
    }
    Some(plot)
}

fn path_table(engine: &str, paths: &[Path]) -> Table {
    let heads =
        ["suite", "bytes", "operations", "bare, ns", "called, ns", "handed over, ns", "called, %", "handed over, %"];
    let mut table = Table::new(&format!("The mill around {engine}, nanoseconds an operation"), &heads, 1);
    table.note = "The last two columns are the bare engine's time in percent of the mill's.".to_owned();
    for path in paths {
        let ns = |value: Value| figure_cell(digits(value.value), value.spread);
        table.row([
            path.suite.to_string().into(),
            path.len.to_string().into(),
            path.ops.to_string().into(),
            ns(path.bare),
            ns(path.called),
            ns(path.handed),
            figure_cell(format!("{:.1}", path.called_share.value), path.called_share.spread()),
            figure_cell(format!("{:.1}", path.share.value), path.share.spread()),
        ]);
    }
    table
}

fn apps_table(plan: &Plan, apps: &[Apps]) -> Table {
    let heads = ["applications", "bare engines, op/s", "one mill, op/s", "mill by bare, %"];
    let mut table = Table::new(&format!("Applications at the same time: {}", plan.app.suite), &heads, 0);
    for app in apps {
        table.row([
            app.count.to_string().into(),
            figure_cell(digits(app.bare.value), app.bare.spread),
            figure_cell(digits(app.mill.value), app.mill.spread),
            figure_cell(
                format!("{:.1}", 100.0 * app.mill.value / app.bare.value),
                app.mill.spread.max(app.bare.spread),
            ),
        ]);
    }
    table
}

fn left_table(left: &Left) -> Table {
    let mut table = Table::new("What a program that counts on every core still gets", &["beside", "% of alone"], 1);
    table.note = "3DES, 64 B. Beside a mill on all cores the fair share is a half.".to_owned();
    for (what, value) in [("one busy thread", left.beside_thread), ("a saturated mill", left.beside_mill)] {
        table.row([what.into(), figure_cell(format!("{:.1}", value.value), value.spread)]);
    }
    table
}

/// From which batch on the mill leaves as much as the paper's framework does.
fn share_words(engine: &str, paths: &[Path]) -> Vec<String> {
    let mut words = Vec::new();
    if let Some((worst, best)) = ends(paths, |path| path.share.value) {
        words.push(format!(
            "Handed over, batches get from {:.0} % ({}, {} × {} B) to {:.0} % ({}, {} × {} B) of what bare {engine} does; the {} attains \
             {:.0} % of its device.",
            worst.share.value,
            worst.suite,
            worst.ops,
            worst.len,
            best.share.value,
            best.suite,
            best.ops,
            best.len,
            FRAMEWORK,
            FRAMEWORK_SHARE
        ));
    }
    for line in by_length(paths) {
        // From here on, every larger batch reaches it too.
        let below = line.iter().rposition(|path| path.share.value < FRAMEWORK_SHARE);
        let (suite, len) = (line[0].suite, line[0].len);
        words.push(match below {
            None => format!("{suite}, {len} B: every batch reaches {:.0} %.", FRAMEWORK_SHARE),
            Some(last) if last + 1 == line.len() => {
                format!("{suite}, {len} B: the largest batch reaches {:.1} % only.", line[last].share.value)
            }
            Some(last) => {
                format!("{suite}, {len} B: {:.0} % from batches of {} on.", FRAMEWORK_SHARE, line[last + 1].ops)
            }
        });
    }
    words
}

/// What the mill adds to a batch and to an operation, by fits of both.
fn cost_words(paths: &[Path]) -> Vec<String> {
    let words = |suite: Suite| {
        let of = |value: fn(&Path) -> f64| {
            let own = paths.iter().filter(|path| path.suite == suite);
            let point = |path: &Path| {
                let ops = path.ops as u64;
                Point { ops, bytes: ops * path.len as u64, ns: value(path) * path.ops as f64 }
            };
            fit(&own.map(point).collect::<Vec<_>>()).map(|fit| fit.cost)
        };
        let (bare, called) = (of(|path| path.bare.value)?, of(|path| path.called.value)?);
        Some(format!(
            "{suite}: by a fit over all shapes, a call through the mill adds {:.0} ns to a batch and {:.1} ns to an operation ({:.0} ns \
             and {:.1} ns with the bare engine).",
            added(called.batch_ns, bare.batch_ns),
            added(called.op_ns, bare.op_ns),
            bare.batch_ns,
            bare.op_ns
        ))
    };
    distinct(paths.iter().map(|path| path.suite)).into_iter().filter_map(words).collect()
}

/// The difference, without a sign where it is nothing but rounding.
fn added(with: f64, without: f64) -> f64 {
    let added = with - without;
    if added.abs() < 0.05 { 0.0 } else { added }
}

fn apps_words(apps: &[Apps]) -> Option<String> {
    let (first, last) = (apps.first()?, apps.last()?);
    let best = apps.iter().max_by(|a, b| a.mill.value.total_cmp(&b.mill.value))?;
    Some(format!(
        "{} applications on one mill do {:.2} times the work of {}; most is done with {} at once. With {} they get {:.0} % of as many \
         bare engines.",
        last.count,
        last.mill.value / first.mill.value,
        first.count,
        best.count,
        last.count,
        100.0 * last.mill.value / last.bare.value
    ))
}

fn left_words(left: &Left) -> String {
    let (mill, thread) = (left.beside_mill.value, left.beside_thread.value);
    let verdict = if mill >= 50.0 { "at least its fair share of a half" } else { "less than its fair share of a half" };
    format!(
        "A program that counts on every core keeps {thread:.0} % of its pace beside one busy thread and {mill:.0} % beside a saturated \
         mill, {verdict}; the mill did {:.2} million operations a second meanwhile.",
        left.mill_ops.value / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Options;

    fn path(ops: usize, batch_ns: f64) -> Path {
        let value = |value| Value { value, spread: 0.01 };
        let bare = 100.0 / ops as f64 + 50.0;
        let called = bare + batch_ns / ops as f64;
        let suite = "aes-128-cbc".parse().expect("a suite");
        let share = Estimate { value: 100.0 * bare / called, interval: [100.0 * bare / called; 2] };
        let (bare, called) = (value(bare), value(called));
        Path { suite, len: 64, ops, bare, called, handed: called, called_share: share, share }
    }

    #[test]
    fn the_batch_from_which_the_share_is_reached_is_computed() {
        let paths: Vec<Path> = [1, 4, 16, 64, 256].map(|ops| path(ops, 100.0)).to_vec();
        // 100 ns a batch more: 60 % of the rate alone, 95 % once 100 / n is below a nineteenth of 50 + 100 / n.
        let words = share_words("lanes", &paths);
        assert!(words[0].contains("from 60 % (aes-128-cbc, 1 × 64 B) to 99 %"), "{words:?}");
        assert_eq!(words[1], "aes-128-cbc, 64 B: 95 % from batches of 64 on.");
        let all: Vec<Path> = [1, 4].map(|ops| path(ops, 1.0)).to_vec();
        assert!(share_words("lanes", &all)[1].contains("every batch"));
        let none: Vec<Path> = [1, 4].map(|ops| path(ops, 1000.0)).to_vec();
        assert!(share_words("lanes", &none)[1].contains("only"));
    }

    #[test]
    fn what_a_call_adds_is_fitted() {
        let paths: Vec<Path> = [1, 4, 16, 64, 256].map(|ops| path(ops, 100.0)).to_vec();
        let words = cost_words(&paths);
        assert!(
            words[0].contains("adds 100 ns to a batch and 0.0 ns to an operation (100 ns and 50.0 ns"),
            "{words:?}"
        );
    }

    #[test]
    fn applications_and_shares_are_put_in_words() {
        let value = |value| Value { value, spread: 0.0 };
        let apps = [
            Apps { count: 1, bare: value(100.0), mill: value(90.0) },
            Apps { count: 2, bare: value(200.0), mill: value(180.0) },
            Apps { count: 8, bare: value(200.0), mill: value(170.0) },
        ];
        let words = apps_words(&apps).expect("words");
        assert!(
            words.contains("8 applications on one mill do 1.89 times the work of 1; most is done with 2"),
            "{words}"
        );
        assert!(words.contains("85 % of as many"), "{words}");
        let left = |mill| Left { beside_thread: value(75.0), beside_mill: value(mill), mill_ops: value(2e6) };
        assert!(left_words(&left(55.0)).contains("at least its fair share"));
        assert!(left_words(&left(45.0)).contains("less than its fair share"));
        let plan = Plan::new(&Options { quick: true, ..Options::default() });
        let mut section = section();
        fill(&mut section, &plan, "lanes", &[path(1, 10.0), path(8, 10.0)], &apps, &left(50.0));
        assert_eq!((section.plots.len(), section.tables.len()), (2, 3));
        assert!(section.plots[0].series.iter().any(|series| series.look == Look::Cited && series.points.len() == 2));
    }
}
