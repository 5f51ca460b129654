//! `protect` and `unprotect` from outside; the demonstration.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{Place, Ran, json};

const TABLE: &str = "id,name,phone,balance,token\n\
    1,Ada,25-989-741-2988,711.56,x\n\
    2,\"Grace, H.\",23-768-687-3665,121.65,y\n\
    3,,11-719-748-3364,-20.00,x\n";

const COLUMNS: [&str; 8] = [
    "--column",
    "name=deterministic:as=customer.name",
    "--column",
    "phone=ff1:sep=-",
    "--column",
    "balance=random",
    "--column",
    "token=token",
];

fn protect<'a>(input: &'a str, output: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    ["protect", input, output].into_iter().chain(COLUMNS).chain(extra.iter().copied()).collect()
}

fn with_table() -> Place {
    let place = Place::new();
    place.write("in.csv", TABLE);
    place.ok(["keys", "generate", "default"]);
    place
}

#[test]
fn a_table_is_protected_and_restored() {
    let place = with_table();
    let summary = json(&place.ok(protect("in.csv", "safe.csv", &["--json"])));
    assert_eq!((summary["rows"].as_u64(), summary["nulls"].as_u64()), (Some(3), Some(1)));
    assert_eq!(summary["columns"][1]["suite"], "ff1-aes-256");
    let in_clear = &summary["columns"][1]["in_clear"];
    assert_eq!((in_clear["kept"].as_u64(), in_clear["separators"]["-"].as_u64()), (Some(0), Some(9)), "{in_clear}");
    assert!(summary["columns"][0]["in_clear"].is_null());
    let safe = std::fs::read_to_string(place.path("safe.csv")).expect("a file");
    // Long enough that no ciphertext has them by chance.
    assert!(!safe.contains(",Ada,") && !safe.contains("989-741") && !safe.contains("711.56"), "{safe}");
    let phone = safe.lines().nth(1).and_then(|line| line.split(',').nth(2)).expect("a phone");
    assert_eq!(phone.split('-').map(str::len).collect::<Vec<_>>(), [2, 3, 3, 4]);

    let said = place.ok(["unprotect", "safe.csv", "back.csv"]);
    assert!(said.contains("left as tokens"), "{said}");
    let back = std::fs::read_to_string(place.path("back.csv")).expect("a file");
    let without_token = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.rsplit_once(',').expect("columns").0.to_owned()).collect()
    };
    assert_eq!(without_token(&back), without_token(TABLE));
}

#[test]
fn what_stays_in_clear_is_said() {
    let place = with_table();
    let column = "phone=ff1:preset=phone,keep=2,keep-last=1";
    let said = place.ok(["protect", "in.csv", "safe.csv", "--column", column]);
    let words = "phone: in clear: the first 2 and the last 1 characters of each value (9 characters), `-` (9 times)";
    assert!(said.contains(words), "{said}");
    let ran = place.fails(1, &["row 1", "name", "neither"], ["protect", "in.csv", "o.csv", "--column", "name=ff1"]);
    assert!(!ran.err.contains("Ada"), "{}", ran.err);
}

#[test]
fn values_are_bound_to_rows_on_request() {
    let place = with_table();
    let said = place.ok(protect("in.csv", "safe.csv", &["--bind-row", "id", "--bind-table", "customers"]));
    assert!(said.contains("balance: bound to the rows by `id`") && !said.contains("phone: bound"), "{said}");
    place.ok(["unprotect", "safe.csv", "back.csv"]);
    let safe = std::fs::read_to_string(place.path("safe.csv")).expect("a file");
    place.write("safe.csv", safe.replace("\n2,", "\n9,"));
    let args = ["unprotect", "safe.csv", "b.csv", "--allow-changed"];
    place.fails(1, &["row 2", "column `name`", "row's `id`"], args);
    place.fails(2, &["--bind-row"], ["protect", "in.csv", "o.csv", "--column", "name=random", "--bind-table", "x"]);
}

const BAD: &str = "id,phone\n1,1234567\n2,n/a\n3,12\n4,7654321\n";

