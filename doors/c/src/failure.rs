//! Errors by number and by text.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use ciphermill::contract::{Error, OpStatus, Reason};
use ciphermill_keys::KeystoreError;

use crate::entry::entry;
use crate::foreign;

/// What a function returns: CIPHERMILL_OK, or why nothing came of the call.
pub type ciphermill_status = i32;

/// The call did what it says.
pub const CIPHERMILL_OK: ciphermill_status = 0;
/// The caller's mistake: a null pointer, a wrong length, a batch that breaks a rule. Nothing was written.
pub const CIPHERMILL_MISUSE: ciphermill_status = 1;
/// A policy or an access rule says no, or there is no such thing (key, engine, suite).
pub const CIPHERMILL_REFUSED: ciphermill_status = 2;
/// A named limit has been reached, or there is no memory.
pub const CIPHERMILL_EXHAUSTED: ciphermill_status = 3;
/// An engine failed, and no other one could do the work.
pub const CIPHERMILL_ENGINE_FAULT: ciphermill_status = 4;
/// A single message did not verify: its tag, signature or padding is wrong. Its output has been zeroed.
pub const CIPHERMILL_AUTH_FAILED: ciphermill_status = 5;
/// The operating system refused something; the text has its reason.
pub const CIPHERMILL_SYSTEM: ciphermill_status = 6;
/// A bug of this library, caught. The handle that was used may be closed, and should not be used for anything else.
pub const CIPHERMILL_PANICKED: ciphermill_status = 7;
/// The handle belongs to the process that this one was forked from. It is left as it is; open one of your own.
pub const CIPHERMILL_FORKED: ciphermill_status = 8;
/// Another thread is using the handle at this moment, which only one may.
pub const CIPHERMILL_BUSY: ciphermill_status = 9;
/// The buffer is too short for the answer; the length that it needs has been stored.
pub const CIPHERMILL_TOO_SHORT: ciphermill_status = 10;

/// In place of an operation's index: the error concerns no single operation.
pub const CIPHERMILL_NO_OP: u64 = 0xffff_ffff_ffff_ffff;
/// In place of a reason: there is none.
pub const CIPHERMILL_NO_REASON: u8 = 0xff;

const _: () = assert!(Reason::ALL.len() < CIPHERMILL_NO_REASON as usize);

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

/// Why a call came to nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: ciphermill_status,
    pub(crate) op: Option<u64>,
    pub(crate) reason: Option<Reason>,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: ciphermill_status, text: impl Into<String>) -> Failure {
        Failure { status, op: None, reason: None, text: text.into() }
    }

    /// The caller's mistake.
    pub(crate) fn misuse(text: impl Into<String>) -> Failure {
        Failure::new(CIPHERMILL_MISUSE, text)
    }

    /// No memory for so many bytes.
    pub(crate) fn memory(len: usize) -> Failure {
        Failure::new(CIPHERMILL_EXHAUSTED, format!("there is no memory for {len} bytes"))
    }

    /// What has become of a lone operation; nothing if it is done.
    pub(crate) fn of_status(status: OpStatus) -> Result<(), Failure> {
        let (number, reason) = match status {
            OpStatus::Done => return Ok(()),
            OpStatus::AuthFailed => (CIPHERMILL_AUTH_FAILED, None),
            OpStatus::BadInput(reason) => (CIPHERMILL_MISUSE, Some(reason)),
            OpStatus::Refused(reason) => (CIPHERMILL_REFUSED, Some(reason)),
            OpStatus::Pending | OpStatus::EngineFault => (CIPHERMILL_ENGINE_FAULT, None),
        };
        Err(Failure { reason, ..Failure::new(number, status.to_string()) })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (status, op, reason) = match &error {
            Error::Misuse(misuse) => (CIPHERMILL_MISUSE, Some(u64::from(misuse.op)), Some(misuse.reason)),
            Error::Refused(_) => (CIPHERMILL_REFUSED, None, None),
            Error::Exhausted(_) => (CIPHERMILL_EXHAUSTED, None, None),
            _ => (CIPHERMILL_ENGINE_FAULT, None, None),
        };
        Failure { status, op, reason, text: error.to_string() }
    }
}

impl From<KeystoreError> for Failure {
    fn from(error: KeystoreError) -> Failure {
        let status = match error {
            KeystoreError::Table(source) => return source.into(),
            KeystoreError::Io { .. } | KeystoreError::Clock | KeystoreError::Entropy => CIPHERMILL_SYSTEM,
            KeystoreError::Locked { .. } => CIPHERMILL_EXHAUSTED,
            KeystoreError::BadParameter { .. } => CIPHERMILL_MISUSE,
            _ => CIPHERMILL_REFUSED,
        };
        Failure::new(status, error.to_string())
    }
}

/// What a thread remembers of its last failure.
struct Last {
    status: ciphermill_status,
    op: u64,
    reason: u8,
    text: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last {
        status: CIPHERMILL_OK,
        op: CIPHERMILL_NO_OP,
        reason: CIPHERMILL_NO_REASON,
        text: CString::default(),
    });
}

/// Remembers a failure and returns its number.
#[cold]
pub(crate) fn remember(failure: Failure) -> ciphermill_status {
    let status = failure.status;
    let mut text = failure.text.into_bytes();
    text.retain(|byte| *byte != 0);
    let last = Last {
        status,
        op: failure.op.unwrap_or(CIPHERMILL_NO_OP),
        reason: failure.reason.map_or(CIPHERMILL_NO_REASON, |reason| reason as u8),
        text: CString::new(text).unwrap_or_default(),
    };
    // A thread that is being ended remembers nothing any more.
    let _ = LAST.try_with(|slot| slot.try_borrow_mut().map(|mut slot| *slot = last));
    status
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
    let told = LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        Some(ciphermill_error { status: last.status, reason: last.reason, op: last.op, text: last.text.as_ptr() })
    });
    let Ok(Some(told)) = told else { return CIPHERMILL_MISUSE };
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
