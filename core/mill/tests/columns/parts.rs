//! Large columns in parts, on several threads at once: with the outcome that one thread has, and with engines that fail in
//! one of the parts.

use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{ThreadId, current};
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill, RunOptions, TrustPolicy};
use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, TagColumn};
use ciphermill_contract::{
    Capability, CheckedBatch, CheckedColumns, ColumnBatch, ColumnStatus, Cost, Direction, Engine, EngineInfo,
    EngineKind, EngineQueue, KeyMaterial, PreparedKey, QueueHint, Result, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, Script};

use crate::{NONCE, TAG, Table, aes_gcm, honest, import, mill_of, reference, suite};

pub(crate) const COUNT: usize = 1500;

/// In which of the parts an engine panics when it has half done it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Panics {
    Nowhere,
    OnTheCallersThread,
    OnAnother,
}

/// One run of columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) thread: ThreadId,
    queue: usize,
    pub(crate) len: usize,
    pub(crate) pending: usize,
    panicked: bool,
}

/// What the queues of an engine have in common.
pub(crate) struct Seen {
    pub(crate) caller: ThreadId,
    /// So many runs wait for each other, so that they can only end if they are side by side.
    together: usize,
    panics: Panics,
    ran: Mutex<Vec<Ran>>,
    begun: Condvar,
    queues: Mutex<usize>,
}

/// The reference, which notes who runs what of columns.
struct Watched {
    info: EngineInfo,
    capabilities: Vec<Capability>,
    inner: Arc<dyn Engine>,
    seen: Arc<Seen>,
}

struct WatchedQueue {
    number: usize,
    inner: Box<dyn EngineQueue>,
    seen: Arc<Seen>,
}

impl Engine for Watched {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        self.inner.prepare(key, suite)
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        let mut queues = self.seen.queues.lock().expect("nobody panics with it");
        *queues += 1;
        Ok(Box::new(WatchedQueue { number: *queues, inner: self.inner.queue(hint)?, seen: Arc::clone(&self.seen) }))
    }
}

impl EngineQueue for WatchedQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        self.inner.run(batch);
    }

    fn run_columns(&mut self, columns: &mut CheckedColumns<'_>) {
        let Seen { caller, together, panics, ran, begun, .. } = &*self.seen;
        let thread = current().id();
        let panicked = match panics {
            Panics::Nowhere => false,
            Panics::OnTheCallersThread => thread == *caller,
            Panics::OnAnother => thread != *caller && ran.lock().expect("is well").iter().all(|ran| !ran.panicked),
        };
        let mut runs = ran.lock().expect("nobody panics with it");
        let (queue, len, pending) = (self.number, columns.len(), columns.pending());
        runs.push(Ran { thread, queue, len, pending, panicked });
        begun.notify_all();
        let waited = begun.wait_timeout_while(runs, Duration::from_secs(20), |runs| runs.len() < *together);
        assert!(!waited.expect("nobody panics with it").1.timed_out(), "parts do not run side by side");
        if panicked {
            let half = columns.len() / 2;
            columns.parts().1[half..].fill(ColumnStatus::LEFT_OUT);
            self.inner.run_columns(columns);
            columns.parts().1[half..].fill(ColumnStatus::PENDING);
            resume_unwind(Box::new("a panic on purpose"));
        }
        self.inner.run_columns(columns);
    }
}

/// A mill of a watched engine, which it prefers, and the reference, with so many threads beside the caller's.
fn watched(workers: usize, panics: Panics) -> (Mill, Arc<Seen>) {
    watched_as(EngineKind::Library, workers, panics)
}

/// The same with an engine of any kind.
pub(crate) fn watched_as(kind: EngineKind, workers: usize, panics: Panics) -> (Mill, Arc<Seen>) {
    watched_by(kind, (workers, workers + 1), panics)
}

