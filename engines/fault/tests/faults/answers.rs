//! What each fault makes of a batch, and what it leaves alone.

use std::time::{Duration, Instant};

use ciphermill_contract::OpStatus;
use ciphermill_fault::{Fault, Script, Weights};

use crate::work::{Work, engine, queue};

/// Runs a batch on an engine that does this to each; also says how many faults it counted.
fn spoilt(fault: Fault, work: &Work) -> (Work, u64) {
    let double = engine(Script::always(fault));
    let after = work.run(queue(&double).as_mut());
    assert_eq!(double.handle().batches(), 1);
    (after, double.handle().injected())
}

/// An operation that failed as the contract wants it: zeroed output, everything else as before.
fn assert_failed(before: &Work, after: &Work, index: usize) {
    let ((old, _, old_tag), (new, data, tag)) = (before.op(index), after.op(index));
    assert_eq!(new.status, OpStatus::EngineFault);
    assert_eq!(new.output_len, 0);
    assert!(data.iter().all(|byte| *byte == 0), "operation {index}");
    assert_eq!(tag, old_tag);
    assert_eq!((new.cookie, new.tag_len, new.iv), (old.cookie, old.tag_len, old.iv));
}

#[test]
fn no_fault_changes_nothing() {
    let work = Work::seal(5);
    assert_eq!(spoilt(Fault::None, &work), (work.answer(), 0));
}

#[test]
fn a_delay_is_late_and_right() {
    let (work, delay) = (Work::seal(5), Duration::from_millis(30));
    let begun = Instant::now();
    assert_eq!(spoilt(Fault::Delay(delay), &work), (work.answer(), 1));
    assert!(begun.elapsed() >= delay);
}

#[test]
fn errors_fail_every_operation() {
    let work = Work::seal(5);
    let (after, injected) = spoilt(Fault::Errors, &work);
    (0..5).for_each(|index| assert_failed(&work, &after, index));
    assert_eq!(injected, 1);
}

#[test]
fn an_error_fails_its_own_operation_only() {
    // The way back begins with the lengths that the way there has left in the operations.
    let work = Work::seal(5).answer().inverse();
    let right = work.answer();
    for (k, failed) in [(0, 0), (4, 4), (5, 0), (13, 3)] {
        let (after, injected) = spoilt(Fault::ErrorAt(k), &work);
        assert_failed(&work, &after, failed);
        (0..5).filter(|index| *index != failed).for_each(|index| assert_eq!(after.op(index), right.op(index)));
        assert_eq!(injected, 1);
    }
}

#[test]
fn a_wrong_bit_is_the_one_asked_for() {
    let (work, right) = (Work::seal(5), Work::seal(5).answer());
    let bits = 8 * right.ops[0].output_len as usize;
    for (op, bit, at) in [(0, 0, (0, 0)), (2, 9, (2, 9)), (6, bits - 1, (1, bits - 1)), (4, bits + 3, (4, 3))] {
        let (after, injected) = spoilt(Fault::WrongBit { op, bit }, &work);
        let mut expected = right.clone();
        expected.arena[right.ops[at.0].output as usize + at.1 / 8] ^= 1 << (at.1 % 8);
        assert_eq!((after, injected), (expected, 1));
    }
}

#[test]
fn a_wrong_bit_passes_over_what_has_no_answer() {
    let mut work = Work::seal(4).answer().inverse();
    work.arena[work.ops[1].tag as usize] ^= 1;
    let right = work.answer();
    assert_eq!(right.ops[1].status, OpStatus::AuthFailed);
    let (after, _) = spoilt(Fault::WrongBit { op: 1, bit: 0 }, &work);
    assert_eq!(after.bits_apart(&right), 1);
    assert_ne!(after.op(2), right.op(2));
    assert_eq!(after.statuses(), right.statuses());
}

