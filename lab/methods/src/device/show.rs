//! The device's section.

use ciphermill_contract::EngineInfo;
use ciphermill_engines::LinkRate;
use ciphermill_report::{Axis, Better, Cell, Look, Plot, Scale, Section, Series, Table};

use super::plan::{Figure, Goal};
use crate::breakeven::cross::Overtaking;
use crate::shown::{self, best_cell, digits, distinct, figure_cell, grouped, verdict_cell};

/// What an engine reached on so many threads together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) engine: &'static str,
    pub(super) threads: usize,
    /// Operations a batch.
    pub(super) batch: usize,
    pub(super) ns_per_op: f64,
    pub(super) bytes_per_op: f64,
    pub(super) spread: f64,
}

/// What became of a goal.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) goal: Goal,
    /// A ratio, or a batch; `None` when no batch was large enough.
    pub(super) value: Option<f64>,
    pub(super) spread: f64,
    /// The device at its best.
    pub(super) best: Option<Rate>,
    /// Everything that was timed for it.
    pub(super) rates: Vec<Rate>,
}

/// The batch from which on the device is ahead, among those that were measured.
pub(super) fn batch(overtaking: Overtaking, batches: &[usize]) -> Option<f64> {
    match overtaking {
        Overtaking::Always => batches.first().map(|first| *first as f64),
        Overtaking::At(ops) => Some(ops.ceil()),
        Overtaking::Never => None,
    }
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Figure::Link => "link",
            Figure::Cores => "cores",
            Figure::Batch => "batch",
        }
    }
}

impl Outcome {
    fn reaches(&self, bound: f64) -> bool {
        self.value.is_some_and(|value| match self.goal.figure {
            Figure::Batch => value <= bound,
            _ => value >= bound,
        })
    }

    fn text(&self, value: f64) -> String {
        match self.goal.figure {
            Figure::Link if value < 0.01 => "below 1 % of the link".to_owned(),
            Figure::Link => format!("{:.0} % of the link", 100.0 * value),
            Figure::Cores => format!("{} × all cores", digits(value)),
            Figure::Batch => format!("{} operations", grouped(value as usize)),
        }
    }
}

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A device across a bus is far away and fast. Each operation crosses the link with its input, IV and the name of its key, \
     and comes back as its output, so the link sets the pace of everything that is cheap to compute. The link is \
     measured first, with pinned memory: there, back, and both ways at once; what cheap suites reach is shown as a \
     share of the time that the link alone needs for the same bytes. Packing, launches and waiting are in the rest.",
    "Where the arithmetic is heavy, the question is another: whether the device does more than all cores of this processor \
     together. And since the way there and back costs the same for one operation as for a thousand, small batches stay \
     here: the break-even is the batch from which on the device is faster than one core.",
];

/// The section, with what is known before anything is measured.
pub(super) fn section() -> Section {
    shown::section("device", "A device across a link", "", LESSON)
}

