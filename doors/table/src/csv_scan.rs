//! Finds the fields of CSV records without losing a byte: where the wanted ones lie and whether they are quoted, beside the raw
//! text.
//!
//! RFC 4180, and what is found in practice: lines end with LF, CRLF or CR; blank lines are passed over (in a file of one
//! column they are empty values); a quotation mark within an unquoted field is itself.
//!
//! What a file can make of memory is bounded: a block of text has [`BLOCK_LEN`] bytes or one record, a record the bytes that the
//! limits below say, and is given up at one field more than there are columns; places are kept of the wanted columns' fields only.

use std::ops::Range;

use memchr::memchr;

use crate::dialect::{COLUMNS_MAX, Dialect, Header};

/// Bytes that one record may have: 64 MiB.
pub const RECORD_LEN_MAX: usize = 64 << 20;

/// Bytes that a header may have: 16 MiB.
pub const HEADER_LEN_MAX: usize = 16 << 20;

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes that a block may have, unless it is one record that is longer.
pub(crate) const BLOCK_LEN: usize = 1 << 20;

/// Some records as they lie in a file.
pub(crate) struct Block {
    pub(crate) text: Vec<u8>,
    /// Whether it ends where a record does. If not, its only record is longer than records may be.
    pub(crate) is_whole: bool,
}

/// What files begin with that are no CSV, and what is said of them.
pub(crate) const FOREIGN: &[(&[u8], &str)] = &[
    (b"PAR1", "this is a Parquet file"),
    (b"\xff\xfe", "this is UTF-16, and CSV is read as UTF-8; convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "this is UTF-16, and CSV is read as UTF-8; convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"PK\x03\x04", "this is a ZIP archive, maybe a spreadsheet's own format; save the table as CSV"),
];

// A field's place is kept in 32 bits.
const _: () = assert!(2 * (BLOCK_LEN + RECORD_LEN_MAX) < u32::MAX as usize);

/// Whether a file that began with this text would not be taken for CSV without quotation marks around it.
pub(crate) fn begins_otherwise(text: &[u8]) -> bool {
    text.starts_with(BYTE_ORDER_MARK) || FOREIGN.iter().any(|(start, _)| text.starts_with(start))
}

/// A field's content within a block's text, without its quotation marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    start: u32,
    end: u32,
    pub(crate) quoted: bool,
    /// Whether quotation marks within are doubled.
    doubled: bool,
}

impl Field {
    fn new(span: Range<usize>, quoted: bool) -> Field {
        // Blocks are far shorter than 4 GiB, as asserted above; a place that is cut off would be empty.
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Field { start: short(span.start), end: short(span.end), quoted, doubled: false }
    }

    /// Where it lies in its block's text.
    #[inline]
    pub(crate) fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Records one after another, byte for byte as in the file.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) text: Vec<u8>,
    /// Of each row the fields of the wanted columns, in the columns' order.
    fields: Vec<Field>,
    /// Where each row's first field begins, its quotation mark included.
    starts: Vec<u32>,
    wanted: usize,
    pub(crate) rows: usize,
}

impl Records {
    /// The field of a row in a column, given as its place among those that are kept.
    #[inline]
    pub(crate) fn field(&self, row: usize, slot: usize) -> &Field {
        &self.fields[row * self.wanted + slot]
    }

    /// Where a row begins. What stands before the next one's beginning, its line end and blank lines, belongs to it.
    pub(crate) fn row_start(&self, row: usize) -> usize {
        if row == 0 {
            return 0;
        }
        self.starts.get(row).map_or(self.text.len(), |start| *start as usize)
    }

