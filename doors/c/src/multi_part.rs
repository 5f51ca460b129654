//! Messages that come in parts: one suite, direction and key, one message after the other.

use ciphermill::contract::{KeyId, OpStatus, Piece};
use ciphermill::{Mill, MultiPart};

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};
use crate::foreign::{self, Stretches};
use crate::handle::{self, Handle, opaque};
use crate::keys::ciphermill_key;
use crate::mill::ciphermill_mill;
use crate::suite::{self, ciphermill_direction, ciphermill_suite};

/// Messages in parts of one suite, direction and key, for one thread at a time.
pub struct ciphermill_multi_part(Handle<MultiPart>);

opaque!(ciphermill_multi_part, MultiPart, "message in parts");

type Open = fn(
    &Mill,
    ciphermill::contract::Suite,
    ciphermill::contract::Direction,
    KeyId,
) -> ciphermill::contract::Result<MultiPart>;

/// # Safety
/// As `ciphermill_multi_part_open`.
unsafe fn open(
    mill: *const ciphermill_mill,
    parts: *mut *mut ciphermill_multi_part,
    (suite, direction): (ciphermill_suite, ciphermill_direction),
    key: ciphermill_key,
    open: Open,
) -> Result<(), Failure> {
    // SAFETY: an open handle of the caller's.
    let mill = unsafe { handle::shared(mill) }?;
    let place = foreign::place(parts, "parts")?;
    let opened = open(mill, suite::of_number(suite)?, suite::direction(direction)?, KeyId::from(key))?;
    // SAFETY: the caller's to be written.
    unsafe { place.put(handle::open(opened)) };
    Ok(())
}

/// Opens messages in parts of one suite, direction and key, to be closed by ciphermill_multi_part_close. `key` is all zeros for suites
/// without one.
///
/// Suites whose beginning depends on the end or the length of a message (CCM, SIV, GCM-SIV, XTS, FF1) and public keys are refused. So is
/// decryption with authentication, whose text would be given out before anybody knows whether it is right: whoever has the message
/// whole takes ciphermill_bound_open, whoever must have its parts at once ciphermill_multi_part_open_unverified.
///
/// # Errors
/// CIPHERMILL_REFUSED for these, for a key that is unknown or does not suit, for a suite that policy forbids or that no engine
/// takes in parts; CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_open(
    mill: *const ciphermill_mill,
    parts: *mut *mut ciphermill_multi_part,
    suite: ciphermill_suite,
    direction: ciphermill_direction,
    key: ciphermill_key,
) -> ciphermill_status {
    // SAFETY: by the caller.
    entry(|| unsafe { open(mill, parts, (suite, direction), key, Mill::multi_part) })
}

/// As ciphermill_multi_part_open, and decryption with authentication too. Its text is not to be believed before
/// ciphermill_multi_part_finish has succeeded, and to be forgotten when it fails.
///
/// # Errors
/// As ciphermill_multi_part_open.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_open_unverified(
    mill: *const ciphermill_mill,
    parts: *mut *mut ciphermill_multi_part,
    suite: ciphermill_suite,
    direction: ciphermill_direction,
    key: ciphermill_key,
) -> ciphermill_status {
    // SAFETY: by the caller.
    entry(|| unsafe { open(mill, parts, (suite, direction), key, Mill::multi_part_unverified) })
}

/// Begins a message; what there was of another is forgotten. `iv` has a length that the suite takes, zero for digests.
///
/// # Errors
/// CIPHERMILL_MISUSE for another length; CIPHERMILL_REFUSED for a key that may not be used (any more); CIPHERMILL_ENGINE_FAULT,
/// CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a handle.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_begin(
    parts: *mut ciphermill_multi_part,
    iv: *const u8,
    iv_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's, and the caller's to be read.
        unsafe { Ok(handle::exclusive(parts)?.begin(foreign::slice(iv, iv_len, "iv")?)?) }
    })
}

