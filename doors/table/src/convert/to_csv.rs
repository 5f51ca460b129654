//! Parquet becomes CSV: each value as its text, a null as an empty field, an empty text as two quotation marks. Lines end
//! with LF, and fields have quotation marks where they need them.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::{Array, BinaryArray};
use arrow_schema::DataType;
use ciphermill_contract::Direction;

use super::CONVERTED_PAGES_MAX;
use super::rendered::{Form, NoText};
use crate::column::{NULL_ROW, Scratch};
use crate::compress::CsvOutput;
use crate::csv_io::{SPARE_LEN_MAX, STRANDS, blocks_ahead, lock, taken};
use crate::csv_scan::{self, HEADER_LEN_MAX, RECORD_LEN_MAX};
use crate::dialect::Dialect;
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::parquet::{ColumnRows, GroupReader, ParquetInput, is_binary};
use crate::pipeline::{self, Asked, Drain, Emit, Fed, Feed, Plan, Stage, Work};
use crate::row_id::RowIds;
use crate::table::{Tally, Target, Watch};

/// Values that are read at a time, of all columns together.
const BATCH_VALUES_MAX: usize = 1 << 20;

/// A Parquet table on its way to CSV.
pub(crate) struct Conversion<'a> {
    pub(crate) input: &'a ParquetInput,
    pub(crate) targets: &'a mut [Target],
    /// The types of the targets' values in clear.
    pub(crate) target_types: &'a [DataType],
    /// Columns that hold tokens, which look as they do in CSV files.
    pub(crate) tokens: &'a [String],
    pub(crate) dialect: Dialect,
    pub(crate) watch: &'a Watch<'a>,
}

/// What becomes of a column.
struct Column {
    name: String,
    /// The form of what the file holds, for columns that are not restored.
    form: Form,
    /// The form of restored values.
    restored: Form,
}

impl<'a> Conversion<'a> {
    /// Sends all rows through the workers to the output.
    ///
    /// # Errors
    /// `UnsupportedType` for columns without a form in CSV, before anything is written; everything that can be wrong with a
    /// value; `Malformed` for rows that could not be read again; `Interrupted`; `Parquet`; `Io`.
    pub(crate) fn run(self, output: &mut CsvOutput) -> Result<Tally> {
        let columns = self.columns()?;
        let Conversion { input, targets, dialect, watch, .. } = self;
        if dialect.has_header() {
            let mut line = Line { delimiter: dialect.delimiter, text: Vec::new(), is_first: true };
            columns.iter().enumerate().for_each(|(at, column)| line.push(at, Some(column.name.as_bytes()), &[]));
            line.end();
            if line.text.len() > HEADER_LEN_MAX {
                return Err(malformed(input, 0, format!("a header of more than {HEADER_LEN_MAX} bytes")));
            }
            output.write(&line.text)?;
        }
        let mut workers: Vec<Option<&mut Target>> = columns.iter().map(|_| None).collect();
        targets.iter_mut().for_each(|target| {
            let index = target.index;
            workers[index] = Some(target);
        });
        let len = columns.len().div_ceil(STRANDS * watch.threads).max(1);
        let strands = workers.chunks_mut(len).enumerate();
        let strands = strands.map(|(at, targets)| Strand { first: at * len, targets });
        let mut strands: Vec<Strand<'_, '_>> = strands.collect();
        let step_max = (BATCH_VALUES_MAX / columns.len().max(1)).clamp(1, BATCH_ROWS_MAX);
        let mut feed = Feeding {
            input,
            step_max,
            strands: strands.len(),
            columns: columns.len(),
            group: 0,
            reader: None,
            charged: HashSet::new(),
            pages: 0,
            rows: None,
            rows_before: 0,
        };
        let spare = Mutex::default();
        let work = Converting { input, columns: &columns, dialect, spare: &spare };
        let mut drain = Writing { output, tally: Tally::default(), spare: &spare };
        let plan = Plan { threads: watch.threads, items_ahead: blocks_ahead(watch.threads), cancel: watch.cancel };
        pipeline::run(&mut feed, &work, &mut strands, &mut drain, &plan, &mut |drain| {
            watch.advance(drain.tally.rows, Some(input.row_count()), 0);
        })?;
        Ok(drain.tally)
    }

