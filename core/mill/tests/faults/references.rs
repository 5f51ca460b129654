//! Keys that an engine alone has: what it signs, and what numbers it raises, is verified with their public halves before anybody gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ciphermill::{KeyPolicy, Mill, RunOptions, TrustPolicy};
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{
    Batch, Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm,
    KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Result, Span, Suite, capability::Directions,
};
use ciphermill_vectors::job::{Job, key_of, pack};
use ciphermill_vectors::{Case, known_answer};

use crate::reference;

/// A token with one key, called `signer`: the one of the suite's known answer.
struct Keeper {
    info: EngineInfo,
    capabilities: Vec<Capability>,
    lies: Arc<AtomicBool>,
    above: Arc<AtomicBool>,
    /// What it tells of its key instead of the public half.
    other_half: Option<Vec<u8>>,
}

/// The key within the token, and what that tells of it.
struct Kept {
    key: PreparedKey,
    half: Vec<u8>,
}

struct KeeperQueue {
    inner: Box<dyn EngineQueue>,
    lies: Arc<AtomicBool>,
    /// Its lies are numbers above every modulus.
    above: Arc<AtomicBool>,
}

impl Keeper {
    fn new(name: &'static str, suite: &'static [Suite], op_ns: f64, lies: &Arc<AtomicBool>) -> Keeper {
        let info = EngineInfo { name, kind: EngineKind::Token, parallelism: 1, ..reference().info().clone() };
        let own = if suite[0] == raw()[0] { Directions::DECRYPT } else { Directions::ENCRYPT };
        let capability = Capability::new(suite, Cost::new(0.0, op_ns, 0.0)).directions(own);
        Keeper { info, capabilities: vec![capability], lies: Arc::clone(lies), above: Arc::default(), other_half: None }
    }
}

impl Engine for Keeper {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        if key.form != KeyForm::Reference || key.bytes != b"signer" {
            return Err(Error::key(suite, KeyProblem::Form));
        }
        let case = case_of(suite);
        let own = key_of(case, Direction::Encrypt).expect("a key");
        let half = key_of(case, Direction::Decrypt).expect("a key").bytes.to_vec();
        let half = self.other_half.clone().unwrap_or(half);
        let key = reference().prepare(&own, suite)?;
        Ok(PreparedKey::for_suite(suite, Kept { key, half }))
    }

    fn public_half<'k>(&self, key: &'k PreparedKey, suite: Suite) -> Option<&'k [u8]> {
        key.state_for::<Kept>(suite.into()).map(|kept| kept.half.as_slice())
    }

    fn takes_key_bytes(&self) -> bool {
        false
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(KeeperQueue {
            inner: reference().queue(hint)?,
            lies: Arc::clone(&self.lies),
            above: Arc::clone(&self.above),
        }))
    }
}

impl EngineQueue for KeeperQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let suite = batch.suite();
        let inner = batch.keys().iter().map(|key| Some(&key.as_ref()?.state_for::<Kept>(suite.into())?.key));
        let keys: Vec<Option<&PreparedKey>> = inner.collect();
        self.inner.run(&mut batch.attach_keys(&keys).expect("as many"));
        if self.lies.load(Ordering::Relaxed) {
            let (ops, arena, _) = batch.parts();
            // In the middle of the second operation's answer.
            let answer = if suite == raw()[0] { ops[1].output } else { ops[1].tag } as usize;
            if self.above.load(Ordering::Relaxed) {
                arena[answer..answer + 256].fill(0xff);
            } else {
                arena[answer + 20] ^= 1;
            }
        }
    }
}

fn suite() -> &'static [Suite] {
    static SUITE: std::sync::OnceLock<[Suite; 1]> = std::sync::OnceLock::new();
    SUITE.get_or_init(|| ["ecdsa-p256".parse().expect("a suite")])
}

