//! What an application should not do, and what many of them do at once: forks, ten thousand sessions, calls in any order.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]

mod caller;
mod common;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use caller::{Caller, Source};
use ciphermill_pkcs11::functions::C_GetInterface;
use ciphermill_pkcs11::vendor::{CM_GetMechSession, CM_KeyToObject, CiphermillFunctions};
use common::calls::{self, Given, hex};
use common::{Module, PIN, Template, len, mechanism, pin};
use cryptoki_sys::*;

#[test]
fn a_child_begins_anew_and_leaves_its_parent_alone() {
    let module = Module::with_token();
    let session = module.user();
    let key = module.aes(session);
    // A digest that was saved belongs to the parent's engines, which the child must not even drop.
    let mut sha = mechanism(CKM_SHA256, &mut []);
    let (mut state, mut room) = ([0; 64], 64);
    assert_eq!(call!(module, C_DigestInit, session, &mut sha), CKR_OK);
    assert_eq!(call!(module, C_GetOperationState, session, state.as_mut_ptr(), &mut room), CKR_OK);
    // SAFETY: the child calls the module, which is made for it, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let passed = std::panic::catch_unwind(|| {
            let mut info = CK_SESSION_INFO::default();
            assert_eq!(call!(module, C_GetSessionInfo, session, &mut info), CKR_CRYPTOKI_NOT_INITIALIZED);
            assert_eq!(call!(module, C_Finalize, null_mut()), CKR_CRYPTOKI_NOT_INITIALIZED);
            assert_eq!(call!(module, C_Initialize, null_mut()), CKR_OK);
            let session = module.user();
            module.aes(session);
            assert_eq!(call!(module, C_Finalize, null_mut()), CKR_OK);
        });
        // SAFETY: the child of a test has nothing more to do.
        unsafe { libc::_exit(i32::from(passed.is_err())) };
    }
    let mut status = -1;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    let mut ecb = mechanism(CKM_AES_ECB, &mut []);
    assert_eq!(call!(module, C_EncryptInit, session, &mut ecb, key), CKR_OK);
}

#[test]
fn ten_thousand_sessions_are_each_their_own() {
    let module = Module::with_token();
    let all: Vec<_> = (0..10_000).map(|_| module.session(false)).collect();
    let mut sha = mechanism(CKM_SHA256, &mut []);
    assert_eq!(call!(module, C_DigestInit, all[77], &mut sha), CKR_OK);
    for session in [all[76], all[78], all[9_999]] {
        assert_eq!(call!(module, C_DigestUpdate, session, pin(b"a"), 1), CKR_OPERATION_NOT_INITIALIZED);
    }
    assert_eq!(call!(module, C_DigestUpdate, all[77], pin(b"a"), 1), CKR_OK);
    let mut info = CK_TOKEN_INFO::default();
    assert_eq!(call!(module, C_GetTokenInfo, 0, &mut info), CKR_OK);
    assert_eq!(info.ulSessionCount, 10_000);
    assert_eq!(call!(module, C_CloseAllSessions, 0), CKR_OK);
    assert_eq!(call!(module, C_DigestUpdate, all[77], pin(b"a"), 1), CKR_SESSION_HANDLE_INVALID);
}

#[test]
fn pins_of_any_length_are_refused_by_their_length() {
    let module = Module::with_token();
    let session = module.session(true);
    let long = vec![b'1'; 10_000];
    let set = |old: &[u8], new: &[u8]| call!(module, C_SetPIN, session, pin(old), len(old), pin(new), len(new));
    for new in [&b""[..], b"123", &long] {
        assert_eq!(set(PIN, new), CKR_PIN_LEN_RANGE, "{}", new.len());
    }
    assert_eq!(call!(module, C_Login, session, CKU_USER, pin(&long), len(&long)), CKR_PIN_INCORRECT);
    assert_eq!(call!(module, C_Login, session, CKU_USER, null_mut(), 4), CKR_ARGUMENTS_BAD);
    assert_eq!(call!(module, C_Login, session, CKU_USER, pin(PIN), CK_ULONG::MAX), CKR_ARGUMENTS_BAD);
    assert_eq!(set(PIN, b"another"), CKR_OK);
}

