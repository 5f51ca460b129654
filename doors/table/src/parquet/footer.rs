//! A Parquet file's footer, checked against the file before anything in it is used.
//!
//! Field numbers are those of `parquet.thrift` of the Parquet format.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_schema::DataType;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{Compression, Repetition};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use crate::dialect::COLUMNS_MAX;

use super::foreign::Pairs;
use super::pages::Extent;
use super::thrift::{Parsed, Struct, Value};

/// Bytes of a footer.
pub const FOOTER_LEN_MAX: usize = 64 << 20;

/// Groups within groups that a schema may have.
const SCHEMA_DEPTH_MAX: usize = 32;

const MAGIC: &[u8; 4] = b"PAR1";
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
const TAIL_LEN: u64 = 8;

/// Fields of `FileMetaData`.
pub(crate) mod file_field {
    pub(crate) const VERSION: i16 = 1;
    pub(crate) const SCHEMA: i16 = 2;
    pub(crate) const NUM_ROWS: i16 = 3;
    pub(crate) const ROW_GROUPS: i16 = 4;
    pub(crate) const KEY_VALUES: i16 = 5;
    pub(crate) const COLUMN_ORDERS: i16 = 7;
    pub(crate) const ENCRYPTION: i16 = 8;
}

/// Fields of `SchemaElement`.
pub(crate) mod element_field {
    pub(crate) const TYPE: i16 = 1;
    pub(crate) const REPETITION: i16 = 3;
    pub(crate) const NAME: i16 = 4;
    pub(crate) const NUM_CHILDREN: i16 = 5;
    pub(crate) const FIELD_ID: i16 = 9;
}

/// Fields of `RowGroup`.
pub(crate) mod group_field {
    pub(crate) const COLUMNS: i16 = 1;
    pub(crate) const BYTE_SIZE: i16 = 2;
    pub(crate) const NUM_ROWS: i16 = 3;
    pub(crate) const SORTING: i16 = 4;
    pub(crate) const FILE_OFFSET: i16 = 5;
    pub(crate) const COMPRESSED_SIZE: i16 = 6;
    pub(crate) const ORDINAL: i16 = 7;
}

/// Fields of `ColumnChunk`.
pub(crate) mod chunk_field {
    pub(crate) const FILE_PATH: i16 = 1;
    pub(crate) const FILE_OFFSET: i16 = 2;
    pub(crate) const META: i16 = 3;
    pub(crate) const OFFSET_INDEX: (i16, i16) = (4, 5);
    pub(crate) const COLUMN_INDEX: (i16, i16) = (6, 7);
    pub(crate) const CRYPTO: i16 = 8;
    pub(crate) const ENCRYPTED_META: i16 = 9;
}

/// Fields of `ColumnMetaData`.
pub(crate) mod meta_field {
    pub(crate) const TYPE: i16 = 1;
    pub(crate) const PATH: i16 = 3;
    pub(crate) const CODEC: i16 = 4;
    pub(crate) const NUM_VALUES: i16 = 5;
    pub(crate) const UNCOMPRESSED_SIZE: i16 = 6;
    pub(crate) const COMPRESSED_SIZE: i16 = 7;
    pub(crate) const DATA_PAGE: i16 = 9;
    pub(crate) const INDEX_PAGE: i16 = 10;
    pub(crate) const DICTIONARY_PAGE: i16 = 11;
    pub(crate) const STATISTICS: i16 = 12;
    pub(crate) const BLOOM_FILTER: (i16, i16) = (14, 15);
}

/// A footer that fits its file.
pub(crate) struct Footer {
    pub(crate) meta: Struct,
    /// The schema's top level, in order.
    pub(crate) fields: Vec<RootField>,
    /// Columns in all.
    pub(crate) leaves: usize,
    /// Where the footer begins.
    pub(crate) start: u64,
}

/// A field at the schema's top level.
pub(crate) struct RootField {
    pub(crate) name: String,
    /// Its place among the schema's elements.
    pub(crate) element: usize,
    elements: usize,
    /// Its place among the columns, when it is a column by itself and not repeated.
    pub(crate) leaf: Option<usize>,
    /// As what it is read, without regard to what other programs say of it.
    pub(crate) data_type: DataType,
}

