//! Clients and a service in one process: what the service answers is what an engine answers.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::{Batch, Direction, Engine as _, KeyMaterial, Op, OpStatus, Span, Suite};
use ciphermill_service_engine::{Opening, ServiceEngine};
use common::Running;

#[test]
fn a_mill_runs_on_the_service() {
    let running = Running::start(|_| {});
    let engine = ServiceEngine::open(&Opening::at(running.socket())).expect("connects");
    let mill = Mill::builder().engine(Arc::new(engine)).open().expect("a mill");
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("a key");
    let sealed = |mill: &Mill, key| {
        let mut arena: Vec<u8> = (0..100).map(|index| (index * 80) as u8).flat_map(|byte| [byte; 80]).collect();
        let op = |index: u32| {
            Op::in_place(key, Span::new(index * 80, 64)).with_tag(index * 80 + 64, 16).with_iv(&[index as u8; 12])
        };
        let mut ops: Vec<Op> = (0..100).map(op).collect();
        mill.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
        assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{:?}", ops[0].status);
        arena
    };
    let local = Mill::builder().engine(Arc::new(ciphermill_reference::Reference::new())).open().expect("a mill");
    let local_key = local.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("a key");
    assert_eq!(sealed(&mill, key), sealed(&local, local_key));
}

/// A suite of every form that operations have.
const SUITES: [&str; 14] = [
    "aes-128-gcm",
    "aes-256-siv",
    "des-ecb",
    "aes-128-cbc+hmac-sha1",
    "sha256",
    "shake128",
    "hmac-sha256",
    "x25519",
    "ecdsa-p256",
    "rsa-2048-encrypt-oaep-sha256",
    "ml-kem-768",
    "ff1-aes-256",
    "aes-256-kwp",
    "generate-ec-p256",
];

#[test]
fn the_engine_keeps_the_contract() {
    let running = Running::start(|_| {});
    let engine = ServiceEngine::open(&Opening::at(running.socket())).expect("connects");
    assert!(engine.capabilities().len() > 300);
    // All of them take minutes: by the name of one, or "" for every one.
    let named = std::env::var("CONFORMANCE_ONLY").ok();
    let suites = named.as_ref().map_or(SUITES.to_vec(), |named| vec![named.as_str()]);
    for only in suites {
        let options = ciphermill_conformance::Options { only: only.to_owned(), ..Default::default() };
        let reference = ciphermill_reference::Reference::new();
        ciphermill_conformance::check_engine(&engine, Some(&reference), &options).assert_clean();
    }
    // Prepared keys were dropped: the service has forgotten all but those of the last, which are told with the next question.
    drop(engine);
    running.wait_until("no keys", |mill| mill.keys().is_empty());
}
