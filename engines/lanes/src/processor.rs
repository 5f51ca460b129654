//! What a processor and a compiler are told besides the work itself: what is fetched into the caches ahead of its use, and
//! what is not calculated in another order.

/// Where a line is fetched to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// The first-level cache: it is read soon.
    Reading,
    /// The first-level cache: it is written soon.
    Writing,
    /// The second-level cache: it is read later.
    Later,
}

/// Fetches a line into the cache.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8, what_for: For) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: fetching has no effect but on the cache, whatever the place.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match what_for {
            For::Reading => _mm_prefetch::<_MM_HINT_T0>(at.cast()),
            For::Writing => _mm_prefetch::<_MM_HINT_ET0>(at.cast()),
            For::Later => _mm_prefetch::<_MM_HINT_T1>(at.cast()),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, what_for);
}

/// A number that the compiler takes as it is: it reorders sums and exclusive ors as it likes, often with the value last
/// that was there first, and then what waits for the result waits longer.
#[inline(always)]
pub(crate) fn as_is(number: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut number = number;
        // SAFETY: no instruction at all.
        unsafe {
            core::arch::asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
        }
        number
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    number
}
