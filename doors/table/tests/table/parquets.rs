//! Parquet files: types, metadata, dictionaries.

use std::collections::HashMap;
use std::fs::File;
use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use ciphermill_table::{BATCH_ROWS_MAX, TableError, UnprotectJob};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::samples::{Numbers, sample_array};
use crate::{Bench, batch, columns, read_parquet, write_parquet};

fn field(table: &RecordBatch, name: &str) -> Field {
    table.schema().field_with_name(name).unwrap().clone()
}

#[test]
fn every_type_comes_back_under_every_method() {
    let bench = Bench::new();
    let types = columns::types();
    let arrays: Vec<(String, ArrayRef)> = types
        .iter()
        .enumerate()
        .map(|(at, data_type)| (format!("c{at}"), sample_array(data_type, 300, at as u64)))
        .collect();
    let original = batch(arrays.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect());
    write_parquet(&bench.path("in.parquet"), from_ref(&original), None);
    let original = read_parquet(&bench.path("in.parquet"));
    for method in ["random", "deterministic"] {
        let columns: Vec<String> = arrays.iter().map(|(name, _)| format!("{name}={method}")).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let (output, back) = (format!("{method}.parquet"), format!("{method}.back.parquet"));
        let summary = bench.protect("in.parquet", &output, &columns).unwrap();
        let nulls: usize = arrays.iter().map(|(_, array)| array.logical_null_count()).sum();
        assert_eq!(summary.nulls, nulls as u64);
        let protected = read_parquet(&bench.path(&output));
        for column in protected.columns() {
            assert_eq!(column.data_type(), &DataType::Binary);
        }
        bench.unprotect(&output, &back).unwrap();
        let restored = read_parquet(&bench.path(&back));
        assert_eq!(restored.schema(), original.schema(), "{method}");
        for (at, (left, right)) in restored.columns().iter().zip(original.columns()).enumerate() {
            assert_eq!(left, right, "{method}, {}", types[at]);
        }
    }
}

#[test]
fn tokens_of_every_type_are_tokens() {
    let bench = Bench::new();
    let arrays: Vec<ArrayRef> = columns::types().iter().map(|data_type| sample_array(data_type, 90, 3)).collect();
    let names: Vec<String> = (0..arrays.len()).map(|at| format!("c{at}")).collect();
    let table = batch(names.iter().map(String::as_str).zip(arrays.iter().cloned()).collect());
    write_parquet(&bench.path("in.parquet"), &[table], None);
    let columns: Vec<String> = names.iter().map(|name| format!("{name}=token:len=20")).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    bench.protect("in.parquet", "out.parquet", &columns).unwrap();
    let protected = read_parquet(&bench.path("out.parquet"));
    for (token, plain) in protected.columns().iter().zip(&arrays) {
        let tokens = token.as_binary::<i32>();
        for row in 0..tokens.len() {
            assert_eq!(tokens.is_null(row), plain.logical_nulls().is_some_and(|nulls| nulls.is_null(row)));
            assert!(tokens.is_null(row) || tokens.value(row).len() == 20);
        }
    }
    let back = bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert!(back.columns.iter().all(|column| column.left_as_tokens));
    assert_eq!(read_parquet(&bench.path("back.parquet")), protected);
}

#[test]
fn equal_texts_match_across_arrow_types() {
    let bench = Bench::new();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("bc"), Some("a")]));
    let mut stored = Vec::new();
    for (at, data_type) in columns::text_types().iter().enumerate() {
        let (input, output) = (format!("{at}.parquet"), format!("{at}.out.parquet"));
        let table = batch(vec![("t", arrow_cast::cast(&texts, data_type).unwrap())]);
        write_parquet(&bench.path(&input), &[table], None);
        bench.protect(&input, &output, &["t=deterministic"]).unwrap();
        stored.push(read_parquet(&bench.path(&output)).column(0).clone());
    }
    assert!(stored.windows(2).all(|pair| pair[0].as_ref() == pair[1].as_ref()));
    bench.write("t.csv", "t,n\na,1\n,2\nbc,3\n");
    bench.protect("t.csv", "t.out.csv", &["t=deterministic"]).unwrap();
    let text = bench.text("t.out.csv");
    let cell = text.lines().nth(1).unwrap().split(',').next().unwrap();
    assert_eq!(cell.len(), (16usize + 1).div_ceil(3) * 4 - 1);
    assert_eq!(columns::base64url(stored[0].as_binary::<i32>().value(0)), cell, "CSV and Parquet agree");
}

