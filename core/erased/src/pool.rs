//! Where values lie: close together, so that thousands of keys are few pages. A page of 4 KiB has two of AES-GCM's, and of 5,000 pages a processor
//! has to look up nearly every one anew: an eighth to a fifth of the time of a packet of 64 bytes under one of 10,000 keys.
//!
//! Values lie behind each other, in whole lines of the cache; what is given back is used again for values of as many lines. After the first
//! [`SMALL`] bytes, memory is asked for in huge pages. It is kept until the process ends, and out of core dumps.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::alloc::handle_alloc_error;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Lengths are rounded up to lines of the cache, and values aligned to one.
const LINE: usize = 64;

/// The longest values that lie here.
const LEN_MAX: usize = 8 << 10;

/// Bytes that are taken in pages as they are: who has few keys does not pay for a huge page.
const SMALL: usize = 1 << 20;

/// Bytes that are taken at a time until then, and afterwards.
const SMALL_CHUNK: usize = 64 << 10;
const LARGE_CHUNK: usize = 8 << 20;

/// Bytes of a huge page, of the processors that have them in this size.
const HUGE: usize = 2 << 20;

/// Whether values of a layout lie in the pool; others lie in boxes, as all do for Miri and sanitizers, which see of boxes alone that they are gone.
pub(crate) const fn holds(layout: Layout) -> bool {
    0 < layout.size() && layout.size() <= LEN_MAX && layout.align() <= LINE && !cfg!(any(miri, boxes))
}

/// The pool of this process. A forked child begins with a pool of its own, since a thread that it does not have may hold a lock of its parent's; it
/// takes back values of its parent's, which are its own copies.
static GLOBAL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

struct Pool {
    /// The first free place of each length.
    free: [Mutex<Option<Place>>; LEN_MAX / LINE],
    fresh: Mutex<Fresh>,
}

/// Memory for a value, which nobody refers to. While it is free, it begins with the next one of its length.
#[derive(Clone, Copy)]
struct Place(NonNull<Option<Place>>);

// SAFETY: plain memory that belongs to whoever has the name; nothing about it is tied to a thread.
unsafe impl Send for Place {}

/// What was never used.
struct Fresh {
    next: NonNull<u8>,
    left: usize,
    /// Bytes that were taken from the system.
    taken: usize,
}

// SAFETY: as for places.
unsafe impl Send for Fresh {}

/// Memory for a value of a layout that the pool holds.
pub(crate) fn take(layout: Layout) -> NonNull<u8> {
    Pool::global().take(lines_of(layout)).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Takes it back.
///
/// # Safety
/// It came from [`take`] for this layout, here or in the process that this one was forked from, and nothing refers to it.
pub(crate) unsafe fn give_back(place: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { Pool::global().give_back(place, lines_of(layout)) }
}

fn lines_of(layout: Layout) -> usize {
    debug_assert!(holds(layout));
    layout.size().div_ceil(LINE)
}

impl Pool {
    const fn new() -> Pool {
        Pool {
            free: [const { Mutex::new(None) }; LEN_MAX / LINE],
            fresh: Mutex::new(Fresh { next: NonNull::dangling(), left: 0, taken: 0 }),
        }
    }

    fn global() -> &'static Pool {
        // SAFETY: what is not null was leaked below, and stays.
        unsafe { GLOBAL.load(Ordering::Acquire).as_ref() }.unwrap_or_else(Pool::begin)
    }

    #[cold]
    fn begin() -> &'static Pool {
        extern "C" fn forget() {
            GLOBAL.store(ptr::null_mut(), Ordering::Release);
        }
        static AT_FORK: Once = Once::new();
        // SAFETY: the handler stores one pointer, which every state of a forked child allows.
        AT_FORK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(forget));
        });
        let new = Box::into_raw(Box::new(Pool::new()));
        match GLOBAL.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked just now, here or by another thread.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: nobody else has seen the one, and the other was leaked.
                unsafe {
                    drop(Box::from_raw(new));
                    &*other
                }
            }
        }
    }

    fn take(&self, lines: usize) -> Option<NonNull<u8>> {
        let mut free = hold(&self.free[lines - 1]);
        if let Some(Place(place)) = *free {
            // SAFETY: a free place, which has the next one in it.
            *free = unsafe { place.read() };
            return Some(place.cast());
        }
        drop(free);
        hold(&self.fresh).take(LINE * lines)
    }

    /// # Safety
    /// So many lines that a pool gave, and that nothing refers to.
    unsafe fn give_back(&self, place: NonNull<u8>, lines: usize) {
        let place = place.cast::<Option<Place>>();
        let mut free = hold(&self.free[lines - 1]);
        // SAFETY: a line at least, aligned to one.
        unsafe { place.write(*free) };
        *free = Some(Place(place));
    }
}

