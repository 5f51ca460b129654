//! The slab under loom, which runs every interleaving and every permitted stale read of small programs:
//! `RUSTFLAGS="--cfg loom" cargo test -p ciphermill-memory --lib`.
//!
//! Entries hold a cell that loom watches: a reader looks into it, the drop writes to it, and loom reports the two if
//! nothing orders them. The model bounds how often a thread is interrupted, since the full space is too large.

use std::cell::Cell;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;

use super::{Slab, SlotId};

loom::thread_local! {
    static STRIPE: Cell<usize> = Cell::new(0);
}

/// The stripe of this thread of the model.
pub(super) fn stripe() -> usize {
    STRIPE.with(Cell::get)
}

struct Watched {
    value: UnsafeCell<u32>,
    drops: Arc<AtomicUsize>,
}

// SAFETY: loom checks every access to the cell; that is what the model is for.
unsafe impl Sync for Watched {}

impl Watched {
    fn new(value: u32, drops: &Arc<AtomicUsize>) -> Self {
        Self { value: UnsafeCell::new(value), drops: Arc::clone(drops) }
    }

    fn read(&self) -> u32 {
        // SAFETY: loom fails the test if a write is not ordered with this read.
        self.value.with(|value| unsafe { *value })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: as in `read`.
        self.value.with_mut(|value| unsafe { *value = 0 });
        self.drops.fetch_add(1, SeqCst);
    }
}

fn check(preemptions: usize, program: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 10_000;
    model.check(program);
}

/// Looks `id` up once under a lease, on stripe `stripe`; what is found must be `expected` to the end of the lease.
fn read_once(slab: &Slab<Watched>, stripe: usize, id: SlotId, expected: u32) {
    STRIPE.with(|own| own.set(stripe));
    let lease = slab.lease();
    if let Some(entry) = lease.entry(id) {
        assert_eq!(entry.read(), expected);
        thread::yield_now();
        assert_eq!(entry.read(), expected);
    }
}

fn spawn_reader(slab: &Arc<Slab<Watched>>, stripe: usize, id: SlotId, expected: u32) -> thread::JoinHandle<()> {
    let slab = Arc::clone(slab);
    thread::spawn(move || read_once(&slab, stripe, id, expected))
}

#[test]
fn an_entry_outlives_the_leases_that_see_it_and_nothing_else() {
    check(4, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let slab = Arc::new(Slab::with_limit(4));
        let id = slab.insert(Watched::new(7, &drops)).unwrap();
        let reader = spawn_reader(&slab, 1, id, 7);
        assert!(slab.remove(id));
        assert!(slab.lease().entry(id).is_none());
        reader.join().unwrap();
        assert_eq!(drops.load(SeqCst), 1, "whoever came last has dropped it");
        assert_eq!(slab.retired(), 0);
    });
}

#[test]
fn two_readers_on_two_stripes() {
    check(2, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let slab = Arc::new(Slab::with_limit(4));
        let id = slab.insert(Watched::new(7, &drops)).unwrap();
        let readers = [spawn_reader(&slab, 0, id, 7), spawn_reader(&slab, 1, id, 7)];
        assert!(slab.remove(id));
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(drops.load(SeqCst), 1);
        assert_eq!(slab.retired(), 0);
    });
}

#[test]
fn two_removals_against_a_reader() {
    check(2, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let slab = Arc::new(Slab::with_limit(4));
        let first = slab.insert(Watched::new(1, &drops)).unwrap();
        let second = slab.insert(Watched::new(2, &drops)).unwrap();
        let reader = spawn_reader(&slab, 1, second, 2);
        let remover = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || assert!(slab.remove(first)))
        };
        assert!(slab.remove(second));
        reader.join().unwrap();
        remover.join().unwrap();
        assert_eq!(drops.load(SeqCst), 2);
        assert_eq!(slab.retired(), 0);
    });
}

/// Fails when `Lease::pin` adds no count of its own.
#[test]
fn a_pin_keeps_its_entry_beyond_the_lease() {
    check(3, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let slab = Arc::new(Slab::with_limit(4));
        let id = slab.insert(Watched::new(7, &drops)).unwrap();
        let reader = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || {
                STRIPE.with(|own| own.set(1));
                let pin = slab.lease().pin(id.slot, id.generation);
                assert!(pin.is_none_or(|entry| entry.read() == 7));
            })
        };
        assert!(slab.remove(id));
        reader.join().unwrap();
        assert_eq!(drops.load(SeqCst), 1, "whoever came last has dropped it");
        assert_eq!(slab.retired(), 0);
    });
}

#[test]
fn a_slot_is_not_used_again_under_a_lease_that_knew_it() {
    check(3, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let slab = Arc::new(Slab::with_limit(1));
        let id = slab.insert(Watched::new(1, &drops)).unwrap();
        let reader = spawn_reader(&slab, 1, id, 1);
        assert!(slab.remove(id));
        if let Ok(next) = slab.insert(Watched::new(2, &drops)) {
            assert_eq!(next, SlotId { slot: id.slot, generation: id.generation + 2 });
            read_once(&slab, 0, next, 2);
        }
        reader.join().unwrap();
        assert!(drops.load(SeqCst) >= 1);
    });
}

#[test]
fn an_entry_and_its_segment_are_published_whole() {
    check(4, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let slab = Arc::new(Slab::<Watched>::with_limit(4));
        let reader = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || {
                STRIPE.with(|own| own.set(1));
                let lease = slab.lease();
                // Nobody told the reader; it may find the entry or not, but never half of it.
                if let Some(entry) = lease.get(0, 1) {
                    assert_eq!(entry.read(), 9);
                }
                for (_, entry) in lease.iter() {
                    assert_eq!(entry.read(), 9);
                }
            })
        };
        slab.insert(Watched::new(9, &drops)).unwrap();
        reader.join().unwrap();
        assert_eq!(drops.load(SeqCst), 0);
        drop(slab);
        assert_eq!(drops.load(SeqCst), 1);
    });
}