#[test]
fn templates_are_checked_attribute_by_attribute() {
    let module = Module::with_token();
    let session = module.user();
    let create = |template: &mut Template| {
        let (at, count) = template.parts();
        let mut object = 0;
        call!(module, C_CreateObject, session, at, count, &mut object)
    };
    let aes = || {
        let mut template = Template::new();
        template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, CKK_AES).bytes(CKA_VALUE, &[7; 16]);
        template
    };
    assert_eq!(create(&mut aes()), CKR_OK);
    let cases = [
        (create(&mut Template::new()), CKR_TEMPLATE_INCOMPLETE),
        (create(Template::new().number(CKA_CLASS, CKO_SECRET_KEY)), CKR_TEMPLATE_INCOMPLETE),
        (create(Template::new().number(CKA_CLASS, 77)), CKR_ATTRIBUTE_VALUE_INVALID),
        (create(Template::new().bytes(CKA_CLASS, &[1])), CKR_ATTRIBUTE_VALUE_INVALID),
        (create(aes().flag(CKA_ENCRYPT, true).flag(CKA_ENCRYPT, false)), CKR_TEMPLATE_INCONSISTENT),
        (create(aes().bytes(CKA_ENCRYPT, &[2])), CKR_ATTRIBUTE_VALUE_INVALID),
        (create(aes().bytes(CKA_ENCRYPT, &[])), CKR_ATTRIBUTE_VALUE_INVALID),
        (create(aes().flag(CKA_LOCAL, true)), CKR_ATTRIBUTE_READ_ONLY),
        (create(aes().bytes(CKA_MODULUS, &[1])), CKR_ATTRIBUTE_TYPE_INVALID),
        (create(aes().bytes(0x7fff_ffff, &[1])), CKR_ATTRIBUTE_TYPE_INVALID),
        (create(aes().number(CKA_VALUE_LEN, 32)), CKR_TEMPLATE_INCONSISTENT),
        (create(aes().bytes(CKA_START_DATE, b"2026-1-1")), CKR_ATTRIBUTE_VALUE_INVALID),
        (create(aes().flag(CKA_TRUSTED, true)), CKR_ATTRIBUTE_READ_ONLY),
    ];
    for (number, (found, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found, expected, "case {number}");
    }
    let mut many = vec![CK_ATTRIBUTE::default(); 2000];
    let mut object = 0;
    let rv = call!(module, C_CreateObject, session, many.as_mut_ptr(), 2000, &mut object);
    assert_eq!(rv, CKR_ARGUMENTS_BAD);
}

#[test]
fn our_own_functions_need_no_token_and_no_login() {
    let module = Module::open();
    let (mut session, mut key) = (0, 0);
    // SAFETY: places for handles, and a key as long as is said.
    unsafe {
        assert_eq!(CM_GetMechSession(0x7fff_ffff, &mut session), CKR_MECHANISM_INVALID);
        assert_eq!(CM_GetMechSession(CKM_AES_ECB, &mut session), CKR_OK);
        assert_eq!(CM_KeyToObject(session, CKM_RSA_PKCS, pin(&[7; 16]), 16, &mut key), CKR_MECHANISM_INVALID);
        assert_eq!(CM_KeyToObject(session, CKM_AES_ECB, pin(&[7; 15]), 15, &mut key), CKR_KEY_SIZE_RANGE);
        assert_eq!(CM_KeyToObject(session, CKM_AES_ECB, pin(&[0; 16]), 16, &mut key), CKR_OK);
    }
    let mut ecb = mechanism(CKM_AES_ECB, &mut []);
    let (mut out, mut room) = ([0; 16], 16);
    assert_eq!(call!(module, C_EncryptInit, session, &mut ecb, key), CKR_OK);
    assert_eq!(call!(module, C_Encrypt, session, pin(&[0; 16]), 16, out.as_mut_ptr(), &mut room), CKR_OK);
    // FIPS 197's cipher of zeros under zeros.
    assert_eq!(out[..4], [0x66, 0xe9, 0x4b, 0xd4]);
}

