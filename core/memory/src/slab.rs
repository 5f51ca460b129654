//! A table that many threads read without locks while others insert and remove.

mod epochs;
#[cfg(all(loom, test))]
mod model;

use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::Full;
use crate::sync::{Arc, AtomicPtr, AtomicU32, AtomicUsize, Mutex};
use epochs::{Epochs, Ticket};

/// Most slots of one slab: 16 million.
pub const SLAB_MAX: u32 = 1 << 24;

/// Slots in a segment, as a power of two: 4096 slots of 16 bytes are 64 KiB. Tiny when the orderings are explored.
const SEGMENT_BITS: u32 = if cfg!(all(loom, test)) { 1 } else { 12 };
const SEGMENT_LEN: u32 = 1 << SEGMENT_BITS;

/// The name of an entry: its slot, and how often the slot's state had changed when the entry moved in. Slots are used again,
/// names practically never: a slot serves 2^31 entries and is then given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId {
    /// Index of the slot, below the slab's limit.
    pub slot: u32,
    /// Odd for every id that was ever given out; so 0 is never valid.
    pub generation: u32,
}

/// A place for one entry. The generation is odd while it holds one, even while it is free.
struct Slot<T> {
    generation: AtomicU32,
    /// Owns an `Arc<T>` while the generation is odd. After that the pointer is stale and nobody follows it.
    entry: AtomicPtr<T>,
}

#[cfg(not(all(loom, test)))]
const _: () = assert!(size_of::<Slot<[u8; 100]>>() == 16);

/// A concurrently readable table of entries under leases; the key table stands on it.
///
/// - [`Slab::lease`] costs two uncontended atomic operations in all; [`Lease::entry`] under it costs three loads.
/// - [`Slab::insert`] never waits for readers, nor readers for it.
/// - [`Slab::remove`] takes effect at once: no lookup that begins after it returns finds the entry. The entry
///   itself is dropped as soon as every lease that was open at the removal has ended, by whoever ends the last one,
///   or by `remove` itself if none was open. To be exact: where leases opened between removals overlap without a
///   gap for more than three removals, later leases may be waited for as well. A lease held for long delays the dropping
///   (and wiping) of everything removed meanwhile; it is meant for the time of a batch.
/// - [`Lease::pin`] is for whoever may hold an entry for ever: it keeps that entry alone, and no other waits for it.
///
/// # Why it is sound
///
/// Slots lie in segments that never move and are freed with the slab alone, so a segment's pointer, once
/// seen, stays good. A reader under a lease follows `entry` only after it has read the generation that was asked for, an odd
/// one. `insert` stores the pointer before it releases that generation, so the reader sees that pointer or a
/// later one. A later one there is not: a slot goes back to the free list only when its old entry is dropped, and that
/// happens after the end of every lease that could have read the old generation (proof in `epochs`), so before
/// the end of this reader's lease neither is the entry dropped nor is the slot used again. The reference handed out borrows
/// the lease, so it ends with it. Everything else is done under the writer lock.
pub struct Slab<T> {
    /// A pointer to [`SEGMENT_LEN`] slots for every segment, null until it is needed; they appear in order.
    segments: Box<[AtomicPtr<Slot<T>>]>,
    epochs: Epochs,
    limit: u32,
    live: AtomicUsize,
    writer: Mutex<Writer<T>>,
    _owns: PhantomData<Arc<T>>,
}

/// What only the holder of the writer lock touches.
struct Writer<T> {
    /// Free slots that were used before.
    free: Vec<u32>,
    /// The first slot that never was used.
    fresh: u32,
    /// All leases of epochs before this one have been seen ended.
    oldest: u64,
    /// Removed entries that leases may still see, by epoch of removal.
    retired: VecDeque<Retired<T>>,
}

struct Retired<T> {
    epoch: u64,
    slot: u32,
    entry: *const T,
}

// SAFETY: the slab shares its entries with pins on other threads and drops them on whichever thread ends a lease or pin,
// which `T: Send + Sync` allows.
unsafe impl<T: Send + Sync> Send for Slab<T> {}
// SAFETY: shared access hands out `&T` on any thread (`T: Sync`) and may drop entries there (`T: Send`); the rest is
// atomics and a lock.
unsafe impl<T: Send + Sync> Sync for Slab<T> {}

