//! The atomics and the lock of the slab: the standard library's, or loom's when the orderings are being checked.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize},
};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize},
};

/// Loom treats sequentially consistent accesses as acquire and release only and misses their single total order; a
/// fence is what it understands instead. In the real build the accesses carry the order themselves and this is nothing.
#[inline(always)]
pub(crate) fn total_order_in_model() {
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
