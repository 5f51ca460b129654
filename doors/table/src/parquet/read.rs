//! Reads the values of a flat column chunk in batches of bounded size.
//!
//! Byte strings are places in their page or dictionary, or handles of them, so that a value which a dictionary holds once is in
//! memory once, however many rows have it.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{AsBytes, ByteArray, DataType as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::column::NULL_ROW;
use crate::encode::{Cells, Spans};
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};

use super::forms::Form;
use super::guard::Guard;
use super::pages::{Extent, Survey};
use super::place::Placed;
use super::strings::{StringReader, of_plain};
use super::thrift::Parsed;

/// Bytes that values built from those before them may have in a batch.
pub(crate) const DELTA_BYTES_MAX: usize = 4 * BATCH_BYTES_MAX;

/// A chunk as it lies in a file.
#[derive(Clone)]
pub(crate) struct ChunkSource {
    pub(crate) file: Arc<File>,
    pub(crate) extent: Extent,
    pub(crate) codec: Compression,
    pub(crate) column: ColumnDescPtr,
    pub(crate) data_type: DataType,
    /// Rows; of a nested column its levels.
    pub(crate) rows: u64,
}

impl ChunkSource {
    /// The chunk's pages, decompressed; [`Survey`] has checked their headers.
    pub(crate) fn pages(&self) -> Parsed<impl PageReader + use<>> {
        let at = i64::try_from(self.extent.start).map_err(|_| overflow())?;
        let meta = ColumnChunkMetaData::builder(Arc::clone(&self.column))
            .set_compression(self.codec)
            .set_data_page_offset(at)
            .set_total_compressed_size(i64::try_from(self.extent.len).map_err(|_| overflow())?)
            .set_num_values(i64::try_from(self.rows).map_err(|_| overflow())?)
            .build()?;
        let rows = usize::try_from(self.rows).map_err(|_| overflow())?;
        let pages = SerializedPageReader::new(Arc::new(Placed(Arc::clone(&self.file))), &meta, rows, None)?;
        let level_kinds =
            [self.column.max_def_level(), self.column.max_rep_level()].iter().filter(|max| **max > 0).count();
        Ok(Guard::new(pages, level_kinds))
    }

    pub(crate) fn form(&self) -> Form {
        Form::new(self.column.physical_type(), &self.data_type)
    }
}

/// Values in canonical form.
pub(crate) enum Values {
    Spans(Spans),
    Handles(Vec<ByteArray>),
    Fixed { bytes: Vec<u8>, width: usize },
}

/// A batch of rows.
pub(crate) struct Rows {
    /// Which value each row has, or [`NULL_ROW`].
    slots: Vec<u32>,
    values: Values,
}

/// Reads a chunk in batches.
pub(crate) struct ChunkReader {
    reader: Reader,
    form: Form,
    nullable: bool,
    step: usize,
}

/// Our own way for byte strings as they usually are, the library's for all else.
enum Reader {
    Strings(Box<StringReader>),
    Library(Box<ColumnReader>),
}

impl ChunkReader {
    pub(crate) fn new(source: &ChunkSource, survey: &Survey) -> Parsed<ChunkReader> {
        let (form, nullable, pages) = (source.form(), source.column.max_def_level() > 0, Box::new(source.pages()?));
        let is_flat = source.column.max_def_level() <= 1 && source.column.max_rep_level() == 0;
        let is_string = source.column.physical_type() == Type::BYTE_ARRAY && form == Form::Raw;
        let reader = match is_string && is_flat && survey.unusual == 0 {
            true => Reader::Strings(Box::new(StringReader::new(pages, nullable))),
            false => Reader::Library(Box::new(get_column_reader(Arc::clone(&source.column), pages))),
        };
        Ok(ChunkReader { reader, form, nullable, step: step_for(survey) })
    }

    /// The same with the library's reader for everything.
    #[cfg(test)]
    pub(crate) fn of_library(source: &ChunkSource, survey: &Survey) -> Parsed<ChunkReader> {
        ChunkReader::new(source, &Survey { unusual: 1, ..survey.clone() })
    }

    /// Rows that may be read at a time.
    pub(crate) fn step(&self) -> usize {
        self.step
    }

    /// The next rows, fewer than `step` only before the end; nothing at the end.
    pub(crate) fn next(&mut self, step: usize) -> Parsed<Option<Rows>> {
        let (form, nullable) = (self.form, self.nullable);
        let reader = match &mut self.reader {
            Reader::Library(reader) => reader.as_mut(),
            Reader::Strings(reader) => {
                let (slots, spans) = reader.next(step)?;
                return Ok((!slots.is_empty()).then_some(Rows { slots, values: Values::Spans(spans) }));
            }
        };
        match reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                let mut handles = Vec::new();
                let slots = read(reader, nullable, step, &mut handles)?;
                let values = match form {
                    Form::Raw => Values::Handles(handles),
                    _ => fixed(form, handles.iter().map(AsBytes::as_bytes))?,
                };
                Ok(slots.map(|slots| Rows { slots, values }))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                let mut handles = Vec::new();
                let slots = read(reader, nullable, step, &mut handles)?;
                let values = match form {
                    Form::Raw => Values::Handles(handles.into_iter().map(ByteArray::from).collect()),
                    _ => fixed(form, handles.iter().map(AsBytes::as_bytes))?,
                };
                Ok(slots.map(|slots| Rows { slots, values }))
            }
            ColumnReader::BoolColumnReader(reader) => read_fixed(reader, nullable, step, form),
            ColumnReader::Int32ColumnReader(reader) => read_fixed(reader, nullable, step, form),
            ColumnReader::Int64ColumnReader(reader) => read_fixed(reader, nullable, step, form),
            ColumnReader::Int96ColumnReader(reader) => read_fixed(reader, nullable, step, form),
            ColumnReader::FloatColumnReader(reader) => read_fixed(reader, nullable, step, form),
            ColumnReader::DoubleColumnReader(reader) => read_fixed(reader, nullable, step, form),
        }
    }
}

