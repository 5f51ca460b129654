//! A mill with the service as one of its engines, while the service ends and starts again, at any moment: no operation is lost, done twice
//! or wrong.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill, SelfTest, TrustPolicy};
use ciphermill_contract::{
    Batch, Capability, Cost, Direction, Engine, EngineInfo, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey,
    QueueHint, Result, Span, Suite,
};
use ciphermill_library::Library;
use ciphermill_service_engine::{Opening, ServiceEngine};
use common::Running;
use common::campaign::{Census, turn, wait_for};
use common::raw::suite;

/// The library, which says that it takes so long that everybody prefers the service.
struct Slow {
    library: Library,
    capabilities: Vec<Capability>,
}

impl Slow {
    fn new() -> Slow {
        let library = Library::new().expect("opens everywhere");
        let slow = |capability: &Capability| Capability { prior: Cost::new(1e6, 1e6, 100.0), few: None, ..*capability };
        let capabilities = library.capabilities().iter().map(slow).collect();
        Slow { library, capabilities }
    }
}

impl Engine for Slow {
    fn info(&self) -> &EngineInfo {
        self.library.info()
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        self.library.prepare(key, suite)
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        self.library.queue(hint)
    }
}

/// A mill that has the service at this path, and a slow library.
fn client(socket: &Path) -> Mill {
    let engine = ServiceEngine::open(&Opening { channel_len: 1 << 20, ..Opening::at(socket) }).expect("connects");
    let trust = TrustPolicy {
        quarantine_min: Duration::from_millis(2),
        quarantine_max: Duration::from_millis(20),
        ..TrustPolicy::default()
    };
    let engines: [Arc<dyn Engine>; 2] = [Arc::new(engine), Arc::new(Slow::new())];
    Mill::builder().engines(engines).trust(trust).self_test(SelfTest::Never).open().expect("a mill")
}

const KEYS: u8 = 5;

/// Suites, and bytes of key, IV and tag. Doing one of them twice in one place gives another result than once.
const SUITES: [(&str, usize, usize, u32); 3] =
    [("aes-128-gcm", 16, 12, 16), ("aes-256-cbc", 32, 16, 0), ("hmac-sha256", 32, 0, 32)];

struct Work {
    mill: Mill,
    keys: Vec<[KeyId; KEYS as usize]>,
}

impl Work {
    fn new(mill: Mill) -> Work {
        let key = |name: &str, len: usize, index: u8| {
            let bytes: Vec<u8> = (0..len as u8).map(|place| place ^ index.wrapping_mul(41)).collect();
            mill.keys().import(KeyMaterial::secret(&bytes), KeyPolicy::only(suite(name))).expect("a key")
        };
        let keys = SUITES.map(|(name, len, ..)| core::array::from_fn(|index| key(name, len, index as u8))).to_vec();
        Work { mill, keys }
    }

    /// Encrypts one batch, which depends on the round; statuses are all as they should be.
    fn run(&self, round: u32) -> Vec<u8> {
        let which = round as usize % SUITES.len();
        let (name, _, iv_len, tag_len) = SUITES[which];
        let count = 1 + round * 7 % 120;
        let mut arena: Vec<u8> = (0..count * 128).map(|place| (place * 3 + round) as u8).collect();
        let mut ops: Vec<Op> = (0..count)
            .map(|index| {
                let key = self.keys[which][(index + round) as usize % KEYS as usize];
                let iv = [index as u8, round as u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
                let op = Op::in_place(key, Span::new(index * 128, 64)).with_iv(&iv[..iv_len]);
                if tag_len > 0 { op.with_tag(index * 128 + 64, tag_len as u16) } else { op }
            })
            .collect();
        self.mill.run(Batch::new(suite(name), Direction::Encrypt, &mut ops, &mut arena)).expect("some engine runs it");
        assert!(ops.iter().all(|op| op.status == OpStatus::Done), "round {round}: {:?}", ops[0].status);
        arena
    }
}

/// Operations that a service has done.
fn done(mill: &Mill) -> u64 {
    mill.metrics().engines.iter().flat_map(|engine| &engine.suites).map(|suite| suite.operations.done).sum()
}

/// What the reference makes of the first rounds.
fn expected(rounds: u32) -> Vec<Vec<u8>> {
    let engine = Arc::new(ciphermill_reference::Reference::new());
    let work = Work::new(Mill::builder().engine(engine).open().expect("a mill"));
    (0..rounds).map(|round| work.run(round)).collect()
}

const ROUNDS: u32 = 60;

/// Between batches: the next batch finds it out, and the service has the keys again.
#[test]
fn a_service_that_starts_again_between_batches() {
    let _turn = turn();
    let expected = expected(ROUNDS);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut running = Some(Running::start_at(socket.clone(), None, |_| {}));
    let before = Census::take();
    let work = Work::new(client(&socket));
    for life in 0..15 {
        let service = running.as_ref().expect("it runs").mill.clone();
        wait_for("the service is used again", || {
            (0..ROUNDS / 4).for_each(|round| assert_eq!(work.run(round), expected[round as usize], "{life}: {round}"));
            done(&service) > 0
        });
        for round in 0..ROUNDS {
            assert_eq!(work.run(round), expected[round as usize], "{life}: {round}");
        }
        assert!(!service.keys().is_empty(), "the keys were handed over in life {life}");
        drop(running.take());
        assert!(service.keys().is_empty(), "{} keys are left", service.keys().len());
        if life % 3 == 0 {
            // Nobody is there for a while.
            assert_eq!(work.run(life), expected[life as usize]);
        }
        running = Some(Running::start_at(socket.clone(), None, |_| {}));
    }
    drop(work);
    wait_for("nothing is left", || Census::take().has_no_more_than(&before));
}

/// At any moment, with several threads at work.
#[test]
fn a_service_that_starts_again_while_batches_run() {
    let _turn = turn();
    let lives = std::env::var("CIPHERMILL_SERVICE_LIVES").map_or(40, |text| text.parse().expect("a number"));
    let expected = expected(ROUNDS);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut running = Running::start_at(socket.clone(), None, |_| {});
    let work = Work::new(client(&socket));
    let (ends, batches) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut by_service = 0;
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (work, ends, batches, expected) = (&work, &ends, &batches, &expected);
            scope.spawn(move || {
                for round in (0..ROUNDS).cycle().skip(first * 20) {
                    if ends.load(Ordering::Relaxed) {
                        return;
                    }
                    assert_eq!(work.run(round), expected[round as usize], "{round}");
                    batches.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut state = 3u64;
        for _ in 0..lives {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros((state >> 40) % 100_000));
            let mill = running.mill.clone();
            drop(running);
            by_service += done(&mill);
            assert!(mill.keys().is_empty(), "{} keys are left", mill.keys().len());
            running = Running::start_at(socket.clone(), None, |_| {});
        }
        ends.store(true, Ordering::Relaxed);
    });
    println!("NOTE: {batches:?} batches, {by_service} operations by {lives} services");
    assert!(by_service > 1000, "{by_service}");
}
