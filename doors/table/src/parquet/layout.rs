//! How a column is stored when it is protected, and again when it is restored.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use super::arrow_footer::Described;
use super::footer::{Footer, chunk_field, codec_number, codec_of, column_of, element_field, group_field, meta_field};
use super::pages::{Pages, Survey};
use super::thrift::{Parsed, Struct, Value};
use super::write::Layout;
use super::{ParquetInput, foreign, is_binary};
use crate::error::{Result, TableError};
use crate::manifest::ParquetStorage;
use crate::spec::Method;

/// A codec of Parquet, by the name that the format gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec(Compression);

/// Makes a codec at its usual level.
type MakeCodec = fn() -> Compression;

const CODECS: [(&str, MakeCodec); 8] = [
    ("uncompressed", || Compression::UNCOMPRESSED),
    ("snappy", || Compression::SNAPPY),
    ("gzip", || Compression::GZIP(Default::default())),
    ("lzo", || Compression::LZO),
    ("brotli", || Compression::BROTLI(Default::default())),
    ("lz4", || Compression::LZ4),
    ("zstd", || Compression::ZSTD(Default::default())),
    ("lz4_raw", || Compression::LZ4_RAW),
];

impl FromStr for Codec {
    type Err = String;

    /// Parses `uncompressed`, `snappy`, `gzip`, `brotli`, `zstd`, `lz4_raw` or `lz4`, in any case.
    fn from_str(name: &str) -> std::result::Result<Codec, String> {
        let found = CODECS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name) && *known != "lzo");
        let known = || "there are uncompressed, snappy, gzip, brotli, zstd, lz4_raw and lz4".to_owned();
        found.map(|(_, codec)| Codec(codec())).ok_or_else(known)
    }
}

impl Codec {
    /// The codec of tables that come from elsewhere.
    pub(crate) fn usual() -> Codec {
        Codec(Compression::SNAPPY)
    }

    pub(crate) fn compression(self) -> Compression {
        self.0
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(self.0))
    }
}

fn name_of(codec: Compression) -> &'static str {
    CODECS[codec_number(codec) as usize].0
}

/// Encodings of values that a column can be given again.
const ENCODINGS: [(i64, &str); 6] = [
    (0, "PLAIN"),
    (3, "RLE"),
    (5, "DELTA_BINARY_PACKED"),
    (6, "DELTA_LENGTH_BYTE_ARRAY"),
    (7, "DELTA_BYTE_ARRAY"),
    (9, "BYTE_STREAM_SPLIT"),
];

impl ParquetInput {
    /// How a column is stored now, and how when it is protected.
    ///
    /// # Errors
    /// `Parquet` when its first chunk does not parse.
    pub(crate) fn protected_layout(
        &self,
        field: usize,
        method: &Method,
        codec: Option<Codec>,
    ) -> Result<(Layout, ParquetStorage)> {
        self.plan(field, method, codec).map_err(|source| {
            let name = &self.footer.fields[field].name;
            TableError::parquet(&self.path, ParquetError::General(format!("column `{name}`: {source}")))
        })
    }

    fn plan(&self, field: usize, method: &Method, codec: Option<Codec>) -> Parsed<(Layout, ParquetStorage)> {
        let root = &self.footer.fields[field];
        let missing = || ParquetError::General("it is not flat".to_owned());
        let element = self.footer.elements().nth(root.element).ok_or_else(missing)?;
        let storage = self.storage(field, element)?;
        let random = *method == Method::Random;
        let element = if is_binary(method) { protected_element(element) } else { element.clone() };
        let column = column_of(&element)?;
        // Random ciphertexts neither compress nor repeat, so nothing is tried with them.
        let uncompressed = random.then_some(Compression::UNCOMPRESSED);
        let layout = Layout {
            data_type: if is_binary(method) { DataType::Binary } else { root.data_type.clone() },
            element,
            column,
            codec: codec.map(|Codec(codec)| codec).or(uncompressed),
            dictionary: !random && (is_binary(method) || storage.dictionary),
            encoding: if is_binary(method) { Encoding::PLAIN } else { encoding_of(&storage)? },
            version: storage.page_version,
            statistics: !is_binary(method) && storage.statistics,
            bloom_filter: !is_binary(method) && storage.bloom_filter,
            column_index: !is_binary(method) && storage.column_index,
            offset_index: storage.offset_index,
            categories: self.is_category(&root.name)?,
        };
        Ok((layout, storage))
    }

