//! Reads CSV records without losing a byte: where the wanted fields lie and whether they are quoted, beside the raw text.
//!
//! RFC 4180, and what is found in practice: lines end with LF, CRLF or CR; blank lines are passed over (in a file of one
//! column they are empty values); a quotation mark within an unquoted field is itself.
//!
//! What a file can make of memory is bounded by the limits below: a record is given up at one field more than there are
//! columns, and places are kept of the wanted columns' fields only.

use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::dialect::{COLUMNS_MAX, Dialect, Header, positional_name};
use crate::error::{Result, TableError};

/// Bytes that one record may have: 64 MiB.
pub const RECORD_LEN_MAX: usize = 64 << 20;

/// Bytes that a header may have: 16 MiB.
pub const HEADER_LEN_MAX: usize = 16 << 20;

/// Fields of a batch whose places are kept; a batch ends when it has as many. The values that they become take at most a
/// few dozen bytes each beyond their text.
pub(crate) const BATCH_FIELDS_MAX: usize = 1 << 20;

const READ_LEN: usize = 256 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What files begin with that are no CSV, and what is said of them.
const FOREIGN: &[(&[u8], &str)] = &[
    (b"PAR1", "this is a Parquet file"),
    (b"\xff\xfe", "this is UTF-16, and CSV is read as UTF-8; convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "this is UTF-16, and CSV is read as UTF-8; convert it first: iconv -f UTF-16 -t UTF-8"),
    (b"PK\x03\x04", "this is a ZIP archive, maybe a spreadsheet's own format; save the table as CSV"),
];

// A field's place is kept in 32 bits: a batch ends when it has `BATCH_BYTES_MAX`, and may have one record more.
const _: () = assert!(crate::job::BATCH_BYTES_MAX + RECORD_LEN_MAX < u32::MAX as usize);

/// Whether a file that began with this text would not be taken for CSV without quotation marks around it.
pub(crate) fn begins_otherwise(text: &[u8]) -> bool {
    text.starts_with(BYTE_ORDER_MARK) || FOREIGN.iter().any(|(start, _)| text.starts_with(start))
}

/// A field's content within a batch's text, without its quotation marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    start: u32,
    end: u32,
    pub(crate) quoted: bool,
}

impl Field {
    fn new(span: Range<usize>, quoted: bool) -> Field {
        // Records and batches are far shorter than 4 GiB, as asserted above; a place that is cut off would be empty.
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Field { start: short(span.start), end: short(span.end), quoted }
    }

    /// Where it lies in its batch's text.
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
        if !field.quoted || !raw.contains(&b'"') {
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

    fn clear(&mut self, wanted: usize) {
        self.text.clear();
        self.fields.clear();
        self.starts.clear();
        self.wanted = wanted;
        self.rows = 0;
    }
}

/// How a file's fields are told apart, and which of them matter.
struct Layout {
    dialect: Dialect,
    /// Columns of the file; zero until the first record is read.
    columns: usize,
    /// The columns whose fields are kept, ascending; `None` for all, as in a header.
    wanted: Option<Vec<usize>>,
}

impl Layout {
    /// Fields that a record may have.
    fn fields_max(&self) -> usize {
        if self.columns == 0 { COLUMNS_MAX } else { self.columns }
    }

    /// Bytes that a record may have.
    fn record_len_max(&self) -> usize {
        if self.is_header() { HEADER_LEN_MAX } else { RECORD_LEN_MAX }
    }