impl<T> Slab<T> {
    /// An empty slab of at most `limit` slots; a limit beyond [`SLAB_MAX`] is taken as [`SLAB_MAX`]. Memory for slots is
    /// taken as they are needed.
    pub fn with_limit(limit: u32) -> Self {
        let limit = limit.min(SLAB_MAX);
        let segments = (0..limit.div_ceil(SEGMENT_LEN)).map(|_| AtomicPtr::new(ptr::null_mut()));
        Self {
            segments: segments.collect(),
            epochs: Epochs::new(),
            limit,
            live: AtomicUsize::new(0),
            writer: Mutex::new(Writer { free: Vec::new(), fresh: 0, oldest: 0, retired: VecDeque::new() }),
            _owns: PhantomData,
        }
    }

    /// Moves an entry in and names it.
    ///
    /// # Errors
    ///
    /// [`Full`] when every slot is taken, by a live entry or by a removed one that a lease may still see. The entry is
    /// dropped then.
    pub fn insert(&self, entry: T) -> Result<SlotId, Full> {
        let entry = Arc::new(entry);
        self.with_writer(|writer| {
            let index = match writer.free.pop() {
                Some(index) => index,
                None if writer.fresh < self.limit => self.take_fresh(writer),
                None => {
                    return Err(Full {
                        limit: self.limit,
                        live: self.len() as u32,
                        retired: writer.retired.len() as u32,
                    });
                }
            };
            // Below `fresh`, so its segment is there.
            let Some(slot) = self.slot(index) else { unreachable!("slots below the fresh one exist") };
            let generation = slot.generation.load(Relaxed) + 1;
            slot.entry.store(Arc::into_raw(entry).cast_mut(), Relaxed);
            // Publishes the entry: whoever reads this generation sees the pointer and what it points to.
            slot.generation.store(generation, Release);
            self.live.fetch_add(1, Relaxed);
            Ok(SlotId { slot: index, generation })
        })
    }

    /// Takes an entry out: later lookups do not find it, and it is dropped as soon as no lease can see it any more. False
    /// when there is no such entry (any more).
    pub fn remove(&self, id: SlotId) -> bool {
        let mut dead = Vec::new();
        let removed = self.with_writer(|writer| {
            let Some(slot) = self.slot(id.slot) else { return false };
            if !is_live(id.generation) || slot.generation.load(Relaxed) != id.generation {
                return false;
            }
            // After the last odd generation comes 0, which marks a slot that is given up.
            slot.generation.store(id.generation.wrapping_add(1), Release); // R1 in `epochs`
            let entry = slot.entry.load(Relaxed).cast_const();
            writer.retired.push_back(Retired { epoch: self.epochs.current(), slot: id.slot, entry });
            self.live.fetch_sub(1, Relaxed);
            self.collect(writer, &mut dead);
            true
        });
        // Only now, without the lock: an entry's drop may take its time, and may call the slab.
        drop(dead);
        removed
    }

