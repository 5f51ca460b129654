//! Reads CSV files in blocks of whole records, whose fields any thread can find then ([`Records::scan`]).
//!
//! Where a block ends is told by its quotation marks and its last line end alone: at 2 GB/s where all texts are in quotation
//! marks, at more than ten where none are, against 0.2 GB/s for the rest of the work on one core. That is done in the blocks'
//! order, so that no border has to be guessed: whether a line end stands within quotation marks depends on everything before it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use memchr::{memchr, memchr_iter, memchr3, memchr3_iter, memrchr2};

use crate::compress::CsvInput;
use crate::csv_scan::{BLOCK_LEN, BYTE_ORDER_MARK, Block, FOREIGN, Flaw, Layout, Next, Records};
use crate::dialect::{Dialect, Header, positional_name};
use crate::error::{Result, TableError};

/// Bytes at the start of a file that tell what it is.
const START_LEN: usize = 8;

/// A block whose fields any thread may find, once, and all may look at then.
pub(crate) struct SharedBlock {
    /// As it is read; gone once its fields are looked for.
    block: Mutex<Option<(Block, Records)>>,
    records: OnceLock<std::result::Result<Records, Flaw>>,
    /// Bytes of its text, and as many rows as it may have.
    pub(crate) len: usize,
    pub(crate) rows_max: usize,
    /// Bytes of the file that were read so far.
    pub(crate) consumed: u64,
}

impl SharedBlock {
    /// As many fields as it may have that are not empty: each has bytes beside those that end fields.
    pub(crate) fn values_max(&self, delimiter: u8) -> usize {
        let block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        let text = block.as_ref().map_or(&[][..], |(block, _)| &block.text);
        let (mut values, mut next) = (0, 0);
        for at in memchr3_iter(delimiter, b'\n', b'\r', text).chain([text.len()]) {
            values += usize::from(at > next);
            next = at + 1;
        }
        values
    }

    /// Finds its fields.
    pub(crate) fn scan(&self, layout: &Layout) {
        let taken = self.block.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((block, mut records)) = taken {
            let scanned = records.scan(block, layout);
            // Nobody else has had the block.
            let _ = self.records.set(scanned.map(|()| records));
        }
    }

    /// Its records, once they have been found and if nothing is wrong with them.
    pub(crate) fn records(&self) -> Option<&Records> {
        self.records.get()?.as_ref().ok()
    }

    /// # Errors
    /// `Malformed`, where something is; so many rows of the file are before it.
    pub(crate) fn check(&self, path: &Path, rows_before: u64) -> Result<()> {
        match self.records.get() {
            Some(Err(flaw)) => Err(flaw.of(path, rows_before)),
            _ => Ok(()),
        }
    }

    /// The records, to be used again.
    pub(crate) fn into_records(self) -> Option<Records> {
        self.records.into_inner()?.ok()
    }
}

impl Flaw {
    /// As an error of a file of which so many rows are before the block.
    fn of(&self, path: &Path, rows_before: u64) -> TableError {
        TableError::Malformed { file: path.to_owned(), row: rows_before + self.row, rule: self.rule.clone() }
    }
}

/// Reads a file block by block.
pub(crate) struct Blocks<R> {
    reader: R,
    path: PathBuf,
    layout: Layout,
    /// What was read, and where in it that begins which was not given out yet: where a record does.
    ahead: Vec<u8>,
    at: usize,
    ended: bool,
    block_len: usize,
}

impl<R: Read> Blocks<R> {
    /// Reads the header. Returns the reader of blocks, the names, and what stands before the first row as it lies in the file:
    /// the header, or of a file without one nothing but a byte order mark.
    ///
    /// # Errors
    /// `Malformed`, with row zero when there is no header or its names are not UTF-8; `Io`.
    pub(crate) fn open(reader: R, path: &Path, dialect: Dialect) -> Result<(Blocks<R>, Vec<String>, Vec<u8>)> {
        Blocks::open_with(reader, path, dialect, BLOCK_LEN)
    }

