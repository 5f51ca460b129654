//! Functions that the module does not have, on purpose. `docs/pkcs11.md` lists them with the reasons.

use std::ffi::c_void;

use cryptoki_sys::*;

use crate::entry::functions;
use crate::library::Library;
use crate::rv::{Result, fail};

/// What all of these return: first what is wrong with the call itself, then that there is no such function.
fn unsupported(session: CK_SESSION_HANDLE) -> Result<()> {
    Library::current()?.with_session(session, |_| fail(CKR_FUNCTION_NOT_SUPPORTED))
}

functions! {
    /// Signatures that contain their message: nobody asks for them since RSA without padding does the same.
    fn C_SignRecoverInit(session: CK_SESSION_HANDLE, _mechanism: *mut CK_MECHANISM, _key: CK_OBJECT_HANDLE) {
        unsupported(session)
    }

    /// As [`C_SignRecoverInit`].
    fn C_SignRecover(
        session: CK_SESSION_HANDLE,
        _data: *mut CK_BYTE,
        _data_len: CK_ULONG,
        _signature: *mut CK_BYTE,
        _signature_len: *mut CK_ULONG,
    ) {
        unsupported(session)
    }

    /// As [`C_SignRecoverInit`].
    fn C_VerifyRecoverInit(session: CK_SESSION_HANDLE, _mechanism: *mut CK_MECHANISM, _key: CK_OBJECT_HANDLE) {
        unsupported(session)
    }

    /// As [`C_SignRecoverInit`].
    fn C_VerifyRecover(
        session: CK_SESSION_HANDLE,
        _signature: *mut CK_BYTE,
        _signature_len: CK_ULONG,
        _data: *mut CK_BYTE,
        _data_len: *mut CK_ULONG,
    ) {
        unsupported(session)
    }

    /// Validation flags are those of a certified module, which this is not.
    fn C_GetSessionValidationFlags(
        session: CK_SESSION_HANDLE,
        _kind: CK_SESSION_VALIDATION_FLAGS_TYPE,
        _flags: *mut CK_FLAGS,
    ) {
        unsupported(session)
    }

    /// No session is asynchronous (`CKF_ASYNC_SESSION`): calls return when their work is done.
    fn C_AsyncComplete(session: CK_SESSION_HANDLE, _function: *mut CK_UTF8CHAR, _result: *mut CK_ASYNC_DATA) {
        unsupported(session)
    }

    /// As [`C_AsyncComplete`].
    fn C_AsyncGetID(session: CK_SESSION_HANDLE, _function: *mut CK_UTF8CHAR, _id: *mut CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_AsyncComplete`].
    fn C_AsyncJoin(
        session: CK_SESSION_HANDLE,
        _function: *mut CK_UTF8CHAR,
        _id: CK_ULONG,
        _data: *mut CK_BYTE,
        _data_len: CK_ULONG,
    ) {
        unsupported(session)
    }

    /// Signatures by message: no mechanism of ours has parameters that change from message to message, so that `C_Sign` says all.
    fn C_MessageSignInit(session: CK_SESSION_HANDLE, _mechanism: *mut CK_MECHANISM, _key: CK_OBJECT_HANDLE) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_SignMessage(session: CK_SESSION_HANDLE, _parameter: *mut c_void, _parameter_len: CK_ULONG, _data: *mut CK_BYTE, _data_len: CK_ULONG, _signature: *mut CK_BYTE, _signature_len: *mut CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_SignMessageBegin(session: CK_SESSION_HANDLE, _parameter: *mut c_void, _parameter_len: CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_SignMessageNext(session: CK_SESSION_HANDLE, _parameter: *mut c_void, _parameter_len: CK_ULONG, _data: *mut CK_BYTE, _data_len: CK_ULONG, _signature: *mut CK_BYTE, _signature_len: *mut CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_MessageSignFinal(session: CK_SESSION_HANDLE) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_MessageVerifyInit(session: CK_SESSION_HANDLE, _mechanism: *mut CK_MECHANISM, _key: CK_OBJECT_HANDLE) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_VerifyMessage(session: CK_SESSION_HANDLE, _parameter: *mut c_void, _parameter_len: CK_ULONG, _data: *mut CK_BYTE, _data_len: CK_ULONG, _signature: *mut CK_BYTE, _signature_len: CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_VerifyMessageBegin(session: CK_SESSION_HANDLE, _parameter: *mut c_void, _parameter_len: CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_VerifyMessageNext(session: CK_SESSION_HANDLE, _parameter: *mut c_void, _parameter_len: CK_ULONG, _data: *mut CK_BYTE, _data_len: CK_ULONG, _signature: *mut CK_BYTE, _signature_len: CK_ULONG) {
        unsupported(session)
    }

    /// As [`C_MessageSignInit`].
    fn C_MessageVerifyFinal(session: CK_SESSION_HANDLE) {
        unsupported(session)
    }

    /// Wrapping by an AEAD whose IV and tag are apart: `C_WrapKey` with `CKM_AES_GCM` has them together.
    fn C_WrapKeyAuthenticated(
        session: CK_SESSION_HANDLE,
        _mechanism: *mut CK_MECHANISM,
        _wrapping: CK_OBJECT_HANDLE,
        _key: CK_OBJECT_HANDLE,
        _associated: *mut CK_BYTE,
        _associated_len: CK_ULONG,
        _wrapped: *mut CK_BYTE,
        _wrapped_len: *mut CK_ULONG,
    ) {
        unsupported(session)
    }

    /// As [`C_WrapKeyAuthenticated`].
    fn C_UnwrapKeyAuthenticated(
        session: CK_SESSION_HANDLE,
        _mechanism: *mut CK_MECHANISM,
        _unwrapping: CK_OBJECT_HANDLE,
        _wrapped: *mut CK_BYTE,
        _wrapped_len: CK_ULONG,
        _attributes: *mut CK_ATTRIBUTE,
        _count: CK_ULONG,
        _associated: *mut CK_BYTE,
        _associated_len: CK_ULONG,
        _key: *mut CK_OBJECT_HANDLE,
    ) {
        unsupported(session)
    }

    /// Messages in parts: decrypting so would give out text that is not verified.
    fn C_EncryptMessageBegin(
        session: CK_SESSION_HANDLE,
        _parameter: *mut c_void,
        _parameter_len: CK_ULONG,
        _associated: *mut CK_BYTE,
        _associated_len: CK_ULONG,
    ) {
        unsupported(session)
    }

    /// As [`C_EncryptMessageBegin`].
    fn C_EncryptMessageNext(
        session: CK_SESSION_HANDLE,
        _parameter: *mut c_void,
        _parameter_len: CK_ULONG,
        _part: *mut CK_BYTE,
        _part_len: CK_ULONG,
        _encrypted: *mut CK_BYTE,
        _encrypted_len: *mut CK_ULONG,
        _flags: CK_FLAGS,
    ) {
        unsupported(session)
    }

    /// As [`C_EncryptMessageBegin`].
    fn C_DecryptMessageBegin(
        session: CK_SESSION_HANDLE,
        _parameter: *mut c_void,
        _parameter_len: CK_ULONG,
        _associated: *mut CK_BYTE,
        _associated_len: CK_ULONG,
    ) {
        unsupported(session)
    }

    /// As [`C_EncryptMessageBegin`].
    fn C_DecryptMessageNext(
        session: CK_SESSION_HANDLE,
        _parameter: *mut c_void,
        _parameter_len: CK_ULONG,
        _encrypted: *mut CK_BYTE,
        _encrypted_len: CK_ULONG,
        _part: *mut CK_BYTE,
        _part_len: *mut CK_ULONG,
        _flags: CK_FLAGS,
    ) {
        unsupported(session)
    }
}
