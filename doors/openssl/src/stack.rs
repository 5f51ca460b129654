//! A stack for cryptography beside the one of the caller.
//!
//! Asynchronous jobs of OpenSSL run on fibres of 32 KiB without a guard page; kernels may take more.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ciphermill_memory::{Align, GuardedBuf};

/// Bytes of a stack: what opening a mill takes, several times over. Pages that are never touched cost nothing.
const STACK_LEN: usize = 1 << 20;

/// What processors ask of a stack's end.
const STACK_ALIGN: usize = 64;

thread_local! {
    /// This thread's stack, once it has needed one.
    static STACK: RefCell<Option<GuardedBuf>> = const { RefCell::new(None) };
}

/// Calls a function on this thread's stack for cryptography, below which there is a guard page; on the present stack if there is no
/// memory for it, or if this is that stack.
pub(crate) fn on_own_stack<R>(function: impl FnOnce() -> R) -> R {
    let taken = STACK.with(|stack| stack.try_borrow_mut().ok().and_then(|mut stack| stack.take()));
    let Some(mut stack) = taken.or_else(|| GuardedBuf::new(STACK_LEN, Align::Start).ok()) else { return function() };
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
    match result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("a call on another stack returns after the function does"),
    }
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
        });
        assert_eq!(sum, 7 * STACK_LEN as u64 / 2);
        assert!(distance > STACK_LEN / 4, "it ran on the stack of its caller");
    }

    #[test]
    fn panics_reach_the_caller_and_the_stack_is_kept() {
        let panicked = catch_unwind(|| on_own_stack(|| panic!("as asked")));
        assert!(panicked.is_err());
        assert_eq!(on_own_stack(|| on_own_stack(|| 5)), 5);
    }
}
