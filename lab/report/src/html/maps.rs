//! Heat maps of a page: tables whose cells have a colour by their ratio, and a legend of the colours.

use maud::{Markup, html};

use super::Numbers;
use crate::map::{MAP_AHEAD_ABOVE, MAP_BEHIND_BELOW, Map, MapCell, MapRow, MapState};
use crate::words::{figure, ratio};

/// How many times as much, or as little, the steps of the scale end at; the last one does not end.
const STEP_ENDS: [f64; 3] = [1.1, 1.5, 3.0];
/// The steps on each side of the scale's middle.
const STEPS: usize = STEP_ENDS.len() + 1;
/// What marks a ratio that is behind to those who do not see its colour.
const BEHIND_MARK: &str = "▼";

/// A heat map with its legend and its note.
pub(super) fn map(map: &Map, numbers: &mut Numbers) -> Markup {
    // A group without columns would be a head over nothing, which a browser gives a column.
    let groups = || map.groups.iter().filter(|group| !group.columns.is_empty());
    let starts: Vec<bool> = groups().flat_map(|group| (0..group.columns.len()).map(|index| index == 0)).collect();
    html! {
        div class="tablebox" tabindex="0" role="region" aria-label=(map.title) {
            table class="map" {
                caption { strong { "Table " (numbers.table()) ". " (map.title) "." } }
                colgroup {}
                @for group in groups() { colgroup span=(group.columns.len()) {} }
                thead {
                    tr {
                        th scope="col" rowspan="2" class="left" { span { (map.rows_name) } }
                        @for group in groups() {
                            th scope="colgroup" colspan=(group.columns.len()) class="start" { (group.name) }
                        }
                    }
                    tr {
                        @for (name, start) in groups().flat_map(|group| &group.columns).zip(&starts) {
                            th scope="col" class=(if *start { "start" } else { "" }) { (name) }
                        }
                    }
                }
                tbody { @for row in &map.rows { (row_markup(row, &starts)) } }
            }
        }
        (legend(map))
        @if !map.note.is_empty() { p class="note" { (map.note) } }
    }
}

fn row_markup(row: &MapRow, starts: &[bool]) -> Markup {
    html! {
        tr {
            th scope="row" class="left" { span { (row.name) } }
            @for (index, cell) in row.cells.iter().enumerate() {
                @let start = if starts.get(index) == Some(&true) { " start" } else { "" };
                @match cell {
                    Some(cell) => { td class=(format!("{}{start}", class(cell))) title=(about(cell)) { (shown(cell)) } },
                    None => { td class=(format!("unmeasured{start}")) title="not measured" { "·" } },
                }
            }
        }
    }
}

/// What a reader sees: the ratio with its marks.
fn shown(cell: &MapCell) -> Markup {
    html! {
        @if cell.state() == MapState::Behind { (behind_mark()) }
        @if cell.is_noisy() { "~" }
        (ratio(cell.value))
    }
}

fn behind_mark() -> Markup {
    html! { span class="mark" { (BEHIND_MARK) "\u{a0}" } }
}

/// What a reader who points at a cell gets to know besides.
fn about(cell: &MapCell) -> String {
    let [low, high] = cell.interval.map(figure);
    let detail = if cell.detail.is_empty() { String::new() } else { format!("{}; ", cell.detail) };
    format!("{}: {detail}95\u{a0}% interval {low} to {high}", cell.state().word())
}

fn class(cell: &MapCell) -> String {
    let noisy = if cell.is_noisy() { " doubtful" } else { "" };
    match cell.state() {
        MapState::Behind => format!("behind step{}{noisy}", step(1.0 / cell.value)),
        MapState::Level => format!("level{noisy}"),
        MapState::Ahead => format!("ahead step{}{noisy}", step(cell.value)),
    }
}

/// The step of the scale, from 1, that so many times as much falls into.
fn step(times: f64) -> usize {
    1 + STEP_ENDS.iter().filter(|end| times >= **end).count()
}

/// The whole scale from behind to ahead, and what the marks mean that the map has.
fn legend(map: &Map) -> Markup {
    let cells = || map.rows.iter().flat_map(|row| &row.cells);
    html! {
        ul class="scale" aria-label="The scale" {
            @for number in (1..=STEPS).rev() {
                li class=(format!("behind step{number}")) { (behind_mark()) (behind_words(number)) }
            }
            li class="level" { (MapState::Level.word()) }
            @for number in 1..=STEPS { li class=(format!("ahead step{number}")) { (ahead_words(number)) } }
        }
        p class="note" {
            (BEHIND_MARK) " behind: the whole 95\u{a0}% interval lies below " (ratio(MAP_BEHIND_BELOW))
            ". Ahead: it lies above " (ratio(MAP_AHEAD_ABOVE)) ". Level: neither."
            @if cells().flatten().any(MapCell::is_noisy) { " ~\u{a0}too noisy to be quoted." }
            @if cells().any(Option::is_none) { " ·\u{a0}not measured." }
        }
    }
}

