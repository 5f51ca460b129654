//! What belongs to one process: the mill, and whatever holds keys.
//!
//! Keys lie on pages that forked children do not get. A child that touched an object of its parent would die, so
//! each remembers its process, says so in another one, and is not even dropped there.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use ciphermill::Mill;
use pyo3::prelude::*;

use crate::errors;

/// How many threads a batch may be split over. Without it, as many as there are cores.
const THREADS: &str = "CIPHERMILL_THREADS";

/// Threads that may be asked for.
const THREADS_MAX: usize = 1024;

/// The mill of this process, and which process that is. Locked only while the interpreter's lock is held, so that no fork
/// happens meanwhile.
static MILL: Mutex<Option<(u32, ManuallyDrop<Mill>)>> = Mutex::new(None);

/// The mill of this process; made at the first call.
///
/// # Errors
/// Those of opening a mill, and `Misuse` for what is no number of threads.
pub(crate) fn mill(_py: Python<'_>) -> PyResult<Mill> {
    let mut mill = MILL.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    match &*mill {
        Some((owner, mill)) if *owner == pid => Ok(Mill::clone(mill)),
        _ => {
            let builder = Mill::builder().engines(ciphermill_engines::all());
            let builder = match threads()? {
                // The calling thread is one of them.
                Some(threads) => builder.workers(if threads < 2 { 0 } else { threads }),
                None => builder,
            };
            let new = builder.open().map_err(errors::of_mill)?;
            // The parent's mill has threads that are not here, so it is left as it lies.
            *mill = Some((pid, ManuallyDrop::new(new.clone())));
            Ok(new)
        }
    }
}

fn threads() -> PyResult<Option<usize>> {
    let Some(text) = std::env::var_os(THREADS) else { return Ok(None) };
    match text.to_str().and_then(|text| text.parse().ok()) {
        Some(threads) if threads <= THREADS_MAX => Ok(Some(threads)),
        _ => Err(errors::misuse(format!("{THREADS} is a number from 0 to {THREADS_MAX}"))),
    }
}

/// A value that only the process that made it may touch.
pub(crate) struct Here<T> {
    pid: u32,
    value: ManuallyDrop<T>,
}

impl<T> Here<T> {
    pub(crate) fn new(value: T) -> Here<T> {
        Here { pid: std::process::id(), value: ManuallyDrop::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// `Misuse` in another process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        if self.pid == std::process::id() {
            return Ok(&self.value);
        }
        Err(errors::misuse(format!(
            "keys do not go along into forked processes: this object belongs to process {}; open the keystore in each \
             process that needs it",
            self.pid
        )))
    }
}

impl<T> Here<T> {
    /// The value, to be changed; `None` in another process.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        (self.pid == std::process::id()).then_some(&mut *self.value)
    }
}

impl<T> Drop for Here<T> {
    #[allow(unsafe_code, reason = "dropping in one process and not in another")]
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
