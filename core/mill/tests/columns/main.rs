//! Columns through a mill: the same answers as ops, keys and their policies, engines that fail, and large batches in
//! parts.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod offload;
mod parts;
mod transform;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ciphermill::{Costs, KeyPolicy, Mill, RunOptions, SelfTest, TrustPolicy};
use ciphermill_contract::columns::{AadColumn, ColumnData, Extents, IvColumn, KeyColumn, TagColumn};
use ciphermill_contract::error::Refusal;
use ciphermill_contract::{
    ColumnBatch, ColumnStatus, Cost, Direction, Directions, Engine, EngineKind, Error, KeyId, KeyMaterial, OpStatus,
    Reason, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};
use ciphermill_keys::now_unix_s;
use ciphermill_reference::Reference;

const NONCE: usize = 12;
const TAG: usize = 16;

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

fn reference() -> Arc<dyn Engine> {
    Arc::new(Reference::new())
}

fn mill(engines: impl IntoIterator<Item = Arc<dyn Engine>>, witness_every: u32) -> Mill {
    let trust = TrustPolicy { witness_every, ..TrustPolicy::default() };
    mill_of(engines, trust, 0)
}

/// A mill with so many threads of its own, for which waking one costs nothing.
fn mill_of(engines: impl IntoIterator<Item = Arc<dyn Engine>>, trust: TrustPolicy, workers: usize) -> Mill {
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let builder = Mill::builder().engines(engines).costs(costs).trust(trust).workers(workers);
    builder.self_test(SelfTest::Never).open().expect("opens")
}

/// A mill that prefers an engine with this script to the reference.
fn faulty(script: Script, kind: EngineKind, witness_every: u32) -> (Mill, FaultHandle) {
    let engine = FaultEngine::new("faulty", reference(), script).with_kind(kind).with_prior(Cost::new(0.0, 1.0, 0.01));
    let handle = engine.handle();
    (mill([Arc::new(engine) as Arc<dyn Engine>, reference()], witness_every), handle)
}

fn import(mill: &Mill, len: usize, policy: KeyPolicy) -> KeyId {
    let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
    mill.keys().import(KeyMaterial::secret(&bytes), policy).expect("room")
}

/// Values one behind the other with their offsets; the sealed ones have room for nonce and tag.
struct Table {
    clear: Vec<u8>,
    clear_offsets: Vec<i32>,
    sealed: Vec<u8>,
    sealed_offsets: Vec<i32>,
    statuses: Vec<ColumnStatus>,
}

impl Table {
    fn new(count: usize) -> Table {
        let (mut clear_offsets, mut sealed_offsets) = (vec![0], vec![0]);
        for index in 0..count as i32 {
            let len = index * 7 % 40;
            clear_offsets.push(clear_offsets[index as usize] + len);
            sealed_offsets.push(sealed_offsets[index as usize] + len + (NONCE + TAG) as i32);
        }
        let clear = (0..clear_offsets[count]).map(|at| at as u8).collect();
        let sealed = vec![0; sealed_offsets[count] as usize];
        Table { clear, clear_offsets, sealed, sealed_offsets, statuses: vec![ColumnStatus::PENDING; count] }
    }

    fn seal(&mut self, key: KeyId) -> ColumnBatch<'_> {
        let data = ColumnData::Separate {
            input: &self.clear,
            inputs: Extents::Offsets(&self.clear_offsets),
            output: &mut self.sealed,
            outputs: Extents::Offsets(&self.sealed_offsets),
        };
        aes_gcm(data, Direction::Encrypt, &mut self.statuses).with_key(key)
    }

    fn open<'t>(&'t self, key: KeyId, to: &'t mut [u8], statuses: &'t mut [ColumnStatus]) -> ColumnBatch<'t> {
        let data = ColumnData::Separate {
            input: &self.sealed,
            inputs: Extents::Offsets(&self.sealed_offsets),
            output: to,
            outputs: Extents::Offsets(&self.clear_offsets),
        };
        aes_gcm(data, Direction::Decrypt, statuses).with_key(key)
    }

    /// Whether every value is sealed so that an honest mill opens it, under a nonce of its own.
    fn is_right(&self, honest: &Mill, key: KeyId) -> bool {
        let mut opened = vec![0; self.clear.len()];
        let mut statuses = vec![ColumnStatus::PENDING; self.statuses.len()];
        let report = honest.run_columns(self.open(key, &mut opened, &mut statuses)).expect("runs");
        let starts = self.sealed_offsets[..self.statuses.len()].iter().map(|start| *start as usize);
        let nonces: HashSet<&[u8]> = starts.map(|start| &self.sealed[start..start + NONCE]).collect();
        report.failed == 0 && opened == self.clear && nonces.len() == self.statuses.len()
    }
}