/// From where to where a step goes, in the order of the scale.
fn behind_words(number: usize) -> String {
    let edge = |index: usize| ratio(if index == 0 { MAP_BEHIND_BELOW } else { 1.0 / STEP_ENDS[index - 1] });
    if number == STEPS {
        format!("below {}", edge(number - 1))
    } else {
        format!("{} to {}", edge(number), edge(number - 1))
    }
}

fn ahead_words(number: usize) -> String {
    let edge = |index: usize| ratio(if index == 0 { MAP_AHEAD_ABOVE } else { STEP_ENDS[index - 1] });
    if number == STEPS {
        format!("above {}", edge(number - 1))
    } else {
        format!("{} to {}", edge(number - 1), edge(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;
    use crate::map::MapGroup;

    fn cell(value: f64, half: f64) -> MapCell {
        MapCell::new(Estimate { value, interval: [value - half, value + half] }, "lanes 1 ns")
    }

    #[test]
    fn a_cell_has_the_step_of_its_ratio_if_its_interval_is_sure_of_the_side() {
        let classes = [
            (0.2, "behind step4"),
            (0.5, "behind step3"),
            (0.8, "behind step2"),
            (0.95, "behind step1"),
            (1.0, "level"),
            (1.05, "ahead step1"),
            (1.2, "ahead step2"),
            (2.0, "ahead step3"),
            (3.0, "ahead step4"),
        ];
        for (value, wanted) in classes {
            assert_eq!(class(&cell(value, 0.01 * value)), wanted, "{value}");
        }
        assert_eq!(class(&cell(1.2, 0.4)), "level doubtful", "an interval that wide says nothing");
        assert_eq!(class(&cell(5.0, 0.4)), "ahead step4 doubtful");
    }

    #[test]
    fn marks_do_without_colours() {
        let text = |value: f64, half: f64| shown(&cell(value, half)).into_string();
        assert_eq!(text(0.756, 0.01), "<span class=\"mark\">▼\u{a0}</span>0.76");
        assert_eq!(text(0.5, 0.1), "<span class=\"mark\">▼\u{a0}</span>~0.50");
        assert_eq!(text(1.0, 0.01), "1.00");
        assert_eq!(about(&cell(0.5, 0.1)), "behind: lanes 1 ns; 95\u{a0}% interval 0.4000 to 0.6000");
    }

    #[test]
    fn heads_say_what_they_are_over() {
        let columns = ["16 B", "64 B"].map(str::to_owned).to_vec();
        let groups = vec![MapGroup::new("1 op", columns.clone()), MapGroup::default(), MapGroup::new("8 ops", columns)];
        let mut example = Map::new("Ratios", "suite", groups);
        example.row("aes", [Some(cell(0.5, 0.01)), None, Some(cell(2.0, 0.01)), Some(cell(1.0, 0.2))]);
        let page = map(&example, &mut Numbers::default()).into_string();
        for part in [
            "<th scope=\"col\" rowspan=\"2\" class=\"left\"><span>suite</span></th>",
            "<th scope=\"colgroup\" colspan=\"2\" class=\"start\">8 ops</th>",
            "<th scope=\"col\" class=\"\">64 B</th>",
            "<th scope=\"row\" class=\"left\"><span>aes</span></th>",
            "<td class=\"behind step3 start\" title=\"behind: lanes 1 ns; 95\u{a0}% interval 0.4900 to 0.5100\"><span",
            "<td class=\"unmeasured\" title=\"not measured\">·</td>",
            "<td class=\"ahead step3 start\"",
            "<td class=\"level doubtful\"",
            "\u{a0}</span>below 0.33</li><li class=\"behind step3\">",
            "\u{a0}</span>0.33 to 0.67</li>",
            "<li class=\"ahead step1\">1.03 to 1.10</li>",
            "<li class=\"ahead step4\">above 3.00</li>",
            "not measured.",
        ] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        assert_eq!(page.matches("colgroup\"").count(), 2, "no head over nothing");
        assert!(!page.contains("style="), "the page forbids nothing that the map needs");
    }
}
