//! Engines that leave, join, fail, panic and lie under an open handle.

use std::thread;

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Direction, EngineKind, Error, KeyId, Op, OpStatus, Span};
use ciphermill_fault::{Fault, FaultHandle, Script};

use crate::{Message, QUARANTINE, WAY_OPS, fast, faulty, gcm, have_quarantined, import, mill, reference, seal};

/// Quarantines of an engine, and whether it is in one.
fn quarantines(mill: &Mill, name: &str) -> (u64, bool) {
    let metrics = mill.metrics();
    let engine = metrics.engines.iter().find(|engine| engine.engine == name).expect("it is there");
    (engine.quarantines, engine.quarantined)
}

/// Seals messages and says how many of them the engine of this handle saw.
fn seen_by(handle: &FaultHandle, bound: &mut ciphermill::Bound, count: usize) -> u64 {
    let before = handle.batches();
    (0..count).for_each(|number| seal(bound, number));
    handle.batches() - before
}

#[test]
fn the_next_operation_leaves_an_engine_that_has_left_and_finds_a_better_one_that_joins() {
    let (first, first_handle) = fast("first", Script::healthy());
    let mill = mill([first, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    assert_eq!(seen_by(&first_handle, &mut bound, 10), 10);
    mill.remove_engine("first").expect("is there");
    assert_eq!(seen_by(&first_handle, &mut bound, 10), 0);
    let (second, second_handle) = fast("second", Script::healthy());
    mill.add_engine(second).expect("room");
    assert_eq!(seen_by(&second_handle, &mut bound, 10), 10);
    mill.remove_engine("second").expect("is there");
    mill.remove_engine("reference").expect("is there");
    let none = Error::Refused(Refusal::NoEngine(gcm(), Direction::Encrypt));
    let message = Message::gcm(1, 16);
    let mut own = message.clone();
    assert_eq!(own.run(&mut bound), Err(none));
    assert!(own == message);
    mill.add_engine(reference()).expect("room");
    (0..10).for_each(|number| seal(&mut bound, number));
    assert_eq!(first_handle.batches() + second_handle.batches(), 20);
}

#[test]
fn engines_come_and_go_while_handles_run() {
    let mill = mill([reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let (done, is_over) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicBool::new(false));
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
            let (done, is_over) = (&done, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    seal(&mut bound, number);
                    done.fetch_add(1, relaxed);
                    if is_over.load(relaxed) {
                        return;
                    }
                }
            });
        }
        let mut seen = 0;
        for round in 0..50 {
            let (engine, handle) = fast("comes", Script::healthy());
            mill.add_engine(engine).expect("room");
            let enough = done.load(relaxed) + 20 + round;
            while done.load(relaxed) < enough {
                thread::yield_now();
            }
            mill.remove_engine("comes").expect("is there");
            seen += handle.batches();
        }
        is_over.store(true, relaxed);
        assert!(seen > 50, "{seen}: the engine that came was not used");
    });
}

