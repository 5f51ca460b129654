//! The device among a mill's engines: batches find it, share it, survive it, and legacy suites do not slip past it.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use ciphermill::{Costs, KeyPolicy, Mill, MillBuilder, RouteReason, TrustPolicy};
use ciphermill_contract::{
    Batch, Cost, Direction, Engine, EngineKind, Error, KeyId, KeyMaterial, Op, OpStatus, Reason, Refusal, Span, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

/// Keys that the operations of a batch take in turn.
const KEYS: usize = 5;

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// The device, said to be fast, so that batches of a test's size go there.
fn fast(gpu: &Arc<Gpu>, script: Script) -> (Arc<dyn Engine>, FaultHandle) {
    let engine = FaultEngine::new("gpu", Arc::clone(gpu) as Arc<dyn Engine>, script).with_kind(EngineKind::Gpu);
    let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.001));
    let handle = engine.handle();
    (Arc::new(engine), handle)
}

/// A mill for which handing a batch over costs nothing. Its patience is long: PoCL compiles a kernel once more for the
/// first batch of another size, where a GPU does not.
fn empty() -> MillBuilder {
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy { stall_min: Duration::from_secs(120), ..TrustPolicy::default() };
    Mill::builder().costs(costs).trust(trust).workers(0)
}

/// The same with the reference, which takes every suite.
fn builder() -> MillBuilder {
    empty().engine(Arc::new(Reference::new()))
}

/// A batch of messages of all lengths up to a hundred that the suite takes.
struct Work {
    suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl Work {
    fn new(mill: &Mill, suite: Suite, count: usize, len: impl Fn(usize) -> usize) -> Work {
        let key_len = suite.default_key_len();
        let import = |number: usize| {
            let bytes: Vec<u8> = (0..key_len).map(|at| (31 * number + 7 * at + 1) as u8).collect();
            mill.keys().import(KeyMaterial::secret(&bytes), KeyPolicy::default()).expect("room")
        };
        let keys: Vec<KeyId> = if suite.needs_key() { (0..KEYS).map(import).collect() } else { vec![KeyId::NONE] };
        let (iv_len, tag_len) = (suite.default_iv_len(), suite.default_tag_len());
        let (mut ops, mut at) = (Vec::new(), 0);
        for number in 0..count {
            let len = len(number);
            let op = Op::in_place(keys[number % keys.len()], Span::new(at as u32, len as u32));
            let op = op.with_iv(&vec![number as u8; iv_len]);
            at += len;
            ops.push(if tag_len > 0 { op.with_tag(at as u32, tag_len as u16) } else { op });
            at += tag_len;
        }
        let arena = (0..at).map(|at| ((at * at) >> 3) as u8).collect();
        Work { suite, ops, arena }
    }

    fn batch(&mut self) -> Batch<'_> {
        Batch::new(self.suite, Direction::Encrypt, &mut self.ops, &mut self.arena)
    }
}

/// What the reference makes of the same work.
fn expected(suite: Suite, count: usize, len: impl Fn(usize) -> usize) -> Vec<u8> {
    let mill = builder().legacy(true).open().expect("opens");
    let mut work = Work::new(&mill, suite, count, len);
    assert_eq!(mill.run(work.batch()).expect("runs").done, count);
    work.arena
}

#[test]
fn batches_of_every_family_go_there_and_come_back_right() {
    let Some(gpu) = common::device() else { return };
    let mill = builder().engine(fast(gpu, Script::healthy()).0).legacy(true).open().expect("opens");
    for name in ["aes-256-ctr", "3des-cbc", "aes-128-gcm", "chacha20-poly1305", "sha512", "hmac-sha256"] {
        let suite = suite(name);
        let len = |number: usize| 8 * (1 + number % 12);
        let mut work = Work::new(&mill, suite, 300, len);
        let report = mill.run(work.batch()).expect("runs");
        assert_eq!((report.route.name, report.done, report.failed), ("gpu", 300, 0), "{name}: {:?}", report.route);
        assert_eq!(work.arena, expected(suite, 300, len), "{name}");
    }
}

