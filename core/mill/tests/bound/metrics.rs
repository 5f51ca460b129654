//! What is counted of operations through handles.

use std::sync::Arc;

use ciphermill::{KeyPolicy, Mill, SuiteMetrics};
use ciphermill_contract::{Cost, Direction, Engine, EngineKind, KeyId, OpStatus, Suite};
use ciphermill_fault::{Fault, FaultEngine, Script};

use crate::{Message, WAY_OPS, fast, gcm, import, last_resort, mill, reference, seal};

/// What an engine has been counted for, in one direction of AES-128-GCM.
fn counted(mill: &Mill, engine: &str, direction: Direction) -> SuiteMetrics {
    let metrics = mill.metrics();
    let engine = metrics.engines.into_iter().find(|found| found.engine == engine).expect("the engine");
    let found = engine.suites.into_iter().find(|found| (found.suite, found.direction) == (gcm(), direction));
    found.expect("has run")
}

#[test]
fn every_operation_is_in_the_books_once_its_handle_is_gone() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let key = import(&mill, KeyPolicy::default());
    let (mut total, mut bytes) = (0, 0);
    for count in [1, 2, 10, WAY_OPS - 1, WAY_OPS, WAY_OPS + 1, 500] {
        let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
        for number in 0..count {
            // Of all classes of lengths.
            let len = [3, 700, 5000][number % 3];
            assert_eq!(Message::gcm(number, len).run(&mut bound).expect("runs").status, OpStatus::Done);
            bytes += len as u64;
        }
        total += count as u64;
        let seen = counted(&mill, "fast", Direction::Encrypt).batches;
        assert!(seen + 2 * WAY_OPS as u64 >= total && seen <= total, "{seen} of {total} so far");
        drop(bound);
        let seen = counted(&mill, "fast", Direction::Encrypt);
        assert_eq!((seen.batches, seen.operations.done, seen.input_bytes), (total, total, bytes));
        assert_eq!(seen.routes.only, total);
    }
}

#[test]
fn most_operations_go_at_once_and_are_counted_later() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..WAY_OPS / 2).for_each(|_| assert!(crate::status(&mut bound).is_done()));
    // The first goes the way of batches, which counts at once.
    assert_eq!(counted(&mill, "fast", Direction::Encrypt).batches, 1);
    (0..10 * WAY_OPS).for_each(|_| assert!(crate::status(&mut bound).is_done()));
    let behind = 10 * WAY_OPS as u64 + WAY_OPS as u64 / 2 - counted(&mill, "fast", Direction::Encrypt).batches;
    assert!(behind < WAY_OPS as u64, "{behind}");
}

#[test]
fn long_operations_go_at_once_for_128_microseconds() {
    for (op_ns, at_once) in [(7_900.0, 15), (40_000.0, 2), (70_000.0, 0), (200_000.0, 0)] {
        let engine = FaultEngine::new("slow", reference(), Script::healthy()).with_kind(EngineKind::Library);
        let mill = mill([Arc::new(engine.with_prior(Cost::new(0.0, op_ns, 0.001))) as Arc<dyn Engine>], 0);
        let key = import(&mill, KeyPolicy::default());
        let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
        (0..1 + at_once).for_each(|_| assert!(crate::status(&mut bound).is_done()));
        assert_eq!(counted(&mill, "slow", Direction::Encrypt).batches, 1, "{op_ns}");
        // The next one goes the way of batches, which writes up those before it.
        assert!(crate::status(&mut bound).is_done());
        assert_eq!(counted(&mill, "slow", Direction::Encrypt).batches, 2 + at_once, "{op_ns}");
        drop(bound);
        assert_eq!(counted(&mill, "slow", Direction::Encrypt).latency_ns.count(), 2 + at_once, "{op_ns}");
    }
}

#[test]
fn one_way_that_is_timed_stands_for_those_between() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..1000).for_each(|_| assert!(crate::status(&mut bound).is_done()));
    drop(bound);
    let timed = counted(&mill, "fast", Direction::Encrypt).latency_ns.count();
    assert!((1000 - WAY_OPS as u64..=1000).contains(&timed), "{timed}");
}

#[test]
fn outcomes_are_counted_by_kind() {
    let mill = mill([fast("fast", Script::healthy()).0, last_resort()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut opens = mill.bind(gcm(), Direction::Decrypt, key).expect("binds");
    for number in 0..100 {
        let mut sealed = Message::gcm(number, 10).sealed();
        let is_spoilt = number % 4 == 3;
        sealed.tag[0] ^= u8::from(is_spoilt);
        let done = sealed.run(&mut opens).expect("runs");
        assert_eq!(done.status, if is_spoilt { OpStatus::AuthFailed } else { OpStatus::Done });
        if is_spoilt {
            assert_eq!((sealed.data, done.output_len), (vec![0; 10], 0), "nothing of it is left");
        }
    }
    mill.keys().destroy(key).expect("is there");
    (0..3).for_each(|number| {
        let done = Message::gcm(number, 10).run(&mut opens).expect("is told by the status");
        assert!(matches!(done.status, OpStatus::Refused(_)));
    });
    drop(opens);
    let seen = counted(&mill, "fast", Direction::Decrypt);
    let outcomes = seen.operations;
    assert_eq!((outcomes.done, outcomes.authentication_failed, outcomes.refused), (75, 25, 3));
    assert_eq!(outcomes.engine_fault, 0);
    assert_eq!(seen.input_bytes, 1000);
}

#[test]
fn faults_and_replays_are_counted_where_they_happened() {
    let (engine, handle) = fast("faulty", Script::healthy());
    let mill = mill([engine, last_resort()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..5).for_each(|number| seal(&mut bound, number));
    handle.set_script(Script::at(0, Fault::Errors));
    (0..5).for_each(|number| seal(&mut bound, number));
    drop(bound);
    let faulty = counted(&mill, "faulty", Direction::Encrypt);
    assert_eq!((faulty.batches, faulty.operations.done, faulty.operations.engine_fault), (10, 9, 1));
    assert_eq!(faulty.replayed, 1);
    let other = counted(&mill, "reference", Direction::Encrypt);
    assert_eq!((other.batches, other.operations.done, other.replayed), (1, 1, 0));
}

#[test]
fn one_of_so_many_operations_has_a_witness() {
    for every in [1, 5, 7, 64, 100] {
        let mill = mill([fast("fast", Script::healthy()).0, last_resort()], every);
        let key = import(&mill, KeyPolicy::default());
        let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
        (0..700).for_each(|number| seal(&mut bound, number));
        drop(bound);
        let seen = counted(&mill, "fast", Direction::Encrypt);
        let due = u64::from(700 / every);
        assert!((due..=due + 1).contains(&seen.witnessed), "{} of {due}", seen.witnessed);
        assert_eq!((seen.disagreements, seen.operations.done), (0, 700));
    }
}

#[test]
fn suites_without_keys_are_counted_too() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let sha256: Suite = "sha256".parse().expect("a suite");
    let mut bound = mill.bind(sha256, Direction::Encrypt, KeyId::NONE).expect("binds");
    for _ in 0..300 {
        let mut message = Message { iv: vec![], aad: vec![], data: vec![1; 50], input_len: 50, tag: vec![0; 32] };
        assert!(message.run(&mut bound).expect("runs").status.is_done());
    }
    drop(bound);
    let metrics = mill.metrics();
    let done: u64 = metrics.engines.iter().flat_map(|engine| &engine.suites).map(|suite| suite.operations.done).sum();
    assert_eq!(done, 300);
}