fn raw() -> &'static [Suite] {
    static SUITE: std::sync::OnceLock<[Suite; 1]> = std::sync::OnceLock::new();
    SUITE.get_or_init(|| ["rsa-2048-raw".parse().expect("a suite")])
}

/// The known answer that a suite's pair is taken from.
fn case_of(suite: Suite) -> &'static Case {
    let signs = if suite == raw()[0] { "rsa-2048-sign-pkcs1-sha256".parse().expect("a suite") } else { suite };
    known_answer(signs).expect("an answer")
}

fn mill(tokens: impl IntoIterator<Item = Keeper>) -> Mill {
    let mut builder = Mill::builder().engine(reference());
    for token in tokens {
        builder = builder.engine(Arc::new(token));
    }
    let trust = TrustPolicy { witness_every: 0, ..TrustPolicy::default() };
    builder.trust(trust).legacy(true).workers(0).open().expect("opens")
}

/// Signs three messages by reference: the engine that did, or what it failed with, and what became of each.
fn sign(mill: &Mill) -> (Result<&'static str>, Vec<OpStatus>) {
    let case = known_answer(suite()[0]).expect("an answer");
    let name = KeyMaterial::reference("signer");
    let key = mill.keys().import(name, KeyPolicy::default()).expect("room");
    let (mut job, _) = Job::of(case, Direction::Encrypt);
    job.tag = vec![0; suite()[0].default_tag_len()];
    let (mut arena, mut ops) = pack(suite()[0], Direction::Encrypt, &vec![job; 3]);
    ops.iter_mut().for_each(|op| op.key = key);
    let report = mill.run(Batch::new(suite()[0], Direction::Encrypt, &mut ops, &mut arena));
    let half = key_of(case, Direction::Decrypt).expect("a key");
    let key = reference().prepare(&half, suite()[0]).expect("a public key");
    for op in ops.iter().filter(|op| op.status.is_done()) {
        let mut again = [Op { status: OpStatus::Pending, ..*op }];
        let mut batch = Batch::new(suite()[0], Direction::Decrypt, &mut again, &mut arena).check().expect("sound");
        let keys = [Some(&key)];
        let mut queue = reference().queue(QueueHint::default()).expect("opens");
        queue.run(&mut batch.attach_keys(&keys).expect("one key"));
        assert_eq!(again[0].status, OpStatus::Done, "a wrong signature reached the caller");
    }
    (report.map(|report| report.route.name), ops.iter().map(|op| op.status).collect())
}

#[test]
fn a_token_that_signs_wrongly_is_left_and_another_signs() {
    let (good, bad) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mill = mill([Keeper::new("first", suite(), 1.0, &bad), Keeper::new("second", suite(), 2.0, &good)]);
    assert_eq!(sign(&mill), (Ok("first"), vec![OpStatus::Done; 3]));
    bad.store(true, Ordering::Relaxed);
    assert_eq!(sign(&mill), (Ok("second"), vec![OpStatus::Done; 3]));
    let metrics = mill.metrics();
    let quarantines = metrics.engines.iter().map(|engine| (engine.engine, engine.quarantines));
    assert_eq!(quarantines.collect::<Vec<_>>(), [("reference", 0), ("first", 1), ("second", 0)]);
}

#[test]
fn without_another_token_nothing_wrong_comes_out() {
    let lies = Arc::new(AtomicBool::new(true));
    let mill = mill([Keeper::new("only", suite(), 1.0, &lies)]);
    let (_, statuses) = sign(&mill);
    assert_eq!(statuses, [OpStatus::Done, OpStatus::EngineFault, OpStatus::Done]);
}

