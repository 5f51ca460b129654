//! Reads CSV records without losing a byte: where fields lie and whether they are quoted, beside the raw text.
//!
//! RFC 4180, and what is found in practice: lines end with LF, CRLF or CR; blank lines are passed over (in a file of one
//! column they are empty values); a quotation mark within an unquoted field is itself.

use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Result, TableError};

/// Bytes that one record may have: 64 MiB.
pub const RECORD_LEN_MAX: usize = 64 << 20;

const READ_LEN: usize = 256 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A field's content within a batch's text, without its quotation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) span: Range<usize>,
    pub(crate) quoted: bool,
}

/// Records one after another, byte for byte as in the file.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) text: Vec<u8>,
    fields: Vec<Field>,
    columns: usize,
    pub(crate) rows: usize,
}

impl Records {
    /// The field of a row and column.
    #[inline]
    pub(crate) fn field(&self, row: usize, column: usize) -> &Field {
        &self.fields[row * self.columns + column]
    }

    /// Where a row begins. What stands before the next one's beginning, its line end and blank lines, belongs to it.
    pub(crate) fn row_start(&self, row: usize) -> usize {
        if row == 0 {
            return 0;
        }
        let first = self.fields.get(row * self.columns);
        first.map_or(self.text.len(), |field| field.span.start - usize::from(field.quoted))
    }

    /// What the field says: its text without the doubling of quotation marks, which is undone in `scratch`.
    #[inline]
    pub(crate) fn content<'a>(&'a self, field: &Field, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let raw = &self.text[field.span.clone()];
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

    fn clear(&mut self, columns: usize) {
        self.text.clear();
        self.fields.clear();
        self.columns = columns;
        self.rows = 0;
    }
}

/// Reads records in batches.
pub(crate) struct Scanner<R> {
    reader: R,
    path: PathBuf,
    delimiter: u8,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    columns: usize,
    rows: u64,
    bytes: u64,
}

/// What a piece of input begins with.
#[derive(Debug, PartialEq, Eq)]
enum Scanned {
    /// A record of so many bytes, its line end included.
    Record(usize),
    /// Nothing but so many bytes of line ends up to the end of the file.
    Tail(usize),
    /// More input is needed to tell.
    NeedMore,
    /// No CSV.
    Malformed(&'static str),
}

impl<R: Read> Scanner<R> {
    /// Reads the header. Returns the scanner, the names, and the header as it lies in the file.
    ///
    /// # Errors
    /// `Malformed` with row zero when there is no header or its names are not UTF-8; `Io`.
    pub(crate) fn open(reader: R, path: &Path, delimiter: u8) -> Result<(Scanner<R>, Vec<String>, Vec<u8>)> {
        let mut scanner = Scanner {
            reader,
            path: path.to_owned(),
            delimiter,
            buffer: Vec::new(),
            at: 0,
            ended: false,
            columns: 0,
            rows: 0,
            bytes: 0,
        };
        let mut header = Records::default();
        // The mark is no part of the first name, and a quotation mark after it begins a field.
        while !scanner.ended && scanner.buffer.len() < BYTE_ORDER_MARK.len() {
            scanner.fill()?;
        }
        if scanner.buffer.starts_with(BYTE_ORDER_MARK) {
            header.text.extend_from_slice(BYTE_ORDER_MARK);
            scanner.at = BYTE_ORDER_MARK.len();
        }
        if !scanner.next_record(&mut header)? {
            return Err(scanner.malformed("there is no header".to_owned()));
        }
        header.columns = header.fields.len();
        let mut scratch = Vec::new();
        let names: Option<Vec<String>> = (0..header.columns)
            .map(|column| {
                let name = header.content(header.field(0, column), &mut scratch);
                String::from_utf8(name.to_vec()).ok()
            })
            .collect();
        let names = names.ok_or_else(|| scanner.malformed("a column's name is not UTF-8".to_owned()))?;
        scanner.columns = names.len();
        scanner.rows = 0;
        scanner.bytes = header.text.len() as u64;
        Ok((scanner, names, header.text))
    }

    /// Reads rows until there are `rows_max` of them or they have `bytes_max` bytes. At the end of the file `records` has
    /// no rows, but maybe a text of line ends.
    ///
    /// # Errors
    /// `Malformed` with the row; `Io`.
    pub(crate) fn next_batch(&mut self, records: &mut Records, rows_max: usize, bytes_max: usize) -> Result<bool> {
        records.clear(self.columns);
        while records.rows < rows_max && records.text.len() < bytes_max {
            let before = records.fields.len();
            if !self.next_record(records)? {
                break;
            }
            let found = records.fields.len() - before;
            if found != self.columns {
                let names = if self.columns == 1 { "name" } else { "names" };
                return Err(self.malformed(format!("{found} fields, and the header has {} {names}", self.columns)));
            }
            records.rows += 1;
        }
        self.bytes += records.text.len() as u64;
        Ok(records.rows != 0)
    }