/// Rows of a flat chunk that may be read at a time.
pub(crate) fn step_for(survey: &Survey) -> usize {
    match survey.longest_delta {
        0 => BATCH_ROWS_MAX,
        len => (DELTA_BYTES_MAX / len).clamp(1, BATCH_ROWS_MAX),
    }
}

fn read_fixed<T: PhysicalType>(
    reader: &mut ColumnReaderImpl<T>,
    nullable: bool,
    step: usize,
    form: Form,
) -> Parsed<Option<Rows>> {
    let mut typed = Vec::new();
    let slots = read(reader, nullable, step, &mut typed)?;
    let values = fixed(form, typed.iter().map(AsBytes::as_bytes))?;
    Ok(slots.map(|slots| Rows { slots, values }))
}

fn read<T: PhysicalType>(
    reader: &mut ColumnReaderImpl<T>,
    nullable: bool,
    step: usize,
    values: &mut Vec<T::T>,
) -> Parsed<Option<Vec<u32>>> {
    let mut levels = Vec::new();
    let (rows, found, _) = reader.read_records(step, nullable.then_some(&mut levels), None, values)?;
    let mut next = 0u32;
    let slots: Vec<u32> = if nullable {
        let slot = |level: &i16| {
            let slot = if *level == 0 { NULL_ROW } else { next };
            next += u32::from(*level != 0);
            slot
        };
        levels.iter().map(slot).collect()
    } else {
        next = found as u32;
        (0..next).collect()
    };
    if slots.len() != rows || next as usize != values.len() || found != values.len() {
        return Err(ParquetError::General("a page has fewer values than its levels say".to_owned()));
    }
    Ok((rows > 0).then_some(slots))
}

fn fixed<'a>(form: Form, physical: impl Iterator<Item = &'a [u8]>) -> Parsed<Values> {
    let (mut bytes, mut count) = (Vec::new(), 0usize);
    for value in physical {
        count += 1;
        if !form.push_canonical(value, &mut bytes) {
            return Err(ParquetError::General("a value is past the range of its type".to_owned()));
        }
    }
    Ok(Values::Fixed { width: bytes.len().checked_div(count).unwrap_or(0), bytes })
}

impl Rows {
    /// The pages that are kept in memory for these rows.
    pub(crate) fn pages(&self) -> &[Bytes] {
        match &self.values {
            Values::Spans(spans) => &spans.buffers,
            Values::Handles(_) | Values::Fixed { .. } => &[],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The rows from `start`: as many as have [`BATCH_BYTES_MAX`] bytes together, one at least.
    pub(crate) fn cells(&self, start: usize) -> Cells<'_> {
        let slots = &self.slots[start..];
        let fitting = |len: &dyn Fn(usize) -> Option<usize>| {
            let mut bytes = 0usize;
            let fits = |slot: &&u32| {
                bytes = bytes.saturating_add(len(**slot as usize).unwrap_or(0));
                bytes <= BATCH_BYTES_MAX
            };
            slots.iter().take_while(fits).count().max(1)
        };
        let count = match &self.values {
            Values::Fixed { .. } => slots.len(),
            Values::Spans(spans) => fitting(&|slot| spans.len_of(slot)),
            Values::Handles(handles) => fitting(&|slot| handles.get(slot).map(ByteArray::len)),
        };
        self.stretch(start, count)
    }

    /// So many rows from `start`, which there must be.
    pub(crate) fn stretch(&self, start: usize, count: usize) -> Cells<'_> {
        let slots = &self.slots[start..start + count];
        match &self.values {
            Values::Fixed { bytes, width } => Cells::fixed(slots, bytes, *width),
            Values::Spans(spans) => Cells::spans(slots, spans),
            Values::Handles(handles) => Cells::handles(slots, handles),
        }
    }
}

/// The values of a dictionary page of plain values, in canonical form.
///
/// # Errors
/// When there are not as many as the page says.
pub(crate) fn dictionary_values(page: &[u8], count: usize, column: &ColumnDescPtr, form: Form) -> Parsed<Rows> {
    let short = || ParquetError::General("a dictionary ends early".to_owned());
    let width = match column.physical_type() {
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).map_err(|_| short())?,
        Type::BYTE_ARRAY => return byte_strings(page, count, form),
        Type::BOOLEAN => return Err(ParquetError::General("truth values have no dictionary".to_owned())),
    };
    let len = width.checked_mul(count).ok_or_else(short)?;
    let page = page.get(..len).ok_or_else(short)?;
    let values = fixed(form, page.chunks_exact(width.max(1)))?;
    Ok(Rows { slots: (0..count as u32).collect(), values })
}

fn byte_strings(page: &[u8], count: usize, form: Form) -> Parsed<Rows> {
    let spans = of_plain(page.to_vec().into(), count)?;
    let values = match form {
        Form::Raw => Values::Spans(spans),
        _ => fixed(form, (0..spans.len()).map(|index| spans.at(index)))?,
    };
    Ok(Rows { slots: (0..count as u32).collect(), values })
}

fn overflow() -> ParquetError {
    ParquetError::General("an offset is out of range".to_owned())
}
