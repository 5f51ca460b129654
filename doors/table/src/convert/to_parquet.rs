//! CSV becomes Parquet: every column is text, an empty field is null, and one of two quotation marks an empty text.

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_schema::{DataType, Field, Schema};
use ciphermill_contract::Direction;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::{CONVERTED_CHUNKS_MAX, CONVERTED_COLUMNS_MAX};
use crate::column::{NULL_ROW, Scratch};
use crate::compress::CsvInput;
use crate::csv_blocks::{Blocks, SharedBlock};
use crate::csv_io::{self, STRANDS, blocks_ahead, cost_of};
use crate::csv_scan::{Layout, Records};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::manifest::ParquetStorage;
use crate::output::OutputFile;
use crate::parquet::{BeforeFooter, Codec, FooterPairs, is_binary, text_element};
use crate::pipeline::{self, Asked, Drain, Emit, Fed, Feed, Plan, Stage, Work};
use crate::row_id::RowIds;
use crate::table::{Tally, Target, Watch};

/// Bytes that the rows of a group may take while it is in memory, by an estimate that its text allows: a group ends with the
/// block in which it comes to more.
const GROUP_LEN_MAX: usize = 96 << 20;

/// Bytes that a protected value has more than its text, at most: a nonce, a tag and its length.
const VALUE_COST: usize = 32;

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
pub(crate) struct Conversion<'a> {
    /// The CSV file.
    pub(crate) input: &'a Path,
    pub(crate) names: &'a [String],
    pub(crate) targets: &'a mut [Target],
    /// The codec of the columns that are protected; without it the usual one, and none for ciphertexts that all differ.
    pub(crate) codec: Option<Codec>,
    pub(crate) watch: &'a Watch<'a>,
}

impl Conversion<'_> {
    /// Sends all rows through the workers to the output, and ends that with the pairs that `pairs` gives.
    ///
    /// # Errors
    /// Everything that can be wrong with a row; `NotText` for fields that are not UTF-8; `Interrupted`; `Parquet`; `Io`.
    pub(crate) fn run<R: Read + Send>(
        self,
        blocks: &mut Blocks<CsvInput<R>>,
        output: OutputFile,
        pairs: FooterPairs<'_>,
    ) -> Result<(Tally, OutputFile)> {
        let path = output.path().to_owned();
        let on_write = |source: ParquetError| TableError::parquet(&path, source);
        let schema = Arc::new(Schema::new(self.fields()));
        let options = ArrowWriterOptions::new().with_properties(self.properties()).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(output, Arc::clone(&schema), options).map_err(on_write)?;
        let (writer, groups) = writer.into_serialized_writer().map_err(on_write)?;
        let Conversion { input, names, targets, watch, .. } = self;
        let layout = blocks.layout().clone();
        let work = Converting { input, names, schema: &schema, layout: &layout, output: &path };
        let mut columns: Vec<Column<'_>> = (0..names.len()).map(Column::new).collect();
        targets.iter_mut().for_each(|target| {
            let index = target.index;
            columns[index].target = Some(target);
        });
        let len = columns.len().div_ceil(STRANDS * watch.threads).max(1);
        let protected = columns.iter().filter(|column| column.target.is_some()).count();
        let mut strands: Vec<Strand<'_, '_>> =
            columns.chunks_mut(len).map(|columns| Strand { columns, rows_before: 0 }).collect();
        let mut feed = Feeding {
            blocks,
            groups,
            group: Group::default(),
            strands: strands.len(),
            columns: names.len(),
            protected,
            output: &path,
        };
        let mut drain = Writing {
            writer,
            chunks: Vec::new(),
            path: &path,
            input,
            tally: Tally::default(),
            consumed: 0,
            group_rows: 0,
        };
        let plan = Plan { threads: watch.threads, items_ahead: blocks_ahead(watch.threads), cancel: watch.cancel };
        let mut told = 0;
        pipeline::run(&mut feed, &work, &mut strands, &mut drain, &plan, &mut |drain| {
            if drain.tally.rows > told {
                told = drain.tally.rows;
                watch.advance(told, None, drain.consumed);
            }
        })?;
        let Writing { mut writer, tally, .. } = drain;
        writer.flush().map_err(|source| TableError::io(&path, "write", source))?;
        let before = BeforeFooter { written: writer.inner().so_far(), tally: &tally, targets };
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
            let is_noise = target.worker.is_noise();
            let codec = match self.codec {
                Some(codec) => codec.compression(),
                None if is_noise => Compression::UNCOMPRESSED,
                None => usual,
            };
            properties = properties.set_column_compression(path.clone(), codec);
            if is_noise {
                properties = properties.set_column_dictionary_enabled(path.clone(), false);
            }
            if holds_bytes(target) {
                properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        properties.build()
    }
}

