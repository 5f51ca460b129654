//! Parquet becomes CSV: each value as its text, a null as an empty field, an empty text as two quotation marks. Lines end
//! with LF, and fields have quotation marks where they need them.

use std::collections::HashMap;

use arrow_array::{Array, BinaryArray};
use arrow_schema::DataType;
use ciphermill_contract::Direction;

use super::CONVERTED_PAGES_MAX;
use super::rendered::{Form, NoText};
use crate::column::{NULL_ROW, Scratch};
use crate::compress::CsvOutput;
use crate::csv_scan::{self, HEADER_LEN_MAX, RECORD_LEN_MAX};
use crate::dialect::Dialect;
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::parquet::{ColumnRows, GroupReader, ParquetInput, is_binary};
use crate::row_id::RowIds;
use crate::table::{Tally, Target, Watch};

/// Values that are read at a time, of all columns together.
const BATCH_VALUES_MAX: usize = 1 << 20;

/// A Parquet table on its way to CSV.
pub(crate) struct Conversion<'a, 'm> {
    pub(crate) input: &'a ParquetInput,
    pub(crate) targets: &'a mut [Target<'m>],
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
    /// Its place among the targets.
    target: Option<usize>,
    /// The form of restored values.
    restored: Form,
}

impl Conversion<'_, '_> {
    /// Sends all rows through the workers to the output.
    ///
    /// # Errors
    /// `UnsupportedType` for columns without a form in CSV, before anything is written; everything that can be wrong with a
    /// value; `Malformed` for rows that could not be read again; `Interrupted`; `Parquet`; `Io`.
    pub(crate) fn run(mut self, output: &mut CsvOutput) -> Result<Tally> {
        let columns = self.columns()?;
        let mut line = Line { delimiter: self.dialect.delimiter, text: Vec::new(), is_first: true };
        if self.dialect.has_header() {
            columns.iter().enumerate().for_each(|(at, column)| line.push(at, Some(column.name.as_bytes()), &[]));
            line.end();
            if line.text.len() > HEADER_LEN_MAX {
                return Err(self.malformed(0, format!("a header of more than {HEADER_LEN_MAX} bytes")));
            }
            output.write(&line.text)?;
        }
        let (mut tally, mut scratch) = (Tally::default(), Scratch::default());
        let step_max = (BATCH_VALUES_MAX / columns.len().max(1)).clamp(1, BATCH_ROWS_MAX);
        for group in 0..self.input.group_count() {
            let mut reader = self.input.group_reader(group, CONVERTED_PAGES_MAX)?;
            while let Some(rows) = self.next(&mut reader, step_max)? {
                let count = rows.first().map_or(0, ColumnRows::len);
                let mut start = 0;
                while start < count {
                    self.watch.check()?;
                    let taken = fitting(&rows, start, count);
                    line.text.clear();
                    let first_row = tally.rows + 1;
                    self.piece(&columns, &rows, start, taken, first_row, &mut scratch, &mut line)?;
                    output.write(&line.text)?;
                    tally.add(taken, line.text.len());
                    start += taken;
                }
                self.watch.advance(tally.rows, Some(self.input.row_count()), 0);
            }
        }
        Ok(tally)
    }

