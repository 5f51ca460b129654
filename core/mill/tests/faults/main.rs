//! Random schedules of faults: whatever engines do, every operation is answered once, and rightly or with a clear error.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod losses;
mod quarantine;
mod references;
mod schedule;
mod signatures;
mod wiping;
mod work;

use std::sync::{Arc, OnceLock};

use ciphermill_contract::Engine;
use ciphermill_reference::Reference;

fn reference() -> Arc<dyn Engine> {
    static REFERENCE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    Arc::clone(REFERENCE.get_or_init(|| Arc::new(Reference::new())))
}

#[test]
fn every_operation_is_answered_once_and_rightly() {
    schedule::run_all(2_500, &[]);
}