/// A block of rows, or nothing but the end of their group.
struct Batch {
    block: Option<SharedBlock>,
    /// The writers of a group's columns, for its first rows.
    writers: Mutex<Vec<Option<ArrowColumnWriter>>>,
    ends_group: bool,
}

/// What is read of the row group so far.
#[derive(Default)]
struct Group {
    number: usize,
    blocks: usize,
    /// About how many bytes its rows take in memory.
    len: usize,
}

/// Reads blocks, and says where groups end.
struct Feeding<'a, R: Read> {
    blocks: &'a mut Blocks<CsvInput<R>>,
    groups: ArrowRowGroupWriterFactory,
    group: Group,
    strands: usize,
    columns: usize,
    protected: usize,
    output: &'a Path,
}

impl<R: Read + Send> Feed for Feeding<'_, R> {
    type Item = Batch;

    fn next(&mut self) -> Result<Option<Fed<Batch>>> {
        let on_write = |source| TableError::parquet(self.output, source);
        let Some(block) = self.blocks.next_shared(Records::default())? else {
            if std::mem::take(&mut self.group.blocks) == 0 {
                return Ok(None);
            }
            let end = Batch { block: None, writers: Mutex::default(), ends_group: true };
            return Ok(Some(Fed { item: end, strands: 0..self.strands, cost: 0 }));
        };
        let mut writers = Vec::new();
        if self.group.blocks == 0 {
            if (self.group.number + 1) * self.columns > CONVERTED_CHUNKS_MAX {
                let problem =
                    format!("its footer would have more than {CONVERTED_CHUNKS_MAX} column chunks; keep it as CSV");
                return Err(on_write(ParquetError::General(problem)));
            }
            writers = self.groups.create_column_writers(self.group.number).map_err(on_write)?;
        }
        self.group.blocks += 1;
        let delimiter = self.blocks.layout().dialect.delimiter;
        let values = block.values_max(delimiter).min(block.rows_max * self.protected);
        self.group.len += block.len + VALUE_COST * values;
        let ends_group = self.group.len > GROUP_LEN_MAX;
        if ends_group {
            self.group = Group { number: self.group.number + 1, ..Group::default() };
        }
        let cost = cost_of(&block, self.columns);
        let writers = Mutex::new(writers.into_iter().map(Some).collect());
        let item = Batch { block: Some(block), writers, ends_group };
        Ok(Some(Fed { item, strands: 0..self.strands, cost }))
    }
}

/// A column, protected, restored or as it is.
struct Column<'t> {
    index: usize,
    target: Option<&'t mut Target>,
    /// Encodes the values of the row group.
    writer: Option<ArrowColumnWriter>,
}

impl Column<'_> {
    fn new(index: usize) -> Self {
        Column { index, target: None, writer: None }
    }
}

/// Some of the columns, and how many rows they have seen.
struct Strand<'c, 't> {
    columns: &'c mut [Column<'t>],
    rows_before: u64,
}

/// Makes columns of records.
struct Converting<'a> {
    input: &'a Path,
    names: &'a [String],
    schema: &'a Schema,
    layout: &'a Layout,
    output: &'a Path,
}

