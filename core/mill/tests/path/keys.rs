//! Keys on the path: unknown ones, policies, budgets, expiry. A refused operation never fails its neighbours.

use ciphermill::KeyPolicy;
use ciphermill_contract::{Batch, Direction, Directions, KeyId, OpStatus, Reason};

use crate::{CBC, engines, import, mill, op, suite};

/// Runs three operations, the middle one under `key`, and returns its status after checking the neighbours.
fn status_under(policy: KeyPolicy, direction: Direction) -> OpStatus {
    let mill = mill([engines::mark("library", 3)]);
    let good = import(&mill, KeyPolicy::default());
    let key = import(&mill, policy);
    let mut ops = [op(good, 0), op(key, 1), op(good, 2)];
    let mut arena = [0u8; 48];
    let report = mill.run(Batch::new(suite(CBC), direction, &mut ops, &mut arena)).expect("runs");
    assert_eq!((ops[0].status, ops[2].status), (OpStatus::Done, OpStatus::Done));
    assert_eq!(report.done, 2 + usize::from(ops[1].status.is_done()));
    assert_eq!(report.failed, 3 - report.done);
    let expected = if ops[1].status.is_done() { 3 } else { 0 };
    assert!(arena[16..32].iter().all(|byte| *byte == expected), "a refused operation's output is untouched");
    ops[1].status
}

#[test]
fn a_key_without_restrictions_runs() {
    assert_eq!(status_under(KeyPolicy::default(), Direction::Encrypt), OpStatus::Done);
}

#[test]
fn policies_refuse_what_they_do_not_list() {
    let other = KeyPolicy::only(suite("aes-128-gcm"));
    assert_eq!(status_under(other, Direction::Encrypt), OpStatus::Refused(Reason::KeySuite));
    let encrypt = KeyPolicy::default().directions(Directions::ENCRYPT);
    assert_eq!(status_under(encrypt.clone(), Direction::Encrypt), OpStatus::Done);
    assert_eq!(status_under(encrypt, Direction::Decrypt), OpStatus::Refused(Reason::KeyDirection));
    let expired = KeyPolicy::default().expires_unix_s(1);
    assert_eq!(status_under(expired, Direction::Encrypt), OpStatus::Refused(Reason::KeyExpired));
    let spent = KeyPolicy::default().operations_max(0);
    assert_eq!(status_under(spent, Direction::Encrypt), OpStatus::Refused(Reason::KeyBudget));
}

#[test]
fn a_budget_is_spent_operation_by_operation() {
    let mill = mill([engines::mark("library", 3)]);
    let key = import(&mill, KeyPolicy::default().operations_max(5));
    let mut arena = [0u8; 48];
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        let mut ops = [op(key, 0), op(key, 1), op(key, 2)];
        mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
        outcomes.extend(ops.map(|op| op.status));
    }
    assert!(outcomes[..5].iter().all(|status| status.is_done()));
    assert!(outcomes[5..].iter().all(|status| *status == OpStatus::Refused(Reason::KeyBudget)));
}

#[test]
fn what_no_engine_began_is_given_back_to_the_budget() {
    let mill = mill([engines::faulty("library", engines::Fault::NoQueue)]);
    let key = import(&mill, KeyPolicy::default().operations_max(5));
    let mut ops = [op(key, 0), op(key, 1)];
    mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 32])).expect_err("no queue");
    assert!(ops.iter().all(|op| op.status.is_pending()));
    let lease = mill.keys().lease();
    assert_eq!(lease.entry(key).expect("is there").operations_left(), Some(5));
}

#[test]
fn destroyed_and_invented_keys_are_unknown() {
    let mill = mill([engines::mark("library", 3)]);
    let gone = import(&mill, KeyPolicy::default());
    mill.keys().destroy(gone).expect("was there");
    let again = import(&mill, KeyPolicy::default());
    for key in [gone, KeyId { slot: u32::MAX, generation: 1 }, KeyId { slot: again.slot, generation: u32::MAX }] {
        let mut ops = [op(key, 0), op(again, 1)];
        mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 32])).expect("runs");
        assert_eq!(ops[0].status, OpStatus::Refused(Reason::KeyUnknown));
        assert_eq!(ops[1].status, OpStatus::Done);
    }
}

#[test]
fn a_key_that_the_engine_refuses_is_unsuitable() {
    let mill = mill([engines::faulty("library", engines::Fault::RefusesKeys)]);
    let key = import(&mill, KeyPolicy::default());
    let mut ops = [op(key, 0)];
    mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 16])).expect("runs");
    assert_eq!(ops[0].status, OpStatus::Refused(Reason::KeyUnsuitable));
}
