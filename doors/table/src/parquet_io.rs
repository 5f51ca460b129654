//! Parquet tables: row groups are read in bounded batches and written in bounded row groups.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ciphermill_contract::Direction;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use sha2::Sha256;

use crate::column::Scratch;
use crate::decode::{DecodeProblem, build_array};
use crate::encode::Cells;
use crate::error::{Result, TableError};
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::manifest::FOOTER_KEY;
use crate::output::OutputFile;
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::table::{Tally, Target, Watch};

/// Rows of a row group that is written.
const GROUP_ROWS_MAX: usize = 1 << 20;

/// Bytes of a row group that is written, encoded; they are held in memory.
const GROUP_BYTES_MAX: usize = 64 << 20;

/// Rows read at a time where a dictionary hides how long values are.
const BLIND_ROWS_MAX: usize = 1024;

/// A Parquet file whose footer has been read.
pub(crate) struct ParquetInput {
    file: File,
    metadata: ArrowReaderMetadata,
}

impl ParquetInput {
    /// Reads the footer.
    ///
    /// # Errors
    /// `Parquet` when it does not parse.
    pub(crate) fn open(file: File, path: &Path) -> Result<ParquetInput> {
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|source| TableError::parquet(path, source))?;
        // The reader takes for granted that no place or length is negative.
        let is_negative = |chunk: &ColumnChunkMetaData| {
            let places =
                [Some(chunk.data_page_offset()), chunk.dictionary_page_offset(), Some(chunk.compressed_size())];
            places.into_iter().flatten().any(|place| place < 0)
        };
        if metadata.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns).any(is_negative) {
            let problem = "a place or length in the footer is negative".to_owned();
            return Err(TableError::parquet(path, ParquetError::General(problem)));
        }
        Ok(ParquetInput { file, metadata })
    }

    /// Columns and their Arrow types.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The footer's value of a key.
    pub(crate) fn key_value(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Rows that the footer speaks of.
    fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }
}

/// A file to which all rows have been written, but no footer yet.
pub(crate) struct BeforeFooter<'a, 'm> {
    /// The hash and length of what was written so far.
    pub(crate) written: (Sha256, u64),
    pub(crate) tally: &'a Tally,
    pub(crate) targets: &'a [Target<'m>],
}

/// Gives key-value pairs for the footer just before it is written: a value sets or replaces the key's, `None` removes the
/// key.
pub(crate) type FooterPairs<'a> = &'a mut dyn FnMut(&BeforeFooter<'_, '_>) -> Result<Vec<(String, Option<String>)>>;

/// Sends all rows through the workers of `targets`, from the file to the output.
///
/// # Errors
/// Everything that can be wrong with a value; `Interrupted`; `Parquet`; `Io`.
pub(crate) fn transform(
    input: &ParquetInput,
    path: &Path,
    targets: &mut [Target<'_>],
    output: OutputFile,
    watch: &Watch<'_>,
    footer_pairs: FooterPairs<'_>,
) -> Result<(Tally, OutputFile)> {
    let schema = output_schema(input.schema(), targets);
    let properties = writer_properties(input.metadata.metadata(), targets);
    let output_path = output.path().to_owned();
    let on_write = |source| TableError::parquet(&output_path, source);
    let mut writer = ArrowWriter::try_new(output, Arc::clone(&schema), Some(properties)).map_err(on_write)?;
    let mut run = Run { path, schema, targets, scratch: Scratch::default(), tally: Tally::default() };
    let rows_total = input.rows();
    for (index, group) in input.metadata.metadata().row_groups().iter().enumerate() {
        let file = input.file.try_clone().map_err(|source| TableError::io(path, "read", source))?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, input.metadata.clone())
            .with_row_groups(vec![index])
            .with_batch_size(rows_at_a_time(group))
            .build()
            .map_err(|source| TableError::parquet(path, source))?;
        for batch in reader {
            watch.check()?;
            let batch =
                batch.map_err(|source| TableError::Arrow { path: path.to_owned(), column: String::new(), source })?;
            run.split(&batch, &mut |batch| writer.write(&batch).map_err(on_write))?;
            watch.advance(run.tally.rows, Some(rows_total), 0);
        }
    }
    let tally = run.tally;
    if tally.rows != rows_total {
        let problem = format!("{} rows, and its footer speaks of {rows_total}", tally.rows);
        return Err(TableError::Truncated { file: path.to_owned(), problem });
    }
    writer.flush().and_then(|()| writer.sync().map_err(Into::into)).map_err(on_write)?;
    let written = writer.inner().so_far();
    for (key, value) in footer_pairs(&BeforeFooter { written, tally: &tally, targets: run.targets })? {
        if value.is_some() {
            writer.append_key_value_metadata(KeyValue { key, value });
        }
    }
    let output = writer.into_inner().map_err(on_write)?;
    Ok((tally, output))
}

struct Run<'r, 'm> {
    path: &'r Path,
    schema: SchemaRef,
    targets: &'r mut [Target<'m>],
    scratch: Scratch,
    tally: Tally,
}