    fn columns(&self) -> Result<Vec<Column>> {
        let places: HashMap<usize, usize> =
            self.targets.iter().enumerate().map(|(at, target)| (target.index, at)).collect();
        let fields = self.input.schema().fields().iter().enumerate().map(|(index, field)| {
            let target = places.get(&index).copied();
            let unsupported = |data_type: &DataType, rule| TableError::UnsupportedType {
                file: self.input.path().to_owned(),
                column: field.name().clone(),
                data_type: data_type.to_string(),
                rule,
            };
            let restores = target.filter(|at| self.targets[*at].worker.direction() == Direction::Decrypt);
            let form_of = |data_type| Form::of(data_type).map_err(|rule| unsupported(data_type, rule));
            let restored = form_of(restores.map_or(&DataType::Utf8, |at| &self.target_types[at]))?;
            self.input.check_flat(index).map_err(|rule| unsupported(field.data_type(), rule))?;
            let is_token = self.tokens.contains(field.name());
            let form = if is_token { Form::Base64Url } else { form_of(field.data_type())? };
            Ok(Column { name: field.name().clone(), form, restored })
        });
        fields.collect()
    }
}

/// Reads rows, in pieces of a batch's bytes.
struct Feeding<'a> {
    input: &'a ParquetInput,
    step_max: usize,
    strands: usize,
    columns: usize,
    /// The row group that comes next.
    group: usize,
    reader: Option<GroupReader>,
    /// Where the pages of the rows before lie, which were paid for, and bytes of those of the rows at hand, which were not.
    charged: HashSet<usize>,
    pages: usize,
    /// Rows that were read, and where those begin that were not given out yet.
    rows: Option<(Arc<Vec<ColumnRows>>, usize)>,
    /// Rows of the file before those.
    rows_before: u64,
}

/// How many times the bytes of a piece are in memory: as texts, as values, as what they become, and as lines.
const PIECE_COST: usize = 6;

/// Bytes that a field takes beside those of its values.
const FIELD_COST: usize = 64;

impl Feeding<'_> {
    /// Has the first piece of some rows pay for the pages that those before did not hold.
    fn charge(&mut self, rows: &[ColumnRows]) {
        let pages: HashMap<usize, usize> =
            rows.iter().flat_map(ColumnRows::pages).map(|page| (page.as_ptr().addr(), page.len())).collect();
        self.pages = pages.iter().filter(|(place, _)| !self.charged.contains(*place)).map(|(_, len)| len).sum();
        self.charged = pages.into_keys().collect();
    }

    /// The rows that are read next; nothing at the end.
    fn next_rows(&mut self) -> Result<Option<(Arc<Vec<ColumnRows>>, usize)>> {
        loop {
            if let Some(rows) = self.rows.take() {
                return Ok(Some(rows));
            }
            if let Some(reader) = &mut self.reader {
                let rows = reader.next(self.step_max).map_err(|source| self.input.error(source))?;
                self.charge(rows.as_deref().unwrap_or_default());
                self.rows = rows.map(|rows| (Arc::new(rows), 0));
            }
            if self.rows.is_none() {
                if self.group == self.input.group_count() {
                    return Ok(None);
                }
                // The pages of one group are let go of before those of the next are read.
                self.reader = None;
                self.reader = Some(self.input.group_reader(self.group, CONVERTED_PAGES_MAX)?);
                self.group += 1;
            }
        }
    }
}

impl Feed for Feeding<'_> {
    type Item = Piece;

    fn next(&mut self) -> Result<Option<Fed<Piece>>> {
        let Some((rows, start)) = self.next_rows()? else { return Ok(None) };
        let len = rows.first().map_or(0, ColumnRows::len);
        let (count, bytes) = fitting(&rows, start, len);
        if start + count < len {
            self.rows = Some((Arc::clone(&rows), start + count));
        }
        let first_row = self.rows_before + 1;
        self.rows_before += count as u64;
        let cost = PIECE_COST * bytes + FIELD_COST * count * self.columns;
        let cost = cost.saturating_add(std::mem::take(&mut self.pages));
        let texts = (0..self.columns).map(|_| OnceLock::new()).collect();
        let piece = Piece { rows, start, count, first_row, texts, lines: OnceLock::new() };
        Ok(Some(Fed { item: piece, strands: 0..self.strands, cost }))
    }
}

/// Some rows of all columns.
struct Piece {
    rows: Arc<Vec<ColumnRows>>,
    start: usize,
    count: usize,
    first_row: u64,
    /// What each column's values become.
    texts: Vec<OnceLock<Texts>>,
    lines: OnceLock<Vec<u8>>,
}