impl<'c, 't> Work<Batch, Strand<'c, 't>> for Converting<'_> {
    type Piece = ArrowColumnChunk;

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Prepare, Stage::Work]
    }

    fn prepare(&self, batch: &Batch) -> Result<()> {
        batch.block.iter().for_each(|block| block.scan(self.layout));
        Ok(())
    }

    fn work(
        &self,
        batch: &Batch,
        strand: &mut Strand<'c, 't>,
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        emit: Emit<'_, ArrowColumnChunk>,
    ) -> Result<()> {
        let on_write = |source| TableError::parquet(self.output, source);
        let records = batch.block.as_ref().and_then(SharedBlock::records);
        for column in strand.columns.iter_mut() {
            asked.check()?;
            let mut writers = batch.writers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(writer) = writers.get_mut(column.index) {
                column.writer = writer.take();
            }
            drop(writers);
            if let (Some(records), Some(writer)) = (records, &mut column.writer) {
                let field = self.schema.field(column.index);
                let values =
                    self.column(column.index, column.target.as_deref_mut(), records, scratch, strand.rows_before + 1)?;
                for leaf in compute_leaves(field, &values).map_err(on_write)? {
                    writer.write(&leaf).map_err(on_write)?;
                }
            }
            if let Some(writer) = column.writer.take_if(|_| batch.ends_group) {
                // A refusal is that of a job which has failed elsewhere.
                emit(writer.close().map_err(on_write)?).map_err(|_| TableError::Interrupted)?;
            }
        }
        strand.rows_before += records.map_or(0, |records| records.rows as u64);
        Ok(())
    }
}

impl Converting<'_> {
    /// A column of a batch, protected, restored, or as it is.
    fn column(
        &self,
        index: usize,
        mut target: Option<&mut Target>,
        records: &Records,
        scratch: &mut Scratch,
        first_row: u64,
    ) -> Result<ArrayRef> {
        if let Some(target) = &mut target {
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
        match target.as_deref() {
            Some(target) if holds_bytes(target) => Ok(bytes(target, records.rows)),
            target => self.texts(records, index, target, first_row),
        }
    }

    /// A column of texts: restored, protected by `ff1`, or as they are.
    fn texts(&self, records: &Records, index: usize, target: Option<&Target>, first_row: u64) -> Result<ArrayRef> {
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

/// Writes row groups, of chunks that are in the columns' order.
struct Writing<'a> {
    writer: SerializedFileWriter<OutputFile>,
    chunks: Vec<ArrowColumnChunk>,
    path: &'a Path,
    input: &'a Path,
    tally: Tally,
    consumed: u64,
    /// Rows of the group so far.
    group_rows: u64,
}

impl Drain<Batch, ArrowColumnChunk> for Writing<'_> {
    fn begin(&mut self, batch: &Batch) -> Result<()> {
        batch.block.as_ref().map_or(Ok(()), |block| block.check(self.input, self.tally.rows))
    }

    fn take(&mut self, chunk: ArrowColumnChunk) -> io::Result<()> {
        self.chunks.push(chunk);
        Ok(())
    }

    fn refused(&self, error: io::Error) -> TableError {
        TableError::io(self.path, "write", error)
    }

    fn end(&mut self, batch: Arc<Batch>) -> Result<()> {
        if let Some(block) = &batch.block {
            self.consumed = block.consumed;
            if let Some(records) = block.records().filter(|records| records.rows > 0) {
                self.tally.add(records.rows, records.text.len());
                self.group_rows += records.rows as u64;
            }
        }
        if batch.ends_group {
            let chunks = std::mem::take(&mut self.chunks);
            // Of blank lines alone nothing is written.
            if std::mem::take(&mut self.group_rows) > 0 {
                self.write_group(chunks).map_err(|source| TableError::parquet(self.path, source))?;
            }
        }
        Ok(())
    }
}

impl Writing<'_> {
    fn write_group(&mut self, chunks: Vec<ArrowColumnChunk>) -> std::result::Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

fn is_utf8(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok()
}

/// Whether a target's output is byte strings.
fn holds_bytes(target: &Target) -> bool {
    target.worker.direction() == Direction::Encrypt && is_binary(target.worker.method())
}

fn bytes(target: &Target, rows: usize) -> ArrayRef {
    let mut values = BinaryBuilder::with_capacity(rows, rows * 32);
    for slot in target.worker.rows() {
        values.append_option((*slot != NULL_ROW).then(|| target.worker.outputs().at(*slot as usize)));
    }
    Arc::new(values.finish())
}