    /// The same with blocks of another length.
    fn open_with(
        reader: R,
        path: &Path,
        dialect: Dialect,
        block_len: usize,
    ) -> Result<(Blocks<R>, Vec<String>, Vec<u8>)> {
        let layout = Layout { dialect, columns: 0, wanted: None };
        let mut blocks =
            Blocks { reader, path: path.to_owned(), layout, ahead: Vec::new(), at: 0, ended: false, block_len };
        blocks.fill(block_len.max(START_LEN))?;
        if let Some((_, rule)) = FOREIGN.iter().find(|(start, _)| blocks.ahead.starts_with(start)) {
            return Err(blocks.malformed(0, (*rule).to_owned()));
        }
        // The mark is no part of the first name, and a quotation mark after it begins a field.
        let mut before = Vec::new();
        if blocks.ahead.starts_with(BYTE_ORDER_MARK) {
            before.extend(blocks.ahead.drain(..BYTE_ORDER_MARK.len()));
        }
        let is_headed = dialect.has_header();
        let (mut first, next) = blocks.first_record(u64::from(!is_headed))?;
        let names = match (dialect.header, next) {
            (Header::Absent { columns }, next) => {
                // A file without rows has as many columns as is said; one of line ends alone one of empty values otherwise.
                let is_blank = matches!(next, Next::Tail(len) if len > 0);
                let found = if let Next::Record(_, found) = next { Some(found) } else { None };
                let count = found.or(columns).or(is_blank.then_some(1));
                let count = count.ok_or_else(|| blocks.malformed(0, "there is no row".to_owned()))?;
                (0..count).map(positional_name).collect()
            }
            (Header::Present, Next::Record(len, _)) => {
                before.extend_from_slice(&blocks.ahead[..len]);
                first.text = blocks.ahead.drain(..len).collect();
                let names: Option<Vec<String>> = first.names();
                names.ok_or_else(|| blocks.malformed(0, "a column's name is not UTF-8".to_owned()))?
            }
            (Header::Present, _) => return Err(blocks.malformed(0, "there is no header".to_owned())),
        };
        blocks.layout.columns = names.len();
        Ok((blocks, names, before))
    }

    /// Finds the first record of what is ahead, which stays there. Errors name it as this row.
    fn first_record(&mut self, row: u64) -> Result<(Records, Next)> {
        loop {
            let mut records = Records::default();
            match records.next(&self.ahead, 0, self.ended, &self.layout) {
                Ok(Next::NeedMore) => self.fill(self.more())?,
                Ok(next) => return Ok((records, next)),
                Err(rule) => return Err(self.malformed(row, rule)),
            }
        }
    }

    /// Names the columns whose fields are kept, ascending and each once; without it all are.
    pub(crate) fn want(&mut self, columns: &[usize]) {
        self.layout.wanted = Some(columns.to_owned());
    }

    /// The file's path, as errors name it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the next records, which so many rows are before; false at the end of the file.
    ///
    /// # Errors
    /// `Malformed` with the row; `Io`.
    pub(crate) fn next_records(&mut self, records: &mut Records, rows_before: u64) -> Result<bool> {
        let Some(block) = self.next(std::mem::take(&mut records.text))? else { return Ok(false) };
        let scanned = records.scan(block, &self.layout);
        scanned.map_err(|flaw| flaw.of(&self.path, rows_before))?;
        Ok(true)
    }

    /// How the blocks' fields are told apart.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The next block, in memory that held another; nothing at the end of the file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn next(&mut self, mut spare: Vec<u8>) -> Result<Option<Block>> {
        self.fill(self.block_len)?;
        let end = loop {
            let text = &self.ahead[self.at..];
            if text.is_empty() {
                return Ok(None);
            }
            if self.ended && text.len() <= self.block_len {
                break Some(text.len());
            }
            // Of what is longer only the first record is taken, so that a block has few rows beside it.
            let delimiter = self.layout.dialect.delimiter;
            let found =
                last_end(&text[..text.len().min(self.block_len)], delimiter).or_else(|| first_end(text, delimiter));
            match found {
                None if self.ended => break Some(text.len()),
                None if text.len() > self.layout.record_len_max() => break None,
                None => self.fill(self.more())?,
                found => break found,
            }
        };
        let text = &self.ahead[self.at..];
        let (block, rest) = text.split_at(end.unwrap_or(text.len()));
        spare.clear();
        if self.at == 0 && rest.len() < block.len() {
            spare.extend_from_slice(rest);
            std::mem::swap(&mut self.ahead, &mut spare);
            spare.truncate(spare.len() - self.ahead.len());
        } else {
            spare.extend_from_slice(block);
            self.at += spare.len();
        }
        Ok(Some(Block { text: spare, is_whole: end.is_some() }))
    }

    /// The reader, for what it knows in the end.
    pub(crate) fn into_reader(self) -> R {
        self.reader
    }

    /// How much is to be ahead where what is there is no whole record: twice as much, so that a record of n bytes is looked at in
    /// 2 n steps at most, but not much more than the longest one has.
    fn more(&self) -> usize {
        let len = self.ahead.len() - self.at;
        (2 * len).min(self.layout.record_len_max() + self.block_len).max(len + 1)
    }

    /// Reads until so many bytes are ahead, or up to the end of the file.
    fn fill(&mut self, wanted: usize) -> Result<()> {
        let missing = wanted.saturating_sub(self.ahead.len() - self.at);
        if missing == 0 || self.ended {
            return Ok(());
        }
        self.ahead.drain(..std::mem::take(&mut self.at));
        self.ahead.reserve_exact(missing);
        let read = self.reader.by_ref().take(missing as u64).read_to_end(&mut self.ahead);
        self.ended = read.map_err(|source| TableError::io(&self.path, "read", source))? < missing;
        Ok(())
    }

    /// The error that a record of the file is none.
    fn malformed(&self, row: u64, rule: String) -> TableError {
        TableError::Malformed { file: self.path.clone(), row, rule }
    }
}

