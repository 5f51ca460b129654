//! Columns on an offload engine: from a copy as they lie, alone or in shares with this processor, and elsewhere when it
//! fails.

use std::sync::Arc;
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill, RouteReason, TrustPolicy};
use ciphermill_contract::columns::{ColumnData, Extents, IvColumn, KeyColumn};
use ciphermill_contract::{
    ColumnBatch, ColumnStatus, Cost, Direction, Engine, EngineKind, EngineKinds, KeyId, OpStatus, Reason,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};

use crate::parts::{COUNT, Panics, seal, sealed, watched_as};
use crate::{NONCE, TAG, Table, aes_gcm, honest, import, mill_of, reference, suite};

/// A mill of an offload engine with this script, which it prefers, and the reference.
fn offload(script: Script) -> (Mill, FaultHandle) {
    let engine = FaultEngine::new("device", reference(), script).with_kind(EngineKind::Gpu);
    let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.01));
    let handle = engine.handle();
    // Quarantine outlasts the test, however slowly that runs.
    let (stall_min, quarantine_min, quarantine_max) =
        (Duration::from_millis(200), Duration::from_secs(600), Duration::from_secs(600));
    let trust = TrustPolicy { witness_every: 0, stall_min, quarantine_min, quarantine_max, ..TrustPolicy::default() };
    (mill_of([Arc::new(engine) as Arc<dyn Engine>, reference()], trust, 0), handle)
}

#[test]
fn columns_stay_columns_on_the_engines_own_thread() {
    let expected = sealed();
    let (mill, seen) = watched_as(EngineKind::Gpu, 0, Panics::Nowhere);
    let mut table = Table::new(COUNT);
    assert_eq!(seal(&mill, &mut table), (COUNT, 0));
    assert!(table.sealed == expected.sealed && table.statuses == expected.statuses);
    let [ran] = seen.take()[..] else { panic!("one run") };
    assert_eq!((ran.len, ran.pending), (COUNT, COUNT));
    assert_ne!(ran.thread, seen.caller);
    let metrics = mill.metrics();
    let engine = metrics.engines.iter().find(|engine| engine.engine == "watched").expect("has worked");
    let [of] = &engine.suites[..] else { panic!("on one suite") };
    assert_eq!((of.batches, of.operations.done), (1, COUNT as u64));
}

#[test]
fn what_is_left_out_and_what_is_damaged_is_so_there_as_well() {
    let (mill, seen) = watched_as(EngineKind::Gpu, 0, Panics::Nowhere);
    let key = import(&mill, 32, KeyPolicy::default());
    let mut table = sealed();
    table.sealed[table.sealed_offsets[700] as usize + NONCE] ^= 1;
    let (mut opened, mut statuses) = (vec![0xaa; table.clear.len()], vec![ColumnStatus::PENDING; COUNT]);
    statuses[11] = ColumnStatus::LEFT_OUT;
    let report = mill.run_columns(table.open(key, &mut opened, &mut statuses)).expect("runs");
    assert_eq!((report.done, report.failed), (COUNT - 2, 1));
    let [ran] = seen.take()[..] else { panic!("one run") };
    assert_eq!((ran.len, ran.pending), (COUNT, COUNT - 1));
    assert_eq!((statuses[700], statuses[11]), (ColumnStatus::AUTH_FAILED, ColumnStatus::LEFT_OUT));
    for index in 0..COUNT {
        let place = table.clear_offsets[index] as usize..table.clear_offsets[index + 1] as usize;
        match index {
            700 => assert!(opened[place].iter().all(|byte| *byte == 0)),
            11 => assert!(opened[place].iter().all(|byte| *byte == 0xaa)),
            _ => assert_eq!(opened[place.clone()], table.clear[place]),
        }
    }
}

/// Values of 20 bytes between room for nonce and tag, in place.
fn in_place<'a>(data: &'a mut [u8], statuses: &'a mut [ColumnStatus]) -> ColumnBatch<'a> {
    let len = 20 + NONCE + TAG;
    let extents = Extents::Strided { len, stride: len };
    aes_gcm(ColumnData::InPlace { data, extents }, Direction::Encrypt, statuses)
        .with_ivs(IvColumn::Inline { len: NONCE })
}

