//! Sections as text, for a terminal.

mod canvas;
mod maps;
mod plots;

use comfy_table::{
    CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid, TableStyle, Width,
};
use textwrap::Options as Wrapping;
use unicode_width::UnicodeWidthStr;

use crate::estimate::SPREAD_QUOTABLE_MAX;
use crate::model::{Record, Section};
use crate::table::{Align, Cell, Column, Emphasis, Table};
use crate::words::{certainty, count, date, figure, one_line, whole_percent};

/// Running text is not set wider than this, however wide the terminal.
const TEXT_WIDTH_MAX: usize = 100;
/// Narrower terminals get lines that they break themselves.
const WIDTH_MIN: usize = 40;

/// Rows that take more lines on average are set as paragraphs.
const ROW_LINES_MAX: usize = 4;

/// How to write.
#[derive(Clone, Copy)]
struct Pen {
    width: usize,
    colours: bool,
}

/// The section as text for a terminal of so many columns: its lesson, conclusions, plots, maps and tables, and what is
/// missing.
/// With `colours`, ANSI escape sequences colour lines and cells; without, the text has none.
pub fn terminal(section: &Section, width: usize, colours: bool) -> String {
    let pen = Pen { width: width.max(WIDTH_MIN), colours };
    let mut out = String::new();
    pen.heading(&mut out, section);
    for paragraph in &section.lesson {
        pen.paragraph(&mut out, paragraph);
    }
    pen.conclusions(&mut out, section);
    for plot in &section.plots {
        plots::draw(pen, &mut out, plot);
    }
    for map in &section.maps {
        maps::draw(pen, &mut out, map);
    }
    for table in &section.tables {
        pen.table(&mut out, table);
    }
    if section.tables.is_empty() && section.maps.is_empty() && !section.measurements.is_empty() {
        pen.table(&mut out, &raw(section));
    }
    if !section.missing.is_empty() {
        pen.subheading(&mut out, "Not measured");
        for missing in &section.missing {
            pen.item(&mut out, "•", &format!("{}: {}", missing.what, missing.why));
        }
        out.push('\n');
    }
    out
}

/// The record's head as text for a terminal: the machine, and what forbids quoting the record.
pub fn terminal_head(record: &Record, width: usize, colours: bool) -> String {
    let pen = Pen { width: width.max(WIDTH_MIN), colours };
    let mut out = String::new();
    for (name, fact) in
        [("Made", date(&record.made)), ("Command", record.command.clone())].into_iter().chain(record.facts())
    {
        pen.item(&mut out, &format!("{name:<20}"), &fact);
    }
    let warnings = terminal_warnings(record, width, colours);
    if !warnings.is_empty() {
        out.push('\n');
        out.push_str(&warnings);
    }
    out.push('\n');
    out
}

/// What forbids quoting the record, as text for a terminal; nothing when nothing does.
pub fn terminal_warnings(record: &Record, width: usize, colours: bool) -> String {
    let pen = Pen { width: width.max(WIDTH_MIN), colours };
    let mut out = String::new();
    let warnings = record.warnings();
    if !warnings.is_empty() {
        out.push_str(&pen.styled("1;33", "DO NOT QUOTE"));
        out.push('\n');
        for warning in &warnings {
            pen.item(&mut out, "!", warning);
        }
    }
    out
}

/// The numbers of a section that has neither tables nor maps.
fn raw(section: &Section) -> Table {
    let mut table = Table::new("Measurements", &["name", "value", "unit", "95 %"], 1);
    table.columns[2].align = Align::Left;
    for measurement in &section.measurements {
        let emphasis = if measurement.is_noisy() { Emphasis::Doubtful } else { Emphasis::Plain };
        let cells = [figure(measurement.value), measurement.unit.clone(), certainty(measurement)];
        let name = Cell::from(measurement.name.clone());
        table.row([name].into_iter().chain(cells.map(|text| Cell::from(text).emphasis(emphasis))));
    }
    table
}

/// For each column the width that keeps its numbers and the words of its texts in one piece, with the blanks around them,
/// and where there is room for all of them the words of the heads. Where there is not even room for the cells, the widest
/// go without.
fn least_widths(table: &Table, width: usize) -> Vec<Option<usize>> {
    /// What a column needs that may be broken anywhere.
    const OTHER_WIDTH: usize = 10;
    let word = |text: &str| text.split(' ').map(UnicodeWidthStr::width).max().unwrap_or_default();
    let sum = |widths: &[Option<usize>]| widths.iter().map(|width| width.unwrap_or(OTHER_WIDTH)).sum::<usize>();
    let columns = table.columns.iter().enumerate();
    let mut widths: Vec<Option<usize>> = columns
        .map(|(index, column)| {
            let cells = table.rows.iter().filter_map(|row| row.get(index)).map(|cell| one_line(&cell.marked()));
            let whole = cells.map(|cell| if column.align == Align::Right { cell.width() } else { word(&cell) });
            whole.max().map(|width| width + 2)
        })
        .collect();
    let head = |(width, column): (&Option<usize>, &Column)| width.map(|width| width.max(word(&column.name) + 2));
    let with_heads: Vec<Option<usize>> = widths.iter().zip(&table.columns).map(head).collect();
    if sum(&with_heads) <= width {
        return with_heads;
    }
    while sum(&widths) > width {
        match widths.iter_mut().max() {
            Some(most @ Some(_)) => *most = None,
            _ => break,
        }
    }
    widths
}

