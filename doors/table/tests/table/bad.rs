//! Values that a method cannot take: counted, left out, made tokens of, or rejected with their rows.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use ciphermill_table::{
    BadValues, Manifest, NoProgress, OnBad, ProtectJob, Result, RowBinding, Summary, TableError, protect,
};

use crate::{Bench, batch, read_parquet, write_parquet};

const TABLE: &str = "\
id,name,phone
1,Ann,1234567
2,Bob,n/a
3,\"C, D\",John Smith 1234567
4,,12345
5,Eve,7654321
";

fn run(bench: &Bench, job: &ProtectJob) -> Result<Summary> {
    protect(job, &bench.mill, &bench.root, &NoProgress)
}

/// The rules that a column's values broke, with counts and rows.
fn bad(summary: &Summary, column: usize) -> Vec<(&'static str, u64, Vec<u64>)> {
    let of = |values: &BadValues| (values.rule, values.count, values.rows.clone());
    summary.columns[column].bad.iter().map(of).collect()
}

const NOT_IN_ALPHABET: &str = "a character that is neither in the alphabet nor a separator";
const TOO_SHORT: &str = "too few characters to encrypt";

#[test]
fn a_dry_run_counts_all_and_writes_nothing() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    let before = bench.names();
    for on_bad in ["error", "null", "token", "reject"] {
        let phone = format!("phone=ff1:on-bad={on_bad}");
        let mut job = bench.job("in.csv", "out.csv", &["name=random", &phone]);
        job.dry_run = true;
        let summary = run(&bench, &job).unwrap();
        assert_eq!(bad(&summary, 1), [(NOT_IN_ALPHABET, 2, vec![2, 3]), (TOO_SHORT, 1, vec![4])], "{on_bad}");
        assert!(summary.columns[0].bad.is_empty());
        assert_eq!((summary.rows, summary.rejected_rows, summary.output_bytes), (5, 0, 0));
        assert_eq!(bench.names(), before);
    }
    let texts: Vec<Option<String>> = (0..40_000)
        .map(|row| (row % 7 != 0).then(|| format!("{}", if row % 1000 == 1 { 5 } else { 1_000_000 + row })))
        .collect();
    let table = batch(vec![("phone", Arc::new(StringArray::from(texts)) as ArrayRef)]);
    write_parquet(&bench.path("in.parquet"), &[table], None);
    let mut job = bench.job("in.parquet", "out.parquet", &["phone=ff1"]);
    job.dry_run = true;
    let summary = run(&bench, &job).unwrap();
    // Rows are counted from one, and every seventh is null.
    let rows: Vec<u64> = (0..40_000).filter(|row| row % 1000 == 1 && row % 7 != 0).map(|row| row + 1).collect();
    assert_eq!(bad(&summary, 0), [(TOO_SHORT, rows.len() as u64, rows[..5].to_vec())]);
    assert!(!bench.names().contains(&"out.parquet".to_owned()));
}

#[test]
fn nulls_in_place_of_values() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE.replace("n/a", "\"n/a\""));
    let summary = bench.protect("in.csv", "out.csv", &["phone=ff1:on-bad=null"]).unwrap();
    assert_eq!((summary.columns[0].values, summary.columns[0].nulls, summary.columns[0].on_bad), (2, 3, OnBad::Null));
    let protected = bench.text("out.csv");
    assert!(
        !protected.contains("n/a") && !protected.contains("Smith") && protected.contains("2,Bob,\"\"\n"),
        "{protected}"
    );
    let manifest = Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap();
    assert_eq!((manifest.columns[0].on_bad.as_str(), manifest.columns[0].bad_values), ("null", 3));
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), "id,name,phone\n1,Ann,1234567\n2,Bob,\"\"\n3,\"C, D\",\n4,,\n5,Eve,7654321\n");

    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("1234567"), Some(""), None, Some("x"), Some("1234567")]));
    write_parquet(&bench.path("in.parquet"), &[batch(vec![("t", texts)])], None);
    bench.protect("in.parquet", "out.parquet", &["t=ff1:on-bad=null"]).unwrap();
    bench.unprotect("out.parquet", "back.parquet").unwrap();
    let wanted: ArrayRef = Arc::new(StringArray::from(vec![Some("1234567"), None, None, None, Some("1234567")]));
    assert_eq!(read_parquet(&bench.path("back.parquet")).column(0), &wanted);
}