#[test]
fn the_next_operation_leaves_an_engine_that_another_thread_had_put_into_quarantine() {
    let (engine, handle) = fast("faulty", Script::healthy());
    let mill = mill([engine, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    assert_eq!(seen_by(&handle, &mut bound, 10), 10);
    have_quarantined(&mill, &handle);
    assert_eq!(quarantines(&mill, "faulty"), (1, true));
    assert_eq!(seen_by(&handle, &mut bound, 10), 0);
    thread::sleep(QUARANTINE);
    assert!(seen_by(&handle, &mut bound, 2 * WAY_OPS) >= WAY_OPS as u64, "it comes back");
    assert_eq!(quarantines(&mill, "faulty"), (1, false));
}

#[test]
fn an_engine_that_comes_back_answers_its_known_answers_first() {
    let (engine, handle) = fast("faulty", Script::healthy());
    let trust = ciphermill::TrustPolicy { witness_every: 0, quarantine_min: QUARANTINE, ..Default::default() };
    let mill = Mill::builder().engine(engine).engine(reference()).trust(trust).workers(0).open().expect("opens");
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    assert_eq!(seen_by(&handle, &mut bound, 10), 10);
    have_quarantined(&mill, &handle);
    assert_eq!(seen_by(&handle, &mut bound, 10), 0);
    // It is back, and lies: its test finds that out before a handle's operation does.
    handle.set_script(Script::always(Fault::WrongBit { op: 0, bit: 0 }));
    thread::sleep(QUARANTINE);
    (0..3 * WAY_OPS).for_each(|number| seal(&mut bound, number));
    assert_eq!(quarantines(&mill, "faulty"), (2, true));
}

#[test]
fn an_operation_that_an_engine_fails_is_run_elsewhere() {
    let faults = [Fault::Errors, Fault::ErrorAt(0), Fault::Unfinished, Fault::Panic, Fault::Death];
    for fault in faults {
        for at in [0, 1, 2, 7, 63, 64, 65] {
            let (engine, handle) = fast("faulty", Script::at(at, fault));
            let mill = mill([engine, reference()], 0);
            let key = import(&mill, KeyPolicy::default());
            let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
            // Each is compared with what it should be.
            (0..at as usize + 10).for_each(|number| seal(&mut bound, number));
            assert!(handle.injected() > 0 || fault == Fault::Death, "{fault:?} at {at}");
            let stays = matches!(fault, Fault::Errors | Fault::ErrorAt(_) | Fault::Unfinished);
            let expected = if stays { (0, false) } else { (1, true) };
            assert_eq!(quarantines(&mill, "faulty"), expected, "{fault:?} at {at}");
        }
    }
}

#[test]
fn three_faults_in_a_row_are_one_too_many() {
    let (engine, handle) = fast("faulty", Script::healthy());
    let mill = mill([engine, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..5).for_each(|number| seal(&mut bound, number));
    handle.set_script(Script::always(Fault::Errors));
    assert_eq!(seen_by(&handle, &mut bound, 20), 3);
    assert_eq!(quarantines(&mill, "faulty"), (1, true));
}

#[test]
fn faults_now_and_then_are_made_up_for() {
    let script = Script::cycle(vec![Fault::Errors, Fault::None, Fault::None, Fault::None, Fault::None]);
    let (engine, _) = fast("faulty", script);
    let mill = mill([engine, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..200).for_each(|number| seal(&mut bound, number));
    assert_eq!(quarantines(&mill, "faulty"), (0, false));
}

#[test]
fn without_another_engine_the_outcome_is_clear() {
    for fault in [Fault::Errors, Fault::Panic] {
        for at in [0, 1, 5] {
            let (engine, _) = fast("faulty", Script::at(at, fault));
            let mill = mill([engine], 0);
            let key = import(&mill, KeyPolicy::default());
            let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
            (0..at as usize).for_each(|number| seal(&mut bound, number));
            let message = Message::gcm(9, 40);
            let mut own = message.clone();
            let kind = if fault == Fault::Panic { FaultKind::Panicked } else { FaultKind::Unfinished };
            assert_eq!(own.run(&mut bound), Err(Error::fault("faulty", kind)), "{fault:?} at {at}");
            assert!(own == message, "buffers are as they were");
            if fault == Fault::Errors {
                seal(&mut bound, 1);
            } else {
                let again = own.run(&mut bound);
                assert_eq!(again, Err(Error::Refused(Refusal::InQuarantine(gcm()))));
            }
        }
    }
}

#[test]
fn in_an_arena_what_was_in_place_is_lost_and_nothing_is_left_of_it() {
    for fault in [Fault::Errors, Fault::Panic] {
        for at in [0, 1, 5] {
            let (engine, _) = fast("faulty", Script::at(at, fault));
            let mill = mill([engine, reference()], 0);
            let key = import(&mill, KeyPolicy::default());
            let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
            for apart in [false, true] {
                (0..at).for_each(|_| assert_eq!(run_op(&mut bound, apart).0, OpStatus::Done));
                let (status, arena) = run_op(&mut bound, apart);
                if apart || at == 5 && quarantines(&mill, "faulty").0 == 2 {
                    assert_eq!(status, OpStatus::Done, "{fault:?} at {at}");
                } else {
                    assert_eq!(status, OpStatus::EngineFault, "{fault:?} at {at}");
                    assert_eq!(arena[..32], [0; 32]);
                }
            }
        }
    }
}

fn run_op(bound: &mut ciphermill::Bound, apart: bool) -> (OpStatus, [u8; 80]) {
    let mut arena = [7; 80];
    let mut op = Op::in_place(KeyId::NONE, Span::new(0, 32)).with_iv(&[1; 12]).with_tag(32, 16);
    if apart {
        op = op.with_output(48);
    }
    bound.run_op(&mut op, &mut arena).expect("runs");
    (op.status, arena)
}

#[test]
fn a_device_that_fails_is_left_too() {
    let (device, _) = faulty("device", Script::at(3, Fault::Panic), EngineKind::Gpu);
    let mill = mill([device, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..20).for_each(|number| seal(&mut bound, number));
    assert_eq!(quarantines(&mill, "device"), (1, true));
}

#[test]
fn a_queue_that_cannot_be_opened_again_sends_operations_elsewhere() {
    let (engine, handle) = fast("faulty", Script::at(4, Fault::Errors));
    let mill = mill([engine, reference()], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..3).for_each(|number| seal(&mut bound, number));
    // The queue stays open, so that this concerns nobody but those who open one.
    handle.set_call_script(Script::always(Fault::Errors));
    (0..20).for_each(|number| seal(&mut bound, number));
    let mut other = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    let before = handle.batches();
    (0..20).for_each(|number| seal(&mut other, number));
    assert_eq!(handle.batches(), before);
}

#[test]
fn every_answer_is_compared_where_policy_says_so() {
    let (engine, handle) = fast("faulty", Script::at(7, Fault::WrongBit { op: 0, bit: 3 }));
    let mill = mill([engine, reference()], 1);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..20).for_each(|number| seal(&mut bound, number));
    assert_eq!(handle.injected(), 1);
    assert_eq!(quarantines(&mill, "faulty"), (1, true));
}

#[test]
fn a_witness_catches_an_engine_that_lies_all_the_time() {
    const EVERY: u32 = 10;
    let (engine, _) = fast("faulty", Script::healthy());
    let (liar, handle) = fast("liar", Script::healthy());
    drop(engine);
    let mill = mill([liar, reference()], EVERY);
    let key = import(&mill, KeyPolicy::default());
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..30).for_each(|number| seal(&mut bound, number));
    handle.set_script(Script::always(Fault::WrongBit { op: 0, bit: 3 }));
    let wrong = (0..40).filter(|number| {
        let mut message = Message::gcm(*number, 20);
        message.run(&mut bound).expect("runs");
        message != Message::gcm(*number, 20).sealed()
    });
    let wrong = wrong.count();
    assert!((1..EVERY as usize).contains(&wrong), "{wrong}");
    assert_eq!(quarantines(&mill, "liar"), (1, true));
}
