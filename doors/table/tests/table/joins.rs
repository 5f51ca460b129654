//! Integers as texts: equal values of int32, int64 and text columns become equal, in CSV and Parquet.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray, UInt8Array};
use arrow_schema::DataType;

use crate::{Bench, batch, columns, read_parquet, write_parquet};

fn integers() -> Vec<(&'static str, ArrayRef)> {
    let numbers = [Some(0), Some(7), None, Some(120), Some(7)];
    let int32: ArrayRef = Arc::new(Int32Array::from(numbers.to_vec()));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64));
    vec![
        ("int64", Arc::new(Int64Array::from_iter(numbers.iter().map(|number| number.map(i64::from))))),
        ("uint8", Arc::new(UInt8Array::from_iter(numbers.iter().map(|number| number.map(|number| number as u8))))),
        ("text", arrow_cast::cast(&int32, &DataType::Utf8).unwrap()),
        ("view", arrow_cast::cast(&int32, &DataType::Utf8View).unwrap()),
        ("dictionary", arrow_cast::cast(&int32, &dictionary).unwrap()),
        ("int32", int32),
    ]
}

#[test]
fn equal_values_join_over_types_and_formats() {
    let bench = Bench::new();
    let specs = ["t=token:as-text,as=key", "d=deterministic:as-text,as=key"];
    let mut stored = Vec::new();
    for (name, array) in integers() {
        let (input, output) = (format!("{name}.parquet"), format!("{name}.out.parquet"));
        let plain = batch(vec![("t", Arc::clone(&array)), ("d", array)]);
        write_parquet(&bench.path(&input), std::slice::from_ref(&plain), None);
        bench.protect(&input, &output, &specs).unwrap();
        let protected = read_parquet(&bench.path(&output));
        let back = format!("{name}.back.parquet");
        bench.unprotect(&output, &back).unwrap();
        let restored = read_parquet(&bench.path(&back));
        assert_eq!(restored.column(1), plain.column(1), "{name}");
        assert_eq!(restored.column(0), protected.column(0), "{name}: tokens stay tokens");
        stored.push((name, protected));
    }
    let (_, first) = &stored[0];
    for (name, other) in &stored {
        assert_eq!(first.columns(), other.columns(), "{name}");
    }
    bench.write("in.csv", "t,d\n0,0\n7,7\n,\n120,120\n7,7\n");
    bench.protect("in.csv", "out.csv", &specs).unwrap();
    for (row, line) in bench.text("out.csv").lines().skip(1).enumerate().filter(|(row, _)| *row != 2) {
        let cell = |column: usize| columns::base64url(first.column(column).as_binary::<i32>().value(row));
        assert_eq!(line, format!("{},{}", cell(0), cell(1)));
    }
    // Without the option each type keeps its own keys.
    bench.protect("int32.parquet", "a.parquet", &["t=token:as=key"]).unwrap();
    bench.protect("int64.parquet", "b.parquet", &["t=token:as=key"]).unwrap();
    let value = |name: &str| read_parquet(&bench.path(name)).column(0).as_binary::<i32>().value(0).to_vec();
    assert_ne!(value("a.parquet"), value("b.parquet"));
}

#[test]
fn texts_are_taken_as_they_stand() {
    let bench = Bench::new();
    bench.write("in.csv", "t\n7\n07\n+7\n7.0\n 7\n");
    bench.protect("in.csv", "out.csv", &["t=token:as-text"]).unwrap();
    let text = bench.text("out.csv");
    let mut tokens: Vec<&str> = text.lines().skip(1).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 5);
}

#[test]
fn other_types_have_no_text_of_their_own() {
    let bench = Bench::new();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    write_parquet(&bench.path("in.parquet"), &[batch(vec![("f", floats)])], None);
    let before = bench.names();
    let words = bench.error(bench.protect("in.parquet", "out.parquet", &["f=token:as-text"]), &before);
    assert!(words.contains("column `f` is of type Float64: as-text is for integers and texts"), "{words}");
}

#[test]
fn a_value_of_a_wider_column_does_not_fit() {
    let bench = Bench::new();
    let protected = |name: &str, array: ArrayRef| {
        let (input, output) = (format!("{name}.parquet"), format!("{name}.out.parquet"));
        write_parquet(&bench.path(&input), &[batch(vec![("d", array)])], None);
        bench.protect(&input, &output, &["d=deterministic:as-text"]).unwrap();
        read_parquet(&bench.path(&output))
    };
    protected("narrow", Arc::new(Int32Array::from(vec![1])));
    let wide = protected("wide", Arc::new(Int64Array::from(vec![1i64 << 40])));
    write_parquet(&bench.path("narrow.out.parquet"), &[wide], None);
    let mut job = bench.back("narrow.out.parquet", "back.parquet");
    job.allow_changed = true;
    let result = ciphermill_table::unprotect(&job, &bench.mill, &bench.root, &ciphermill_table::NoProgress);
    let words = result.unwrap_err().to_string();
    assert!(words.contains("row 1, column `d`") && words.contains("no number of the column's type"), "{words}");
}

#[test]
fn the_longest_value_comes_back_and_a_longer_one_is_refused() {
    let bench = Bench::new();
    let longest = "x".repeat(ciphermill_table::VALUE_LEN_MAX);
    let table = |texts: Vec<String>| batch(vec![("a", Arc::new(StringArray::from(texts)) as ArrayRef)]);
    for method in ["a=random", "a=deterministic"] {
        let plain = table(vec![longest.clone()]);
        write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&plain), None);
        bench.protect("in.parquet", "out.parquet", &[method]).unwrap();
        bench.unprotect("out.parquet", "back.parquet").unwrap();
        assert!(read_parquet(&bench.path("back.parquet")) == plain, "{method}");
        write_parquet(&bench.path("in.parquet"), &[table(vec![format!("{longest}x")])], None);
        for name in ["out.parquet", "out.parquet.ciphermill.json", "back.parquet"] {
            std::fs::remove_file(bench.path(name)).unwrap();
        }
        let words = bench.protect("in.parquet", "out.parquet", &[method]).unwrap_err().to_string();
        assert!(words.contains("row 1, column `a`: 16777217 bytes"), "{words}");
    }
}
