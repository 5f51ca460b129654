//! Tables of a page: those of a section, a plot's points, the raw measurements.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::Numbers;
use crate::model::{Better, Section};
use crate::plot::{Look, Plot, Series};
use crate::table::{Align, Emphasis, Table};
use crate::words::{certainty, count, figure};

/// A table of the record.
pub(super) fn table(table: &Table, numbers: &mut Numbers) -> Markup {
    let align = |index: usize| table.columns.get(index).map(|column| align_class(column.align));
    html! {
        div class="tablebox" tabindex="0" role="region" aria-label=(table.title) {
            table {
                caption { strong { "Table " (numbers.table()) ". " (table.title) "." } }
                thead {
                    tr { @for column in &table.columns { th scope="col" class=(align_class(column.align)) { (column.name) } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @let class = format!("{}{}", align(index).unwrap_or("left"), emphasis_class(cell.emphasis));
                                // The first column says what a row is about.
                                @if index == 0 { th scope="row" class=(class) { (cell.marked()) } }
                                @else { td class=(class) { (cell.marked()) } }
                            }
                        }
                    }
                }
            }
        }
        @if !table.note.is_empty() { p class="note" { (table.note) } }
    }
}

fn align_class(align: Align) -> &'static str {
    match align {
        Align::Left => "left",
        Align::Right => "right",
    }
}

fn emphasis_class(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::Plain => "",
        Emphasis::Good => " good",
        Emphasis::Bad => " bad",
        Emphasis::Doubtful => " doubtful",
    }
}

/// A plot's points, for those who cannot see it or want the numbers: a row a place, a column a line. Models are left out:
/// their points are chosen for drawing.
pub(super) fn points(plot: &Plot) -> Markup {
    let mut rows: BTreeMap<Place, Vec<String>> = BTreeMap::new();
    let listed: Vec<&Series> = plot.series.iter().filter(|series| series.look != Look::Fitted).collect();
    for (index, series) in listed.iter().enumerate() {
        for [x, y] in &series.points {
            let row = rows.entry(Place(*x)).or_insert_with(|| vec![String::new(); listed.len()]);
            row[index] = figure(*y);
        }
    }
    html! {
        @if !rows.is_empty() {
            details {
                summary { "The points of this figure" }
                div class="tablebox" tabindex="0" role="region" aria-label=(format!("Points of: {}", plot.title)) {
                    table class="small" {
                        caption { (plot.y.label) }
                        thead {
                            tr {
                                th scope="col" class="right" { (plot.x.label) }
                                @for series in &listed { th scope="col" class="right" { (series.name) } }
                            }
                        }
                        tbody {
                            @for (place, row) in &rows {
                                tr {
                                    th scope="row" class="right" { (figure(place.0)) }
                                    @for cell in row { td class="right" { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A number as a key, in its natural order.
struct Place(f64);

impl Ord for Place {
    fn cmp(&self, other: &Place) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// Every number of the section under its name.
pub(super) fn measurements(section: &Section) -> Markup {
    let better = |better: Better| match better {
        Better::More => "more",
        Better::Less => "less",
        Better::Neither => "",
    };
    html! {
        @if !section.measurements.is_empty() {
            details class="raw" {
                summary { "Raw measurements: " (count(section.measurements.len(), "figure", "figures")) }
                div class="tablebox" tabindex="0" role="region" aria-label=(format!("Raw measurements: {}", section.title)) {
                    table class="small" {
                        caption { "Medians, with the ends of the 95 % interval, or half its width as a share of the median." }
                        thead {
                            tr {
                                th scope="col" class="left" { "name" }
                                th scope="col" class="right" { "value" }
                                th scope="col" class="left" { "unit" }
                                th scope="col" class="right" { "95 %" }
                                th scope="col" class="left" { "better" }
                                th scope="col" class="left" { "quotable" }
                            }
                        }
                        tbody {
                            @for measurement in &section.measurements {
                                @let noisy = measurement.is_noisy();
                                @let class = if noisy { "right doubtful" } else { "right" };
                                tr {
                                    th scope="row" class="left" { code { (measurement.name) } }
                                    td class=(class) { (figure(measurement.value)) }
                                    td class="left" { (measurement.unit) }
                                    td class=(class) { (certainty(measurement)) }
                                    td class="left" { (better(measurement.better)) }
                                    td class="left" { (if noisy { "no: noisy" } else { "yes" }) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
