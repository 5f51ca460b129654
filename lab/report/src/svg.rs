//! Plots as SVG: within an HTML page, or as a file of its own.
//!
//! Colours come from style sheets by class, so that one drawing serves light and dark; lines differ by the markers'
//! shape as well, and by dashes in what they are: measured, fitted or cited.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use crate::inks::{self, look_word};
use crate::plot::{Look, Plot, Series};
use crate::scale::{self, Span, Tick};
use crate::words::{figure, is_printable};

/// Colours that lines take in turn; the style sheet has as many.
pub(crate) const COLOURS: usize = 8;

/// The colours of lines and page: also the whole style of a plot that stands alone.
pub(crate) const STYLE: &str = include_str!("svg/plot.css");

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 430.0;
/// The height of a plot that has nothing to show.
const HEIGHT_EMPTY: f64 = 110.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 58.0;
/// Labels beside lines stand at least this far apart.
const LABEL_STEP: f64 = 14.5;
const LABEL_CHARACTERS_MAX: usize = 25;
/// Lines with more points get markers on some of them only.
const MARKERS_MAX: usize = 40;
/// The height of a row of the legend of a plot that stands alone.
const LEGEND_STEP: f64 = 18.0;
const X_LABELS_MAX: usize = 9;
const Y_LABELS_MAX: usize = 7;

/// Where things are in a plot.
struct Frame {
    x: Span,
    y: Span,
}

impl Frame {
    fn x(&self, value: f64) -> Option<f64> {
        Some(at_x(self.x.place(value)?))
    }

    fn point(&self, [x, y]: [f64; 2]) -> Option<(f64, f64)> {
        Some((self.x(x)?, at_y(self.y.place(y)?)))
    }
}

fn at_x(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

fn at_y(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
}

/// A coordinate with one decimal.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The plot as an SVG file of its own, light or dark as its viewer prefers, with a legend below it.
pub fn svg(plot: &Plot) -> String {
    let background = html! { rect class="paper" width="100%" height="100%" {} };
    let style = html! { style { (PreEscaped(STYLE)) } };
    let text = drawing(plot, "plot", Some(html! { (style) (background) })).into_string();
    text.chars().map(|character| if is_printable(character) { character } else { '\u{fffd}' }).collect()
}

/// The plot as an `svg` element whose identifiers begin with `id`; one without a point to show is but a low box.
pub(crate) fn drawing(plot: &Plot, id: &str, first: Option<Markup>) -> Markup {
    let (title, about) = (format!("{id}-title"), format!("{id}-about"));
    let labelled_by = format!("{title} {about}");
    let namespace = first.is_some().then_some("http://www.w3.org/2000/svg");
    let spans = scale::spans(plot);
    let (class, height) = if spans.is_some() { ("plot", HEIGHT) } else { ("plot empty", HEIGHT_EMPTY) };
    // A file of its own is shown whole, and explains its lines; in a page a list does that.
    let is_alone = first.is_some();
    let rows = if is_alone { legend_rows(plot) } else { Vec::new() };
    let whole = px(height + LEGEND_STEP * rows.len() as f64);
    html! {
        svg class=(class) xmlns=[namespace] viewBox=(format!("0 0 {WIDTH} {whole}"))
            preserveAspectRatio=[(!is_alone).then_some("xMinYMid slice")] role="img" aria-labelledby=(labelled_by) {
            title id=(title) { (plot.title) }
            desc id=(about) { (description(plot)) }
            @if let Some(first) = first { (first) }
            @if let Some((x, y)) = spans {
                (contents(plot, &Frame { x, y }))
            } @else {
                rect class="frame" x=(px(LEFT)) y="1" width=(px(WIDTH - LEFT - RIGHT)) height=(px(HEIGHT_EMPTY - 2.0)) {}
                text class="nothing" x=(px(at_x(0.5))) y=(px(HEIGHT_EMPTY / 2.0 + 4.0)) {
                    "Nothing to show: no point has a place on these axes."
                }
            }
            @for (index, row) in rows.iter().enumerate() {
                g transform=(format!("translate({} {})", px(LEFT), px(height + LEGEND_STEP * index as f64))) { (row) }
            }
        }
    }
}

/// The legend of a plot that stands alone: a row for each line, and for each marked place.
fn legend_rows(plot: &Plot) -> Vec<Markup> {
    let plain = plot.series.iter().all(|series| series.look == Look::Measured);
    let lines = plot.series.iter().zip(inks::groups(plot)).map(|(series, group)| {
        let look = if plain { String::new() } else { format!(" ({})", look_word(series.look)) };
        html! { (swatch(series.look, group)) text x="42" y="11" { (series.name) (look) } }
    });
    let crossings = plot.crossings.iter().enumerate().map(|(index, crossing)| {
        html! { text x="42" y="11" { (index + 1) ": at " (figure(crossing.x)) ", " (crossing.label) } }
    });
    lines.chain(crossings).collect()
}

/// The plot in words, for those who do not see it.
fn description(plot: &Plot) -> String {
    let mut text = format!("{} against {}.", plot.y.label, plot.x.label);
    for series in &plot.series {
        let points: Vec<[f64; 2]> = scale::drawable(plot, &series.points).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            let _ = write!(text, " {} ({}): no points.", series.name, look_word(series.look));
            continue;
        };
        let _ = write!(
            text,
            " {} ({}): from {} at {} to {} at {}.",
            series.name,
            look_word(series.look),
            figure(first[1]),
            figure(first[0]),
            figure(last[1]),
            figure(last[0])
        );
    }
    for crossing in &plot.crossings {
        let _ = write!(text, " At {}: {}.", figure(crossing.x), crossing.label);
    }
    text
}