    /// Whether the record that is read is the header.
    fn is_header(&self) -> bool {
        self.columns == 0 && self.dialect.has_header()
    }
}

/// Reads records in batches.
pub(crate) struct Scanner<R> {
    reader: R,
    path: PathBuf,
    layout: Layout,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    rows: u64,
}

/// What a piece of input begins with.
#[derive(Debug, PartialEq, Eq)]
enum Scanned {
    /// A record of so many bytes, its line end included, and so many fields.
    Record(usize, usize),
    /// Nothing but so many bytes of line ends up to the end of the file.
    Tail(usize),
    /// More input is needed to tell.
    NeedMore,
    /// More fields than there may be.
    TooMany,
    /// No CSV.
    Malformed(&'static str),
}

impl<R: Read> Scanner<R> {
    /// Reads the header. Returns the scanner, the names, and what stands before the first row as it lies in the file: the
    /// header, or of a file without one nothing but a byte order mark.
    ///
    /// # Errors
    /// `Malformed`, with row zero when there is no header or its names are not UTF-8; `Io`.
    pub(crate) fn open(reader: R, path: &Path, dialect: Dialect) -> Result<(Scanner<R>, Vec<String>, Vec<u8>)> {
        let mut scanner = Scanner {
            reader,
            path: path.to_owned(),
            layout: Layout { dialect, columns: 0, wanted: None },
            buffer: Vec::new(),
            at: 0,
            ended: false,
            rows: 0,
        };
        let mut header = Records::default();
        // The mark is no part of the first name, and a quotation mark after it begins a field.
        scanner.fill()?;
        if let Some((_, rule)) = FOREIGN.iter().find(|(start, _)| scanner.buffer.starts_with(start)) {
            return Err(scanner.malformed((*rule).to_owned()));
        }
        if scanner.buffer.starts_with(BYTE_ORDER_MARK) {
            header.text.extend_from_slice(BYTE_ORDER_MARK);
            scanner.at = BYTE_ORDER_MARK.len();
        }
        if let Header::Absent { columns } = dialect.header {
            let names = scanner.count_columns(columns)?;
            return Ok((scanner, names, header.text));
        }
        if scanner.next_record(&mut header)?.is_none() {
            return Err(scanner.malformed("there is no header".to_owned()));
        }
        header.wanted = header.fields.len();
        let mut scratch = Vec::new();
        let names: Option<Vec<String>> = (0..header.wanted)
            .map(|column| {
                let name = header.content(header.field(0, column), &mut scratch);
                String::from_utf8(name.to_vec()).ok()
            })
            .collect();
        let names = names.ok_or_else(|| scanner.malformed("a column's name is not UTF-8".to_owned()))?;
        scanner.layout.columns = names.len();
        scanner.rows = 0;
        Ok((scanner, names, header.text))
    }

    /// Names the columns by the number of fields of the first row, which is not taken. A file without rows has
    /// `columns_if_empty`; one of line ends alone has one column of empty values otherwise.
    fn count_columns(&mut self, columns_if_empty: Option<usize>) -> Result<Vec<String>> {
        let mut first = Records::default();
        let found = self.next_record(&mut first)?;
        // What was passed over is still in the buffer, which begins anew only when it is filled.
        self.at -= first.text.len();
        self.rows = 0;
        let is_blank = !first.text.is_empty();
        let columns = found.or(columns_if_empty).or(is_blank.then_some(1));
        self.layout.columns = columns.ok_or_else(|| self.malformed("there is no row".to_owned()))?;
        Ok((0..self.layout.columns).map(positional_name).collect())
    }

    /// Names the columns whose fields are kept from now on, ascending and each once; without it all are.
    pub(crate) fn want(&mut self, columns: &[usize]) {
        self.layout.wanted = Some(columns.to_owned());
    }

    /// Reads rows until there are `rows_max` of them, or they have `bytes_max` bytes, or [`BATCH_FIELDS_MAX`] fields are
    /// kept. At the end of the file `records` has no rows, but maybe a text of line ends.
    ///
    /// # Errors
    /// `Malformed` with the row; `Io`.
    pub(crate) fn next_batch(&mut self, records: &mut Records, rows_max: usize, bytes_max: usize) -> Result<bool> {
        records.clear(self.layout.wanted.as_ref().map_or(self.layout.columns, Vec::len));
        while records.rows < rows_max && records.text.len() < bytes_max && records.fields.len() < BATCH_FIELDS_MAX {
            let Some(found) = self.next_record(records)? else { break };
            if found != self.layout.columns {
                return Err(self.wrong_width(&found.to_string()));
            }
            records.rows += 1;
        }
        Ok(records.rows != 0)
    }

    /// The reader, for what it knows meanwhile.
    pub(crate) fn reader(&self) -> &R {
        &self.reader
    }

    /// The reader, for what it knows in the end.
    pub(crate) fn into_reader(self) -> R {
        self.reader
    }