    /// Opens a lease: entries found under it stay until it ends, even when they are removed meanwhile.
    #[inline]
    pub fn lease(&self) -> Lease<'_, T> {
        Lease { slab: self, ticket: Some(self.enter()) }
    }

    /// Number of live entries.
    pub fn len(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Whether there is no live entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most slots that there can be. Slots that served 2^31 entries, and slots whose removed entry a lease may still
    /// see, count although they hold no live entry.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Removed entries that are still kept for a lease.
    pub fn retired(&self) -> usize {
        self.with_writer(|writer| writer.retired.len())
    }

    #[inline]
    fn enter(&self) -> Ticket {
        self.epochs.enter(|| self.collect_now())
    }

    #[inline]
    fn leave(&self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket
            && self.epochs.leave(ticket)
        {
            self.collect_now();
        }
    }

    /// The slot of that index, if its segment exists.
    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        // Acquire: whoever sees the segment sees its slots initialised.
        let segment = self.segments.get((index >> SEGMENT_BITS) as usize)?.load(Acquire);
        if segment.is_null() {
            return None;
        }
        // SAFETY: a segment that is not null has SEGMENT_LEN slots, more than the masked index, and is freed only with the slab.
        Some(unsafe { &*segment.add((index & (SEGMENT_LEN - 1)) as usize) })
    }

    /// Looks an entry up.
    ///
    /// # Safety
    ///
    /// The caller holds a lease of this slab, opened before the call, that does not end while the reference lives.
    #[inline]
    unsafe fn look_up(&self, index: u32, generation: u32) -> Option<&T> {
        // SAFETY: the generation was released after this pointer was stored, and the lease that the caller holds keeps the
        // entry from being dropped and the slot from being used again (see the type's documentation).
        self.find(index, generation).map(|entry| unsafe { &*entry })
    }

    /// The pointer that [`Arc::into_raw`] gave for an entry, if it is live; good as long as a lease that was opened before
    /// the call.
    #[inline]
    fn find(&self, index: u32, generation: u32) -> Option<*const T> {
        let slot = self.slot(index)?;
        if slot.generation.load(Acquire) != generation || !is_live(generation) {
            return None;
        }
        Some(slot.entry.load(Relaxed).cast_const())
    }

    #[cold]
    fn collect_now(&self) {
        let mut dead = Vec::new();
        self.with_writer(|writer| self.collect(writer, &mut dead));
        drop(dead);
    }

    /// Moves every retired entry that no lease can see any more to `dead`, and frees its slot. If something is left, the
    /// lease it waits for will call again.
    fn collect(&self, writer: &mut Writer<T>, dead: &mut Vec<Arc<T>>) {
        while let Some(newest) = writer.retired.back() {
            if newest.epoch == self.epochs.current() {
                self.epochs.advance(writer.oldest);
            }
            // If `advance` could not, `oldest` lies further back, so it is never the current epoch here.
            if !self.epochs.is_drained(writer.oldest) {
                return;
            }
            writer.oldest += 1;
            while let Some(retired) = writer.retired.pop_front_if(|retired| retired.epoch < writer.oldest) {
                // SAFETY: the pointer came from `Arc::into_raw` in `insert` and was retired once, by the one removal that
                // matched its generation. All leases that could see it have ended, so only pins refer to it, each with
                // a count of its own.
                dead.push(unsafe { Arc::from_raw(retired.entry) });
                if self.slot(retired.slot).is_some_and(|slot| slot.generation.load(Relaxed) != 0) {
                    writer.free.push(retired.slot);
                }
            }
        }
        self.epochs.rest();
    }

    fn take_fresh(&self, writer: &mut Writer<T>) -> u32 {
        let index = writer.fresh;
        if index.is_multiple_of(SEGMENT_LEN) {
            let slot = |_| Slot { generation: AtomicU32::new(0), entry: AtomicPtr::new(ptr::null_mut()) };
            let slots: Box<[Slot<T>]> = (0..SEGMENT_LEN).map(slot).collect();
            let first = Box::into_raw(slots).cast::<Slot<T>>();
            self.segments[(index >> SEGMENT_BITS) as usize].store(first, Release);
        }
        writer.fresh += 1;
        index
    }

    /// Runs `work` under the writer lock. Nothing in here panics between two changes that belong together, so a
    /// poisoned lock is taken as it is.
    fn with_writer<R>(&self, work: impl FnOnce(&mut Writer<T>) -> R) -> R {
        work(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a slot of this generation holds an entry.
#[inline]
fn is_live(generation: u32) -> bool {
    generation & 1 == 1
}

impl<T> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Slab");
        out.field("len", &self.len()).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        // No lease exists: one borrows the slab, or keeps it alive. (A leaked one can no longer be used.)
        let mut dead: Vec<Arc<T>> = Vec::new();
        self.with_writer(|writer| {
            for retired in writer.retired.drain(..) {
                // SAFETY: as in `collect`: retired once, and nothing but pins refers to it.
                dead.push(unsafe { Arc::from_raw(retired.entry) });
            }
        });
        for segment in &self.segments {
            let first = segment.load(Acquire);
            if first.is_null() {
                break;
            }
            let slots = ptr::slice_from_raw_parts_mut(first, SEGMENT_LEN as usize);
            // SAFETY: `take_fresh` made the segment from a box of this many slots, and nothing refers to it any more.
            let slots = unsafe { Box::from_raw(slots) };
            for slot in &slots {
                if is_live(slot.generation.load(Relaxed)) {
                    // SAFETY: a slot of odd generation owns the count that `insert` took out of its `Arc`.
                    dead.push(unsafe { Arc::from_raw(slot.entry.load(Relaxed).cast_const()) });
                }
            }
        }
    }
}

