//! The ring between a thread and its helper: one writes, one reads, and neither takes a lock.
//!
//! Counters of slots written and slots read only ever grow. Each end keeps its own counter to itself and tells the other
//! every [`BURST`] slots, so that a cache line moves between the cores once a burst and not once a slot.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Slots of the ring: 8 KiB, which stay in both cores' caches. A model has few, so that it can be looked at in full.
const SLOTS_MAX: usize = if cfg!(loom) { 2 } else { 1024 };

/// Slots that are told of at once.
const BURST: usize = if cfg!(loom) { 1 } else { 32 };

/// Looks at the other end's counter before the processor is offered to other threads.
const SPINS_MAX: u32 = 2000;

const _: () = assert!(SLOTS_MAX.is_power_of_two() && SLOTS_MAX.is_multiple_of(BURST) && SLOTS_MAX >= 2 * BURST);

/// A counter in two cache lines of its own, since processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicUsize);

/// The ring.
pub(crate) struct Ring {
    slots: Box<[AtomicU64; SLOTS_MAX]>,
    written: Counter,
    read: Counter,
}

/// The end that writes.
pub(crate) struct Writer<'r> {
    ring: &'r Ring,
    at: usize,
    /// Slots up to here are free.
    free_until: usize,
}

/// The end that reads.
pub(crate) struct Reader<'r> {
    ring: &'r Ring,
    at: usize,
    /// Slots up to here are written.
    full_until: usize,
}

impl Ring {
    /// An empty ring.
    pub(crate) fn new() -> Ring {
        let slots = Box::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Ring { slots, written: Counter::default(), read: Counter::default() }
    }

    /// Both ends of the ring, which is empty again. They borrow it, so that there is one of each.
    pub(crate) fn ends(&mut self) -> (Writer<'_>, Reader<'_>) {
        self.written = Counter::default();
        self.read = Counter::default();
        let ring = &*self;
        (Writer { ring, at: 0, free_until: SLOTS_MAX }, Reader { ring, at: 0, full_until: 0 })
    }
}

/// Waits until `counter` is not `known` any more, and returns it.
#[cold]
fn wait(counter: &Counter, known: usize) -> usize {
    let mut looks = 0;
    loop {
        let value = counter.0.load(Ordering::Acquire);
        if value != known {
            return value;
        }
        looks += 1;
        pause(looks > SPINS_MAX);
    }
}

#[cfg(not(loom))]
fn pause(long: bool) {
    if long {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
fn pause(_long: bool) {
    loom::thread::yield_now();
}

impl Writer<'_> {
    /// Writes a slot, and waits while the ring is full.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: u64) {
        if self.at == self.free_until {
            self.free_until = wait(&self.ring.read, self.at - SLOTS_MAX) + SLOTS_MAX;
        }
        self.ring.slots[self.at % SLOTS_MAX].store(value, Ordering::Relaxed);
        self.at += 1;
        if self.at.is_multiple_of(BURST) {
            self.publish();
        }
    }

    /// Tells the reader of what was written so far; needed when less than a burst follows.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        self.ring.written.0.store(self.at, Ordering::Release);
    }
}

impl Reader<'_> {
    /// Reads a slot, and waits while there is none.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> u64 {
        if self.at == self.full_until {
            self.full_until = wait(&self.ring.written, self.at);
        }
        let value = self.ring.slots[self.at % SLOTS_MAX].load(Ordering::Relaxed);
        self.at += 1;
        if self.at.is_multiple_of(BURST) {
            self.ring.read.0.store(self.at, Ordering::Release);
        }
        value
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    #[test]
    fn every_ordering_brings_every_slot() {
        let mut model = loom::model::Builder::new();
        // Both ends wait in loops, whose every number of turns would be an ordering of its own.
        model.preemption_bound = Some(3);
        model.check(|| {
            // The ends outlive this closure's borrow in the model's threads.
            let (mut writer, mut reader) = Box::leak(Box::new(Ring::new())).ends();
            let thread = loom::thread::spawn(move || {
                for value in 1..=SLOTS_MAX as u64 + 1 {
                    writer.push(value);
                }
                writer.publish();
            });
            for value in 1..=SLOTS_MAX as u64 + 1 {
                assert_eq!(reader.pop(), value);
            }
            thread.join().expect("a writer");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn everything_arrives_in_order() {
        let mut ring = Ring::new();
        for round in 0..3u64 {
            // Not a multiple of a burst, so that the ends start anew somewhere within one.
            let count = 40_007;
            let (mut writer, mut reader) = ring.ends();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for value in 0..count {
                        writer.push(value ^ round << 32);
                    }
                    writer.publish();
                });
                for value in 0..count {
                    assert_eq!(reader.pop(), value ^ round << 32);
                }
            });
        }
    }

    #[test]
    fn a_full_ring_takes_no_more_until_it_is_read() {
        let mut ring = Ring::new();
        let (mut writer, mut reader) = ring.ends();
        for value in 0..SLOTS_MAX as u64 {
            writer.push(value);
        }
        assert_eq!(writer.at, writer.free_until);
        for value in 0..BURST as u64 {
            assert_eq!(reader.pop(), value);
        }
        writer.push(7);
        assert_eq!(writer.free_until, writer.at + BURST - 1);
        for value in BURST as u64..SLOTS_MAX as u64 {
            assert_eq!(reader.pop(), value);
        }
    }
}
