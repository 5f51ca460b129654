//! The library engine keeps the contract and agrees with the reference, for every suite that it claims.

use ciphermill_conformance::{Options, check_engine, differential};
use ciphermill_library::Library;
use ciphermill_reference::Reference;

/// Random batches: several for every suite.
const BATCHES: usize = 600;

#[test]
fn keeps_the_contract() {
    let engine = Library::new().expect("AWS-LC initialises");
    check_engine(&engine, Some(&Reference::new()), &Options::from_environment()).assert_clean();
}

#[test]
fn agrees_with_the_reference_on_random_batches() {
    let engine = Library::new().expect("AWS-LC initialises");
    differential(&engine, &Reference::new(), 0x0dd5_eed5, BATCHES).assert_clean();
}
