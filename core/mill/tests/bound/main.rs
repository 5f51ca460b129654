//! Operations through a handle: the same outcomes as one by one, and all that may change between two of them.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod alone;
mod engines;
mod keys;
mod metrics;
mod multi_part;
mod rules;
mod suites;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ciphermill::{Bound, BoundOp, Costs, KeyPolicy, Mill, One, OneDone, SelfTest, TrustPolicy};
use ciphermill_contract::{
    Batch, Cost, Direction, Engine, EngineKind, KeyId, KeyMaterial, Op, OpStatus, Result, Span, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};
use ciphermill_reference::Reference;

pub(crate) const QUARANTINE: Duration = Duration::from_millis(200);

/// Operations after which the way is found out anew.
pub(crate) const WAY_OPS: usize = 64;

pub(crate) fn reference() -> Arc<dyn Engine> {
    static REFERENCE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    Arc::clone(REFERENCE.get_or_init(|| Arc::new(Reference::new())))
}

/// The reference posing as an engine on this processor that is so fast that everything on it is short, unless its script
/// says otherwise.
pub(crate) fn fast(name: &'static str, script: Script) -> (Arc<dyn Engine>, FaultHandle) {
    faulty(name, script, EngineKind::Library)
}

pub(crate) fn faulty(name: &'static str, script: Script, kind: EngineKind) -> (Arc<dyn Engine>, FaultHandle) {
    let engine = FaultEngine::new(name, reference(), script).with_kind(kind).with_prior(Cost::new(0.0, 1.0, 0.001));
    let handle = engine.handle();
    (Arc::new(engine), handle)
}

/// The reference, so slow by its own figures that it is nobody's first choice whatever is learnt of the others.
pub(crate) fn last_resort() -> Arc<dyn Engine> {
    let engine = FaultEngine::new("reference", reference(), Script::healthy()).with_kind(EngineKind::Reference);
    Arc::new(engine.with_prior(Cost::new(0.0, 1e9, 0.0)))
}

pub(crate) fn mill(engines: impl IntoIterator<Item = Arc<dyn Engine>>, witness_every: u32) -> Mill {
    let trust = TrustPolicy { witness_every, quarantine_min: QUARANTINE, ..TrustPolicy::default() };
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let builder = Mill::builder().engines(engines).trust(trust).costs(costs).legacy(true).workers(0);
    builder.self_test(SelfTest::Never).open().expect("opens")
}

pub(crate) fn gcm() -> Suite {
    "aes-128-gcm".parse().expect("a suite")
}

pub(crate) fn import(mill: &Mill, policy: KeyPolicy) -> KeyId {
    mill.keys().import(KeyMaterial::secret(&[7; 16]), policy).expect("room")
}

/// Numbers from a seed (SplitMix64, Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// An operation with buffers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) input_len: usize,
    pub(crate) tag: Vec<u8>,
}

impl Message {
    /// A message of `len` bytes to be sealed with AES-GCM.
    pub(crate) fn gcm(number: usize, len: usize) -> Message {
        let mut random = Random(number as u64);
        let (iv, aad, data) = (random.bytes(12), random.bytes(number % 20), random.bytes(len));
        Message { iv, aad, data, input_len: len, tag: vec![0; 16] }
    }

    pub(crate) fn run_one(&mut self, mill: &Mill, way: (Suite, Direction), key: KeyId) -> Result<OneDone> {
        let Message { iv, aad, data, input_len, tag } = self;
        mill.run_one(way.0, way.1, One { key, iv, aad, data, input_len: *input_len, tag })
    }

    pub(crate) fn run(&mut self, bound: &mut Bound) -> Result<OneDone> {
        let Message { iv, aad, data, input_len, tag } = self;
        bound.run(BoundOp { iv, aad, data, input_len: *input_len, tag })
    }

    /// What the reference makes of it.
    pub(crate) fn sealed(mut self) -> Message {
        static ORACLE: OnceLock<(Mill, KeyId)> = OnceLock::new();
        let (oracle, key) = ORACLE.get_or_init(|| {
            let oracle = mill([reference()], 0);
            let key = import(&oracle, KeyPolicy::default());
            (oracle, key)
        });
        let done = self.run_one(oracle, (gcm(), Direction::Encrypt), *key).expect("runs");
        assert_eq!(done.status, OpStatus::Done);
        self
    }
}

/// Seals a message through a handle and compares it with what it should be.
pub(crate) fn seal(bound: &mut Bound, number: usize) {
    let message = Message::gcm(number, 8 + number % 90);
    let mut own = message.clone();
    let done = own.run(bound).expect("runs");
    assert_eq!((done.status, done.output_len, done.tag_len), (OpStatus::Done, own.data.len(), 16), "{number}");
    assert!(own == message.sealed(), "message {number}");
}

/// The status of the next operation.
pub(crate) fn status(bound: &mut Bound) -> OpStatus {
    Message::gcm(1, 16).run(bound).expect("runs").status
}

/// Has an engine be quarantined by another thread's work: three batches that it fails.
pub(crate) fn have_quarantined(mill: &Mill, handle: &FaultHandle) {
    let key = import(mill, KeyPolicy::default());
    handle.set_script(Script::always(Fault::Errors));
    for _ in 0..3 {
        let mut ops = [Op::in_place(key, Span::new(0, 16)).with_output(16).with_iv(&[1; 12]).with_tag(32, 16)];
        let mut arena = [0; 48];
        let batch = Batch::new(gcm(), Direction::Encrypt, &mut ops, &mut arena);
        mill.run(batch).expect("somebody runs it");
    }
    handle.set_script(Script::healthy());
}