/// A column of fields.
struct Texts {
    values: BinaryArray,
    /// Those of a column that is protected, in clear: a protected field has the quotation marks that it will need when it is
    /// restored.
    in_clear: Option<BinaryArray>,
}

/// The targets among some of the columns.
struct Strand<'s, 't> {
    /// The place of the first column.
    first: usize,
    targets: &'s mut [Option<&'t mut Target>],
}

/// Makes lines of rows.
struct Converting<'a> {
    input: &'a ParquetInput,
    columns: &'a [Column],
    dialect: Dialect,
    /// Memory of lines that were written.
    spare: &'a Mutex<Vec<Vec<u8>>>,
}

impl<'s, 't> Work<Piece, Strand<'s, 't>> for Converting<'_> {
    type Piece = Infallible;

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Work, Stage::Finish]
    }

    fn work(
        &self,
        piece: &Piece,
        strand: &mut Strand<'s, 't>,
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        _: Emit<'_, Infallible>,
    ) -> Result<()> {
        let columns = self.columns.iter().enumerate().skip(strand.first).zip(strand.targets.iter_mut());
        for ((index, column), target) in columns {
            asked.check()?;
            let texts = match target.as_deref_mut() {
                None => Texts { values: self.texts(piece, index)?, in_clear: None },
                Some(target) => self.changed(piece, column, target, scratch)?,
            };
            // Each column has a strand, and a piece comes to it once.
            let _ = piece.texts[index].set(texts);
        }
        Ok(())
    }

    fn finish(&self, piece: &Piece) -> Result<()> {
        let columns: Option<Vec<&Texts>> = piece.texts.iter().map(OnceLock::get).collect();
        // A strand has failed.
        let Some(columns) = columns else { return Ok(()) };
        let is_first = piece.first_row == 1 && !self.dialect.has_header();
        let mut line = Line { delimiter: self.dialect.delimiter, text: taken(self.spare), is_first };
        line.text.clear();
        for row in 0..piece.count {
            let before = line.text.len();
            for (at, texts) in columns.iter().enumerate() {
                let value = texts.values.is_valid(row).then(|| texts.values.value(row));
                let in_clear = texts.in_clear.as_ref().filter(|clear| clear.is_valid(row));
                line.push(at, value, in_clear.map_or(&[], |clear| clear.value(row)));
            }
            line.end();
            if line.text.len() - before > RECORD_LEN_MAX {
                let rule = format!("a record of more than {RECORD_LEN_MAX} bytes");
                return Err(malformed(self.input, piece.first_row + row as u64, rule));
            }
        }
        // Called once.
        let _ = piece.lines.set(line.text);
        Ok(())
    }
}

impl Converting<'_> {
    /// The texts of what the file holds.
    fn texts(&self, piece: &Piece, index: usize) -> Result<BinaryArray> {
        let (column, cells) = (&self.columns[index], piece.rows[index].stretch(piece.start, piece.count));
        let texts = column.form.texts(piece.count, |row| (!cells.is_null(row)).then(|| cells.value(row)));
        texts.map_err(|problem| self.no_text(column, problem, piece.first_row))
    }

    /// The texts of a column that is protected or restored.
    fn changed(&self, piece: &Piece, column: &Column, target: &mut Target, scratch: &mut Scratch) -> Result<Texts> {
        let (start, count, first_row) = (piece.start, piece.count, piece.first_row);
        let mut in_clear = None;
        if target.worker.direction() == Direction::Encrypt {
            let texts = self.texts(piece, target.index)?;
            let values = without_empty_texts(&texts);
            let ids = target.row_id.map(|index| self.texts(piece, index)).transpose()?;
            let ids = ids.as_ref().map(without_empty_texts);
            let ids = ids.as_ref().map(RowIds::of_texts);
            target.worker.process(scratch, &Cells::new(&values), ids.as_ref(), first_row)?;
            in_clear = Some(texts);
        } else {
            let cells = piece.rows[target.index].stretch(start, count);
            let ids = target.row_id.and_then(|index| piece.rows[index].row_ids(start, count));
            target.worker.process(scratch, &cells, ids.as_ref(), first_row)?;
        }
        let value = |row: usize| {
            let slot = target.worker.rows()[row];
            (slot != NULL_ROW).then(|| target.worker.outputs().at(slot as usize))
        };
        let form = match target.worker.direction() {
            Direction::Decrypt => &column.restored,
            Direction::Encrypt if is_binary(target.worker.method()) => &Form::Base64Url,
            Direction::Encrypt => &Form::Text,
        };
        let values = form.texts(count, value).map_err(|problem| self.no_text(column, problem, first_row))?;
        // An empty text is a null to the worker, and stays what it is.
        let values = match &in_clear {
            Some(texts) => with_empty_texts(&values, texts),
            None => values,
        };
        Ok(Texts { values, in_clear })
    }

    fn no_text(&self, column: &Column, problem: NoText, first_row: u64) -> TableError {
        let place = |row: usize| Place::new(self.input.path(), first_row + row as u64, &column.name);
        match problem {
            NoText::NotUtf8(row) => TableError::NotText(place(row)),
            NoText::NotOfType(row) => {
                TableError::NotOfType { place: place(row), data_type: "that has a form in CSV".to_owned() }
            }
        }
    }
}

