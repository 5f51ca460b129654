//! The parts of a page: warnings, the machine, conclusions, figures, what is missing.

use maud::{Markup, html};

use super::{Numbers, tables};
use crate::estimate::SPREAD_QUOTABLE_MAX;
use crate::model::{Record, Section};
use crate::plot::{Look, Plot};
use crate::words::{count, date, figure as number, whole_percent};
use crate::{inks, scale, svg};

/// A date, for people and programs.
pub(super) fn time(made: &str) -> Markup {
    let shown = date(made);
    html! { @if shown == made { (made) } @else { time datetime=(made) { (shown) } } }
}

/// What forbids quoting the record, where nobody can overlook it.
pub(super) fn warnings(record: &Record) -> Markup {
    let warnings = record.warnings();
    html! {
        @if !warnings.is_empty() {
            aside class="warning" role="note" aria-labelledby="noisy" {
                h2 id="noisy" { "Noisy: do not quote" }
                ul { @for warning in &warnings { li { (warning) } } }
            }
        }
    }
}

/// The machine and what it did meanwhile.
pub(super) fn machine(record: &Record) -> Markup {
    let facts = record.facts();
    html! {
        section class="machine" aria-labelledby="machine" {
            h2 id="machine" { "The machine" }
            dl {
                @for (name, fact) in &facts { div { dt { (name) } dd { (fact) } } }
            }
        }
    }
}

/// What the data say, and how many of the figures should not be quoted.
pub(super) fn conclusions(section: &Section) -> Markup {
    let noisy = section.noisy();
    html! {
        @if !section.conclusions.is_empty() || noisy > 0 {
            div class="conclusions" {
                h3 { "What the data say" }
                @if !section.conclusions.is_empty() {
                    ul { @for conclusion in &section.conclusions { li { (conclusion) } } }
                }
                @if noisy > 0 {
                    p class="noisy" {
                        strong { "Noisy: " }
                        (noisy) " of " (count(section.measurements.len(), "figure", "figures"))
                        " with a spread above " (whole_percent(SPREAD_QUOTABLE_MAX))
                        ". Do not quote those; they are marked below."
                    }
                }
            }
        }
    }
}

/// A plot with its legend, its caption, and its points as a table.
pub(super) fn figure(plot: &Plot, id: &str, numbers: &mut Numbers) -> Markup {
    html! {
        figure {
            div class="plotbox" { (svg::drawing(plot, id, None)) }
            (legend(plot))
            (crossings(plot))
            figcaption {
                strong { "Figure " (numbers.figure()) ". " (plot.title) "." }
                @if !plot.caption.is_empty() { " " (plot.caption) }
            }
            (tables::points(plot))
        }
    }
}

fn legend(plot: &Plot) -> Markup {
    let plain = plot.series.iter().all(|series| series.look == Look::Measured);
    html! {
        @if !plot.series.is_empty() {
            ul class="legend" aria-label="Lines" {
                @for (group, members) in inks::families(plot) {
                    li {
                        @for (index, series) in members.iter().enumerate() {
                            @let (name, look) = inks::legend_text(series, index, plain);
                            span class="line" {
                                (svg::swatch(series.look, group)) " " (name)
                                @if !look.is_empty() { " " span class="look" { (look) } }
                                @if let Some(left_out) = scale::left_out(plot, &series.points) {
                                    " " span class="look" { "(" (left_out) ")" }
                                }
                            }
                            " "
                        }
                    }
                }
            }
        }
    }
}

fn crossings(plot: &Plot) -> Markup {
    html! {
        @if !plot.crossings.is_empty() {
            ol class="crossings" aria-label="Marked places" {
                @for crossing in &plot.crossings {
                    li { "at " (number(crossing.x)) (scale::beyond(plot, crossing.x)) ": " (crossing.label) }
                }
            }
        }
    }
}

/// What was asked for and not measured.
pub(super) fn missing(section: &Section) -> Markup {
    html! {
        @if !section.missing.is_empty() {
            div class="missing" {
                h3 { "Not measured" }
                ul { @for missing in &section.missing { li { strong { (missing.what) } ": " (missing.why) } } }
            }
        }
    }
}
