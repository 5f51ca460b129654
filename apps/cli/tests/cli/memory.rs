//! The README's promise about memory, on CSV files that are made to break it: less than 1 GiB or a clear error.

use std::io::Write;
use std::process::Command;

use crate::{Place, Ran};

/// The whole address space of the process, code and stacks included, in KiB.
const ADDRESS_SPACE_KIB: usize = 1 << 20;

/// Runs the program in an address space of 1 GiB (`setrlimit(2)`, RLIMIT_AS).
fn run_within_limit(place: &Place, args: &[&str]) -> Ran {
    let plain = place.command(args);
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" \"$@\"")]);
    limited.arg(plain.get_program()).args(plain.get_args()).current_dir(place.path(""));
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    Ran::from(limited.output().expect("runs"))
}

/// A file of a start, a piece that is repeated, and an end.
fn write(place: &Place, name: &str, start: &str, piece: &str, len: usize, end: &str) {
    let file = std::fs::File::create(place.path(name)).expect("a file");
    let mut file = std::io::BufWriter::new(file);
    let block = piece.repeat((1 << 16) / piece.len());
    file.write_all(start.as_bytes()).expect("written");
    for _ in 0..len / block.len() {
        file.write_all(block.as_bytes()).expect("written");
    }
    file.write_all(end.as_bytes()).expect("written");
    file.flush().expect("written");
}

#[test]
fn hostile_csv_files_stay_within_the_memory_that_is_promised() {
    const MIB: usize = 1 << 20;
    let place = Place::new();
    place.ok(["keys", "generate", "default"]);
    // Start, piece, length, end, column, and what is said; `None` where the file is sound.
    let cases = [
        ("a", ",", 40 * MIB, "\n", "a=random", Some("at most 65536")),
        ("\"a", "x", 40 * MIB, "\"\n1\n", "a=random", Some("a record of more than 16777216 bytes")),
        ("a,b\n1", ",", 60 * MIB, "\n", "a=random", Some("row 1: at least 3 fields")),
        ("a,b\n1,\"", "x", 60 * MIB, "\"\n", "a=random", None),
        (
            "a,b\n\"",
            "x",
            60 * MIB,
            "\",1\n",
            "a=random",
            Some("row 1, column `a`: 62914560 bytes, and at most 16777216"),
        ),
        ("a,b\n1,\"", "x", 90 * MIB, "\n", "a=random", Some("is a quotation mark not closed?")),
        ("a,b\n\"", "\"\"", 15 * MIB, "\",1\n", "a=random", None),
        ("a,b\n", "\n", 90 * MIB, "1,2\n", "a=random", None),
        ("a,b\n", "1,1\n", MIB, "", "b=random", None),
    ];
    // A long record, and tiny ones behind it.
    let long = format!("a,b\n1,\"{}\"\n", "x".repeat(33 * MIB));
    let cases = cases.into_iter().chain([(long.as_str(), "1,\n", 40 * MIB, "", "a=random", None)]);
    for (start, piece, len, end, column, said) in cases {
        write(&place, "in.csv", start, piece, len, end);
        // The promise is that of two cores.
        let args = ["protect", "in.csv", "out.csv", "--force", "--quiet", "--threads", "2", "--column", column];
        let ran = run_within_limit(&place, &args);
        let name = format!("{:?} {piece:?}", &start[..start.len().min(20)]);
        match said {
            None => assert_eq!(ran.code, Some(0), "{name}: {}", ran.err),
            Some(words) => {
                assert_eq!(ran.code, Some(1), "{name}: {}", ran.err);
                assert!(ran.err.contains(words), "{name}: {}", ran.err);
                assert!(ran.err.len() < 1000, "{name}: {}", ran.err.len());
            }
        }
    }
}

#[test]
fn hostile_csv_files_that_become_parquet_stay_within_the_memory_that_is_promised() {
    let place = Place::new();
    place.ok(["keys", "generate", "default"]);
    let names: Vec<String> = (0..100).map(|column| format!("c{column}")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{name}=random")).collect();
    let head = format!("{},note\n", names.join(","));
    // Line ends within quotation marks, and blank lines.
    write(&place, "in.csv", &head, &format!("{}\"\n\n\"\n\n", "1,".repeat(100)), 64 << 20, "");
    let mut args = vec!["protect", "in.csv", "out.parquet", "--quiet", "--threads", "2"];
    args.extend(columns.iter().flat_map(|column| ["--column", column]));
    let ran = run_within_limit(&place, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

#[test]
fn a_table_of_many_protected_columns_stays_within_the_memory_that_is_promised() {
    let place = Place::new();
    place.ok(["keys", "generate", "default"]);
    let names: Vec<String> = (0..1000).map(|column| format!("c{column}")).collect();
    let row = format!("{}\n", vec!["1"; names.len()].join(","));
    write(&place, "in.csv", &format!("{}\n", names.join(",")), &row, 2 << 20, "");
    let columns: Vec<String> = names.iter().map(|name| format!("{name}=random")).collect();
    let mut args = vec!["protect", "in.csv", "out.csv", "--quiet", "--threads", "2"];
    args.extend(columns.iter().flat_map(|column| ["--column", column]));
    let ran = run_within_limit(&place, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}
