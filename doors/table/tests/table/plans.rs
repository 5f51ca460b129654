//! Which column of a file is meant: two answers, or two columns for one answer, are refused.

use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use ciphermill_table::{NoProgress, Result, Summary, UnprotectJob, unprotect};

use crate::{Bench, batch, write_parquet};

/// A table with two protected columns under one key and type, as CSV and as Parquet.
fn with_both(bench: &Bench) {
    bench.write("in.csv", "a,b,c\n1,2,3\n");
    let column = |text: &str| Arc::new(StringArray::from(vec![text.to_owned()])) as ArrayRef;
    let table = batch(vec![("a", column("1")), ("b", column("2")), ("c", column("3"))]);
    write_parquet(&bench.path("in.parquet"), from_ref(&table), None);
    for format in ["csv", "parquet"] {
        let (input, output) = (format!("in.{format}"), format!("out.{format}"));
        bench.protect(&input, &output, &["a=deterministic:as=x", "b=deterministic:as=y"]).unwrap();
    }
}

fn run(bench: &Bench, format: &str, renamed: &[(&str, &str)]) -> Result<Summary> {
    let mut job: UnprotectJob = bench.back(&format!("out.{format}"), "back");
    job.allow_changed = true;
    job.renamed = renamed.iter().map(|(now, logical)| ((*now).to_owned(), (*logical).to_owned())).collect();
    unprotect(&job, &bench.mill, &bench.root, &NoProgress)
}

#[test]
fn two_protected_columns_are_never_sought_at_one_place() {
    let bench = Bench::new();
    with_both(&bench);
    let before = bench.names();
    for format in ["csv", "parquet"] {
        let words = bench.error(run(&bench, format, &[("a", "y")]), &before);
        assert!(words.contains("column `a` is named twice"), "{format}: {words}");
        let words = bench.error(run(&bench, format, &[("c", "x"), ("c", "y")]), &before);
        assert!(words.contains("column `c` is named twice"), "{format}: {words}");
    }
}

#[test]
fn a_column_is_renamed_once() {
    let bench = Bench::new();
    with_both(&bench);
    let before = bench.names();
    for format in ["csv", "parquet"] {
        let words = bench.error(run(&bench, format, &[("c", "x"), ("a", "x")]), &before);
        assert!(words.contains("`x` is renamed twice"), "{format}: {words}");
    }
}

#[test]
fn columns_that_changed_places_are_found() {
    let bench = Bench::new();
    bench.write("in.csv", "a,b\n1,2\n");
    bench.protect("in.csv", "out.csv", &["a=deterministic:as=x", "b=deterministic:as=y"]).unwrap();
    bench.write("out.csv", bench.text("out.csv").replacen("a,b", "b,a", 1));
    run(&bench, "csv", &[("b", "x"), ("a", "y")]).unwrap();
    assert_eq!(bench.text("back"), "b,a\n1,2\n");
}
