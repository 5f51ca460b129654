//! CSV becomes Parquet: every column is text, an empty field is null, and one of two quotation marks an empty text.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use ciphermill_contract::Direction;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::{CONVERTED_CHUNKS_MAX, CONVERTED_COLUMNS_MAX};
use crate::column::{NULL_ROW, Scratch};
use crate::compress::CsvInput;
use crate::csv_io;
use crate::csv_scan::{Records, Scanner};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::manifest::ParquetStorage;
use crate::output::OutputFile;
use crate::parquet::{BeforeFooter, Codec, FooterPairs, is_binary, text_element};
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};

/// Bytes of a row group while it is in memory, encoded or not yet.
const GROUP_LEN_MAX: usize = 96 << 20;

/// Checks that columns can be told from each other by their names, as Parquet's have to be, and are not too many.
///
/// # Errors
/// `ColumnAmbiguous`; `Malformed`.
pub(crate) fn check_names(file: &Path, names: &[String]) -> Result<()> {
    if names.len() > CONVERTED_COLUMNS_MAX {
        let rule = format!("{} columns, and at most {CONVERTED_COLUMNS_MAX} become Parquet", names.len());
        return Err(TableError::Malformed { file: file.to_owned(), row: 0, rule });
    }
    let mut known = HashSet::new();
    match names.iter().find(|name| !known.insert(name.as_str())) {
        Some(name) => Err(TableError::ColumnAmbiguous { file: file.to_owned(), column: name.clone() }),
        None => Ok(()),
    }
}

/// How a text column is stored that comes from a CSV file.
pub(crate) fn storage(name: &str) -> ParquetStorage {
    ParquetStorage {
        schema_element: hex::encode(text_element(name)),
        codec: Codec::usual().to_string(),
        dictionary: true,
        encoding: "PLAIN".to_owned(),
        page_version: 1,
        statistics: true,
        bloom_filter: false,
        column_index: true,
        offset_index: true,
    }
}

/// A CSV table on its way to Parquet.
pub(crate) struct Conversion<'a, 'm> {
    /// The CSV file.
    pub(crate) input: &'a Path,
    pub(crate) names: &'a [String],
    pub(crate) targets: &'a mut [Target<'m>],
    /// The codec of the columns that are protected; without it the usual one, and none for `random`.
    pub(crate) codec: Option<Codec>,
    pub(crate) watch: &'a Watch<'a>,
}

impl Conversion<'_, '_> {
    /// Sends all rows through the workers to the output, and ends that with the pairs that `pairs` gives.
    ///
    /// # Errors
    /// Everything that can be wrong with a row; `NotText` for fields that are not UTF-8; `Interrupted`; `Parquet`; `Io`.
    pub(crate) fn run<R: Read>(
        mut self,
        scanner: &mut Scanner<CsvInput<R>>,
        output: OutputFile,
        pairs: FooterPairs<'_>,
    ) -> Result<(Tally, OutputFile)> {
        let path = output.path().to_owned();
        let on_write = |source: ParquetError| TableError::parquet(&path, source);
        let schema = Arc::new(Schema::new(self.fields()));
        let options = ArrowWriterOptions::new().with_properties(self.properties()).with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(output, Arc::clone(&schema), options).map_err(on_write)?;
        let (mut tally, mut scratch, mut records) = (Tally::default(), Scratch::default(), Records::default());
        let mut groups = 1;
        loop {
            self.watch.check()?;
            let first_row = tally.rows + 1;
            if !scanner.next_batch(&mut records, BATCH_ROWS_MAX, BATCH_BYTES_MAX)? {
                break;
            }
            let columns = self.columns(&records, &mut scratch, first_row)?;
            let rows = RecordBatch::try_new(Arc::clone(&schema), columns);
            let rows =
                rows.map_err(|source| TableError::Arrow { path: path.clone(), column: String::new(), source })?;
            if writer.memory_size().max(writer.in_progress_size()) > GROUP_LEN_MAX {
                groups += 1;
                writer.flush().map_err(on_write)?;
            }
            if groups * self.names.len() > CONVERTED_CHUNKS_MAX {
                let problem =
                    format!("its footer would have more than {CONVERTED_CHUNKS_MAX} column chunks; keep it as CSV");
                return Err(on_write(ParquetError::General(problem)));
            }
            writer.write(&rows).map_err(on_write)?;
            tally.add(records.rows, records.text.len());
            self.watch.advance(tally.rows, None, scanner.reader().consumed());
        }
        writer.flush().map_err(on_write)?;
        writer.sync().map_err(|source| TableError::io(&path, "write", source))?;
        let before = BeforeFooter { written: writer.inner().so_far(), tally: &tally, targets: self.targets };
        for (key, value) in pairs(&before)? {
            if value.is_some() {
                writer.append_key_value_metadata(KeyValue { key, value });
            }
        }
        let output = writer.into_inner().map_err(on_write)?;
        Ok((tally, output))
    }

