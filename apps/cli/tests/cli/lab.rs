//! `lab`: records, names, verification, what cannot be measured, and files that cannot be written or read.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use ciphermill_lab::method::METHODS;
use ciphermill_report::Record;

use crate::{Place, Ran, json};

const QUICK: [&str; 6] = ["--ops", "200", "--keys", "5", "--time", "1"];

/// The fastest methods, made short.
const BOTH: [&str; 13] = [
    "lab",
    "all",
    "--method",
    "short",
    "--method",
    "principles",
    "--quick",
    "--time",
    "1",
    "--suite",
    "aes-128-cbc",
    "--engine",
    "library",
];

fn record(text: &str) -> Record {
    Record::read(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn short<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    ["lab", "short"].into_iter().chain(QUICK).chain(extra.iter().copied()).collect()
}

#[test]
fn a_record_has_the_documented_form() {
    let place = Place::new();
    let suites = ["--suite", "aes-128-cbc", "--suite", "hmac-sha1", "--suite", "aes-128-cbc+hmac-sha1"];
    let engines =
        ["--engine", "library", "--engine", "reference", "--engine", "openssl", "--engine", "openssl-context"];
    let record = record(&place.ok(short(&[&suites[..], &engines, &["--quick", "--json", "-"]].concat())));
    let [section] = &record.sections[..] else { panic!("{record:?}") };
    assert_eq!((section.method.as_str(), section.missing.len()), ("short", 0));
    // Each has its time, and all but the fastest a ratio to that one.
    assert_eq!((section.measurements.len(), section.tables[0].rows.len()), (3 * 2 * (4 + 3), 3 * 2 * 4));
    for measurement in &section.measurements {
        let unit = if measurement.interval.is_some() { "×" } else { "ns/op" };
        assert!(measurement.value > 0.0 && measurement.unit == unit, "{measurement:?}");
    }
    assert!(section.measurements.iter().any(|one| one.name == "aes-128-cbc+hmac-sha1/decrypt/openssl-context"));
    assert_eq!(section.conclusions.len(), 6);
    assert!(record.command.starts_with("ciphermill lab short --ops 200") && record.command.ends_with("--quick"));
    assert!(record.environment.timer_cost_ns > 0.0 && record.environment.ghz.is_some());
    let warned = |words: &str| record.environment.warnings.iter().any(|warning| warning.contains(words));
    assert!(warned("quick run"));
    assert_eq!(warned("without optimisation"), cfg!(debug_assertions));
}

#[test]
fn what_is_not_measured_is_said() {
    let place = Place::new();
    let args = short(&["--suite", "seal-3.0", "--engine", "reference", "--engine", "library"]);
    let said = place.ok(args);
    assert!(said.contains("seal-3.0 encrypt on library: the engine does not run this suite"), "{said}");
    assert!(said.contains("DO NOT QUOTE"), "{said}");
    place.fails(1, &["no engine is called `abacus`", "openssl-context"], short(&["--engine", "abacus"]));
    place.fails(1, &["has no kernel `vaes512`"], short(&["--engine", "reference", "--kernel", "vaes512"]));
    place.fails(1, &["not a short symmetric operation"], short(&["--suite", "rsa-2048-sign-pss-sha256"]));
    place.fails(1, &["--keys"], ["lab", "short", "--keys", "0"]);
    place.fails(1, &["--core 4000"], short(&["--core", "4000"]));
}

#[test]
fn every_symmetric_suite_can_be_measured() {
    let place = Place::new();
    let suites = json(&place.ok(["engines", "--json"]));
    let reference = &suites["engines"][2];
    assert_eq!(reference["name"], "reference");
    let public = ["rsa-", "ec", "dh-", "x25519", "x448", "ed25519", "ml-", "generate-", "random"];
    let names: Vec<&str> = reference["suites"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|suite| suite["suite"].as_str())
        .filter(|name| !public.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    let mut args = vec!["lab", "short", "--ops", "20", "--keys", "3", "--time", "1", "--json", "-"];
    for engine in ["reference", "library", "openssl", "openssl-context", "ipsec-mb"] {
        args.extend(["--engine", engine]);
    }
    for name in &names {
        args.extend(["--suite", name]);
    }
    let record = record(&place.ok(args));
    for name in names {
        let row = format!("{name}/encrypt/reference");
        assert!(record.sections[0].measurements.iter().any(|measurement| measurement.name == row), "{name}");
    }
}

#[test]
fn principles_are_printed_beside_the_papers_figures() {
    let place = Place::new();
    let quick = ["lab", "principles", "--time", "1", "--len", "64"];
    let said = place.ok([&quick[..], &["--algorithm", "rc4", "--algorithm", "blowfish"]].concat());
    for words in ["Table 1", "Table 2", "219.06", "545.2", "M2: 2", "cycles/B", "on the IXP1200"] {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    let widest = said.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(120), "{widest:?}: {said}");

    let record = record(&place.ok([&quick[..], &["--algorithm", "md5", "--core", "0", "--json"]].concat()));
    let section = &record.sections[0];
    assert_eq!(section.measurements.len(), 2 * 7);
    assert!(section.measurements.iter().all(|measurement| measurement.value > 0.0));
    assert_eq!((section.tables[0].rows.len(), section.tables[1].rows.len()), (1, 7));
    assert!(section.missing[0].what.contains("core 0"), "{:?}", section.missing);
    place.fails(
        1,
        &["`abacus`", "blowfish, khufu, khafre, rc4, seal, md5"],
        [&quick[..], &["--algorithm", "abacus"]].concat(),
    );
    place.fails(
        1,
        &["khufu takes no messages of 12 bytes", "multiple of 8"],
        ["lab", "principles", "--len", "12", "--algorithm", "khufu"],
    );
}

#[test]
fn the_routers_promises_are_measured_one_by_one() {
    let place = Place::new();
    let record = json(&place.ok(["lab", "router", "decide", "tasks", "--time", "1", "--json", "-"]));
    let figures = record["sections"][0]["measurements"].as_array().expect("figures");
    let values = |name: &str| {
        let of = |figure: &&serde_json::Value| figure["name"].as_str().is_some_and(|own| own.contains(name));
        figures.iter().filter(of).map(|figure| figure["value"].as_f64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!((values("decide").len(), values("64-tasks").len()), (1, 2));
    assert!(figures.iter().all(|figure| figure["value"].as_f64().is_some_and(|value| value > 0.0)));
    let table = place.ok(["lab", "router", "decide", "--time", "1"]);
    assert!(table.contains("three engines"), "{table}");
    place.fails(1, &["`decisions`", "decide, engine, cores"], ["lab", "router", "decisions"]);
}

#[test]
fn every_method_teaches_by_example() {
    let place = Place::new();
    let overview = place.ok(["lab", "--help"]);
    for method in METHODS {
        assert!(overview.contains(method.name), "{} is missing in: {overview}", method.name);
        let help = place.ok(["lab", method.name, "--help"]);
        let all = ["Examples:", "--seed", "--json", "--html", "--save", "--quick", "--core", "--time"];
        // What is simulated is not timed.
        let words = if method.name == "simulate" { &all[..5] } else { &all[..] };
        for words in words {
            assert!(help.contains(words), "{}: `{words}` is missing in: {help}", method.name);
        }
    }
}

#[test]
fn all_methods_make_one_record_that_is_shown_kept_and_compared() {
    let place = Place::new();
    let said = place.ok([&BOTH[..], &["--json", "a.json", "--html", "a.html", "--save", "kept"]].concat());
    assert!(said.contains("short · Short operations") && said.contains("principles · A network processor"), "{said}");
    let text = std::fs::read_to_string(place.path("a.json")).expect("the record");
    let made = record(&text);
    let methods: Vec<_> = made.sections.iter().map(|section| section.method.as_str()).collect();
    assert_eq!(methods, ["short", "principles"]);
    let missing: Vec<_> = made.sections[1].missing.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(missing, ["library", "aes-128-cbc"], "what a method does not measure is said");

    let report = std::fs::read_to_string(place.path("a.html")).expect("the report");
    assert!(report.starts_with("<!DOCTYPE html>") && report.contains("A network processor"));
    let machines = std::fs::read_dir(place.path("kept")).expect("a folder").collect::<Vec<_>>();
    let [Ok(machine)] = &machines[..] else { panic!("{machines:?}") };
    let kept = machine.path().join(format!("{}.json", &made.made[..10]));
    assert_eq!(std::fs::read_to_string(&kept).expect("kept"), text);

    let shown = place.ok(["lab", "show", "a.json"]);
    assert!(shown.contains("short · Short operations") && shown.contains(&made.machine.cpu), "{shown}");
    let shown = place.ok(["lab", "show", "a.json", "--html", "-"]);
    assert_eq!(shown.trim_end(), report.trim_end());

    let same = place.ok(["lab", "compare", "a.json", "a.json", "--html", "b.html"]);
    assert!(same.contains("none changed beyond the noise"), "{same}");
    assert!(place.has("b.html"));
    let changed = text.replacen("\"value\": ", "\"value\": 999999", 1);
    assert_ne!(changed, text);
    place.write("b.json", changed);
    let compared = record(&place.ok(["lab", "compare", "a.json", "b.json", "--json"]));
    assert!(compared.sections[0].conclusions.iter().any(|said| said.contains("1 worse")), "{compared:?}");
}

#[test]
fn a_failing_method_is_said_and_the_others_are_kept() {
    let place = Place::new();
    let ran = place.fails(
        1,
        &["short: no engine is called `abacus`"],
        [&BOTH[..], &["--engine", "abacus", "--json", "-"]].concat(),
    );
    let record = record(&ran.out);
    let [short, principles] = &record.sections[..] else { panic!("{record:?}") };
    assert!(short.measurements.is_empty() && short.missing[0].why.contains("`abacus`"), "{short:?}");
    assert_eq!(principles.measurements.len(), 2 * (6 * 6 + 2));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let place = Place::new();
    let args = [&BOTH[..], &["--json", "a.json"]].concat();
    let mut child = place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.starts_with("short · ") {
        line.clear();
        assert!(out.read_line(&mut line).expect("reads") > 0, "ended before anything was measured");
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("sent");
    assert!(sent.success());
    // The rest has to be read, or the program waits for a reader.
    std::io::copy(&mut out, &mut std::io::sink()).expect("reads");
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(ran.err.contains("interrupted; what was measured until then is written"), "{}", ran.err);
    let record = record(&std::fs::read_to_string(place.path("a.json")).expect("the record"));
    assert!(!record.sections[0].measurements.is_empty());
    assert_eq!(record.sections[1].missing[0].why, "interrupted");
    assert_eq!(place.names(), ["a.json"], "nothing else is left behind");
}

#[test]
fn files_that_cannot_be_written_are_named_before_anything_is_measured() {
    let place = Place::new();
    place.write("file", "");
    std::fs::create_dir(place.path("folder")).expect("a folder");
    // An hour of measuring that never begins.
    let hour = ["lab", "short", "--time", "3600000"];
    let refused = |words: &[&str], more: &[&str]| place.fails(1, words, [&hour[..], more].concat());
    refused(&["cannot write no/a.json", "there is no folder no"], &["--json", "no/a.json"]);
    refused(&["cannot write folder", "it is a folder"], &["--html", "folder"]);
    refused(&["cannot write file/a.html"], &["--html", "file/a.html"]);
    refused(&["cannot make the folder file"], &["--save", "file"]);
    refused(&["cannot both go to standard output"], &["--json", "-", "--html", "-"]);
    place.fails(
        1,
        &["cannot write /dev/full", "No space left"],
        short(&["--engine", "library", "--json", "/dev/full"]),
    );
    place.fails(2, &["there are", "short, principles"], ["lab", "all", "--method", "shirt"]);
    place.fails(2, &["--time"], ["lab", "short", "--time", "soon"]);
}

#[test]
fn records_that_cannot_be_read_say_what_is_wrong() {
    let place = Place::new();
    place.ok(short(&["--suite", "aes-128-cbc", "--engine", "library", "--json", "a.json"]));
    let text = std::fs::read_to_string(place.path("a.json")).expect("the record");
    let broken = |words: &[&str], text: &str| {
        place.write("b.json", text);
        place.fails(1, &[words, &["b.json"]].concat(), ["lab", "show", "b.json"]);
        place.fails(1, &[words, &["b.json"]].concat(), ["lab", "compare", "a.json", "b.json"]);
    };
    broken(&["line 1"], "{");
    broken(&["line", "EOF"], &text[..text.len() / 2]);
    broken(&["unknown field `gpu`"], &text.replacen("\"cpu\"", "\"gpu\"", 1));
    broken(&["format 99"], &text.replacen("\"format\": 2", "\"format\": 99", 1));
    place.fails(1, &["cannot read nowhere.json"], ["lab", "show", "nowhere.json"]);
}

#[test]
fn documents_get_what_may_be_quoted_of_a_record() {
    let place = Place::new();
    place.ok(short(&["--suite", "aes-128-cbc", "--engine", "library", "--engine", "reference", "--json", "a.json"]));
    let document = "# A\n<!-- performance: begin -->\nstale text\n<!-- performance: end -->\n## B\n";
    place.write("docs.md", document);
    place.write("README.md", document.replace("performance", "ratios"));
    let files = ["--file", "docs.md", "--file", "README.md"];
    let readme = |more: &[&'static str]| [&["lab", "readme", "a.json"], &files[..], more].concat();
    place.fails(1, &["not what a.json makes: docs.md, README.md"], readme(&["--check"]));
    place.ok(readme(&[]));
    place.ok(readme(&["--check"]));
    for (file, words) in [("docs.md", "\n## `short`"), ("README.md", "The record holds no ratio")] {
        let text = std::fs::read_to_string(place.path(file)).expect("reads");
        assert!(text.starts_with("# A\n") && text.ends_with("## B\n") && !text.contains("stale"), "{text}");
        assert!(text.contains(words), "{text}");
    }
    place.write("other.md", "# A\n");
    place.fails(1, &["other.md", "performance: begin"], ["lab", "readme", "a.json", "--file", "other.md"]);
    place.fails(1, &["docs/performance.md"], ["lab", "readme", "a.json"]);
}

#[test]
fn a_service_elsewhere_is_simulated_and_mistakes_are_named() {
    let place = Place::new();
    let simulate = |extra: &[&'static str]| -> Vec<&'static str> {
        let usual =
            ["lab", "simulate", "--seconds", "0.2", "--mix", "sha256/64:1,ecdsa-p256@hsm:1", "--devices", "hsm:2"];
        usual.into_iter().chain(extra.iter().copied()).collect()
    };
    let once = simulate(&["--arrivals", "poisson:2000", "--cores", "4", "--nodes", "2", "--json"]);
    let first = record(&place.ok(once.clone()));
    let named = |name: &str| first.sections[0].measurements.iter().find(|one| one.name == name).map(|one| one.value);
    let rate = named("rate/all").expect("a rate");
    assert!((rate / 2000.0 - 1.0).abs() < 0.2 && named("busy/hsm-2").is_some(), "{rate}");
    assert_eq!(first.sections, record(&place.ok(once)).sections, "the same seed has the same outcome");
    for sweep in ["load", "cores"] {
        let swept = record(&place.ok(simulate(&["--arrivals", "poisson:1500", "--sweep", sweep, "--json"])));
        assert!(!swept.sections[0].plots.is_empty() && !swept.sections[0].tables[0].rows.is_empty());
    }
    place.write("trace.csv", "time_us,client,suite,direction,ops,bytes\n60000,0,sha256,encrypt,2,128\n");
    place.write("scenario.toml", "seconds = 0.1\n[[clients]]\narrivals = \"trace.csv\"\n");
    let traced = record(&place.ok(["lab", "simulate", "--scenario", "scenario.toml", "--json"]));
    assert!(traced.sections[0].measurements.iter().any(|one| one.name == "rate/sha256/64*2" && one.value > 0.0));
    place.fails(1, &["cores: 257", "1 to 256"], simulate(&["--cores", "257"]));
    place.fails(1, &["--knee 1"], simulate(&["--sweep", "load", "--knee", "1"]));
    place.fails(1, &["at a rate"], simulate(&["--arrivals", "closed", "--sweep", "cores"]));
    place.fails(1, &["poisson:RATE"], simulate(&["--arrivals", "often"]));
    place.fails(1, &["--costs none.json"], simulate(&["--costs", "none.json"]));
    place.fails(1, &["none.csv"], simulate(&["--arrivals", "none.csv"]));
    place.write("wrong.toml", "core = 1\n");
    place.fails(1, &["wrong.toml", "core"], ["lab", "simulate", "--scenario", "wrong.toml"]);
    place.fails(2, &["--scenario"], simulate(&["--scenario", "scenario.toml"]));
}
