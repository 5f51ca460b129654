//! Values that are bound to their rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use ciphermill_table::{
    ColumnSpec, NoProgress, ProtectJob, Result, RowBinding, Summary, TableError, protect, unprotect,
};

use crate::{Bench, batch, read_parquet, write_parquet};

const TABLE: &str = "id,name,city,code\n1,Ann,Bern,1234567\n2,Bob,Bern,7654321\n3,Cid,Genf,1234567\n";
const COLUMNS: [&str; 3] = ["name=random", "city=deterministic", "code=ff1"];

fn bound(bench: &Bench, input: &str, output: &str, columns: &[&str], table: &str) -> Result<Summary> {
    let mut job = bench.job(input, output, columns);
    job.bind_row = Some(RowBinding { column: "id".to_owned(), table: table.to_owned() });
    protect(&job, &bench.mill, &bench.root, &NoProgress)
}

/// Restores a file that somebody else has written anew.
fn restore(bench: &Bench, renamed: &[(&str, &str)]) -> Result<Summary> {
    let mut job = bench.back("out.csv", "back.csv");
    (job.allow_changed, job.force) = (true, true);
    job.renamed = renamed.iter().map(|(now, logical)| ((*now).to_owned(), (*logical).to_owned())).collect();
    unprotect(&job, &bench.mill, &bench.root, &NoProgress)
}

fn edit(bench: &Bench, edit: impl Fn(&mut Vec<Vec<String>>)) {
    let text = bench.text("out.csv");
    let mut rows: Vec<Vec<String>> = text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    edit(&mut rows);
    bench.write("out.csv", rows.iter().map(|row| row.join(",") + "\n").collect::<String>());
}

#[test]
fn values_that_change_rows_are_refused_with_their_place() {
    for (column, name) in [(1, "name"), (2, "city")] {
        let bench = Bench::new();
        bench.write("in.csv", TABLE);
        let summary = bound(&bench, "in.csv", "out.csv", &COLUMNS, "").unwrap();
        let rows: Vec<_> = summary.columns.iter().map(|column| column.bound_to_row.as_deref()).collect();
        assert_eq!(rows, [Some("id"), Some("id"), None]);
        edit(&bench, |rows| {
            let value = rows[2][column].clone();
            rows[3][column] = value;
        });
        let words = restore(&bench, &[]).unwrap_err().to_string();
        assert!(words.contains(&format!("row 3, column `{name}`")) && words.contains("row's `id`"), "{words}");
    }
    // Unbound, the same goes unnoticed: that is what binding is for.
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    bench.protect("in.csv", "out.csv", &COLUMNS).unwrap();
    edit(&bench, |rows| {
        let value = rows[2][1].clone();
        rows[3][1] = value;
    });
    restore(&bench, &[]).unwrap();
    assert!(bench.text("back.csv").contains("3,Bob"));
}

#[test]
fn whole_rows_may_move_come_and_go() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    bound(&bench, "in.csv", "out.csv", &COLUMNS, "customers").unwrap();
    let text = bench.text("out.csv");
    let city = |row: usize| text.lines().nth(row).unwrap().split(',').nth(2).unwrap();
    assert_ne!(city(1), city(2), "equal values of bound columns look different");
    edit(&bench, |rows| {
        rows.swap(1, 3);
        rows.remove(2);
    });
    restore(&bench, &[]).unwrap();
    assert_eq!(bench.text("back.csv"), "id,name,city,code\n3,Cid,Genf,1234567\n1,Ann,Bern,1234567\n");
    edit(&bench, |rows| rows[0][0] = "key".to_owned());
    assert!(matches!(restore(&bench, &[]), Err(TableError::ColumnUnknown { .. })));
    restore(&bench, &[("key", "id")]).unwrap();
    assert!(bench.text("back.csv").starts_with("key,name"));
    // Another identifier for a row is another row.
    edit(&bench, |rows| rows[1][0] = "4".to_owned());
    assert!(matches!(restore(&bench, &[("key", "id")]), Err(TableError::AuthenticationOfRow { .. })));
    edit(&bench, |rows| rows[1][0] = String::new());
    let words = restore(&bench, &[("key", "id")]).unwrap_err().to_string();
    assert!(words.contains("row 1, column `key`: empty"), "{words}");
}

#[test]
fn tables_of_other_names_do_not_share_values() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    bound(&bench, "in.csv", "eu.csv", &COLUMNS, "eu").unwrap();
    bound(&bench, "in.csv", "out.csv", &COLUMNS, "us").unwrap();
    let eu = bench.text("eu.csv");
    edit(&bench, |rows| rows[1][2] = eu.lines().nth(1).unwrap().split(',').nth(2).unwrap().to_owned());
    assert!(matches!(restore(&bench, &[]), Err(TableError::AuthenticationOfRow { .. })));
}

