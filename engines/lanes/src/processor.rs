//! What is fetched into the caches ahead of its use.

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
