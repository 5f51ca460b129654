//! Files that other programs wrote (`tests/real/make.py`): each is protected, and restored, and compared.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader};

use crate::Bench;

fn samples() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/samples")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    assert!(files.len() >= 26, "samples are missing");
    files
}

fn metadata(path: &Path) -> ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap()
}

/// Flat columns that are neither the identifier nor always null.
fn flat(metadata: &ParquetMetaData) -> Vec<String> {
    let schema = parquet::arrow::parquet_to_arrow_schema(metadata.file_metadata().schema_descr(), None).unwrap();
    let is_flat = |data_type: &DataType| !data_type.is_nested() && *data_type != DataType::Null;
    let flat = schema.fields().iter().filter(|field| is_flat(field.data_type()) && field.name() != "id");
    flat.map(|field| field.name().clone()).collect()
}

fn pairs(metadata: &ParquetMetaData) -> Vec<KeyValue> {
    metadata.file_metadata().key_value_metadata().cloned().unwrap_or_default()
}

/// The encoded bytes of a column's chunks, by row group.
fn chunks(path: &Path, metadata: &ParquetMetaData, column: usize) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let chunk = |group: usize| {
        let (start, len) = metadata.row_group(group).column(column).byte_range();
        bytes[start as usize..(start + len) as usize].to_vec()
    };
    (0..metadata.num_row_groups()).map(chunk).collect()
}

/// Statistics as text: a NaN among them equals itself there.
fn statistics(chunk: &ColumnChunkMetaData) -> String {
    format!("{:?}", chunk.statistics())
}

/// The values of one column, as they are read without regard to what other programs say of them.
fn values(path: &Path, name: &str) -> Vec<arrow_array::RecordBatch> {
    use parquet::arrow::ProjectionMask;
    use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).unwrap(), options).unwrap();
    let mask = ProjectionMask::columns(builder.parquet_schema(), [name]);
    builder.with_projection(mask).build().unwrap().map(Result::unwrap).collect()
}

