//! The header is what the sources say, and every entry keeps the rules of the house.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The order in which the header has them.
const SOURCES: [&str; 16] = [
    "version",
    "failure",
    "errors",
    "suite",
    "mill",
    "keys",
    "keystore",
    "ops",
    "run",
    "columns",
    "message",
    "bound",
    "multi_part",
    "single",
    "session",
    "digest",
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources() -> Vec<(PathBuf, String)> {
    let paths = SOURCES.iter().map(|name| here(&format!("src/{name}.rs")));
    paths.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn generated() -> String {
    let mut builder = cbindgen::Builder::new().with_config(cbindgen::Config::from_file(here("cbindgen.toml")).unwrap());
    for (path, _) in sources() {
        builder = builder.with_src(path);
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    let header = String::from_utf8(header).unwrap();
    // Sections of Rust's comments; how to write safe Rust around a function is nothing to C.
    let mut text = String::new();
    let mut lines = header.lines().peekable();
    while let Some(line) = lines.next() {
        if line == " * # Safety" {
            while lines.peek().is_some_and(|next| *next != " */" && !next.starts_with(" * #")) {
                lines.next();
            }
            continue;
        }
        text.push_str(&line.trim_end().replace(" * # Errors", " * Errors:").replace(" * # Threads", " * Threads:"));
        text.push('\n');
    }
    text.replace(" *\n */", " */")
}

#[test]
fn every_source_with_a_function_for_c_is_in_the_list() {
    for file in std::fs::read_dir(here("src")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let has_functions = std::fs::read_to_string(&path).unwrap().contains("no_mangle");
        assert!(!has_functions || SOURCES.contains(&name.as_str()), "{name} is missing");
    }
}

#[test]
fn the_committed_header_is_current() {
    let (path, header) = (here("include/ciphermill.h"), generated());
    if std::env::var_os("HEADER").is_some_and(|wish| wish == "update") {
        std::fs::write(&path, &header).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == header,
        "include/ciphermill.h is not what the sources say: run `HEADER=update cargo test -p ciphermill-c --test header`"
    );
}

/// The functions of a source, each with its comment and its body.
fn functions(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("#[unsafe(no_mangle)]") {
        let comment: Vec<&str> = text[..at].lines().rev().take_while(|line| line.starts_with("///")).collect();
        let rest = &text[at..];
        let name = rest.split("extern \"C\" fn ").nth(1).unwrap().split('(').next().unwrap();
        let body = &rest[..rest.find("\n}\n").unwrap()];
        found.push((name.to_owned(), comment.join("\n"), body.to_owned()));
    }
    found
}

#[test]
fn every_function_catches_panics_and_says_what_callers_have_to_know() {
    // Constants, and what looks at nothing but a thread's own memory.
    let cannot_fail =
        ["ciphermill_abi_version", "ciphermill_version", "ciphermill_status_text", "ciphermill_last_error"];
    let mut count = 0;
    for (path, text) in sources() {
        for (name, comment, body) in functions(&text) {
            count += 1;
            let path = path.display();
            assert!(name.starts_with("ciphermill_"), "{path}: {name}");
            assert!(comment.contains("# Threads"), "{path}: {name} does not say which threads");
            if cannot_fail.contains(&name.as_str()) {
                continue;
            }
            assert!(comment.contains("# Errors"), "{path}: {name} does not say its errors");
            let (_, body) = body.split_once("-> ciphermill_status {\n").expect("a status is returned");
            let first = body.lines().map(str::trim).find(|line| !line.starts_with("//")).unwrap();
            assert!(first.starts_with("entry(|| "), "{path}: {name} does not go through `entry`");
        }
    }
    assert!(count > 30, "{count} functions were found");
}

#[test]
fn names_are_unique_and_all_in_the_header() {
    let header = generated();
    let mut names = BTreeSet::new();
    for (_, text) in sources() {
        for (name, ..) in functions(&text) {
            assert!(header.contains(&format!("{name}(")), "{name}");
            assert!(names.insert(name));
        }
    }
    assert!(!header.contains("(*"), "no function pointers");
    assert!(!header.contains("inline"), "no inline functions");
}