#[test]
fn tokens_in_place_of_values() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE.replace("12345\n", "n/a\n"));
    let summary = bench.protect("in.csv", "out.csv", &["phone=ff1:on-bad=token,as=p"]).unwrap();
    assert_eq!(bad(&summary, 0), [(NOT_IN_ALPHABET, 3, vec![2, 3, 4])]);
    assert_eq!((summary.columns[0].values, summary.columns[0].nulls), (5, 0));
    let protected = bench.text("out.csv");
    let phone = |text: &str, row: usize| text.lines().nth(row).unwrap().rsplit(',').next().unwrap().to_owned();
    assert!(phone(&protected, 2).starts_with("token:") && phone(&protected, 2).len() == 49, "{protected}");
    assert_eq!(phone(&protected, 2), phone(&protected, 4), "equal values have equal tokens");
    assert_ne!(phone(&protected, 2), phone(&protected, 3));
    assert!(!protected.contains("Smith"));
    let in_clear = summary.columns[0].in_clear.as_ref().unwrap();
    assert!(in_clear.separators.is_empty(), "a token's characters are not the value's: {in_clear:?}");
    let back = bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(back.columns[0].values_left_as_tokens, 3);
    let restored = bench.text("back.csv");
    assert_eq!(phone(&restored, 1), "1234567");
    assert_eq!(phone(&restored, 2), phone(&protected, 2));
    assert_eq!(phone(&restored, 5), "7654321");

    // A value that looks like a token is none, and becomes one.
    bench.write("in.csv", "a\ntoken:x\n1234567\n");
    bench.protect("in.csv", "again.csv", &["a=ff1:on-bad=token"]).unwrap();
    assert!(!bench.text("again.csv").contains("token:x"));
    // Nobody asked for tokens: a text that looks like one is not taken for it.
    bench.write("in.csv", "a\n1234567\n");
    bench.protect("in.csv", "plain.csv", &["a=ff1"]).unwrap();
    bench.write("plain.csv", "a\ntoken:x\n");
    let mut job = bench.back("plain.csv", "plain.back.csv");
    job.allow_changed = true;
    let result = ciphermill_table::unprotect(&job, &bench.mill, &bench.root, &NoProgress);
    assert!(matches!(result, Err(TableError::NotInAlphabet(_))), "{result:?}");
}

#[test]
fn rows_that_are_rejected_are_kept_elsewhere() {
    let bench = Bench::new();
    // A byte order mark, quotation marks, blank lines, other line ends and a last line without one stay as they are.
    let text = "\u{feff}id,name,phone\r\n1,Ann,1234567\r\n\r\n2,\"B\"\"b\",n/a\r\n3,\"C\nD\",\"John\"\n4,,12345\n5,Eve,7654321\n6,F,x";
    bench.write("in.csv", text);
    let mut job = bench.job("in.csv", "out.csv", &["name=random", "phone=ff1:on-bad=reject"]);
    assert!(matches!(run(&bench, &job), Err(TableError::Spec { .. })), "a file is needed");
    job.reject_file = Some(bench.path("bad.csv"));
    let summary = run(&bench, &job).unwrap();
    assert_eq!((summary.rows, summary.rejected_rows), (2, 4));
    assert_eq!((summary.columns[0].values, summary.columns[0].nulls), (2, 0), "rejected rows are not counted");
    assert_eq!(bad(&summary, 1), [(NOT_IN_ALPHABET, 3, vec![2, 3, 6]), (TOO_SHORT, 1, vec![4])]);
    assert_eq!(
        bench.text("bad.csv"),
        "\u{feff}id,name,phone\r\n2,\"B\"\"b\",n/a\r\n3,\"C\nD\",\"John\"\n4,,12345\n6,F,x"
    );
    let mode = std::fs::metadata(bench.path("bad.csv")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap().rejected_rows, 4);
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), "\u{feff}id,name,phone\r\n1,Ann,1234567\r\n\r\n5,Eve,7654321\n");

    // A later error, here of a column that rejects nothing, leaves none of the three.
    let before = bench.names();
    let mut job = bench.job("in.csv", "new.csv", &["id=ff1", "phone=ff1:on-bad=reject"]);
    job.reject_file = Some(bench.path("new.bad.csv"));
    let words = bench.error(run(&bench, &job), &before);
    assert!(words.contains("row 1, column `id`"), "{words}");
}