    /// How a column that others wrote, protected, is to be stored when it is restored: as they have stored it, but with this type.
    ///
    /// # Errors
    /// `Parquet` when its first chunk does not parse, or Parquet has no such type.
    pub(crate) fn storage_in_clear(
        &self,
        field: usize,
        data_type: &DataType,
        nullable: bool,
    ) -> Result<ParquetStorage> {
        let name = &self.footer.fields[field].name;
        let stored = || {
            let element = element_of(&Field::new(name, data_type.clone(), nullable))?;
            let found = self.storage(field, &element)?;
            Ok(ParquetStorage { codec: found.codec, ..usual_storage(found.schema_element) })
        };
        stored().map_err(|source: ParquetError| {
            TableError::parquet(&self.path, ParquetError::General(format!("column `{name}`: {source}")))
        })
    }

    /// How a column was stored before it was protected.
    ///
    /// # Errors
    /// `Parquet` when what the manifest says is no way to store a column.
    pub(crate) fn restored_layout(&self, field: usize, storage: &ParquetStorage) -> Result<Layout> {
        self.plan_back(field, storage).map_err(|source| TableError::parquet(&self.path, source))
    }

    fn plan_back(&self, field: usize, storage: &ParquetStorage) -> Parsed<Layout> {
        let damaged = |problem: &str| ParquetError::General(format!("the manifest: {problem}"));
        let element =
            hex::decode(&storage.schema_element).map_err(|_| damaged("a schema element is not hexadecimal"))?;
        let (mut element, _) = Struct::parse(&element)?;
        element.set(element_field::NAME, Value::Binary(self.footer.fields[field].name.clone().into_bytes()));
        let column = column_of(&element)?;
        let schema = footer_schema(&element)?;
        let data_type = super::footer::data_type_of(&schema).ok_or_else(|| damaged("a column has no type"))?;
        let codec =
            CODECS.iter().find(|(name, _)| *name == storage.codec).ok_or_else(|| damaged("an unknown codec"))?;
        Ok(Layout {
            element,
            column,
            data_type,
            codec: Some((codec.1)()),
            dictionary: storage.dictionary,
            encoding: encoding_of(storage)?,
            version: storage.page_version,
            statistics: storage.statistics,
            bloom_filter: storage.bloom_filter,
            column_index: storage.column_index,
            offset_index: storage.offset_index,
            categories: false,
        })
    }

    /// How the first chunk of a column is stored.
    fn storage(&self, field: usize, element: &Struct) -> Parsed<ParquetStorage> {
        let mut storage = usual_storage(hex::encode(element.to_bytes()));
        let Some(group) = self.footer.groups().next() else { return Ok(storage) };
        let source = self.source(group, field)?;
        let survey: Survey = Pages::new(&source.file, source.extent).survey()?;
        let leaf = self.footer.fields[field].leaf.unwrap_or(0);
        if let Some(chunk) = group.records(group_field::COLUMNS).nth(leaf) {
            survey_storage(&mut storage, chunk, &survey)?;
        }
        Ok(storage)
    }

