//! Plots in a terminal: lines of braille dots with letters on their points, axes, and a legend.

use textwrap::Options as Wrapping;
use unicode_width::UnicodeWidthStr;

use super::Pen;
use super::canvas::Canvas;
use crate::inks;
use crate::plot::{Look, Plot};
use crate::scale::{self, Span, Tick};
use crate::words::{figure, one_line};

const ROWS: usize = 18;
const COLUMNS_MAX: usize = 96;
const X_LABELS_MAX: usize = 8;
const Y_LABELS_MAX: usize = 6;
/// Colours of ANSI's 256 that can be read on black and on white.
const INKS: [u8; 8] = [33, 166, 35, 134, 136, 37, 162, 244];

/// Writes the plot: its title, the drawing, the legend, the crossings and the caption.
pub(super) fn draw(pen: Pen, out: &mut String, plot: &Plot) {
    pen.subheading(out, &plot.title);
    let groups = inks::groups(plot);
    match scale::spans(plot) {
        Some((x, y)) => drawing(pen, out, plot, (x, y), &groups),
        None => out.push_str("  (nothing to show: no point has a place on these axes)\n"),
    }
    legend(pen, out, plot);
    for (index, crossing) in plot.crossings.iter().enumerate() {
        pen.item(
            out,
            &format!("{}", index + 1),
            &format!("at {}{}: {}", figure(crossing.x), scale::beyond(plot, crossing.x), crossing.label),
        );
    }
    if !plot.caption.is_empty() {
        out.push_str(&textwrap::fill(&one_line(&plot.caption), pen.text_width()));
        out.push('\n');
    }
    out.push('\n');
}

/// The letter that stands for a group's line.
fn letter(group: usize, look: Look) -> char {
    let letter = char::from(b'a' + (group % 26) as u8);
    if look == Look::Cited { letter.to_ascii_uppercase() } else { letter }
}

/// Dots and gaps of a line.
fn dashes(look: Look) -> (usize, usize) {
    match look {
        Look::Measured => (1, 0),
        Look::Fitted => (1, 2),
        Look::Cited => (3, 3),
    }
}

fn drawing(pen: Pen, out: &mut String, plot: &Plot, (x, y): (Span, Span), groups: &[usize]) {
    let y_ticks = y.ticks(Y_LABELS_MAX);
    let gutter = y_ticks.iter().filter_map(|tick| tick.label.as_deref()).map(str::width).max().unwrap_or(0) + 2;
    let columns = (pen.width.min(COLUMNS_MAX + gutter)).saturating_sub(gutter + 1).max(10);
    let canvas = canvas(plot, (x, y), groups, columns);

    out.push_str(&textwrap::fill(&one_line(&plot.y.label), pen.width));
    out.push('\n');
    for row in 0..ROWS {
        let label = y_ticks.iter().find(|tick| tick.label.is_some() && row_of(tick.at) == row);
        let text = label.and_then(|tick| tick.label.clone()).unwrap_or_default();
        let pad = " ".repeat(gutter.saturating_sub(text.width() + 1));
        out.push_str(&format!("{pad}{text} {}", if label.is_some() { '┤' } else { '│' }));
        out.push_str(ink_row(pen, &canvas, row).trim_end());
        out.push('\n');
    }
    let (rule, labels) = x_axis(&x.ticks(X_LABELS_MAX), columns);
    let indent = " ".repeat(gutter);
    out.push_str(&format!("{indent}└{rule}\n{indent} {labels}\n"));
    for line in textwrap::wrap(&one_line(&plot.x.label), pen.width) {
        let room = (gutter + 1 + columns).saturating_sub(line.width());
        out.push_str(&format!("{}{line}\n", " ".repeat(room)));
    }
}

fn row_of(at: f64) -> usize {
    ((1.0 - at) * (ROWS as f64 - 1.0)).round().clamp(0.0, ROWS as f64 - 1.0) as usize
}

