//! The slab against a model, and under many threads.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill_memory::{Full, SLAB_MAX, Slab, SlotId};
use proptest::prelude::*;

/// An entry that notes in a list that it was dropped.
struct Noted {
    serial: u64,
    dropped: Rc<RefCell<Vec<u64>>>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.dropped.borrow_mut().push(self.serial);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert,
    Remove(prop::sample::Index),
    RemoveAgain(prop::sample::Index),
    LookUp(prop::sample::Index),
    LookUpAny(u32, u32),
    Open,
    Close(prop::sample::Index),
    Walk,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Insert),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => any::<prop::sample::Index>().prop_map(Step::RemoveAgain),
        2 => any::<prop::sample::Index>().prop_map(Step::LookUp),
        1 => (0..20_u32, 0..6_u32).prop_map(|(slot, generation)| Step::LookUpAny(slot, generation)),
        2 => Just(Step::Open),
        3 => any::<prop::sample::Index>().prop_map(Step::Close),
        1 => Just(Step::Walk),
    ]
}

/// What the slab ought to hold: live entries, and removed ones with the leases that were open at their removal.
#[derive(Default)]
struct Model {
    live: HashMap<SlotId, u64>,
    gone: Vec<SlotId>,
    kept: Vec<(u64, HashSet<u64>)>,
    next_serial: u64,
}

const LIMIT: u32 = 12;

/// Inserts into both; a full slab says so and drops what it was given.
fn insert_agrees(slab: &Slab<Noted>, model: &mut Model, dropped: &Rc<RefCell<Vec<u64>>>) -> Result<(), TestCaseError> {
    let serial = model.next_serial;
    model.next_serial += 1;
    match slab.insert(Noted { serial, dropped: Rc::clone(dropped) }) {
        Ok(id) => {
            prop_assert!(id.slot < LIMIT && id.generation % 2 == 1);
            prop_assert!(!model.gone.contains(&id), "a name was given twice");
            prop_assert!(model.live.insert(id, serial).is_none());
        }
        Err(full) => {
            let retired = slab.retired() as u32;
            prop_assert_eq!(full, Full { limit: LIMIT, live: model.live.len() as u32, retired });
            prop_assert_eq!(full.live + full.retired, LIMIT);
            prop_assert_eq!(dropped.borrow_mut().pop(), Some(serial));
        }
    }
    Ok(())
}

/// Removed entries are dropped once, not under a lease that could see them, and not kept when no lease is open.
fn drops_agree(slab: &Slab<Noted>, model: &Model, dropped: &[u64], no_lease: bool) -> Result<(), TestCaseError> {
    prop_assert_eq!(dropped.iter().collect::<HashSet<_>>().len(), dropped.len(), "dropped twice");
    for (serial, holders) in &model.kept {
        if !holders.is_empty() {
            prop_assert!(!dropped.contains(serial), "dropped under a lease that could see it");
        } else if no_lease {
            prop_assert!(dropped.contains(serial), "kept although no lease is open");
        }
    }
    prop_assert_eq!(dropped.len() + slab.retired(), model.kept.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec(step(), 1..120)) {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let slab = Slab::with_limit(LIMIT);
        let mut model = Model::default();
        let mut leases = Vec::new();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert => insert_agrees(&slab, &mut model, &dropped)?,
                Step::Remove(index) if !model.live.is_empty() => {
                    let mut ids: Vec<_> = model.live.keys().copied().collect();
                    ids.sort_unstable();
                    let id = *index.get(&ids);
                    prop_assert!(slab.remove(id));
                    let serial = model.live.remove(&id).unwrap();
                    model.gone.push(id);
                    model.kept.push((serial, leases.iter().map(|(serial, _)| *serial).collect()));
                }
                Step::RemoveAgain(index) if !model.gone.is_empty() => {
                    prop_assert!(!slab.remove(*index.get(&model.gone)));
                }
                Step::LookUp(index) if !model.gone.is_empty() => {
                    prop_assert!(slab.lease().entry(*index.get(&model.gone)).is_none());
                }
                Step::LookUpAny(slot, generation) => {
                    let lease = slab.lease();
                    let found = lease.get(slot, generation).map(|entry| entry.serial);
                    prop_assert_eq!(found, model.live.get(&SlotId { slot, generation }).copied());
                }
                Step::Open => leases.push((at as u64, slab.lease())),
                Step::Close(index) if !leases.is_empty() => {
                    let closed = leases.swap_remove(index.index(leases.len())).0;
                    for (_, holders) in &mut model.kept {
                        holders.remove(&closed);
                    }
                }
                Step::Walk => {
                    let lease = slab.lease();
                    let seen: HashMap<_, _> = lease.iter().map(|(id, entry)| (id, entry.serial)).collect();
                    prop_assert_eq!(&seen, &model.live);
                }
                _ => {}
            }
            let lease = slab.lease();
            for (id, serial) in &model.live {
                prop_assert_eq!(lease.entry(*id).map(|entry| entry.serial), Some(*serial));
            }
            drop(lease);
            prop_assert_eq!(slab.len(), model.live.len());
            drops_agree(&slab, &model, &dropped.borrow(), leases.is_empty())?;
        }
        drop(leases);
        prop_assert_eq!(slab.retired(), 0);
        drop(slab);
        prop_assert_eq!(dropped.borrow().len(), model.kept.len() + model.live.len());
    }
}