#[test]
fn a_dry_run_says_what_a_run_would_meet() {
    let place = with_table();
    place.write("bad.csv", BAD);
    let dry = |column: &'static str| ["protect", "bad.csv", "safe.csv", "--dry-run", "--json", "--column", column];
    let ran = place.fails(1, &[], dry("phone=ff1"));
    let column = &json(&ran.out)["columns"][0];
    assert_eq!((&column["on_bad"], column["bad"].as_array().map(Vec::len)), (&"error".into(), Some(2)), "{column}");
    assert_eq!(column["bad"][1]["first_rows"], serde_json::json!([3]));
    let summary = json(&place.ok(dry("phone=ff1:on-bad=null")));
    assert_eq!(summary["columns"][0]["bad"][0]["count"], 1);
    assert!(!place.has("safe.csv") && !place.has("safe.csv.ciphermill.json"));
    let said = place.ok(["protect", "bad.csv", "safe.csv", "--column", "phone=ff1:on-bad=null"]);
    assert!(said.contains("phone: too few characters to encrypt: 1 values (rows 3), left out"), "{said}");
}

#[test]
fn a_policy_file_says_what_many_columns_say() {
    let place = with_table();
    place.write("bad.csv", BAD);
    let policy = "key = \"other\"\n[columns.phone]\nmethod = \"ff1\"\non-bad = \"reject\"\n";
    place.write("p.toml", policy);
    place.ok(["keys", "generate", "other"]);
    let said = place.ok(["config", "--policy", "p.toml"]);
    assert!(said.contains("--key other") && said.contains("--column phone=ff1:on-bad=reject"), "{said}");
    let args = ["protect", "bad.csv", "safe.csv", "--policy", "p.toml", "--reject-file", "rejects.csv", "--json"];
    let summary = json(&place.ok(args));
    assert_eq!((summary["key"].as_str(), summary["rejected_rows"].as_u64()), (Some("other"), Some(2)));
    let rejected = std::fs::read_to_string(place.path("rejects.csv")).expect("a file");
    assert_eq!(rejected, "id,phone\n2,n/a\n3,12\n");
    place.ok(["unprotect", "safe.csv", "back.csv"]);
    assert_eq!(std::fs::read_to_string(place.path("back.csv")).expect("a file"), "id,phone\n1,1234567\n4,7654321\n");
    place.write("p.toml", policy.replace("on-bad", "on-bed"));
    place.fails(1, &["p.toml", "line 4", "on-bed"], ["config", "--policy", "p.toml"]);
    place.fails(1, &["p.toml", "line 4", "on-bed"], ["protect", "bad.csv", "new.csv", "--policy", "p.toml"]);
    place.fails(2, &["--column"], ["protect", "bad.csv", "new.csv"]);
}

#[test]
fn single_values_are_those_of_the_table() {
    let place = with_table();
    place.ok(protect("in.csv", "safe.csv", &["--quiet"]));
    let safe = std::fs::read_to_string(place.path("safe.csv")).expect("a file");
    let row: Vec<&str> = safe.lines().nth(1).expect("a row").split(',').collect();
    for (column, place_in_row, value) in [
        ("name=deterministic:as=customer.name", 1, "Ada"),
        ("token=token", 4, "x"),
        ("phone=ff1:sep=-", 2, "25-989-741-2988"),
    ] {
        let said = place.ok_with(["value", "--column", column], &format!("{value}\n\n{value}\r\n"));
        assert_eq!(said, format!("{0}\n\n{0}\n", row[place_in_row]), "{column}");
    }
    let column = ["value", "--decrypt", "--column", "balance=random"];
    assert_eq!(place.ok_with(column, row[3]), "711.56\n");
    place.fails(1, &["has no option `len`"], ["value", "--column", "x=random:len=3"]);
}