fn aes_gcm<'a>(data: ColumnData<'a>, direction: Direction, statuses: &'a mut [ColumnStatus]) -> ColumnBatch<'a> {
    ColumnBatch::new(suite("aes-256-gcm"), direction, data, statuses)
        .with_ivs(IvColumn::Drawn { len: NONCE })
        .with_tags(TagColumn::After { len: TAG })
        .with_aad(AadColumn::One(b"column"))
}

/// A mill that gives right answers, and the name of the same key there.
fn honest() -> (Mill, KeyId) {
    let mill = mill([reference()], 0);
    let key = import(&mill, 32, KeyPolicy::default());
    (mill, key)
}

#[test]
fn sealed_columns_open_again_and_damage_is_found_where_it_is() {
    let (mill, key) = honest();
    let mut table = Table::new(1500);
    let report = mill.run_columns(table.seal(key)).expect("runs");
    assert_eq!((report.done, report.failed, report.route.name), (1500, 0, "reference"));
    assert!(table.is_right(&mill, key));
    table.sealed[table.sealed_offsets[700] as usize + 13] ^= 1;
    let mut opened = vec![0xaa; table.clear.len()];
    let mut statuses = vec![ColumnStatus::PENDING; 1500];
    statuses[3] = ColumnStatus::LEFT_OUT;
    let report = mill.run_columns(table.open(key, &mut opened, &mut statuses)).expect("runs");
    assert_eq!((report.done, report.failed), (1498, 1));
    assert_eq!((statuses[700], statuses[3]), (ColumnStatus::AUTH_FAILED, ColumnStatus::LEFT_OUT));
    let place = |index: usize| table.clear_offsets[index] as usize..table.clear_offsets[index + 1] as usize;
    assert!(opened[place(700)].iter().all(|byte| *byte == 0) && opened[place(3)].iter().all(|byte| *byte == 0xaa));
    assert_eq!(opened[place(701)], table.clear[place(701)]);
}

#[test]
fn each_operation_may_have_its_own_key_and_its_policy_is_asked() {
    let (mill, plain) = honest();
    let budget = import(&mill, 32, KeyPolicy::default().operations_max(2));
    let wrong = import(&mill, 32, KeyPolicy::only(suite("aes-128-gcm")));
    let gone = KeyId { slot: 4000, generation: 1 };
    let keys = [plain, budget, wrong, gone, budget, budget, plain];
    let mut table = Table::new(keys.len());
    let report = mill.run_columns(table.seal(plain).with_keys(KeyColumn::Each(&keys))).expect("runs");
    assert_eq!((report.done, report.failed), (4, 3));
    let refused = |reason| Some(OpStatus::Refused(reason));
    let done = Some(OpStatus::Done);
    let expected =
        [done, done, refused(Reason::KeySuite), refused(Reason::KeyUnknown), done, refused(Reason::KeyBudget), done];
    assert_eq!(table.statuses.iter().map(|status| status.status()).collect::<Vec<_>>(), expected);
    let all_plain = [plain; 7];
    table = Table::new(7);
    let report = mill.run_columns(table.seal(plain).with_keys(KeyColumn::Each(&all_plain))).expect("runs");
    assert!(report.failed == 0 && table.is_right(&mill, plain));
}

