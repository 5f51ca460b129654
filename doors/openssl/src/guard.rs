//! What every function that OpenSSL calls has around it.

use std::slice;

use ciphermill::panics::caught;

/// Calls a function, and answers `failed` when it panics: nothing unwinds into C.
pub(crate) fn guarded<R>(failed: R, function: impl FnOnce() -> R) -> R {
    caught(function).unwrap_or(failed)
}

/// Bytes that OpenSSL hands over; none for a null pointer.
///
/// # Safety
/// Null, or readable for `len` bytes for as long as the slice is used.
pub(crate) unsafe fn bytes<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if start.is_null() || len > isize::MAX as usize {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start, len) }
}

/// Writes an answer whose length is told apart; whether there was room for it.
///
/// # Safety
/// `out` must be writable for `room` bytes, and `len` for a number.
pub(crate) unsafe fn answer(answer: &[u8], out: *mut u8, len: *mut usize, room: usize) -> bool {
    if out.is_null() || len.is_null() || answer.len() > room {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe {
        out.copy_from_nonoverlapping(answer.as_ptr(), answer.len());
        *len = answer.len();
    }
    true
}
