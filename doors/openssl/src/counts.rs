//! What the provider has done in this process, for whoever asks it by `OSSL_PROVIDER_get_params`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::Backend;

/// The parameters, each a number without sign of 64 bits.
pub(crate) const KEYS: [&CStr; 5] = [
    c"ciphermill-operations",
    c"ciphermill-delegated",
    c"ciphermill-shared-batches",
    c"ciphermill-shared-operations",
    c"ciphermill-messages",
];

static MESSAGES: AtomicU64 = AtomicU64::new(0);
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static DELEGATED: AtomicU64 = AtomicU64::new(0);

/// Counts an operation that the mill was asked for, and whether it did it; if not, `default` was asked.
pub(crate) fn count(is_done: bool) {
    let counter = if is_done { &OPERATIONS } else { &DELEGATED };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts a message of a cipher that was begun in the mill.
pub(crate) fn count_message() {
    MESSAGES.fetch_add(1, Ordering::Relaxed);
}

/// The count of a parameter.
pub(crate) fn find(key: &[u8]) -> Option<u64> {
    let at = KEYS.iter().position(|known| known.to_bytes() == key)?;
    let shared = |count: fn(&ciphermill::SharedMetrics) -> u64| {
        let metrics = Backend::opened().map(|backend| backend.mill.metrics());
        metrics.map_or(0, |metrics| metrics.shared.iter().map(count).sum())
    };
    Some(match at {
        0 => OPERATIONS.load(Ordering::Relaxed),
        1 => DELEGATED.load(Ordering::Relaxed),
        2 => shared(|metrics| metrics.batches),
        3 => shared(|metrics| metrics.operations),
        _ => MESSAGES.load(Ordering::Relaxed),
    })
}
