//! Wrong keys, wrong columns, changed bytes, files cut short: an error that names the place, and nothing left behind.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray, StringArray};
use ciphermill_table::{Manifest, NoProgress, Position, RootKey, TableError, protect, unprotect};

use crate::testing::root_key;
use crate::{Bench, batch, read_parquet, write_parquet};

fn small(bench: &Bench) {
    bench.write("in.csv", "id,name,city\n1,Ann,Bern\n2,Bob,Chur\n3,Cid,Genf\n");
    bench.protect("in.csv", "out.csv", &["name=random", "city=deterministic"]).unwrap();
}

/// Changes one character of a field of the protected file.
fn tamper(bench: &Bench, row: usize, column: usize, change: impl Fn(&str) -> String) {
    let text = bench.text("out.csv");
    let mut lines: Vec<Vec<String>> = text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    lines[row][column] = change(&lines[row][column]);
    let text: String = lines.iter().map(|fields| fields.join(",") + "\n").collect();
    bench.write("out.csv", text);
}

fn flip(field: &str) -> String {
    let other = if field.starts_with('A') { "B" } else { "A" };
    format!("{other}{}", &field[1..])
}

#[test]
fn a_changed_value_is_named_by_row_and_column() {
    for (row, column, name) in [(1, 1, "name"), (2, 2, "city"), (3, 1, "name")] {
        let bench = Bench::new();
        small(&bench);
        tamper(&bench, row, column, flip);
        let before = bench.names();
        let words = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
        assert!(words.contains(&format!("row {row}, column `{name}`")), "{words}");
        assert!(words.contains("not authentic") && words.contains("out.csv"), "{words}");
    }
}

#[test]
fn values_of_another_column_or_file_are_not_taken() {
    let bench = Bench::new();
    bench.write("in.csv", "a,b\nx,x\n");
    bench.protect("in.csv", "out.csv", &["a=deterministic", "b=deterministic"]).unwrap();
    let text = bench.text("out.csv");
    let (a, b) = text.lines().nth(1).unwrap().split_once(',').unwrap();
    assert_ne!(a, b);
    bench.write("out.csv", format!("a,b\n{b},{a}\n"));
    let before = bench.names();
    let words = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
    assert!(words.contains("row 1, column `a`") && words.contains("another column"), "{words}");
}

#[test]
fn what_is_no_protected_value_is_named() {
    for (field, words) in [("not base64!", "base64url"), ("AAAA", "shorter than a nonce and a tag")] {
        let bench = Bench::new();
        small(&bench);
        tamper(&bench, 2, 1, |_| field.to_owned());
        let before = bench.names();
        let mut job = bench.back("out.csv", "back.csv");
        job.allow_changed = true;
        let error = bench.error(unprotect(&job, &bench.mill, &bench.root, &NoProgress), &before);
        assert!(error.contains(words) && error.contains("row 2, column `name`"), "{error}");
    }
    let bench = Bench::new();
    small(&bench);
    tamper(&bench, 2, 2, |_| "AAAA".to_owned());
    let mut job = bench.back("out.csv", "back.csv");
    job.allow_changed = true;
    let before = bench.names();
    let error = bench.error(unprotect(&job, &bench.mill, &bench.root, &NoProgress), &before);
    assert!(error.contains("shorter than a tag") && error.contains("row 2, column `city`"), "{error}");
}

/// What somebody does to a file's lines.
type Change<'a> = &'a dyn Fn(&mut Vec<String>);