impl Footer {
    /// Reads and checks the footer.
    ///
    /// # Errors
    /// What does not parse, does not fit the file, or is past a limit.
    pub(crate) fn read(file: &File) -> Parsed<Footer> {
        let file_len = file.metadata()?.len();
        if file_len < TAIL_LEN + MAGIC.len() as u64 {
            return Err(damaged("the file is too short"));
        }
        let mut tail = [0; TAIL_LEN as usize];
        file.read_exact_at(&mut tail, file_len - TAIL_LEN)?;
        match &tail[4..] {
            magic if magic == MAGIC => {}
            magic if magic == MAGIC_ENCRYPTED => return Err(damaged("its footer is encrypted")),
            _ => return Err(damaged("it does not end as a Parquet file does")),
        }
        let len = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
        let start = (file_len - TAIL_LEN).checked_sub(u64::from(len)).filter(|start| *start >= MAGIC.len() as u64);
        let start = start.ok_or_else(|| damaged("its footer is longer than the file"))?;
        let len = len as usize;
        if len > FOOTER_LEN_MAX {
            return Err(limit("the footer", len, "bytes", FOOTER_LEN_MAX));
        }
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, start)?;
        let (meta, _) = Struct::parse(&bytes)?;
        drop(bytes);
        if meta.get(file_field::ENCRYPTION).is_some() {
            return Err(damaged("columns are encrypted by Parquet's own encryption"));
        }
        let (fields, leaves) = root_fields(&meta)?;
        let footer = Footer { meta, fields, leaves, start };
        footer.check()?;
        Ok(footer)
    }

    pub(crate) fn groups(&self) -> impl ExactSizeIterator<Item = &Struct> {
        self.meta.records(file_field::ROW_GROUPS)
    }

    /// Rows of all row groups.
    pub(crate) fn rows(&self) -> u64 {
        self.groups().map(group_rows).sum()
    }

    /// The key-value pairs, in their order.
    pub(crate) fn pairs(&self) -> Parsed<Pairs> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| damaged("its metadata are not text"));
        self.meta
            .records(file_field::KEY_VALUES)
            .map(|pair| Ok((text(pair.binary(1).unwrap_or_default())?, pair.binary(2).map(text).transpose()?)))
            .collect()
    }

    /// The schema's elements.
    pub(crate) fn elements(&self) -> impl ExactSizeIterator<Item = &Struct> {
        self.meta.records(file_field::SCHEMA)
    }

    /// The descriptors of all columns, nested ones among them.
    ///
    /// # Errors
    /// When the library does not know a column's type.
    pub(crate) fn columns(&self) -> Parsed<Vec<ColumnDescPtr>> {
        let elements: Vec<&Struct> = self.elements().collect();
        let mut columns = Vec::with_capacity(self.leaves);
        for field in &self.fields {
            let own = elements[field.element..field.element + field.elements].iter().copied().cloned().collect();
            let named = |problem| ParquetError::General(format!("column `{}`: {problem}", field.name));
            columns.extend(schema_of(own).map_err(named)?.columns().iter().cloned());
        }
        if columns.len() != self.leaves {
            return Err(damaged("its schema has a group without columns"));
        }
        Ok(columns)
    }

    fn check(&self) -> Parsed<()> {
        let mut stored = 0u64;
        let mut rows = 0u64;
        for (index, group) in self.groups().enumerate() {
            let in_group = |problem: String| ParquetError::General(format!("row group {index}: {problem}"));
            let count = group.int(group_field::NUM_ROWS).and_then(|rows| u64::try_from(rows).ok());
            let count = count.ok_or_else(|| in_group("it has no count of rows".to_owned()))?;
            rows = rows.checked_add(count).ok_or_else(|| in_group("too many rows".to_owned()))?;
            let chunks = group.records(group_field::COLUMNS);
            if chunks.len() != self.leaves {
                return Err(in_group(format!("{} columns, and the schema has {}", chunks.len(), self.leaves)));
            }
            for (leaf, chunk) in chunks.enumerate() {
                let extent =
                    self.check_chunk(chunk).map_err(|problem| in_group(format!("column {leaf}: {problem}")))?;
                stored += extent.len;
                // Otherwise a small file could stand for an output of any size.
                if stored > self.start {
                    return Err(in_group("its columns overlap others".to_owned()));
                }
            }
        }
        match self.meta.int(file_field::NUM_ROWS) {
            Some(claimed) if u64::try_from(claimed) == Ok(rows) => Ok(()),
            _ => Err(damaged("its count of rows is not that of its row groups")),
        }
    }

    fn check_chunk(&self, chunk: &Struct) -> Result<Extent, &'static str> {
        if chunk.binary(chunk_field::FILE_PATH).is_some_and(|path| !path.is_empty()) {
            return Err("it lies in another file");
        }
        if chunk.get(chunk_field::CRYPTO).is_some() || chunk.get(chunk_field::ENCRYPTED_META).is_some() {
            return Err("it is encrypted by Parquet's own encryption");
        }
        let meta = chunk.record(chunk_field::META).ok_or("it has no metadata")?;
        if meta.int(meta_field::NUM_VALUES).is_none_or(|values| values < 0) {
            return Err("it has no count of values");
        }
        let extent = extent_of(meta).ok_or("it has no place")?;
        self.check_extent(extent)?;
        let pairs =
            [(chunk, chunk_field::OFFSET_INDEX), (chunk, chunk_field::COLUMN_INDEX), (meta, meta_field::BLOOM_FILTER)];
        for (record, (offset, len)) in pairs {
            if let (Some(_), Some(_)) = (record.int(offset), record.int(len)) {
                let extent = pointed(record, (offset, len)).ok_or("an index lies nowhere")?;
                self.check_extent(extent)?;
            }
        }
        Ok(extent)
    }

    fn check_extent(&self, extent: Extent) -> Result<(), &'static str> {
        let end = extent.start.checked_add(extent.len);
        let is_within = extent.start >= MAGIC.len() as u64 && end.is_some_and(|end| end <= self.start);
        if is_within { Ok(()) } else { Err("it lies outside of the file's data") }
    }
}

