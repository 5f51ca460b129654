//! The ladder across a process boundary. The child is this program started anew, so it has no harness but its own
//! `main`: names on the command line choose tests, as with any other test.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use ciphermill_lab::LabError;
use ciphermill_lab::ladder::{self, trials};
use ciphermill_lab::method::Options;
use ciphermill_lab::timing::Budget;
use trials::Trial;

const TESTS: &[(&str, fn())] = &[
    ("every_rung_is_right_with_batches_of_1_to_300", every_rung_is_right_with_batches_of_1_to_300),
    ("the_ring_goes_round", the_ring_goes_round),
    ("triple_des_climbs_too", triple_des_climbs_too),
    ("what_breaks_a_rule_is_refused_and_the_child_lives_on", what_breaks_a_rule_is_refused_and_the_child_lives_on),
    ("a_broken_head_ends_the_child_with_a_word", a_broken_head_ends_the_child_with_a_word),
    ("a_child_that_dies_is_an_error_soon", a_child_that_dies_is_an_error_soon),
    ("a_child_that_dies_in_the_ring_is_an_error_too", a_child_that_dies_in_the_ring_is_an_error_too),
    ("the_child_ends_with_its_ladder", the_child_ends_with_its_ladder),
    ("a_quick_run_gives_the_section", a_quick_run_gives_the_section),
];

fn main() -> ExitCode {
    if let Some(code) = ladder::serve_if_child() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen = |name: &str| names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str()));
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| chosen(name)) {
        let outcome = catch_unwind(AssertUnwindSafe(test));
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(outcome.is_err());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trial() -> Trial {
    Trial::new("des-cbc", 1024, 7).expect("the ladder stands")
}

fn every_rung_is_right_with_batches_of_1_to_300() {
    let trial = trial();
    let mut from = 0;
    for rung in trials::rungs() {
        for ops in (1..20).chain([31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 299, 300]) {
            from = (from + 37) % 700;
            trial.climb(rung, from, ops).expect("every output is the reference's");
        }
    }
}

fn the_ring_goes_round() {
    let trial = trial();
    for (windows, ops) in [(3000, 1), (1024, 1), (1025, 1), (700, 7), (90, 256)] {
        trial.turn(windows, ops).expect("every output is the reference's");
    }
    trial.climb("7", 0, 100).expect("the child listens to the socket again");
}

fn triple_des_climbs_too() {
    let trial = Trial::new("3des-cbc", 300, 3).expect("the ladder stands");
    for rung in trials::rungs() {
        trial.climb(rung, 5, 200).expect("every output is the reference's");
    }
}

fn words(result: Result<Vec<u8>, LabError>) -> String {
    result.expect_err("must be refused").to_string()
}

fn what_breaks_a_rule_is_refused_and_the_child_lives_on() {
    let trial = trial();
    let right = trial.request();
    let output = trial.send(&right).expect("it is right");
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = right.clone();
        change(&mut message);
        message
    };
    let shorter = |message: &mut Vec<u8>| {
        message.pop();
        let len = u32::try_from(message.len() - 16).expect("short");
        message[12..16].copy_from_slice(&len.to_le_bytes());
    };
    let broken = [
        (with(&shorter), "the body ends within"),
        (with(&|message| message[8] = 2), "the body ends within"),
        (with(&|message| message[6] = 9), "there is no mill 9"),
        (with(&|message| message[16] ^= 1), "key"),
        // The length of the data: behind the head and the wrapped key.
        (with(&|message| message[32] = 7), "whole blocks"),
        (with(&|message| message[35] = 0x40), "the body ends within an operation's data"),
        (with(&|message| message[5] = 5), "at byte"),
        (with(&|message| message[4] = 3), ""),
    ];
    for (message, rule) in broken {
        let words = words(trial.send(&message[..if message[4] == 3 { 16 } else { message.len() }]));
        assert!(words.contains("refuses") && words.contains(rule), "{words}");
        assert_eq!(trial.send(&right).expect("the child lives on"), output);
    }
}