    fn next(&self, reader: &mut GroupReader, step_max: usize) -> Result<Option<Vec<ColumnRows>>> {
        reader.next(step_max).map_err(|source| self.input.error(source))
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
            Ok(Column { name: field.name().clone(), form, target, restored })
        });
        fields.collect()
    }

    /// Appends some rows to `line`.
    #[allow(clippy::too_many_arguments, reason = "what a batch is, and where it goes")]
    fn piece(
        &mut self,
        columns: &[Column],
        rows: &[ColumnRows],
        start: usize,
        count: usize,
        first_row: u64,
        scratch: &mut Scratch,
        line: &mut Line,
    ) -> Result<()> {
        let mut texts: Vec<BinaryArray> = Vec::with_capacity(columns.len());
        for (column, rows) in columns.iter().zip(rows) {
            let restores = column.target.is_some_and(|at| self.targets[at].worker.direction() == Direction::Decrypt);
            let cells = rows.stretch(start, count);
            let value = |row: usize| (!restores && !cells.is_null(row)).then(|| cells.value(row));
            let found = column.form.texts(count, value);
            texts.push(found.map_err(|problem| self.no_text(column, problem, first_row))?);
        }
        self.process(rows, start, count, &texts, first_row, scratch)?;
        let mut in_clear: Vec<Option<BinaryArray>> = vec![None; columns.len()];
        for column in columns {
            let Some((at, target)) = column.target.map(|at| (at, &self.targets[at])) else { continue };
            let value = |row: usize| {
                let slot = target.worker.rows()[row];
                (slot != NULL_ROW).then(|| target.worker.outputs().at(slot as usize))
            };
            let form = match target.worker.direction() {
                Direction::Decrypt => &column.restored,
                Direction::Encrypt if is_binary(target.worker.method()) => &Form::Base64Url,
                Direction::Encrypt => &Form::Text,
            };
            let found = form.texts(count, value);
            let found = found.map_err(|problem| self.no_text(column, problem, first_row))?;
            let index = self.targets[at].index;
            match target.worker.direction() {
                Direction::Encrypt => {
                    // An empty text is a null to the worker, and stays what it is.
                    let protected = with_empty_texts(&found, &texts[index]);
                    in_clear[index] = Some(std::mem::replace(&mut texts[index], protected));
                }
                Direction::Decrypt => texts[index] = found,
            }
        }
        for row in 0..count {
            let before = line.text.len();
            for (at, texts) in texts.iter().enumerate() {
                let value = texts.is_valid(row).then(|| texts.value(row));
                // A protected field has the quotation marks that it will need when it is restored.
                let in_clear = in_clear[at].as_ref().filter(|clear| clear.is_valid(row));
                line.push(at, value, in_clear.map_or(&[], |clear| clear.value(row)));
            }
            line.end();
            if line.text.len() - before > RECORD_LEN_MAX {
                let rule = format!("a record of more than {RECORD_LEN_MAX} bytes");
                return Err(self.malformed(first_row + row as u64, rule));
            }
        }
        Ok(())
    }

    /// Runs the workers over the cells of a file that is restored, or over the texts of one that is protected.
    fn process(
        &mut self,
        rows: &[ColumnRows],
        start: usize,
        count: usize,
        texts: &[BinaryArray],
        first_row: u64,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for target in self.targets.iter_mut() {
            if target.worker.direction() == Direction::Encrypt {
                let values = without_empty_texts(&texts[target.index]);
                let ids = target.row_id.map(|index| without_empty_texts(&texts[index]));
                let ids = ids.as_ref().map(RowIds::of_texts);
                target.worker.process(scratch, &Cells::new(&values), ids.as_ref(), first_row)?;
            } else {
                let cells = rows[target.index].stretch(start, count);
                let ids = target.row_id.and_then(|index| rows[index].row_ids(start, count));
                target.worker.process(scratch, &cells, ids.as_ref(), first_row)?;
            }
        }
        Ok(())
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

    fn malformed(&self, row: u64, rule: String) -> TableError {
        TableError::Malformed { file: self.input.path().to_owned(), row, rule }
    }
}

/// How many rows from `start` have a batch's bytes together; one at least.
fn fitting(rows: &[ColumnRows], start: usize, count: usize) -> usize {
    let mut len = 0usize;
    let fits = |row: &usize| {
        len = rows.iter().fold(len, |len, rows| len.saturating_add(rows.value_len(*row)));
        len <= BATCH_BYTES_MAX
    };
    (start..count).take_while(fits).count().max(1)
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
        let is_plain = !value.is_empty() && !value.iter().any(special) && !in_clear.iter().any(special);
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
