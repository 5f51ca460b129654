//! Row groups some of whose rows are left out: which, and columns that nobody named with the rows that stay.
//!
//! Pages hold rows in their own pieces, so that such a row group is written anew in all its columns: values and levels as
//! they are, stored as they were. The dictionary of a category column stays as it is.

use std::io::Write;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl, get_column_writer};
use parquet::data_type::{AsBytes, DataType as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::error::Result;
use crate::job::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::table::Target;

use super::ParquetInput;
use super::chunk::{EXPANDED_LEN_MAX, EXPANSION_MAX, Ways, dictionary_of};
use super::copy::{Copied, CopyProblem, on_read, on_write};
use super::footer::{chunk_field, codec_of, extent_of, group_field, group_rows};
use super::indices::indices_in_order;
use super::pages::{PAGE_LEN_MAX, Pages, Survey};
use super::read::{ChunkReader, ChunkSource, step_for};
use super::taken::Rows;
use super::thrift::{Parsed, Struct};
use super::write::{Layout, Written, written};

/// Rows that a row group may have when some of them may be left out.
pub const REJECT_ROWS_MAX: u64 = 64 << 20;

/// Values, nulls and empty lists of a nested column in a row group of which rows are left out.
pub const NESTED_VALUES_MAX: u64 = 8 << 20;

/// Bytes that the values of a nested column could have which are built from those before them.
const NESTED_DELTA_MAX: u64 = 512 << 20;

/// Rows of a nested column that are read at a time.
const NESTED_ROWS: usize = 1024;

/// The row group with the number of rows that are taken of it, and no number of its own, which others may have now.
pub(crate) fn group_of(group: &Struct, rows: Rows<'_>) -> Struct {
    let mut group = group.clone();
    group.set_i64(group_field::NUM_ROWS, i64::try_from(rows.count()).unwrap_or(i64::MAX));
    group.remove(group_field::ORDINAL);
    group
}

/// Marks for the rows of a row group.
///
/// # Errors
/// When it has too many.
pub(crate) fn marks_for(group: &Struct) -> Parsed<Vec<bool>> {
    let rows = group_rows(group);
    if rows > REJECT_ROWS_MAX {
        return Err(damaged(&format!("{rows} rows, and at most {REJECT_ROWS_MAX} are taken when rows are rejected")));
    }
    Ok(vec![false; rows as usize])
}

impl Ways<'_> {
    /// Marks the rows of a chunk that have a value which its method cannot take.
    pub(crate) fn mark(
        &mut self,
        source: &ChunkSource,
        survey: &Survey,
        target: &mut Target,
        marks: &mut [bool],
    ) -> Result<()> {
        let mut reader = ChunkReader::new(source, survey).map_err(self.problem)?;
        let mut ids = self.row_id_reader().map_err(self.problem)?;
        let step = reader.step().min(ids.step());
        let mut row = 0;
        while let Some(rows) = reader.next(step).map_err(self.problem)? {
            let ids = ids.next(step, rows.len()).map_err(self.problem)?;
            let mut start = 0;
            while start < rows.len() {
                let cells = rows.cells(start);
                let first = self.rows_before + (row + start) as u64 + 1;
                let ids = ids.as_ref().and_then(|ids| ids.stretch(start, cells.len()));
                let marks = marks.get_mut(row + start..row + start + cells.len());
                let marks = marks.ok_or_else(|| (self.problem)(damaged("more rows than its footer speaks of")))?;
                target.worker.mark_rejects(&cells, ids.as_ref(), first, marks);
                (self.on_batch)(0, cells.byte_len())?;
                start += cells.len();
            }
            row += rows.len();
        }
        self.check_rows(row as u64, source)
    }
}

