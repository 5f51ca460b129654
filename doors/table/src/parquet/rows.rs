//! Reads all columns of a row group side by side.

use arrow_schema::DataType;
use bytes::Bytes;
use parquet::errors::ParquetError;

use crate::encode::Cells;
use crate::error::{Result, TableError};
use crate::row_id::RowIds;

use super::chunk::{EXPANDED_LEN_MAX, EXPANSION_MAX};
use super::footer::group_rows;
use super::read::{ChunkReader, DELTA_BYTES_MAX, Rows};
use super::thrift::Parsed;
use super::{ParquetInput, in_column};

/// Reads the columns of a row group in step.
pub(crate) struct GroupReader {
    index: usize,
    columns: Vec<ColumnOfGroup>,
    step: usize,
    left: u64,
}

/// One column on its way.
struct ColumnOfGroup {
    name: String,
    reader: ChunkReader,
    data_type: DataType,
    /// Bytes that its values may still have, and those that they may have in all.
    left: u64,
    len_max: u64,
}

impl ColumnOfGroup {
    /// The next rows.
    fn next(&mut self, wanted: usize) -> Parsed<ColumnRows> {
        let general = |problem: &str| ParquetError::General(problem.to_owned());
        let rows = self.reader.next(wanted)?.filter(|rows| rows.len() == wanted);
        let rows = rows.ok_or_else(|| general("fewer rows than its footer speaks of"))?;
        let len = rows.stretch(0, wanted).byte_len() as u64;
        self.left = self.left.checked_sub(len).ok_or_else(|| {
            let limit = self.len_max;
            general(&format!("its values have more than {limit} bytes, since a dictionary repeats a long one"))
        })?;
        Ok(ColumnRows { rows, data_type: self.data_type.clone() })
    }
}

/// Rows of one column.
pub(crate) struct ColumnRows {
    rows: Rows,
    data_type: DataType,
}

impl ColumnRows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The pages that are kept in memory for these rows.
    pub(crate) fn pages(&self) -> &[Bytes] {
        self.rows.pages()
    }

    /// So many rows from `start`, which there must be.
    pub(crate) fn stretch(&self, start: usize, count: usize) -> Cells<'_> {
        self.rows.stretch(start, count)
    }

    /// Bytes of a row's value.
    pub(crate) fn value_len(&self, row: usize) -> usize {
        self.rows.stretch(row, 1).byte_len()
    }

    /// The rows as identifiers, where their type can be one.
    pub(crate) fn row_ids(&self, start: usize, count: usize) -> Option<RowIds<'_>> {
        RowIds::new(self.stretch(start, count), &self.data_type)
    }
}

impl ParquetInput {
    pub(crate) fn group_count(&self) -> usize {
        self.footer.groups().len()
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.footer.rows()
    }

    /// Whether a column can be read value by value.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn check_flat(&self, field: usize) -> Result<(), &'static str> {
        let root = self.footer.fields.get(field).filter(|root| root.leaf.is_some());
        let root = root.ok_or("nested values have no form in CSV")?;
        let element = self.footer.elements().nth(root.element).ok_or("it is not in the schema")?;
        match super::footer::column_of(element).map(|column| column.physical_type()) {
            Ok(parquet::basic::Type::INT96) => Err("96-bit timestamps have no form in CSV"),
            Ok(_) => Ok(()),
            Err(_) => Err("the type is not known"),
        }
    }

    /// Opens the columns of a row group, all of which have to be flat.
    ///
    /// # Errors
    /// `Parquet` when they do not parse, or their pages have more than `pages_max` bytes at a time.
    pub(crate) fn group_reader(&self, index: usize, pages_max: u64) -> Result<GroupReader> {
        let missing = || self.error(ParquetError::General(format!("row group {index} is missing")));
        let group = self.footer.groups().nth(index).ok_or_else(missing)?;
        let mut columns = Vec::new();
        let (mut pages, mut delta) = (0u64, 0usize);
        for (field, root) in self.footer.fields.iter().enumerate() {
            let problem = |source: ParquetError| self.error(in_column(index, &root.name, &source));
            let (source, survey) = self.surveyed(group, field).map_err(problem)?;
            pages = pages.saturating_add(survey.page_len_max as u64 + survey.dictionary_len as u64);
            delta = delta.saturating_add(survey.longest_delta);
            if pages > pages_max {
                let rule = format!("its columns have pages of more than {pages_max} bytes together, too many for rows");
                return Err(self.error(ParquetError::General(format!("row group {index}: {rule}"))));
            }
            let reader = ChunkReader::new(&source, &survey).map_err(problem)?;
            let len_max = EXPANDED_LEN_MAX.max(source.extent.len.saturating_mul(EXPANSION_MAX));
            let (name, data_type) = (root.name.clone(), root.data_type.clone());
            columns.push(ColumnOfGroup { name, reader, data_type, left: len_max, len_max });
        }
        let step = DELTA_BYTES_MAX.checked_div(delta).unwrap_or(usize::MAX).max(1);
        Ok(GroupReader { index, columns, step, left: group_rows(group) })
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(crate) fn error(&self, source: ParquetError) -> TableError {
        TableError::parquet(&self.path, source)
    }
}

impl GroupReader {
    /// The next rows of all columns, at most `step_max`; nothing at the end.
    pub(crate) fn next(&mut self, step_max: usize) -> Parsed<Option<Vec<ColumnRows>>> {
        let wanted = self.left.min(self.step.min(step_max) as u64) as usize;
        if wanted == 0 {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let rows = column.next(wanted);
            all.push(rows.map_err(|source| in_column(self.index, &column.name, &source))?);
        }
        self.left -= wanted as u64;
        Ok(Some(all))
    }
}
