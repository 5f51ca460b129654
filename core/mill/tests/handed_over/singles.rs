//! Single operations of many tasks.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill, One, OneDone, SelfTest};
use ciphermill_contract::{Cost, Direction, EngineKind, Error, KeyId, KeyMaterial, OpStatus, Reason, Result, Suite};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script};

use crate::reference;

/// Runs futures in turns on this thread; each is polled again when it was woken.
pub(crate) fn run_all<'f>(futures: Vec<Pin<Box<dyn Future<Output = ()> + 'f>>>) {
    struct Turn(usize, Arc<Mutex<VecDeque<usize>>>);
    impl Wake for Turn {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("not poisoned").push_back(self.0);
        }
    }
    let ready = Arc::new(Mutex::new((0..futures.len()).collect::<VecDeque<_>>()));
    let wakers: Vec<Waker> = (0..futures.len()).map(|n| Waker::from(Arc::new(Turn(n, Arc::clone(&ready))))).collect();
    let mut futures: Vec<_> = futures.into_iter().map(Some).collect();
    let mut left = futures.len();
    while left != 0 {
        let Some(next) = ready.lock().expect("not poisoned").pop_front() else {
            panic!("{left} futures are forgotten")
        };
        let Some(future) = &mut futures[next] else { continue };
        if future.as_mut().poll(&mut Context::from_waker(&wakers[next])).is_ready() {
            futures[next] = None;
            left -= 1;
        }
    }
}

/// A mill over the reference posing as an engine that is much better at many than at one, and its count of batches.
fn mill() -> (Mill, FaultHandle, KeyId) {
    let engine = FaultEngine::new("counting", reference(), Script::healthy())
        .with_kind(EngineKind::Library)
        .with_prior(Cost::new(10_000.0, 10.0, 0.1));
    let handle = engine.handle();
    let mill = Mill::builder().engine(Arc::new(engine)).self_test(SelfTest::Never).workers(0).open().expect("opens");
    let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room");
    (mill, handle, key)
}

fn gcm() -> Suite {
    "aes-128-gcm".parse().expect("a suite")
}

/// Seals a message of its own through `mill` and opens it again; says how either ended.
async fn seal_and_open(mill: &Mill, key: KeyId, number: usize) -> (Result<OneDone>, Result<OneDone>) {
    let message: Vec<u8> = (0..number % 50).map(|n| (n * number) as u8).collect();
    let (mut data, mut tag) = (message.clone(), [0u8; 16]);
    let iv = [number as u8; 12];
    let aad = [number as u8; 5];
    let one = One { key, iv: &iv, aad: &aad, input_len: data.len(), data: &mut data, tag: &mut tag };
    let sealed = mill.submit_one(gcm(), Direction::Encrypt, one).await;
    let one = One { key, iv: &iv, aad: &aad, input_len: data.len(), data: &mut data, tag: &mut tag };
    let alone = mill.run_one(gcm(), Direction::Decrypt, one);
    assert_eq!(data, message, "message {number}");
    let mut again = data.clone();
    let one = One { key, iv: &iv, aad: &aad, input_len: again.len(), data: &mut again, tag: &mut tag };
    let resealed = mill.run_one(gcm(), Direction::Encrypt, one);
    assert_eq!(resealed, sealed);
    (sealed, alone)
}