/// Keeps what is found under it alive. Cheap to open; meant to be held for a batch, not for a connection.
#[must_use = "a lease that is dropped at once protects nothing"]
pub struct Lease<'s, T> {
    slab: &'s Slab<T>,
    /// There until the drop.
    ticket: Option<Ticket>,
}

impl<T> Lease<'_, T> {
    /// The entry of that name, if it is live. The reference lives as long as the borrow of the lease.
    #[inline]
    pub fn get(&self, slot: u32, generation: u32) -> Option<&T> {
        // SAFETY: `self` is a lease of this slab that ends in its drop, so not while it is borrowed.
        unsafe { self.slab.look_up(slot, generation) }
    }

    /// As [`Self::get`], by id.
    #[inline]
    pub fn entry(&self, id: SlotId) -> Option<&T> {
        self.get(id.slot, id.generation)
    }

    /// The entry of that name, kept beyond the lease for as long as somebody holds it: when it is removed, whoever lets go
    /// of it last drops it. Its slot and all other entries are independent of that.
    pub fn pin(&self, slot: u32, generation: u32) -> Option<Arc<T>> {
        let entry = self.slab.find(slot, generation)?;
        // SAFETY: the pointer came from `Arc::into_raw` in `insert`, and the slab's own count is not given up before this
        // lease ends; the count that is added here belongs to the new `Arc`.
        unsafe {
            Arc::increment_strong_count(entry);
            Some(Arc::from_raw(entry))
        }
    }

    /// The live entries in the order of their slots. What is inserted or removed meanwhile may be seen or not.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { slab: self.slab, next: 0 }
    }
}

impl<T> Drop for Lease<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slab.leave(self.ticket.take());
    }
}

impl<T> fmt::Debug for Lease<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
    }
}

/// The live entries of a slab; see [`Lease::iter`]. Only made from a borrowed lease, which it cannot outlive.
pub struct Iter<'l, T> {
    slab: &'l Slab<T>,
    next: u32,
}

impl<'l, T> Iterator for Iter<'l, T> {
    type Item = (SlotId, &'l T);

    fn next(&mut self) -> Option<Self::Item> {
        while self.next < self.slab.limit {
            let index = self.next;
            // Segments appear in order: behind the first that is missing there is nothing.
            let generation = self.slab.slot(index)?.generation.load(Relaxed);
            self.next += 1;
            // SAFETY: the iterator borrows a lease of this slab for `'l`.
            if let Some(entry) = unsafe { self.slab.look_up(index, generation) } {
                return Some((SlotId { slot: index, generation }, entry));
            }
        }
        None
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_whose_generations_are_used_up_is_given_up() {
        let slab = Slab::with_limit(2);
        let first = slab.insert("first").unwrap();
        assert!(slab.remove(first));
        // The last even generation there is: the next entry gets the last odd one.
        slab.slot(first.slot).unwrap().generation.store(u32::MAX - 1, Relaxed);
        let last = slab.insert("last").unwrap();
        assert_eq!(last, SlotId { slot: first.slot, generation: u32::MAX });
        assert_eq!(slab.lease().entry(last), Some(&"last"));
        assert!(slab.remove(last));
        assert_eq!(slab.lease().entry(last), None);
        assert_eq!(slab.lease().get(last.slot, 0), None);
        assert!(!slab.remove(SlotId { slot: last.slot, generation: 0 }));
        let other = slab.insert("other").unwrap();
        assert_ne!(other.slot, last.slot);
        assert_eq!(slab.insert("none"), Err(Full { limit: 2, live: 1, retired: 0 }));
    }
}