#[test]
fn places_are_those_of_the_input_though_rows_are_left_out() {
    let bench = Bench::new();
    let mut text = String::from("a,b\n");
    (0..40_000).for_each(|row| {
        text.push_str(if row == 39_998 {
            "1234567,x\n"
        } else if row % 2 == 0 {
            "n,1234567\n"
        } else {
            "1234567,1234567\n"
        })
    });
    bench.write("in.csv", text);
    let mut job = bench.job("in.csv", "out.csv", &["a=ff1:on-bad=reject", "b=ff1"]);
    job.reject_file = Some(bench.path("bad.csv"));
    let words = run(&bench, &job).unwrap_err().to_string();
    assert!(words.contains("row 39999, column `b`"), "{words}");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    let before = bench.names();
    let mut job = bench.job("in.csv", "out.csv", &["phone=ff1"]);
    job.reject_file = Some(bench.path("bad.csv"));
    assert!(bench.error(run(&bench, &job), &before).contains("nothing for this file"));
    let mut job = bench.job("in.csv", "out.csv", &["phone=ff1:on-bad=reject"]);
    for path in ["in.csv", "out.csv"] {
        job.reject_file = Some(bench.path(path));
        assert!(bench.error(run(&bench, &job), &before).contains("the same file"));
    }
    let schema = arrow_schema::Schema::new(vec![arrow_schema::Field::new("t", arrow_schema::DataType::Utf8, false)]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1234567", ""]));
    let table = arrow_array::RecordBatch::try_new(Arc::new(schema), vec![texts]).unwrap();
    write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&table), None);
    let before = bench.names();
    let words = bench.error(bench.protect("in.parquet", "out.parquet", &["t=ff1:on-bad=null"]), &before);
    assert!(words.contains("may not be null"), "{words}");
    let mut job = bench.job("in.parquet", "out.parquet", &["t=ff1:on-bad=reject"]);
    job.reject_file = Some(bench.path("bad.csv"));
    assert!(bench.error(run(&bench, &job), &before).contains("the table is Parquet"));
    // A column that may not be null has a dry run all the same.
    let mut job = bench.job("in.parquet", "out.parquet", &["t=ff1"]);
    job.dry_run = true;
    assert_eq!(bad(&run(&bench, &job).unwrap(), 0), [(TOO_SHORT, 1, vec![2])]);
}

#[test]
fn rows_without_identifiers_are_bad_values_too() {
    let bench = Bench::new();
    bench.write("in.csv", "id,name\n1,Ann\n,Bob\n3,\n,\n");
    let bound = |on_bad: &str| {
        let mut job = bench.job("in.csv", "out.csv", &[&format!("name=random:on-bad={on_bad}")]);
        job.bind_row = Some(RowBinding { column: "id".to_owned(), table: String::new() });
        job
    };
    let mut job = bound("error");
    job.dry_run = true;
    assert_eq!(bad(&run(&bench, &job).unwrap(), 0), [("its row has no identifier", 1, vec![2])]);
    let mut job = bound("reject");
    job.reject_file = Some(bench.path("bad.csv"));
    run(&bench, &job).unwrap();
    assert_eq!(bench.text("bad.csv"), "id,name\n,Bob\n");
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), "id,name\n1,Ann\n3,\n,\n");
}

