//! Tokens of SoftHSM keep the contract and agree with the reference, for every suite that they claim. In a process of its own, since a
//! module reads its configuration once and keeps it.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use ciphermill_conformance::{Options, acceptance, check_suite, differential};
use ciphermill_contract::Engine;
use ciphermill_reference::Reference;

use support::{alone, open};

/// Random batches: several for every suite.
const BATCHES: usize = 200;

#[test]
fn keeps_the_contract() {
    alone("keeps_the_contract", |store| {
        store.token("one");
        let engine = open("one", "one", true);
        // One suite or family by name, when looking for a fault.
        let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
        let options = Options { symmetric_cases_max: 100, public_cases_max: 30, ..Options::default() };
        let mut count = 0;
        for suite in engine.capabilities().iter().flat_map(|one| one.suites) {
            if only.is_empty() || suite.to_string() == only || suite.family() == only {
                check_suite(&engine, Some(&Reference::new()), *suite, &options).assert_clean();
                count += 1;
            }
        }
        assert!(count > 0, "no suite is called {only}");
    });
}

#[test]
fn agrees_with_the_reference_on_random_batches() {
    alone("agrees_with_the_reference_on_random_batches", |store| {
        store.token("one");
        let engine = open("one", "one", true);
        differential(&engine, &Reference::new(), 0x0dd5_eed5, BATCHES).assert_clean();
    });
}

#[test]
fn accepts_what_the_reference_accepts() {
    alone("accepts_what_the_reference_accepts", |store| {
        store.token("one");
        let engine = open("one", "one", true);
        // Every suite, whichever was asked for: they are counted below.
        let options = Options { mutations_max: 60, only: String::new(), ..Options::from_environment() };
        let report = acceptance(&[&Reference::new(), &engine], &options);
        assert!(report.suites >= 60 && report.ops > 1000, "{} suites, {} operations", report.suites, report.ops);
        report.assert_clean();
    });
}