#[test]
fn removed_swapped_and_emptied_rows_are_noticed() {
    let change = |bench: &Bench, change: Change<'_>| {
        let mut lines: Vec<String> = bench.text("out.csv").lines().map(str::to_owned).collect();
        change(&mut lines);
        bench.write("out.csv", lines.join("\n") + "\n");
    };
    let cases: [(&str, Change<'_>); 4] = [
        ("2 rows, and the manifest says 3", &|lines| {
            lines.remove(2);
        }),
        ("SHA-256", &|lines| lines.swap(1, 2)),
        ("SHA-256", &|lines| lines[1] = lines[1].replacen('1', "9", 1)),
        ("4 rows, and the manifest says 3", &|lines| lines.push(lines[1].clone())),
    ];
    for (words, case) in cases {
        let bench = Bench::new();
        small(&bench);
        change(&bench, case);
        let before = bench.names();
        let error = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
        assert!(error.contains(words), "{error}");
    }
    let bench = Bench::new();
    small(&bench);
    let text = bench.text("out.csv");
    let city = text.lines().nth(1).unwrap().split(',').nth(2).unwrap();
    bench.write("out.csv", text.replacen(city, "", 1) + &"\n".repeat(city.len()));
    let before = bench.names();
    let error = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
    assert!(error.contains("column `city` has 1 empty values, and the manifest says 0"), "{error}");
}

#[test]
fn a_csv_file_that_has_become_shorter_says_so() {
    let bench = Bench::new();
    small(&bench);
    let whole = bench.read("out.csv");
    let before = bench.names();
    for len in (20..whole.len()).step_by(7) {
        bench.write("out.csv", &whole[..len]);
        let error = bench.unprotect("out.csv", "back.csv").unwrap_err();
        assert!(matches!(error, TableError::Changed { .. }), "{len} of {}: {error}", whole.len());
        assert_eq!(bench.names(), before);
    }
    bench.write("out.csv", &whole[..whole.len() - 30]);
    let words = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
    let lengths = format!("{} bytes, and the manifest says {} for 3 rows", whole.len() - 30, whole.len());
    assert!(words.contains("row 3") && words.contains(&lengths), "{words}");
    // In clear there is no manifest to compare with, but half a row is no row.
    bench.write("cut.csv", "a,b,c\n1,2,3\n4,5");
    let before = bench.names();
    let words = bench.error(bench.protect("cut.csv", "cut.out.csv", &["a=random"]), &before);
    assert!(words.contains("cut.csv: row 2: 2 fields, and the header has 3"), "{words}");
}

#[test]
fn a_parquet_file_cut_short_says_so() {
    let bench = Bench::new();
    let names: Vec<String> = (0..5000).map(|row| format!("name {row}")).collect();
    write_parquet(
        &bench.path("in.parquet"),
        &[batch(vec![("n", Arc::new(StringArray::from(names)) as ArrayRef)])],
        None,
    );
    bench.protect("in.parquet", "out.parquet", &["n=random"]).unwrap();
    let whole = bench.read("out.parquet");
    let before = bench.names();
    for len in [0, 3, 1000, whole.len() / 2, whole.len() - 1] {
        bench.write("out.parquet", &whole[..len]);
        let words = bench.error(bench.unprotect("out.parquet", "back.parquet"), &before);
        let lengths = format!("{len} bytes, and the manifest says {} for 5000 rows", whole.len());
        assert!(words.contains("cut short") && words.contains(&lengths), "{words}");
    }
    let plain = bench.read("in.parquet");
    bench.write("in.parquet", &plain[..plain.len() / 2]);
    let words = bench.error(bench.protect("in.parquet", "new.parquet", &["n=random"]), &before);
    assert!(words.contains("in.parquet"), "{words}");
}

#[test]
fn a_parquet_file_that_was_written_anew_is_not_cut_short() {
    let bench = Bench::new();
    let names: Vec<String> = (0..5000).map(|row| format!("name {row}")).collect();
    let column = Arc::new(StringArray::from(names)) as ArrayRef;
    write_parquet(&bench.path("in.parquet"), &[batch(vec![("n", column)])], None);
    bench.protect("in.parquet", "out.parquet", &["n=random"]).unwrap();
    let protected = read_parquet(&bench.path("out.parquet"));
    // Fewer rows, and one value that is not authentic: complete, shorter, and not as it was.
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values([[7u8; 40]]));
    for table in [protected.slice(0, 100), batch(vec![("n", column)])] {
        write_parquet(&bench.path("out.parquet"), &[table], None);
        let error = bench.unprotect("out.parquet", "back.parquet").unwrap_err();
        assert!(matches!(error, TableError::Changed { .. }), "{error}");
        assert!(!error.to_string().contains("cut short"), "{error}");
    }
}