#[test]
fn a_removed_entry_waits_for_older_leases_and_not_for_younger_ones() {
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let slab = Slab::with_limit(10);
    let id = slab.insert(Noted { serial: 1, dropped: Rc::clone(&dropped) }).unwrap();
    let older = slab.lease();
    let entry = older.entry(id).unwrap();
    assert!(slab.remove(id));
    assert_eq!(slab.len(), 0);
    assert!(older.entry(id).is_none(), "a removal takes effect at once, under older leases too");
    let younger = slab.lease();
    assert_eq!(entry.serial, 1);
    assert!(dropped.borrow().is_empty());
    drop(older);
    assert_eq!(*dropped.borrow(), [1], "the younger lease is still open");
    drop(younger);

    let id = slab.insert(Noted { serial: 2, dropped: Rc::clone(&dropped) }).unwrap();
    assert!(slab.remove(id));
    assert_eq!(*dropped.borrow(), [1, 2], "nothing to wait for");
}

#[test]
fn hostile_names_are_not_found() {
    let slab = Slab::with_limit(5000);
    let id = slab.insert(1_u8).unwrap();
    assert_eq!(id, SlotId { slot: 0, generation: 1 });
    let lease = slab.lease();
    for slot in [0, 1, 4095, 4096, 4999, 5000, 8191, 8192, u32::MAX - 1, u32::MAX] {
        for generation in [0, 1, 2, 3, u32::MAX - 1, u32::MAX] {
            let hostile = SlotId { slot, generation };
            if hostile != id {
                assert_eq!(lease.entry(hostile), None, "{hostile:?}");
                assert!(!slab.remove(hostile), "{hostile:?}");
            }
        }
    }
    assert_eq!(lease.entry(id), Some(&1));
    assert_eq!(Slab::<u8>::with_limit(u32::MAX).limit(), SLAB_MAX);
    assert_eq!(Slab::with_limit(0).insert(1_u8), Err(Full { limit: 0, live: 0, retired: 0 }));
}

#[test]
fn a_full_slab_takes_again_once_a_lease_has_ended() {
    let slab = Slab::with_limit(1);
    let id = slab.insert(1_u8).unwrap();
    let lease = slab.lease();
    assert!(slab.remove(id));
    assert_eq!(slab.insert(2), Err(Full { limit: 1, live: 0, retired: 1 }));
    drop(lease);
    assert_eq!(slab.insert(3), Ok(SlotId { slot: 0, generation: 3 }));
}

#[test]
fn a_pin_keeps_its_entry_and_no_other() {
    let slab = Slab::with_limit(1);
    let first = slab.insert(Arc::new(1)).unwrap();
    let value = Arc::clone(slab.lease().entry(first).unwrap());
    let pin = slab.lease().pin(first.slot, first.generation).unwrap();
    assert!(slab.remove(first));
    assert!(slab.lease().pin(first.slot, first.generation).is_none());
    assert_eq!((slab.retired(), Arc::strong_count(&value)), (0, 2), "the pin alone has it");
    let second = slab.insert(Arc::new(2)).unwrap();
    assert_eq!((second.slot, **pin), (first.slot, 1), "the slot is free, the entry is there");
    drop(slab);
    thread::spawn(move || drop(pin)).join().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn an_entry_may_call_the_slab_when_it_is_dropped() {
    struct Nosy(Option<Arc<Slab<Nosy>>>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            if let Some(slab) = &self.0 {
                let id = slab.insert(Nosy(None)).unwrap();
                assert!(slab.lease().entry(id).is_some());
            }
        }
    }
    let slab = Arc::new(Slab::with_limit(10));
    let id = slab.insert(Nosy(Some(Arc::clone(&slab)))).unwrap();
    assert!(slab.remove(id));
    assert_eq!(slab.len(), 1);
}

#[test]
fn many_segments_fill_and_empty() {
    let count = 100_000_u32;
    let slab = Slab::with_limit(count);
    let ids: Vec<_> = (0..count).map(|value| slab.insert(value).unwrap()).collect();
    assert!(slab.insert(0).is_err());
    assert_eq!(slab.len(), count as usize);
    let lease = slab.lease();
    assert!(ids.iter().zip(0..).all(|(id, value)| lease.entry(*id) == Some(&value)));
    drop(lease);
    assert!(ids.iter().step_by(2).all(|id| slab.remove(*id)));
    let mut sum = 0_u64;
    for (id, value) in slab.lease().iter() {
        assert_eq!(ids[*value as usize], id);
        sum += u64::from(*value);
    }
    assert_eq!(sum, u64::from(count / 2).pow(2), "the sum of the odd numbers below {count}");
    assert_eq!(slab.retired(), 0);
}