#[test]
fn our_own_interface_gives_keys_that_their_mechanism_takes() {
    let module = Module::open();
    let (mut name, mut interface) = (*b"Vendor Ciphermill\0", null_mut());
    // SAFETY: a name, and a place for a pointer; what it leads to is never freed.
    let functions = unsafe {
        assert_eq!(C_GetInterface(name.as_mut_ptr(), null_mut(), &mut interface, 0), CKR_OK);
        *(*interface).pFunctionList.cast::<CiphermillFunctions>()
    };
    assert_eq!((functions.version.major, functions.version.minor), (1, 0));
    let prepare = |kind, bytes: &[u8]| {
        let (mut session, mut key) = (0, 0);
        // SAFETY: places for handles, and a key as long as is said.
        unsafe {
            assert_eq!((functions.get_mech_session)(kind, &mut session), CKR_OK);
            assert_eq!((functions.key_to_object)(session, kind, pin(bytes), len(bytes), &mut key), CKR_OK);
        }
        (calls::Client { module: &module, session }, key)
    };
    // RFC 4231, 4.3; RFC 4493, example 2; RFC 8439, 2.5.2.
    let poly1305 = "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b";
    for (kind, bytes, data, expected) in [
        (
            CKM_SHA256_HMAC,
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            CKM_AES_CMAC,
            hex("2b7e151628aed2a6abf7158809cf4f3c"),
            hex("6bc1bee22e409f96e93d7e117393172a"),
            "070a16b46b4d4144f79bdd9dd04a287c",
        ),
        (
            CKM_POLY1305,
            hex(poly1305),
            b"Cryptographic Forum Research Group".to_vec(),
            "a8061dc1305136c6c22b8baf0c0127a9",
        ),
    ] {
        let (caller, key) = prepare(kind, &bytes);
        assert_eq!(caller.sign(&mut Given::none(kind), key, &data), Ok(hex(expected)), "{kind:#x}");
        // The key itself stays where it is.
        assert_eq!(caller.value(key, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    }
    // RFC 3602, 4, case 1.
    let (caller, key) = prepare(CKM_AES_CBC, &hex("06a9214036b8a15b512e03d534120006"));
    let mut cbc = Given::bytes(CKM_AES_CBC, &hex("3dafba429d9eb430b422da802c9fac41"));
    let encrypted = caller.cipher(&mut cbc, key, b"Single block msg", true);
    assert_eq!(encrypted, Ok(hex("e353779c1079aeb82708942dbe77181a")));
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Source for Dice {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u8
    }
}

#[test]
fn calls_in_any_order_from_many_threads_end_with_an_answer() {
    let calls = std::env::var("CIPHERMILL_PKCS11_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(20_000);
    let module = Module::with_token();
    let first = module.user();
    let keys = caller::keys_of_all_kinds(&module, first);
    let shared: Vec<_> = (0..3).map(|_| module.session(false)).chain([first]).collect();
    let worked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 1..=4_u64 {
            let dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut caller = Caller::new(&module.functions, dice, shared.clone(), &keys);
            let worked = &worked;
            scope.spawn(move || {
                caller.run(calls / 4);
                worked.fetch_add(caller.finish(), Ordering::Relaxed);
            });
        }
    });
    // A caller that is never understood has tried nothing.
    let worked = worked.into_inner();
    assert!(worked > calls / 5, "{worked} of {calls} calls worked");
}