/// Rows of a row group that [`Footer::read`] has checked.
pub(crate) fn group_rows(group: &Struct) -> u64 {
    group.int(group_field::NUM_ROWS).and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0)
}

/// Where a chunk's pages are, from its `ColumnMetaData`.
pub(crate) fn extent_of(meta: &Struct) -> Option<Extent> {
    let data = u64::try_from(meta.int(meta_field::DATA_PAGE)?).ok()?;
    let len = u64::try_from(meta.int(meta_field::COMPRESSED_SIZE)?).ok()?;
    // Some writers say that a dictionary is at 0 when there is none.
    let dictionary = meta.int(meta_field::DICTIONARY_PAGE).and_then(|at| u64::try_from(at).ok());
    let start = dictionary.filter(|at| *at > 0 && *at < data).unwrap_or(data);
    Some(Extent { start, len })
}

/// What two fields, offset and length, point to.
pub(crate) fn pointed(record: &Struct, (offset, len): (i16, i16)) -> Option<Extent> {
    let start = u64::try_from(record.int(offset)?).ok()?;
    let len = u64::try_from(record.int(len)?).ok()?;
    Some(Extent { start, len })
}

/// The codec of a chunk, from its `ColumnMetaData`.
pub(crate) fn codec_of(meta: &Struct) -> Parsed<Compression> {
    Ok(match meta.int(meta_field::CODEC) {
        Some(0) => Compression::UNCOMPRESSED,
        Some(1) => Compression::SNAPPY,
        Some(2) => Compression::GZIP(Default::default()),
        Some(3) => Compression::LZO,
        Some(4) => Compression::BROTLI(Default::default()),
        Some(5) => Compression::LZ4,
        Some(6) => Compression::ZSTD(Default::default()),
        Some(7) => Compression::LZ4_RAW,
        other => return Err(ParquetError::General(format!("codec {other:?} is unknown"))),
    })
}

/// The number that the format has for a codec.
pub(crate) fn codec_number(codec: Compression) -> i32 {
    match codec {
        Compression::UNCOMPRESSED => 0,
        Compression::SNAPPY => 1,
        Compression::GZIP(_) => 2,
        Compression::LZO => 3,
        Compression::BROTLI(_) => 4,
        Compression::LZ4 => 5,
        Compression::ZSTD(_) => 6,
        Compression::LZ4_RAW => 7,
    }
}

