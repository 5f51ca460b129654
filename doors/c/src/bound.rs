//! Bound contexts: one suite, direction and key, one message after the other.

use ciphermill::contract::KeyId;
use ciphermill::{Bound, BoundOp};

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign;
use crate::handle::{self, Handle, opaque};
use crate::keys::ciphermill_key;
use crate::message::ciphermill_message;
use crate::mill::ciphermill_mill;
use crate::ops::{ciphermill_op, ops_and_arena};
use crate::suite::{self, ciphermill_direction, ciphermill_suite};

/// Messages of one suite, direction and key, for one thread at a time: what other libraries call a cipher context.
pub struct ciphermill_bound(Handle<Bound>);

opaque!(ciphermill_bound, Bound, "bound context");

/// Opens a context for single messages of one suite, direction and key, to be closed by ciphermill_bound_close. An engine is
/// chosen and the key prepared here, so that messages pay for themselves alone. The key is asked for each time: one that is
/// destroyed is refused by the next message.
///
/// `key` is all zeros for suites without one.
///
/// # Errors
/// CIPHERMILL_REFUSED for a key that is unknown or does not suit, a suite that policy forbids or that no engine runs;
/// CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_bound_open(
    mill: *const ciphermill_mill,
    bound: *mut *mut ciphermill_bound,
    suite: ciphermill_suite,
    direction: ciphermill_direction,
    key: ciphermill_key,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = foreign::place(bound, "bound")?;
        let opened = mill.bind(suite::of_number(suite)?, suite::direction(direction)?, KeyId::from(key))?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(handle::open(opened)) };
        Ok(())
    })
}

/// Runs one message on the calling thread. It is copied to memory of the context and back.
///
/// # Errors
/// CIPHERMILL_AUTH_FAILED for a message that does not verify; CIPHERMILL_MISUSE for one that breaks a rule of its suite;
/// CIPHERMILL_REFUSED for a key that may not be used (any more); CIPHERMILL_ENGINE_FAULT, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
/// Lengths in `message` are as they were then.
///
/// # Threads
/// One at a time for a context.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_bound_run(
    bound: *mut ciphermill_bound,
    message: *mut ciphermill_message,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut bound = unsafe { handle::exclusive(bound) }?;
        let place = foreign::place(message, "message")?;
        let (suite, direction) = (bound.suite(), bound.direction());
        // SAFETY: the caller's to be read, and what it points to to be written.
        unsafe {
            let mut copy = foreign::read(message.cast_const(), "message")?;
            copy.run(suite, direction, |to| {
                bound.run(BoundOp { iv: to.iv, aad: to.aad, data: to.data, input_len: to.input_len, tag: to.tag })
            })?;
            place.put(copy);
        }
        Ok(())
    })
}

/// Runs one operation over an arena of the caller's, without a copy. Its key is set to the context's; on return it has a status,
/// which says what has become of it.
///
/// # Errors
/// As ciphermill_run for a batch of this operation alone; CIPHERMILL_BUSY.
///
/// # Threads
/// One at a time for a context.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_bound_run_op(
    bound: *mut ciphermill_bound,
    op: *mut ciphermill_op,
    arena: *mut u8,
    arena_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut bound = unsafe { handle::exclusive(bound) }?;
        // SAFETY: the caller's to be read and written.
        let (ops, arena) = unsafe { ops_and_arena((op, 1), (arena, arena_len)) }?;
        match ops {
            [op] => Ok(bound.run_op(op, arena)?),
            _ => Err(Failure::misuse("no operation")),
        }
    })
}

/// Closes a context; NULL is none.
///
/// # Errors
/// CIPHERMILL_MISUSE for what is not open (any more); CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// No other thread may use it later.
///
/// # Safety
/// As said there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_bound_close(bound: *mut ciphermill_bound) -> ciphermill_status {
    // SAFETY: nobody uses it any more, by the caller.
    entry(|| unsafe { handle::close(bound) })
}
