//! Single operations without a handle, which a mill keeps one for itself: several under a key, keys that take turns, keys that
//! end, engines that fail, and threads at the same time.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::{Direction, KeyId, KeyMaterial, OpStatus, Reason};
use ciphermill_fault::{Fault, Script};

use crate::{Message, WAY_OPS, fast, gcm, import, last_resort, mill};

const SEAL: Direction = Direction::Encrypt;

fn seal(mill: &Mill, key: KeyId, number: usize, len: usize) -> OpStatus {
    let mut message = Message::gcm(number, len);
    let done = message.run_one(mill, (gcm(), SEAL), key).expect("runs");
    assert!(!done.status.is_done() || message == Message::gcm(number, len).sealed(), "operation {number}");
    done.status
}

/// Operations done so far, and how many of them an engine did.
fn counted(mill: &Mill, engine: &str) -> (u64, u64) {
    let metrics = mill.metrics();
    let did = |name: &dyn Fn(&str) -> bool| -> u64 {
        let engines = metrics.engines.iter().filter(|engine| name(engine.engine));
        engines.flat_map(|engine| &engine.suites).map(|of| of.operations.done).sum()
    };
    (did(&|_| true), did(&|name| name == engine))
}

#[test]
fn operations_one_after_the_other_are_right_and_all_in_the_books() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let key = import(&mill, KeyPolicy::default());
    for number in 0..3 * WAY_OPS {
        assert!(seal(&mill, key, number, [0, 3, 64, 700, 5000][number % 5]).is_done());
        assert_eq!(counted(&mill, "fast").0, number as u64 + 1, "at any time");
    }
}

#[test]
fn keys_that_take_turns_are_not_mixed_up() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let other =
        |number: u8| mill.keys().import(KeyMaterial::secret(&[number; 16]), KeyPolicy::default()).expect("room");
    let keys: Vec<KeyId> =
        (0..9).map(|number| if number == 0 { import(&mill, KeyPolicy::default()) } else { other(number) }).collect();
    for number in 0..1000 {
        // Runs of one key, and keys by turns.
        let turn = if number % 200 < 100 { number / 13 } else { number } % keys.len();
        let mut message = Message::gcm(number, 40);
        assert!(message.run_one(&mill, (gcm(), SEAL), keys[turn]).expect("runs").status.is_done());
        assert_eq!(message == Message::gcm(number, 40).sealed(), turn == 0 || turn == 7, "{turn}: key 7 is the same");
        assert!(message.run_one(&mill, (gcm(), Direction::Decrypt), keys[turn]).expect("runs").status.is_done());
    }
}

#[test]
fn a_key_that_is_destroyed_or_spent_is_refused_by_the_next() {
    let (engine, _) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    for before in [0, 1, 5, 20, WAY_OPS + 3] {
        let key = import(&mill, KeyPolicy::default());
        (0..before).for_each(|number| assert!(seal(&mill, key, number, 30).is_done()));
        mill.keys().destroy(key).expect("is there");
        let next = mill.keys().import(KeyMaterial::secret(&[9; 16]), KeyPolicy::default()).expect("room");
        for _ in 0..6 {
            let message = Message::gcm(5, 30);
            let mut own = message.clone();
            let done = own.run_one(&mill, (gcm(), SEAL), key).expect("is told by the status");
            assert_eq!(done.status, OpStatus::Refused(Reason::KeyUnknown), "after {before}");
            assert!(own == message, "nothing is written");
        }
        mill.keys().destroy(next).expect("is there");
        let key = import(&mill, KeyPolicy::default().operations_max(before as u64));
        (0..before).for_each(|number| assert!(seal(&mill, key, number, 30).is_done()));
        (0..6).for_each(|_| assert_eq!(seal(&mill, key, 1, 30), OpStatus::Refused(Reason::KeyBudget), "{before}"));
    }
}

#[test]
fn rules_are_told_as_before() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let key = import(&mill, KeyPolicy::default());
    for number in 0..100 {
        assert!(seal(&mill, key, number, 20).is_done());
        let mut short = Message { iv: vec![1; 11], ..Message::gcm(number, 20) };
        let kept = short.clone();
        let done = short.run_one(&mill, (gcm(), SEAL), key).expect("is told by the status");
        assert_eq!(done.status, OpStatus::BadInput(Reason::IvLength));
        assert!(short == kept);
        let mut missing = Message::gcm(number, 20);
        let done = missing.run_one(&mill, (gcm(), SEAL), KeyId::NONE).expect("is told by the status");
        assert_eq!(done.status, OpStatus::BadInput(Reason::KeyMissing));
    }
    assert_eq!(counted(&mill, "fast").0, 100);
}