/// Keys are fetched and compared some at a time: wherever one stands that is allowed something else, it is found among others that are allowed
/// what the one before was.
#[test]
fn one_key_among_many_that_may_not_is_refused_wherever_it_stands() {
    let (mill, plain) = honest();
    let gcm = || KeyPolicy::only(suite("aes-256-gcm"));
    let expiry = now_unix_s() + 2;
    let usual = [
        KeyPolicy::default(),
        gcm(),
        gcm().directions(Directions::ENCRYPT),
        KeyPolicy::default().directions(Directions::ENCRYPT),
        KeyPolicy::default().expires_unix_s(u64::MAX - 1),
    ];
    let odd = [
        (KeyPolicy::only(suite("aes-128-gcm")), Reason::KeySuite),
        (gcm().directions(Directions::DECRYPT), Reason::KeyDirection),
        (KeyPolicy::default().directions(Directions::DECRYPT), Reason::KeyDirection),
        (KeyPolicy::default().expires_unix_s(expiry), Reason::KeyExpired),
        (KeyPolicy::default().operations_max(40), Reason::KeyBudget),
    ];
    let odd = odd.map(|(policy, reason)| (import(&mill, 32, policy), reason));
    for (key, _) in odd {
        // They were all used before, as far as they might be: a key that is not prepared is looked at once more.
        let (table, mut opened, mut statuses) = (Table::new(40), [0; 800], [ColumnStatus::PENDING; 40]);
        let opened = &mut opened[..table.clear.len()];
        mill.run_columns(table.open(key, opened, &mut statuses)).expect("runs");
    }
    while now_unix_s() < expiry {
        std::thread::sleep(Duration::from_millis(50));
    }
    for policy in usual {
        let keys: Vec<KeyId> = (0..200).map(|_| import(&mill, 32, policy.clone())).collect();
        for (odd, reason) in odd {
            for at in [0, 1, 63, 64, 199] {
                let (mut keys, mut table) = (keys.clone(), Table::new(200));
                keys[at] = odd;
                let report = mill.run_columns(table.seal(plain).with_keys(KeyColumn::Each(&keys))).expect("runs");
                assert_eq!((report.done, report.failed), (199, 1), "{reason:?} at {at}");
                assert_eq!(table.statuses[at].status(), Some(OpStatus::Refused(reason)), "at {at}");
            }
        }
    }
}

#[test]
fn what_a_mill_refuses_of_ops_it_refuses_of_columns() {
    let (mill, key) = honest();
    let mut statuses = [ColumnStatus::PENDING; 2];
    let extents = Extents::Strided { len: 8, stride: 8 };
    let mut bytes = [0; 16];
    let mut run = |name: &str, options: &RunOptions<'_>| {
        let data = ColumnData::InPlace { data: &mut bytes, extents };
        let batch = ColumnBatch::new(suite(name), Direction::Encrypt, data, &mut statuses).with_key(key);
        mill.run_columns_with(batch.with_ivs(IvColumn::Counter(&[0; 8])), options).expect_err("refused")
    };
    let usual = RunOptions::default();
    assert_eq!(run("des-cbc", &usual), Error::Refused(Refusal::LegacyDisabled(suite("des-cbc"))));
    assert_eq!(run("ed25519", &usual), Error::Refused(Refusal::NoColumns(suite("ed25519"))));
    let pinned = RunOptions { engine: Some("lanes"), ..RunOptions::default() };
    let mut table = Table::new(2);
    let error = mill.run_columns_with(table.seal(key), &pinned).expect_err("is not there");
    assert!(matches!(error, Error::Refused(Refusal::EngineUnavailable(_))));
    assert!(statuses.iter().chain(&table.statuses).all(|status| status.is_pending()));
}

#[test]
fn digests_need_no_key() {
    let (mill, _) = honest();
    let (mut statuses, mut digests) = ([ColumnStatus::PENDING; 3], [0; 96]);
    let data = ColumnData::Input { input: b"abcabcabc", inputs: Extents::Strided { len: 3, stride: 3 } };
    let batch = ColumnBatch::new(suite("sha256"), Direction::Encrypt, data, &mut statuses);
    let tags = TagColumn::Written { bytes: &mut digests, len: 32 };
    assert_eq!(mill.run_columns(batch.with_tags(tags)).expect("runs").done, 3);
    // FIPS 180-2, appendix B.1.
    assert!(digests.chunks(32).all(|digest| digest.starts_with(&[0xba, 0x78, 0x16, 0xbf])));
}