#[test]
fn a_column_may_be_left_out() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    bound(&bench, "in.csv", "out.csv", &["name=random", "city=deterministic:bind=no"], "").unwrap();
    let text = bench.text("out.csv");
    let city = |row: usize| text.lines().nth(row).unwrap().split(',').nth(2).unwrap();
    assert_eq!(city(1), city(2));
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), TABLE);
}

#[test]
fn bindings_that_make_no_sense_are_refused() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    let before = bench.names();
    let error = |columns: &[&str]| bench.error(bound(&bench, "in.csv", "out.csv", columns, ""), &before);
    assert!(error(&["id=deterministic", "name=random"]).contains("protected itself"));
    assert!(error(&["code=ff1"]).contains("no column is protected by random or deterministic"));
    assert!(error(&["name=random:bind=no"]).contains("no column is protected"));
    assert!(matches!(ColumnSpec::parse("a=ff1:bind=no"), Err(TableError::Spec { .. })));
    assert!(matches!(ColumnSpec::parse("a=random:bind=yes"), Err(TableError::Spec { .. })));
    bench.write("in.csv", "id,name\n1,a\n,b\n");
    let words = error(&["name=random"]);
    assert!(words.contains("row 2, column `id`: empty"), "{words}");
    bench.write("in.csv", format!("id,name\n{},b\n", "7".repeat(1025)));
    let words = error(&["name=random"]);
    assert!(words.contains("row 1, column `id`: 1025 bytes"), "{words}");
    bench.write("in.csv", "key,name\n1,a\n");
    assert!(error(&["name=random"]).contains("no column `id`"));
}

fn people(id: ArrayRef) -> RecordBatch {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("Ann"), None, Some("Cid")]));
    let few: ArrayRef = arrow_cast::cast(
        &StringArray::from(vec!["x", "x", "x"]),
        &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    )
    .unwrap();
    batch(vec![("id", id), ("name", names), ("few", few)])
}

#[test]
fn identifiers_agree_over_types_and_formats() {
    let bench = Bench::new();
    let ids: [(&str, ArrayRef); 3] = [
        ("32", Arc::new(Int32Array::from(vec![-1, 20, 300]))),
        ("64", Arc::new(Int64Array::from(vec![-1, 20, 300]))),
        ("text", Arc::new(StringArray::from(vec!["-1", "20", "300"]))),
    ];
    let columns = ["name=deterministic", "few=deterministic"];
    let mut stored = Vec::new();
    for (name, id) in ids {
        let (input, output) = (format!("{name}.parquet"), format!("{name}.out.parquet"));
        let plain = people(id);
        write_parquet(&bench.path(&input), std::slice::from_ref(&plain), None);
        let summary = bound(&bench, &input, &output, &columns, "").unwrap();
        assert_eq!(summary.columns[1].processed, 3, "no value of a dictionary is shared by rows");
        stored.push(read_parquet(&bench.path(&output)));
        bench.unprotect(&output, "back.parquet").unwrap();
        assert_eq!(read_parquet(&bench.path("back.parquet")), plain);
        std::fs::remove_file(bench.path("back.parquet")).unwrap();
    }
    for column in 1..3 {
        assert_eq!(stored[0].column(column), stored[1].column(column));
        assert_eq!(stored[0].column(column), stored[2].column(column));
    }
    let few = stored[0].column(2).as_binary::<i32>();
    assert!(few.value(0) != few.value(1) && stored[0].column(1).is_null(1));
    bench.write("in.csv", "id,name,few\n-1,Ann,x\n20,,x\n300,Cid,x\n");
    bound(&bench, "in.csv", "out.csv", &columns, "").unwrap();
    let cell = bench.text("out.csv").lines().nth(3).unwrap().split(',').nth(1).unwrap().to_owned();
    let name = stored[0].column(1).as_binary::<i32>().value(2).to_owned();
    assert_eq!(crate::columns::base64url(&name), cell, "a CSV row and a Parquet row are one row");
}

#[test]
fn a_moved_parquet_value_is_refused_with_its_row() {
    let bench = Bench::new();
    let rows = 40_000;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("name {row}"))));
    write_parquet(&bench.path("in.parquet"), &[batch(vec![("id", ids), ("name", names)])], None);
    let mut job: ProtectJob = bench.job("in.parquet", "out.parquet", &["name=random"]);
    job.bind_row = Some(RowBinding { column: "id".to_owned(), table: String::new() });
    protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
    let protected = read_parquet(&bench.path("out.parquet"));
    let names = protected.column(1).as_binary::<i32>();
    let moved: arrow_array::BinaryArray =
        (0..names.len()).map(|row| Some(names.value(if row == 33_332 { 7 } else { row }))).collect();
    let columns = vec![("id", Arc::clone(protected.column(0))), ("name", Arc::new(moved) as ArrayRef)];
    write_parquet(&bench.path("out.parquet"), &[batch(columns)], None);
    let mut job = bench.back("out.parquet", "back.parquet");
    job.allow_changed = true;
    let words = unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap_err().to_string();
    assert!(words.contains("row 33333, column `name`") && words.contains("another row"), "{words}");
}
