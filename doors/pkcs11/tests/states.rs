//! Every function in every state: before `C_Initialize`, without a session, without an operation, in the middle of one, logged in or not.

#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]

mod common;

use std::ptr::null_mut;

use common::{Module, PIN, SO_PIN, Template, len, mechanism, pin};
use cryptoki_sys::*;

/// What a function is called with: every argument that can be right is.
struct Places {
    buffer: [u8; 512],
    length: CK_ULONG,
    number: CK_ULONG,
    handle: CK_OBJECT_HANDLE,
    other: CK_OBJECT_HANDLE,
    mechanism: CK_MECHANISM,
    parameter: Vec<u8>,
}

impl Places {
    fn new() -> Places {
        let mechanism = mechanism(CKM_SHA256, &mut []);
        let buffer = [0; 512];
        Places { buffer, length: 512, number: 0, handle: 0, other: 0, mechanism, parameter: Vec::new() }
    }
}

type Call = fn(&Module, CK_SESSION_HANDLE, &mut Places) -> CK_RV;

/// Calls by name.
macro_rules! calls {
    ($($name:ident => |$places:ident| ($($argument:expr),* $(,)?)),* $(,)?) => {
        &[$((stringify!($name), {
            fn one(module: &Module, session: CK_SESSION_HANDLE, $places: &mut Places) -> CK_RV {
                call!(module, $name, session $(, $argument)*)
            }
            one as Call
        })),*]
    };
}