impl<R: Read> Blocks<CsvInput<R>> {
    /// The next block, for any thread, in the memory of other records.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn next_shared(&mut self, mut records: Records) -> Result<Option<SharedBlock>> {
        let Some(block) = self.next(std::mem::take(&mut records.text))? else { return Ok(None) };
        let count = |byte| memchr_iter(byte, &block.text).count();
        // CRLF counts once; a file that mixes all three ways has at most twice as many.
        let lines = count(b'\n').max(count(b'\r'));
        Ok(Some(SharedBlock {
            len: block.text.len(),
            rows_max: lines + 1,
            consumed: self.reader.consumed(),
            block: Mutex::new(Some((block, records))),
            records: OnceLock::new(),
        }))
    }
}

/// Behind the last line end that ends a record, in a text that begins with one; `None` if there is none. Of a text that is no
/// CSV it is anywhere.
fn last_end(text: &[u8], delimiter: u8) -> Option<usize> {
    let (mut end, mut at, mut plain_from) = (None, 0, 0);
    while let Some(mark) = memchr(b'"', &text[at..]).map(|found| at + found) {
        let opens = mark == 0 || text[mark - 1] == delimiter || matches!(text[mark - 1], b'\n' | b'\r');
        at = mark + 1;
        if opens {
            end = last_line_end(text, plain_from, mark).or(end);
            let Some(close) = closing(text, at) else { return end };
            at = close + 1;
            plain_from = at;
        }
    }
    last_line_end(text, plain_from, text.len()).or(end)
}

/// Behind the line end of the first record of a text that begins with one; `None` if its end is not there. Of a text that is no
/// CSV it is anywhere.
fn first_end(text: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr3(b'"', b'\n', b'\r', text.get(at..)?)?;
        at = match text[found] {
            b'"' if found == 0 || text[found - 1] == delimiter || matches!(text[found - 1], b'\n' | b'\r') => {
                closing(text, found + 1)? + 1
            }
            b'"' => found + 1,
            b'\n' => return Some(found + 1),
            // Half of a CRLF, maybe.
            _ if text.get(found + 1)? == &b'\n' => return Some(found + 2),
            _ => return Some(found + 1),
        };
    }
}

/// The quotation mark that closes a field whose text begins at `from`; `None` if what follows would tell whether one does.
fn closing(text: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let mark = from + memchr(b'"', text.get(from..)?)?;
        match text.get(mark + 1)? {
            b'"' => from = mark + 2,
            _ => return Some(mark),
        }
    }
}

