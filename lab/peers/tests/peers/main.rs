//! The peers against published vectors and against the reference engine.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod crypto_mb;
mod differential;
mod native;
mod public;
mod vectors;
mod workload;

use std::sync::Arc;

use ciphermill_contract::{Engine, EngineKind};
use ciphermill_peers::{NAMES, open, peers};

/// The peers of this machine; those that it cannot have are named in the test's output.
fn available() -> Vec<Arc<dyn Engine>> {
    let mut found = Vec::new();
    for peer in peers() {
        match peer {
            Ok(engine) => found.push(engine),
            Err(why) => eprintln!("{why}"),
        }
    }
    found
}

#[test]
fn both_openssl_peers_are_there() {
    let names: Vec<_> = available().iter().map(|engine| engine.info().name).collect();
    assert!(names.contains(&"openssl") && names.contains(&"openssl-context"), "{names:?}");
}

/// On x86-64 a build without ipsec-mb is asked for, not stumbled into: these tests would then compare nothing with it.
#[test]
fn ipsec_mb_is_there_unless_it_was_left_out() {
    match open("ipsec-mb") {
        Ok(engine) => assert_eq!(engine.info().name, "ipsec-mb"),
        Err(missing) => {
            let asked = missing.why.contains("CIPHERMILL_NO_IPSEC_MB");
            assert!(asked || !cfg!(target_arch = "x86_64"), "{missing}");
        }
    }
}

#[test]
fn peers_say_who_they_are() {
    assert_eq!(peers().len(), NAMES.len());
    for engine in available() {
        let info = engine.info();
        assert!(NAMES.contains(&info.name));
        assert_eq!(info.kind, EngineKind::Peer);
        assert!(info.version.contains(|c: char| c.is_ascii_digit()), "{}", info.version);
        assert!(!info.kernels.is_empty());
    }
}

#[test]
fn an_unknown_peer_is_an_error_that_names_the_known_ones() {
    let why = open("opensll").err().expect("no such peer").to_string();
    assert!(why.contains("`opensll`") && why.contains("openssl-context"), "{why}");
}
