//! Keys that are destroyed, run out or expire while a handle is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ciphermill::KeyPolicy;
use ciphermill_contract::{
    Capability, Cost, Direction, Engine, EngineInfo, EngineQueue, KeyMaterial, OpStatus, PreparedKey, QueueHint,
    Reason, Result, Suite,
};
use ciphermill_fault::{Fault, Script};

use crate::{Message, WAY_OPS, fast, gcm, import, mill, reference, seal, status};

const GONE: OpStatus = OpStatus::Refused(Reason::KeyUnknown);

#[test]
fn a_key_that_is_destroyed_is_refused_by_the_next_operation() {
    let (engine, handle) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    for before in [0, 1, 2, 10, WAY_OPS] {
        let key = import(&mill, KeyPolicy::default());
        let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
        (0..before).for_each(|number| seal(&mut bound, number));
        mill.keys().destroy(key).expect("is there");
        // The slot is used again, by a key that the handle must not reach.
        let next = mill.keys().import(KeyMaterial::secret(&[9; 16]), KeyPolicy::default()).expect("room");
        let batches = handle.batches();
        for _ in 0..3 {
            let message = Message::gcm(5, 30);
            let mut own = message.clone();
            assert_eq!(own.run(&mut bound).expect("is told by the status").status, GONE, "after {before}");
            assert!(own == message, "nothing is written");
        }
        assert!(handle.batches() <= batches + 3, "they are not run again and again");
        mill.keys().destroy(next).expect("is there");
    }
}

#[test]
fn no_operation_that_begins_after_a_key_was_destroyed_uses_it() {
    let (engine, _) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    for round in 0..20 {
        let key = import(&mill, KeyPolicy::default());
        let (is_gone, is_running) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
                let (is_gone, is_running) = (&is_gone, &is_running);
                scope.spawn(move || {
                    is_running.fetch_add(1, Ordering::Relaxed);
                    loop {
                        // Read before the operation begins.
                        let gone_before = is_gone.load(Ordering::Acquire);
                        let seen = status(&mut bound);
                        assert!(seen == GONE || (seen == OpStatus::Done && !gone_before), "round {round}: {seen}");
                        if gone_before {
                            return;
                        }
                    }
                });
            }
            while is_running.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_micros(100 * round));
            mill.keys().destroy(key).expect("is there");
            is_gone.store(true, Ordering::Release);
        });
    }
}

/// The reference, whose prepared keys count how many there are.
struct Counted(Arc<dyn Engine>, Arc<AtomicU64>);

struct CountedKey(Arc<AtomicU64>);

impl Drop for CountedKey {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Engine for Counted {
    fn info(&self) -> &EngineInfo {
        self.0.info()
    }
    fn capabilities(&self) -> &[Capability] {
        const SHORT: &[Capability] =
            &[Capability::new(&ciphermill_contract::suite::lists::AES_GCM, Cost::new(0.0, 1.0, 0.0))];
        SHORT
    }
    fn prepare(&self, _: &KeyMaterial<'_>, _: Suite) -> Result<PreparedKey> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(PreparedKey::new(CountedKey(Arc::clone(&self.1))))
    }
    fn queue(&self, _: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Nothing))
    }
}

/// Says that everything is done.
struct Nothing;

impl EngineQueue for Nothing {
    fn run(&mut self, batch: &mut ciphermill_contract::CheckedBatch<'_>) {
        batch.process(|_| OpStatus::Done);
    }
}

#[test]
fn a_destroyed_key_is_wiped_while_handles_that_used_it_are_idle() {
    let alive = Arc::new(AtomicU64::new(0));
    let mill = mill([Arc::new(Counted(reference(), Arc::clone(&alive))) as Arc<dyn Engine>], 0);
    let key = import(&mill, KeyPolicy::default());
    let mut handles: Vec<_> = (0..4).map(|_| mill.bind(gcm(), Direction::Encrypt, key).expect("binds")).collect();
    for bound in &mut handles {
        (0..10).for_each(|_| assert_eq!(status(bound), OpStatus::Done));
    }
    assert_eq!(alive.load(Ordering::SeqCst), 1);
    mill.keys().destroy(key).expect("is there");
    assert_eq!(alive.load(Ordering::SeqCst), 0, "four handles are open");
    assert!(handles.iter_mut().all(|bound| status(bound) == GONE));
}

#[test]
fn a_budget_is_used_up_exactly() {
    const SPENT: OpStatus = OpStatus::Refused(Reason::KeyBudget);
    let (engine, _) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    for budget in [0, 1, 3, 200] {
        let key = import(&mill, KeyPolicy::default().operations_max(budget));
        let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
        (0..budget as usize).for_each(|number| seal(&mut bound, number));
        assert!((0..5).all(|_| status(&mut bound) == SPENT), "{budget}");
        assert_eq!(mill.keys().lease().entry(key).expect("is there").operations_left(), Some(0));
    }
    // What several handles and lone operations are granted adds up to the budget.
    let key = import(&mill, KeyPolicy::default().operations_max(10_007));
    let done: usize = thread::scope(|scope| {
        let count = |mut next: Box<dyn FnMut() -> OpStatus + Send>| {
            let seen: Vec<OpStatus> = (0..6000).map(|_| next()).collect();
            assert!(seen.iter().all(|status| matches!(*status, OpStatus::Done | SPENT)));
            seen.iter().filter(|status| status.is_done()).count()
        };
        let handles: Vec<_> = (0..2)
            .map(|_| {
                let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
                scope.spawn(move || count(Box::new(move || status(&mut bound))))
            })
            .collect();
        let own = mill.clone();
        let way = (gcm(), Direction::Encrypt);
        let lone = move || Message::gcm(1, 16).run_one(&own, way, key).expect("runs").status;
        let lone = scope.spawn(move || count(Box::new(lone)));
        handles.into_iter().chain([lone]).map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(done, 10_007);
}

#[test]
fn an_operation_that_is_run_again_elsewhere_costs_one_of_the_budget() {
    let (engine, _) = fast("fast", Script::at(5, Fault::Errors));
    let mill = mill([engine, reference()], 0);
    let key = import(&mill, KeyPolicy::default().operations_max(20));
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    (0..20).for_each(|number| seal(&mut bound, number));
    assert_eq!(status(&mut bound), OpStatus::Refused(Reason::KeyBudget));
}

#[test]
fn a_key_expires_between_two_operations() {
    let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let mill = mill([fast("fast", Script::healthy()).0], 0);
    let end = now_s() + 2;
    let key = import(&mill, KeyPolicy::default().expires_unix_s(end));
    let mut bound = mill.bind(gcm(), Direction::Encrypt, key).expect("binds");
    let mut done = 0;
    loop {
        let before = now_s();
        let seen = status(&mut bound);
        let after = now_s();
        assert!(seen == OpStatus::Done || after >= end, "refused too early");
        assert!(seen == OpStatus::Refused(Reason::KeyExpired) || before < end, "{seen} too late");
        if before >= end {
            break;
        }
        done += usize::from(seen.is_done());
    }
    assert!(done > 2 * WAY_OPS, "{done}");
}
