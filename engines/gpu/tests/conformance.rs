//! Every suite that the engine claims keeps the contract and agrees with the reference, on the kernels that a GPU runs,
//! here run by the processor through PoCL.
//!
//! `CONFORMANCE_ONLY` names one suite or family when looking for a fault.

mod common;

use ciphermill_conformance::{Options, check_engine, differential};
use ciphermill_contract::Engine;
use ciphermill_reference::Reference;

/// Random batches: several for every suite.
const BATCHES: usize = 120;

#[test]
fn every_suite_keeps_the_contract() {
    let Some(gpu) = common::device() else { return };
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    let options = Options { only, symmetric_cases_max: 100, public_cases_max: 24, ..Options::default() };
    check_engine(gpu.as_ref(), Some(&Reference::new()), &options).assert_clean();
    common::say(&format!("ran every suite on {}", gpu.info().version));
}

#[test]
fn random_batches_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    differential(gpu.as_ref(), &Reference::new(), 0x6b70_5eed, BATCHES).assert_clean();
}
