//! Which rows of a row group are taken.

/// Which rows of a row group are taken: those whose mark is `taken`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    marks: &'a [bool],
    taken: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn marked(marks: &'a [bool]) -> Rows<'a> {
        Rows { marks, taken: true }
    }

    pub(crate) fn unmarked(marks: &'a [bool]) -> Rows<'a> {
        Rows { marks, taken: false }
    }

    pub(crate) fn count(self) -> u64 {
        self.marks.iter().filter(|mark| **mark == self.taken).count() as u64
    }

    pub(crate) fn takes(self, row: usize) -> bool {
        self.marks.get(row) == Some(&self.taken)
    }

    /// Whether each of so many rows from `start` is left out.
    pub(crate) fn left_out(self, start: usize, count: usize) -> Vec<bool> {
        (start..start + count).map(|row| !self.takes(row)).collect()
    }
}
