//! Tables that change their format on the way, and back.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, TimeUnit};
use ciphermill_table::{
    Format, Manifest, NoProgress, ProtectJob, Result, RowBinding, Summary, TableError, protect, unprotect,
};

use crate::samples::sample_array;
use crate::{Bench, batch, read_parquet, write_parquet};

fn run(bench: &Bench, job: &ProtectJob) -> Result<Summary> {
    protect(job, &bench.mill, &bench.root, &NoProgress)
}

const TABLE: &str = "\
id,name,phone,note
1,Ann,1234567,
2,\"Bob, B.\",7654321,\"say \"\"hi\"\"
twice\"
3,,,\"\"
4,Zoë,5555555,x\u{0}y
";

const COLUMNS: [&str; 3] = ["name=random", "phone=ff1", "id=deterministic"];

fn texts(bench: &Bench, file: &str, column: &str) -> Vec<Option<String>> {
    let table = read_parquet(&bench.path(file));
    let column = table.column_by_name(column).unwrap();
    let texts = column.as_any().downcast_ref::<StringArray>().unwrap();
    texts.iter().map(|text| text.map(str::to_owned)).collect()
}

#[test]
fn csv_becomes_parquet_and_csv_again() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    let summary = bench.protect("in.csv", "out.parquet", &COLUMNS).unwrap();
    let converted = summary.converted.unwrap();
    assert_eq!((converted.from, converted.to, summary.rows), (Format::Csv, Format::Parquet, 4));
    let safe = read_parquet(&bench.path("out.parquet"));
    assert_eq!(safe.column_by_name("name").unwrap().data_type(), &DataType::Binary);
    assert_eq!(safe.column_by_name("phone").unwrap().data_type(), &DataType::Utf8);
    let note = [None, Some("say \"hi\"\ntwice"), Some(""), Some("x\0y")].map(|text| text.map(str::to_owned));
    assert_eq!(texts(&bench, "out.parquet", "note"), note);
    let manifest = Manifest::read(&bench.path("out.parquet.ciphermill.json")).unwrap();
    assert_eq!((manifest.format, manifest.converted_from.unwrap().format), (Format::Parquet, Format::Csv));
    // Also without the file beside it: the manifest is in the footer too.
    std::fs::remove_file(bench.path("out.parquet.ciphermill.json")).unwrap();
    bench.unprotect("out.parquet", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), TABLE);
    let summary = bench.unprotect("out.parquet", "back.parquet").unwrap();
    assert!(summary.converted.is_none());
    assert_eq!(texts(&bench, "back.parquet", "note"), note);
    let names = [Some("Ann"), Some("Bob, B."), None, Some("Zoë")].map(|text| text.map(str::to_owned));
    assert_eq!(texts(&bench, "back.parquet", "name"), names);
    // And protected CSV restored as Parquet.
    bench.protect("in.csv", "out.csv", &COLUMNS).unwrap();
    bench.unprotect("out.csv", "again.parquet").unwrap();
    assert_eq!(read_parquet(&bench.path("again.parquet")), read_parquet(&bench.path("back.parquet")));
}

#[test]
fn the_dialect_comes_back() {
    let bench = Bench::new();
    let text = "1;Ann;\n2;\"B;\";x\n";
    bench.write("in.csv", text);
    let mut job = bench.job("in.csv", "out.parquet", &["column_2=random", "column_3=token"]);
    (job.no_header, job.delimiter) = (true, Some(b';'));
    job.bind_row = Some(RowBinding { column: "column_1".to_owned(), table: "t".to_owned() });
    run(&bench, &job).unwrap();
    bench.unprotect("out.parquet", "back.csv").unwrap();
    let back = bench.text("back.csv");
    // A token cannot be restored, and looks as it does in CSV files.
    job.output = bench.path("out.csv");
    run(&bench, &job).unwrap();
    let token = |text: &str| text.lines().nth(1).unwrap().rsplit(';').next().unwrap().to_owned();
    assert_eq!(token(&back), token(&bench.text("out.csv")));
    assert_eq!(back, text.replace(";x", &format!(";{}", token(&back))));
    bench.unprotect("out.parquet", "back.tsv").unwrap();
    assert!(bench.text("back.tsv").starts_with("1\tAnn\t\n2\tB;\t"));
}