#[test]
fn old_versions_of_a_key_still_restore() {
    let place = with_table();
    place.ok(protect("in.csv", "old.csv", &["--quiet"]));
    place.ok(["keys", "rotate", "default"]);
    let new = json(&place.ok(protect("in.csv", "new.csv", &["--json"])));
    assert_eq!(new["key_version"], 2);
    for name in ["old.csv", "new.csv"] {
        place.ok(["unprotect", name, "back.csv", "--force", "--quiet"]);
        assert!(std::fs::read_to_string(place.path("back.csv")).expect("a file").contains("Grace, H."));
    }
    place.ok(["keys", "destroy", "default", "--version", "1", "--yes"]);
    place.fails(1, &["default", "1"], ["unprotect", "old.csv", "gone.csv"]);
    assert!(!place.has("gone.csv"));
}

#[test]
fn a_table_is_rekeyed_without_being_restored() {
    let place = with_table();
    let columns = ["--column", "name=deterministic", "--column", "phone=random", "--quiet"];
    place.ok(["protect", "in.csv", "old.csv"].into_iter().chain(columns));
    let ran = place.fails(
        1,
        &["under version 1 of the key `default` already", "keys rotate"],
        ["rekey", "old.csv", "new.csv"],
    );
    assert!(!ran.err.contains("panicked") && !place.has("new.csv"));
    place.ok(["keys", "rotate", "default"]);
    let summary = json(&place.ok(["rekey", "old.csv", "new.csv", "--verify", "--json"]));
    assert_eq!((summary["command"].as_str(), summary["key_version"].as_u64()), (Some("rekey"), Some(2)));
    assert_ne!(std::fs::read(place.path("old.csv")).unwrap(), std::fs::read(place.path("new.csv")).unwrap());
    place.ok(["keys", "destroy", "default", "--version", "1", "--yes"]);
    place.ok(["unprotect", "new.csv", "back.csv", "--quiet"]);
    assert_eq!(std::fs::read(place.path("back.csv")).unwrap(), std::fs::read(place.path("in.csv")).unwrap());
    place.fails(1, &["destroyed"], ["rekey", "old.csv", "never.csv"]);
    place.fails(1, &["exists"], ["rekey", "new.csv", "back.csv", "--column", "phone=deterministic"]);
    place.fails(1, &["there is no column `fone`"], ["rekey", "new.csv", "never.csv", "--column", "fone=random"]);
    assert!(!place.has("never.csv"));
}

