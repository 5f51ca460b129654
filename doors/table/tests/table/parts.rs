//! Restoring some columns, looking at tables, and making lost manifests anew.

use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use ciphermill_table::{
    Check, ColumnSpec, Inspection, Manifest, NoProgress, ProtectJob, Protected, Result, RowBinding, Summary,
    TableError, UnprotectJob, inspect, protect, rebuild, unprotect,
};

use crate::testing::root_key;
use crate::{Bench, batch, read_parquet, write_parquet};

const COLUMNS: [&str; 4] = ["a=random", "b=deterministic", "c=token:len=16", "d=ff1"];

fn write_both(bench: &Bench) {
    bench.write("in.csv", "a,b,c,d,e\nx,y,z,1234567,1\n,v,,7654321,2\n");
    let column = |texts: [Option<&str>; 2]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
    let table = batch(vec![
        ("a", column([Some("x"), None])),
        ("b", column([Some("y"), Some("v")])),
        ("c", column([Some("z"), None])),
        ("d", column([Some("1234567"), Some("7654321")])),
        ("e", column([Some("1"), Some("2")])),
    ]);
    write_parquet(&bench.path("in.parquet"), from_ref(&table), None);
    for format in ["csv", "parquet"] {
        bench.protect(&format!("in.{format}"), &format!("out.{format}"), &COLUMNS).unwrap();
    }
}

fn run(bench: &Bench, job: &UnprotectJob) -> Result<Summary> {
    unprotect(job, &bench.mill, &bench.root, &NoProgress)
}

