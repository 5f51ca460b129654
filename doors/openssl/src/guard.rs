//! What every function that OpenSSL calls has around it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// Calls a function, and answers `failed` when it panics: nothing unwinds into C.
pub(crate) fn guarded<R>(failed: R, function: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|payload| {
        // What was thrown may panic again when it is dropped; what that throws is not dropped any more.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        failed
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in the drop as well");
        }
    }

    #[test]
    fn panics_become_an_answer_whatever_was_thrown() {
        assert_eq!(guarded(7, || 8), 8);
        assert_eq!(guarded(7, || panic!("with {}", "words")), 7);
        assert_eq!(guarded(7, || std::panic::panic_any(Bomb)), 7);
    }
}