/// Since the engine had a copy.
#[test]
fn in_place_nothing_is_lost() {
    let run = |mill: &Mill| {
        let key = import(mill, 32, KeyPolicy::default());
        let (mut data, mut statuses) = (vec![0x55; 50 * (20 + NONCE + TAG)], vec![ColumnStatus::PENDING; 50]);
        let report = mill.run_columns(in_place(&mut data, &mut statuses).with_key(key)).expect("runs");
        assert_eq!((report.done, report.failed), (50, 0));
        data
    };
    let expected = run(&honest().0);
    for fault in [Fault::None, Fault::Errors, Fault::ErrorAt(3), Fault::Unfinished, Fault::Panic, Fault::Death] {
        let (mill, handle) = offload(Script::at(0, fault));
        assert!(run(&mill) == expected, "{fault:?}");
        assert!(fault == Fault::None || handle.injected() > 0, "{fault:?}");
    }
}

#[test]
fn a_caller_does_not_wait_for_an_engine_that_hangs() {
    let expected = sealed();
    let (mill, handle) = offload(Script::always(Fault::Stall));
    let mut table = Table::new(COUNT);
    assert_eq!(seal(&mill, &mut table), (COUNT, 0));
    assert!(table.sealed == expected.sealed && handle.injected() > 0);
    let metrics = mill.metrics();
    let device = metrics.engines.iter().find(|engine| engine.engine == "device").expect("is there");
    let [of] = &device.suites[..] else { panic!("one suite") };
    assert!(device.quarantined && of.operations.engine_fault == COUNT as u64 && of.operations.done == 0);
    // What it says later reaches nobody.
    table.sealed.fill(0x77);
    handle.release();
    std::thread::sleep(Duration::from_millis(50));
    assert!(table.sealed.iter().all(|byte| *byte == 0x77));
}

#[test]
fn keys_differ_and_their_policies_are_asked() {
    let (mill, seen) = watched_as(EngineKind::Gpu, 0, Panics::Nowhere);
    let (honest, known) = honest();
    let one = import(&mill, 32, KeyPolicy::default());
    let keys = vec![one; 90];
    let mut table = Table::new(90);
    let report = mill.run_columns(table.seal(one).with_keys(KeyColumn::Each(&keys))).expect("runs");
    assert!(report.failed == 0 && table.is_right(&honest, known));
    assert_eq!(seen.take().len(), 1, "as columns");
    let here_only = import(&mill, 32, KeyPolicy::default().engines(EngineKinds::NONE.with(EngineKind::Reference)));
    let gone = KeyId { slot: 4000, generation: 1 };
    let mut table = Table::new(3);
    let report = mill.run_columns(table.seal(one).with_keys(KeyColumn::Each(&[one, here_only, gone]))).expect("runs");
    assert_eq!((report.done, report.failed), (2, 1));
    assert!(seen.take().is_empty(), "policies that differ are for ops");
}

#[test]
fn the_processor_and_a_device_share_columns() {
    let engine = |name, kind, script| {
        let engine = FaultEngine::new(name, reference(), script).with_kind(kind);
        Arc::new(engine.with_prior(Cost::new(0.0, 1000.0, 0.0))) as Arc<dyn Engine>
    };
    let expected = sealed();
    for fault in [Fault::None, Fault::Errors, Fault::Unfinished, Fault::Panic] {
        let here = engine("here", EngineKind::Library, Script::healthy());
        let device = engine("device", EngineKind::Gpu, Script::at(0, fault));
        let trust = TrustPolicy { witness_every: 0, ..TrustPolicy::default() };
        let mill = mill_of([here, device], trust, 1);
        let mut table = Table::new(COUNT);
        table.statuses[5] = ColumnStatus::LEFT_OUT;
        let key = import(&mill, 32, KeyPolicy::default());
        table.sealed.copy_from_slice(&expected.sealed);
        let report = mill.run_columns(table.seal(key).with_ivs(IvColumn::Inline { len: NONCE })).expect("runs");
        assert_eq!((report.done, report.failed), (COUNT - 1, 0), "{fault:?}");
        assert_eq!(report.route.reason, RouteReason::Share, "{fault:?}");
        assert!(table.sealed == expected.sealed && table.statuses[5] == ColumnStatus::LEFT_OUT, "{fault:?}");
        let metrics = mill.metrics();
        let did = |name: &str| -> u64 {
            let engines = metrics.engines.iter().filter(|engine| engine.engine == name);
            engines.flat_map(|engine| &engine.suites).map(|of| of.operations.done).sum()
        };
        assert!(fault != Fault::None || did("here") >= 300 && did("device") >= 300, "{fault:?}");
    }
}