    /// What the field says: its text without the doubling of quotation marks, which is undone in `scratch`.
    #[inline]
    pub(crate) fn content<'a>(&'a self, field: &Field, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let raw = &self.text[field.span()];
        if !field.doubled {
            return raw;
        }
        scratch.clear();
        let mut after_mark = false;
        for byte in raw {
            after_mark = *byte == b'"' && !after_mark;
            if !after_mark {
                scratch.push(*byte);
            }
        }
        scratch
    }

    /// Finds the fields of a block's records, in place of those that were here.
    ///
    /// # Errors
    /// The first record that is none, or has another number of fields than there are columns.
    pub(crate) fn scan(&mut self, block: Block, layout: &Layout) -> Result<(), Flaw> {
        self.text = block.text;
        self.fields.clear();
        self.starts.clear();
        self.wanted = layout.wanted.as_ref().map_or(layout.columns, Vec::len);
        self.rows = 0;
        let text = std::mem::take(&mut self.text);
        let scanned = self.scan_text(&text, block.is_whole, layout);
        self.text = text;
        scanned.map_err(|rule| Flaw { row: self.rows as u64 + 1, rule })
    }

    fn scan_text(&mut self, text: &[u8], is_whole: bool, layout: &Layout) -> Result<(), String> {
        let mut at = 0;
        while at < text.len() {
            match self.next(&text[at..], at, is_whole, layout)? {
                Next::Record(len, found) if found == layout.columns => {
                    at += len;
                    self.rows += 1;
                }
                Next::Record(_, found) => return Err(layout.wrong_width(&found.to_string())),
                // A block that is not whole has one record, which is too long.
                Next::Tail(_) | Next::NeedMore => break,
            }
        }
        Ok(())
    }

    /// The first record of `input`, which lies at `base` in the text. At `is_end` nothing follows the input.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn next(&mut self, input: &[u8], base: usize, is_end: bool, layout: &Layout) -> Result<Next, String> {
        let (kept, starts) = (self.fields.len(), self.starts.len());
        let mut fields = Fields { layout, base, found: 0, next: 0, kept: &mut self.fields, starts: &mut self.starts };
        match scan(input, is_end, &mut fields) {
            Scanned::Next(Next::NeedMore) if input.len() > layout.record_len_max() => {
                let len_max = layout.record_len_max();
                Err(format!("a record of more than {len_max} bytes; is a quotation mark not closed?"))
            }
            Scanned::Next(Next::NeedMore) => {
                self.fields.truncate(kept);
                self.starts.truncate(starts);
                Ok(Next::NeedMore)
            }
            Scanned::Next(next) => Ok(next),
            Scanned::Malformed(rule) => Err(rule.to_owned()),
            Scanned::TooMany => Err(layout.wrong_width(&format!("at least {}", layout.fields_max() + 1))),
        }
    }

    /// The fields that are kept, of all rows.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.fields.len()
    }

    /// What the only record's fields say.
    pub(crate) fn names(&mut self) -> Option<Vec<String>> {
        self.wanted = self.fields.len();
        let mut scratch = Vec::new();
        let names = (0..self.wanted).map(|column| {
            let name = self.content(self.field(0, column), &mut scratch);
            String::from_utf8(name.to_vec()).ok()
        });
        names.collect()
    }
}

/// What is wrong with a record of a block, and which it is, counted from one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) row: u64,
    pub(crate) rule: String,
}

/// How a file's fields are told apart, and which of them matter.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) dialect: Dialect,
    /// Columns of the file; zero until the first record is read.
    pub(crate) columns: usize,
    /// The columns whose fields are kept, ascending and each once; `None` for all, as in a header.
    pub(crate) wanted: Option<Vec<usize>>,
}

impl Layout {
    /// Fields that a record may have.
    fn fields_max(&self) -> usize {
        if self.columns == 0 { COLUMNS_MAX } else { self.columns }
    }

    /// Bytes that a record may have.
    pub(crate) fn record_len_max(&self) -> usize {
        if self.is_header() { HEADER_LEN_MAX } else { RECORD_LEN_MAX }
    }

    /// Whether the record that is read is the header.
    fn is_header(&self) -> bool {
        self.columns == 0 && self.dialect.has_header()
    }

    fn wrong_width(&self, found: &str) -> String {
        match (self.columns, self.dialect.header) {
            (0, _) => format!("{found} columns, and at most {COLUMNS_MAX} are read"),
            (1, Header::Present) => format!("{found} fields, and the header has 1 name"),
            (columns, Header::Present) => format!("{found} fields, and the header has {columns} names"),
            (columns, Header::Absent { .. }) => format!("{found} fields, and the first row has {columns}"),
        }
    }
}