/// The same, whose batches run on `together` threads.
fn watched_by(kind: EngineKind, (workers, together): (usize, usize), panics: Panics) -> (Mill, Arc<Seen>) {
    let seen = Arc::new(Seen {
        caller: current().id(),
        together,
        panics,
        ran: Mutex::default(),
        begun: Condvar::new(),
        queues: Mutex::default(),
    });
    let inner = reference();
    let mut capabilities = inner.capabilities().to_vec();
    capabilities.iter_mut().for_each(|capability| capability.prior = Cost::new(0.0, 1.0, 0.01));
    let info = EngineInfo { name: "watched", kind, ..inner.info().clone() };
    let engine: Arc<dyn Engine> = Arc::new(Watched { info, capabilities, inner, seen: Arc::clone(&seen) });
    // An engine that panicked is back at once.
    let none = Duration::ZERO;
    let trust = TrustPolicy { witness_every: 0, quarantine_min: none, quarantine_max: none, ..TrustPolicy::default() };
    (mill_of([engine, reference()], trust, workers), seen)
}

impl Seen {
    /// What was run since the last call.
    pub(crate) fn take(&self) -> Vec<Ran> {
        std::mem::take(&mut *self.ran.lock().expect("nobody panics with it"))
    }

    /// Looks at one batch that was run on as many threads as should be: each had so many pending operations, or one more.
    fn one_batch(&self, pending: usize) {
        let ran = self.take();
        let mut threads: Vec<ThreadId> = Vec::new();
        ran.iter().for_each(|ran| {
            if !threads.contains(&ran.thread) {
                threads.push(ran.thread)
            }
        });
        assert_eq!((ran.len(), threads.len()), (self.together, self.together), "{ran:?}");
        assert!(threads.contains(&self.caller));
        assert_eq!(
            ran.iter().map(|ran| (ran.len, ran.pending)).fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1)),
            (COUNT, pending)
        );
        let least = pending / self.together;
        assert!(ran.iter().all(|ran| (least..=least + 1).contains(&ran.pending)), "{ran:?}");
    }
}

/// Seals a table under nonces of its index, so that it comes out the same each time.
pub(crate) fn seal(mill: &Mill, table: &mut Table) -> (usize, usize) {
    seal_with(mill, table, &RunOptions::default())
}

fn seal_with(mill: &Mill, table: &mut Table, options: &RunOptions<'_>) -> (usize, usize) {
    let key = import(mill, 32, KeyPolicy::default());
    for index in 0..table.statuses.len() {
        let start = table.sealed_offsets[index] as usize;
        table.sealed[start..start + 4].copy_from_slice(&(index as u32).to_le_bytes());
    }
    let columns = table.seal(key).with_ivs(IvColumn::Inline { len: NONCE });
    let report = mill.run_columns_with(columns, options).expect("runs");
    (report.done, report.failed)
}

/// Sealed by one thread.
pub(crate) fn sealed() -> Table {
    let mut table = Table::new(COUNT);
    assert_eq!(seal(&honest().0, &mut table), (COUNT, 0));
    table
}

/// A service has threads of its own on the cores that the mill knows nothing of.
#[test]
fn what_may_not_be_split_stays_on_its_thread() {
    let (mill, seen) = watched_by(EngineKind::Library, (3, 1), Panics::Nowhere);
    let mut table = Table::new(COUNT);
    let options = RunOptions { splits: false, ..RunOptions::default() };
    assert_eq!(seal_with(&mill, &mut table, &options), (COUNT, 0));
    seen.one_batch(COUNT);
}

#[test]
fn large_columns_run_on_several_threads_at_once() {
    let expected = sealed();
    for workers in [0, 1, 3] {
        let (mill, seen) = watched(workers, Panics::Nowhere);
        let mut table = Table::new(COUNT);
        assert_eq!(seal(&mill, &mut table), (COUNT, 0));
        assert!(table.sealed == expected.sealed && table.statuses == expected.statuses, "{workers} workers");
        seen.one_batch(COUNT);
        let metrics = mill.metrics();
        let engine = metrics.engines.iter().find(|engine| engine.engine == "watched").expect("has worked");
        let [of] = &engine.suites[..] else { panic!("on one suite") };
        assert_eq!((of.batches, of.operations.done), (1, COUNT as u64));
        // A batch in parts is always timed.
        assert!(workers == 0 || of.latency_ns.count() == 1);
        assert_eq!(of.input_bytes, table.clear.len() as u64);
    }
}

