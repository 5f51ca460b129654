//! Single messages in one call.

use std::ptr::{null, null_mut};

use ciphermill::contract::{Direction, KeyId, Suite};
use ciphermill::{Mill, One};

use crate::entry::entry;
use crate::failure::{CIPHERMILL_TOO_SHORT, Failure, ciphermill_status};
use crate::foreign::{self, Place};
use crate::handle;
use crate::keys::ciphermill_key;
use crate::message::ciphermill_message;
use crate::mill::ciphermill_mill;
use crate::suite::{self, ciphermill_direction, ciphermill_suite};

/// No buffers.
const EMPTY: ciphermill_message = ciphermill_message {
    iv: null(),
    iv_len: 0,
    aad: null(),
    aad_len: 0,
    input: null(),
    input_len: 0,
    output: null_mut(),
    output_len: 0,
    tag: null_mut(),
    tag_len: 0,
};

/// What all messages of a call are run with.
struct Call<'m> {
    mill: &'m Mill,
    suite: Suite,
    key: KeyId,
}

impl Call<'_> {
    /// # Safety
    /// The handle is one of the caller's, if it is not null.
    unsafe fn new<'m>(
        mill: *const ciphermill_mill,
        suite: ciphermill_suite,
        key: ciphermill_key,
    ) -> Result<Call<'m>, Failure> {
        // SAFETY: by the caller.
        let mill = unsafe { handle::shared(mill) }?;
        Ok(Call { mill, suite: suite::of_number(suite)?, key: key.into() })
    }

    /// # Safety
    /// The message's buffers are the caller's to be read and written.
    unsafe fn run(&self, direction: Direction, message: &mut ciphermill_message) -> Result<(), Failure> {
        let Call { mill, suite, key } = *self;
        // SAFETY: by the caller.
        unsafe {
            message.run(suite, direction, |to| {
                let one = One { key, iv: to.iv, aad: to.aad, data: to.data, input_len: to.input_len, tag: to.tag };
                mill.run_one(suite, direction, one)
            })
        }
    }

    /// Where the length of what is written goes, if there is room for `needed`; else that is what is written there.
    ///
    /// # Safety
    /// The length is the caller's to be read and written.
    unsafe fn room(len: *mut usize, needed: usize) -> Result<(Place<usize>, usize), Failure> {
        // SAFETY: by the caller.
        let room = unsafe { foreign::read(len.cast_const(), "the length") }?;
        let place = foreign::place(len, "the length")?;
        if room >= needed {
            return Ok((place, room));
        }
        // SAFETY: by the caller.
        unsafe { place.put(needed) };
        Err(Failure::new(CIPHERMILL_TOO_SHORT, format!("{needed} bytes are needed, there are {room}")))
    }
}

/// Runs one message on the calling thread, on the engine that is predicted to be the fastest. Messages of public keys may share a
/// batch with those of other threads, where that is worth a wait of `window_max_us` at most. Where many messages have one
/// key, a bound context is faster; where many are at hand, a batch is.
///
/// # Errors
/// As ciphermill_bound_run.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_run_one(
    mill: *const ciphermill_mill,
    message: *mut ciphermill_message,
    suite: ciphermill_suite,
    direction: ciphermill_direction,
    key: ciphermill_key,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let call = unsafe { Call::new(mill, suite, key) }?;
        let (direction, place) = (suite::direction(direction)?, foreign::place(message, "message")?);
        // SAFETY: the caller's to be read and written, and what it points to.
        unsafe {
            let mut copy = foreign::read(message.cast_const(), "message")?;
            call.run(direction, &mut copy)?;
            place.put(copy);
        }
        Ok(())
    })
}

/// Seals one message: the ciphertext, and the full tag behind it, go to `sealed`. `sealed_len` is the room there in bytes, and on
/// return the bytes that were written: those of the input and of the tag.
///
/// # Errors
/// CIPHERMILL_TOO_SHORT, else as ciphermill_run_one.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_seal(
    mill: *const ciphermill_mill,
    sealed: *mut u8,
    sealed_len: *mut usize,
    suite: ciphermill_suite,
    key: ciphermill_key,
    iv: *const u8,
    iv_len: usize,
    aad: *const u8,
    aad_len: usize,
    input: *const u8,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's, and lengths of its own.
        unsafe {
            let call = Call::new(mill, suite, key)?;
            let tag_len = call.suite.default_tag_len();
            let (place, _) = Call::room(sealed_len, input_len.saturating_add(tag_len))?;
            foreign::place(sealed, "sealed")?;
            let tag = sealed.wrapping_add(input_len);
            let output_len = input_len;
            let buffers = ciphermill_message { iv, iv_len, aad, aad_len, ..EMPTY };
            let mut message =
                ciphermill_message { input, input_len, output: sealed, output_len, tag, tag_len, ..buffers };
            call.run(Direction::Encrypt, &mut message)?;
            place.put(message.output_len + message.tag_len);
        }
        Ok(())
    })
}