    /// How a chunk is stored, to be stored so again.
    pub(crate) fn same_layout(
        &self,
        chunk: &Struct,
        leaf: usize,
        column: &ColumnDescPtr,
        survey: &Survey,
    ) -> Parsed<Layout> {
        let mut storage = usual_storage(String::new());
        survey_storage(&mut storage, chunk, survey)?;
        let field = self.footer.fields.iter().find(|field| field.leaf == Some(leaf));
        let element = field.and_then(|field| self.footer.elements().nth(field.element));
        Ok(Layout {
            element: element.cloned().unwrap_or_default(),
            column: Arc::clone(column),
            data_type: arrow_schema::DataType::Null,
            codec: None,
            dictionary: storage.dictionary,
            encoding: encoding_of(&storage)?,
            version: storage.page_version,
            statistics: storage.statistics,
            bloom_filter: storage.bloom_filter,
            column_index: storage.column_index,
            offset_index: storage.offset_index,
            categories: match field {
                Some(field) => self.is_category(&field.name)?,
                None => false,
            },
        })
    }

    /// Whether another program keeps categories in the column's dictionary: their order, and those that no row has.
    fn is_category(&self, name: &str) -> Parsed<bool> {
        let pairs = self.footer.pairs()?;
        let encoded = pairs.iter().find(|(key, _)| key == parquet::arrow::ARROW_SCHEMA_META_KEY);
        let described = encoded.and_then(|(_, value)| Described::decode(value.as_deref()?));
        let is_category = |field: &Field| field.name() == name && matches!(field.data_type(), DataType::Dictionary(..));
        let by_arrow = described.is_some_and(|described| described.fields().any(|(field, _)| is_category(field)));
        Ok(by_arrow || foreign::is_pandas_category(&pairs, name))
    }
}

/// The schema element of a column of this type, as the library writes it into a file.
fn element_of(field: &Field) -> Parsed<Struct> {
    let mut file = tempfile::tempfile()?;
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    ArrowWriter::try_new_with_options(&mut file, schema, options)?.close()?;
    let footer = Footer::read(&file)?;
    let missing = || ParquetError::General("it has no type in Parquet".to_owned());
    footer.elements().nth(1).cloned().ok_or_else(missing)
}

fn usual_storage(schema_element: String) -> ParquetStorage {
    ParquetStorage {
        schema_element,
        codec: name_of(Compression::SNAPPY).to_owned(),
        dictionary: true,
        encoding: ENCODINGS[0].1.to_owned(),
        page_version: 1,
        statistics: true,
        bloom_filter: false,
        column_index: false,
        offset_index: false,
    }
}

/// Notes how a chunk is stored.
fn survey_storage(storage: &mut ParquetStorage, chunk: &Struct, survey: &Survey) -> Parsed<()> {
    let Some(meta) = chunk.record(chunk_field::META) else { return Ok(()) };
    let encoding = ENCODINGS.iter().find(|(number, _)| *number == survey.value_encoding());
    storage.codec = name_of(codec_of(meta)?).to_owned();
    storage.dictionary = survey.dictionary.is_some();
    storage.encoding = encoding.map_or(ENCODINGS[0].1, |(_, name)| *name).to_owned();
    storage.page_version = survey.version.max(1);
    storage.statistics = meta.get(meta_field::STATISTICS).is_some();
    storage.bloom_filter = meta.get(meta_field::BLOOM_FILTER.0).is_some();
    storage.column_index = chunk.get(chunk_field::COLUMN_INDEX.0).is_some();
    storage.offset_index = chunk.get(chunk_field::OFFSET_INDEX.0).is_some();
    Ok(())
}

fn footer_schema(element: &Struct) -> Parsed<std::sync::Arc<parquet::schema::types::SchemaDescriptor>> {
    super::footer::schema_of(vec![element.clone()])
}

fn encoding_of(storage: &ParquetStorage) -> Parsed<Encoding> {
    storage.encoding.parse()
}

/// The element of a column whose values have become byte strings: name, number and repetition stay.
fn protected_element(element: &Struct) -> Struct {
    const BYTE_ARRAY: i32 = 6;
    let mut protected = Struct::default();
    protected.set_i32(element_field::TYPE, BYTE_ARRAY);
    for field in [element_field::REPETITION, element_field::NAME, element_field::FIELD_ID] {
        if let Some(value) = element.get(field) {
            protected.set(field, value.clone());
        }
    }
    protected
}