#[test]
fn digests_go_there_as_well() {
    let (mill, handle) = offload(Script::healthy());
    let run = |mill: &Mill| {
        let (mut statuses, mut digests) = ([ColumnStatus::PENDING; 40], [0; 40 * 32]);
        let input: Vec<u8> = (0..40 * 9).map(|at| at as u8).collect();
        let data = ColumnData::Input { input: &input, inputs: Extents::Strided { len: 9, stride: 9 } };
        let batch = ColumnBatch::new(suite("sha256"), Direction::Encrypt, data, &mut statuses);
        let tags = ciphermill_contract::columns::TagColumn::Written { bytes: &mut digests, len: 32 };
        assert_eq!(mill.run_columns(batch.with_tags(tags)).expect("runs").done, 40);
        digests
    };
    assert!(run(&mill) == run(&honest().0) && handle.batches() > 0);
}

/// What an engine refuses one key with concerns that key's operations alone, and nobody else is there to run them.
#[test]
fn a_key_that_does_not_suit_is_told_by_its_operations() {
    let engine = FaultEngine::new("device", reference(), Script::healthy()).with_kind(EngineKind::Gpu);
    let mill = mill_of([Arc::new(engine) as Arc<dyn Engine>], TrustPolicy::default(), 0);
    let (good, short) = (import(&mill, 32, KeyPolicy::default()), import(&mill, 5, KeyPolicy::default()));
    let keys: Vec<KeyId> = (0..40).map(|index| if index == 7 { short } else { good }).collect();
    let mut table = Table::new(40);
    let report = mill.run_columns(table.seal(good).with_keys(KeyColumn::Each(&keys))).expect("runs");
    assert_eq!((report.done, report.failed, report.route.name), (39, 1, "device"));
    assert_eq!(table.statuses[7].status(), Some(OpStatus::Refused(Reason::KeyUnsuitable)));
    assert!(mill.metrics().engines.iter().all(|engine| !engine.quarantined));
}

/// A key that could not be had is no fault of the whole engine: ops ask for it again, and the device does the work.
#[test]
fn a_key_that_an_engine_fails_is_asked_for_again() {
    let (mill, handle) = offload(Script::healthy());
    // Behind the call that opens its queue, as often as a run asks.
    handle.set_call_script(Script::sequence(vec![Fault::None, Fault::Errors, Fault::Errors]));
    let key = import(&mill, 32, KeyPolicy::default());
    let mut table = Table::new(60);
    let report = mill.run_columns(table.seal(key)).expect("runs");
    assert_eq!((report.done, report.route.name), (60, "device"));
    assert!(mill.metrics().engines.iter().all(|engine| !engine.quarantined) && handle.batches() > 0);
}

#[test]
fn values_that_lie_far_apart_go_as_operations() {
    let (mill, seen) = watched_as(EngineKind::Gpu, 0, Panics::Nowhere);
    let run = |mill: &Mill| {
        let key = import(mill, 32, KeyPolicy::default());
        let (mut data, mut statuses) = (vec![0x55; 50 * 4096], vec![ColumnStatus::PENDING; 50]);
        let extents = Extents::Strided { len: 20 + NONCE + TAG, stride: 4096 };
        let batch = aes_gcm(ColumnData::InPlace { data: &mut data, extents }, Direction::Encrypt, &mut statuses);
        let batch = batch.with_ivs(IvColumn::Inline { len: NONCE }).with_key(key);
        assert_eq!(mill.run_columns(batch).expect("runs").done, 50);
        data
    };
    assert!(run(&mill) == run(&honest().0));
    assert!(seen.take().is_empty());
}
