//! CSV files without a header: columns by position, and what is said of them.

use ciphermill_table::{
    COLUMNS_MAX, Check, ColumnSpec, Manifest, NoProgress, ProtectJob, RowBinding, TableError, inspect, protect, rebuild,
};

use crate::Bench;

fn job(bench: &Bench, input: &str, output: &str, columns: &[&str]) -> ProtectJob {
    let mut job = bench.job(input, output, columns);
    job.no_header = true;
    job
}

fn run(bench: &Bench, job: &ProtectJob) -> ciphermill_table::Result<ciphermill_table::Summary> {
    protect(job, &bench.mill, &bench.root, &NoProgress)
}

#[test]
fn the_first_record_is_a_row() {
    let bench = Bench::new();
    // A byte order mark, marks, blank lines and a last line without an end stay, as with a header.
    let text = "\u{feff}\"Ann, A\",1234567,x\r\n\r\nBob,\"7654321\",\"y\nz\"\n,,";
    bench.write("in.csv", text);
    let job = job(&bench, "in.csv", "out.csv", &["column_1=random", "column_2=ff1"]);
    let summary = run(&bench, &job).unwrap();
    assert_eq!((summary.rows, summary.columns[0].values, summary.columns[1].nulls), (3, 2, 1));
    let safe = bench.text("out.csv");
    assert!(!safe.contains("Ann") && !safe.contains("1234567") && safe.ends_with("\"y\nz\"\n,,"), "{safe}");
    let manifest = Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap();
    assert_eq!((manifest.unnamed_columns, manifest.columns[1].logical.as_str()), (Some(3), "column_2"));
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), text);
}

#[test]
fn rows_are_bound_parts_restored_and_manifests_rebuilt() {
    let bench = Bench::new();
    let text = "1,Ann,a\n2,Bob,b\n";
    bench.write("in.csv", text);
    let mut job = job(&bench, "in.csv", "out.csv", &["column_2=random", "column_3=token"]);
    job.bind_row = Some(RowBinding { column: "column_1".to_owned(), table: String::new() });
    run(&bench, &job).unwrap();
    let mut part = bench.back("out.csv", "part.csv");
    part.columns = vec!["column_2".to_owned()];
    ciphermill_table::unprotect(&part, &bench.mill, &bench.root, &NoProgress).unwrap();
    assert!(bench.text("part.csv").starts_with("1,Ann,"));
    let kept = Manifest::read(&bench.path("part.csv.ciphermill.json")).unwrap();
    assert_eq!((kept.unnamed_columns, kept.columns.len()), (Some(3), 1));

    let written = Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap();
    std::fs::remove_file(bench.path("out.csv.ciphermill.json")).unwrap();
    let mut again = ProtectJob { input: bench.path("out.csv"), ..job };
    let rebuilt = rebuild(&again, &bench.mill, &bench.root, &NoProgress).unwrap();
    assert_eq!((rebuilt.unnamed_columns, rebuilt.rows, &rebuilt.columns), (Some(3), 2, &written.columns));
    let back = bench.back("out.csv", "");
    let protected = ciphermill_table::Protected::open(&back).unwrap();
    let found = inspect(protected, &back, Some((&bench.mill, &bench.root)), &NoProgress).unwrap();
    assert_eq!((&found.hash, &found.values), (&Check::Verified, &Check::Verified));
    again.no_header = false;
    again.force = true;
    assert!(rebuild(&again, &bench.mill, &bench.root, &NoProgress).is_err(), "the first row is no header");
}

