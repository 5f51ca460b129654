//! Tables under another key, version or method: what they restore to is what they were, and their old key is of no use.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use ciphermill_table::{
    ColumnSpec, Manifest, NoProgress, Protected, Rekey, Result, RootKey, Summary, UnprotectJob, manifest_path, protect,
    rekey, unprotect,
};

use crate::{Bench, batch, read_parquet, testing, write_parquet};

const COLUMNS: [&str; 5] =
    ["name=deterministic", "mail=random", "phone=ff1:sep=-", "id=deterministic:as-text", "at=random"];

fn other_key(bench: &Bench) -> RootKey {
    let key = testing::root_key(&bench.mill, &[0xa5; 32]);
    RootKey { name: "other".to_owned(), version: 7, ..key }
}

fn move_to(bench: &Bench, job: &UnprotectJob, root: &RootKey, columns: &[&str]) -> Result<Summary> {
    let columns = columns.iter().map(|column| ColumnSpec::parse(column).unwrap()).collect();
    let to = Rekey { root: root.clone(), columns };
    rekey(Protected::open(job).unwrap(), job, &bench.mill, &bench.root, &to, &NoProgress)
}

fn table(rows: usize) -> Vec<(&'static str, ArrayRef)> {
    let text =
        |text: &dyn Fn(usize) -> Option<String>| Arc::new((0..rows).map(text).collect::<StringArray>()) as ArrayRef;
    vec![
        ("id", Arc::new((0..rows as i64).map(|row| (row % 9 != 4).then_some(row)).collect::<Int64Array>())),
        ("name", text(&|row| (row % 7 != 3).then(|| format!("Customer {}", row % 50)))),
        ("mail", text(&|row| Some(format!("{row}@example.org")))),
        ("phone", text(&|row| Some(format!("25-989-{:03}-{:04}", row % 1000, row)))),
        ("at", Arc::new((0..rows as i64).map(|row| Some(row * 1_000_003)).collect::<TimestampMicrosecondArray>())),
        ("amount", Arc::new((0..rows as i64).map(Some).collect::<Int64Array>())),
    ]
}

fn manifest(path: &Path) -> Manifest {
    Manifest::read(&manifest_path(path)).unwrap()
}

#[test]
fn parquet_tables_restore_to_what_they_were() {
    let bench = Bench::new();
    let clear = batch(table(3000));
    write_parquet(&bench.path("clear.parquet"), std::slice::from_ref(&clear), None);
    bench.protect("clear.parquet", "old.parquet", &COLUMNS).unwrap();
    let new_key = other_key(&bench);
    for columns in [&[][..], &["mail=deterministic", "name=random"]] {
        let job = UnprotectJob { force: true, ..bench.back("old.parquet", "new.parquet") };
        let summary = move_to(&bench, &job, &new_key, columns).unwrap();
        assert_eq!((summary.rows, summary.columns.len()), (3000, 5));
        let new = manifest(&bench.path("new.parquet"));
        assert_eq!((new.root_key.name.as_str(), new.root_key.version), ("other", 7));
        let methods: Vec<&str> = new.columns.iter().map(|column| column.method.as_str()).collect();
        let wanted = if columns.is_empty() { ["deterministic", "random"] } else { ["random", "deterministic"] };
        assert_eq!(methods, [wanted[0], wanted[1], "ff1", "deterministic", "random"]);
        let (old_table, new_table) =
            (read_parquet(&bench.path("old.parquet")), read_parquet(&bench.path("new.parquet")));
        for name in ["id", "name", "mail", "phone", "at"] {
            let (old, new) = (old_table.column_by_name(name).unwrap(), new_table.column_by_name(name).unwrap());
            assert_ne!(old, new, "{name}");
            assert_eq!(old.null_count(), new.null_count(), "{name}");
        }
        let job = UnprotectJob { force: true, ..bench.back("new.parquet", "again.parquet") };
        unprotect(&job, &bench.mill, &new_key, &NoProgress).unwrap();
        assert_eq!(read_parquet(&bench.path("again.parquet")), clear);
        let error = unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap_err();
        assert!(error.to_string().contains("needs version 7 of the key `other`"), "{error}");
    }
}