#[test]
fn damage_is_found_in_each_part_and_what_is_left_out_counts_in_none() {
    let mut table = sealed();
    let damaged = [601, 820, 1100, 1498];
    damaged.iter().for_each(|index| table.sealed[table.sealed_offsets[*index] as usize + NONCE + 3] ^= 0x10);
    // All at the front and some elsewhere, so that parts of as many operations would be unequal work.
    let left_out = |index: usize| index < 600 || index % 10 == 4 || index == COUNT - 1;
    let status = |index| if left_out(index) { ColumnStatus::LEFT_OUT } else { ColumnStatus::PENDING };
    let before: Vec<ColumnStatus> = (0..COUNT).map(status).collect();
    let pending = before.iter().filter(|status| status.is_pending()).count();
    let open = |mill: &Mill| {
        let key = import(mill, 32, KeyPolicy::default());
        let (mut opened, mut statuses) = (vec![0xaa; table.clear.len()], before.clone());
        let report = mill.run_columns(table.open(key, &mut opened, &mut statuses)).expect("runs");
        assert_eq!((report.done, report.failed), (pending - damaged.len(), damaged.len()));
        (opened, statuses)
    };
    let expected = open(&honest().0);
    assert!(damaged.iter().all(|index| expected.1[*index] == ColumnStatus::AUTH_FAILED));
    for workers in [1, 3] {
        let (mill, seen) = watched(workers, Panics::Nowhere);
        assert!(open(&mill) == expected, "{workers} workers");
        seen.one_batch(pending);
    }
}

#[test]
fn a_part_that_panics_is_run_elsewhere_and_its_queue_is_closed() {
    let expected = sealed();
    for panics in [Panics::OnTheCallersThread, Panics::OnAnother] {
        for workers in [1, 3] {
            let (mill, seen) = watched(workers, panics);
            let mut table = Table::new(COUNT);
            assert_eq!(seal(&mill, &mut table), (COUNT, 0), "{panics:?}");
            assert!(table.sealed == expected.sealed && table.statuses == expected.statuses, "{panics:?}");
            let ran = seen.take();
            let panicked: Vec<usize> = ran.iter().filter(|ran| ran.panicked).map(|ran| ran.queue).collect();
            assert_eq!((ran.len(), panicked.len()), (workers + 1, 1), "{panics:?}");
            let metrics = mill.metrics();
            let other = metrics.engines.iter().find(|engine| engine.engine == "reference").expect("is there");
            assert!(other.suites.iter().map(|of| of.operations.done).sum::<u64>() > 0, "{panics:?}");
            // It is tried again, on other queues.
            let mut table = Table::new(COUNT);
            assert_eq!(seal(&mill, &mut table), (COUNT, 0), "{panics:?}");
            let ran = seen.take();
            assert!(!ran.is_empty() && ran.iter().all(|ran| !panicked.contains(&ran.queue)), "{panics:?}: {ran:?}");
        }
    }
}

