//! What went wrong: statuses, what each means, and what a thread remembers of it.

use std::cell::RefCell;
use std::ffi::CString;

use ciphermill::contract::{Error, OpStatus, Reason};
use ciphermill_keys::KeystoreError;

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
pub(crate) struct Last {
    pub(crate) status: ciphermill_status,
    pub(crate) op: u64,
    pub(crate) reason: u8,
    pub(crate) text: CString,
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

/// What the calling thread remembers, given to `look`; `None` while it is being ended.
pub(crate) fn last<T>(look: impl FnOnce(&Last) -> T) -> Option<T> {
    LAST.try_with(|last| last.try_borrow().ok().map(|last| look(&last))).ok().flatten()
}
