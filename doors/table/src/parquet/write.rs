//! Writes the values of a flat column chunk, and makes footers' entries of what was written.

use std::io::Write;
use std::sync::Arc;

use arrow_schema::DataType;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, ColumnWriterImpl, get_column_writer};
use parquet::data_type::{ByteArray, DataType as PhysicalType, FixedLenByteArray, Int96};
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::metadata::{FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type as SchemaType};

use crate::column::NULL_ROW;
use crate::distinct::Outputs;
use crate::job::BATCH_BYTES_MAX;

use super::footer::{chunk_field, file_field, group_field, pointed};
use super::forms::Form;
use super::pages::PAGE_LEN_MAX;
use super::thrift::{Parsed, Struct};

/// How a column that is protected or restored is stored.
#[derive(Clone)]
pub(crate) struct Layout {
    /// Its element of the schema.
    pub(crate) element: Struct,
    pub(crate) column: ColumnDescPtr,
    /// The type of its canonical values.
    pub(crate) data_type: DataType,
    /// The codec; without one that of the chunk that is read.
    pub(crate) codec: Option<Compression>,
    /// Whether values that repeat are put into a dictionary.
    pub(crate) dictionary: bool,
    /// The encoding of values beside the dictionary.
    pub(crate) encoding: Encoding,
    /// Version of data pages.
    pub(crate) version: u8,
    pub(crate) statistics: bool,
    pub(crate) bloom_filter: bool,
    pub(crate) column_index: bool,
    pub(crate) offset_index: bool,
    /// Whether a dictionary says more than its values: the order of categories, and those that no row has.
    pub(crate) categories: bool,
}

impl Layout {
    pub(crate) fn properties(&self, codec: Compression, rows: u64) -> WriterPropertiesPtr {
        let statistics = match (self.statistics, self.column_index) {
            (false, _) => EnabledStatistics::None,
            (true, false) => EnabledStatistics::Chunk,
            (true, true) => EnabledStatistics::Page,
        };
        let version = if self.version == 2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let mut properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(codec)
            .set_dictionary_enabled(self.dictionary)
            .set_statistics_enabled(statistics)
            .set_offset_index_disabled(!self.offset_index)
            .set_bloom_filter_enabled(self.bloom_filter);
        if self.bloom_filter {
            properties = properties.set_bloom_filter_max_ndv(rows.max(1));
        }
        properties.set_encoding(self.encoding).build().into()
    }

    pub(crate) fn form(&self) -> Form {
        Form::new(self.column.physical_type(), &self.data_type)
    }

    /// Bytes of a physical value, where all have the same number.
    pub(crate) fn width(&self) -> Option<usize> {
        use parquet::basic::Type;
        match self.column.physical_type() {
            Type::BOOLEAN => Some(1),
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::INT96 => Some(12),
            Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(self.column.type_length()).ok(),
            Type::BYTE_ARRAY => None,
        }
    }
}

/// A chunk that was written, as footers speak of it. Its indices and bloom filter are still to be written.
pub(crate) struct Written {
    pub(crate) chunk: Struct,
    pub(crate) column_index: Option<Vec<u8>>,
    pub(crate) offset_index: Option<Vec<u8>>,
    pub(crate) bloom_filter: Option<Vec<u8>>,
}

/// Why values could not be written.
#[derive(Debug)]
pub(crate) enum WriteProblem {
    /// The value of this row, counted from the batch's start, does not fit the type; or it is null and may not.
    Value(usize),
    /// The output would have this many bytes or more.
    TooLong,
    Parquet(ParquetError),
}

impl From<ParquetError> for WriteProblem {
    fn from(error: ParquetError) -> WriteProblem {
        WriteProblem::Parquet(error)
    }
}

/// Writes a chunk value by value.
pub(crate) struct ChunkWriter<'s> {
    writer: ColumnWriter<'s>,
    form: Form,
    width: Option<usize>,
    nullable: bool,
    left: u64,
}

