//! A stack for cryptography beside the one of the caller.
//!
//! Asynchronous jobs of OpenSSL run on fibres of 32 KiB without a guard page; kernels may take more.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ciphermill_memory::{Align, GuardedBuf};

use crate::ffi;

/// Bytes of a stack: what opening a mill takes, several times over. Pages that are never touched cost nothing.
const STACK_LEN: usize = 1 << 20;

/// What processors ask of a stack's end.
const STACK_ALIGN: usize = 64;

thread_local! {
    /// This thread's stack, once it has needed one.
    static STACK: RefCell<Option<GuardedBuf>> = const { RefCell::new(None) };
}

/// Calls a function on this thread's stack for cryptography, below which there is a guard page. `None` if there is no memory for it:
/// the function is not called then.
pub(crate) fn on_own_stack<R>(function: impl FnOnce() -> R) -> Option<R> {
    let taken = STACK.with(|stack| stack.try_borrow_mut().ok().and_then(|mut stack| stack.take()));
    let mut stack = taken.or_else(|| GuardedBuf::new(STACK_LEN, Align::Start).ok())?;
    let bytes: &mut [u8] = &mut stack;
    let base = bytes.as_mut_ptr();
    let len = bytes.len() - (base as usize + bytes.len()) % STACK_ALIGN;
    let mut result = None;
    let called = || result = Some(catch_unwind(AssertUnwindSafe(function)));
    // SAFETY: the memory is this function's for as long as the call takes, its end is aligned, and nothing unwinds through it.
    unsafe { psm::on_stack(base, len, called) };
    STACK.with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            *kept = Some(stack);
        }
    });
    result.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Whether this thread is running an asynchronous job.
pub(crate) fn is_in_job() -> bool {
    // SAFETY: no precondition.
    unsafe { !ffi::ASYNC_get_current_job().is_null() }
}

/// Calls a function that may need more stack than an asynchronous job has. `None` within a job if there is no memory for it.
pub(crate) fn with_room<R>(function: impl FnOnce() -> R) -> Option<R> {
    if is_in_job() { on_own_stack(function) } else { Some(function()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_more_room_than_a_fibre_gives_them() {
        let here = 0_u8;
        let (sum, distance) = on_own_stack(|| {
            let room = std::hint::black_box([7_u8; STACK_LEN / 2]);
            (
                room.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
                (&raw const here as usize).abs_diff(room.as_ptr() as usize),
            )
        })
        .expect("a stack");
        assert_eq!(sum, 7 * STACK_LEN as u64 / 2);
        assert!(distance > STACK_LEN / 4, "it ran on the stack of its caller");
    }

    #[test]
    fn panics_reach_the_caller_and_the_stack_is_kept() {
        let panicked = catch_unwind(|| on_own_stack(|| panic!("as asked")));
        assert!(panicked.is_err());
        assert_eq!(on_own_stack(|| on_own_stack(|| 5)), Some(Some(5)));
    }
}