impl Run<'_, '_> {
    /// Processes a batch in pieces whose values, dictionaries written out, stay within [`BATCH_BYTES_MAX`].
    fn split(&mut self, batch: &RecordBatch, write: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let half = batch.num_rows() / 2;
        let spreads = half != 0
            && self.targets.iter().any(|target| {
                let cells = Cells::new(batch.column(target.index));
                cells.is_some_and(|cells| cells.is_dictionary() && cells.total_len() > BATCH_BYTES_MAX)
            });
        if spreads {
            self.split(&batch.slice(0, half), write)?;
            return self.split(&batch.slice(half, batch.num_rows() - half), write);
        }
        let processed = self.process(batch)?;
        write(processed)
    }

    fn process(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let first_row = self.tally.rows + 1;
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        for target in self.targets.iter_mut() {
            let Some(cells) = Cells::new(batch.column(target.index)) else {
                return Err(target.unsupported(self.path));
            };
            let row_ids = match target.row_id {
                None => None,
                Some(index) => Some(RowIds::new(batch.column(index)).ok_or_else(|| target.unsupported(self.path))?),
            };
            target.worker.process(&mut self.scratch, &cells, row_ids.as_ref(), first_row)?;
            let (rows, outputs) = (target.worker.rows(), target.worker.outputs());
            let built = build_array(target.field.data_type(), rows, outputs);
            columns[target.index] = built.map_err(|problem| decode_error(self.path, target, problem))?;
        }
        self.tally.add(batch.num_rows(), batch.get_array_memory_size());
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|source| TableError::Arrow { path: self.path.to_owned(), column: String::new(), source })
    }
}

fn decode_error(path: &Path, target: &Target<'_>, problem: DecodeProblem) -> TableError {
    match problem {
        DecodeProblem::Value(row) => {
            TableError::NotOfType { place: target.worker.place(row), data_type: target.field.data_type().to_string() }
        }
        DecodeProblem::Arrow(source) => {
            TableError::Arrow { path: path.to_owned(), column: target.field.name().clone(), source }
        }
    }
}

fn output_schema(schema: &Schema, targets: &[Target<'_>]) -> SchemaRef {
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    for target in targets {
        fields[target.index] = Arc::clone(&target.field);
    }
    let mut metadata = schema.metadata().clone();
    metadata.remove(FOOTER_KEY);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Compression and key-value metadata as in the input. Random ciphertexts neither compress nor repeat, so nothing is tried
/// with them.
fn writer_properties(metadata: &ParquetMetaData, targets: &[Target<'_>]) -> WriterProperties {
    let key_values = metadata.file_metadata().key_value_metadata().map(|all| {
        // The writer adds the schema anew, and a manifest comes at the end.
        let is_kept = |pair: &&KeyValue| pair.key != ARROW_SCHEMA_META_KEY && pair.key != FOOTER_KEY;
        all.iter().filter(is_kept).cloned().collect::<Vec<_>>()
    });
    let mut properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
        .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
        .set_key_value_metadata(key_values.filter(|all| !all.is_empty()))
        .set_compression(Compression::SNAPPY);
    for chunk in metadata.row_groups().first().map(RowGroupMetaData::columns).unwrap_or_default() {
        properties = properties.set_column_compression(chunk.column_path().clone(), chunk.compression());
    }
    for target in targets {
        let path = ColumnPath::new(vec![target.field.name().clone()]);
        let is_binary = *target.field.data_type() == DataType::Binary;
        if target.worker.direction() == Direction::Encrypt && is_binary {
            properties = properties.set_column_compression(path.clone(), Compression::UNCOMPRESSED);
        } else {
            properties = properties.set_column_compression(path.clone(), Compression::SNAPPY);
        }
        if target.worker.direction() == Direction::Encrypt && *target.worker.method() == Method::Random {
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    properties.build()
}

/// How many rows of a group are read at a time, so that they have about [`BATCH_BYTES_MAX`] bytes in memory.
fn rows_at_a_time(group: &RowGroupMetaData) -> usize {
    let bytes_of = |bytes: i64| usize::try_from(bytes).unwrap_or(0);
    let rows = bytes_of(group.num_rows()).max(1);
    let mut bytes = 0usize;
    let mut blind = false;
    for chunk in group.columns() {
        let stored = bytes_of(chunk.uncompressed_size());
        let is_bytes = chunk.column_type() == parquet::basic::Type::BYTE_ARRAY;
        blind |=
            is_bytes && chunk.dictionary_page_offset().is_some() && chunk.unencoded_byte_array_data_bytes().is_none();
        bytes = bytes.saturating_add(stored.max(chunk.unencoded_byte_array_data_bytes().map_or(0, bytes_of)));
    }
    let limit = if blind { BLIND_ROWS_MAX } else { BATCH_ROWS_MAX };
    (BATCH_BYTES_MAX / (bytes / rows).max(1)).clamp(1, limit)
}