#[test]
fn csv_tables_restore_to_the_same_bytes() {
    let bench = Bench::new();
    let mut text = String::from("id,name,mail\r\n");
    for row in 0..5000 {
        text.push_str(&format!(
            "{row},\"Customer, {}\",{}\r\n",
            row % 20,
            if row % 3 == 0 { String::new() } else { format!("{row}@x") }
        ));
    }
    bench.write("clear.csv", &text);
    bench.protect("clear.csv", "old.csv", &["name=deterministic", "mail=random"]).unwrap();
    let new_key = other_key(&bench);
    move_to(&bench, &bench.back("old.csv", "new.csv"), &new_key, &["name=token:len=16"]).unwrap();
    let new = manifest(&bench.path("new.csv"));
    assert_eq!(new.columns[0].method, "token");
    let names: std::collections::HashSet<String> =
        bench.text("new.csv").lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect();
    assert_eq!(names.len(), 20, "equal values have equal tokens");
    // What protecting the table in clear would have given.
    protect(&bench.job("clear.csv", "direct.csv", &["name=token:len=16"]), &bench.mill, &new_key, &NoProgress).unwrap();
    let direct: std::collections::HashSet<String> =
        bench.text("direct.csv").lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect();
    assert_eq!(names, direct);

    move_to(&bench, &bench.back("old.csv", "same.csv"), &new_key, &[]).unwrap();
    unprotect(&bench.back("same.csv", "again.csv"), &bench.mill, &new_key, &NoProgress).unwrap();
    assert_eq!(bench.text("again.csv"), text);
    assert_eq!(manifest(&bench.path("same.csv")).root_key.name, "other");
}

#[test]
fn values_bound_to_rows_stay_bound() {
    let bench = Bench::new();
    bench.write("clear.csv", "id,name,mail\n1,Ada,a\n2,Bo,b\n3,Ada,c\n");
    let mut job = bench.job("clear.csv", "old.csv", &["name=deterministic", "mail=random"]);
    job.bind_row = Some(ciphermill_table::RowBinding { column: "id".to_owned(), table: "people".to_owned() });
    protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
    let new_key = other_key(&bench);
    move_to(&bench, &bench.back("old.csv", "new.csv"), &new_key, &[]).unwrap();
    unprotect(&bench.back("new.csv", "again.csv"), &bench.mill, &new_key, &NoProgress).unwrap();
    assert_eq!(bench.read("again.csv"), bench.read("clear.csv"));
    let swapped: Vec<String> = bench
        .text("new.csv")
        .lines()
        .map(|line| line.replacen("1,", "9,", usize::from(line.starts_with("1,"))))
        .collect();
    bench.write("new.csv", swapped.join("\n") + "\n");
    let job = UnprotectJob { allow_changed: true, ..bench.back("new.csv", "never.csv") };
    let error = unprotect(&job, &bench.mill, &new_key, &NoProgress).unwrap_err().to_string();
    assert!(error.contains("row 1, column `name`: the value is not authentic"), "{error}");
    let error =
        move_to(&bench, &bench.back("old.csv", "never.csv"), &new_key, &["name=random"]).unwrap_err().to_string();
    assert!(error.contains("bound to their rows"), "{error}");
}

#[test]
fn what_is_wrong_is_named_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let mut lines = String::from("a,b,c\n");
    (0..100).for_each(|row| lines.push_str(&format!("value {row},{row},7654321\n")));
    bench.write("clear.csv", &lines);
    bench.protect("clear.csv", "old.csv", &["a=random", "c=ff1"]).unwrap();
    bench.protect("clear.csv", "tokens.csv", &["a=token", "b=random"]).unwrap();
    let before = bench.names();
    let new_key = other_key(&bench);
    let job = |input| bench.back(input, "new.csv");
    for (job, columns, words) in [
        (job("tokens.csv"), &[][..], "tokens do not come back"),
        (job("old.csv"), &["c=random"], "values of ff1 keep their method"),
        (job("old.csv"), &["a=ff1"], "values of ff1 keep their method"),
        (job("old.csv"), &["b=random"], "there is no column `b`"),
        (UnprotectJob { columns: vec!["a".to_owned()], ..job("old.csv") }, &[], "keeps all columns protected"),
        (bench.back("old.csv", "new.parquet"), &[], "would say Parquet"),
        (bench.back("old.csv", "old.csv"), &[], "same file"),
    ] {
        let error = bench.error(move_to(&bench, &job, &new_key, columns), &before);
        assert!(error.contains(words), "{words}: {error}");
    }
    // A changed value is named by its row.
    let text = bench.text("old.csv");
    let line = text.lines().nth(58).unwrap();
    let changed = line.replacen(&line[..1], if line.starts_with('A') { "B" } else { "A" }, 1);
    bench.write("old.csv", text.replace(line, &changed));
    let error = bench.error(move_to(&bench, &job("old.csv"), &new_key, &[]), &before);
    assert!(error.contains("row 58, column `a`: the value is not authentic"), "{error}");
}