#[test]
fn ff1_keeps_text_types() {
    let bench = Bench::new();
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("123-4567"), None, Some("99-88-77-66"), Some("123-4567")]));
    for (at, data_type) in columns::text_types().iter().enumerate() {
        let (input, output, back) =
            (format!("{at}.parquet"), format!("{at}.out.parquet"), format!("{at}.back.parquet"));
        let plain = batch(vec![("t", arrow_cast::cast(&texts, data_type).unwrap())]);
        write_parquet(&bench.path(&input), from_ref(&plain), None);
        bench.protect(&input, &output, &["t=ff1:sep=-"]).unwrap();
        let protected = read_parquet(&bench.path(&output));
        assert_eq!(protected.schema(), plain.schema(), "{data_type}");
        let values = arrow_cast::cast(protected.column(0), &DataType::Utf8).unwrap();
        let values = values.as_string::<i32>();
        assert!(values.is_null(1) && values.value(0) != "123-4567" && values.value(0) == values.value(3));
        assert_eq!(values.value(2).match_indices('-').map(|(at, _)| at).collect::<Vec<_>>(), [2, 5, 8]);
        bench.unprotect(&output, &back).unwrap();
        assert_eq!(read_parquet(&bench.path(&back)), plain, "{data_type}");
    }
}

#[test]
fn a_dictionary_is_processed_once_a_value() {
    let bench = Bench::new();
    const ROWS: usize = 200_000;
    let words = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];
    let mut numbers = Numbers(9);
    let picks: Vec<Option<&str>> =
        (0..ROWS).map(|_| (!numbers.next().is_multiple_of(10)).then(|| words[(numbers.next() % 5) as usize])).collect();
    let dictionary: DictionaryArray<Int32Type> = picks.iter().copied().collect();
    let plain: StringArray = picks.iter().copied().collect();
    let table = batch(vec![
        ("d", Arc::new(dictionary.clone())),
        ("t", Arc::new(dictionary.clone())),
        ("p", Arc::new(plain)),
        ("r", Arc::new(dictionary)),
        ("f", Arc::new(StringArray::from_iter_values(picks.iter().map(|word| word.unwrap_or("NOTHING"))))),
    ]);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(30_000)).build();
    write_parquet(&bench.path("in.parquet"), from_ref(&table), Some(properties));
    let columns = ["d=deterministic", "t=token", "p=deterministic", "r=random", "f=ff1:alphabet=upper"];
    let summary = bench.protect("in.parquet", "out.parquet", &columns).unwrap();
    let nulls = picks.iter().filter(|pick| pick.is_none()).count() as u64;
    let counts: Vec<(u64, u64)> = summary.columns.iter().map(|column| (column.processed, column.values)).collect();
    let values = ROWS as u64 - nulls;
    // A category column's dictionary is protected with each of seven row groups, beside its values.
    assert_eq!(counts, [(5, values), (5, values), (5, values), (values + 7 * 5, values), (6, ROWS as u64)]);
    assert!(summary.batch_rows_max <= BATCH_ROWS_MAX as u64 && summary.batches >= 13);
    let back = bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert_eq!(back.columns[0].processed, 5);
    let restored = read_parquet(&bench.path("back.parquet"));
    for column in ["d", "p", "r", "f"] {
        let text =
            |table: &RecordBatch| arrow_cast::cast(table.column_by_name(column).unwrap(), &DataType::Utf8).unwrap();
        assert_eq!(field(&restored, column), field(&table, column));
        assert!(text(&restored) == text(&table), "{column}");
    }
}

