//! Session management (PKCS#11 3.2, 5.6).

use std::ffi::c_void;

use cryptoki_sys::*;

use crate::entry::functions;
use crate::library::Library;
use crate::memory::{Output, bytes, place};
use crate::operations::STATE_LEN;
use crate::rv::{Result, fail};
use crate::session::{Active, Running, Session};
use crate::slot::{Login, given};

/// Logs in, or authenticates an operation whose key asks for that.
fn log_in(session: CK_SESSION_HANDLE, user: CK_USER_TYPE, pin: Result<&[u8]>) -> Result<()> {
    let library = Library::current()?;
    let at = library.with_session(session, |session| Ok(session.slot))?;
    let slot = library.slot(at as CK_SLOT_ID)?;
    if user == CKU_CONTEXT_SPECIFIC {
        slot.needs_user()?;
        return library.with_session(session, |session| {
            if !session.active().awaits_pin() {
                return fail(CKR_OPERATION_NOT_INITIALIZED);
            }
            slot.token.check_user_pin(pin?)?;
            session.active().pin_given();
            Ok(())
        });
    }
    if user == CKU_SO && library.sessions_of(at).iter().any(|(_, may_write)| !may_write) {
        return fail(CKR_SESSION_READ_ONLY_EXISTS);
    }
    slot.log_in(user, pin?)
}

