//! Heat maps in a terminal: a line a row, and where the columns do not fit beside each other, several blocks one below the
//! other.

use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::Pen;
use crate::map::{MAP_AHEAD_ABOVE, MAP_BEHIND_BELOW, Map, MapCell, MapState};
use crate::words::{one_line, ratio};

/// Heads of columns are broken into lines of so many letters.
const COLUMN_WIDTH_MAX: usize = 8;
/// Names of rows take at most this share of the width, in percent; what is longer is broken into lines.
const NAMES_PERCENT_MAX: usize = 60;
/// Blanks before a column, and how many more before a group.
const GAP: usize = 1;
const GROUP_GAP: usize = 1;
/// Behind a ratio that is behind, so that the ratios' digits stand below each other.
const BEHIND_MARK: char = '!';
const UNMEASURED: &str = "·";
/// Orange and blue of ANSI's 256 that can be read on black and on white.
const BEHIND_STYLE: &str = "1;38;5;166";
const AHEAD_STYLE: &str = "38;5;33";

/// How wide everything is.
struct Layout {
    names: usize,
    column: usize,
    /// For rows and rules, from the names on.
    room: usize,
}

/// Columns of one group that stand in one block.
struct Part<'m> {
    name: &'m str,
    heads: &'m [String],
    /// Which of a row's cells.
    cells: Range<usize>,
}

/// Writes the map: its title, the blocks, what the marks mean, and the note.
pub(super) fn draw(pen: Pen, out: &mut String, map: &Map) {
    pen.subheading(out, &map.title);
    let layout = Layout::of(pen, map);
    for (index, block) in blocks(map, &layout).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        heads(pen, out, map, block, &layout);
        rows(pen, out, map, block, &layout);
    }
    for line in textwrap::wrap(&legend(pen, map), pen.text_width()) {
        out.push_str(&format!("{}\n", pen.styled("2", &line)));
    }
    if !map.note.is_empty() {
        out.push_str(&textwrap::fill(&one_line(&map.note), pen.text_width()));
        out.push('\n');
    }
    out.push('\n');
}

impl Layout {
    fn of(pen: Pen, map: &Map) -> Layout {
        let names = map.rows.iter().map(|row| &row.name).chain([&map.rows_name]);
        let names = names.map(|name| one_line(name).width()).max().unwrap_or_default();
        let names = names.min(pen.width * NAMES_PERCENT_MAX / 100);
        let heads = map.groups.iter().flat_map(|group| &group.columns);
        let heads = heads.map(|head| one_line(head).width().min(COLUMN_WIDTH_MAX));
        let cells = map.rows.iter().flat_map(|row| row.cells.iter().flatten()).map(|cell| text(cell).width());
        let column = heads.chain(cells).max().unwrap_or_default();
        Layout { names, column, room: pen.width - names }
    }

    /// What so many columns take, with the blanks before them.
    fn taken(&self, columns: usize) -> usize {
        GROUP_GAP + columns * (GAP + self.column)
    }
}

/// The map's columns in blocks that fit: groups stay whole where a block has room for them.
fn blocks<'m>(map: &'m Map, layout: &Layout) -> Vec<Vec<Part<'m>>> {
    let columns_max = (layout.room.saturating_sub(GROUP_GAP) / (GAP + layout.column)).max(1);
    let mut blocks: Vec<Vec<Part<'m>>> = Vec::new();
    let (mut left, mut first) = (0, 0);
    for group in &map.groups {
        for heads in group.columns.chunks(columns_max) {
            let part = Part { name: &group.name, heads, cells: first..first + heads.len() };
            first += heads.len();
            let taken = layout.taken(heads.len());
            match blocks.last_mut().filter(|_| taken <= left) {
                Some(block) => {
                    left -= taken;
                    block.push(part);
                }
                None => {
                    left = layout.room.saturating_sub(taken);
                    blocks.push(vec![part]);
                }
            }
        }
    }
    blocks
}

