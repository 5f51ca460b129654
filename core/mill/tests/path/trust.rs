//! Engines are not believed: wrong, forgetful and absent ones.

use ciphermill::{KeyPolicy, Mill, SelfTest, SelfTestState};
use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Batch, Direction, EngineKind, Error, KeyMaterial, OpStatus};

use crate::engines::{Fault, faulty, mark, slow};
use crate::{CBC, import, mill, op, suite};

#[test]
fn an_engine_with_a_wrong_answer_runs_nothing() {
    for self_test in [SelfTest::OnFirstUse, SelfTest::AtOpen] {
        let mill = Mill::builder().engine(mark("library", 1)).self_test(self_test).open().expect("opens");
        let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room");
        let mut arena = [9u8; 16];
        let run = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut arena));
        assert_eq!(run, Err(Error::Refused(Refusal::SelfTestFailed(suite(CBC)))));
        assert_eq!(arena, [9; 16]);
    }
}

#[test]
fn self_tests_are_counted_and_reported() {
    let mill = Mill::builder().engine(mark("library", 1)).open().expect("opens");
    let mut heard = 0;
    let failed = mill.self_test(|_, _, state| {
        assert_eq!(state, SelfTestState::Failed);
        heard += 1;
    });
    assert_eq!(failed, heard);
    assert!(failed > 10);
    assert!(mill.engines()[0].suites.iter().all(|suite| suite.self_test == SelfTestState::Failed));
}

#[test]
fn a_forgotten_operation_is_the_engines_fault() {
    let mill = mill([faulty("library", Fault::Forgets)]);
    let key = import(&mill, KeyPolicy::default());
    let mut ops = [op(key, 0), op(key, 1), op(key, 2)];
    let report = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 48])).expect("runs");
    assert_eq!(ops.map(|op| op.status), [OpStatus::Done, OpStatus::EngineFault, OpStatus::EngineFault]);
    assert_eq!((report.done, report.failed), (1, 2));
}

#[test]
fn an_engine_that_cannot_be_opened_says_so() {
    let mill = mill([faulty("library", Fault::NoQueue)]);
    let key = import(&mill, KeyPolicy::default());
    let run = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut [0; 16]));
    assert_eq!(run, Err(Error::fault("library", FaultKind::Unavailable)));
}

#[test]
fn an_engine_that_cannot_be_opened_leaves_its_batches_to_the_others() {
    let mill = mill([faulty("library", Fault::NoQueue), slow("reference", EngineKind::Reference, 7)]);
    let key = import(&mill, KeyPolicy::default());
    let mut arena = [0u8; 16];
    let report = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut arena)).expect("runs");
    assert_eq!((report.route.name, report.done, arena), ("reference", 1, [7; 16]));
}

#[test]
fn names_of_engines_are_unique() {
    let twice = Mill::builder().engine(mark("library", 1)).engine(mark("library", 2)).open();
    assert!(matches!(twice.map(|_| ()), Err(Error::Refused(Refusal::EngineUnavailable(_)))));
}