fn canvas(plot: &Plot, (x, y): (Span, Span), groups: &[usize], columns: usize) -> Canvas {
    let mut canvas = Canvas::new(columns, ROWS);
    let (across, down) = canvas.dots();
    let place = |[px, py]: [f64; 2]| {
        let (right, up) = (x.place(px)?.clamp(0.0, 1.0), y.place(py)?.clamp(0.0, 1.0));
        // The middle dots of the rows, so that a point lies in the row that its tick's label stands in.
        Some((right * (across as f64 - 1.0), 1.5 + (1.0 - up) * (down as f64 - 4.0)))
    };
    for (series, group) in plot.series.iter().zip(groups) {
        let points: Vec<_> = scale::drawable(plot, &series.points).filter_map(place).collect();
        let mut phase = 0;
        for pair in points.windows(2) {
            phase = canvas.line(pair[0], pair[1], dashes(series.look), phase, *group);
        }
        if series.look != Look::Fitted || points.len() == 1 {
            for point in &points {
                canvas.mark(*point, letter(*group, series.look), Some(*group));
            }
        }
    }
    for (index, crossing) in plot.crossings.iter().enumerate() {
        if let Some(at) = x.place(crossing.x) {
            let at = at.clamp(0.0, 1.0) * (across as f64 - 1.0);
            let number = char::from_digit((index as u32 + 1) % 36, 36).unwrap_or('+');
            canvas.number(at, number);
            canvas.vertical(at, '┊');
        }
    }
    canvas
}

/// A row of the canvas, with its inks where there are colours.
fn ink_row(pen: Pen, canvas: &Canvas, row: usize) -> String {
    let mut out = String::new();
    let mut current = None;
    for (character, ink) in canvas.row(row) {
        let ink = ink.filter(|_| pen.colours && character != ' ');
        if ink != current {
            if current.is_some() {
                out.push_str("\u{1b}[0m");
            }
            if let Some(ink) = ink {
                out.push_str(&format!("\u{1b}[38;5;{}m", INKS[ink % INKS.len()]));
            }
            current = ink;
        }
        out.push(character);
    }
    if current.is_some() {
        out.push_str("\u{1b}[0m");
    }
    out
}

/// The axis below the drawing and its labels, each around its tick, left out where two would touch.
fn x_axis(ticks: &[Tick], columns: usize) -> (String, String) {
    let mut rule = vec!['─'; columns];
    let mut labels = String::new();
    for tick in ticks {
        let Some(label) = &tick.label else { continue };
        let column = (tick.at.clamp(0.0, 1.0) * (columns as f64 - 1.0)).round() as usize;
        let start = column.saturating_sub(label.width() / 2).min(columns.saturating_sub(label.width()));
        let end = labels.width();
        if end > 0 && start <= end {
            continue;
        }
        rule[column] = '┴';
        labels.push_str(&" ".repeat(start - end));
        labels.push_str(label);
    }
    (rule.into_iter().collect(), labels)
}

fn legend(pen: Pen, out: &mut String, plot: &Plot) {
    for (group, members) in inks::families(plot) {
        let mut text = String::new();
        for (index, series) in members.iter().enumerate() {
            let sign = match series.look {
                Look::Measured => format!("⠒{}⠒", letter(group, series.look)),
                Look::Fitted => "⠂⠂⠂".to_owned(),
                Look::Cited => format!("⠒{}⠂", letter(group, series.look)),
            };
            let (name, look) = inks::legend_text(series, index, true);
            let words = match (one_line(name), look) {
                (name, "") => name,
                (name, look) if name.is_empty() => look.to_owned(),
                (name, look) => format!("{name} ({look})"),
            };
            let left_out = scale::left_out(plot, &series.points).map(|words| format!(" ({words})"));
            let words = words + &left_out.unwrap_or_default();
            text.push_str(&format!("{}{sign} {}", if index == 0 { "" } else { "  " }, words));
        }
        let wrapping = Wrapping::new(pen.text_width()).initial_indent("  ").subsequent_indent("      ");
        for line in textwrap::wrap(&text, wrapping) {
            out.push_str(&coloured_signs(pen, &line, group));
            out.push('\n');
        }
    }
}

/// The line with its braille signs, and the letters within them, in the group's colour.
fn coloured_signs(pen: Pen, line: &str, group: usize) -> String {
    let is_dots = |word: &str| word.starts_with(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    let style = format!("38;5;{}", INKS[group % INKS.len()]);
    let words = line.split(' ').map(|word| if is_dots(word) { pen.styled(&style, word) } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}