fn contents(plot: &Plot, frame: &Frame) -> Markup {
    let groups = inks::groups(plot);
    let lines: Vec<Line<'_>> =
        plot.series.iter().zip(&groups).filter_map(|(series, group)| Line::new(plot, frame, series, *group)).collect();
    html! {
        (axes(plot, frame))
        (crossings(plot, frame))
        // Models lie below what was measured.
        @for line in lines.iter().filter(|line| line.series.look == Look::Fitted) { (line.stroke()) }
        @for line in lines.iter().filter(|line| line.series.look != Look::Fitted) { (line.stroke()) }
        @for line in lines.iter().filter(|line| line.series.look != Look::Fitted) { (line.markers()) }
        (direct_labels(&lines))
    }
}

fn axes(plot: &Plot, frame: &Frame) -> Markup {
    let (left, right, top, bottom) = (at_x(0.0), at_x(1.0), at_y(1.0), at_y(0.0));
    let class = |tick: &Tick| if tick.label.is_some() { "grid" } else { "grid fine" };
    let labelled = |ticks: &[Tick]| -> Vec<(f64, String)> {
        ticks.iter().filter_map(|tick| Some((tick.at, tick.label.clone()?))).collect()
    };
    let (across, up) = (frame.x.ticks(X_LABELS_MAX), frame.y.ticks(Y_LABELS_MAX));
    html! {
        @for tick in &across {
            path class=(class(tick)) d=(format!("M{} {}V{}", px(at_x(tick.at)), px(bottom), px(top))) {}
        }
        @for tick in &up {
            path class=(class(tick)) d=(format!("M{} {}H{}", px(left), px(at_y(tick.at)), px(right))) {}
        }
        path class="axis" d=(format!("M{} {}V{}H{}", px(left), px(top), px(bottom), px(right))) {}
        g class="ticks x" {
            // Every second label gives way where there is little room.
            @for (index, (at, label)) in labelled(&across).into_iter().enumerate() {
                text class=[(index % 2 == 1).then_some("second")] x=(px(at_x(at))) y=(px(bottom + 19.0)) { (label) }
            }
        }
        g class="ticks y" {
            @for (at, label) in labelled(&up) {
                text x=(px(left - 8.0)) y=(px(at_y(at) + 4.0)) { (label) }
            }
        }
        text class="name x" x=(px(right)) y=(px(HEIGHT - 14.0)) { (plot.x.label) }
        text class="name y" x="6" y="16" { (plot.y.label) }
    }
}

/// Crossings as dashed verticals with a number, which the list below the plot explains.
fn crossings(plot: &Plot, frame: &Frame) -> Markup {
    let mut marks: Vec<(f64, usize)> = Vec::new();
    for (index, crossing) in plot.crossings.iter().enumerate() {
        marks.extend(frame.x(crossing.x).map(|x| (x, index)));
    }
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Numbers of crossings that lie close stand beside each other.
    let mut badge_x = f64::NEG_INFINITY;
    let mut placed = Vec::new();
    for (x, index) in marks {
        badge_x = x.max(badge_x + 19.0);
        placed.push((x, badge_x, index));
    }
    let y = TOP - 12.0;
    html! {
        @for (x, badge_x, index) in placed {
            g class="crossing" {
                title { "at " (figure(plot.crossings[index].x)) ": " (plot.crossings[index].label) }
                path d=(format!("M{} {}V{}L{} {}", px(x), px(at_y(0.0)), px(at_y(1.0)), px(badge_x), px(y + 8.0))) {}
                circle cx=(px(badge_x)) cy=(px(y)) r="8.5" {}
                text x=(px(badge_x)) y=(px(y + 4.0)) { (index + 1) }
            }
        }
    }
}