#[test]
fn tasks_share_batches_and_get_their_own_outcomes() {
    let (mill, handle, key) = mill();
    let done = AtomicUsize::new(0);
    let (mill_ref, done_ref) = (&mill, &done);
    let task = |task: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            for round in 0..50 {
                let mut data = vec![task as u8; 1 + task];
                let mut tag = [0u8; 16];
                let iv = [round; 12];
                let one = One { key, iv: &iv, aad: &[], input_len: data.len(), data: &mut data, tag: &mut tag };
                let sealed = mill_ref.submit_one(gcm(), Direction::Encrypt, one).await.expect("runs");
                assert_eq!((sealed.status, sealed.output_len, sealed.tag_len), (OpStatus::Done, 1 + task, 16));
                let one = One { key, iv: &iv, aad: &[], input_len: data.len(), data: &mut data, tag: &mut tag };
                let opened = mill_ref.submit_one(gcm(), Direction::Decrypt, one).await.expect("runs");
                assert_eq!((opened.status, &data), (OpStatus::Done, &vec![task as u8; 1 + task]));
                done_ref.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    run_all((0..64).map(task).collect());
    assert_eq!(done.load(Ordering::Relaxed), 64 * 50);
    let batches = handle.batches();
    assert!(batches < 64 * 100 / 8, "{batches} batches for 6,400 operations");
}

#[test]
fn outcomes_are_those_of_lone_operations() {
    let (mill, _, key) = mill();
    let mill_ref = &mill;
    let task = |number: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let (sealed, opened) = seal_and_open(mill_ref, key, number).await;
            assert!(sealed.expect("runs").status.is_done() && opened.expect("runs").status.is_done());
        })
    };
    run_all((0..200).map(task).collect());
}

#[test]
fn an_operation_that_breaks_a_rule_fails_nobody_else() {
    let (mill, _, key) = mill();
    let mill_ref = &mill;
    let task = |number: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let mut data = [number as u8; 8];
            let mut tag = [0u8; 16];
            // Every seventh has a nonce of a wrong length, every eleventh no key, every thirteenth too long an input.
            let iv = if number.is_multiple_of(7) { &[1u8; 11][..] } else { &[1u8; 12] };
            let key = if number.is_multiple_of(11) { KeyId::NONE } else { key };
            let input_len = if number.is_multiple_of(13) { 9 } else { 8 };
            let one = One { key, iv, aad: &[], input_len, data: &mut data, tag: &mut tag };
            let done = mill_ref.submit_one(gcm(), Direction::Encrypt, one).await.expect("the batch is run");
            let expected = if number.is_multiple_of(13) {
                OpStatus::BadInput(Reason::InputPastEnd)
            } else if number.is_multiple_of(11) {
                OpStatus::BadInput(Reason::KeyMissing)
            } else if number.is_multiple_of(7) {
                OpStatus::BadInput(Reason::IvLength)
            } else {
                OpStatus::Done
            };
            assert_eq!(done.status, expected, "operation {number}");
            assert_eq!(data == [number as u8; 8], expected != OpStatus::Done);
        })
    };
    run_all((0..300).map(task).collect());
}