#[test]
fn what_an_engine_fails_is_run_elsewhere() {
    for fault in [Fault::Errors, Fault::Unfinished, Fault::Panic, Fault::Death] {
        let (engine, handle) = fast("fast", Script::healthy());
        let mill = mill([engine, last_resort()], 0);
        let key = import(&mill, KeyPolicy::default());
        (0..30).for_each(|number| assert!(seal(&mill, key, number, 33).is_done()));
        handle.set_script(Script::always(fault));
        (0..30).for_each(|number| assert!(seal(&mill, key, number, 33).is_done(), "{fault:?}"));
        assert!(handle.injected() > 0 && counted(&mill, "reference").1 >= 29, "{fault:?}");
        assert_eq!(counted(&mill, "reference").0, 60, "{fault:?}");
    }
}

#[test]
fn an_engine_that_leaves_is_not_used_any_more() {
    let mill = mill([fast("fast", Script::healthy()).0, last_resort()], 0);
    let key = import(&mill, KeyPolicy::default());
    (0..20).for_each(|number| assert!(seal(&mill, key, number, 33).is_done()));
    mill.remove_engine("fast").expect("is there");
    (0..20).for_each(|number| assert!(seal(&mill, key, number, 33).is_done()));
    assert_eq!(counted(&mill, "reference").1, 20);
}

/// However short keys live, witnesses are asked of one operation in so many.
#[test]
fn witnesses_are_asked_whatever_the_keys() {
    let engine = fast("fast", Script::healthy()).0;
    let mill = mill([engine, last_resort()], 64);
    let mut total = 0;
    for ops in [100, 40, 20, 9, 3].repeat(4) {
        let key = import(&mill, KeyPolicy::default());
        (0..ops).for_each(|number| assert!(seal(&mill, key, number, 33).is_done()));
        mill.keys().destroy(key).expect("is there");
        total += ops as u64;
    }
    let metrics = mill.metrics();
    let engines = metrics.engines.iter().flat_map(|engine| &engine.suites);
    let witnessed: u64 = engines.map(|of| of.witnessed).sum();
    assert!((total / 64 - 2..=total / 64 + 1).contains(&witnessed), "{witnessed} of {total}");
}

#[test]
fn many_threads_at_once_lose_nothing() {
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let keys: Vec<KeyId> = (0..3).map(|_| import(&mill, KeyPolicy::default())).collect();
    thread::scope(|scope| {
        // More threads than places.
        for own in 0..12 {
            let (mill, keys) = (&mill, &keys);
            scope.spawn(move || {
                (0..300).for_each(|number| assert!(seal(mill, keys[own % keys.len()], number, 50).is_done()));
            });
        }
        for _ in 0..50 {
            assert!(counted(&mill, "fast").0 <= 3600);
        }
    });
    assert_eq!(counted(&mill, "fast").0, 3600);
}

#[test]
fn nobody_waits_for_a_thread_whose_engine_hangs() {
    let (engine, handle) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    let key = import(&mill, KeyPolicy::default());
    thread::scope(|scope| {
        let (mill, handle, (ready, done)) = (&mill, &handle, channel());
        scope.spawn(move || {
            // Until it goes by what is kept.
            (0..20).for_each(|number| assert!(seal(mill, key, number, 50).is_done()));
            handle.set_script(Script::at(0, Fault::Stall));
            assert!(seal(mill, key, 1, 50).is_done());
        });
        let stalled = handle.wait_until_stalled(1, Duration::from_secs(20));
        // Twice as many threads as places: two have the same as the one that hangs.
        for _ in 0..16 {
            let ready = ready.clone();
            scope.spawn(move || {
                (0..20).for_each(|number| assert!(seal(mill, key, number, 50).is_done()));
                ready.send(()).expect("is waited for");
            });
        }
        let ended = (0..16).filter(|_| done.recv_timeout(Duration::from_secs(20)).is_ok()).count();
        handle.release();
        assert!(stalled);
        assert_eq!(ended, 16);
    });
}