/// The schema's top level, and how many columns there are; the tree is walked without recursion.
fn root_fields(meta: &Struct) -> Parsed<(Vec<RootField>, usize)> {
    let elements: Vec<&Struct> = meta.records(file_field::SCHEMA).collect();
    let children = |element: &Struct| -> Parsed<usize> {
        let count = element.int(element_field::NUM_CHILDREN).unwrap_or(0);
        usize::try_from(count).map_err(|_| damaged("a group of the schema has a negative length"))
    };
    let root = elements.first().ok_or_else(|| damaged("it has no schema"))?;
    let mut open = vec![children(root)?];
    let mut fields: Vec<RootField> = Vec::new();
    let mut leaves = 0usize;
    for (index, element) in elements.iter().enumerate().skip(1) {
        while open.last() == Some(&0) {
            open.pop();
        }
        let depth = open.len();
        let left = open.last_mut().ok_or_else(|| damaged("its schema has elements that belong to no group"))?;
        *left -= 1;
        if depth == 1 {
            let name = element.binary(element_field::NAME).unwrap_or_default();
            let name = String::from_utf8(name.to_vec()).map_err(|_| damaged("a column's name is not UTF-8"))?;
            fields.push(RootField { name, element: index, elements: 0, leaf: None, data_type: DataType::Null });
        }
        let is_column = element.get(element_field::TYPE).is_some();
        if let Some(field) = fields.last_mut() {
            field.elements += 1;
            const REPEATED: i64 = 2;
            if depth == 1 && is_column && element.int(element_field::REPETITION) != Some(REPEATED) {
                field.leaf = Some(leaves);
            }
        }
        if is_column {
            leaves += 1;
        } else {
            open.push(children(element)?);
        }
        if leaves > COLUMNS_MAX {
            return Err(limit("the schema", leaves, "columns", COLUMNS_MAX));
        }
        if open.len() > SCHEMA_DEPTH_MAX {
            return Err(limit("the schema", open.len(), "levels", SCHEMA_DEPTH_MAX));
        }
    }
    if open.iter().any(|left| *left != 0) {
        return Err(damaged("its schema ends within a group"));
    }
    for field in &mut fields {
        let own: Vec<Struct> =
            elements[field.element..field.element + field.elements].iter().copied().cloned().collect();
        // What the library does not know can still pass unchanged.
        field.data_type = schema_of(own).ok().and_then(|schema| data_type_of(&schema)).unwrap_or(DataType::Null);
    }
    Ok((fields, leaves))
}

/// A schema of one top-level field.
pub(crate) fn schema_of(mut elements: Vec<Struct>) -> Parsed<Arc<SchemaDescriptor>> {
    let mut root = Struct::default();
    root.set(element_field::NAME, Value::Binary(b"schema".to_vec()));
    root.set_i32(element_field::NUM_CHILDREN, 1);
    elements.insert(0, root);
    let mut meta = Struct::default();
    meta.set_i32(file_field::VERSION, 1);
    meta.set_records(file_field::SCHEMA, elements);
    meta.set_i64(file_field::NUM_ROWS, 0);
    meta.set_records(file_field::ROW_GROUPS, Vec::new());
    let decoded = ParquetMetaDataReader::decode_metadata(&meta.to_bytes())?;
    Ok(decoded.file_metadata().schema_descr_ptr())
}

/// The descriptor of a flat column from its schema element.
pub(crate) fn column_of(element: &Struct) -> Parsed<ColumnDescPtr> {
    let schema = schema_of(vec![element.clone()])?;
    let column = schema.columns().first().ok_or_else(|| damaged("a column has no type"))?;
    let repetition = column.self_type().get_basic_info().repetition();
    if schema.num_columns() != 1 || column.max_rep_level() != 0 || repetition == Repetition::REPEATED {
        return Err(damaged("a column is not flat"));
    }
    Ok(Arc::clone(column))
}

/// As what a flat column is read. A 96-bit timestamp is its twelve bytes, since it reaches further than Arrow's do.
pub(crate) fn data_type_of(schema: &Arc<SchemaDescriptor>) -> Option<DataType> {
    if schema.num_columns() == 1 && schema.column(0).physical_type() == parquet::basic::Type::INT96 {
        return Some(DataType::FixedSizeBinary(12)).filter(|_| schema.root_schema().get_fields()[0].is_primitive());
    }
    let arrow = parquet_to_arrow_schema(schema, None).ok()?;
    Some(arrow.fields().first()?.data_type().clone())
}

fn limit(what: &str, found: usize, unit: &str, limit: usize) -> ParquetError {
    ParquetError::General(format!("{what} has {found} {unit}, and at most {limit} are read"))
}

fn damaged(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}
