//! Rows of Parquet tables that are rejected: where they go, and what becomes of the others.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field};
use ciphermill_table::{Manifest, NoProgress, ProtectJob, Result, RowBinding, Summary, protect};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::samples::{Numbers, sample_array};
use crate::{Bench, batch, read_parquet, write_parquet};

fn run(bench: &Bench, job: &ProtectJob) -> Result<Summary> {
    protect(job, &bench.mill, &bench.root, &NoProgress)
}

fn rejecting(bench: &Bench, columns: &[&str]) -> ProtectJob {
    let mut job = bench.job("in.parquet", "out.parquet", columns);
    job.reject_file = Some(bench.path("bad.parquet"));
    job
}

/// The rows of a table for which `keep` says so.
fn rows_of(table: &RecordBatch, keep: impl Fn(usize) -> bool) -> RecordBatch {
    let take = |column: &ArrayRef| {
        let data = column.to_data();
        let mut taken = MutableArrayData::new(vec![&data], false, 0);
        (0..column.len()).filter(|row| keep(*row)).for_each(|row| taken.try_extend(0, row, row + 1).unwrap());
        arrow_array::make_array(taken.freeze())
    };
    RecordBatch::try_new(table.schema(), table.columns().iter().map(take).collect()).unwrap()
}

/// Texts of which ff1 takes all but those of `bad` rows.
fn texts(len: usize, bad: impl Fn(usize) -> bool) -> ArrayRef {
    let text = |row: usize| match (row % 11, bad(row)) {
        (0, false) => None,
        (_, false) => Some(format!("{}", 1_000_000 + row)),
        (_, true) => Some(if row.is_multiple_of(2) { "n/a".to_owned() } else { "12".to_owned() }),
    };
    Arc::new(StringArray::from((0..len).map(text).collect::<Vec<_>>()))
}

/// Lists of structs and maps, some null, some empty.
fn nested(len: usize, seed: u64) -> Vec<(&'static str, ArrayRef)> {
    let mut numbers = Numbers(seed);
    let mut lists = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..len {
        for _ in 0..numbers.next() % 4 {
            for _ in 0..numbers.next() % 3 {
                lists.values().values().append_option((!numbers.next().is_multiple_of(5)).then_some(row as i32));
            }
            lists.values().append(!numbers.next().is_multiple_of(5));
        }
        lists.append(!numbers.next().is_multiple_of(5));
        for key in 0..numbers.next() % 3 {
            maps.keys().append_value(format!("k{key}"));
            maps.values().append_value(row as i32);
        }
        maps.append(!numbers.next().is_multiple_of(5)).unwrap();
    }
    let fields = [("x", DataType::Utf8), ("y", DataType::Int64)];
    let fields = fields.map(|(name, data_type)| {
        let array = sample_array(&data_type, len, seed);
        (Arc::new(Field::new(name, data_type, true)), array)
    });
    let structs: ArrayRef = Arc::new(StructArray::from(fields.to_vec()));
    vec![("lists", Arc::new(lists.finish())), ("maps", Arc::new(maps.finish())), ("structs", structs)]
}

fn table(len: usize, seed: u64, bad: impl Fn(usize) -> bool) -> RecordBatch {
    let category = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..len as i64))),
        ("t", texts(len, bad)),
        ("name", sample_array(&DataType::Utf8, len, seed)),
        ("kind", sample_array(&category, len, seed)),
        ("money", sample_array(&DataType::Decimal128(15, 2), len, seed)),
        ("half", sample_array(&DataType::Float16, len, seed)),
        ("yes", sample_array(&DataType::Boolean, len, seed)),
        ("bytes", sample_array(&DataType::FixedSizeBinary(7), len, seed)),
        ("other", sample_array(&category, len, seed + 1)),
    ];
    columns.extend(nested(len, seed));
    batch(columns)
}

fn properties(kind: usize) -> WriterProperties {
    let version = if kind.is_multiple_of(2) { WriterVersion::PARQUET_1_0 } else { WriterVersion::PARQUET_2_0 };
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(40))
        .set_data_page_row_count_limit(13)
        .set_write_batch_size(7)
        .set_writer_version(version)
        .set_dictionary_enabled(kind < 2)
        .set_bloom_filter_enabled(kind == 1)
        .set_compression(if kind == 0 { Compression::SNAPPY } else { Compression::ZSTD(Default::default()) })
        .build()
}

const PROTECTED: [&str; 4] = ["t=ff1:on-bad=reject", "name=random", "kind=deterministic", "money=deterministic"];