fn a_broken_head_ends_the_child_with_a_word() {
    for (at, value, rule) in [(0, b'X', "begins with"), (4, 99, "kind"), (15, 0xff, "16 MiB"), (7, 1, "zero")] {
        let trial = trial();
        let mut message = trial.request();
        message[at] = value;
        let words = words(trial.send(&message[..16]));
        assert!(words.contains(&format!("at byte {}", if at == 15 { 12 } else { at })), "{words}");
        assert!(words.contains(rule), "{words}");
        let words = self::words(trial.send(&trial.request()));
        assert!(words.contains("child process"), "{words}");
    }
}

/// When the end of a child has to be known: at once, but the machine may have other things to do.
const SOON: Duration = Duration::from_secs(5);

/// Ends a process the hard way.
fn kill(process: u32) {
    let status = Command::new("kill").arg("-9").arg(process.to_string()).status().expect("kill runs");
    assert!(status.success());
}

fn a_child_that_dies_is_an_error_soon() {
    let trial = trial();
    let message = trial.request();
    // It has begun to read a message, and waits for the rest.
    trial.tell(&message[..20]).expect("the child reads");
    kill(trial.child());
    let start = Instant::now();
    let words = words(trial.send(&message[20..]));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(words.contains(&trial.child().to_string()) && words.contains("ended"), "{words}");
}

fn a_child_that_dies_in_the_ring_is_an_error_too() {
    let trial = trial();
    trial.start_ring().expect("it turns");
    kill(trial.child());
    let start = Instant::now();
    let words = trial.turn(8, 1).expect_err("nobody answers").to_string();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(words.contains(&trial.child().to_string()) && words.contains("ended"), "{words}");
}

fn the_child_ends_with_its_ladder() {
    let trial = trial();
    let process = format!("/proc/{}", trial.child());
    assert!(std::path::Path::new(&process).exists());
    drop(trial);
    assert!(!std::path::Path::new(&process).exists());
}

fn a_quick_run_gives_the_section() {
    let budget = Budget { rounds_max: 2, ..Budget::default() };
    let options = Options { quick: true, seed: 1, budget, ..Options::default() };
    let mut heard = 0;
    let mut progress = |_: &str| {
        heard += 1;
        Ok(())
    };
    let section = ladder::run(&options, &mut progress).expect("measures");
    assert!(heard > 5);
    assert_eq!((section.plots.len(), section.tables.len()), (2, 2));
    assert_eq!(section.plots[0].series.len(), trials::rungs().len() + 1, "a line a rung, and the paper's");
    for plot in &section.plots {
        for series in &plot.series {
            assert!(!series.points.is_empty(), "{}", series.name);
            assert!(series.points.iter().flatten().all(|value| value.is_finite() && *value > 0.0), "{}", series.name);
            assert!(series.name.contains("paper") || series.points.is_sorted_by(|a, b| a[0] < b[0]), "{}", series.name);
        }
    }
    for table in &section.tables {
        assert_eq!(table.rows.len(), trials::rungs().len());
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
    let mut names: Vec<&str> = section.measurements.iter().map(|measurement| measurement.name.as_str()).collect();
    assert!(
        names.contains(&"des-cbc/rung-2b/64")
            && names.contains(&"des-cbc/rung-10/c1")
            && names.contains(&"des-cbc/bulk")
    );
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "names are unique");
    assert!(section.conclusions.len() > trials::rungs().len(), "{:?}", section.conclusions);
    let mut interrupted = |_: &str| Err(LabError::Interrupted);
    assert!(matches!(ladder::run(&options, &mut interrupted), Err(LabError::Interrupted)));
    let other = Options { suites: vec!["aes-128-cbc".parse().expect("a suite")], ..options };
    let section = ladder::run(&other, &mut |_| Ok(())).expect("says what it lacks");
    assert_eq!((section.missing.len(), section.plots.len()), (1, 0));
}