/// Functions that take a step of an operation: without one they say so.
const STEPS: &[(&str, Call)] = calls! {
    C_Encrypt => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_EncryptUpdate => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_EncryptFinal => |p| (p.buffer.as_mut_ptr(), &mut p.length),
    C_Decrypt => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_DecryptUpdate => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_DecryptFinal => |p| (p.buffer.as_mut_ptr(), &mut p.length),
    C_Digest => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_DigestUpdate => |p| (p.buffer.as_mut_ptr(), 16),
    C_DigestFinal => |p| (p.buffer.as_mut_ptr(), &mut p.length),
    C_Sign => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_SignUpdate => |p| (p.buffer.as_mut_ptr(), 16),
    C_SignFinal => |p| (p.buffer.as_mut_ptr(), &mut p.length),
    C_Verify => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), 32),
    C_VerifyUpdate => |p| (p.buffer.as_mut_ptr(), 16),
    C_VerifyFinal => |p| (p.buffer.as_mut_ptr(), 32),
    C_VerifySignature => |p| (p.buffer.as_mut_ptr(), 16),
    C_VerifySignatureUpdate => |p| (p.buffer.as_mut_ptr(), 16),
    C_VerifySignatureFinal => |_p| (),
    C_DigestEncryptUpdate => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_DecryptDigestUpdate => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_SignEncryptUpdate => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_DecryptVerifyUpdate => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_FindObjects => |p| (&mut p.handle, 1, &mut p.number),
    C_FindObjectsFinal => |_p| (),
    C_GetOperationState => |p| (p.buffer.as_mut_ptr(), &mut p.length),
    C_EncryptMessage => |p| (p.parameter.as_mut_ptr().cast(), 0, null_mut(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_MessageEncryptFinal => |_p| (),
    C_DecryptMessage => |p| (p.parameter.as_mut_ptr().cast(), 0, null_mut(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_MessageDecryptFinal => |_p| (),
};

/// Functions of a session that are no steps.
const OTHERS: &[(&str, Call)] = calls! {
    C_CloseSession => |_p| (),
    C_GetSessionInfo => |p| (p.buffer.as_mut_ptr().cast()),
    C_SessionCancel => |_p| (0),
    C_SetOperationState => |p| (p.buffer.as_mut_ptr(), 16, 0, 0),
    C_Login => |_p| (CKU_USER, pin(PIN), len(PIN)),
    C_LoginUser => |_p| (CKU_USER, pin(PIN), len(PIN), null_mut(), 0),
    C_Logout => |_p| (),
    C_InitPIN => |_p| (pin(PIN), len(PIN)),
    C_SetPIN => |_p| (pin(PIN), len(PIN), pin(PIN), len(PIN)),
    C_CreateObject => |p| (null_mut(), 0, &mut p.handle),
    C_CopyObject => |p| (1, null_mut(), 0, &mut p.handle),
    C_DestroyObject => |_p| (1),
    C_GetObjectSize => |p| (1, &mut p.number),
    C_GetAttributeValue => |_p| (1, null_mut(), 0),
    C_SetAttributeValue => |_p| (1, null_mut(), 0),
    C_FindObjectsInit => |_p| (null_mut(), 0),
    C_EncryptInit => |p| (&mut p.mechanism, 1),
    C_DecryptInit => |p| (&mut p.mechanism, 1),
    C_DigestInit => |p| (&mut p.mechanism),
    C_DigestKey => |_p| (1),
    C_SignInit => |p| (&mut p.mechanism, 1),
    C_VerifyInit => |p| (&mut p.mechanism, 1),
    C_VerifySignatureInit => |p| (&mut p.mechanism, 1, p.buffer.as_mut_ptr(), 32),
    C_SignRecoverInit => |p| (&mut p.mechanism, 1),
    C_SignRecover => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_VerifyRecoverInit => |p| (&mut p.mechanism, 1),
    C_VerifyRecover => |p| (p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_GenerateKey => |p| (&mut p.mechanism, null_mut(), 0, &mut p.handle),
    C_GenerateKeyPair => |p| (&mut p.mechanism, null_mut(), 0, null_mut(), 0, &mut p.handle, &mut p.other),
    C_WrapKey => |p| (&mut p.mechanism, 1, 2, p.buffer.as_mut_ptr(), &mut p.length),
    C_UnwrapKey => |p| (&mut p.mechanism, 1, p.buffer.as_mut_ptr(), 16, null_mut(), 0, &mut p.handle),
    C_DeriveKey => |p| (&mut p.mechanism, 1, null_mut(), 0, &mut p.handle),
    C_WrapKeyAuthenticated => |p| (&mut p.mechanism, 1, 2, null_mut(), 0, p.buffer.as_mut_ptr(), &mut p.length),
    C_UnwrapKeyAuthenticated => |p| (&mut p.mechanism, 1, p.buffer.as_mut_ptr(), 16, null_mut(), 0, null_mut(), 0, &mut p.handle),
    C_EncapsulateKey => |p| (&mut p.mechanism, 1, null_mut(), 0, p.buffer.as_mut_ptr(), &mut p.length, &mut p.handle),
    C_DecapsulateKey => |p| (&mut p.mechanism, 1, null_mut(), 0, p.buffer.as_mut_ptr(), 16, &mut p.handle),
    C_SeedRandom => |p| (p.buffer.as_mut_ptr(), 16),
    C_GenerateRandom => |p| (p.buffer.as_mut_ptr(), 16),
    C_GetFunctionStatus => |_p| (),
    C_CancelFunction => |_p| (),
    C_MessageEncryptInit => |p| (&mut p.mechanism, 1),
    C_MessageDecryptInit => |p| (&mut p.mechanism, 1),
    C_MessageSignInit => |p| (&mut p.mechanism, 1),
    C_SignMessage => |p| (null_mut(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_SignMessageBegin => |_p| (null_mut(), 0),
    C_SignMessageNext => |p| (null_mut(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length),
    C_MessageSignFinal => |_p| (),
    C_MessageVerifyInit => |p| (&mut p.mechanism, 1),
    C_VerifyMessage => |p| (null_mut(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), 16),
    C_VerifyMessageBegin => |_p| (null_mut(), 0),
    C_VerifyMessageNext => |p| (null_mut(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), 16),
    C_MessageVerifyFinal => |_p| (),
    C_GetSessionValidationFlags => |p| (1, &mut p.number),
    C_EncryptMessageBegin => |p| (p.parameter.as_mut_ptr().cast(), 0, null_mut(), 0),
    C_EncryptMessageNext => |p| (p.parameter.as_mut_ptr().cast(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length, 0),
    C_DecryptMessageBegin => |p| (p.parameter.as_mut_ptr().cast(), 0, null_mut(), 0),
    C_DecryptMessageNext => |p| (p.parameter.as_mut_ptr().cast(), 0, p.buffer.as_mut_ptr(), 16, p.buffer.as_mut_ptr(), &mut p.length, 0),
    C_AsyncComplete => |p| (p.buffer.as_mut_ptr(), null_mut()),
    C_AsyncGetID => |p| (p.buffer.as_mut_ptr(), &mut p.number),
    C_AsyncJoin => |p| (p.buffer.as_mut_ptr(), 0, p.buffer.as_mut_ptr(), 16),
};

/// Functions that the module has not, on purpose: the list of `docs/pkcs11.md`.
const UNSUPPORTED: &[&str] = &[
    "C_SignRecoverInit",
    "C_SignRecover",
    "C_VerifyRecoverInit",
    "C_VerifyRecover",
    "C_WrapKeyAuthenticated",
    "C_UnwrapKeyAuthenticated",
    "C_EncryptMessageBegin",
    "C_EncryptMessageNext",
    "C_DecryptMessageBegin",
    "C_DecryptMessageNext",
    "C_MessageSignInit",
    "C_SignMessage",
    "C_SignMessageBegin",
    "C_SignMessageNext",
    "C_MessageSignFinal",
    "C_MessageVerifyInit",
    "C_VerifyMessage",
    "C_VerifyMessageBegin",
    "C_VerifyMessageNext",
    "C_MessageVerifyFinal",
    "C_GetSessionValidationFlags",
    "C_AsyncComplete",
    "C_AsyncGetID",
    "C_AsyncJoin",
];

fn all() -> impl Iterator<Item = &'static (&'static str, Call)> {
    STEPS.iter().chain(OTHERS)
}

#[test]
fn before_initialisation_every_function_says_so() {
    let module = Module::open();
    assert_eq!(call!(module, C_Finalize, null_mut()), CKR_OK);
    let mut places = Places::new();
    let p = &mut places;
    for (name, one) in all() {
        assert_eq!(one(&module, 1, p), CKR_CRYPTOKI_NOT_INITIALIZED, "{name}");
    }
    let slots = [
        call!(module, C_Finalize, null_mut()),
        call!(module, C_GetInfo, p.buffer.as_mut_ptr().cast()),
        call!(module, C_GetSlotList, 0, null_mut(), &mut p.number),
        call!(module, C_GetSlotInfo, 0, p.buffer.as_mut_ptr().cast()),
        call!(module, C_GetTokenInfo, 0, p.buffer.as_mut_ptr().cast()),
        call!(module, C_GetMechanismList, 0, null_mut(), &mut p.number),
        call!(module, C_GetMechanismInfo, 0, CKM_SHA256, p.buffer.as_mut_ptr().cast()),
        call!(module, C_InitToken, 0, pin(PIN), len(PIN), p.buffer.as_mut_ptr()),
        call!(module, C_OpenSession, 0, CKF_SERIAL_SESSION, null_mut(), None, &mut p.handle),
        call!(module, C_CloseAllSessions, 0),
        call!(module, C_WaitForSlotEvent, CKF_DONT_BLOCK, &mut p.number, null_mut()),
    ];
    assert_eq!(slots, [CKR_CRYPTOKI_NOT_INITIALIZED; 11]);
}

#[test]
fn without_a_session_every_function_says_so() {
    let module = Module::with_token();
    for stale in [0, 1, CK_ULONG::MAX] {
        for (name, one) in all() {
            assert_eq!(one(&module, stale, &mut Places::new()), CKR_SESSION_HANDLE_INVALID, "{name}");
        }
    }
    let closed = module.session(true);
    assert_eq!(call!(module, C_CloseSession, closed), CKR_OK);
    for (name, one) in all() {
        assert_eq!(one(&module, closed, &mut Places::new()), CKR_SESSION_HANDLE_INVALID, "{name}, closed");
    }
}

#[test]
fn without_an_operation_every_step_says_so() {
    let module = Module::with_token();
    for session in [module.session(false), module.session(true)] {
        for (name, one) in STEPS {
            assert_eq!(one(&module, session, &mut Places::new()), CKR_OPERATION_NOT_INITIALIZED, "{name}");
        }
    }
}

#[test]
fn what_the_module_has_not_it_says() {
    let module = Module::with_token();
    let session = module.user();
    for (name, one) in all().filter(|(name, _)| *name != "C_CloseSession" && *name != "C_Logout") {
        let rv = one(&module, session, &mut Places::new());
        assert_eq!(rv == CKR_FUNCTION_NOT_SUPPORTED, UNSUPPORTED.contains(name), "{name}: {rv:#x}");
    }
}

#[test]
fn handles_that_name_nothing_are_refused() {
    let module = Module::with_token();
    let session = module.user();
    let mut places = Places::new();
    let p = &mut places;
    p.mechanism = mechanism(CKM_AES_ECB, &mut []);
    let of_keys = [
        call!(module, C_EncryptInit, session, &mut p.mechanism, 99),
        call!(module, C_DecryptInit, session, &mut p.mechanism, 99),
    ];
    assert_eq!(of_keys, [CKR_KEY_HANDLE_INVALID; 2]);
    let of_objects = [
        call!(module, C_GetAttributeValue, session, 99, null_mut(), 0),
        call!(module, C_SetAttributeValue, session, 99, null_mut(), 0),
        call!(module, C_CopyObject, session, 99, null_mut(), 0, &mut p.handle),
        call!(module, C_DestroyObject, session, 99),
        call!(module, C_GetObjectSize, session, 99, &mut p.number),
    ];
    assert_eq!(of_objects, [CKR_OBJECT_HANDLE_INVALID; 5]);
}

#[test]
fn an_operation_that_is_under_way_is_not_begun_again() {
    let module = Module::with_token();
    let session = module.user();
    let aes = module.aes(session);
    let (public, private) = module.p256(session);
    let mut ecb = mechanism(CKM_AES_ECB, &mut []);
    let mut sha = mechanism(CKM_SHA256, &mut []);
    let mut ecdsa = mechanism(CKM_ECDSA, &mut []);
    for expected in [CKR_OK, CKR_OPERATION_ACTIVE] {
        let begun = [
            call!(module, C_EncryptInit, session, &mut ecb, aes),
            call!(module, C_DecryptInit, session, &mut ecb, aes),
            call!(module, C_DigestInit, session, &mut sha),
            call!(module, C_SignInit, session, &mut ecdsa, private),
            call!(module, C_VerifyInit, session, &mut ecdsa, public),
            call!(module, C_FindObjectsInit, session, null_mut(), 0),
        ];
        assert_eq!(begun, [expected; 6]);
    }
    // A null mechanism ends each, so that it can be begun anew.
    let ended = [
        call!(module, C_EncryptInit, session, null_mut(), 0),
        call!(module, C_DecryptInit, session, null_mut(), 0),
        call!(module, C_DigestInit, session, null_mut()),
        call!(module, C_SignInit, session, null_mut(), 0),
        call!(module, C_VerifyInit, session, null_mut(), 0),
        call!(module, C_FindObjectsFinal, session),
    ];
    assert_eq!(ended, [CKR_OK; 6]);
    assert_eq!(call!(module, C_EncryptInit, session, &mut ecb, aes), CKR_OK);
    assert_eq!(call!(module, C_SessionCancel, session, CKF_ENCRYPT), CKR_OK);
    let mut p = Places::new();
    let (at, room) = (p.buffer.as_mut_ptr(), &mut p.length);
    assert_eq!(call!(module, C_Encrypt, session, at, 16, at, room), CKR_OPERATION_NOT_INITIALIZED);
}

#[test]
fn one_call_does_not_end_what_came_in_parts() {
    let module = Module::with_token();
    let session = module.user();
    let mut sha = mechanism(CKM_SHA256, &mut []);
    let mut p = Places::new();
    let at = p.buffer.as_mut_ptr();
    assert_eq!(call!(module, C_DigestInit, session, &mut sha), CKR_OK);
    assert_eq!(call!(module, C_DigestUpdate, session, pin(b"abc"), 3), CKR_OK);
    assert_eq!(call!(module, C_Digest, session, pin(b"abc"), 3, at, &mut p.length), CKR_OPERATION_ACTIVE);
    assert_eq!(call!(module, C_DigestFinal, session, at, &mut p.length), CKR_OK);
    assert_eq!((p.length, &p.buffer[..4]), (32, &[0xba, 0x78, 0x16, 0xbf][..]));
}

#[test]
fn a_buffer_that_is_too_small_ends_nothing_and_every_other_error_does() {
    let module = Module::with_token();
    let session = module.user();
    let aes = module.aes(session);
    let mut ecb = mechanism(CKM_AES_ECB, &mut []);
    let mut p = Places::new();
    let at = p.buffer.as_mut_ptr();
    assert_eq!(call!(module, C_EncryptInit, session, &mut ecb, aes), CKR_OK);
    p.length = 15;
    assert_eq!(call!(module, C_Encrypt, session, pin(&[7; 16]), 16, at, &mut p.length), CKR_BUFFER_TOO_SMALL);
    assert_eq!(p.length, 16);
    assert_eq!(call!(module, C_Encrypt, session, pin(&[7; 16]), 16, null_mut(), &mut p.length), CKR_OK);
    assert_eq!(p.length, 16);
    assert_eq!(call!(module, C_Encrypt, session, pin(&[7; 16]), 16, at, &mut p.length), CKR_OK);
    assert_eq!(call!(module, C_Encrypt, session, pin(&[7; 16]), 16, at, &mut p.length), CKR_OPERATION_NOT_INITIALIZED);
    for (data, data_len, expected) in [(pin(&[7; 15]), 15, CKR_DATA_LEN_RANGE), (null_mut(), 16, CKR_ARGUMENTS_BAD)] {
        assert_eq!(call!(module, C_EncryptInit, session, &mut ecb, aes), CKR_OK);
        p.length = 512;
        assert_eq!(call!(module, C_Encrypt, session, data, data_len, at, &mut p.length), expected);
        let after = call!(module, C_Encrypt, session, pin(&[7; 16]), 16, at, &mut p.length);
        assert_eq!(after, CKR_OPERATION_NOT_INITIALIZED);
    }
}

#[test]
fn logins_are_those_of_all_sessions_at_once() {
    let module = Module::with_token();
    let state = |session| {
        let mut info = CK_SESSION_INFO::default();
        assert_eq!(call!(module, C_GetSessionInfo, session, &mut info), CKR_OK);
        info.state
    };
    let (reading, writing) = (module.session(false), module.session(true));
    assert_eq!([state(reading), state(writing)], [CKS_RO_PUBLIC_SESSION, CKS_RW_PUBLIC_SESSION]);
    let log_in = |session, user, bytes: &[u8]| call!(module, C_Login, session, user, pin(bytes), len(bytes));
    assert_eq!(log_in(writing, CKU_SO, SO_PIN), CKR_SESSION_READ_ONLY_EXISTS);
    assert_eq!(log_in(reading, CKU_USER, b"wrong"), CKR_PIN_INCORRECT);
    assert_eq!(log_in(reading, 7, PIN), CKR_USER_TYPE_INVALID);
    assert_eq!(log_in(reading, CKU_CONTEXT_SPECIFIC, PIN), CKR_USER_NOT_LOGGED_IN);
    assert_eq!(log_in(reading, CKU_USER, PIN), CKR_OK);
    assert_eq!(log_in(reading, CKU_CONTEXT_SPECIFIC, PIN), CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!([state(reading), state(writing)], [CKS_RO_USER_FUNCTIONS, CKS_RW_USER_FUNCTIONS]);
    assert_eq!(log_in(writing, CKU_USER, PIN), CKR_USER_ALREADY_LOGGED_IN);
    assert_eq!(call!(module, C_CloseSession, reading), CKR_OK);
    assert_eq!(log_in(writing, CKU_SO, SO_PIN), CKR_USER_ANOTHER_ALREADY_LOGGED_IN);
    assert_eq!(call!(module, C_Logout, writing), CKR_OK);
    assert_eq!(call!(module, C_Logout, writing), CKR_USER_NOT_LOGGED_IN);
    assert_eq!(log_in(writing, CKU_SO, SO_PIN), CKR_OK);
    assert_eq!(state(writing), CKS_RW_SO_FUNCTIONS);
    let mut session = 0;
    let opened = call!(module, C_OpenSession, 0, CKF_SERIAL_SESSION, null_mut(), None, &mut session);
    assert_eq!(opened, CKR_SESSION_READ_WRITE_SO_EXISTS);
    // With the last session the login ends.
    assert_eq!(call!(module, C_CloseAllSessions, 0), CKR_OK);
    assert_eq!(state(module.session(true)), CKS_RW_PUBLIC_SESSION);
}

#[test]
fn what_a_session_may_write_depends_on_its_kind_and_login() {
    let module = Module::with_token();
    let make = |session, on_token, is_private| {
        let mut template = Template::new();
        template.number(CKA_CLASS, CKO_DATA).flag(CKA_TOKEN, on_token).flag(CKA_PRIVATE, is_private);
        let (at, count) = template.parts();
        let mut object = 0;
        call!(module, C_CreateObject, session, at, count, &mut object)
    };
    let (reading, writing) = (module.session(false), module.session(true));
    assert_eq!(make(reading, true, false), CKR_SESSION_READ_ONLY);
    assert_eq!(make(reading, false, true), CKR_USER_NOT_LOGGED_IN);
    assert_eq!(make(reading, false, false), CKR_OK);
    assert_eq!(make(writing, true, true), CKR_USER_NOT_LOGGED_IN);
    assert_eq!(call!(module, C_Login, reading, CKU_USER, pin(PIN), len(PIN)), CKR_OK);
    assert_eq!(make(reading, true, true), CKR_SESSION_READ_ONLY);
    assert_eq!(make(reading, false, true), CKR_OK);
    assert_eq!(make(writing, true, true), CKR_OK);
}