#[test]
fn a_flipped_bit_in_a_parquet_value_is_named() {
    let bench = Bench::new();
    let names: Vec<String> = (0..40_000).map(|row| format!("name {row}")).collect();
    write_parquet(
        &bench.path("in.parquet"),
        &[batch(vec![("n", Arc::new(StringArray::from(names)) as ArrayRef)])],
        None,
    );
    bench.protect("in.parquet", "out.parquet", &["n=random"]).unwrap();
    let protected = read_parquet(&bench.path("out.parquet"));
    let values = protected.column(0).as_binary::<i32>();
    let mut bytes = bench.read("out.parquet");
    // Values are stored plain, so the one of row 33,333 can be found in the file.
    let wanted = values.value(33_332);
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).unwrap();
    bytes[at + 14] ^= 1;
    bench.write("out.parquet", bytes);
    let before = bench.names();
    let words = bench.error(bench.unprotect("out.parquet", "back.parquet"), &before);
    assert!(words.contains("row 33333, column `n`") && words.contains("not authentic"), "{words}");
}

#[test]
fn the_wrong_key_is_told_before_anything_is_written() {
    let bench = Bench::new();
    small(&bench);
    let before = bench.names();
    let other = root_key(&bench.mill, &[1; 32]);
    let run = |root: &RootKey| unprotect(&bench.back("out.csv", "back.csv"), &bench.mill, root, &NoProgress);
    let words = bench.error(run(&other), &before);
    assert!(words.contains("the key does not match") && words.contains("`test` version 1"), "{words}");
    let words = bench.error(run(&RootKey { version: 2, ..bench.root.clone() }), &before);
    assert!(words.contains("needs version 1 of the key `test`"), "{words}");
    let manifest = Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap();
    assert_eq!((manifest.root_key.name.as_str(), manifest.root_key.version, manifest.rows), ("test", 1, 3));
}

#[test]
fn a_key_that_may_not_be_used_so_is_refused() {
    let bench = Bench::new();
    bench.write("in.csv", "a\nx\n");
    let aes = ciphermill_contract::Suite::Aead(ciphermill_contract::suite::Aead::ChaCha20Poly1305);
    let material = ciphermill_contract::KeyMaterial::secret(&[9; 32]);
    let id = bench.mill.keys().import(material, ciphermill::KeyPolicy::only(aes)).unwrap();
    let root = RootKey { id, ..bench.root.clone() };
    let before = bench.names();
    let job = bench.job("in.csv", "out.csv", &["a=random"]);
    let words = bench.error(protect(&job, &bench.mill, &root, &NoProgress), &before);
    assert!(words.contains("the key may not be used with this suite"), "{words}");
}

#[test]
fn manifests_that_are_missing_damaged_or_altered_are_refused() {
    let bench = Bench::new();
    small(&bench);
    let manifest = "out.csv.ciphermill.json";
    let good = bench.text(manifest);
    let cases: [(String, &str); 5] = [
        (good.replacen("\"rows\": 3", "\"rows\": 4", 1), "signature does not hold"),
        (good.replacen("\"logical\": \"name\"", "\"logical\": \"nome\"", 1), "signature does not hold"),
        (good[..good.len() / 2].to_owned(), "damaged manifest"),
        (good.replacen("\"ciphermill_manifest\": 2", "\"ciphermill_manifest\": 7", 1), "format 7"),
        (String::new(), "damaged manifest"),
    ];
    let before = bench.names();
    for (text, words) in cases {
        assert_ne!(text, good);
        bench.write(manifest, text);
        let error = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
        assert!(error.contains(words), "{error}");
    }
    std::fs::remove_file(bench.path(manifest)).unwrap();
    let error = bench.error(bench.unprotect("out.csv", "back.csv"), &bench.names());
    assert!(error.contains("there is no manifest"), "{error}");
}

