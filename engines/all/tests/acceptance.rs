//! The engines that every machine has agree on keys and operations: with each other, and with the contract. `CONFORMANCE_ALL` takes all that
//! there are, instead of a sample.

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
    // Every vector, and every key that was tampered with, takes minutes.
    let all = std::env::var_os("CONFORMANCE_ALL").is_some();
    let (cases, mutations_max) = if all { (usize::MAX, 200) } else { (200, 40) };
    let options =
        Options { symmetric_cases_max: cases, public_cases_max: cases, mutations_max, ..Options::from_environment() };
    acceptance(&engines, &options).assert_clean();
}
