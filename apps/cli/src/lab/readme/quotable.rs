//! What of a section may be quoted, as the record itself judges it: figures and cells of maps carry their
//! spread, cells of tables a mark.
//!
//! Where the record cannot tell which of its statements rest on noisy figures (conclusions, tables without marks, fitted
//! lines), a section that has any noisy figure loses them all.

use std::collections::BTreeMap;

use ciphermill_report::{Emphasis, Look, Map, MapCell, Plot, Section, Series, Table};

/// A line with fewer points is none.
const POINTS_MIN: usize = 2;

/// The section without what may not be quoted, and what was left out, in words.
pub(super) fn quotable(section: &Section) -> (Section, Vec<String>) {
    let noisy = section.noisy();
    if noisy == 0 {
        return (section.clone(), Vec::new());
    }
    let points = Points::of(section);
    let quoted = Section {
        conclusions: Vec::new(),
        plots: section.plots.iter().filter_map(|plot| points.plot(plot)).collect(),
        tables: section.tables.iter().filter_map(table).collect(),
        maps: section.maps.iter().map(map).collect(),
        ..section.clone()
    };
    let mut refused = vec![format!("{noisy} of {} figures", section.measurements.len())];
    let mut part = |left: usize, all: usize, what: &str| {
        if left < all {
            refused.push(format!("{} of {all} {what}", all - left));
        }
    };
    let rows = |tables: &[Table]| tables.iter().map(|table| table.rows.len()).sum();
    part(rows(&quoted.tables), rows(&section.tables), "rows of tables");
    let cells = |maps: &[Map]| maps.iter().flat_map(measured).count();
    part(cells(&quoted.maps), cells(&section.maps), "cells of maps");
    part(quoted.plots.len(), section.plots.len(), "plots");
    part(0, section.conclusions.len(), "conclusions");
    (quoted, refused)
}

/// The table with the rows that have no doubtful cell; `None` when no row is left or nothing in it is ever marked.
fn table(table: &Table) -> Option<Table> {
    let is_doubtful =
        |row: &&Vec<_>| row.iter().any(|cell: &ciphermill_report::Cell| cell.emphasis == Emphasis::Doubtful);
    let rows: Vec<_> = table.rows.iter().filter(|row| !is_doubtful(row)).cloned().collect();
    (!rows.is_empty() && rows.len() < table.rows.len()).then(|| Table { rows, ..table.clone() })
}

/// The map without the cells that are noisy.
fn map(map: &Map) -> Map {
    let mut map = map.clone();
    for cell in map.rows.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = cell.take().filter(|cell| !cell.is_noisy());
    }
    map
}

fn measured(map: &Map) -> impl Iterator<Item = &MapCell> {
    map.rows.iter().flat_map(|row| row.cells.iter().flatten())
}

/// The measured values of a section, by their bits, and whether each may be quoted. A value that stands for several
/// figures may only if all of them may.
struct Points(BTreeMap<u64, bool>);

impl Points {
    fn of(section: &Section) -> Points {
        let mut points = BTreeMap::new();
        for measurement in &section.measurements {
            *points.entry(measurement.value.to_bits()).or_insert(true) &= !measurement.is_noisy();
        }
        Points(points)
    }