const WORDS: usize = 16;
const POISON: u64 = 0xdead_dead_dead_dead;

/// Sixteen equal words, overwritten on drop: a reader that finds anything else has seen a dropped or a half-made entry.
struct Poisonous {
    words: [AtomicU64; WORDS],
    drops: Arc<AtomicUsize>,
}

impl Poisonous {
    fn new(value: u64, drops: &Arc<AtomicUsize>) -> Self {
        Self { words: core::array::from_fn(|_| AtomicU64::new(value)), drops: Arc::clone(drops) }
    }

    fn assert_whole(&self, value: u64) {
        for word in &self.words {
            assert_eq!(word.load(Ordering::Relaxed), value);
        }
    }
}

impl Drop for Poisonous {
    fn drop(&mut self) {
        for word in &self.words {
            assert_ne!(word.swap(POISON, Ordering::Relaxed), POISON, "dropped twice");
        }
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

/// An id in one word, so that writers can show it to readers; the entry's words are this very number.
fn pack(id: SlotId) -> u64 {
    (u64::from(id.slot) << 32) | u64::from(id.generation)
}

fn unpack(word: u64) -> SlotId {
    SlotId { slot: (word >> 32) as u32, generation: word as u32 }
}

/// Looks shown entries up for a while; returns how often something was found, and how often it was removed meanwhile.
fn read_until(end: Instant, slab: &Slab<Poisonous>, shown: &[AtomicU64], seed: usize) -> (usize, usize) {
    let (mut found, mut outlived, mut at) = (0, 0, seed);
    while Instant::now() < end {
        let lease = slab.lease();
        for _ in 0..8 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let word = shown[(at >> 33) % shown.len()].load(Ordering::Relaxed);
            let Some(entry) = lease.entry(unpack(word)) else { continue };
            let expected = entry.words[0].load(Ordering::Relaxed);
            entry.assert_whole(expected);
            if at.is_multiple_of(64) {
                thread::yield_now();
            }
            entry.assert_whole(expected);
            found += 1;
            outlived += usize::from(lease.entry(unpack(word)).is_none());
        }
    }
    (found, outlived)
}

#[test]
fn readers_never_see_a_dropped_entry() {
    let drops = Arc::new(AtomicUsize::new(0));
    let slab = Arc::new(Slab::with_limit(10_000));
    let serial = AtomicU64::new(1);
    let refused = AtomicUsize::new(0);
    // A reader that is interrupted under its lease holds up everything removed meanwhile, so the slab may well be full.
    let insert = || {
        loop {
            let value = serial.fetch_add(1, Ordering::Relaxed);
            match slab.insert(Poisonous::new(value, &drops)) {
                Ok(id) => return id,
                Err(full) => assert!(full.retired > 0, "{full}"),
            }
            refused.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    };
    let shown: Vec<_> = (0..64).map(|_| AtomicU64::new(pack(insert()))).collect();
    let end = Instant::now() + Duration::from_millis(1500);
    let (mut found, mut outlived, mut removed) = (0, 0, 0);
    thread::scope(|scope| {
        let readers: Vec<_> = (1..=3)
            .map(|seed| {
                let (slab, shown) = (&slab, &shown);
                scope.spawn(move || read_until(end, slab, shown, seed))
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|half| {
                let (shown, slab, insert) = (&shown[half * 32..half * 32 + 32], &slab, &insert);
                scope.spawn(move || {
                    let mut removed = 0;
                    while Instant::now() < end {
                        for place in shown {
                            let old = unpack(place.load(Ordering::Relaxed));
                            place.store(pack(insert()), Ordering::Relaxed);
                            assert!(slab.remove(old) && !slab.remove(old));
                            removed += 1;
                        }
                    }
                    removed
                })
            })
            .collect();
        removed += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>();
        for reader in readers {
            let counts = reader.join().unwrap();
            found += counts.0;
            outlived += counts.1;
        }
    });
    assert!(found > 1000 && removed > 1000, "{found} found, {removed} removed");
    assert!(outlived > 0, "no reader ever held an entry over its removal: the test shows nothing");
    assert_eq!(slab.retired(), 0, "all leases have ended");
    let removed = removed + refused.load(Ordering::Relaxed);
    assert_eq!(drops.load(Ordering::Relaxed), removed);
    assert_eq!(slab.len(), 64);
    drop(slab);
    assert_eq!(drops.load(Ordering::Relaxed), removed + 64);
}