    /// Appends one record to `records` and says how many fields it has; `None` at the end of the file.
    fn next_record(&mut self, records: &mut Records) -> Result<Option<usize>> {
        loop {
            let kept = records.fields.len();
            let base = records.text.len();
            let input = &self.buffer[self.at..];
            let starts = records.starts.len();
            let mut fields = Fields {
                layout: &self.layout,
                base,
                found: 0,
                next: 0,
                kept: &mut records.fields,
                starts: &mut records.starts,
            };
            match scan(input, self.ended, &mut fields) {
                Scanned::Record(len, found) => {
                    records.text.extend_from_slice(&input[..len]);
                    self.at += len;
                    self.rows += 1;
                    return Ok(Some(found));
                }
                Scanned::Tail(len) => {
                    records.text.extend_from_slice(&input[..len]);
                    self.at += len;
                    return Ok(None);
                }
                Scanned::Malformed(rule) => {
                    self.rows += 1;
                    return Err(self.malformed(rule.to_owned()));
                }
                Scanned::TooMany => {
                    self.rows += 1;
                    let found = self.layout.fields_max() + 1;
                    return Err(self.wrong_width(&format!("at least {found}")));
                }
                Scanned::NeedMore if input.len() > self.layout.record_len_max() => {
                    self.rows += 1;
                    let len_max = self.layout.record_len_max();
                    let rule = format!("a record of more than {len_max} bytes; is a quotation mark not closed?");
                    return Err(self.malformed(rule));
                }
                Scanned::NeedMore => {
                    records.fields.truncate(kept);
                    records.starts.truncate(starts);
                    self.fill()?;
                }
            }
        }
    }

    /// Reads more, at least as much as is waiting, so that a record of n bytes is scanned in 2 n steps at most; but not much
    /// more than the longest record has.
    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        let wanted = READ_LEN.max(before.min(self.layout.record_len_max().saturating_sub(before) + READ_LEN));
        self.buffer.reserve_exact(wanted);
        self.buffer.resize(before + wanted, 0);
        let mut len = before;
        while len < self.buffer.len() {
            match self.reader.read(&mut self.buffer[len..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TableError::io(&self.path, "read", error)),
            }
        }
        self.buffer.truncate(len);
        Ok(())
    }

    fn wrong_width(&self, found: &str) -> TableError {
        self.malformed(match (self.layout.columns, self.layout.dialect.header) {
            (0, _) => format!("{found} columns, and at most {COLUMNS_MAX} are read"),
            (1, Header::Present) => format!("{found} fields, and the header has 1 name"),
            (columns, Header::Present) => format!("{found} fields, and the header has {columns} names"),
            (columns, Header::Absent { .. }) => format!("{found} fields, and the first row has {columns}"),
        })
    }

    fn malformed(&self, rule: String) -> TableError {
        let row = if self.layout.is_header() { 0 } else { self.rows };
        TableError::Malformed { file: self.path.clone(), row, rule }
    }
}

/// Takes a record's fields as they are found, and keeps those of the wanted columns.
struct Fields<'a> {
    layout: &'a Layout,
    /// Where the record will begin in the batch's text.
    base: usize,
    found: usize,
    next: usize,
    kept: &'a mut Vec<Field>,
    starts: &'a mut Vec<u32>,
}

impl Fields<'_> {
    fn push(&mut self, span: Range<usize>, quoted: bool) -> std::result::Result<(), Scanned> {
        if self.found == self.layout.fields_max() {
            return Err(Scanned::TooMany);
        }
        let field = Field::new(self.base + span.start..self.base + span.end, quoted);
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
        return if ended { Scanned::Tail(at) } else { Scanned::NeedMore };
    }
    loop {
        at = match scan_field(input, at, ended, fields) {
            Ok(at) => at,
            Err(scanned) => return scanned,
        };
        let record = |len| Scanned::Record(len, fields.found);
        match input.get(at) {
            None => return record(at),
            Some(byte) if *byte == delimiter => at += 1,
            Some(b'\r') => match input.get(at + 1) {
                None if !ended => return Scanned::NeedMore,
                Some(b'\n') => return record(at + 2),
                _ => return record(at + 1),
            },
            Some(b'\n') => return record(at + 1),
            Some(_) => return Scanned::Malformed("text follows a closing quotation mark"),
        }
    }
}