/// The groups' names over the columns' names over a rule.
fn heads(pen: Pen, out: &mut String, map: &Map, block: &[Part<'_>], layout: &Layout) {
    let mut groups = Vec::new();
    let mut columns = vec![Head { before: 0, width: layout.names, right: false, text: one_line(&map.rows_name) }];
    let (mut before, mut taken) = (layout.names, 0);
    for (index, part) in block.iter().enumerate() {
        let is_last = index + 1 == block.len();
        let width = layout.taken(part.heads.len());
        // Beside the last group there may be room that nothing else needs.
        let room = if is_last { layout.room - taken } else { width };
        let width_of_name = room.saturating_sub(GROUP_GAP + GAP).max(1);
        groups.push(Head {
            before: before + GROUP_GAP + GAP,
            width: width_of_name,
            right: false,
            text: one_line(part.name),
        });
        before = width.saturating_sub(GROUP_GAP + GAP + width_of_name);
        taken += width;
        columns.extend(part.heads.iter().enumerate().map(|(index, head)| Head {
            before: GAP + if index == 0 { GROUP_GAP } else { 0 },
            width: layout.column,
            right: true,
            text: one_line(head),
        }));
    }
    for line in stacked(&groups).into_iter().chain(stacked(&columns)) {
        out.push_str(&line);
        out.push('\n');
    }
    out.push_str(&pen.styled("2", &"─".repeat((layout.names + taken).min(pen.width))));
    out.push('\n');
}

/// A head's text in its place.
struct Head {
    /// Blanks before it.
    before: usize,
    width: usize,
    right: bool,
    text: String,
}

/// Texts beside each other, each broken into lines of its width; their last lines stand in one line.
fn stacked(heads: &[Head]) -> Vec<String> {
    let broken: Vec<_> = heads.iter().map(|head| textwrap::wrap(&head.text, head.width)).collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or_default();
    let line = |number: usize| {
        let mut line = String::new();
        for (head, lines) in heads.iter().zip(&broken) {
            let text = (number + lines.len()).checked_sub(height).map_or("", |index| &lines[index]);
            let pad = " ".repeat(head.width.saturating_sub(text.width()));
            let (left, right) = if head.right { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.push_str(&format!("{}{left}{text}{right}", " ".repeat(head.before)));
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

fn rows(pen: Pen, out: &mut String, map: &Map, block: &[Part<'_>], layout: &Layout) {
    for row in &map.rows {
        let name = Head { before: 0, width: layout.names, right: false, text: one_line(&row.name) };
        let mut lines = stacked(&[name]);
        let mut line = lines.pop().unwrap_or_default();
        line.push_str(&" ".repeat(layout.names.saturating_sub(line.width())));
        for part in block {
            line.push_str(&" ".repeat(GROUP_GAP));
            for index in part.cells.clone() {
                line.push_str(&" ".repeat(GAP));
                line.push_str(&shown(pen, row.cells.get(index).and_then(Option::as_ref), layout.column));
            }
        }
        lines.push(line.trim_end().to_owned());
        for line in lines {
            out.push_str(&line);
            out.push('\n');
        }
    }
}

/// A cell in its place, in the colour of its state where there are colours.
fn shown(pen: Pen, cell: Option<&MapCell>, width: usize) -> String {
    let text = cell.map_or_else(|| format!("{UNMEASURED} "), text);
    let pad = " ".repeat(width.saturating_sub(text.width()));
    let text = match cell.map(MapCell::state) {
        Some(MapState::Behind) => pen.styled(BEHIND_STYLE, &text),
        Some(MapState::Ahead) => pen.styled(AHEAD_STYLE, &text),
        Some(MapState::Level) | None => text,
    };
    format!("{pad}{text}")
}

/// The ratio with its marks, and a blank where it has none behind it.
fn text(cell: &MapCell) -> String {
    let noisy = if cell.is_noisy() { "~" } else { "" };
    let behind = if cell.state() == MapState::Behind { BEHIND_MARK } else { ' ' };
    format!("{noisy}{}{behind}", ratio(cell.value))
}

/// What the marks and colours of the map mean.
fn legend(pen: Pen, map: &Map) -> String {
    let cells = || map.rows.iter().flat_map(|row| &row.cells);
    let measured = || cells().flatten();
    let has = |state: MapState| measured().any(|cell| cell.state() == state);
    let (orange, blue) = if pen.colours { (", orange", "blue") } else { ("", "") };
    let mut said = Vec::new();
    if has(MapState::Behind) {
        said.push(format!("{BEHIND_MARK}{orange}: behind, the whole interval is below {}", ratio(MAP_BEHIND_BELOW)));
    }
    if pen.colours && has(MapState::Ahead) {
        said.push(format!("{blue}: ahead, it is above {}", ratio(MAP_AHEAD_ABOVE)));
    }
    if measured().any(MapCell::is_noisy) {
        said.push("~: too noisy to be quoted".to_owned());
    }
    if cells().any(Option::is_none) {
        said.push(format!("{UNMEASURED}: not measured"));
    }
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::terminal;
    use super::*;
    use crate::estimate::Estimate;
    use crate::map::MapGroup;
    use crate::model::Section;

    fn cell(value: f64) -> Option<MapCell> {
        Some(MapCell::new(Estimate { value, interval: [value * 0.99, value * 1.01] }, ""))
    }

    /// Three groups of six columns, two rows.
    fn section() -> Section {
        let columns = ["16 B", "64 B", "256 B", "1 KB", "4 KB", "16 KB"].map(str::to_owned);
        let groups = ["1 operation a batch", "8 operations a batch", "64 operations a batch"];
        let groups = groups.map(|name| MapGroup::new(name, columns.to_vec())).to_vec();
        let mut map = Map::new("Ratios", "suite and direction", groups);
        map.row(
            "aes-128-cbc encrypt",
            (0..18).map(|index| if index == 4 { None } else { cell(0.76 + f64::from(index)) }),
        );
        map.row("aes-128-cbc decrypt", (0..18).map(|_| cell(1.0)));
        let mut section = Section::new("grid", "Grid", "");
        section.maps.push(map);
        section
    }

    fn shown(width: usize, colours: bool) -> String {
        let text = terminal(&section(), width, colours);
        text.split_once("Ratios").expect("the map's title").1.to_owned()
    }

    #[test]
    fn a_wide_terminal_shows_a_line_a_row() {
        let text = shown(140, false);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines[0],
            "                     1 operation a batch                  8 operations a batch                 64 operations a batch"
        );
        assert!(lines[1].starts_with("suite and direction   16 B  64 B 256 B  1 KB  4 KB 16 KB   16 B"), "{text}");
        assert!(lines[2].chars().all(|c| c == '─'), "{text}");
        assert!(lines[3].starts_with("aes-128-cbc encrypt  0.76! 1.76  2.76  3.76     ·  5.76   6.76  "), "{text}");
        assert!(lines[3].ends_with(" 17.8") && lines[4].ends_with(" 1.00"), "{text}");
        assert_eq!(lines[5], "!: behind, the whole interval is below 0.97; ·: not measured");
    }

    #[test]
    fn blocks_break_between_groups_and_within_those_that_are_too_wide() {
        for (width, blocks) in [(132, 1), (100, 2), (80, 3), (60, 3), (45, 6)] {
            let text = shown(width, false);
            assert_eq!(text.matches("suite and direction").count(), blocks, "{width}:\n{text}");
            assert_eq!(text.matches("aes-128-cbc decrypt").count(), blocks, "{width}:\n{text}");
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert_eq!(text.matches("1.00").count(), 18, "{width}: no cell is lost:\n{text}");
        }
        assert!(shown(45, false).matches("64 operations a batch").count() >= 2, "a group that goes on says so again");
    }

    #[test]
    fn names_that_do_not_fit_are_broken_and_whole() {
        let mut section = section();
        section.maps[0].rows[1].name = "a name of words ".repeat(5);
        section.maps[0].groups[1].columns[2] = "a long name of a column".to_owned();
        let text = terminal(&section, 60, false);
        assert_eq!(text.matches("words").count(), 5 * text.matches("cbc encrypt").count(), "{text}");
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
    }

    #[test]
    fn colours_tell_states_and_marks_stay() {
        let text = shown(140, true);
        assert!(text.contains("\u{1b}[1;38;5;166m0.76!\u{1b}[0m"), "{text}");
        assert!(text.contains("\u{1b}[38;5;33m1.76 \u{1b}[0m"), "{text}");
        assert!(text.contains(" 1.00 "), "what is level has no colour");
        assert!(text.contains("!, orange: behind") && text.contains("blue: ahead, it is above 1.03"), "{text}");
    }
}
