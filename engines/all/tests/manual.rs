//! The manual counts suites as the engines list them.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::{Engine, Suite};

/// The sum of a column of the table of suites in docs/engines.md, counted from zero. A cell begins with its number, or is
/// empty but for a dash.
fn column(index: usize) -> usize {
    let text = include_str!("../../../docs/engines.md");
    let table = text.split("\n## Suites\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = rows.map(|row| row.split('|').nth(index + 1).expect("a cell").split_whitespace().next());
    let numbers: Vec<usize> = cells.filter_map(|cell| cell?.parse().ok()).collect();
    assert!(numbers.len() > 10, "the table was not found");
    numbers.iter().sum()
}

fn suites(engine: &dyn Engine) -> Vec<Suite> {
    let mut suites: Vec<Suite> = engine.capabilities().iter().flat_map(|one| one.suites.iter().copied()).collect();
    suites.sort_by_key(|suite| suite.ordinal());
    suites.dedup();
    suites
}

#[test]
fn the_manual_counts_what_engines_list() {
    for (name, index) in [("lanes", 1), ("library", 2), ("reference", 3)] {
        let engine = ciphermill_engines::open(name).expect("an engine of every machine").expect("opens");
        let suites = suites(engine.as_ref());
        let needs_aes = name == "lanes" && !suites.contains(&"aes-128-gcm".parse().expect("a suite"));
        // The manual counts what lanes run on a processor with AES instructions.
        assert!(needs_aes || suites.len() == column(index), "{name} runs {} suites", suites.len());
    }
}