#[test]
fn rejected_rows_go_elsewhere_and_all_others_come_back() {
    let bad = |row: usize| row % 7 == 3 || (80..120).contains(&row);
    for kind in 0..4 {
        let bench = Bench::new();
        let original = table(200, 5 + kind as u64, bad);
        write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&original), Some(properties(kind)));
        let job = rejecting(&bench, &PROTECTED);
        let summary = run(&bench, &job).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let count = (0..200).filter(|row| bad(*row)).count() as u64;
        assert_eq!((summary.rows, summary.rejected_rows), (200 - count, count), "{kind}");
        let counted: u64 = summary.columns[0].bad.iter().map(|values| values.count).sum();
        assert_eq!((counted, summary.columns[1].values + summary.columns[1].nulls), (count, 200 - count));
        let groups = metadata(&bench.path("out.parquet")).row_groups().len();
        assert_eq!(groups, 4, "the group of which nothing is left is left out");
        assert_eq!(read_parquet(&bench.path("bad.parquet")), rows_of(&original, bad), "{kind}");
        let mode = std::fs::metadata(bench.path("bad.parquet")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let manifest = Manifest::read(&bench.path("out.parquet.ciphermill.json")).unwrap();
        assert_eq!((manifest.rows, manifest.rejected_rows), (200 - count, count));
        let safe = bench.read("out.parquet");
        assert!(!safe.windows(3).any(|window| window == b"n/a"), "{kind}");
        bench.unprotect("out.parquet", "back.parquet").unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(read_parquet(&bench.path("back.parquet")), rows_of(&original, |row| !bad(row)), "{kind}");
        // Rejected rows are a table like others.
        bench.protect("bad.parquet", "bad.safe.parquet", &["name=random"]).unwrap();
        bench.unprotect("bad.safe.parquet", "bad.back.parquet").unwrap();
        assert_eq!(read_parquet(&bench.path("bad.back.parquet")), rows_of(&original, bad), "{kind}");
    }
}

fn metadata(path: &Path) -> parquet::file::metadata::ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap()
}

/// The encoded bytes of a chunk.
fn chunk(path: &Path, group: usize, column: usize) -> Vec<u8> {
    let (start, len) = metadata(path).row_group(group).column(column).byte_range();
    std::fs::read(path).unwrap()[start as usize..(start + len) as usize].to_vec()
}

#[test]
fn row_groups_without_rejected_rows_stay_bit_identical() {
    let bench = Bench::new();
    let original = table(200, 9, |row| row == 60);
    write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&original), Some(properties(1)));
    run(&bench, &rejecting(&bench, &PROTECTED)).unwrap();
    for group in 0..5 {
        for column in [0, 5, 6, 7, 8, 9, 10, 11] {
            let same =
                chunk(&bench.path("in.parquet"), group, column) == chunk(&bench.path("out.parquet"), group, column);
            assert!(same || group == 1, "group {group}, column {column}");
        }
    }
    let written = metadata(&bench.path("out.parquet"));
    let before = metadata(&bench.path("in.parquet"));
    for column in [0, 5] {
        let (found, wanted) = (written.row_group(1).column(column), before.row_group(1).column(column));
        assert_eq!(found.compression(), wanted.compression());
        assert_eq!(found.bloom_filter_offset().is_some(), wanted.bloom_filter_offset().is_some());
        assert_eq!(found.column_index_offset().is_some(), wanted.column_index_offset().is_some());
        assert!(found.statistics().is_some());
    }
    // Nothing to reject: a file without rows, as with CSV.
    let mut job = rejecting(&bench, &["t=ff1:on-bad=reject"]);
    write_parquet(&bench.path("in.parquet"), &[table(9, 1, |_| false)], None);
    job.force = true;
    assert_eq!(run(&bench, &job).unwrap().rejected_rows, 0);
    let none = read_parquet(&bench.path("bad.parquet"));
    assert_eq!((none.num_rows(), none.schema()), (0, read_parquet(&bench.path("in.parquet")).schema()));
    // Everything to reject: a table without rows.
    write_parquet(&bench.path("in.parquet"), &[table(9, 1, |_| true)], None);
    assert_eq!(run(&bench, &job).unwrap().rows, 0);
    let mut back = bench.back("out.parquet", "back.parquet");
    back.force = true;
    ciphermill_table::unprotect(&back, &bench.mill, &bench.root, &NoProgress).unwrap();
    assert_eq!(read_parquet(&bench.path("back.parquet")).num_rows(), 0);
    assert_eq!(read_parquet(&bench.path("bad.parquet")).num_rows(), 9);
}

#[test]
fn an_error_leaves_none_of_the_files() {
    let bench = Bench::new();
    let original = table(100, 3, |row| row == 60 || row == 7);
    write_parquet(&bench.path("in.parquet"), &[original], Some(properties(0)));
    let before = bench.names();
    let job = rejecting(&bench, &["t=ff1:on-bad=reject", "name=ff1"]);
    let words = bench.error(run(&bench, &job), &before);
    // Rows are those of the input, whatever was left out before.
    assert!(words.contains("column `name`") && words.contains("row "), "{words}");
    let mut job = rejecting(&bench, &PROTECTED);
    job.dry_run = true;
    assert_eq!(run(&bench, &job).unwrap().columns[0].bad.iter().map(|bad| bad.count).sum::<u64>(), 2);
    assert_eq!(bench.names(), before);
    bench.write("bad.parquet", "mine");
    let before = bench.names();
    let words = bench.error(run(&bench, &rejecting(&bench, &PROTECTED)), &before);
    assert!(words.contains("exists"), "{words}");
}