impl ParquetInput {
    /// Writes the rows that are taken of a chunk to the end of `sink`. `column` is that of the leaf, `check` is asked now and
    /// then whether to go on.
    pub(crate) fn copy_rows<W: Write + Send>(
        &self,
        group: &Struct,
        leaf: usize,
        column: &ColumnDescPtr,
        rows: Rows<'_>,
        sink: &mut TrackedWrite<W>,
        check: &dyn Fn() -> Result<()>,
    ) -> Copied<Written> {
        let missing = || on_read(damaged("a chunk has no place"));
        let chunk = group.records(group_field::COLUMNS).nth(leaf).ok_or_else(missing)?;
        let meta = chunk.record(chunk_field::META).ok_or_else(missing)?;
        let extent = extent_of(meta).ok_or_else(missing)?;
        let survey = Pages::new(&self.file, extent).survey().map_err(on_read)?;
        let is_nested = column.max_rep_level() > 0;
        check_nested(is_nested, &survey).map_err(on_read)?;
        let source = ChunkSource {
            file: Arc::clone(&self.file),
            extent,
            codec: codec_of(meta).map_err(on_read)?,
            column: Arc::clone(column),
            data_type: arrow_schema::DataType::Null,
            rows: survey.levels,
        };
        let layout = self.same_layout(chunk, leaf, column, &survey).map_err(on_read)?;
        if layout.categories && survey.is_all_dictionary() {
            return filter_indices(&source, &survey, &layout, rows, sink);
        }
        let pages = Box::new(SerializedPageWriter::new(sink));
        let properties = layout.properties(source.codec, rows.count());
        let mut copying = Copying {
            column,
            rows,
            row: 0,
            step: if is_nested { NESTED_ROWS } else { step_for(&survey) },
            left: EXPANDED_LEN_MAX.max(extent.len.saturating_mul(EXPANSION_MAX)),
            check,
        };
        let reader = get_column_reader(Arc::clone(column), Box::new(source.pages().map_err(on_read)?));
        let mut writer = get_column_writer(Arc::clone(column), properties, pages);
        copying.run(reader, &mut writer)?;
        if copying.row as u64 != group_rows(group) {
            let problem = format!("{} rows, and its footer speaks of {}", copying.row, group_rows(group));
            return Err(on_read(damaged(&problem)));
        }
        written(writer.close().map_err(on_write)?, &layout).map_err(on_write)
    }
}

fn check_nested(is_nested: bool, survey: &Survey) -> Parsed<()> {
    if !is_nested {
        return Ok(());
    }
    if survey.levels > NESTED_VALUES_MAX {
        let found = survey.levels;
        return Err(damaged(&format!(
            "nested values: {found} in one row group, and at most {NESTED_VALUES_MAX} are taken when rows are rejected"
        )));
    }
    // The values of one row, of any number, are in memory at once, and each can be as long as its page.
    match (survey.longest_delta as u64).saturating_mul(survey.levels) {
        0..=NESTED_DELTA_MAX => Ok(()),
        _ => Err(damaged("so many nested values encoded by DELTA_BYTE_ARRAY are not taken when rows are rejected")),
    }
}

/// The chunk of a category column: its dictionary, and the indices of the rows that are taken.
fn filter_indices<W: Write>(
    source: &ChunkSource,
    survey: &Survey,
    layout: &Layout,
    rows: Rows<'_>,
    sink: &mut TrackedWrite<W>,
) -> Copied<Written> {
    let dictionary = dictionary_of(source, survey.dictionary.unwrap_or(0)).map_err(on_read)?;
    let indices = indices_in_order(source, dictionary.values()).map_err(on_read)?;
    let taken: Vec<u32> =
        indices.into_iter().enumerate().filter(|(row, _)| rows.takes(*row)).map(|(_, index)| index).collect();
    dictionary.write_indices(&taken, source.codec, layout, sink).map_err(on_write)
}

/// Values of a chunk on their way from one file to another.
struct Copying<'a> {
    column: &'a ColumnDescPtr,
    rows: Rows<'a>,
    /// Rows that were read.
    row: usize,
    /// Rows that are read at a time.
    step: usize,
    /// Bytes that values may still have.
    left: u64,
    check: &'a dyn Fn() -> Result<()>,
}

/// Levels and values of some rows.
struct Batch<T> {
    definition: Vec<i16>,
    repetition: Vec<i16>,
    values: Vec<T>,
}

