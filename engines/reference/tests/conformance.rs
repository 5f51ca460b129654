//! The reference engine keeps the contract, for every suite that it claims.

use ciphermill_conformance::{Options, check_engine};
use ciphermill_reference::Reference;

#[test]
fn keeps_the_contract() {
    let engine = Reference::new();
    // One suite or family by name, when looking for a fault.
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    let options = Options { only, ..Options::default() };
    check_engine(&engine, None, &options).assert_clean();
}