#[test]
fn everything_else_passes_unchanged() {
    let bench = Bench::new();
    let list = arrow_array::ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let text = |key: &str| HashMap::from([(key.to_owned(), "kept".to_owned())]);
    let mut extended = text("field");
    extended.insert("ARROW:extension:name".to_owned(), "test.name".to_owned());
    let schema = Schema::new_with_metadata(
        vec![
            Field::new("id", DataType::Int64, false).with_metadata(text("id")),
            Field::new("name", DataType::Utf8, false).with_metadata(extended),
            Field::new("list", list.data_type().clone(), true),
            Field::new("note", DataType::Utf8View, true),
        ],
        text("schema"),
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(StringArray::from(vec!["", "b", "ç"])),
        Arc::new(list),
        Arc::new(arrow_array::StringViewArray::from(vec![Some(""), None, Some("a longer note than a view holds")])),
    ];
    let table = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_key_value_metadata(Some(vec![KeyValue::new("origin".to_owned(), "here".to_owned())]))
        .build();
    write_parquet(&bench.path("in.parquet"), &[table], Some(properties));
    let original = read_parquet(&bench.path("in.parquet"));
    bench.protect("in.parquet", "out.parquet", &["name=deterministic"]).unwrap();
    let protected = read_parquet(&bench.path("out.parquet"));
    let schema = protected.schema();
    let name = schema.field_with_name("name").unwrap();
    assert_eq!((name.data_type(), name.is_nullable()), (&DataType::Binary, false));
    assert_eq!(name.metadata().get("field").map(String::as_str), Some("kept"));
    assert!(!name.metadata().contains_key("ARROW:extension:name"), "the protected column is no `test.name`");
    for column in ["id", "list", "note"] {
        assert_eq!(protected.column_by_name(column), original.column_by_name(column));
        assert_eq!(field(&protected, column), field(&original, column));
    }
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    let restored = read_parquet(&bench.path("back.parquet"));
    assert_eq!(restored.schema(), original.schema());
    assert_eq!(restored, original);
    let file = ParquetRecordBatchReaderBuilder::try_new(File::open(bench.path("out.parquet")).unwrap()).unwrap();
    let metadata = file.metadata();
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    assert!(pairs.iter().any(|pair| pair.key == "origin" && pair.value.as_deref() == Some("here")));
    assert!(matches!(metadata.row_group(0).column(0).compression(), Compression::ZSTD(_)));
}

#[test]
fn nested_columns_and_numbers_under_ff1_are_refused() {
    let bench = Bench::new();
    let list = arrow_array::ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]);
    let table = batch(vec![("l", Arc::new(list)), ("n", Arc::new(Int64Array::from(vec![1])))]);
    write_parquet(&bench.path("in.parquet"), &[table], None);
    let before = bench.names();
    let words = bench.error(bench.protect("in.parquet", "out.parquet", &["l=random"]), &before);
    assert!(words.contains("`l`") && words.contains("List") && words.contains("flat"), "{words}");
    let words = bench.error(bench.protect("in.parquet", "out.parquet", &["n=ff1"]), &before);
    assert!(words.contains("ff1 works on text columns"), "{words}");
}

#[test]
fn empty_tables_and_dictionaries_with_null_values_pass() {
    let bench = Bench::new();
    let empty = batch(vec![("a", Arc::new(StringArray::from(Vec::<&str>::new())) as ArrayRef)]);
    write_parquet(&bench.path("in.parquet"), from_ref(&empty), None);
    let summary = bench.protect("in.parquet", "out.parquet", &["a=random"]).unwrap();
    assert_eq!((summary.rows, summary.processed), (0, 0));
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert_eq!(read_parquet(&bench.path("back.parquet")).num_rows(), 0);
}

#[test]
fn long_values_make_small_batches() {
    let bench = Bench::new();
    let long: Vec<String> = (0..200).map(|row| format!("{row}{}", "x".repeat(400_000))).collect();
    let table = batch(vec![("t", Arc::new(StringArray::from(long)) as ArrayRef)]);
    write_parquet(&bench.path("in.parquet"), from_ref(&table), None);
    let summary = bench.protect("in.parquet", "out.parquet", &["t=random"]).unwrap();
    assert!(summary.batch_bytes_max < 64 << 20, "{} bytes", summary.batch_bytes_max);
    assert!(summary.batches >= 5, "{} batches", summary.batches);
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert!(read_parquet(&bench.path("back.parquet")) == table);
}

#[test]
fn a_changed_parquet_file_is_noticed() {
    let bench = Bench::new();
    let table = batch(vec![("t", Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef)]);
    write_parquet(&bench.path("in.parquet"), &[table], None);
    bench.protect("in.parquet", "out.parquet", &["t=deterministic"]).unwrap();
    // The same values written once more by another writer.
    let protected = read_parquet(&bench.path("out.parquet"));
    let properties = WriterProperties::builder().set_created_by("another writer".to_owned()).build();
    write_parquet(&bench.path("out.parquet"), &[protected.slice(0, 2)], Some(properties));
    let mut job = bench.back("out.parquet", "back.parquet");
    let run =
        |job: &UnprotectJob| ciphermill_table::unprotect(job, &bench.mill, &bench.root, &ciphermill_table::NoProgress);
    assert!(matches!(run(&job), Err(TableError::Changed { .. })));
    job.allow_changed = true;
    assert_eq!(run(&job).unwrap().rows, 2);
}