#[test]
fn untouched_columns_are_bit_identical_and_protected_ones_come_back() {
    for path in samples() {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let original = metadata(&path);
        let names = flat(&original);
        for (turn, method) in ["random", "deterministic"].into_iter().enumerate() {
            let bench = Bench::new();
            std::fs::copy(&path, bench.path("in.parquet")).unwrap();
            // Every other column, so that each is untouched in one turn and protected in the other.
            let named: Vec<&String> = names.iter().skip(turn).step_by(2).collect();
            let specs: Vec<String> = named.iter().map(|name| format!("{name}={method}")).collect();
            let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
            if specs.is_empty() {
                continue;
            }
            bench.protect("in.parquet", "out.parquet", &specs).unwrap_or_else(|error| panic!("{file}: {error}"));
            bench.unprotect("out.parquet", "back.parquet").unwrap_or_else(|error| panic!("{file}: {error}"));
            let (protected, restored) = (metadata(&bench.path("out.parquet")), metadata(&bench.path("back.parquet")));
            assert_eq!(restored.file_metadata().schema_descr(), original.file_metadata().schema_descr(), "{file}");
            // The values of an enumeration would stand in the manifest in clear.
            if file != "polars.parquet" || !named.iter().any(|name| *name == "enum") {
                assert_eq!(pairs(&restored), pairs(&original), "{file}");
            }
            assert_eq!(restored.file_metadata().created_by(), original.file_metadata().created_by(), "{file}");
            for (column, descriptor) in original.file_metadata().schema_descr().columns().iter().enumerate() {
                let name = descriptor.path().string();
                let before = chunks(&path, &original, column);
                if named.iter().any(|named| **named == name) {
                    let out = chunks(&bench.path("out.parquet"), &protected, column);
                    assert_ne!(out, before, "{file}: {name} is in clear");
                    assert_eq!(values(&bench.path("back.parquet"), &name), values(&path, &name), "{file}: {name}");
                    let codec = |metadata: &ParquetMetaData| metadata.row_group(0).column(column).compression();
                    assert_eq!(codec(&restored), codec(&original), "{file}: {name}");
                    continue;
                }
                for (output, metadata) in [("out.parquet", &protected), ("back.parquet", &restored)] {
                    assert_eq!(chunks(&bench.path(output), metadata, column), before, "{file}: {name} in {output}");
                    for group in 0..original.num_row_groups() {
                        let (left, right) =
                            (metadata.row_group(group).column(column), original.row_group(group).column(column));
                        assert_eq!(statistics(left), statistics(right), "{file}: {name}");
                        assert_eq!(left.bloom_filter_length(), right.bloom_filter_length(), "{file}: {name}");
                        assert_eq!(left.column_index_length(), right.column_index_length(), "{file}: {name}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_category_column_keeps_its_dictionary_under_every_method() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/samples");
    let path = folder.join("pyarrow-snappy.parquet");
    let original = crate::read_parquet(&path);
    let categories = |table: &arrow_array::RecordBatch| {
        use arrow_array::Array;
        let column = table.column_by_name("category").unwrap();
        column.to_data().child_data()[0].clone()
    };
    assert_eq!(categories(&original).len(), 4, "one of them is unused");
    for method in ["random", "deterministic"] {
        let bench = Bench::new();
        std::fs::copy(&path, bench.path("in.parquet")).unwrap();
        bench.protect("in.parquet", "out.parquet", &[&format!("category={method}")]).unwrap();
        bench.unprotect("out.parquet", "back.parquet").unwrap();
        let restored = crate::read_parquet(&bench.path("back.parquet"));
        assert_eq!(restored.schema(), original.schema(), "{method}: `ordered` and the index type");
        assert_eq!(restored, original, "{method}");
        let plain = |path: &Path| {
            let metadata = metadata(path);
            let column =
                metadata.file_metadata().schema_descr().columns().iter().position(|leaf| leaf.name() == "category");
            metadata.row_group(0).column(column.unwrap()).dictionary_page_offset().is_some()
        };
        assert!(plain(&bench.path("back.parquet")), "{method}");
        assert_eq!(categories(&restored), categories(&original), "{method}");
    }
}

fn arrow_metadata(path: &Path) -> arrow_schema::Schema {
    use base64::Engine as _;
    let pairs = pairs(&metadata(path));
    let pair = pairs.iter().find(|pair| pair.key == parquet::arrow::ARROW_SCHEMA_META_KEY).unwrap();
    let message = base64::engine::general_purpose::STANDARD.decode(pair.value.as_ref().unwrap()).unwrap();
    arrow_ipc::convert::try_schema_from_ipc_buffer(&message).unwrap()
}

/// pyarrow gives pandas the metadata that stand within the Arrow schema. What is false there makes pandas fail.
#[test]
fn metadata_within_the_arrow_schema_are_rewritten_too() {
    for version in ["pandas-2", "pandas-3"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/real/samples/{version}.parquet"));
        let bench = Bench::new();
        std::fs::copy(&path, bench.path("in.parquet")).unwrap();
        bench.protect("in.parquet", "out.parquet", &["nullable=random"]).unwrap();
        let protected = arrow_metadata(&bench.path("out.parquet"));
        let pandas = &protected.metadata()["pandas"];
        assert!(!pandas.contains("Int32") && pandas.contains("categorical"), "{version}: {pandas}");
    }
}

/// fastparquet has no Arrow schema: that a dictionary is one of categories stands in the metadata of pandas alone.
#[test]
fn categories_that_pandas_alone_speaks_of_come_back() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/samples/fastparquet.parquet");
    let bench = Bench::new();
    std::fs::copy(&path, bench.path("in.parquet")).unwrap();
    bench.protect("in.parquet", "out.parquet", &["grade=random"]).unwrap();
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    let dictionary = |path: &Path| {
        use parquet::column::page::{Page, PageReader};
        let metadata = metadata(path);
        let names = metadata.file_metadata().schema_descr().columns();
        let column = names.iter().position(|leaf| leaf.name() == "grade").unwrap();
        let file = std::sync::Arc::new(File::open(path).unwrap());
        let chunk = metadata.row_group(0).column(column);
        let rows = usize::try_from(metadata.row_group(0).num_rows()).unwrap();
        let mut pages = parquet::file::serialized_reader::SerializedPageReader::new(file, chunk, rows, None).unwrap();
        match pages.get_next_page().unwrap().unwrap() {
            Page::DictionaryPage { buf, num_values, .. } => (buf, num_values),
            page => panic!("{page:?}"),
        }
    };
    assert_eq!(dictionary(&path).1, 4, "one of them is unused");
    assert_eq!(dictionary(&bench.path("back.parquet")), dictionary(&path));
}

/// The field of polars' `Enum` lists all values that there can be.
#[test]
fn values_of_a_protected_enumeration_are_not_in_the_metadata() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/samples/polars.parquet");
    let bench = Bench::new();
    std::fs::copy(&path, bench.path("in.parquet")).unwrap();
    bench.protect("in.parquet", "out.parquet", &["enum=random", "big=random"]).unwrap();
    let schema = arrow_metadata(&bench.path("out.parquet"));
    assert!(schema.field_with_name("enum").unwrap().metadata().is_empty());
    assert!(!schema.field_with_name("category").unwrap().metadata().is_empty());
    let manifest: serde_json::Value = serde_json::from_slice(&bench.read("out.parquet.ciphermill.json")).unwrap();
    let manifest = manifest.to_string();
    let schemas: Vec<Vec<u8>> = manifest
        .split('"')
        .filter_map(|text| {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).ok().filter(|bytes| bytes.len() > 200)
        })
        .collect();
    assert_eq!(schemas.len(), 1, "the original schema stands in the manifest");
    assert!(!schemas[0].windows(8).any(|bytes| bytes == b"1;z1;y1;"));
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert_eq!(values(&bench.path("back.parquet"), "enum"), values(&path, "enum"));
}

/// polars writes integers of 128 bits, which Arrow's format does not know. The other columns' types stay nevertheless.
#[test]
fn an_arrow_schema_with_integers_of_128_bits_stays() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/samples/polars.parquet");
    for (column, is_left) in [("text", true), ("big", false)] {
        let bench = Bench::new();
        std::fs::copy(&path, bench.path("in.parquet")).unwrap();
        bench.protect("in.parquet", "out.parquet", &[&format!("{column}=random")]).unwrap();
        let pairs = pairs(&metadata(&bench.path("out.parquet")));
        assert!(pairs.iter().any(|pair| pair.key == parquet::arrow::ARROW_SCHEMA_META_KEY), "{column}");
        if !is_left {
            let schema = arrow_metadata(&bench.path("out.parquet"));
            assert_eq!(schema.field_with_name("big").unwrap().data_type(), &DataType::Binary);
            assert!(matches!(schema.field_with_name("span").unwrap().data_type(), DataType::Duration(_)));
        }
    }
}

/// 12 KB that stand for 64 GB: a dictionary of one value of 16 MB, and 4,096 rows that have it.
#[test]
fn a_dictionary_of_a_long_value_is_processed_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/hostile/dictionary.parquet");
    let bench = Bench::new();
    std::fs::copy(&path, bench.path("in.parquet")).unwrap();
    let summary = bench.protect("in.parquet", "out.parquet", &["long=deterministic"]).unwrap();
    assert_eq!((summary.values, summary.processed), (4096, 1));
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    let (original, restored) = (metadata(&path), metadata(&bench.path("back.parquet")));
    assert_eq!(restored.file_metadata().schema_descr(), original.file_metadata().schema_descr());
    assert!(std::fs::metadata(bench.path("back.parquet")).unwrap().len() < 1 << 20);
}