impl<'s> ChunkWriter<'s> {
    /// A chunk at the end of `sink`, of `len_max` bytes of values at most.
    pub(crate) fn new<W: Write + Send>(
        sink: &'s mut TrackedWrite<W>,
        layout: &Layout,
        properties: WriterPropertiesPtr,
        len_max: u64,
    ) -> ChunkWriter<'s> {
        let pages = Box::new(SerializedPageWriter::new(sink));
        ChunkWriter {
            writer: get_column_writer(Arc::clone(&layout.column), properties, pages),
            form: layout.form(),
            width: layout.width(),
            nullable: layout.column.max_def_level() > 0,
            left: len_max,
        }
    }

    /// Writes rows, each with the value in its slot of `outputs`.
    pub(crate) fn put(&mut self, rows: &[u32], outputs: &Outputs) -> Result<(), WriteProblem> {
        let mut start = 0;
        while start < rows.len() {
            // Pages are closed between calls only, so that a call's values must not be too many.
            let mut len = 0usize;
            let count = rows[start..]
                .iter()
                .take_while(|slot| {
                    len += if **slot == NULL_ROW { 0 } else { outputs.at(**slot as usize).len() };
                    len <= BATCH_BYTES_MAX
                })
                .count()
                .max(1);
            self.put_some(&rows[start..start + count], outputs).map_err(|problem| match problem {
                WriteProblem::Value(row) => WriteProblem::Value(start + row),
                other => other,
            })?;
            start += count;
        }
        Ok(())
    }

    fn put_some(&mut self, rows: &[u32], outputs: &Outputs) -> Result<(), WriteProblem> {
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(rows.len());
        let mut levels: Vec<i16> = Vec::with_capacity(rows.len());
        for (row, slot) in rows.iter().enumerate() {
            let is_null = *slot == NULL_ROW;
            levels.push(i16::from(!is_null));
            if is_null && !self.nullable {
                return Err(WriteProblem::Value(row));
            }
            if !is_null {
                if !self.form.push_physical(outputs.at(*slot as usize), self.width, &mut bytes) {
                    return Err(WriteProblem::Value(row));
                }
                ends.push(bytes.len());
            }
        }
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(WriteProblem::TooLong)?;
        let levels = self.nullable.then_some(levels.as_slice());
        match &mut self.writer {
            ColumnWriter::ByteArrayColumnWriter(writer) => put_typed(writer, &handles(bytes, &ends), levels),
            ColumnWriter::FixedLenByteArrayColumnWriter(writer) => {
                let values: Vec<FixedLenByteArray> = handles(bytes, &ends).into_iter().map(Into::into).collect();
                put_typed(writer, &values, levels)
            }
            ColumnWriter::BoolColumnWriter(writer) => {
                if let Some(row) = bytes.iter().position(|byte| *byte > 1) {
                    return Err(WriteProblem::Value(row));
                }
                let values: Vec<bool> = bytes.iter().map(|byte| *byte == 1).collect();
                put_typed(writer, &values, levels)
            }
            ColumnWriter::Int32ColumnWriter(writer) => put_typed(writer, &numbers(&bytes, i32::from_le_bytes), levels),
            ColumnWriter::Int64ColumnWriter(writer) => put_typed(writer, &numbers(&bytes, i64::from_le_bytes), levels),
            ColumnWriter::FloatColumnWriter(writer) => put_typed(writer, &numbers(&bytes, f32::from_le_bytes), levels),
            ColumnWriter::DoubleColumnWriter(writer) => put_typed(writer, &numbers(&bytes, f64::from_le_bytes), levels),
            ColumnWriter::Int96ColumnWriter(writer) => put_typed(writer, &numbers(&bytes, int_96), levels),
        }
    }

    /// Ends the chunk.
    pub(crate) fn close(self, layout: &Layout) -> Parsed<Written> {
        written(self.writer.close()?, layout)
    }
}

fn put_typed<T: PhysicalType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), WriteProblem> {
    writer.write_batch(values, levels, None)?;
    Ok(())
}

fn handles(bytes: Vec<u8>, ends: &[usize]) -> Vec<ByteArray> {
    let all = ByteArray::from(bytes);
    let starts = std::iter::once(&0).chain(ends);
    starts.zip(ends).map(|(start, end)| all.slice(*start, end - start)).collect()
}

fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|raw| number(*raw)).collect()
}