#[test]
fn the_processor_and_the_device_share_a_batch() {
    let Some(gpu) = common::device() else { return };
    let alike = |name, engine: Arc<dyn Engine>, kind| {
        let engine = FaultEngine::new(name, engine, Script::healthy()).with_kind(kind);
        Arc::new(engine.with_prior(Cost::new(0.0, 2000.0, 0.0)))
    };
    let here = alike("here", Arc::new(Reference::new()), EngineKind::Library);
    let device = alike("gpu", Arc::clone(gpu) as Arc<dyn Engine>, EngineKind::Gpu);
    let mill = empty().engine(here).engine(device).workers(1).open().expect("opens");
    let mut work = Work::new(&mill, suite("aes-128-cbc"), 2000, |_| 64);
    let report = mill.run(work.batch()).expect("runs");
    assert_eq!((report.route.reason, report.done), (RouteReason::Share, 2000));
    assert_eq!(work.arena, expected(suite("aes-128-cbc"), 2000, |_| 64));
    let metrics = mill.metrics();
    let did = |engine: &ciphermill::EngineMetrics| engine.suites.iter().map(|one| one.operations.done).sum::<u64>();
    assert!(metrics.engines.iter().filter(|engine| did(engine) > 100).count() == 2, "both worked");
}

#[test]
fn what_the_device_fails_is_done_elsewhere() {
    let Some(gpu) = common::device() else { return };
    for fault in [Fault::Errors, Fault::Unfinished, Fault::Panic, Fault::Death] {
        let (engine, handle) = fast(gpu, Script::healthy());
        let mill = builder().engine(engine).open().expect("opens");
        let cbc = suite("aes-128-cbc");
        let mut work = Work::new(&mill, cbc, 200, |_| 48);
        assert_eq!(mill.run(work.batch()).expect("runs").route.name, "gpu");
        handle.set_script(Script::always(fault));
        let mut work = Work::new(&mill, cbc, 200, |_| 48);
        let report = mill.run(work.batch()).expect("runs");
        assert_eq!((report.done, report.failed), (200, 0), "{fault:?}");
        assert_eq!(work.arena, expected(cbc, 200, |_| 48), "{fault:?}");
        assert!(handle.injected() > 0, "{fault:?}");
    }
}

#[test]
fn a_destroyed_key_is_gone_from_the_device() {
    let Some(gpu) = common::device() else { return };
    let mill = builder().engine(fast(gpu, Script::healthy()).0).open().expect("opens");
    let mut work = Work::new(&mill, suite("aes-256-ctr"), 2 * KEYS, |_| 32);
    assert_eq!(mill.run(work.batch()).expect("runs").route.name, "gpu");
    mill.keys().destroy(work.ops[0].key).expect("it is there");
    work.ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
    let report = mill.run(work.batch()).expect("runs");
    assert_eq!((report.done, report.failed), (2 * KEYS - 2, 2));
    assert!(matches!(work.ops[0].status, OpStatus::Refused(Reason::KeyUnknown)), "{:?}", work.ops[0].status);
}

#[test]
fn legacy_suites_wait_for_the_policy() {
    let Some(gpu) = common::device() else { return };
    let legacy = |suite: &Suite| suite.is_legacy();
    let suites = gpu.capabilities().iter().flat_map(|capability| capability.suites.iter().copied()).filter(legacy);
    // Keys of public-key suites are not made of any bytes.
    let is_symmetric =
        |suite: &Suite| matches!(suite, Suite::Cipher(..) | Suite::Stream(_) | Suite::Digest(_) | Suite::Mac(_));
    let suites: Vec<Suite> = suites.filter(is_symmetric).collect();
    assert!(suites.contains(&suite("rc4")) && suites.contains(&suite("des-cbc")));
    let strict = builder().engine(fast(gpu, Script::healthy()).0).open().expect("opens");
    let open = builder().engine(fast(gpu, Script::healthy()).0).legacy(true).open().expect("opens");
    for suite in suites {
        let mut work = Work::new(&strict, suite, 8, |_| 64);
        let refused = strict.run(work.batch()).expect_err("not enabled");
        assert!(matches!(refused, Error::Refused(Refusal::LegacyDisabled(_))), "{suite}: {refused:?}");
        let mut work = Work::new(&open, suite, 8, |_| 64);
        assert_eq!(open.run(work.batch()).expect("runs").done, 8, "{suite}");
    }
}