impl Pen {
    /// The text in a style of ANSI's `SGR`, where there are colours.
    fn styled(self, style: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn text_width(self) -> usize {
        self.width.min(TEXT_WIDTH_MAX)
    }

    fn heading(self, out: &mut String, section: &Section) {
        let rule = "━".repeat(self.text_width());
        let title = format!("{} · {}", one_line(&section.method), one_line(&section.title));
        out.push_str(&format!("{}\n", self.styled("2", &rule)));
        for line in textwrap::wrap(&title, self.text_width()) {
            out.push_str(&format!("{}\n", self.styled("1", &line)));
        }
        if !section.source.is_empty() {
            for line in textwrap::wrap(&format!("after {}", one_line(&section.source)), self.text_width()) {
                out.push_str(&format!("{}\n", self.styled("2", &line)));
            }
        }
        out.push('\n');
    }

    fn subheading(self, out: &mut String, text: &str) {
        for line in textwrap::wrap(&one_line(text), self.text_width()) {
            out.push_str(&format!("{}\n", self.styled("1", &line)));
        }
    }

    fn paragraph(self, out: &mut String, text: &str) {
        out.push_str(&textwrap::fill(&one_line(text), self.text_width()));
        out.push_str("\n\n");
    }

    /// A text behind a mark, its further lines indented as far.
    fn item(self, out: &mut String, mark: &str, text: &str) {
        let first = format!("  {mark} ");
        let indent = " ".repeat(first.width());
        let wrapping = Wrapping::new(self.text_width()).initial_indent(&first).subsequent_indent(&indent);
        out.push_str(&textwrap::fill(&one_line(text), wrapping));
        out.push('\n');
    }

    fn conclusions(self, out: &mut String, section: &Section) {
        if !section.conclusions.is_empty() {
            self.subheading(out, "What the data say");
            for conclusion in &section.conclusions {
                self.item(out, "•", conclusion);
            }
            out.push('\n');
        }
        let noisy = section.noisy();
        if noisy > 0 {
            let noisy = format!(
                "Noisy: {noisy} of {} with a spread above {} (~). Do not quote those.",
                count(section.measurements.len(), "figure", "figures"),
                whole_percent(SPREAD_QUOTABLE_MAX)
            );
            for line in textwrap::wrap(&noisy, self.text_width()) {
                out.push_str(&format!("{}\n", self.styled("33", &line)));
            }
            out.push('\n');
        }
    }

    fn table(self, out: &mut String, table: &Table) {
        self.subheading(out, &table.title);
        let grid: Vec<String> = self.grid(table).lines().collect();
        // Columns of a few letters are no table: where rows become towers, each row is a paragraph instead.
        if grid.len() > (table.rows.len() + 1) * ROW_LINES_MAX {
            for row in &table.rows {
                self.row(out, table, row);
            }
        } else {
            for line in grid {
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        if !table.note.is_empty() {
            out.push_str(&textwrap::fill(&one_line(&table.note), self.text_width()));
            out.push('\n');
        }
        out.push('\n');
    }

    fn grid(self, table: &Table) -> Grid {
        const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
        let mut grid = Grid::new();
        grid.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        grid.force_no_tty();
        if self.colours {
            grid.enforce_styling();
        }
        grid.set_header(table.columns.iter().map(|column| one_line(&column.name)));
        for row in &table.rows {
            grid.add_row(row.iter().map(|cell| {
                let shown = comfy_table::Cell::new(one_line(&cell.marked()));
                match (self.colours, cell.emphasis) {
                    (true, Emphasis::Good) => shown.fg(Color::Green),
                    (true, Emphasis::Bad) => shown.fg(Color::Red),
                    (true, Emphasis::Doubtful) => shown.fg(Color::DarkYellow),
                    _ => shown,
                }
            }));
        }
        for ((index, column), width) in table.columns.iter().enumerate().zip(least_widths(table, self.width)) {
            let Some(shown) = grid.column_mut(index) else { continue };
            if column.align == Align::Right {
                shown.set_cell_alignment(CellAlignment::Right);
            }
            if let Some(width) = width {
                let width = Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
                shown.set_constraint(ColumnConstraint::LowerBoundary(width));
            }
        }
        grid
    }

    /// A row as a paragraph: its first cell, then each other behind the name of its column.
    fn row(self, out: &mut String, table: &Table, row: &[Cell]) {
        let mut cells = row.iter().zip(&table.columns);
        if let Some((first, _)) = cells.next() {
            self.item(out, "•", &first.marked());
        }
        let named = cells.filter(|(cell, _)| !cell.text.is_empty());
        let named: Vec<String> = named.map(|(cell, column)| format!("{}: {}", column.name, cell.marked())).collect();
        if !named.is_empty() {
            self.item(out, " ", &named.join("; "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        for section in &sample::record().sections {
            for width in [60, 80, 132] {
                let text = terminal(section, width, false);
                assert!(!text.contains('\u{1b}'), "no escape sequence without colours, none from a text");
                // A name without a blank can be longer than a line.
                for line in text.lines() {
                    assert!(line.width() <= width, "{width}: {} columns: {line}", line.width());
                }
            }
        }
    }

    #[test]
    fn names_stay_in_one_piece_where_there_is_room() {
        let mut section = Section::new("m", "t", "s");
        let heads =
            ["suite", "engine", "kernel", "nanoseconds", "megabytes", "cycles a byte", "of the fastest", "95 %"];
        let mut table = Table::new("Names", &heads, 3);
        let row = ["aes-128-cbc", "openssl-context", "avx512-vaes", "150.0", "12,335", "11.02", "10.47", "1.30–1.64"];
        table.row(row.map(Into::into));
        section.tables.push(table);
        let shown = terminal(&section, 90, false);
        assert!(shown.lines().any(|line| row.iter().all(|cell| line.contains(cell))), "{shown}");
    }

    #[test]
    fn numbers_stay_in_one_piece_where_there_is_room() {
        let mut section = Section::new("m", "t", "s");
        let heads = ["name", "a", "b", "c", "d", "e", "f", "g", "h"];
        let mut table = Table::new("Many columns", &heads, 1);
        let number = "12,345,678";
        table.row(
            ["a name of several words that can be broken"; 1]
                .into_iter()
                .chain([number; 4])
                .chain(["1"; 4])
                .map(Into::into),
        );
        section.tables.push(table);
        let shown = terminal(&section, 80, false);
        assert_eq!(shown.matches(number).count(), 4, "{shown}");
        for row in &mut section.tables[0].rows {
            row.iter_mut().for_each(|cell| cell.text = "1234567890".repeat(3));
        }
        let shown = terminal(&section, 80, false);
        assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
    }

    #[test]
    fn rows_that_do_not_fit_become_paragraphs() {
        let mut section = Section::new("m", "t", "s");
        let mut table =
            Table::new("Many columns", &["name", "what", "rate", "paper", "step", "of it", "at", "share", "less"], 2);
        let words = "words that tell at length what it is, and why it is so, and what else it could have been";
        table.row(["rung 1", words, "12 KB/s", words, "", "7", "8", "9", "10"].map(Into::into));
        section.tables.push(table);
        let shown = terminal(&section, 80, false);
        assert!(shown.contains("  • rung 1\n") && shown.contains("rate: 12 KB/s; paper: words that"), "{shown}");
        assert!(!shown.contains("step:"), "an empty cell has nothing to say");
        assert!(terminal(&section, 200, false).contains("───"), "a wide terminal shows the table");
    }

    #[test]
    fn everything_of_a_section_is_there() {
        let record = sample::record();
        let section = &record.sections[0];
        let text = terminal(section, 80, false);
        for part in [
            "What the data say",
            "Noisy: 4 of 10 figures",
            "Not measured",
            "⠂⠂⠂ fitted",
            "(cited)",
            "operations a batch",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        for rung in 1..=10 {
            assert!(text.contains(&format!("rung {rung} with a name")));
        }
        assert!(text.contains("~1882353"), "what is not to be quoted is marked without colours too");
        let coloured = terminal(section, 80, true);
        assert!(coloured.contains("\u{1b}[38;5;33m") && coloured.contains("\u{1b}[0m"));
    }

    #[test]
    fn a_section_without_tables_shows_its_measurements() {
        let text = terminal(&sample::record().sections[1], 80, false);
        assert!(text.contains("crossing/library/lanes"), "{text}");
    }

    #[test]
    fn the_head_says_what_forbids_quoting() {
        let text = terminal_head(&sample::record(), 80, false);
        assert!(text.contains("DO NOT QUOTE") && text.contains("Example Processor 9000"), "{text}");
    }
}