#[test]
fn columns_that_are_not_there_come_with_those_that_are() {
    let bench = Bench::new();
    bench.write("in.csv", "a,b,b\n1,2,3\n");
    let before = bench.names();
    for (column, words) in [
        ("c=random", "there is no column `c`; the columns are `a`, `b`, `b`"),
        ("b=random", "several columns are called `b`"),
    ] {
        let error = bench.error(bench.protect("in.csv", "out.csv", &[column]), &before);
        assert!(error.contains(words), "{error}");
    }
    let twice = bench.protect("in.csv", "out.csv", &["a=random", "a=token"]);
    assert!(matches!(twice, Err(TableError::ColumnTwice { .. })));
    assert!(matches!(bench.protect("in.csv", "out.csv", &[]), Err(TableError::NothingToDo)));
    bench.write("good.csv", "a,b\n1,2\n");
    bench.protect("good.csv", "out.csv", &["a=random"]).unwrap();
    bench.write("out.csv", bench.text("out.csv").replacen('a', "z", 1));
    let error = bench.error(bench.unprotect("out.csv", "back.csv"), &bench.names());
    assert!(error.contains("there is no column `a`; the columns are `z`, `b`"), "{error}");
}

#[test]
fn too_small_a_domain_is_an_error_and_never_passes() {
    let bench = Bench::new();
    bench.write("in.csv", "phone,x\n123-4567,1\n,2\n12-345,3\n");
    let before = bench.names();
    let words = bench.error(bench.protect("in.csv", "out.csv", &["phone=ff1:sep=-"]), &before);
    assert!(words.contains("row 3, column `phone`") && words.contains("too short"), "{words}");
    assert!(!words.contains("12-345"), "values are not shown: {words}");
    let words = bench.error(bench.protect("in.csv", "out.csv", &["phone=ff1:sep=-,keep=2"]), &before);
    assert!(words.contains("row 1, column `phone`: too short for ff1: 5 characters"), "{words}");
    let words = bench.error(bench.protect("in.csv", "out.csv", &["phone=ff1"]), &before);
    assert!(words.contains("row 1, column `phone`: a character is neither in ff1's alphabet"), "{words}");
    let words = bench.error(bench.protect("in.csv", "out.csv", &[r"phone=ff1:alphabet=0123456789\,"]), &before);
    assert!(words.contains("cannot hold ','"), "{words}");
    bench.write("bad.csv", b"a\n1234567\n\xff\xfe1234567\n");
    let words = bench.error(bench.protect("bad.csv", "out.csv", &["a=ff1"]), &bench.names());
    assert!(words.contains("row 2, column `a`: not valid UTF-8"), "{words}");
}

#[test]
fn nothing_is_written_over_unless_forced() {
    let bench = Bench::new();
    small(&bench);
    let before = bench.names();
    let old = bench.read("out.csv");
    let words = bench.error(bench.protect("in.csv", "out.csv", &["id=random"]), &before);
    assert!(words.contains("out.csv: exists"), "{words}");
    let words = bench.error(bench.unprotect("out.csv", "in.csv"), &before);
    assert!(words.contains("in.csv: exists"), "{words}");
    assert_eq!(bench.read("out.csv"), old);
    let mut job = bench.job("in.csv", "in.csv", &["id=random"]);
    job.force = true;
    let words = bench.error(protect(&job, &bench.mill, &bench.root, &NoProgress), &before);
    assert!(words.contains("the same file"), "{words}");
    job.output = bench.path("out.csv");
    protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
    assert_ne!(bench.read("out.csv"), old);
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.read("back.csv"), bench.read("in.csv"));
    let words = bench.error(bench.protect("nowhere.csv", "new.csv", &["a=random"]), &bench.names());
    assert!(words.contains("nowhere.csv: cannot open"), "{words}");
    let words = bench.error(bench.protect("in.csv", "no/such/folder.csv", &["id=random"]), &bench.names());
    assert!(words.contains("folder.csv: cannot write beside it"), "{words}");
}

