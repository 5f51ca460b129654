//! What the core has for providers to call.

use std::sync::OnceLock;

use crate::dispatch::{Core, Table};
use crate::ffi::Dispatch;

static CORE: OnceLock<Core> = OnceLock::new();

/// Notes the functions of the core, which are the same for all library contexts.
///
/// # Safety
/// The table must be the one that the core gives a provider.
pub(crate) unsafe fn note(table: *const Dispatch) {
    // SAFETY: the caller's promise.
    CORE.get_or_init(|| unsafe { Core::read(table) });
}

/// The functions of the core; none before the provider is loaded.
pub(crate) fn core() -> Core {
    CORE.get().copied().unwrap_or_default()
}
