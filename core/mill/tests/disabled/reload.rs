//! Rules that change while a mill is open and at work.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ciphermill::{Costs, Mill, SelfTest, TrustPolicy};
use ciphermill_contract::{Cost, Direction, Engine, EngineKind, OpStatus};
use ciphermill_fault::{Fault, FaultEngine, Script};

use crate::ways::{SUITE, block_on, message, owned, seal};
use crate::{healthy, import, mill_of, reference, refused, rules, seen, suite};

#[test]
fn an_open_handle_moves_is_refused_and_comes_back() {
    let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
    let mut before = [0; 2];
    let mut bound = mill.bind(suite(SUITE), Direction::Encrypt, import(&mill)).expect("binds");
    let steps: [(&[&str], [bool; 2]); 7] = [
        (&[], [true, false]),
        (&["first"], [false, true]),
        (&["aes-256-gcm"], [false; 2]),
        (&["first"], [false, true]),
        (&["first", "second:aes-256-gcm"], [false; 2]),
        (&["second", "rc4"], [true, false]),
        (&[], [true, false]),
    ];
    for (disabled, expected) in steps {
        mill.set_disabled(rules(disabled));
        for _ in 0..70 {
            assert_eq!(seal(&mut bound), if expected == [false; 2] { refused() } else { Ok(()) }, "{disabled:?}");
        }
        assert_eq!(seen(&handles, &mut before), expected, "{disabled:?}");
    }
    mill.set_disabled(rules(&["aes-256-gcm"]));
    assert!(mill.bind(suite(SUITE), Direction::Encrypt, import(&mill)).is_err());
}

#[test]
fn a_message_in_parts_ends_where_it_began_and_the_next_one_goes_by_the_rules() {
    let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
    let mut before = [0; 2];
    let mut parts = mill.multi_part(suite(SUITE), Direction::Encrypt, import(&mill)).expect("opens");
    parts.begin(&[1; 12]).expect("begun");
    mill.set_disabled(rules(&["first"]));
    parts.transform_in_place(&mut [0; 5]).expect("taken");
    assert_eq!(parts.finish(&mut [0; 16]), Ok(OpStatus::Done));
    assert_eq!(seen(&handles, &mut before), [true, false]);
    assert_eq!(message(&mut parts), Ok(()));
    assert_eq!(seen(&handles, &mut before), [false, true]);
    mill.set_disabled(rules(&[SUITE]));
    assert_eq!(message(&mut parts), refused());
    mill.set_disabled(rules(&[]));
    assert_eq!(message(&mut parts), Ok(()));
    assert_eq!(seen(&handles, &mut before), [true, false]);
}

#[test]
fn a_session_and_what_waits_in_its_queue_go_by_the_rules_of_when_they_begin() {
    let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
    let (key, mut before) = (import(&mill), [0; 2]);
    let mut session = mill.session();
    session.submit(owned(key, 3)).expect("room");
    mill.set_disabled(rules(&["first"]));
    session.submit(owned(key, 3)).expect("room");
    let results: Vec<_> = [session.wait(), session.wait()].into_iter().flatten().map(|done| done.result).collect();
    assert_eq!((results, seen(&handles, &mut before)), (vec![Ok(()), Ok(())], [false, true]));
    let waiting = mill.submit(owned(key, 3), &Default::default()).expect("room");
    mill.set_disabled(rules(&[SUITE]));
    assert_eq!(block_on(waiting).result, refused());
}

#[test]
fn a_batch_that_is_running_ends_with_the_engines_that_it_began_with() {
    let stuck = ("first", EngineKind::Library, Script::at(0, Fault::Stall));
    let (mill, handles) = mill_of([stuck, healthy("second")], 1);
    let key = import(&mill);
    thread::scope(|scope| {
        let running = scope.spawn(|| crate::ways::batch(&mill, key));
        assert!(handles[0].wait_until_stalled(1, Duration::from_secs(10)));
        mill.set_disabled(rules(&[SUITE]));
        assert_eq!(crate::ways::batch(&mill, key), refused());
        handles[0].release();
        assert_eq!(running.join().expect("no panic"), Ok(()));
    });
    assert_eq!(handles.map(|handle| handle.batches()), [1, 1], "the witness too is one of the engines of before");
}

/// Threads that wait for devices.
const WAITERS: usize = 8;

#[test]
fn shares_that_begin_after_the_rules_belong_to_a_batch_that_began_before() {
    const DEVICES: [&str; WAITERS] = ["gpu", "b", "c", "d", "e", "f", "g", "h"];
    const COUNT: usize = 4000;

    let engine = |name, kind, script| {
        let engine = FaultEngine::new(name, reference(), script).with_kind(kind);
        engine.with_prior(Cost::new(0.0, 1000.0, 0.0))
    };
    let here = engine("first", EngineKind::Library, Script::healthy());
    let devices = DEVICES.map(|name| engine(name, EngineKind::Gpu, Script::at(0, Fault::Stall)));
    let (own, stalled) = (here.handle(), devices.each_ref().map(FaultEngine::handle));
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy { stall_min: Duration::from_secs(60), ..TrustPolicy::default() };
    let engines = [here].into_iter().chain(devices).map(|engine| Arc::new(engine) as Arc<dyn Engine>);
    let builder = Mill::builder().engines(engines).costs(costs).trust(trust).self_test(SelfTest::Never).workers(1);
    let mill = builder.open().expect("opens");
    let key = import(&mill);
    let run = || mill.run(owned(key, COUNT as u32).as_batch()).map(|report| (report.done, report.failed));
    thread::scope(|scope| {
        let first = scope.spawn(run);
        // Each of its shares holds one of the threads that wait, so that no share of the second batch is begun.
        assert!(stalled.iter().all(|device| device.wait_until_stalled(1, Duration::from_secs(60))));
        // Its share of this processor is done as well: what comes there from now on is of the second.
        let mut before = 0;
        while before == 0 || own.batches() != before {
            before = own.batches();
            thread::sleep(Duration::from_millis(50));
        }
        let second = scope.spawn(run);
        while own.batches() == before {
            thread::yield_now();
        }
        mill.set_disabled(rules(&[SUITE]));
        stalled.iter().for_each(|device| device.release());
        for running in [first, second] {
            assert_eq!(running.join().expect("no panic"), Ok((COUNT, 0)));
        }
    });
    assert!(stalled.iter().all(|device| device.batches() == 2), "both were shared out");
    assert_eq!(run(), refused().map(|()| (0, 0)));
}
