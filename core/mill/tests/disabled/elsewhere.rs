//! What goes to another engine than the first: witnesses, what an engine failed, shares, inputs that are too long.

use ciphermill::{Mill, Report};
use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Batch, Direction, EngineKind, Error, KeyId};
use ciphermill_fault::{Fault, Script};

use crate::ways::{self, SUITE};
use crate::{healthy, import, mill_of, refused, rules, suite};

fn run(mill: &Mill, key: KeyId) -> Result<Report, Error> {
    let (mut ops, mut arena) = (ways::ops(key, 3), [0; 144]);
    mill.run(Batch::new(suite(SUITE), Direction::Encrypt, &mut ops, &mut arena))
}

#[test]
fn a_disabled_engine_is_no_witness() {
    let engines = || [healthy("first"), healthy("second"), healthy("third")];
    let (mill, handles) = mill_of(engines(), 1);
    let key = import(&mill);
    for (_, way) in ways::WAYS {
        way(&mill, key).expect("runs");
    }
    assert!(handles[1].batches() > 0, "the next best is the witness");
    let (mill, handles) = mill_of(engines(), 1);
    let key = import(&mill);
    mill.set_disabled(rules(&["second"]));
    for (_, way) in ways::WAYS {
        way(&mill, key).expect("runs");
    }
    assert_eq!(handles[1].batches(), 0);
    assert!(handles[2].batches() > 0, "the one after it is");
}

#[test]
fn a_disabled_engine_is_not_asked_who_is_wrong() {
    let liar = ("first", EngineKind::Library, Script::always(Fault::WrongBit { op: 0, bit: 0 }));
    let (mill, handles) = mill_of([liar, healthy("second"), healthy("third")], 1);
    let key = import(&mill);
    mill.set_disabled(rules(&["third:aes-256-gcm"]));
    assert_eq!(ways::batch(&mill, key), Ok(()));
    assert_eq!(handles[2].batches(), 0);
    assert!(handles[1].batches() > 0);
}

#[test]
fn what_an_engine_failed_does_not_go_to_a_disabled_one() {
    let faulty = || ("first", EngineKind::Gpu, Script::always(Fault::Errors));
    let (mill, handles) = mill_of([faulty(), healthy("second")], 0);
    let key = import(&mill);
    assert_eq!(run(&mill, key).map(|report| report.done), Ok(3));
    assert_eq!(handles[1].batches(), 1);
    let (mill, handles) = mill_of([faulty(), healthy("second")], 0);
    let key = import(&mill);
    mill.set_disabled(rules(&["second"]));
    assert_eq!(run(&mill, key).map(|report| report.done), Err(Error::fault("first", FaultKind::Unfinished)));
    assert_eq!(handles[1].batches(), 0);
}

#[test]
fn engines_that_are_in_quarantine_are_named_before_those_that_are_disabled() {
    let faulty = ("first", EngineKind::Gpu, Script::always(Fault::Panic));
    let (mill, _) = mill_of([faulty, healthy("second")], 0);
    let key = import(&mill);
    mill.set_disabled(rules(&["second"]));
    run(&mill, key).expect_err("nobody is left");
    assert_eq!(run(&mill, key).err(), Some(Error::Refused(Refusal::InQuarantine(suite(SUITE)))));
    mill.set_disabled(rules(&["first", "second"]));
    assert_eq!(run(&mill, key).map(|_| ()), refused());
}

#[test]
fn messages_in_parts_blame_rules_only_for_engines_that_take_them() {
    let (mill, _) = mill_of([healthy("first"), healthy("second")], 0);
    let keyless = |name: &str| mill.multi_part(suite(name), Direction::Encrypt, KeyId::NONE).err();
    let no_engine = |name: &str| Some(Error::Refused(Refusal::NoEngine(suite(name), Direction::Encrypt)));
    let disabled = |name: &str| Some(Error::Refused(Refusal::Disabled(suite(name), Direction::Encrypt)));
    mill.set_disabled(rules(&["sha256"]));
    assert_eq!(keyless("sha256"), disabled("sha256"));
    // Nobody takes these in parts, the engine that is left out no more than the other.
    let (name, key) = ("aes-256-gcm-siv", import(&mill));
    for disabled in [&[][..], &["second:aes-256-gcm-siv"]] {
        mill.set_disabled(rules(disabled));
        assert_eq!(mill.multi_part(suite(name), Direction::Encrypt, key).err(), no_engine(name), "{disabled:?}");
    }
}
