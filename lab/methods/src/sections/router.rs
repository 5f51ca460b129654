//! `lab router` as a section.

use ciphermill_report::{Better, Cell, Estimate, Section, Table};

use crate::LabError;
use crate::method::{Options, Progress};
use crate::router::{self, Figure, Goal};
use crate::shown::{self, figure_cell, path_part, times, verdict_cell};

const SOURCE: &str = "A. Keromytis, J. Wright, T. de Raadt: The Design of the OpenBSD Cryptographic Framework. USENIX Annual \
                      Technical Conference, 2003.";

/// The method in the lab's common frame. Threads go where the system puts them.
///
/// # Errors
/// [`LabError`]: an engine whose output is wrong, a user who asked for an end.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    router::section(&[], options.budget, progress)
}

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A framework stands between an application and an engine, and has to be worth it. The OpenBSD framework gave its \
     users 95 % of what their device could do. Here are the promises of this one: what it leaves of a bare engine's \
     rate, what two cores do for a stream of batches, what single operations of many tasks gain from sharing batches \
     and what one alone pays for that, how soon routes leave an engine that has become slow and go back, and what \
     is left to another program on the same cores.",
    "The engine is called directly with keys at hand: the check that it relies on, and the run. The mill adds leases, \
     routing, queues and accounting for each operation, which short operations feel and long ones do not.",
];

/// What was measured, as a section.
pub(crate) fn section(figures: &[Figure]) -> Section {
    let mut section = shown::section("router", "What the router promises", SOURCE, LESSON);
    let with_goals = || figures.iter().filter_map(Figure::is_reached);
    let met = with_goals().filter(|is_reached| *is_reached).count();
    section.conclusions.push(format!("Of {} promises with a goal {met} are kept.", with_goals().count()));
    section.tables.push(table(figures));
    for figure in figures {
        let better = match figure.goal {
            Goal::AtLeast(_) => Better::More,
            Goal::AtMost(_) => Better::Less,
            Goal::None => Better::Neither,
        };
        let name = format!("{}/{}", path_part(&figure.name), path_part(&figure.of));
        match figure.interval {
            Some(interval) => {
                section.estimated(name, Estimate { value: figure.value, interval }, figure.unit, better);
            }
            None => section.measured(name, figure.value, figure.unit, figure.spread, better),
        }
    }
    section
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new("Promises", &["promise", "of", "behind it", "figure", "goal", "verdict"], 3);
    for figure in figures {
        let value = match figure.unit {
            "×" => times(figure.value),
            "batches" => format!("{:.0} batches", figure.value),
            unit => format!("{:.1} {unit}", figure.value),
        };
        let goal = match figure.goal {
            Goal::AtLeast(goal) => format!("≥ {goal}"),
            Goal::AtMost(goal) => format!("≤ {goal}"),
            Goal::None => String::new(),
        };
        table.row([
            figure.name.clone().into(),
            figure.of.clone().into(),
            figure.detail.clone().into(),
            figure_cell(value, figure.spread),
            goal.into(),
            figure.is_reached().map_or_else(|| Cell::from(""), |is_reached| verdict_cell(is_reached, false)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_report::Emphasis;

    #[test]
    fn promises_are_counted_and_marked() {
        let figure = |name: &str, value, goal, spread| Figure {
            name: name.to_owned(),
            of: "sha256, 64 B".to_owned(),
            value,
            unit: "×",
            goal,
            detail: String::new(),
            spread,
            interval: (name == "kept").then_some([value - 0.02, value + 0.02]),
        };
        let figures = vec![
            figure("kept", 2.0, Goal::AtLeast(1.8), 0.01),
            figure("broken", 2.0, Goal::AtMost(1.1), 0.2),
            figure("shown", 2.0, Goal::None, 0.0),
        ];
        let section = section(&figures);
        assert_eq!(section.conclusions, ["Of 2 promises with a goal 1 are kept."]);
        let rows = &section.tables[0].rows;
        assert_eq!(
            [rows[0][5].emphasis, rows[1][5].emphasis, rows[2][5].emphasis],
            [Emphasis::Good, Emphasis::Bad, Emphasis::Plain]
        );
        assert_eq!([rows[0][3].emphasis, rows[1][3].emphasis], [Emphasis::Plain, Emphasis::Doubtful]);
        let intervals: Vec<bool> = section.measurements.iter().map(|one| one.interval.is_some()).collect();
        assert_eq!(intervals, [true, false, false]);
        section.check().expect("sound");
    }
}