fn typed(len: usize) -> arrow_array::RecordBatch {
    let types = [
        ("text", DataType::Utf8),
        ("small", DataType::Int8),
        ("big", DataType::UInt64),
        ("real", DataType::Float64),
        ("half", DataType::Float16),
        ("money", DataType::Decimal128(15, 2)),
        ("wide", DataType::Decimal256(60, 3)),
        ("yes", DataType::Boolean),
        ("day", DataType::Date32),
        ("time", DataType::Time64(TimeUnit::Nanosecond)),
        ("moment", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("instant", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
        ("bytes", DataType::Binary),
        ("uuid", DataType::FixedSizeBinary(7)),
        ("kind", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))),
    ];
    let mut columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(Int64Array::from_iter_values(0..len as i64)))];
    let sampled = types.into_iter().enumerate().map(|(seed, (name, data_type))| {
        let array = sample_array(&data_type, len, seed as u64);
        // Days of years that have a name.
        let array = match data_type {
            DataType::Date32 => arrow_cast::cast(&sample_array(&DataType::Date64, len, 3), &data_type).unwrap(),
            _ => array,
        };
        (name, array)
    });
    columns.extend(sampled);
    batch(columns)
}

/// Each value of a table as Arrow writes it, nulls apart.
fn written(table: &arrow_array::RecordBatch) -> Vec<Vec<Option<String>>> {
    use arrow_cast::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::default();
    let column = |array: &ArrayRef| {
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => arrow_cast::cast(array, values).unwrap(),
            DataType::Timestamp(unit, Some(_)) => {
                arrow_cast::cast(array, &DataType::Timestamp(*unit, Some("+00:00".into()))).unwrap()
            }
            _ => Arc::clone(array),
        };
        let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
        (0..array.len()).map(|row| array.is_valid(row).then(|| formatter.value(row).to_string())).collect()
    };
    table.columns().iter().map(column).collect()
}

#[test]
fn parquet_becomes_csv_in_every_type() {
    let bench = Bench::new();
    let original = typed(500);
    write_parquet(&bench.path("in.parquet"), std::slice::from_ref(&original), None);
    let columns = ["money=random", "text=deterministic", "real=deterministic", "uuid=random", "kind=token"];
    let mut job = bench.job("in.parquet", "out.csv", &columns[..4]);
    job.bind_row = Some(RowBinding { column: "id".to_owned(), table: String::new() });
    let summary = run(&bench, &job).unwrap();
    let lost = summary.converted.unwrap().types_lost;
    assert!(lost.contains(&("money".to_owned(), "Decimal128(15, 2)".to_owned())) && lost.len() == 14, "{lost:?}");
    let manifest = Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap();
    assert_eq!((manifest.format, manifest.converted_from.unwrap().format), (Format::Csv, Format::Parquet));
    bench.unprotect("out.csv", "back.csv").unwrap();
    // Restored to texts again, they are those that Arrow writes.
    bench.unprotect("out.csv", "back.parquet").unwrap();
    assert_eq!(written(&read_parquet(&bench.path("back.parquet"))), written(&original));

    // A Parquet table that was protected in its own types is restored to the same CSV.
    bench.protect("in.parquet", "out.parquet", &columns[..4]).unwrap();
    let summary = bench.unprotect("out.parquet", "other.csv").unwrap();
    assert_eq!(summary.converted.unwrap().types_lost.len(), 14);
    assert_eq!(bench.text("other.csv"), bench.text("back.csv"));
}

