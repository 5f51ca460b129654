//! The reference engine keeps the contract, for every suite that it claims.

use ciphermill_conformance::{Options, check_engine};
use ciphermill_reference::Reference;

#[test]
fn keeps_the_contract() {
    let engine = Reference::new();
    check_engine(&engine, None, &Options::from_environment()).assert_clean();
}