#[test]
fn damage_is_named_and_nothing_is_written() {
    let place = with_table();
    place.ok(protect("in.csv", "safe.csv", &["--quiet"]));
    let good = std::fs::read_to_string(place.path("safe.csv")).expect("a file");
    let line = good.lines().nth(2).expect("a row");
    let balance = line.split(',').nth(3).expect("a value");
    let flipped = if balance.starts_with('A') { "B" } else { "A" };
    place.write("safe.csv", good.replace(balance, &format!("{flipped}{}", &balance[1..])));
    place.fails(1, &["row 2", "balance"], ["unprotect", "safe.csv", "back.csv"]);
    place.write("safe.csv", &good[..good.len() - 9]);
    place.fails(1, &["safe.csv"], ["unprotect", "safe.csv", "back.csv"]);
    place.write("safe.csv", good.replace("phone", "fone"));
    place.fails(1, &["phone"], ["unprotect", "safe.csv", "back.csv"]);
    assert!(!place.has("back.csv"));
    let left: Vec<_> = place.names().into_iter().filter(|name| name.contains("part")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn another_key_is_told_from_damage() {
    let place = with_table();
    place.ok(protect("in.csv", "safe.csv", &["--quiet"]));
    let other = Place::new();
    other.ok(["keys", "generate", "default"]);
    for name in ["safe.csv", "safe.csv.ciphermill.json"] {
        std::fs::copy(place.path(name), other.path(name)).expect("copied");
    }
    let ran = other.fails(1, &["key"], ["unprotect", "safe.csv", "back.csv"]);
    assert!(!ran.err.contains("row"), "{}", ran.err);
    assert!(!other.has("back.csv"));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let place = with_table();
    let with = |column: &'static str| ["protect", "in.csv", "out.csv", "--column", column];
    place.fails(1, &["adress", "name"], with("adress=random"));
    place.fails(1, &["rot13"], with("name=rot13"));
    place.fails(1, &["row 1", "id"], with("id=ff1"));
    place.fails(1, &["in.csv"], ["protect", "in.csv", "in.csv", "--column", "name=random"]);
    place.fails(1, &["nothing.csv"], ["protect", "nothing.csv", "out.csv", "--column", "name=random"]);
    place.fails(1, &["abacus"], ["protect", "in.csv", "out.csv", "--column", "name=random", "--engine", "abacus"]);
    assert!(!place.has("out.csv"));
    place.ok(protect("in.csv", "safe.csv", &["--quiet"]));
    place.fails(1, &["safe.csv", "exist"], protect("in.csv", "safe.csv", &[]));
    place.ok(protect("in.csv", "safe.csv", &["--quiet", "--force"]));
}

/// Rows of a table that is larger than one batch.
fn many_rows() -> String {
    let mut text = String::from("id,name,phone,balance,token\n");
    for n in 0..60_000 {
        writeln!(text, "{n},customer {n},25-989-{:03}-{:04},{n}.50,t{n}", n % 1000, n % 9973).expect("text grows");
    }
    text
}

/// Runs a command whose input `pipe.csv` never ends, and sends it `signal` when it has taken all of `text`.
fn stopped_midway(place: &Place, args: &[&str], text: Vec<u8>, signal: &str) -> Ran {
    let pipe = place.path("pipe.csv");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    // Open in both directions, so that neither end waits for the other and the reader finds no end.
    let mut held = std::fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
    let mut child = place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let mut end = held.try_clone().expect("a pipe");
    let writer = std::thread::spawn(move || end.write_all(&text));
    let started = Instant::now();
    while !writer.is_finished() {
        assert!(child.try_wait().expect("a child").is_none(), "ended before its input did");
        assert!(started.elapsed() < Duration::from_secs(60), "the input is not being read");
        std::thread::sleep(Duration::from_millis(5));
    }
    writer.join().expect("written").expect("written");
    let kill = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    // Who waits for input notices a request to end when some comes.
    held.write_all(b"\n").expect("written");
    drop(held);
    let output = child.wait_with_output().expect("ends");
    std::fs::remove_file(&pipe).expect("removed");
    Ran::from(output)
}

#[test]
fn signals_leave_no_half_file_and_their_exit_code() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        is_ended_by(signal, code);
    }
}

fn is_ended_by(signal: &str, code: i32) {
    let place = with_table();
    let before = place.names();
    let ran =
        stopped_midway(&place, &protect("pipe.csv", "safe.csv", &[]), many_rows().into_bytes(), &format!("-{signal}"));
    assert_eq!(ran.code, Some(code), "{}", ran.err);
    assert_eq!(place.names(), before);
}

#[test]
fn a_killed_job_leaves_nothing_that_others_can_read() {
    let place = with_table();
    place.write("big.csv", many_rows());
    place.ok(protect("big.csv", "safe.csv", &["--quiet"]));
    let before = place.names();
    let restore = ["unprotect", "pipe.csv", "back.csv", "--manifest", "safe.csv.ciphermill.json"];
    let safe = std::fs::read(place.path("safe.csv")).expect("a file");
    let ran = stopped_midway(&place, &restore, safe, "-KILL");
    assert_eq!(ran.code, None, "{}", ran.err);
    for name in place.names().iter().filter(|name| !before.contains(name)) {
        let mode = std::fs::metadata(place.path(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} can be read by others");
    }
    place.ok(["unprotect", "safe.csv", "back.csv", "--quiet"]);
    let mode = |name: &str| std::fs::metadata(place.path(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode("back.csv"), 0o600, "a restored table is its owner's alone");
}

#[test]
fn a_full_disk_leaves_the_old_table() {
    let place = with_table();
    place.ok(protect("in.csv", "safe.csv", &["--quiet"]));
    place.write("big.csv", many_rows());
    let (table, before) = (std::fs::read(place.path("safe.csv")).expect("a file"), place.names());
    // A limit on the length of files stands for a full disk; with its signal ignored it is an error of `write`.
    let limited = "trap '' XFSZ; ulimit -f 64";
    for threads in ["1", "2", "7"] {
        let protect = protect("big.csv", "safe.csv", &["--force", "--threads", threads]);
        let ran = Ran::from(place.command_after(limited, protect).output().expect("runs"));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains("safe.csv: cannot write: File too large"), "{}", ran.err);
        assert_eq!(std::fs::read(place.path("safe.csv")).expect("a file"), table);
        assert_eq!(place.names(), before);
    }
    place.ok(["unprotect", "safe.csv", "back.csv", "--quiet"]);
}

#[test]
fn a_full_disk_leaves_no_parquet_table_on_any_number_of_threads() {
    let place = with_table();
    place.ok(["demo", "--scale", "0.1", "--dir", "demo", "--json"]);
    let before = place.names();
    let limited = "trap '' XFSZ; ulimit -f 64";
    for threads in ["1", "2", "7"] {
        let protect = ["protect", "demo/customer.parquet", "safe.parquet", "--column", "c_name=random", "--column"];
        let protect = protect.into_iter().chain(["c_address=deterministic", "--quiet", "--threads", threads]);
        let ran = Ran::from(place.command_after(limited, protect.clone()).output().expect("runs"));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains("safe.parquet") && ran.err.contains("File too large"), "{}", ran.err);
        assert_eq!(place.names(), before);
    }
    place.fails(2, &["--threads"], ["protect", "in.csv", "x.csv", "--column", "name=random", "--threads", "0"]);
}