#[test]
fn an_unfinished_batch_stops_in_the_middle() {
    for (count, finished) in [(1, 0), (2, 1), (5, 2)] {
        let (work, right) = (Work::seal(count), Work::seal(count).answer());
        let (after, injected) = spoilt(Fault::Unfinished, &work);
        assert_eq!(injected, 1);
        (0..finished).for_each(|index| assert_eq!(after.op(index), right.op(index)));
        (finished + 1..count).for_each(|index| assert_eq!(after.op(index), work.op(index)));
        let ((begun, data, tag), (old, old_data, old_tag)) = (after.op(finished), work.op(finished));
        assert_eq!((begun, tag), (old, old_tag));
        let half = data.len() / 2;
        assert!(data[..half].iter().zip(old_data).all(|(new, old)| new != old));
        assert_eq!(data[half..], old_data[half..]);
    }
}

#[test]
fn a_panic_stops_in_the_middle_and_leaves_the_engine_usable() {
    let double = engine(Script::at(0, Fault::Panic));
    let mut queue = queue(&double);
    let work = Work::seal(4);
    let mut after = work.clone();
    let payload = after.run_caught(queue.as_mut()).expect_err("the script says panic");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"a panic by script"));
    assert_eq!((after, double.handle().injected()), spoilt(Fault::Unfinished, &work));
    assert_eq!(work.run(queue.as_mut()), work.answer());
}

#[test]
fn settled_operations_are_neither_touched_nor_counted() {
    let (work, right) = (Work::seal(6), Work::seal(6).answer());
    let settled = [0, 3];
    let faults: [(Fault, &[usize]); 6] = [
        (Fault::None, &[]),
        (Fault::Errors, &[1, 2, 4, 5]),
        (Fault::ErrorAt(2), &[4]),
        (Fault::WrongBit { op: 2, bit: 0 }, &[4]),
        (Fault::Unfinished, &[4, 5]),
        (Fault::Death, &[1, 2, 4, 5]),
    ];
    for (fault, spoilt) in faults {
        let double = engine(Script::always(fault));
        let after = work.run_settled(queue(&double).as_mut(), &settled);
        for index in 0..6 {
            let ((op, data, tag), (old, old_data, old_tag)) = (after.op(index), work.op(index));
            if settled.contains(&index) {
                assert!(matches!(op.status, OpStatus::Refused(_)), "{fault:?}");
                assert_eq!((op.output_len, data, tag), (old.output_len, old_data, old_tag), "{fault:?}");
            } else {
                assert_eq!(after.op(index) != right.op(index), spoilt.contains(&index), "{fault:?} {index}");
            }
        }
        assert_eq!(double.handle().injected(), u64::from(!spoilt.is_empty()));
    }
}

#[test]
fn a_batch_without_anything_to_spoil_is_not_counted() {
    let work = Work::seal(2);
    for fault in [Fault::Errors, Fault::ErrorAt(1), Fault::WrongBit { op: 1, bit: 1 }, Fault::Unfinished] {
        let double = engine(Script::always(fault));
        let mut queue = queue(&double);
        work.run_settled(queue.as_mut(), &[0, 1]);
        Work::seal(0).run(queue.as_mut());
        assert_eq!((double.handle().batches(), double.handle().injected()), (2, 0), "{fault:?}");
    }
}

#[test]
fn a_random_script_does_the_same_twice() {
    let weights = Weights { stall: 0, death: 0, panic: 0, delay_max: Duration::from_micros(10), ..Weights::default() };
    let work = Work::seal(7);
    let run_all = |seed| {
        let double = engine(Script::random(seed, weights));
        let mut queue = queue(&double);
        let answers: Vec<Work> = (0..200).map(|_| work.run(queue.as_mut())).collect();
        (answers, double.handle().injected())
    };
    let (answers, injected) = run_all(11);
    assert_eq!((&answers, injected), (&run_all(11).0, run_all(11).1));
    assert_ne!(answers, run_all(12).0);
    let script = Script::random(11, weights);
    assert_eq!(injected, (0..200).filter(|n| script.fault(*n) != Fault::None).count() as u64);
}
