//! Tables, as data.

use serde::{Deserialize, Serialize};

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell a column.
    pub rows: Vec<Vec<Cell>>,
    /// What a reader has to know of it; may be empty.
    pub note: String,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Where its cells' texts stand.
    pub align: Align,
}

/// Where texts stand in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// How it should strike the eye; never the only carrier of its meaning.
    #[serde(rename = "mood")]
    pub emphasis: Emphasis,
}

/// How a cell should strike the eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emphasis {
    /// As any other.
    #[default]
    Plain,
    /// The best of its row or column, a goal that is reached.
    Good,
    /// A goal that is missed, something wrong.
    Bad,
    /// Not to be quoted.
    Doubtful,
}

impl Table {
    /// An empty table; columns from `numbers_from` on hold numbers.
    pub fn new(title: &str, heads: &[&str], numbers_from: usize) -> Table {
        let align = |index: usize| if index < numbers_from { Align::Left } else { Align::Right };
        let column = |(index, name): (usize, &&str)| Column { name: (*name).to_owned(), align: align(index) };
        Table { title: title.to_owned(), columns: heads.iter().enumerate().map(column).collect(), ..Table::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), emphasis: Emphasis::Plain }
    }
}

impl Cell {
    /// What it says, with a mark before what is not to be quoted: colours are not the only carrier of that.
    pub(crate) fn marked(&self) -> String {
        let mark = if self.emphasis == Emphasis::Doubtful && !self.text.starts_with('~') { "~" } else { "" };
        format!("{mark}{}", self.text)
    }

    /// The cell with another emphasis.
    pub fn emphasis(self, emphasis: Emphasis) -> Cell {
        Cell { emphasis, ..self }
    }
}