#[test]
fn in_place_only_the_part_that_panicked_is_lost() {
    const LEN: usize = 20 + NONCE + TAG;
    let columns = |data: &mut [u8], statuses: &mut [ColumnStatus], mill: &Mill| {
        let data = ColumnData::InPlace { data, extents: Extents::Strided { len: LEN, stride: LEN } };
        let batch = aes_gcm(data, Direction::Encrypt, statuses).with_ivs(IvColumn::Inline { len: NONCE });
        let report = mill.run_columns(batch.with_key(import(mill, 32, KeyPolicy::default()))).expect("runs");
        (report.done, report.failed)
    };
    let fresh = || (vec![0x55; COUNT * LEN], vec![ColumnStatus::PENDING; COUNT]);
    let (mut expected, mut statuses) = fresh();
    assert_eq!(columns(&mut expected, &mut statuses, &honest().0), (COUNT, 0));
    for (panics, lost) in [(Panics::OnTheCallersThread, 375..750), (Panics::OnAnother, 1125..1500)] {
        let (mill, _seen) = watched(1, panics);
        let (mut data, mut statuses) = fresh();
        assert_eq!(columns(&mut data, &mut statuses, &mill), (COUNT - lost.len(), lost.len()), "{panics:?}");
        for (index, (own, expected)) in data.chunks(LEN).zip(expected.chunks(LEN)).enumerate() {
            if lost.contains(&index) {
                assert_eq!(statuses[index], ColumnStatus::ENGINE_FAULT);
                assert!(own[NONCE..LEN - TAG].iter().all(|byte| *byte == 0));
            } else {
                assert!(statuses[index].is_done() && own == expected, "{panics:?}: {index}");
            }
        }
    }
}

/// The engine runs columns as ops, in two batches for each of two parts; one of the four fails.
#[test]
fn what_an_engine_fails_in_one_part_is_run_elsewhere() {
    let expected = sealed();
    for fault in [Fault::Errors, Fault::ErrorAt(3), Fault::Unfinished, Fault::Panic] {
        for at in 0..4 {
            let engine = FaultEngine::new("faulty", reference(), Script::at(at, fault)).with_kind(EngineKind::Library);
            let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.01));
            let handle = engine.handle();
            let trust = TrustPolicy { witness_every: 0, ..TrustPolicy::default() };
            let mill = mill_of([Arc::new(engine) as Arc<dyn Engine>, reference()], trust, 1);
            let mut table = Table::new(COUNT);
            assert_eq!(seal(&mill, &mut table), (COUNT, 0), "{fault:?} at {at}");
            assert!(table.sealed == expected.sealed, "{fault:?} at {at}");
            let batches = if fault == Fault::Panic { 3..=4 } else { 4..=4 };
            assert!(handle.injected() == 1 && batches.contains(&handle.batches()), "{fault:?} at {at}");
        }
    }
}

#[test]
fn a_thread_that_gets_no_queue_leaves_its_part_to_others() {
    // Calls: the key is prepared, this thread opens its queue, the other one does not get any.
    let engine = FaultEngine::new("faulty", reference(), Script::healthy()).with_kind(EngineKind::Library);
    let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.01)).with_call_script(Script::at(2, Fault::Errors));
    let handle = engine.handle();
    let trust = TrustPolicy { witness_every: 0, ..TrustPolicy::default() };
    let mill = mill_of([Arc::new(engine) as Arc<dyn Engine>, reference()], trust, 1);
    let mut table = Table::new(COUNT);
    assert_eq!(seal(&mill, &mut table), (COUNT, 0));
    assert!(table.sealed == sealed().sealed);
    assert_eq!((handle.injected(), handle.batches()), (1, 2), "two chunks of its own part");
}

/// Digests have neither keys nor outputs, and the last operation of a part ends where the next one's first begins.
#[test]
fn digests_are_cut_as_well() {
    let input: Vec<u8> = (0..COUNT * 9).map(|at| (at / 7) as u8).collect();
    let digests = |mill: &Mill| {
        let (mut statuses, mut digests) = (vec![ColumnStatus::PENDING; COUNT], vec![0; 32 * COUNT]);
        let data = ColumnData::Input { input: &input, inputs: Extents::Strided { len: 9, stride: 9 } };
        let batch = ColumnBatch::new(suite("sha256"), Direction::Encrypt, data, &mut statuses);
        let tags = TagColumn::Written { bytes: &mut digests, len: 32 };
        assert_eq!(mill.run_columns(batch.with_tags(tags).with_aad(AadColumn::None)).expect("runs").done, COUNT);
        digests
    };
    let (mill, seen) = watched(3, Panics::Nowhere);
    assert!(digests(&mill) == digests(&honest().0));
    seen.one_batch(COUNT);
}