#[test]
fn what_has_no_form_is_named_and_nothing_is_written() {
    let bench = Bench::new();
    let lists = arrow_array::builder::ListBuilder::new(arrow_array::builder::Int32Builder::new());
    let mut lists = lists;
    lists.append(true);
    let table = batch(vec![("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef), ("l", Arc::new(lists.finish()))]);
    write_parquet(&bench.path("in.parquet"), &[table], None);
    let before = bench.names();
    let words = bench.error(bench.protect("in.parquet", "out.csv", &["n=random"]), &before);
    assert!(words.contains("column `l`") && words.contains("List") && words.contains("nested"), "{words}");

    for (text, words) in [
        (&b"a,b\n1,\xff\n"[..], "row 1, column `b`: not valid UTF-8"),
        (b"a,b\n\xff,1\n", "row 1, column `a`: not valid UTF-8"),
        (b"a,b\n1,2\n1,2,3\n", "row 2: at least 3 fields"),
        (b"a,b,b\n1,2,3\n", "several columns are called `b`"),
        (b"a,b\n1,\"2\n", "not closed"),
    ] {
        bench.write("in.csv", text);
        let before = bench.names();
        let found = bench.error(bench.protect("in.csv", "new.parquet", &["a=random"]), &before);
        assert!(found.contains(words), "{words}: {found}");
    }
    bench.write("in.csv", "a,b\n1,2\n");
    bench.protect("in.csv", "ok.parquet", &["a=random", "b=random"]).unwrap();
    let before = bench.names();
    let mut part = bench.back("ok.parquet", "part.csv");
    part.columns = vec!["a".to_owned()];
    let words = bench.error(unprotect(&part, &bench.mill, &bench.root, &NoProgress), &before);
    assert!(words.contains("not converted"), "{words}");
    let mut job = bench.job("in.csv", "new.parquet", &["a=random:on-bad=reject"]);
    job.reject_file = Some(bench.path("bad.csv"));
    assert!(bench.error(run(&bench, &job), &before).contains("keep their format"));
    // A changed file is noticed on this way too.
    let mut bytes = bench.read("ok.parquet");
    bytes[100] ^= 1;
    bench.write("ok.parquet", &bytes);
    assert!(bench.unprotect("ok.parquet", "changed.csv").is_err());
    assert!(!bench.names().contains(&"changed.csv".to_owned()));
}

/// Names and values that would be taken for something else at a file's start, and tables of nothing but nulls.
#[test]
fn what_a_file_begins_with_is_no_other_format() {
    let bench = Bench::new();
    for (name, value) in [("PAR1", "x"), ("PK\u{3}\u{4}", ""), ("\u{feff}n", "y"), ("a\"b", "c"), ("n", "")] {
        let value: ArrayRef = Arc::new(StringArray::from(vec![None, Some(value), None]));
        write_parquet(&bench.path("in.parquet"), &[batch(vec![(name, Arc::clone(&value))])], None);
        let mut job = bench.job("in.parquet", "out.csv", &[]);
        job.columns = vec![ciphermill_table::ColumnSpec::of_options(name, "random", &[]).unwrap()];
        job.force = true;
        run(&bench, &job).unwrap();
        let mut back = bench.back("out.csv", "back.parquet");
        back.force = true;
        unprotect(&back, &bench.mill, &bench.root, &NoProgress).unwrap();
        assert_eq!(read_parquet(&bench.path("back.parquet")), batch(vec![(name, value)]), "{name}");
    }
}

#[test]
fn wide_tables_are_converted_or_refused() {
    let bench = Bench::new();
    let names: Vec<String> = (0..2000).map(|at| format!("c{at}")).collect();
    let text = format!("{}\n{}\n{}\n", names.join(","), vec!["x"; 2000].join(","), ",".repeat(1999));
    bench.write("in.csv", &text);
    bench.protect("in.csv", "out.parquet", &["c7=random"]).unwrap();
    bench.unprotect("out.parquet", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), text);
    for (columns, words) in [(100_000, "at most 65536"), (5_000, "at most 4096 become Parquet")] {
        let names: Vec<String> = (0..columns).map(|at| format!("c{at}")).collect();
        bench.write("in.csv", format!("{}\n", names.join(",")));
        let before = bench.names();
        let found = bench.error(bench.protect("in.csv", "new.parquet", &["c7=random"]), &before);
        assert!(found.contains(words), "{found}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(32))]
    /// Canonical CSV comes back byte for byte, whatever is in its fields, and however often it changes its form.
    #[test]
    fn canonical_csv_comes_back(
        rows in proptest::collection::vec(("[a-c,\"\n\r\u{0}é]{0,4}", "[0-9]{6,9}|", "[a-c,\"\n]{1,4}|"), 0..20),
        bind: bool,
    ) {
        let bench = Bench::new();
        let quote = |field: &str| match field.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", field.replace('"', "\"\"")),
            false => field.to_owned(),
        };
        let lines = rows.iter().enumerate();
        let lines: Vec<String> =
            lines.map(|(id, (a, b, c))| format!("{id},{},{b},{}\n", quote(a), quote(c))).collect();
        let text = format!("id,a,b,c\n{}", lines.concat());
        bench.write("in.csv", &text);
        let mut job = bench.job("in.csv", "out.parquet", &["a=random", "b=ff1"]);
        job.bind_row = bind.then(|| RowBinding { column: "id".to_owned(), table: String::new() });
        run(&bench, &job).unwrap();
        bench.unprotect("out.parquet", "back.csv").unwrap();
        proptest::prop_assert_eq!(bench.text("back.csv"), text.as_str());
        bench.unprotect("out.parquet", "plain.parquet").unwrap();
        (job.input, job.output) = (bench.path("plain.parquet"), bench.path("two.csv"));
        run(&bench, &job).unwrap();
        bench.unprotect("two.csv", "three.parquet").unwrap();
        proptest::prop_assert_eq!(read_parquet(&bench.path("three.parquet")), read_parquet(&bench.path("plain.parquet")));
        let converted = matches!(bench.unprotect("two.csv", "two.back.csv"), Ok(Summary { converted: None, .. }));
        proptest::prop_assert!(converted);
        proptest::prop_assert_eq!(bench.text("two.back.csv"), text);
    }
}

#[test]
fn a_name_that_says_nothing_keeps_the_format() {
    let bench = Bench::new();
    bench.write("in.csv", TABLE);
    bench.protect("in.csv", "out.dat", &["name=random"]).unwrap();
    assert!(bench.text("out.dat").starts_with("id,name"));
    let mut back = bench.back("out.dat", "back.dat");
    back.format = Some(Format::Parquet);
    unprotect(&back, &bench.mill, &bench.root, &NoProgress).unwrap();
    assert_eq!(read_parquet(&bench.path("back.dat")).num_rows(), 4);
    let mut job = bench.job("in.csv", "codec.csv", &["name=random"]);
    job.codec = Some("zstd".parse().unwrap());
    assert!(matches!(run(&bench, &job), Err(TableError::OtherFormat { .. })));
    job.output = bench.path("codec.parquet");
    run(&bench, &job).unwrap();
}

/// A file of 12 KB whose dictionary stands for 64 GB.
#[test]
fn what_a_dictionary_stands_for_is_bounded_in_csv_too() {
    let bench = Bench::new();
    let hostile = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/hostile/dictionary.parquet");
    std::fs::copy(hostile, bench.path("in.parquet")).unwrap();
    let error = bench.protect("in.parquet", "out.csv", &["id=deterministic"]).unwrap_err().to_string();
    assert!(error.contains("column `long`") && error.contains("since a dictionary repeats a long one"), "{error}");
    assert!(!bench.path("out.csv").exists());
}
