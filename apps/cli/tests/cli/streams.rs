//! Standard input and output, compressed CSV, conversion between formats, errors as JSON.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::{Place, Ran, json};

const TABLE: &str = "id,name\n1,Ada\n2,\"Grace, H.\"\n3,\n";

fn with_table() -> Place {
    let place = Place::new();
    place.write("in.csv", TABLE);
    place.ok(["keys", "generate", "default"]);
    place
}

/// Runs a command with these bytes on standard input. What standard output carried is `out` byte for byte.
fn pipe(place: &Place, input: &[u8], args: &[&str]) -> (Ran, Vec<u8>) {
    let mut child =
        place.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    // A command that refuses its arguments does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("ends");
    let out = output.stdout.clone();
    (Ran::from(output), out)
}

#[test]
fn csv_goes_through_pipes() {
    let place = with_table();
    let args = ["protect", "-", "-", "--format", "csv", "--manifest", "m.json", "--column", "name=random"];
    let (ran, safe) = pipe(&place, TABLE.as_bytes(), &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("3 rows"), "the summary is on standard error: {}", ran.err);
    let text = String::from_utf8(safe.clone()).expect("text");
    assert!(text.starts_with("id,name\n1,") && !text.contains(",Ada"), "{text}");

    let (ran, back) = pipe(&place, &safe, &["unprotect", "-", "-", "--manifest", "m.json", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(json(&ran.err)["rows"], 3);
    assert_eq!(back, TABLE.as_bytes());
    assert_eq!(place.names().iter().filter(|name| name.contains("part")).count(), 0);
}

/// What went into a pipe cannot be taken back, so nothing does before everything is verified.
#[test]
fn nothing_unverified_goes_to_standard_output() {
    let place = with_table();
    place.ok(["protect", "in.csv", "safe.csv", "--quiet", "--column", "name=random"]);
    let safe = std::fs::read(place.path("safe.csv")).expect("a file");
    let unprotect = ["unprotect", "-", "-", "--manifest", "safe.csv.ciphermill.json"];
    for cut in [&safe[..safe.len() - 1], &safe[..safe.len() / 2], &[&safe[..], b"4,\n"].concat()] {
        let (ran, out) = pipe(&place, cut, &unprotect);
        assert_eq!((ran.code, out.len()), (Some(1), 0), "{}", ran.err);
    }
    let (ran, out) = pipe(&place, &safe, &unprotect);
    assert_eq!((ran.code, out.as_slice()), (Some(0), TABLE.as_bytes()), "{}", ran.err);
}

#[test]
fn parquet_goes_through_pipes() {
    let place = with_table();
    place.ok(["demo", "--scale", "0.001", "--dir", ".", "--json"]);
    let table = std::fs::read(place.path("customer.parquet")).expect("a file");
    let args = ["protect", "-", "-", "--format", "parquet", "--manifest", "m.json", "--column", "c_name=random"];
    let (ran, safe) = pipe(&place, &table, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!safe.windows(9).any(|window| window == b"Customer#"));
    let (ran, _) = pipe(&place, &safe, &["unprotect", "-", "back.parquet", "--manifest", "m.json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(place.has("back.parquet"));
}

#[test]
fn a_manifest_needs_a_place() {
    let place = with_table();
    place.fails(1, &["--manifest"], ["protect", "in.csv", "-", "--column", "name=random"]);
    place.fails(1, &["--format"], ["protect", "-", "out.csv", "--column", "name=random"]);
}

#[test]
fn a_reader_that_leaves_without_its_table_is_a_failure() {
    let place = with_table();
    place.write("in.csv", format!("id,name\n{}", "1,somebody\n".repeat(100_000)));
    let args = ["protect", "in.csv", "-", "--manifest", "m.json", "--quiet", "--column", "id=random"];
    let mut child = place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("standard output"), "{}", ran.err);
    assert!(!place.has("m.json"), "no manifest stays for a table that did not arrive");
}

#[test]
fn compressed_csv_is_read_by_its_bytes_and_written_by_its_name() {
    let place = with_table();
    let text = format!("id,name\n{}", "1,somebody\n".repeat(50_000));
    place.write("in.csv", &text);
    let mut before = String::from("in.csv");
    // Each step reads what the one before has written; the last one is plain again.
    for name in ["a.csv.gz", "b.csv.zst", "c.csv"] {
        place.ok(["protect", &before, name, "--quiet", "--column", "name=ff1:alphabet=lower"]);
        let bytes = std::fs::read(place.path(name)).expect("a file");
        let magic: &[u8] = match Path::new(name).extension().and_then(std::ffi::OsStr::to_str) {
            Some("gz") => &[0x1f, 0x8b],
            Some("zst") => &[0x28, 0xb5, 0x2f, 0xfd],
            _ => b"id,name",
        };
        assert!(bytes.starts_with(magic), "{name}");
        let back = format!("back-{name}");
        place.ok(["unprotect", name, &back, "--quiet"]);
        place.ok(["unprotect", name, "plain.csv", "--quiet", "--force"]);
        assert_eq!(std::fs::read_to_string(place.path("plain.csv")).expect("a file"), text, "{name}");
        assert!(std::fs::read(place.path(&back)).expect("a file").starts_with(magic), "{back}");
        before = back;
    }
    let whole = std::fs::read(place.path("a.csv.gz")).expect("a file");
    place.write("a.csv.gz", &whole[..whole.len() - 5]);
    place.fails(1, &["a.csv.gz"], ["unprotect", "a.csv.gz", "never.csv"]);
    assert!(!place.has("never.csv"));
}

#[test]
fn tables_are_converted_where_the_output_s_name_says_so() {
    let place = with_table();
    let protect = |output: &'static str| ["protect", "in.csv", output, "--column", "name=random"];
    place.fails(1, &["out.tsv", "tabulators"], protect("out.tsv"));
    let ran = place.run(protect("safe.parquet"));
    assert!(ran.code == Some(0) && ran.err.contains("converted from CSV to Parquet"), "{}", ran.err);
    assert!(std::fs::read(place.path("safe.parquet")).expect("a file").starts_with(b"PAR1"));
    assert!(place.ok(["inspect", "safe.parquet", "--verify"]).contains("converted: from CSV to Parquet"));
    place.ok(["unprotect", "safe.parquet", "back.csv", "--quiet"]);
    assert_eq!(std::fs::read_to_string(place.path("back.csv")).expect("a file"), TABLE);
    place.ok(["unprotect", "safe.parquet", "back.pq", "--quiet"]);
    let summary = json(&place.ok(["protect", "back.pq", "two.csv.gz", "--json", "--column", "id=deterministic"]));
    assert_eq!(summary["converted_from"], "parquet");
    place.ok(["unprotect", "two.csv.gz", "two.txt", "--quiet"]);
    assert_eq!(std::fs::read_to_string(place.path("two.txt")).expect("a file"), TABLE);
    place.fails(1, &["not converted"], ["unprotect", "two.csv.gz", "part.pq", "--column", "id"]);
    place.fails(
        1,
        &["--delimiter", "CSV"],
        ["protect", "back.pq", "o.pq", "--delimiter", ";", "--column", "id=random"],
    );

    let manifest = "safe.parquet.ciphermill.json";
    let safe = std::fs::read(place.path("safe.parquet")).expect("a file");
    let (ran, back) = pipe(&place, &safe, &["unprotect", "-", "-", "--format", "csv", "--manifest", manifest]);
    assert_eq!((ran.code, back.as_slice()), (Some(0), TABLE.as_bytes()), "{}", ran.err);
    let (ran, back) = pipe(&place, &safe, &["unprotect", "-", "-", "--manifest", manifest]);
    assert!(ran.code == Some(0) && back.starts_with(b"PAR1"), "{}", ran.err);
}

#[test]
fn equals_signs_in_column_names_are_escaped() {
    let place = with_table();
    place.write("in.csv", "a=b,c\n1,2\n");
    place.fails(1, &["several `=`", "`\\=`"], ["protect", "in.csv", "out.csv", "--column", "a=b=random"]);
    place.ok(["protect", "in.csv", "out.csv", "--column", "a\\=b=random"]);
}

#[test]
fn another_delimiter_is_suggested() {
    let place = with_table();
    place.write("semicolons.csv", "id;name\n1;Ada\n");
    let protect = ["protect", "semicolons.csv", "out.csv", "--column", "name=random"];
    place.fails(1, &["';'", "--delimiter"], protect);
    place.ok(protect.into_iter().chain(["--delimiter", ";"]));
}

#[test]
fn errors_are_json_where_the_output_is() {
    let place = with_table();
    let error = |ran: Ran| json(&ran.err);
    let failed = error(place.fails(1, &[], ["protect", "no.csv", "out.csv", "--column", "a=random", "--json"]));
    assert!(failed["error"].as_str().expect("a text").contains("no.csv"), "{failed}");
    assert_eq!(failed["exit_code"], 1);
    let wrong = error(place.fails(2, &[], ["protect", "--json", "in.csv"]));
    assert!(wrong["error"].as_str().expect("a text").contains("<OUTPUT>"), "{wrong}");
    assert_eq!(wrong["exit_code"], 2);
}

#[test]
fn log_lines_have_no_colours_in_a_pipe() {
    let place = with_table();
    let ran = place.run(["-vv", "protect", "in.csv", "out.csv", "--column", "name=random"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.is_empty() && !ran.err.contains('\u{1b}'), "{:?}", ran.err);
}