const METHODS: [&str; 4] = ["random", "deterministic", "token", "ff1"];
const ACTIONS: [&str; 4] = ["error", "null", "token", "reject"];

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(96))]
    /// Every method, action and binding: what comes back is what there was, less what was said to be left out.
    #[test]
    fn any_table_comes_back_whatever_is_said_of_bad_values(
        rows in proptest::collection::vec(("[0-9]{0,9}|[0-9]{6,9}|[a-z,\"]{1,3}", "[0-9]{6,8}|x|"), 0..30),
        method in 0usize..4,
        action in 0usize..4,
        bind: bool,
    ) {
        let (method, action) = (METHODS[method], ACTIONS[action]);
        proptest::prop_assume!(action != "token" || method == "ff1");
        let quote = |field: &str| match field.contains([',', '"']) {
            true => format!("\"{}\"", field.replace('"', "\"\"")),
            false => field.to_owned(),
        };
        let bench = Bench::new();
        let lines: Vec<String> = rows.iter().enumerate().map(|(id, (a, b))| format!("{id},{},{b}\n", quote(a))).collect();
        bench.write("in.csv", format!("id,a,b\n{}", lines.concat()));
        let columns = [format!("a={method}:on-bad={action}"), "b=deterministic".to_owned()];
        let mut job = bench.job("in.csv", "out.csv", &[&columns[0], &columns[1]]);
        job.bind_row = bind.then(|| RowBinding { column: "id".to_owned(), table: "t".to_owned() });
        job.reject_file = (action == "reject").then(|| bench.path("bad.csv"));
        let takes = |value: &str| method != "ff1" || value.is_empty() || (value.len() >= 6 && value.bytes().all(|byte| byte.is_ascii_digit()));
        let bad_rows: Vec<usize> = (0..rows.len()).filter(|row| !takes(&rows[*row].0)).collect();
        let result = run(&bench, &job);
        if action == "error" && !bad_rows.is_empty() {
            let words = result.unwrap_err().to_string();
            let place = format!("row {}, column `a`", bad_rows[0] + 1);
            proptest::prop_assert!(words.contains(&place), "{}", words);
            return Ok(());
        }
        let summary = result.unwrap();
        let counted: u64 = summary.columns[0].bad.iter().map(|values| values.count).sum();
        proptest::prop_assert_eq!(counted, bad_rows.len() as u64);
        bench.unprotect("out.csv", "back.csv").unwrap();
        let restored = bench.text("back.csv");
        let mut restored = restored.split_inclusive('\n').skip(1);
        for (row, line) in lines.iter().enumerate() {
            let bad = bad_rows.contains(&row);
            if bad && action == "reject" {
                continue;
            }
            let found = restored.next().unwrap();
            if bad || (method == "token" && !rows[row].0.is_empty()) {
                let is_token = found.contains("token:") || method == "token";
                proptest::prop_assert!(is_token == (action == "token" || method == "token"), "{}", found);
                let ends = (found.starts_with(&format!("{row},")), found.ends_with(&format!(",{}\n", rows[row].1)));
                proptest::prop_assert_eq!(ends, (true, true), "{}", found);
            } else {
                proptest::prop_assert_eq!(found, line);
            }
        }
        proptest::prop_assert!(restored.next().is_none());
        if action == "reject" {
            let rejected: String = bad_rows.iter().map(|row| lines[*row].as_str()).collect();
            proptest::prop_assert_eq!(bench.text("bad.csv"), format!("id,a,b\n{rejected}"));
        }
    }
}
