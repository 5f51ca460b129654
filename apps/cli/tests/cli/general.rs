//! Help, completions, manual, engines, self-test, configuration.

use std::process::Stdio;

use crate::{Place, Ran, json};

#[test]
fn help_teaches_by_example() {
    let place = Place::new();
    assert!(place.ok(["--help"]).contains("Examples:"));
    let lab = ["lab all", "lab short", "lab show", "lab compare", "lab readme"];
    let commands = [
        "protect",
        "unprotect",
        "keys generate",
        "openssl install",
        "tune",
        "explain",
        "disable",
        "enable",
        "completions",
    ];
    for command in commands.into_iter().chain(lab) {
        let args = command.split(' ').chain(["--help"]);
        assert!(place.ok(args).contains("Examples:"), "{command}");
    }
    assert!(place.ok(["--version"]).starts_with("ciphermill 0."));
}

#[test]
fn wrong_usage_exits_with_two_and_says_what_is_right() {
    let place = Place::new();
    place.fails(2, &["unrecognized subcommand 'protekt'", "protect"], ["protekt"]);
    place.fails(2, &["aes128-cbc", "did you mean `aes-128-cbc`?"], ["lab", "short", "--suite", "aes128-cbc"]);
    place.fails(2, &["ends before it begins"], ["lab", "short", "--len", "80..8"]);
    place.fails(2, &["--column"], ["protect", "a.csv", "b.csv"]);
}

#[test]
fn completions_and_manual_pages_are_written() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.ok(["completions", shell]).contains("unprotect"), "{shell}");
    }
    assert!(place.ok(["man"]).contains(".TH ciphermill"));
    place.ok(["man", "--out", "pages"]);
    assert!(place.has("pages/ciphermill.1"));
    assert!(place.has("pages/ciphermill-protect.1"));
    assert!(place.has("pages/ciphermill-lab-short.1") && place.has("pages/ciphermill-lab-all.1"));
}

#[test]
fn engines_are_listed_with_what_they_run() {
    let place = Place::new();
    let listing = json(&place.ok(["engines", "--json"]));
    let engines = listing["engines"].as_array().expect("a list");
    let names: Vec<_> = engines.iter().map(|engine| engine["name"].as_str().expect("a name")).collect();
    // Devices come behind those that every machine has.
    assert_eq!(names[..3], ["lanes", "library", "reference"]);
    let missing = listing["unavailable"].as_array().expect("a list");
    assert_eq!(missing.iter().any(|one| one["name"] == "gpu"), !names.contains(&"gpu"), "there or said to be missing");
    for engine in &engines[..3] {
        let suites = engine["suites"].as_array().expect("a list");
        let common = suites.iter().find(|suite| suite["suite"] == "chacha20").expect("every engine runs it");
        assert_eq!(common["directions"], serde_json::json!(["encrypt", "decrypt"]));
        assert_eq!((common["legacy"].as_bool(), common["self_test"].as_str()), (Some(false), Some("untested")));
        assert!(!engine["version"].as_str().expect("a version").is_empty());
    }
    place.fails(
        1,
        &["no engine is called `abacus`", "lanes, library, reference, gpu"],
        ["selftest", "--engine", "abacus"],
    );
    place.fails(1, &["abacus"], ["selftest", "--engine", "gpu:abacus"]);
    let table = place.ok(["engines", "--suites"]);
    assert!(table.contains("reference") && table.contains("seal-3.0"));
}

#[test]
fn every_known_answer_is_given() {
    let place = Place::new();
    let tests = json(&place.ok(["selftest", "--json"]));
    let tests = tests.as_array().expect("a list");
    assert!(tests.len() > 300, "{} tests", tests.len());
    let without: Vec<_> = tests.iter().filter(|test| test["result"] != "passed").collect();
    assert!(without.iter().all(|test| test["suite"] == "random" && test["result"] == "no-answer"), "{without:?}");
    assert!(place.ok(["selftest", "--engine", "library"]).contains("0 failed"));
    place.fails(1, &["no engine is called `abacus`", "library, reference"], ["selftest", "--engine", "abacus"]);
}

#[test]
fn configuration_is_found_shown_and_checked() {
    let place = Place::new();
    let defaults = place.ok(["config"]);
    assert!(defaults.contains("legacy = false") && defaults.contains("witness_every = 4096"));
    place.write("ciphermill.toml", "[policy]\nlegacy = true\nengines = [\"reference\"]\n");
    let shown = place.ok(["config"]);
    assert!(shown.contains("legacy = true") && shown.contains("engines = [\"reference\"]"), "{shown}");
    place.write("ciphermill.toml", "[policy]\nlegaci = true\n");
    place.fails(1, &["ciphermill.toml", "legaci"], ["config"]);
    place.fails(1, &["cannot read", "nowhere.toml"], ["config", "--config", "nowhere.toml"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let mut child =
        place.command(["engines", "--suites"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_log_filter_that_cannot_be_read_is_said() {
    let place = Place::new();
    let said = |filter: &str| {
        let ran = Ran::from(place.command(["engines"]).env("RUST_LOG", filter).output().expect("runs"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.err
    };
    assert!(said("lanes=no-such-level").contains("RUST_LOG is left out of account"));
    assert!(!said("lanes=debug").contains("left out of account"));
}