/// A line of the plot, placed.
struct Line<'a> {
    series: &'a Series,
    group: usize,
    /// The points in the plot's own coordinates, beside their values.
    points: Vec<((f64, f64), [f64; 2])>,
}

impl<'a> Line<'a> {
    /// Nothing if the series has no point that can be shown.
    fn new(plot: &Plot, frame: &Frame, series: &'a Series, group: usize) -> Option<Line<'a>> {
        let points: Vec<_> =
            scale::drawable(plot, &series.points).filter_map(|value| Some((frame.point(value)?, value))).collect();
        (!points.is_empty()).then_some(Line { series, group, points })
    }

    fn class(&self) -> String {
        format!("{} ink{}", look_word(self.series.look), self.group % COLOURS)
    }

    fn stroke(&self) -> Markup {
        let mut d = String::new();
        for (index, ((x, y), _)) in self.points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if index == 0 { 'M' } else { 'L' }, px(*x), px(*y));
        }
        html! { path class=(format!("line {}", self.class())) d=(d) {} }
    }

    fn markers(&self) -> Markup {
        let step = self.points.len().div_ceil(MARKERS_MAX).max(1);
        html! {
            g class=(format!("marks {}", self.class())) {
                @for ((x, y), value) in self.points.iter().step_by(step) {
                    path d=(marker(self.group, *x, *y)) {
                        title { (self.series.name) ": " (figure(value[1])) " at " (figure(value[0])) }
                    }
                }
            }
        }
    }
}

/// The outline of a group's marker around a point.
fn marker(group: usize, x: f64, y: f64) -> String {
    let outline = match group % 9 {
        0 => "m-3.8 0a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0-7.6 0z",
        1 => "m-3.4-3.4h6.8v6.8h-6.8z",
        2 => "m0-4.8l4.5 8h-9z",
        3 => "m0-5l4.2 5l-4.2 5l-4.2-5z",
        4 => "m0 4.8l4.5-8h-9z",
        5 => "m-1.4-4.6h2.8v3.2h3.2v2.8h-3.2v3.2h-2.8v-3.2h-3.2v-2.8h3.2z",
        6 => "m-4.2-4h8.4l-8.4 8h8.4z",
        7 => "m0-4.9l4.7 3.4l-1.8 5.5h-5.8l-1.8-5.5z",
        _ => "m-4.8 0l8-4.5v9z",
    };
    format!("M{} {}{outline}", px(x), px(y))
}

/// A short piece of a series' line with its marker, for a legend.
pub(crate) fn swatch(look: Look, group: usize) -> Markup {
    let class = format!("{} ink{}", look_word(look), group % COLOURS);
    html! {
        svg class="swatch" viewBox="0 0 34 14" width="34" height="14" aria-hidden="true" {
            path class=(format!("line {class}")) d="M1 7H33" {}
            @if look != Look::Fitted {
                g class=(format!("marks {class}")) { path d=(marker(group, 17.0, 7.0)) {} }
            }
        }
    }
}