/// Opens one message that ciphermill_seal has sealed. `opened_len` is the room at `opened` in bytes, and on return the bytes
/// that were written: those of the input less those of the full tag.
///
/// # Errors
/// CIPHERMILL_AUTH_FAILED when it does not verify; what is at `opened` is zeroed then. CIPHERMILL_TOO_SHORT, else as
/// ciphermill_run_one.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_open(
    mill: *const ciphermill_mill,
    opened: *mut u8,
    opened_len: *mut usize,
    suite: ciphermill_suite,
    key: ciphermill_key,
    iv: *const u8,
    iv_len: usize,
    aad: *const u8,
    aad_len: usize,
    input: *const u8,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's, and lengths of its own.
        unsafe {
            let call = Call::new(mill, suite, key)?;
            let tag_len = call.suite.default_tag_len();
            let output_len = input_len.checked_sub(tag_len);
            let output_len = output_len.ok_or_else(|| Failure::misuse("the input is shorter than the tag"))?;
            let (place, _) = Call::room(opened_len, output_len)?;
            foreign::slice(input, input_len, "input")?;
            let tag = input.wrapping_add(output_len).cast_mut();
            let buffers = ciphermill_message { iv, iv_len, aad, aad_len, ..EMPTY };
            let input_len = output_len;
            let mut message =
                ciphermill_message { input, input_len, output: opened, output_len, tag, tag_len, ..buffers };
            call.run(Direction::Decrypt, &mut message)?;
            place.put(message.output_len);
        }
        Ok(())
    })
}

/// Computes the MAC of one message. `tag_len` bytes are written to `tag`; a length below the full one is a truncation.
///
/// # Errors
/// As ciphermill_run_one; CIPHERMILL_MISUSE for suites that are no MACs without an IV.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_mac(
    mill: *const ciphermill_mill,
    tag: *mut u8,
    tag_len: usize,
    suite: ciphermill_suite,
    key: ciphermill_key,
    input: *const u8,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let call = unsafe { Call::new(mill, suite, key) }?;
        let mut message = ciphermill_message { input, input_len, tag, tag_len, ..EMPTY };
        // SAFETY: the caller's to be read and written.
        unsafe { call.run(Direction::Encrypt, &mut message) }
    })
}

/// Verifies the MAC of one message, in constant time.
///
/// # Errors
/// CIPHERMILL_AUTH_FAILED when it is not the message's; else as ciphermill_mac.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_mac_verify(
    mill: *const ciphermill_mill,
    suite: ciphermill_suite,
    key: ciphermill_key,
    tag: *const u8,
    tag_len: usize,
    input: *const u8,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let call = unsafe { Call::new(mill, suite, key) }?;
        let mut message = ciphermill_message { input, input_len, tag: tag.cast_mut(), tag_len, ..EMPTY };
        // SAFETY: the caller's to be read; tags that are verified are not written.
        unsafe { call.run(Direction::Decrypt, &mut message) }
    })
}

/// Signs one message with a private key. `signature_len` is the room at `signature` in bytes, and on return the bytes that were
/// written.
///
/// # Errors
/// CIPHERMILL_TOO_SHORT, else as ciphermill_run_one.
///
/// # Threads
/// Any. May wait for other threads' signatures, as ciphermill_run_one says.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_sign(
    mill: *const ciphermill_mill,
    signature: *mut u8,
    signature_len: *mut usize,
    suite: ciphermill_suite,
    key: ciphermill_key,
    input: *const u8,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's, and a length of its own.
        unsafe {
            let call = Call::new(mill, suite, key)?;
            let tag_len = call.suite.default_tag_len();
            let (place, _) = Call::room(signature_len, tag_len)?;
            let mut message = ciphermill_message { input, input_len, tag: signature, tag_len, ..EMPTY };
            call.run(Direction::Encrypt, &mut message)?;
            place.put(message.tag_len);
        }
        Ok(())
    })
}

/// Verifies the signature of one message with a public key.
///
/// # Errors
/// CIPHERMILL_AUTH_FAILED when it is not the message's; else as ciphermill_run_one.
///
/// # Threads
/// Any. May wait for other threads' signatures, as ciphermill_run_one says.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_verify(
    mill: *const ciphermill_mill,
    suite: ciphermill_suite,
    key: ciphermill_key,
    signature: *const u8,
    signature_len: usize,
    input: *const u8,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let call = unsafe { Call::new(mill, suite, key) }?;
        let tag = signature.cast_mut();
        let mut message = ciphermill_message { input, input_len, tag, tag_len: signature_len, ..EMPTY };
        // SAFETY: the caller's to be read; signatures that are verified are not written.
        unsafe { call.run(Direction::Decrypt, &mut message) }
    })
}