/// Scans the field that begins at `at`. Returns where it ends: at a delimiter, a line end or the end of the file.
fn scan_field(input: &[u8], at: usize, ended: bool, fields: &mut Fields<'_>) -> std::result::Result<usize, Scanned> {
    let delimiter = fields.layout.dialect.delimiter;
    let find = |from: usize, wanted: &dyn Fn(u8) -> bool| {
        input.get(from..)?.iter().position(|byte| wanted(*byte)).map(|found| from + found)
    };
    if input.get(at) != Some(&b'"') {
        let end = match find(at, &|byte| byte == delimiter || is_line_end(byte)) {
            Some(end) => end,
            None if ended => input.len(),
            None => return Err(Scanned::NeedMore),
        };
        fields.push(at..end, false)?;
        return Ok(end);
    }
    let mut from = at + 1;
    loop {
        let Some(mark) = find(from, &|byte| byte == b'"') else {
            return Err(if ended { Scanned::Malformed("a quoted field is not closed") } else { Scanned::NeedMore });
        };
        match input.get(mark + 1) {
            Some(b'"') => from = mark + 2,
            None if !ended => return Err(Scanned::NeedMore),
            _ => {
                fields.push(at + 1..mark, true)?;
                return Ok(mark + 1);
            }
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(buffer.len()).min(self.0.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    type Rows = Vec<Vec<String>>;

    /// All records of a text, and the raw text that came out.
    fn read(text: &[u8], drop_len: usize, rows_max: usize) -> Result<(Vec<String>, Rows, Vec<u8>)> {
        let (mut scanner, names, mut raw) =
            Scanner::open(Drops(text, drop_len), Path::new("t.csv"), Dialect::with_header(b','))?;
        let (mut records, mut rows, mut scratch) = (Records::default(), Vec::new(), Vec::new());
        loop {
            let more = scanner.next_batch(&mut records, rows_max, usize::MAX)?;
            raw.extend_from_slice(&records.text);
            if !more {
                return Ok((names, rows, raw));
            }
            for row in 0..records.rows {
                let fields = (0..names.len()).map(|column| {
                    let content = records.content(records.field(row, column), &mut scratch);
                    String::from_utf8(content.to_vec()).unwrap()
                });
                rows.push(fields.collect());
            }
        }
    }

    fn rows(text: &str) -> Rows {
        read(text.as_bytes(), usize::MAX, 2).unwrap().1
    }

    #[test]
    fn fields_are_those_of_rfc_4180() {
        assert_eq!(rows("a,b\n1,2\r\n3,4"), [["1", "2"], ["3", "4"]]);
        assert_eq!(rows("a,b\n\"x,y\",\"say \"\"hi\"\"\"\n"), [["x,y", "say \"hi\""]]);
        assert_eq!(rows("a,b\n\"line\nbreak\",\n,\"\"\n"), [["line\nbreak", ""], ["", ""]]);
        assert_eq!(rows("a,b\nin\"side,2\n\n\r\n3,4\n\n"), [["in\"side", "2"], ["3", "4"]]);
        assert_eq!(rows("a\n1\n\n2\n"), [["1"], [""], ["2"]], "in one column a blank line is an empty value");
        assert_eq!(read(b"\xef\xbb\xbf\"n\",m\r1,2\r", usize::MAX, 9).unwrap().0, ["n", "m"]);
    }

    #[test]
    fn only_wanted_fields_are_kept() {
        let text = "a,b,c,d\n1,\"2\"\"x\",3,4\n5,6,,8\n";
        let (mut scanner, _, _) =
            Scanner::open(text.as_bytes(), Path::new("t.csv"), Dialect::with_header(b',')).unwrap();
        scanner.want(&[1, 3]);
        let (mut records, mut scratch) = (Records::default(), Vec::new());
        assert!(scanner.next_batch(&mut records, 9, usize::MAX).unwrap());
        assert_eq!(records.fields.len(), 4);
        assert_eq!(records.content(records.field(0, 0), &mut scratch), b"2\"x");
        assert_eq!(records.content(records.field(1, 1), &mut scratch), b"8");
    }

    /// Fields beyond the columns are not even looked at, and a header has a limit of its own.
    #[test]
    fn records_are_given_up_early() {
        let commas = |count: usize| ",".repeat(count);
        let refused = |text: &str| match Scanner::open(text.as_bytes(), Path::new("t.csv"), Dialect::with_header(b','))
        {
            Err(TableError::Malformed { row: 0, rule, .. }) => rule,
            other => panic!("{:?}", other.map(|(_, names, _)| names.len())),
        };
        assert!(refused(&commas(COLUMNS_MAX)).contains("65537 columns, and at most 65536"));
        assert!(refused(&"x".repeat(HEADER_LEN_MAX + READ_LEN + 1)).contains("more than 16777216 bytes"));
        let text = commas(COLUMNS_MAX - 1);
        let widest = Scanner::open(text.as_bytes(), Path::new("t.csv"), Dialect::with_header(b',')).unwrap();
        assert_eq!(widest.1.len(), COLUMNS_MAX);

        let text = format!("a,b\n1{}", commas(1 << 20));
        let (mut scanner, _, _) =
            Scanner::open(text.as_bytes(), Path::new("t.csv"), Dialect::with_header(b',')).unwrap();
        let mut records = Records::default();
        match scanner.next_batch(&mut records, 9, usize::MAX) {
            Err(TableError::Malformed { row: 1, rule, .. }) => assert!(rule.contains("at least 3 fields"), "{rule}"),
            other => panic!("{other:?}"),
        }
        assert!(records.fields.capacity() < 64, "{}", records.fields.capacity());
    }

    #[test]
    fn batches_end_by_the_number_of_fields_that_are_kept() {
        let text = format!("{}\n", "a,".repeat(999) + "a").repeat(BATCH_FIELDS_MAX / 1000 + 100);
        let (mut scanner, names, _) =
            Scanner::open(text.as_bytes(), Path::new("t.csv"), Dialect::with_header(b',')).unwrap();
        let mut records = Records::default();
        assert!(scanner.next_batch(&mut records, usize::MAX, usize::MAX).unwrap());
        assert!(records.fields.len() < BATCH_FIELDS_MAX + names.len(), "{}", records.fields.len());
    }

    #[test]
    fn other_formats_are_told_by_their_start() {
        for (text, words) in [
            (&b"\xff\xfea\0,\0b\0\n\0"[..], "UTF-16"),
            (b"\xfe\xff\0a\0,\0b", "UTF-16"),
            (b"PAR1....", "Parquet"),
            (b"PK\x03\x04....", "ZIP"),
        ] {
            match Scanner::open(text, Path::new("t.csv"), Dialect::with_header(b',')).map(|_| ()) {
                Err(TableError::Malformed { row: 0, rule, .. }) => assert!(rule.contains(words), "{rule}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn malformed_records_are_named_by_row() {
        for (text, row, words) in [
            ("", 0, "no header"),
            ("\n\n", 0, "no header"),
            ("a,b\n1,2\n3\n", 2, "1 fields, and the header has 2"),
            ("a,b\n1,2,3\n", 1, "at least 3 fields, and the header has 2 names"),
            ("a,b\n1,2\n3,\"4\n", 2, "not closed"),
            ("a,b\n\"1\"x,2\n", 1, "follows a closing"),
        ] {
            match read(text.as_bytes(), usize::MAX, 9) {
                Err(TableError::Malformed { row: found, rule, .. }) => {
                    assert_eq!(found, row, "{text:?}");
                    assert!(rule.contains(words), "{text:?}: {rule}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
        assert!(matches!(read(b"\xff,b\n", 9, 9), Err(TableError::Malformed { row: 0, .. })));
    }

    proptest::proptest! {
        #[test]
        fn every_byte_comes_out_again(
            text in "(a,\"b\"\n|a,b\r\n)([a\"]{0,3}[,]?[\",\n\r]{0,2}x?){0,30}",
            drop_len in 1usize..40,
            rows_max in 1usize..5,
        ) {
            let whole = read(text.as_bytes(), usize::MAX, usize::MAX);
            match (whole, read(text.as_bytes(), drop_len, rows_max)) {
                (Ok((names, rows, raw)), Ok(pieces)) => {
                    proptest::prop_assert_eq!(raw.as_slice(), text.as_bytes());
                    proptest::prop_assert_eq!(pieces, (names, rows, raw));
                }
                (Err(whole), Err(pieces)) => proptest::prop_assert_eq!(whole.to_string(), pieces.to_string()),
                (whole, pieces) => panic!("{whole:?} {pieces:?}"),
            }
        }
    }
}