/// Names at the lines' right ends, pushed apart where they would lie on each other. A model or a citation is named only
/// where no line was measured that it belongs to; the legend names all.
fn direct_labels(lines: &[Line<'_>]) -> Markup {
    let measured = |group: usize| lines.iter().any(|line| line.group == group && line.series.look == Look::Measured);
    let mut named: Vec<&Line<'_>> =
        lines.iter().filter(|line| line.series.look == Look::Measured || !measured(line.group)).collect();
    let room = ((at_y(0.0) - at_y(1.0)) / LABEL_STEP) as usize;
    named.truncate(room);
    named.sort_by(|a, b| end_of(a).1.total_cmp(&end_of(b).1));
    let wanted: Vec<f64> = named.iter().map(|line| end_of(line).1).collect();
    let names: Vec<&str> = named.iter().map(|line| line.series.name.as_str()).collect();
    let names = inks::short_names(&names, LABEL_CHARACTERS_MAX);
    let x = at_x(1.0) + 16.0;
    html! {
        g class="direct" aria-hidden="true" {
            @for ((line, name), y) in named.iter().zip(&names).zip(pushed_apart(&wanted, at_y(1.0), at_y(0.0))) {
                @let (end_x, end_y) = end_of(line);
                g class=(format!("ink{}", line.group % COLOURS)) {
                    path class="leader" d=(format!("M{} {}L{} {}", px(end_x + 6.0), px(end_y), px(x - 3.0), px(y))) {}
                    text x=(px(x)) y=(px(y + 4.0)) { (name) }
                }
            }
        }
    }
}

#[expect(clippy::expect_used, reason = "a line is made only of at least one point")]
fn end_of(line: &Line<'_>) -> (f64, f64) {
    line.points.last().expect("a line has points").0
}

/// Places near the wanted ones (ascending), [`LABEL_STEP`] apart, between the ends as far as there is room.
fn pushed_apart(wanted: &[f64], first: f64, last: f64) -> Vec<f64> {
    let mut places = Vec::with_capacity(wanted.len());
    let mut lowest = first;
    for want in wanted {
        let place = want.max(lowest);
        places.push(place);
        lowest = place + LABEL_STEP;
    }
    let mut highest = last;
    for place in places.iter_mut().rev() {
        *place = place.min(highest);
        highest = *place - LABEL_STEP;
    }
    places
}

#[cfg(test)]
pub(crate) mod sight;

#[cfg(test)]
mod tests {
    use super::sight::{apart, colours, contrast};
    use super::*;
    use crate::plot::{Axis, Scale};
    use crate::sample;

    #[test]
    fn texts_and_lines_stand_out_from_the_page() {
        let paper = colours(STYLE, "paper");
        let inks = (0..COLOURS).map(|index| format!("ink{index}"));
        for name in inks.chain(["ink".to_owned(), "soft".to_owned()]) {
            for (mode, colour) in colours(STYLE, &name).into_iter().enumerate() {
                let contrast = contrast(colour, paper[mode]);
                assert!(contrast >= 4.5, "{name} in {}: {contrast:.2}", ["light", "dark"][mode]);
            }
        }
    }

    #[test]
    fn lines_can_be_told_apart_without_red_or_green_sight() {
        let inks: Vec<_> = (0..COLOURS).map(|index| colours(STYLE, &format!("ink{index}"))).collect();
        for (index, one) in inks.iter().enumerate() {
            for (other_index, other) in inks.iter().enumerate().skip(index + 1) {
                for mode in 0..2 {
                    let apart = apart(one[mode], other[mode]);
                    assert!(apart >= 18.0, "inks {index} and {other_index} in mode {mode}: {apart:.1}");
                }
            }
        }
    }

    #[test]
    fn no_two_of_many_lines_look_alike() {
        let looks: std::collections::BTreeSet<(usize, String)> =
            (0..72).map(|group| (group % COLOURS, marker(group, 0.0, 0.0))).collect();
        assert_eq!(looks.len(), 72);
    }

    #[test]
    fn labels_are_pushed_apart_and_stay_inside() {
        let places = pushed_apart(&[10.0, 10.0, 11.0, 300.0, 300.0], 0.0, 300.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_STEP - 1e-9), "{places:?}");
        assert!(places[0] >= 0.0 && places[4] <= 300.0);
        assert_eq!(pushed_apart(&[5.0, 100.0], 0.0, 300.0), [5.0, 100.0]);
    }

    #[test]
    fn logarithmic_axes_leave_out_what_is_not_positive() {
        let mut plot = Plot::new("t", Axis::new("x", Scale::Log2), Axis::new("y", Scale::Log10));
        let points = vec![[0.0, 5.0], [1.0, 10.0], [2.0, -1.0], [4.0, 100.0], [f64::NAN, 1.0]];
        plot.series.push(Series::new("s", Look::Measured, points));
        let text = svg(&plot);
        let line = text.split("class=\"line measured ink0\" d=\"").nth(1).expect("the line is drawn");
        let path = line.split('"').next().expect("its path ends");
        assert_eq!(path.matches(['M', 'L']).count(), 2, "{path}");
        assert_eq!(text.matches("<title>s: ").count(), 2, "a marker a point");
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn a_plot_that_stands_alone_explains_its_lines_and_marks() {
        let plot = &sample::record().sections[0].plots[0];
        let text = svg(plot);
        for series in &plot.series {
            let row = format!(">{} ({})</text>", series.name, look_word(series.look));
            assert_eq!(text.matches(&row).count(), 1, "{row}");
        }
        for crossing in &plot.crossings {
            assert!(text.contains(&format!(", {}</text>", crossing.label)));
        }
        let rows = plot.series.len() + plot.crossings.len();
        let height = px(HEIGHT + LEGEND_STEP * rows as f64);
        assert!(text.contains(&format!("viewBox=\"0 0 760 {height}\"")) && !text.contains("slice"));
        let within = drawing(plot, "plot", None).into_string();
        assert!(within.contains("viewBox=\"0 0 760 430\"") && !within.contains("translate("));
    }

    #[test]
    fn lines_say_what_they_are() {
        let text = svg(&sample::record().sections[0].plots[0]);
        for look in ["line measured", "line fitted", "line cited"] {
            assert!(text.contains(look));
        }
        assert!(!text.contains("marks fitted"), "a model has no points");
        assert_eq!(text.matches("class=\"crossing\"").count(), 3);
        assert!(text.contains("role=\"img\"") && text.contains("aria-labelledby=\"plot-title plot-about\""));
    }
}