    /// Bytes of the file that were given out so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The reader, for what it knows.
    pub(crate) fn into_reader(self) -> R {
        self.reader
    }

    /// Appends one record to `records`; `false` at the end of the file.
    fn next_record(&mut self, records: &mut Records) -> Result<bool> {
        loop {
            let fields = records.fields.len();
            let input = &self.buffer[self.at..];
            match scan(input, self.ended, self.delimiter, self.columns == 1, &mut records.fields) {
                Scanned::Record(len) => {
                    let base = records.text.len();
                    for field in &mut records.fields[fields..] {
                        field.span = field.span.start + base..field.span.end + base;
                    }
                    records.text.extend_from_slice(&input[..len]);
                    self.at += len;
                    self.rows += 1;
                    return Ok(true);
                }
                Scanned::Tail(len) => {
                    records.text.extend_from_slice(&input[..len]);
                    self.at += len;
                    return Ok(false);
                }
                Scanned::Malformed(rule) => {
                    self.rows += 1;
                    return Err(self.malformed(rule.to_owned()));
                }
                Scanned::NeedMore if input.len() > RECORD_LEN_MAX => {
                    self.rows += 1;
                    return Err(self.malformed(format!("a record of more than {RECORD_LEN_MAX} bytes")));
                }
                Scanned::NeedMore => {
                    records.fields.truncate(fields);
                    self.fill()?;
                }
            }
        }
    }

    /// Reads more, at least as much as is waiting, so that a long record is scanned few times.
    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + READ_LEN.max(before), 0);
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

    fn malformed(&self, rule: String) -> TableError {
        // While the header is read there are no columns yet.
        let row = if self.columns == 0 { 0 } else { self.rows };
        TableError::Malformed { file: self.path.clone(), row, rule }
    }
}

/// Scans one record, with the blank lines before it unless a blank line is a record.
fn scan(input: &[u8], ended: bool, delimiter: u8, blank_is_record: bool, fields: &mut Vec<Field>) -> Scanned {
    let mut at = 0;
    if !blank_is_record {
        at = input.iter().position(|byte| !is_line_end(*byte)).unwrap_or(input.len());
    }
    if at == input.len() {
        return if ended { Scanned::Tail(at) } else { Scanned::NeedMore };
    }
    loop {
        at = match scan_field(input, at, ended, delimiter, fields) {
            Ok(at) => at,
            Err(scanned) => return scanned,
        };
        match input.get(at) {
            None => return Scanned::Record(at),
            Some(byte) if *byte == delimiter => at += 1,
            Some(b'\r') => match input.get(at + 1) {
                None if !ended => return Scanned::NeedMore,
                Some(b'\n') => return Scanned::Record(at + 2),
                _ => return Scanned::Record(at + 1),
            },
            Some(b'\n') => return Scanned::Record(at + 1),
            Some(_) => return Scanned::Malformed("text follows a closing quotation mark"),
        }
    }
}

/// Scans the field that begins at `at`. Returns where it ends: at a delimiter, a line end or the end of the file.
fn scan_field(
    input: &[u8],
    at: usize,
    ended: bool,
    delimiter: u8,
    fields: &mut Vec<Field>,
) -> std::result::Result<usize, Scanned> {
    let find = |from: usize, wanted: &dyn Fn(u8) -> bool| {
        input.get(from..)?.iter().position(|byte| wanted(*byte)).map(|found| from + found)
    };
    if input.get(at) != Some(&b'"') {
        let end = match find(at, &|byte| byte == delimiter || is_line_end(byte)) {
            Some(end) => end,
            None if ended => input.len(),
            None => return Err(Scanned::NeedMore),
        };
        fields.push(Field { span: at..end, quoted: false });
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
                fields.push(Field { span: at + 1..mark, quoted: true });
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
        let (mut scanner, names, mut raw) = Scanner::open(Drops(text, drop_len), Path::new("t.csv"), b',')?;
        let (mut records, mut rows, mut scratch) = (Records::default(), Vec::new(), Vec::new());
        loop {
            let more = scanner.next_batch(&mut records, rows_max, usize::MAX)?;
            raw.extend_from_slice(&records.text);
            if !more {
                assert_eq!(scanner.bytes(), raw.len() as u64);
                return Ok((names, rows, raw));
            }
            for row in 0..records.rows {
                let fields = (0..scanner.columns).map(|column| {
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
    fn malformed_records_are_named_by_row() {
        for (text, row, words) in [
            ("", 0, "no header"),
            ("\n\n", 0, "no header"),
            ("a,b\n1,2\n3\n", 2, "1 fields, and the header has 2"),
            ("a,b\n1,2,3\n", 1, "3 fields"),
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