/// Takes more of what is authenticated or digested only: the message of a MAC or digest; additional data of an AEAD, before its text.
///
/// # Errors
/// CIPHERMILL_MISUSE for a suite that takes none and in the wrong order; CIPHERMILL_REFUSED for a key that is gone;
/// CIPHERMILL_ENGINE_FAULT, CIPHERMILL_BUSY, CIPHERMILL_FORKED. The message is lost then.
///
/// # Threads
/// One at a time for a handle.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_absorb(
    parts: *mut ciphermill_multi_part,
    bytes: *const u8,
    bytes_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's, and the caller's to be read.
        unsafe { Ok(handle::exclusive(parts)?.absorb(foreign::slice(bytes, bytes_len, "bytes")?)?) }
    })
}

/// Encrypts or decrypts the next `len` bytes, any number of them, from `input` to `output`: the same place, or two that do not overlap.
///
/// # Errors
/// CIPHERMILL_MISUSE for a suite without output, places that overlap in part, and before a message was begun; CIPHERMILL_REFUSED for a
/// key that is gone; CIPHERMILL_ENGINE_FAULT, CIPHERMILL_BUSY, CIPHERMILL_FORKED. The message is lost then.
///
/// # Threads
/// One at a time for a handle.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_transform(
    parts: *mut ciphermill_multi_part,
    output: *mut u8,
    input: *const u8,
    len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut parts = unsafe { handle::exclusive(parts) }?;
        if !std::ptr::eq(output, input) {
            let mut apart = Stretches::<2>::new();
            apart.add(output.cast_const(), len, true, "output")?;
            apart.add(input, len, false, "input")?;
        }
        // SAFETY: the caller's to be read and written; a slice of the input is made only where it is apart, as checked.
        let piece = unsafe {
            let output = foreign::slice_mut(output, len, "output")?;
            if std::ptr::eq(output.as_ptr(), input) || len == 0 {
                Piece::in_place(output)
            } else {
                let input = foreign::slice(input, len, "input")?;
                Piece::apart(input, output).ok_or_else(|| Failure::misuse("two lengths".to_owned()))?
            }
        };
        Ok(parts.transform_piece(piece)?)
    })
}

/// Ends the message: writes its tag or digest, or when decrypting compares the tag. `tag_len` is zero for suites without one.
///
/// # Errors
/// CIPHERMILL_AUTH_FAILED where the tag is another; CIPHERMILL_MISUSE for a length that the suite does not take and before a message was
/// begun; CIPHERMILL_REFUSED for a key that is gone; CIPHERMILL_ENGINE_FAULT, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a handle.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_finish(
    parts: *mut ciphermill_multi_part,
    tag: *mut u8,
    tag_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's, and the caller's to be read and written.
        let status = unsafe { handle::exclusive(parts)?.finish(foreign::slice_mut(tag, tag_len, "tag")?) }?;
        if status == OpStatus::Done { Ok(()) } else { Failure::of_status(status) }
    })
}

/// Opens a copy of a message as far as it has come; both go on by themselves, and are closed.
///
/// # Errors
/// CIPHERMILL_ENGINE_FAULT when the engine gives no copy; CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a handle.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_multi_part_copy(
    parts: *mut ciphermill_multi_part,
    copy: *mut *mut ciphermill_multi_part,
) -> ciphermill_status {
    entry(|| {
        let place = foreign::place(copy, "copy")?;
        // SAFETY: an open handle of the caller's.
        let copied = unsafe { handle::exclusive(parts) }?.duplicate()?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(handle::open(copied)) };
        Ok(())
    })
}

/// Closes a handle, and forgets a message that has not ended; NULL is none.
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
pub unsafe extern "C" fn ciphermill_multi_part_close(parts: *mut ciphermill_multi_part) -> ciphermill_status {
    // SAFETY: nobody uses it any more, by the caller.
    entry(|| unsafe { handle::close(parts) })
}