#[test]
fn a_leader_that_is_dropped_leaves_nobody_waiting() {
    let (mill, _, key) = mill();
    let seal = |data: &mut [u8], tag: &mut [u8]| {
        let input_len = data.len();
        let one = One { key, iv: &[1; 12], aad: &[], input_len, data, tag };
        let done = mill.run_one(gcm(), Direction::Encrypt, one).expect("runs");
        assert!(done.status.is_done());
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut buffers: Vec<([u8; 20], [u8; 16])> = (0..4).map(|n| ([n; 20], [0; 16])).collect();
    let expected: Vec<_> = buffers
        .iter()
        .map(|buffers| {
            let (mut data, mut tag) = *buffers;
            seal(&mut data, &mut tag);
            (data, tag)
        })
        .collect();
    let woken = Arc::new(Flag::default());
    {
        let mut futures: Vec<_> = buffers
            .iter_mut()
            .map(|(data, tag)| {
                let one = One { key, iv: &[1; 12], aad: &[], input_len: 20, data, tag };
                Box::pin(mill.submit_one(gcm(), Direction::Encrypt, one))
            })
            .collect();
        let waker = Waker::from(Arc::clone(&woken));
        assert!(futures[0].as_mut().poll(&mut context).is_pending());
        for future in &mut futures[1..] {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(futures.remove(0));
        assert!(woken.0.load(Ordering::Relaxed), "somebody is told");
        // Whoever looks first leads.
        for future in futures.iter_mut().rev() {
            let Poll::Ready(done) = future.as_mut().poll(&mut context) else { panic!("it waits for nobody") };
            assert!(done.expect("runs").status.is_done());
        }
    }
    assert_eq!(buffers[0].0, [0; 20], "the one that was dropped");
    assert_eq!(buffers[1..], expected[1..]);
}

#[test]
fn successors_that_are_dropped_leave_nobody_waiting() {
    // The leader goes first or last of those who go: nobody can rely on one of the others.
    for order in [[0, 2], [2, 0]] {
        let (mill, _, key) = mill();
        let mut buffers: Vec<([u8; 20], [u8; 16])> = (0..3).map(|n| ([n; 20], [0; 16])).collect();
        let flags: Vec<Arc<Flag>> = (0..3).map(|_| Arc::default()).collect();
        let mut futures: Vec<_> = buffers
            .iter_mut()
            .map(|(data, tag)| {
                let one = One { key, iv: &[1; 12], aad: &[], input_len: 20, data, tag };
                Some(Box::pin(mill.submit_one(gcm(), Direction::Encrypt, one)))
            })
            .collect();
        for (future, flag) in futures.iter_mut().flatten().zip(&flags) {
            let waker = Waker::from(Arc::clone(flag));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        order.into_iter().for_each(|goes| drop(futures[goes].take()));
        assert!(flags[1].0.load(Ordering::Relaxed), "who stays is told");
        let future = futures[1].as_mut().expect("it stays");
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_task_alone_soon_stops_waiting() {
    let (mill, handle, key) = mill();
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    for n in 0..1000u32 {
        let (mut data, mut tag) = ([n as u8; 16], [0; 16]);
        let one = One { key, iv: &[1; 12], aad: &[], input_len: 16, data: &mut data, tag: &mut tag };
        let mut future = std::pin::pin!(mill.submit_one(gcm(), Direction::Encrypt, one));
        loop {
            polls += 1;
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                assert!(done.expect("runs").status.is_done());
                break;
            }
        }
    }
    assert_eq!(handle.batches(), 1000);
    assert!(polls < 1100, "{polls} polls");
}

#[test]
fn threads_with_tasks_of_their_own_share_rounds_safely() {
    let (mill, handle, key) = mill();
    thread::scope(|scope| {
        for thread in 0..4 {
            let mill = &mill;
            scope.spawn(move || {
                let task = |task: usize| -> Pin<Box<dyn Future<Output = ()> + '_>> {
                    Box::pin(async move {
                        for round in 0..100 {
                            let number = thread * 1000 + task;
                            let mut data = [number as u8; 24];
                            let mut tag = [0; 16];
                            let iv = [round; 12];
                            let one = One { key, iv: &iv, aad: &[], input_len: 24, data: &mut data, tag: &mut tag };
                            let sealed = mill.submit_one(gcm(), Direction::Encrypt, one).await.expect("runs");
                            assert!(sealed.status.is_done());
                            let one = One { key, iv: &iv, aad: &[], input_len: 24, data: &mut data, tag: &mut tag };
                            let opened = mill.run_one(gcm(), Direction::Decrypt, one).expect("runs");
                            assert!(opened.status.is_done());
                            assert_eq!(data, [number as u8; 24]);
                        }
                    })
                };
                run_until_done((0..16).map(task).collect());
            });
        }
    });
    assert!(handle.batches() > 0);
}

/// As [`run_all`], but futures may be woken by other threads meanwhile.
pub(crate) fn run_until_done<'f>(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + 'f>>>) {
    let mut context = Context::from_waker(Waker::noop());
    while !futures.is_empty() {
        futures.retain_mut(|future| future.as_mut().poll(&mut context).is_pending());
        thread::yield_now();
    }
}

#[test]
fn random_bytes_fill_the_buffer() {
    let mill = Mill::builder().engine(reference()).workers(0).open().expect("opens");
    let random: Suite = "random".parse().expect("a suite");
    let draw = || {
        let mut data = [0u8; 64];
        let one = One { key: KeyId::NONE, iv: &[], aad: &[], input_len: 0, data: &mut data, tag: &mut [] };
        let done = mill.run_one(random, Direction::Encrypt, one).expect("runs");
        assert_eq!((done.status, done.output_len), (OpStatus::Done, 64));
        data
    };
    let (first, second) = (draw(), draw());
    assert_ne!(first, second);
    assert!(first[..32] != [0; 32] && first[32..] != [0; 32], "both halves were written");
}

#[test]
fn what_policy_refuses_is_an_error() {
    let (mill, _, key) = mill();
    let (mut data, mut tag) = ([0; 8], [0; 0]);
    let one = One { key, iv: &[1; 8], aad: &[], input_len: 8, data: &mut data, tag: &mut tag };
    let suite: Suite = "des-cbc".parse().expect("a suite");
    assert!(matches!(mill.run_one(suite, Direction::Encrypt, one), Err(Error::Refused(_))));
}

#[test]
fn threads_that_block_share_rounds_and_get_their_own_outcomes() {
    // Each batch takes long enough for the other threads to come along.
    let script = Script::always(Fault::Delay(Duration::from_micros(300)));
    let engine = FaultEngine::new("slow", reference(), script).with_kind(EngineKind::Library);
    let engine = engine.with_prior(Cost::new(300_000.0, 10.0, 0.1));
    let handle = engine.handle();
    let mill = Mill::builder().engine(Arc::new(engine)).self_test(SelfTest::Never).workers(0).open().expect("opens");
    let (threads, each) = (16usize, 20usize);
    thread::scope(|scope| {
        for number in 0..threads {
            let mill = &mill;
            scope.spawn(move || {
                let key = [number as u8 + 1; 16];
                let key = mill.keys().import(KeyMaterial::secret(&key), KeyPolicy::default()).expect("room");
                for round in 0..each {
                    // Every fifth breaks a rule, which is nobody else's business.
                    let iv = if round % 5 == 4 { &[1u8; 11][..] } else { &[round as u8; 12] };
                    let (mut data, mut tag) = ([number as u8; 24], [0; 16]);
                    let one = One { key, iv, aad: &[], input_len: 24, data: &mut data, tag: &mut tag };
                    let sealed = mill.run_one(gcm(), Direction::Encrypt, one).expect("runs");
                    if round % 5 == 4 {
                        assert_eq!(sealed.status, OpStatus::BadInput(Reason::IvLength));
                        continue;
                    }
                    assert!(sealed.status.is_done() && data != [number as u8; 24]);
                    let one = One { key, iv, aad: &[], input_len: 24, data: &mut data, tag: &mut tag };
                    assert!(mill.run_one(gcm(), Direction::Decrypt, one).expect("runs").status.is_done());
                    assert_eq!(data, [number as u8; 24]);
                }
            });
        }
    });
    let ran = threads * each * 2 - threads * each / 5;
    // How many share is the scheduler's business; that many do is ours.
    assert!(handle.batches() < ran as u64 * 9 / 10, "{} batches for {ran} operations", handle.batches());
}

#[test]
fn a_thread_alone_and_operations_not_worth_it_wait_for_nobody() {
    let (mill, handle, key) = mill();
    let seal = |len: usize| {
        let (mut data, mut tag) = (vec![0; len], [0; 16]);
        let one = One { key, iv: &[1; 12], aad: &[], input_len: len, data: &mut data, tag: &mut tag };
        assert!(mill.run_one(gcm(), Direction::Encrypt, one).expect("runs").status.is_done());
    };
    (0..100).for_each(|_| seal(16));
    assert_eq!(handle.batches(), 100);
    // An engine for which sharing saves less than a change of threads.
    let engine = FaultEngine::new("even", reference(), Script::healthy()).with_kind(EngineKind::Library);
    let engine = engine.with_prior(Cost::new(900.0, 10.0, 0.1));
    let handle = engine.handle();
    let mill = Mill::builder().engine(Arc::new(engine)).self_test(SelfTest::Never).workers(0).open().expect("opens");
    let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let (mut data, mut tag) = ([0; 16], [0; 16]);
                    let one = One { key, iv: &[1; 12], aad: &[], input_len: 16, data: &mut data, tag: &mut tag };
                    assert!(mill.run_one(gcm(), Direction::Encrypt, one).expect("runs").status.is_done());
                }
            });
        }
    });
    assert_eq!(handle.batches(), 400);
}