#[test]
fn an_interrupted_job_leaves_nothing() {
    let bench = Bench::new();
    let mut text = String::from("a\n");
    (0..100_000).for_each(|row| text.push_str(&format!("{row}\n")));
    bench.write("in.csv", text);
    let before = bench.names();
    let job = bench.job("in.csv", "out.csv", &["a=random"]);
    let cancel = Arc::clone(&job.cancel);
    let stop = move |position: &Position| cancel.store(position.rows > 40_000, Ordering::Relaxed);
    let words = bench.error(protect(&job, &bench.mill, &bench.root, &stop), &before);
    assert!(words.contains("interrupted"), "{words}");
    bench.protect("in.csv", "out.csv", &["a=random"]).unwrap();
    let before = bench.names();
    let job = bench.back("out.csv", "back.csv");
    let cancel = Arc::clone(&job.cancel);
    let stop = move |_: &Position| cancel.store(true, Ordering::Relaxed);
    let words = bench.error(unprotect(&job, &bench.mill, &bench.root, &stop), &before);
    assert!(words.contains("interrupted"), "{words}");
}

#[test]
fn keys_leave_the_table_whatever_happens() {
    let bench = Bench::new();
    let before = bench.mill.keys().len();
    small(&bench);
    bench.unprotect("out.csv", "back.csv").unwrap();
    bench.protect("in.csv", "new.csv", &["id=ff1"]).unwrap_err();
    assert_eq!(bench.mill.keys().len(), before);
}

#[test]
fn the_manifest_says_what_was_done_and_no_more() {
    let bench = Bench::new();
    small(&bench);
    let manifest = Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap();
    let of = |at: usize| {
        let column = &manifest.columns[at];
        (
            column.name.as_str(),
            column.method.as_str(),
            column.data_type.as_str(),
            column.encoding.as_str(),
            column.values,
        )
    };
    assert_eq!(of(0), ("name", "random", "Utf8", "base64url", 3));
    assert_eq!(of(1), ("city", "deterministic", "Utf8", "base64url", 3));
    assert_ne!(manifest.columns[0].check_value, manifest.columns[1].check_value);
    assert_eq!(manifest.bytes, bench.read("out.csv").len() as u64);
    let text = bench.text("out.csv.ciphermill.json");
    assert!(["Ann", "Bern"].iter().all(|value| !text.contains(value)), "no values in a manifest");
}

#[test]
fn a_column_of_another_type_was_put_there_by_somebody() {
    let bench = Bench::new();
    let table = batch(vec![("t", Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef)]);
    write_parquet(&bench.path("in.parquet"), from_ref(&table), None);
    bench.protect("in.parquet", "out.parquet", &["t=random"]).unwrap();
    write_parquet(&bench.path("out.parquet"), &[table], None);
    let before = bench.names();
    let words = bench.error(bench.unprotect("out.parquet", "back.parquet"), &before);
    assert!(words.contains("column `t`") && words.contains("byte strings"), "{words}");
    let short: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"short", b"x"]));
    write_parquet(&bench.path("out.parquet"), &[batch(vec![("t", short)])], None);
    let mut job = bench.back("out.parquet", "back.parquet");
    job.allow_changed = true;
    let words = bench.error(unprotect(&job, &bench.mill, &bench.root, &NoProgress), &before);
    assert!(words.contains("row 1, column `t`") && words.contains("shorter than"), "{words}");
}
