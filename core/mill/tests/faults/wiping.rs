//! Destroyed keys are wiped although a device hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::{Costs, KeyPolicy, Mill, SelfTest, TrustPolicy};
use ciphermill_contract::{
    Batch, Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, KeyId, KeyMaterial,
    Op, PreparedKey, QueueHint, Result, Span, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, Script};

use crate::reference;

/// Long enough for anything that has to happen; nothing waits for it to pass.
const SOON: Duration = Duration::from_secs(20);

/// The reference, counting the prepared keys that have not been dropped: a key's bytes are wiped with its forms.
struct Counting {
    info: EngineInfo,
    inner: Arc<dyn Engine>,
    alive: Arc<AtomicUsize>,
}

struct Counted {
    inner: PreparedKey,
    alive: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

struct CountingQueue(Box<dyn EngineQueue>);

impl Engine for Counting {
    fn info(&self) -> &EngineInfo {
        &self.info
    }
    fn capabilities(&self) -> &[Capability] {
        self.inner.capabilities()
    }
    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let inner = self.inner.prepare(key, suite)?;
        self.alive.fetch_add(1, Ordering::SeqCst);
        Ok(PreparedKey::new(Counted { inner, alive: Arc::clone(&self.alive) }))
    }
    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(CountingQueue(self.inner.queue(hint)?)))
    }
}

impl EngineQueue for CountingQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let inner = batch.keys().iter().map(|key| Some(&key.as_ref()?.state::<Counted>()?.inner));
        let keys: Vec<Option<&PreparedKey>> = inner.collect();
        self.0.run(&mut batch.attach_keys(&keys).expect("as many"));
    }
}

/// A mill over a device that hangs over its first batch of keys, and over the counting reference.
struct Hanging {
    mill: Mill,
    device: ciphermill_fault::FaultHandle,
    /// Keys that the device has prepared, and that the reference has.
    on_device: Arc<AtomicUsize>,
    here: Arc<AtomicUsize>,
}

impl Hanging {
    fn new() -> Hanging {
        let (on_device, here) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counting = |alive: &Arc<AtomicUsize>| {
            let info = EngineInfo { parallelism: 1, ..reference().info().clone() };
            Counting { info, inner: reference(), alive: Arc::clone(alive) }
        };
        let script = Script::always(Fault::Stall).stall_max(4 * SOON);
        let device = FaultEngine::new("device", Arc::new(counting(&on_device)), script);
        let device = device.with_kind(EngineKind::Gpu).with_prior(Cost::new(0.0, 1.0, 0.0));
        let handle = device.handle();
        let trust = TrustPolicy {
            witness_every: 0,
            stall_min: Duration::from_millis(20),
            quarantine_min: 4 * SOON,
            ..TrustPolicy::default()
        };
        let mut costs = Costs::new();
        costs.set_wakeup_ns(0.0);
        let builder = Mill::builder().engine(Arc::new(device)).engine(Arc::new(counting(&here))).costs(costs);
        let mill = builder.trust(trust).self_test(SelfTest::Never).workers(0).open().expect("opens");
        Hanging { mill, device: handle, on_device, here }
    }

    fn key(&self) -> KeyId {
        self.mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room")
    }

    /// Encrypts with a key, on whichever engine.
    fn encrypt(&self, key: KeyId) {
        let suite: Suite = "aes-128-ecb".parse().expect("a suite");
        let mut ops = [Op::in_place(key, Span::new(0, 16))];
        let report = self.mill.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut [0; 16])).expect("runs");
        assert_eq!((report.route.name, report.done), ("reference", 1));
    }

    fn alive(&self) -> (usize, usize) {
        (self.on_device.load(Ordering::SeqCst), self.here.load(Ordering::SeqCst))
    }
}

#[test]
fn a_device_that_hangs_keeps_no_key_but_those_that_it_holds() {
    let hanging = Hanging::new();
    let (held, other, later) = (hanging.key(), hanging.key(), hanging.key());
    hanging.encrypt(held);
    hanging.encrypt(other);
    assert!(hanging.device.wait_until_stalled(1, SOON));
    assert_eq!(hanging.alive(), (1, 2));
    hanging.mill.keys().destroy(other).expect("it is there");
    assert_eq!(hanging.alive(), (1, 1), "wiped at once, while the device hangs");
    hanging.mill.keys().destroy(held).expect("it is there");
    assert_eq!(hanging.alive(), (1, 1), "the device still works with it");
    hanging.encrypt(later);
    hanging.mill.keys().destroy(later).expect("it is there");
    assert_eq!(hanging.alive(), (1, 1));
    hanging.device.release();
    let end = Instant::now() + SOON;
    while hanging.alive() != (0, 0) {
        assert!(Instant::now() < end, "the key outlives its last holder");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_waits_behind_a_call_that_hangs_holds_no_key() {
    // Two callers at the same moment, and a device with one thread: the second call is never begun.
    let hanging = Hanging::new();
    let (first, second) = (hanging.key(), hanging.key());
    thread::scope(|scope| {
        scope.spawn(|| hanging.encrypt(first));
        scope.spawn(|| hanging.encrypt(second));
    });
    for key in [first, second] {
        hanging.mill.keys().destroy(key).expect("it is there");
    }
    assert_eq!((hanging.device.stalled(), hanging.alive()), (1, (1, 1)), "that of the call that hangs");
    hanging.device.release();
}