#[test]
fn some_columns_are_restored_and_the_others_later() {
    for format in ["csv", "parquet"] {
        let bench = Bench::new();
        write_both(&bench);
        let mut job = bench.back(&format!("out.{format}"), &format!("part.{format}"));
        job.columns = vec!["b".to_owned(), "d".to_owned()];
        let summary = run(&bench, &job).unwrap();
        assert_eq!(summary.still_protected, ["a", "c"]);
        assert_eq!(summary.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["b", "d"]);
        let manifest = Manifest::read(&summary.manifest).unwrap();
        assert_eq!(manifest.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        if format == "csv" {
            let text = bench.text("part.csv");
            assert!(text.contains(",y,") && text.contains(",1234567,1") && !text.contains("x,y"), "{text}");
        } else {
            std::fs::remove_file(&summary.manifest).unwrap();
        }
        // With the manifest beside it or, for Parquet, the one in its footer.
        let back = bench.unprotect(&format!("part.{format}"), &format!("back.{format}")).unwrap();
        assert!(back.still_protected.is_empty());
        let whole = bench.unprotect(&format!("out.{format}"), &format!("whole.{format}"));
        whole.unwrap();
        if format == "csv" {
            assert_eq!(bench.text("back.csv"), bench.text("whole.csv"));
            assert!(!bench.names().contains(&"back.csv.ciphermill.json".to_owned()));
        } else {
            assert_eq!(read_parquet(&bench.path("back.parquet")), read_parquet(&bench.path("whole.parquet")));
        }
    }
}

#[test]
fn columns_that_cannot_be_restored_are_named() {
    let bench = Bench::new();
    write_both(&bench);
    let before = bench.names();
    for (columns, words) in [
        (vec!["e"], "there is no column `e`; the columns are `a`, `b`, `c`, `d`"),
        (vec!["a", "a"], "`a` is named twice"),
        (vec!["c"], "`c` holds tokens"),
    ] {
        let mut job = bench.back("out.csv", "part.csv");
        job.columns = columns.into_iter().map(str::to_owned).collect();
        let error = bench.error(run(&bench, &job), &before);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_dropped_column_does_not_stop_the_others() {
    let bench = Bench::new();
    write_both(&bench);
    let text: String =
        bench.text("out.csv").lines().map(|line| line.split_once(',').unwrap().1.to_owned() + "\n").collect();
    bench.write("out.csv", text);
    let before = bench.names();
    let words = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
    assert!(words.contains("no column `a`"), "{words}");
    let mut job = bench.back("out.csv", "back.csv");
    job.allow_changed = true;
    job.columns = vec!["a".to_owned()];
    let words = bench.error(run(&bench, &job), &before);
    assert!(words.contains("no column `a`"), "{words}");
    job.columns.clear();
    assert_eq!(run(&bench, &job).unwrap().missing, ["a"]);
    assert!(bench.text("back.csv").starts_with("b,c,d,e\ny,"));
    bench.write("out.csv", "e\n1\n");
    job.force = true;
    assert!(matches!(run(&bench, &job), Err(TableError::NoColumnLeft { .. })));
}

#[test]
fn what_is_protected_is_not_protected_again_unless_forced() {
    for format in ["csv", "parquet"] {
        let bench = Bench::new();
        write_both(&bench);
        let (out, twice) = (format!("out.{format}"), format!("twice.{format}"));
        let before = bench.names();
        let words = bench.error(bench.protect(&out, &twice, &["e=random"]), &before);
        assert!(words.contains("is protected already"), "{words}");
        let mut job = bench.job(&out, &twice, &["e=random"]);
        job.force = true;
        protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
        bench.unprotect(&twice, &format!("once.{format}")).unwrap();
        if format == "csv" {
            assert_eq!(bench.read("once.csv"), bench.read("out.csv"));
        } else {
            assert_eq!(read_parquet(&bench.path("once.parquet")), read_parquet(&bench.path("out.parquet")));
        }
        // Another table of that name is no protected one.
        bench.write(&out, bench.read(&format!("in.{format}")));
        bench.protect(&out, &format!("new.{format}"), &["e=random"]).unwrap();
    }
}

fn looked_at(bench: &Bench, name: &str, key: bool) -> Inspection {
    let job = bench.back(name, "");
    let protected = Protected::open(&job).unwrap();
    let key = key.then_some((&bench.mill, &bench.root));
    inspect(protected, &job, key, &NoProgress).unwrap()
}

#[test]
fn an_inspection_says_what_holds_and_what_nobody_looked_at() {
    for format in ["csv", "parquet"] {
        let bench = Bench::new();
        write_both(&bench);
        let name = format!("out.{format}");
        let before = bench.names();
        let found = looked_at(&bench, &name, false);
        assert_eq!(found.hash, Check::Verified);
        assert!(matches!(found.signature, Check::NotChecked(_)) && matches!(found.values, Check::NotChecked(_)));
        let found = looked_at(&bench, &name, true);
        assert_eq!((&found.hash, &found.signature), (&Check::Verified, &Check::Verified));
        assert_eq!(found.values, Check::Verified);
        assert_eq!(found.manifest.rows, 2);

        let other = root_key(&bench.mill, &[1; 32]);
        let job = bench.back(&name, "");
        let found = inspect(Protected::open(&job).unwrap(), &job, Some((&bench.mill, &other)), &NoProgress).unwrap();
        assert!(matches!(&found.signature, Check::Failed(words) if words.contains("key does not match")));
        assert!(matches!(found.values, Check::NotChecked(_)) && !found.is_good());
        assert_eq!(bench.names(), before, "nothing is written");
    }
    let bench = Bench::new();
    write_both(&bench);
    let text = bench.text("out.csv");
    bench.write("out.csv", text.replace(",2\n", ",3\n"));
    let found = looked_at(&bench, "out.csv", true);
    assert!(matches!(found.hash, Check::Failed(_)));
    assert_eq!((found.signature, found.values), (Check::Verified, Check::Verified));
    let first = text.lines().nth(1).unwrap();
    let other = if first.starts_with('A') { 'B' } else { 'A' };
    bench.write("out.csv", text.replacen(first, &format!("{other}{}", &first[1..]), 1));
    let found = looked_at(&bench, "out.csv", true);
    assert!(matches!(&found.values, Check::Failed(words) if words.contains("row 1, column `a`")), "{found:?}");
}

fn specs(columns: &[&str]) -> Vec<ColumnSpec> {
    columns.iter().map(|column| ColumnSpec::parse(column).unwrap()).collect()
}

#[test]
fn a_lost_manifest_of_a_csv_table_is_made_anew() {
    let bench = Bench::new();
    write_both(&bench);
    let side = bench.path("out.csv.ciphermill.json");
    let lost = Manifest::read(&side).unwrap();
    std::fs::remove_file(&side).unwrap();
    let before = bench.names();
    let mut job = ProtectJob::new(bench.path("out.csv"), "");
    let run = |job: &ProtectJob| rebuild(job, &bench.mill, &bench.root, &NoProgress);
    for (columns, words) in [
        (vec!["a=random", "b=random"], "row 1, column `b`"),
        (vec!["a=random:as=z"], "row 1, column `a`: the value is not authentic"),
        (vec!["c=token:len=17"], "not a token of the length given"),
        (vec!["f=random"], "there is no column `f`"),
        (vec![], "no column was named"),
    ] {
        job.columns = specs(&columns);
        let error = run(&job).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(bench.names(), before);
    }
    job.columns = specs(&COLUMNS);
    let made = run(&job).unwrap();
    let same = |manifest: &Manifest| Manifest { created: String::new(), signature: String::new(), ..manifest.clone() };
    assert_eq!(same(&made), same(&lost));
    assert_eq!(Manifest::read(&side).unwrap(), made);
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert!(matches!(run(&job), Err(TableError::Exists { .. })), "a manifest that is there is not replaced");
    job.input = bench.path("out.parquet");
    assert!(matches!(run(&job), Err(TableError::RebuildsCsvOnly { .. })));
}

#[test]
fn a_lost_manifest_comes_back_with_its_binding_of_rows() {
    let bench = Bench::new();
    bench.write("in.csv", "a,id\nx,1\ny,2\n");
    let mut job = bench.job("in.csv", "out.csv", &["a=random"]);
    job.bind_row = Some(RowBinding { column: "id".to_owned(), table: "t".to_owned() });
    protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
    std::fs::remove_file(bench.path("out.csv.ciphermill.json")).unwrap();
    let mut again = ProtectJob { bind_row: None, ..ProtectJob::new(bench.path("out.csv"), "") };
    again.columns = specs(&["a=random"]);
    let run = |job: &ProtectJob| rebuild(job, &bench.mill, &bench.root, &NoProgress);
    assert!(matches!(run(&again), Err(TableError::Authentication(_))));
    again.bind_row = job.bind_row;
    run(&again).unwrap();
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.read("back.csv"), bench.read("in.csv"));
}