fn int_96(raw: [u8; 12]) -> Int96 {
    let mut words = [0u32; 3];
    for (word, bytes) in words.iter_mut().zip(raw.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut number = Int96::new();
    number.set_data(words[0], words[1], words[2]);
    number
}

/// What the library says of a chunk that it has written, as the tree that a footer holds. There is no other way to it than
/// a footer of this one chunk.
pub(crate) fn written(closed: ColumnCloseResult, layout: &Layout) -> Parsed<Written> {
    let bloom_filter = match &closed.bloom_filter {
        Some(filter) if layout.bloom_filter => {
            let mut bytes = Vec::new();
            filter.write(&mut bytes)?;
            Some(bytes)
        }
        _ => None,
    };
    let root = SchemaType::group_type_builder("schema").with_fields(vec![layout.column.self_type_ptr()]).build()?;
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(root)));
    let rows = i64::try_from(closed.rows_written).map_err(|_| damaged("too many rows"))?;
    let group = RowGroupMetaData::builder(Arc::clone(&schema))
        .set_num_rows(rows)
        .set_column_metadata(vec![closed.metadata])
        .build()?;
    let mut index = PageIndexBuilder::new(1, 1);
    if let Some(column_index) = closed.column_index.filter(|_| layout.column_index) {
        index.put_column_index(column_index, 0, 0);
    }
    if let Some(offset_index) = closed.offset_index.filter(|_| layout.offset_index) {
        index.put_offset_index(offset_index, 0, 0);
    }
    let metadata = ParquetMetaDataBuilder::new(FileMetaData::new(1, rows, None, None, schema, None))
        .set_row_groups(vec![group])
        .set_page_index(Some(Arc::new(index.build())))
        .build();
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &metadata).with_preserve_page_index_locations(false).finish()?;
    let footer = footer_of(&bytes)?;
    let chunk =
        footer.records(file_field::ROW_GROUPS).next().and_then(|group| group.records(group_field::COLUMNS).next());
    let mut chunk = chunk.ok_or_else(|| damaged("a chunk is missing"))?.clone();
    let piece = |fields| {
        let extent = pointed(&chunk, fields)?;
        let start = usize::try_from(extent.start).ok()?;
        Some(bytes.get(start..start.checked_add(usize::try_from(extent.len).ok()?)?)?.to_vec())
    };
    let (column_index, offset_index) = (piece(chunk_field::COLUMN_INDEX), piece(chunk_field::OFFSET_INDEX));
    forget_indices(&mut chunk);
    Ok(Written { chunk, column_index, offset_index, bloom_filter })
}

fn footer_of(file: &[u8]) -> Parsed<Struct> {
    let (rest, tail) = file.split_last_chunk::<8>().ok_or_else(|| damaged("a footer is missing"))?;
    let len = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]) as usize;
    let start = rest.len().checked_sub(len).ok_or_else(|| damaged("a footer is missing"))?;
    Ok(Struct::parse(&rest[start..])?.0)
}

/// Takes the places of indices and bloom filter away.
pub(crate) fn forget_indices(chunk: &mut Struct) {
    for (offset, len) in [chunk_field::COLUMN_INDEX, chunk_field::OFFSET_INDEX] {
        chunk.remove(offset);
        chunk.remove(len);
    }
    if let Some(meta) = chunk.record_mut(chunk_field::META) {
        meta.remove(super::footer::meta_field::BLOOM_FILTER.0);
        meta.remove(super::footer::meta_field::BLOOM_FILTER.1);
    }
}

/// Appends a physical value in PLAIN encoding.
pub(crate) fn push_plain(layout: &Layout, canonical: &[u8], page: &mut Vec<u8>) -> bool {
    let start = page.len();
    if layout.width().is_none() {
        page.extend_from_slice(&[0; 4]);
    }
    let body = page.len();
    if !layout.form().push_physical(canonical, layout.width(), page) || page.len() > PAGE_LEN_MAX {
        return false;
    }
    if body != start {
        let len = super::pages::size_i32(page.len() - body).to_le_bytes();
        page[start..body].copy_from_slice(&len);
    }
    true
}

fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}
