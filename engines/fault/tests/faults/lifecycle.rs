//! Stalls, death, revival, and what the handle sees of them.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Engine, EngineQueue, Error, KeyMaterial, OpStatus, QueueHint};
use ciphermill_fault::{AfterStall, Fault, FaultEngine, Script};

use crate::work::{GCM, Work, engine, queue};

/// Long enough for anything that has to happen; nothing waits for it to pass.
const SOON: Duration = Duration::from_secs(20);

fn stalls() -> Script {
    Script::always(Fault::Stall).stall_max(3 * SOON)
}

/// Runs a batch on a thread of its own.
fn spawn(double: &FaultEngine) -> Receiver<Work> {
    let mut queue = queue(double);
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(Work::seal(3).run(queue.as_mut())));
    receiver
}

/// The batch, which must come back long before its stall would end by itself.
fn join(run: Receiver<Work>) -> Work {
    run.recv_timeout(SOON).expect("the run ends")
}

#[test]
fn stalled_runs_block_until_they_are_released() {
    let double = engine(stalls());
    let handle = double.handle();
    let runs = [spawn(&double), spawn(&double)];
    assert!(handle.wait_until_stalled(2, SOON));
    assert!(!handle.wait_until_stalled(3, Duration::from_millis(5)));
    assert_eq!((handle.stalled(), handle.batches(), handle.injected()), (2, 2, 2));
    assert!(runs.iter().all(|run| run.try_recv() == Err(TryRecvError::Empty)));

    handle.release();
    for run in runs {
        assert_eq!(join(run), Work::seal(3).answer());
    }
    assert_eq!(handle.stalled(), 0);

    let later = spawn(&double);
    assert!(handle.wait_until_stalled(1, SOON), "a release is for those that stall when it comes");
    handle.clone().release();
    assert!(join(later).is_all(OpStatus::Done));
}

#[test]
fn released_runs_may_fail_instead() {
    let double = engine(stalls().after_stall(AfterStall::Fail));
    let run = spawn(&double);
    assert!(double.handle().wait_until_stalled(1, SOON));
    double.handle().release();
    assert!(join(run).is_all(OpStatus::EngineFault));
}

#[test]
fn a_stall_ends_by_itself_at_its_limit() {
    let limit = Duration::from_millis(30);
    let double = engine(Script::always(Fault::Stall).stall_max(limit));
    let begun = Instant::now();
    assert_eq!(join(spawn(&double)), Work::seal(3).answer());
    assert!(begun.elapsed() >= limit);
}

#[test]
fn a_stall_ends_when_nobody_is_left_to_end_it() {
    let double = engine(stalls());
    let handle = double.handle();
    let mut second = queue(&double);
    let run = spawn(&double);
    assert!(handle.wait_until_stalled(1, SOON));
    drop(double);
    assert_eq!(handle.stalled(), 1, "the handle is still there");
    drop(handle);
    assert!(join(run).is_all(OpStatus::Done));
    assert!(Work::seal(3).run(second.as_mut()).is_all(OpStatus::Done), "later stalls do not begin");
}

#[test]
fn killing_fails_what_stalls_or_waits_even_when_it_is_revived_at_once() {
    for fault in [Fault::Stall, Fault::Delay(3 * SOON)] {
        let double = engine(Script::always(fault).stall_max(3 * SOON));
        let handle = double.handle();
        let run = spawn(&double);
        while handle.injected() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        handle.kill();
        handle.revive();
        assert!(join(run).is_all(OpStatus::EngineFault), "{fault:?}");
        assert!(!handle.is_dead());
    }
}

