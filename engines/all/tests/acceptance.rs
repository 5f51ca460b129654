//! The engines that every machine has agree on every key and every operation: with each other, and with the contract.

use ciphermill_conformance::{Options, acceptance};
use ciphermill_contract::Engine;
use ciphermill_lanes::Lanes;
use ciphermill_library::Library;
use ciphermill_reference::Reference;

#[test]
fn engines_agree_on_what_they_accept() {
    let reference = Reference::new();
    let library = Library::new().expect("AWS-LC initialises");
    let lanes = Lanes::new().expect("every processor runs some kernel");
    let engines: [&dyn Engine; 3] = [&reference, &library, &lanes];
    // One suite or family by name, when looking for a fault.
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    let all = usize::MAX;
    let options = Options { symmetric_cases_max: all, public_cases_max: all, only, ..Options::default() };
    acceptance(&engines, &options).assert_clean();
}