#[test]
fn files_of_no_rows_and_of_blank_lines() {
    let bench = Bench::new();
    bench.write("in.csv", "");
    let words = run(&bench, &job(&bench, "in.csv", "out.csv", &["column_1=random"])).unwrap_err().to_string();
    assert!(words.contains("there is no row"), "{words}");
    // In one column a blank line is an empty value, the first ones too.
    for text in ["\n\nAnn\n\n", "\n\n"] {
        bench.write("in.csv", text);
        let mut job = job(&bench, "in.csv", "out.csv", &["column_1=random"]);
        job.force = true;
        assert_eq!(run(&bench, &job).unwrap().rows, text.lines().count() as u64);
        let mut back = bench.back("out.csv", "back.csv");
        back.force = true;
        ciphermill_table::unprotect(&back, &bench.mill, &bench.root, &NoProgress).unwrap();
        assert_eq!(bench.text("back.csv"), text);
    }
    // A table all of whose rows were rejected has nothing left to count columns by.
    for (name, text) in [("a", "\u{feff}x,1\ny,2\n"), ("b", "\n\nx,1\n\n")] {
        let (input, output) = (format!("{name}.csv"), format!("{name}.safe.csv"));
        bench.write(&input, text);
        let mut job = job(&bench, &input, &output, &["column_1=ff1:on-bad=reject"]);
        job.reject_file = Some(bench.path(&format!("{name}.bad.csv")));
        assert_eq!(run(&bench, &job).unwrap().rows, 0);
        let back = format!("{name}.back.csv");
        assert_eq!(bench.unprotect(&output, &back).unwrap().rows, 0);
        assert_eq!(bench.text(&back), bench.text(&output));
        assert!(!bench.text(&back).contains(['x', '1']));
    }
}

#[test]
fn what_is_malformed_is_named_by_rows_from_one() {
    let bench = Bench::new();
    for (text, words) in [
        ("a,b\nc\n".to_owned(), "row 2: 1 fields, and the first row has 2"),
        ("a,\"b\n".to_owned(), "row 1: a quoted field is not closed"),
        (format!("{}\n", ",".repeat(COLUMNS_MAX)), "row 1: at least 65537 columns, and at most 65536"),
        ("a;b\n".to_owned(), "row 1: one field; is there another delimiter"),
        ("PAR1,2\n".to_owned(), "Parquet"),
    ] {
        bench.write("in.csv", &text);
        let before = bench.names();
        let found = bench.error(run(&bench, &job(&bench, "in.csv", "out.csv", &["column_2=random"])), &before);
        assert!(found.contains(words), "{words}: {found}");
    }
    bench.write("in.csv", "Ann,secret\n");
    let words = bench.protect("in.csv", "out.csv", &["column_2=random"]).unwrap_err().to_string();
    assert!(words.contains("--no-header") && !words.contains("secret"), "{words}");
    let words = run(&bench, &job(&bench, "in.csv", "out.csv", &["column_3=random"])).unwrap_err().to_string();
    assert!(words.contains("the columns are `column_1`, `column_2`"), "{words}");
    let mut parquet = job(&bench, "in.csv", "out.parquet", &["a=random"]);
    parquet.format = Some(ciphermill_table::Format::Parquet);
    assert!(matches!(run(&bench, &parquet), Err(TableError::OtherFormat { .. })));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    /// Any text that has a form comes back bit for bit, and every column can be named.
    #[test]
    fn any_text_comes_back_without_a_header(
        text in "(\u{feff})?(([ab\"é]{0,3}|\"[a,\n\"\"]{0,3}\"),?[\n\r]{0,2}){0,12}",
        method in 0usize..3,
        last: bool,
    ) {
        let bench = Bench::new();
        bench.write("in.csv", &text);
        let name = if last { "column_2" } else { "column_1" };
        let column = format!("{name}={}", ["random", "deterministic", "ff1:alphabet=ab,sep=é\",on-bad=token"][method]);
        let mut job = ProtectJob::new(bench.path("in.csv"), bench.path("out.csv"));
        job = match ColumnSpec::parse(&column) { Ok(spec) => job.column(spec), Err(error) => panic!("{error}") };
        job.no_header = true;
        // `token` stands for what is too short; those cells do not come back.
        let Ok(summary) = run(&bench, &job) else { return Ok(()) };
        let back = bench.unprotect("out.csv", "back.csv").unwrap();
        proptest::prop_assert_eq!(back.rows, summary.rows);
        if method < 2 {
            proptest::prop_assert_eq!(bench.text("back.csv"), text);
        }
    }
}
