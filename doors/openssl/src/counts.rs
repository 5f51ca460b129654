//! What the provider has done in this process, for whoever asks it by `OSSL_PROVIDER_get_params`; and what all processes together
//! have done that were started with `CIPHERMILL_OPENSSL_COUNTS`, for whoever reads the file that it names.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::backend::{Backend, environment};

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

/// The file's content: operations, and those delegated, as numbers of 64 bits in the processor's order.
type Shared = [AtomicU64; 2];

/// The file of counts, mapped into this process and the children that it forks; null where there is none.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

/// Opens the file of counts, if the environment names one. To be called when the provider is loaded: later a program may have
/// changed its root or user, or may open no file any more.
pub(crate) fn open() {
    let Some(mapped) = environment(c"CIPHERMILL_OPENSSL_COUNTS").and_then(|path| map(&path)) else { return };
    SHARED.store(mapped.as_ptr(), Ordering::Release);
}

fn map(path: &str) -> Option<NonNull<Shared>> {
    // Not made here: a name that is wrong leaves no files behind, and who may write it is its owner's choice.
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    if !file.metadata().is_ok_and(|data| data.is_file() && data.len() >= size_of::<Shared>() as u64) {
        return None;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file that is as long, which is never unmapped.
    let place =
        unsafe { libc::mmap(ptr::null_mut(), size_of::<Shared>(), access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if place == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(place.cast())
}

/// Counts an operation that the mill was asked for, and whether it did it; if not, `default` was asked.
pub(crate) fn count(is_done: bool) {
    let counter = if is_done { &OPERATIONS } else { &DELEGATED };
    counter.fetch_add(1, Ordering::Relaxed);
    // SAFETY: null, or a mapping that is aligned to a page and stays. Other processes touch it by such additions too.
    if let Some(shared) = unsafe { SHARED.load(Ordering::Acquire).as_ref() } {
        shared[usize::from(!is_done)].fetch_add(1, Ordering::Relaxed);
    }
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