#[test]
fn the_demonstration_restores_what_it_protected() {
    let place = Place::new();
    let report = json(&place.ok(["demo", "--scale", "0.01", "--dir", "demo", "--json"]));
    assert_eq!((report["rows"].as_u64(), report["equal"].as_bool()), (Some(1500), Some(true)));
    assert_eq!(report["columns"].as_array().map(Vec::len), Some(4));
    let again = place.ok(["demo", "--scale", "0.01", "--dir", "demo"]);
    assert!(again.contains("equal") && again.contains("c_phone"), "{again}");
    let bytes = |name: &str| std::fs::read(place.path("demo").join(Path::new(name))).expect("a file");
    assert!(!bytes("customer-protected.parquet").windows(9).any(|window| window == b"Customer#"));
    place.fails(1, &["--scale"], ["demo", "--scale", "0"]);
}

#[test]
fn tables_without_a_header() {
    let place = Place::new();
    let table = "1,Ann,1234567\n2,\"Bob, B.\",\n";
    place.write("in.csv", table);
    place.ok(["keys", "generate", "default"]);
    let protect = ["protect", "in.csv", "safe.csv", "--column", "column_2=random"];
    let ran = place.fails(1, &["column_2", "--no-header"], protect);
    assert!(!ran.err.contains("Ann"), "{}", ran.err);
    place.ok(protect.into_iter().chain(["--no-header", "--dry-run"]));
    assert!(!place.has("safe.csv"));
    place.ok(protect.into_iter().chain(["--no-header"]));
    assert!(place.ok(["inspect", "safe.csv"]).contains("no header: 3 columns"));
    std::fs::remove_file(place.path("safe.csv.ciphermill.json")).expect("removed");
    let rebuild = ["inspect", "safe.csv", "--rebuild", "--column", "column_2=random"];
    place.fails(1, &["--no-header"], rebuild);
    let rebuilt = json(&place.ok(rebuild.into_iter().chain(["--no-header", "--json"])));
    assert_eq!((&rebuilt["unnamed_columns"], &rebuilt["rows"]), (&3.into(), &2.into()));
    place.ok(["unprotect", "safe.csv", "back.csv"]);
    assert_eq!(std::fs::read_to_string(place.path("back.csv")).expect("a file"), table);

    place.write("p.toml", "no-header = true\n[columns.column_3]\nmethod = \"ff1\"\n");
    assert!(place.ok(["config", "--policy", "p.toml"]).contains("--no-header"));
    place.ok(["protect", "in.csv", "p.csv", "--policy", "p.toml"]);
    place.ok(["unprotect", "p.csv", "p.back.csv"]);
    assert_eq!(std::fs::read_to_string(place.path("p.back.csv")).expect("a file"), table);
    place.fails(1, &["is for CSV"], ["protect", "in.parquet", "o.parquet", "--no-header", "--column", "a=random"]);
}