impl Copying<'_> {
    fn run(&mut self, reader: ColumnReader, writer: &mut ColumnWriter<'_>) -> Copied<()> {
        use {ColumnReader as Reader, ColumnWriter as Writer};
        match (reader, writer) {
            (Reader::BoolColumnReader(reader), Writer::BoolColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::Int32ColumnReader(reader), Writer::Int32ColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::Int64ColumnReader(reader), Writer::Int64ColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::Int96ColumnReader(reader), Writer::Int96ColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::FloatColumnReader(reader), Writer::FloatColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::DoubleColumnReader(reader), Writer::DoubleColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::ByteArrayColumnReader(reader), Writer::ByteArrayColumnWriter(writer)) => self.copy(reader, writer),
            (Reader::FixedLenByteArrayColumnReader(reader), Writer::FixedLenByteArrayColumnWriter(writer)) => {
                self.copy(reader, writer)
            }
            _ => Err(on_read(damaged("reader and writer are of two types"))),
        }
    }

    fn copy<T: PhysicalType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        writer: &mut ColumnWriterImpl<'_, T>,
    ) -> Copied<()> {
        let has_levels = (self.column.max_def_level() > 0, self.column.max_rep_level() > 0);
        let mut batch = Batch { definition: Vec::new(), repetition: Vec::new(), values: Vec::new() };
        loop {
            (self.check)().map_err(CopyProblem::Table)?;
            batch.definition.clear();
            batch.repetition.clear();
            batch.values.clear();
            let definition = has_levels.0.then_some(&mut batch.definition);
            let repetition = has_levels.1.then_some(&mut batch.repetition);
            let found = reader.read_records(self.step, definition, repetition, &mut batch.values);
            if found.map_err(on_read)?.0 == 0 {
                return Ok(());
            }
            self.take(&mut batch)?;
            self.write(&batch, writer)?;
        }
    }

    /// Leaves out of a batch what is not taken.
    fn take<T>(&mut self, batch: &mut Batch<T>) -> Copied<()> {
        let (max_definition, is_nested) = (self.column.max_def_level(), self.column.max_rep_level() > 0);
        let count = if max_definition > 0 { batch.definition.len() } else { batch.values.len() };
        let present = batch.definition.iter().filter(|level| **level == max_definition).count();
        let fits = (max_definition == 0 || present == batch.values.len())
            && (!is_nested || (batch.repetition.len() == count && batch.repetition.first() == Some(&0)));
        if !fits {
            return Err(on_read(damaged("a page has other values than its levels say")));
        }
        let (mut levels, mut values, mut value) = (0, 0, 0);
        for level in 0..count {
            if !is_nested || batch.repetition[level] == 0 {
                self.row += 1;
            }
            let has_value = max_definition == 0 || batch.definition[level] == max_definition;
            if self.rows.takes(self.row - 1) {
                if max_definition > 0 {
                    batch.definition.swap(levels, level);
                }
                if is_nested {
                    batch.repetition.swap(levels, level);
                }
                if has_value {
                    batch.values.swap(values, value);
                    values += 1;
                }
                levels += 1;
            }
            value += usize::from(has_value);
        }
        batch.definition.truncate(levels);
        batch.repetition.truncate(levels);
        batch.values.truncate(values);
        Ok(())
    }

    /// Writes a batch in pieces of whole rows: the writer ends pages between calls only.
    fn write<T: PhysicalType>(&mut self, batch: &Batch<T::T>, writer: &mut ColumnWriterImpl<'_, T>) -> Copied<()> {
        let max_definition = self.column.max_def_level();
        let count = if max_definition > 0 { batch.definition.len() } else { batch.values.len() };
        let (mut level_from, mut value_from, mut value, mut len) = (0, 0, 0, 0usize);
        for level in 0..=count {
            let ends_row = level == count || batch.repetition.get(level).is_none_or(|level| *level == 0);
            let is_full = len >= BATCH_BYTES_MAX || level - level_from >= BATCH_ROWS_MAX;
            if level == count || (ends_row && is_full) {
                self.left = self.left.checked_sub(len as u64).ok_or_else(|| too_long(EXPANDED_LEN_MAX))?;
                let definition = batch.definition.get(level_from..level);
                let repetition = batch.repetition.get(level_from..level).filter(|levels| !levels.is_empty());
                let definition = definition.filter(|_| max_definition > 0);
                writer.write_batch(&batch.values[value_from..value], definition, repetition).map_err(on_write)?;
                (level_from, value_from, len) = (level, value, 0);
            }
            if level < count && (max_definition == 0 || batch.definition[level] == max_definition) {
                len = len.saturating_add(batch.values[value].as_bytes().len());
                value += 1;
                if len > PAGE_LEN_MAX {
                    return Err(too_long(PAGE_LEN_MAX as u64));
                }
            }
        }
        Ok(())
    }
}

fn too_long(limit: u64) -> CopyProblem {
    on_read(damaged(&format!("its values have more than {limit} bytes, since a dictionary repeats a long one")))
}

fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is allocated for the rows that a footer claims past the limit.
    #[test]
    fn row_groups_past_the_limits_are_refused() {
        let mut group = Struct::default();
        group.set_i64(group_field::NUM_ROWS, 3);
        assert_eq!(marks_for(&group).unwrap(), [false; 3]);
        group.set_i64(group_field::NUM_ROWS, i64::MAX);
        assert!(marks_for(&group).unwrap_err().to_string().contains("at most 67108864"));
        let survey = |levels, longest_delta| Survey { levels, longest_delta, ..Survey::default() };
        assert!(check_nested(false, &survey(u64::MAX, 9)).is_ok(), "flat columns are read in bounded steps");
        assert!(check_nested(true, &survey(NESTED_VALUES_MAX, 0)).is_ok());
        assert!(check_nested(true, &survey(NESTED_VALUES_MAX + 1, 0)).is_err());
        assert!(check_nested(true, &survey(1 << 20, 1 << 20)).is_err());
    }
}
