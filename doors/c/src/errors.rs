//! Errors as C programs ask for them.

use std::ffi::{CStr, c_char};

use ciphermill::contract::Reason;

use crate::entry::entry;
use crate::failure::{
    CIPHERMILL_AUTH_FAILED, CIPHERMILL_BUSY, CIPHERMILL_ENGINE_FAULT, CIPHERMILL_EXHAUSTED, CIPHERMILL_FORKED,
    CIPHERMILL_MISUSE, CIPHERMILL_OK, CIPHERMILL_PANICKED, CIPHERMILL_REFUSED, CIPHERMILL_SYSTEM, CIPHERMILL_TOO_SHORT,
    Failure, ciphermill_status, last,
};
use crate::foreign;

/// The last error of a thread.
#[repr(C)]
pub struct ciphermill_error {
    /// What the function returned.
    pub status: ciphermill_status,
    /// The rule that was broken, for ciphermill_reason_text, or CIPHERMILL_NO_REASON.
    pub reason: u8,
    /// The index of the operation that broke it within its batch, or CIPHERMILL_NO_OP.
    pub op: u64,
    /// The error in words, with place and rule. It never holds keys or data. Valid until the next call in this thread that
    /// does not return CIPHERMILL_OK.
    pub text: *const c_char,
}

/// Tells the last error of the calling thread: what the last function that did not return CIPHERMILL_OK had to say. Before
/// any, the status is CIPHERMILL_OK and the text empty.
///
/// # Errors
/// CIPHERMILL_MISUSE for a null pointer; what is remembered stays then.
///
/// # Threads
/// Each thread has its own.
///
/// # Safety
/// `error` is as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_last_error(error: *mut ciphermill_error) -> ciphermill_status {
    if error.is_null() || !error.is_aligned() {
        return CIPHERMILL_MISUSE;
    }
    let told = last(|last| ciphermill_error {
        status: last.status,
        reason: last.reason,
        op: last.op,
        text: last.text.as_ptr(),
    });
    let Some(told) = told else { return CIPHERMILL_MISUSE };
    // SAFETY: it is neither null nor unaligned, and the caller's to be written.
    unsafe { error.write(told) };
    CIPHERMILL_OK
}

/// Says in a few words what a status means. The text is constant, and never NULL.
///
/// # Threads
/// Any.
#[unsafe(no_mangle)]
pub extern "C" fn ciphermill_status_text(status: ciphermill_status) -> *const c_char {
    let text: &CStr = match status {
        CIPHERMILL_OK => c"done",
        CIPHERMILL_MISUSE => c"misuse",
        CIPHERMILL_REFUSED => c"refused",
        CIPHERMILL_EXHAUSTED => c"a limit has been reached",
        CIPHERMILL_ENGINE_FAULT => c"engine fault",
        CIPHERMILL_AUTH_FAILED => c"authentication failed",
        CIPHERMILL_SYSTEM => c"the operating system refused",
        CIPHERMILL_PANICKED => c"a bug of the library, caught",
        CIPHERMILL_FORKED => c"the handle belongs to the parent process",
        CIPHERMILL_BUSY => c"the handle is in use by another thread",
        CIPHERMILL_TOO_SHORT => c"the buffer is too short",
        _ => c"unknown status",
    };
    text.as_ptr()
}

/// Writes the rule behind a reason in words, NUL at the end, to `text`. Reasons stand in operations, errors and, as the low
/// six bits, in the statuses of columns. Their numbers may change from one version of the library to the next.
///
/// `text_len` is the room at `text` in bytes; on return the bytes that the text needs, NUL included.
///
/// # Errors
/// CIPHERMILL_TOO_SHORT; CIPHERMILL_MISUSE for a number that is no reason's.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_reason_text(
    text: *mut c_char,
    text_len: *mut usize,
    reason: u8,
) -> ciphermill_status {
    entry(|| {
        let reason = Reason::ALL.get(usize::from(reason)).ok_or_else(|| Failure::misuse("there is no such reason"))?;
        // SAFETY: checked there; the memory is the caller's to be written.
        unsafe { foreign::put_text(text, text_len, reason.text()) }
    })
}
