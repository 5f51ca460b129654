//! What this processor has, and what it fetches ahead.

/// AVX-512 (F, BW, VL, DQ) and what every processor that has it has: what the kernels of 512 bits enable.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512dq")
        && has_avx2()
}

/// AVX2 and the bit instructions: what the kernels of 256 bits enable.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
}

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
