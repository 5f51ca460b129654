//! Which process this is, for handles that children inherit.
//!
//! Keys lie on pages that children do not get, and the mill's threads do not come along: a child that touched a handle of its
//! parent would die or wait for ever. A system call for each operation would be a tenth of a short one's time, so the question
//! is answered by a word on a page that is zero in children (`MADV_WIPEONFORK`), however they were forked.

use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The page with this process's number; [`NO_PAGE`] where the system has none to give.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// Numbers that this process and its ancestors have had; children inherit the count.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

const NO_PAGE: *mut AtomicU64 = without_provenance_mut(1);

/// A number that no process has which this one descends from.
#[inline]
pub(crate) fn number() -> u64 {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        page = map();
    }
    if page == NO_PAGE {
        return u64::from(std::process::id());
    }
    // SAFETY: `map` has made it, with room for the number, and nobody takes it away.
    let cell = unsafe { &*page };
    match cell.load(Ordering::Relaxed) {
        0 => {
            let new = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            cell.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|other| other, |_| new)
        }
        number => number,
    }
}

/// Maps the page, without a lock that a child could inherit.
#[cold]
fn map() -> *mut AtomicU64 {
    const LEN: usize = size_of::<AtomicU64>();
    // SAFETY: new memory, wherever there is room.
    let new = unsafe {
        libc::mmap(null_mut(), LEN, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    let mut page = NO_PAGE;
    if new != libc::MAP_FAILED {
        // SAFETY: what was mapped above; its bytes are zero and nobody's yet.
        if unsafe { libc::madvise(new, LEN, libc::MADV_WIPEONFORK) } == 0 {
            page = new.cast();
        } else {
            // SAFETY: as above, and nobody has seen it.
            unsafe { libc::munmap(new, LEN) };
        }
    }
    match PAGE.compare_exchange(null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => page,
        Err(first) => {
            if page != NO_PAGE {
                // SAFETY: another thread was first, and nobody has seen this one.
                unsafe { libc::munmap(page.cast(), LEN) };
            }
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_number_and_its_children_have_others() {
        let mine = number();
        assert_ne!(mine, 0);
        assert_eq!(number(), mine);
        // SAFETY: the child calls nothing but this and `_exit`.
        match unsafe { libc::fork() } {
            // SAFETY: it ends the child at once.
            0 => unsafe { libc::_exit(i32::from(number() == mine)) },
            child => {
                let mut status = -1;
                // SAFETY: waits for the child just made.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0);
            }
        }
        assert_eq!(number(), mine);
    }
}
