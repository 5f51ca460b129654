//! `lab ladder`, through services that are processes of their own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ciphermill_lab::LabError;
use ciphermill_lab::ladder::{self, trials};
use ciphermill_lab::method::Options;
use ciphermill_lab::timing::Budget;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use trials::Trial;

use crate::{Place, json};

/// When the end of a service has to be known: at once, but the machine may have other things to do.
const SOON: Duration = Duration::from_secs(5);

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_ciphermill"))
}

fn trial() -> Trial {
    Trial::new(&program(), "des-cbc", 1024, 7).expect("the ladder stands")
}

#[test]
fn every_rung_is_right_with_batches_of_1_to_300() {
    let trial = trial();
    let mut from = 0;
    for rung in trials::rungs() {
        for ops in (1..20).chain([31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 299, 300]) {
            from = (from + 37) % 700;
            trial.climb(rung, from, ops, 1).expect("every output is the reference's");
        }
    }
}

#[test]
fn batches_follow_each_other_and_places_are_used_again() {
    let trial = trial();
    for (windows, ops) in [(1000, 1), (17, 1), (100, 64), (100, 65), (90, 256)] {
        for rung in ["4", "10", "2b"] {
            trial.climb(rung, 0, ops, windows).expect("every output is the reference's");
        }
    }
}

#[test]
fn triple_des_climbs_too() {
    let trial = Trial::new(&program(), "3des-cbc", 300, 3).expect("the ladder stands");
    for rung in trials::rungs() {
        trial.climb(rung, 5, 200, 2).expect("every output is the reference's");
    }
}

#[test]
fn a_service_that_dies_is_an_error_soon() {
    // By its queue, over one channel, and with many batches on their way.
    for (rung, service) in [("4", 0), ("1", 0), ("10", 2)] {
        let trial = trial();
        trial.climb(rung, 0, 8, 20).expect("it lives");
        let id = trial.services()[service];
        kill(Pid::from_raw(id as i32), Signal::SIGKILL).expect("it runs");
        let begun = Instant::now();
        let words = trial.climb(rung, 0, 8, 20).expect_err("nobody answers").to_string();
        assert!(begun.elapsed() < SOON, "rung {rung}: {:?}", begun.elapsed());
        assert!(words.contains(&id.to_string()) && words.contains("has ended (signal: 9"), "{words}");
    }
}

#[test]
fn services_end_with_their_ladder() {
    let trial = trial();
    let processes: Vec<String> = trial.services().iter().map(|id| format!("/proc/{id}")).collect();
    assert_eq!(processes.iter().filter(|process| Path::new(process).exists()).count(), 3);
    drop(trial);
    assert!(!processes.iter().any(|process| Path::new(process).exists()));
}

#[test]
fn a_quick_run_gives_the_section() {
    let budget = Budget { rounds_max: 2, ..Budget::default() };
    let options = Options { quick: true, seed: 1, budget, program: Some(program()), ..Options::default() };
    let mut heard = 0;
    let mut progress = |_: &str| {
        heard += 1;
        Ok(())
    };
    let section = ladder::run(&options, &mut progress).expect("measures");
    assert!(heard > 5);
    assert_eq!((section.plots.len(), section.tables.len()), (2, 3));
    assert_eq!(section.plots[0].series.len(), trials::rungs().len() + 1, "a line a rung, and the paper's");
    for plot in &section.plots {
        for series in &plot.series {
            assert!(!series.points.is_empty(), "{}", series.name);
            assert!(series.points.iter().flatten().all(|value| value.is_finite() && *value > 0.0), "{}", series.name);
            assert!(series.name.contains("paper") || series.points.is_sorted_by(|a, b| a[0] < b[0]), "{}", series.name);
        }
    }
    let rows: Vec<usize> = section.tables.iter().map(|table| table.rows.len()).collect();
    assert_eq!(rows, [trials::rungs().len(), trials::rungs().len(), 9], "the paper's experiments last");
    for table in &section.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
    // Which engines have worked is what the services say.
    let note = &section.tables[0].note;
    assert!(note.contains("library 100.0 % (AWS-LC"), "{note}");
    assert!(note.contains("lanes ") && note.contains("run on any core"), "{note}");
    let mut names: Vec<&str> = section.measurements.iter().map(|measurement| measurement.name.as_str()).collect();
    for name in ["des-cbc/rung-2b/64", "des-cbc/rung-10/c1", "des-cbc/bulk"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "names are unique");
    assert!(section.conclusions.len() > trials::rungs().len(), "{:?}", section.conclusions);
}

#[test]
fn what_cannot_be_climbed_is_said() {
    let options = Options { quick: true, program: Some(program()), ..Options::default() };
    let mut interrupted = |_: &str| Err(LabError::Interrupted);
    assert!(matches!(ladder::run(&options, &mut interrupted), Err(LabError::Interrupted)));
    let other = Options { suites: vec!["aes-128-cbc".parse().expect("a suite")], ..options.clone() };
    let section = ladder::run(&other, &mut |_| Ok(())).expect("says what it lacks");
    assert_eq!((section.missing.len(), section.plots.len(), section.tables.len()), (1, 0, 0));
    let nobody = ladder::run(&Options { program: None, ..options.clone() }, &mut |_| Ok(()));
    assert!(matches!(nobody, Err(LabError::Unavailable { .. })), "{nobody:?}");
    let false_one = Options { program: Some("false".into()), ..options };
    let words = ladder::run(&false_one, &mut |_| Ok(())).expect_err("it does not serve").to_string();
    assert!(words.contains("has ended (exit status: 1)"), "{words}");
}

#[test]
fn the_command_starts_the_service_beside_it() {
    let place = Place::new();
    let ladder = ["lab", "ladder", "--quick", "--core", "0", "--engine", "openssl"];
    // An engine that was asked for is measured, or said to be of no use here.
    let refused = place.fails(1, &["none of openssl runs des-cbc in a service"], ladder);
    assert!(!refused.err.contains("process"), "{}", refused.err);
    let record = json(&place.ok(ladder.into_iter().chain(["--engine", "reference", "--json", "-"])));
    let section = &record["sections"][0];
    let note = section["tables"][0]["note"].as_str().expect("a text");
    assert!(note.contains("run on core") && note.contains("reference 100.0 %"), "{note}");
    let missing = section["missing"].as_array().expect("a list").iter();
    let missing: Vec<&str> = missing.map(|one| one["what"].as_str().expect("a text")).collect();
    assert_eq!(missing, ["openssl", "a witness on rung 8"]);
}