#[test]
fn places_are_those_of_the_input() {
    let bench = Bench::new();
    let len = 100;
    let other = |row: usize| if row == 77 { "x" } else { "1234567" };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("t", texts(len, |row| row.is_multiple_of(2))),
        ("u", Arc::new(StringArray::from((0..len).map(other).collect::<Vec<_>>()))),
    ];
    write_parquet(&bench.path("in.parquet"), &[batch(columns)], Some(properties(2)));
    let words = run(&bench, &rejecting(&bench, &["t=ff1:on-bad=reject", "u=ff1"])).unwrap_err().to_string();
    assert!(words.contains("row 78, column `u`"), "{words}");
}

#[test]
fn a_table_without_rows_has_none_to_reject() {
    for kind in 0..4 {
        let bench = Bench::new();
        let original = table(0, 77, |_| true);
        write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&original), Some(properties(kind)));
        assert_eq!(run(&bench, &rejecting(&bench, &PROTECTED)).unwrap().rejected_rows, 0);
        assert_eq!(read_parquet(&bench.path("bad.parquet")), original);
        bench.unprotect("out.parquet", "back.parquet").unwrap();
        assert_eq!(read_parquet(&bench.path("back.parquet")), original);
    }
}

#[test]
fn rows_without_identifiers_are_rejected() {
    let bench = Bench::new();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, None]));
    let original = batch(vec![("id", ids), ("name", names)]);
    write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&original), None);
    let mut job = rejecting(&bench, &["name=random:on-bad=reject"]);
    job.bind_row = Some(RowBinding { column: "id".to_owned(), table: String::new() });
    assert_eq!(run(&bench, &job).unwrap().rejected_rows, 1);
    assert_eq!(read_parquet(&bench.path("bad.parquet")), rows_of(&original, |row| row == 1));
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert_eq!(read_parquet(&bench.path("back.parquet")), rows_of(&original, |row| row != 1));
}

fn samples(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files.extend(samples(&path)) } else { files.push(path) }
    }
    files
}

/// Files that other programs wrote: rows rejected for any text that is not of letters and digits.
#[test]
fn files_of_other_programs_are_taken_apart_by_rows() {
    let mut rejected = 0;
    for path in samples(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/samples")) {
        let file = path.display();
        let bench = Bench::new();
        std::fs::copy(&path, bench.path("in.parquet")).unwrap();
        // The Arrow reader, which compares here, reads neither truth values of the one nor 128-bit integers of the other.
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("spark-v2") || name == "polars.parquet" {
            continue;
        }
        let original = read_parquet(&path);
        let is_text = |field: &&Arc<Field>| {
            matches!(field.data_type(), DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
        };
        let schema = original.schema();
        let Some(text) = schema.fields().iter().find(is_text) else { continue };
        let column = format!("{}=ff1:alphabet=alnum,on-bad=reject", text.name());
        let summary = run(&bench, &rejecting(&bench, &[&column])).unwrap_or_else(|error| panic!("{file}: {error}"));
        rejected += summary.rejected_rows;
        let bad = arrow_cast::cast(original.column_by_name(text.name()).unwrap(), &DataType::Utf8).unwrap();
        let bad = bad.as_any().downcast_ref::<StringArray>().unwrap();
        let is_bad = |row: usize| {
            let takes = |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
            bad.is_valid(row) && !takes(bad.value(row))
        };
        let same = |found: RecordBatch, wanted: RecordBatch| {
            assert_eq!(
                (found.schema().fields(), found.columns()),
                (wanted.schema().fields(), wanted.columns()),
                "{file}"
            );
        };
        same(read_parquet(&bench.path("bad.parquet")), rows_of(&original, is_bad));
        bench.unprotect("out.parquet", "back.parquet").unwrap_or_else(|error| panic!("{file}: {error}"));
        same(read_parquet(&bench.path("back.parquet")), rows_of(&original, |row| !is_bad(row)));
    }
    assert!(rejected > 100, "{rejected}");
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]
    #[test]
    fn any_rows_can_be_rejected(marks in proptest::collection::vec(proptest::bool::weighted(0.3), 0..150), kind in 0usize..4) {
        let bench = Bench::new();
        let original = table(marks.len(), 77, |row| marks[row]);
        write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&original), Some(properties(kind)));
        run(&bench, &rejecting(&bench, &PROTECTED)).unwrap();
        proptest::prop_assert_eq!(read_parquet(&bench.path("bad.parquet")), rows_of(&original, |row| marks[row]));
        bench.unprotect("out.parquet", "back.parquet").unwrap();
        proptest::prop_assert_eq!(read_parquet(&bench.path("back.parquet")), rows_of(&original, |row| !marks[row]));
    }
}
