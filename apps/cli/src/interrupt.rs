//! Ctrl-C: a flag that long work looks at, so that it can clean up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Whether the user asked to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// A flag that is set on Ctrl-C or SIGTERM. A second Ctrl-C ends the program at once.
pub(crate) fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        own.store(true, Ordering::Relaxed);
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(flag)
}