#[test]
fn another_key_of_the_same_name_is_not_used() {
    let good = Arc::new(AtomicBool::new(false));
    let case = known_answer("ecdsa-p384".parse().expect("a suite")).expect("an answer");
    let half = key_of(case, Direction::Decrypt).expect("a key").bytes.to_vec();
    let other = Keeper { other_half: Some(half), ..Keeper::new("other", suite(), 1.0, &good) };
    let mill = mill([Keeper::new("own", suite(), 2.0, &good), other]);
    let name = KeyMaterial::reference("signer");
    let key = mill.keys().import(name, KeyPolicy::default()).expect("room");
    let sign_on = |engine| {
        let case = known_answer(suite()[0]).expect("an answer");
        let (mut job, _) = Job::of(case, Direction::Encrypt);
        job.tag = vec![0; suite()[0].default_tag_len()];
        let (mut arena, mut ops) = pack(suite()[0], Direction::Encrypt, &[job]);
        ops[0].key = key;
        let options = RunOptions { engine, ..RunOptions::default() };
        let ran = mill.run_with(Batch::new(suite()[0], Direction::Encrypt, &mut ops, &mut arena), &options);
        ran.map(|report| (report.route.name, ops[0].status))
    };
    assert_eq!(sign_on(Some("own")), Ok(("own", OpStatus::Done)));
    // The other one is cheaper, and asked first.
    assert_eq!(sign_on(None), Ok(("own", OpStatus::Done)));
    assert!(!matches!(sign_on(Some("other")), Ok((_, OpStatus::Done))));
    assert!(mill.metrics().engines.iter().all(|engine| engine.quarantines == 0), "it is no fault");
}

/// Raises three numbers by reference: the engine that did, or what it failed with, and what became of each.
fn raise(mill: &Mill) -> (Result<&'static str>, Vec<OpStatus>) {
    const LEN: usize = 256;
    let key = mill.keys().import(KeyMaterial::reference("signer"), KeyPolicy::default()).expect("room");
    let numbers: Vec<u8> = (0..3 * LEN).map(|at| if at % LEN == 0 { 0 } else { at as u8 }).collect();
    let mut arena = numbers.clone();
    let op = |index: usize| Op::in_place(key, Span::new((LEN * index) as u32, LEN as u32));
    let mut ops: Vec<Op> = (0..3).map(op).collect();
    let report = mill.run(Batch::new(raw()[0], Direction::Decrypt, &mut ops, &mut arena));
    let half = key_of(case_of(raw()[0]), Direction::Decrypt).expect("a key");
    let key = reference().prepare(&half, raw()[0]).expect("a public key");
    for (index, op) in ops.iter().enumerate().filter(|(_, op)| op.status.is_done()) {
        let mut again = [Op { status: OpStatus::Pending, ..*op }];
        let mut batch = Batch::new(raw()[0], Direction::Encrypt, &mut again, &mut arena).check().expect("sound");
        let keys = [Some(&key)];
        reference().queue(QueueHint::default()).expect("opens").run(&mut batch.attach_keys(&keys).expect("one key"));
        let place = LEN * index..LEN * (index + 1);
        assert_eq!(arena[place.clone()], numbers[place], "a wrong number reached the caller");
    }
    (report.map(|report| report.route.name), ops.iter().map(|op| op.status).collect())
}

#[test]
fn a_token_that_raises_numbers_wrongly_is_left_and_another_does() {
    let (good, bad) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mill = mill([Keeper::new("first", raw(), 1.0, &bad), Keeper::new("second", raw(), 2.0, &good)]);
    assert_eq!(raise(&mill), (Ok("first"), vec![OpStatus::Done; 3]));
    bad.store(true, Ordering::Relaxed);
    assert_eq!(raise(&mill), (Ok("second"), vec![OpStatus::Done; 3]));
    let (good, bad) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let first = Keeper { above: Arc::clone(&bad), ..Keeper::new("first", raw(), 1.0, &bad) };
    let again = self::mill([first, Keeper::new("second", raw(), 2.0, &good)]);
    assert_eq!(raise(&again), (Ok("second"), vec![OpStatus::Done; 3]), "a number above the modulus");
    good.store(true, Ordering::Relaxed);
    let (_, statuses) = raise(&again);
    assert!(!statuses[1].is_done(), "both raise it wrongly: {statuses:?}");
}
