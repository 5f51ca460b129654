//! No allocation per operation anywhere on the path: a batch ten times as long allocates as often.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ciphermill::null::NullEngine;
use ciphermill::{BoundOp, KeyPolicy, Mill, One, SelfTest, Session};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, Span, Suite};

struct Counting;

thread_local! {
    /// Those of a thread: the test harness has one of its own, which allocates when a test takes long.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of this thread so far.
fn allocated() -> u64 {
    ALLOCATIONS.get()
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above with this layout, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a batch of `count` operations under `keys`, in a session that has run such a batch before.
fn allocations(session: &mut Session, keys: &[KeyId], count: usize) -> u64 {
    let suite: Suite = "aes-128-cbc".parse().expect("a suite");
    let mut arena = vec![0u8; 16 * count];
    let mut run = || {
        let mut ops: Vec<Op> = (0..count)
            .map(|index| Op::in_place(keys[index % keys.len()], Span::new(16 * index as u32, 16)).with_iv(&[1; 16]))
            .collect();
        let before = allocated();
        let report = session.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
        let after = allocated();
        assert_eq!(report.done, count);
        after - before
    };
    run();
    run()
}

/// Allocations of so many operations of all short lengths through a handle that has run some before.
fn allocations_of_handle(mill: &Mill, key: KeyId, count: usize) -> u64 {
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    let mut bound = mill.bind(suite, Direction::Encrypt, key).expect("binds");
    let mut run = |count: usize| {
        let before = allocated();
        for len in (0..count).map(|number| number % 100) {
            let (mut data, mut tag) = ([0; 100], [0; 16]);
            let op = BoundOp { iv: &[1; 12], aad: &[2; 5], data: &mut data[..len], input_len: len, tag: &mut tag };
            assert!(bound.run(op).expect("runs").status.is_done());
        }
        allocated() - before
    };
    run(200);
    run(count)
}

/// The same without a handle.
fn allocations_alone(mill: &Mill, key: KeyId, count: usize) -> u64 {
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    let run = |count: usize| {
        let before = allocated();
        for len in (0..count).map(|number| number % 100) {
            let (mut data, mut tag) = ([0; 100], [0; 16]);
            let one = One { key, iv: &[1; 12], aad: &[2; 5], data: &mut data[..len], input_len: len, tag: &mut tag };
            assert!(mill.run_one(suite, Direction::Encrypt, one).expect("runs").status.is_done());
        }
        allocated() - before
    };
    run(200);
    run(count)
}

#[test]
fn allocations_do_not_grow_with_operations() {
    // Without workers: a batch that is split over cores, because the machine was busy a moment ago, allocates its parts.
    let builder = Mill::builder().engine(NullEngine::shared()).self_test(SelfTest::Never);
    let mill = builder.workers(0).open().expect("opens");
    let import = |n: u8| mill.keys().import(KeyMaterial::secret(&[n; 16]), KeyPolicy::default()).expect("room");
    let keys: Vec<KeyId> = (0..64).map(import).collect();
    let mut session = mill.session();
    assert_eq!(allocations(&mut session, &keys, 1), 0, "a lone operation allocates nothing");
    assert_eq!(allocations(&mut session, &keys, 32), 0, "a small batch allocates nothing");
    let hundred = allocations(&mut session, &keys, 100);
    assert!(hundred <= 2, "{hundred} allocations for 100 operations");
    for count in [1_000, 10_000] {
        assert_eq!(allocations(&mut session, &keys, count), hundred, "{count} operations");
    }
    assert_eq!(allocations_of_handle(&mill, keys[0], 1000), 0, "operations through a handle allocate nothing");
    assert_eq!(allocations_alone(&mill, keys[0], 1000), 0, "nor do those without one");
}