#[test]
fn what_an_engine_fails_is_run_elsewhere() {
    let (honest, known) = honest();
    let faults = [Fault::Errors, Fault::ErrorAt(3), Fault::Unfinished, Fault::Panic];
    for (fault, kind) in faults.into_iter().flat_map(|fault| [(fault, EngineKind::Library), (fault, EngineKind::Gpu)]) {
        let (mill, handle) = faulty(Script::at(0, fault), kind, 0);
        let key = import(&mill, 32, KeyPolicy::default());
        let mut table = Table::new(700);
        let report = mill.run_columns(table.seal(key)).expect("runs");
        assert_eq!((report.done, report.failed), (700, 0), "{fault:?} {kind}");
        assert!(table.is_right(&honest, known), "{fault:?} {kind}");
        assert!(handle.injected() > 0, "{fault:?} {kind}");
        let counted: u64 =
            mill.metrics().engines.iter().flat_map(|engine| &engine.suites).map(|of| of.operations.done).sum();
        assert!(counted >= 700, "{fault:?} {kind}: {counted} counted");
    }
}

#[test]
fn in_place_what_an_engine_began_is_lost_and_nothing_is_left_of_it() {
    let (mill, _) = faulty(Script::at(0, Fault::Panic), EngineKind::Library, 0);
    let key = import(&mill, 32, KeyPolicy::default());
    let len = 20 + NONCE + TAG;
    let (mut data, mut statuses) = (vec![0x55; 10 * len], vec![ColumnStatus::PENDING; 10]);
    let extents = Extents::Strided { len, stride: len };
    let batch = aes_gcm(ColumnData::InPlace { data: &mut data, extents }, Direction::Encrypt, &mut statuses);
    let report = mill.run_columns(batch.with_key(key));
    assert_eq!(report.map(|report| (report.done, report.failed)).ok(), Some((0, 10)));
    assert!(statuses.iter().all(|status| *status == ColumnStatus::ENGINE_FAULT));
    assert!(data.chunks(len).all(|value| value[NONCE..len - TAG].iter().all(|byte| *byte == 0)));
}

#[test]
fn a_wrong_bit_is_found_by_a_witness() {
    let (honest, known) = honest();
    for kind in [EngineKind::Library, EngineKind::Gpu] {
        let (mill, _) = faulty(Script::always(Fault::WrongBit { op: 0, bit: 5 }), kind, 1);
        let key = import(&mill, 32, KeyPolicy::default());
        // Few enough that a witness is asked of all of them.
        let mut table = Table::new(40);
        let report = mill.run_columns(table.seal(key)).expect("runs");
        assert_eq!((report.done, report.route.name), (40, "reference"), "{kind}");
        assert!(table.is_right(&honest, known), "{kind}");
        let metrics = mill.metrics();
        let faulty = metrics.engines.iter().find(|engine| engine.engine == "faulty").expect("is there");
        assert!(faulty.quarantined && faulty.suites.iter().map(|of| of.disagreements).sum::<u64>() == 1, "{kind}");
    }
}

#[test]
fn an_engines_status_that_stands_there_before_is_the_callers_fault() {
    let (mill, _) = faulty(Script::healthy(), EngineKind::Library, 0);
    let key = import(&mill, 32, KeyPolicy::default());
    for status in [ColumnStatus::ENGINE_FAULT, ColumnStatus::DONE, ColumnStatus::AUTH_FAILED] {
        let mut table = Table::new(9);
        table.statuses[5] = status;
        let error = mill.run_columns(table.seal(key)).expect_err("was not pending");
        assert_eq!(error, Error::misuse(5, Reason::NotPending));
        assert!(table.statuses[4].is_pending());
    }
    assert!(mill.metrics().engines.iter().all(|engine| !engine.quarantined));
}

#[test]
fn no_operation_at_all_is_no_error() {
    let (mill, key) = honest();
    let report = mill.run_columns(Table::new(0).seal(key)).expect("runs");
    assert_eq!((report.done, report.failed), (0, 0));
}
