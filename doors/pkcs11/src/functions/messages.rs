//! Encryption by message (PKCS#11 3.2, 5.9 and 5.11).

use std::ffi::c_void;

use ciphermill_contract::Direction;
use cryptoki_sys::*;

use crate::access::usable_key;
use crate::entry::functions;
use crate::library::Library;
use crate::mechanisms::Mechanism;
use crate::memory::{Output, bytes};
use crate::operations::Message;
use crate::rv::{Result, fail};
use crate::session::{Active, begin};

fn place(active: &mut Active, direction: Direction) -> &mut Option<Message> {
    match direction {
        Direction::Encrypt => &mut active.message_encryption,
        Direction::Decrypt => &mut active.message_decryption,
    }
}

/// Begins messages under one key; a null mechanism ends them.
///
/// # Safety
/// As the functions that call it.
unsafe fn begin_messages(
    session: CK_SESSION_HANDLE,
    mechanism: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    direction: Direction,
) -> Result<()> {
    let library = Library::current()?;
    library.with_session(session, |session| {
        let (may, flag) = match direction {
            Direction::Encrypt => (CKA_ENCRYPT, CKF_MESSAGE_ENCRYPT),
            Direction::Decrypt => (CKA_DECRYPT, CKF_MESSAGE_DECRYPT),
        };
        let mut active = session.active();
        let place = place(&mut active, direction);
        if mechanism.is_null() {
            *place = None;
            return Ok(());
        }
        begin(place, || {
            // SAFETY: by the caller.
            let mechanism = unsafe { Mechanism::read(mechanism, flag) }?;
            let key = usable_key(library, session, key, may, &mechanism)?;
            Message::init(&mechanism, direction, &key)
        })
    })
}

/// The buffers of a message: additional data, input, and where the output goes.
struct Buffers {
    associated: (*mut CK_BYTE, CK_ULONG),
    input: (*mut CK_BYTE, CK_ULONG),
    output: (*mut CK_BYTE, *mut CK_ULONG),
}

/// Encrypts or decrypts a message. What fails is this message alone: the next may follow.
///
/// # Safety
/// As the functions that call it.
unsafe fn message(
    session: CK_SESSION_HANDLE,
    parameter: (*mut c_void, CK_ULONG),
    buffers: Buffers,
    direction: Direction,
) -> Result<()> {
    Library::current()?.with_session(session, |session| {
        let mut active = session.active();
        let Some(message) = place(&mut active, direction) else { return fail(CKR_OPERATION_NOT_INITIALIZED) };
        // SAFETY: by the caller.
        let (mut output, associated, input, mut parameters) = unsafe {
            (
                Output::new(buffers.output.0, buffers.output.1)?,
                bytes(buffers.associated.0, buffers.associated.1)?,
                bytes(buffers.input.0, buffers.input.1)?,
                message.parameters(parameter.0, parameter.1)?,
            )
        };
        if output.is_query() {
            output.tell(input.len());
            return Ok(());
        }
        output.write(input, input.len(), |input, output| message.run(&mut parameters, associated, input, output))
    })
}

/// Ends messages.
fn end(session: CK_SESSION_HANDLE, direction: Direction) -> Result<()> {
    Library::current()?.with_session(session, |session| match place(&mut session.active(), direction).take() {
        Some(_) => Ok(()),
        None => fail(CKR_OPERATION_NOT_INITIALIZED),
    })
}

functions! {
    /// Begins messages to be encrypted under one key.
    fn C_MessageEncryptInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
        begin_messages(session, mechanism, key, Direction::Encrypt)
    }

    /// Encrypts a message; the IV, if it is to be made, and the tag are written to its parameter.
    fn C_EncryptMessage(
        session: CK_SESSION_HANDLE,
        parameter: *mut c_void,
        parameter_len: CK_ULONG,
        associated: *mut CK_BYTE,
        associated_len: CK_ULONG,
        text: *mut CK_BYTE,
        text_len: CK_ULONG,
        encrypted: *mut CK_BYTE,
        encrypted_len: *mut CK_ULONG,
    ) {
        let buffers = Buffers {
            associated: (associated, associated_len),
            input: (text, text_len),
            output: (encrypted, encrypted_len),
        };
        message(session, (parameter, parameter_len), buffers, Direction::Encrypt)
    }

    /// Ends what [`C_MessageEncryptInit`] began.
    fn C_MessageEncryptFinal(session: CK_SESSION_HANDLE) {
        end(session, Direction::Encrypt)
    }

    /// Begins messages to be decrypted under one key.
    fn C_MessageDecryptInit(session: CK_SESSION_HANDLE, mechanism: *mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
        begin_messages(session, mechanism, key, Direction::Decrypt)
    }

    /// Decrypts a message whose IV and tag are in its parameter.
    fn C_DecryptMessage(
        session: CK_SESSION_HANDLE,
        parameter: *mut c_void,
        parameter_len: CK_ULONG,
        associated: *mut CK_BYTE,
        associated_len: CK_ULONG,
        encrypted: *mut CK_BYTE,
        encrypted_len: CK_ULONG,
        text: *mut CK_BYTE,
        text_len: *mut CK_ULONG,
    ) {
        let buffers = Buffers {
            associated: (associated, associated_len),
            input: (encrypted, encrypted_len),
            output: (text, text_len),
        };
        message(session, (parameter, parameter_len), buffers, Direction::Decrypt)
    }

    /// Ends what [`C_MessageDecryptInit`] began.
    fn C_MessageDecryptFinal(session: CK_SESSION_HANDLE) {
        end(session, Direction::Decrypt)
    }
}