functions! {
    /// Opens a session with a token.
    fn C_OpenSession(
        slot: CK_SLOT_ID,
        flags: CK_FLAGS,
        _application: *mut c_void,
        _notify: CK_NOTIFY,
        session: *mut CK_SESSION_HANDLE,
    ) {
        let library = Library::current()?;
        let out = place(session)?;
        let at = slot as usize;
        let slot = library.slot(slot)?;
        if flags & CKF_SERIAL_SESSION == 0 {
            return fail(CKR_SESSION_PARALLEL_NOT_SUPPORTED);
        }
        if flags & !(CKF_SERIAL_SESSION | CKF_RW_SESSION) != 0 {
            return fail(CKR_ARGUMENTS_BAD);
        }
        if !slot.token.is_present() {
            return fail(CKR_TOKEN_NOT_PRESENT);
        }
        if !slot.token.is_initialized() {
            return fail(CKR_TOKEN_NOT_RECOGNIZED);
        }
        let may_write = flags & CKF_RW_SESSION != 0;
        if !may_write && slot.login() == Login::SecurityOfficer {
            return fail(CKR_SESSION_READ_WRITE_SO_EXISTS);
        }
        *out = library.add_session(Session::new(at, may_write))?;
        Ok(())
    }

    /// Closes a session; its objects go with it, and with the last one of a token the login.
    fn C_CloseSession(session: CK_SESSION_HANDLE) {
        Library::current()?.close_session(session)
    }

    /// Closes all sessions with a token.
    fn C_CloseAllSessions(slot: CK_SLOT_ID) {
        let library = Library::current()?;
        library.slot(slot)?;
        for (session, _) in library.sessions_of(slot as usize) {
            match library.close_session(session) {
                // Another thread was faster.
                Err(crate::rv::Rv(CKR_SESSION_HANDLE_INVALID)) | Ok(()) => {}
                Err(rv) => return Err(rv),
            }
        }
        Ok(())
    }

    /// Tells a session's slot and state.
    fn C_GetSessionInfo(session: CK_SESSION_HANDLE, info: *mut CK_SESSION_INFO) {
        let library = Library::current()?;
        let out = place(info)?;
        let (slot, may_write) = library.with_session(session, |session| Ok((session.slot, session.may_write)))?;
        let writes = if may_write { CKF_RW_SESSION } else { 0 };
        *out = CK_SESSION_INFO {
            slotID: slot as CK_SLOT_ID,
            state: library.slot(slot as CK_SLOT_ID)?.state(may_write),
            flags: CKF_SERIAL_SESSION | writes,
            ulDeviceError: 0,
        };
        Ok(())
    }

    /// Ends operations of a session by kind (PKCS#11 3.0 and later).
    fn C_SessionCancel(session: CK_SESSION_HANDLE, flags: CK_FLAGS) {
        Library::current()?.with_session(session, |session| {
            let mut active = session.active();
            let Active { found, encryption, decryption, digest, signature, verification, .. } = &mut *active;
            let asked = |flag: CK_FLAGS| flags & flag != 0;
            if asked(CKF_FIND_OBJECTS) {
                *found = None;
            }
            if asked(CKF_ENCRYPT) {
                *encryption = None;
            }
            if asked(CKF_DECRYPT) {
                *decryption = None;
            }
            if asked(CKF_DIGEST) {
                *digest = None;
            }
            if asked(CKF_SIGN) {
                *signature = None;
            }
            if asked(CKF_VERIFY) {
                *verification = None;
                active.signature_to_verify = None;
            }
            if asked(CKF_MESSAGE_ENCRYPT) {
                active.message_encryption = None;
            }
            if asked(CKF_MESSAGE_DECRYPT) {
                active.message_decryption = None;
            }
            Ok(())
        })
    }

    /// Gives the state of a digest under way. Ciphers and signatures keep theirs (`CKR_STATE_UNSAVEABLE`): it would be as good as a key.
    fn C_GetOperationState(session: CK_SESSION_HANDLE, state: *mut CK_BYTE, len: *mut CK_ULONG) {
        let mut output = Output::new(state, len)?;
        let library = Library::current()?;
        library.with_session(session, |session| {
            let active = session.active();
            let others = active.encryption.is_some()
                || active.decryption.is_some()
                || active.signature.is_some()
                || active.verification.is_some();
            match &active.digest {
                None if others => fail(CKR_STATE_UNSAVEABLE),
                None => fail(CKR_OPERATION_NOT_INITIALIZED),
                Some(_) if others => fail(CKR_STATE_UNSAVEABLE),
                Some(_) if output.room() < STATE_LEN => output.give(&[0; STATE_LEN]),
                Some(digest) => output.give(&library.saved.save(&digest.operation)?),
            }
        })
    }

    /// Goes on with a digest from a state that [`C_GetOperationState`] gave in this process.
    fn C_SetOperationState(
        session: CK_SESSION_HANDLE,
        state: *mut CK_BYTE,
        len: CK_ULONG,
        encryption_key: CK_OBJECT_HANDLE,
        authentication_key: CK_OBJECT_HANDLE,
    ) {
        let library = Library::current()?;
        let state = bytes(state, len)?;
        if encryption_key != 0 || authentication_key != 0 {
            return fail(CKR_KEY_NOT_NEEDED);
        }
        library.with_session(session, |session| {
            let operation = library.saved.restore(state)?;
            let mut active = session.active();
            *active = Active { digest: Some(Running { in_parts: true, ..Running::new(operation) }), ..Active::default() };
            Ok(())
        })
    }

    /// Logs in by PIN, for all sessions of the application with the token.
    fn C_Login(session: CK_SESSION_HANDLE, user: CK_USER_TYPE, pin: *mut CK_UTF8CHAR, pin_len: CK_ULONG) {
        log_in(session, user, given(pin, bytes(pin, pin_len)))
    }

    /// As [`C_Login`]: tokens have one user, whose name is not asked.
    fn C_LoginUser(
        session: CK_SESSION_HANDLE,
        user: CK_USER_TYPE,
        pin: *mut CK_UTF8CHAR,
        pin_len: CK_ULONG,
        name: *mut CK_UTF8CHAR,
        name_len: CK_ULONG,
    ) {
        bytes(name, name_len)?;
        log_in(session, user, given(pin, bytes(pin, pin_len)))
    }

    /// Logs out. Private objects and what is under way with keys are gone.
    fn C_Logout(session: CK_SESSION_HANDLE) {
        let library = Library::current()?;
        let at = library.with_session(session, |session| Ok(session.slot))?;
        if library.slot(at as CK_SLOT_ID)?.login() == Login::Nobody {
            return fail(CKR_USER_NOT_LOGGED_IN);
        }
        library.log_out(at);
        for (handle, _) in library.sessions_of(at) {
            // One that another thread has closed meanwhile has nothing under way.
            let _ = library.with_session(handle, |session| {
                *session.active() = Active::default();
                Ok(())
            });
        }
        Ok(())
    }
}