/// Writes lines.
struct Writing<'a> {
    output: &'a mut CsvOutput,
    tally: Tally,
    spare: &'a Mutex<Vec<Vec<u8>>>,
}

impl Drain<Piece, Infallible> for Writing<'_> {
    fn begin(&mut self, _: &Piece) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, piece: Infallible) -> io::Result<()> {
        match piece {}
    }

    fn refused(&self, error: io::Error) -> TableError {
        TableError::io(self.output.path(), "write", error)
    }

    fn end(&mut self, piece: Arc<Piece>) -> Result<()> {
        // No stage has failed.
        let Some(lines) = piece.lines.get() else { return Ok(()) };
        self.output.write(lines)?;
        self.tally.add(piece.count, lines.len());
        let lines = Arc::into_inner(piece).and_then(|piece| piece.lines.into_inner());
        lock(self.spare).extend(lines.filter(|lines| lines.capacity() <= 2 * SPARE_LEN_MAX));
        Ok(())
    }
}

fn malformed(input: &ParquetInput, row: u64, rule: String) -> TableError {
    TableError::Malformed { file: input.path().to_owned(), row, rule }
}

/// How many rows from `start` have a batch's bytes together, one at least, and how many bytes these have.
fn fitting(rows: &[ColumnRows], start: usize, end: usize) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0usize);
    for row in start..end {
        let len = rows.iter().fold(0usize, |len, rows| len.saturating_add(rows.value_len(row)));
        if count > 0 && bytes.saturating_add(len) > BATCH_BYTES_MAX {
            break;
        }
        count += 1;
        bytes = bytes.saturating_add(len);
    }
    (count, bytes)
}

fn without_empty_texts(texts: &BinaryArray) -> BinaryArray {
    texts.iter().map(|value| value.filter(|value| !value.is_empty())).collect()
}

fn with_empty_texts(protected: &BinaryArray, before: &BinaryArray) -> BinaryArray {
    let values = protected.iter().zip(before.iter());
    values.map(|(protected, before)| protected.or(before.filter(|before| before.is_empty()))).collect()
}

/// Lines of a CSV file.
struct Line {
    delimiter: u8,
    text: Vec<u8>,
    /// Whether the next field is the file's first.
    is_first: bool,
}

impl Line {
    /// Appends a field, the line's `at`-th, with quotation marks if it or the text that it stands for needs them.
    fn push(&mut self, at: usize, value: Option<&[u8]>, in_clear: &[u8]) {
        if at > 0 {
            self.text.push(self.delimiter);
        }
        let is_first = std::mem::take(&mut self.is_first);
        let Some(value) = value else { return };
        let special = |byte: &u8| *byte == self.delimiter || matches!(byte, b'"' | b'\n' | b'\r');
        // Without a way out, so that it becomes vectors: hardly any value has one.
        let has_special = |text: &[u8]| text.iter().fold(false, |found, byte| found | special(byte));
        let is_plain = !value.is_empty() && !has_special(value) && !has_special(in_clear);
        if is_plain && !(is_first && (csv_scan::begins_otherwise(value) || csv_scan::begins_otherwise(in_clear))) {
            self.text.extend_from_slice(value);
            return;
        }
        self.text.push(b'"');
        for byte in value {
            if *byte == b'"' {
                self.text.push(b'"');
            }
            self.text.push(*byte);
        }
        self.text.push(b'"');
    }

    fn end(&mut self) {
        self.text.push(b'\n');
    }
}