fn assert_dead(double: &FaultEngine, queue: &mut dyn EngineQueue) {
    let unavailable = Error::fault("double", FaultKind::Unavailable);
    let key = KeyMaterial::secret(&[1; 16]);
    assert_eq!(double.prepare(&key, GCM).err(), Some(unavailable.clone()));
    let many = double.prepare_many(&[key; 2], GCM);
    assert!(many.len() == 2 && many.iter().all(|one| one.as_ref().err() == Some(&unavailable)));
    assert_eq!(double.queue(QueueHint::default()).err(), Some(unavailable));
    let after = Work::seal(2).run(queue);
    assert!(after.is_all(OpStatus::EngineFault));
    assert!(after.ops.iter().all(|op| after.arena[op.input.range()].iter().all(|byte| *byte == 0)));
    assert!(double.handle().is_dead());
}

fn assert_alive(double: &FaultEngine, queue: &mut dyn EngineQueue) {
    assert!(double.prepare(&KeyMaterial::secret(&[1; 16]), GCM).is_ok());
    assert!(double.queue(QueueHint::default()).is_ok());
    assert_eq!(Work::seal(2).run(queue), Work::seal(2).answer());
    assert!(!double.handle().is_dead());
}

#[test]
fn a_dead_engine_fails_everything_until_it_is_revived() {
    let double = engine(Script::sequence(vec![Fault::None, Fault::Death, Fault::None, Fault::Errors]));
    let handle = double.handle();
    let (mut first, mut second) = (queue(&double), queue(&double));
    assert_alive(&double, first.as_mut());
    assert!(Work::seal(2).run(first.as_mut()).is_all(OpStatus::EngineFault));
    assert_dead(&double, first.as_mut());
    assert_dead(&double, second.as_mut());
    assert_eq!((handle.batches(), handle.injected(), handle.refused()), (2, 1, 2));

    handle.revive();
    assert_alive(&double, second.as_mut());
    // The script goes on behind the death: what the dead engine refused was not counted.
    assert!(Work::seal(2).run(first.as_mut()).is_all(OpStatus::EngineFault));
    assert!(!handle.is_dead());
    assert_alive(&double, first.as_mut());
}

#[test]
fn killing_and_reviving_from_outside() {
    let double = engine(Script::healthy());
    let mut queue = queue(&double);
    double.handle().kill();
    assert_dead(&double, queue.as_mut());
    double.handle().revive();
    assert_alive(&double, queue.as_mut());
    assert_eq!((double.handle().injected(), double.handle().refused()), (0, 1));
}

#[test]
fn a_new_script_counts_from_its_own_start() {
    let double = engine(Script::healthy());
    let handle = double.handle();
    let mut queue = queue(&double);
    for _ in 0..3 {
        assert_alive(&double, queue.as_mut());
    }
    handle.set_script(Script::at(1, Fault::Errors));
    assert_alive(&double, queue.as_mut());
    assert!(Work::seal(2).run(queue.as_mut()).is_all(OpStatus::EngineFault));
    assert_alive(&double, queue.as_mut());
    assert_eq!((handle.batches(), handle.injected()), (6, 1));
}

#[test]
fn calls_that_are_not_batches_have_a_script_of_their_own() {
    let calls = vec![Fault::None, Fault::Errors, Fault::Panic, Fault::Delay(Duration::from_micros(1)), Fault::Death];
    let double = engine(Script::healthy()).with_call_script(Script::sequence(calls));
    let handle = double.handle();
    let prepare = || double.prepare(&KeyMaterial::secret(&[7; 16]), GCM).map(|_| ());
    let fault = |kind| Err(Error::fault("double", kind));
    assert_eq!(prepare(), Ok(()));
    assert_eq!(double.queue(QueueHint::default()).map(|_| ()), fault(FaultKind::Call(0)), "counted together");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(prepare)).is_err());
    assert_eq!(prepare(), Ok(()), "late");
    assert_eq!(prepare(), fault(FaultKind::Call(0)));
    assert!(handle.is_dead());
    assert_eq!(prepare(), fault(FaultKind::Unavailable));
    assert_eq!((handle.injected(), handle.batches(), handle.refused()), (4, 0, 0));
    handle.revive();
    handle.set_call_script(Script::at(1, Fault::Errors));
    assert_eq!((prepare(), prepare()), (Ok(()), fault(FaultKind::Call(0))), "counted anew");
}