    /// The plot with the measured points that may be quoted, and what is cited from elsewhere; `None` when a point is no
    /// figure of the section, so that it cannot be judged, or when no measured line is left.
    fn plot(&self, plot: &Plot) -> Option<Plot> {
        let mut series = Vec::new();
        for line in &plot.series {
            match line.look {
                Look::Measured => {
                    let judged: Option<Vec<bool>> =
                        line.points.iter().map(|[_, value]| self.0.get(&value.to_bits()).copied()).collect();
                    let kept = line.points.iter().zip(judged?).filter(|(_, may)| *may).map(|(point, _)| *point);
                    let points: Vec<[f64; 2]> = kept.collect();
                    if points.len() >= POINTS_MIN {
                        series.push(Series { points, ..line.clone() });
                    }
                }
                Look::Cited => series.push(line.clone()),
                Look::Fitted => {}
            }
        }
        let is_left = series.iter().any(|line| line.look == Look::Measured);
        is_left.then(|| Plot { series, crossings: Vec::new(), ..plot.clone() })
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_report::{Axis, Better, Cell, Crossing, Estimate, MapGroup, Scale};

    use super::*;

    /// Four figures, the second of them noisy, in a plot and in tables.
    fn section() -> Section {
        let mut section = Section::new("peaks", "Peaks", "nobody");
        section.conclusions.push("The fastest is twice as fast.".to_owned());
        let values = [1.25, 2.5, 5.0, 10.0];
        for (index, value) in values.into_iter().enumerate() {
            let spread = if index == 1 { 0.2 } else { 0.01 };
            section.measured(format!("a/{index}"), value, "Mb/s", spread, Better::More);
        }
        let mut plot = Plot::new("Rates", Axis::new("bytes", Scale::Log2), Axis::new("Mb/s", Scale::Log10));
        let points: Vec<[f64; 2]> = values.iter().enumerate().map(|(x, value)| [x as f64, *value]).collect();
        plot.series.push(Series::new("measured", Look::Measured, points.clone()));
        plot.series.push(Series::new("fitted", Look::Fitted, points));
        plot.series.push(Series::new("cited", Look::Cited, vec![[1.0, 7.0], [2.0, 8.0]]));
        plot.crossings.push(Crossing { x: 1.0, label: "overtakes".to_owned() });
        section.plots.push(plot);
        let mut marked = Table::new("Marked", &["what", "figure"], 1);
        marked.row(["a/0".into(), "1.25".into()]);
        marked.row(["a/1".into(), Cell::from("2.5").emphasis(Emphasis::Doubtful)]);
        let mut unmarked = Table::new("Not marked", &["what", "figure"], 1);
        unmarked.row(["a/0 by a/1".into(), "0.5".into()]);
        section.tables = vec![marked, unmarked];
        let mut map = Map::new("Ratios", "suite", vec![MapGroup::new("8 operations", vec!["16 B".to_owned(); 3])]);
        let cell = |half: f64| Some(MapCell::new(Estimate { value: 1.0, interval: [1.0 - half, 1.0 + half] }, ""));
        map.row("a", [cell(0.01), None, cell(0.2)]);
        section.maps.push(map);
        section
    }

    #[test]
    fn noisy_figures_and_what_may_rest_on_them_are_left_out() {
        let (quoted, refused) = quotable(&section());
        assert_eq!(refused, ["1 of 4 figures", "2 of 3 rows of tables", "1 of 2 cells of maps", "1 of 1 conclusions"]);
        assert!(quoted.conclusions.is_empty());
        assert_eq!(quoted.tables.len(), 1);
        assert_eq!(quoted.tables[0].rows.len(), 1);
        assert_eq!(quoted.tables[0].rows[0][0].text, "a/0");
        let left: Vec<bool> = quoted.maps[0].rows[0].cells.iter().map(Option::is_some).collect();
        assert_eq!(left, [true, false, false]);
        let plot = &quoted.plots[0];
        assert_eq!(plot.series.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["measured", "cited"]);
        assert_eq!(plot.series[0].points, [[0.0, 1.25], [2.0, 5.0], [3.0, 10.0]]);
        assert!(plot.crossings.is_empty());
    }

    #[test]
    fn a_quiet_section_stays_as_it_is() {
        let mut quiet = section();
        quiet.measurements[1].spread = 0.05;
        let (quoted, refused) = quotable(&quiet);
        assert!(refused.is_empty());
        assert_eq!(quoted, quiet);
    }

    #[test]
    fn a_plot_that_cannot_be_judged_is_left_out() {
        let mut derived = section();
        derived.plots[0].series[0].points[0][1] = 1.26;
        let (quoted, refused) = quotable(&derived);
        assert!(quoted.plots.is_empty());
        assert!(refused.contains(&"1 of 1 plots".to_owned()), "{refused:?}");
        // Nor is one whose measured points are noisy, all or all but one.
        let mut noisy = section();
        noisy.measurements.iter_mut().skip(1).for_each(|measurement| measurement.spread = 0.2);
        assert!(quotable(&noisy).0.plots.is_empty());
    }

    #[test]
    fn a_value_of_a_quiet_and_a_noisy_figure_is_noisy() {
        let mut twice = section();
        twice.measured("b", 5.0, "Mb/s", 0.3, Better::More);
        let (quoted, _) = quotable(&twice);
        assert_eq!(quoted.plots[0].series[0].points, [[0.0, 1.25], [3.0, 10.0]]);
    }
}