/// Behind the last line end in a stretch of a text.
fn last_line_end(text: &[u8], from: usize, mut to: usize) -> Option<usize> {
    loop {
        let at = from + memrchr2(b'\n', b'\r', &text[from..to])?;
        // One CR alone may turn out to be half of a CRLF.
        if text[at] == b'\n' || at + 1 < text.len() {
            return Some(at + 1);
        }
        to = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv_scan::{HEADER_LEN_MAX, RECORD_LEN_MAX};
    use crate::dialect::COLUMNS_MAX;

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

    type Opened<'t> = (Blocks<&'t [u8]>, Vec<String>, Vec<u8>);

    fn open(text: &[u8]) -> Result<Opened<'_>> {
        Blocks::open(text, Path::new("t.csv"), Dialect::with_header(b','))
    }

    /// All records of a text, and the raw text that came out.
    fn read(text: &[u8], drop_len: usize, block_len: usize) -> Result<(Vec<String>, Rows, Vec<u8>)> {
        read_as(Dialect::with_header(b','), text, drop_len, block_len)
    }

    fn read_as(
        dialect: Dialect,
        text: &[u8],
        drop_len: usize,
        block_len: usize,
    ) -> Result<(Vec<String>, Rows, Vec<u8>)> {
        let path = Path::new("t.csv");
        let (mut blocks, names, mut raw) = Blocks::open_with(Drops(text, drop_len), path, dialect, block_len)?;
        let (mut records, mut rows, mut scratch) = (Records::default(), Vec::new(), Vec::new());
        loop {
            if !blocks.next_records(&mut records, rows.len() as u64)? {
                return Ok((names, rows, raw));
            }
            raw.extend_from_slice(&records.text);
            assert!(records.text.len() <= block_len || records.rows <= 1, "{} rows", records.rows);
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
        let (mut blocks, _, _) = open(text.as_bytes()).unwrap();
        blocks.want(&[1, 3]);
        let (mut records, mut scratch) = (Records::default(), Vec::new());
        assert!(blocks.next_records(&mut records, 0).unwrap());
        assert_eq!(records.kept(), 4);
        assert_eq!(records.content(records.field(0, 0), &mut scratch), b"2\"x");
        assert_eq!(records.content(records.field(1, 1), &mut scratch), b"8");
    }

    /// Fields beyond the columns are not even looked at, and a header has a limit of its own.
    #[test]
    fn records_are_given_up_early() {
        let commas = |count: usize| ",".repeat(count);
        let refused = |text: &str| match open(text.as_bytes()) {
            Err(TableError::Malformed { row: 0, rule, .. }) => rule,
            other => panic!("{:?}", other.map(|(_, names, _)| names.len())),
        };
        assert!(refused(&commas(COLUMNS_MAX)).contains("65537 columns, and at most 65536"));
        assert!(refused(&"x".repeat(HEADER_LEN_MAX + BLOCK_LEN + 1)).contains("more than 16777216 bytes"));
        let text = commas(COLUMNS_MAX - 1);
        let widest = open(text.as_bytes()).unwrap();
        assert_eq!(widest.1.len(), COLUMNS_MAX);

        let text = format!("a,b\n1{}", commas(1 << 20));
        let (mut blocks, _, _) = open(text.as_bytes()).unwrap();
        let mut records = Records::default();
        match blocks.next_records(&mut records, 0) {
            Err(TableError::Malformed { row: 1, rule, .. }) => assert!(rule.contains("at least 3 fields"), "{rule}"),
            other => panic!("{other:?}"),
        }
        assert!(records.kept() < 64, "{}", records.kept());
    }

    #[test]
    fn blocks_end_where_records_do() {
        for (text, end) in [
            ("1,2\n3,4", Some(4)),
            ("1,2\r\n3", Some(5)),
            ("1,2\r", None),
            ("1,2\n3,4\r", Some(4)),
            ("1,2\r3,4\r", Some(4)),
            ("\"a\nb\",2\n", Some(8)),
            ("\"a\nb\",2", None),
            ("1,2\n\"a\nb", Some(4)),
            ("1,2\n\"a\nb\"", Some(4)),
            ("1,2\n\"a\"\"\nb\"\n", Some(12)),
            ("in\"side\nx,\"y\n\",in\"side\n", Some(23)),
            ("", None),
        ] {
            assert_eq!(last_end(text.as_bytes(), b','), end, "{text:?}");
        }
    }

    /// A record that is longer than a block is read whole; one that is longer than records may be is an error.
    #[test]
    fn long_records() {
        let text = format!("a,b\n1,\"{}\"\n3,4\n", "x\n".repeat(1000));
        let (_, rows, raw) = read(text.as_bytes(), 7, 16).unwrap();
        assert_eq!((rows.len(), rows[0][1].len(), raw.as_slice()), (2, 2000, text.as_bytes()));
        for text in [
            format!("a,b\n1,2\n3,\"{}", "x\n".repeat(RECORD_LEN_MAX)),
            "a\n1\n".to_owned() + &"x".repeat(2 * RECORD_LEN_MAX),
        ] {
            match read(text.as_bytes(), usize::MAX, BLOCK_LEN) {
                Err(TableError::Malformed { row: 2, rule, .. }) => {
                    assert!(rule.contains("more than 67108864 bytes"), "{rule}")
                }
                other => panic!("{:?}", other.map(|(names, ..)| names)),
            }
        }
    }

    #[test]
    fn other_formats_are_told_by_their_start() {
        for (text, words) in [
            (&b"\xff\xfea\0,\0b\0\n\0"[..], "UTF-16"),
            (b"\xfe\xff\0a\0,\0b", "UTF-16"),
            (b"PAR1....", "Parquet"),
            (b"PK\x03\x04....", "ZIP"),
        ] {
            match open(text).map(|_| ()) {
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
        /// Of tables of one column and of two, with a header and without, and with every way to end a line.
        #[test]
        fn every_byte_comes_out_again(
            text in "(\u{feff})?(a,\"b\"\n|a,b\r\n|a\r|\"a\"\n)([a\"]{0,3}[,;]?[\",\n\r]{0,2}x?){0,30}",
            semicolons: bool,
            headed: bool,
            drop_len in 1usize..40,
            block_len in 1usize..60,
        ) {
            let delimiter = if semicolons { b';' } else { b',' };
            let header = if headed { Header::Present } else { Header::Absent { columns: None } };
            let dialect = Dialect { delimiter, header };
            let whole = read_as(dialect, text.as_bytes(), usize::MAX, BLOCK_LEN);
            match (whole, read_as(dialect, text.as_bytes(), drop_len, block_len)) {
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