/// What a piece of input begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A record of so many bytes, its line end included, and so many fields.
    Record(usize, usize),
    /// Nothing but so many bytes of line ends up to its end.
    Tail(usize),
    /// More input is needed to tell.
    NeedMore,
}

/// The same, or why it is none.
enum Scanned {
    Next(Next),
    /// More fields than there may be.
    TooMany,
    /// No CSV.
    Malformed(&'static str),
}

/// Takes a record's fields as they are found, and keeps those of the wanted columns.
struct Fields<'a> {
    layout: &'a Layout,
    /// Where the record begins in the block's text.
    base: usize,
    found: usize,
    next: usize,
    kept: &'a mut Vec<Field>,
    starts: &'a mut Vec<u32>,
}

impl Fields<'_> {
    #[inline]
    fn push(&mut self, span: Range<usize>, quoted: bool, doubled: bool) -> Result<(), Scanned> {
        if self.found == self.layout.fields_max() {
            return Err(Scanned::TooMany);
        }
        let field = Field { doubled, ..Field::new(self.base + span.start..self.base + span.end, quoted) };
        if self.found == 0 {
            self.starts.push(field.start - u32::from(quoted));
        }
        let is_wanted = self.layout.wanted.as_ref().is_none_or(|wanted| wanted.get(self.next) == Some(&self.found));
        if is_wanted {
            self.kept.push(field);
            self.next += 1;
        }
        self.found += 1;
        Ok(())
    }
}

/// Scans one record, with the blank lines before it unless a blank line is a record.
fn scan(input: &[u8], ended: bool, fields: &mut Fields<'_>) -> Scanned {
    let blank_is_record = fields.layout.columns == 1;
    let delimiter = fields.layout.dialect.delimiter;
    let mut at = 0;
    if !blank_is_record {
        at = input.iter().position(|byte| !is_line_end(*byte)).unwrap_or(input.len());
    }
    if at == input.len() {
        return if ended { Scanned::Next(Next::Tail(at)) } else { Scanned::Next(Next::NeedMore) };
    }
    loop {
        at = match scan_field(input, at, ended, fields) {
            Ok(at) => at,
            Err(scanned) => return scanned,
        };
        let record = |len| Scanned::Next(Next::Record(len, fields.found));
        match input.get(at) {
            None => return record(at),
            Some(byte) if *byte == delimiter => at += 1,
            Some(b'\r') => match input.get(at + 1) {
                None if !ended => return Scanned::Next(Next::NeedMore),
                Some(b'\n') => return record(at + 2),
                _ => return record(at + 1),
            },
            Some(b'\n') => return record(at + 1),
            Some(_) => return Scanned::Malformed("text follows a closing quotation mark"),
        }
    }
}

/// Scans the field that begins at `at`. Returns where it ends: at a delimiter, a line end or the end of the file.
#[inline]
fn scan_field(input: &[u8], at: usize, ended: bool, fields: &mut Fields<'_>) -> Result<usize, Scanned> {
    let delimiter = fields.layout.dialect.delimiter;
    if input.get(at) != Some(&b'"') {
        // Fields without marks are short: to begin with vectors would take longer.
        let ends = |byte: &u8| *byte == delimiter || is_line_end(*byte);
        let end = match input.get(at..).and_then(|rest| rest.iter().position(ends)) {
            Some(len) => at + len,
            None if ended => input.len(),
            None => return Err(Scanned::Next(Next::NeedMore)),
        };
        fields.push(at..end, false, false)?;
        return Ok(end);
    }
    let (mut from, mut doubled) = (at + 1, false);
    loop {
        let Some(mark) = input.get(from..).and_then(|rest| memchr(b'"', rest)).map(|found| from + found) else {
            return Err(match ended {
                true => Scanned::Malformed("a quoted field is not closed"),
                false => Scanned::Next(Next::NeedMore),
            });
        };
        match input.get(mark + 1) {
            Some(b'"') => (from, doubled) = (mark + 2, true),
            None if !ended => return Err(Scanned::Next(Next::NeedMore)),
            _ => {
                fields.push(at + 1..mark, true, doubled)?;
                return Ok(mark + 1);
            }
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