    fn fields(&self) -> Vec<Field> {
        let fields = self.names.iter().enumerate().map(|(index, name)| {
            let target = self.targets.iter().find(|target| target.index == index);
            let data_type = if target.is_some_and(holds_bytes) { DataType::Binary } else { DataType::Utf8 };
            Field::new(name, data_type, true)
        });
        fields.collect()
    }

    fn properties(&self) -> WriterProperties {
        let usual = Codec::usual().compression();
        let mut properties = WriterProperties::builder().set_compression(usual);
        for target in self.targets.iter().filter(|target| target.worker.direction() == Direction::Encrypt) {
            let path = ColumnPath::from(self.names[target.index].clone());
            let is_random = *target.worker.method() == Method::Random;
            let codec = match self.codec {
                Some(codec) => codec.compression(),
                None if is_random => Compression::UNCOMPRESSED,
                None => usual,
            };
            properties = properties.set_column_compression(path.clone(), codec);
            if is_random {
                properties = properties.set_column_dictionary_enabled(path.clone(), false);
            }
            if holds_bytes(target) {
                properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        properties.build()
    }

    /// The columns of a batch, protected or restored.
    fn columns(&mut self, records: &Records, scratch: &mut Scratch, first_row: u64) -> Result<Vec<ArrayRef>> {
        for target in self.targets.iter_mut() {
            let array = csv_io::read_column(records, target, target.index, first_row)?;
            if target.worker.direction() == Direction::Encrypt
                && let Some(row) = array.iter().position(|value| value.is_some_and(|value| !is_utf8(value)))
            {
                return Err(TableError::NotText(target.worker.place_of(first_row + row as u64)));
            }
            let row_ids = target.row_id.map(|index| csv_io::read_texts(records, index));
            let row_ids = row_ids.as_ref().map(RowIds::of_texts);
            target.worker.process(scratch, &Cells::new(&array), row_ids.as_ref(), first_row)?;
        }
        let mut places = vec![None; self.names.len()];
        self.targets.iter().enumerate().for_each(|(at, target)| places[target.index] = Some(at));
        let columns = places.iter().enumerate().map(|(index, target)| match target.map(|at| &self.targets[at]) {
            Some(target) if holds_bytes(target) => Ok(bytes(target, records.rows)),
            target => self.texts(records, index, target, first_row),
        });
        columns.collect()
    }

    /// A column of texts: restored, protected by `ff1`, or as they are.
    fn texts(&self, records: &Records, index: usize, target: Option<&Target<'_>>, first_row: u64) -> Result<ArrayRef> {
        let mut texts = StringBuilder::with_capacity(records.rows, records.rows * 16);
        let mut scratch = Vec::new();
        for row in 0..records.rows {
            let field = records.field(row, index);
            let slot = target.map(|target| target.worker.rows()[row]);
            let is_protected = target.is_some_and(|target| target.worker.direction() == Direction::Encrypt);
            let value = match (slot, target) {
                (Some(slot), Some(target)) if slot != NULL_ROW => Some(target.worker.outputs().at(slot as usize)),
                _ if is_protected => None,
                _ => Some(records.content(field, &mut scratch)).filter(|value| field.quoted || !value.is_empty()),
            };
            let Some(value) = value else {
                texts.append_null();
                continue;
            };
            let place = || Place::new(self.input, first_row + row as u64, &self.names[index]);
            texts.append_value(std::str::from_utf8(value).map_err(|_| TableError::NotText(place()))?);
        }
        Ok(Arc::new(texts.finish()))
    }
}

fn is_utf8(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok()
}

/// Whether a target's output is byte strings.
fn holds_bytes(target: &Target<'_>) -> bool {
    target.worker.direction() == Direction::Encrypt && is_binary(target.worker.method())
}

fn bytes(target: &Target<'_>, rows: usize) -> ArrayRef {
    let mut values = BinaryBuilder::with_capacity(rows, rows * 32);
    for slot in target.worker.rows() {
        values.append_option((*slot != NULL_ROW).then(|| target.worker.outputs().at(*slot as usize)));
    }
    Arc::new(values.finish())
}