/// Fills the section from what was measured.
pub(super) fn fill(section: &mut Section, device: &EngineInfo, link: &[LinkRate], outcomes: &[Outcome]) {
    let best = super::best(link);
    for (name, bytes) in [("there", best.to_device), ("back", best.from_device), ("both", best.both_ways)] {
        section.measured(format!("link/{name}"), bytes / 1e9, "GB/s", 0.0, Better::More);
    }
    for outcome in outcomes {
        let name = |rest: &str| format!("{}/{rest}", outcome.goal.name);
        let (unit, better) = match outcome.goal.figure {
            Figure::Batch => ("operations", Better::Less),
            _ => ("×", Better::More),
        };
        match outcome.value {
            Some(value) => {
                section.measured(name(outcome.goal.figure.name()), value, unit, outcome.spread, better);
            }
            None => section.lacks(outcome.goal.name, "the device was behind in every batch"),
        }
        for rate in &outcome.rates {
            let path = name(&format!("{}/t{}/x{}", rate.engine, rate.threads, rate.batch));
            section.measured(path, rate.ns_per_op, "ns/op", rate.spread, Better::Less);
        }
    }
    section.conclusions.push(format!(
        "{}: the link carries {} GB/s there, {} back, and {} each way when both are at work.",
        device.version,
        digits(best.to_device / 1e9),
        digits(best.from_device / 1e9),
        digits(best.both_ways / 1e9)
    ));
    let reached = |bound: fn(&Goal) -> f64| outcomes.iter().filter(|one| one.reaches(bound(&one.goal))).count();
    let (must, aim) = (reached(|goal| goal.must), reached(|goal| goal.aim));
    section
        .conclusions
        .push(format!("Of {} goals {must} are reached, {aim} of them with what was hoped for.", outcomes.len()));
    section.tables.push(goals(outcomes));
    section.tables.push(links(link));
    section.tables.push(rates(outcomes));
    section.plots.extend(outcomes.iter().filter(|one| one.goal.figure == Figure::Batch).map(plot));
}

fn goals(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new("Goals", &["workload", "suite", "must", "aim", "measured", "verdict"], 2);
    for outcome in outcomes {
        let goal = &outcome.goal;
        let measured = outcome.value.map_or_else(|| "never".to_owned(), |value| outcome.text(value));
        table.row([
            goal.name.into(),
            goal.suite().to_string().into(),
            outcome.text(goal.must).into(),
            outcome.text(goal.aim).into(),
            figure_cell(measured, outcome.spread),
            verdict_cell(outcome.reaches(goal.must), outcome.reaches(goal.aim)),
        ]);
    }
    table
}

fn links(link: &[LinkRate]) -> Table {
    let heads = ["bytes a copy", "there, GB/s", "back, GB/s", "both, GB/s each way"];
    let mut table = Table::new("The link alone, from and to pinned memory", &heads, 0);
    for rate in link {
        let rates = [rate.to_device, rate.from_device, rate.both_ways].map(|rate| Cell::from(digits(rate / 1e9)));
        table.row([Cell::from(grouped(rate.copy_len))].into_iter().chain(rates));
    }
    table
}

fn rates(outcomes: &[Outcome]) -> Table {
    let heads = ["workload", "engine", "threads", "operations a batch", "ns/op", "M op/s", "MB/s of input"];
    let mut table = Table::new("What was timed", &heads, 2);
    for outcome in outcomes {
        for rate in &outcome.rates {
            let is_best = outcome.best.as_ref() == Some(rate) && outcome.goal.figure != Figure::Batch;
            table.row([
                outcome.goal.name.into(),
                rate.engine.into(),
                rate.threads.to_string().into(),
                grouped(rate.batch).into(),
                best_cell(digits(rate.ns_per_op), is_best),
                digits(1000.0 / rate.ns_per_op).into(),
                digits(1000.0 * rate.bytes_per_op / rate.ns_per_op).into(),
            ]);
        }
    }
    table.note =
        "All threads together; each drives a queue of its own. The device's best number of threads counts.".to_owned();
    table
}

fn plot(outcome: &Outcome) -> Plot {
    let mut plot = Plot::new(
        &format!("{}: one operation by batch", outcome.goal.name),
        Axis::new("operations a batch", Scale::Log2),
        Axis::new("ns an operation", Scale::Log10),
    );
    plot.caption = "What a batch costs beforehand is shared by its operations: the device's line falls until the \
                    arithmetic or the link is all that is left."
        .to_owned();
    let mut names = distinct(outcome.rates.iter().map(|rate| rate.engine));
    names.sort_unstable();
    for name in names {
        let own = outcome.rates.iter().filter(|rate| rate.engine == name);
        let points = own.map(|rate| [rate.batch as f64, rate.ns_per_op]).collect();
        plot.series.push(Series::new(name, Look::Measured, points));
    }
    plot
}
