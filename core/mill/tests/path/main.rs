//! The way of a batch through the mill, with engines that do what a test needs.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod engines;
mod generate;
mod keys;
mod metrics;
mod routing;
mod sharing;
mod trust;

use std::sync::Arc;

use ciphermill::{Mill, SelfTest};
use ciphermill_contract::{Batch, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, Reason, Span, Suite};

pub(crate) const CBC: &str = "aes-128-cbc";

pub(crate) fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// A mill over these engines that skips self-tests: the engines of these tests compute nothing real.
pub(crate) fn mill(engines: impl IntoIterator<Item = Arc<dyn Engine>>) -> Mill {
    Mill::builder().engines(engines).self_test(SelfTest::Never).open().expect("opens")
}

pub(crate) fn import(mill: &Mill, policy: ciphermill::KeyPolicy) -> KeyId {
    mill.keys().import(KeyMaterial::secret(&[7; 16]), policy).expect("room")
}

/// An operation in place on the `index`-th block of an arena.
pub(crate) fn op(key: KeyId, index: usize) -> Op {
    Op::in_place(key, Span::new(16 * index as u32, 16)).with_iv(&[1; 16])
}

#[test]
fn a_batch_that_breaks_a_rule_reaches_no_engine() {
    let mill = mill([engines::mark("library", 1)]);
    let key = import(&mill, ciphermill::KeyPolicy::default());
    let mut ops = [op(key, 0), op(key, 1).with_output(8), op(key, 2)];
    let mut arena = [9u8; 48];
    let error = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut arena)).expect_err("misuse");
    assert_eq!(error, Error::misuse(1, Reason::PartialOverlap));
    assert_eq!(arena, [9; 48]);
    assert!(ops.iter().all(|op| op.status.is_pending()));
}

#[test]
fn an_empty_batch_is_fine() {
    let mill = mill([engines::mark("library", 1)]);
    let report = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut [], &mut [])).expect("runs");
    assert_eq!((report.done, report.failed), (0, 0));
}

#[test]
fn a_session_hands_batches_back_in_order() {
    let mill = mill([engines::mark("library", 5)]);
    let key = import(&mill, ciphermill::KeyPolicy::default());
    let mut session = mill.session().in_order();
    let owned = |count: usize| ciphermill_contract::OwnedBatch {
        suite: suite(CBC),
        direction: Direction::Encrypt,
        ops: (0..count).map(|index| op(key, index)).collect(),
        arena: Box::new(vec![0u8; 16 * count]),
    };
    let tickets: Vec<_> = (1..4).map(|count| session.submit(owned(count)).expect("room")).collect();
    let mut done = Vec::new();
    assert_eq!(session.wait_all(&mut done), 3);
    assert_eq!(session.poll(&mut done), 0);
    assert_eq!(done.iter().map(|completed| completed.ticket).collect::<Vec<_>>(), tickets);
    for completed in &done {
        assert_eq!(completed.result, Ok(()));
        assert!(completed.batch.ops.iter().all(|op| op.status == OpStatus::Done));
        assert!(completed.batch.arena.bytes().iter().all(|byte| *byte == 5));
    }
}

#[test]
fn a_session_holds_no_more_than_its_limit() {
    let mill = mill([engines::mark("library", 1)]);
    let mut session = mill.session();
    let empty = || ciphermill_contract::OwnedBatch {
        suite: suite(CBC),
        direction: Direction::Encrypt,
        ops: Vec::new(),
        arena: Box::new(Vec::new()),
    };
    for _ in 0..1024 {
        session.submit(empty()).expect("room");
    }
    let refused = session.submit(empty()).expect_err("full");
    assert_eq!(refused.1, Error::exhausted("IN_FLIGHT_MAX", 1024, 1025));
}
