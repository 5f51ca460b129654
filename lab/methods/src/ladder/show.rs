//! Figure 16 of the paper, and the tables.

use ciphermill_report::{Axis, Better, Cell, Emphasis, Look, Plot, Scale, Section, Series, Table};

use super::analysis::{Reached, batch_is_half, dominating, rate, steps, times};
use super::definitions::{Here, PAPER, PAPER_BULK, PaperStep, paper_of};
use super::rungs::RUNGS;
use crate::shown::figure_cell;

/// A climb with one suite, as it is shown.
pub(crate) struct Shown<'a> {
    pub(crate) suite: &'a str,
    pub(crate) climb: &'a [Reached],
    pub(crate) bulk_kb_per_s: Option<f64>,
    /// The engine for single messages.
    pub(crate) single: &'a str,
    /// Which engines have worked, in words.
    pub(crate) engines: &'a str,
}

impl Shown<'_> {
    /// Adds plots, tables and measurements to a section.
    pub(crate) fn add_to(&self, section: &mut Section) {
        section.plots.push(self.figure_16());
        section.plots.push(self.staircase());
        section.tables.push(self.rungs());
        section.tables.push(self.costs());
        self.measure(section);
    }

    fn figure_16(&self) -> Plot {
        let mut plot = Plot::new(
            &format!("{}: short operations by operations a batch (the paper's figure 16)", self.suite),
            Axis::new("operations a batch", Scale::Log2),
            Axis::new("kilobytes a second", Scale::Log10),
        );
        plot.caption =
            "Where a line rises with its batch, the batch's own overhead (C1) is what is paid for; where it is \
                        flat, operations and bytes are. The paper's text gives the range of each experiment without \
                        the batches, so its best figures stand at the right edge, the first experiment lowest."
                .to_owned();
        for reached in self.climb {
            let points = reached.points.iter().map(|taken| [taken.ops as f64, taken.kb_per_s()]).collect();
            let name = format!("{} {}", reached.rung.id, reached.rung.name);
            plot.series.push(Series::new(name, Look::Measured, points));
        }
        let edge = self.climb.iter().flat_map(|reached| &reached.points).map(|taken| taken.ops).max().unwrap_or(1);
        let cited = PAPER.iter().map(|step| [edge as f64, step.range[1]]).collect();
        plot.series.push(Series::new("the paper's experiments 1 to 8, 2001", Look::Cited, cited));
        plot
    }

    fn staircase(&self) -> Plot {
        let mut plot = Plot::new(
            &format!("{}: the best of each rung", self.suite),
            Axis::new("rung (2b counts as 3, and so on)", Scale::Linear),
            Axis::new("kilobytes a second", Scale::Log10),
        );
        let order = self.climb.iter().map(|reached| reached.rung.id).collect::<Vec<_>>().join(", ");
        plot.caption = format!("From left to right: {order}. A step's height is what the change brought.");
        let ours = self.climb.iter().enumerate();
        let ours = ours.filter_map(|(place, reached)| Some([place as f64 + 1.0, reached.best()?.kb_per_s()]));
        plot.series.push(Series::new("here", Look::Measured, ours.collect()));
        let theirs = self.climb.iter().enumerate();
        let theirs =
            theirs.filter_map(|(place, reached)| Some([place as f64 + 1.0, paper_of(reached.rung.id)?.0.range[1]]));
        plot.series.push(Series::new("the paper, 2001", Look::Cited, theirs.collect()));
        plot
    }

    fn rungs(&self) -> Table {
        let heads = [
            "rung",
            "what changes",
            "best rate",
            "at ops a batch",
            "step",
            "of bulk",
            "paper",
            "its step",
            "of its bulk",
        ];
        let mut table =
            Table::new(&format!("{}: the rungs, with {} for single messages", self.suite, self.single), &heads, 2);
        let steps = steps(self.climb);
        for (place, reached) in self.climb.iter().enumerate() {
            let Some(best) = reached.best() else { continue };
            let step = steps.iter().find(|step| step.to == place);
            let step_mood = match step {
                Some(step) if step.is_worse() => Emphasis::Bad,
                Some(step) if !step.is_better() => Emphasis::Doubtful,
                _ => Emphasis::Plain,
            };
            let paper = paper_of(reached.rung.id).map(|(step, _)| step);
            let share = |rate: f64, bulk: f64| format!("{:.3} %", rate / bulk * 100.0);
            let of_bulk = self.bulk_kb_per_s.map(|bulk| share(best.kb_per_s(), bulk));
            table.row([
                Cell::from(format!("{} {}", reached.rung.id, reached.rung.name)),
                Cell::from(reached.rung.change),
                figure_cell(rate(best.kb_per_s()), best.spread),
                Cell::from(best.ops.to_string()),
                Cell::from(step.map_or(String::new(), |step| times(step.ours))).emphasis(step_mood),
                Cell::from(of_bulk.unwrap_or_default()),
                paper.map_or(Cell::from(""), |step| cited(&step)),
                Cell::from(step.and_then(|step| step.theirs).map_or(String::new(), times)),
                Cell::from(paper.map_or(String::new(), |step| share(step.range[1], PAPER_BULK))),
            ]);
        }
        table.note = format!(
            "{} Steps are factors between best rates; those within the spread, or within 3 %, count as none.",
            self.engines
        );
        table
    }

    fn costs(&self) -> Table {
        let sizes = [1.0, 64.0, 4096.0];
        let heads = [
            "rung",
            "C1 ns a batch",
            "C2 ns an op",
            "C3 ns a byte",
            "off by",
            "1 op",
            "64 ops",
            "4096 ops",
            "C1 is half at",
        ];
        let mut table = Table::new(&format!("{}: where the time goes", self.suite), &heads, 1);
        for reached in self.climb {
            let Some(fit) = reached.fit else { continue };
            let len = reached.mean_len();
            let dominating = sizes.map(|ops| {
                let (term, share) = dominating(&fit.cost, ops, len);
                format!("{} {:.0} %", term.short(), share * 100.0)
            });
            let half = batch_is_half(&fit.cost, len);
            let mut cells = vec![
                Cell::from(format!("{} {}", reached.rung.id, reached.rung.name)),
                Cell::from(format!("{:.0}", fit.cost.batch_ns)),
                Cell::from(format!("{:.1}", fit.cost.op_ns)),
                Cell::from(format!("{:.2}", fit.cost.byte_ns)),
                Cell::from(format!("{:.0} %", fit.spread * 100.0)),
            ];
            cells.extend(dominating.map(Cell::from));
            cells.push(Cell::from(half.map_or(String::new(), |half| format!("{half:.0} ops"))));
            table.row(cells);
        }
        table.note = "A batch takes C1 + C2 · operations + C3 · bytes (the paper's section 4.1), fitted to batches of mixed and \
                      of equal lengths; then what dominates, and its share. C3 holds the cipher itself."
            .to_owned();
        table
    }

    fn measure(&self, section: &mut Section) {
        let suite = self.suite;
        for reached in self.climb {
            let rung = reached.rung.id;
            for taken in &reached.points {
                let name = format!("{suite}/rung-{rung}/{}", taken.ops);
                section.measured(name, taken.kb_per_s(), "KB/s", taken.spread, Better::More);
            }
            if let Some(fit) = reached.fit {
                let terms = [
                    ("c1", fit.cost.batch_ns, "ns"),
                    ("c2", fit.cost.op_ns, "ns/op"),
                    ("c3", fit.cost.byte_ns, "ns/B"),
                ];
                for (term, value, unit) in terms {
                    section.measured(format!("{suite}/rung-{rung}/{term}"), value, unit, fit.spread, Better::Less);
                }
            }
        }
    }
}

/// What the paper's text says of an experiment.
fn cited(step: &PaperStep) -> Cell {
    let range = match step.range {
        [low, high] if low == high => format!("{high} KB/s"),
        [low, high] => format!("{low} to {high} KB/s"),
    };
    match step.wrong {
        true => Cell::from(range + ", wrong results").emphasis(Emphasis::Bad),
        false => Cell::from(range),
    }
}

/// What has become of the paper's experiments.
pub(crate) fn paper() -> Table {
    let mut table = Table::new("The paper's experiments and the service", &["experiment", "its rate", "here"], 2);
    for step in &PAPER {
        let here = match step.here {
            Here::Rung(id) => {
                let name = RUNGS.iter().find(|rung| rung.id == id).map_or("", |rung| rung.name);
                format!("rung {id}, {name}")
            }
            Here::Always(how) => format!("always so: {how}"),
        };
        table.row([Cell::from(step.name), cited(step), Cell::from(here)]);
    }
    table
}
