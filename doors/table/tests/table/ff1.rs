//! What `ff1` may leave in clear: what was named, counted, and nothing else.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use ciphermill_table::{InClear, TableError};

use crate::{Bench, batch, write_parquet};

#[test]
fn characters_that_nobody_named_never_pass_in_clear() {
    for (column, value) in [
        ("a=ff1", "John Smith 1234567"),
        ("a=ff1:sep= ", "John Smith 1234567"),
        ("a=ff1:preset=phone", "555-123-4567 ext. 12"),
        ("a=ff1:preset=card", "4111 1111 1111 1111 Ada"),
        ("a=ff1:preset=iban", "CH93 0076 2011 6238 5295 7 x"),
        ("a=ff1:alphabet=lower", "Smithson"),
        ("a=ff1", "123\u{666}4567"),
        ("a=ff1", "1234567\u{a0}"),
        ("a=ff1", "\u{feff}1234567"),
    ] {
        let bench = Bench::new();
        bench.write("in.csv", format!("a,b\n\"{value}\",1\n"));
        let before = bench.names();
        let result = bench.protect("in.csv", "out.csv", &[column]);
        assert!(matches!(result, Err(TableError::NotInAlphabet(_))), "{column}: {result:?}");
        let words = bench.error(result, &before);
        assert!(words.contains("row 1, column `a`") && !words.contains(value), "{words}");
    }
}

#[test]
fn what_stays_in_clear_is_counted_and_named() {
    let bench = Bench::new();
    bench.write(
        "in.csv",
        "phone,card\n+41 44 123 45 67,4111 1111 1111 1111\n(555) 123-4567,\n(555) 123-4567,4111111111111111\n",
    );
    let summary =
        bench.protect("in.csv", "out.csv", &["phone=ff1:preset=phone,keep=2", "card=ff1:preset=card"]).unwrap();
    let phone = InClear {
        keep_first: 2,
        keep_last: 0,
        kept: 6,
        separators: vec![('+', 1), ('-', 2), ('(', 2), (')', 2), (' ', 4 + 2)],
    };
    assert_eq!(summary.columns[0].in_clear.as_ref(), Some(&phone));
    let card = InClear { keep_first: 0, keep_last: 4, kept: 8, separators: vec![(' ', 3)] };
    assert_eq!(summary.columns[1].in_clear.as_ref(), Some(&card));
    let protected = bench.text("out.csv");
    let row = protected.lines().nth(1).unwrap();
    assert!(row.starts_with("+41 ") && row.ends_with("1111") && !row.contains("4111 "), "{row}");
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), bench.text("in.csv"));
}

#[test]
fn an_empty_text_is_no_value_that_ff1_takes() {
    let bench = Bench::new();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("1234567"), None, Some("")]));
    write_parquet(&bench.path("in.parquet"), &[batch(vec![("t", texts)])], None);
    let before = bench.names();
    let words = bench.error(bench.protect("in.parquet", "out.parquet", &["t=ff1"]), &before);
    assert!(words.contains("row 3, column `t`: too short for ff1: 0 characters"), "{words}");
}

#[test]
fn leading_zeros_are_digits_like_others() {
    let bench = Bench::new();
    bench.write("in.csv", "a\n0000001\n0000000\n1\u{30}00000\n");
    bench.protect("in.csv", "out.csv", &["a=ff1"]).unwrap();
    assert!(bench.text("out.csv").lines().skip(1).all(|line| line.len() == 7));
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), bench.text("in.csv"));
}

/// A file of version 0.1.0, when every character outside of the alphabet was a separator unless `sep=error` was given.
#[test]
fn files_from_before_separators_were_named_are_restored() {
    let bench = Bench::new();
    bench.write("old.csv", include_bytes!("files/ff1-any-separator.csv"));
    bench.write("old.csv.ciphermill.json", include_bytes!("files/ff1-any-separator.csv.ciphermill.json"));
    bench.unprotect("old.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), include_str!("files/ff1-any-separator.clear.csv"));
    // And what a manifest says today leaves no doubt.
    bench.write("in.csv", "a,b\n1234567,123-4567\n");
    bench.protect("in.csv", "out.csv", &["a=ff1", "b=ff1:sep=-"]).unwrap();
    let manifest = bench.text("out.csv.ciphermill.json");
    assert!(
        manifest.contains("\"alphabet=digits,sep=\"") && manifest.contains("\"alphabet=digits,sep=-\""),
        "{manifest}"
    );
}