impl Fresh {
    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        if self.left < len {
            // What is left is less than a value of the longest.
            let chunk = if self.taken < SMALL { SMALL_CHUNK } else { LARGE_CHUNK };
            self.next = map(chunk)?;
            self.left = chunk;
            self.taken += chunk;
        }
        let place = self.next;
        // SAFETY: as many bytes are left in the chunk.
        self.next = unsafe { place.add(len) };
        self.left -= len;
        Some(place)
    }
}

/// A chunk of zero pages, huge ones if it is a large one and the system has them.
fn map(len: usize) -> Option<NonNull<u8>> {
    let is_large = len == LARGE_CHUNK;
    // Space for beginning with a whole huge page; what is not touched costs nothing.
    let mapped = if is_large { len + HUGE } else { len };
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the address is null and MAP_FIXED is not set, so the kernel picks a range that nothing uses. What is advised leaves its content alone,
    // and is refused at no harm.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), mapped, protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(start, mapped, libc::MADV_DONTDUMP);
        let start = start.cast::<u8>();
        let first = if is_large { start.add(start.align_offset(HUGE)) } else { start };
        if is_large {
            libc::madvise(first.cast(), len, libc::MADV_HUGEPAGE);
        }
        NonNull::new(first)
    }
}

/// Takes a lock. Nothing panics while one is held.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(any(miri, boxes))))]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_at_lines_through_small_and_large_chunks() {
        let pool = Pool::new();
        let mut places = Vec::new();
        while hold(&pool.fresh).taken <= SMALL + LARGE_CHUNK {
            for lines in [1, 28, LEN_MAX / LINE, 3] {
                let place = pool.take(lines).expect("memory");
                // SAFETY: so many bytes are ours.
                unsafe { place.write_bytes(0x5a, LINE * lines) };
                places.push((place.addr().get(), LINE * lines));
            }
        }
        places.sort_unstable();
        assert!(places.iter().all(|(at, _)| at.is_multiple_of(LINE)));
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    }

    #[test]
    fn what_was_given_back_is_used_again_for_its_length_alone() {
        let pool = Pool::new();
        let [first, second, other] = [2, 2, 3].map(|lines| pool.take(lines).expect("memory"));
        // SAFETY: taken just now, and not used.
        unsafe {
            pool.give_back(first, 2);
            pool.give_back(second, 2);
            pool.give_back(other, 3);
        }
        assert_eq!([2, 2, 3].map(|lines| pool.take(lines)), [Some(second), Some(first), Some(other)]);
        let fresh = pool.take(2).expect("memory");
        assert!(![first, second].contains(&fresh));
    }

    #[test]
    fn empty_long_and_wide_values_lie_elsewhere() {
        let is_held = |len, align| holds(Layout::from_size_align(len, align).expect("a layout"));
        assert_eq!([0, 1, LEN_MAX, LEN_MAX + 1].map(|len| is_held(len, 1)), [false, true, true, false]);
        assert_eq!([64, 128].map(|align| is_held(256, align)), [true, false]);
    }

    /// A child has copies of its parent's values, drops them, and makes others.
    #[test]
    fn a_forked_child_goes_on_with_a_pool_of_its_own() {
        let layout = Layout::new::<[u64; 20]>();
        let place = take(layout).cast::<[u64; 20]>();
        // SAFETY: ours.
        unsafe { place.write([7; 20]) };
        let held = hold(&Pool::global().free[lines_of(layout) - 1]);
        // SAFETY: the child does nothing but what is tried, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the child's copy, given back once.
            let is_right = unsafe {
                let is_whole = place.read() == [7; 20];
                give_back(place.cast(), layout);
                is_whole && take(layout) == place.cast()
            };
            // SAFETY: nothing of the parent's is run at the end.
            unsafe { libc::_exit(if is_right { 0 } else { 1 }) };
        }
        drop(held);
        let mut status = -1;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        // SAFETY: the parent's, given back once.
        unsafe {
            assert_eq!(place.read(), [7; 20]);
            give_back(place.cast(), layout);
        }
    }
}
